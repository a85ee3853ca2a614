/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion of borrowed memory: how the borrower returns it. */
#ifndef CW_BASE_COMPLETION_H
#define CW_BASE_COMPLETION_H

#include "ucs/type/status.h"

/* The completion of a zcopy send, an access or a flush; the caller owns it, inside a request. Called once, from
 * progress() or from close_conn(). */
struct cw_completion {
    void (*done)(struct cw_completion *self, ucs_status_t status);
};

#endif
