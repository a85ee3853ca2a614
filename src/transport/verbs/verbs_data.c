/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets: each is one message with its id as immediate data, so the receive buffer holds exactly its bytes. Short
 * packets are sent inline, others are packed into registered memory.
 */
#include "transport/verbs/verbs_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/probe.h"

#define ID_MASK   0xffu
#define MOST_POST 64u
#define ENOUGH    16u /* receives posted in one call */

int cw_verbs_has_place(const struct cw_verbs_conn *conn)
{
    const struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    return conn->is_ready && conn->state == CW_VERBS_OPEN &&
           conn->posted - conn->completed < iface->settings.sends - CW_VERBS_RETAINED &&
           iface->in_flight < iface->most_in_flight;
}

CW_NOINLINE ucs_status_t cw_verbs_again(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn)
{
    if (cw_list_empty(&conn->blocked)) {
        cw_list_add_tail(&iface->blocked, &conn->blocked);
    }
    return CW_AGAIN;
}

/* Forces signaled completions on all connections, because some wait for segments or entries. */
static void hurry(struct cw_verbs_iface *iface)
{
    struct cw_verbs_conn *conn;

    iface->starved = 1;
    if (iface->hurried) {
        return;
    }
    iface->hurried = 1;
    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->state == CW_VERBS_OPEN) {
            cw_verbs_conn_nudge(conn);
        }
    }
}

/* Searches for a free entry when the queue seems to be full. */
static CW_NOINLINE ucs_status_t find_place(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn)
{
    if (conn->chain != NULL) {
        (void)cw_verbs_chain_send(conn);
    }
    if (conn->state >= CW_VERBS_FAILING) {
        return conn->status;
    }
    (void)cw_verbs_sent(iface);
    if (conn->state != CW_VERBS_OPEN && conn->state < CW_VERBS_FAILING && !cw_verbs_wake(conn)) {
        return cw_verbs_again(iface, conn);
    }
    if (conn->state >= CW_VERBS_FAILING) {
        return conn->status;
    }
    if (!cw_verbs_has_place(conn)) {
        if (iface->in_flight >= iface->most_in_flight) {
            hurry(iface);
        }
        return (conn->state >= CW_VERBS_FAILING) ? conn->status : cw_verbs_again(iface, conn);
    }
    return UCS_OK;
}

ucs_status_t cw_verbs_can_send(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn)
{
    return cw_likely(cw_verbs_has_place(conn)) ? UCS_OK : find_place(iface, conn);
}

/* No segment is free: signaled completions release some. */
static CW_NOINLINE struct cw_verbs_segment *find_segment(struct cw_verbs_iface *iface)
{
    struct cw_verbs_segment *segment;

    (void)cw_verbs_sent(iface);
    segment = cw_verbs_segment_get(iface);
    if (segment == NULL) {
        hurry(iface);
    }
    return segment;
}

ucs_status_t cw_verbs_segment_for(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn,
                                  struct cw_verbs_segment **segment_p)
{
    struct cw_verbs_segment *segment = iface->pool.free;

    if (cw_likely(segment != NULL)) {
        iface->pool.free = segment->next;
    } else {
        segment = find_segment(iface);
        if (segment == NULL) {
            return (conn->state >= CW_VERBS_FAILING) ? conn->status : cw_verbs_again(iface, conn);
        }
    }
    *segment_p = segment;
    return UCS_OK;
}

static ucs_status_t post(struct cw_verbs_conn *conn, uint8_t id, struct ibv_sge *sges, int num,
                         struct cw_verbs_segment *segment, unsigned flags)
{
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htobe32(id), .sg_list = sges, .num_sge = num, .send_flags = flags};

    return cw_verbs_conn_post(conn, &wr, segment, 0) ? UCS_OK : conn->status;
}

static ucs_status_t send_packed(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    ucs_status_t status = cw_verbs_can_send(iface, conn);
    struct cw_verbs_segment *segment = NULL;
    struct ibv_sge sge;
    size_t length;

    assert(max <= iface->settings.segment);
    if (status != UCS_OK) {
        return status;
    }
    status = cw_verbs_segment_for(iface, conn, &segment);
    if (segment == NULL) {
        return status;
    }
    length = pack(segment->data, max, arg);
    sge = (struct ibv_sge){.addr = (uintptr_t)segment->data, .length = (uint32_t)length, .lkey = segment->lkey};
    return post(conn, id, &sge, length > 0, segment, (length <= conn->max_inline) ? IBV_SEND_INLINE : 0);
}

static ucs_status_t verbs_send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    ucs_status_t status = send_packed(super, id, max, pack, arg);

    CW_PROBE(send_bcopy, CW_VERBS_WIRE_ID, max, (int)status);
    return status;
}

struct two_parts {
    uint64_t header;
    const void *payload;
    size_t length;
};

static size_t pack_two(void *dest, size_t max, void *arg)
{
    const struct two_parts *parts = arg;

    (void)max;
    memcpy(dest, &parts->header, sizeof(parts->header));
    if (parts->length > 0) {
        cw_bytes_copy_any((char *)dest + sizeof(parts->header), parts->payload, parts->length);
    }
    return sizeof(parts->header) + parts->length;
}

/* A short packet that the device does not take inline. */
static CW_NOINLINE ucs_status_t send_short_packed(struct cw_conn *super, uint8_t id, uint64_t header,
                                                  const void *payload, size_t length)
{
    struct two_parts parts = {.header = header, .payload = payload, .length = length};

    return send_packed(super, id, sizeof(header) + length, pack_two, &parts);
}

static ucs_status_t verbs_send_short(struct cw_conn *super, uint8_t id, uint64_t header, const void *payload,
                                     size_t length)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);
    ucs_status_t status;
    char *bytes;

    if (cw_unlikely(sizeof(header) + length > conn->max_inline)) {
        status = send_short_packed(super, id, header, payload, length);
    } else {
        status = cw_verbs_can_send(cw_verbs_iface_of(super), conn);
        if (cw_likely(status == UCS_OK)) {
            bytes = cw_verbs_next_bytes(conn);
            memcpy(bytes, &header, sizeof(header));
            cw_bytes_copy_short(bytes + sizeof(header), payload, length);
            status = cw_verbs_conn_post_short(conn, id, sizeof(header) + length) ? UCS_OK : conn->status;
        }
    }
    CW_PROBE(send_short, CW_VERBS_WIRE_ID, sizeof(header) + length, (int)status);
    return status;
}

static ucs_status_t flush(struct cw_conn *super, struct cw_completion *completion, int is_of_packets)
{
    struct cw_verbs_conn *conn = cw_verbs_conn_of(super);

    if (conn->state >= CW_VERBS_FAILING) {
        return (is_of_packets && conn->is_ended) ? UCS_OK : conn->status;
    }
    if (completion == NULL) {
        return (conn->num_flushes > 0 || conn->posted != conn->completed || conn->ops != NULL) ? UCS_INPROGRESS
                                                                                               : UCS_OK;
    }
    if (conn->posted == conn->completed && conn->ops == NULL &&
        (is_of_packets || conn->access_status == UCS_OK)) {
        return UCS_OK;
    }
    if (conn->num_flushes == CW_VERBS_FLUSHES) {
        return cw_verbs_again(cw_verbs_iface_of(super), conn);
    }
    if (conn->chain != NULL && !cw_verbs_chain_send(conn)) {
        return conn->status;
    }
    conn->flushes[conn->num_flushes++] =
        (struct cw_verbs_flush){.completion = completion, .until = conn->posted, .is_of_packets = is_of_packets};
    cw_verbs_conn_nudge(conn);
    if (conn->posted == conn->completed) {
        cw_verbs_conn_due(conn);
    }
    return UCS_INPROGRESS;
}

/* After its END the peer discards packets, so a flush of packets is complete. */
static ucs_status_t verbs_flush(struct cw_conn *super, struct cw_completion *completion)
{
    return flush(super, completion, 1);
}

ucs_status_t cw_verbs_flush_accesses(struct cw_conn *super, struct cw_completion *completion)
{
    return flush(super, completion, 0);
}

static int verbs_has_unsent(const struct cw_iface *super)
{
    return cw_container_of(super, const struct cw_verbs_iface, super)->in_flight > 0;
}

/* Another segment is posted instead. A program that retains packets must not starve the receive queue, or the sends of
 * others, of segments: when it retains half of them, or less than half of the receives are posted, it gets copies. */
static void *verbs_keep(struct cw_conn *super, const void *data)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(super);
    struct cw_verbs_segment *segment = iface->handed;

    if (segment == NULL || segment->data != data ||
        iface->retained >= (iface->settings.most_segments - iface->settings.receives) / 2 ||
        iface->receiving <= iface->settings.receives / 2) {
        return NULL;
    }
    iface->handed = NULL;
    iface->retained++;
    return segment;
}

static void verbs_give_back(struct cw_iface *super, void *retained)
{
    struct cw_verbs_iface *iface = cw_container_of(super, struct cw_verbs_iface, super);

    assert(iface->retained > 0);
    iface->retained--;
    cw_verbs_segment_put(iface, retained);
}

const struct cw_transport_packets cw_verbs_packets = {
    .send_short = verbs_send_short,
    .send_bcopy = verbs_send_bcopy,
    .send_registered = cw_verbs_send_registered,
    .batch = cw_verbs_batch,
    .flush = verbs_flush,
    .has_unsent = verbs_has_unsent,
    .keep = verbs_keep,
    .give_back = verbs_give_back,
};

/* The limit event is one-shot: it must be armed again. */
static void arm_limit_event(struct cw_verbs_iface *iface)
{
    struct ibv_srq_attr attr = {.srq_limit = 1};
    const int error = iface->lib->modify_srq(iface->srq, &attr, IBV_SRQ_LIMIT);

    if (error != 0) {
        cw_debug("%s cannot report when receives run out: %s", iface->port.name, strerror(error));
    }
}

static CW_NOINLINE void was_empty(struct cw_verbs_iface *iface)
{
    atomic_store_explicit(&iface->receives_ran_out, 0, memory_order_relaxed);
    if (iface->super.upcalls->receives_ran_out != NULL) {
        iface->super.upcalls->receives_ran_out(iface->super.owner);
    }
    arm_limit_event(iface);
}

void cw_verbs_refill(struct cw_verbs_iface *iface)
{
    struct ibv_recv_wr wrs[MOST_POST], *bad = NULL;
    struct ibv_sge sges[MOST_POST];
    struct cw_verbs_segment *segment;
    unsigned num = 0, i;
    int error;

    while (num < MOST_POST && num < iface->missing && (segment = cw_verbs_segment_get(iface)) != NULL) {
        sges[num] = (struct ibv_sge){
            .addr = (uintptr_t)segment->data, .length = (uint32_t)iface->settings.segment, .lkey = segment->lkey};
        wrs[num] = (struct ibv_recv_wr){
            .wr_id = (uintptr_t)segment, .next = &wrs[num + 1], .sg_list = &sges[num], .num_sge = 1};
        num++;
    }
    if (num == 0) {
        return;
    }
    wrs[num - 1].next = NULL;
    error = ibv_post_srq_recv(iface->srq, wrs, &bad);
    if (cw_unlikely(error != 0)) {
        for (i = (unsigned)(bad - wrs); i < num; i++) {
            cw_verbs_segment_put(iface, (struct cw_verbs_segment *)(uintptr_t)wrs[i].wr_id); /* NOLINT: our own */
        }
        num = (unsigned)(bad - wrs);
        errno = error;
        if (iface->receiving + num == 0 && iface->num_conns > 0) {
            cw_verbs_gone(iface, "cannot post receives");
        }
    }
    iface->missing -= num;
    iface->receiving += num;
    if (cw_unlikely(atomic_load_explicit(&iface->receives_ran_out, memory_order_relaxed))) {
        was_empty(iface);
    }
}

ucs_status_t cw_verbs_receive_begin(struct cw_verbs_iface *iface)
{
    struct ibv_srq_init_attr init = {.srq_context = iface,
                                     .attr = {.max_wr = iface->settings.receives, .max_sge = 1}};
    struct cw_verbs_segment *segment;
    int error;

    if (iface->srq != NULL) {
        return UCS_OK;
    }
    iface->srq = iface->lib->create_srq(iface->pd, &init);
    if (iface->srq == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->missing = iface->settings.receives;
    while (iface->missing > 0) {
        const unsigned before = iface->missing;

        cw_verbs_refill(iface);
        if (iface->missing == before) {
            break;
        }
    }
    /* if receives took every segment, sends would wait for one that nothing releases */
    segment = (iface->missing == 0) ? cw_verbs_segment_get(iface) : NULL;
    if (segment != NULL) {
        cw_verbs_segment_put(iface, segment);
        arm_limit_event(iface);
        return UCS_OK;
    }
    error = errno;
    (void)iface->lib->destroy_srq(iface->srq);
    cw_verbs_pool_free(iface);
    iface->srq = NULL;
    iface->missing = 0;
    iface->receiving = 0;
    errno = error;
    return UCS_ERR_NO_MEMORY;
}

static CW_NOINLINE void take_word(struct cw_verbs_conn *conn, uint32_t word)
{
    if (word == CW_VERBS_READY) {
        cw_verbs_conn_first(conn);
    } else if (word == CW_VERBS_END) {
        cw_verbs_conn_ended(conn);
    } else if (!cw_verbs_park_word(conn, word)) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, "the peer sent a malformed packet");
    }
}

/* `word` is untrusted. */
static unsigned take_packet(struct cw_verbs_iface *iface, struct cw_verbs_conn *conn, uint32_t word, const char *data,
                            size_t length)
{
    if (cw_unlikely(word == 0 || word > ID_MASK)) {
        take_word(conn, word);
        return 0;
    }
    if (conn->state < CW_VERBS_OPEN || conn->state > CW_VERBS_FAILING || !conn->is_ready) {
        return 0;
    }
    conn->is_used = 1;
    conn->handled++;
    iface->super.upcalls->packet(&conn->super, (uint8_t)word, data, length);
    return 1;
}

unsigned cw_verbs_received(struct cw_verbs_iface *iface, const struct ibv_wc *wc)
{
    struct cw_verbs_segment *segment = (struct cw_verbs_segment *)(uintptr_t)wc->wr_id; /* NOLINT: our own */
    struct cw_hash_link *link = cw_hash_find(&iface->by_qp, wc->qp_num);
    struct cw_verbs_conn *conn;
    unsigned count = 0;

    iface->handed = segment;
    conn = (link != NULL) ? cw_container_of(link, struct cw_verbs_conn, by_qp) : NULL;
    if (conn == NULL) {
        /* A completion of an earlier queue pair. */
    } else if (wc->status != IBV_WC_SUCCESS) {
        if (wc->status != IBV_WC_WR_FLUSH_ERR) {
            cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, iface->lib->wc_status_str(wc->status));
        }
    } else if (!(wc->wc_flags & IBV_WC_WITH_IMM) || wc->byte_len > iface->settings.segment) {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, "the peer sent a malformed packet");
    } else {
        count = take_packet(iface, conn, be32toh(wc->imm_data), segment->data, wc->byte_len);
    }
    if (iface->handed != NULL) {
        cw_verbs_segment_put(iface, segment);
        iface->handed = NULL;
    }
    iface->receiving--;
    iface->missing++;
    if (iface->missing >= ENOUGH) {
        cw_verbs_refill(iface);
    }
    return count;
}
