/* SPDX-License-Identifier: BSD-3-Clause */
/* See op.h. REQ-1..9, OPA-1..20. */
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const uint32_t op_masks[] = {
    0,
    UCP_OP_ATTR_FIELD_REQUEST,
    UCP_OP_ATTR_FIELD_CALLBACK,
    UCP_OP_ATTR_FIELD_USER_DATA,
    UCP_OP_ATTR_FIELD_DATATYPE,
    UCP_OP_ATTR_FIELD_FLAGS,
    UCP_OP_ATTR_FIELD_REPLY_BUFFER,
    UCP_OP_ATTR_FIELD_MEMORY_TYPE,
    UCP_OP_ATTR_FIELD_RECV_INFO,
    UCP_OP_ATTR_FIELD_MEMH,
    UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FLAG_FAST_CMPL,
    UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
    UCP_OP_ATTR_FLAG_MULTI_SEND,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_REQUEST,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_RECV_INFO,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_RECV_INFO | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_MEMH,
    UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_MEMH,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_FAST_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_MULTI_SEND,
    UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
    0x1df, /* all members but the reply buffer */
    0x1ff, /* all members */
    0x1de,
    0x1ff | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
    UINT32_C(0xfe00), /* bits that do not exist */
    UINT32_C(0xfff00000),
    UINT32_C(0xfff0fe00) | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
};
const size_t op_masks_count = TWIN_COUNT(op_masks);

static struct op *running[4]; /* a callback without user data has to find its operation */

static struct op *find(void *request, void *user_data)
{
    size_t i;

    for (i = 0; i < TWIN_COUNT(running); i++) {
        if (running[i] != NULL && (user_data == (void *)running[i] || running[i]->result == request)) {
            return running[i];
        }
    }
    for (i = 0; i < TWIN_COUNT(running); i++) { /* inside its call: nobody knows the request yet */
        if (running[i] != NULL && running[i]->inside) {
            return running[i];
        }
    }
    return NULL;
}

static struct op *called(void *request, ucs_status_t status, void *user_data)
{
    struct op *op = find(request, user_data);

    if (op == NULL) {
        twin_print("a callback of nobody's operation: %s", twin_status(status));
        return NULL;
    }
    op->calls++;
    op->calls_inside += op->inside;
    op->status = status;
    op->request = request;
    op->user_data = user_data;
    return op;
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    (void)called(request, status, user_data);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct op *op = called(request, status, user_data);

    if (op != NULL) {
        op->info = *info;
        op->length = info->length;
    }
}

static void streamed(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct op *op = called(request, status, user_data);

    if (op != NULL) {
        op->length = length;
    }
}

void op_set(struct op *op, const struct twin_pair *pair, uint32_t mask, enum op_kind kind, ucp_mem_h memh)
{
    ucp_request_param_t *param = &op->param;

    memset(op, 0, sizeof(*op));
    memset(op->area, TWIN_FILL, sizeof(op->area));
    memset(param, TWIN_FILL, sizeof(*param));
    memset(&op->stored, TWIN_FILL, sizeof(op->stored));
    op->stored_length = op->stored.length;
    param->op_attr_mask = mask;
    if (mask & UCP_OP_ATTR_FIELD_REQUEST) {
        param->request = op->area + (pair->request_size + 63) / 64 * 64;
    }
    if (mask & UCP_OP_ATTR_FIELD_CALLBACK) {
        switch (kind) {
        case OP_SEND:
            param->cb.send = sent;
            break;
        case OP_RECV:
            param->cb.recv = received;
            break;
        case OP_STREAM:
            param->cb.recv_stream = streamed;
            break;
        case OP_AM:
            param->cb.recv_am = streamed;
            break;
        }
    }
    param->user_data = (mask & UCP_OP_ATTR_FIELD_USER_DATA) ? op : param->user_data;
    param->datatype = (mask & UCP_OP_ATTR_FIELD_DATATYPE) ? ucp_dt_make_contig(1) : param->datatype;
    param->flags = (mask & UCP_OP_ATTR_FIELD_FLAGS) ? 0 : param->flags;
    param->reply_buffer = (mask & UCP_OP_ATTR_FIELD_REPLY_BUFFER) ? &op->reply : param->reply_buffer;
    param->memory_type = (mask & UCP_OP_ATTR_FIELD_MEMORY_TYPE) ? UCS_MEMORY_TYPE_HOST : param->memory_type;
    param->memh = (mask & UCP_OP_ATTR_FIELD_MEMH) ? memh : param->memh;
    if (mask & UCP_OP_ATTR_FIELD_RECV_INFO) {
        if (kind == OP_RECV) {
            param->recv_info.tag_info = &op->stored;
        } else {
            param->recv_info.length = &op->stored_length;
        }
    }
}

const ucp_request_param_t *op_begin(struct op *op)
{
    size_t i;

    for (i = 0; i < TWIN_COUNT(running) && running[i] != NULL; i++) {
    }
    twin_need(i < TWIN_COUNT(running), "a place for an operation");
    running[i] = op;
    op->inside = true;
    return &op->param;
}

void op_posted(struct op *op, ucs_status_ptr_t result)
{
    op->result = result;
    op->inside = false;
}

ucs_status_t op_end(struct op *op, struct twin_pair *pair)
{
    ucs_status_t status = UCS_PTR_STATUS(op->result);
    struct twin_waiting waiting = {0};
    size_t i;

    if (UCS_PTR_IS_PTR(op->result)) {
        while ((status = ucp_request_check_status(op->result)) == UCS_INPROGRESS && twin_round(pair, &waiting)) {
        }
        if (op->result != op->param.request && status != UCS_INPROGRESS) {
            ucp_request_free(op->result);
        }
    }
    for (i = 0; i < TWIN_COUNT(running); i++) {
        running[i] = running[i] == op ? NULL : running[i];
    }
    return status;
}

static void odd(char *text, size_t size, const char *what)
{
    snprintf(text + strlen(text), size - strlen(text), ", %s", what);
}

void op_odd(const struct op *op, char *text, size_t size)
{
    uint32_t mask = op->param.op_attr_mask;
    bool posted = UCS_PTR_IS_PTR(op->result);
    size_t i;

    if (op->calls != (posted && (mask & UCP_OP_ATTR_FIELD_CALLBACK) ? 1 : 0)) {
        odd(text, size, "callbacks wrong");
    }
    if (posted && (mask & UCP_OP_ATTR_FIELD_REQUEST) && op->result != op->param.request) {
        odd(text, size, "not my request");
    }
    if (op->calls > 0 && op->request != op->result) {
        odd(text, size, "another request called");
    }
    if (op->calls > 0 && op->user_data != ((mask & UCP_OP_ATTR_FIELD_USER_DATA) ? (void *)op : NULL)) {
        odd(text, size, "user data wrong");
    }
    if (!posted && (mask & UCP_OP_ATTR_FLAG_NO_IMM_CMPL) && !UCS_PTR_IS_ERR(op->result)) {
        odd(text, size, "over at once");
    }
    if (mask & UCP_OP_ATTR_FIELD_REQUEST) {
        for (i = (size_t)((unsigned char *)op->param.request - op->area); i < OP_AREA && op->area[i] == TWIN_FILL;
             i++) {
        }
        if (i < OP_AREA) {
            odd(text, size, "written behind the request");
        }
    }
}

bool op_reported(const struct op *op, size_t *length, ucp_tag_t *tag)
{
    *tag = 0;
    if (op->calls > 0) {
        *length = op->length;
        *tag = op->info.sender_tag;
        return true;
    }
    if (op->result == NULL && (op->param.op_attr_mask & UCP_OP_ATTR_FIELD_RECV_INFO)) {
        bool of_tag = op->param.recv_info.tag_info == &op->stored;

        *length = of_tag ? op->stored.length : op->stored_length;
        *tag = of_tag ? op->stored.sender_tag : 0;
        return true;
    }
    return false;
}

void op_open(struct twin_pair *pair, uint64_t features, unsigned char **out, unsigned char **in, ucp_mem_h *memh)
{
    size_t i;

    *out = malloc(OP_BYTES);
    *in = malloc(OP_BYTES);
    twin_need(*out != NULL && *in != NULL, "memory");
    for (i = 0; i < OP_BYTES; i++) {
        (*out)[i] = (unsigned char)(i * 11 + (i >> 7));
    }
    twin_pair_open(pair, features, UCP_ERR_HANDLING_MODE_NONE);
    memh[0] = twin_register(pair, *out, OP_BYTES);
    memh[1] = twin_register(pair, *in, OP_BYTES);
}

void op_close(struct twin_pair *pair, unsigned char *out, unsigned char *in, ucp_mem_h *memh)
{
    (void)ucp_mem_unmap(pair->context, memh[0]);
    (void)ucp_mem_unmap(pair->context, memh[1]);
    twin_pair_close(pair);
    free(out);
    free(in);
}
