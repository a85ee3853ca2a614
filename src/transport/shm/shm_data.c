/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives packets through the rings, and wakes a sleeping peer (docs/why/wakeup.md; modelled in test/model).
 */
#include "transport/shm/shm.h"

#include "base/bytes.h"
#include "base/log.h"
#include "base/probe.h"
#include "os/clock.h"

/* Packets of one connection per round, so that a busy peer does not starve the others. */
#define PACKETS_PER_ROUND 16u

/* Whether the peer sleeps or does not poll its ring (SHM_ATTENTION_*). */
static inline uint32_t wants_attention(const struct shm_conn *conn)
{
    return __atomic_load_n(&conn->tx.control->attention, __ATOMIC_RELAXED);
}

/* The consumer sets its flag, then reads the ring; the producer writes the ring, then reads the flag. Both have a full
 * fence in between, so at least one of them sees the other's store. */
static CW_COLD void ring_doorbell(struct cw_tx *tx)
{
    struct shm_conn *conn = cw_container_of(tx, struct shm_conn, tx.fast);
    const uint32_t attention = wants_attention(conn);
    uint32_t *flag = &conn->tx.control->consumer_sleeps;

    if (attention & SHM_ATTENTION_COLD) {
        cw_shm_ring(conn);
    }
    if (!(attention & SHM_ATTENTION_SLEEPS) || !conn->peer_sleeps) {
        return;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the fence in cw_shm_arm */
    if (cw_unlikely(__atomic_load_n(flag, __ATOMIC_RELAXED) != 0) &&
        __atomic_exchange_n(flag, 0, __ATOMIC_ACQ_REL) != 0) {
        cw_shm_wake(conn);
    }
}

void cw_shm_inbox(struct shm_iface *iface)
{
    const bool rung = iface->arrivals != NULL; /* then cw_shm_progress polls the doorbells */
    const bool alone = iface->num_hot == 1 && !iface->armed && iface->num_blocked == 0 && !iface->open[0]->hangup &&
                      !rung;
    const bool quiet = iface->num_hot == 0 && !iface->armed && !rung; /* then cw_shm_progress has no work */

    iface->super.inbox = quiet ? &iface->quiet : &cw_no_rx;
    if (alone) {
        iface->super.inbox = &iface->open[0]->rx.fast;
    }
}

struct cw_tx *cw_shm_tx(struct cw_conn *super)
{
    struct shm_conn *conn = shm_conn_of(super);

    conn->tx.fast.attention = &conn->tx.control->attention;
    conn->tx.fast.bell = ring_doorbell;
    return &conn->tx.fast;
}

static CW_COLD ucs_status_t no_space(struct shm_conn *conn, size_t length)
{
    if (conn->state != SHM_CONN_OPEN || conn->hangup) {
        return UCS_ERR_CONNECTION_RESET;
    }
    if (length > conn->wanted && length <= conn->super.max_whole) {
        conn->wanted = (uint32_t)length;
    }
    if (!conn->blocked) {
        cw_shm_warm(conn);
        conn->blocked = 1;
        cw_poller_wake(shm_iface_of(&conn->super)->poller); /* rearming sets producer_waits */
        shm_iface_of(&conn->super)->num_blocked++;
        cw_shm_inbox(shm_iface_of(&conn->super));
    }
    return CW_AGAIN;
}

/* Whether to grow the lap rather than end it: the end of a lap costs two cache misses on lines of the peer, which
 * packets of many lines would pay often. */
static bool grows_first(const struct shm_conn *conn, size_t length)
{
    return conn->tx.wants_more || (length > SHM_LEAD_FROM && conn->tx.bytes < conn->small_bytes);
}

/* Reads the consumer's position and searches for space again. Rare, and shows that the ring is in use. */
static CW_COLD int find_space(struct shm_conn *conn, size_t length)
{
    cw_shm_tx_poll(&conn->tx);
    cw_shm_trim_later(conn);
    cw_shm_consider(conn);
    if (shm_tx_is_in_head(&conn->tx)) {
        (void)(shm_has_space_here(&conn->tx, length) || cw_shm_tx_turn(&conn->tx, length));
    }
    return shm_has_space_here(&conn->tx, length) ||
           (grows_first(conn, length) && cw_shm_enlarge(conn, length)) ||
           cw_shm_tx_turn(&conn->tx, length) || cw_shm_enlarge(conn, length);
}

static inline bool has_space(struct shm_conn *conn, size_t length)
{
    return cw_likely(shm_has_space_here(&conn->tx, length)) || find_space(conn, length);
}

/* Writes the first line of the record last: the consumer polls it constantly, so each store to it has to fetch it
 * back. */
static inline void write_packet(struct shm_conn *conn, uint64_t header, const void *payload, size_t length)
{
    char *data = shm_reserve(&conn->tx, sizeof(header) + length);

    if (length > CW_BYTES_LONG) {
        cw_nt_copy(&conn->tx.nt, data + sizeof(header), payload, length);
    } else if (length > SHM_LEAD_FROM || length <= SHM_SHORT) {
        cw_bytes_copy_short(data + sizeof(header), payload, length);
    } else {
        CW_FORGET(length); /* within a known bound the compiler would copy by `rep movsq`, which starts slowly */
        cw_bytes_copy_any(data + CW_LINE_DATA, (const char *)payload + SHM_SHORT, length - SHM_SHORT);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        memcpy(data + sizeof(header), payload, SHM_SHORT);
    }
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    memcpy(data, &header, sizeof(header));
}

static inline void fetch_ahead(struct shm_conn *conn, size_t length)
{
    const bool answers = conn->rx.fast.line != conn->read_at_send;

    conn->read_at_send = conn->rx.fast.line;
    cw_shm_tx_fetch_ahead(&conn->tx, length, answers);
}

/* Sends a short packet of any length; CW_AGAIN if there is no space. */
static CW_NOINLINE ucs_status_t send_any(struct shm_conn *conn, uint8_t id, uint64_t header, const void *payload,
                                         size_t length)
{
    ucs_status_t status;

    if (cw_unlikely(conn->state != SHM_CONN_OPEN || conn->hangup ||
                    !has_space(conn, sizeof(header) + length))) {
        status = no_space(conn, sizeof(header) + length);
        CW_PROBE(send_short, SHM_WIRE_ID, sizeof(header) + length, (int)status);
        return status;
    }
    CW_PROBE(send_short, SHM_WIRE_ID, sizeof(header) + length, UCS_OK);
    write_packet(conn, header, payload, length);
    shm_publish(&conn->tx, sizeof(header) + length, id);
    fetch_ahead(conn, sizeof(header) + length);
    if (cw_unlikely(wants_attention(conn))) {
        ring_doorbell(&conn->tx.fast);
    }
    return UCS_OK;
}

/* The most frequent packets, of few bytes or none, are sent inline. */
ucs_status_t cw_shm_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct shm_conn *conn = shm_conn_of(super);
    char *data;

    if (cw_unlikely((length != sizeof(uint64_t) && length != 0) || conn->state != SHM_CONN_OPEN || conn->hangup ||
                    !shm_has_space_here(&conn->tx, CW_LINE_DATA))) {
        return send_any(conn, id, header, payload, length);
    }
    data = conn->tx.fast.line->data;
    memcpy(data, &header, sizeof(header));
    if (length != 0) {
        memcpy(data + sizeof(header), payload, sizeof(uint64_t));
    }
    CW_PROBE(send_short, SHM_WIRE_ID, sizeof(header) + length, UCS_OK); /* the length is known here */
    shm_publish_line(&conn->tx, sizeof(header) + length, id);
    if (cw_unlikely(wants_attention(conn))) {
        ring_doorbell(&conn->tx.fast);
    }
    return UCS_OK;
}

ucs_status_t cw_shm_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct shm_conn *conn = shm_conn_of(super);
    char *data, *place;
    ucs_status_t status;
    size_t length;

    if (cw_unlikely(conn->state != SHM_CONN_OPEN || conn->hangup || !has_space(conn, max))) {
        status = no_space(conn, max);
        CW_PROBE(send_bcopy, SHM_WIRE_ID, max, (int)status);
        return status;
    }
    data = shm_reserve(&conn->tx, max);
    length = pack(data, max, arg);
    place = shm_reserve(&conn->tx, length);
    if (cw_unlikely(place != data)) {
        cw_bytes_move(place, data, length); /* the packet is shorter than estimated, so the peer expects it at another
                                             * offset */
    }
    CW_PROBE(send_bcopy, SHM_WIRE_ID, length, UCS_OK);
    shm_publish(&conn->tx, length, id);
    fetch_ahead(conn, length);
    if (cw_unlikely(wants_attention(conn))) {
        ring_doorbell(&conn->tx.fast);
    }
    return UCS_OK;
}

CW_COLD void cw_shm_notify(struct shm_conn *conn)
{
    uint32_t *flag = &conn->rx.control->producer_waits;

    cw_shm_rx_notify(&conn->rx);
    if (conn->peer_sleeps) {
        __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the fence in cw_shm_arm */
        if (__atomic_load_n(flag, __ATOMIC_RELAXED) != 0 && __atomic_exchange_n(flag, 0, __ATOMIC_ACQ_REL) != 0) {
            cw_shm_wake(conn);
        }
    }
}

/* Publishes our position after many bytes were read. */
static CW_COLD void notify_far(struct shm_conn *conn)
{
    cw_shm_notify(conn);
    cw_shm_trim_later(conn);
}

/* Receives a packet of several lines; 0: its length is invalid. */
static CW_NOINLINE int receive_longer(struct shm_conn *conn, uint64_t word)
{
    const uint32_t length = cw_rx_length(word);

    if (cw_unlikely(!shm_is_inside(&conn->rx, length))) { /* the peer's longest packet may differ from ours */
        cw_error("closing the connection to a peer on this machine: invalid packet of %u bytes in its ring", length);
        cw_shm_conn_broken(conn, UCS_ERR_IO_ERROR);
        return 0;
    }
    conn->super.iface->upcalls->packet(&conn->super, cw_rx_id(word), shm_data(&conn->rx, length), length);
    shm_advance(&conn->rx, length);
    return 1;
}

/* Delivers the packets in the ring; `word` is that of the first. */
static CW_NOINLINE unsigned receive(const struct cw_upcalls *upcalls, struct shm_conn *conn, uint64_t word)
{
    unsigned count = 0;
    const void *data;

    cw_tx_answers(&conn->tx.fast);
    do {
        count++;
        if (cw_likely(cw_rx_length(word) <= CW_LINE_DATA && conn->rx.fast.line < conn->rx.end)) {
            data = cw_rx_pop(&conn->rx.fast, word);
            upcalls->packet(&conn->super, cw_rx_id(word), data, cw_rx_length(word));
            cw_rx_passed(&conn->rx.fast);
        } else if (!receive_longer(conn, word)) {
            break;
        }
        if (cw_unlikely(cw_rx_should_notify(&conn->rx.fast))) {
            notify_far(conn);
        }
    } while (count < PACKETS_PER_ROUND && (word = shm_peek(&conn->rx)) != 0);
    return count;
}

/* Whether the packet that got CW_AGAIN fits now, and also any packet of max_bcopy bytes. */
static bool has_wanted_space(struct shm_conn *conn)
{
    const size_t max = conn->super.iface->limits.max_bcopy;

    return has_space(conn, (conn->wanted > max) ? conn->wanted : max);
}

static unsigned give_space(struct shm_iface *iface)
{
    struct shm_conn *conn;
    unsigned count = 0, i;

    for (i = 0; i < iface->num_hot; i++) {
        conn = iface->open[i];
        if (conn->blocked && has_wanted_space(conn)) {
            conn->blocked = 0;
            conn->wanted = 0;
            iface->num_blocked--;
            cw_shm_inbox(iface);
            iface->super.upcalls->space(&conn->super);
            count++;
        }
    }
    return count;
}

static CW_COLD void disarm(struct shm_iface *iface)
{
    unsigned i;

    iface->armed = 0;
    for (i = 0; i < iface->num_hot; i++) {
        __atomic_store_n(&iface->open[i]->rx.control->consumer_sleeps, 0, __ATOMIC_RELAXED);
    }
    cw_shm_inbox(iface);
}

static CW_NOINLINE unsigned progress_all(struct shm_iface *iface)
{
    struct shm_conn *conn;
    unsigned count = 0, i;
    uint64_t word;

    if (cw_unlikely(iface->armed)) {
        disarm(iface);
    }
    for (i = 0; i < iface->num_hot; i++) {
        conn = iface->open[i];
        if (cw_unlikely(cw_rx_should_notify(&conn->rx.fast))) {
            notify_far(conn); /* for packets that the core received on the fast path */
        }
        word = shm_peek(&conn->rx);
        if (word != 0) {
            /* a connection that breaks is replaced by the last one, which is polled in the next round */
            count += receive(iface->super.upcalls, conn, word);
        } else if (cw_unlikely(conn->hangup)) {
            cw_shm_conn_broken(conn, UCS_ERR_CONNECTION_RESET); /* the ring is drained */
            count++;
        }
    }
    if (cw_unlikely(iface->num_blocked > 0)) {
        count += give_space(iface);
    }
    return count;
}

/* Fast path for one peer and no special condition, where latency counts most. */
unsigned cw_shm_progress(struct cw_iface *super)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);
    struct shm_conn *conn;
    uint64_t word;

    if (cw_unlikely(iface->arrivals != NULL) && cw_shm_bell_rang(iface)) {
        cw_shm_bell_answer(iface);
    }
    if (cw_likely(iface->num_hot == 1 && !iface->armed && iface->num_blocked == 0)) {
        conn = iface->open[0];
        word = shm_peek(&conn->rx);
        if (word != 0 && !cw_rx_should_notify(&conn->rx.fast)) {
            return receive(super->upcalls, conn, word);
        }
        if (cw_likely(!conn->hangup && !cw_rx_should_notify(&conn->rx.fast))) {
            return 0;
        }
    } else if (iface->num_hot == 0 && !iface->armed) {
        return 0;
    }
    return progress_all(iface);
}

ucs_status_t cw_shm_arm(struct cw_iface *super)
{
    struct shm_iface *iface = cw_container_of(super, struct shm_iface, super);
    struct shm_conn *conn;
    unsigned i;

    iface->armed = 1;
    cw_shm_inbox(iface);
    for (i = 0; i < iface->num_hot; i++) {
        conn = iface->open[i];
        __atomic_store_n(&conn->rx.control->consumer_sleeps, 1, __ATOMIC_RELAXED);
        if (conn->blocked) {
            __atomic_store_n(&conn->tx.control->producer_waits, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the fences in ring_doorbell and cw_shm_notify */
    for (i = 0; i < iface->num_hot; i++) {
        conn = iface->open[i];
        if (shm_peek(&conn->rx) != 0 || conn->hangup ||
            (conn->blocked && has_wanted_space(conn))) {
            disarm(iface);
            return UCS_ERR_BUSY;
        }
    }
    return UCS_OK;
}
