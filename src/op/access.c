/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of op/access.h.
 */
#include "op/access.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "core/ep.h"
#include "mem/copy.h"
#include "op/op.h"
#include "op/stripes.h"
#include "plan/protocol.h"

#define MOST_SPARE 32u

int cw_access_reaches(const struct ucp_ep *ep, const struct ucp_rkey *rkey)
{
    struct cw_access_target target;

    return cw_rkey_target(rkey, ep->conn, rkey->key.address, &target);
}

static void one_ended(struct cw_access *access, ucs_status_t status)
{
    struct cw_request *request = access->request;

    access->status = (access->status == UCS_OK) ? status : access->status;
    if (--request->outstanding == 0 && access->all_begun) {
        access->ended(request, access->status);
    }
}

static void done(struct cw_completion *completion, ucs_status_t status)
{
    one_ended(cw_container_of(completion, struct cw_access, completion), status);
}

struct cw_access *cw_access_new(struct cw_request *request, void (*ended)(struct cw_request *, ucs_status_t))
{
    struct cw_op_state *state = cw_op_state(request->worker);
    struct cw_access *access  = state->spare_accesses;

    if (access != NULL) {
        state->spare_accesses = access->next;
        state->num_spare_accesses--;
    } else {
        access = malloc(sizeof(*access));
    }
    if (access != NULL) {
        *access = (struct cw_access){.completion.done = done, .request = request, .ended = ended, .status = UCS_OK};
        access->memory_type = UCS_MEMORY_TYPE_HOST;
    }
    return access;
}

void cw_access_free(struct cw_access *access)
{
    struct cw_op_state *state;

    if (access == NULL) {
        return;
    }
    state = cw_op_state(access->request->worker);
    if (cw_unlikely(access->stripes != NULL)) {
        cw_stripes_free(access->stripes);
    }
    cw_mem_use_end(&access->use);
    if (state == NULL || state->num_spare_accesses == MOST_SPARE) {
        free(access);
        return;
    }
    access->next          = state->spare_accesses;
    state->spare_accesses = access;
    state->num_spare_accesses++;
}

void cw_access_free_spare(struct cw_op_state *state)
{
    struct cw_access *access;

    while ((access = state->spare_accesses) != NULL) {
        state->spare_accesses = access->next;
        free(access);
    }
}

/* Whether the registration of this many bytes takes less time than a copy of them. */
static int is_worth_it(const struct cw_domain_attr *attr, size_t length)
{
    return (CW_COST_COPY_BYTE_NS - attr->register_byte_ns) * (double)length > attr->register_ns;
}

int cw_access_is_flat(const struct cw_conn *lane, const struct cw_dt_cursor *cursor)
{
    const struct cw_domain *domain = lane->iface->domain;

    return cw_likely(cursor->class_id == UCP_DATATYPE_CONTIG) ||
           (cursor->class_id == CW_DT_DEVICE && cursor->layout == UCP_DATATYPE_CONTIG && domain != NULL &&
            cw_device_regs_take(domain, (ucs_memory_type_t)cursor->memory_type));
}

void cw_access_use(struct cw_access *access, const struct cw_mem_part *part, unsigned rights)
{
    const struct ucp_ep *ep  = access->request->ep;
    struct cw_domain *domain = ep->conn->iface->domain;

    if (is_worth_it(&domain->attr, part->length) || cw_mem_use_is_cheap(ep->worker->context, domain, part)) {
        (void)cw_mem_use_begin(ep->worker->context, domain, part, rights, &access->use);
    }
}

static size_t next(const struct cw_access_limits *limits, const struct cw_memh *memh, size_t max_in_place,
                   size_t max_copied, const void *memory, uint64_t remote, size_t left, int *in_place_p)
{
    const size_t unit   = (limits->alignment > 0) ? limits->alignment : 1;
    const size_t before = (uintptr_t)memory % unit;

    *in_place_p = 0;
    if (memh == NULL || limits->max_iov == 0 || left < unit || max_in_place < unit || before != remote % unit) {
        return cw_smaller(left, max_copied);
    }
    if (before > 0) {
        return cw_smaller(cw_smaller(left, unit - before), max_copied);
    }
    *in_place_p = 1;
    return cw_smaller(left, max_in_place) / unit * unit;
}

size_t cw_access_next_put(const struct cw_conn *lane, const struct cw_memh *memh, const void *memory, uint64_t remote,
                          size_t left, int *in_place_p)
{
    const struct cw_access_limits *limits = &lane->iface->limits.access;

    return next(limits, memh, limits->max_put_zcopy, limits->max_put_bcopy, memory, remote, left, in_place_p);
}

size_t cw_access_next_get(const struct cw_conn *lane, const struct cw_memh *memh, const void *memory, uint64_t remote,
                          size_t left, int *in_place_p)
{
    const struct cw_access_limits *limits = &lane->iface->limits.access;

    return next(limits, memh, limits->max_get_zcopy, limits->max_get_bcopy, memory, remote, left, in_place_p);
}

ucs_status_t cw_access_taken(struct cw_access *access, ucs_status_t status)
{
    if (status != UCS_INPROGRESS) {
        return status;
    }
    access->request->outstanding++;
    return UCS_OK;
}

ucs_status_t cw_access_begun(struct cw_access *access)
{
    access->all_begun = 1;
    return (access->request->outstanding > 0) ? UCS_INPROGRESS : access->status;
}

static void unpack(const void *data, size_t length, void *arg)
{
    struct cw_access_piece *piece = arg;
    const ucs_memory_type_t type  = (ucs_memory_type_t)piece->access->memory_type;

    if (cw_likely(type == UCS_MEMORY_TYPE_HOST)) {
        cw_bytes_copy_any(piece->to, data, length);
    } else {
        piece->status = cw_mem_copy(piece->to, type, data, UCS_MEMORY_TYPE_HOST, length);
    }
}

/* The first piece of an access lies in it, which serves all short gets; further ones are allocated. */
static struct cw_access_piece *piece_new(struct cw_access *access)
{
    struct cw_access_piece *piece = &access->first;

    return (piece->access == NULL) ? piece : malloc(sizeof(*piece));
}

static void piece_free(struct cw_access_piece *piece)
{
    if (cw_likely(piece == &piece->access->first)) {
        piece->access = NULL;
    } else {
        free(piece);
    }
}

static void piece_done(struct cw_completion *completion, ucs_status_t status)
{
    struct cw_access_piece *piece = cw_container_of(completion, struct cw_access_piece, completion);
    struct cw_access *access      = piece->access;

    status = (status == UCS_OK) ? piece->status : status;
    piece_free(piece);
    one_ended(access, status);
}

ucs_status_t cw_access_get_bcopy(struct cw_access *access, struct cw_conn *lane, size_t length, void *to,
                                 const struct cw_access_target *from)
{
    struct cw_access_piece *piece = piece_new(access);
    ucs_status_t status;

    if (piece == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *piece = (struct cw_access_piece){.completion.done = piece_done, .access = access, .to = to, .status = UCS_OK};
    status = cw_lane_get_bcopy(lane, length, unpack, piece, from, 0, &piece->completion);
    if (status != UCS_INPROGRESS) {
        piece_free(piece);
    }
    return status;
}
