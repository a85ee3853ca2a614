/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of test_cs_common.h. */
#define _GNU_SOURCE
#include "test_cs_common.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

ucp_context_h cs_context;
ucp_worker_h cs_workers[4];

static ucp_worker_h worker_new(ucp_context_h context, ucs_thread_mode_t mode)
{
    ucp_worker_params_t params;
    ucp_worker_h worker;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_CLIENT_ID;
    params.thread_mode = mode;
    params.client_id = 0x1234567890abcdefull;
    assert_int_equal(ucp_worker_create(context, &params, &worker), UCS_OK);
    return worker;
}

ucp_worker_h cs_worker_new(ucs_thread_mode_t mode)
{
    return worker_new(cs_context, mode);
}

ucp_worker_h cs_worker_of(ucp_context_h context)
{
    return worker_new(context, UCS_THREAD_MODE_SINGLE);
}

int cs_setup(void **state)
{
    ucp_params_t params;

    if (cw_test_setup(state) != 0) {
        return -1;
    }
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
    params.features = CS_FEATURES;
    params.mt_workers_shared = 1;
    if (ucp_init(&params, NULL, &cs_context) != UCS_OK) {
        return -1;
    }
    cs_workers[0] = cs_worker_new(UCS_THREAD_MODE_SINGLE);
    cs_workers[1] = cs_worker_new(UCS_THREAD_MODE_SINGLE);
    return 0;
}

int cs_teardown(void **state)
{
    for (int i = 0; i < 4; i++) {
        if (cs_workers[i] != NULL) {
            ucp_worker_destroy(cs_workers[i]);
            cs_workers[i] = NULL;
        }
    }
    ucp_cleanup(cs_context);
    return cw_test_teardown(state);
}

void cs_progress(void)
{
    for (int i = 0; i < 4; i++) {
        if (cs_workers[i] != NULL) {
            ucp_worker_progress(cs_workers[i]);
        }
    }
}

void cs_settle(void)
{
    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        cs_progress();
    }
}

void cs_until(const volatile int *counter, int target, const char *what)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < target) { /* another thread may count */
        cs_progress();
        if (cw_time_now_s() > deadline) {
            fail_msg("%s: %d of %d came within %d s", what, *counter, target, CW_WAIT_S);
        }
    }
}

ucs_status_t cs_wait(ucs_status_ptr_t result, const char *what)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    while ((status = ucp_request_check_status(result)) == UCS_INPROGRESS) {
        cs_progress();
        if (cw_time_now_s() > deadline) {
            fail_msg("%s did not complete within %d s", what, CW_WAIT_S);
        }
    }
    ucp_request_free(result);
    return status;
}

struct sockaddr_storage cs_name(const char *ip, int port)
{
    struct sockaddr_storage name = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&name;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&name;

    if (inet_pton(AF_INET, ip, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return name;
    }
    memset(&name, 0, sizeof(name));
    assert_int_equal(inet_pton(AF_INET6, ip, &v6->sin6_addr), 1);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return name;
}

int cs_port(const struct sockaddr_storage *name)
{
    return ntohs(name->ss_family == AF_INET ? ((const struct sockaddr_in *)name)->sin_port
                                            : ((const struct sockaddr_in6 *)name)->sin6_port);
}

static socklen_t name_length(const struct sockaddr_storage *name)
{
    return name->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static void requested(ucp_conn_request_h request, void *arg)
{
    struct cs_listener *listener = arg;

    assert_true(listener->num_requests < CS_MAX_REQUESTS);
    listener->requests[listener->num_requests++] = request;
}

static void accepted(ucp_ep_h ep, void *arg)
{
    struct cs_listener *listener = arg;

    assert_true(listener->num_eps < CS_MAX_REQUESTS);
    listener->eps[listener->num_eps++] = ep;
}

ucs_status_t cs_try_listen(struct cs_listener *listener, ucp_worker_h worker, const struct sockaddr_storage *name,
                           bool accepts)
{
    ucp_listener_params_t params;
    ucp_listener_attr_t attr;
    ucs_status_t status;

    memset(listener, 0, sizeof(*listener));
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                        (accepts ? UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER : UCP_LISTENER_PARAM_FIELD_CONN_HANDLER);
    params.sockaddr.addr = (const struct sockaddr *)name;
    params.sockaddr.addrlen = name_length(name);
    if (accepts) {
        params.accept_handler.cb = accepted;
        params.accept_handler.arg = listener;
    } else {
        params.conn_handler.cb = requested;
        params.conn_handler.arg = listener;
    }
    status = ucp_listener_create(worker, &params, &listener->handle);
    if (status != UCS_OK) {
        return status;
    }
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR;
    assert_int_equal(ucp_listener_query(listener->handle, &attr), UCS_OK);
    listener->name = attr.sockaddr;
    return UCS_OK;
}

void cs_listen(struct cs_listener *listener, ucp_worker_h worker, const char *ip, bool accepts)
{
    struct sockaddr_storage name = cs_name(ip, 0);

    assert_int_equal(cs_try_listen(listener, worker, &name, accepts), UCS_OK);
    assert_true(cs_port(&listener->name) > 0);
}

struct sockaddr_storage cs_at(const struct cs_listener *listener, const char *ip)
{
    return cs_name(ip, cs_port(&listener->name));
}

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct cs_errors *errors = arg;

    errors->count++;
    errors->status = status;
    errors->ep = ep;
}

static void ep_params(ucp_ep_params_t *params, uint64_t mask, int mode, struct cs_errors *errors)
{
    memset(params, 0xff, sizeof(*params));
    params->field_mask = mask;
    if (mode != CS_NO_MODE) {
        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        params->err_mode = (ucp_err_handling_mode_t)mode;
    }
    if (errors != NULL) {
        params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params->err_handler.cb = failed;
        params->err_handler.arg = errors;
    }
}

ucp_ep_h cs_connect(ucp_worker_h worker, const struct sockaddr_storage *name, int mode, struct cs_errors *errors)
{
    struct sockaddr_storage copy = *name;
    ucp_ep_params_t params;
    ucs_status_t status;
    ucp_ep_h ep;

    ep_params(&params, UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR, mode, errors);
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)&copy;
    params.sockaddr.addrlen = name_length(&copy);
    status = ucp_ep_create(worker, &params, &ep);
    memset(&copy, 0xff, sizeof(copy)); /* EP-3 */
    assert_int_equal(status, UCS_OK);
    return ep;
}

ucs_status_t cs_try_accept(ucp_worker_h worker, ucp_conn_request_h request, int mode, struct cs_errors *errors,
                           ucp_ep_h *ep_p)
{
    ucp_ep_params_t params;

    ep_params(&params, UCP_EP_PARAM_FIELD_CONN_REQUEST, mode, errors);
    params.conn_request = request;
    return ucp_ep_create(worker, &params, ep_p);
}

ucp_ep_h cs_accept(ucp_worker_h worker, ucp_conn_request_h request, struct cs_errors *errors)
{
    ucp_ep_h ep;

    assert_int_equal(cs_try_accept(worker, request, CS_NO_MODE, errors, &ep), UCS_OK);
    return ep;
}

void cs_couple(struct cs_couple *couple, struct cs_listener *listener, int mode)
{
    struct sockaddr_storage name = listener->name;

    memset(couple, 0, sizeof(*couple));
    couple->client = cs_connect(cs_workers[1], &name, mode, &couple->client_errors);
    cs_until(&listener->num_requests, 1, "connection request");
    couple->server = cs_accept(cs_workers[0], listener->requests[--listener->num_requests], &couple->server_errors);
}

ucs_status_ptr_t cs_close(ucp_ep_h ep, bool force)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    return ucp_ep_close_nbx(ep, &param);
}

void cs_part(struct cs_couple *couple)
{
    ucs_status_ptr_t client = cs_close(couple->client, false), server = cs_close(couple->server, false);

    assert_int_equal(cs_wait(client, "close of the client"), UCS_OK);
    assert_int_equal(cs_wait(server, "close of the server"), UCS_OK);
    assert_int_equal(couple->client_errors.count, 0);
    assert_int_equal(couple->server_errors.count, 0);
}

ucs_status_ptr_t cs_send(ucp_ep_h ep, const void *data, size_t length, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_none();

    return ucp_tag_send_nbx(ep, data, length, tag, &param);
}

void cs_talk(ucp_ep_h from, ucp_worker_h to, size_t length)
{
    ucp_request_param_t param = cw_param_none();
    char *out = malloc(length + 1), *in = calloc(1, length + 1);
    ucs_status_ptr_t receive, send;

    assert_true(out != NULL && in != NULL);
    cw_pattern_fill(out, length, length);
    send = cs_send(from, out, length, 0x7a17);
    receive = ucp_tag_recv_nbx(to, in, length, 0x7a17, CW_TAG_ALL, &param);
    assert_int_equal(cs_wait(receive, "receive"), UCS_OK);
    assert_int_equal(cs_wait(send, "send"), UCS_OK);
    cw_pattern_check(in, length, length);
    free(out);
    free(in);
}
