/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of the transport "sim" that reach into the peer's memory: copies, claim pairs, the arrival of placed
 * packets. All ends are in one process, so a copy is a plain copy; a sanitizer finds a core that copies from memory
 * which its peer has given up. Copies end with the peer's connection, and by the faults NO_COPIES and COPY.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "sim_network.h"

static struct cw_sim_network *world_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct cw_sim_iface, iface)->network;
}

static uint64_t peer_draw(struct cw_sim_network *network)
{
    return cw_hash_mix(network->seed ^ ++network->peer_draws * UINT64_C(0x9e3779b97f4a7c15));
}

int cw_sim_peer_chance(struct cw_sim_network *network, enum cw_sim_fault fault)
{
    if (peer_draw(network) % CW_SIM_ALWAYS >= network->knobs.chance[fault]) {
        return 0;
    }
    network->stats.faults[fault]++;
    return 1;
}

static int is_dead(const struct cw_sim_iface *iface)
{
    return iface == NULL || iface->death;
}

int cw_sim_peer_ready(struct cw_conn *base)
{
    const struct cw_sim_conn *conn = cw_sim_conn(base);
    const struct cw_sim_link *link = conn->link;
    const struct cw_sim_conn *peer = link->ends[1 - conn->side];

    return !conn->no_copies && conn->state != CW_SIM_BROKEN && !is_dead(link->ifaces[0]) && !is_dead(link->ifaces[1]) &&
           (conn->state == CW_SIM_DIALING || (peer != NULL && peer->state != CW_SIM_BROKEN));
}

/* Copies between the entries of `iov` and contiguous memory, at most `limit` bytes. */
static void copy(int writes, const struct iovec *iov, unsigned count, char *flat, size_t limit)
{
    size_t length;
    unsigned i;

    for (i = 0; i < count && limit > 0; i++) {
        length = (iov[i].iov_len < limit) ? iov[i].iov_len : limit;
        if (length > 0) {
            cw_bytes_move(writes ? flat : iov[i].iov_base, writes ? iov[i].iov_base : flat, length);
        }
        flat += length;
        limit -= length;
    }
}

static ucs_status_t peer_copy(struct cw_conn *base, int writes, const struct iovec *iov, unsigned count, uint64_t there)
{
    struct cw_sim_network *network = world_of(base);
    size_t length = 0;
    unsigned i;

    if (!cw_sim_peer_ready(base)) {
        return UCS_ERR_IO_ERROR;
    }
    for (i = 0; i < count; i++) {
        length += iov[i].iov_len;
    }
    if (cw_sim_peer_chance(network, CW_SIM_COPY)) {
        cw_sim_conn(base)->no_copies = 1;
        copy(writes, iov, count, (char *)(uintptr_t)there, (size_t)(peer_draw(network) % (length + 1)));
        return UCS_ERR_IO_ERROR;
    }
    copy(writes, iov, count, (char *)(uintptr_t)there, length);
    network->stats.copies++;
    return UCS_OK;
}

static int is_right(struct cw_conn *conn, const struct cw_validity *validity)
{
    cw_sim_must(validity != NULL || cw_sim_conn(conn)->state != CW_SIM_DIALING,
                "the peer's memory is asked for without a validity word before `opened`");
    return validity == NULL ||
           __atomic_load_n((const uint64_t *)(uintptr_t)validity->address, __ATOMIC_ACQUIRE) == validity->value;
}

ucs_status_t cw_sim_peer_read(struct cw_conn *base, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity)
{
    return is_right(base, validity) ? peer_copy(base, 0, to, count, from) : UCS_ERR_REJECTED;
}

ucs_status_t cw_sim_peer_write(struct cw_conn *base, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity)
{
    return is_right(base, validity) ? peer_copy(base, 1, from, count, to) : UCS_ERR_REJECTED;
}

struct cw_claim_pair *cw_sim_pair(struct cw_conn *base, int ours, unsigned index)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_link *link = conn->link;
    const size_t size = 2 * CW_CLAIM_PAIRS * sizeof(struct cw_claim_pair);
    void *pairs;

    cw_sim_must(index < CW_CLAIM_PAIRS, "a pair is asked for that does not exist");
    if (link->pairs == NULL) {
        pairs = aligned_alloc(_Alignof(struct cw_claim_pair), size);
        cw_sim_must(pairs != NULL, "there is no memory for pairs");
        link->pairs = (pairs != NULL) ? memset(pairs, 0, size) : NULL;
    }
    return &link->pairs[(ours ? conn->side : 1 - conn->side) * CW_CLAIM_PAIRS + index];
}

static size_t payload_of(const struct cw_sim_event *event)
{
    return event->length - CW_PLACE_HEADER;
}

/* Asks the core for the place of the payload. 0: the packet breaks the protocol. */
static int find_place(struct cw_sim_iface *iface, struct cw_sim_conn *conn, struct cw_sim_event *event)
{
    const struct cw_upcalls *upcalls = iface->iface.upcalls;
    struct cw_sim_target *target = event->target;
    size_t length = 0;
    unsigned i;

    cw_sim_must(upcalls->place != NULL, "a placed packet comes to a core without `place`");
    target->begun = 1;
    target->count = (upcalls->place == NULL) ? 0 :
                    upcalls->place(&conn->conn, event->id, event->data, payload_of(event), target->iov);
    cw_sim_must(target->count <= CW_PLACE_MAX_IOV, "`place` answers too many entries");
    for (i = 0; i < target->count; i++) {
        length += target->iov[i].iov_len;
    }
    cw_sim_must(target->count == 0 || length == payload_of(event), "`place` answers memory of another length");
    return target->count > 0;
}

/* Writes the payload up to `end`. */
static void fill_place(struct cw_sim_event *event, size_t end)
{
    struct cw_sim_target *target = event->target;
    size_t at = 0, from, to;
    unsigned i;

    for (i = 0; i < target->count; at += target->iov[i++].iov_len) {
        from = (target->done > at) ? target->done : at;
        to = at + target->iov[i].iov_len;
        to = (to < end) ? to : end;
        if (from < to) {
            cw_bytes_copy_any((char *)target->iov[i].iov_base + (from - at), event->data + CW_PLACE_HEADER + from,
                              to - from);
        }
    }
    target->done = end;
}

unsigned cw_sim_placed_step(struct cw_sim_iface *iface, struct cw_sim_event *event, int *over_p)
{
    struct cw_sim_network *network = iface->network;
    struct cw_sim_target *target = event->target;
    struct cw_sim_conn *conn = event->link->ends[event->side];
    unsigned done = 0;

    *over_p = 1;
    if (conn == NULL || conn->state != CW_SIM_OPEN) {
        return 0; /* the core has its memory back */
    }
    if (!target->begun) {
        if (!find_place(iface, conn, event)) {
            *over_p = (conn->state == CW_SIM_OPEN) ? -1 : 1; /* else the core abandoned it */
            return 1;
        }
        done = 1;
    } else if (event->time_ns >= target->end_ns) {
        fill_place(event, payload_of(event));
        network->stats.placed++;
        iface->iface.upcalls->placed(&conn->conn, event->id, event->data, payload_of(event));
        return 1;
    } else {
        fill_place(event, target->done + cw_sim_below(network, payload_of(event) - target->done + 1));
    }
    *over_p = 0;
    cw_sim_schedule(event, event->time_ns + cw_sim_below(network, target->end_ns - event->time_ns + 1));
    return done;
}
