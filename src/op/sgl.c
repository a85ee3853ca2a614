/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * op/sgl.h. Invariant: `left` counts the pieces that are not over, and one more as long as they are posted. The program's
 * request is on no list and waits for its pieces alone, which end with the endpoint. What the pieces send leaves
 * together where the transport can do that.
 */
#include "op/sgl.h"

#include "core/lane.h"

struct pieces {
    size_t left;
    ucs_status_t status;        /* of the first that failed */
};

static void note(struct pieces *pieces, ucs_status_t status)
{
    if (pieces->status == UCS_OK) {
        pieces->status = status;
    }
}

static void piece_done(void *request, ucs_status_t status, void *user_data)
{
    struct cw_request *whole = user_data;
    struct pieces *pieces    = cw_request_state(whole);

    (void)request;
    note(pieces, status);
    if (--pieces->left == 0) {
        cw_request_complete(whole, pieces->status);
    }
}

struct post {
    struct ucp_ep *ep;
    struct cw_request *whole;
    ucp_request_param_t param;  /* of the pieces */
    int is_get;
};

/* 0: none of the following is to be posted. */
static int post_piece(const struct post *post, char *buffer, size_t length, uint64_t address, struct ucp_rkey *rkey)
{
    struct pieces *pieces = cw_request_state(post->whole);
    ucs_status_ptr_t result;

    if (post->ep->state == CW_EP_FAILED) {
        note(pieces, post->ep->status);
        return 0;
    }
    result = post->is_get ? cw_get(post->ep, buffer, length, length, address, rkey, &post->param) :
             cw_put(post->ep, buffer, length, length, address, rkey, &post->param);
    if (UCS_PTR_IS_PTR(result)) {
        pieces->left++;
        cw_request_release(cw_request_of(result), 1);
    } else {
        note(pieces, UCS_PTR_STATUS(result));
    }
    return pieces->status == UCS_OK;
}

static void post_pieces(const struct post *post, const struct cw_sgl *sgl)
{
    size_t i, j, num, length;
    char *from;

    for (i = 0; i < sgl->count; i++) {
        length = cw_sgl_block(sgl, i, &num);
        from   = sgl->buffers[i];
        for (j = 0; j < num && length > 0; j++) {
            if (!post_piece(post, from, length, sgl->addresses[i] + j * length, sgl->rkeys[i])) {
                return;
            }
            from += (num > 1) ? sgl->strides[i] : 0;
        }
    }
}

static ucs_status_ptr_t post_all(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param,
                                 int is_get)
{
    const struct cw_dt_device device = {.datatype = ucp_dt_make_contig(1), .memory_type = sgl->memory_type};
    struct post post                 = {.ep = ep, .is_get = is_get};
    struct cw_conn *conn             = NULL;
    struct pieces *pieces;
    ucs_status_t status;

    if (ep->state == CW_EP_FAILED) {
        return UCS_STATUS_PTR(ep->status);
    }
    post.whole = cw_request_get(ep->worker, param, CW_REQUEST_SEND);
    if (post.whole == NULL) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    post.param = (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                       (param->op_attr_mask & UCP_OP_ATTR_FLAG_FAST_CMPL),
                                       .cb.send      = piece_done,
                                       .user_data    = post.whole};
    if (sgl->memory_type != UCS_MEMORY_TYPE_HOST) {
        post.param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        post.param.datatype      = cw_dt_make_device(&device);
    }
    pieces  = cw_request_state(post.whole);
    *pieces = (struct pieces){.left = 1, .status = UCS_OK};
    cw_trace_note(post.whole, CW_TRACE_BEGIN, is_get ? CW_COUNT_GET_RECEIVED : CW_COUNT_PUT_SENT, 0, 0);
    cw_trace_note(post.whole, CW_TRACE_WAY, CW_TRACE_PARTS, 0, 0);
    if (ep->state == CW_EP_OPEN && cw_lane_batches(ep->conn)) {
        conn = ep->conn;
        cw_lane_batch(conn, CW_BATCH_LONG);
    }
    post_pieces(&post, sgl);
    if (conn != NULL && conn == ep->conn) {
        cw_lane_batch(conn, CW_BATCH_END);
    }
    if (--pieces->left > 0) {
        return cw_request_handle(post.whole);
    }
    status = pieces->status;
    if (status == UCS_OK && (param->op_attr_mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL)) {
        cw_request_complete(post.whole, UCS_OK);
        return cw_request_handle(post.whole);
    }
    cw_request_put(post.whole);
    return UCS_STATUS_PTR(status);
}

ucs_status_ptr_t cw_sgl_put(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param)
{
    return post_all(ep, sgl, param, 0);
}

ucs_status_ptr_t cw_sgl_get(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param)
{
    return post_all(ep, sgl, param, 1);
}
