/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rndv/chunk_table.h. Workers of several threads may share the chunks of one process, so a lock
 * guards the list of all chunks and their reference counts (`uses`). Invariant: a table holds one reference to each of
 * its chunks, and only the worker of its endpoint changes it.
 */
#include "rndv/chunk_table.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/lane_copies.h"
#include "msg/op_ep.h"
#include "os/lock.h"
#include "os/unix_socket.h"
#include "rndv/ipc.h"

/* Limit on the bytes of all chunks in this process, local and mapped; above it, chunks are freed once no message uses
 * them. */
#define MOST_RETAINED ((size_t)256 << 20)

struct cw_chunk_table {
    int is_here;
    int is_refused; /* this end failed to map a chunk of the peer */
    struct cw_chunk *out[CW_WIRE_CHUNKS];
    struct cw_chunk *in[CW_WIRE_CHUNKS];
};

static struct known {
    struct cw_lock lock;
    struct cw_list all;
    uint64_t last; /* number of the newest chunk */
    size_t bytes;
} known;

static struct cw_chunk_table *table_of(struct ucp_ep *ep)
{
    struct cw_op_ep *state = cw_op_ep(ep);

    if (state->chunks == NULL) {
        state->chunks = calloc(1, sizeof(*state->chunks));
        if (state->chunks != NULL) {
            state->chunks->is_here = cw_lane_process(ep->conn) == cw_memory_process();
        }
    }
    return state->chunks;
}

bool cw_chunk_is_here(struct ucp_ep *ep)
{
    const struct cw_chunk_table *table = table_of(ep);

    return table != NULL && table->is_here;
}

bool cw_chunk_has_path(struct ucp_ep *ep)
{
    const struct cw_chunk_table *table = table_of(ep);

    return table != NULL && !table->is_refused && (table->is_here || cw_lane_passes(ep->conn));
}

/* ---- chunks ---- */

/* Takes over the memory; the chunk starts with one reference. */
static struct cw_chunk *chunk_new(const struct cw_md *md, struct cw_memory *memory, int is_own)
{
    struct cw_chunk *chunk = malloc(sizeof(*chunk));

    if (chunk == NULL) {
        md->unshare(md, memory);
        return NULL;
    }
    *chunk = (struct cw_chunk){.md = md, .memory = *memory, .uses = 1, .is_own = (uint8_t)is_own};
    cw_lock_enter(&known.lock);
    if (known.all.next == NULL) {
        cw_list_init(&known.all);
    }
    cw_list_add_tail(&known.all, &chunk->link);
    chunk->number = ++known.last;
    known.bytes += chunk->memory.length;
    cw_lock_leave(&known.lock);
    return chunk;
}

/* Drops a reference; the last one frees. */
static void let_go(struct cw_chunk *chunk)
{
    int is_free;

    cw_lock_enter(&known.lock);
    is_free = --chunk->uses == 0;
    if (is_free) {
        cw_list_remove(&chunk->link);
        known.bytes -= chunk->memory.length;
    }
    cw_lock_leave(&known.lock);
    if (is_free) {
        chunk->md->unshare(chunk->md, &chunk->memory);
        free(chunk);
    }
}

static void use(struct cw_chunk *chunk, int is_lent)
{
    cw_lock_enter(&known.lock);
    chunk->uses++;
    chunk->is_lent = (uint8_t)is_lent;
    cw_lock_leave(&known.lock);
}

static bool are_too_many(void)
{
    return __atomic_load_n(&known.bytes, __ATOMIC_RELAXED) > MOST_RETAINED;
}

static void put_into(struct cw_chunk_table *table, struct cw_chunk **slots, unsigned slot, struct cw_chunk *chunk)
{
    slots[slot] = chunk;
    chunk->table = table;
    chunk->slot = (uint8_t)slot;
}

static void drop(struct cw_chunk **slot)
{
    struct cw_chunk *chunk = *slot;

    if (chunk != NULL) {
        *slot = NULL;
        chunk->table = NULL;
        let_go(chunk);
    }
}

void cw_chunk_ep_ended(struct ucp_ep *ep)
{
    struct cw_chunk_table *table = cw_op_ep(ep)->chunks;
    unsigned i;

    for (i = 0; table != NULL && i < CW_WIRE_CHUNKS; i++) {
        drop(&table->out[i]);
        drop(&table->in[i]);
    }
    free(table);
    cw_op_ep(ep)->chunks = NULL;
}

/* ---- the sender ---- */

static bool is_taken(const struct cw_chunk_table *table, unsigned slot)
{
    return slot == CW_WIRE_CHUNKS || table->out[slot] != NULL;
}

/* Returns the index of an unused chunk of at least that many bytes, or else an index for a new chunk, at worst that of
 * an unused chunk that is too short. CW_WIRE_CHUNKS: messages use all of them. */
static unsigned find_slot(const struct cw_chunk_table *table, const struct cw_md *md, size_t length)
{
    unsigned i, best = CW_WIRE_CHUNKS;

    for (i = 0; i < CW_WIRE_CHUNKS; i++) {
        const struct cw_chunk *chunk = table->out[i];

        if (chunk != NULL && !chunk->is_lent && chunk->md == md && chunk->memory.length >= length) {
            return i;
        }
        if (chunk == NULL ? is_taken(table, best) : (!chunk->is_lent && best == CW_WIRE_CHUNKS)) {
            best = i;
        }
    }
    return best;
}

/* Passes the descriptor to a peer in another process now, so that a chunk whose descriptor cannot be passed is never
 * used. */
static int pass(struct ucp_ep *ep, const struct cw_chunk_table *table, struct cw_chunk *chunk)
{
    chunk->passed = table->is_here ? 0 : cw_ipc_next_number();
    if (chunk->passed != 0 && !cw_lane_pass(ep->conn, chunk->passed, chunk->memory.fd)) {
        return 0;
    }
    cw_fd_close(chunk->memory.fd);
    chunk->memory.fd = -1;
    return 1;
}

static struct cw_chunk *make(struct ucp_ep *ep, const struct cw_chunk_table *table, const struct cw_md *md,
                             const void *device, size_t length)
{
    struct cw_chunk *chunk;
    struct cw_memory memory;

    if (md->share(md, device, length, &memory) != UCS_OK) {
        return NULL;
    }
    chunk = chunk_new(md, &memory, 1);
    if (chunk != NULL && !pass(ep, table, chunk)) {
        let_go(chunk);
        return NULL;
    }
    return chunk;
}

static int lends(const struct cw_chunk_table *table)
{
    unsigned i;

    for (i = 0; i < CW_WIRE_CHUNKS; i++) {
        if (table->out[i] != NULL && table->out[i]->is_lent) {
            return 1;
        }
    }
    return 0;
}

struct cw_chunk *cw_chunk_take(struct ucp_ep *ep, const struct cw_md *md, const void *device, size_t length,
                               int *wait_p)
{
    struct cw_chunk_table *table = table_of(ep);
    struct cw_chunk *chunk = NULL;
    unsigned slot;

    *wait_p = 0;
    if (table == NULL) {
        return NULL;
    }
    slot = find_slot(table, md, length);
    if (slot < CW_WIRE_CHUNKS) {
        chunk = table->out[slot];
        if (chunk == NULL || chunk->md != md || chunk->memory.length < length) {
            drop(&table->out[slot]);
            chunk = make(ep, table, md, device, length);
        }
    }
    if (chunk == NULL) {
        *wait_p = lends(table);
        return NULL;
    }
    put_into(table, table->out, slot, chunk);
    use(chunk, 1);
    return chunk;
}

void cw_chunk_rest(struct cw_chunk *chunk)
{
    cw_lock_enter(&known.lock);
    chunk->is_lent = 0;
    cw_lock_leave(&known.lock);
    if (chunk->table != NULL && (chunk->in_doubt || are_too_many())) {
        drop(&chunk->table->out[chunk->slot]);
    }
    let_go(chunk);
}

/* ---- the receiver ---- */

/* Returns the chunk of this process with that number, or NULL. */
static struct cw_chunk *find_here(uint64_t number)
{
    struct cw_chunk *chunk, *found = NULL;

    cw_lock_enter(&known.lock);
    cw_list_for_each(chunk, &known.all, struct cw_chunk, link)
    {
        if (chunk->number == number && chunk->is_own && chunk->is_lent) {
            found = chunk;
            found->uses++;
            break;
        }
    }
    cw_lock_leave(&known.lock);
    return found;
}

/* Later messages of the connection use packets from the start. */
static void refuse(struct cw_chunk_table *table)
{
    static int logged;

    table->is_refused = 1;
    if (!__atomic_exchange_n(&logged, 1, __ATOMIC_RELAXED)) {
        cw_warn(
            "cannot map and pin memory of another process for GPU transfers: the CPU copies them, which is several "
            "times slower; raise the limits of locked memory and of open files (ulimit -l, ulimit -n)");
    }
}

/* Maps the chunk whose descriptor was passed, and replaces the previous chunk of that index. */
static void map(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md, const void *device)
{
    struct cw_chunk_table *table = cw_op_ep(ep)->chunks;
    const unsigned slot = (unsigned)packet->chunk;
    int fd = cw_lane_take_fd(ep->conn, packet->passed);
    struct cw_chunk *chunk = NULL;
    struct cw_memory memory;

    drop(&table->in[slot]);
    if (fd >= 0) {
        if (md->map_shared(md, device, fd, packet->size, &memory) == UCS_OK) {
            chunk = chunk_new(md, &memory, 0);
        }
        cw_unix_discard(&fd);
    }
    if (chunk == NULL) {
        refuse(table);
    } else {
        put_into(table, table->in, slot, chunk);
    }
}

static ucs_status_t open_passed(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                                const void *device, struct cw_chunk **chunk_p)
{
    const struct cw_chunk_table *table = cw_op_ep(ep)->chunks;

    if (packet->chunk >= CW_WIRE_CHUNKS) {
        return UCS_ERR_IO_ERROR;
    }
    if (packet->passed != 0) {
        map(ep, packet, md, device);
    } else if (table->in[packet->chunk] == NULL || table->in[packet->chunk]->memory.length != packet->size) {
        return UCS_ERR_IO_ERROR;
    }
    *chunk_p = table->in[packet->chunk];
    if (*chunk_p == NULL || (*chunk_p)->md != md) {
        return UCS_ERR_UNREACHABLE;
    }
    use(*chunk_p, 0);
    return UCS_OK;
}

ucs_status_t cw_chunk_open(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet, const struct cw_md *md,
                           const void *device, struct cw_chunk **chunk_p)
{
    const struct cw_chunk_table *table = table_of(ep);

    *chunk_p = NULL;
    if (table == NULL) {
        return UCS_ERR_UNREACHABLE;
    }
    if (packet->length == 0 || packet->length > packet->size || packet->size > CW_WIRE_CHUNK_MOST) {
        return UCS_ERR_IO_ERROR;
    }
    if (!table->is_here) {
        return open_passed(ep, packet, md, device, chunk_p);
    }
    *chunk_p = find_here(packet->chunk);
    if (*chunk_p != NULL && ((*chunk_p)->md != md || (*chunk_p)->memory.length < packet->length)) {
        let_go(*chunk_p);
        *chunk_p = NULL;
    }
    return (*chunk_p == NULL) ? UCS_ERR_UNREACHABLE : UCS_OK;
}

int cw_chunk_close(struct cw_chunk *chunk)
{
    int keeps = 1;

    /* The table of a local chunk belongs to its sender, whose worker may run in another thread. */
    if (!chunk->is_own && chunk->table != NULL && are_too_many()) {
        drop(&chunk->table->in[chunk->slot]);
        keeps = 0;
    }
    let_go(chunk);
    return keeps;
}

void cw_chunk_discard(struct ucp_ep *ep, const struct cw_wire_rndv_chunk *packet)
{
    int fd = (packet->passed == 0) ? -1 : cw_lane_take_fd(ep->conn, packet->passed);

    cw_unix_discard(&fd);
}
