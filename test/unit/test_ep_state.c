/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of an endpoint (core/ep.h) without wireup and without a network: a transport that does what the test says,
 * handlers that count, and a worker with no more than endpoints need. What is queued goes out in order or ends with the
 * endpoint, failures are told once, and connections and endpoints go when nobody needs them (EP-8, ERR-4, CLS-14,
 * CLS-15).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/ep.h"
#include "core/ep_batch.h"
#include "os/clock.h"
#include "wire/packet.h"
#include "test_no_op.h"

#define UID 0x1122334455667788u

static struct ucp_context context;
static struct ucp_worker *worker;
static struct cw_iface iface;
static struct cw_conn conns[3];
static unsigned closes[3];              /* of each connection */
static ucs_status_t connect_answer, send_answer;
static unsigned connects, losts, attempts, notices, errors;
static uint32_t bytes_sent;             /* by each attempt */
static ucs_status_t error_status;
static char order[64];                  /* one letter for each request that ended */
static size_t order_length;
static void (*inside_error)(struct ucp_ep *ep);
static const ucp_request_param_t no_param;

static ucs_status_t ep_connect(struct ucp_ep *ep)
{
    connects++;
    if (connect_answer == UCS_OK) {
        ep->conn = &conns[0];
        cw_ep_set_state(ep, CW_EP_DIALING);
    }
    return connect_answer;
}

static void ep_lost(struct ucp_ep *ep, ucs_status_t status)
{
    assert_ptr_equal(ep->worker, worker);
    assert_int_not_equal(status, UCS_OK);
    losts++;
}

static void ep_user_changed(struct ucp_ep *ep)
{
    (void)ep;
}

static void ep_quiesce(struct ucp_ep *ep)
{
    (void)ep;
}


static const struct cw_worker_handlers handlers = {.ep_connect      = ep_connect,
                                                   .ep_init         = ep_init,
                                                   .ep_expects      = ep_expects,
                                                   .ep_quiesce      = ep_quiesce,
                                                   .ep_lost         = ep_lost,
                                                   .ep_user_changed = ep_user_changed};

static ucs_status_t send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    assert_ptr_equal(conn->iface, &iface);
    assert_int_equal(id, CW_PACKET_CLOSE);
    assert_true(header == 0 && payload == NULL && length == 0);
    notices += send_answer == UCS_OK;
    return send_answer;
}

static void close_conn(struct cw_conn *conn)
{
    closes[conn - conns]++;
}

static const struct cw_transport_connect connecting = {.close_conn = close_conn};
static const struct cw_transport_packets packets    = {.send_short = send_short};
static const struct cw_transport transport          = {.name = "fake", .connect = &connecting, .packets = &packets};

static int batches, last_ones; /* of the transport below: those that are open; last packets */

static void batch(struct cw_conn *conn, enum cw_batch what)
{
    assert_ptr_equal(conn, &conns[0]);
    batches += (what == CW_BATCH_BEGIN || what == CW_BATCH_LONG) - (what == CW_BATCH_END);
    last_ones += what == CW_BATCH_LAST;
}

static const struct cw_transport_packets batched = {.send_short = send_short, .batch = batch};
static const struct cw_transport batching = {.name = "fake", .connect = &connecting, .packets = &batched};

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    assert_ptr_equal(arg, &errors);
    errors++;
    error_status = status;
    if (inside_error != NULL) {
        inside_error(ep);
    }
}

static int set_up(void **state)
{
    unsigned i;

    (void)state;
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -1;
    }
    memset(&context, 0, sizeof(context));
    worker->context    = &context;
    worker->handlers   = &handlers;
    worker->uid        = UID + 1;
    cw_list_init(&worker->eps);
    cw_list_init(&worker->reap);
    cw_list_init(&worker->owing);
    cw_hash_init(&worker->peers, 1);
    cw_hash_init(&worker->ep_index, 2);
    cw_request_pool_init(&worker->requests, 0);
    worker->redial.fire = cw_ep_redial_waiting;
    assert_int_equal(cw_poller_new(1, &worker->poller), UCS_OK);
    iface = (struct cw_iface){.transport = &transport, .packets = &packets, .told = 1};
    for (i = 0; i < 3; i++) {
        conns[i] = (struct cw_conn){.iface = &iface};
    }
    memset(closes, 0, sizeof(closes));
    memset(order, 0, sizeof(order));
    connect_answer = send_answer = UCS_OK;
    connects = losts = attempts = notices = errors = 0;
    batches = last_ones = 0;
    bytes_sent = 0;
    order_length = 0;
    inside_error = NULL;
    return 0;
}

/* In whatever state a test leaves its endpoints: everything ends. */
static int tear_down(void **state)
{
    struct cw_hash_link *link;

    (void)state;
    while (!cw_list_empty(&worker->eps)) {
        cw_ep_destroy(cw_list_head(&worker->eps, struct ucp_ep, link));
    }
    assert_true(cw_list_empty(&worker->reap));
    assert_int_equal(worker->ep_index.count, 0);
    assert_int_equal(worker->num_connecting, 0);
    assert_int_equal(worker->num_waiting, 0);
    assert_int_equal(cw_request_pool_in_use(&worker->requests), 0);
    link = cw_hash_find(&worker->peers, UID);
    if (link != NULL) {
        assert_int_equal(cw_container_of(link, struct cw_peer, link)->references, 0);
        cw_hash_remove(&worker->peers, link);
        free(cw_container_of(link, struct cw_peer, link));
    }
    assert_int_equal(worker->peers.count, 0);
    cw_hash_cleanup(&worker->peers);
    cw_hash_cleanup(&worker->ep_index);
    cw_request_pool_cleanup(&worker->requests, &context);
    assert_false(cw_alarm_is_set(&worker->redial));
    cw_poller_free(worker->poller);
    free(worker);
    return 0;
}

static struct ucp_ep *ep_create(ucp_err_handling_mode_t mode)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                  UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .err_mode       = mode,
                                    .err_handler.cb = on_error, .err_handler.arg = &errors};
    struct ucp_ep *ep            = NULL;

    assert_int_equal(cw_ep_create(worker, UID, "address", 7, &params, &ep), UCS_OK);
    return ep;
}

/* What a peer's hello makes. */
static struct ucp_ep *ep_accept(uint32_t number, ucp_err_handling_mode_t mode)
{
    struct ucp_ep *ep = cw_ep_new(worker, cw_peer_get(worker, UID, NULL, 0), number);

    assert_non_null(ep);
    ep->err_mode = (uint8_t)mode;
    cw_ep_opened(ep, &conns[0]);
    return ep;
}

static ucs_status_t request_send(struct cw_request *request)
{
    attempts++;
    request->ep->turn += bytes_sent;
    return send_answer;
}

static void request_done(void *handle, ucs_status_t status, void *user_data)
{
    (void)handle;
    order[order_length++] = *(const char *)user_data;
    order[order_length++] = (status == UCS_OK) ? '+' : (status == UCS_ERR_CANCELED) ? 'c' : '-';
}

/* The program gave the handle back: the request goes to the pool when it ends. */
static struct cw_request *make(struct ucp_ep *ep, const char *letter)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send      = request_done,
                                       .user_data    = (void *)letter};
    struct cw_request *request      = cw_request_get(worker, &param, CW_REQUEST_SEND);

    assert_non_null(request);
    request->ep   = ep;
    request->send = request_send;
    cw_request_release(request, 1);
    return request;
}

static void post(struct ucp_ep *ep, const char *letter)
{
    cw_ep_queue(ep, make(ep, letter));
}

static struct ucp_ep *ep_batching(void)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    iface.transport = &batching;
    iface.packets   = &batched;
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
static void what_is_handed_over_completes_in_progress(void **state)
{
    struct ucp_ep *ep = ep_batching();

    (void)state;
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

/* The system takes no more: the rest of the queue goes its usual way. */
static void who_is_not_taken_ends_the_batch_for_all(void **state)
{
    struct ucp_ep *ep = ep_batching();

    (void)state;
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
static void nothing_follows_past_what_is_still_to_be_sent(void **state)
{
    struct ucp_ep *ep = ep_batching();

    (void)state;
    expects = 1;
    cw_ep_wait(ep, &ep->held, make(ep, "a"));
    cw_ep_wait(ep, &ep->held, make(ep, "b"));
    follow(ep, "c");
    assert_true(cw_ep_gathers(ep));
    bytes_sent = 1u << 20;
    cw_ep_release_held(ep);
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

/* Nothing long comes: all of the queue goes, and the system is told which is the last. */
static void without_anything_to_wait_for_there_are_no_turns(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    (void)state;
    post(ep, "a");
    post(ep, "b");
    post(ep, "c");
    iface.transport = &batching;
    iface.packets   = &batched;
    bytes_sent      = 1u << 20;
    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a+b+c+");
    assert_int_equal(last_ones, 1);
    assert_int_equal(batches, 0);
}

/* FLU-1: what is held was posted before, and nothing else is under way. */
static void flushes_wait_for_what_is_held(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    ucs_status_ptr_t flush, all;

    (void)state;
    cw_ep_opened(ep, &conns[0]);
    cw_ep_reap_all(worker);
    assert_null(cw_ep_flush(ep, &no_param));
    assert_null(cw_worker_flush(worker, &no_param));
    cw_ep_wait(ep, &ep->held, make(ep, "a"));
    flush = cw_ep_flush(ep, &no_param);
    all   = cw_worker_flush(worker, &no_param);
    assert_true(UCS_PTR_IS_PTR(flush) && UCS_PTR_IS_PTR(all));
    cw_ep_drain(ep);
    assert_int_equal(cw_request_of(flush)->status, UCS_INPROGRESS);
    assert_int_equal(cw_request_of(all)->status, UCS_INPROGRESS);
    cw_ep_release_held(ep);
    assert_string_equal(order, "a+");
    assert_int_equal(cw_request_of(flush)->status, UCS_OK);
    assert_int_equal(cw_request_of(all)->status, UCS_OK);
    cw_request_release(cw_request_of(flush), 0);
    cw_request_release(cw_request_of(all), 0);
    assert_null(cw_worker_flush(worker, &no_param));
    assert_true(cw_list_empty(&worker->owing)); /* forgotten */
}

static void the_first_operation_connects_and_the_queue_keeps_its_order(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
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

static void close_by_force(struct ucp_ep *ep)
{
    assert_null(cw_ep_close(ep, NULL, 1));
    assert_int_equal(UCS_PTR_STATUS(cw_ep_close(ep, NULL, 1)), UCS_ERR_NOT_CONNECTED);
}

/* ERR-2: from the next progress on, a few in each round. Not where the peer has dialled meanwhile, nor where the
 * program has closed it again, nor without error handling. */
static void who_handles_errors_dials_unasked(void **state)
{
    enum { MANY = 40 };
    struct ucp_ep *eps[MANY];
    int i;

    (void)state;
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

/* CLS-4, CLS-19: nothing was posted, so it ends without the peer; CLOSE follows when that has answered. */
static void a_close_does_not_wait_for_an_unasked_dial(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
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

static void what_the_transport_took_is_in_flight(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
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

static void connecting_endpoints_are_counted(void **state)
{
    static const enum cw_ep_state steps[] = {CW_EP_DIALING, CW_EP_WAITING, CW_EP_IDLE, CW_EP_DIALING, CW_EP_DIALING,
                                             CW_EP_OPEN, CW_EP_WAITING, CW_EP_WAITING, CW_EP_FAILED};
    struct ucp_ep *other = ep_create(UCP_ERR_HANDLING_MODE_NONE), *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    size_t i;

    (void)state;
    cw_ep_set_state(other, CW_EP_WAITING);
    for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        cw_ep_set_state(ep, steps[i]);
        assert_int_equal(ep->state, steps[i]);
        assert_int_equal(worker->num_connecting, 1 + (steps[i] == CW_EP_DIALING || steps[i] == CW_EP_WAITING));
        assert_int_equal(worker->num_waiting, 1 + (steps[i] == CW_EP_WAITING));
    }
}

/* Who waits for the peer's dial dials again after a while, asleep or not; nothing is set when nobody waits. */
static void who_waits_dials_again(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE), *other = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    uint64_t at_ns;

    (void)state;
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

/* ERR-4: once, from progress, after the requests. */
static void a_failure_ends_all_requests_and_is_told_once(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
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

static void who_cannot_connect_fails(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
    connect_answer = UCS_ERR_UNREACHABLE;
    post(ep, "a");
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(order_length, 0); /* not inside the call that posted it */
    cw_ep_reap_all(worker);
    assert_string_equal(order, "a-");
    assert_int_equal(error_status, UCS_ERR_UNREACHABLE);
}

static void the_error_callback_may_close_the_endpoint(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
    post(ep, "a");
    inside_error = close_by_force;
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    cw_ep_reap_all(worker);
    cw_ep_reap_all(worker);
    assert_int_equal(errors, 1);
    assert_null(cw_ep_find(worker, UID, 0));
    assert_true(cw_list_empty(&worker->eps));
}

static void a_forced_close_cancels_at_once_and_tells_nobody(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_PEER), *none = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    (void)state;
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

static void closing_what_never_connected_is_quiet(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    (void)state;
    assert_null(cw_ep_close(ep, NULL, 0));
    cw_ep_reap_all(worker);
    assert_true(cw_list_empty(&worker->eps));
    assert_int_equal(connects + notices, 0);
}

/* CLS-14: the endpoint stays until both sides closed, whoever is first. */
static void an_open_endpoint_goes_when_both_sides_closed(void **state)
{
    struct ucp_ep *ep;
    int peer_first;

    (void)state;
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

/* A close waits its turn behind what was posted before. */
static void a_close_goes_behind_what_is_queued(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);
    ucs_status_ptr_t close;

    (void)state;
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

/* EP-7, EP-8, EP-9 */
static void what_the_peer_opened_is_adopted(void **state)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                    .err_mode   = UCP_ERR_HANDLING_MODE_NONE};
    struct ucp_ep *accepted      = ep_accept(0, UCP_ERR_HANDLING_MODE_PEER), *ep = accepted;

    (void)state;
    assert_false(cw_ep_has_user(accepted));
    assert_int_equal(accepted->peer->address_length, 0);
    cw_ep_reap_all(worker);
    assert_int_equal(cw_ep_create(worker, UID, "address", 7, &params, &ep), UCS_ERR_UNSUPPORTED);
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

static void what_failed_before_it_was_adopted_is_told_then(void **state)
{
    struct ucp_ep *ep = ep_accept(0, UCP_ERR_HANDLING_MODE_PEER);

    (void)state;
    cw_list_init(&ep->reap_link); /* as after a progress: only the adoption asks for one now */
    cw_list_init(&worker->reap);
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    assert_ptr_equal(ep_create(UCP_ERR_HANDLING_MODE_PEER), ep);
    assert_int_equal(errors, 0);
    cw_ep_reap_all(worker);
    assert_int_equal(errors, 1);
    assert_int_equal(error_status, UCS_ERR_CONNECTION_RESET);
}

/* CLS-15: a peer to whom numbers were given is remembered; one that only dialled us is not. */
static void numbers_go_on_after_the_last_endpoint(void **state)
{
    struct ucp_ep *ep = ep_accept(0, UCP_ERR_HANDLING_MODE_NONE);

    (void)state;
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

static void dropped_connections_are_closed_by_progress(void **state)
{
    struct ucp_ep *ep = ep_create(UCP_ERR_HANDLING_MODE_NONE);

    (void)state;
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

/* ERR-20: in mode NONE the orderly end of the peer's worker is no error; in mode PEER it is. */
static void the_orderly_end_of_the_peer_is_told_in_mode_peer_only(void **state)
{
    struct ucp_ep *ep;
    int peer_mode;

    (void)state;
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

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_first_operation_connects_and_the_queue_keeps_its_order),
        test(who_handles_errors_dials_unasked),
        test(a_close_does_not_wait_for_an_unasked_dial),
        test(what_the_transport_took_is_in_flight),
        test(what_is_handed_over_completes_in_progress),
        test(who_is_not_taken_ends_the_batch_for_all),
        test(nothing_follows_past_what_is_still_to_be_sent),
        test(without_anything_to_wait_for_there_are_no_turns),
        test(flushes_wait_for_what_is_held),
        test(connecting_endpoints_are_counted),
        test(who_waits_dials_again),
        test(a_failure_ends_all_requests_and_is_told_once),
        test(who_cannot_connect_fails),
        test(the_error_callback_may_close_the_endpoint),
        test(a_forced_close_cancels_at_once_and_tells_nobody),
        test(closing_what_never_connected_is_quiet),
        test(an_open_endpoint_goes_when_both_sides_closed),
        test(a_close_goes_behind_what_is_queued),
        test(what_the_peer_opened_is_adopted),
        test(what_failed_before_it_was_adopted_is_told_then),
        test(numbers_go_on_after_the_last_endpoint),
        test(dropped_connections_are_closed_by_progress),
        test(the_orderly_end_of_the_peer_is_told_in_mode_peer_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
