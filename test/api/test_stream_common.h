/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs test_stream*.c share: receives that note their result, small transfers, poll. */
#ifndef CW_API_TEST_STREAM_COMMON_H
#define CW_API_TEST_STREAM_COMMON_H

#include "harness.h"

#include <string.h>

static const struct cw_pair_config stream_config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM};

struct stream_op {
    struct cw_op op;
    size_t length;
};

static inline void stream_done(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct stream_op *op = user_data;

    op->op.calls++;
    op->op.calls_inside += op->op.inside;
    op->op.status = status;
    op->op.request = request;
    op->op.checked = ucp_request_check_status(request);
    op->length = length;
}

static inline ucp_request_param_t stream_param(struct stream_op *op, unsigned flags)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.recv_stream = stream_done;
    param.user_data = op;
    if (flags != 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
    }
    op->op.inside = true;
    return param;
}

static inline void stream_recv_typed(struct stream_op *op, ucp_ep_h ep, void *data, ucp_datatype_t datatype,
                                     size_t count, unsigned flags)
{
    ucp_request_param_t param;

    memset(op, 0, sizeof(*op));
    param = stream_param(op, flags);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = datatype;
    cw_op_started(&op->op, ucp_stream_recv_nbx(ep, data, count, &op->length, &param));
}

static inline void stream_recv_elements(struct stream_op *op, ucp_ep_h ep, void *data, size_t size, size_t count,
                                        unsigned flags)
{
    stream_recv_typed(op, ep, data, ucp_dt_make_contig(size), count, flags);
}

static inline void stream_recv(struct stream_op *op, ucp_ep_h ep, void *data, size_t length, unsigned flags)
{
    stream_recv_typed(op, ep, data, ucp_dt_make_contig(1), length, flags);
}

/* Waits for success and returns the length. */
static inline size_t stream_wait(struct cw_pair *pair, struct stream_op *op)
{
    size_t tested = 0;

    if (UCS_PTR_IS_PTR(op->op.result)) { /* REQ-27 */
        cw_pair_wait_count(pair, &op->op.calls, 1, "stream receive");
        assert_int_equal(ucp_stream_recv_request_test(op->op.result, &tested), op->op.status);
        assert_int_equal(tested, op->length);
    }
    assert_int_equal(cw_op_wait(pair, &op->op, "stream receive"), UCS_OK);
    return op->length;
}

static inline void stream_put_on(struct cw_pair *pair, ucp_ep_h ep, const void *data, size_t length)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_stream_send_nbx(ep, data, length, &param), "stream send"), UCS_OK);
}

static inline void stream_put(struct cw_pair *pair, const void *data, size_t length)
{
    stream_put_on(pair, pair->tx->ep, data, length);
}

static inline void stream_get(struct cw_pair *pair, void *data, size_t length)
{
    struct stream_op op;

    stream_recv(&op, pair->rx->ep, data, length, UCP_STREAM_RECV_FLAG_WAITALL);
    assert_int_equal(stream_wait(pair, &op), length);
}

/* Progresses until poll reports this endpoint of rx; which it then has done. */
static inline void wait_ready(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_stream_poll_ep_t polled;

    cw_pair_until(pair, ucp_stream_worker_poll(pair->rx->worker, &polled, 1, 0) == 1, "a ready endpoint");
    assert_ptr_equal(polled.ep, ep);
}

static inline void stream_close(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
}

#endif
