/* SPDX-License-Identifier: BSD-3-Clause */
/* The session of session.h. Both sides sleep while they wait, so that many sessions can go on at once. */
#define _GNU_SOURCE
#include "session.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 300000, REGION = 40000, AM_ID = 5, KEY_MAX = 256 };

struct session {
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    ucp_ep_h ep;
    int failures;
    ucp_mem_h memh;
    ucp_conn_request_h request;
    bool first;             /* the client, who begins */
    enum session_outcome outcome;
    int am_count, am_due;
    int patience_s;
    bool am_wrong;
};

static char out[MOST + 64], in[MOST + 64], region[REGION];

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct session *session = arg;

    (void)ep;
    (void)status;
    cw_check(++session->failures == 1);
}

static void step(struct session *session)
{
    if (ucp_worker_progress(session->worker) == 0 && ucp_worker_arm(session->worker) == UCS_OK) {
        (void)poll(&(struct pollfd){.fd = session->efd, .events = POLLIN}, 1, 200);
    }
}

static void worse(struct session *session, enum session_outcome outcome)
{
    if (outcome > session->outcome) {
        session->outcome = outcome;
    }
}

/* Whether it ended well. A receive that nothing matched is canceled when the endpoint is gone. */
static bool wait_for(struct session *session, ucs_status_ptr_t request)
{
    double end = cw_now_s() + session->patience_s;
    ucs_status_t status = UCS_PTR_RAW_STATUS(request);
    bool canceled = false;

    if (!UCS_PTR_IS_PTR(request)) {
        if (status != UCS_OK) {
            worse(session, SESSION_ERROR);
        }
        return status == UCS_OK && session->outcome == SESSION_GOOD;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        if (session->failures > 0 && !canceled) {
            canceled = true;
            end = cw_now_s() + SESSION_PATIENCE_S;
            ucp_request_cancel(session->worker, request);
        }
        step(session);
        if (cw_now_s() > end) {
            worse(session, session->failures > 0 ? SESSION_STUCK : SESSION_SILENT);
            return false; /* the request stays: the worker ends it */
        }
    }
    ucp_request_free(request);
    if (status != UCS_OK) {
        worse(session, SESSION_ERROR);
    }
    return status == UCS_OK && session->outcome == SESSION_GOOD;
}

static void compare(struct session *session, const void *one, const void *other, size_t length)
{
    if (memcmp(one, other, length) != 0) {
        worse(session, SESSION_WRONG);
    }
}

static bool send_tag(struct session *session, const void *data, size_t length, bool sync)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    return wait_for(session, sync ? ucp_tag_send_sync_nbx(session->ep, data, length, 0x77, &param) :
                                 ucp_tag_send_nbx(session->ep, data, length, 0x77, &param));
}

static bool recv_tag(struct session *session, void *data, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    return wait_for(session, ucp_tag_recv_nbx(session->worker, data, length, 0x77, UINT64_MAX, &param));
}

/* One message in each direction. */
static bool tags(struct session *session, size_t length, bool sync)
{
    memset(in, 0, length);
    if (session->first) {
        if (!send_tag(session, out, length, sync) || !recv_tag(session, in, length)) {
            return false;
        }
    } else if (!recv_tag(session, in, length) || !send_tag(session, out, length, sync)) {
        return false;
    }
    compare(session, in, out, length);
    return session->outcome == SESSION_GOOD;
}

static bool stream(struct session *session, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    ucp_request_param_t none = {.op_attr_mask = 0};
    size_t got = 0;

    memset(in, 0, length);
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == session->first) {
            if (!wait_for(session, ucp_stream_send_nbx(session->ep, out, length, &none))) {
                return false;
            }
        } else {
            if (!wait_for(session, ucp_stream_recv_nbx(session->ep, in, length, &got, &param))) {
                return false;
            }
            compare(session, in, out, length);
        }
    }
    return session->outcome == SESSION_GOOD;
}

static ucs_status_t am_came(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    struct session *session = arg;

    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return UCS_OK; /* never sent */
    }
    session->am_wrong = session->am_wrong || header_length != 16 || length > MOST ||
                     memcmp(header, out, header_length) != 0 || memcmp(data, out, length) != 0;
    session->am_count++;
    return UCS_OK;
}

static bool active(struct session *session, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    double end;

    session->am_due++; /* it may have come already */

    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == session->first) {
            if (!wait_for(session, ucp_am_send_nbx(session->ep, AM_ID, out, 16, out, length, &param))) {
                return false;
            }
        } else {
            end = cw_now_s() + session->patience_s;
            for (; session->am_count < session->am_due && session->failures == 0; step(session)) {
                if (cw_now_s() > end) {
                    worse(session, SESSION_SILENT);
                    return false;
                }
            }
            worse(session, session->am_wrong ? SESSION_WRONG : SESSION_GOOD);
        }
    }
    worse(session, session->failures > 0 ? SESSION_ERROR : SESSION_GOOD);
    return session->outcome == SESSION_GOOD;
}

struct offer {
    uint64_t address;
    uint64_t key_length;
    char key[KEY_MAX];
};

/* The server's memory: put, checked by its owner, and got. */
static bool one_sided_server(struct session *session)
{
    struct offer offer = {.address = (uintptr_t)region};
    size_t length;
    void *key;

    cw_check(ucp_rkey_pack(session->context, session->memh, &key, &length) == UCS_OK && length <= KEY_MAX);
    offer.key_length = length;
    memcpy(offer.key, key, length);
    ucp_rkey_buffer_release(key);
    if (!send_tag(session, &offer, sizeof(offer), false) || !recv_tag(session, in, 8)) {
        return false;
    }
    compare(session, region, out, REGION - 8);
    return send_tag(session, out, 8, false) && recv_tag(session, in, 8);
}

static bool one_sided_client(struct session *session)
{
    ucp_request_param_t param = {.op_attr_mask = 0}, atomic = param;
    uint64_t one = 1, before = 0;
    struct offer offer;
    ucp_rkey_h key;
    bool good;

    if (!recv_tag(session, &offer, sizeof(offer))) {
        return false;
    }
    if (offer.key_length > KEY_MAX || ucp_ep_rkey_unpack(session->ep, offer.key, &key) != UCS_OK) {
        /* the message of the offer was not what was sent */
        worse(session, session->failures > 0 ? SESSION_ERROR : SESSION_WRONG);
        return false;
    }
    atomic.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    atomic.datatype = ucp_dt_make_contig(8);
    atomic.reply_buffer = &before;
    memset(in, 0, REGION);
    good = wait_for(session, ucp_put_nbx(session->ep, out, REGION - 8, offer.address, key, &param)) &&
           wait_for(session, ucp_ep_flush_nbx(session->ep, &param)) && send_tag(session, out, 8, false) &&
           recv_tag(session, in, 8) &&
           wait_for(session, ucp_atomic_op_nbx(session->ep, UCP_ATOMIC_OP_ADD, &one, 1, offer.address + REGION - 8, key,
                                            &atomic)) &&
           wait_for(session, ucp_get_nbx(session->ep, in, REGION, offer.address, key, &param));
    if (good) {
        compare(session, in, out, REGION - 8);
        compare(session, in + REGION - 8, &one, 8);
        compare(session, &before, "\0\0\0\0\0\0\0", 8);
        good = send_tag(session, out, 8, false);
    }
    ucp_rkey_destroy(key);
    return good;
}

static void rest_of_it(struct session *session)
{
    (void)(tags(session, 3000, true) && active(session, 500) && tags(session, MOST, false) && stream(session, 30000) &&
           (session->first ? one_sided_client(session) : one_sided_server(session)) && active(session, 20000) &&
           tags(session, 8, true));
}

static void all_of_it(struct session *session)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    ucs_status_ptr_t closing;
    ucp_ep_h ep;

    session->patience_s = SESSION_MEETING_S;
    if (tags(session, 8, false)) {
        session->patience_s = SESSION_PATIENCE_S;
        rest_of_it(session);
    }
    param.flags = session->outcome == SESSION_GOOD ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
    worse(session, session->failures > 0 && session->outcome == SESSION_SILENT ? SESSION_STUCK : SESSION_GOOD);
    ep = session->ep;
    session->ep = NULL;
    closing = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(closing)) {
        double end = cw_now_s() + SESSION_PATIENCE_S;

        while (ucp_request_check_status(closing) == UCS_INPROGRESS && cw_now_s() < end) {
            step(session);
        }
        if (ucp_request_check_status(closing) == UCS_INPROGRESS) {
            worse(session, SESSION_STUCK);
        }
    }
}

static void open_session(struct session *session)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                       UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP};
    ucp_mem_map_params_t mem = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = region, .length = REGION};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                               UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                 .id = AM_ID, .cb = am_came, .arg = session};
    ucp_worker_params_t worker = {.field_mask = 0};

    for (size_t i = 0; i < sizeof(out); i++) {
        out[i] = (char)(i * 131 + (i >> 8) * 7 + 3);
    }
    cw_check(ucp_init(&params, NULL, &session->context) == UCS_OK);
    cw_check(ucp_worker_create(session->context, &worker, &session->worker) == UCS_OK);
    cw_check(ucp_worker_get_efd(session->worker, &session->efd) == UCS_OK);
    cw_check(ucp_mem_map(session->context, &mem, &session->memh) == UCS_OK);
    cw_check(ucp_worker_set_am_recv_handler(session->worker, &am) == UCS_OK);
}

static int close_session(struct session *session)
{
    ucp_worker_destroy(session->worker);
    cw_check(ucp_mem_unmap(session->context, session->memh) == UCS_OK);
    ucp_cleanup(session->context);
    return (int)session->outcome;
}

int session_client(int fd, const char *argument)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)atoi(argument))};
    static struct session session;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .sockaddr = {(const struct sockaddr *)&name, sizeof(name)},
                              .err_handler = {failed, &session}};

    (void)fd;
    cw_run.name = "client";
    open_session(&session);
    session.first = true;
    cw_check(ucp_ep_create(session.worker, &params, &session.ep) == UCS_OK);
    all_of_it(&session);
    return close_session(&session);
}

static void requested(ucp_conn_request_h request, void *arg)
{
    struct session *session = arg;

    cw_check(session->request == NULL);
    session->request = request;
}

int session_server(int fd, const char *argument)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static struct session session;
    ucp_listener_params_t listening = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                       .sockaddr = {(struct sockaddr *)&name, sizeof(name)},
                                       .conn_handler = {requested, &session}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {failed, &session}};
    ucp_listener_h listener;
    char byte;
    int port;

    (void)argument;
    cw_run.name = "server";
    open_session(&session);
    cw_check(ucp_listener_create(session.worker, &listening, &listener) == UCS_OK);
    cw_check(ucp_listener_query(listener, &attr) == UCS_OK);
    port = ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port);
    cw_check(cw_fd_write(fd, &port, sizeof(port)));
    while (session.request == NULL && recv(fd, &byte, 1, MSG_DONTWAIT) != 0) { /* until the client is gone */
        step(&session);
    }
    params.conn_request = session.request;
    if (session.request == NULL || ucp_ep_create(session.worker, &params, &session.ep) != UCS_OK) {
        session.outcome = SESSION_GOOD; /* nobody came: nothing is waited for */
    } else {
        all_of_it(&session);
    }
    ucp_listener_destroy(listener);
    return close_session(&session);
}
