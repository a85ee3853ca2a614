/* SPDX-License-Identifier: BSD-3-Clause */
/* The talk of talk.h. Both sides sleep while they wait, so that many talks can go on beside each other. */
#define _GNU_SOURCE
#include "talk.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST = 300000, REGION = 40000, AM_ID = 5, KEY_MAX = 256 };

struct talk {
    ucp_context_h context;
    ucp_worker_h worker;
    int efd;
    ucp_ep_h ep;
    int failures;
    ucp_mem_h memh;
    ucp_conn_request_h request;
    bool first;             /* the client, who begins */
    enum talk_outcome outcome;
    int am_count, am_due;
    int patience_s;
    bool am_wrong;
};

static char out[MOST + 64], in[MOST + 64], region[REGION];

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct talk *talk = arg;

    (void)ep;
    (void)status;
    storm_check(++talk->failures == 1);
}

static void step(struct talk *talk)
{
    if (ucp_worker_progress(talk->worker) == 0 && ucp_worker_arm(talk->worker) == UCS_OK) {
        (void)poll(&(struct pollfd){.fd = talk->efd, .events = POLLIN}, 1, 200);
    }
}

static void worse(struct talk *talk, enum talk_outcome outcome)
{
    if (outcome > talk->outcome) {
        talk->outcome = outcome;
    }
}

/* Whether it ended well. A receive that nothing matched is canceled when the endpoint is gone. */
static bool wait_for(struct talk *talk, ucs_status_ptr_t request)
{
    double end = storm_now_s() + talk->patience_s;
    ucs_status_t status = UCS_PTR_RAW_STATUS(request);
    bool canceled = false;

    if (!UCS_PTR_IS_PTR(request)) {
        if (status != UCS_OK) {
            worse(talk, TALK_ERROR);
        }
        return status == UCS_OK && talk->outcome == TALK_GOOD;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        if (talk->failures > 0 && !canceled) {
            canceled = true;
            end = storm_now_s() + TALK_PATIENCE_S;
            ucp_request_cancel(talk->worker, request);
        }
        step(talk);
        if (storm_now_s() > end) {
            worse(talk, talk->failures > 0 ? TALK_STUCK : TALK_SILENT);
            return false; /* the request stays: the worker ends it */
        }
    }
    ucp_request_free(request);
    if (status != UCS_OK) {
        worse(talk, TALK_ERROR);
    }
    return status == UCS_OK && talk->outcome == TALK_GOOD;
}

static void compare(struct talk *talk, const void *one, const void *other, size_t length)
{
    if (memcmp(one, other, length) != 0) {
        worse(talk, TALK_WRONG);
    }
}

static bool send_tag(struct talk *talk, const void *data, size_t length, bool sync)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    return wait_for(talk, sync ? ucp_tag_send_sync_nbx(talk->ep, data, length, 0x77, &param) :
                                 ucp_tag_send_nbx(talk->ep, data, length, 0x77, &param));
}

static bool recv_tag(struct talk *talk, void *data, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    return wait_for(talk, ucp_tag_recv_nbx(talk->worker, data, length, 0x77, UINT64_MAX, &param));
}

/* One message in each direction. */
static bool tags(struct talk *talk, size_t length, bool sync)
{
    memset(in, 0, length);
    if (talk->first) {
        if (!send_tag(talk, out, length, sync) || !recv_tag(talk, in, length)) {
            return false;
        }
    } else if (!recv_tag(talk, in, length) || !send_tag(talk, out, length, sync)) {
        return false;
    }
    compare(talk, in, out, length);
    return talk->outcome == TALK_GOOD;
}

static bool stream(struct talk *talk, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    ucp_request_param_t none = {.op_attr_mask = 0};
    size_t got = 0;

    memset(in, 0, length);
    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == talk->first) {
            if (!wait_for(talk, ucp_stream_send_nbx(talk->ep, out, length, &none))) {
                return false;
            }
        } else {
            if (!wait_for(talk, ucp_stream_recv_nbx(talk->ep, in, length, &got, &param))) {
                return false;
            }
            compare(talk, in, out, length);
        }
    }
    return talk->outcome == TALK_GOOD;
}

static ucs_status_t am_came(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    struct talk *talk = arg;

    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        return UCS_OK; /* never sent */
    }
    talk->am_wrong = talk->am_wrong || header_length != 16 || length > MOST ||
                     memcmp(header, out, header_length) != 0 || memcmp(data, out, length) != 0;
    talk->am_count++;
    return UCS_OK;
}

static bool active(struct talk *talk, size_t length)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    double end;

    talk->am_due++; /* it may have come already */

    for (int turn = 0; turn < 2; turn++) {
        if ((turn == 0) == talk->first) {
            if (!wait_for(talk, ucp_am_send_nbx(talk->ep, AM_ID, out, 16, out, length, &param))) {
                return false;
            }
        } else {
            end = storm_now_s() + talk->patience_s;
            for (; talk->am_count < talk->am_due && talk->failures == 0; step(talk)) {
                if (storm_now_s() > end) {
                    worse(talk, TALK_SILENT);
                    return false;
                }
            }
            worse(talk, talk->am_wrong ? TALK_WRONG : TALK_GOOD);
        }
    }
    worse(talk, talk->failures > 0 ? TALK_ERROR : TALK_GOOD);
    return talk->outcome == TALK_GOOD;
}

struct offer {
    uint64_t address;
    uint64_t key_length;
    char key[KEY_MAX];
};

/* The server's memory: put, looked at by its owner, and got. */
static bool one_sided_server(struct talk *talk)
{
    struct offer offer = {.address = (uintptr_t)region};
    size_t length;
    void *key;

    storm_check(ucp_rkey_pack(talk->context, talk->memh, &key, &length) == UCS_OK && length <= KEY_MAX);
    offer.key_length = length;
    memcpy(offer.key, key, length);
    ucp_rkey_buffer_release(key);
    if (!send_tag(talk, &offer, sizeof(offer), false) || !recv_tag(talk, in, 8)) {
        return false;
    }
    compare(talk, region, out, REGION - 8);
    return send_tag(talk, out, 8, false) && recv_tag(talk, in, 8);
}

static bool one_sided_client(struct talk *talk)
{
    ucp_request_param_t param = {.op_attr_mask = 0}, atomic = param;
    uint64_t one = 1, before = 0;
    struct offer offer;
    ucp_rkey_h key;
    bool good;

    if (!recv_tag(talk, &offer, sizeof(offer))) {
        return false;
    }
    if (offer.key_length > KEY_MAX || ucp_ep_rkey_unpack(talk->ep, offer.key, &key) != UCS_OK) {
        worse(talk, talk->failures > 0 ? TALK_ERROR : TALK_WRONG); /* the message of the offer was not what was sent */
        return false;
    }
    atomic.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    atomic.datatype = ucp_dt_make_contig(8);
    atomic.reply_buffer = &before;
    memset(in, 0, REGION);
    good = wait_for(talk, ucp_put_nbx(talk->ep, out, REGION - 8, offer.address, key, &param)) &&
           wait_for(talk, ucp_ep_flush_nbx(talk->ep, &param)) && send_tag(talk, out, 8, false) &&
           recv_tag(talk, in, 8) &&
           wait_for(talk, ucp_atomic_op_nbx(talk->ep, UCP_ATOMIC_OP_ADD, &one, 1, offer.address + REGION - 8, key,
                                            &atomic)) &&
           wait_for(talk, ucp_get_nbx(talk->ep, in, REGION, offer.address, key, &param));
    if (good) {
        compare(talk, in, out, REGION - 8);
        compare(talk, in + REGION - 8, &one, 8);
        compare(talk, &before, "\0\0\0\0\0\0\0", 8);
        good = send_tag(talk, out, 8, false);
    }
    ucp_rkey_destroy(key);
    return good;
}

static void rest_of_it(struct talk *talk)
{
    (void)(tags(talk, 3000, true) && active(talk, 500) && tags(talk, MOST, false) && stream(talk, 30000) &&
           (talk->first ? one_sided_client(talk) : one_sided_server(talk)) && active(talk, 20000) &&
           tags(talk, 8, true));
}

static void all_of_it(struct talk *talk)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    ucs_status_ptr_t closing;
    ucp_ep_h ep;

    talk->patience_s = TALK_MEETING_S;
    if (tags(talk, 8, false)) {
        talk->patience_s = TALK_PATIENCE_S;
        rest_of_it(talk);
    }
    param.flags = talk->outcome == TALK_GOOD ? 0 : UCP_EP_CLOSE_FLAG_FORCE;
    worse(talk, talk->failures > 0 && talk->outcome == TALK_SILENT ? TALK_STUCK : TALK_GOOD);
    ep = talk->ep;
    talk->ep = NULL;
    closing = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(closing)) {
        double end = storm_now_s() + TALK_PATIENCE_S;

        while (ucp_request_check_status(closing) == UCS_INPROGRESS && storm_now_s() < end) {
            step(talk);
        }
        if (ucp_request_check_status(closing) == UCS_INPROGRESS) {
            worse(talk, TALK_STUCK);
        }
    }
}

static void open_talk(struct talk *talk)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                       UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP};
    ucp_mem_map_params_t mem = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = region, .length = REGION};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                               UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                 .id = AM_ID, .cb = am_came, .arg = talk};
    ucp_worker_params_t worker = {.field_mask = 0};

    for (size_t i = 0; i < sizeof(out); i++) {
        out[i] = (char)(i * 131 + (i >> 8) * 7 + 3);
    }
    storm_check(ucp_init(&params, NULL, &talk->context) == UCS_OK);
    storm_check(ucp_worker_create(talk->context, &worker, &talk->worker) == UCS_OK);
    storm_check(ucp_worker_get_efd(talk->worker, &talk->efd) == UCS_OK);
    storm_check(ucp_mem_map(talk->context, &mem, &talk->memh) == UCS_OK);
    storm_check(ucp_worker_set_am_recv_handler(talk->worker, &am) == UCS_OK);
}

static int close_talk(struct talk *talk)
{
    ucp_worker_destroy(talk->worker);
    storm_check(ucp_mem_unmap(talk->context, talk->memh) == UCS_OK);
    ucp_cleanup(talk->context);
    return (int)talk->outcome;
}

int talk_client(int fd, const char *argument)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                               .sin_port = htons((uint16_t)atoi(argument))};
    static struct talk talk;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .sockaddr = {(const struct sockaddr *)&name, sizeof(name)},
                              .err_handler = {failed, &talk}};

    (void)fd;
    storm_name = "client";
    open_talk(&talk);
    talk.first = true;
    storm_check(ucp_ep_create(talk.worker, &params, &talk.ep) == UCS_OK);
    all_of_it(&talk);
    return close_talk(&talk);
}

static void requested(ucp_conn_request_h request, void *arg)
{
    struct talk *talk = arg;

    storm_check(talk->request == NULL);
    talk->request = request;
}

int talk_server(int fd, const char *argument)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static struct talk talk;
    ucp_listener_params_t listening = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                       .sockaddr = {(struct sockaddr *)&name, sizeof(name)},
                                       .conn_handler = {requested, &talk}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler = {failed, &talk}};
    ucp_listener_h listener;
    char byte;
    int port;

    (void)argument;
    storm_name = "server";
    open_talk(&talk);
    storm_check(ucp_listener_create(talk.worker, &listening, &listener) == UCS_OK);
    storm_check(ucp_listener_query(listener, &attr) == UCS_OK);
    port = ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port);
    storm_check(storm_write(fd, &port, sizeof(port)));
    while (talk.request == NULL && recv(fd, &byte, 1, MSG_DONTWAIT) != 0) { /* until the client is known to be gone */
        step(&talk);
    }
    params.conn_request = talk.request;
    if (talk.request == NULL || ucp_ep_create(talk.worker, &params, &talk.ep) != UCS_OK) {
        talk.outcome = TALK_GOOD; /* nobody came: nothing is waited for */
    } else {
        all_of_it(&talk);
    }
    ucp_listener_destroy(listener);
    return close_talk(&talk);
}
