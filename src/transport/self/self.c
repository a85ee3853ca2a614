/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The self transport. Both ends of a connection are in one iface. While the iface's queue is empty the other end may
 * consume a message within the call (slot `hand_over`, upcall `consume`), so that the payload is copied once. Packets
 * are queued until progress, and so is the completion of consumed messages: a callback never runs within a send. The
 * queue is bounded: if it is full, a send returns CW_AGAIN, and `space` follows.
 *
 * Copies are memory copies within this process. They trust the address, which comes from this process.
 */
#include "transport/self/self_transport.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/probe.h"
#include "os/memory.h"

#define SELF_WIRE_ID    1u
#define QUEUE_MAX_BYTES (1u << 20)
#define MAX_BCOPY       (32u << 10)
#define MAX_SHORT       (MAX_BCOPY - (uint32_t)sizeof(uint64_t))
#define MAX_WHOLE       (384u << 10)
#define COPIES_BREAK_EVEN ((16u << 10) + 1) /* there is no round trip; two copies of more leave the first cache */

/* Events lie one after the other in blocks. Payloads begin cache lines: longer ones are copied faster there, in and
 * out. The first one is far from the beginning of a page, where programs' buffers often are: processors delay a load
 * behind a store to another page at the same place. A block that is read is cached for reuse: libc would return the
 * memory of long ones to the system, and each new page costs a fault, which takes longer than copying the page. */
#define PAGE            4096u
#define FIRST_PAYLOAD   1024u
#define BLOCK_BYTES     (16u << 10)
#define MAX_SPARE_BYTES (QUEUE_MAX_BYTES + MAX_WHOLE)

enum event_kind { EVENT_PACKET, EVENT_HELLO };

/* Shared by both ends, reference counted. */
struct pairs {
    struct cw_claim_pair pairs[2][CW_CLAIM_PAIRS]; /* [0]: those that the dialler allocates */
    unsigned references;
};

struct self_conn {
    struct cw_conn super;
    struct self_conn *peer;     /* NULL before the accept and after the peer's close */
    struct cw_list link;        /* iface->conns */
    struct cw_list closed;      /* iface->closed, once the peer has closed; else empty */
    struct pairs *pairs;
    int is_dialler;
    int blocked;                /* a send returned CW_AGAIN */
};

struct event {
    struct self_conn *target;   /* NULL: it was closed */
    uint32_t length;
    uint32_t size;              /* up to the next event */
    uint8_t kind;
    uint8_t id;
    uint8_t offset;             /* of the packet in `data` */
    _Alignas(8) char data[];
};

struct block {
    struct block *next;
    uint32_t size;              /* of its events */
    uint32_t used;
    char unused[FIRST_PAYLOAD - CW_CACHE_LINE / 2 - sizeof(struct block *) - 2 * sizeof(uint32_t)];
    _Alignas(8) char events[];
};

_Static_assert(offsetof(struct block, events) + offsetof(struct event, data) + sizeof(uint64_t) == FIRST_PAYLOAD,
               "behind a header of 8 bytes");

struct self_iface {
    struct cw_iface super;
    struct block *first;        /* from here on there are events; NULL: there has never been one */
    struct block *last;         /* new events go here */
    uint32_t read;              /* bytes of `first` that are read */
    unsigned num_queued;
    size_t queued_bytes;        /* of packets */
    struct block *spare;
    size_t spare_bytes;
    struct cw_list closed;      /* ends to report as closed, after all events */
    struct cw_list conns;
    int blocked;                /* some connection waits for space */
    uint8_t has_consumed;       /* progress must call `finish` for consumed packets; they are older than those in the
                                 * queue */
};

static struct self_iface *iface_of(const struct cw_conn *conn)
{
    return cw_container_of(conn->iface, struct self_iface, super);
}

static struct self_conn *self_conn_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct self_conn, super);
}

static ucs_status_t self_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct self_iface *iface = malloc(sizeof(*iface));

    (void)params;
    if (iface == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *iface = (struct self_iface){
        .super.limits = {.max_short = MAX_SHORT,
                     .max_bcopy = MAX_BCOPY,
                     .copies_break_even = COPIES_BREAK_EVEN,
                     .latency_ns = 20,
                     .bandwidth_bps = 10e9,
                     .overhead_ns = 20}};
    cw_list_init(&iface->closed);
    cw_list_init(&iface->conns);
    *iface_p = &iface->super;
    return UCS_OK;
}

static void free_blocks(struct block *block)
{
    struct block *next;

    for (; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
}

static void self_close(struct cw_iface *super)
{
    struct self_iface *iface = cw_container_of(super, struct self_iface, super);

    free_blocks(iface->first);
    free_blocks(iface->spare);
    free(iface);
}

/* Only the most recent spare block is tried. If it is too short it is freed, so the spare ones adapt to the length of
 * the data. */
static struct block *take_block(struct self_iface *iface, uint32_t size)
{
    struct block *block = iface->spare;

    if (block != NULL) {
        iface->spare = block->next;
        iface->spare_bytes -= block->size;
        if (block->size >= size) {
            return block;
        }
        free(block);
    }
    block = aligned_alloc(PAGE, (sizeof(*block) + size + PAGE - 1) & ~(size_t)(PAGE - 1));
    if (block != NULL) {
        block->size = size;
    }
    return block;
}

static void put_block(struct self_iface *iface, struct block *block)
{
    if (block->size > MAX_SPARE_BYTES - iface->spare_bytes) {
        free(block);
        return;
    }
    block->next = iface->spare;
    iface->spare = block;
    iface->spare_bytes += block->size;
}

/* Appends a block for an event of that size. */
static CW_NOINLINE struct block *add_block(struct self_iface *iface, uint32_t size)
{
    struct block *block = take_block(iface, (size < BLOCK_BYTES) ? BLOCK_BYTES : size);

    if (block == NULL) {
        return NULL;
    }
    block->next = NULL;
    block->used = 0;
    if (iface->last == NULL) {
        iface->first = block;
    } else {
        iface->last->next = block;
    }
    iface->last = block;
    return block;
}

static uint32_t event_size(size_t length)
{
    return (uint32_t)(offsetof(struct event, data) + length + CW_CACHE_LINE - 1) & ~(CW_CACHE_LINE - 1u);
}

/* Appends an event with space for `max` bytes of data; NULL: no memory. The caller calls cw_iface_wake. */
static CW_INLINE struct event *event_new(struct self_iface *iface, struct self_conn *target, enum event_kind kind,
                                         uint8_t id, size_t max)
{
    const uint32_t size = event_size(max);
    struct block *block = iface->last;
    struct event *event;

    if (cw_unlikely(block == NULL || size > block->size - block->used)) {
        block = add_block(iface, size);
        if (block == NULL) {
            return NULL;
        }
    }
    event = (struct event *)(void *)(block->events + block->used);
    block->used += size;
    event->target = target;
    event->length = (uint32_t)max;
    event->size = size;
    event->kind = (uint8_t)kind;
    event->id = id;
    event->offset = 0;
    iface->num_queued++;
    return event;
}

/* The event has fewer bytes of data than it has space for. */
static void event_shrink(struct self_iface *iface, struct event *event, uint32_t length)
{
    struct block *block = iface->last;

    event->length = length;
    if ((char *)event + event->size == block->events + block->used) {
        block->used -= event->size;
        event->size = event_size(length);
        block->used += event->size;
    }
}

/* The event at iface->read, or at the beginning of the next block. */
static struct event *event_at(struct block **block, uint32_t *read)
{
    if (*read == (*block)->used) {
        *block = (*block)->next;
        *read = 0;
    }
    return (struct event *)(void *)((*block)->events + *read);
}

/* Removes the oldest event, of at least one; it is valid until the next call or queue_rewind. */
static CW_INLINE struct event *queue_pop(struct self_iface *iface)
{
    struct block *block = iface->first;
    struct event *event = event_at(&iface->first, &iface->read);

    if (cw_unlikely(iface->first != block)) {
        put_block(iface, block);
    }
    iface->read += event->size;
    iface->num_queued--;
    return event;
}

/* The queue is empty: the next event goes to the beginning of a block again. */
static CW_INLINE void queue_rewind(struct self_iface *iface)
{
    iface->read = 0;
    iface->last->used = 0;
}

/* The claim pairs that the peer has, or new ones. */
static struct pairs *pairs_get(struct self_conn *peer)
{
    struct pairs *pairs = (peer != NULL) ? peer->pairs : aligned_alloc(CW_CACHE_LINE, sizeof(*pairs));

    if (pairs != NULL && peer == NULL) {
        memset(pairs, 0, sizeof(*pairs));
    }
    if (pairs != NULL) {
        pairs->references++;
    }
    return pairs;
}

static void pairs_put(struct pairs *pairs)
{
    if (pairs != NULL && --pairs->references == 0) {
        free(pairs);
    }
}

static struct self_conn *conn_new(struct self_iface *iface, void *user, struct self_conn *peer)
{
    struct self_conn *conn = malloc(sizeof(*conn));
    struct pairs *pairs = pairs_get(peer);

    if (conn == NULL || pairs == NULL) {
        free(conn);
        pairs_put(pairs);
        return NULL;
    }
    *conn = (struct self_conn){.super = {.iface = &iface->super, .user = user, .max_whole = MAX_WHOLE},
                          .peer = peer,
                          .pairs = pairs,
                          .is_dialler = (peer == NULL)};
    cw_list_init(&conn->closed);
    cw_list_add_tail(&iface->conns, &conn->link);
    return conn;
}

static void conn_free(struct self_conn *conn)
{
    cw_list_remove(&conn->closed);
    cw_list_remove(&conn->link);
    pairs_put(conn->pairs);
    free(conn);
}

static ucs_status_t self_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                              size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct self_iface *iface = cw_container_of(super, struct self_iface, super);
    struct self_conn *conn;
    struct event *event;

    if (!cw_iface_is_own(super, address, address_length) || hello_length > CW_HELLO_MAX) {
        return UCS_ERR_UNREACHABLE;
    }
    conn = conn_new(iface, user, NULL);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    event = event_new(iface, conn, EVENT_HELLO, 0, hello_length);
    if (event == NULL) {
        conn_free(conn);
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(event->data, hello, hello_length);
    cw_iface_wake(&iface->super);
    *conn_p = &conn->super;
    return UCS_OK;
}

static int self_is_there(const struct cw_conn *super CW_UNUSED)
{
    return 1;
}

/* Events for the connection are skipped. */
static void forget_events(struct self_iface *iface, const struct self_conn *conn)
{
    struct block *block = iface->first;
    uint32_t read = iface->read;
    struct event *event;
    unsigned i;

    for (i = 0; i < iface->num_queued; i++) {
        event = event_at(&block, &read);
        read += event->size;
        if (event->target == conn) {
            iface->queued_bytes -= (event->kind == EVENT_PACKET) ? event->length : 0;
            event->target = NULL;
        }
    }
}

static void self_close_conn(struct cw_conn *super)
{
    struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);

    forget_events(iface, conn);
    if (conn->peer != NULL) {
        conn->peer->peer = NULL;
        cw_list_add_tail(&iface->closed, &conn->peer->closed);
        cw_iface_wake(&iface->super);
    }
    conn_free(conn);
}

static ucs_status_t again(struct self_conn *conn, struct self_iface *iface)
{
    conn->blocked = 1;
    iface->blocked = 1;
    cw_iface_wake(&iface->super);
    return CW_AGAIN;
}

static ucs_status_t can_send(struct self_conn *conn, struct self_iface *iface)
{
    if (conn->peer == NULL) {
        return UCS_ERR_CONNECTION_RESET;
    }
    return (iface->queued_bytes >= QUEUE_MAX_BYTES) ? again(conn, iface) : UCS_OK;
}

/* Queues a packet with space for `max` bytes. The caller adds to queued_bytes what it writes. */
static CW_INLINE ucs_status_t packet_new(struct self_conn *conn, struct self_iface *iface, uint8_t id, size_t max,
                                         struct event **event_p)
{
    ucs_status_t status = can_send(conn, iface);

    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    *event_p = event_new(iface, conn->peer, EVENT_PACKET, id, max);
    return cw_likely(*event_p != NULL) ? UCS_OK : again(conn, iface);
}

static ucs_status_t queue_packed(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct self_iface *iface = iface_of(super);
    struct event *event = NULL;
    ucs_status_t status = packet_new(self_conn_of(super), iface, id, max, &event);

    if (status != UCS_OK) {
        return status;
    }
    event_shrink(iface, event, (uint32_t)pack(event->data, max, arg));
    iface->queued_bytes += event->length;
    cw_iface_wake(&iface->super);
    return UCS_OK;
}

static ucs_status_t self_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    ucs_status_t status = queue_packed(super, id, max, pack, arg);

    CW_PROBE(send_bcopy, SELF_WIRE_ID, max, (int)status);
    return status;
}

static bool self_hand_over(struct cw_conn *super, uint64_t header, const void *payload, size_t length, bool may_store)
{
    const struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);

    if (iface->num_queued > 0 || conn->peer == NULL ||
        !iface->super.upcalls->consume(&conn->peer->super, header, payload, length, may_store)) {
        return false;
    }
    iface->has_consumed = 1;
    cw_iface_wake(&iface->super);
    CW_PROBE(send_short, SELF_WIRE_ID, sizeof(header) + length, UCS_OK);
    return true;
}

static ucs_status_t self_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload,
                                    size_t length)
{
    struct self_iface *iface = iface_of(super);
    struct event *event = NULL;
    ucs_status_t status = packet_new(self_conn_of(super), iface, id, sizeof(header) + length, &event);

    CW_PROBE(send_short, SELF_WIRE_ID, sizeof(header) + length, (int)status);
    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    memcpy(event->data, &header, sizeof(header));
    cw_bytes_copy_short(event->data + sizeof(header), payload, length);
    iface->queued_bytes += event->length;
    cw_iface_wake(&iface->super);
    return UCS_OK;
}

/* How far to move a packet so that its payload begins a cache line; by multiples of 8, so that the front part stays
 * aligned. */
static inline uint8_t space_before(size_t front_length)
{
    return (uint8_t)((0 - front_length) & (CW_CACHE_LINE - 1) & ~(size_t)7);
}

static ucs_status_t self_send_joined(struct cw_conn *super, uint8_t id, uint64_t header, const void *front,
                                     size_t front_length, const void *payload, size_t length)
{
    struct self_iface *iface = iface_of(super);
    const uint8_t offset = space_before(front_length);
    const size_t total = sizeof(header) + front_length + length;
    struct event *event = NULL;
    ucs_status_t status = packet_new(self_conn_of(super), iface, id, offset + total, &event);
    char *next;

    CW_PROBE(send_short, SELF_WIRE_ID, total, (int)status);
    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    event->offset = offset;
    event->length = (uint32_t)total;
    iface->queued_bytes += total;
    next = event->data + offset;
    memcpy(next, &header, sizeof(header));
    next += sizeof(header);
    cw_bytes_copy_part(next, front, front_length);
    cw_bytes_copy_short(next + front_length, payload, length);
    cw_iface_wake(&iface->super);
    return UCS_OK;
}

/* Regions may overlap: a program may receive into memory that it sends. Empty entries may have no address. */
static void copy(void *dest, const void *source, size_t length)
{
    if (length > 0) {
        cw_bytes_move(dest, source, length);
    }
}

static int self_peer_ready(struct cw_conn *super)
{
    return self_conn_of(super)->peer != NULL;
}

/* Registered memory of this process is accessed directly. A validity word that comes with a key of another process may
 * be no address here, so it is not read. */
static ucs_status_t self_peer_read(struct cw_conn *super, const struct iovec *to, unsigned count, uint64_t from,
                                   const struct cw_validity *validity)
{
    const char *source = (const char *)(uintptr_t)from;
    unsigned i;

    if (validity != NULL || !self_peer_ready(super)) {
        return (validity != NULL) ? UCS_ERR_REJECTED : UCS_ERR_IO_ERROR;
    }
    for (i = 0; i < count; i++) {
        copy(to[i].iov_base, source, to[i].iov_len);
        source += to[i].iov_len;
    }
    return UCS_OK;
}

static ucs_status_t self_peer_write(struct cw_conn *super, const struct iovec *from, unsigned count, uint64_t to,
                                    const struct cw_validity *validity)
{
    char *dest = (char *)(uintptr_t)to;
    unsigned i;

    if (validity != NULL || !self_peer_ready(super)) {
        return (validity != NULL) ? UCS_ERR_REJECTED : UCS_ERR_IO_ERROR;
    }
    for (i = 0; i < count; i++) {
        copy(dest, from[i].iov_base, from[i].iov_len);
        dest += from[i].iov_len;
    }
    return UCS_OK;
}

static struct cw_claim_pair *self_pair(struct cw_conn *super, int ours, unsigned index)
{
    struct self_conn *conn = self_conn_of(super);

    assert(index < CW_CLAIM_PAIRS);
    return &conn->pairs->pairs[(conn->is_dialler == !!ours) ? 0 : 1][index];
}

static void take_hello(struct self_iface *iface, struct event *event)
{
    struct self_conn *dialler = event->target;
    struct self_conn *acceptor = conn_new(iface, NULL, dialler);
    struct cw_conn *super = (acceptor != NULL) ? &acceptor->super : NULL;

    dialler->peer = acceptor;
    if (cw_conn_introduce(&dialler->super, super, event->data, event->length) != UCS_OK && acceptor != NULL) {
        dialler->peer = NULL;
        conn_free(acceptor);
    }
}

static void give_space(struct self_iface *iface)
{
    struct self_conn *conn, *next;

    iface->blocked = 0;
    cw_list_for_each_safe(conn, next, &iface->conns, struct self_conn, link) {
        if (conn->blocked) {
            conn->blocked = 0;
            iface->super.upcalls->space(&conn->super);
        }
    }
}

static unsigned report_closed(struct self_iface *iface, struct cw_list *closed)
{
    struct cw_list *link;
    struct self_conn *conn;
    unsigned count = 0;

    while ((link = cw_list_pop_head(closed)) != NULL) {
        conn = cw_container_of(link, struct self_conn, closed);
        cw_list_init(&conn->closed);
        iface->super.upcalls->closed(&conn->super, UCS_ERR_CONNECTION_RESET);
        count++;
    }
    return count;
}

static CW_NOINLINE unsigned deliver_other(struct self_iface *iface, struct event *event)
{
    if (event->target == NULL) {
        return 0;
    }
    take_hello(iface, event);
    return 1;
}

/* Handles only the events queued before the call: events that upcalls add wait for the next round, so that progress
 * terminates. */
static CW_INLINE unsigned deliver_events(struct self_iface *iface)
{
    struct cw_iface *super = &iface->super;
    unsigned left = iface->num_queued, count = 0;
    struct event *event;

    super->woken = iface->has_consumed;
    for (; left > 0; left--) {
        event = queue_pop(iface);
        if (cw_likely(event->kind == EVENT_PACKET && event->target != NULL)) {
            iface->queued_bytes -= event->length;
            super->upcalls->packet(&event->target->super, event->id, event->data + event->offset, event->length);
            count++;
        } else {
            count += deliver_other(iface, event);
        }
    }
    if (cw_likely(iface->num_queued == 0 && iface->last != NULL)) {
        queue_rewind(iface);
    }
    return count;
}

/* An end that was closed before the call is reported after all of its packets. */
static CW_NOINLINE unsigned deliver_all(struct self_iface *iface)
{
    struct cw_list closed;
    unsigned count;

    cw_list_init(&closed);
    cw_list_splice_tail(&closed, &iface->closed);
    count = deliver_events(iface) + report_closed(iface, &closed);
    if (iface->blocked && iface->queued_bytes < QUEUE_MAX_BYTES / 2) {
        give_space(iface);
        count++;
    }
    return count;
}

static CW_NOINLINE unsigned deliver(struct self_iface *iface)
{
    const bool only_events = cw_list_empty(&iface->closed) && !iface->blocked;

    return cw_likely(only_events) ? deliver_events(iface) : deliver_all(iface);
}

/* Finishes consumed packets before those that were queued behind them. */
static CW_NOINLINE unsigned finish_consumed(struct self_iface *iface)
{
    struct cw_iface *super = &iface->super;
    unsigned count;

    iface->has_consumed = 0;
    if (iface->num_queued == 0 && cw_list_empty(&iface->closed) && !iface->blocked) {
        super->woken = 0;
        return super->upcalls->finish(super->owner);
    }
    count = super->upcalls->finish(super->owner);
    return count + deliver(iface);
}

/* Called in each round, usually without work. */
static unsigned self_progress(struct cw_iface *super)
{
    struct self_iface *iface = cw_container_of(super, struct self_iface, super);

    if (!super->woken) {
        return 0;
    }
    return iface->has_consumed ? finish_consumed(iface) : deliver(iface);
}

static const struct cw_transport_connect self_connect = {
    .dial = self_dial,
    .is_there = self_is_there,
    .close_conn = self_close_conn,
};

static const struct cw_transport_packets self_packets = {
    .send_short = self_send_short,
    .send_joined = self_send_joined,
    .hand_over = self_hand_over,
    .send_bcopy = self_send_bcopy,
};

static uint32_t self_process(struct cw_conn *super CW_UNUSED)
{
    return cw_memory_process();
}

static const struct cw_transport_copies self_copies = {
    .ready = self_peer_ready,
    .read = self_peer_read,
    .write = self_peer_write,
    .pair = self_pair,
    .process = self_process,
};

const struct cw_transport cw_self_transport = {
    .name = "self",
    .wire_id = SELF_WIRE_ID,
    .device_class = CW_DEVICE_SELF,
    .connect = &self_connect,
    .packets = &self_packets,
    .copies = &self_copies,
    .open = self_open,
    .close = self_close,
    .progress = self_progress,
};
