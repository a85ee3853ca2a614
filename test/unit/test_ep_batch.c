/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests that are handed to the transport together (core/ep_batch.h): they complete in progress, which ends the
 * batch, and none passes another one. The transport counts batches that are open and packets that are called the last.
 */
#include "test_ep_life.h"

#include "core/ep_batch.h"

static int batches, last_ones; /* of the transport below: those that are open; last packets */

static void batch(struct cw_conn *conn, enum cw_batch what)
{
    assert_ptr_equal(conn, &conns[0]);
    batches += (what == CW_BATCH_BEGIN || what == CW_BATCH_LONG) - (what == CW_BATCH_END);
    last_ones += what == CW_BATCH_LAST;
}

static const struct cw_transport_packets batched = {.send_short = send_short, .batch = batch};
static const struct cw_transport batching = {.name = "fake", .connect = &connecting, .packets = &batched};

static int set_up_batches(void **state)
{
    batches = last_ones = 0;
    return set_up(state);
}

static struct ucp_ep *ep_batching(void)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    iface.transport = &batching;
    iface.packets = &batched;
    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    return ep;
}

/* One that goes behind another one before progress. */
static void follow(struct ucp_ep *ep, const char *letter)
{
    struct cw_request *request = make(ep, letter);

    assert_int_equal(cw_ep_follow(ep, request), CW_AGAIN);
    cw_ep_queue(ep, request);
}

/* Sent once, and complete with the next progress, which ends the batch. */
TEST_WITH(test_requests_of_a_batch_complete_in_progress, set_up_batches, tear_down)
{
    struct ucp_ep *ep = ep_batching();

    assert_false(cw_ep_gathers(ep));
    follow(ep, "a");
    assert_true(cw_ep_gathers(ep));
    follow(ep, "b");
    assert_int_equal(attempts, 2);
    assert_int_equal(order_length, 0);
    assert_int_equal(batches, 1);
    cw_ep_reap_all(worker);
    assert_int_equal(attempts, 2);
    assert_string_equal(order, "a+b+");
    assert_int_equal(batches, 0);
    assert_false(cw_ep_gathers(ep));
}

/* The system takes no more: the rest of the queue takes its usual path. */
TEST_WITH(test_a_send_that_is_not_taken_ends_the_batch_for_all, set_up_batches, tear_down)
{
    struct ucp_ep *ep = ep_batching();

    follow(ep, "a");
    send_answer = CW_AGAIN;
    follow(ep, "b");
    assert_false(cw_ep_gathers(ep));
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a+");
    assert_int_equal(batches, 0);
    send_answer = UCS_OK;
    cw_ep_drain(ep);
    assert_string_equal(order, "a+b+");
    assert_int_equal(attempts, 4);
}

/* While something long comes a turn has an end, and what was held before is still to be sent: nothing may pass it. The
 * batch stays open until all is sent. */
TEST_WITH(test_nothing_follows_past_what_is_still_to_be_sent, set_up_batches, tear_down)
{
    struct ucp_ep *ep = ep_batching();

    expects = 1;
    cw_ep_wait(ep, &ep->blocked, make(ep, "a"));
    cw_ep_wait(ep, &ep->blocked, make(ep, "b"));
    follow(ep, "c");
    assert_true(cw_ep_gathers(ep));
    bytes_sent = 1u << 20;
    cw_ep_release_blocked(ep);
    assert_string_equal(order, "c+a+");
    assert_int_equal(batches, 1);
    assert_false(cw_ep_gathers(ep));
    expects = 0;
    assert_false(cw_ep_gathers(ep));
    cw_ep_reap_all(worker);
    assert_string_equal(order, "c+a+b+");
    assert_int_equal(attempts, 3);
    assert_int_equal(batches, 0);
}

/* Nothing long comes: all of the queue goes, and the system learns which is the last. */
TEST_WITH(test_without_anything_to_wait_for_there_are_no_turns, set_up_batches, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    post(ep, "a");
    post(ep, "b");
    post(ep, "c");
    iface.transport = &batching;
    iface.packets = &batched;
    bytes_sent = 1u << 20;
    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a+b+c+");
    assert_int_equal(last_ones, 1);
    assert_int_equal(batches, 0);
}
