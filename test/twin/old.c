/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of older generations: nb and nbr for tags and streams, blocking ones to oneself. REQ-40..46, RMA-7. */
#include "twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 200000, REQUEST = 4096 };

static const size_t lengths[] = {0, 8, 3000, BYTES};
static const char *const arrivals[] = {"expected", "unexpected", "probed"};

static struct twin_pair pair;
static unsigned char out[BYTES], in[BYTES];
static int sent_calls, received_calls, streamed_calls;
static size_t reported_length;
static ucp_tag_t reported_tag;
static ucs_status_t reported_status;

static void sent(void *request, ucs_status_t status)
{
    (void)request;
    (void)status;
    sent_calls++;
}

static void received(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    (void)request;
    received_calls++;
    reported_status = status;
    reported_length = info->length;
    reported_tag = info->sender_tag;
}

static void streamed(void *request, ucs_status_t status, size_t length)
{
    (void)request;
    streamed_calls++;
    reported_status = status;
    reported_length = length;
}

static void open_all(uint64_t features)
{
    size_t i;

    for (i = 0; i < BYTES; i++) {
        out[i] = (unsigned char)(i * 5 + (i >> 6));
    }
    twin_pair_open(&pair, features, UCP_ERR_HANDLING_MODE_NONE);
}

static void nb(void)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;
    ucs_status_ptr_t send, recv = NULL;
    ucs_status_t got, done;
    size_t k, arrival, room;
    int sync;

    open_all(UCP_FEATURE_TAG);
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        for (arrival = 0; arrival < 3; arrival++) {
            for (sync = 0; sync < 2; sync++) {
                for (room = 0; room < 2; room++) {
                    size_t capacity = room ? BYTES : lengths[k] / 2;

                    sent_calls = received_calls = 0;
                    reported_length = reported_tag = 0;
                    if (arrival == 0) {
                        recv = ucp_tag_recv_nb(pair.worker[1], in, capacity, byte, 3, 7, received);
                    }
                    send = sync ? ucp_tag_send_sync_nb(pair.ep[0], out, lengths[k], byte, 0x33, sent)
                                : ucp_tag_send_nb(pair.ep[0], out, lengths[k], byte, 0x33, sent);
                    if (arrival != 0) {
                        twin_settle(&pair);
                        message = arrival == 2 ? ucp_tag_probe_nb(pair.worker[1], 3, 7, 1, &info) : NULL;
                        recv = message != NULL
                                   ? ucp_tag_msg_recv_nb(pair.worker[1], in, capacity, byte, message, received)
                                   : ucp_tag_recv_nb(pair.worker[1], in, capacity, byte, 3, 7, received);
                    }
                    twin_print("%zu bytes into %zu, %s, sync %d: a request %d", lengths[k], capacity, arrivals[arrival],
                              sync, UCS_PTR_IS_PTR(recv));
                    got = twin_wait(&pair, recv);
                    done = twin_wait(&pair, send);
                    twin_print("sent %s, called %d; received %s, called %d, reported %zu, tag %#llx, %s, same %d",
                              twin_status(done), sent_calls == (send != NULL), twin_status(got), received_calls,
                              reported_length, (unsigned long long)reported_tag, twin_status(reported_status),
                              got != UCS_OK || memcmp(in, out, lengths[k]) == 0);
                }
            }
        }
    }
    twin_pair_close(&pair);
}

static void nbr(void)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    static char memory[2][REQUEST];
    ucs_status_t posted, send, status;
    ucp_tag_recv_info_t info;
    size_t k, arrival, room, i;
    void *request[2];

    open_all(UCP_FEATURE_TAG);
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        for (arrival = 0; arrival < 2; arrival++) {
            for (room = 0; room < 2; room++) {
                size_t capacity = room ? BYTES : lengths[k] / 2;

                posted = UCS_OK;
                memset(memory, TWIN_FILL, sizeof(memory));
                request[0] = memory[0] + pair.request_size + 8; /* aligned to 8 bytes only */
                request[1] = memory[1] + pair.request_size + 8;
                if (arrival == 0) {
                    posted = ucp_tag_recv_nbr(pair.worker[1], in, capacity, byte, 3, 7, request[1]);
                }
                send = ucp_tag_send_nbr(pair.ep[0], out, lengths[k], byte, 0x33, request[0]);
                if (arrival != 0) {
                    twin_settle(&pair);
                    posted = ucp_tag_recv_nbr(pair.worker[1], in, capacity, byte, 3, 7, request[1]);
                }
                memset(&info, 0, sizeof(info));
                for (i = 0; i < 1000000 && (status = ucp_tag_recv_request_test(request[1], &info)) == UCS_INPROGRESS;
                     i++) {
                    twin_progress(&pair);
                }
                for (i = 0; i < 1000000 && send == UCS_INPROGRESS; i++) {
                    twin_progress(&pair);
                    send = ucp_request_check_status(request[0]);
                }
                twin_print("%zu bytes into %zu, %s: posted %s, sent %s, received %s, reported %zu, tag %#llx",
                           lengths[k], capacity, arrivals[arrival], twin_status(posted), twin_status(send),
                           twin_status(status), info.length, (unsigned long long)info.sender_tag);
                memset(&info, 0, sizeof(info));
                posted = ucp_request_test(request[1], &info);
                twin_print("tested %s, reported %zu; same %d", twin_status(posted), info.length,
                          status != UCS_OK || memcmp(in, out, lengths[k]) == 0);
                twin_print("completed %d, status %s", ucp_request_is_completed(request[1]),
                          twin_status(ucp_request_check_status(request[1])));
                for (i = 0;
                     i < 64 && ((char *)request[1])[i] == (char)TWIN_FILL && ((char *)request[0])[i] == (char)TWIN_FILL;
                     i++) {
                }
                twin_print("nothing written behind %d", i == 64);
            }
        }
    }
    twin_pair_close(&pair);
}

/* Requests that are freed or released before they are over. */
static void let_go(void)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucs_status_ptr_t send, recv;
    int variant;

    open_all(UCP_FEATURE_TAG);
    for (variant = 0; variant < 4; variant++) {
        sent_calls = received_calls = 0;
        memset(in, 0, sizeof(in));
        recv = NULL;
        if (variant < 2) {
            recv = ucp_tag_recv_nb(pair.worker[1], in, BYTES, byte, 3, 7, received);
            (variant == 0 ? ucp_request_free : ucp_request_release)(recv);
        }
        send = ucp_tag_send_sync_nb(pair.ep[0], out, BYTES, byte, 0x33, sent);
        if (variant >= 2) {
            (variant == 2 ? ucp_request_free : ucp_request_release)(send);
            send = NULL;
            recv = ucp_tag_recv_nb(pair.worker[1], in, BYTES, byte, 3, 7, received);
        }
        twin_print("variant %d: %s", variant, twin_status(twin_wait(&pair, variant < 2 ? send : recv)));
        twin_settle(&pair);
        twin_print("variant %d: sends called %d, receives called %d, same %d", variant, sent_calls, received_calls,
                  memcmp(in, out, BYTES) == 0);
    }
    twin_pair_close(&pair);
}

static void streams(void)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucs_status_ptr_t send, recv;
    ucs_status_t got, done;
    size_t k, reported, tested;
    unsigned flags, late;

    open_all(UCP_FEATURE_STREAM);
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        for (flags = 0; flags < 4; flags++) {
            for (late = 0; late < 2; late++) {
                if (lengths[k] == 0 || ((flags & 1) == 0 && lengths[k] > 8)) {
                    continue; /* nothing: UCX 1.13 does not bear it; much: as many bytes as there are just now */
                }
                sent_calls = streamed_calls = 0;
                reported_length = reported = tested = 0;
                recv = NULL;
                if (!late) {
                    recv = ucp_stream_recv_nb(pair.ep[1], in, lengths[k], byte, streamed, &reported, flags);
                }
                send = ucp_stream_send_nb(pair.ep[0], out, lengths[k], byte, sent, 0);
                if (late) {
                    twin_settle(&pair);
                    recv = ucp_stream_recv_nb(pair.ep[1], in, lengths[k], byte, streamed, &reported, flags);
                }
                got = UCS_PTR_STATUS(recv);
                if (UCS_PTR_IS_PTR(recv)) {
                    size_t i;

                    for (i = 0; i < 1000000 && (got = ucp_stream_recv_request_test(recv, &tested)) == UCS_INPROGRESS;
                         i++) {
                        twin_progress(&pair);
                    }
                    ucp_request_free(recv);
                    reported = streamed_calls > 0 ? reported_length : tested;
                }
                done = twin_wait(&pair, send);
                twin_print("%zu bytes, flags %u, late %u: sent %s, received %s, reported %zu, called %d, same %d",
                          lengths[k], flags, late, twin_status(done), twin_status(got), reported,
                          streamed_calls == UCS_PTR_IS_PTR(recv), memcmp(in, out, reported) == 0);
            }
        }
    }
    twin_print("send with flags %s", twin_pointer_status(ucp_stream_send_nb(pair.ep[0], out, 8, byte, sent, 1)));
    twin_pair_close(&pair);
}

/* To oneself, because nobody else progresses meanwhile. */
static void blocking(void)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = in, .length = BYTES};
    uint64_t *word = (uint64_t *)(void *)((uintptr_t)(in + 63) / 64 * 64), result = 0;
    uint32_t small = 0;
    ucp_context_h context = twin_context(UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64);
    ucp_worker_h worker = twin_worker(context);
    ucp_ep_h ep = twin_connect(worker, worker, UCP_ERR_HANDLING_MODE_NONE);
    uint64_t to = (uintptr_t)word;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *buffer;
    size_t size, k;

    twin_need(ucp_mem_map(context, &params, &memh) == UCS_OK, "ucp_mem_map");
    twin_need(ucp_rkey_pack(context, memh, &buffer, &size) == UCS_OK, "ucp_rkey_pack");
    twin_need(ucp_ep_rkey_unpack(ep, buffer, &rkey) == UCS_OK, "ucp_ep_rkey_unpack");
    memset(out, 0x21, sizeof(out));
    for (k = 0; k < TWIN_COUNT(lengths); k++) {
        twin_print("put %zu: %s", lengths[k], twin_status(ucp_put(ep, out, lengths[k], (uintptr_t)in, rkey)));
        twin_print("flush %s, same %d", twin_status(ucp_ep_flush(ep)), memcmp(in, out, lengths[k]) == 0);
        memset(out, 0, sizeof(out));
        twin_print("get %zu: %s", lengths[k], twin_status(ucp_get(ep, out, lengths[k], (uintptr_t)in, rkey)));
        twin_print("same %d", memcmp(in, out, lengths[k]) == 0);
        memset(out, 0x21 + (int)k, sizeof(out));
    }
    twin_print("put of no buffer: %s", twin_status(ucp_put(ep, NULL, 8, to, rkey)));
    twin_print("get into no buffer: %s", twin_status(ucp_get(ep, NULL, 8, to, rkey)));
    *word = 10;
    twin_print("add 64 %s", twin_status(ucp_atomic_add64(ep, 5, to, rkey)));
    twin_print("add 32 %s", twin_status(ucp_atomic_add32(ep, 6, to, rkey)));
    twin_print("flush %s", twin_status(ucp_worker_flush(worker)));
    twin_print("now %llu", (unsigned long long)*word);
    twin_print("fadd 64 %s", twin_status(ucp_atomic_fadd64(ep, 1, to, rkey, &result)));
    twin_print("before %llu", (unsigned long long)result);
    twin_print("fadd 32 %s", twin_status(ucp_atomic_fadd32(ep, 1, to, rkey, &small)));
    twin_print("before %u", small);
    twin_print("swap 64 %s", twin_status(ucp_atomic_swap64(ep, 40, to, rkey, &result)));
    twin_print("before %llu", (unsigned long long)result);
    twin_print("swap 32 %s", twin_status(ucp_atomic_swap32(ep, 41, to, rkey, &small)));
    twin_print("before %u", small);
    twin_print("cswap 64 %s", twin_status(ucp_atomic_cswap64(ep, 41, 50, to, rkey, &result)));
    twin_print("before %llu, now %llu", (unsigned long long)result, (unsigned long long)*word);
    twin_print("cswap 32 %s", twin_status(ucp_atomic_cswap32(ep, 99, 51, to, rkey, &small)));
    twin_print("before %u, now %llu", small, (unsigned long long)*word);
    twin_print("crooked: %s %s %s %s", twin_status(ucp_atomic_add64(ep, 5, to + 4, rkey)),
              twin_status(ucp_atomic_fadd64(ep, 5, to + 1, rkey, &result)),
              twin_status(ucp_atomic_add32(ep, 5, to + 2, rkey)),
              twin_status(ucp_atomic_swap32(ep, 5, to + 1, rkey, &small)));
    ucp_rkey_buffer_release(buffer);
    ucp_rkey_destroy(rkey);
    ucp_ep_destroy(ep);
    (void)ucp_mem_unmap(context, memh);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

/* The calls of a generic datatype, in their order. */
static char journal[4000];
static size_t packed;
static ucs_status_t unpacked;

static void note(char what)
{
    size_t length = strlen(journal);

    if (length + 1 < sizeof(journal) && (length == 0 || journal[length - 1] != what)) {
        journal[length] = what;
    }
}

static void *start_pack(void *context, const void *buffer, size_t count)
{
    note('p');
    packed = count;
    return context == journal && buffer == out ? (void *)1 : NULL;
}

static void *start_unpack(void *context, void *buffer, size_t count)
{
    note('u');
    packed = count;
    return context == journal && buffer == in ? (void *)2 : NULL;
}

static size_t packed_size(void *state)
{
    (void)state;
    return packed;
}

static size_t pack(void *state, size_t offset, void *dest, size_t max)
{
    size_t length = packed - offset < max ? packed - offset : max;

    note(state == (void *)1 ? 'P' : '?');
    memcpy(dest, out + offset, length);
    return length;
}

static ucs_status_t unpack(void *state, size_t offset, const void *src, size_t length)
{
    note(state == (void *)2 ? 'U' : '?');
    memcpy(in + offset, src, length);
    return unpacked;
}

static void finish(void *state)
{
    if (state == (void *)1) {
        note('f');
    } else {
        note(state == (void *)2 ? 'F' : '?');
    }
}

static void generic(void)
{
    const ucp_generic_dt_ops_t ops = {start_pack, start_unpack, packed_size, pack, unpack, finish};
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucs_status_ptr_t send, recv;
    ucs_status_t done, got;
    ucp_datatype_t type;
    size_t k, room;
    int side, fail;

    open_all(UCP_FEATURE_TAG);
    twin_print("create %s", twin_status(ucp_dt_create_generic(&ops, journal, &type)));
    for (side = 1; side < 4; side++) {
        for (k = 0; k < TWIN_COUNT(lengths); k++) {
            for (room = 0; room < 2; room++) {
                for (fail = 0; fail < (side & 2 ? 2 : 1); fail++) {
                    memset(journal, 0, sizeof(journal));
                    unpacked = fail ? UCS_ERR_NO_MEMORY : UCS_OK;
                    recv = ucp_tag_recv_nb(pair.worker[1], in, room ? lengths[k] : lengths[k] / 2,
                                       side & 2 ? type : byte, 3, 7, received);
                    if (side == 3) {
                        packed = lengths[k];
                    }
                    send = ucp_tag_send_nb(pair.ep[0], out, lengths[k], side & 1 ? type : byte, 0x33, sent);
                    done = twin_wait(&pair, send);
                    got = twin_wait(&pair, recv);
                    twin_print("side %d, %zu bytes, room %zu, failing %d: sent %s, received %s", side, lengths[k], room,
                              fail, twin_status(done), twin_status(got));
                    twin_print("packed %d, unpacked %d, same %d", strchr(journal, 'P') != NULL,
                              strchr(journal, 'U') != NULL, got != UCS_OK || memcmp(in, out, lengths[k]) == 0);
                    twin_print(
                        "ended %d %d, wrong %d", (strchr(journal, 'p') != NULL) == (strchr(journal, 'f') != NULL),
                        (strchr(journal, 'u') != NULL) == (strchr(journal, 'F') != NULL), strchr(journal, '?') != NULL);
                }
            }
        }
    }
    ucp_dt_destroy(type);
    ucp_dt_destroy(byte);
    ucp_dt_destroy(ucp_dt_make_iov());
    twin_pair_close(&pair);
}

const struct twin_case twin_old_cases[] = {{"old.nb", nb},
                                           {"old.nbr", nbr},
                                           {"old.let_go", let_go},
                                           {"old.streams", streams},
                                           {"old.blocking", blocking},
                                           {"old.generic", generic},
                                           {NULL, NULL}};
