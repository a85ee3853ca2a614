/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rma/sgl.h. Invariant: `left` counts the pieces that have not ended, and one more while pieces are
 * being posted. The program's request is on no list: it waits only for its pieces, which end with the endpoint.
 */
#include "rma/sgl.h"

#include "base/bytes.h"

struct pieces {
    size_t left;
    ucs_status_t status; /* of the first piece that failed */
};

static void note(struct pieces *pieces, ucs_status_t status)
{
    if (pieces->status == UCS_OK) {
        pieces->status = status;
    }
}

static void piece_done(void *request CW_UNUSED, ucs_status_t status, void *user_data)
{
    struct cw_request *whole = user_data;
    struct pieces *pieces = cw_request_state(whole);

    note(pieces, status);
    if (--pieces->left == 0) {
        cw_request_complete(whole, pieces->status);
    }
}

struct post {
    struct ucp_ep *ep;
    struct cw_request *whole;
    ucp_request_param_t param; /* parameters of each piece */
    uint8_t is_get;
};

/* Records the result of posting one piece. */
static void posted(const struct post *post, ucs_status_ptr_t result)
{
    struct pieces *pieces = cw_request_state(post->whole);

    if (UCS_PTR_IS_PTR(result)) {
        pieces->left++;
        cw_request_release(cw_request_of(result), 1);
    } else {
        note(pieces, UCS_PTR_STATUS(result));
    }
}

static void post_piece(const struct post *post, char *buffer, size_t length, uint64_t address, struct ucp_rkey *rkey)
{
    posted(post, post->is_get ? cw_get(post->ep, buffer, length, length, address, rkey, &post->param)
                              : cw_put(post->ep, buffer, length, length, address, rkey, &post->param));
}

/* Whether more pieces may be posted: none has failed so far. */
static int goes_on(const struct post *post)
{
    struct pieces *pieces = cw_request_state(post->whole);

    if (post->ep->state == CW_EP_FAILED) {
        note(pieces, post->ep->status);
    }
    return pieces->status == UCS_OK;
}

/* Most elements that are copied to or from mapped memory before the key is checked again. */
#define MOST_DIRECT 64u

/* Copies elements from the i-th on by loads and stores, as far as this is possible. Returns how many. */
static size_t move_direct(const struct post *post, const struct cw_sgl *sgl, size_t i)
{
    const struct ucp_rkey *rkey = sgl->rkeys[i];
    const size_t end = (sgl->count - i < MOST_DIRECT) ? sgl->count : i + MOST_DIRECT;
    const enum cw_counter kind = post->is_get ? CW_COUNT_GET_RECEIVED : CW_COUNT_PUT_SENT;
    size_t k, num, length, total = 0;
    char *there;

    if (sgl->memory_type != UCS_MEMORY_TYPE_HOST || rkey->local == NULL || !cw_rkey_is_live(rkey) ||
        !cw_rma_is_clear(post->ep, rkey->key.address, rkey->key.length, !post->is_get)) {
        return 0;
    }
    for (k = i; k < end && sgl->rkeys[k] == rkey; k++) {
        length = cw_sgl_block(sgl, k, &num);
        if (num != 1) {
            break;
        }
        there = cw_rkey_pointer(rkey, sgl->addresses[k]);
        if (post->is_get) {
            cw_bytes_copy(sgl->buffers[k], there, length);
        } else {
            cw_bytes_copy(there, sgl->buffers[k], length);
        }
        total += length;
    }
    cw_count(post->ep->worker, kind, k - i);
    cw_count(post->ep->worker, kind + CW_COUNT_BYTES, total);
    return k - i;
}

static void post_pieces(const struct post *post, const struct cw_sgl *sgl)
{
    size_t i, j, num, length, offset;

    for (i = 0; i < sgl->count && goes_on(post); i++) {
        num = move_direct(post, sgl, i);
        if (num > 0) {
            i += num - 1;
            continue;
        }
        length = cw_sgl_block(sgl, i, &num);
        for (j = 0; j < num && length > 0 && goes_on(post); j++) {
            offset = (j == 0) ? 0 : j * sgl->strides[i];
            post_piece(post, (char *)sgl->buffers[i] + offset, length, sgl->addresses[i] + offset, sgl->rkeys[i]);
        }
    }
}

static ucs_status_ptr_t post_all(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param,
                                 int is_get)
{
    const struct cw_dt_device device = {.datatype = ucp_dt_make_contig(1), .memory_type = sgl->memory_type};
    struct post post = {.ep = ep, .is_get = (uint8_t)is_get};
    struct cw_conn *conn = NULL;
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
                                       .cb.send = piece_done,
                                       .user_data = post.whole};
    if (sgl->memory_type != UCS_MEMORY_TYPE_HOST) {
        post.param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        post.param.datatype = cw_dt_make_device(&device);
    }
    pieces = cw_request_state(post.whole);
    *pieces = (struct pieces){.left = 1, .status = UCS_OK};
    cw_trace_note(post.whole, CW_TRACE_BEGIN, is_get ? CW_COUNT_GET_RECEIVED : CW_COUNT_PUT_SENT, 0, 0);
    cw_trace_note(post.whole, CW_TRACE_PATH, CW_TRACE_PARTS, 0, 0);
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
