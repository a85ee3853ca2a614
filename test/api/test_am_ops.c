/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests, attributes and datatypes of active messages: REQ-1..30, OPA-1..20, DT and AMS-8, R1, R4, R22. */
#include "test_am_common.h"

#include <stdlib.h>
#include <string.h>

enum { ID = 31, ENTRIES = 100 };

static const size_t sizes[] = {1, 8, 100, 4096, 9001, 70000, 1000003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static const uint32_t protocols[] = {0, UCP_AM_SEND_FLAG_EAGER, UCP_AM_SEND_FLAG_RNDV};
enum { PROTOCOLS = sizeof(protocols) / sizeof(protocols[0]) };

static struct cw_am_sink *open_with_sink(struct cw_pair *pair, enum cw_am_action action, uint32_t flags)
{
    struct cw_am_sink *sink;

    cw_am_open(pair, NULL);
    sink = cw_am_sink_new(pair->rx->worker, action);
    cw_am_install(sink, ID, flags);
    return sink;
}

static void finish_message(struct cw_pair *pair, struct cw_am_sink *sink, const void *want, size_t length)
{
    assert_int_equal(sink->length, length);
    if (cw_am_is_rndv(sink)) {
        assert_int_equal(cw_op_wait(pair, &sink->fetch, "fetch"), UCS_OK);
    }
    assert_memory_equal(sink->data.data, want, length);
    cw_buffer_check(&sink->data);
}

/* OPA-14, OPA-15, R1: flags of the send; with each the message comes whole. */
API_TEST(test_opa14_flags)
{
    static const uint64_t flags[] = {0, UCP_OP_ATTR_FLAG_NO_IMM_CMPL, UCP_OP_ATTR_FLAG_FAST_CMPL,
                                     UCP_OP_ATTR_FLAG_MULTI_SEND, UINT64_C(1) << 29};
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_TAKE, 0);
    int calls = 0;

    for (int i = 0; i < 5 * SIZES * PROTOCOLS; i++) {
        uint64_t flag = flags[i % 5];
        size_t length = sizes[i / 5 % SIZES];
        struct cw_buffer out = cw_buffer_new(length);
        struct cw_op send = {0};
        ucp_request_param_t param = cw_param_send(&send);

        cw_pattern_fill(out.data, length, length);
        param.op_attr_mask |= flag | UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = protocols[i / 5 / SIZES];
        cw_op_started(&send, ucp_am_send_nbx(pair->tx->ep, ID, "h", 1, out.data, length, &param));
        if (flag == UCP_OP_ATTR_FLAG_NO_IMM_CMPL) {
            assert_true(UCS_PTR_IS_PTR(send.result));
        } else if (!cw_test_reference()) {
            assert_int_equal(send.calls_inside, 0); /* R1 */
        }
        cw_am_wait(pair, sink, ++calls);
        finish_message(pair, sink, out.data, length);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        cw_buffer_free(&out);
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

API_TEST(test_opa15_fast_and_multi_exclude_each_other)
{
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_TAKE, 0);
    ucp_request_param_t param = cw_param_none();

    cw_test_skip_reference("1.13 does not check it");
    param.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_am_send_nbx(pair->tx->ep, ID, NULL, 0, "x", 1, &param)),
                     UCS_ERR_INVALID_PARAM);
    cw_pair_settle(pair);
    assert_int_equal(sink->calls, 0);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}

/* OPA-16, R22: complete now, or NO_RESOURCE and nothing is sent. */
API_TEST(test_opa16_force_immediate_completion)
{
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_TAKE, 0);
    struct cw_buffer out = cw_buffer_new(10 << 20);
    int sent = 0;

    for (int i = 0; i < 300; i++) {
        ucp_request_param_t param = cw_param_none();
        bool big = i % 10 == 0;
        ucs_status_ptr_t result;

        param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = big ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER | CW_AM_COPY_HEADER;
        result = ucp_am_send_nbx(pair->tx->ep, ID, "head", 4, out.data, big ? out.length : 8, &param);
        assert_true(result == NULL || UCS_PTR_RAW_STATUS(result) == UCS_ERR_NO_RESOURCE);
        assert_false(big && result == NULL);
        sent += result == NULL ? 1 : 0;
        cw_pair_progress(pair);
    }
    cw_pair_wait_count(pair, &sink->calls, sent, "message");
    cw_pair_settle(pair);
    assert_int_equal(sink->calls, sent);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&out);
}

/* OPA-6..9: the request in the user's memory carries send and fetch. */
API_TEST(test_opa6_user_requests)
{
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_KEEP, UCP_AM_FLAG_PERSISTENT_DATA);
    struct cw_user_request send_user = cw_user_request_new(pair->tx->context);
    struct cw_user_request fetch_user = cw_user_request_new(pair->rx->context);

    for (int i = 0; i < SIZES * PROTOCOLS; i++) {
        size_t length = sizes[i % SIZES];
        struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
        ucp_request_param_t param = cw_param_none();
        ucs_status_ptr_t send, fetch;

        cw_pattern_fill(out.data, length, length);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_FLAGS;
        param.request = send_user.handle;
        param.flags = protocols[i / SIZES];
        send = ucp_am_send_nbx(pair->tx->ep, ID, "h", 1, out.data, length, &param);
        assert_true(send == NULL || send == send_user.handle);
        cw_am_wait(pair, sink, i + 1);
        param.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST;
        param.request = fetch_user.handle;
        fetch = ucp_am_recv_data_nbx(pair->rx->worker, sink->lent, in.data, length, &param);
        assert_true(fetch == NULL || fetch == fetch_user.handle);
        cw_pair_until(pair, fetch == NULL || ucp_request_check_status(fetch) != UCS_INPROGRESS, "fetch");
        cw_pair_until(pair, send == NULL || ucp_request_check_status(send) != UCS_INPROGRESS, "send");
        assert_int_equal(ucp_request_check_status(fetch_user.handle), UCS_OK); /* R7: also when it says NULL */
        assert_true(send == NULL || ucp_request_check_status(send) == UCS_OK);
        cw_pattern_check(in.data, length, length);
        cw_buffer_check(&in);
        cw_user_request_check(&send_user);
        cw_user_request_check(&fetch_user);
        cw_buffer_free(&in);
        cw_buffer_free(&out);
    }
    cw_pair_close(pair);
    cw_user_request_free(&send_user);
    cw_user_request_free(&fetch_user);
    cw_am_sink_free(sink);
}

/* REQ-20, R4: freed before completion, a send and a fetch go on without their callbacks. */
API_TEST(test_req20_free_before_completion)
{
    enum { COUNT = 30 };
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_KEEP, 0);
    struct cw_buffer out = cw_buffer_new(200000), in = cw_buffer_new(200000);
    struct cw_op send = {0}, fetch = {0}, last = {0};
    size_t fetched;
    int inside = 0;

    cw_pattern_fill(out.data, out.length, 77);
    for (int i = 0; i < COUNT; i++) {
        ucp_request_param_t param = cw_am_fetch_param(&fetch, &fetched);

        cw_am_send(&send, pair->tx->ep, ID, &i, sizeof(i), out.data, out.length, UCP_AM_SEND_FLAG_RNDV);
        assert_true(UCS_PTR_IS_PTR(send.result));
        assert_int_equal(send.calls, 0);
        ucp_request_free(send.result);
        cw_am_wait(pair, sink, i + 1);
        memset(in.data, 0, in.length);
        cw_op_started(&fetch, ucp_am_recv_data_nbx(pair->rx->worker, sink->lent, in.data, in.length, &param));
        assert_false(UCS_PTR_IS_ERR(fetch.result));
        if (UCS_PTR_IS_PTR(fetch.result)) {
            ucp_request_free(fetch.result);
        }
        if (fetch.calls == inside) {
            free(param.user_data);
        }
        inside = fetch.calls; /* a callback inside the call came before the free */
        cw_pair_until(pair, cw_pattern_find(in.data, in.length, 77) < 0, "data"); /* REQ-30: it arrives all the same */
    }
    assert_int_equal(fetch.calls, inside);
    assert_int_equal(send.calls, 0);
    cw_am_send(&last, pair->tx->ep, ID, NULL, 0, "x", 1, UCP_AM_SEND_FLAG_EAGER);
    cw_am_wait(pair, sink, COUNT + 1);
    assert_int_equal(cw_op_wait(pair, &last, "send"), UCS_OK);
    if (sink->retained) {
        ucp_am_data_release(pair->rx->worker, sink->lent);
    }
    cw_pair_settle(pair);
    assert_int_equal(send.calls, 0);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
}

/* REQ-24: cancelling neither a send nor a fetch has an effect. */
API_TEST(test_req24_cancel_has_no_effect)
{
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_KEEP, 0);
    struct cw_buffer out = cw_buffer_new(2000000), in = cw_buffer_new(2000000);
    struct cw_op send = {0}, fetch = {0};
    size_t fetched;

    cw_pattern_fill(out.data, out.length, 78);
    cw_am_send(&send, pair->tx->ep, ID, "h", 1, out.data, out.length, UCP_AM_SEND_FLAG_RNDV);
    ucp_request_cancel(pair->tx->worker, send.result);
    cw_am_wait(pair, sink, 1);
    cw_am_fetch(&fetch, &fetched, pair->rx->worker, sink->lent, in.data, in.length, UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
    ucp_request_cancel(pair->rx->worker, fetch.result);
    ucp_request_cancel(pair->tx->worker, send.result);
    assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    cw_pattern_check(in.data, in.length, 78);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&in);
    cw_buffer_free(&out);
}

static void *seen_user_data;
static int seen_calls;

static void note_user_data(void *request, ucs_status_t status, void *user_data)
{
    (void)status;
    seen_user_data = user_data;
    seen_calls++;
    ucp_request_free(request); /* REQ-20, REQ-22: inside its own callback */
}

API_TEST(test_opa3_absent_user_data_is_null)
{
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_TAKE, 0);
    struct cw_buffer out = cw_buffer_new(1000003);

    cw_test_skip_reference("1.13 passes what the unmasked field holds");
    for (int i = 0; i < SIZES * PROTOCOLS; i++) {
        ucp_request_param_t param = cw_param_none();

        seen_calls = 0;
        seen_user_data = &seen_calls;
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
        param.cb.send = note_user_data;
        param.flags = protocols[i / SIZES];
        assert_true(UCS_PTR_IS_PTR(ucp_am_send_nbx(pair->tx->ep, ID, "h", 1, out.data, sizes[i % SIZES], &param)));
        cw_pair_wait_count(pair, &seen_calls, 1, "callback");
        assert_null(seen_user_data);
        cw_am_wait(pair, sink, i + 1);
        if (cw_am_is_rndv(sink)) {
            assert_int_equal(cw_op_wait(pair, &sink->fetch, "fetch"), UCS_OK);
        }
    }
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&out);
}

/* OPA-11, OPA-13: memory type and memory handle are taken. */
API_TEST(test_opa11_13_memory_type_and_handle)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_AM};
    struct cw_buffer out = cw_buffer_new(70000);
    struct cw_am_sink *sink;
    ucp_mem_map_params_t map;
    ucs_status_t status;
    ucp_mem_h memh;

    cw_pair_open(pair, &config);
    sink = cw_am_sink_new(pair->rx->worker, CW_AM_TAKE);
    cw_am_install(sink, ID, 0);
    memset(&map, 0xff, sizeof(map));
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = out.data;
    map.length = out.length;
    status = ucp_mem_map(pair->tx->context, &map, &memh);
    if (status == UCS_ERR_NOT_IMPLEMENTED) {
        cw_pair_close(pair);
        cw_am_sink_free(sink);
        cw_buffer_free(&out);
        print_message("ucp_mem_map does not work yet\n");
        skip();
    }
    assert_int_equal(status, UCS_OK);
    cw_pattern_fill(out.data, out.length, 9);
    for (int i = 0; i < (cw_test_reference() ? 1 : 2) * PROTOCOLS; i++) { /* 1.13 refuses UNKNOWN here */
        struct cw_op send = {0};
        ucp_request_param_t param = cw_param_send(&send);

        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH;
        param.flags = protocols[i % PROTOCOLS];
        param.memory_type = i < PROTOCOLS ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_UNKNOWN;
        param.memh = memh;
        cw_op_started(&send, ucp_am_send_nbx(pair->tx->ep, ID, "h", 1, out.data + 100, 69000, &param));
        cw_am_wait(pair, sink, i + 1);
        finish_message(pair, sink, out.data + 100, 69000);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    }
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
    cw_buffer_free(&out);
}

/* A generic type whose bytes are complemented on the way out and on the way in. */
struct flipped {
    char *bytes;
    size_t length;
};

static int flips_open;

static void *flip_start(void *context, void *buffer, size_t count)
{
    struct flipped *state = malloc(sizeof(*state));

    (void)context;
    *state = (struct flipped){.bytes = buffer, .length = count};
    flips_open++;
    return state;
}

static void *flip_start_pack(void *context, const void *buffer, size_t count)
{
    return flip_start(context, (void *)(uintptr_t)buffer, count);
}

static size_t flip_size(void *state)
{
    return ((struct flipped *)state)->length;
}

static size_t flip_pack(void *opaque, size_t offset, void *to, size_t max)
{
    struct flipped *state = opaque;
    size_t length = state->length - offset < max ? state->length - offset : max;

    for (size_t i = 0; i < length; i++) {
        ((char *)to)[i] = (char)~state->bytes[offset + i];
    }
    return length;
}

static ucs_status_t flip_unpack(void *opaque, size_t offset, const void *from, size_t length)
{
    struct flipped *state = opaque;

    assert_true(offset + length <= state->length);
    for (size_t i = 0; i < length; i++) {
        state->bytes[offset + i] = (char)~((const char *)from)[i];
    }
    return UCS_OK;
}

static void flip_finish(void *state)
{
    flips_open--;
    free(state);
}

enum kind { CONTIG, IOV, GENERIC, KINDS };

/* buffer and count of a call for length bytes at bytes; iov is filled for that kind. */
static size_t arrange(enum kind kind, char *bytes, size_t length, ucp_dt_iov_t *iov, const void **buffer)
{
    size_t part = length / (ENTRIES - 1);

    *buffer = kind == IOV ? (void *)iov : bytes;
    if (kind != IOV) {
        return length;
    }
    for (size_t i = 0; i < ENTRIES; i++) {
        iov[i].buffer = bytes + i * part;
        iov[i].length = i == ENTRIES - 1 ? length - i * part : part;
    }
    return ENTRIES;
}

static void move_typed(struct cw_pair *pair, struct cw_am_sink *sink, const ucp_datatype_t *types, int how,
                       size_t length)
{
    enum kind from = (enum kind)(how % KINDS), to = (enum kind)(how / KINDS % KINDS);
    struct cw_buffer out = cw_buffer_new(length), in = cw_buffer_new(length);
    ucp_dt_iov_t out_iov[ENTRIES], in_iov[ENTRIES];
    struct cw_op send = {0}, fetch = {0};
    ucp_request_param_t param = cw_param_send(&send);
    int calls = sink->calls + 1;
    const void *buffer;
    size_t count, fetched = 0;

    cw_pattern_fill(out.data, length, 31);
    count = arrange(from, out.data, length, out_iov, &buffer);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS;
    param.datatype = types[from];
    param.flags = protocols[how / KINDS / KINDS];
    cw_op_started(&send, ucp_am_send_nbx(pair->tx->ep, ID, "hdr", 3, buffer, count, &param));
    if (!cw_test_reference()) {
        memset(out_iov, 0xff, sizeof(out_iov)); /* OPA-19 */
    }
    cw_am_wait(pair, sink, calls);
    assert_int_equal(sink->length, length);
    count = arrange(to, in.data, length, in_iov, &buffer);
    param = cw_am_fetch_param(&fetch, &fetched);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.datatype = types[to];
    cw_op_started(&fetch, ucp_am_recv_data_nbx(pair->rx->worker, sink->lent, (void *)(uintptr_t)buffer, count,
                                               &param));
    assert_int_equal(cw_op_wait(pair, &fetch, "fetch"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(fetched, length);
    if ((from == GENERIC) != (to == GENERIC)) {
        for (size_t i = 0; i < length; i++) {
            in.data[i] = (char)~in.data[i];
        }
    }
    cw_pattern_check(in.data, length, 31);
    cw_buffer_check(&in);
    assert_int_equal(flips_open, 0); /* DT-9 */
    cw_buffer_free(&in);
    cw_buffer_free(&out);
}

API_TEST(test_ams8_datatypes)
{
    const ucp_generic_dt_ops_t ops = {flip_start_pack, flip_start, flip_size, flip_pack, flip_unpack, flip_finish};
    struct cw_am_sink *sink = open_with_sink(pair, CW_AM_KEEP, UCP_AM_FLAG_PERSISTENT_DATA);
    ucp_datatype_t types[KINDS] = {ucp_dt_make_contig(1), ucp_dt_make_iov(), 0};

    assert_int_equal(ucp_dt_create_generic(&ops, NULL, &types[GENERIC]), UCS_OK);
    for (int how = 0; how < KINDS * KINDS * PROTOCOLS; how++) {
        for (int i = 0; i < SIZES; i++) {
            move_typed(pair, sink, types, how, sizes[i]);
        }
    }
    ucp_dt_destroy(types[GENERIC]);
    cw_pair_close(pair);
    cw_am_sink_free(sink);
}
