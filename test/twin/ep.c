/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints by worker address: each member alone, all, none; queries, changes, flushes and closes. EP, CLS, ERR. */
#define _GNU_SOURCE
#include "twin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
static ucs_status_t failure;
static void *failure_argument;

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    failures++;
    failure = status;
    failure_argument = arg;
}

static void fill(ucp_ep_params_t *params, uint64_t mask, const ucp_address_t *address, const struct sockaddr_in *to)
{
    memset(params, TWIN_FILL, sizeof(*params));
    params->field_mask = mask;
    params->address = (mask & UCP_EP_PARAM_FIELD_REMOTE_ADDRESS) ? address : params->address;
    params->err_mode = (mask & UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE) ? UCP_ERR_HANDLING_MODE_PEER : params->err_mode;
    if (mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) {
        params->err_handler.cb = failed;
        params->err_handler.arg = (void *)0x11;
    }
    params->user_data = (mask & UCP_EP_PARAM_FIELD_USER_DATA) ? (void *)0x22 : params->user_data;
    params->flags = (mask & UCP_EP_PARAM_FIELD_FLAGS) ? 0 : params->flags;
    params->name = (mask & UCP_EP_PARAM_FIELD_NAME) ? "an endpoint" : params->name;
    if (mask & UCP_EP_PARAM_FIELD_SOCK_ADDR) {
        params->sockaddr.addr = (const struct sockaddr *)to;
        params->sockaddr.addrlen = sizeof(*to);
    }
    if (mask & UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR) {
        params->local_sockaddr.addr = (const struct sockaddr *)to;
        params->local_sockaddr.addrlen = sizeof(*to);
    }
}

static ucs_status_t say(struct twin_pair *pair, ucp_ep_h ep)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    static char in[16], out[16] = "words";
    ucs_status_ptr_t received = ucp_tag_recv_nb(pair->worker[1], in, sizeof(in), byte, 5, ~UINT64_C(0), twin_got);
    ucs_status_t sent, got;

    memset(in, 0, sizeof(in));
    sent = twin_wait(pair, ucp_tag_send_nb(ep, out, sizeof(out), byte, 5, twin_done));
    got = twin_wait(pair, received);
    if (sent != UCS_OK) {
        return sent;
    }
    if (got != UCS_OK) {
        return got;
    }
    return strcmp(in, out) == 0 ? UCS_OK : UCS_ERR_LAST;
}

/* Both modes of closing, after which the pair has to go on. */
static void one(struct twin_pair *pair, uint64_t mask, unsigned mode)
{
    struct sockaddr_in nobody = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_ep_params_t params;
    ucp_address_t *address;
    ucs_status_ptr_t closed;
    ucs_status_t status;
    char what[40];
    size_t length;
    ucp_ep_h ep;

    snprintf(what, sizeof(what), "mask %#llx, mode %u", (unsigned long long)mask, mode);
    twin_need(ucp_worker_get_address(pair->worker[1], &address, &length) == UCS_OK, "ucp_worker_get_address");
    fill(&params, mask, address, &nobody);
    status = ucp_ep_create(pair->worker[0], &params, &ep);
    memset(address, 0, length);
    ucp_worker_release_address(pair->worker[1], address);
    twin_print("%s: %s", what, twin_status(status));
    if (status != UCS_OK) {
        return;
    }
    twin_print("%s: said %s", what, twin_status(say(pair, ep)));
    closed = ucp_ep_close_nb(ep, mode);
    twin_print("%s: close %s", what,
              UCS_PTR_IS_ERR(closed) ? twin_pointer_status(closed) : twin_status(twin_wait(pair, closed)));
    if (UCS_PTR_IS_ERR(closed)) {
        twin_print("%s: still says %s", what, twin_status(say(pair, ep)));
        closed = ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH);
        twin_print("%s: flush %s", what, twin_status(twin_wait(pair, closed)));
    }
    twin_settle(pair);
    twin_print("%s: failures %d", what, failures);
}

static void masks(void)
{
    const uint64_t address = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, known = 0x1ff,
                   usable = known & ~(uint64_t)(UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_SOCK_ADDR);
    struct twin_pair pair;
    unsigned mode;
    int bit;

    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    for (mode = 0; mode < 2; mode++) {
        one(&pair, 0, mode);
        for (bit = 0; bit < 9; bit++) {
            if (bit != 6 && bit != 4) { /* a connection request that is none; two addresses end UCX 1.13 */
                one(&pair, address | UINT64_C(1) << bit, mode);
                if (bit != 0) {
                    one(&pair, UINT64_C(1) << bit, mode);
                }
            }
        }
        one(&pair, usable, mode);
        one(&pair, usable | TWIN_UNKNOWN, mode);
        one(&pair, address | TWIN_UNKNOWN, mode);
    }
    one(&pair, address, 2);
    one(&pair, address | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE, 77);
    twin_pair_close(&pair);
}

static void values(void)
{
    static const unsigned flags[] = {0, 2, 4, 6, 1, 8, 0xfffffff8};
    static const unsigned modes[] = {0, 1, 2, 99, 0xffffffff}; /* 1.23 ends the process over the first of no meaning */
    struct twin_pair pair;
    ucp_ep_params_t params;
    ucp_address_t *address;
    ucs_status_t status;
    size_t length, i;
    ucp_ep_h ep;

    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    twin_need(ucp_worker_get_address(pair.worker[1], &address, &length) == UCS_OK, "ucp_worker_get_address");
    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = NULL;
    twin_print("no address: %s", twin_status(ucp_ep_create(pair.worker[0], &params, &ep)));
    for (i = 0; i < TWIN_COUNT(flags) + TWIN_COUNT(modes); i++) {
        bool of_mode = i >= TWIN_COUNT(flags);
        unsigned value = of_mode ? modes[i - TWIN_COUNT(flags)] : flags[i];

        memset(&params, TWIN_FILL, sizeof(params));
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                            (of_mode ? UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE : UCP_EP_PARAM_FIELD_FLAGS);
        params.address = address;
        params.err_mode = (ucp_err_handling_mode_t)value;
        params.flags = value;
        status = ucp_ep_create(pair.worker[0], &params, &ep);
        twin_print("%s %u: %s", of_mode ? "mode" : "flags", value, twin_status(status));
        if (status == UCS_OK) {
            twin_print("%s %u: said %s", of_mode ? "mode" : "flags", value, twin_status(say(&pair, ep)));
            (void)twin_wait(&pair, ucp_ep_close_nb(ep, UCP_EP_CLOSE_MODE_FLUSH));
        }
    }
    ucp_worker_release_address(pair.worker[1], address);
    twin_pair_close(&pair);
}

static void query(void)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_ep_attr_t, name),
                                               TWIN_FIELD(ucp_ep_attr_t, local_sockaddr),
                                               TWIN_FIELD(ucp_ep_attr_t, remote_sockaddr)};
    struct twin_pair pair;
    ucp_ep_attr_t attr;
    ucs_status_t status;
    uint64_t mask;
    char what[32];
    int i;

    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    for (i = 0; i < 9; i++) {
        mask = i < 8 ? (uint64_t)i : TWIN_UNKNOWN;
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = mask;
        status = ucp_ep_query(pair.ep[0], &attr);
        snprintf(what, sizeof(what), "mask %#llx", (unsigned long long)mask);
        if (status == UCS_OK) {
            twin_print_filled(what, status, &attr, fields, TWIN_COUNT(fields));
        } else {
            twin_print("%s: %s", what, twin_status(status));
        }
    }
    twin_pair_close(&pair);
}

static void performance(void)
{
    static const uint64_t masks[] = {0, 1, ~UINT64_C(1), ~UINT64_C(0)};
    static const size_t sizes[] = {0, 1, 4096, 1 << 20, 1 << 30};
    struct twin_pair pair;
    ucp_ep_evaluate_perf_param_t param;
    ucp_ep_evaluate_perf_attr_t attr;
    ucs_status_t status;
    double before = 0;
    size_t i, k;

    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    for (i = 0; i < 4; i++) {
        for (k = 0; k < 4; k++) {
            memset(&attr, TWIN_FILL, sizeof(attr));
            memset(&param, TWIN_FILL, sizeof(param));
            param.field_mask = masks[i];
            attr.field_mask = masks[k];
            param.message_size = (masks[i] & 1) ? 100 : param.message_size;
            status = ucp_ep_evaluate_perf(pair.ep[0], &param, &attr);
            twin_print("masks %zu %zu: %s", i, k, twin_status(status));
        }
    }
    for (i = 0; i < TWIN_COUNT(sizes); i++) {
        param.field_mask = attr.field_mask = 1;
        param.message_size = sizes[i];
        (void)ucp_ep_evaluate_perf(pair.ep[0], &param, &attr);
        twin_print("size %zu: a time %d, not less %d", sizes[i], attr.estimated_time > 0 && attr.estimated_time < 100,
                  attr.estimated_time >= before);
        before = attr.estimated_time;
    }
    twin_pair_close(&pair);
}

static void change(void)
{
    struct sockaddr_in nobody = {
        .sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct twin_pair pair;
    ucp_ep_params_t params;
    uint64_t mask;
    int bit;

    twin_pair_open(&pair, UCP_FEATURE_TAG | UCP_FEATURE_STREAM, UCP_ERR_HANDLING_MODE_NONE);
    for (bit = -1; bit < 14; bit++) {
        if (bit < 0) {
            mask = 0;
        } else {
            mask = UINT64_C(1) << (bit < 10 ? bit : bit + 30);
        }
        if (bit == 5 || bit == 6) {
            continue;
        }
        fill(&params, mask, (const ucp_address_t *)"nothing", &nobody);
        twin_print("mask %#llx: %s", (unsigned long long)mask,
                  twin_pointer_status(ucp_ep_modify_nb(pair.ep[0], &params)));
    }
    twin_pair_close(&pair);
}

/* Every call to flush and to close, by their return values. */
static void old_calls(void)
{
    struct twin_pair pair;
    ucp_request_param_t param;
    ucs_status_ptr_t closed;
    static const uint32_t masks[] = {0,
                                     UCP_OP_ATTR_FIELD_FLAGS,
                                     UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                     UCP_OP_ATTR_FLAG_FAST_CMPL,
                                     UCP_OP_ATTR_FLAG_MULTI_SEND,
                                     0xfe00,
                                     0xfff00000};
    size_t i;

    for (i = 0; i < TWIN_COUNT(masks); i++) {
        twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
        twin_print("%zu: said %s", i, twin_status(say(&pair, pair.ep[0])));
        memset(&param, TWIN_FILL, sizeof(param));
        param.op_attr_mask = masks[i];
        param.flags = (masks[i] & UCP_OP_ATTR_FIELD_FLAGS) ? 0 : param.flags;
        twin_print("%zu: ep flush %s", i, twin_status(twin_wait(&pair, ucp_ep_flush_nbx(pair.ep[0], &param))));
        twin_print("%zu: worker flush %s", i,
                  twin_status(twin_wait(&pair, ucp_worker_flush_nbx(pair.worker[0], &param))));
        closed = ucp_ep_close_nbx(pair.ep[0], &param);
        twin_print("%zu: close %s", i, twin_status(twin_wait(&pair, closed)));
        pair.ep[0] = NULL;
        twin_pair_close(&pair);
    }
    twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
    twin_print("flush %s", twin_status(ucp_ep_flush(pair.ep[0])));
    twin_print("worker flush %s", twin_status(ucp_worker_flush(pair.worker[0])));
    twin_print("fence %s", twin_status(ucp_worker_fence(pair.worker[0])));
    twin_print("flush nb %s", twin_status(twin_wait(&pair, ucp_ep_flush_nb(pair.ep[0], 77, twin_done))));
    twin_print("worker flush nb %s", twin_status(twin_wait(&pair, ucp_worker_flush_nb(pair.worker[0], 77, twin_done))));
    twin_print("disconnect %s", twin_status(twin_wait(&pair, ucp_disconnect_nb(pair.ep[0]))));
    ucp_ep_destroy(pair.ep[1]);
    pair.ep[0] = pair.ep[1] = NULL;
    twin_pair_close(&pair);
}

/* What the end of a worker looks like from its peer, with and without error handling. */
static void peer_gone(void)
{
    ucp_err_handling_mode_t mode;
    ucp_ep_params_t params;
    ucp_address_t *address;
    struct twin_pair pair, alone;
    ucs_status_t status;
    ucs_status_ptr_t flushed;
    size_t length;
    bool data;
    ucp_ep_h ep;

    for (mode = UCP_ERR_HANDLING_MODE_NONE; mode <= UCP_ERR_HANDLING_MODE_PEER; mode++) {
        for (data = false;; data = true) {
            failures = 0;
            twin_pair_open(&pair, UCP_FEATURE_TAG, UCP_ERR_HANDLING_MODE_NONE);
            (void)ucp_worker_get_address(pair.worker[1], &address, &length);
            fill(&params,
                 UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                     UCP_EP_PARAM_FIELD_ERR_HANDLER | (data ? UCP_EP_PARAM_FIELD_USER_DATA : 0),
                 address, NULL);
            params.err_mode = mode;
            twin_need(ucp_ep_create(pair.worker[0], &params, &ep) == UCS_OK, "ucp_ep_create");
            twin_print("mode %d: said %s", mode, twin_status(say(&pair, ep)));
            ucp_worker_destroy(pair.worker[1]);
            alone = pair;
            alone.worker[1] = pair.worker[0];
            if (mode == UCP_ERR_HANDLING_MODE_NONE) {
                twin_settle(&alone);
            } else {
                twin_print("mode %d: late %d", mode, twin_late(&failures, &alone));
            }
            twin_print("mode %d: failures %d, %s, argument %#lx", mode, failures,
                      failures > 0 ? twin_status(failure) : "none", failures > 0 ? (unsigned long)failure_argument : 0);
            if (mode == UCP_ERR_HANDLING_MODE_PEER) {
                flushed = ucp_ep_flush_nb(ep, 0, twin_done);
                twin_print("mode %d: flush %s", mode, twin_pointer_status(flushed));
                status = UCS_PTR_STATUS(ucp_tag_send_nb(ep, "x", 1, ucp_dt_make_contig(1), 1, twin_done));
                twin_print("mode %d: send %s", mode, twin_status(status));
                twin_print("mode %d: close %s", mode,
                           twin_status(twin_wait(&alone, ucp_ep_close_nb(ep, data ? 0 : 1))));
            }
            ucp_worker_destroy(pair.worker[0]);
            ucp_cleanup(pair.context);
            if (data) {
                break;
            }
        }
    }
}

static void print_info(void)
{
    struct twin_pair pair;
    char *text = NULL;
    size_t size;
    FILE *stream;

    twin_pair_open(&pair, TWIN_ALL_FEATURES, UCP_ERR_HANDLING_MODE_NONE);
    stream = open_memstream(&text, &size);
    ucp_ep_print_info(pair.ep[0], stream);
    fclose(stream);
    twin_print("heading %d, peer %d, lane %d", twin_has_word(text, "UCP endpoint"), twin_has_word(text, "peer:"),
              twin_has_word(text, "lane[0]:"));
    free(text);
    twin_pair_close(&pair);
}

const struct twin_case twin_ep_cases[] = {
    {"ep.masks", masks},   {"ep.values", values},     {"ep.query", query},         {"ep.performance", performance},
    {"ep.change", change}, {"ep.old_calls", old_calls}, {"ep.peer_gone", peer_gone}, {"ep.print_info", print_info},
    {NULL, NULL}};
