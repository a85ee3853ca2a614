/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners and connection requests: CS-1..15, R25. What goes over the connections is in test_client_server.c. */
#define _GNU_SOURCE
#include "test_cs_common.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static void never_accepted(ucp_ep_h ep, void *arg)
{
    (void)ep;
    (void)arg;
    fail_msg("A listener that could not be made accepted somebody");
}

static void never_requested(ucp_conn_request_h request, void *arg)
{
    (void)request;
    (void)arg;
    fail_msg("A listener that could not be made was asked");
}

static ucs_status_t listen_with(uint64_t mask, const struct sockaddr_storage *name, bool accept_cb, bool conn_cb)
{
    ucp_listener_h listener = (ucp_listener_h)&listener;
    ucp_listener_params_t params;
    ucs_status_t status;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = mask;
    params.sockaddr.addr = (const struct sockaddr *)name;
    params.sockaddr.addrlen = sizeof(struct sockaddr_in);
    params.accept_handler.cb = accept_cb ? never_accepted : NULL;
    params.conn_handler.cb = conn_cb ? never_requested : NULL;
    status = ucp_listener_create(cs_workers[0], &params, &listener);
    if (status == UCS_OK) {
        ucp_listener_destroy(listener);
    } else {
        assert_ptr_equal(listener, &listener);
    }
    return status;
}

CS_TEST(test_cs1_wrong_parameters)
{
    const uint64_t name_bit = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR, accept_bit = UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER,
                   conn_bit = UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    struct sockaddr_storage name = cs_name("127.0.0.1", 0);

    assert_int_equal(listen_with(conn_bit, &name, 1, 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit | conn_bit, NULL, 1, 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit, &name, 1, 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit | conn_bit | accept_bit, &name, 1, 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit | conn_bit, &name, 1, 0), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit | accept_bit, &name, 0, 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(listen_with(name_bit | conn_bit, &name, 0, 1), UCS_OK);
    assert_int_equal(listen_with(name_bit | accept_bit, &name, 1, 0), UCS_OK);
    name.ss_family = AF_UNIX; /* CS-2 */
    assert_int_equal(listen_with(name_bit | conn_bit, &name, 1, 1), UCS_ERR_INVALID_PARAM);
}

enum given_to { LISTENER, SERVER, OWN_SIDE };

static ucs_status_t give_address(enum given_to to, ucs_sock_addr_t given)
{
    struct sockaddr_storage server = cs_name("127.0.0.1", 9);
    ucp_listener_params_t listener_params;
    ucp_ep_params_t ep_params;
    ucp_listener_h listener;
    ucs_status_t status;
    ucp_ep_h ep;

    if (to == LISTENER) {
        memset(&listener_params, 0xff, sizeof(listener_params));
        listener_params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
        listener_params.sockaddr = given;
        listener_params.conn_handler.cb = never_requested;
        status = ucp_listener_create(cs_workers[0], &listener_params, &listener);
        if (status == UCS_OK) {
            ucp_listener_destroy(listener);
        }
        return status;
    }
    memset(&ep_params, 0xff, sizeof(ep_params));
    ep_params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
    ep_params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
    ep_params.field_mask |= to == OWN_SIDE ? UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR : 0;
    ep_params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    ep_params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    ep_params.sockaddr = given;
    if (to == OWN_SIDE) {
        ep_params.sockaddr = (ucs_sock_addr_t){(const struct sockaddr *)&server, sizeof(struct sockaddr_in)};
        ep_params.local_sockaddr = given;
    }
    status = ucp_ep_create(cs_workers[1], &ep_params, &ep);
    if (status == UCS_OK) {
        cs_wait(cs_close(ep, true), "close");
    }
    return status;
}

/* CS-1, CS-20: of an address as many bytes are read as there are, which must be those of its family. Behind them the
 * memory ends. */
CS_TEST(test_cs1_addresses_that_are_cut_short)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_storage names[2] = {cs_name("127.0.0.1", 0), cs_name("::1", 0)};
    const size_t sizes[2] = {sizeof(struct sockaddr_in), sizeof(struct sockaddr_in6)};

    cw_test_skip_reference("1.13 takes any length for an endpoint, and the system's error for a listener");
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
    for (unsigned i = 0; i < 6; i++) {
        for (size_t length = 0; length <= sizes[i % 2]; length += 2) { /* aligned */
            char *at = memory + page - length;
            ucs_sock_addr_t given = {(const struct sockaddr *)(void *)at, (socklen_t)length};
            ucs_status_t status;

            ((struct sockaddr_in *)&names[i % 2])->sin_port = htons(i / 2 == SERVER ? 9 : 0); /* of both families */
            memcpy(at, &names[i % 2], length);
            status = give_address((enum given_to)(i / 2), given);
            if (length < sizes[i % 2]) {
                assert_int_equal(status, UCS_ERR_INVALID_PARAM);
            } else if (i % 2 == 0) {
                assert_int_equal(status, UCS_OK);
            }
        }
    }
    assert_int_equal(munmap(memory, 2 * page), 0);
}

CS_TEST(test_cs2_addresses_that_cannot_be_had)
{
    struct sockaddr_storage foreign = cs_name("192.0.2.77", 0);
    struct cs_listener first, second;

    cs_listen(&first, cs_workers[0], "127.0.0.1", false);
    assert_int_equal(cs_try_listen(&second, cs_workers[0], &first.name, false), UCS_ERR_BUSY); /* ABU-13 */
    assert_int_equal(cs_try_listen(&second, cs_workers[1], &first.name, true), UCS_ERR_BUSY);
    assert_int_equal(cs_try_listen(&second, cs_workers[0], &foreign, false), UCS_ERR_IO_ERROR);
    ucp_listener_destroy(first.handle);
    assert_int_equal(cs_try_listen(&second, cs_workers[1], &first.name, true), UCS_OK);
    ucp_listener_destroy(second.handle);
}

/* CS-2, CS-20: meeting a server needs no transport that UCX_TLS or UCX_NET_DEVICES allow; what they allow carries data,
 * and where none of it leads to the server, the endpoint says so. */
CS_TEST(test_cs2_listens_whatever_the_settings_allow)
{
    static const char *const settings[][2] = {
        {"UCX_TLS", "self"}, {"UCX_TLS", "self,rc"}, {"UCX_TLS", "self,shm"}, {"UCX_NET_DEVICES", "mlx5_0:1"}};
    struct cw_side *side = &pair->sides[0];
    struct sockaddr_storage name = cs_name("127.0.0.1", 0);
    struct cw_pair_config config = {.features = CS_FEATURES};
    struct cs_listener listener;
    char *before = strdup(getenv("UCX_TLS"));
    ucp_ep_h ep, server;

    cw_test_skip_reference("only its listeners work without TCP");
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        const bool reaches = i >= 2; /* shared memory is left */
        struct cs_errors errors = {0};

        setenv("UCX_TLS", "self,shm,tcp", 1);
        setenv(settings[i][0], settings[i][1], 1);
        cw_side_open(side, &config);
        unsetenv("UCX_NET_DEVICES");
        setenv("UCX_TLS", before, 1);
        cs_workers[2] = side->worker;
        cs_workers[3] = cs_worker_of(side->context);
        assert_int_equal(cs_try_listen(&listener, cs_workers[2], &name, false), UCS_OK);
        ep = cs_connect(cs_workers[3], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors);
        cs_until(&listener.num_requests, 1, "connection request");
        assert_int_equal(cs_try_accept(cs_workers[2], listener.requests[0], CS_NO_MODE, NULL, &server), UCS_OK);
        if (reaches) {
            cs_talk(ep, cs_workers[2], 100000);
            cs_talk(server, cs_workers[3], 100000);
            assert_null(strstr(cw_transport_of(ep), "tcp"));
            assert_null(strstr(cw_transport_of(server), "tcp"));
            assert_int_equal(errors.count, 0);
        } else {
            assert_int_equal(cs_wait(cs_send(ep, "12345678", 8, 1), "send"), UCS_ERR_UNREACHABLE);
            cs_until(&errors.count, 1, "failure");
            assert_int_equal(errors.status, UCS_ERR_UNREACHABLE);
        }
        cs_wait(cs_close(ep, true), "close");
        cs_settle();
        ucp_listener_destroy(listener.handle);
        ucp_worker_destroy(cs_workers[3]);
        cs_workers[2] = cs_workers[3] = NULL;
        cw_side_destroy(side);
    }
    free(before);
}

static void connect_at(struct cs_listener *listener, const struct sockaddr_storage *name)
{
    struct cs_couple couple = {0};

    couple.client = cs_connect(cs_workers[1], name, UCP_ERR_HANDLING_MODE_PEER, &couple.client_errors);
    cs_until(&listener->num_requests, 1, "connection request");
    couple.server = cs_accept(cs_workers[0], listener->requests[--listener->num_requests], &couple.server_errors);
    cs_talk(couple.client, cs_workers[0], 100);
    cs_talk(couple.server, cs_workers[1], 100);
    cs_part(&couple);
}

CS_TEST(test_cs3_cs4_wildcard)
{
    struct sockaddr_storage name;
    struct cs_listener listener;

    cs_listen(&listener, cs_workers[0], "0.0.0.0", false);
    assert_int_equal(listener.name.ss_family, AF_INET);
    assert_int_equal(((struct sockaddr_in *)&listener.name)->sin_addr.s_addr, INADDR_ANY);
    name = cs_at(&listener, "127.0.0.1");
    connect_at(&listener, &name);
    name = cs_at(&listener, "127.0.0.2");
    connect_at(&listener, &name);
    ucp_listener_destroy(listener.handle);
}

/* Skips where the machine lacks the address. */
static void need_address(const char *ip)
{
    struct sockaddr_storage name = cs_name(ip, 0);
    int fd = socket(name.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int works = fd >= 0 && bind(fd, (struct sockaddr *)&name, name.ss_family == AF_INET ? sizeof(struct sockaddr_in) :
                                sizeof(struct sockaddr_in6)) == 0;

    if (fd >= 0) {
        close(fd);
    }
    if (!works) {
        print_message("Skipped: this machine has no address %s\n", ip);
        skip();
    }
}

CS_TEST(test_cs3_ipv6)
{
    struct sockaddr_storage name;
    struct cs_listener listener;
    int v6_only = 0;
    FILE *file;

    need_address("::1");
    cs_listen(&listener, cs_workers[0], "::1", false);
    connect_at(&listener, &listener.name);
    ucp_listener_destroy(listener.handle);

    cs_listen(&listener, cs_workers[0], "::", false);
    assert_int_equal(listener.name.ss_family, AF_INET6);
    name = cs_at(&listener, "::1");
    connect_at(&listener, &name);
    file = fopen("/proc/sys/net/ipv6/bindv6only", "r");
    if (file != NULL) {
        assert_int_equal(fscanf(file, "%d", &v6_only), 1);
        fclose(file);
    }
    if (!v6_only) {
        name = cs_at(&listener, "127.0.0.1");
        connect_at(&listener, &name);
    }
    ucp_listener_destroy(listener.handle);
}

CS_TEST(test_cs5_several_listeners)
{
    struct cs_listener *listeners = calloc(5, sizeof(*listeners));

    assert_non_null(listeners);
    for (int i = 0; i < 5; i++) {
        cs_listen(&listeners[i], cs_workers[i == 4], "127.0.0.1", false);
    }
    for (int i = 3; i >= 0; i--) {
        connect_at(&listeners[i], &listeners[i].name);
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(listeners[i].num_requests, 0);
        ucp_listener_destroy(listeners[i].handle);
    }
    free(listeners);
}

CS_TEST(test_cs6_a_server_starts_again_at_once)
{
    struct cs_listener listener, again;
    struct cs_couple couple;

    cw_test_skip_reference("its ports stay busy in TIME_WAIT by default");
    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    cs_couple(&couple, &listener, UCP_ERR_HANDLING_MODE_PEER);
    cs_talk(couple.client, cs_workers[0], 8);
    assert_int_equal(cs_wait(cs_close(couple.server, false), "close"), UCS_OK); /* the server's end: TIME_WAIT there */
    ucp_listener_destroy(listener.handle);
    assert_int_equal(cs_try_listen(&again, cs_workers[0], &listener.name, false), UCS_OK);
    cs_until(&couple.client_errors.count, 1, "failure");
    cs_wait(cs_close(couple.client, false), "close");
    connect_at(&again, &again.name);
    ucp_listener_destroy(again.handle);
}

CS_TEST(test_cs7_accept_handler)
{
    struct cs_errors client_errors = {0}, server_errors = {0};
    struct cs_listener listener;
    ucp_ep_params_t params;
    ucp_ep_h client;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", true);
    client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &client_errors);
    cs_until(&listener.num_eps, 1, "endpoint");
    cs_talk(client, cs_workers[0], 1000);
    cs_talk(listener.eps[0], cs_workers[1], 100000);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_USER_DATA;
    params.user_data = &server_errors;
    assert_null(ucp_ep_modify_nb(listener.eps[0], &params));
    assert_null(cs_close(listener.eps[0], true)); /* refused in mode NONE: it has the client's (CLS-2) */
    cs_until(&client_errors.count, 1, "failure");
    assert_int_equal(client_errors.status, UCS_ERR_CONNECTION_RESET);
    cs_wait(cs_close(client, false), "close");
    ucp_listener_destroy(listener.handle);
}

enum { LATER = 8 };

CS_TEST(test_cs8_later_and_in_any_order)
{
    struct cs_errors errors[LATER] = {{0}};
    ucp_ep_h clients[LATER], server;
    struct cs_listener listener;
    uint64_t out[LATER], in;
    ucp_request_param_t none = cw_param_none();
    ucs_status_ptr_t sends[LATER];
    int order[LATER] = {5, 0, 7, 2, 3, 6, 1, 4};

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    for (int i = 0; i < LATER; i++) {
        clients[i] = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors[i]);
        out[i] = (uint64_t)i;
        sends[i] = cs_send(clients[i], &out[i], 8, 9);
        cs_until(&listener.num_requests, i + 1, "connection request");
    }
    cs_settle();
    for (int i = 0; i < LATER; i++) {
        if (order[i] % 4 == 3) {
            assert_int_equal(ucp_listener_reject(listener.handle, listener.requests[order[i]]), UCS_OK); /* CS-10 */
            cs_until(&errors[order[i]].count, 1, "failure");
            assert_int_equal(errors[order[i]].status, UCS_ERR_REJECTED);
            assert_ptr_equal(errors[order[i]].ep, clients[order[i]]);
            assert_int_equal(cs_wait(sends[order[i]], "send"), UCS_ERR_REJECTED); /* CS-24 */
            cs_wait(cs_close(clients[order[i]], false), "close");
            continue;
        }
        server = cs_accept(cs_workers[0], listener.requests[order[i]], NULL);
        assert_int_equal(cs_wait(ucp_tag_recv_nbx(cs_workers[0], &in, 8, 9, CW_TAG_ALL, &none), "receive"), UCS_OK);
        assert_int_equal(in, order[i]);
        cs_wait(sends[order[i]], "send");
        cs_wait(cs_close(server, false), "close");
        cs_until(&errors[order[i]].count, 1, "failure");
        cs_wait(cs_close(clients[order[i]], false), "close");
    }
    ucp_listener_destroy(listener.handle);
}

/* ---- what handlers may do ---- */

struct busy_handler {
    ucp_listener_h listener;
    ucp_ep_h ep;
    int calls;
    int destroys;
};

static void handle_at_once(ucp_conn_request_h request, void *arg)
{
    struct busy_handler *handler = arg;

    handler->calls++;
    if (handler->calls == 1) {
        ucp_listener_reject(handler->listener, request);
    } else {
        handler->ep = cs_accept(cs_workers[0], request, NULL);
    }
    if (handler->destroys) {
        ucp_listener_destroy(handler->listener);
    }
}

CS_TEST(test_cs8_in_the_handler_itself)
{
    struct sockaddr_storage name = cs_name("127.0.0.1", 0);
    struct busy_handler handler = {0};
    struct cs_errors errors = {0};
    ucp_listener_params_t params;
    ucp_listener_attr_t attr;
    ucp_ep_h client;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = (const struct sockaddr *)&name;
    params.sockaddr.addrlen = sizeof(struct sockaddr_in);
    params.conn_handler.cb = handle_at_once;
    params.conn_handler.arg = &handler;
    assert_int_equal(ucp_listener_create(cs_workers[0], &params, &handler.listener), UCS_OK);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    assert_int_equal(ucp_listener_query(handler.listener, &attr), UCS_OK);

    client = cs_connect(cs_workers[1], &attr.sockaddr, UCP_ERR_HANDLING_MODE_PEER, &errors);
    cs_until(&errors.count, 1, "failure");
    assert_int_equal(errors.status, UCS_ERR_REJECTED);
    cs_wait(cs_close(client, false), "close");
    if (!cw_test_reference()) {
        handler.destroys = 1;
    }
    client = cs_connect(cs_workers[1], &attr.sockaddr, UCP_ERR_HANDLING_MODE_PEER, &errors);
    cs_until(&handler.calls, 2, "connection request");
    cs_talk(client, cs_workers[0], 5000);
    cs_talk(handler.ep, cs_workers[1], 5000);
    cs_wait(cs_close(client, false), "close");
    cs_settle();
    cs_wait(cs_close(handler.ep, false), "close");
    if (cw_test_reference()) {
        ucp_listener_destroy(handler.listener);
    }
}

CS_TEST(test_cs9_r25_on_another_worker)
{
    struct cs_couple couple = {0};
    struct cs_listener listener;
    ucp_worker_h resting;

    cs_workers[2] = cs_worker_new(UCS_THREAD_MODE_SINGLE);
    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    couple.client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &couple.client_errors);
    cs_until(&listener.num_requests, 1, "connection request");
    resting = cs_workers[0]; /* the listener's worker is not needed any more */
    cs_workers[0] = NULL;
    couple.server = cs_accept(cs_workers[2], listener.requests[0], &couple.server_errors);
    cs_talk(couple.client, cs_workers[2], 300000);
    cs_talk(couple.server, cs_workers[1], 300000);
    cs_part(&couple);
    cs_workers[0] = resting;

    couple.client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &couple.client_errors);
    cs_until(&listener.num_requests, 2, "connection request");
    ucp_listener_destroy(listener.handle); /* nor need it live */
    couple.server = cs_accept(cs_workers[2], listener.requests[1], &couple.server_errors);
    ucp_worker_destroy(cs_workers[0]); /* nor the worker, once the request is answered */
    cs_workers[0] = NULL;
    cs_talk(couple.client, cs_workers[2], 1000);
    cs_part(&couple);
}

/* ---- a worker of another thread takes the requests ---- */

enum { HANDED_OVER = 40 };

struct taker {
    ucp_worker_h worker;
    ucp_conn_request_h requests[HANDED_OVER]; /* set by the other thread */
    int served;
    int failed;
};

static ucs_status_t progress_alone(ucp_worker_h worker, ucs_status_ptr_t request)
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

static void *take_requests(void *arg)
{
    struct taker *taker = arg;
    ucp_request_param_t none = cw_param_none();
    ucp_conn_request_h request;
    uint64_t in, out;
    ucp_ep_h ep;

    for (int i = 0; i < HANDED_OVER; i++) {
        while ((request = __atomic_load_n(&taker->requests[i], __ATOMIC_ACQUIRE)) == NULL) {
            ucp_worker_progress(taker->worker);
        }
        if (cs_try_accept(taker->worker, request, CS_NO_MODE, NULL, &ep) != UCS_OK ||
            progress_alone(taker->worker, ucp_tag_recv_nbx(taker->worker, &in, 8, 1, CW_TAG_ALL, &none)) != UCS_OK) {
            taker->failed++;
            break;
        }
        out = in + 1;
        taker->failed += progress_alone(taker->worker, ucp_tag_send_nbx(ep, &out, 8, 2, &none)) != UCS_OK;
        taker->failed += progress_alone(taker->worker, cs_close(ep, false)) != UCS_OK;
    }
    __atomic_store_n(&taker->served, 1, __ATOMIC_RELEASE);
    return NULL;
}

CS_TEST(test_cs9_on_a_worker_of_another_thread)
{
    struct taker taker = {.worker = cs_worker_new(UCS_THREAD_MODE_SINGLE)};
    ucp_request_param_t none = cw_param_none();
    struct cs_listener listener;
    struct cs_errors errors;
    ucs_status_ptr_t send;
    uint64_t out, in;
    pthread_t thread;
    ucp_ep_h client;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    assert_int_equal(pthread_create(&thread, NULL, take_requests, &taker), 0);
    for (int i = 0; i < HANDED_OVER; i++) {
        errors.count = 0;
        client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors);
        out = (uint64_t)i;
        send = cs_send(client, &out, 8, 1);
        cs_until(&listener.num_requests, i + 1, "connection request");
        __atomic_store_n(&taker.requests[i], listener.requests[i], __ATOMIC_RELEASE);
        assert_int_equal(cs_wait(ucp_tag_recv_nbx(cs_workers[1], &in, 8, 2, CW_TAG_ALL, &none), "answer"), UCS_OK);
        assert_int_equal(in, out + 1);
        assert_int_equal(cs_wait(send, "send"), UCS_OK);
        cs_until(&errors.count, 1, "end");
        cs_wait(cs_close(client, false), "close");
    }
    cs_until(&taker.served, 1, "the other thread");
    pthread_join(thread, NULL);
    assert_int_equal(taker.failed, 0);
    ucp_listener_destroy(listener.handle);
    ucp_worker_destroy(taker.worker);
}

CS_TEST(test_cs11_query_of_a_request)
{
    struct cs_listener listener;
    struct cs_couple couple = {0};
    ucp_conn_request_attr_t attr;
    ucp_ep_params_t params;
    ucp_ep_attr_t ep_attr;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    for (int sends_id = 0; sends_id < 2; sends_id++) {
        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
        params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | (sends_id ? UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID : 0);
        params.sockaddr.addr = (const struct sockaddr *)&listener.name;
        params.sockaddr.addrlen = sizeof(struct sockaddr_in);
        assert_int_equal(ucp_ep_create(cs_workers[1], &params, &couple.client), UCS_OK);
        cs_until(&listener.num_requests, 1, "connection request");
        memset(&attr, 0xff, sizeof(attr));
        attr.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR;
        assert_int_equal(ucp_conn_request_query(listener.requests[0], &attr), UCS_OK);
        assert_true(attr.client_id == UINT64_MAX); /* GEN-4 */
        attr.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR | UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID;
        assert_int_equal(ucp_conn_request_query(listener.requests[0], &attr), UCS_OK);
        assert_true(attr.client_id == (sends_id ? 0x1234567890abcdefull : 0));
        couple.server = cs_accept(cs_workers[0], listener.requests[--listener.num_requests], NULL);
        cs_talk(couple.server, cs_workers[1], 8);
        memset(&ep_attr, 0xff, sizeof(ep_attr)); /* EP-30 */
        ep_attr.field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR;
        assert_int_equal(ucp_ep_query(couple.client, &ep_attr), UCS_OK);
        assert_memory_equal(&ep_attr.local_sockaddr, &attr.client_address, sizeof(struct sockaddr_in));
        assert_memory_equal(&ep_attr.remote_sockaddr, &listener.name, sizeof(struct sockaddr_in));
        cs_part(&couple);
    }
    ucp_listener_destroy(listener.handle);
}

CS_TEST(test_cs12_destroyed_with_requests)
{
    struct cs_errors errors[6] = {{0}};
    struct cs_listener listener;
    struct cs_couple couple;
    ucp_ep_h clients[6], server;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    cs_couple(&couple, &listener, UCP_ERR_HANDLING_MODE_PEER);
    cs_talk(couple.client, cs_workers[0], 8);
    clients[0] = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors[0]);
    cs_until(&listener.num_requests, 1, "connection request");
    for (int i = 1; i < 6; i++) { /* nobody looks after these any more */
        clients[i] = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors[i]);
        for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
            ucp_worker_progress(cs_workers[1]);
        }
    }
    ucp_listener_destroy(listener.handle);
    assert_int_equal(listener.num_requests, 1);
    for (int i = 1; i < 6; i++) {
        cs_until(&errors[i].count, 1, "failure");
        assert_int_equal(errors[i].status, UCS_ERR_REJECTED);
        cs_wait(cs_close(clients[i], false), "close");
    }
    cs_settle();
    assert_int_equal(errors[0].count, 0);
    cs_talk(couple.client, cs_workers[0], 8); /* established ones are not affected */
    cs_talk(couple.server, cs_workers[1], 8);
    cw_test_skip_reference("requests die with their listener there");
    server = cs_accept(cs_workers[0], listener.requests[0], NULL);
    cs_talk(server, cs_workers[1], 8);
    cs_talk(clients[0], cs_workers[0], 8);
    cs_wait(cs_close(server, false), "close");
    cs_until(&errors[0].count, 1, "end");
    cs_wait(cs_close(clients[0], false), "close");
    cs_part(&couple);
    assert_int_equal(listener.num_requests, 1); /* no callback after return */
}

/* Connections linger until their peers have closed. */
static void settle_until_fds(int most)
{
    for (double end_s = cw_time_now_s() + CW_WAIT_S; cw_process_fds() > most && cw_time_now_s() < end_s;) {
        cs_settle();
    }
}

/* EP-18, WRK-21. */
/* CS-8, CS-12, CS-24: the end of the listener's worker refuses the clients that nobody answered, and keeps nothing of
 * theirs. The program may still hold their requests, and give these up by whatever call. */
CS_TEST(test_cs12_the_worker_ends_with_requests)
{
    enum { CLIENTS = 3 };
    struct cs_errors errors[CLIENTS];
    struct cs_listener listener, other;
    ucp_ep_h clients[CLIENTS], server;
    int fds;

    cw_test_skip_reference("such clients wait for ever there");
    cs_listen(&other, cs_workers[0], "127.0.0.1", false);
    for (int round = 0; round < 3; round++) {
        memset(errors, 0, sizeof(errors));
        fds = cw_process_fds();
        cs_workers[2] = cs_worker_new(UCS_THREAD_MODE_SINGLE);
        cs_listen(&listener, cs_workers[2], "127.0.0.1", false);
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors[i]);
        }
        cs_until(&listener.num_requests, CLIENTS, "connection request");
        if (round == 1) { /* one is answered by another worker, and stays */
            server = cs_accept(cs_workers[0], listener.requests[0], NULL);
        }
        ucp_listener_destroy(listener.handle);
        ucp_worker_destroy(cs_workers[2]);
        cs_workers[2] = NULL;
        for (int i = (round == 1); i < CLIENTS; i++) {
            cs_until(&errors[i].count, 1, "refusal");
            assert_int_equal(errors[i].status, UCS_ERR_REJECTED);
            cs_wait(cs_close(clients[i], false), "close");
        }
        if (round == 1) {
            cs_talk(clients[0], cs_workers[0], 8);
            cs_talk(server, cs_workers[1], 8);
            assert_int_equal(errors[0].count, 0);
            cs_wait(cs_close(server, false), "close");
            cs_until(&errors[0].count, 1, "end");
            cs_wait(cs_close(clients[0], false), "close");
        }
        if (round == 2) {
            assert_true(cs_try_accept(cs_workers[0], listener.requests[0], CS_NO_MODE, NULL, &server) < 0);
            assert_int_equal(ucp_listener_reject(other.handle, listener.requests[1]), UCS_OK);
        }
        settle_until_fds(fds);
        assert_int_equal(cw_process_fds(), fds);
    }
    ucp_listener_destroy(other.handle);
}

CS_TEST(test_cs13_hundreds_at_once)
{
    const int count = (int)cw_test_scaled(400);
    struct cs_errors *errors = calloc(CS_MAX_REQUESTS, sizeof(*errors));
    ucp_ep_h *clients = calloc(CS_MAX_REQUESTS, sizeof(ucp_ep_h));
    struct cs_listener *listener = calloc(1, sizeof(*listener));
    int fds = cw_process_fds();

    assert_true(errors != NULL && clients != NULL && listener != NULL);
    cs_listen(listener, cs_workers[0], "127.0.0.1", true);
    for (int i = 0; i < count; i++) {
        clients[i] = cs_connect(cs_workers[1], &listener->name, UCP_ERR_HANDLING_MODE_PEER, &errors[i]);
    }
    cs_until(&listener->num_eps, count, "endpoints");
    for (int i = 0; i < count; i++) {
        cs_talk(clients[i], cs_workers[0], 8);
        cs_talk(listener->eps[i], cs_workers[1], 8);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(cs_wait(cs_close(clients[i], false), "close"), UCS_OK);
        assert_int_equal(errors[i].count, 0);
    }
    cs_settle();
    for (int i = 0; i < count; i++) {
        cs_wait(cs_close(listener->eps[i], false), "close");
    }
    cs_settle();
    ucp_listener_destroy(listener->handle);
    settle_until_fds(fds);
    if (!cw_test_reference()) {
        assert_in_range(cw_process_fds(), 0, fds);
    }
    free(listener);
    free(clients);
    free(errors);
}

/* CS-14, CS-23, WAK-6: both sides sleep whenever they are allowed to. */
CS_TEST(test_cs14_a_sleeping_server_is_woken)
{
    struct cs_listener listener;
    struct cs_errors errors = {0};
    ucp_ep_h client;
    double deadline = cw_time_now_s() + CW_WAIT_S;

    cs_listen(&listener, cs_workers[0], "127.0.0.1", false);
    cw_worker_drain_and_arm(cs_workers[0]);
    assert_int_equal(cw_fd_poll(cw_worker_efd(cs_workers[0]), 20), 0);
    client = cs_connect(cs_workers[1], &listener.name, UCP_ERR_HANDLING_MODE_PEER, &errors);
    while (listener.num_requests == 0 && cw_time_now_s() < deadline) {
        ucp_worker_progress(cs_workers[1]);
        if (ucp_worker_arm(cs_workers[0]) == UCS_OK) {
            (void)cw_fd_poll(cw_worker_efd(cs_workers[0]), 1);
            if (!cw_fd_poll(cw_worker_efd(cs_workers[0]), 0)) {
                continue;
            }
        }
        ucp_worker_progress(cs_workers[0]);
    }
    assert_int_equal(listener.num_requests, 1);
    cw_worker_drain_and_arm(cs_workers[1]);
    ucp_listener_reject(listener.handle, listener.requests[0]);
    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        ucp_worker_progress(cs_workers[0]);
    }
    assert_int_equal(cw_fd_poll(cw_worker_efd(cs_workers[1]), 2000), 1);
    cs_until(&errors.count, 1, "failure");
    assert_int_equal(errors.status, UCS_ERR_REJECTED);
    cs_wait(cs_close(client, false), "close");
    ucp_listener_destroy(listener.handle);
}

CS_TEST(test_cs32_ipv6_link_local_with_scope)
{
    struct sockaddr_storage name = {0};
    struct ifaddrs *list, *item;
    struct cs_listener listener;

    assert_int_equal(getifaddrs(&list), 0);
    for (item = list; item != NULL; item = item->ifa_next) {
        if (item->ifa_addr != NULL && item->ifa_addr->sa_family == AF_INET6 &&
            IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)item->ifa_addr)->sin6_addr)) {
            memcpy(&name, item->ifa_addr, sizeof(struct sockaddr_in6));
        }
    }
    freeifaddrs(list);
    if (name.ss_family != AF_INET6) {
        print_message("Skipped: no interface of this machine has a link-local address\n");
        skip();
    }
    ((struct sockaddr_in6 *)&name)->sin6_port = 0;
    assert_int_equal(cs_try_listen(&listener, cs_workers[0], &name, false), UCS_OK);
    assert_int_equal(((struct sockaddr_in6 *)&listener.name)->sin6_scope_id,
                     ((struct sockaddr_in6 *)&name)->sin6_scope_id);
    connect_at(&listener, &listener.name);
    ucp_listener_destroy(listener.handle);
}
