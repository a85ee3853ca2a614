/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an endpoint: it connects at its first operation or when its peer does (EP-7..9, ERR-2), what is queued
 * goes out in order or ends with it, failures are reported once (ERR-4, ERR-20), flushes cover what was posted (FLU-1),
 * and connections and endpoints go when nobody needs them (CLS-4, CLS-14, CLS-15, CLS-19). test_ep_life.h builds the
 * situation; batches of requests are in test_ep_batch.c.
 */
#include "test_ep_life.h"

#include <stdio.h>

#include "msg/op_ep.h"
#include "os/clock.h"

static void close_by_force(struct ucp_ep *ep)
{
    assert_null(cw_ep_close(ep, NULL, 1));
    assert_int_equal(UCS_PTR_STATUS(cw_ep_close(ep, NULL, 1)), UCS_ERR_NOT_CONNECTED);
}

/* As many bytes as before endpoints had further lanes: users make thousands of them. */
TEST_WITH(test_an_idle_endpoint_is_small, set_up, tear_down)
{
    assert_true(sizeof(struct ucp_ep) + sizeof(struct cw_op_ep) <= 416);
    assert_true(sizeof(struct cw_conn) <= 72); /* the head of each connection */
}

/* N23-16: each endpoint keeps the address that it was made with; equal ones are kept once. */
TEST_WITH(test_n23_16_endpoints_by_several_addresses, set_up, tear_down)
{
    enum { MOST = 1 + CW_PEER_OTHERS_MAX };
    const ucp_ep_params_t params = {.field_mask = 0};
    struct ucp_ep *eps[2 * MOST], *ep = NULL;
    char address[8];
    int i;

    for (i = 0; i < 2 * MOST; i++) {
        (void)snprintf(address, sizeof(address), "part%u", i % MOST);
        assert_int_equal(cw_ep_create(worker, UID, address, strlen(address), UCP_ERR_HANDLING_MODE_NONE, &eps[i]),
                         UCS_OK);
        cw_ep_give(eps[i], &params);
    }
    assert_int_equal(cw_ep_create(worker, UID, "another", 7, UCP_ERR_HANDLING_MODE_NONE, &ep),
                     UCS_ERR_EXCEEDS_LIMIT);
    assert_null(ep);
    for (i = 0; i < 2 * MOST; i++) {
        (void)snprintf(address, sizeof(address), "part%u", i % MOST);
        assert_memory_equal(cw_ep_address(eps[i]), address, strlen(address));
    }
    assert_int_equal(eps[0]->peer->num_others, MOST - 1);
}

TEST_WITH(test_the_first_operation_connects_and_the_queue_keeps_its_order, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    assert_int_equal(ep->state, CW_EP_IDLE);
    assert_int_equal(connects, 0);
    post(ep, "a");
    post(ep, "b");
    post(ep, "c");
    assert_int_equal(connects, 1);
    assert_int_equal(ep->state, CW_EP_DIALING);
    assert_int_equal(worker->num_connecting, 1);
    assert_false(cw_ep_ready(ep));
    cw_ep_opened(ep, &conns[0]);
    assert_int_equal(worker->num_connecting, 0);
    assert_int_equal(attempts, 0); /* not before the transport has sent its reply */
    assert_false(cw_ep_ready(ep));
    send_answer = CW_AGAIN;
    assert_int_equal(cw_ep_reap_all(worker), 1);
    assert_int_equal(attempts, 1);
    assert_int_equal(order_length, 0);
    send_answer = UCS_OK;
    cw_ep_drain(ep);
    assert_string_equal(order, "a+b+c+");
    assert_true(cw_ep_ready(ep));
    assert_int_equal(cw_ep_reap_all(worker), 0);
}

TEST_WITH(test_connecting_endpoints_are_counted, set_up, tear_down)
{
    static const enum cw_ep_state steps[] = {CW_EP_DIALING, CW_EP_WAITING, CW_EP_IDLE,    CW_EP_DIALING, CW_EP_DIALING,
                                             CW_EP_OPEN,    CW_EP_WAITING, CW_EP_WAITING, CW_EP_FAILED};
    struct ucp_ep *other = ep_create(UCP_ERR_HANDLING_MODE_NONE), *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    size_t i;

    cw_ep_set_state(other, CW_EP_WAITING);
    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        cw_ep_set_state(ep, steps[i]);
        assert_int_equal(ep->state, steps[i]);
        assert_int_equal(worker->num_connecting, 1 + (steps[i] == CW_EP_DIALING || steps[i] == CW_EP_WAITING));
        assert_int_equal(worker->num_waiting, 1 + (steps[i] == CW_EP_WAITING));
    }
}

/* Who waits for the peer's dial dials again after a while, asleep or not; nothing is set when nobody waits. */
TEST_WITH(test_a_waiting_endpoint_dials_again, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE), *other = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    uint64_t at_ns;

    assert_false(cw_alarm_is_set(&worker->redial));
    cw_ep_set_state(ep, CW_EP_WAITING);
    at_ns = worker->redial.at_ns;
    assert_in_range(at_ns, cw_clock_ns(), cw_clock_ns() + UINT64_C(2000000000));
    cw_ep_set_state(other, CW_EP_WAITING);
    assert_int_equal(worker->redial.at_ns, at_ns);
    cw_ep_set_state(ep, CW_EP_OPEN);
    cw_ep_set_state(other, CW_EP_OPEN);
    assert_false(cw_alarm_is_set(&worker->redial));
    assert_int_equal(cw_poller_dispatch(worker->poller), 0);
    cw_ep_set_state(ep, CW_EP_WAITING);
    assert_false(cw_poller_check(worker->poller));
    cw_poller_alarm_set(worker->poller, &worker->redial, cw_clock_ns()); /* a while later */
    assert_int_equal(cw_poller_wait(worker->poller, -1), UCS_OK);
    assert_int_equal(cw_poller_dispatch(worker->poller), 1);
    assert_int_equal(connects, 1);
    assert_int_equal(ep->state, CW_EP_DIALING);
    assert_false(cw_poller_check(worker->poller));
    cw_ep_set_state(ep, CW_EP_WAITING);
    connect_answer = UCS_ERR_UNREACHABLE;
    cw_poller_alarm_set(worker->poller, &worker->redial, 1);
    assert_int_equal(cw_poller_dispatch(worker->poller), 1);
    assert_int_equal(ep->state, CW_EP_FAILED);
}

TEST_WITH(test_what_the_transport_took_is_in_flight, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    post(ep, "a");
    cw_ep_opened(ep, &conns[0]);
    send_answer = UCS_INPROGRESS;
    cw_ep_reap_all(worker);
    assert_true(cw_list_empty(&ep->pending));
    assert_false(cw_list_empty(&ep->inflight));
    assert_true(cw_ep_ready(ep));
    send_answer = UCS_ERR_IO_ERROR;
    post(ep, "b");
    cw_ep_drain(ep);
    assert_string_equal(order, "b-");
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "b-a-");
}

/* EP-7, EP-8, EP-9 */
TEST_WITH(test_ep7_ep8_ep9_an_endpoint_of_the_peer_is_adopted, set_up, tear_down)
{
    struct ucp_ep *accepted = ep_accept(0, UCP_ERR_HANDLING_MODE_PEER), *ep = accepted;

    assert_false(cw_ep_has_user(accepted));
    assert_int_equal(accepted->peer->address_length, 0);
    cw_ep_reap_all(worker);
    assert_int_equal(cw_ep_create(worker, UID, "address", 7, UCP_ERR_HANDLING_MODE_NONE, &ep), UCS_ERR_UNSUPPORTED);
    assert_int_equal(accepted->peer->next_number, 0);
    assert_ptr_equal(ep_create(UCP_ERR_HANDLING_MODE_PEER), accepted);
    assert_true(cw_ep_has_user(accepted));
    assert_int_equal(accepted->peer->address_length, 7); /* learnt only now */
    assert_memory_equal(accepted->peer->address, "address", 7);
    assert_int_equal(accepted->peer->references, 1);
    ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);
    assert_ptr_not_equal(ep, accepted);
    assert_int_equal(ep->number, 1);
    assert_ptr_equal(ep->peer, accepted->peer);
    assert_null(cw_ep_find(worker, UID, 2));
    assert_null(cw_ep_find(worker, UID + 1, 0));
}

/* ERR-2: from the next progress on, a few in each round. Not where the peer has dialled meanwhile, nor where the
 * program has closed it again, nor without error handling. */
TEST_WITH(test_err2_an_endpoint_that_handles_errors_dials_unasked, set_up, tear_down)
{
    enum { MANY = 40 };
    struct ucp_ep *eps[MANY];
    int i;

    for (i = 0; i < MANY; i++) {
        eps[i] = ep_create(i == 0 ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER);
    }
    assert_int_equal(connects, 0);
    cw_ep_opened(eps[2], &conns[1]);
    assert_null(cw_ep_close(eps[3], NULL, 0));
    close_by_force(eps[4]);
    post(eps[MANY - 1], "a");
    assert_int_equal(connects, 1);
    cw_ep_reap_all(worker);
    assert_int_equal(connects, 1 + 16);
    cw_ep_reap_all(worker);
    assert_int_equal(connects, 1 + 32);
    cw_ep_reap_all(worker);
    assert_int_equal(connects, MANY - 4);
    assert_int_equal(cw_ep_reap_all(worker), 0);
    assert_int_equal(eps[0]->state, CW_EP_IDLE);
    assert_int_equal(eps[2]->state, CW_EP_OPEN);
    assert_int_equal(errors + closes[1], 0);
}

/* Of many first operations only some dial at once, so that peers that dial meanwhile are accepted instead. A close
 * delivers what was posted before, whether or not the endpoint has dialled. */
TEST_WITH(test_many_first_operations_dial_in_turn, set_up, tear_down)
{
    enum { AT_ONCE = 16, MANY = AT_ONCE + 20 };
    struct ucp_ep *eps[MANY];
    ucs_status_ptr_t close;
    int i;

    for (i = 0; i < MANY; i++) {
        eps[i] = ep_create(UCP_ERR_HANDLING_MODE_NONE);
        post(eps[i], "a");
    }
    assert_int_equal(connects, AT_ONCE);
    assert_int_equal(eps[AT_ONCE]->state, CW_EP_IDLE);
    cw_ep_opened(eps[AT_ONCE], &conns[1]);
    close = cw_ep_close(eps[MANY - 1], &no_param, 0);
    assert_int_equal(UCS_PTR_STATUS(close), UCS_INPROGRESS);
    assert_int_equal(eps[MANY - 1]->state, CW_EP_DIALING);
    assert_int_equal(connects, AT_ONCE + 1);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a+");
    assert_int_equal(connects, AT_ONCE + 1 + 16);
    cw_ep_reap_all(worker);
    assert_int_equal(connects, MANY - 1);
    assert_int_equal(cw_ep_reap_all(worker), 0);
    cw_ep_opened(eps[MANY - 1], &conns[0]);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a+a+");
    assert_int_equal(notices, 1);
    assert_int_equal(cw_request_of(close)->status, UCS_OK);
    cw_request_release(cw_request_of(close), 0);
}

TEST_WITH(test_an_endpoint_that_cannot_connect_fails, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    connect_answer = UCS_ERR_UNREACHABLE;
    post(ep, "a");
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(order_length, 0); /* not inside the call that posted it */
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a-");
    assert_int_equal(error_status, UCS_ERR_UNREACHABLE);
}

/* ERR-4: once, from progress, after the requests. */
TEST_WITH(test_err4_a_failure_ends_all_requests_and_is_reported_once, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    post(ep, "a");
    post(ep, "b");
    cw_ep_fail(ep, UCS_ERR_ENDPOINT_TIMEOUT);
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET); /* the first reason counts */
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(order_length + errors + closes[0] + losts, 0);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a-b-");
    assert_int_equal(errors, 1);
    assert_int_equal(error_status, UCS_ERR_ENDPOINT_TIMEOUT);
    assert_int_equal(closes[0], 1);
    assert_int_equal(losts, 1);
    cw_ep_reap_later(ep);
    cw_ep_reap_all(worker);
    assert_int_equal(errors, 1);
    assert_int_equal(closes[0], 1);
    assert_ptr_equal(cw_ep_find(worker, UID, 0), ep); /* the program still holds it */
    assert_int_equal(UCS_PTR_STATUS(cw_ep_flush(ep, NULL)), UCS_ERR_ENDPOINT_TIMEOUT);
}

TEST_WITH(test_the_error_callback_may_close_the_endpoint, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    post(ep, "a");
    inside_error = close_by_force;
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    cw_ep_reap_all(worker);
    cw_ep_reap_all(worker);
    assert_int_equal(errors, 1);
    assert_null(cw_ep_find(worker, UID, 0));
    assert_true(cw_list_empty(&worker->eps));
}

TEST_WITH(test_a_failure_before_the_adoption_is_reported_then, set_up, tear_down)
{
    struct ucp_ep *ep = ep_accept(0, UCP_ERR_HANDLING_MODE_PEER);

    cw_list_init(&ep->reap_link); /* as after a progress: only the adoption asks for one now */
    cw_list_init(&worker->reap);
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    assert_ptr_equal(ep_create(UCP_ERR_HANDLING_MODE_PEER), ep);
    assert_int_equal(errors, 0);
    cw_ep_reap_all(worker);
    assert_int_equal(errors, 1);
    assert_int_equal(error_status, UCS_ERR_CONNECTION_RESET);
}

/* ERR-20: in mode NONE the orderly end of the peer's worker is no error; in mode PEER it is. */
TEST_WITH(test_err20_the_orderly_end_of_the_peer_is_reported_in_mode_peer_only, set_up, tear_down)
{
    struct ucp_ep *ep;
    int peer_mode;

    for (peer_mode = 0; peer_mode < 2; peer_mode++) {
        ep = ep_create(peer_mode ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE);
        cw_ep_opened(ep, &conns[0]);
        cw_ep_peer_ended(ep);
        cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
        cw_ep_reap_all(worker);
        assert_int_equal(errors, (unsigned)peer_mode);
        if (peer_mode) {
            assert_int_equal(UCS_PTR_STATUS(cw_ep_close(ep, NULL, 0)), UCS_ERR_CONNECTION_RESET);
        } else {
            assert_null(cw_ep_close(ep, NULL, 0));
        }
        cw_ep_reap_all(worker);
        assert_true(cw_list_empty(&worker->eps));
    }
}

/* FLU-1: what is held was posted before, and nothing else is under way. */
TEST_WITH(test_flu1_flushes_wait_for_what_is_held, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    ucs_status_ptr_t flush, all;

    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    assert_null(cw_ep_flush(ep, &no_param));
    assert_null(cw_worker_flush(worker, &no_param));
    cw_ep_wait(ep, &ep->blocked, make(ep, "a"));
    flush = cw_ep_flush(ep, &no_param);
    all = cw_worker_flush(worker, &no_param);
    assert_true(UCS_PTR_IS_PTR(flush) && UCS_PTR_IS_PTR(all));
    cw_ep_drain(ep);
    assert_int_equal(cw_request_of(flush)->status, UCS_INPROGRESS);
    assert_int_equal(cw_request_of(all)->status, UCS_INPROGRESS);
    cw_ep_release_blocked(ep);
    assert_string_equal(order, "a+");
    assert_int_equal(cw_request_of(flush)->status, UCS_OK);
    assert_int_equal(cw_request_of(all)->status, UCS_OK);
    cw_request_release(cw_request_of(flush), 0);
    cw_request_release(cw_request_of(all), 0);
    assert_null(cw_worker_flush(worker, &no_param));
    assert_true(cw_list_empty(&worker->flush_list)); /* forgotten */
}

TEST_WITH(test_closing_what_never_connected_is_quiet, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    assert_null(cw_ep_close(ep, NULL, 0));
    cw_ep_reap_all(worker);
    assert_true(cw_list_empty(&worker->eps));
    assert_int_equal(connects + notices, 0);
}

/* A close waits its turn behind what was posted before. */
TEST_WITH(test_a_close_goes_behind_what_is_queued, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    ucs_status_ptr_t close;

    post(ep, "a");
    close = cw_ep_close(ep, NULL, 0);
    assert_true(UCS_PTR_IS_PTR(close));
    cw_ep_opened(ep, &conns[0]);
    send_answer = CW_AGAIN;
    cw_ep_reap_all(worker);
    assert_int_equal(notices, 0);
    send_answer = UCS_OK;
    cw_ep_drain(ep);
    assert_string_equal(order, "a+");
    assert_int_equal(notices, 1);
    assert_int_equal(cw_request_of(close)->status, UCS_OK);
    cw_request_release(cw_request_of(close), 0);
}

/* CLS-4, CLS-19: nothing was posted, so it ends without the peer; CLOSE follows when that has answered. */
TEST_WITH(test_cls4_cls19_a_close_does_not_wait_for_an_unasked_dial, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    cw_ep_reap_all(worker);
    assert_int_equal(ep->state, CW_EP_DIALING);
    assert_null(cw_ep_close(ep, &no_param, 0));
    cw_ep_reap_all(worker);
    assert_int_equal(closes[0], 0); /* the peer may have an endpoint on it already */
    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    assert_int_equal(notices, 1);
    cw_ep_peer_closed(ep);
    cw_ep_reap_all(worker);
    assert_true(cw_list_empty(&worker->eps));
    assert_int_equal(closes[0], 1);
    assert_int_equal(errors, 0);
}

TEST_WITH(test_a_forced_close_cancels_at_once_and_reports_nothing, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER), *none = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    assert_int_equal(UCS_PTR_STATUS(cw_ep_close(none, NULL, 1)), UCS_ERR_INVALID_PARAM);
    assert_true(cw_ep_has_user(none));
    post(ep, "a");
    post(ep, "b");
    close_by_force(ep);
    assert_string_equal(order, "acbc");
    assert_int_equal(closes[0], 0); /* not inside the call */
    cw_ep_reap_all(worker);
    assert_int_equal(closes[0], 1);
    assert_int_equal(errors, 0);
    assert_null(cw_ep_find(worker, UID, 0));
}

/* CLS-14: the endpoint stays until both sides closed, whoever is first. */
TEST_WITH(test_cls14_an_open_endpoint_goes_when_both_sides_closed, set_up, tear_down)
{
    struct ucp_ep *ep;
    int peer_first;

    for (peer_first = 0; peer_first < 2; peer_first++) {
        ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
        cw_ep_opened(ep, &conns[0]);
        cw_ep_reap_all(worker);
        if (peer_first) {
            cw_ep_peer_closed(ep);
            cw_ep_reap_all(worker);
            assert_int_equal(notices, 1);
        }
        assert_null(cw_ep_close(ep, NULL, 0));
        assert_int_equal(notices, 1 + peer_first);
        assert_int_equal(closes[0], peer_first);
        cw_ep_reap_all(worker);
        if (!peer_first) {
            assert_int_equal(closes[0], 0);
            assert_non_null(cw_ep_find(worker, UID, 0));
            cw_ep_peer_closed(ep);
            cw_ep_reap_all(worker);
        }
        assert_int_equal(closes[0], 1 + peer_first);
        assert_true(cw_list_empty(&worker->eps));
    }
    assert_int_equal(errors, 0);
}

/* CLS-15: a peer to whom numbers were given is remembered; one that only dialled us is not. */
TEST_WITH(test_cls15_numbers_go_on_after_the_last_endpoint, set_up, tear_down)
{
    struct ucp_ep *ep = ep_accept(0, UCP_ERR_HANDLING_MODE_NONE);

    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    cw_ep_reap_all(worker);
    assert_null(cw_hash_find(&worker->peers, UID));
    ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    assert_int_equal(ep->number, 0);
    assert_null(cw_ep_close(ep, NULL, 0));
    cw_ep_reap_all(worker);
    assert_true(cw_list_empty(&worker->eps));
    assert_non_null(cw_hash_find(&worker->peers, UID));
    assert_int_equal(ep_create(UCP_ERR_HANDLING_MODE_NONE)->number, 1);
}

TEST_WITH(test_dropped_connections_are_closed_by_progress, set_up, tear_down)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    cw_ep_set_state(ep, CW_EP_DIALING);
    ep->conn = &conns[1];
    cw_ep_drop_conn(ep);
    assert_null(ep->conn);
    ep->conn = &conns[2];
    cw_ep_drop_conn(ep);
    cw_ep_opened(ep, &conns[0]);
    assert_int_equal(closes[1] + closes[2], 0);
    cw_ep_reap_all(worker);
    assert_int_equal(closes[0], 0);
    assert_int_equal(closes[1], 1);
    assert_int_equal(closes[2], 1);
    assert_int_equal(ep->state, CW_EP_OPEN);
}
