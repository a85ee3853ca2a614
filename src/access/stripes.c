/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of access/stripes.h.
 */
#include "access/stripes.h"

#include <stdlib.h>

#include "base/bytes.h"
#include "core/lanes.h"

#define LEAST_PIECE (64u << 10)

/* The route of the next access. */
struct route {
    struct cw_conn *lane;
    struct cw_stripe *stripe; /* NULL: the message lane */
    const struct cw_memh *memh;
    const struct cw_remote_key *key;
    struct cw_completion *completion;
    size_t length; /* at most, on this lane now */
};

/* The further lane of a stripe, or NULL if that lane has been replaced since. */
static struct cw_further_lane *lane_of(const struct ucp_ep *ep, const struct cw_stripe *stripe)
{
    struct cw_further_lane *lane = NULL;

    if (ep->lanes != NULL && stripe->lane != 0) {
        lane = &ep->lanes->further[stripe->lane - 1];
    }
    return (lane != NULL && lane->state == CW_FURTHER_OPEN && lane->generation == stripe->generation) ? lane : NULL;
}

/* A registration that the request has in that domain, or NULL. */
static const struct cw_memh *registered(const struct cw_access *access, const struct cw_domain *domain)
{
    const struct cw_stripes *stripes = access->stripes;
    unsigned i;

    if (access->use.memh != NULL && access->use.memh->domain == domain) {
        return access->use.memh;
    }
    for (i = 0; stripes != NULL && i < stripes->count; i++) {
        if (stripes->stripe[i].memh->domain == domain) {
            return stripes->stripe[i].memh;
        }
    }
    return NULL;
}

static void done(struct cw_completion *completion, ucs_status_t status)
{
    struct cw_stripe *stripe = cw_container_of(completion, struct cw_stripe, completion);

    stripe->failed |= status != UCS_OK && status != UCS_ERR_INVALID_ADDR; /* a refused one takes no effect any more */
    stripe->access->completion.done(&stripe->access->completion, status);
}

static void add(struct cw_access *access, const struct cw_further_lane *lane, const struct cw_mem_part *part,
                unsigned rights)
{
    struct ucp_ep *ep = access->request->ep;
    struct cw_domain *domain = lane->conn->iface->domain;
    struct cw_stripe *stripe = &access->stripes->stripe[access->stripes->count];

    *stripe = (struct cw_stripe){.completion = {done},
                                 .access = access,
                                 .memh = registered(access, domain),
                                 .generation = lane->generation,
                                 .lane = (uint8_t)cw_lane_index(ep->lanes, lane)};
    if (stripe->memh == NULL) {
        if (cw_mem_use_begin(ep->worker->context, domain, part, rights, &stripe->use) != UCS_OK) {
            return;
        }
        stripe->memh = stripe->use.memh;
    }
    access->stripes->count++;
}

void cw_stripes_begin(struct cw_access *access, const struct cw_mem_part *part, unsigned rights, unsigned rails)
{
    const struct cw_lanes *lanes = access->request->ep->lanes;
    const struct cw_further_lane *lane;
    unsigned i;

    rails = (rails < CW_KEY_MEMORY_PARTS) ? rails : CW_KEY_MEMORY_PARTS;
    if (lanes == NULL || rails < 2) {
        return;
    }
    access->stripes = calloc(1, sizeof(*access->stripes));
    for (i = 0; access->stripes != NULL && i < lanes->max && access->stripes->count < rails; i++) {
        lane = &lanes->further[i];
        if (lane->state == CW_FURTHER_OPEN && cw_lane_peer_domain(lane->conn) != 0) {
            add(access, lane, part, rights);
        }
    }
    if (access->stripes != NULL && access->stripes->count < 2) {
        cw_stripes_free(access->stripes);
        access->stripes = NULL;
    }
}

void cw_stripes_keys(struct cw_access *access, cw_stripes_find find, const void *arg)
{
    struct cw_stripes *stripes = access->stripes;
    const struct cw_further_lane *lane;
    unsigned i, retained = 0;

    for (i = 0; stripes != NULL && i < stripes->count; i++) {
        lane = lane_of(access->request->ep, &stripes->stripe[i]);
        if (lane != NULL && find(arg, lane->conn, &stripes->stripe[i].key)) {
            retained++;
        } else {
            stripes->stripe[i].lane = 0; /* its registration stays, because another stripe may use it */
        }
    }
    if (stripes != NULL && retained < 2) {
        cw_stripes_free(stripes);
        access->stripes = NULL;
    }
}

static int key_of(const void *arg, const struct cw_conn *lane, struct cw_remote_key *key)
{
    const struct ucp_rkey *rkey = arg;
    struct cw_access_target target;

    if (!cw_rkey_target(rkey, lane, rkey->key.address, &target)) {
        return 0;
    }
    *key = target.key;
    return 1;
}

void cw_stripes_for_key(struct cw_access *access, const struct ucp_rkey *rkey, const struct cw_mem_part *part,
                        unsigned rights, size_t max)
{
    const unsigned rails = cw_lanes_for_rma(access->request->worker);

    if (rails > 1 && access->use.memh != NULL) {
        cw_lanes_expect(access->request->ep, part->length, max);
        cw_stripes_begin(access, part, rights, rails);
        cw_stripes_keys(access, key_of, rkey);
    }
}

ucs_status_t cw_stripes_give_up(struct cw_access *access)
{
    struct ucp_ep *ep = access->request->ep;
    struct cw_stripes *stripes = access->stripes;
    struct cw_further_lane *lane;
    unsigned i;

    for (i = 0; i < stripes->count; i++) {
        if (stripes->stripe[i].failed && stripes->stripe[i].lane != 0 && ep->lanes != NULL) {
            lane = &ep->lanes->further[stripes->stripe[i].lane - 1];
            if (lane->generation == stripes->stripe[i].generation) {
                cw_lanes_lane_failed(ep->lanes, lane, "a remote access failed"); /* does nothing if it has ended */
            }
            if (lane->generation == stripes->stripe[i].generation) {
                return CW_BLOCKED;
            }
        }
    }
    cw_stripes_free(stripes);
    access->stripes = NULL;
    access->status = UCS_OK;
    access->all_begun = 0;
    return UCS_OK;
}

static size_t piece_of(const struct ucp_ep *ep, size_t left, double share)
{
    const size_t chunk = ep->worker->context->config->min_rndv_chunk_size;
    const size_t least = (chunk < LEAST_PIECE) ? LEAST_PIECE : chunk;
    const size_t most = (chunk > CW_LANES_PIECE) ? chunk : CW_LANES_PIECE;
    const size_t piece = cw_clamp((size_t)((double)left * share), least, most);

    return (left < piece || left - piece < least / 2) ? left : piece;
}

static double bandwidth_of(const struct cw_further_lane *lane)
{
    const double bps = lane->conn->iface->limits.bandwidth_bps;

    return (bps > 1) ? bps : 1;
}

static ucs_status_t next_stripe(struct ucp_ep *ep, struct cw_stripes *stripes, size_t left, struct route *route)
{
    struct cw_further_lane *lane, *best = NULL;
    struct cw_stripe *stripe;
    double sum = 0, ends, first_end = 0;
    size_t piece;
    unsigned i;

    for (i = 0; i < stripes->count; i++) {
        lane = lane_of(ep, &stripes->stripe[i]);
        sum += (lane == NULL) ? 0 : bandwidth_of(lane);
    }
    for (i = 0; i < stripes->count; i++) {
        stripe = &stripes->stripe[i];
        lane = lane_of(ep, stripe);
        if (lane == NULL) {
            continue;
        }
        piece = piece_of(ep, left, bandwidth_of(lane) / sum);
        ends = ((double)stripe->taken + (double)piece) / bandwidth_of(lane);
        if (best == NULL || ends < first_end) {
            best = lane;
            first_end = ends;
            *route = (struct route){lane->conn, stripe, stripe->memh, &stripe->key, &stripe->completion, piece};
        }
    }
    if (best == NULL) {
        return UCS_ERR_CONNECTION_RESET;
    }
    return best->full ? CW_BLOCKED : UCS_OK;
}

static ucs_status_t next(struct cw_access *access, size_t left, struct route *route)
{
    struct ucp_ep *ep = access->request->ep;

    if (cw_unlikely(access->stripes != NULL)) {
        return next_stripe(ep, access->stripes, left, route);
    }
    *route = (struct route){ep->conn, NULL, access->use.memh, &access->key, &access->completion, left};
    return UCS_OK;
}

/* As cw_access_taken, for an access of `length` bytes over that route. */
static ucs_status_t taken(struct cw_access *access, const struct route *route, size_t length, ucs_status_t status)
{
    struct cw_further_lane *lane;

    if (route->stripe == NULL) {
        return cw_access_taken(access, status);
    }
    if (status == CW_AGAIN) {
        lane = cw_lanes_find(access->request->ep, route->lane);
        if (lane != NULL) {
            lane->full = 1; /* the transport reports tx space later, or the lane closes */
        }
        return CW_BLOCKED;
    }
    route->stripe->taken += (status == UCS_INPROGRESS) ? length : 0;
    return cw_access_taken(access, status);
}

static size_t pack(void *dest, size_t max, void *cursor)
{
    return cw_dt_pack(cursor, dest, max);
}

ucs_status_t cw_stripes_put(struct cw_access *access, struct cw_dt_cursor *cursor, uint64_t to)
{
    const size_t offset = cursor->offset;
    struct route route = {.length = 0};
    ucs_status_t status = next(access, cursor->length - offset, &route);
    struct cw_access_target target;
    struct cw_access_iov iov;
    char *memory;
    size_t length;
    int in_place;

    if (status != UCS_OK) {
        return status;
    }
    memory = (route.memh != NULL) ? cursor->contig + offset : NULL; /* only contiguous memory has a handle */
    target = (struct cw_access_target){.address = to + offset, .key = *route.key};
    length = cw_access_next_put(route.lane, route.memh, memory, target.address, route.length, &in_place);
    if (length == 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    iov = (struct cw_access_iov){memory, length, route.memh};
    status = in_place ? cw_lane_put_zcopy(route.lane, &iov, 1, &target, access->flags, route.completion)
                      : cw_lane_put_bcopy(route.lane, length, pack, cursor, &target, access->flags, route.completion);
    status = taken(access, &route, length, status);
    if (status == UCS_OK && in_place) {
        cw_dt_skip(cursor, length);
    }
    return status;
}

ucs_status_t cw_stripes_get(struct cw_access *access, char *memory, uint64_t from, size_t left, size_t *length_p)
{
    struct route route = {.length = 0};
    ucs_status_t status = next(access, left, &route);
    struct cw_access_target target;
    struct cw_access_iov iov;
    size_t length;
    int in_place;

    if (status != UCS_OK) {
        return status;
    }
    target = (struct cw_access_target){.address = from, .key = *route.key};
    length = cw_access_next_get(route.lane, route.memh, memory, from, route.length, &in_place);
    if (length == 0) {
        return UCS_ERR_UNSUPPORTED;
    }
    iov = (struct cw_access_iov){memory, length, route.memh};
    status = in_place ? cw_lane_get_zcopy(route.lane, &iov, 1, &target, 0, route.completion)
                      : cw_access_get_bcopy(access, route.lane, length, memory, &target);
    *length_p = length;
    return taken(access, &route, length, status);
}

ucs_status_t cw_stripes_begun(struct cw_access *access, ucs_status_t status,
                              ucs_status_t (*repeat)(struct cw_request *request))
{
    if (status == CW_AGAIN || status == CW_BLOCKED || (status != UCS_OK && access->stripes == NULL)) {
        return status;
    }
    access->status = (access->status == UCS_OK) ? status : access->status;
    status = cw_access_begun(access);
    if (status != UCS_OK && status != UCS_INPROGRESS && access->stripes != NULL) {
        access->request->send = repeat;
        return repeat(access->request);
    }
    return status;
}

size_t cw_stripes_parts(const struct cw_access *access, uint8_t parts[CW_KEY_PARTS_MAX])
{
    const struct ucp_context *context = access->request->worker->context;
    const struct cw_memh *memh;
    size_t length = 0;
    unsigned i;

    for (i = 0; i < context->num_domains; i++) {
        memh = registered(access, context->domains[i]);
        length = (memh == NULL) ? length : cw_mem_add_part(memh, parts, length);
    }
    return length;
}

void cw_stripes_free(struct cw_stripes *stripes)
{
    unsigned i;

    for (i = 0; stripes != NULL && i < stripes->count; i++) {
        cw_mem_use_end(&stripes->stripe[i].use);
    }
    free(stripes);
}
