/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The situation of the tests of endpoints (core/ep.h): no wireup and no network, a transport that does what the test
 * says, handlers that count, and a worker with no more than endpoints need. `order` has a letter for each request that
 * ended, and how: '+' well, 'c' cancelled, '-' with an error.
 */
#ifndef CW_TEST_UNIT_TEST_EP_LIFE_H
#define CW_TEST_UNIT_TEST_EP_LIFE_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/ep.h"
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
static char order[128];                 /* of the requests that ended */
static size_t order_length;
static void (*inside_error)(struct ucp_ep *ep);
static const ucp_request_param_t no_param;

static inline ucs_status_t ep_connect(struct ucp_ep *ep)
{
    connects++;
    if (connect_answer == UCS_OK) {
        ep->conn = &conns[0];
        cw_ep_set_state(ep, CW_EP_DIALING);
    }
    return connect_answer;
}

static inline void ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    assert_ptr_equal(ep->worker, worker);
    assert_int_not_equal(status, UCS_OK);
    losts++;
}

static inline void ep_user_changed(struct ucp_ep *ep)
{
    (void)ep;
}

static inline void ep_quiesce(struct ucp_ep *ep)
{
    (void)ep;
}

static const struct cw_worker_handlers handlers = {.ep_connect = ep_connect,
                                              .ep_init = ep_init,
                                              .ep_expects = ep_expects,
                                              .ep_quiesce = ep_quiesce,
                                              .ep_ended = ep_ended,
                                              .ep_user_changed = ep_user_changed};

static inline ucs_status_t send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload,
                                      size_t length)
{
    assert_ptr_equal(conn->iface, &iface);
    assert_int_equal(id, CW_PACKET_CLOSE);
    assert_true(header == 0 && payload == NULL && length == 0);
    notices += send_answer == UCS_OK;
    return send_answer;
}

static inline void close_conn(struct cw_conn *conn)
{
    closes[conn - conns]++;
}

static const struct cw_transport_connect connecting = {.close_conn = close_conn};
static const struct cw_transport_packets packets = {.send_short = send_short};
static const struct cw_transport transport = {.name = "fake", .connect = &connecting, .packets = &packets};

static inline void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    assert_ptr_equal(arg, &errors);
    errors++;
    error_status = status;
    if (inside_error != NULL) {
        inside_error(ep);
    }
}

static inline int set_up(void **state)
{
    unsigned i;

    (void)state;
    worker = calloc(1, sizeof(*worker));
    if (worker == NULL) {
        return -1;
    }
    memset(&context, 0, sizeof(context));
    worker->context = &context;
    worker->handlers = &handlers;
    worker->uid = UID + 1;
    cw_list_init(&worker->eps);
    cw_list_init(&worker->reap);
    cw_list_init(&worker->flush_list);
    cw_hash_init(&worker->peers, 1);
    cw_hash_init(&worker->ep_index, 2);
    cw_request_pool_init(&worker->requests, 0);
    worker->redial.fire = cw_ep_redial_waiting;
    assert_int_equal(cw_poller_new(1, &worker->poller), UCS_OK);
    iface = (struct cw_iface){.transport = &transport, .name = transport.name, .packets = &packets, .logged = 1};
    for (i = 0; i < 3; i++) {
        conns[i] = (struct cw_conn){.iface = &iface};
    }
    memset(closes, 0, sizeof(closes));
    memset(order, 0, sizeof(order));
    connect_answer = send_answer = UCS_OK;
    connects = losts = attempts = notices = errors = 0;
    bytes_sent = 0;
    order_length = 0;
    inside_error = NULL;
    return 0;
}

/* In whatever state a test leaves its endpoints: everything ends. */
static inline int tear_down(void **state)
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
        cw_peer_free(cw_container_of(link, struct cw_peer, link));
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

static inline struct ucp_ep *ep_create(ucp_err_handling_mode_t mode)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                    .err_handler.cb = on_error, .err_handler.arg = &errors};
    struct ucp_ep *ep = NULL;

    assert_int_equal(cw_ep_create(worker, UID, "address", 7, (uint8_t)mode, &ep), UCS_OK);
    cw_ep_give(ep, &params);
    return ep;
}

/* What a peer's hello makes. */
static inline struct ucp_ep *ep_accept(uint32_t number, ucp_err_handling_mode_t mode)
{
    struct ucp_ep *ep = cw_ep_new(worker, cw_peer_get(worker, UID, NULL, 0), number);

    assert_non_null(ep);
    ep->err_mode = (uint8_t)mode;
    cw_ep_opened(ep, &conns[0]);
    return ep;
}

static inline ucs_status_t request_send(struct cw_request *request)
{
    attempts++;
    request->ep->turn += bytes_sent;
    return send_answer;
}

static inline void request_done(void *handle, ucs_status_t status, void *user_data)
{
    (void)handle;
    order[order_length++] = *(const char *)user_data;
    if (status == UCS_OK) {
        order[order_length++] = '+';
    } else {
        order[order_length++] = (status == UCS_ERR_CANCELED) ? 'c' : '-';
    }
}

/* The program gave the handle back: the request goes to the pool when it ends. */
static inline struct cw_request *make(struct ucp_ep *ep, const char *letter)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = request_done,
                                       .user_data = (void *)letter};
    struct cw_request *request = cw_request_get(worker, &param, CW_REQUEST_SEND);

    assert_non_null(request);
    request->ep = ep;
    request->send = request_send;
    cw_request_release(request, 1);
    return request;
}

static inline void post(struct ucp_ep *ep, const char *letter)
{
    cw_ep_queue(ep, make(ep, letter));
}

#endif
