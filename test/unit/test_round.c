/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one endpoint may make one round of progress do, whatever its peer asks for and however fast that reads
 * (docs/reference/bounds.md "The cost of a packet"): pieces of few bytes are a breach, small and long ones are sent
 * within a bound of packets and of bytes, gets, copies and the credit of a stream likewise. All of it is sent in the
 * end.
 */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "api/dispatch.h"
#include "core/ep_round.h"
#include "core/mem_table.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "rndv/shares.h"
#include "stream/stream.h"
#include "test_alone.h"
#include "test_fake.h"
#include "transport/transport.h"
#include "wire/packet.h"
#include "wire/rma.h"

enum { MAX_PACKET = 60000, LONG = 64 << 20, ROUND_PACKETS = CW_EP_ROUND_BYTES / CW_EP_PIECE_BYTES,
       BEYOND = 512 << 10 /* one turn may go beyond the bound */, MANY = 200 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static struct cw_iface *real_iface;
static struct cw_iface fake_iface;
static struct cw_claim_pair pairs[CW_CLAIM_PAIRS];
static char *memory;
static uint64_t last_send_id;
static uint64_t packets, bytes;     /* of data, and copied, since the last check */
static uint64_t all_bytes;
static const ucp_request_param_t none;

/* ---- a connection that takes everything, and a peer whose memory takes and gives everything ---- */

static void note(uint8_t id, const void *packet, size_t length)
{
    if (id == CW_PACKET_RNDV_DATA || id == CW_PACKET_STREAM_DATA) {
        length -= (id == CW_PACKET_RNDV_DATA) ? 16 : 8;
        packets += 1;
        bytes += length;
        all_bytes += length;
    } else if (id == CW_PACKET_TAG_RTS) {
        memcpy(&last_send_id, (const char *)packet + offsetof(struct cw_wire_tag_rts, rts.send_id), 8);
    }
}

static ucs_status_t fake_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    (void)conn, (void)header, (void)payload;
    note(id, NULL, 8 + length);
    return UCS_OK;
}

static ucs_status_t fake_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    static char packet[MAX_PACKET];

    (void)conn;
    assert_true(max <= sizeof(packet));
    note(id, packet, pack(packet, max, arg));
    return UCS_OK;
}

static int fake_peer_ready(struct cw_conn *conn)
{
    (void)conn;
    return 1;
}

static ucs_status_t fake_peer_copy(struct cw_conn *conn, const struct iovec *iov, unsigned count, uint64_t there,
                                   const struct cw_validity *validity)
{
    (void)conn, (void)there, (void)validity;
    packets++;
    for (unsigned i = 0; i < count; i++) {
        bytes += iov[i].iov_len;
        all_bytes += iov[i].iov_len;
    }
    return UCS_OK;
}

static struct cw_claim_pair *fake_pair(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn, (void)ours;
    return &pairs[index];
}

static const struct cw_transport_copies fake_peer = {
    .ready = fake_peer_ready, .read = fake_peer_copy, .write = fake_peer_copy, .pair = fake_pair};

/* ---- a fresh endpoint for each test ---- */

/* `copies`: memory of the other side is reached. */
static void begin(int copies)
{
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    real_iface = ep->conn->iface;
    fake_iface = *real_iface;
    fake_tables(real_iface, &fake_iface);
    fake_packets.send_short = fake_short;
    fake_packets.send_bcopy = fake_bcopy;
    fake_packets.send_zcopy = NULL;
    fake_packets.send_placed = NULL;
    fake_packets.batch = NULL;
    fake_transport.copies = copies ? &fake_peer : NULL;
    fake_iface.limits.max_bcopy = MAX_PACKET;
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_placed = 0;
    ep->conn->iface = &fake_iface;
    packets = bytes = all_bytes = 0;
}

static void end(int lives)
{
    assert_int_equal(ep->state == CW_EP_FAILED, !lives);
    if (ep->conn != NULL) {
        ep->conn->iface = real_iface;
    }
    for (int i = 0; i < 100; i++) {
        ucp_worker_progress(worker);
    }
    cw_alone_end(worker, ep);
}

static void feed(uint8_t id, const void *packet, size_t length)
{
    if (ep->conn != NULL) {
        cw_op_packet(ep->conn, id, packet, length);
    }
}

/* One round of progress does something, and not more than it may; how many packets or shares. */
static uint64_t one_round(void)
{
    const uint64_t done = (packets = bytes = 0, ucp_worker_progress(worker), packets);

    assert_in_range(done, 0, ROUND_PACKETS + BEYOND / CW_EP_PIECE_BYTES);
    assert_in_range(bytes, 0, CW_EP_ROUND_BYTES + BEYOND);
    return done;
}

static void rounds_until(uint64_t total, unsigned least)
{
    unsigned rounds = 0;

    while (all_bytes < total) {
        assert_true(one_round() > 0);
        rounds++;
    }
    assert_int_equal(all_bytes, total);
    assert_in_range(rounds, least, 4 * least + 4);
}

/* ---- pieces of an announced message ---- */

static ucs_status_ptr_t announce(size_t length)
{
    const ucs_status_ptr_t request = ucp_tag_send_nbx(ep, memory, length, 5, &none);

    assert_true(UCS_PTR_IS_PTR(request));
    return request;
}

static void feed_ready(enum cw_wire_rndv_mode mode, uint32_t piece, uint32_t pair)
{
    const struct cw_wire_rndv_ready ready = {.send_id = last_send_id,
                                          .receive_id = htole64(77),
                                          .address = (mode == CW_WIRE_RNDV_COPY) ? htole64(4096) : 0,
                                          .mode = htole32((uint32_t)mode),
                                          .piece = htole32(piece),
                                          .pair = htole32(pair),
                                          .generation = htole32(1)};

    feed(CW_PACKET_RNDV_READY, &ready, sizeof(ready));
}

TEST(test_pieces_that_are_too_small)
{
    static const uint32_t sizes[] = {0, 1, 2, CW_WIRE_LEAST_PIECE - 1};
    ucs_status_ptr_t request;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        begin(0);
        request = announce(100000);
        feed_ready(CW_WIRE_RNDV_SEND, sizes[i], 0);
        end(0);
        assert_int_equal(all_bytes, 0);
        assert_true(cw_alone_wait(worker, request) < 0);
    }
}

TEST(test_small_pieces)
{
    const size_t length = 8 << 20;
    ucs_status_ptr_t request;

    begin(0);
    request = announce(length);
    feed_ready(CW_WIRE_RNDV_SEND, CW_WIRE_LEAST_PIECE, 0);
    rounds_until(length, (unsigned)(length / CW_WIRE_LEAST_PIECE / ROUND_PACKETS));
    assert_int_equal(cw_alone_wait(worker, request), UCS_OK);
    end(1);
}

/* A peer that reads as fast as it is sent to. */
TEST(test_long_pieces)
{
    ucs_status_ptr_t request;

    begin(0);
    request = announce(LONG);
    feed_ready(CW_WIRE_RNDV_SEND, UINT32_MAX, 0);
    rounds_until(LONG, LONG / CW_EP_ROUND_BYTES);
    assert_int_equal(cw_alone_wait(worker, request), UCS_OK);
    end(1);
}

/* ---- gets ---- */

static ucp_mem_h map(void)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = memory, .length = LONG};
    ucp_mem_h memh;

    assert_int_equal(ucp_mem_map(context, &params, &memh), UCS_OK);
    return memh;
}

static void feed_get(ucp_mem_h memh, uint64_t length, uint32_t piece)
{
    const struct cw_wire_get packet = {.token = htole64(memh->key.token),
                                  .address = htole64((uint64_t)(uintptr_t)memory),
                                  .length = htole64(length),
                                  .receive_id = htole64(77),
                                  .piece = htole32(piece)};

    feed(CW_PACKET_GET, &packet, sizeof(packet));
}

TEST(test_gets)
{
    const uint64_t length = 1 << 20;
    ucp_mem_h memh = map();

    for (uint32_t piece = 0; piece < CW_WIRE_LEAST_PIECE; piece += CW_WIRE_LEAST_PIECE - 1) {
        begin(0);
        feed_get(memh, length, piece);
        end(0);
        assert_int_equal(all_bytes, 0);
    }
    begin(0);
    for (int i = 0; i < MANY; i++) {
        feed_get(memh, length, UINT32_MAX);
    }
    rounds_until(MANY * length, (unsigned)(MANY * length / CW_EP_ROUND_BYTES));
    end(1);
    begin(0);
    for (int i = 0; i < 4; i++) {
        feed_get(memh, length, CW_WIRE_LEAST_PIECE);
    }
    rounds_until(4 * length, (unsigned)(4 * length / CW_WIRE_LEAST_PIECE / ROUND_PACKETS));
    end(1);
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
}

/* ---- copies ---- */

TEST(test_shares_that_are_too_long)
{
    ucs_status_ptr_t request;

    begin(1);
    request = announce(LONG);
    feed_ready(CW_WIRE_RNDV_COPY, CW_CLAIM_MAX_SHARE + 1, 0);
    end(0);
    assert_true(cw_alone_wait(worker, request) < 0);
}

/* As many copies at a time as there are claim pairs. */
TEST(test_a_pair_is_of_one_copy)
{
    ucs_status_ptr_t requests[2];
    struct cw_wire_rndv_done done = {.status = 0};

    for (int over = 0; over < 2; over++) {
        begin(1);
        memset(pairs, 0, sizeof(pairs));
        cw_claim_begin(&pairs[3].claim, &pairs[3].done, 1);
        requests[0] = announce(LONG);
        feed_ready(CW_WIRE_RNDV_COPY, 128 << 10, 3);
        (void)one_round();
        done.send_id = last_send_id;
        requests[1] = announce(LONG);
        if (over) { /* the receiver has all of the first one */
            feed(CW_PACKET_RNDV_DONE, &done, sizeof(done));
            assert_int_equal(cw_alone_wait(worker, requests[0]), UCS_OK);
        }
        feed_ready(CW_WIRE_RNDV_COPY, 128 << 10, 3);
        end(over);
        assert_true(over || cw_alone_wait(worker, requests[0]) < 0);
        assert_true(cw_alone_wait(worker, requests[1]) < 0);
    }
}

/* Announced messages that match many receives are copied by all of them in turn. */
TEST(test_copies_of_many_receives)
{
    const uint64_t length = 1 << 20;
    const struct cw_wire_tag_rts empty = {.tag = 0};
    ucs_status_ptr_t receives[MANY];
    struct cw_wire_tag_rts rts;
    char *in = malloc(length);

    assert_non_null(in);
    begin(1);
    for (uint64_t i = 0; i < MANY; i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in, length, 1000 + i, UINT64_MAX, &none);
        rts = empty;
        rts.tag = htole64(1000 + i);
        rts.rts = (struct cw_wire_rts){.length = htole64(length), .send_id = htole64(i + 1),
                                       .address = htole64(4096)};
        feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
    }
    rounds_until(MANY * length, (unsigned)(MANY * length / CW_EP_ROUND_BYTES));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(cw_alone_wait(worker, receives[i]), UCS_OK);
    }
    end(1);
    free(in);
}

/* ---- the credit of a stream ---- */

static void feed_credit(uint64_t consumed)
{
    consumed = htole64(consumed);
    feed(CW_PACKET_STREAM_CREDIT, &consumed, sizeof(consumed));
}

TEST(test_credit_byte_by_byte)
{
    enum { CREDITS = 100, HELD = 20000 };
    ucs_status_ptr_t *requests = calloc(HELD, sizeof(*requests));
    unsigned polls = 0;

    begin(0);
    while (cw_op_ep(ep)->stream == NULL || cw_op_ep(ep)->stream->sent < CW_STREAM_WINDOW) {
        assert_int_equal(cw_alone_wait(worker, ucp_stream_send_nbx(ep, memory, 8192, &none)), UCS_OK);
    }
    for (int i = 0; i < HELD; i++) {
        requests[i] = ucp_stream_send_nbx(ep, memory, 4, &none);
        assert_true(UCS_PTR_IS_PTR(requests[i]));
    }
    packets = bytes = 0;
    for (uint64_t i = 1; i <= CREDITS; i++) {
        feed_credit(i);
    }
    assert_int_equal(packets, 0); /* as many walks along the list as the peer likes, otherwise */
    assert_int_equal(one_round(), CREDITS / 4);
    assert_false(cw_list_empty(&ep->pending)); /* nor is one walk as long as the list */
    while (!cw_list_empty(&ep->pending)) {
        (void)one_round();
        polls++;
    }
    assert_in_range(polls, 1, HELD / 1000);
    feed_credit(CW_STREAM_WINDOW);
    for (int i = 0; i < HELD; i++) {
        assert_int_equal(cw_alone_wait(worker, requests[i]), UCS_OK);
    }
    end(1);
    free(requests);
}

static int setup(void **state)
{
    (void)state;
    setenv("UCX_RNDV_THRESH", "9000", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    memory = calloc(1, LONG);
    return (memory != NULL && cw_alone_open(UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_RMA, &context, &worker))
           ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    cw_alone_close(context, worker);
    free(memory);
    return 0;
}

/* A send that is posted when credit has come, and before progress used it, stays behind those that waited (STR-22). */
TEST(test_credit_is_for_the_oldest)
{
    ucs_status_ptr_t old, young;

    begin(0);
    while (cw_op_ep(ep)->stream == NULL || cw_op_ep(ep)->stream->sent < CW_STREAM_WINDOW) {
        assert_int_equal(cw_alone_wait(worker, ucp_stream_send_nbx(ep, memory, 8192, &none)), UCS_OK);
    }
    old = ucp_stream_send_nbx(ep, memory, 100, &none);
    assert_true(UCS_PTR_IS_PTR(old));
    packets = bytes = 0;
    feed_credit(50);
    young = ucp_stream_send_nbx(ep, memory, 4, &none);
    assert_true(UCS_PTR_IS_PTR(young));
    assert_int_equal(packets, 0);
    (void)one_round();
    assert_int_equal(ucp_request_check_status(old), UCS_INPROGRESS); /* it has taken all of the credit */
    assert_int_equal(ucp_request_check_status(young), UCS_INPROGRESS);
    assert_int_equal(cw_op_ep(ep)->stream->sent, CW_STREAM_WINDOW + 50);
    feed_credit(200);
    assert_int_equal(cw_alone_wait(worker, old), UCS_OK);
    assert_int_equal(cw_alone_wait(worker, young), UCS_OK);
    assert_int_equal(cw_op_ep(ep)->stream->sent, CW_STREAM_WINDOW + 104);
    end(1);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
