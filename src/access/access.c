/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of access/access.h.
 */
#include "access/access.h"

#include <stdlib.h>

#include "access/stripes.h"
#include "base/bytes.h"
#include "core/ep.h"
#include "mem/copy.h"
#include "proto/protocol.h"

/* A get through a bounce buffer of the transport; each has its own completion and its own destination. */
struct piece {
    struct cw_completion completion;
    struct cw_access *access;
    void *to;
    ucs_status_t status; /* of the copy to memory of a GPU */
};

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
    struct cw_access *access = malloc(sizeof(*access));

    if (access != NULL) {
        *access = (struct cw_access){.completion.done = done, .request = request, .ended = ended, .status = UCS_OK};
        access->memory_type = UCS_MEMORY_TYPE_HOST;
    }
    return access;
}

void cw_access_free(struct cw_access *access)
{
    if (access != NULL) {
        cw_stripes_free(access->stripes);
        cw_mem_use_end(&access->use);
    }
    free(access);
}

/* Whether the registration of this many bytes takes less time than a copy of them. */
static bool is_worth_it(const struct cw_domain_attr *attr, size_t length)
{
    return (CW_COST_COPY_BYTE_NS - attr->register_byte_ns) * (double)length > attr->register_ns;
}

void cw_access_use(struct cw_access *access, const struct cw_mem_part *part, unsigned rights)
{
    const struct ucp_ep *ep = access->request->ep;
    struct cw_domain *domain = ep->conn->iface->domain;

    if (is_worth_it(&domain->attr, part->length) || cw_mem_use_is_cheap(ep->worker->context, domain, part)) {
        (void)cw_mem_use_begin(ep->worker->context, domain, part, rights, &access->use);
    }
}

static size_t next(const struct cw_access_limits *limits, const struct cw_memh *memh, size_t max_in_place,
                   size_t max_copied, const void *memory, uint64_t remote, size_t left, int *in_place_p)
{
    const size_t unit = (limits->alignment > 0) ? limits->alignment : 1;
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
    struct piece *piece = arg;
    const ucs_memory_type_t type = (ucs_memory_type_t)piece->access->memory_type;

    if (cw_likely(type == UCS_MEMORY_TYPE_HOST)) {
        cw_bytes_copy_any(piece->to, data, length);
    } else {
        piece->status = cw_mem_copy(piece->to, type, data, UCS_MEMORY_TYPE_HOST, length);
    }
}

static void piece_done(struct cw_completion *completion, ucs_status_t status)
{
    struct piece *piece = cw_container_of(completion, struct piece, completion);
    struct cw_access *access = piece->access;

    status = (status == UCS_OK) ? piece->status : status;
    free(piece);
    one_ended(access, status);
}

ucs_status_t cw_access_get_bcopy(struct cw_access *access, struct cw_conn *lane, size_t length, void *to,
                                 const struct cw_access_target *from)
{
    struct piece *piece = malloc(sizeof(*piece));
    ucs_status_t status;

    if (piece == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *piece = (struct piece){.completion.done = piece_done, .access = access, .to = to, .status = UCS_OK};
    status = cw_lane_get_bcopy(lane, length, unpack, piece, from, 0, &piece->completion);
    if (status != UCS_INPROGRESS) {
        free(piece);
    }
    return status;
}
