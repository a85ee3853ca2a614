/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics by packets (rma/amo.c), on an endpoint to the worker itself whose key pretends not to reach the memory, and
 * with packets of a peer that follows no rules: what breaks the protocol costs the connection, what asks for memory
 * that is not to be had is refused, and nothing else is touched. AMO-10..13, AMO-17, RMA-12, OPA-16.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/ep.h"
#include "core/rkey.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "rma/rma.h"
#include "test_alone.h"

enum { WORDS = 8, WORD = 4, TIMES = 1000, USER_BYTES = 512 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_mem_h memh;
static ucp_rkey_h rkey;
static _Alignas(64) uint64_t words[WORDS];
static const uint64_t background = 0xa5a5a5a55a5a5a5au;
static unsigned calls;

static uint64_t address_of(const void *word)
{
    return (uint64_t)(uintptr_t)word;
}

static ucp_mem_h map(void *memory, size_t length, unsigned prot)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_PROT,
                                   .address = memory,
                                   .length = length,
                                   .prot = prot};
    ucp_mem_h result;

    assert_int_equal(ucp_mem_map(context, &params, &result), UCS_OK);
    return result;
}

/* A key that reaches the memory by packets only. */
static ucp_rkey_h key_to(ucp_mem_h mem)
{
    ucp_rkey_h result;
    void *bytes;
    size_t length;

    assert_int_equal(ucp_rkey_pack(context, mem, &bytes, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, bytes, &result), UCS_OK);
    ucp_rkey_buffer_release(bytes);
    cw_rkey_set_local(result, NULL);
    return result;
}

static void make_ep(void)
{
    ep = cw_alone_ep(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                               .err_mode = UCP_ERR_HANDLING_MODE_PEER});
}

static ucs_status_t wait_for(ucs_status_ptr_t request)
{
    return cw_alone_wait(worker, request);
}

static ucs_status_t flush(void)
{
    const ucp_request_param_t plain = {.op_attr_mask = 0};

    return wait_for(ucp_ep_flush_nbx(ep, &plain));
}

static ucp_request_param_t param_of(unsigned size, void *reply)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(size)};

    if (reply != NULL) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.reply_buffer = reply;
    }
    return param;
}

static ucs_status_ptr_t amo(ucp_atomic_op_t op, uint64_t operand, void *reply, unsigned size, uint64_t address)
{
    ucp_request_param_t param = param_of(size, reply);
    uint32_t narrow = (uint32_t)operand;

    return ucp_atomic_op_nbx(ep, op, (size == 4) ? (void *)&narrow : (void *)&operand, 1, address, rkey, &param);
}

static int setup_idle(void **state)
{
    (void)state;
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_true(cw_alone_open(UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_RMA, &context, &worker));
    make_ep();
    for (unsigned i = 0; i < WORDS; i++) {
        words[i] = background;
    }
    memh = map(words, sizeof(words), UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE);
    rkey = key_to(memh);
    calls = 0;
    return 0;
}

static int setup(void **state)
{
    uint64_t before = 0;

    setup_idle(state);
    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 0, &before, 8, address_of(&words[0]))), UCS_OK);
    assert_true(before == background);
    assert_int_equal(ep->state, CW_EP_OPEN);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ucp_rkey_destroy(rkey);
    if (memh != NULL) {
        assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
    }
    cw_alone_close(context, worker);
    return 0;
}

static void expect_words_except(unsigned changed)
{
    for (unsigned i = 0; i < WORDS; i++) {
        assert_true(i == changed || words[i] == background);
    }
}

static struct cw_wire_amo packet_of(unsigned op, unsigned size, uint64_t address)
{
    return (struct cw_wire_amo){.token = htole64(rkey->key.token),
                              .address = htole64(address),
                              .operand = htole64(1),
                              .op = (uint8_t)op,
                              .size = (uint8_t)size};
}

static void feed(uint8_t id, const void *packet, size_t length)
{
    cw_alone_feed(ep, id, packet, length);
}

static void is_lost(void)
{
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
    while (ucp_worker_progress(worker) != 0) {
    }
}

/* ---- what an owner takes ---- */

TEST_WITH(test_request_headers, setup, teardown)
{
    static const unsigned bad[][2] = {{6, 8}, {255, 4}, {0, 0}, {0, 1}, {1, 2}, {2, 16}, {3, 255}, {5, 12}};
    struct cw_wire_amo packet;
    char bytes[sizeof(packet) + 1] = {0};

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        packet = packet_of(bad[i][0], bad[i][1], address_of(&words[WORD]));
        feed(CW_PACKET_AMO, &packet, sizeof(packet));
        is_lost();
        expect_words_except(WORDS);
        teardown(state);
        setup(state);
    }
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        packet = packet_of(CW_WIRE_AMO_ADD, 8, address_of(&words[WORD]));
        memcpy(bytes, &packet, sizeof(packet));
        if (length != sizeof(packet)) {
            feed(CW_PACKET_AMO, bytes, length);
            is_lost();
            expect_words_except(WORDS);
            teardown(state);
            setup(state);
        }
    }
}

static uint64_t model(unsigned op, uint64_t before, uint64_t operand, uint64_t swap)
{
    const uint64_t after[] = {before + operand,
                              operand,
                              (before == operand) ? swap : before,
                              before & operand,
                              before | operand,
                              before ^ operand};

    return after[op];
}

static void check_op(unsigned op, unsigned size, uint64_t before, uint64_t operand, uint64_t swap)
{
    const uint64_t mask = (size == 4) ? UINT32_MAX : UINT64_MAX;
    uint64_t reply = (background & ~mask) | (swap & mask);

    words[WORD] = (background & ~mask) | (before & mask);
    assert_int_equal(wait_for(amo((ucp_atomic_op_t)op, operand, &reply, size, address_of(&words[WORD]))), UCS_OK);
    assert_true(words[WORD] == ((background & ~mask) | (model(op, before & mask, operand & mask, swap) & mask)));
    assert_true(reply == ((background & ~mask) | (before & mask)));
    expect_words_except(WORD);
}

static void check_ops(void)
{
    static const uint64_t values[] = {0, 1, UINT32_MAX, 0x80000000u, UINT64_MAX, UINT64_MAX / 2 + 1, 0x123456789u};
    const unsigned count = sizeof(values) / sizeof(values[0]);

    for (unsigned i = 0; i < count * count; i++) {
        for (unsigned op = 0; op < CW_WIRE_AMO_OPS; op++) {
            check_op(op, 4, values[i % count], values[i / count], ~values[i / count]);
            check_op(op, 8, values[i % count], values[i / count], ~values[i / count]);
        }
    }
}

/* AMO-10, AMO-12, AMO-13, by packets and directly. */
TEST_WITH(test_every_operation, setup, teardown)
{
    check_ops();
    cw_rkey_set_local(rkey, (char *)words);
    rkey->validity = &rkey->key.token;
    check_ops();
}

/* Posted: the connection stays, the memory stays as it is, the next flush says it. */
TEST_WITH(test_refused_posted, setup, teardown)
{
    const uint64_t first = address_of(words), end = address_of(&words[WORDS]);
    const struct {
        uint64_t address;
        unsigned size;
        ucs_status_t status;
    } bad[] = {
        {first - 8, 8, UCS_ERR_INVALID_ADDR},      {first - 4, 8, UCS_ERR_INVALID_ADDR},
        {end, 8, UCS_ERR_INVALID_ADDR},            {end, 4, UCS_ERR_INVALID_ADDR},
        {end - 4, 8, UCS_ERR_INVALID_ADDR},        {UINT64_MAX - 3, 8, UCS_ERR_INVALID_ADDR},
        {UINT64_MAX, 4, UCS_ERR_INVALID_ADDR},     {0, 8, UCS_ERR_INVALID_ADDR},
        {first + 4, 8, UCS_ERR_INVALID_PARAM},     {first + 1, 4, UCS_ERR_INVALID_PARAM},
        {first + 2, 4, UCS_ERR_INVALID_PARAM},     {end - 8, 8, UCS_OK},
    };

    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct cw_wire_amo packet = packet_of(CW_WIRE_AMO_ADD, bad[i].size, bad[i].address);

        feed(CW_PACKET_AMO, &packet, sizeof(packet));
        expect_words_except((bad[i].status == UCS_OK) ? WORDS - 1 : WORDS);
        assert_int_equal(ep->state, CW_EP_OPEN);
        assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_OR, 0, NULL, 8, first)), UCS_OK); /* for the flush to ask */
        assert_int_equal(flush(), bad[i].status);
        assert_int_equal(flush(), UCS_OK);
    }
    assert_true(words[WORDS - 1] == background + 1);
}

TEST_WITH(test_wrong_rights, setup, teardown)
{
    static const unsigned prots[] = {UCP_MEM_MAP_PROT_LOCAL_READ | UCP_MEM_MAP_PROT_LOCAL_WRITE,
                                     UCP_MEM_MAP_PROT_REMOTE_READ, UCP_MEM_MAP_PROT_REMOTE_WRITE};
    uint64_t reply = 7;

    for (unsigned i = 0; i < sizeof(prots) / sizeof(prots[0]); i++) {
        ucp_rkey_destroy(rkey);
        assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
        memh = map(words, sizeof(words), prots[i]);
        rkey = key_to(memh);
        assert_true(UCS_PTR_IS_ERR(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(words))));
        rkey->key.rights = CW_KEY_READ | CW_KEY_WRITE; /* a forged key */
        assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, &reply, 8, address_of(words))), UCS_ERR_INVALID_PARAM);
        assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(words))), UCS_OK);
        assert_int_equal(flush(), UCS_ERR_INVALID_PARAM);
        expect_words_except(WORDS);
        assert_true(reply == 7);
    }
    assert_int_equal(ep->state, CW_EP_OPEN);
}

/* Forged and stale keys (RMA-12). */
TEST_WITH(test_wrong_tokens, setup, teardown)
{
    uint64_t reply = 7;

    rkey->key.token ^= 1;
    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, &reply, 8, address_of(words))), UCS_ERR_INVALID_ADDR);
    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(words))), UCS_OK);
    assert_int_equal(flush(), UCS_ERR_INVALID_ADDR);
    assert_int_equal(ep->state, CW_EP_OPEN);
    rkey->key.token ^= 1;
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
    memh = NULL;
    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_SWAP, 1, &reply, 8, address_of(words))), UCS_ERR_CONNECTION_RESET);
    assert_true(reply == 7);
    expect_words_except(WORDS);
    assert_int_equal(ep->state, CW_EP_FAILED);
}

/* Who asks on and on and takes no answers is stopped. */
TEST_WITH(test_flood, setup, teardown)
{
    struct cw_wire_amo packet = packet_of(CW_WIRE_AMO_ADD, 8, address_of(&words[WORD]));

    packet.reply_id = htole64(12345);
    for (unsigned i = 0; i < 10000000 && ep->state == CW_EP_OPEN; i++) {
        feed(CW_PACKET_AMO, &packet, sizeof(packet));
        assert_true(ep->state != CW_EP_OPEN || cw_op_ep(ep)->rma->serving.answers <= CW_RMA_WINDOW);
    }
    is_lost();
}

/* ---- what an origin takes ---- */

static void feed_reply(uint64_t id, int32_t status, uint64_t value, size_t length)
{
    struct cw_wire_amo_reply reply = {.reply_id = htole64(id),
                                      .value = htole64(value),
                                      .status = (int32_t)htole32((uint32_t)status)};
    char bytes[sizeof(reply) + 8] = {0};

    memcpy(bytes, &reply, sizeof(reply));
    feed(CW_PACKET_AMO_REPLY, bytes, length);
}

/* The id of the newest request under way: the state begins with the packet. */
static uint64_t last_id(void)
{
    struct cw_request *request = cw_container_of(ep->inflight.prev, struct cw_request, link);

    return ((struct cw_wire_amo *)cw_request_state(request))->reply_id;
}

TEST_WITH(test_reply_headers, setup, teardown)
{
    static const int32_t bad[] = {1, 77, INT32_MAX, UCS_ERR_LAST, INT32_MIN};
    const size_t exact = sizeof(struct cw_wire_amo_reply);
    uint64_t reply = 7;
    ucs_status_ptr_t request;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]) + exact + 8; i++) {
        size_t length = (i < exact + 8) ? i : exact;
        int32_t status = (i < exact + 8) ? 0 : bad[i - exact - 8];

        if (i == exact) {
            continue;
        }
        request = amo(UCP_ATOMIC_OP_ADD, 1, &reply, 8, address_of(&words[WORD]));
        assert_true(UCS_PTR_IS_PTR(request));
        feed_reply(last_id(), status, 99, length);
        is_lost();
        assert_int_equal(wait_for(request), UCS_ERR_IO_ERROR);
        assert_true(reply == 7);
        teardown(state);
        setup(state);
    }
}

TEST_WITH(test_reply_twice, setup, teardown)
{
    uint32_t reply[2] = {7, 7};
    ucs_status_ptr_t request;
    uint64_t id;

    request = amo(UCP_ATOMIC_OP_ADD, 1, reply, 4, address_of(&words[WORD]));
    id = last_id();
    feed_reply(id, UCS_OK, UINT64_MAX, sizeof(struct cw_wire_amo_reply));
    assert_int_equal(wait_for(request), UCS_OK);
    assert_int_equal(reply[0], UINT32_MAX);
    assert_int_equal(reply[1], 7);
    feed_reply(id, UCS_OK, 1, sizeof(struct cw_wire_amo_reply));
    is_lost();
    assert_int_equal(reply[0], UINT32_MAX);
}

/* An id of something else: of a flush. And of nothing. */
TEST_WITH(test_reply_to_others, setup, teardown)
{
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    ucs_status_ptr_t request;

    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(&words[WORD]))), UCS_OK);
    request = ucp_ep_flush_nbx(ep, &plain);
    assert_true(UCS_PTR_IS_PTR(request));
    for (uint64_t id = 0; id < 8; id++) { /* ids are slot and generation; whichever it is, no atomic is under way */
        feed_reply(id << 32, UCS_OK, 1, sizeof(struct cw_wire_amo_reply));
        feed_reply(id, UCS_OK, 1, sizeof(struct cw_wire_amo_reply));
    }
    is_lost();
    assert_int_equal(wait_for(request), UCS_ERR_IO_ERROR);
    teardown(state);
    setup(state);
    feed_reply(0, UCS_OK, 1, sizeof(struct cw_wire_amo_reply));
    is_lost();
}

/* Another peer has nothing to say about it. */
TEST_WITH(test_reply_from_others, setup, teardown)
{
    const ucp_ep_h first = ep;
    uint64_t reply = 7;
    ucs_status_ptr_t request;
    ucp_ep_h other;
    uint64_t id;

    make_ep();
    other = ep;
    assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 0, &reply, 8, address_of(&words[0]))), UCS_OK);
    reply = 7;
    ep = first;
    request = amo(UCP_ATOMIC_OP_ADD, 1, &reply, 8, address_of(&words[WORD]));
    id = last_id();
    ep = other;
    feed_reply(id, UCS_OK, 1, sizeof(struct cw_wire_amo_reply));
    assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
    assert_int_equal(reply, 7);
    ep = first;
    assert_int_equal(wait_for(request), UCS_OK);
    assert_true(reply == background);
}

/* ---- calls ---- */

static void count_call(void *request, ucs_status_t status, void *user_data)
{
    (void)request;
    assert_int_equal(status, UCS_OK);
    assert_ptr_equal(user_data, &calls);
    calls++;
}

/* AMO-11, AMO-17: complete at once before there is a connection; operand, key and request memory are not needed. */
TEST_WITH(test_posted_before_connection, setup_idle, teardown)
{
    static char user[USER_BYTES], untouched[USER_BYTES];
    uint64_t operand = 3;
    ucp_request_param_t param = param_of(8, NULL);
    struct ucp_rkey *key = key_to(memh);

    memset(user, 0xcc, sizeof(user));
    memset(untouched, 0xcc, sizeof(untouched));
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_REQUEST;
    param.cb.send = count_call;
    param.user_data = &calls;
    param.request = user + USER_BYTES;
    assert_int_equal(ep->state, CW_EP_IDLE);
    for (unsigned i = 0; i < TIMES; i++) {
        operand = 3;
        assert_null(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &operand, 1, address_of(&words[WORD]), key, &param));
        operand = 1000000;
    }
    ucp_rkey_destroy(key);
    assert_int_equal(flush(), UCS_OK);
    assert_true(words[WORD] == background + 3 * TIMES);
    assert_int_equal(calls, 0);
    assert_memory_equal(user, untouched, sizeof(user));
}

TEST_WITH(test_posted_with_handle, setup, teardown)
{
    uint64_t operand = 5;
    ucp_request_param_t param = param_of(8, NULL);
    ucs_status_ptr_t request;

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.send = count_call;
    param.user_data = &calls;
    for (unsigned i = 1; i <= TIMES; i++) {
        operand = 5;
        request = ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &operand, 1, address_of(&words[WORD]), rkey, &param);
        operand = 0;
        assert_true(UCS_PTR_IS_PTR(request));
        assert_int_equal(wait_for(request), UCS_OK);
        assert_int_equal(calls, i);
    }
    assert_int_equal(flush(), UCS_OK);
    assert_true(words[WORD] == background + 5 * TIMES);
}

/* At most CW_RMA_WINDOW wait for their answer; the others follow (RMA-14). Each value comes once; freed early, too. */
TEST_WITH(test_window, setup, teardown)
{
    static uint64_t replies[TIMES];
    static ucs_status_ptr_t requests[TIMES];
    static int seen[TIMES];

    words[WORD] = 0;
    memset(seen, 0, sizeof(seen));
    for (unsigned i = 0; i < TIMES; i++) {
        requests[i] = amo(UCP_ATOMIC_OP_ADD, 1, &replies[i], 8, address_of(&words[WORD]));
        assert_true(UCS_PTR_IS_PTR(requests[i]));
        assert_true(cw_op_ep(ep)->rma->replies <= CW_RMA_WINDOW);
    }
    assert_int_equal(cw_op_ep(ep)->rma->replies, CW_RMA_WINDOW);
    for (unsigned i = 0; i < TIMES; i += 2) {
        ucp_request_free(requests[i]);
    }
    assert_int_equal(flush(), UCS_OK);
    for (unsigned i = 0; i < TIMES; i++) {
        if (i % 2 != 0) {
            assert_int_equal(ucp_request_check_status(requests[i]), UCS_OK);
            ucp_request_free(requests[i]);
        }
        assert_true(replies[i] < TIMES && !seen[replies[i]]++);
    }
    assert_int_equal(cw_op_ep(ep)->rma->replies, 0);
    assert_true(words[WORD] == TIMES);
}

/* OPA-16: what would have to wait is not done. */
TEST_WITH(test_forced, setup, teardown)
{
    uint64_t operand = 1, reply = 7;
    ucp_request_param_t param = param_of(8, &reply);

    param.op_attr_mask |= UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
    assert_int_equal(UCS_PTR_STATUS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &operand, 1, address_of(&words[WORD]),
                                                      rkey, &param)), UCS_ERR_NO_RESOURCE);
    param.op_attr_mask &= ~(uint32_t)UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    cw_rma_late_add(cw_op_ep(ep)->rma, address_of(words), sizeof(words));
    assert_int_equal(UCS_PTR_STATUS(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &operand, 1, address_of(&words[WORD]),
                                                      rkey, &param)), UCS_ERR_NO_RESOURCE);
    cw_rma_late_remove(cw_op_ep(ep)->rma);
    assert_int_equal(flush(), UCS_OK);
    expect_words_except(WORDS);
    assert_true(reply == 7);
    assert_null(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &operand, 1, address_of(&words[WORD]), rkey, &param));
    assert_int_equal(flush(), UCS_OK);
    assert_true(words[WORD] == background + 1);
}

/* R16: an atomic waits for a get of the same place that is still to be read, and only there; both forms, with a key
 * that reaches the memory, and without. */
TEST_WITH(test_waits_for_late_gets, setup, teardown)
{
    uint64_t reply[2] = {0};
    ucs_status_ptr_t request;

    for (int direct = 0; direct < 2; direct++) {
        cw_rkey_set_local(rkey, direct ? (char *)words : NULL);
        rkey->validity = &rkey->key.token;
        words[WORD] = 0;
        words[0] = 0;
        cw_rma_late_add(cw_op_ep(ep)->rma, address_of(&words[WORD]), 8);
        assert_int_equal(wait_for(amo(UCP_ATOMIC_OP_ADD, 1, &reply[0], 8, address_of(&words[0]))), UCS_OK);
        assert_true(words[0] == 1);
        request = amo(UCP_ATOMIC_OP_ADD, 1, &reply[1], 8, address_of(&words[WORD]));
        assert_true(UCS_PTR_IS_PTR(request));
        assert_null(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(&words[WORD])));
        for (unsigned i = 0; i < 100; i++) {
            ucp_worker_progress(worker);
        }
        assert_true(words[WORD] == 0);
        assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
        cw_rma_late_remove(cw_op_ep(ep)->rma);
        assert_int_equal(wait_for(request), UCS_OK);
        assert_true(reply[1] == 0);
        assert_int_equal(flush(), UCS_OK);
        assert_true(words[WORD] == 2);
    }
}

/* A direct atomic behind a fence waits for the packets before it, answered or not (FLU-20). */
TEST_WITH(test_waits_for_fence, setup, teardown)
{
    uint64_t first = 7, second = 7;
    ucs_status_ptr_t before, behind;

    for (int fetching = 0; fetching < 2; fetching++) {
        words[WORD] = 10;
        cw_rkey_set_local(rkey, NULL);
        before = amo(UCP_ATOMIC_OP_ADD, 1, fetching ? &first : NULL, 8, address_of(&words[WORD]));
        assert_int_equal(UCS_PTR_IS_PTR(before), fetching);
        assert_int_equal(ucp_worker_fence(worker), UCS_OK);
        cw_rkey_set_local(rkey, (char *)words);
        rkey->validity = &rkey->key.token;
        behind = amo(UCP_ATOMIC_OP_SWAP, 0, &second, 8, address_of(&words[WORD]));
        assert_true(words[WORD] == 10);
        assert_int_equal(wait_for(behind), UCS_OK);
        assert_int_equal(wait_for(before), UCS_OK);
        assert_true(words[WORD] == 0 && second == 11);
        assert_int_equal(flush(), UCS_OK);
    }
    assert_true(first == 10);
}

/* A get before a fence is read before anything behind the fence is written, wherever that is. */
TEST_WITH(test_late_gets_before_fence, setup, teardown)
{
    cw_rma_late_add(cw_op_ep(ep)->rma, address_of(&words[WORD]), 8);
    assert_int_equal(ucp_worker_fence(worker), UCS_OK);
    assert_null(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(&words[0])));
    for (unsigned i = 0; i < 100; i++) {
        ucp_worker_progress(worker);
    }
    assert_true(words[0] == background);
    cw_rma_late_remove(cw_op_ep(ep)->rma);
    assert_int_equal(flush(), UCS_OK);
    assert_true(words[0] == background + 1);
}

/* The endpoint ends with atomics in every state. */
TEST_WITH(test_end_of_endpoint, setup, teardown)
{
    static uint64_t replies[2 * CW_RMA_WINDOW];
    static ucs_status_ptr_t requests[2 * CW_RMA_WINDOW];
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    for (unsigned i = 0; i < 2 * CW_RMA_WINDOW; i++) {
        replies[i] = 7;
        requests[i] = amo(UCP_ATOMIC_OP_ADD, 1, &replies[i], 8, address_of(&words[WORD]));
        assert_null(amo(UCP_ATOMIC_OP_ADD, 1, NULL, 8, address_of(&words[WORD])));
    }
    assert_int_equal(wait_for(ucp_ep_close_nbx(ep, &force)), UCS_OK);
    for (unsigned i = 0; i < 2 * CW_RMA_WINDOW; i++) {
        assert_int_equal(wait_for(requests[i]), UCS_ERR_CANCELED);
        assert_true(replies[i] == 7);
    }
}
