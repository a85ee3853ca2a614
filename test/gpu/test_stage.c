/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long messages of a GPU: chunks are copied to and from pinned memory while others travel, and progress waits for no
 * copy. On the stand-in, whose copies are late by the clock.
 */
#include "harness.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH ((size_t)8 << 20)
#include "standin_memory.h"

static int setup(void **state)
{
    begin();
    return cw_test_setup(state);
}

static int teardown(void **state)
{
    int status = cw_test_teardown(state);

    end();
    return status;
}

static void open_pair(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};

    cw_pair_open(pair, &config);
}

/* No call of progress waits for a copy, and a copy is of a chunk, not of a packet. */
API_TEST_WITH(test_progress_waits_for_no_copy, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    unsigned waits, copies;
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    for (int turn = 0; turn < 3; turn++) {
        fill(from, (uint64_t)turn);
        waits = standin_calls("cuStreamSynchronize") + standin_calls("cuEventSynchronize");
        copies = standin_calls("cuMemcpyAsync");
        sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
        received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
        assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        check(to, (uint64_t)turn);
        assert_int_equal(standin_calls("cuMemcpyAsync") - copies, 2 * (LENGTH >> (cw_test_tls_has("shm") ? 21 : 19)));
        assert_int_equal(standin_calls("cuStreamSynchronize") + standin_calls("cuEventSynchronize"), waits);
    }
    device_free(from);
    device_free(to);
    cw_pair_close(pair);
}

/* OPA-19, DT-1: any length, and a receive with more room than the message needs. */
API_TEST_WITH(test_lengths_beside_the_chunks, setup, teardown)
{
    static const size_t lengths[] = {(64 << 10) - 1,  64 << 10,      (64 << 10) + 1, (512 << 10) - 1,  512 << 10,
                                     (512 << 10) + 1, (2 << 20) - 1, (2 << 20) + 1,  (3 << 20) + 12345};
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    fill(from, 1);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        memset(scratch, 0x77, LENGTH);
        standin_peek(to, scratch, LENGTH);
        received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
        sent = ucp_tag_send_nbx(pair->tx->ep, from, lengths[i], 1, &param);
        assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
        standin_peek(scratch, to, LENGTH);
        cw_pattern_check(scratch, lengths[i], 1);
        assert_int_equal(scratch[lengths[i]], 0x77);
    }
    device_free(from);
    device_free(to);
    cw_pair_close(pair);
}

API_TEST_WITH(test_puts_and_gets, setup, teardown)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .length = LENGTH};
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *there = device_new(LENGTH), *back = device_new(LENGTH);
    ucs_status_ptr_t result;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    void *packed;
    size_t size;

    open_pair(pair);
    map.address = there;
    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    fill(from, 5);
    result = ucp_put_nbx(pair->tx->ep, from, LENGTH, (uintptr_t)there, rkey, &param);
    assert_int_equal(cw_pair_wait(pair, result, "a put"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "a flush"), UCS_OK);
    check(there, 5);
    result = ucp_get_nbx(pair->tx->ep, back, LENGTH, (uintptr_t)there, rkey, &param);
    assert_int_equal(cw_pair_wait(pair, result, "a get"), UCS_OK);
    check(back, 5);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    device_free(from);
    device_free(there);
    device_free(back);
    cw_pair_close(pair);
}

/* REQ-27: both ends of a transfer know of which type their memory is. */
API_TEST_WITH(test_requests_name_the_type, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    ucp_request_attr_t attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_MEM_TYPE};
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    for (int over = 0; over < 2; over++) {
        assert_int_equal(ucp_request_query(received, &attr), UCS_OK);
        assert_int_equal(attr.mem_type, DEVICE_TYPE);
        assert_int_equal(ucp_request_query(sent, &attr), UCS_OK);
        assert_int_equal(attr.mem_type, DEVICE_TYPE);
        while (!over && (ucp_request_check_status(received) == UCS_INPROGRESS ||
                         ucp_request_check_status(sent) == UCS_INPROGRESS)) {
            cw_pair_progress(pair);
        }
    }
    ucp_request_free(received);
    ucp_request_free(sent);
    device_free(from);
    device_free(to);
    cw_pair_close(pair);
}

/* REQ-27, for puts and gets on every path: with a request of their own, and complete within the call. */
API_TEST_WITH(test_puts_and_gets_name_the_type, setup, teardown)
{
    static const size_t lengths[] = {8, 20000, LENGTH};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                              UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                .length = LENGTH,
                                .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_request_param_t param = cw_param_none();
    ucp_request_attr_t attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_MEM_TYPE};
    ucp_mem_attr_t where = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    char *ours = device_new(LENGTH), *host = malloc(LENGTH);
    ucs_status_ptr_t requests[4];
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    uint64_t there;
    void *packed;
    size_t size;

    open_pair(pair);
    assert_int_equal(ucp_mem_map(pair->rx->context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_mem_query(memh, &where), UCS_OK);
    there = (uintptr_t)where.address;
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        requests[0] = ucp_put_nbx(pair->tx->ep, ours, lengths[i], there, rkey, &param);
        requests[1] = ucp_get_nbx(pair->tx->ep, ours, lengths[i], there, rkey, &param);
        requests[2] = ucp_put_nbx(pair->tx->ep, host, lengths[i], there, rkey, &param);
        requests[3] = ucp_get_nbx(pair->tx->ep, host, lengths[i], there, rkey, &param);
        for (int over = 0; over < 2; over++) {
            for (int j = 0; j < 4; j++) {
                assert_true(UCS_PTR_IS_PTR(requests[j]));
                assert_int_equal(ucp_request_query(requests[j], &attr), UCS_OK);
                assert_int_equal(attr.mem_type, (j < 2) ? DEVICE_TYPE : UCS_MEMORY_TYPE_HOST);
                while (!over && ucp_request_check_status(requests[j]) == UCS_INPROGRESS) {
                    cw_pair_progress(pair);
                }
            }
        }
        for (int j = 0; j < 4; j++) {
            assert_int_equal(ucp_request_check_status(requests[j]), UCS_OK);
            ucp_request_free(requests[j]);
        }
    }
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    cw_pair_close(pair);
    device_free(ours);
    free(host);
}

/* WAK-4: a program that sleeps until the worker's descriptor is readable gets there, though copies wake nobody. */
API_TEST_WITH(test_a_sleeper_wakes_for_copies, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received;
    struct pollfd fds[2];

    cw_pair_open_wakeup(pair);
    standin_delay(5000000, 0); /* longer than progress spins */
    fill(from, 9);
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    fds[0] = (struct pollfd){.fd = cw_worker_efd(pair->tx->worker), .events = POLLIN};
    fds[1] = (struct pollfd){.fd = cw_worker_efd(pair->rx->worker), .events = POLLIN};
    while (ucp_request_check_status(received) == UCS_INPROGRESS || ucp_request_check_status(sent) == UCS_INPROGRESS) {
        while (cw_pair_progress(pair) > 0) {
        }
        if (ucp_request_check_status(received) != UCS_INPROGRESS && ucp_request_check_status(sent) != UCS_INPROGRESS) {
            break;
        }
        if (ucp_worker_arm(pair->tx->worker) == UCS_OK && ucp_worker_arm(pair->rx->worker) == UCS_OK) {
            assert_true(poll(fds, 2, 10000) > 0);
        }
    }
    check(to, 9);
    ucp_request_free(received);
    ucp_request_free(sent);
    device_free(from);
    device_free(to);
    cw_pair_close(pair);
}

/* ---- ends ---- */

#if HAS_CONTEXTS
/* The program destroys the context under a transfer: nothing of it is touched, and nothing crashes. */
API_TEST_WITH(test_a_context_that_goes_meanwhile, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    char *host = malloc(LENGTH), *to;
    ucs_status_ptr_t sent, received;
    cuda_context context;

    open_pair(pair);
    ok(cuCtxCreate_v2(&context, 0, 1));
    to = device_new(LENGTH);
    standin_delay(300000, 0);
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, host, LENGTH, 1, &param);
    while (standin_calls("cuEventQuery") == 0 && ucp_request_check_status(received) == UCS_INPROGRESS) {
        cw_pair_progress(pair);
    }
    for (int i = 0; i < 50; i++) {
        cw_pair_progress(pair);
    }
    ok(cuCtxDestroy_v2(context));
    assert_int_equal(cw_pair_wait(pair, received, "a receive"), UCS_ERR_IO_ERROR);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_OK);
    free(host);
    cw_pair_close(pair);
}
#endif

/* The device fails while a message leaves: the send ends with that, and so does the endpoint, as the peer waits. */
API_TEST_WITH(test_a_device_that_fails_the_sender, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    char *host = malloc(LENGTH), *from = device_new(LENGTH);
    ucs_status_ptr_t sent, received;

    open_pair(pair);
    standin_fail("cuMemcpyAsync", 5, CUDA_ILLEGAL_ADDRESS);
    received = ucp_tag_recv_nbx(pair->rx->worker, host, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    assert_int_equal(cw_pair_wait(pair, sent, "a send"), UCS_ERR_IO_ERROR);
    assert_int_not_equal(cw_pair_wait(pair, received, "a receive"), UCS_OK);
    standin_fail(NULL, 0, 0);
    device_free(from);
    free(host);
}

/* Once a request is over nothing reads or writes its memory any more, whatever was under way. */
API_TEST_WITH(test_closing_under_a_transfer, setup, teardown)
{
    const ucp_request_param_t param = cw_param_none();
    ucp_request_param_t force = cw_param_none();
    char *from = device_new(LENGTH), *to = device_new(LENGTH);
    ucs_status_ptr_t sent, received, closed;

    open_pair(pair);
    standin_delay(20000000, 0);
    received = ucp_tag_recv_nbx(pair->rx->worker, to, LENGTH, 1, CW_TAG_ALL, &param);
    sent = ucp_tag_send_nbx(pair->tx->ep, from, LENGTH, 1, &param);
    for (int i = 0; i < 300; i++) {
        cw_pair_progress(pair);
    }
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    closed = ucp_ep_close_nbx(pair->tx->ep, &force);
    pair->tx->ep = NULL;
    (void)cw_pair_wait(pair, closed, "a close");
    (void)cw_pair_wait(pair, sent, "a send");
    (void)cw_pair_wait(pair, received, "a receive");
    memset(scratch, 0x33, LENGTH);
    standin_peek(to, scratch, LENGTH);
    standin_delay(0, 0);
    for (int i = 0; i < 1000; i++) {
        cw_pair_progress(pair);
    }
    (void)poll(NULL, 0, 20);
    standin_peek(scratch, to, LENGTH);
    for (size_t i = 0; i < LENGTH; i++) {
        assert_int_equal(scratch[i], 0x33);
    }
    device_free(from);
    device_free(to);
}
