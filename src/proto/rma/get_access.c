/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A get that the device of the lane carries out while the owner's processor does other work: straight into the
 * program's memory where the device knows that memory, else through memory of the transport.
 */
#include "op/access.h"
#include "op/get.h"
#include "op/stripes.h"
#include "proto/proto.h"

static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost  = cw_protocol_cost(ask->lanes, 2);
    row->fixed = 1;
    row->way   = "read by the device";
    row->why   = "the device reaches the memory, whatever the owner does";
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER && ask->data == CW_DATA_CONTIG;
}

static ucs_status_t go_on(struct cw_request *request);

/* The attempt of a get of which an access over a further lane failed: all is read again, by the message lane. */
static ucs_status_t repeat(struct cw_request *request)
{
    struct cw_get *get        = cw_request_state(request);
    const ucs_status_t status = cw_stripes_give_up(get->access);

    if (status == UCS_OK) {
        cw_dt_rewind(&get->cursor);
        request->send = go_on;
        return go_on(request);
    }
    return status;
}

static void ended(struct cw_request *request, ucs_status_t status)
{
    const struct cw_get *get = cw_request_state(request);

    cw_list_remove(&request->link);
    if (status != UCS_OK && get->access->stripes != NULL && request->ep->state == CW_EP_OPEN) {
        request->send = repeat;
        cw_ep_queue(request->ep, request);
        cw_ep_reap_later(request->ep); /* which sends from the queue */
        return;
    }
    cw_request_complete(request, status);
}

static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_get *get       = cw_request_state(request);
    struct cw_access *access = get->access;
    ucs_status_t status      = UCS_OK;
    size_t length;

    while (get->cursor.offset < get->cursor.length && (access->stripes == NULL || access->status == UCS_OK)) {
        status = cw_stripes_get(access, get->cursor.contig + get->cursor.offset, get->address + get->cursor.offset,
                                get->cursor.length - get->cursor.offset, &length);
        if (status != UCS_OK) {
            break;
        }
        cw_dt_skip(&get->cursor, length);
    }
    status = cw_stripes_begun(access, status, repeat);
    if (status == UCS_INPROGRESS && access->stripes == NULL && !get->fetching) { /* writes can wait in the device */
        get->fetching = 1;
        cw_op_ep(request->ep)->rma->num_fetching++;
    }
    return status;
}

static ucs_status_t start(struct cw_request *request)
{
    struct cw_get *get                    = cw_request_state(request);
    struct cw_rma *rma                    = cw_op_ep(request->ep)->rma;
    const struct cw_access_limits *limits = &request->ep->conn->iface->limits.access;
    const struct cw_mem_part part         = {get->cursor.contig, get->cursor.length, cw_dt_memory_type(&get->cursor)};
    ucs_status_t status                   = cw_rma_admit(rma, get->address, get->cursor.length, 0);
    struct cw_access_target from;

    if (status != UCS_OK) {
        return status;
    }
    get->access = cw_access_new(request, ended);
    if (get->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (!cw_rkey_target(get->rkey, request->ep->conn, get->address, &from)) {
        return UCS_ERR_IO_ERROR; /* the device could do this when it was asked */
    }
    get->access->key         = from.key;
    get->access->memory_type = (uint8_t)part.type;
    if (get->cursor.length > limits->max_get_bcopy && limits->max_get_zcopy > 0 && limits->max_iov > 0) {
        cw_access_use(get->access, &part, CW_RIGHT_LOCAL_WRITE);
        cw_stripes_for_key(get->access, get->rkey, &part, CW_RIGHT_LOCAL_WRITE, limits->max_get_zcopy);
    }
    request->send = go_on;
    get->late     = 1;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_DEVICE, 0, get->cursor.length);
    return cw_stripes_started(request, go_on(request));
}

const struct cw_protocol cw_proto_get_access = {.query = query, .start = start};
