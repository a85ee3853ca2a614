/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams: every mask of attributes on both sides, elements, waiting for all, lent data, polls. STR-*. */
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {8, 3000, OP_BYTES};

static unsigned char *out, *in;
static ucp_mem_h memh[2];
static struct twin_pair pair;

static void open_all(void)
{
    op_open(&pair, UCP_FEATURE_STREAM, &out, &in, memh);
}

static void close_all(void)
{
    op_close(&pair, out, in, memh);
}

/* Reads what is left of `length` bytes; the number of bytes that came in all. */
static size_t drain(size_t had, size_t length)
{
    size_t part;
    void *data;
    int idle = 0;

    while (had < length && idle < 20000) {
        data = ucp_stream_recv_data_nb(pair.ep[1], &part);
        if (UCS_PTR_IS_ERR(data)) {
            break;
        }
        if (data == NULL) {
            twin_progress(&pair);
            idle++;
            continue;
        }
        memcpy(in + had, data, part <= OP_BYTES - had ? part : 0);
        ucp_stream_data_release(pair.ep[1], data);
        had += part;
        idle = 0;
    }
    return had;
}

static void one(const char *what, uint32_t send_mask, uint32_t recv_mask, uint32_t flags, size_t length, bool late)
{
    static struct op send, recv;
    size_t at_once = 0, reported = 0;
    ucs_status_t sent, got;
    char text[256] = "";
    ucp_tag_t none;

    memset(in, 0, OP_BYTES);
    op_set(&send, &pair, send_mask, OP_SEND, memh[0]);
    op_set(&recv, &pair, recv_mask | (flags != 0 ? UCP_OP_ATTR_FIELD_FLAGS : 0), OP_STREAM, memh[1]);
    recv.param.flags = (recv.param.op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ? flags : recv.param.flags;
    if (!late) {
        op_begin(&recv);
        op_posted(&recv, ucp_stream_recv_nbx(pair.ep[1], in, length, &at_once, &recv.param));
    }
    op_begin(&send);
    op_posted(&send, ucp_stream_send_nbx(pair.ep[0], out, length, &send.param));
    if (late) {
        twin_settle(&pair);
        op_begin(&recv);
        op_posted(&recv, ucp_stream_recv_nbx(pair.ep[1], in, length, &at_once, &recv.param));
    }
    if (UCS_PTR_IS_ERR(send.result) && UCS_PTR_IS_PTR(recv.result)) {
        twin_print("%s, %zu bytes, mask %#x: refused %s", what, length, send_mask, twin_pointer_status(send.result));
        _Exit(0); /* a receive that nobody will serve: the rest would read its data */
    }
    got = op_end(&recv, &pair);
    reported = recv.result == NULL ? at_once : 0;
    if (UCS_PTR_IS_PTR(recv.result) && !op_reported(&recv, &reported, &none)) {
        reported = got == UCS_OK && (flags & UCP_STREAM_RECV_FLAG_WAITALL) ? length : SIZE_MAX; /* not reported */
    }
    op_odd(&recv, text, sizeof(text));
    if (got == UCS_OK && (flags & UCP_STREAM_RECV_FLAG_WAITALL) && reported != length) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", %zu bytes", reported);
    }
    if (got == UCS_OK && length > 0 && reported == 0) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", nothing");
    }
    if (reported != SIZE_MAX && !UCS_PTR_IS_ERR(send.result)) {
        if (drain(UCS_STATUS_IS_ERR(got) ? 0 : reported, length) != length || memcmp(in, out, length) != 0) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), ", other bytes");
        }
    } else {
        twin_settle(&pair);
        (void)drain(0, 1); /* whatever is left */
        (void)drain(0, OP_BYTES);
    }
    sent = op_end(&send, &pair);
    op_odd(&send, text, sizeof(text));
    twin_print("%s, %zu bytes, masks %#x %#x, flags %u: sent %s, received %s%s", what, length, send_mask, recv_mask,
              flags, twin_status(sent), twin_status(got), text);
}

static void each(const char *what, bool of_send, uint32_t flags, bool late)
{
    size_t i, k;

    open_all();
    for (i = 0; i < op_masks_count; i++) {
        if (of_send && (op_masks[i] & UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL)) {
            continue;
        }
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            one(what, of_send ? op_masks[i] : 0,
                of_send ? UCP_OP_ATTR_FIELD_CALLBACK : op_masks[i] | UCP_OP_ATTR_FIELD_CALLBACK, flags, lengths[k],
                late);
        }
    }
    close_all();
}

static void sends(void)
{
    each("send", true, UCP_STREAM_RECV_FLAG_WAITALL, false);
}

static void receives(void)
{
    each("receive", false, 0, false);
}

static void receives_late(void)
{
    each("receive", false, 0, true);
}

static void receives_all(void)
{
    each("receive all", false, UCP_STREAM_RECV_FLAG_WAITALL, false);
}

static void receives_all_late(void)
{
    each("receive all", false, UCP_STREAM_RECV_FLAG_WAITALL, true);
}

static void elements(void)
{
    static const size_t sizes[] = {1, 2, 3, 8, 24, 1000};
    const ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_request_param_t param;
    ucs_status_ptr_t result;
    size_t i, length, reported;
    ucs_status_t status;

    open_all();
    for (i = 0; i < TWIN_COUNT(sizes); i++) {
        for (length = 1; length <= 1001; length += 125) {
            (void)twin_wait(&pair, ucp_stream_send_nbx(pair.ep[0], out, length, &none));
            twin_settle(&pair);
            param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
            param.datatype = ucp_dt_make_contig(sizes[i]);
            result = ucp_stream_recv_nbx(pair.ep[1], in, OP_BYTES / sizes[i], &reported, &param);
            status = UCS_PTR_STATUS(result);
            twin_print("elements of %zu from %zu bytes: %s, %zu bytes", sizes[i], length, twin_status(status),
                      result == NULL ? reported : 0);
            if (UCS_PTR_IS_PTR(result)) { /* too few for an element: the rest follows */
                (void)twin_wait(&pair, ucp_stream_send_nbx(pair.ep[0], out, sizes[i] - length % sizes[i], &none));
                twin_print("with the rest: %s", twin_status(twin_wait(&pair, result)));
            } else {
                (void)drain(reported, length);
            }
        }
    }
    close_all();
}

static void polls(void)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_stream_poll_ep_t ready[4];
    size_t length = 0;
    void *data;
    int i;

    open_all();
    twin_print("poll of nothing %zd", ucp_stream_worker_poll(pair.worker[1], ready, 4, 0));
    for (i = 0; i < 3; i++) {
        (void)twin_wait(&pair, ucp_stream_send_nbx(pair.ep[0], out, 100, &none));
        twin_settle(&pair);
        twin_print("poll for none %zd", ucp_stream_worker_poll(pair.worker[1], ready, 0, 0));
        twin_print("poll %zd", ucp_stream_worker_poll(pair.worker[1], ready, 4, i == 2 ? 99 : 0));
        twin_print("of the endpoint %d", ready[0].ep == pair.ep[1]);
        twin_print("poll again %zd", ucp_stream_worker_poll(pair.worker[1], ready, 4, 0));
        data = ucp_stream_recv_data_nb(pair.ep[1], &length);
        twin_print("data %zu", UCS_PTR_IS_PTR(data) ? length : 0);
        ucp_stream_data_release(pair.ep[1], data);
        data = ucp_stream_recv_data_nb(pair.ep[1], &length);
        twin_print("data again %d", data != NULL);
    }
    close_all();
}

const struct twin_case twin_stream_cases[] = {{"stream.send", sends},
                                              {"stream.receive", receives},
                                              {"stream.receive_late", receives_late},
                                              {"stream.receive_all", receives_all},
                                              {"stream.receive_all_late", receives_all_late},
                                              {"stream.elements", elements},
                                              {"stream.polls", polls},
                                              {NULL, NULL}};
