/* SPDX-License-Identifier: BSD-3-Clause */
/* Active messages: handlers, every mask and flag of sends, what the handler sees and may answer. AMS, AMR, AMD. */
#include "op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 24, ID = 7 };

static const size_t lengths[] = {0, 8, 3000, OP_BYTES};

static unsigned char *out, *in;
static char header[HEADER] = "a header of 24 bytes...";
static ucp_mem_h memh[2];
static struct twin_pair pair;

/* What the handler saw, and what it is to do. */
static struct {
    int calls, old_calls;
    size_t header_length, length;
    bool header_right, data_right, reply, reply_named;
    uint64_t attributes;
    void *arg, *data;
    unsigned old_flags;
    ucp_ep_h reply_ep;
    ucs_status_t answer;
    bool fetch_inside;
    uint32_t fetch_mask;
    size_t capacity;
} seen;

static struct op fetch;

static void fetch_it(void *data)
{
    op_set(&fetch, &pair, seen.fetch_mask, OP_AM, memh[1]);
    op_begin(&fetch);
    op_posted(&fetch, ucp_am_recv_data_nbx(pair.worker[1], data, in, seen.capacity, &fetch.param));
}

static ucs_status_t handle(void *arg, const void *head, size_t head_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    seen.calls++;
    seen.arg = arg;
    seen.header_length = head_length;
    seen.length = length;
    seen.attributes = param->recv_attr;
    seen.header_right = head_length == 0 || memcmp(head, header, head_length) == 0;
    seen.data_right = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) || length == 0 || memcmp(data, out, length) == 0;
    seen.reply_named = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
    seen.reply_ep = seen.reply_named ? param->reply_ep : NULL;
    seen.data = data;
    if (seen.fetch_inside) {
        fetch_it(data);
    }
    if (seen.answer == UCS_INPROGRESS &&
        !(param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_DATA | UCP_AM_RECV_ATTR_FLAG_RNDV))) {
        return UCS_OK;
    }
    if (UCS_STATUS_IS_ERR(seen.answer) && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        return UCS_OK; /* UCX 1.13 ends the program */
    }
    return seen.answer;
}

static ucs_status_t handle_old(void *arg, void *data, size_t length, ucp_ep_h reply_ep, unsigned flags)
{
    seen.old_calls++;
    seen.arg = arg;
    seen.length = length;
    seen.data = data;
    seen.data_right = length == 0 || memcmp(data, out, length) == 0;
    seen.reply = reply_ep != NULL;
    seen.old_flags = flags;
    return (flags & UCP_CB_PARAM_FLAG_DATA) ? seen.answer : UCS_OK;
}

static void set_handler(unsigned id, uint32_t flags)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = id,
                                    .cb = handle,
                                    .arg = &seen,
                                    .flags = flags};

    twin_need(ucp_worker_set_am_recv_handler(pair.worker[1], &param) == UCS_OK, "ucp_worker_set_am_recv_handler");
}

static void open_all(void)
{
    op_open(&pair, UCP_FEATURE_AM, &out, &in, memh);
    memset(&seen, 0, sizeof(seen));
    seen.capacity = OP_BYTES;
}

static void close_all(void)
{
    op_close(&pair, out, in, memh);
}

static void print_seen(const char *what, char *text, size_t size)
{
    snprintf(text + strlen(text), size - strlen(text), "; %s: calls %d", what, seen.calls);
    if (seen.calls > 0) {
        snprintf(text + strlen(text), size - strlen(text),
                 ", header %zu %d, data %zu %d, reply %d, same ep %d, argument %d", seen.header_length,
                 seen.header_right, seen.length, seen.data_right, seen.reply_named, seen.reply_ep == pair.ep[1],
                 seen.arg == &seen);
    }
}

/* One message; a rendezvous is answered with OK without a check of it unless it is fetched inside. */
static void one(uint32_t mask, unsigned flags, size_t head, size_t length, ucs_status_t answer, bool inside)
{
    static struct op send;
    bool rndv = (flags & UCP_AM_SEND_FLAG_RNDV) != 0;
    char text[400] = "";
    ucs_status_t sent, got = UCS_OK;

    seen.calls = 0;
    seen.answer = answer;
    seen.fetch_inside = inside;
    fetch.result = NULL;
    memset(in, 0, OP_BYTES);
    op_set(&send, &pair, mask | (flags != 0 ? UCP_OP_ATTR_FIELD_FLAGS : 0), OP_SEND, memh[0]);
    send.param.flags = (send.param.op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) ? flags : send.param.flags;
    op_begin(&send);
    op_posted(&send, ucp_am_send_nbx(pair.ep[0], ID, header, head, out, length, &send.param));
    if (!UCS_PTR_IS_ERR(send.result)) {
        (void)twin_late(&seen.calls, &pair);
    }
    if (inside && seen.calls > 0) {
        got = op_end(&fetch, &pair);
        op_odd(&fetch, text, sizeof(text));
        if (got == UCS_OK && memcmp(in, out, length) != 0) {
            snprintf(text + strlen(text), sizeof(text) - strlen(text), ", other bytes");
        }
    } else if (answer == UCS_INPROGRESS && seen.calls > 0 && (seen.attributes & UCP_AM_RECV_ATTR_FLAG_DATA)) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", kept %d",
                 length == 0 || memcmp(seen.data, out, length) == 0);
        ucp_am_data_release(pair.worker[1], seen.data);
    } else if (answer == UCS_INPROGRESS && seen.calls > 0 && (seen.attributes & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        fetch_it(seen.data);
        got = op_end(&fetch, &pair);
        op_odd(&fetch, text, sizeof(text));
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", fetched %s %d", twin_status(got),
                 memcmp(in, out, length) == 0);
    }
    sent = op_end(&send, &pair);
    op_odd(&send, text, sizeof(text));
    print_seen(rndv ? "rendezvous" : "handler", text, sizeof(text));
    if (rndv && seen.calls > 0) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), ", as rendezvous %d",
                 (seen.attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0);
    }
    twin_print("mask %#x, flags %u, header %zu, %zu bytes, answer %s, inside %d: sent %s, fetched %s%s", mask, flags,
              head, length, twin_status(answer), inside, twin_status(sent), twin_status(got), text);
    twin_settle(&pair);
}

static void masks(void)
{
    size_t i, k;

    open_all();
    set_handler(ID, 0);
    for (i = 0; i < op_masks_count; i++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            one(op_masks[i], 0, HEADER, lengths[k], UCS_OK, true);
            one(op_masks[i], UCP_AM_SEND_FLAG_RNDV, HEADER, lengths[k], UCS_OK, true);
        }
    }
    close_all();
}

static void flags(void)
{
    static const ucs_status_t answers[] = {UCS_OK, UCS_INPROGRESS, UCS_ERR_NO_MEMORY};
    static const unsigned bits[] = {0, 1, 2, 3, 4, 5, 8, 0xfffffff8, 0xfffffff9};
    uint32_t handler_flags;
    size_t i, k, a, head;

    for (handler_flags = 0; handler_flags < 4; handler_flags++) {
        open_all();
        set_handler(ID, handler_flags);
        for (i = 0; i < TWIN_COUNT(bits); i++) {
            for (k = 0; k < TWIN_COUNT(lengths); k++) {
                for (a = 0; a < TWIN_COUNT(answers); a++) {
                    for (head = 0; head <= HEADER; head += HEADER) {
                        one(UCP_OP_ATTR_FIELD_CALLBACK, bits[i], head, lengths[k], answers[a], false);
                    }
                }
            }
        }
        close_all();
    }
}

static void fetches(void)
{
    static const size_t capacities[] = {0, OP_BYTES};
    size_t i, k, c;

    open_all();
    set_handler(ID, 0);
    for (i = 0; i < op_masks_count; i++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            for (c = 0; c < TWIN_COUNT(capacities); c++) {
                if (capacities[c] != OP_BYTES && (i != 0 || capacities[c] > lengths[k])) {
                    continue;
                }
                seen.fetch_mask = op_masks[i];
                seen.capacity = capacities[c] == OP_BYTES ? lengths[k] : capacities[c];
                one(0, UCP_AM_SEND_FLAG_RNDV, HEADER, lengths[k], UCS_OK, true);
                one(0, UCP_AM_SEND_FLAG_RNDV, HEADER, lengths[k], UCS_INPROGRESS, false);
            }
        }
    }
    close_all();
}

static void handlers(void)
{
    static const unsigned ids[] = {0, 1, 255, 256, 65535, 65536, 70000, 0xffffffff};
    ucp_am_handler_param_t param;
    unsigned mask;
    size_t i;

    open_all();
    for (mask = 0; mask < 18; mask++) {
        memset(&param, TWIN_FILL, sizeof(param));
        if (mask < 16) {
            param.field_mask = mask;
        } else {
            param.field_mask = mask == 16 ? (TWIN_UNKNOWN | 5) : ~UINT64_C(0xf);
        }
        param.id = (mask & 1) || mask == 16 ? 3 : param.id;
        param.flags = (mask & 2) ? 0 : param.flags;
        param.cb = (mask & 4) || mask == 16 ? handle : param.cb;
        param.arg = (mask & 8) ? &seen : param.arg;
        twin_print("mask %u: %s", mask, twin_status(ucp_worker_set_am_recv_handler(pair.worker[1], &param)));
    }
    for (i = 0; i < 12; i++) {
        param.field_mask = 7;
        param.id = 3;
        param.flags = i < 8 ? (uint32_t)i : UINT32_C(1) << (i + 10);
        param.cb = handle;
        twin_print("flags %#x: %s", param.flags, twin_status(ucp_worker_set_am_recv_handler(pair.worker[1], &param)));
        twin_print("old, flags %#x: %s", param.flags,
                  twin_status(ucp_worker_set_am_handler(pair.worker[1], 3, handle_old, NULL, param.flags)));
    }
    for (i = 0; i < TWIN_COUNT(ids); i++) {
        param.field_mask = 5;
        param.id = ids[i];
        twin_print("id %u: %s", ids[i], twin_status(ucp_worker_set_am_recv_handler(pair.worker[1], &param)));
    }
    param.id = 9;
    param.cb = NULL;
    twin_print("no handler: %s", twin_status(ucp_worker_set_am_recv_handler(pair.worker[1], &param)));
    twin_print("old, no handler: %s", twin_status(ucp_worker_set_am_handler(pair.worker[1], 9, NULL, NULL, 0)));
    close_all();
}

static void send_limits(void)
{
    static const unsigned ids[] = {6, 8, 65535, 65536 + ID};
    static const ucp_datatype_t types[] = {0, 2, ucp_dt_make_contig(0), ucp_dt_make_contig(4)};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    char *head;
    size_t i, rndv;

    open_all();
    set_handler(ID, 0);
    twin_need(ucp_worker_query(pair.worker[0], &attr) == UCS_OK && attr.max_am_header > 0, "max_am_header");
    head = calloc(1, attr.max_am_header + 1);
    for (rndv = 0; rndv < 2; rndv++) {
        param.flags = rndv ? UCP_AM_SEND_FLAG_RNDV : 0;
        seen.calls = 0;
        twin_print(
            "rendezvous %zu, longest header: %s", rndv,
            twin_status(twin_wait(&pair, ucp_am_send_nbx(pair.ep[0], ID, head, attr.max_am_header, out, 8, &param))));
        (void)twin_late(&seen.calls, &pair);
        twin_print("rendezvous %zu, seen %d, whole %d", rndv, seen.calls, seen.header_length == attr.max_am_header);
        for (i = 0; i < TWIN_COUNT(ids); i++) {
            seen.calls = 0;
            twin_print("rendezvous %zu, id %u: %s", rndv, ids[i],
                      twin_status(twin_wait(&pair, ucp_am_send_nbx(pair.ep[0], ids[i], NULL, 0, out, 8, &param))));
            twin_settle(&pair);
            twin_print("rendezvous %zu, id %u: calls %d", rndv, ids[i], seen.calls);
        }
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        for (i = 0; i < TWIN_COUNT(types); i++) {
            ucp_dt_iov_t pieces[2] = {{out, 3}, {out + 3, 5}};

            seen.calls = 0;
            param.datatype = types[i];
            twin_print("rendezvous %zu, type %#llx: %s", rndv, (unsigned long long)types[i],
                      twin_status(twin_wait(&pair, ucp_am_send_nbx(pair.ep[0], ID, NULL, 0,
                                                                   types[i] == 2 ? (void *)pieces : out, 2, &param))));
            twin_settle(&pair);
            twin_print("rendezvous %zu, type %#llx: calls %d, bytes %zu", rndv, (unsigned long long)types[i],
                       seen.calls, seen.calls > 0 ? seen.length : 0);
        }
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    }
    free(head);
    close_all();
}

static void old_calls(void)
{
    static const unsigned bits[] = {0, 1, 2, 4, 5, 99};
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucs_status_t sent, answer;
    size_t i, k;
    int old_handler, keep;

    for (old_handler = 0; old_handler < 2; old_handler++) {
        open_all();
        if (old_handler) {
            twin_print("handler %s", twin_status(ucp_worker_set_am_handler(pair.worker[1], ID, handle_old, &seen,
                                                                          UCP_AM_FLAG_WHOLE_MSG)));
        } else {
            set_handler(ID, 0);
        }
        for (i = 0; i < TWIN_COUNT(bits); i++) {
            for (k = 0; k < TWIN_COUNT(lengths); k++) {
                for (keep = 0; keep < 2; keep++) {
                    seen.calls = seen.old_calls = 0;
                    seen.answer = answer = keep ? UCS_INPROGRESS : UCS_OK;
                    sent = twin_wait(&pair, ucp_am_send_nb(pair.ep[0], ID, out, lengths[k], byte, twin_done, bits[i]));
                    if (!UCS_STATUS_IS_ERR(sent)) {
                        (void)twin_late(old_handler ? &seen.old_calls : &seen.calls, &pair);
                    }
                    twin_print("old %d, flags %u, %zu bytes, answer %s: %s, calls %d %d, length %zu %d, reply %d",
                              old_handler, bits[i], lengths[k], twin_status(answer), twin_status(sent), seen.calls,
                              seen.old_calls, seen.length, seen.data_right,
                              old_handler ? seen.reply : seen.reply_named);
                    if (keep && seen.old_calls > 0 && (seen.old_flags & UCP_CB_PARAM_FLAG_DATA)) {
                        ucp_am_data_release(pair.worker[1], seen.data);
                    } else if (keep && seen.calls > 0 && (seen.attributes & UCP_AM_RECV_ATTR_FLAG_DATA)) {
                        ucp_am_data_release(pair.worker[1], seen.data);
                    }
                }
            }
        }
        close_all();
    }
}

/* New sends to an old handler. */
static void mixed(void)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS};
    size_t k, head;
    ucs_status_t sent;

    open_all();
    twin_print("handler %s",
              twin_status(ucp_worker_set_am_handler(pair.worker[1], ID, handle_old, &seen, UCP_AM_FLAG_WHOLE_MSG)));
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        for (head = 0; head <= HEADER; head += HEADER) {
            for (param.flags = UCP_AM_SEND_FLAG_EAGER; param.flags <= UCP_AM_SEND_FLAG_RNDV; param.flags += 2) {
                seen.old_calls = 0;
                seen.answer = UCS_OK;
                sent = twin_wait(&pair, ucp_am_send_nbx(pair.ep[0], ID, header, head, out, lengths[k], &param));
                twin_settle(&pair);
                twin_settle(&pair);
                twin_print("flags %u, header %zu, %zu bytes: %s, calls %d", param.flags, head, lengths[k],
                          twin_status(sent), seen.old_calls);
            }
        }
    }
    close_all();
}

const struct twin_case twin_am_cases[] = {
    {"am.masks", masks},        {"am.flags", flags},         {"am.fetches", fetches}, {"am.handlers", handlers},
    {"am.limits", send_limits}, {"am.old_calls", old_calls}, {"am.mixed", mixed},     {NULL, NULL}};
