/* SPDX-License-Identifier: BSD-3-Clause */
/* Protocols of gets. */
#include "rma/get.h"

#include "access/access.h"
#include "access/stripes.h"
#include "proto/proto.h"
#include "rma/cma.h"
#include "rndv/recv.h"

/*
 * A get from memory that is mapped here, by loads. A get of contiguous bytes needs no request: the call carries it out
 * (api/rma.c).
 */
static int mapped_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = CW_COST_MEMORY;
    row->fixed = 1;
    row->name = "load";
    row->why = "the memory is mapped here";
    return (ask->remote & CW_REMOTE_MAPPED) != 0;
}

static ucs_status_t mapped_start(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    const char *from = cw_rkey_direct(get->rkey, get->address, CW_KEY_READ);
    ucs_status_t status = UCS_ERR_UNSUPPORTED; /* no longer registered; the next protocol selection takes that into
                                                  account */

    if (cw_likely(from != NULL)) {
        status = cw_rma_admit(cw_op_ep(request->ep)->rma, get->address, get->cursor.length, 0);
    }
    if (status == UCS_OK) {
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_MAPPED, 0, get->cursor.length);
        status = cw_dt_unpack(&get->cursor, from, get->cursor.length);
    }
    return status;
}

const struct cw_protocol cw_proto_get_mapped = {.query = mapped_query, .start = mapped_start, .at_once = 1};

/*
 * A get by the device of the lane, without the target's CPU: zero copy into registered memory, else through bounce
 * buffers of the transport.
 */
static int access_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->fixed = 1;
    row->name = "read by the device";
    row->why = "the device accesses the memory without the target's CPU";
    return (ask->remote & CW_REMOTE_ACCESS) && ask->force != CW_FORCE_EAGER && ask->data == CW_DATA_CONTIG;
}

static ucs_status_t access_go_on(struct cw_request *request);

/* The attempt of a get after an access over a further lane has failed: reads everything again over the message lane. */
static ucs_status_t access_repeat(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    const ucs_status_t status = cw_stripes_give_up(get->access);

    if (status == UCS_OK) {
        cw_dt_rewind(&get->cursor);
        request->send = access_go_on;
        return access_go_on(request);
    }
    return status;
}

static void access_ended(struct cw_request *request, ucs_status_t status)
{
    const struct cw_get *get = cw_request_state(request);

    cw_list_remove(&request->link);
    if (status != UCS_OK && get->access->stripes != NULL && request->ep->state == CW_EP_OPEN) {
        request->send = access_repeat;
        cw_ep_queue(request->ep, request);
        cw_ep_reap_later(request->ep); /* which sends from the queue */
        return;
    }
    cw_request_complete(request, status);
}

static ucs_status_t access_go_on(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_access *access = get->access;
    ucs_status_t status = UCS_OK;
    size_t length;

    while (get->cursor.offset < get->cursor.length && access->status == UCS_OK) {
        status = cw_stripes_get(access, get->cursor.contig + get->cursor.offset, get->address + get->cursor.offset,
                                get->cursor.length - get->cursor.offset, &length);
        if (status != UCS_OK) {
            break;
        }
        cw_dt_skip(&get->cursor, length);
    }
    status = cw_stripes_begun(access, status, access_repeat);
    if (status == UCS_INPROGRESS && access->stripes == NULL && !get->fetching) { /* the device can order writes behind
                                                                                    it */
        get->fetching = 1;
        cw_op_ep(request->ep)->rma->late.fetching++;
    }
    return status;
}

static ucs_status_t access_start(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;
    const struct cw_access_limits *limits = &request->ep->conn->iface->limits.access;
    const struct cw_mem_part part = {get->cursor.contig, get->cursor.length, cw_dt_memory_type(&get->cursor)};
    ucs_status_t status = cw_rma_admit(rma, get->address, get->cursor.length, 0);
    struct cw_access_target from;

    if (status != UCS_OK) {
        return status;
    }
    get->access = cw_access_new(request, access_ended);
    if (get->access == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (!cw_rkey_target(get->rkey, request->ep->conn, get->address, &from)) {
        return UCS_ERR_IO_ERROR; /* the device could do this when queried */
    }
    get->access->key = from.key;
    get->access->memory_type = (uint8_t)part.type;
    if (get->cursor.length > limits->max_get_bcopy && limits->max_get_zcopy > 0 && limits->max_iov > 0) {
        cw_access_use(get->access, &part, CW_RIGHT_LOCAL_WRITE);
        cw_stripes_for_key(get->access, get->rkey, &part, CW_RIGHT_LOCAL_WRITE, limits->max_get_zcopy);
    }
    request->send = access_go_on;
    get->late = 1;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, get->cursor.length);
    return cw_rma_stripes_started(request, access_go_on(request));
}

const struct cw_protocol cw_proto_get_access = {.query = access_query, .start = access_start};

/* A get that the kernel copies between the processes within the attempt, at every length (rma/cma.h). */
static ucs_status_t cma_start(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    const ucs_status_t status = cw_cma_start(request, &get->rkey->key, get->address, &get->cursor, CW_CMA_GET);

    get->no_copies = status == UCS_ERR_UNSUPPORTED;
    return status;
}

const struct cw_protocol cw_proto_get_cma = {.query = cw_proto_copies_query, .start = cma_start, .at_once = 1};

/*
 * A get by request packet. The target sends the bytes to a receive of rndv/recv.h, which owns the request from then on.
 * Fits every get except one that must end within its call.
 */
static int asked_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->name = "request to the target";
    row->why = "only the target's library can access the memory";
    return 1;
}

static ucs_status_t asked_start(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct ucp_ep *ep = request->ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    ucs_status_t status;
    uint32_t piece;
    uint8_t accepts;
    uint64_t id;

    if (get->forced) {
        return CW_AGAIN;
    }
    if (rma->replies >= CW_RMA_WINDOW) {
        return CW_BLOCKED;
    }
    status = cw_dt_keep(&get->cursor);
    if (status == UCS_OK) {
        status = cw_rndv_recv_expect(ep, request, &get->cursor, &id, &piece, &accepts);
    }
    if (status != UCS_OK) {
        return status;
    }
    get->accepts = accepts;
    status = cw_get_send(request, id, piece);
    if (status != UCS_OK) {
        cw_rndv_recv_forget(ep, id);
        return status;
    }
    get->asked = 1;
    get->late = 1;
    rma->replies++;
    cw_rma_late_add(rma, get->address, get->cursor.length);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_ASKED, 0, get->cursor.length);
    return CW_RMA_OWNED;
}

const struct cw_protocol cw_proto_get_asked = {.query = asked_query, .start = asked_start};
