/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages between memory of devices of one process that no device can copy alone: the sender's device fills
 * chunks of memory of the host, the receiver's device copies from these, and no packet carries bytes of the message. On
 * the stand-in; the settings exclude names of the memory.
 */
#include "harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)3 << 20)
#include "standin_memory.h"
#include "standin_peer.h"
#include "chunk_packets.h"

enum { MESSAGES = 5, MANY = 8 };

/* ---- what arrives ---- */

/* Two copies for each chunk, for which progress does not wait; of device memory, of that of another device, of managed
 * memory and of a pool. The chunks are made once. */
API_TEST_WITH(test_messages, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    cuda_ptr managed, pool;
    unsigned pinned;

    cw_pair_open(pair, &config);
    moves(pair, from, to, 1);
    pinned = standin_calls("cuMemHostRegister_v2");
    moves(pair, to, from, 2);
    ok(cuMemAllocManaged(&managed, LENGTH, CUDA_MANAGED_GLOBAL));
    ok(cuMemAllocAsync(&pool, LENGTH, NULL));
    moves(pair, (char *)(uintptr_t)managed, to, 3);
    moves(pair, (char *)(uintptr_t)pool, (char *)(uintptr_t)managed, 4);
    assert_int_equal(standin_calls("cuMemHostRegister_v2"), pinned);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
    ok(cuMemFree_v2(managed));
    ok(cuMemFreeAsync(pool, NULL));
}

/* OPA-19, DT-1: any length, and a receive with more room than the message needs. */
API_TEST_WITH(test_lengths, setup, teardown)
{
    static const size_t lengths[] = {64 << 10,        (128 << 10) - 1,   128 << 10,     (128 << 10) + 1,
                                     (512 << 10) + 1, (1 << 20) + 12345, (2 << 20) - 1, LENGTH - 1};
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    fill(from, 1);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(scratch, 0x77, LENGTH);
        standin_peek(to, scratch, LENGTH);
        assert_int_equal(move_some(pair, from, to, lengths[i], &sent), UCS_OK);
        assert_int_equal(sent, UCS_OK);
        standin_peek(scratch, to, LENGTH);
        cw_pattern_check(scratch, lengths[i], 1);
        assert_int_equal(scratch[lengths[i]], 0x77);
    }
    no_bytes_in_packets();
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* UCX_RNDV_FRAG_SIZE is the length of a chunk, unless the message has less than four of them. */
API_TEST_WITH(test_the_setting, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    assert_int_equal(setenv("UCX_RNDV_FRAG_SIZE", "cuda:256K", 1), 0);
    cw_pair_open(pair, &config);
    assert_int_equal(unsetenv("UCX_RNDV_FRAG_SIZE"), 0);
    fill(from, 1);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    check(to, 1);
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], LENGTH >> 18);
    no_bytes_in_packets();
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* More messages at once than there are chunks: later ones wait for chunks of earlier ones. */
API_TEST_WITH(test_many_at_once, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    const unsigned pinned = standin_calls("cuMemHostRegister_v2");
    ucs_status_ptr_t sent[MANY], received[MANY];
    char *from[MANY], *to[MANY];

    cw_pair_open(pair, &config);
    for (unsigned i = 0; i < MANY; i++) {
        from[i] = device_new(LENGTH);
        to[i] = device_new(LENGTH);
        fill(from[i], i);
        received[i] = ucp_tag_recv_nbx(pair->rx->worker, to[i], LENGTH, i, CW_TAG_ALL, &param);
        sent[i] = ucp_tag_send_nbx(pair->tx->ep, from[i], LENGTH, i, &param);
    }
    for (unsigned i = 0; i < MANY; i++) {
        assert_int_equal(cw_pair_wait(pair, received[i], "a receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, sent[i], "a send"), UCS_OK);
        check(to[i], i);
        device_free(from[i]);
        device_free(to[i]);
    }
    no_bytes_in_packets();
    assert_true(standin_calls("cuMemHostRegister_v2") - pinned <= CW_WIRE_CHUNKS);
    cw_pair_close(pair);
}

static char *am_to;
static ucs_status_ptr_t am_received;

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    const ucp_request_param_t none = cw_param_none();

    (void)header, (void)header_length;
    assert_true(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    am_received = ucp_am_recv_data_nbx(arg, data, am_to, length, &none);
    return UCS_OK;
}

API_TEST_WITH(test_active_messages, setup, teardown)
{
    const struct cw_pair_config am_config = {.features = UCP_FEATURE_AM};
    const ucp_request_param_t param = cw_param_none();
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = 7,
                                      .cb = on_am};
    char *from = device_new(LENGTH);
    ucs_status_ptr_t sent;

    am_to = device_new(LENGTH);
    am_received = NULL;
    cw_pair_open(pair, &am_config);
    handler.arg = pair->rx->worker;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    fill(from, 3);
    sent = ucp_am_send_nbx(pair->tx->ep, 7, NULL, 0, from, LENGTH, &param);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    assert_true(UCS_PTR_IS_PTR(am_received));
    assert_int_equal(cw_pair_wait(pair, am_received, "a receive"), UCS_OK);
    check(am_to, 3);
    no_bytes_in_packets();
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], CHUNKS);
    cw_pair_close(pair);
    device_free(from);
    device_free(am_to);
}

struct remote_memory {
    ucp_rkey_h rkey;
    ucp_mem_h memh;
};

static void reach(struct cw_pair *pair, char *there, struct remote_memory *memory)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = there,
                                .length = LENGTH};
    const ucp_request_param_t param = cw_param_none();
    void *packed;
    size_t size;

    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memory->memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memory->memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &memory->rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
}

API_TEST_WITH(test_puts_and_gets, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *there = device_new(LENGTH), *back = device_new(LENGTH);
    struct remote_memory memory;

    cw_pair_open(pair, &config);
    reach(pair, there, &memory);
    for (uint64_t turn = 1; turn <= 3; turn++) {
        forget_counts();
        fill(from, turn);
        assert_int_equal(
            cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, from, LENGTH, (uintptr_t)there, memory.rkey, &param), "a put"),
            UCS_OK);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
        check(there, turn);
        assert_int_equal(
            cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, back, LENGTH, (uintptr_t)there, memory.rkey, &param), "a get"),
            UCS_OK);
        check(back, turn);
        no_bytes_in_packets();
        assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], 2 * CHUNKS);
        assert_int_equal(arrived[CW_PACKET_RNDV_COPIED], 1);
    }
    ucp_rkey_destroy(memory.rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memory.memh), UCS_OK);
    cw_pair_close(pair);
    device_free(from);
    device_free(there);
    device_free(back);
}

/* ---- it cannot be had ---- */

/* The driver pins nothing: all goes through packets, and tries at the receiver end with the first one. */
API_TEST_WITH(test_memory_that_cannot_be_pinned, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    standin_fail("cuMemHostRegister_v2", 0, CUDA_NO_MEMORY);
    for (uint64_t i = 0; i < MESSAGES; i++) {
        fill(from, i);
        assert_int_equal(move(pair, from, to, &sent), UCS_OK);
        assert_int_equal(sent, UCS_OK);
        check(to, i);
    }
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], 0);
    standin_fail(NULL, 0, 0);
    moves(pair, from, to, 77); /* the next message tries again */
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* Only some chunks can be pinned: the message goes by these. */
API_TEST_WITH(test_fewer_chunks, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    standin_fail("cuMemHostRegister_v2", 2, CUDA_NO_MEMORY);
    fill(from, 1);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    check(to, 1);
    no_bytes_in_packets();
    assert_int_equal(arrived[CW_PACKET_RNDV_CHUNK], CHUNKS);
    standin_fail(NULL, 0, 0);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* The receiver's device fails in the middle: the message comes in pieces, whole. */
TEST_WITH(test_a_copy_that_fails, setup, teardown)
{
    struct cw_pair *pair = *state;
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_t sent, received;
    unsigned copies;

    for (unsigned after = 0; after < 2 * CHUNKS; after++) {
        cw_pair_open(pair, &config);
        fill(from, after);
        standin_fail("cuMemcpyAsync", after, CUDA_ILLEGAL_ADDRESS);
        copies = standin_calls("cuMemcpyAsync");
        received = move(pair, from, to, &sent);
        assert_true(standin_calls("cuMemcpyAsync") - copies > after);
        assert_int_not_equal(received, UCS_OK); /* all later copies fail, too */
        standin_fail(NULL, 0, 0);
        cw_test_teardown(state);
        cw_test_setup(state);
        pair = *state;
    }
    device_free(from);
    device_free(to);
}

/* ---- ends ---- */

/* Starts a message in the process and goes on until the first chunks are under way. */
static void begin_message(struct cw_pair *pair, const char *from, char *to, ucs_status_ptr_t *sent,
                          ucs_status_ptr_t *received)
{
    const ucp_request_param_t param = cw_param_none();
    const double end_s = cw_time_now_s() + CW_WAIT_S;

    forget_counts();
    standin_delay(5000000, 0);
    *received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    *sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    while (arrived[CW_PACKET_RNDV_CHUNK] < 2 && cw_time_now_s() < end_s) {
        cw_pair_progress(pair);
    }
    assert_true(arrived[CW_PACKET_RNDV_CHUNK] >= 2);
}

/* Freed device memory is never used: the transfer ends with an error, and the process goes on. */
TEST_WITH(test_memory_that_is_freed_meanwhile, setup, teardown)
{
    ucs_status_ptr_t sent, received;

    for (int end = 0; end < 2; end++) {
        struct cw_pair *pair = *state;
        char *from = device_new(LENGTH), *to = device_new(LENGTH);

        cw_pair_open(pair, &config);
        begin_message(pair, from, to, &sent, &received);
        device_free(end ? from : to);
        assert_int_not_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        (void)cw_pair_wait(pair, sent, "a send");
        device_free(end ? to : from);
        cw_test_teardown(state);
        cw_test_setup(state);
    }
}

#if HAS_CONTEXTS
/* The context of either end's memory is destroyed. */
TEST_WITH(test_a_context_that_is_destroyed_meanwhile, setup, teardown)
{
    ucs_status_ptr_t sent, received;
    cuda_context context;

    for (int end = 0; end < 2; end++) {
        struct cw_pair *pair = *state;
        char *ours = device_new(LENGTH), *other;

        cw_pair_open(pair, &config);
        ok(cuCtxCreate_v2(&context, 0, 1));
        other = device_new(LENGTH);
        begin_message(pair, end ? other : ours, end ? ours : other, &sent, &received);
        ok(cuCtxDestroy_v2(context));
        ok(cuCtxSetCurrent(primary));
        assert_int_not_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        (void)cw_pair_wait(pair, sent, "a send");
        device_free(ours);
        cw_test_teardown(state);
        cw_test_setup(state);
    }
}

/* The chunks were pinned in a context that is gone: the next messages arrive all the same. */
API_TEST_WITH(test_a_context_that_is_destroyed_before, setup, teardown)
{
    char *to = device_new(LENGTH), *from;
    cuda_context context;
    ucs_status_t sent;

    cw_pair_open(pair, &config);
    ok(cuCtxCreate_v2(&context, 0, 1));
    from = device_new(LENGTH);
    fill(from, 1);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    ok(cuCtxDestroy_v2(context));
    ok(cuCtxSetCurrent(primary));
    from = device_new(LENGTH);
    fill(from, 2);
    assert_int_equal(move(pair, from, to, &sent), UCS_OK);
    check(to, 2);
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}
#endif

API_TEST_WITH(test_a_fork_meanwhile, setup, teardown)
{
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;
    int status;
    pid_t pid;

    cw_pair_open(pair, &config);
    fill(from, 1);
    begin_message(pair, from, to, &sent, &received);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    check(to, 1);
    no_bytes_in_packets();
    cw_pair_close(pair);
    device_free(from);
    device_free(to);
}

/* Once a request is over nothing reads or writes its memory any more. */
API_TEST_WITH(test_closing_under_a_message, setup, teardown)
{
    ucp_request_param_t force = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received, closed;

    cw_pair_open(pair, &peer_mode);
    begin_message(pair, from, to, &sent, &received);
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closed = ucp_ep_close_nbx(pair->tx->ep, &force);
    pair->tx->ep = NULL;
    assert_int_equal(cw_pair_wait(pair, closed, "a close"), UCS_OK);
    assert_int_not_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    assert_int_not_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    memset(scratch, 0x33, LENGTH);
    standin_peek(to, scratch, LENGTH);
    for (int i = 0; i < 1000; i++) {
        cw_pair_progress(pair);
    }
    (void)poll(NULL, 0, 40);
    standin_peek(scratch, to, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        assert_int_equal(scratch[i], 0x33);
    }
    device_free(from);
    device_free(to);
}
