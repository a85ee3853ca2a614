/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole life through the public interface: configuration, context, two workers (one and the same with self),
 * endpoints both ways, messages of all sizes and kinds, probe, cancel, flush, close. Every answer may be an error; what
 * was accepted must complete exactly once, what arrives must be right, and all is taken down again.
 */
#ifndef CW_CHAOS_LIFECYCLE_H
#define CW_CHAOS_LIFECYCLE_H

#include <stdint.h>

struct cw_lifecycle {
    /* Called once when nothing has moved for a while: ends the shortage. Afterwards everything must come to an end. */
    void (*relief)(void);
    int relieved;
    uint64_t features;   /* beside TAG and AM */
    /* Results. */
    unsigned refused;    /* calls that returned an error */
    unsigned failed;     /* requests that ended with one, without cancels */
    unsigned reported;   /* calls of error handlers */
};

/* Returns 1 when nothing at all went wrong. A broken promise ends the process (cw_check). */
int cw_lifecycle_run(struct cw_lifecycle *lifecycle);

#endif
