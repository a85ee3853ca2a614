/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Both ends of an endpoint dial at once (connect/wireup.c), without a network: which dial is taken, and that the other
 * one is silenced where its hello could still follow (EP-7).
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "connect/connect.h"
#include "core/lanes.h"
#include "wire/hello.h"
#include "test_no_op.h"

#define OURS 0x1000u

enum { DIALLED, CAME, CONNS };

static struct ucp_context context;
static struct ucp_worker *worker;
static struct cw_iface iface;
static struct cw_conn conns[CONNS];
static int unseen, there;
static unsigned abandoned[CONNS], closed[CONNS];
static int sent_packets;

static int is_unseen(const struct cw_conn *conn)
{
    assert_ptr_equal(conn, &conns[DIALLED]);
    return unseen;
}

static int is_there(const struct cw_conn *conn)
{
    assert_ptr_equal(conn, &conns[DIALLED]);
    return there;
}

static void abandon(struct cw_conn *conn)
{
    abandoned[conn - conns]++;
}

static void close_conn(struct cw_conn *conn)
{
    closed[conn - conns]++;
}

static const struct cw_transport_connect connecting = {
    .is_unseen = is_unseen, .is_there = is_there, .abandon = abandon, .close_conn = close_conn};
static const struct cw_transport_packets packets = {.send_short = NULL};
static const struct cw_transport transport = {.name = "fake", .connect = &connecting, .packets = &packets};

static void ep_quiesce(struct ucp_ep *ep)
{
    (void)ep;
}

static void ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    (void)ep;
    (void)status;
}

static const struct cw_worker_handlers handlers = {
    .ep_init = ep_init, .ep_expects = ep_expects, .ep_quiesce = ep_quiesce, .ep_ended = ep_ended};

static int set_up(void **state)
{
    (void)state;
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -1;
    }
    worker->context = &context;
    worker->handlers = &handlers;
    worker->uid = OURS;
    cw_list_init(&worker->eps);
    cw_list_init(&worker->reap);
    cw_list_init(&worker->flush_list);
    cw_hash_init(&worker->peers, 1);
    cw_hash_init(&worker->ep_index, 2);
    assert_int_equal(cw_poller_new(1, &worker->poller), UCS_OK);
    iface = (struct cw_iface){.transport = &transport, .name = transport.name, .packets = &packets, .logged = 1};
    conns[DIALLED] = conns[CAME] = (struct cw_conn){.iface = &iface};
    memset(abandoned, 0, sizeof(abandoned));
    memset(closed, 0, sizeof(closed));
    sent_packets = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (!cw_list_empty(&worker->eps)) {
        cw_ep_destroy(cw_list_head(&worker->eps, struct ucp_ep, link));
    }
    cw_hash_cleanup(&worker->peers);
    cw_hash_cleanup(&worker->ep_index);
    cw_poller_free(worker->poller);
    free(worker);
    return 0;
}

/* An endpoint whose dial is under way, and the hello of the peer's. Returns whether that was taken. */
static int meet(uint64_t peer_uid, int our_hello_is_unseen, struct ucp_ep **ep_p)
{
    const struct cw_hello hello = {.source_uid = peer_uid, .target_uid = OURS};
    uint8_t bytes[CW_HELLO_LENGTH], reply[CW_HELLO_MAX];
    size_t reply_length = sizeof(reply);
    struct ucp_ep *ep = cw_ep_new(worker, cw_peer_get(worker, peer_uid, NULL, 0), 0);
    const unsigned before = closed[DIALLED];
    enum cw_hello_answer answer;
    ucs_status_t status;

    assert_non_null(ep);
    ep->conn = &conns[DIALLED];
    cw_ep_set_state(ep, CW_EP_DIALING);
    unseen = our_hello_is_unseen;
    cw_hello_encode(&hello, bytes);
    status = cw_wireup_accept(worker, &conns[CAME], bytes, sizeof(bytes), reply, &reply_length);
    assert_int_equal(cw_hello_reply_decode(reply, reply_length, &answer), UCS_OK);
    assert_int_equal(answer, (status == UCS_OK) ? CW_HELLO_ACCEPTED : CW_HELLO_LOST);
    assert_int_equal(closed[DIALLED], before); /* not inside an upcall */
    *ep_p = ep;
    return status == UCS_OK;
}

TEST_WITH(the_smaller_uid_wins, set_up, tear_down)
{
    struct ucp_ep *ep;

    assert_false(meet(OURS + 1, 0, &ep));
    assert_int_equal(ep->state, CW_EP_DIALING);
    assert_ptr_equal(ep->conn, &conns[DIALLED]);
    assert_int_equal(abandoned[DIALLED], 0);
}

TEST_WITH(the_greater_uid_gives_way, set_up, tear_down)
{
    struct ucp_ep *ep;

    assert_true(meet(OURS - 1, 0, &ep));
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_ptr_equal(ep->conn, &conns[CAME]);
    assert_int_equal(abandoned[DIALLED], 0); /* the peer answers it, and knows */
    cw_ep_reap_all(worker);
    assert_int_equal(closed[DIALLED], 1);
}

/* Whatever the uids: the hello must not be said any more, for the peer would give up its own dial for it. */
TEST_WITH(what_the_peer_has_not_seen_it_never_sees, set_up, tear_down)
{
    struct ucp_ep *ep;
    int i;

    for (i = 0; i < 2; i++) {
        assert_true(meet(i == 0 ? OURS + 1 : OURS - 1, 1, &ep));
        assert_ptr_equal(ep->conn, &conns[CAME]);
        assert_int_equal(abandoned[DIALLED], i + 1);
        unseen = 0;
        cw_ep_reap_all(worker);
        assert_int_equal(closed[DIALLED], i + 1);
        assert_int_equal(abandoned[CAME], 0);
    }
}

/* FLU-5: a flush of an unused endpoint waits for the connection, also when the peer's system has taken the dial. Only a
 * transport that knows the peer to be there spares one without error handling that wait. */
TEST_WITH(a_flush_waits_for_the_connection, set_up, tear_down)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    struct ucp_ep *ep = cw_ep_new(worker, cw_peer_get(worker, OURS + 1, NULL, 0), 0);
    struct cw_request *request;
    ucs_status_ptr_t flush;
    int i;

    cw_request_pool_init(&worker->requests, 0);
    ep->conn = &conns[DIALLED];
    cw_ep_set_state(ep, CW_EP_DIALING);
    unseen = 0;
    for (i = 0; i < 4; i++) {
        there = i % 2;
        ep->err_mode = (i < 2) ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
        flush = cw_ep_flush(ep, &param);
        if (i == 3) {
            assert_null(flush);
            break;
        }
        assert_true(UCS_PTR_IS_PTR(flush));
        request = cw_request_of(flush);
        assert_int_equal(request->status, UCS_INPROGRESS);
        cw_list_remove(&request->link);
        cw_ep_waited(request);
        cw_request_complete(request, UCS_ERR_CANCELED);
        cw_request_release(request, 0);
    }
    ep->conn = NULL;
    cw_ep_set_state(ep, CW_EP_FAILED);
    cw_request_pool_cleanup(&worker->requests, &context);
}

static struct cw_config config;

static ucs_status_t send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    (void)conn, (void)header, (void)payload, (void)length;
    assert_int_equal(id, CW_PACKET_LANE);
    sent_packets++;
    return UCS_OK;
}

static ucs_status_t send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    (void)conn, (void)id, (void)header, (void)iov, (void)iov_count, (void)completion;
    return UCS_OK;
}

static const struct cw_transport_packets bulk = {.send_short = send_short, .send_in_place = send_in_place};

/* The endpoint with the peer of number 7, which has dialled it and got a token. */
static struct ucp_ep *open_with_token(void)
{
    struct ucp_ep *ep = cw_ep_new(worker, cw_peer_get(worker, OURS + 1, NULL, 0), 7);

    config = (struct cw_config){.max_rndv_rails = 3};
    context.config = &config;
    iface.packets = &bulk;
    iface.limits = (struct cw_limits){.max_short = 64, .max_placed = 65536};
    conns[DIALLED].user = ep;
    ep->conn = &conns[DIALLED];
    cw_ep_set_state(ep, CW_EP_OPEN);
    cw_lanes_want(ep);
    assert_int_equal(sent_packets, 1);
    assert_non_null(ep->lanes);
    return ep;
}

static ucs_status_t come(const struct cw_lane_hello *hello)
{
    uint8_t bytes[CW_LANE_HELLO_LENGTH], reply[CW_HELLO_MAX];
    size_t reply_length = sizeof(reply);
    enum cw_hello_answer answer;
    ucs_status_t status;

    cw_lane_hello_encode(hello, bytes);
    status = cw_wireup_accept(worker, &conns[CAME], bytes, sizeof(bytes), reply, &reply_length);
    assert_int_equal(cw_hello_reply_decode(reply, reply_length, &answer), UCS_OK);
    assert_int_equal(answer, (status == UCS_OK) ? CW_HELLO_ACCEPTED : CW_HELLO_REFUSED);
    return status;
}

/* Whatever is wrong with a hello of a further lane: nobody comes in, and no endpoint is made. */
TEST_WITH(lying_hellos_open_no_lane, set_up, tear_down)
{
    struct ucp_ep *ep = open_with_token();
    static const uint8_t lanes[] = {0, CW_MAX_LANES + 1, 4};
    struct cw_lane_hello right = {.source_uid = OURS + 1, .target_uid = OURS, .number = 7, .lane = 2}, lie;
    uint8_t bytes[CW_LANE_HELLO_LENGTH], reply[CW_HELLO_MAX];
    size_t length, bit;
    unsigned i;

    memcpy(right.token, ep->lanes->token, sizeof(right.token));
    for (i = 0; i < 8 * CW_LANE_TOKEN; i++) {
        lie = right;
        lie.token[i / 8] ^= (uint8_t)(1u << (i % 8));
        assert_int_equal(come(&lie), UCS_ERR_REJECTED);
    }
    for (i = 0; i < 7; i++) {
        lie = right;
        lie.source_uid += i == 0;
        lie.target_uid += i == 1;
        lie.number ^= i == 2;
        if (i >= 3 && i <= 5) { /* 3 are wanted */
            lie.lane = lanes[i - 3];
        }
        lie.generation += i == 6;
        assert_int_equal(come(&lie), UCS_ERR_REJECTED);
    }
    cw_lane_hello_encode(&right, bytes);
    for (bit = 0; bit < 8 * sizeof(bytes); bit++) { /* any bit */
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        length = sizeof(reply);
        assert_int_not_equal(cw_wireup_accept(worker, &conns[CAME], bytes, sizeof(bytes), reply, &length) == UCS_OK &&
                                 bit / 8 != 4,
                             1); /* byte 4 is the lane, of which there are others */
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        if (ep->lanes->further[0].conn != NULL || ep->lanes->further[2].conn != NULL) {
            ep->lanes->further[0].conn = ep->lanes->further[2].conn = NULL;
            ep->lanes->further[0].state = ep->lanes->further[2].state = CW_FURTHER_NONE;
        }
    }
    for (length = 0; length < sizeof(bytes); length++) {
        size_t reply_length = sizeof(reply);

        assert_int_not_equal(cw_wireup_accept(worker, &conns[CAME], bytes, length, reply, &reply_length), UCS_OK);
    }
    assert_true(worker->eps.next == &ep->link && worker->eps.prev == &ep->link);
    assert_null(ep->lanes->further[1].conn);
    assert_int_equal(come(&right), UCS_OK);
    assert_ptr_equal(ep->lanes->further[1].conn, &conns[CAME]);
    assert_ptr_equal(conns[CAME].user, ep);
    assert_int_equal(come(&right), UCS_ERR_REJECTED); /* it is there */
    ep->conn = NULL;
    cw_ep_set_state(ep, CW_EP_FAILED);
}

/* A packet about lanes that cannot exist ends the endpoint, or is passed over. */
TEST_WITH(lying_packets_about_lanes, set_up, tear_down)
{
    struct ucp_ep *ep = open_with_token();
    struct cw_wire_lane packet;
    unsigned kind, lane;

    for (kind = 0; kind < 256; kind++) {
        for (lane = 0; lane < 256; lane++) {
            packet = (struct cw_wire_lane){
                .kind = (uint8_t)kind, .lane = (uint8_t)lane, .sent = htole64(5), .taken = htole64(7)};
            if (kind == CW_WIRE_LANE_ASK || (kind == CW_WIRE_LANE_PROBE && lane > 0)) {
                (void)cw_lanes_on_packet(ep, &packet, sizeof(packet));
            } else if (kind != CW_WIRE_LANE_ALIVE || lane == 0 || lane > CW_MAX_LANES) {
                assert_int_equal(cw_lanes_on_packet(ep, &packet, sizeof(packet)), UCS_ERR_IO_ERROR);
            }
            assert_int_equal(cw_lanes_on_packet(ep, &packet, sizeof(packet) - 1), UCS_ERR_IO_ERROR);
        }
    }
    ep->conn = NULL;
    cw_ep_set_state(ep, CW_EP_FAILED);
}
