/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What goes over connections that were made at a listener: CS-15, CS-20..22, CS-30, CS-33, EP-30, ERR-21, N22-72,
 * N22-73, and which transport carries it. How connections fail and end is in test_client_server_end.c.
 */
#define _GNU_SOURCE
#include "test_cs_common.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 60, STREAM_BYTES = 40000 };

static size_t burst_size(int i)
{
    static const size_t sizes[] = {8, 0, 1, 300, 5000, 20000, 100000, 2000000};

    return sizes[i % 8];
}

struct am_count {
    int count;
    int wrong;
};

static ucs_status_t am_arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    struct am_count *am = arg;

    am->wrong += header_length != sizeof(int) || memcmp(header, &am->count, sizeof(int)) != 0 || length != 100 ||
                 (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) || cw_pattern_find(data, length, 5) >= 0;
    am->count++;
    return UCS_OK;
}

static void am_handler_set(ucp_worker_h worker, struct am_count *am)
{
    ucp_am_handler_param_t param;

    memset(&param, 0xff, sizeof(param));
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    param.id = 3;
    param.cb = am_arrived;
    param.arg = am;
    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
}

/* One direction: tags, active messages and a stream, mixed. */
struct flow {
    char *out[BURST];
    ucs_status_ptr_t tags[BURST];
    ucs_status_ptr_t ams[BURST];
    ucs_status_ptr_t stream;
    char *bytes;
    char am_data[100];
    int am_headers[BURST];
    struct am_count arrived;
};

static void flow_send(struct flow *flow, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    cw_pattern_fill(flow->am_data, sizeof(flow->am_data), 5);
    flow->bytes = malloc(STREAM_BYTES);
    assert_non_null(flow->bytes);
    cw_pattern_fill(flow->bytes, STREAM_BYTES, 77);
    for (int i = 0; i < BURST; i++) {
        flow->out[i] = malloc(burst_size(i) + 1);
        assert_non_null(flow->out[i]);
        cw_pattern_fill(flow->out[i], burst_size(i), (uint64_t)i);
        flow->tags[i] = cs_send(ep, flow->out[i], burst_size(i), 0x100);
        flow->am_headers[i] = i;
        flow->ams[i] = ucp_am_send_nbx(ep, 3, &flow->am_headers[i], sizeof(int), flow->am_data, 100, &param);
    }
    flow->stream = ucp_stream_send_nbx(ep, flow->bytes, STREAM_BYTES, &param);
}

static void flow_receive(struct flow *flow, ucp_worker_h worker, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none(), whole = cw_param_none();
    char *in = malloc(2000000);
    size_t length = 0;

    assert_non_null(in);
    for (int i = 0; i < BURST; i++) { /* the same tag, so order shows */
        assert_int_equal(cs_wait(ucp_tag_recv_nbx(worker, in, 2000000, 0x100, CW_TAG_ALL, &param), "receive"), UCS_OK);
        cw_pattern_check(in, burst_size(i), (uint64_t)i);
        assert_int_equal(cs_wait(flow->tags[i], "send"), UCS_OK);
        free(flow->out[i]);
    }
    whole.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    whole.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    memset(in, 0, STREAM_BYTES);
    assert_int_equal(cs_wait(ucp_stream_recv_nbx(ep, in, STREAM_BYTES, &length, &whole), "stream"), UCS_OK);
    cw_pattern_check(in, STREAM_BYTES, 77);
    assert_int_equal(cs_wait(flow->stream, "stream send"), UCS_OK);
    cs_until(&flow->arrived.count, BURST, "active messages");
    assert_int_equal(flow->arrived.wrong, 0);
    for (int i = 0; i < BURST; i++) {
        assert_int_equal(cs_wait(flow->ams[i], "active message send"), UCS_OK);
    }
    free(flow->bytes);
    free(in);
}

/* ERR-21: shared memory also with error handling, and where it is allowed. */
static void check_transport(ucp_ep_h ep, bool same_worker)
{
    const char *name = cw_transport_of(ep);

    if (cw_test_reference()) {
        return;
    }
    if (cw_test_tls_has("shm") || (same_worker && cw_test_tls_has("self"))) {
        assert_string_not_equal(name, "tcp");
    } else {
        assert_string_equal(name, "tcp");
    }
}

/* The client sends before there is an endpoint to receive it (CS-20, CS-33), the server at once. */
static void both_ways(ucp_worker_h server, ucp_worker_h acceptor, ucp_worker_h client, int mode, bool wait_first)
{
    struct flow *to_server = calloc(1, sizeof(*to_server)), *to_client = calloc(1, sizeof(*to_client));
    struct cs_couple couple = {0};
    struct cs_listener listener;

    assert_true(to_server != NULL && to_client != NULL);
    am_handler_set(acceptor, &to_server->arrived);
    if (client != acceptor) {
        am_handler_set(client, &to_client->arrived);
    }
    cs_listen(&listener, server, "127.0.0.1", false);
    couple.client = cs_connect(client, &listener.name, mode, &couple.client_errors);
    flow_send(to_server, couple.client);
    cs_until(&listener.num_requests, 1, "connection request");
    if (wait_first) {
        cs_settle();
    }
    couple.server = cs_accept(acceptor, listener.requests[0], &couple.server_errors);
    if (client != acceptor) {
        flow_send(to_client, couple.server);
    }
    flow_receive(to_server, acceptor, couple.server);
    if (client != acceptor) {
        flow_receive(to_client, client, couple.client);
    }
    check_transport(couple.client, client == acceptor);
    check_transport(couple.server, client == acceptor);
    cs_part(&couple);
    ucp_listener_destroy(listener.handle);
    free(to_server);
    free(to_client);
}

CS_TEST(test_cs20_cs33_nothing_sent_before_is_lost_peer_mode)
{
    for (int i = 0; i < 4; i++) {
        both_ways(cs_workers[0], cs_workers[0], cs_workers[1], UCP_ERR_HANDLING_MODE_PEER, i % 2);
    }
}

CS_TEST(test_cs20_cs33_nothing_sent_before_is_lost_none_mode)
{
    for (int i = 0; i < 4; i++) {
        both_ways(cs_workers[0], cs_workers[0], cs_workers[1], i < 2 ? UCP_ERR_HANDLING_MODE_NONE : CS_NO_MODE, i % 2);
    }
}

CS_TEST(test_cs9_cs33_on_another_worker)
{
    cs_workers[2] = cs_worker_new(UCS_THREAD_MODE_SINGLE);
    both_ways(cs_workers[0], cs_workers[2], cs_workers[1], UCP_ERR_HANDLING_MODE_PEER, true);
}

CS_TEST(test_cs30_one_worker_for_both)
{
    both_ways(cs_workers[0], cs_workers[0], cs_workers[0], UCP_ERR_HANDLING_MODE_PEER, true);
    both_ways(cs_workers[0], cs_workers[1], cs_workers[0], UCP_ERR_HANDLING_MODE_PEER, true);
    both_ways(cs_workers[0], cs_workers[1], cs_workers[1], UCP_ERR_HANDLING_MODE_PEER, true);
}

static ucs_status_t socket_addresses(ucp_ep_h ep, struct sockaddr_in *local, struct sockaddr_in *remote)
{
    ucp_ep_attr_t attr;
    ucs_status_t status;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR;
    status = ucp_ep_query(ep, &attr);
    memcpy(local, &attr.local_sockaddr, sizeof(*local));
    memcpy(remote, &attr.remote_sockaddr, sizeof(*remote));
    return status;
}

/* EP-31, ERR-15. */
CS_TEST(test_ep30_socket_addresses_of_both_sides)
{
    struct sockaddr_in client_local, client_remote, server_local, server_remote;
    struct cs_listener listener;
    struct cs_couple couple;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    cs_couple(&couple, &listener, UCP_ERR_HANDLING_MODE_PEER);
    cs_talk(couple.client, cs_workers[0], 8);
    assert_int_equal(socket_addresses(couple.client, &client_local, &client_remote), UCS_OK);
    assert_int_equal(socket_addresses(couple.server, &server_local, &server_remote), UCS_OK);
    assert_memory_equal(&client_remote, &listener.name, sizeof(client_remote));
    assert_memory_equal(&server_local, &listener.name, sizeof(server_local));
    assert_memory_equal(&client_local, &server_remote, sizeof(client_local));
    assert_int_not_equal(client_local.sin_port, 0);
    assert_null(cs_close(couple.server, true));
    cs_until(&couple.client_errors.count, 1, "failure");
    assert_int_equal(socket_addresses(couple.client, &client_local, &client_remote), UCS_ERR_NOT_CONNECTED);
    cs_wait(cs_close(couple.client, false), "close");
    ucp_listener_destroy(listener.handle);
}

static ucs_status_t connect_from(const struct sockaddr_storage *to, const char *local_ip, ucp_ep_h *ep_p)
{
    struct sockaddr_storage local = cs_name(local_ip, 0);
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)to;
    params.sockaddr.addrlen = sizeof(struct sockaddr_in);
    params.local_sockaddr.addr = (const struct sockaddr *)&local;
    params.local_sockaddr.addrlen = sizeof(struct sockaddr_in);
    return ucp_ep_create(cs_workers[1], &params, ep_p);
}

CS_TEST(test_cs21_local_address)
{
    struct sockaddr_in local, remote;
    struct cs_listener listener;
    ucs_status_ptr_t send;
    ucs_status_t status;
    ucp_ep_h client, server;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    assert_int_equal(connect_from(&listener.name, "127.0.0.9", &client), UCS_OK);
    cs_until(&listener.num_requests, 1, "connection request");
    server = cs_accept(cs_workers[0], listener.requests[0], NULL);
    cs_talk(client, cs_workers[0], 8);
    assert_int_equal(socket_addresses(server, &local, &remote), UCS_OK);
    assert_int_equal(ntohl(remote.sin_addr.s_addr), 0x7f000009);
    cs_wait(cs_close(client, false), "close");
    cs_settle();
    cs_wait(cs_close(server, false), "close");

    status = connect_from(&listener.name, "192.0.2.9", &client);
    if (status == UCS_OK) {
        send = cs_send(client, "12345678", 8, 1);
        assert_int_equal(cs_wait(send, "send"), UCS_ERR_IO_ERROR);
        cs_wait(cs_close(client, false), "close");
    } else {
        assert_int_equal(status, UCS_ERR_IO_ERROR);
    }
    ucp_listener_destroy(listener.handle);
}

CS_TEST(test_cs20_wrong_parameters)
{
    struct sockaddr_storage name = cs_name("127.0.0.1", 1);
    ucp_ep_h ep = (ucp_ep_h)&ep;
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_FLAGS;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)&name;
    params.sockaddr.addrlen = sizeof(struct sockaddr_in);
    assert_int_equal(ucp_ep_create(cs_workers[1], &params, &ep), UCS_ERR_INVALID_PARAM);
    params.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR;
    params.sockaddr.addr = NULL;
    assert_int_equal(ucp_ep_create(cs_workers[1], &params, &ep), UCS_ERR_INVALID_PARAM);
    params.sockaddr.addr = (const struct sockaddr *)&name;
    name.ss_family = AF_UNIX;
    assert_true(ucp_ep_create(cs_workers[1], &params, &ep) < 0);
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = NULL;
    assert_int_equal(ucp_ep_create(cs_workers[1], &params, &ep), UCS_ERR_INVALID_PARAM);
    assert_ptr_equal(ep, &ep);
}

/*
 * CS-22: a flush shows the connection.
 * CS-27: the first manager of the default list, rdmacm, is not there; the next one serves.
 */
CS_TEST(test_cs22_flush_shows_it)
{
    ucp_request_param_t param = cw_param_none();
    struct cs_listener listener;
    struct cs_couple couple = {0};
    ucs_status_ptr_t flush;
    uint64_t out = 3;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    couple.client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &couple.client_errors);
    flush = cs_send(couple.client, &out, 8, 4);
    assert_true(flush == NULL || UCS_PTR_IS_PTR(flush));
    if (UCS_PTR_IS_PTR(flush)) {
        ucp_request_free(flush);
    }
    flush = ucp_ep_flush_nbx(couple.client, &param);
    assert_true(UCS_PTR_IS_PTR(flush));
    cs_until(&listener.num_requests, 1, "connection request");
    cs_settle();
    assert_int_equal(ucp_request_check_status(flush), UCS_INPROGRESS);
    couple.server = cs_accept(cs_workers[0], listener.requests[0], &couple.server_errors);
    assert_int_equal(cs_wait(flush, "flush"), UCS_OK);
    cs_part(&couple);
    ucp_listener_destroy(listener.handle);
}

/* ---- many threads, one worker on each side ---- */

enum { THREADS = 4, ROUNDS_PER_THREAD = 25 };

static struct sockaddr_storage thread_target;
static int thread_failures, threads_done;

static ucs_status_t wait_in_thread(ucp_worker_h worker, ucs_status_ptr_t request)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS && cw_time_now_s() < deadline) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
    return status;
}

static void *client_thread(void *arg)
{
    ucp_worker_h worker = cs_workers[3];
    uint64_t number = (uint64_t)(uintptr_t)arg, out;
    ucs_status_t status;
    ucp_ep_h ep;

    for (uint64_t i = 0; i < ROUNDS_PER_THREAD; i++) {
        out = number * 1000 + i;
        ep = cs_connect(worker, &thread_target, UCP_ERR_HANDLING_MODE_PEER, NULL);
        status = wait_in_thread(worker, cs_send(ep, &out, 8, out));
        if (status != UCS_OK || wait_in_thread(worker, cs_close(ep, false)) != UCS_OK) {
            __atomic_add_fetch(&thread_failures, 1, __ATOMIC_RELAXED);
        }
    }
    __atomic_add_fetch(&threads_done, 1, __ATOMIC_RELEASE);
    return NULL;
}

CS_TEST(test_threads_multi)
{
    ucp_request_param_t param = cw_param_none();
    struct cs_listener *listener = calloc(1, sizeof(*listener));
    ucp_worker_h shared = cs_worker_new(UCS_THREAD_MODE_MULTI);
    pthread_t threads[THREADS];
    int accepted = 0;
    uint64_t in;

    assert_non_null(listener);
    cs_listen(listener, cs_workers[0], "127.0.0.1", false);
    thread_target = listener->name;
    cs_workers[3] = shared;
    thread_failures = threads_done = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, client_thread, (void *)(uintptr_t)i), 0);
    }
    while (__atomic_load_n(&threads_done, __ATOMIC_ACQUIRE) < THREADS) {
        cs_progress();
        while (accepted < listener->num_requests) {
            listener->eps[accepted] = cs_accept(cs_workers[0], listener->requests[accepted], NULL);
            accepted++;
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(thread_failures, 0);
    for (uint64_t i = 0; i < THREADS * ROUNDS_PER_THREAD; i++) {
        uint64_t tag = i / ROUNDS_PER_THREAD * 1000 + i % ROUNDS_PER_THREAD;

        assert_int_equal(cs_wait(ucp_tag_recv_nbx(cs_workers[0], &in, 8, tag, CW_TAG_ALL, &param), "receive"), UCS_OK);
        assert_true(in == tag);
    }
    assert_int_equal(accepted, THREADS * ROUNDS_PER_THREAD);
    for (int i = 0; i < accepted; i++) {
        cs_wait(cs_close(listener->eps[i], false), "close");
    }
    ucp_listener_destroy(listener->handle);
    free(listener);
}

/* CS-15, and N22-73: the mode travels as the program named it. `modes`: of one client, and of the next. */
static void check_modes_differ(const int modes[2])
{
    struct cs_listener listener;
    struct cs_errors errors;
    ucp_ep_h client, server;
    ucs_status_ptr_t send;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    for (int i = 0; i < 2; i++) {
        errors = (struct cs_errors){0};
        server = (ucp_ep_h)&server;
        client = cs_connect(cs_workers[1], &listener.name, modes[i], &errors);
        send = cs_send(client, "12345678", 8, 3);
        cs_until(&listener.num_requests, 1, "connection request");
        assert_int_equal(cs_try_accept(cs_workers[0], listener.requests[--listener.num_requests], modes[!i], NULL,
                                       &server), UCS_ERR_UNSUPPORTED);
        assert_ptr_equal(server, &server);
        cs_until(&errors.count, 1, "failure");
        assert_int_equal(errors.status, UCS_ERR_NOT_CONNECTED);
        assert_int_equal(cs_wait(send, "send"), UCS_ERR_NOT_CONNECTED);
        cs_wait(cs_close(client, false), "close");

        errors = (struct cs_errors){0}; /* the same mode, given */
        client = cs_connect(cs_workers[1], &listener.name, modes[i], &errors);
        cs_until(&listener.num_requests, 1, "connection request");
        assert_int_equal(cs_try_accept(cs_workers[0], listener.requests[--listener.num_requests], modes[i], NULL,
                                       &server), UCS_OK);
        cs_talk(client, cs_workers[0], 8);
        cs_wait(cs_close(client, false), "close");
        cs_settle();
        cs_wait(cs_close(server, false), "close");
    }
    ucp_listener_destroy(listener.handle);
}

CS_TEST(test_cs15_modes_differ)
{
    const int modes[2] = {UCP_ERR_HANDLING_MODE_PEER, UCP_ERR_HANDLING_MODE_NONE};

    check_modes_differ(modes);
}

#if UCP_API_VERSION >= UCP_VERSION(1, 21)
CS_TEST(test_n22_73_failover_differs)
{
    static const int modes[][2] = {{UCP_ERR_HANDLING_MODE_PEER, UCP_ERR_HANDLING_MODE_FAILOVER},
                                   {UCP_ERR_HANDLING_MODE_NONE, UCP_ERR_HANDLING_MODE_FAILOVER}};

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        check_modes_differ(modes[i]);
    }
}

/* N22-72: by socket address the mode is accepted and acts as PEER, at a server that names none as well. */
CS_TEST(test_n22_72_failover_acts_as_peer)
{
    struct cs_errors errors = {0}, server_errors = {0};
    ucp_ep_h client, server;
    struct cs_listener listener;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_FAILOVER, &errors);
    cs_until(&listener.num_requests, 1, "connection request");
    assert_int_equal(cs_try_accept(cs_workers[0], listener.requests[--listener.num_requests], CS_NO_MODE,
                                   &server_errors, &server), UCS_OK);
    cs_talk(client, cs_workers[0], 8);
    cs_wait(cs_close(server, true), "close");
    cs_until(&errors.count, 1, "failure");
    cs_settle();
    assert_int_equal(errors.count, 1);
    assert_int_equal(errors.status, UCS_ERR_CONNECTION_RESET);
    cs_wait(cs_close(client, true), "close");
    assert_int_equal(server_errors.count, 0);
    ucp_listener_destroy(listener.handle);
}
#endif
