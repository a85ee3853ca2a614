/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that says of chunks what cannot be (test_chunks.c): it costs the connection, or the message comes in pieces.
 * No byte beside a message is touched, and what was under way ends.
 */
#include "harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH ((size_t)3 << 20)
#include "standin_memory.h"
#include "standin_peer.h"
#include "chunk_packets.h"

/* ---- hostile chunks ---- */

static int send_twice(struct cw_conn *conn, struct cw_wire_rndv_chunk *packet)
{
    __real_cw_op_packet(conn, CW_PACKET_RNDV_CHUNK, packet, sizeof(*packet));
    return 1;
}

/* One chunk more than may wait for the receiver, whose device is slow. */
static int send_more(struct cw_conn *conn, struct cw_wire_rndv_chunk *packet)
{
    if (arrived[CW_PACKET_RNDV_CHUNK] == 1) {
        standin_delay(200000000, 0);
    }
    if (arrived[CW_PACKET_RNDV_CHUNK] == CW_WIRE_CHUNKS_OUT) {
        assert_int_equal(arrived[CW_PACKET_RNDV_TAKEN], 0);
        __real_cw_op_packet(conn, CW_PACKET_RNDV_CHUNK, packet, sizeof(*packet));
        packet->offset = htole64(le64toh(packet->offset) + CHUNK);
    }
    return 1;
}

/* A message whose packets are changed breaks the protocol, which costs the connection only. */
static void breaks(void **state, int (*chunk)(struct cw_conn *, struct cw_wire_rndv_chunk *),
                   int (*taken)(struct cw_conn *, struct cw_wire_rndv_taken *))
{
    struct cw_pair *pair = *state;
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent, received;

    forget_counts();
    cw_pair_open(pair, &config);
    change_chunk = chunk;
    change_taken = taken;
    received = move(pair, from, to, &sent);
    assert_true(received != UCS_OK || sent != UCS_OK);
    assert_true(arrived[CW_PACKET_RNDV_CHUNK] > 0);
    change_chunk = NULL;
    change_taken = NULL;
    cut = 0;
    device_free(from);
    device_free(to);
    cw_test_teardown(state);
    assert_int_equal(standin_events(), 0);
    cw_test_setup(state);
}

TEST_WITH(test_chunks_that_cannot_be, setup, teardown)
{
    static const struct cw_wire_rndv_chunk lies[] = {
        {.receive_id = 1},
        {.receive_id = (uint64_t)1 << 40},
        {.send_id = 1},
        {.send_id = (uint64_t)1 << 32},
        {.offset = 1},
        {.offset = CHUNK},
        {.offset = (uint64_t)0 - CHUNK},
        {.offset = LENGTH},
        {.length = 1},                    /* more than the chunk has */
        {.length = 0u - (uint32_t)CHUNK}, /* no bytes */
        {.length = 0x80000000u},
        {.size = CW_WIRE_CHUNK_MOST}, /* more than a chunk may have */
        {.length = CW_WIRE_CHUNK_MOST, .size = 0x7f000000u},
    };

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        for (lies_from = 0; lies_from <= 2; lies_from += 2) {
            lie = lies[i];
            breaks(state, send_lie, NULL);
        }
    }
    cut = 1;
    breaks(state, NULL, NULL);
    breaks(state, send_twice, NULL);
    breaks(state, send_more, NULL);
}

/* More bytes than the message has left, in a chunk that has them. */
static int send_too_much(struct cw_conn *conn, struct cw_wire_rndv_chunk *packet)
{
    (void)conn;
    if (le64toh(packet->offset) > 0) {
        packet->length = packet->size;
    }
    return 1;
}

API_TEST_WITH(test_bytes_beyond_the_message, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent, received;

    cw_pair_open(pair, &config);
    memset(scratch, 0x55, LENGTH);
    standin_peek(to, scratch, LENGTH);
    change_chunk = send_too_much;
    received = move_some(pair, from, to, (128 << 10) + 100, &sent);
    assert_true(received != UCS_OK || sent != UCS_OK);
    change_chunk = NULL;
    standin_peek(scratch, to, LENGTH);
    for (size_t i = (128 << 10) + 100; i < LENGTH; i++) {
        assert_int_equal(scratch[i], 0x55);
    }
    device_free(from);
    device_free(to);
}

/* In one process a chunk is found by its number alone; with another one the message comes in pieces, and is right. */
API_TEST_WITH(test_a_chunk_that_is_not_there, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    change_chunk = send_lie;
    for (lies_from = 0; lies_from < CHUNKS; lies_from++) {
        forget_counts();
        lie = (struct cw_wire_rndv_chunk){.chunk = 1000000};
        fill(from, lies_from);
        assert_int_equal(move(pair, from, to, &sent), UCS_OK);
        assert_int_equal(sent, UCS_OK);
        check(to, lies_from);
        assert_true(arrived[CW_PACKET_RNDV_CHUNK] > lies_from);
        assert_true(arrived[CW_PACKET_RNDV_DATA] > 0);
    }
    change_chunk = NULL;
    moves(pair, from, to, 99);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* ---- hostile receivers ---- */

static struct cw_wire_rndv_taken taken_lie;

static int send_taken_lie(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    (void)conn;
    packet->send_id = htole64(le64toh(packet->send_id) + taken_lie.send_id);
    packet->offset = htole64(le64toh(packet->offset) + taken_lie.offset);
    packet->keeps = htole32(le32toh(packet->keeps) + taken_lie.keeps);
    return 1;
}

static int send_taken_twice(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    __real_cw_op_packet(conn, CW_PACKET_RNDV_TAKEN, packet, sizeof(*packet));
    return 1;
}

static int send_done_early(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    const struct cw_wire_rndv_done done = {.send_id = packet->send_id};

    __real_cw_op_packet(conn, CW_PACKET_RNDV_DONE, &done, sizeof(done));
    return 0;
}

static uint32_t ready_mode;

static int ask_again(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    const struct cw_wire_rndv_ready ready = {
        .send_id = packet->send_id, .receive_id = htole64(1), .mode = htole32(ready_mode), .piece = htole32(4096)};

    __real_cw_op_packet(conn, CW_PACKET_RNDV_READY, &ready, sizeof(ready));
    return 0;
}

TEST_WITH(test_takings_that_cannot_be, setup, teardown)
{
    static const struct cw_wire_rndv_taken lies[] = {
        {.send_id = 1},        {.send_id = (uint64_t)1 << 32}, {.offset = 1},
        {.offset = 5 * CHUNK}, {.offset = (uint64_t)0 - 1},    {.keeps = 1}};

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        taken_lie = lies[i];
        breaks(state, NULL, send_taken_lie);
    }
    breaks(state, NULL, send_taken_twice);
    breaks(state, NULL, send_done_early);
    for (ready_mode = CW_WIRE_RNDV_COPY; ready_mode <= CW_WIRE_RNDV_EITHER + 1; ready_mode++) {
        breaks(state, NULL, ask_again);
    }
}

static int forget_it(struct cw_conn *conn, struct cw_wire_rndv_taken *packet)
{
    (void)conn, (void)packet;
    return 0;
}

/* A receiver that takes nothing gets no more than it may. The sender's program sleeps meanwhile, and the send ends with
 * its endpoint. */
API_TEST_WITH(test_a_receiver_that_takes_nothing, setup, teardown)
{
    const struct cw_pair_config sleeps = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP, .peer_mode = true};
    ucp_request_param_t force = cw_param_none();
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;
    struct pollfd fd = {.events = POLLIN};
    double end_s;

    cw_pair_open(pair, &sleeps);
    change_taken = forget_it;
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    end_s = cw_time_now_s() + CW_WAIT_S;
    while (arrived[CW_PACKET_RNDV_TAKEN] < CW_WIRE_CHUNKS_OUT && cw_time_now_s() < end_s) {
        cw_pair_progress(pair);
    }
    assert_int_equal(ucp_worker_get_efd(pair->tx->worker, &fd.fd), UCS_OK);
    do {
        for (int i = 0; i < 20000; i++) {
            cw_pair_progress(pair);
        }
    } while (ucp_worker_arm(pair->tx->worker) != UCS_OK && cw_time_now_s() < end_s);
    assert_int_equal(poll(&fd, 1, 100), 0);
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], CW_WIRE_CHUNKS_OUT);
    assert_int_equal(ucp_request_check_status(sent), UCS_INPROGRESS);
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(pair->tx->ep, &force), "a close"), UCS_OK);
    pair->tx->ep = NULL;
    assert_int_not_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    assert_int_not_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    change_taken = NULL;
    device_free(from);
    device_free(to);
}
