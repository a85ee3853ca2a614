/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rndv/bounce_table.h. Workers of several threads may share the bounce buffers of one process, so a
 * lock guards the list of all bounce buffers and their reference counts (`uses`). Invariant: a table holds one
 * reference to each of its bounce buffers, and only the worker of its endpoint changes it.
 */
#include "rndv/bounce_table.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/lane_copies.h"
#include "msg/op_ep.h"
#include "os/lock.h"
#include "os/unix_socket.h"
#include "rndv/ipc.h"

/* Limit on the bytes of all bounce buffers in this process, local and mapped; above it, bounce buffers are freed once
 * no message uses them. */
#define MOST_RETAINED ((size_t)256 << 20)

struct cw_bounce_table {
    int is_here;
    int is_refused; /* this end failed to map a bounce buffer of the peer */
    struct cw_bounce *out[CW_WIRE_CHUNKS];
    struct cw_bounce *in[CW_WIRE_CHUNKS];
};

static struct known {
    struct cw_lock lock;
    struct cw_list all;
    uint64_t last; /* number of the newest bounce buffer */
    size_t bytes;
} known;

static struct cw_bounce_table *table_of(struct ucp_ep *ep)
{
    struct cw_op_ep *state = cw_op_ep(ep);

    if (state->bounce_table == NULL) {
        state->bounce_table = calloc(1, sizeof(*state->bounce_table));
        if (state->bounce_table != NULL) {
            state->bounce_table->is_here = cw_lane_process(ep->conn) == cw_memory_process();
        }
    }
    return state->bounce_table;
}

bool cw_bounce_is_here(struct ucp_ep *ep)
{
    const struct cw_bounce_table *table = table_of(ep);

    return table != NULL && table->is_here;
}

bool cw_bounce_has_path(struct ucp_ep *ep)
{
    const struct cw_bounce_table *table = table_of(ep);

    return table != NULL && !table->is_refused && (table->is_here || cw_lane_passes(ep->conn));
}

/* ---- bounce buffers ---- */

/* Takes over the memory; the bounce buffer starts with one reference. */
static struct cw_bounce *bounce_new(const struct cw_md *md, struct cw_memory *memory, int is_own)
{
    struct cw_bounce *bounce = malloc(sizeof(*bounce));

    if (bounce == NULL) {
        md->unshare(md, memory);
        return NULL;
    }
    *bounce = (struct cw_bounce){.md = md, .memory = *memory, .uses = 1, .is_own = (uint8_t)is_own};
    cw_lock_enter(&known.lock);
    if (known.all.next == NULL) {
        cw_list_init(&known.all);
    }
    cw_list_add_tail(&known.all, &bounce->link);
    bounce->number = ++known.last;
    known.bytes += bounce->memory.length;
    cw_lock_leave(&known.lock);
    return bounce;
}

/* Drops a reference; the last one frees. */
static void let_go(struct cw_bounce *bounce)
{
    int is_free;

    cw_lock_enter(&known.lock);
    is_free = --bounce->uses == 0;
    if (is_free) {
        cw_list_remove(&bounce->link);
        known.bytes -= bounce->memory.length;
    }
    cw_lock_leave(&known.lock);
    if (is_free) {
        bounce->md->unshare(bounce->md, &bounce->memory);
        free(bounce);
    }
}

static void use(struct cw_bounce *bounce, int is_lent)
{
    cw_lock_enter(&known.lock);
    bounce->uses++;
    bounce->is_lent = (uint8_t)is_lent;
    cw_lock_leave(&known.lock);
}

static bool are_too_many(void)
{
    return __atomic_load_n(&known.bytes, __ATOMIC_RELAXED) > MOST_RETAINED;
}

static void put_into(struct cw_bounce_table *table, struct cw_bounce **slots, unsigned slot, struct cw_bounce *bounce)
{
    slots[slot] = bounce;
    bounce->table = table;
    bounce->slot = (uint8_t)slot;
}

static void drop(struct cw_bounce **slot)
{
    struct cw_bounce *bounce = *slot;

    if (bounce != NULL) {
        *slot = NULL;
        bounce->table = NULL;
        let_go(bounce);
    }
}

void cw_bounce_ep_ended(struct ucp_ep *ep)
{
    struct cw_bounce_table *table = cw_op_ep(ep)->bounce_table;
    unsigned i;

    for (i = 0; table != NULL && i < CW_WIRE_CHUNKS; i++) {
        drop(&table->out[i]);
        drop(&table->in[i]);
    }
    free(table);
    cw_op_ep(ep)->bounce_table = NULL;
}

/* ---- the sender ---- */

static bool is_taken(const struct cw_bounce_table *table, unsigned slot)
{
    return slot == CW_WIRE_CHUNKS || table->out[slot] != NULL;
}

/* Returns the index of an unused bounce buffer of at least that many bytes, or else an index for a new bounce buffer,
 * at worst that of an unused bounce buffer that is too short. CW_WIRE_CHUNKS: messages use all of them. */
static unsigned find_slot(const struct cw_bounce_table *table, const struct cw_md *md, size_t length)
{
    unsigned i, best = CW_WIRE_CHUNKS;

    for (i = 0; i < CW_WIRE_CHUNKS; i++) {
        const struct cw_bounce *bounce = table->out[i];

        if (bounce != NULL && !bounce->is_lent && bounce->md == md && bounce->memory.length >= length) {
            return i;
        }
        if (bounce == NULL ? is_taken(table, best) : (!bounce->is_lent && best == CW_WIRE_CHUNKS)) {
            best = i;
        }
    }
    return best;
}

/* Passes the descriptor to a peer in another process now, so that a bounce buffer whose descriptor cannot be passed is
 * never used. */
static int pass(struct ucp_ep *ep, const struct cw_bounce_table *table, struct cw_bounce *bounce)
{
    bounce->passed = table->is_here ? 0 : cw_ipc_next_number();
    if (bounce->passed != 0 && !cw_lane_pass(ep->conn, bounce->passed, bounce->memory.fd)) {
        return 0;
    }
    cw_fd_close(bounce->memory.fd);
    bounce->memory.fd = -1;
    return 1;
}

static struct cw_bounce *make(struct ucp_ep *ep, const struct cw_bounce_table *table, const struct cw_md *md,
                              const void *device, size_t length)
{
    struct cw_bounce *bounce;
    struct cw_memory memory;

    if (md->share(md, device, length, &memory) != UCS_OK) {
        return NULL;
    }
    bounce = bounce_new(md, &memory, 1);
    if (bounce != NULL && !pass(ep, table, bounce)) {
        let_go(bounce);
        return NULL;
    }
    return bounce;
}

static int lends(const struct cw_bounce_table *table)
{
    unsigned i;

    for (i = 0; i < CW_WIRE_CHUNKS; i++) {
        if (table->out[i] != NULL && table->out[i]->is_lent) {
            return 1;
        }
    }
    return 0;
}

struct cw_bounce *cw_bounce_take(struct ucp_ep *ep, const struct cw_md *md, const void *device, size_t length,
                                 int *wait_p)
{
    struct cw_bounce_table *table = table_of(ep);
    struct cw_bounce *bounce = NULL;
    unsigned slot;

    *wait_p = 0;
    if (table == NULL) {
        return NULL;
    }
    slot = find_slot(table, md, length);
    if (slot < CW_WIRE_CHUNKS) {
        bounce = table->out[slot];
        if (bounce == NULL || bounce->md != md || bounce->memory.length < length) {
            drop(&table->out[slot]);
            bounce = make(ep, table, md, device, length);
        }
    }
    if (bounce == NULL) {
        *wait_p = lends(table);
        return NULL;
    }
    put_into(table, table->out, slot, bounce);
    use(bounce, 1);
    return bounce;
}

void cw_bounce_return(struct cw_bounce *bounce)
{
    cw_lock_enter(&known.lock);
    bounce->is_lent = 0;
    cw_lock_leave(&known.lock);
    if (bounce->table != NULL && (bounce->in_doubt || are_too_many())) {
        drop(&bounce->table->out[bounce->slot]);
    }
    let_go(bounce);
}

/* ---- the receiver ---- */

/* Returns the bounce buffer of this process with that number, or NULL. */
static struct cw_bounce *find_here(uint64_t number)
{
    struct cw_bounce *bounce, *found = NULL;

    cw_lock_enter(&known.lock);
    cw_list_for_each(bounce, &known.all, struct cw_bounce, link)
    {
        if (bounce->number == number && bounce->is_own && bounce->is_lent) {
            found = bounce;
            found->uses++;
            break;
        }
    }
    cw_lock_leave(&known.lock);
    return found;
}

/* Later messages of the connection use packets from the start. */
static void refuse(struct cw_bounce_table *table)
{
    static int logged;

    table->is_refused = 1;
    if (!__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED)) {
        cw_warn("cannot map and pin memory of another process for GPU transfers: the CPU copies them, which is several "
                "times slower; raise the limits of locked memory and of open files (ulimit -l, ulimit -n)");
    }
}

/* Maps the bounce buffer whose descriptor was passed, and replaces the previous bounce buffer of that index. */
static void map(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md, const void *device)
{
    struct cw_bounce_table *table = cw_op_ep(ep)->bounce_table;
    const unsigned slot = (unsigned)packet->chunk;
    int fd = cw_lane_take_fd(ep->conn, packet->passed);
    struct cw_bounce *bounce = NULL;
    struct cw_memory memory;

    drop(&table->in[slot]);
    if (fd >= 0) {
        if (md->map_shared(md, device, fd, packet->size, &memory) == UCS_OK) {
            bounce = bounce_new(md, &memory, 0);
        }
        cw_unix_discard(&fd);
    }
    if (bounce == NULL) {
        refuse(table);
    } else {
        put_into(table, table->in, slot, bounce);
    }
}

static ucs_status_t open_passed(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                                const void *device, struct cw_bounce **bounce_p)
{
    const struct cw_bounce_table *table = cw_op_ep(ep)->bounce_table;

    if (packet->chunk >= CW_WIRE_CHUNKS) {
        return UCS_ERR_IO_ERROR;
    }
    if (packet->passed != 0) {
        map(ep, packet, md, device);
    } else if (table->in[packet->chunk] == NULL || table->in[packet->chunk]->memory.length != packet->size) {
        return UCS_ERR_IO_ERROR;
    }
    *bounce_p = table->in[packet->chunk];
    if (*bounce_p == NULL || (*bounce_p)->md != md) {
        return UCS_ERR_UNREACHABLE;
    }
    use(*bounce_p, 0);
    return UCS_OK;
}

ucs_status_t cw_bounce_open(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                            const void *device, struct cw_bounce **bounce_p)
{
    const struct cw_bounce_table *table = table_of(ep);

    *bounce_p = NULL;
    if (table == NULL) {
        return UCS_ERR_UNREACHABLE;
    }
    if (packet->length == 0 || packet->length > packet->size || packet->size > CW_WIRE_CHUNK_MOST) {
        return UCS_ERR_IO_ERROR;
    }
    if (!table->is_here) {
        return open_passed(ep, packet, md, device, bounce_p);
    }
    *bounce_p = find_here(packet->chunk);
    if (*bounce_p != NULL && ((*bounce_p)->md != md || (*bounce_p)->memory.length < packet->length)) {
        let_go(*bounce_p);
        *bounce_p = NULL;
    }
    return (*bounce_p == NULL) ? UCS_ERR_UNREACHABLE : UCS_OK;
}

int cw_bounce_close(struct cw_bounce *bounce)
{
    int keeps = 1;

    /* The table of a local bounce buffer belongs to its sender, whose worker may run in another thread. */
    if (!bounce->is_own && bounce->table != NULL && are_too_many()) {
        drop(&bounce->table->in[bounce->slot]);
        keeps = 0;
    }
    let_go(bounce);
    return keeps;
}

void cw_bounce_discard(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet)
{
    int fd = (packet->passed == 0) ? -1 : cw_lane_take_fd(ep->conn, packet->passed);

    cw_unix_discard(&fd);
}
