/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One out-of-band connection for several threads of each side: a thread has a connection of its own to the thread of
 * the same number at the peer. Its near end is a socket pair; one thread of each side carries the bytes between the
 * socket pairs and the connection. So everything that holds for a connection holds for that of a thread: it may be
 * polled, it ends when the peer's does.
 *
 * Callers: threads.c of the performance tool.
 */
#ifndef CW_TOOLS_FAN_H
#define CW_TOOLS_FAN_H

#include <stdatomic.h>

#include "oob.h"

struct cw_fan_end {
    struct cw_oob oob; /* the thread's */
    int near;          /* the carrier's end of the socket pair, -1: closed */
    bool ipc_ended;    /* the thread has closed its end */
    bool far_ended;    /* the peer's thread has */
};

struct cw_fan {
    struct cw_oob *trunk;
    unsigned count;
    struct cw_fan_end *ends;
    const atomic_bool *stop; /* set: all ends are closed at once */
};

/* Makes `count` connections out of one; the peer does the same. 0, or -1 after cw_oob_error() was set. */
int cw_fan_open(struct cw_fan *fan, struct cw_oob *trunk, unsigned count, const atomic_bool *stop);

/*
 * Carries until all threads of both sides have closed their ends. 0, or -1 when the connection failed, the peer gave up
 * or `stop` was set; then every thread's connection has ended.
 */
int cw_fan_carry(struct cw_fan *fan);

/* Closes what is open; no thread may be using it. */
void cw_fan_close(struct cw_fan *fan);

#endif
