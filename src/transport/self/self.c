/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The self transport. Both ends of a connection are in one iface. While the iface's queue is empty the other end may
 * consume a packet within the send (upcall `consume`), so that the payload is copied once. Other packets are queued
 * until progress, and so is the completion of consumed ones: a callback never runs within a send. The queue is bounded:
 * if it is full, a send returns CW_AGAIN, and `space` follows.
 *
 * Copies are memory copies within this process. They trust the address, which comes from this process.
 */
#include "transport/self/self_transport.h"

#include <assert.h>
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

/* Events are cached for reuse: at most MAX_SPARE short ones of SMALL bytes of data, and longer ones of as many bytes in
 * total as fit into the queue. libc would return the memory of long ones to the system, and each new page costs a
 * fault, which takes longer than copying the page. */
#define SMALL           256u
#define MAX_SPARE       64u
#define MAX_SPARE_BYTES (QUEUE_MAX_BYTES + MAX_WHOLE)

enum event_kind { EVENT_PACKET, EVENT_HELLO, EVENT_CLOSED };

/* Shared by both ends, reference counted. */
struct pairs {
    struct cw_claim_pair pairs[2][CW_CLAIM_PAIRS]; /* [0]: those that the dialler allocates */
    unsigned references;
};

struct self_conn {
    struct cw_conn super;
    struct self_conn *peer;     /* NULL before the accept and after the peer's close */
    struct cw_list link;        /* iface->conns */
    struct event *last_event;   /* EVENT_CLOSED for this end, preallocated so that it cannot fail; NULL: it is queued */
    struct pairs *pairs;
    int is_dialler;
    int blocked;                /* a send returned CW_AGAIN */
};

struct event {
    struct cw_list link;        /* iface->queue */
    struct self_conn *target;
    size_t length;
    uint32_t space;             /* capacity of its data; 0: it is freed after use */
    uint8_t kind;
    uint8_t id;
    char data[];
};

struct self_iface {
    struct cw_iface super;
    struct cw_list queue;
    struct cw_list conns;
    struct event *spare;        /* short ones, linked through link.next */
    struct event *spare_long;   /* long ones, linked through link.next */
    unsigned num_spare;
    uint32_t spare_bytes;       /* total capacity of the long ones */
    size_t queued_bytes;
    int blocked;                /* some connection waits for space */
    uint8_t has_consumed;          /* progress must call `finish` for consumed packets; they are older than those in the
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
                     .latency_ns = 20,
                     .bandwidth_bps = 10e9,
                     .overhead_ns = 20}};
    cw_list_init(&iface->queue);
    cw_list_init(&iface->conns);
    *iface_p = &iface->super;
    return UCS_OK;
}

static struct event *next_spare(const struct event *event)
{
    return (struct event *)(void *)event->link.next;
}

static void free_spare(struct event *event)
{
    struct event *next;

    for (; event != NULL; event = next) {
        next = next_spare(event);
        free(event);
    }
}

static void self_close(struct cw_iface *super)
{
    struct self_iface *iface = cw_container_of(super, struct self_iface, super);
    struct cw_list *link;

    while ((link = cw_list_pop_head(&iface->queue)) != NULL) {
        free(cw_container_of(link, struct event, link));
    }
    free_spare(iface->spare);
    free_spare(iface->spare_long);
    free(iface);
}

/* Only the most recent long spare event is tried. If it is too short for the data it is freed, so the spare ones adapt
 * to the length of the data. */
static CW_NOINLINE struct event *event_make(struct self_iface *iface, size_t max)
{
    const size_t space = (max <= SMALL) ? SMALL : max;
    struct event *event = (max <= SMALL) ? NULL : iface->spare_long;

    if (event != NULL) {
        iface->spare_long = next_spare(event);
        iface->spare_bytes -= event->space;
        if (event->space >= max) {
            return event;
        }
        free(event);
    }
    event = malloc(sizeof(*event) + space);
    if (event != NULL) {
        event->space = (uint32_t)space;
    }
    return event;
}

static struct event *event_take(struct self_iface *iface, size_t max)
{
    struct event *event = iface->spare;

    if (event == NULL || max > SMALL) {
        return event_make(iface, max);
    }
    iface->spare = next_spare(event);
    iface->num_spare--;
    return event;
}

static CW_NOINLINE void event_put_long(struct self_iface *iface, struct event *event)
{
    if (event->space > MAX_SPARE_BYTES - iface->spare_bytes) {
        free(event);
        return;
    }
    event->link.next = (void *)iface->spare_long;
    iface->spare_long = event;
    iface->spare_bytes += event->space;
}

static void event_put(struct self_iface *iface, struct event *event)
{
    if (event->space > SMALL) {
        event_put_long(iface, event);
    } else if (event->space == 0 || iface->num_spare == MAX_SPARE) {
        free(event);
    } else {
        event->link.next = (void *)iface->spare;
        iface->spare = event;
        iface->num_spare++;
    }
}

static void queue_add(struct self_iface *iface, struct event *event)
{
    cw_iface_wake(&iface->super);
    cw_list_add_tail(&iface->queue, &event->link);
}

/* Appends an event with space for `max` bytes of data; NULL: no memory. */
static struct event *event_new(struct self_iface *iface, struct self_conn *target, enum event_kind kind, size_t max)
{
    struct event *event = event_take(iface, max);

    if (event != NULL) {
        event->target = target;
        event->kind = (uint8_t)kind;
        event->length = 0;
        queue_add(iface, event);
    }
    return event;
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
    struct event *event = malloc(sizeof(*event));
    struct pairs *pairs = pairs_get(peer);

    if (conn == NULL || event == NULL || pairs == NULL) {
        free(conn);
        free(event);
        pairs_put(pairs);
        return NULL;
    }
    *event = (struct event){.target = conn, .kind = EVENT_CLOSED};
    *conn = (struct self_conn){.super = {.iface = &iface->super, .user = user, .max_whole = MAX_WHOLE},
                          .peer = peer,
                          .last_event = event,
                          .pairs = pairs,
                          .is_dialler = (peer == NULL)};
    cw_list_add_tail(&iface->conns, &conn->link);
    return conn;
}

static void conn_free(struct self_conn *conn)
{
    cw_list_remove(&conn->link);
    pairs_put(conn->pairs);
    free(conn->last_event);
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
    event = event_new(iface, conn, EVENT_HELLO, hello_length);
    if (event == NULL) {
        conn_free(conn);
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(event->data, hello, hello_length);
    event->length = hello_length;
    *conn_p = &conn->super;
    return UCS_OK;
}

static int self_is_there(const struct cw_conn *super CW_UNUSED)
{
    return 1;
}

static void self_close_conn(struct cw_conn *super)
{
    struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);
    struct event *event, *next;

    cw_list_for_each_safe(event, next, &iface->queue, struct event, link) {
        if (event->target == conn) {
            iface->queued_bytes -= (event->kind == EVENT_PACKET) ? event->length : 0;
            cw_list_remove(&event->link);
            free(event);
        }
    }
    if (conn->peer != NULL) {
        conn->peer->peer = NULL;
        queue_add(iface, conn->peer->last_event);
        conn->peer->last_event = NULL;
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

static ucs_status_t queue_packed(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);
    ucs_status_t status = can_send(conn, iface);
    struct event *event;

    if (status != UCS_OK) {
        return status;
    }
    event = event_new(iface, conn->peer, EVENT_PACKET, max);
    if (event == NULL) {
        return again(conn, iface);
    }
    event->id = id;
    event->length = pack(event->data, max, arg);
    iface->queued_bytes += event->length;
    return UCS_OK;
}

static ucs_status_t self_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    ucs_status_t status = queue_packed(super, id, max, pack, arg);

    CW_PROBE(send_bcopy, SELF_WIRE_ID, max, (int)status);
    return status;
}

/* Whether the other end may consume a packet at once. */
static inline bool may_offer(const struct self_conn *conn, const struct self_iface *iface, uint8_t id)
{
    const struct cw_upcalls *upcalls = iface->super.upcalls;

    return id == upcalls->consume_id && cw_list_empty(&iface->queue) && upcalls->consume != NULL && conn->peer != NULL;
}

/* may_offer must hold. */
static inline bool offer(const struct self_conn *conn, struct self_iface *iface, uint64_t header, const void *payload,
                         size_t length)
{
    if (!iface->super.upcalls->consume(&conn->peer->super, header, payload, length)) {
        return false;
    }
    iface->has_consumed = 1;
    cw_iface_wake(&iface->super);
    CW_PROBE(send_short, SELF_WIRE_ID, sizeof(header) + length, UCS_OK);
    return true;
}

static bool self_hand_over(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    const struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);

    return may_offer(conn, iface, id) && offer(conn, iface, header, payload, length);
}

static CW_NOINLINE ucs_status_t queue_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload,
                                            size_t length)
{
    struct self_conn *conn = self_conn_of(super);
    struct self_iface *iface = iface_of(super);
    ucs_status_t status = can_send(conn, iface);
    struct event *event = NULL;

    if (status == UCS_OK) {
        event = event_new(iface, conn->peer, EVENT_PACKET, sizeof(header) + length);
        status = (event != NULL) ? UCS_OK : again(conn, iface);
    }
    CW_PROBE(send_short, SELF_WIRE_ID, sizeof(header) + length, (int)status);
    if (status != UCS_OK) {
        return status;
    }
    event->id = id;
    event->length = sizeof(header) + length;
    memcpy(event->data, &header, sizeof(header));
    cw_bytes_copy_short(event->data + sizeof(header), payload, length);
    iface->queued_bytes += event->length;
    return UCS_OK;
}

static CW_NOINLINE ucs_status_t offer_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload,
                                            size_t length)
{
    return offer(self_conn_of(super), iface_of(super), header, payload, length) ? UCS_OK :
           queue_short(super, id, header, payload, length);
}

static ucs_status_t self_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload,
                                    size_t length)
{
    return may_offer(self_conn_of(super), iface_of(super), id) ? offer_short(super, id, header, payload, length) :
           queue_short(super, id, header, payload, length);
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

/* Handles only the events queued before the call: events that upcalls add wait for the next round, so that progress
 * terminates. */
static CW_NOINLINE unsigned deliver(struct self_iface *iface)
{
    struct cw_iface *super = &iface->super;
    struct cw_list *last = iface->queue.prev;
    struct event *event;
    unsigned count = 0;
    int end = cw_list_empty(&iface->queue);

    super->woken = iface->has_consumed;
    while (!end) {
        event = cw_list_head(&iface->queue, struct event, link);
        end = (&event->link == last);
        cw_list_remove(&event->link);
        switch (event->kind) {
        case EVENT_PACKET:
            iface->queued_bytes -= event->length;
            super->upcalls->packet(&event->target->super, event->id, event->data, event->length);
            break;
        case EVENT_HELLO:
            take_hello(iface, event);
            break;
        default:
            super->upcalls->closed(&event->target->super, UCS_ERR_CONNECTION_RESET);
        }
        event_put(iface, event);
        count++;
    }
    if (iface->blocked && iface->queued_bytes < QUEUE_MAX_BYTES / 2) {
        give_space(iface);
        count++;
    }
    return count;
}

/* Finishes consumed packets before those that were queued behind them. */
static CW_NOINLINE unsigned finish_consumed(struct self_iface *iface)
{
    struct cw_iface *super = &iface->super;
    unsigned count;

    iface->has_consumed = 0;
    if (cw_list_empty(&iface->queue) && !iface->blocked) {
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
