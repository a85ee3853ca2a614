/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends without progress between, where the transport hands several to the system together
 * (docs/why/tcp-rate.md): which of them leave at once, and which wait for progress.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>

#include "test_alone.h"
#include "test_under.h"

#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"

enum { EAGER = 16384, ANNOUNCED = 65536, TAG = 5 };

static const ucp_request_param_t plain;

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucs_status_ptr_t sends[8];
static unsigned num_sends;
static int open_batches, announced_in_batch;

static void batch(struct cw_conn *conn, enum cw_batch what)
{
    (void)conn;
    open_batches += (what == CW_BATCH_BEGIN || what == CW_BATCH_LONG) - (what == CW_BATCH_END);
}

static ucs_status_t check_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    announced_in_batch += id == CW_PACKET_TAG_RTS && open_batches > 0;
    return fake_short(conn, id, header, payload, length);
}

static ucs_status_t check_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    announced_in_batch += id == CW_PACKET_TAG_RTS && open_batches > 0;
    return fake_bcopy(conn, id, max, pack, arg);
}

static int set_up(void **state)
{
    (void)state;
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    put_under(ep);
    fake_packets.send_short = check_short;
    fake_packets.send_bcopy = check_bcopy;
    fake_packets.send_zcopy = NULL;
    fake_packets.batch = batch;
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_bcopy = 2 * EAGER;
    num_sends = 0;
    open_batches = announced_in_batch = 0;
    assert_in_range(ep->conn->iface->plan->short_end, 1, EAGER);
    while (ucp_worker_progress(worker) > 0) {
    }
    ucp_worker_progress(worker);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(open_batches, 0);
    take_away(ep);
    cw_alone_end(worker, ep);
    while (ucp_worker_progress(worker) > 0) {
    }
    for (unsigned i = 0; i < num_sends; i++) {
        if (UCS_PTR_IS_PTR(sends[i])) {
            ucp_request_free(sends[i]);
        }
    }
    return 0;
}

static void post(size_t length)
{
    static char bytes[ANNOUNCED];

    sends[num_sends++] = ucp_tag_send_nbx(ep, bytes, length, TAG, &plain);
}

static void post_stream(size_t length)
{
    static char bytes[EAGER];

    sends[num_sends++] = ucp_stream_send_nbx(ep, bytes, length, &plain);
}

/* The first one leaves at once, so that the peer can begin; the others leave together. So it is after progress. */
TEST_WITH(test_announcements_wait_for_progress, set_up, tear_down)
{
    for (unsigned round = 1; round <= 2; round++) {
        for (unsigned i = 0; i < 3; i++) {
            post(ANNOUNCED);
            assert_int_equal(count_packets(CW_PACKET_TAG_RTS), 3 * round - 2);
        }
        ucp_worker_progress(worker);
        assert_int_equal(count_packets(CW_PACKET_TAG_RTS), 3 * round);
    }
}

/* Nothing is gained where each is handed over by itself. */
TEST_WITH(test_announcements_without_batches, set_up, tear_down)
{
    fake_packets.batch = NULL;
    for (unsigned i = 1; i <= 3; i++) {
        post(ANNOUNCED);
        assert_int_equal(count_packets(CW_PACKET_TAG_RTS), i);
    }
}

/* What is gathered leaves before an announcement, which does not wait for the end of what came before. */
TEST_WITH(test_announcement_behind_a_batch, set_up, tear_down)
{
    post(EAGER);
    post(EAGER);
    assert_int_equal(num_records, 2);
    assert_int_equal(open_batches, 1);
    post(ANNOUNCED);
    assert_int_equal(count_packets(CW_PACKET_TAG_RTS), 1);
    assert_int_equal(announced_in_batch, 0);
    assert_int_equal(open_batches, 0);
    ucp_worker_progress(worker);
    assert_int_equal(num_records, 3);
}

/* A peer that sends as well gets its turn: behind so many bytes, what follows waits for progress. */
static void check_turns(void (*send)(size_t length))
{
    const struct cw_wire_tag_rts rts = {.tag = htole64(9), .rts = {.length = htole64(100), .send_id = htole64(1)}};

    send(EAGER);
    ep->turn = 1u << 20;
    send(EAGER); /* nothing comes from there */
    assert_int_equal(num_records, 2);
    assert_int_equal(open_batches, 1); /* it may leave with what comes */
    ucp_worker_progress(worker);
    assert_int_equal(open_batches, 0);
    cw_op_packet(ep->conn, CW_PACKET_TAG_RTS, &rts, sizeof(rts));
    send(EAGER);
    send(EAGER);
    assert_int_equal(num_records, 4);
    ep->turn = 1u << 20;
    send(EAGER);
    assert_int_equal(num_records, 4);
    ucp_worker_progress(worker);
    assert_int_equal(num_records, 5);
}

TEST_WITH(test_tag_messages_leave_turns, set_up, tear_down)
{
    check_turns(post);
}

/* A header of the program's own counts: what is no short packet with it is handed over at once. */
TEST_WITH(test_headers_count, set_up, tear_down)
{
    static char header[100], bytes[EAGER];
    const size_t length = ep->conn->iface->plan->short_end - sizeof(header) / 2;

    for (unsigned i = 1; i <= 2; i++) {
        sends[num_sends++] = ucp_am_send_nbx(ep, 1, header, sizeof(header), bytes, length, &plain);
        assert_int_equal(num_records, i);
    }
    ucp_worker_progress(worker);
    post(1);
    post(1);
    assert_int_equal(num_records, 3); /* short ones leave together with the next progress */
    ucp_worker_progress(worker);
    assert_int_equal(num_records, 4);
}

TEST_WITH(test_streams_leave_turns, set_up, tear_down)
{
    check_turns(post_stream);
}

/* After 2^32 rounds of progress, too: where the transport hands over one by one, nothing is kept of an earlier send,
 * and no round is taken for that of one. */
TEST_WITH(test_rounds_are_many, set_up, tear_down)
{
    for (int batches = 0; batches < 2; batches++) {
        fake_packets.batch = batches ? batch : NULL;
        worker->round = UINT32_MAX;
        ucp_worker_progress(worker);
        assert_true(worker->round == UINT64_C(1) << 32);
        post(EAGER);
        ucp_worker_progress(worker);
        assert_int_equal(open_batches, 0);
    }
    fake_packets.batch = batch;
}

int main(void)
{
    int failed;

    setenv("UCX_RNDV_THRESH", "32K", 1);
    if (!cw_alone_open(UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM, &context, &worker)) {
        return 1;
    }
    failed = cw_tests_run(NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
