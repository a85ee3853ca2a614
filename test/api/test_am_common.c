/* SPDX-License-Identifier: BSD-3-Clause */
/* The handler, sends and fetches that the test_am programs share; see test_am_common.h. */
#define _GNU_SOURCE
#include "test_am_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fetch_record {
    struct cw_op *op;
    size_t *fetched;
};

struct cw_am_sink *cw_am_sink_new(ucp_worker_h worker, enum cw_am_action action)
{
    struct cw_am_sink *sink = calloc(1, sizeof(*sink));

    assert_non_null(sink);
    sink->worker = worker;
    sink->action = action;
    return sink;
}

void cw_am_sink_free(struct cw_am_sink *sink)
{
    cw_buffer_free(&sink->data);
    free(sink);
}

ucs_status_t cw_am_set(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t cb, void *arg, uint32_t flags)
{
    ucp_am_handler_param_t param;

    memset(&param, 0xff, sizeof(param));
    param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB;
    param.id = id;
    param.cb = cb;
    if (arg != NULL) {
        param.field_mask |= UCP_AM_HANDLER_PARAM_FIELD_ARG;
        param.arg = arg;
    }
    if (flags != 0) {
        param.field_mask |= UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
        param.flags = flags;
    }
    return ucp_worker_set_am_recv_handler(worker, &param);
}

void cw_am_install(struct cw_am_sink *sink, unsigned id, uint32_t flags)
{
    assert_int_equal(cw_am_set(sink->worker, id, cw_am_handler, sink, flags), UCS_OK);
}

static void fetch_callback(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct fetch_record *record = user_data;
    struct cw_op *op = record->op;

    op->calls++;
    op->calls_inside += op->inside ? 1 : 0;
    op->status = status;
    op->request = request;
    op->checked = ucp_request_check_status(request);
    *record->fetched = length;
    free(record);
    if (op->free_inside) {
        ucp_request_free(request);
    }
}

ucp_request_param_t cw_am_fetch_param(struct cw_op *op, size_t *fetched)
{
    ucp_request_param_t param = cw_param_none();
    struct fetch_record *record = malloc(sizeof(*record));

    assert_non_null(record);
    *record = (struct fetch_record){.op = op, .fetched = fetched};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO;
    param.cb.recv_am = fetch_callback;
    param.user_data = record;
    param.recv_info.length = fetched;
    op->inside = true;
    return param;
}

void cw_am_fetch(struct cw_op *op, size_t *fetched, ucp_worker_h worker, void *desc, void *buffer, size_t length,
                 uint64_t more_mask)
{
    ucp_request_param_t param = cw_am_fetch_param(op, fetched);
    void *record = param.user_data;

    *fetched = SIZE_MAX;
    param.op_attr_mask |= more_mask;
    cw_op_started(op, ucp_am_recv_data_nbx(worker, desc, buffer, length, &param));
    if (!UCS_PTR_IS_PTR(op->result) && op->calls == 0) {
        free(record);
    }
}

bool cw_am_is_rndv(const struct cw_am_sink *sink)
{
    return (sink->attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
}

static void note_message(struct cw_am_sink *sink, const void *header, size_t header_length, void *data, size_t length,
                         const ucp_am_recv_param_t *param)
{
    assert_in_range(header_length, 0, sizeof(sink->header));
    if (header_length > 0) {
        memcpy(sink->header, header, header_length);
    }
    sink->header_length = header_length;
    sink->length = length;
    sink->attr = param->recv_attr;
    sink->reply_ep = param->reply_ep;
    sink->lent = data;
    sink->retained = false;
    assert_int_equal(param->recv_attr & ~(uint64_t)CW_AM_ATTR_ALL, 0);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0) {
        assert_null(param->reply_ep); /* AMR-11 */
    } else {
        assert_non_null(param->reply_ep);
    }
    cw_buffer_free(&sink->data);
}

ucs_status_t cw_am_handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    const uint64_t lent = UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV;
    struct cw_am_sink *sink = arg;
    ucs_status_t answer = sink->answer;

    note_message(sink, header, header_length, data, length, param);
    if (sink->action == CW_AM_KEEP && (param->recv_attr & lent) != 0) {
        sink->retained = true;
        answer = UCS_INPROGRESS;
    } else if (sink->action == CW_AM_FETCH || (sink->action == CW_AM_TAKE && cw_am_is_rndv(sink))) {
        sink->data = cw_buffer_new(sink->exact_room ? sink->room : length);
        memset(&sink->fetch, 0, sizeof(sink->fetch));
        cw_am_fetch(&sink->fetch, &sink->fetched, sink->worker, data, sink->data.data, sink->data.length,
                    sink->fetch_mask);
    } else if (sink->action != CW_AM_DROP) {
        sink->data = cw_buffer_new(length);
        if (length > 0) {
            memcpy(sink->data.data, data, length);
        }
    }
    sink->calls++;
    if (sink->then != NULL) {
        sink->then(sink);
    }
    return answer;
}

void cw_am_send(struct cw_op *op, ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
                const void *data, size_t length, uint32_t flags)
{
    ucp_request_param_t param = cw_param_send(op);

    if (flags != 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
    }
    cw_op_started(op, ucp_am_send_nbx(ep, id, header, header_length, data, length, &param));
}

void cw_am_wait(struct cw_pair *pair, struct cw_am_sink *sink, int calls)
{
    cw_pair_wait_count(pair, &sink->calls, calls, "active message");
    assert_int_equal(sink->calls, calls);
}

ucs_status_t cw_am_pass(struct cw_pair *pair, struct cw_am_sink *sink, unsigned id, size_t header_length,
                        size_t length, uint32_t flags)
{
    struct cw_buffer header = cw_buffer_new(header_length), data = cw_buffer_new(length);
    size_t room = sink->exact_room ? sink->room : length;
    int calls = sink->calls + 1;
    struct cw_op send = {0};
    ucs_status_t status;

    cw_pattern_fill(header.data, header_length, 1000 + length);
    cw_pattern_fill(data.data, length, header_length + 7);
    cw_am_send(&send, pair->tx->ep, id, header.data, header_length, data.data, length, flags);
    cw_am_wait(pair, sink, calls);
    assert_int_equal(sink->header_length, header_length);
    assert_int_equal(sink->length, length);
    cw_pattern_check(sink->header, header_length, 1000 + length);
    if (sink->action == CW_AM_FETCH || (sink->action == CW_AM_TAKE && cw_am_is_rndv(sink))) {
        ucs_status_t want = room < length ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK;

        assert_int_equal(cw_op_wait(pair, &sink->fetch, "fetch"), want);
        if (want == UCS_OK) {
            assert_int_equal(sink->fetched, length);
            cw_pattern_check(sink->data.data, length, header_length + 7);
        }
        cw_buffer_check(&sink->data);
    } else if (sink->retained && !cw_am_is_rndv(sink)) {
        cw_pattern_check(sink->lent, length, header_length + 7);
    } else if (sink->action == CW_AM_TAKE || (sink->action == CW_AM_KEEP && !sink->retained)) {
        cw_pattern_check(sink->data.data, length, header_length + 7);
    }
    if (sink->retained) {
        ucp_am_data_release(sink->worker, sink->lent);
        sink->retained = false;
    }
    status = cw_op_wait(pair, &send, "send");
    cw_buffer_free(&header);
    cw_buffer_free(&data);
    return status;
}

void cw_am_open(struct cw_pair *pair, const char *rndv_thresh)
{
    static const struct cw_pair_config config = {.features = UCP_FEATURE_AM};

    if (rndv_thresh != NULL) {
        assert_int_equal(setenv("UCX_RNDV_THRESH", rndv_thresh, 1), 0);
    }
    cw_pair_open(pair, &config);
    if (rndv_thresh != NULL) {
        unsetenv("UCX_RNDV_THRESH");
    }
}
