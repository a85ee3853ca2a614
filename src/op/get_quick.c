/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short gets for which the owner is asked although the system could copy (op/get.h). Invariants: the request of such a
 * get is on ep->inflight until it is answered, copied or lost; the get is on rma->quick while the system may copy it;
 * if the system has copied it, its answer belongs to an orphan on incoming.receiving.
 */
#include "op/get.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "op/cma.h"
#include "op/incoming.h"

#define PACKETS_UNDER_WAY 64u /* of the greatest size: half of the owner's ring once it is in use */

/* Number of gets that the system copies before the owner is asked again. The owner must be asked again because a
 * program that never waits would not notice otherwise that the owner answers. */
#define ABSENT_MIN 8u
#define ABSENT_MAX 128u

/* The answer to a get that the system has copied. */
struct orphan {
    struct cw_incoming in;
    struct cw_wanted wanted;
};

static struct cw_idmap *gets_of(const struct ucp_ep *ep)
{
    return &cw_op_state(ep->worker)->gets;
}

/* ---- asking ---- */

/* The system must not copy this get any more. */
static inline void leave(struct cw_rma *rma, struct cw_get *get)
{
    if (!cw_list_empty(&get->quick)) {
        cw_list_remove(&get->quick);
        rma->num_quick--;
        rma->quick_bytes -= get->wanted.length;
    }
}

static void release(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct cw_rma *rma = cw_op_ep(request->ep)->rma;

    if (get->wanted.id != 0) {
        cw_idmap_remove(gets_of(request->ep), get->wanted.id);
    }
    if (rma != NULL) {
        leave(rma, get);
        rma->replies -= get->asked;
        cw_rma_late_remove(rma);
    }
    cw_rkey_release(get->rkey);
    cw_rma_end(request->ep, get->generation);
}

/* Counts and lists a get. The caller has sent its packet, so the answer will find the get. */
static inline void enter(struct cw_request *request, struct cw_rma *rma, struct cw_get *get)
{
    get->asked       = 1;
    request->release = release;
    rma->replies++;
    cw_rma_late_add(rma, get->address, get->wanted.length);
    cw_list_add_tail(&rma->quick, &get->quick);
    rma->num_quick++;
    rma->quick_bytes += get->wanted.length;
    cw_fallback_begin(rma, 0);
}

static inline int is_much(const struct ucp_ep *ep, uint64_t length)
{
    return cw_op_ep(ep)->rma->quick_bytes > 0 &&
           cw_op_ep(ep)->rma->quick_bytes + length > PACKETS_UNDER_WAY * ep->conn->iface->limits.max_bcopy;
}

ucs_status_ptr_t cw_get_by_cell(struct ucp_ep *ep, void *buffer, uint64_t length, uint64_t address,
                                struct ucp_rkey *rkey, const ucp_request_param_t *param)
{
    struct cw_rma *rma = cw_op_ep(ep)->rma;
    struct cw_wire_get *packet;
    struct cw_request *request;
    struct cw_get *get;

    if (rma == NULL || !cw_ep_can_put(ep, sizeof(*packet) - sizeof(uint64_t)) || !cw_list_empty(&rma->queue) ||
        !cw_cell_is_next(ep->cells) || rma->running || rma->absent > 0 || length > CW_RMA_QUICK ||
        rma->replies >= CW_RMA_WINDOW || cw_conn_places(ep->conn) || !cw_cma_is_possible(ep, &rkey->key) ||
        is_much(ep, length)) {
        return NULL;
    }
    request = cw_request_get_inline(ep->worker, param, CW_REQUEST_SEND);
    if (request == NULL) {
        return NULL;
    }
    get         = cw_request_state(request);
    get->wanted = (struct cw_wanted){.ep = ep, .request = request, .length = length};
    if (cw_idmap_add(gets_of(ep), &get->wanted, &get->wanted.id) != UCS_OK) {
        cw_request_put(request);
        return NULL;
    }
    packet  = (void *)ep->cells->cell->data;
    *packet = (struct cw_wire_get){.token      = htole64(rkey->key.token),
                                   .address    = htole64(address),
                                   .length     = htole64(length),
                                   .receive_id = htole64(get->wanted.id | CW_GET_ID),
                                   .piece      = htole32(UINT32_MAX)};
    cw_cell_send(ep->cells, CW_PACKET_GET, sizeof(*packet));
    cw_dt_start_contig(&get->cursor, buffer, length);
    cw_rkey_hold(rkey);
    get->rkey       = rkey;
    get->address    = address;
    get->generation = cw_rma_begin(rma);
    request->ep     = ep;
    cw_list_add_tail(&ep->inflight, &request->link);
    enter(request, rma, get);
    cw_count_message(ep->worker, CW_COUNT_GET_RECEIVED, length);
    return cw_request_handle(request);
}

ucs_status_t cw_get_ask_quickly(struct cw_request *request)
{
    struct cw_get *get = cw_request_state(request);
    struct ucp_ep *ep  = request->ep;
    ucs_status_t status;

    if (cw_op_ep(ep)->rma->replies >= CW_RMA_WINDOW) {
        get->declined = 1;
        return UCS_ERR_UNSUPPORTED;
    }
    if (is_much(ep, get->cursor.length)) {
        return CW_HOLD; /* answers will make room */
    }
    get->wanted = (struct cw_wanted){.ep = ep, .request = request, .length = get->cursor.length};
    status      = cw_idmap_add(gets_of(ep), &get->wanted, &get->wanted.id);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_get_send(request, get->wanted.id | CW_GET_ID, UINT32_MAX);
    if (status != UCS_OK) {
        cw_idmap_remove(gets_of(ep), get->wanted.id);
        get->wanted.id = 0;
        get->declined  = status == CW_AGAIN;
        return (status == CW_AGAIN) ? UCS_ERR_UNSUPPORTED : status;
    }
    enter(request, cw_op_ep(ep)->rma, get);
    cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_ASKED_FIRST, 0, get->cursor.length);
    return UCS_INPROGRESS;
}

/* ---- copying what is not answered ---- */

/* Frees the orphan: the last bytes of the answer came, or will never come. */
static void orphan_end(struct orphan *orphan, struct ucp_ep *ep)
{
    cw_incoming_detach(&orphan->in);
    cw_idmap_remove(gets_of(ep), orphan->wanted.id);
    free(orphan);
}

/* The whole answer came, so the peer is in progress again. */
static void orphan_answered(struct orphan *orphan)
{
    struct ucp_ep *ep  = orphan->wanted.ep;
    struct cw_rma *rma = cw_op_ep(ep)->rma;

    orphan_end(orphan, ep);
    if (rma != NULL) {
        rma->absent     = 0;
        rma->absent_for = 0;
        rma->replies--;
        rma->num_orphans--;
        cw_rma_kick(rma);
    }
}

static void orphan_lost(struct cw_incoming *incoming, struct ucp_ep *ep, ucs_status_t status CW_UNUSED)
{
    orphan_end(cw_container_of(incoming, struct orphan, in), ep);
}

/* Gives the id of the get to an orphan. Returns 0 if there is no memory. */
static int make_orphan(struct cw_rma *rma, struct cw_get *get)
{
    static const struct cw_incoming_kind kind = {.lost = orphan_lost};
    struct orphan *orphan                     = malloc(sizeof(*orphan));

    if (orphan == NULL) {
        return 0;
    }
    *orphan                = (struct orphan){.in = {.kind = &kind, .total = get->wanted.length}, .wanted = get->wanted};
    orphan->wanted.request = NULL;
    cw_idmap_replace(gets_of(rma->ep), orphan->wanted.id, &orphan->wanted);
    cw_incoming_add(&orphan->in, rma->ep);
    rma->num_orphans++;
    get->wanted.id = 0;
    get->asked     = 0;
    return 1;
}

/* Counts an absence of the owner. All gets that were asked for before the first of them was copied belong to one
 * absence. */
static void note_absence(struct cw_rma *rma)
{
    if (rma->absent == 0) {
        rma->absent_for = (uint8_t)((rma->absent_for == 0)               ? ABSENT_MIN
                                    : (rma->absent_for < ABSENT_MAX / 2) ? 2 * rma->absent_for
                                                                         : ABSENT_MAX);
        rma->absent     = rma->absent_for;
    }
}

/* Lets the system copy the oldest get. If the copy fails, the get waits for its answer. */
void cw_get_copy_oldest(struct cw_rma *rma)
{
    struct cw_get *get         = cw_list_head(&rma->quick, struct cw_get, quick);
    struct cw_request *request = get->wanted.request;
    struct cw_dt_cursor cursor = get->cursor;

    leave(rma, get);
    if (cw_cma_now(rma->ep, &get->rkey->key, get->address, &cursor, CW_CMA_GET) == UCS_OK && make_orphan(rma, get)) {
        note_absence(rma);
        cw_trace_note(request, CW_TRACE_WAY, CW_TRACE_SYSTEM, 0, cursor.length);
        cw_list_remove(&request->link);
        cw_request_complete(request, UCS_OK);
    }
}

/* ---- answers ---- */

static struct cw_wanted *find(const struct ucp_ep *ep, uint64_t id)
{
    struct cw_wanted *wanted = cw_idmap_get(gets_of(ep), id & ~CW_GET_ID);

    return (wanted != NULL && wanted->ep == ep) ? wanted : NULL;
}

static void end(struct cw_wanted *wanted, ucs_status_t status)
{
    struct cw_request *request = wanted->request;

    if (request == NULL) {
        orphan_answered(cw_container_of(wanted, struct orphan, wanted));
    } else {
        cw_list_remove(&request->link);
        cw_request_complete(request, status);
    }
}

ucs_status_t cw_get_on_data(struct ucp_ep *ep, uint64_t id, uint64_t offset, const void *payload, uint64_t length)
{
    struct cw_wanted *wanted = find(ep, id);

    if (cw_unlikely(wanted == NULL || length > wanted->length - wanted->received || offset > wanted->length ||
                    length > wanted->length - offset)) {
        return UCS_ERR_IO_ERROR;
    }
    if (cw_likely(wanted->request != NULL)) {
        cw_bytes_copy(((struct cw_get *)cw_request_state(wanted->request))->cursor.contig + offset, payload, length);
    }
    wanted->received += length;
    cw_op_ep(ep)->rma->answers++;
    if (cw_likely(wanted->received == wanted->length)) {
        end(wanted, UCS_OK);
    }
    return UCS_OK;
}

ucs_status_t cw_get_refused(struct ucp_ep *ep, uint64_t id, ucs_status_t status)
{
    struct cw_wanted *wanted = find(ep, id);

    if (wanted == NULL || wanted->received > 0) {
        return UCS_ERR_IO_ERROR;
    }
    cw_op_ep(ep)->rma->answers++;
    end(wanted, status);
    return UCS_OK;
}
