/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the operations with messages share in a worker.
 */
#ifndef CW_MSG_MSG_H
#define CW_MSG_MSG_H

#include "base/idmap.h"
#include "core/ep.h"

struct cw_choices;
struct cw_choices_rma;

/* State of a worker. */
struct cw_msg_state {
    struct cw_idmap receives;           /* struct cw_rndv_recv, by the ids that senders know */
    struct cw_choices *choices;         /* proto/select.h; NULL: none yet */
    struct cw_choices_rma *choices_rma; /* proto/select.h; NULL: none yet */
    uint64_t left;                      /* bytes of messages that peers left behind when they went; core/ep_retained.h
                                           */
};

void cw_msg_init(struct ucp_worker *worker);
void cw_msg_cleanup(struct ucp_worker *worker);

/* Counts bytes that a peer left behind when it went. Returns 0 if the worker may not keep them, and writes a line to
 * the log. */
int cw_op_leave(struct ucp_worker *worker, uint64_t bytes);
/* A packet could not be taken: its endpoint fails. */
void cw_op_refused(struct ucp_ep *ep, uint8_t id, size_t length, ucs_status_t status);

#endif
