/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message lane that outlives its connection (core/failover), without a network: which packets the next carrier sends
 * again (N22-71, N22-77), flushes (N22-79), the bound of copies, and that a peer which lies costs its endpoint and
 * nothing else.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/failover/failover.h"
#include "os/clock.h"
#include "test_no_op.h"

enum { FIRST, SECOND, THIRD, CONNS };

#define MAX_SENT 2000u

static struct ucp_context context;
static struct cw_config config;
static struct ucp_worker *worker;
static struct ucp_ep *ep;
static struct cw_iface iface, other, *ifaces[] = {&iface, &other};
static struct cw_conn conns[CONNS];
static unsigned abandoned[CONNS], rooms, came, dials;
static int is_full;
static struct cw_completion *flushing[CONNS]; /* what the transport is to complete */

/* What the transport was given, but LANE. */
static struct {
    unsigned conn;
    uint8_t id;
    uint64_t header;
    struct cw_wire_move move;
} sent[MAX_SENT];
static unsigned num_sent;

static void record(const struct cw_conn *conn, uint8_t id, const void *packet, size_t length)
{
    if (id == CW_PACKET_LANE) {
        return;
    }
    assert_true(num_sent < MAX_SENT);
    sent[num_sent].conn = (unsigned)(conn - conns);
    sent[num_sent].id = id;
    memcpy(&sent[num_sent].header, packet, sizeof(uint64_t));
    if (id == CW_PACKET_MOVE) {
        assert_int_equal(length, sizeof(struct cw_wire_move));
        memcpy(&sent[num_sent].move, packet, length);
    }
    num_sent++;
}

static ucs_status_t send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    unsigned char packet[256];

    if (is_full) {
        return CW_AGAIN;
    }
    memcpy(packet, &header, sizeof(header));
    if (length > 0) {
        memcpy(packet + sizeof(header), payload, length);
    }
    record(conn, id, packet, sizeof(header) + length);
    return UCS_OK;
}

static ucs_status_t send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    unsigned char packet[8192];

    if (is_full) {
        return CW_AGAIN;
    }
    assert_true(max <= sizeof(packet));
    record(conn, id, packet, pack(packet, max, arg));
    return UCS_OK;
}

static ucs_status_t send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    (void)conn, (void)id, (void)header, (void)iov, (void)iov_count, (void)completion;
    return UCS_OK;
}

static ucs_status_t flush(struct cw_conn *conn, struct cw_completion *completion)
{
    flushing[conn - conns] = completion;
    return UCS_INPROGRESS;
}

static void abandon(struct cw_conn *conn)
{
    abandoned[conn - conns]++;
}

static void close_conn(struct cw_conn *conn)
{
    (void)conn;
}

static void packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    (void)id, (void)data, (void)length;
    assert_ptr_equal(conn, ep->conn);
    came++;
}

static void space(struct cw_conn *conn)
{
    assert_ptr_equal(conn, ep->conn);
    rooms++;
}

static void unplaced(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    (void)conn, (void)id, (void)header, (void)length;
}

static void ep_quiesce(struct ucp_ep *one)
{
    (void)one;
}

static void ep_ended(struct ucp_ep *one, ucs_status_t status)
{
    (void)one, (void)status;
}

static unsigned lanes_dial(struct ucp_ep *one, int dial)
{
    assert_ptr_equal(one, ep);
    dials += dial != 0;
    return 2;
}

static const struct cw_transport_connect connecting = {.abandon = abandon, .close_conn = close_conn};
static const struct cw_transport_packets packets = {
       .send_short = send_short, .send_bcopy = send_bcopy, .send_in_place = send_in_place, .flush = flush};
static const struct cw_transport transport = {.name = "fake", .connect = &connecting, .packets = &packets};
static const struct cw_device device = {.name = "fake0"};
static const struct cw_upcalls upcalls = {.packet = packet, .space = space, .unplaced = unplaced};
static const struct cw_worker_handlers handlers = {
    .upcalls = &upcalls, .lanes_dial = lanes_dial, .ep_init = ep_init, .ep_expects = ep_expects,
    .ep_quiesce = ep_quiesce, .ep_ended = ep_ended};

static struct cw_failover *lane_of_ep(void)
{
    struct cw_failover *failover = cw_failover_of(ep);

    assert_non_null(failover);
    return failover;
}

/* An endpoint in mode FAILOVER with two further lanes. */
static void open_ep(int dialled)
{
    struct cw_conn *lane;
    unsigned i;

    ep = cw_ep_new(worker, cw_peer_get(worker, 5, NULL, 0), 0);
    assert_non_null(ep);
    ep->err_mode = UCP_ERR_HANDLING_MODE_FAILOVER;
    for (i = 0; i < CONNS; i++) {
        conns[i] = (struct cw_conn){.iface = &iface, .user = ep, .dialled = (uint8_t)dialled};
    }
    assert_true(cw_failover_suits(worker, &iface));
    lane = cw_failover_new(ep, &conns[FIRST]);
    assert_non_null(lane);
    cw_ep_opened(ep, lane);
    assert_non_null(cw_lanes_new(ep, 2));
    for (i = 0; i < 2; i++) {
        cw_lanes_opened(ep, &ep->lanes->further[i], &conns[SECOND + i]);
    }
    num_sent = rooms = came = 0;
    is_full = 0;
    memset(flushing, 0, sizeof(flushing));
    memset(abandoned, 0, sizeof(abandoned));
}

static int set_up(void **state)
{
    (void)state;
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -1;
    }
    config = (struct cw_config){.max_rndv_rails = 2, .recovery_retries = 2};
    context.config = &config;
    worker->context = &context;
    worker->handlers = &handlers;
    worker->uid = 4;
    worker->ifaces = ifaces;
    worker->num_ifaces = 1;
    cw_list_init(&worker->eps);
    cw_list_init(&worker->reap);
    cw_list_init(&worker->flush_list);
    cw_hash_init(&worker->peers, 1);
    cw_hash_init(&worker->ep_index, 2);
    assert_int_equal(cw_poller_new(1, &worker->poller), UCS_OK);
    iface = (struct cw_iface){
        .transport = &transport,
        .name = transport.name,
        .device = &device,
        .packets = &packets,
        .logged = 1,
        .limits = {.max_short = 64, .max_bcopy = 8192, .max_placed = 65536, .max_iov = 4, .bandwidth_bps = 1e9}};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (!cw_list_empty(&worker->eps)) {
        cw_ep_destroy(cw_list_head(&worker->eps, struct ucp_ep, link));
    }
    cw_failover_cleanup(worker, worker->num_ifaces);
    cw_hash_cleanup(&worker->peers);
    cw_hash_cleanup(&worker->ep_index);
    cw_poller_free(worker->poller);
    free(worker);
    return 0;
}

static ucs_status_t send_one(uint64_t header)
{
    return cw_lane_send_short(ep->conn, CW_PACKET_TAG_EAGER, header, NULL, 0);
}

static ucs_status_t move(unsigned conn, unsigned kind, uint32_t generation, uint64_t handled)
{
    const struct cw_wire_move packed = {
        .kind = (uint8_t)kind, .generation = htole32(generation), .handled = htole64(handled)};

    return cw_failover_on_packet(ep, &conns[conn], CW_PACKET_MOVE, &packed, sizeof(packed));
}

static void take_one(unsigned conn)
{
    const uint64_t header = 1;

    assert_int_equal(cw_failover_on_packet(ep, &conns[conn], CW_PACKET_TAG_EAGER, &header, sizeof(header)), UCS_OK);
}

/* Sent on the connection, in this order: the packets with these headers, and nothing else but MOVE. */
static void assert_messages(unsigned from, unsigned conn, uint64_t first, uint64_t last)
{
    unsigned i;

    for (i = from; i < num_sent; i++) {
        if (sent[i].id != CW_PACKET_MOVE) {
            assert_int_equal(sent[i].conn, conn);
            assert_int_equal(sent[i].header, first);
            first++;
        }
    }
    assert_int_equal(first, last + 1);
}

/* The lane has one constant table, however it is carried, and is named as its carrier (EP-32). */
TEST_WITH(the_lane_is_named_as_its_carrier, set_up, tear_down)
{
    other = iface;
    other.name = "other";
    worker->num_ifaces = 2;
    open_ep(0);
    conns[SECOND].iface = &other;
    assert_ptr_equal(ep->conn->iface->transport, &cw_failover_transport);
    assert_string_equal(cw_lane_name(ep->conn), "fake");
    assert_int_equal(send_one(0), UCS_OK);
    assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 0), UCS_OK);
    assert_ptr_equal(ep->conn->iface->transport, &cw_failover_transport);
    assert_string_equal(cw_lane_name(ep->conn), "other");
    assert_string_equal(cw_iface_device(ep->conn->iface), "fake0");
}

/* The table says that the peer may be anywhere, so no interface of shared memory carries such a lane. */
TEST_WITH(only_networks_carry_the_lane, set_up, tear_down)
{
    const struct cw_transport shared = {.device_class = CW_DEVICE_SHM, .connect = &connecting, .packets = &packets};

    assert_true(cw_failover_suits(worker, &iface));
    iface.transport = &shared;
    assert_false(cw_failover_suits(worker, &iface));
}

/* N22-71: the acceptor hears that the dialler has left the carrier. */
TEST_WITH(the_rest_is_sent_again, set_up, tear_down)
{
    unsigned before;
    uint64_t i;

    open_ep(0);
    for (i = 0; i < 5; i++) {
        assert_int_equal(send_one(i), UCS_OK);
    }
    take_one(FIRST);
    take_one(FIRST);
    assert_messages(0, FIRST, 0, 4);
    before = num_sent;
    assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 2), UCS_OK);
    assert_int_equal(sent[before].conn, SECOND);
    assert_int_equal(sent[before].move.kind, CW_WIRE_MOVE_TAKEN);
    assert_int_equal(le64toh(sent[before].move.handled), 2);
    assert_messages(before, SECOND, 2, 4);
    assert_int_equal(abandoned[FIRST], 1);
    assert_int_equal(came, 2);
    take_one(FIRST); /* is late */
    take_one(THIRD);
    assert_int_equal(came, 2);
    take_one(SECOND);
    assert_int_equal(came, 3);
    assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 2), UCS_OK); /* is old */
    assert_int_equal(ep->state, CW_EP_OPEN);
}

/* N22-77: each packet is delivered once and in order, however often copies of it come by lanes that were left. */
TEST_WITH(copies_are_dropped, set_up, tear_down)
{
    unsigned i;

    open_ep(0);
    for (i = 0; i < 3; i++) {
        take_one(FIRST);
    }
    assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 0), UCS_OK);
    for (i = 0; i < 400; i++) {
        take_one((i % 2 == 0) ? FIRST : THIRD);
    }
    assert_int_equal(came, 3);
    take_one(SECOND);
    assert_int_equal(came, 4);
    assert_int_equal(lane_of_ep()->handled, 4);
}

struct flushed {
    struct cw_completion completion;
    unsigned calls;
    ucs_status_t status;
};

static void on_flushed(struct cw_completion *completion, ucs_status_t status)
{
    struct flushed *flushed = cw_container_of(completion, struct flushed, completion);

    flushed->calls++;
    flushed->status = status;
}

/* N22-79: the flush starts over on the next lane, behind what is sent again there. */
TEST_WITH(a_flush_starts_over, set_up, tear_down)
{
    struct flushed flushed = {.completion = {on_flushed}};
    unsigned before, used;
    uint64_t i;

    open_ep(1);
    for (i = 0; i < 3; i++) {
        assert_int_equal(send_one(i), UCS_OK);
    }
    assert_int_equal(cw_lane_flush(ep->conn, &flushed.completion), UCS_INPROGRESS);
    assert_non_null(flushing[FIRST]);
    before = num_sent;
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_CONNECTION_RESET), 1);
    flushing[FIRST]->done(flushing[FIRST], UCS_ERR_CONNECTION_RESET);
    assert_int_equal(flushed.calls, 0);
    used = sent[before].conn;
    assert_null(flushing[used]); /* the packets before it are still to be sent again */
    assert_int_equal(move(used, CW_WIRE_MOVE_TAKEN, 1, 1), UCS_OK);
    assert_messages(before, used, 1, 2);
    assert_non_null(flushing[used]);
    assert_int_equal(flushed.calls, 0);
    flushing[used]->done(flushing[used], UCS_OK);
    assert_int_equal(flushed.calls, 1);
    assert_int_equal(flushed.status, UCS_OK);
}

/* N22-79: no lane is left, so the flush ends with the endpoint, and with an error. */
TEST_WITH(a_flush_without_lanes_fails, set_up, tear_down)
{
    struct flushed flushed = {.completion = {on_flushed}};

    open_ep(1);
    assert_int_equal(send_one(0), UCS_OK);
    assert_int_equal(cw_lane_flush(ep->conn, &flushed.completion), UCS_INPROGRESS);
    cw_lanes_lane_failed(ep->lanes, cw_lanes_find(ep, &conns[SECOND]), "this is a test");
    cw_lanes_lane_failed(ep->lanes, cw_lanes_find(ep, &conns[THIRD]), "this is a test");
    assert_int_equal(flushed.calls, 0);
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_CONNECTION_RESET), 1);
    assert_int_equal(ep->state, CW_EP_FAILED);
    flushing[FIRST]->done(flushing[FIRST], UCS_ERR_CONNECTION_RESET);
    cw_ep_destroy(ep);
    assert_int_equal(flushed.calls, 1);
    assert_int_equal(flushed.status, UCS_ERR_CANCELED);
}

/* The dialler chooses the next carrier, and sends nothing again before the acceptor reported what came. */
TEST_WITH(the_dialler_waits_for_the_count, set_up, tear_down)
{
    unsigned before, used;
    uint64_t i;

    open_ep(1);
    for (i = 0; i < 3; i++) {
        assert_int_equal(send_one(i), UCS_OK);
    }
    before = num_sent;
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_CONNECTION_RESET), 1);
    assert_int_equal(num_sent, before + 1);
    assert_int_equal(sent[before].move.kind, CW_WIRE_MOVE_HERE);
    used = sent[before].conn;
    assert_int_equal(send_one(3), CW_AGAIN);
    assert_int_equal(move(used, CW_WIRE_MOVE_TAKEN, 1, 1), UCS_OK);
    assert_messages(before, used, 1, 2);
    assert_true(rooms > 0);
    assert_int_equal(send_one(3), UCS_OK);
    assert_messages(before, used, 1, 3);
    cw_lanes_lane_failed(ep->lanes, cw_lanes_find(ep, &conns[used]), "this is a test");
    assert_int_equal(ep->state, CW_EP_OPEN);
    cw_lanes_lane_failed(ep->lanes, cw_lanes_find(ep, &conns[SECOND + THIRD - used]), "this is a test");
    assert_int_equal(ep->state, CW_EP_FAILED); /* N22-81: no lane is left */
}

/* The acceptor asks the dialler to choose. */
TEST_WITH(the_acceptor_asks, set_up, tear_down)
{
    unsigned before;

    open_ep(0);
    before = num_sent;
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_CONNECTION_RESET), 1);
    assert_int_equal(num_sent, before + 2);
    assert_int_equal(sent[before].move.kind, CW_WIRE_MOVE_LOST);
    assert_int_equal(sent[before + 1].move.kind, CW_WIRE_MOVE_LOST);
    assert_int_not_equal(sent[before].conn, sent[before + 1].conn);
}

/* Bytes that are no packets cost the endpoint, as on any lane. */
TEST_WITH(broken_framing_moves_nothing, set_up, tear_down)
{
    open_ep(1);
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_IO_ERROR), 1);
    assert_int_equal(ep->state, CW_EP_FAILED);
}

/* A peer that confirms nothing costs a bounded number of copies. */
TEST_WITH(copies_are_bounded, set_up, tear_down)
{
    static char bytes[8192];
    struct cw_wire_rndv_data header = {.receive_id = 1};
    const struct iovec iov = {bytes, sizeof(bytes)};
    const uint64_t limit = UINT64_C(2) << 20;
    ucs_status_t status = UCS_OK;
    const struct cw_failover *failover;

    open_ep(0);
    failover = lane_of_ep();
    while (status == UCS_OK) {
        status = cw_lane_send_placed(ep->conn, CW_PACKET_RNDV_DATA, &header, &iov, 1, NULL);
        assert_true(failover->bytes < limit);
    }
    assert_int_equal(status, CW_AGAIN);
    assert_true(failover->bytes > limit / 4);
    assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 0, failover->taken), UCS_OK);
    assert_int_equal(failover->bytes, 0);
    assert_int_equal(rooms, 1);
}

/* A full carrier takes one packet more, which it gets when it has room, and in order. */
TEST_WITH(a_full_carrier_keeps_the_order, set_up, tear_down)
{
    open_ep(0);
    is_full = 1;
    assert_int_equal(send_one(0), UCS_OK);
    assert_int_equal(send_one(1), CW_AGAIN);
    assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 0, 1), UCS_ERR_IO_ERROR); /* it was not sent yet */
    is_full = 0;
    cw_failover_space(ep, &conns[FIRST]);
    assert_int_equal(rooms, 1);
    assert_int_equal(send_one(1), UCS_OK);
    assert_messages(0, FIRST, 0, 1);
}

/* Counts that lie, roles and connections that do not fit: the endpoint ends, or the packet is passed over. */
TEST_WITH(lies_are_refused, set_up, tear_down)
{
    struct cw_wire_move packed = {.kind = CW_WIRE_MOVE_HANDLED};
    unsigned kind, i;
    size_t length;

    for (i = 0; i < 2; i++) {
        open_ep((int)i);
        assert_int_equal(send_one(0), UCS_OK);
        assert_int_equal(send_one(1), UCS_OK);
        assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 0, 1), UCS_OK);
        for (length = 0; length < 2 * sizeof(packed); length++) {
            char bytes[2 * sizeof(packed)] = {CW_WIRE_MOVE_PROBE};

            assert_int_equal(cw_failover_on_packet(ep, &conns[FIRST], CW_PACKET_MOVE, bytes, length),
                             (length == sizeof(packed)) ? UCS_OK : UCS_ERR_IO_ERROR);
        }
        for (kind = 0; kind < 3; kind++) {
            memset(packed.reserved, 0, sizeof(packed.reserved));
            packed.reserved[kind] = 1;
            assert_int_equal(cw_failover_on_packet(ep, &conns[FIRST], CW_PACKET_MOVE, &packed, sizeof(packed)),
                             UCS_ERR_IO_ERROR);
        }
        for (kind = CW_WIRE_MOVE_KINDS; kind < 256; kind++) {
            assert_int_equal(move(FIRST, kind, 0, 1), UCS_ERR_IO_ERROR);
        }
        assert_int_equal(move(FIRST, 0, 0, 1), UCS_ERR_IO_ERROR);
        assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 0, 3), UCS_ERR_IO_ERROR);
        assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 0, UINT64_MAX), UCS_ERR_IO_ERROR);
        assert_int_equal(move(SECOND, CW_WIRE_MOVE_ALIVE, 0, 3), UCS_ERR_IO_ERROR);
        assert_int_equal(move(SECOND, CW_WIRE_MOVE_HANDLED, 0, 3), UCS_OK); /* on no carrier: passed over */
        assert_int_equal(move(FIRST, CW_WIRE_MOVE_HANDLED, 7, 3), UCS_OK);  /* of another generation */
        if (i == 0) {
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_TAKEN, 0, 1), UCS_ERR_IO_ERROR);
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_LOST, 0, 1), UCS_ERR_IO_ERROR);
            assert_int_equal(move(FIRST, CW_WIRE_MOVE_HERE, 1, 1), UCS_ERR_IO_ERROR);
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 3), UCS_ERR_IO_ERROR);
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 0), UCS_ERR_IO_ERROR); /* fewer than confirmed */
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 0, 3), UCS_OK);           /* is old */
        } else {
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_HERE, 1, 1), UCS_ERR_IO_ERROR);
            assert_int_equal(move(SECOND, CW_WIRE_MOVE_TAKEN, 0, 9), UCS_OK); /* nothing was offered */
        }
        assert_int_equal(ep->state, CW_EP_OPEN);
        assert_int_equal(lane_of_ep()->acked, 1);
        assert_ptr_equal(lane_of_ep()->carrier, &conns[FIRST]);
        cw_ep_destroy(ep);
    }
}

/* The first further lane has no room, and nothing else is under way. */
static struct cw_further_lane *fill_second(void)
{
    struct cw_further_lane *lane;

    open_ep(1);
    lane = cw_lanes_find(ep, &conns[SECOND]);
    lane->full = 1;
    cw_failover_full(ep, lane);
    return lane;
}

static void poll_paths(void)
{
    (void)cw_failover_poll(&lane_of_ep()->watch);
}

/* N22-70: what waits for the full lane would wait for ever if the carrier is cut, too. */
TEST_WITH(a_carrier_without_answers_is_left, set_up, tear_down)
{
    unsigned i, before;

    (void)fill_second();
    for (i = 0; i < 3; i++) {
        poll_paths();
        assert_int_equal(move(THIRD, CW_WIRE_MOVE_ALIVE, 0, 0), UCS_OK);
        assert_ptr_equal(lane_of_ep()->carrier, &conns[FIRST]); /* it gets its time to answer */
    }
    before = num_sent;
    poll_paths();
    assert_int_equal(move(THIRD, CW_WIRE_MOVE_ALIVE, 0, 0), UCS_OK);
    assert_int_equal(abandoned[FIRST], 1);
    assert_int_equal(sent[num_sent - 1].conn, THIRD);
    assert_int_equal(sent[num_sent - 1].move.kind, CW_WIRE_MOVE_HERE);
    assert_true(num_sent > before);
    assert_int_equal(move(THIRD, CW_WIRE_MOVE_TAKEN, 1, 0), UCS_OK);
    assert_ptr_equal(lane_of_ep()->carrier, &conns[THIRD]);
}

/* N22-70: a piece waits for room of the carrier, which has nothing else to acknowledge, and is cut. */
TEST_WITH(a_full_carrier_without_answers_is_left, set_up, tear_down)
{
    struct cw_further_lane *lane;
    unsigned used, other, i;

    open_ep(1);
    assert_int_equal(cw_failover_closed(ep, &conns[FIRST], UCS_ERR_CONNECTION_RESET), 1);
    used = sent[num_sent - 1].conn;
    other = SECOND + THIRD - used;
    assert_int_equal(move(used, CW_WIRE_MOVE_TAKEN, 1, 0), UCS_OK);
    assert_ptr_equal(lane_of_ep()->carrier, &conns[used]);
    lane = cw_lanes_find(ep, &conns[used]);
    lane->full = 1;
    cw_failover_full(ep, lane);
    for (i = 0; i < 3; i++) {
        cw_poller_alarm_cancel(worker->poller, &lane_of_ep()->watch);
        poll_paths();
        assert_true(cw_alarm_is_set(&lane_of_ep()->watch));
        assert_int_equal(move(other, CW_WIRE_MOVE_ALIVE, 1, 0), UCS_OK);
        assert_ptr_equal(lane_of_ep()->carrier, (i < 2) ? &conns[used] : NULL);
        lane_of_ep()->moved_ns = 0; /* long ago */
    }
    assert_int_equal(abandoned[used], 1);
    assert_int_equal(sent[num_sent - 1].conn, other);
    assert_int_equal(sent[num_sent - 1].move.kind, CW_WIRE_MOVE_HERE);
}

/* A full lane that is silent while the carrier answers is lost, although an answer from before the cut came by it. */
TEST_WITH(a_full_lane_stays_doubtful, set_up, tear_down)
{
    struct cw_further_lane *lane;
    unsigned i;

    lane = fill_second();
    poll_paths();
    assert_int_equal(move(SECOND, CW_WIRE_MOVE_ALIVE, 0, 0), UCS_OK);
    assert_int_equal(lane_of_ep()->doubtful, 0);
    for (i = 0; i < 4; i++) {
        assert_int_equal(lane->state, CW_FURTHER_OPEN);
        poll_paths();
        assert_int_equal(move(FIRST, CW_WIRE_MOVE_ALIVE, 0, 0), UCS_OK);
        assert_int_equal(move(THIRD, CW_WIRE_MOVE_ALIVE, 0, 0), UCS_OK);
    }
    assert_int_not_equal(lane->state, CW_FURTHER_OPEN);
    assert_ptr_equal(lane_of_ep()->carrier, &conns[FIRST]);
    assert_int_equal(abandoned[FIRST], 0);
}

/* Both sides have closed the lane. */
static void lose_lane(unsigned number)
{
    struct cw_further_lane *lane = &ep->lanes->further[number - 1];
    const struct cw_wire_lane end = {
        .kind = CW_WIRE_LANE_END, .lane = (uint8_t)number, .generation = htole16(lane->generation)};

    cw_lanes_lane_failed(ep->lanes, lane, "this is a test");
    assert_int_equal(cw_lanes_on_packet(ep, &end, sizeof(end)), UCS_OK);
    assert_int_equal(lane->state, CW_FURTHER_NONE);
}

/* The time of the next round has come. */
static void next_round(void)
{
    ep->lanes->next_dial_ns = 1;
    cw_lanes_search(ep->lanes);
}

/* N22-82: so many rounds, anew after each loss, and then no more; the endpoint lives on. */
TEST_WITH(lanes_are_dialled_in_rounds, set_up, tear_down)
{
    open_ep(1);
    dials = 0;
    cw_lanes_search(ep->lanes);
    assert_int_equal(dials, 0);
    lose_lane(1);
    assert_true(ep->lanes->next_dial_ns > 0);
    next_round();
    assert_int_equal(dials, 1);
    lose_lane(2);
    next_round();
    next_round();
    assert_int_equal(dials, 3);
    next_round();
    assert_int_equal(dials, 3);
    assert_int_equal(ep->lanes->next_dial_ns, 0);
    assert_int_equal(ep->state, CW_EP_OPEN);
}
