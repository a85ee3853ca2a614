/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that call the interface as UCC and ucx-py do: the same calls, flags, order and modes of threads (APP-4,
 * APP-5).
 */
#define _GNU_SOURCE
#include "harness.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define BYTE    ucp_dt_make_contig(1)

static char *printed(const ucp_config_t *config)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    assert_non_null(stream);
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(stream);
    return text;
}

static ucp_worker_h multi_worker(ucp_context_h context)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucp_worker_params_t params;
    ucp_worker_h worker;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_MULTI;
    assert_int_equal(ucp_worker_create(context, &params, &worker), UCS_OK);
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    assert_int_equal(attr.thread_mode, UCS_THREAD_MODE_MULTI);
    return worker;
}

/* ---- UCC ---- */

enum { TEAMS = 8 };

struct team {
    ucp_worker_h worker;
    void *address;
    ucp_ep_h eps[TEAMS]; /* NULL: nothing was sent there yet */
    uint64_t word, got[TEAMS];
};

static struct team teams[TEAMS];

static void progress_teams(void)
{
    for (int i = 0; i < TEAMS; i++) {
        ucp_worker_progress(teams[i].worker);
    }
}

static void end_in_teams(ucs_status_ptr_t result)
{
    const double end = cw_time_now_s() + CW_WAIT_S;

    assert_false(UCS_PTR_IS_ERR(result));
    if (result != NULL) {
        while (ucp_request_check_status(result) == UCS_INPROGRESS && cw_time_now_s() < end) {
            progress_teams();
        }
        assert_int_equal(ucp_request_check_status(result), UCS_OK);
        ucp_request_free(result);
    }
}

static ucp_ep_h ep_between(int from, int to)
{
    ucp_ep_params_t params;

    if (teams[from].eps[to] == NULL) {
        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address = teams[to].address;
        assert_int_equal(ucp_ep_create(teams[from].worker, &params, &teams[from].eps[to]), UCS_OK);
    }
    return teams[from].eps[to];
}

/* What comes to `to` from everybody, and a word put there. */
static void exchange(ucp_context_h context, int from, int to)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = &teams[to].word,
                                   .length = sizeof(teams[to].word)};
    ucp_request_param_t none = cw_param_none();
    const uint64_t word = (uint64_t)from * 1000 + (uint64_t)to;
    ucs_status_ptr_t recv, send;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    size_t size;
    void *key;

    recv = ucp_tag_recv_nbx(teams[to].worker, &teams[to].got[from], sizeof(word), (ucp_tag_t)from, CW_TAG_ALL, &none);
    send = ucp_tag_send_nbx(ep_between(from, to), &word, sizeof(word), (ucp_tag_t)from, &none);
    end_in_teams(send);
    end_in_teams(recv);
    assert_int_equal(teams[to].got[from], word);
    assert_int_equal(ucp_mem_map(context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, memh, &key, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep_between(from, to), key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
    end_in_teams(ucp_put_nbx(ep_between(from, to), &word, sizeof(word), (uintptr_t)&teams[to].word, rkey, &none));
    end_in_teams(ucp_ep_flush_nbx(ep_between(from, to), &none));
    assert_int_equal(teams[to].word, word);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
}

API_TEST(test_app4_ucc)
{
    ucp_request_param_t none = cw_param_none();
    ucp_address_t *address;
    ucp_context_h context;
    ucp_config_t *config;
    ucp_params_t params;
    size_t length;
    char *text;

    cw_test_need_two_workers();
    memset(teams, 0, sizeof(teams));
    setenv("TEAM_UCX_RNDV_THRESH", "12345", 1); /* the prefix is the caller's */
    assert_int_equal(ucp_config_read("TEAM", NULL, &config), UCS_OK);
    unsetenv("TEAM_UCX_RNDV_THRESH");
    text = printed(config);
    assert_non_null(strstr(text, "RNDV_THRESH=12345"));
    free(text);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_TAG_SENDER_MASK | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA;
    params.tag_sender_mask = 0xffff;
    params.name = "UCC_UCP_CONTEXT";
    assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
    ucp_config_release(config);
    for (int i = 0; i < TEAMS; i++) {
        teams[i].worker = multi_worker(context);
        assert_int_equal(ucp_worker_get_address(teams[i].worker, &address, &length), UCS_OK);
        teams[i].address = malloc(length);
        assert_non_null(teams[i].address);
        memcpy(teams[i].address, address, length);
        ucp_worker_release_address(teams[i].worker, address);
    }
    for (int distance = 1; distance < TEAMS; distance *= 2) { /* not all of them meet */
        for (int i = 0; i < TEAMS; i++) {
            exchange(context, i, (i + distance) % TEAMS);
        }
    }
    assert_null(teams[0].eps[3]);
    for (int i = 0; i < TEAMS; i++) {
        for (int k = 0; k < TEAMS; k++) {
            if (teams[i].eps[k] != NULL) {
                end_in_teams(ucp_ep_close_nbx(teams[i].eps[k], &none));
            }
        }
    }
    for (int i = 0; i < TEAMS; i++) {
        ucp_worker_destroy(teams[i].worker);
        free(teams[i].address);
    }
    ucp_cleanup(context);
}

/* ---- ucx-py ---- */

/* The user's area of a request. */
struct area {
    int finished;
    ucs_status_t status;
    size_t length;
};

static ucp_worker_h workers[2]; /* of the server and of the client */
static int loops[2];
static ucp_ep_h accepted;
static int failed[2];
static ucs_status_t failures[2];

static void init_area(void *request)
{
    memset(request, 0, sizeof(struct area));
}

static void finish(void *request, ucs_status_t status, size_t length)
{
    struct area *area = request;

    area->finished++;
    area->status = status;
    area->length = length;
}

static void on_sent(void *request, ucs_status_t status)
{
    finish(request, status, 0);
}

static void on_tag(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    finish(request, status, info->length);
}

static void on_stream(void *request, ucs_status_t status, size_t length)
{
    finish(request, status, length);
}

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    int *which = arg;

    (void)ep;
    (*which)++;
    failures[which - failed] = status;
}

/* As the event loop: progress while there is some, arm, and sleep only then (WAK-21). */
static void turn_loop(int i)
{
    struct epoll_event event;
    ucs_status_t status;

    while (ucp_worker_progress(workers[i]) != 0) {
    }
    status = ucp_worker_arm(workers[i]);
    assert_true(status == UCS_OK || status == UCS_ERR_BUSY);
    if (status == UCS_OK) {
        (void)epoll_wait(loops[i], &event, 1, 1);
    }
}

static void turn_until(const volatile int *done)
{
    const double end = cw_time_now_s() + CW_WAIT_S;

    while (*done == 0 && cw_time_now_s() < end) {
        turn_loop(0);
        turn_loop(1);
    }
    assert_true(*done != 0);
}

/* The status of what a call of the old kind returned, and the length that its callback got. */
static ucs_status_t outcome(ucs_status_ptr_t result, size_t *length)
{
    struct area *area = result;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    turn_until(&area->finished);
    assert_int_equal(area->finished, 1);
    status = area->status;
    if (length != NULL) {
        *length = area->length;
    }
    area->finished = 0; /* the next user of the area finds it as init_area left it */
    ucp_request_free(result);
    return status;
}

/* What is closed has no callback: the request is asked. */
static ucs_status_t close_ep(ucp_ep_h ep, unsigned mode)
{
    ucs_status_ptr_t result = ucp_ep_close_nb(ep, mode);
    const double end = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    while ((status = ucp_request_check_status(result)) == UCS_INPROGRESS && cw_time_now_s() < end) {
        turn_loop(0);
        turn_loop(1);
    }
    ucp_request_free(result);
    return status;
}

static void set_handler(ucp_ep_params_t *params, uint64_t mask, int *which)
{
    memset(params, 0xff, sizeof(*params));
    params->field_mask = mask | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params->err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params->err_handler.cb = on_failure;
    params->err_handler.arg = which;
}

static void on_connection(ucp_conn_request_h request, void *arg)
{
    ucp_ep_params_t params;

    (void)arg;
    set_handler(&params, UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_FLAGS, &failed[0]);
    params.conn_request = request;
    params.flags = UCP_EP_PARAMS_FLAGS_NO_LOOPBACK;
    assert_int_equal(ucp_ep_create(workers[0], &params, &accepted), UCS_OK);
}

static ucp_context_h open_loops(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    ucp_context_h context;
    ucp_config_t *config;
    ucp_params_t params;
    int fd, i;
    char *text;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    text = printed(config); /* CFG-26: NAME=VALUE by line */
    for (char *rest, *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        assert_true(strncmp(line, "UCX_", 4) == 0 && strchr(line, '=') != NULL);
    }
    free(text);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE | UCP_PARAM_FIELD_REQUEST_INIT;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP | UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_RMA;
    params.request_size = sizeof(struct area);
    params.request_init = init_area;
    assert_int_equal(ucp_init(&params, config, &context), UCS_OK);
    ucp_config_release(config);
    for (i = 0; i < 2; i++) {
        workers[i] = multi_worker(context);
        assert_int_equal(ucp_worker_get_efd(workers[i], &fd), UCS_OK);
        loops[i] = epoll_create1(EPOLL_CLOEXEC);
        assert_true(loops[i] >= 0 && epoll_ctl(loops[i], EPOLL_CTL_ADD, fd, &event) == 0);
    }
    return context;
}

static ucp_listener_h listen_on(struct sockaddr_storage *where)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_attr_t attr;
    ucp_listener_params_t params;
    ucp_listener_h listener;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER;
    params.sockaddr.addr = (const struct sockaddr *)&any;
    params.sockaddr.addrlen = sizeof(any);
    params.conn_handler.cb = on_connection;
    params.conn_handler.arg = NULL;
    assert_int_equal(ucp_listener_create(workers[0], &params, &listener), UCS_OK);
    attr.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    assert_int_equal(ucp_listener_query(listener, &attr), UCS_OK);
    *where = attr.sockaddr;
    return listener;
}

/* Both ways by tag and by stream, in the old calls. */
static void talk(ucp_ep_h client)
{
    ucp_ep_h eps[2] = {accepted, client};
    char out[100], in[100];
    ucs_status_ptr_t recv;
    size_t length;

    for (int i = 0; i < 2; i++) {
        memset(out, 'a' + i, sizeof(out));
        recv = ucp_tag_recv_nb(workers[1 - i], in, sizeof(in), BYTE, 77, CW_TAG_ALL, on_tag);
        assert_int_equal(outcome(ucp_tag_send_nb(eps[i], out, sizeof(out), BYTE, 77, on_sent), NULL), UCS_OK);
        assert_true(UCS_PTR_IS_PTR(recv));
        assert_int_equal(outcome(recv, &length), UCS_OK);
        assert_int_equal(length, sizeof(out));
        assert_memory_equal(in, out, sizeof(out));
        memset(in, 0, sizeof(in));
        recv = ucp_stream_recv_nb(eps[1 - i], in, sizeof(in), BYTE, on_stream, &length, UCP_STREAM_RECV_FLAG_WAITALL);
        assert_int_equal(outcome(ucp_stream_send_nb(eps[i], out, sizeof(out), BYTE, on_sent, 0), NULL), UCS_OK);
        assert_int_equal(outcome(recv, &length), UCS_OK);
        assert_int_equal(length, sizeof(out));
        assert_memory_equal(in, out, sizeof(out));
    }
}

API_TEST(test_app5_ucx_py)
{
    struct sockaddr_storage where;
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;
    ucp_listener_h listener;
    ucp_ep_params_t params;
    ucp_context_h context;
    ucs_status_ptr_t left;
    char byte, drained[8];
    ucp_ep_h client;
    double end;

    if (!cw_test_tls_has("tcp")) {
        skip();
    }
    accepted = NULL;
    memset(failed, 0, sizeof(failed));
    context = open_loops();
    listener = listen_on(&where);
    set_handler(&params, UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS, &failed[1]);
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)&where;
    params.sockaddr.addrlen = sizeof(struct sockaddr_in);
    assert_int_equal(ucp_ep_create(workers[1], &params, &client), UCS_OK);
    for (end = cw_time_now_s() + CW_WAIT_S; accepted == NULL && cw_time_now_s() < end;) {
        turn_loop(0);
        turn_loop(1);
    }
    assert_non_null(accepted);
    talk(client);

    /* A message that nobody asked for stays behind, and the client goes. */
    assert_int_equal(outcome(ucp_tag_send_nb(client, "stray", 5, BYTE, 5, on_sent), NULL), UCS_OK);
    left = ucp_tag_recv_nb(workers[0], &byte, 1, BYTE, 6, CW_TAG_ALL, on_tag);
    assert_true(UCS_PTR_IS_PTR(left));
    assert_int_equal(close_ep(client, UCP_EP_CLOSE_MODE_FLUSH), UCS_OK);
    turn_until(&failed[0]);
    assert_int_equal(failed[0], 1);
    assert_int_equal(failures[0], UCS_ERR_CONNECTION_RESET);
    assert_int_equal(failed[1], 0);
    assert_int_equal(close_ep(accepted, UCP_EP_CLOSE_MODE_FORCE), UCS_OK); /* after an error */
    ucp_request_cancel(workers[0], left);
    assert_int_equal(outcome(left, NULL), UCS_ERR_CANCELED);

    /* Drains what was never received. */
    message = ucp_tag_probe_nb(workers[0], 0, 0, 1, &info);
    assert_non_null(message);
    assert_int_equal(info.length, 5);
    left = ucp_tag_msg_recv_nb(workers[0], drained, info.length, BYTE, message, on_tag);
    assert_int_equal(outcome(left, NULL), UCS_OK);
    assert_memory_equal(drained, "stray", 5);
    assert_null(ucp_tag_probe_nb(workers[0], 0, 0, 1, &info));

    ucp_listener_destroy(listener);
    for (int i = 0; i < 2; i++) {
        ucp_worker_destroy(workers[i]);
        close(loops[i]);
    }
    ucp_cleanup(context);
}
