/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a peer can make this process keep (core/ep_retained.h): announcements, answers that it does not read, active
 * messages that never end, and what is left of peers that are gone. Up to the bound nothing happens, beyond it the
 * connection is lost, and what was let go of counts no more.
 */
#include <endian.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_alone.h"
#include "test_under.h"

#include "am/am.h"
#include "am/desc.h"
#include "api/dispatch.h"
#include "core/ep_retained.h"
#include "core/mem.h"
#include "core/worker.h"
#include "msg/msg.h"
#include "msg/op_ep.h"
#include "rndv/shares.h"
#include "stream/stream.h"
#include "wire/key.h"
#include "wire/rma.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

enum { MANY = 8, HOLDS = 7, UNKNOWN = 9, PIECE = 60000, SHARED = 256 };

static const ucp_request_param_t plain;

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static void *held[MANY + 1];
static unsigned num_held;
static uint64_t next_id = 1;

static void set_limit(uint64_t bytes)
{
    ((struct cw_config *)(uintptr_t)context->config)->peer_memory = bytes;
}

static int set_up(void **state)
{
    (void)state;
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    put_under(ep);
    num_held = 0;
    set_limit(MANY * CW_RETAINED_ONE);
    return 0;
}

static int tear_down(void **state)
{
    ucp_tag_recv_info_t info;
    char byte;

    (void)state;
    blocked = 0;
    if (ep != NULL) {
        if (ep->conn != NULL) {
            take_away(ep);
        }
        ep->err_mode = UCP_ERR_HANDLING_MODE_PEER;
        cw_alone_end(worker, ep);
    }
    while (ucp_tag_probe_nb(worker, 0, 0, 0, &info) != NULL) {
        cw_alone_wait(worker, ucp_tag_recv_nbx(worker, &byte, 1, 0, 0, &plain));
    }
    set_limit(UINT64_MAX);
    return 0;
}

/* The end of the endpoint with everything on it. */
static void lose_ep(void)
{
    take_away(ep);
    cw_alone_end(worker, ep);
    while (ucp_worker_progress(worker) > 0) {
    }
    ep = NULL;
}

static void assert_refused(void)
{
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(ep->status, UCS_ERR_EXCEEDS_LIMIT);
}

static void announce(uint64_t id)
{
    const struct cw_wire_tag_rts rts = {.tag = htole64(id), .rts = {.length = htole64(100), .send_id = htole64(id)}};

    cw_op_packet(ep->conn, CW_PACKET_TAG_RTS, &rts, sizeof(rts));
}

static void announce_active(uint16_t handler, uint64_t id)
{
    const struct cw_wire_am_rts rts = {.am = {.handler = htole16(handler)},
                                      .rts = {.length = htole64(100), .send_id = htole64(id)}};

    cw_op_packet(ep->conn, CW_PACKET_AM_RTS, &rts, sizeof(rts));
}

/* All that may be announced, and one more: its sender is notified before the connection ends. */
TEST_WITH(test_announcements_are_bounded, set_up, tear_down)
{
    for (uint64_t id = 1; id <= MANY; id++) {
        announce(id);
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(ep->retained, MANY * CW_RETAINED_ONE);
    assert_int_equal(num_records, 0);
    announce(MANY + 1);
    assert_refused();
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), MANY + 1);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_ERR_EXCEEDS_LIMIT);
}

/* Received in any order, or taken back by their sender, they count no more. */
TEST_WITH(test_announcements_that_end, set_up, tear_down)
{
    const struct cw_wire_tag_cancel cancel = {.send_id = htole64(3)};
    char in[100];

    for (uint64_t id = 1; id <= MANY; id++) {
        announce(id);
    }
    ucp_request_free(ucp_tag_recv_nbx(worker, in, sizeof(in), 5, UINT64_MAX, &plain));
    assert_int_equal(ep->retained, (MANY - 1) * CW_RETAINED_ONE);
    cw_op_packet(ep->conn, CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_int_equal(ep->retained, (MANY - 2) * CW_RETAINED_ONE);
    announce(11);
    announce(12);
    assert_int_equal(ep->state, CW_EP_OPEN);
    announce(13);
    assert_refused();
}

static ucs_status_t hold(void *arg, const void *header, size_t header_length, void *data, size_t length,
                         const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)length, (void)param;
    held[num_held++ % (MANY + 1)] = data;
    return UCS_INPROGRESS;
}

static void set_handler(unsigned id)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id = id,
                                          .cb = hold};

    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
}

TEST_WITH(test_active_announcements_are_bounded, set_up, tear_down)
{
    set_handler(HOLDS);
    for (uint64_t id = 1; id <= MANY; id++) {
        announce_active(HOLDS, id);
    }
    assert_int_equal(ep->retained, MANY * CW_RETAINED_ONE);
    ucp_am_data_release(worker, held[2]);
    assert_int_equal(ep->retained, (MANY - 1) * CW_RETAINED_ONE);
    announce_active(HOLDS, 20);
    assert_int_equal(num_held, MANY + 1);
    assert_int_equal(ep->state, CW_EP_OPEN);
    announce_active(HOLDS, 21);
    assert_int_equal(num_held, MANY + 1);
    assert_refused();
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_ERR_EXCEEDS_LIMIT);
    lose_ep(); /* the handler's are lost now, and still its own */
    for (unsigned i = 0; i <= MANY; i++) {
        if (i != 2) {
            ucp_am_data_release(worker, held[i]);
        }
    }
}

/* A peer asks and does not read: each answer waits. */
TEST_WITH(test_answers_are_bounded, set_up, tear_down)
{
    blocked = 1;
    for (uint64_t id = 1; id <= MANY; id++) {
        announce_active(UNKNOWN, id);
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(ep->retained, MANY * CW_RETAINED_ONE);
    blocked = 0;
    cw_ep_drain(ep);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), MANY);
    assert_int_equal(ep->retained, 0);
    blocked = 1;
    for (uint64_t id = 1; id <= MANY; id++) {
        announce_active(UNKNOWN, id);
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
    announce_active(UNKNOWN, MANY + 1);
    assert_refused();
}

static size_t begin_message(uint8_t *packet, uint64_t total, uint32_t number)
{
    const struct cw_wire_am_first first = {
        .am = {.handler = htole16(HOLDS)}, .total = htole64(total), .message = htole32(number)};

    memcpy(packet, &first, sizeof(first));
    memset(packet + sizeof(first), 1, 10);
    return sizeof(first) + 10;
}

/* An active message grows with what comes of it, up to the bound, and is counted until it is complete. */
TEST_WITH(test_messages_in_pieces_are_bounded, set_up, tear_down)
{
    static uint8_t packet[sizeof(struct cw_wire_next) + PIECE];
    const uint64_t total = CW_AM_AT_ONCE + 10 + PIECE;
    struct cw_wire_next header = {.message = htole32(1)};
    size_t length;

    set_handler(HOLDS);
    set_limit(2 * CW_AM_AT_ONCE);
    length = begin_message(packet, total, 1);
    cw_op_packet(ep->conn, CW_PACKET_AM_FIRST, packet, length);
    assert_int_equal(ep->retained, CW_AM_AT_ONCE);
    for (uint64_t at = 10; at < total; at += length) {
        length = (total - at < PIECE) ? (size_t)(total - at) : PIECE;
        header.offset = htole64(at);
        memcpy(packet, &header, sizeof(header));
        cw_op_packet(ep->conn, CW_PACKET_NEXT, packet, sizeof(header) + length);
        assert_int_equal(ep->state, CW_EP_OPEN);
        assert_in_range(ep->retained, 0, 2 * CW_AM_AT_ONCE);
    }
    assert_int_equal(num_held, 1);
    assert_int_equal(ep->retained, 0);
    ucp_am_data_release(worker, held[0]);
    for (uint32_t number = 2; number < 4; number++) {
        length = begin_message(packet, total, number);
        cw_op_packet(ep->conn, CW_PACKET_AM_FIRST, packet, length);
        assert_int_equal(ep->state, CW_EP_OPEN);
    }
    length = begin_message(packet, total, 4);
    cw_op_packet(ep->conn, CW_PACKET_AM_FIRST, packet, length);
    assert_refused();
}

/* The same in the middle of one: the bound is reported at the next piece, whether or not it was placed. */
TEST_WITH(test_one_message_is_bounded, set_up, tear_down)
{
    static uint8_t packet[sizeof(struct cw_wire_next) + PIECE];
    struct cw_wire_next header = {.message = htole32(1)};
    uint64_t at;
    size_t length;

    set_handler(HOLDS);
    set_limit(3 * CW_AM_AT_ONCE);
    length = begin_message(packet, UINT64_C(1) << 30, 1);
    cw_op_packet(ep->conn, CW_PACKET_AM_FIRST, packet, length);
    for (at = 10; ep->state == CW_EP_OPEN && at < 8 * CW_AM_AT_ONCE; at += PIECE) {
        header.offset = htole64(at);
        memcpy(packet, &header, sizeof(header));
        cw_op_packet(ep->conn, CW_PACKET_NEXT, packet, sizeof(packet));
    }
    assert_refused();
    assert_in_range(at, CW_AM_AT_ONCE, 3 * CW_AM_AT_ONCE);
}

/* So many announcements of another peer. */
static void announce_many(ucp_ep_h peer, uint64_t count)
{
    const ucp_ep_h first = ep;

    ep = peer;
    for (uint64_t i = 0; i < count; i++) {
        announce(next_id++);
    }
    ep = first;
}

/* Many peers that each stay within the bound: all together get four times that. Then who has more than its share gets
 * no more, who has less does, and what a peer that is gone had is free again. */
TEST_WITH(test_peers_share_the_bound, set_up, tear_down)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucp_ep_h greedy[CW_RETAINED_PEERS + 1];
    uint64_t share;

    set_limit(SHARED * CW_RETAINED_ONE);
    for (unsigned i = 0; i <= CW_RETAINED_PEERS; i++) {
        greedy[i] = cw_alone_connect(worker, params);
        put_under(greedy[i]);
    }
    announce_many(ep, 10);
    for (unsigned i = 0; i + 1 < CW_RETAINED_PEERS; i++) {
        announce_many(greedy[i], SHARED);
    }
    announce_many(greedy[CW_RETAINED_PEERS - 1], SHARED - 10);
    assert_int_equal(worker->retained, CW_RETAINED_PEERS * SHARED * CW_RETAINED_ONE);
    announce_many(ep, CW_RETAINED_LEAST / CW_RETAINED_ONE);
    assert_int_equal(ep->state, CW_EP_OPEN);
    announce_many(greedy[CW_RETAINED_PEERS - 1], 1);
    assert_int_equal(greedy[CW_RETAINED_PEERS - 1]->status, UCS_ERR_EXCEEDS_LIMIT);
    share = CW_RETAINED_PEERS * SHARED / worker->counts.values[CW_COUNT_EPS];
    assert_in_range(share, CW_RETAINED_LEAST / CW_RETAINED_ONE + 1, SHARED - 1);
    announce_many(greedy[CW_RETAINED_PEERS], share);
    assert_int_equal(greedy[CW_RETAINED_PEERS]->state, CW_EP_OPEN);
    announce_many(greedy[CW_RETAINED_PEERS], 1);
    assert_int_equal(greedy[CW_RETAINED_PEERS]->status, UCS_ERR_EXCEEDS_LIMIT);
    announce_many(ep, 10);
    assert_int_equal(ep->state, CW_EP_OPEN);
    for (unsigned i = 0; i <= CW_RETAINED_PEERS; i++) {
        assert_int_equal(greedy[i]->state, (i < CW_RETAINED_PEERS - 1) ? CW_EP_OPEN : CW_EP_FAILED);
        take_away(greedy[i]);
        cw_alone_end(worker, greedy[i]);
    }
    while (ucp_worker_progress(worker) > 0) {
    }
    assert_int_equal(worker->retained, ep->retained);
    announce_many(ep, 100);
    assert_int_equal(ep->state, CW_EP_OPEN);
}

/* However many share: a little is granted to each. */
TEST_WITH(test_least_share, set_up, tear_down)
{
    set_limit(1u << 20);
    worker->retained += CW_RETAINED_PEERS << 20; /* others' */
    worker->counts.values[CW_COUNT_EPS] += 1u << 20;
    announce_many(ep, CW_RETAINED_LEAST / CW_RETAINED_ONE);
    assert_int_equal(ep->state, CW_EP_OPEN);
    announce_many(ep, 1);
    assert_refused();
    worker->counts.values[CW_COUNT_EPS] -= 1u << 20;
    worker->retained -= CW_RETAINED_PEERS << 20;
}

/* What the words of the setting mean: no bound, and the default. */
TEST_WITH(test_words_for_the_bound, set_up, tear_down)
{
    assert_true(cw_ep_keep(ep, CW_RETAINED_ONE));
    set_limit(CW_MEMUNITS_INF);
    assert_true(cw_ep_keep(ep, UINT64_C(1) << 62));
    cw_ep_let_go(ep, UINT64_C(1) << 62);
    set_limit(CW_MEMUNITS_AUTO);
    assert_false(cw_ep_keep(ep, UINT64_C(1) << 30));
    assert_true(cw_ep_keep(ep, (UINT64_C(1) << 30) - CW_RETAINED_ONE));
    assert_false(cw_ep_keep(ep, 1));
    cw_ep_let_go(ep, UINT64_C(1) << 30);
    assert_int_equal(worker->retained, 0);
}

static void arrive(uint64_t tag, size_t length)
{
    uint64_t packet[8] = {htole64(tag)};

    cw_op_packet(ep->conn, CW_PACKET_TAG_EAGER, packet, sizeof(tag) + length);
}

/* Messages whose sender is gone can be received, but there are not more and more of them. */
TEST_WITH(test_left_messages_are_bounded, set_up, tear_down)
{
    const uint64_t one = CW_RETAINED_ONE + 40;
    ucp_tag_recv_info_t info;
    char in[40];

    set_limit(3 * one);
    for (uint64_t tag = 1; tag <= 5; tag++) {
        arrive(tag, 40);
    }
    lose_ep();
    assert_int_equal(worker->msg->left, 3 * one);
    assert_non_null(ucp_tag_probe_nb(worker, 3, UINT64_MAX, 0, &info));
    assert_null(ucp_tag_probe_nb(worker, 4, UINT64_MAX, 0, &info));
    assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), 2, UINT64_MAX, &plain));
    assert_int_equal(worker->msg->left, 2 * one);
    assert_int_equal(cw_alone_wait(worker, ucp_tag_msg_recv_nbx(worker, in, sizeof(in),
                                                                ucp_tag_probe_nb(worker, 1, UINT64_MAX, 1, &info),
                                                                &plain)), UCS_OK);
    assert_int_equal(worker->msg->left, one);
    assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), 3, UINT64_MAX, &plain));
    assert_int_equal(worker->msg->left, 0);
}

/* Stream data that a peer left to an endpoint nobody has the handle of. */
static void leave_stream(uint64_t limit)
{
    const uint64_t packet[3] = {0};

    set_limit(limit);
    ep->handle = CW_HANDLE_NONE;
    cw_op_packet(ep->conn, CW_PACKET_STREAM_DATA, packet, sizeof(packet));
    assert_int_equal(ep->unread, 1);
    ep->peer_ended = 1;
    ep->err_mode = UCP_ERR_HANDLING_MODE_NONE;
    cw_stream_ep_ended(ep, UCS_ERR_CONNECTION_RESET);
}

TEST_WITH(test_left_streams_are_bounded, set_up, tear_down)
{
    size_t length = 0;
    void *data;

    leave_stream(UINT64_MAX);
    assert_int_equal(ep->unread, 1);
    assert_true(worker->msg->left > 16);
    cw_stream_ep_ended(ep, UCS_ERR_CONNECTION_RESET); /* may be called twice */
    assert_int_equal(ep->unread, 1);
    ep->handle = CW_HANDLE_HELD;
    cw_stream_ep_user_changed(ep);
    assert_int_equal(worker->msg->left, 0);
    data = ucp_stream_recv_data_nb(ep, &length);
    assert_int_equal(length, 16);
    ucp_stream_data_release(ep, data);
}

TEST_WITH(test_left_streams_beyond_the_bound, set_up, tear_down)
{
    leave_stream(100);
    assert_int_equal(ep->unread, 0);
    assert_null(cw_op_ep(ep)->stream);
    assert_int_equal(worker->msg->left, 0);
    ep->handle = CW_HANDLE_HELD;
}

/* An endpoint that a peer opened. */
static ucp_ep_h opened(uint64_t uid, int lent)
{
    ucp_ep_h made = cw_ep_new_of_peer(worker, cw_peer_get(worker, uid, NULL, 0), 0);

    assert_non_null(made);
    made->lent = lent != 0;
    made->handle = lent ? CW_HANDLE_LENT : CW_HANDLE_NONE;
    return made;
}

static void ended(ucp_ep_h made)
{
    cw_ep_fail(made, UCS_ERR_ENDPOINT_TIMEOUT);
    ucp_worker_progress(worker);
}

static int by_address(const void *first, const void *second)
{
    const uintptr_t a = *(const uintptr_t *)first, b = *(const uintptr_t *)second;

    return (a > b) - (a < b);
}

/* Kilobytes that are in memory and belong to this process. */
static long resident_kb(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    long kb = 0, one;
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "RssAnon: %ld", &one) == 1 || sscanf(line, "RssShmem: %ld", &one) == 1) {
            kb += one;
        }
    }
    fclose(file);
    return kb;
}

/* Each of many peers that come and go has a handle of its own, which stays an error and costs next to nothing: at most
 * 64 bytes. Some peers stay meanwhile. */
TEST_WITH(test_lent_endpoints_are_never_reused, set_up, tear_down)
{
    enum { MANY_PEERS = 100000, STAY = 50, BYTES = 64 };
    static uintptr_t handles[MANY_PEERS + STAY];
    static ucp_ep_h staying[STAY];
    uint64_t eps;
    long before;

    lose_ep();
    eps = worker->counts.values[CW_COUNT_EPS];
    memset(handles, 1, sizeof(handles)); /* in memory before it is read */
    before = resident_kb();
    for (unsigned i = 0; i < MANY_PEERS; i++) {
        ucp_ep_h lent = opened(UINT64_C(1) << 32 | i, 1);

        handles[i] = (uintptr_t)lent;
        if (i % (MANY_PEERS / STAY) == 1000) {
            staying[i / (MANY_PEERS / STAY)] = opened(UINT64_C(2) << 32 | i, 1);
        }
        ended(lent);
    }
    if (before > 0 && !SANITIZED) { /* the system reports it, and freed memory is free */
        assert_in_range(resident_kb() - before, 0, (long)MANY_PEERS * BYTES / 1024);
    }
    assert_int_equal(worker->counts.values[CW_COUNT_EPS], eps + STAY);
    for (unsigned i = 0; i < STAY; i++) {
        handles[MANY_PEERS + i] = (uintptr_t)staying[i];
    }
    for (unsigned i = 0; i < MANY_PEERS; i++) {
        ucp_ep_h gone = (ucp_ep_h)handles[i];

        assert_true(gone->worker == worker && gone->state == CW_EP_FAILED && gone->handle == CW_HANDLE_RETIRED);
        assert_int_equal(gone->status, UCS_ERR_CONNECTION_RESET);
    }
    qsort(handles, MANY_PEERS + STAY, sizeof(handles[0]), by_address);
    for (unsigned i = 1; i < MANY_PEERS + STAY; i++) {
        assert_true(handles[i - 1] != handles[i]);
    }
    for (unsigned i = 0; i < STAY; i++) {
        assert_int_equal(staying[i]->state, CW_EP_IDLE);
        ended(staying[i]);
    }
    assert_int_equal(worker->counts.values[CW_COUNT_EPS], eps);
    assert_null(cw_hash_find(&worker->peers, UINT64_C(1) << 32));
}

/* What no handler got is used again. */
TEST_WITH(test_endpoints_that_nobody_knows, set_up, tear_down)
{
    ucp_ep_h first;

    lose_ep();
    first = opened(1, 0);
    ended(first);
    for (uint64_t uid = 2; uid < 1000; uid++) {
        ucp_ep_h next = opened(uid, 0);

        assert_ptr_equal(next, first);
        ended(next);
    }
}

int main(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    int failed;

    setenv("UCX_TLS", "self,posix", 1); /* posix for memory that may be mapped */
    if (ucp_init(&params, NULL, &context) != UCS_OK ||
        ucp_worker_create(context, &worker_params, &worker) != UCS_OK) {
        return 1;
    }
    failed = cw_tests_run(NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
