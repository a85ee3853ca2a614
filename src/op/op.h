/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state that op/ keeps per worker, and how op/ is joined to the core: by the packet table and by the handlers that
 * are given to cw_worker_new.
 */
#ifndef CW_OP_OP_H
#define CW_OP_OP_H

#include "core/ep.h"
#include "core/worker.h"
#include "op/am.h"
#include "op/op_ep.h"
#include "op/stream.h"
#include "op/tag_match.h"
#include "op/tag_spare.h"

struct ucp_recv_desc;

struct cw_choices;
struct cw_choices_rma;

struct cw_op_state {
    struct cw_tag_matcher tags;
    struct cw_list taken;       /* receives that have their message and complete in the next progress; cw_tag_take */
    struct cw_idmap receives;           /* struct cw_rndv_recv, by the ids that senders know */
    struct cw_choices *choices;         /* op/choice.h; NULL: none yet */
    struct cw_choices_rma *choices_rma; /* op/choice.h; NULL: none yet */
    struct cw_am_state am;
    struct cw_list streams;     /* endpoints with unread stream data that ucp_stream_worker_poll did not report yet */
    struct cw_stream_slots stream_slots;
    struct cw_list rma;         /* struct cw_rma of all endpoints that have one */
    struct cw_hash revocable;   /* unexpected tag messages that their senders may take back; op/tag_desc.h */
    struct cw_list dropped;     /* own tag messages that the worker took back before they arrived; op/tag_cancel.c */
    struct cw_tag_spares spare_tags;
    uint64_t left;              /* bytes of messages that peers left behind when they went; core/ep_kept.h */
};

static inline struct cw_op_state *cw_op_state(const struct ucp_worker *worker)
{
    return worker->op_state;
}

/* Counts bytes that a peer left behind when it went. Returns 0 if the worker may not keep them, and writes a line to
 * the log. */
int cw_op_leave(struct ucp_worker *worker, uint64_t bytes);

ucs_status_t cw_op_worker_init(struct ucp_worker *worker);
void cw_op_worker_cleanup(struct ucp_worker *worker);
void cw_op_worker_gauges(struct ucp_worker *worker);
void cw_op_ep_quiesce(struct ucp_ep *ep);
void cw_op_ep_lost(struct ucp_ep *ep, ucs_status_t status);
void cw_op_ep_user_changed(struct ucp_ep *ep);

/* The packet upcall: finds the handler by the packet's id. A malformed packet ends its connection and makes one line in
 * the log. */
void cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
/* Gives a packet to its handler, whatever the state of the endpoint. */
void cw_op_handle(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);
/* A packet could not be taken: its endpoint fails. */
void cw_op_refused(struct ucp_ep *ep, uint8_t id, size_t length, ucs_status_t status);
unsigned cw_op_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov);
void cw_op_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
void cw_op_unplaced(struct cw_conn *conn, uint8_t id, const void *header, size_t length);

#endif
