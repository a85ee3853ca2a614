/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory types that no memory domain of the process copies: every call refuses them with UCS_ERR_UNSUPPORTED and reads
 * and writes nothing; the buffer is at an address where a touch ends the program. And those that mean plain memory.
 */
#include "harness.h"

#include <string.h>
#include <sys/mman.h>

#define BYTES 4096u

static const ucs_memory_type_t types[] = {UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED, UCS_MEMORY_TYPE_ROCM,
                                          UCS_MEMORY_TYPE_ROCM_MANAGED, UCS_MEMORY_TYPE_RDMA, UCS_MEMORY_TYPE_ZE_HOST,
                                          UCS_MEMORY_TYPE_ZE_DEVICE, UCS_MEMORY_TYPE_ZE_MANAGED,
                                          UCS_MEMORY_TYPE_GAUDI};
static void *untouchable;

static void open_all(struct cw_pair *pair)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
                                                      UCP_FEATURE_RMA | UCP_FEATURE_AMO64};

    cw_pair_open(pair, &config);
    untouchable = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(untouchable, MAP_FAILED);
}

static void close_all(struct cw_pair *pair)
{
    munmap(untouchable, BYTES);
    cw_pair_close(pair);
}

static ucp_request_param_t param_of(ucs_memory_type_t type)
{
    ucp_request_param_t param = cw_param_none();

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = type;
    return param;
}

static void check_refused(ucs_status_ptr_t result)
{
    assert_true(UCS_PTR_IS_ERR(result));
    assert_int_equal(UCS_PTR_STATUS(result), UCS_ERR_UNSUPPORTED);
}

static ucp_rkey_h key_of(struct cw_pair *pair, void *memory, size_t length, ucp_mem_h *memh)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = length};
    ucp_rkey_h rkey;
    void *packed;
    size_t size;

    assert_int_equal(ucp_mem_map(pair->rx->context, &params, memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, *memh, &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    return rkey;
}

/* OPA-11, TAG, AM, STR */
API_TEST(test_opa11_messages_of_foreign_memory)
{
    ucp_dt_iov_t iov = {.length = BYTES};
    ucp_request_param_t param;
    size_t length;

    cw_test_skip_reference("it takes the program's word and reads the memory");
    open_all(pair);
    iov.buffer = untouchable;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        param = param_of(types[i]);
        check_refused(ucp_tag_send_nbx(pair->tx->ep, untouchable, 8, 1, &param));
        check_refused(ucp_tag_send_sync_nbx(pair->tx->ep, untouchable, BYTES, 1, &param));
        check_refused(ucp_tag_recv_nbx(pair->rx->worker, untouchable, BYTES, 1, CW_TAG_ALL, &param));
        check_refused(ucp_am_send_nbx(pair->tx->ep, 1, NULL, 0, untouchable, BYTES, &param));
        check_refused(ucp_stream_send_nbx(pair->tx->ep, untouchable, BYTES, &param));
        check_refused(ucp_stream_recv_nbx(pair->rx->ep, untouchable, BYTES, &length, &param));
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_iov();
        check_refused(ucp_tag_send_nbx(pair->tx->ep, &iov, 1, 1, &param));
        check_refused(ucp_tag_recv_nbx(pair->rx->worker, &iov, 1, 1, CW_TAG_ALL, &param));
    }
    close_all(pair);
}

/* OPA-11 */
API_TEST(test_opa11_one_sided_of_foreign_memory)
{
    uint64_t words[BYTES / sizeof(uint64_t)] = {7};
    ucp_request_param_t param;
    ucp_rkey_h rkey;
    ucp_mem_h memh;

    cw_test_skip_reference("it takes the program's word and reads the memory");
    open_all(pair);
    rkey = key_of(pair, words, sizeof(words), &memh);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        param = param_of(types[i]);
        check_refused(ucp_put_nbx(pair->tx->ep, untouchable, BYTES, (uintptr_t)words, rkey, &param));
        check_refused(ucp_get_nbx(pair->tx->ep, untouchable, BYTES, (uintptr_t)words, rkey, &param));
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param.datatype = ucp_dt_make_contig(8);
        check_refused(ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, untouchable, 1, (uintptr_t)words, rkey,
                                        &param));
    }
    assert_int_equal(words[0], 7);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    close_all(pair);
}

/* OPA-11: what says nothing. Numbers that said so at other levels: test/abi/levels.c. */
API_TEST(test_opa11_types_of_plain_memory)
{
    static const ucs_memory_type_t plain[] = {UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_UNKNOWN};
    ucp_request_param_t param;
    uint64_t sent, received;

    cw_test_skip_reference("its number of the unknown type is another one");
    open_all(pair);
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        struct cw_op recv = {0};

        param = param_of(plain[i]);
        sent = 1000 + i;
        cw_op_recv(&recv, pair->rx->worker, &received, sizeof(received), 5, CW_TAG_ALL);
        assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, &sent, sizeof(sent), 5, &param), "a send"),
                         UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recv, "a receive"), UCS_OK);
        assert_int_equal(received, sent);
    }
    close_all(pair);
}
