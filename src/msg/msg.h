/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * State of a worker that all message operations share.
 */
#ifndef CW_MSG_MSG_H
#define CW_MSG_MSG_H

#include "base/idmap.h"
#include "core/ep.h"

struct cw_choices;
struct cw_choices_rma;

/* State of a worker. */
struct cw_msg_state {
    struct cw_idmap receives;           /* struct cw_rndv_recv, by the ids that are announced to senders */
    struct cw_choices *choices;         /* proto/select.h; NULL: none yet */
    struct cw_choices_rma *choices_rma; /* proto/select.h; NULL: none yet */
    uint64_t left;                      /* bytes of unreceived messages of disconnected peers; core/ep_retained.h */
};

void cw_msg_init(struct ucp_worker *worker);
void cw_msg_cleanup(struct ucp_worker *worker);

/* Charges bytes of unreceived messages of a disconnected peer. Returns 0, with a warning, if they exceed the limit of
 * the worker. */
int cw_op_leave(struct ucp_worker *worker, uint64_t bytes);
/* A packet was rejected: fails its endpoint. */
void cw_op_refused(struct ucp_ep *ep, uint8_t id, size_t length, ucs_status_t status);

#endif
