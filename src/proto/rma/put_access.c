/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A put that the device of the lane carries out while the owner's processor does other work: straight out of the
 * program's memory where the device knows that memory, else through memory of the transport.
 */
#include "op/access.h"
#include "op/put.h"
#include "op/stripes.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->fixed = 1;
    row->way   = "write by the device";
    row->why   = "the device reaches the memory, whatever the owner does";
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER;
}

static ucs_status_t go_on(struct cw_request *request);

/* The attempt of a put of which an access over a further lane failed: all is written again, by the message lane. */
static ucs_status_t repeat(struct cw_request *request)
{
    struct cw_send *send      = cw_request_state(request);
    const ucs_status_t status = cw_stripes_give_up(send->access);

    if (status == UCS_OK) {
        cw_dt_rewind(&send->cursor);
        request->send = go_on;
        return go_on(request);
    }
    return status;
}

static void ended(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);

    if (status != UCS_OK && send->access->stripes != NULL && request->ep->state == CW_EP_OPEN) {
        request->send = repeat;
        cw_list_remove(&request->link);
        cw_ep_queue(request->ep, request);
        cw_ep_reap_later(request->ep); /* which sends from the queue */
        return;
    }
    send->phase = CW_SEND_SENT;
    cw_send_finish(request, status);
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_send *send     = cw_request_state(request);
    struct cw_access *access = send->access;
    ucs_status_t status      = UCS_OK;

    while (send->cursor.offset < send->cursor.length && (access->stripes == NULL || access->status == UCS_OK)) {
        status = cw_stripes_put(access, &send->cursor, send->put.address);
        if (status != UCS_OK) {
            break;
        }
    }
    return cw_stripes_begun(access, status, repeat);
}

static int is_plain(const struct cw_send *send, const struct cw_conn *lane)
{
    const struct cw_access_limits *limits = &lane->iface->limits.access;

    return send->cursor.length > limits->max_put_bcopy && limits->max_put_zcopy > 0 && limits->max_iov > 0 &&
           cw_access_is_flat(lane, &send->cursor);
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_rma *rma   = cw_op_ep(request->ep)->rma;
    struct cw_access_target to;
    struct cw_mem_part part;
    unsigned flags;
    ucs_status_t status = cw_rma_admit_device(rma, send->put.address, send->cursor.length, &flags);

    status = (status == UCS_OK) ? cw_dt_keep(&send->cursor) : status; /* a put that has begun must not fail any more */
    if (status != UCS_OK) {
        return status;
    }
    send->access = cw_access_new(request, ended);
    if (send->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    send->access->flags = flags;
    if (!cw_rkey_target(send->put.rkey, request->ep->conn, send->put.address, &to)) {
        return UCS_ERR_IO_ERROR; /* the device could do this when it was asked */
    }
    send->access->key = to.key;
    if (is_plain(send, request->ep->conn)) {
        part = (struct cw_mem_part){send->cursor.contig, send->cursor.length, cw_dt_memory_type(&send->cursor)};
        cw_access_use(send->access, &part, 0);
        if (flags == 0) { /* other lanes know nothing of the fetches of the message lane */
            cw_stripes_for_key(send->access, send->put.rkey, &part, 0,
                               request->ep->conn->iface->limits.access.max_put_zcopy);
        }
    }
    send->kind    = &cw_put_access_kind;
    request->send = go_on;
    rma->async_puts++;
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, send->cursor.length);
    return cw_stripes_started(request, go_on(request));
}

const struct cw_protocol cw_proto_put_access = {.query = query, .start = start};
