/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated RDMA device: the group `access` of the transport "simrdma", whose packets are those of the simulated
 * network (sim_send.c). A connection is a pair of queue pairs. An access is an event at its origin, in three steps: it
 * is taken, it is carried out in the target's memory, its completion comes. The second step needs only the registration
 * of the target; a target that handles a packet of the connection sees all writes that were taken before that packet.
 *
 * A fetch is carried out at a random time after the accesses that were taken before it, so later writes may overtake
 * it, and completions come in any order. An access whose key, range or right is wrong breaks the connection, as does
 * the fault ACCESS; the accesses under way then end with an error, carried out or not. Accesses that a queue pair had
 * under way when its owner closed it may be carried out later, unless the target is closed by then.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "sim_rdma.h"

struct cw_sim_flush {
    struct cw_list link;
    uint64_t serial;
    struct cw_completion *completion;
};

static struct cw_sim_network *world_of(const struct cw_sim_conn *conn)
{
    return cw_container_of(conn->conn.iface, struct cw_sim_iface, iface)->network;
}

static int is_fetch(const struct cw_sim_access *access)
{
    return access->what == CW_SIM_GET || access->what == CW_SIM_FETCHING;
}

/* ---- carrying out ---- */

/* The domain of the target as it is now; NULL: the target does not exist any more. */
static const struct cw_domain *target_domain(const struct cw_sim_access *access)
{
    const struct cw_sim_link *link = access->event.link;
    const unsigned side = 1u - access->event.side;
    const struct cw_sim_conn *target = link->ends[side];

    if (target == NULL || target->state == CW_SIM_BROKEN || link->ifaces[side] == NULL ||
        link->ifaces[side]->death) {
        return NULL;
    }
    return link->ifaces[side]->iface.domain;
}

static uint64_t apply(const struct cw_sim_access *access, uint64_t *word)
{
    const uint64_t operand = access->operand;
    uint64_t before = access->compare;

    switch (access->op) {
    case CW_ACCESS_ADD:
        return __atomic_fetch_add(word, operand, __ATOMIC_SEQ_CST);
    case CW_ACCESS_AND:
        return __atomic_fetch_and(word, operand, __ATOMIC_SEQ_CST);
    case CW_ACCESS_OR:
        return __atomic_fetch_or(word, operand, __ATOMIC_SEQ_CST);
    case CW_ACCESS_XOR:
        return __atomic_fetch_xor(word, operand, __ATOMIC_SEQ_CST);
    case CW_ACCESS_SWAP:
        return __atomic_exchange_n(word, operand, __ATOMIC_SEQ_CST);
    default:
        (void)__atomic_compare_exchange_n(word, &before, operand, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        return before;
    }
}

/* Reads the memory of the origin that was not read yet. */
static void read_ours(struct cw_sim_access *access)
{
    char *to = access->data;
    unsigned i;

    for (i = 0; i < access->iov_count && access->what == CW_SIM_PUT; i++) {
        cw_bytes_copy_any(to, cw_sim_mr_use(&access->iov[i]), access->iov[i].length);
        to += access->iov[i].length;
    }
    access->iov_count = (access->what == CW_SIM_PUT) ? 0 : access->iov_count;
}

static void carry_out(struct cw_sim_access *access)
{
    static const unsigned rights[] = {[CW_SIM_PUT] = CW_RIGHT_REMOTE_WRITE,
                                 [CW_SIM_GET] = CW_RIGHT_REMOTE_READ,
                                 [CW_SIM_POSTED] = CW_RIGHT_REMOTE_ATOMIC,
                                 [CW_SIM_FETCHING] = CW_RIGHT_REMOTE_ATOMIC};
    const struct cw_domain *domain = target_domain(access);
    char *there;

    if (access->carried) {
        return;
    }
    access->carried = 1;
    if (domain == NULL) {
        access->status = UCS_ERR_CONNECTION_RESET;
        return;
    }
    there = cw_sim_mr_find(domain, &access->target, access->length, rights[access->what]);
    if (there == NULL || (access->what >= CW_SIM_POSTED && (uintptr_t)there % sizeof(uint64_t) != 0)) {
        access->status = UCS_ERR_INVALID_ADDR;
        return;
    }
    if (access->what == CW_SIM_PUT) {
        read_ours(access);
        cw_bytes_copy_any(there, access->data, access->length);
    } else if (access->what == CW_SIM_GET) {
        cw_bytes_copy_any(access->data, there, access->length);
    } else {
        access->before = apply(access, (uint64_t *)(void *)there);
    }
}

/* Carries out the writes and atomic operations of a connection that were taken before `serial`. */
static void carry_before(const struct cw_sim_conn *conn, uint64_t serial)
{
    struct cw_sim_access *access;

    cw_list_for_each(access, &conn->accesses, struct cw_sim_access, link)
    {
        if (access->serial >= serial) {
            break;
        }
        if (access->what != CW_SIM_GET) {
            carry_out(access);
        }
    }
}

void cw_sim_rdma_catch_up(const struct cw_sim_link *link, unsigned side, uint64_t age)
{
    if (link->ends[side] != NULL) {
        carry_before(link->ends[side], age);
    }
}

/* ---- completions ---- */

/* Ends the flushes that wait for no access any more. */
static unsigned end_flushes(struct cw_sim_conn *conn, ucs_status_t status)
{
    const struct cw_sim_access *oldest;
    struct cw_completion *completion;
    struct cw_sim_flush *flush;
    ucs_status_t answer;
    unsigned done = 0;

    while (!cw_list_empty(&conn->flushes)) {
        flush = cw_list_head(&conn->flushes, struct cw_sim_flush, link);
        oldest = cw_list_head(&conn->accesses, struct cw_sim_access, link);
        if (!cw_list_empty(&conn->accesses) && oldest->serial < flush->serial) {
            break;
        }
        answer = (status == UCS_OK) ? conn->posted_status : status;
        conn->posted_status = UCS_OK;
        completion = flush->completion;
        cw_list_remove(&flush->link);
        free(flush);
        completion->done(completion, answer);
        done++;
    }
    return done;
}

/* Writes the bytes of a get to the memory of the origin. */
static void write_ours(struct cw_sim_access *access)
{
    const char *from = access->data;
    unsigned i;

    for (i = 0; i < access->iov_count; i++) {
        cw_bytes_copy_any(cw_sim_mr_use(&access->iov[i]), from, access->iov[i].length);
        from += access->iov[i].length;
    }
    if (access->unpack != NULL) {
        access->unpack(access->data, access->length, access->arg);
    }
}

/* After this the access is on no list; cw_sim_rdma_put or the caller frees it. The completion may call everything but
 * close. */
static void finish(struct cw_sim_conn *conn, struct cw_sim_access *access, ucs_status_t status)
{
    struct cw_completion *completion = access->completion;

    cw_list_remove(&access->link);
    conn->fetches -= is_fetch(access);
    access->over = 1;
    if (status == UCS_OK && access->what == CW_SIM_GET) {
        write_ours(access);
    } else if (status == UCS_OK && access->what == CW_SIM_FETCHING) {
        *access->result = access->before;
    }
    if (completion != NULL) {
        completion->done(completion, status);
    } else if (status != UCS_OK && conn->posted_status == UCS_OK) {
        conn->posted_status = status;
    }
}

static void break_link(struct cw_sim_conn *conn)
{
    cw_sim_link_end(conn->link, conn->side, UCS_ERR_CONNECTION_RESET);
    cw_sim_link_end(conn->link, 1 - conn->side, UCS_ERR_CONNECTION_RESET);
}

void cw_sim_rdma_abandon(struct cw_sim_conn *conn)
{
    struct cw_sim_access *access;

    cw_list_for_each(access, &conn->accesses, struct cw_sim_access, link)
    {
        read_ours(access);
        access->status = UCS_ERR_CANCELED; /* so the bytes that a fetch brings are not written */
    }
}

void cw_sim_rdma_end_all(struct cw_sim_conn *conn, ucs_status_t status)
{
    struct cw_sim_network *network = world_of(conn);
    struct cw_sim_access *access;

    if (!cw_list_empty(&conn->accesses)) { /* nothing more is taken, not even sends of the completions */
        conn->state = CW_SIM_BROKEN;
        conn->status = status;
    }
    while (!cw_list_empty(&conn->accesses)) {
        access = cw_list_head(&conn->accesses, struct cw_sim_access, link);
        if (!access->carried && !cw_sim_iface(conn->conn.iface)->death) {
            read_ours(access);
            if (cw_sim_below(network, 2) == 0) {
                carry_out(access);
            }
        }
        access->unpack = NULL;
        access->iov_count = 0;
        finish(conn, access, status);
        if (!access->event.queued && !access->delivering) {
            free(access);
        }
    }
    (void)end_flushes(conn, status);
}

/* Frees an access that is over. Another one is queued again, or is on the list of a dead interface's connection and
 * ends with that. */
void cw_sim_rdma_put(struct cw_sim_event *event)
{
    struct cw_sim_access *access = cw_container_of(event, struct cw_sim_access, event);

    if (access->over && !event->queued) {
        free(access);
    }
}

unsigned cw_sim_rdma_step(struct cw_sim_iface *iface, struct cw_sim_event *event)
{
    struct cw_sim_access *access = cw_container_of(event, struct cw_sim_access, event);
    struct cw_sim_network *network = iface->network;
    struct cw_sim_conn *conn = event->link->ends[event->side];
    unsigned done = 1;

    if (access->over) { /* the origin gave it up; a write may be carried out late */
        if (access->what != CW_SIM_GET) {
            carry_out(access);
        }
        return 0;
    }
    if (!access->landed) {
        if (cw_sim_chance(network, CW_SIM_ACCESS)) {
            access->status = UCS_ERR_IO_ERROR;
            access->carried = cw_sim_below(network, 2) == 0;
        }
        carry_before(conn, access->serial);
        carry_out(access);
        access->landed = 1;
        cw_sim_schedule(event, network->now_ns + cw_sim_delay_ns(network));
        return 0;
    }
    access->delivering = 1;
    if (access->status != UCS_OK) {
        break_link(conn);
    }
    finish(conn, access, access->status);
    done += end_flushes(conn, UCS_OK);
    access->delivering = 0;
    if (conn->waits_for_fetches && conn->fetches == 0) {
        conn->waits_for_fetches = 0;
        cw_sim_schedule(&conn->link->channels[conn->side].space, network->now_ns);
    }
    return done;
}

/* ---- taking ---- */

static ucs_status_t refuse_for_now(struct cw_sim_conn *conn)
{
    struct cw_sim_network *network = world_of(conn);

    cw_sim_schedule(&conn->link->channels[conn->side].space, network->now_ns + cw_sim_delay_ns(network));
    network->stats.again++;
    return CW_AGAIN;
}

/* An access that can be taken; otherwise NULL, and *status_p is the answer. */
static struct cw_sim_access *take(struct cw_conn *base, enum cw_sim_what what, size_t length,
                                  const struct cw_access_target *target, unsigned flags, ucs_status_t *status_p)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_network *network = world_of(conn);
    struct cw_sim_access *access;

    cw_sim_must(conn->state != CW_SIM_DIALING, "an access comes before `opened`");
    cw_sim_must(length > 0, "an access has no bytes");
    if (conn->state == CW_SIM_BROKEN) {
        *status_p = conn->status;
        return NULL;
    }
    if ((flags & CW_ACCESS_AFTER_FETCHES) && conn->fetches > 0) {
        conn->waits_for_fetches = 1;
        network->stats.again++;
        *status_p = CW_AGAIN;
        return NULL;
    }
    /* Queued packets that have not left come before the access. */
    if (!cw_list_empty(&conn->link->channels[conn->side].queue) || cw_sim_chance(network, CW_SIM_AGAIN) ||
        cw_sim_chance(network, CW_SIM_NO_MEMORY)) {
        *status_p = refuse_for_now(conn);
        return NULL;
    }
    access = calloc(1, sizeof(*access) + length);
    if (access == NULL) {
        *status_p = refuse_for_now(conn);
        return NULL;
    }
    access->event =
        (struct cw_sim_event){.link = conn->link, .side = conn->side, .kind = CW_SIM_EVENT_ACCESS, .length = length};
    access->what = (uint8_t)what;
    access->length = length;
    access->target = *target;
    return access;
}

static ucs_status_t submit(struct cw_conn *base, struct cw_sim_access *access, struct cw_completion *completion)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_network *network = world_of(conn);
    struct cw_sim_channel *channel = &conn->link->channels[conn->side];
    uint64_t time_ns = network->now_ns + cw_sim_delay_ns(network);

    time_ns = (time_ns < channel->last_arrival_ns) ? channel->last_arrival_ns : time_ns;
    if (access->what != CW_SIM_GET) {
        channel->last_arrival_ns = time_ns;
    }
    access->completion = completion;
    access->serial = network->next_age++;
    conn->fetches += is_fetch(access);
    cw_list_add_tail(&conn->accesses, &access->link);
    if (!cw_sim_iface(base->iface)->death) { /* else the access ends with the connection */
        cw_sim_schedule(&access->event, time_ns);
    }
    network->stats.accesses++;
    network->stats.gets += access->what == CW_SIM_GET;
    network->stats.puts += access->what == CW_SIM_PUT;
    network->stats.bytes_of[cw_sim_iface(base->iface)->device] += access->length;
    return UCS_INPROGRESS;
}

static void set_iov(struct cw_conn *base, struct cw_sim_access *access, const struct cw_access_iov *iov, unsigned count)
{
    unsigned i;

    for (i = 0; i < count; i++) {
        cw_sim_must(iov[i].memh->domain == base->iface->domain, "memory of another domain is given to an access");
        cw_sim_must(access->what == CW_SIM_PUT || (iov[i].memh->rights & CW_RIGHT_LOCAL_WRITE),
                    "a get goes to memory that was not registered for it");
        (void)cw_sim_mr_use(&iov[i]);
        access->iov[i] = iov[i];
    }
    access->iov_count = count;
}

static size_t total(const struct cw_access_iov *iov, unsigned count)
{
    size_t length = 0;
    unsigned i;

    for (i = 0; i < count; i++) {
        length += iov[i].length;
    }
    return length;
}

static ucs_status_t put_short(struct cw_conn *base, const void *data, size_t length, const struct cw_access_target *to,
                              unsigned flags, struct cw_completion *completion)
{
    struct cw_sim_access *access;
    ucs_status_t status;

    cw_sim_must(length <= base->iface->limits.access.max_put_short, "put_short gets more than max_put_short");
    access = take(base, CW_SIM_PUT, length, to, flags, &status);
    if (access == NULL) {
        return status;
    }
    cw_bytes_copy_any(access->data, data, length);
    return submit(base, access, completion);
}

static ucs_status_t put_bcopy(struct cw_conn *base, size_t max, cw_pack_fn pack, void *arg,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    struct cw_sim_access *access;
    ucs_status_t status;

    cw_sim_must(max <= base->iface->limits.access.max_put_bcopy, "put_bcopy gets more than max_put_bcopy");
    access = take(base, CW_SIM_PUT, max, to, flags, &status);
    if (access == NULL) {
        return status;
    }
    access->length = pack(access->data, max, arg);
    cw_sim_must(access->length > 0 && access->length <= max, "pack wrote more than it announced, or nothing");
    return submit(base, access, completion);
}

static void check_alignment(size_t alignment, const struct cw_access_iov *iov, unsigned count,
                            const struct cw_access_target *target)
{
    unsigned i;

    for (i = 0; i < count && alignment > 0; i++) {
        cw_sim_must((uintptr_t)iov[i].address % alignment == 0 && iov[i].length % alignment == 0 &&
                        target->address % alignment == 0,
                    "put_zcopy or get_zcopy gets what is not aligned as the device wants");
    }
}

/* `max`: the limit of a put or of a get. */
static ucs_status_t access_zcopy(struct cw_conn *base, enum cw_sim_what what, size_t max,
                                 const struct cw_access_iov *iov, unsigned count, const struct cw_access_target *target,
                                 unsigned flags, struct cw_completion *completion)
{
    const size_t length = total(iov, count);
    struct cw_sim_access *access;
    ucs_status_t status;

    check_alignment(base->iface->limits.access.alignment, iov, count, target);
    cw_sim_must(length <= max && count <= base->iface->limits.access.max_iov,
                "put_zcopy or get_zcopy gets more than it takes");
    access = take(base, what, length, target, flags, &status);
    if (access == NULL) {
        return status;
    }
    set_iov(base, access, iov, count);
    return submit(base, access, completion);
}

static ucs_status_t put_zcopy(struct cw_conn *base, const struct cw_access_iov *iov, unsigned count,
                              const struct cw_access_target *to, unsigned flags, struct cw_completion *completion)
{
    return access_zcopy(base, CW_SIM_PUT, base->iface->limits.access.max_put_zcopy, iov, count, to, flags, completion);
}

static ucs_status_t get_bcopy(struct cw_conn *base, size_t length, cw_unpack_fn unpack, void *arg,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion)
{
    struct cw_sim_access *access;
    ucs_status_t status;

    cw_sim_must(length <= base->iface->limits.access.max_get_bcopy, "get_bcopy gets more than max_get_bcopy");
    access = take(base, CW_SIM_GET, length, from, flags, &status);
    if (access == NULL) {
        return status;
    }
    access->unpack = unpack;
    access->arg = arg;
    return submit(base, access, completion);
}

static ucs_status_t get_zcopy(struct cw_conn *base, const struct cw_access_iov *iov, unsigned count,
                              const struct cw_access_target *from, unsigned flags, struct cw_completion *completion)
{
    return access_zcopy(base, CW_SIM_GET, base->iface->limits.access.max_get_zcopy, iov, count, from, flags,
                        completion);
}

static ucs_status_t atomic(struct cw_conn *base, enum cw_access_op op, uint64_t operand, uint64_t compare,
                           uint64_t *result, const struct cw_access_target *to, unsigned flags,
                           struct cw_completion *completion)
{
    const struct cw_access_limits *limits = &base->iface->limits.access;
    struct cw_sim_access *access;
    ucs_status_t status;

    cw_sim_must(((result == NULL) ? limits->posted : limits->fetching) & (1u << op),
                "the device lacks this atomic operation");
    access = take(base, (result == NULL) ? CW_SIM_POSTED : CW_SIM_FETCHING, sizeof(uint64_t), to, flags, &status);
    if (access == NULL) {
        return status;
    }
    access->op = op;
    access->operand = operand;
    access->compare = compare;
    access->result = result;
    return submit(base, access, completion);
}

static ucs_status_t flush(struct cw_conn *base, struct cw_completion *completion)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_flush *wait;
    ucs_status_t status;

    if (conn->state == CW_SIM_BROKEN) {
        return conn->status;
    }
    if (cw_list_empty(&conn->accesses)) {
        status = conn->posted_status;
        conn->posted_status = UCS_OK;
        return status;
    }
    if (completion == NULL) {
        return UCS_INPROGRESS;
    }
    wait = cw_sim_chance(world_of(conn), CW_SIM_AGAIN) ? NULL : malloc(sizeof(*wait));
    if (wait == NULL) {
        return refuse_for_now(conn);
    }
    *wait = (struct cw_sim_flush){.serial = world_of(conn)->next_age, .completion = completion};
    cw_list_add_tail(&conn->flushes, &wait->link);
    return UCS_INPROGRESS;
}

static unsigned peer_domain(const struct cw_conn *base)
{
    const struct cw_sim_conn *conn = cw_container_of(base, struct cw_sim_conn, conn);
    const struct cw_sim_iface *peer = conn->link->ifaces[1 - conn->side];

    return (peer == NULL || peer->iface.domain == NULL) ? 0 : peer->iface.domain->number;
}

void cw_sim_rdma_limits(const struct cw_sim_network *network, struct cw_access_limits *limits)
{
    const unsigned atomics =
        (network->knobs.all_atomics) ? (1u << CW_ACCESS_OPS) - 1 : 1u << CW_ACCESS_ADD | 1u << CW_ACCESS_CSWAP;

    *limits = (struct cw_access_limits){.max_put_short = network->knobs.max_short,
                                        .max_put_bcopy = network->knobs.max_bcopy,
                                        .max_put_zcopy = network->knobs.max_access,
                                        .max_get_bcopy = network->knobs.max_bcopy,
                                        .max_get_zcopy = network->knobs.max_access,
                                        .max_iov = network->knobs.max_iov,
                                        .alignment = network->knobs.alignment,
                                        .posted = atomics,
                                        .fetching = atomics,
                                        .in_order = 1};
}

const struct cw_transport_access cw_sim_rdma_access = {
    .domain = &cw_sim_rdma_domain,
    .peer_domain = peer_domain,
    .put_short = put_short,
    .put_bcopy = put_bcopy,
    .put_zcopy = put_zcopy,
    .get_bcopy = get_bcopy,
    .get_zcopy = get_zcopy,
    .atomic = atomic,
    .flush = flush,
};
