/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The origin's part of op/cma.h. Invariants: a share is done when its bytes are copied; a copy ends when all shares are
 * done, or when one share failed and no process copies another one; the claim pair is in use until the copy ends.
 */
#include "op/cma.h"

#include <stdlib.h>

#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "op/shares.h"
#include "op/incoming.h"
#include "op/op.h"

#define SHARE_BYTES (128u << 10)
#define ALONE_BYTES (256u << 10) /* up to this length the owner's help costs more than it saves */
#define QUIESCE_NS  UINT64_C(20000000)

struct cw_cma {
    struct cw_incoming in; /* on incoming.receiving, so that the end of the connection finds it */
    struct cw_job job;
    struct cw_request *request;
    struct cw_dt_cursor *cursor;
    void (*done)(struct cw_request *request, ucs_status_t status);
    struct cw_shares shares;
    struct cw_validity validity;
    uint64_t address;
    uint64_t length;
    uint64_t id; /* in op_state->copies; 0: none */
    uint8_t way;
    uint8_t asked;   /* HELP was sent, and no HELPED came */
    uint8_t failed;  /* a share failed, at the origin or at the owner */
    uint8_t settled; /* the origin has nothing left to do */
    uint8_t quiet;   /* the owner copies no share any more, or the wait for it took too long */
};

int cw_cma_is_possible(struct ucp_ep *ep, const struct cw_key *key)
{
    return ep->state == CW_EP_OPEN && key->validity != 0 && cw_lane_can_copy(ep->conn);
}

/* Copies the next `length` bytes of the cursor, to or from the remote address `address` + `cursor->offset`. */
static ucs_status_t copy_bytes(struct ucp_ep *ep, const struct cw_validity *validity, uint64_t address, uint64_t length,
                               struct cw_dt_cursor *cursor, enum cw_cma_way way)
{
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_t status;
    unsigned count;
    size_t part;

    while (length > 0) {
        count  = cw_dt_window(cursor, length, iov, CW_PLACE_MAX_IOV, &part);
        status = (way == CW_CMA_PUT) ? cw_lane_copy_to(ep->conn, iov, count, address + cursor->offset, validity)
                                     : cw_lane_copy_from(ep->conn, iov, count, address + cursor->offset, validity);
        if (status != UCS_OK) {
            return status;
        }
        cw_dt_skip(cursor, part);
        length -= part;
    }
    return UCS_OK;
}

ucs_status_t cw_cma_now(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                        enum cw_cma_way way)
{
    const struct cw_validity validity = {.address = key->validity, .value = key->token};

    if (copy_bytes(ep, &validity, address, cursor->length, cursor, way) == UCS_OK) {
        return UCS_OK;
    }
    cw_dt_rewind(cursor);
    return UCS_ERR_UNSUPPORTED;
}

/* ---- in shares ---- */

static uint64_t num_shares(const struct cw_cma *copy)
{
    return cw_claim_shares(copy->length, SHARE_BYTES);
}

static int all_copied(const struct cw_cma *copy)
{
    return cw_claim_num_done(copy->shares.done) >= num_shares(copy);
}

static void copy_free(struct cw_cma *copy)
{
    struct ucp_ep *ep = copy->in.ep;

    cw_list_remove(&copy->job.link);
    if (ep != NULL) {
        cw_shares_release(ep, &copy->shares);
    }
    if (copy->id != 0) {
        cw_idmap_remove(&cw_op_state(copy->request->worker)->copies, copy->id);
    }
    cw_incoming_detach(&copy->in);
    free(copy);
}

static void finish(struct cw_cma *copy, ucs_status_t status)
{
    void (*done)(struct cw_request *, ucs_status_t) = copy->done;
    struct cw_request *request                      = copy->request;

    if (status != UCS_OK) {
        cw_dt_rewind(copy->cursor);
    }
    copy_free(copy);
    done(request, status);
}

/* No share is left to be claimed. Ends the copy, unless the owner still has to answer. */
static void settle(struct cw_cma *copy)
{
    copy->settled = 1;
    if (!copy->failed && all_copied(copy)) {
        finish(copy, UCS_OK);
    } else if (!copy->asked) {
        finish(copy, UCS_ERR_UNSUPPORTED);
    }
}

/* Takes one share and copies it. The origin takes all shares of an iov, one after the other. */
static bool run(struct cw_job *job)
{
    struct cw_cma *copy = cw_container_of(job, struct cw_cma, job);
    struct ucp_ep *ep   = copy->in.ep;
    uint64_t offset, length;
    uint32_t share;

    if (ep->state != CW_EP_OPEN) {
        return true; /* the endpoint is about to end the copy */
    }
    if (cw_ep_is_spent(ep)) {
        cw_worker_add_job(ep->worker, job);
        return true;
    }
    if (!cw_claim_next(copy->shares.claim, copy->shares.generation, num_shares(copy), &share)) {
        settle(copy);
        return true;
    }
    offset = (uint64_t)share * SHARE_BYTES;
    length = copy->length - offset;
    length = (length < SHARE_BYTES) ? length : SHARE_BYTES;
    if (copy->cursor->class_id == UCP_DATATYPE_CONTIG) {
        copy->cursor->offset = offset;
    }
    if (copy_bytes(ep, &copy->validity, copy->address, length, copy->cursor, copy->way) != UCS_OK) {
        copy->failed = 1;
        cw_claim_end(copy->shares.claim, copy->shares.generation);
        settle(copy);
        return true;
    }
    cw_claim_done(copy->shares.done);
    cw_ep_spend(ep, length);
    if (all_copied(copy)) {
        finish(copy, UCS_OK);
    } else {
        cw_worker_add_job(ep->worker, job);
    }
    return true;
}

/* The request is on the endpoint's lists: the endpoint has ended it before this call, and the request has cancelled its
 * copy. */
static void lost(struct cw_incoming *incoming, struct ucp_ep *ep CW_UNUSED, ucs_status_t status CW_UNUSED)
{
    cw_list_remove(&cw_container_of(incoming, struct cw_cma, in)->job.link);
}

static const struct cw_incoming_kind copy_kind = {.lost = lost};

static void ask_for_help(struct cw_cma *copy, const struct cw_key *key)
{
    const struct cw_wire_help packet = {.token          = htole64(key->token),
                                        .address        = htole64(copy->address),
                                        .length         = htole64(copy->length),
                                        .origin_address = htole64((uint64_t)(uintptr_t)copy->cursor->contig),
                                        .help_id        = htole64(copy->id),
                                        .share          = htole32(SHARE_BYTES),
                                        .pair           = htole32(copy->shares.pair),
                                        .generation     = htole32(copy->shares.generation),
                                        .way            = htole32(copy->way)};

    copy->asked = 1;
    cw_ep_send_control(copy->in.ep, CW_PACKET_HELP, &packet, sizeof(packet));
}

ucs_status_t cw_cma_begin(struct cw_request *request, const struct cw_key *key, uint64_t address,
                          struct cw_dt_cursor *cursor, enum cw_cma_way way,
                          void (*done)(struct cw_request *request, ucs_status_t status), struct cw_cma **copy_p)
{
    struct ucp_ep *ep   = request->ep;
    const int helps     = cursor->class_id == UCP_DATATYPE_CONTIG && cursor->length > ALONE_BYTES;
    struct cw_cma *copy = malloc(sizeof(*copy));

    if (copy == NULL || cw_claim_shares(cursor->length, SHARE_BYTES) > CW_CLAIM_MAX_SHARES) {
        free(copy);
        return UCS_ERR_NO_MEMORY;
    }
    *copy = (struct cw_cma){.in       = {.kind = &copy_kind, .total = cursor->length},
                            .job      = {.run = run},
                            .request  = request,
                            .cursor   = cursor,
                            .done     = done,
                            .validity = {.address = key->validity, .value = key->token},
                            .address  = address,
                            .length   = cursor->length,
                            .way      = (uint8_t)way};
    cw_list_init(&copy->job.link);
    cw_incoming_add(&copy->in, ep);
    if (helps && cw_idmap_add(&cw_op_state(ep->worker)->copies, copy, &copy->id) != UCS_OK) {
        copy->id = 0;
    }
    cw_shares_begin(ep, &copy->shares, copy->id != 0);
    if (copy->shares.pair < CW_CLAIM_PAIRS) {
        ask_for_help(copy, key);
    }
    cw_worker_add_job(ep->worker, &copy->job);
    *copy_p = copy;
    return UCS_OK;
}

/* Waits until `give_up_ns` at most for the shares that the owner took. The origin waits only once: otherwise the owner
 * could make it wait again by a write to the claim pair. */
static void quiesce(struct cw_cma *copy, struct cw_conn *conn, uint64_t give_up_ns)
{
    uint64_t claimed = cw_claim_end(copy->shares.claim, copy->shares.generation);

    while (copy->asked && !copy->quiet && !copy->failed && cw_claim_num_done(copy->shares.done) < claimed &&
           cw_lane_can_copy(conn) && cw_clock_ns() < give_up_ns) {
    }
    copy->quiet = 1;
}

void cw_cma_quiesce(struct ucp_ep *ep)
{
    const uint64_t give_up_ns = cw_clock_ns() + QUIESCE_NS;
    struct cw_incoming *incoming;

    cw_list_for_each(incoming, &cw_op_ep(ep)->incoming.receiving, struct cw_incoming, link)
    {
        if (incoming->kind == &copy_kind) {
            quiesce(cw_container_of(incoming, struct cw_cma, in), ep->conn, give_up_ns);
        }
    }
}

void cw_cma_cancel(struct cw_cma *copy)
{
    if (copy == NULL) {
        return;
    }
    if (copy->in.ep != NULL && copy->in.ep->conn != NULL) {
        quiesce(copy, copy->in.ep->conn, cw_clock_ns() + QUIESCE_NS);
    }
    copy_free(copy);
}

ucs_status_t cw_cma_on_helped(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_helped packet;
    struct cw_cma *copy;
    int32_t status;

    memcpy(&packet, data, sizeof(packet));
    status = (int32_t)le32toh((uint32_t)packet.status);
    copy   = cw_idmap_get(&cw_op_state(ep->worker)->copies, le64toh(packet.help_id));
    if (copy == NULL) {
        return UCS_OK; /* all shares were copied before the owner noticed */
    }
    if (copy->in.ep != ep || !copy->asked) {
        return UCS_ERR_IO_ERROR;
    }
    copy->asked = 0;
    copy->failed |= (status != UCS_OK && status != UCS_ERR_UNSUPPORTED);
    if (copy->settled) {
        settle(copy);
    }
    return UCS_OK;
}
