/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag messages by nbx calls: every mask of attributes, lengths, expected and unexpected, short buffers, probes. */
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t lengths[] = {0, 8, 3000, OP_BYTES};

static unsigned char *out, *in;
static ucp_mem_h memh[2];
static struct twin_pair pair;

static void open_all(void)
{
    op_open(&pair, UCP_FEATURE_TAG, &out, &in, memh);
}

static void close_all(void)
{
    op_close(&pair, out, in, memh);
}

static void send_it(struct op *send, size_t length, bool sync)
{
    const ucp_request_param_t *param = op_begin(send);

    op_posted(send, sync ? ucp_tag_send_sync_nbx(pair.ep[0], out, length, 0x77, param)
                         : ucp_tag_send_nbx(pair.ep[0], out, length, 0x77, param));
}

static void recv_it(struct op *recv, size_t capacity, ucp_tag_message_h message)
{
    const ucp_request_param_t *param = op_begin(recv);

    op_posted(recv, message != NULL ? ucp_tag_msg_recv_nbx(pair.worker[1], in, capacity, message, param)
                                    : ucp_tag_recv_nbx(pair.worker[1], in, capacity, 0x70, 0xf0, param));
}

static void print_op(const char *what, uint32_t mask, size_t length, struct op *send, struct op *recv, size_t capacity)
{
    ucs_status_t sent = op_end(send, &pair), got = op_end(recv, &pair);
    size_t reported = length;
    ucp_tag_t tag = 0x77;
    char text[256] = "";

    op_odd(send, text, sizeof(text));
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "; received %s", twin_status(got));
    op_odd(recv, text, sizeof(text));
    if (op_reported(recv, &reported, &tag) && got != UCS_ERR_CANCELED && (reported != length || tag != 0x77)) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", reported %zu of tag %#llx", reported,
                 (unsigned long long)tag);
    }
    if (got == UCS_OK && memcmp(in, out, length) != 0) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", other bytes");
    }
    if (capacity < OP_BYTES && in[capacity] != 0) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", too many bytes");
    }
    twin_print("%s, %zu bytes into %zu, mask %#x: sent %s%s", what, length, capacity, mask, twin_status(sent), text);
}

/* What a send left behind that was refused, or a receive that never got its message. */
static void clean(struct op *recv)
{
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    struct op last;

    if (UCS_PTR_IS_PTR(recv->result) && ucp_request_check_status(recv->result) == UCS_INPROGRESS) {
        ucp_request_cancel(pair.worker[1], recv->result);
    }
    twin_settle(&pair);
    while ((message = ucp_tag_probe_nb(pair.worker[1], 0, 0, 1, &info)) != NULL) {
        op_set(&last, &pair, 0, OP_RECV, NULL);
        recv_it(&last, OP_BYTES, message);
        (void)op_end(&last, &pair);
    }
}

enum arrival { EXPECTED, UNEXPECTED, PROBED };

static void one(const char *what, uint32_t send_mask, uint32_t recv_mask, size_t length, size_t capacity,
                enum arrival arrival, bool sync)
{
    static struct op send, recv;
    ucp_tag_message_h message = NULL;
    ucp_tag_recv_info_t info;
    uint32_t mask = send_mask | recv_mask;

    memset(in, 0, OP_BYTES);
    op_set(&send, &pair, send_mask, OP_SEND, memh[0]);
    op_set(&recv, &pair, recv_mask, OP_RECV, memh[1]);
    if (arrival == EXPECTED) {
        recv_it(&recv, capacity, NULL);
    }
    if (!UCS_PTR_IS_ERR(recv.result)) {
        send_it(&send, length, sync);
    }
    if (arrival != EXPECTED) {
        twin_settle(&pair);
        if (arrival == PROBED) {
            message = ucp_tag_probe_nb(pair.worker[1], 0x7, 0xf, 1, &info);
        }
        recv_it(&recv, capacity, message);
    }
    if (UCS_PTR_IS_ERR(send.result) && UCS_PTR_IS_PTR(recv.result)) {
        ucp_request_cancel(pair.worker[1], recv.result);
    }
    print_op(what, mask, length, &send, &recv, capacity);
    clean(&recv);
}

static void each(const char *what, bool of_send, enum arrival arrival, bool sync)
{
    size_t i, k;

    open_all();
    for (i = 0; i < op_masks_count; i++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            one(what, of_send ? op_masks[i] : 0, of_send ? 0 : op_masks[i], lengths[k], OP_BYTES, arrival, sync);
        }
    }
    close_all();
}

static void sends(void)
{
    each("send", true, EXPECTED, false);
}

static void sends_early(void)
{
    each("send", true, UNEXPECTED, false);
}

static void sync_sends(void)
{
    each("sync", true, EXPECTED, true);
}

static void receives(void)
{
    each("receive", false, EXPECTED, false);
}

static void receives_late(void)
{
    each("receive", false, UNEXPECTED, false);
}

static void receives_probed(void)
{
    each("message", false, PROBED, false);
}

static void short_buffers(void)
{
    static const uint32_t masks[] = {0, UCP_OP_ATTR_FIELD_CALLBACK, UCP_OP_ATTR_FIELD_RECV_INFO,
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                     UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK};
    static const size_t capacities[] = {0, 1, 7, 2999, 3001, OP_BYTES - 1};
    static const char *const names[] = {[EXPECTED] = "expected", [UNEXPECTED] = "unexpected", [PROBED] = "probed"};
    enum arrival arrival;
    size_t i, k, c;

    open_all();
    for (arrival = EXPECTED; arrival <= PROBED; arrival++) {
        for (i = 0; i < TWIN_COUNT(masks); i++) {
            for (k = 0; k < TWIN_COUNT(lengths); k++) {
                for (c = 0; c < TWIN_COUNT(capacities); c++) {
                    one(names[arrival], 0, masks[i], lengths[k], capacities[c], arrival, false);
                }
            }
        }
    }
    close_all();
}

static void datatypes(void)
{
    static const ucp_datatype_t types[] = {0, 2, ucp_dt_make_contig(0), ucp_dt_make_contig(1), ucp_dt_make_contig(5)};
    static ucp_dt_iov_t pieces[3];
    static struct op send, recv;
    size_t i, lane;

    open_all();
    for (lane = 0; lane < 2; lane++) {
        for (i = 0; i < TWIN_COUNT(types); i++) {
            bool iov = types[i] == 2;
            ucp_request_param_t *param;

            pieces[0] = (ucp_dt_iov_t){lane == 0 ? out : in, 3};
            pieces[1] = (ucp_dt_iov_t){NULL, 0};
            pieces[2] = (ucp_dt_iov_t){(lane == 0 ? out : in) + 3, 12};
            memset(in, 0, OP_BYTES);
            op_set(&send, &pair, lane == 0 ? UCP_OP_ATTR_FIELD_DATATYPE : 0, OP_SEND, NULL);
            op_set(&recv, &pair, lane == 1 ? UCP_OP_ATTR_FIELD_DATATYPE : 0, OP_RECV, NULL);
            param = lane == 0 ? &send.param : &recv.param;
            param->datatype = types[i];
            op_begin(&recv);
            op_posted(&recv, ucp_tag_recv_nbx(pair.worker[1], lane == 1 && iov ? (void *)pieces : in,
                                              lane == 1 ? 3 : OP_BYTES, 0x70, 0xf0, &recv.param));
            if (!UCS_PTR_IS_ERR(recv.result)) {
                op_begin(&send);
                op_posted(&send,
                          ucp_tag_send_nbx(pair.ep[0], lane == 0 && iov ? (void *)pieces : out, 3, 0x77, &send.param));
            }
            if (UCS_PTR_IS_ERR(send.result)) {
                ucp_request_cancel(pair.worker[1], recv.result);
            }
            {
                ucs_status_t sent = op_end(&send, &pair), got = op_end(&recv, &pair);

                twin_print("%s with type %#llx: sent %s, received %s", lane == 0 ? "send" : "receive",
                          (unsigned long long)types[i], twin_status(sent), twin_status(got));
            }
            clean(&recv);
        }
    }
    close_all();
}

static void memory_values(void)
{
    static const unsigned types[] = {0, 1, 2, 5, 6, 7, 99, 0xffffffff};
    static struct op send, recv;
    ucs_status_t sent, got;
    size_t i;

    open_all();
    const ucp_mem_h regions[] = {NULL, memh[1], memh[0]};
    for (i = 0; i < TWIN_COUNT(types) + TWIN_COUNT(regions); i++) {
        op_set(&send, &pair, i < TWIN_COUNT(types) ? UCP_OP_ATTR_FIELD_MEMORY_TYPE : UCP_OP_ATTR_FIELD_MEMH, OP_SEND,
               NULL);
        op_set(&recv, &pair, 0, OP_RECV, NULL);
        if (i < TWIN_COUNT(types)) {
            send.param.memory_type = (ucs_memory_type_t)types[i];
        } else {
            send.param.memh = regions[i - TWIN_COUNT(types)];
        }
        if (i < TWIN_COUNT(types) && types[i] != 0 && types[i] < 6) {
            continue; /* memory of another kind than it is: nobody can say */
        }
        recv_it(&recv, OP_BYTES, NULL);
        send_it(&send, 8, false);
        if (UCS_PTR_IS_ERR(send.result)) {
            ucp_request_cancel(pair.worker[1], recv.result);
        }
        sent = op_end(&send, &pair);
        got = op_end(&recv, &pair);
        twin_print("%s %zu: sent %s, received %s", i < TWIN_COUNT(types) ? "type" : "handle", i, twin_status(sent),
                  twin_status(got));
        clean(&recv);
    }
    close_all();
}

/* The answers of probes and cancels, and of queries of a request. */
static void around(void)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_request_attr_t, status),
                                               TWIN_FIELD(ucp_request_attr_t, mem_type)};
    static struct op send, recv;
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    ucp_request_attr_t attr;
    ucs_status_t status;
    char string[300], what[64];
    unsigned mask;
    size_t k;

    open_all();
    twin_print("probe of nothing %d", ucp_tag_probe_nb(pair.worker[1], 0, 0, 1, &info) != NULL);
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        op_set(&send, &pair, 0, OP_SEND, NULL);
        send_it(&send, lengths[k], false);
        twin_settle(&pair);
        memset(&info, TWIN_FILL, sizeof(info));
        message = ucp_tag_probe_nb(pair.worker[1], 0x77, ~UINT64_C(0), 0, &info);
        twin_print("probe of %zu: %d, length %zu, tag %#llx", lengths[k], message != NULL, info.length,
                  (unsigned long long)info.sender_tag);
        message = ucp_tag_probe_nb(pair.worker[1], 0x78, ~UINT64_C(0), 1, &info);
        twin_print("probe of another tag: %d", message != NULL);
        op_set(&recv, &pair, 0, OP_RECV, NULL);
        recv_it(&recv, OP_BYTES, NULL);
        twin_print("received %s", twin_status(op_end(&recv, &pair)));
        (void)op_end(&send, &pair);
    }
    for (mask = 0; mask < 17; mask++) {
        op_set(&recv, &pair, UCP_OP_ATTR_FIELD_CALLBACK, OP_RECV, NULL);
        recv_it(&recv, OP_BYTES, NULL);
        memset(&attr, TWIN_FILL, sizeof(attr));
        memset(string, 0, sizeof(string));
        attr.field_mask = mask < 16 ? mask : TWIN_UNKNOWN;
        attr.debug_string = (mask & 1) ? string : attr.debug_string;
        attr.debug_string_size = (mask & 2) ? sizeof(string) : attr.debug_string_size;
        status = ucp_request_query(recv.result, &attr);
        snprintf(what, sizeof(what), "query %u, text %d", mask, string[0] != '\0');
        twin_print_filled(what, status, &attr, fields, TWIN_COUNT(fields));
        twin_print("query %u: status %s, receive named %d", mask, (mask & 4) ? twin_status(attr.status) : "not asked",
                  twin_has_word(string, "recv"));
        ucp_request_cancel(pair.worker[1], recv.result);
        twin_print("cancel: calls %d, %s", recv.calls, twin_status(recv.status));
        ucp_request_cancel(pair.worker[1], recv.result);
        twin_print("again: calls %d, test %s", recv.calls, twin_status(ucp_tag_recv_request_test(recv.result, &info)));
        (void)op_end(&recv, &pair);
    }
    twin_print("request of the library's: %d", ucp_request_alloc(pair.worker[0]) != NULL);
    close_all();
}

const struct twin_case twin_tag_cases[] = {{"tag.send", sends},
                                           {"tag.send_early", sends_early},
                                           {"tag.sync", sync_sends},
                                           {"tag.receive", receives},
                                           {"tag.receive_late", receives_late},
                                           {"tag.receive_probed", receives_probed},
                                           {"tag.short_buffers", short_buffers},
                                           {"tag.datatypes", datatypes},
                                           {"tag.memory_values", memory_values},
                                           {"tag.around", around},
                                           {NULL, NULL}};
