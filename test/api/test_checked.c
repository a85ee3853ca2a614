/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What calls refuse in every build, here also what a build of the reference may leave unchecked: ABU-3, ABU-4; with
 * UCS_ERR_INVALID_PARAM where the call contradicts itself, and UCS_ERR_UNSUPPORTED where it cannot be done (ABU-10).
 */
#include "test_am_common.h"

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define REFUSED(call)  assert_int_equal(call, UCS_ERR_INVALID_PARAM)
#define REFUSED_P(ptr) assert_int_equal(UCS_PTR_RAW_STATUS(ptr), UCS_ERR_INVALID_PARAM)

static const struct cw_pair_config all = {.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
                                                      UCP_FEATURE_RMA | UCP_FEATURE_AMO64};

static ucs_status_t ignore(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)length, (void)param;
    return UCS_OK;
}

static ucs_status_t create_ep(struct cw_pair *pair, uint64_t mask)
{
    ucp_ep_params_t params;
    ucp_ep_h ep;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = mask;
    params.address = NULL;
    params.sockaddr.addr = NULL;
    params.sockaddr.addrlen = 0;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    return ucp_ep_create(pair->tx->worker, &params, &ep);
}

static ucs_status_t map(struct cw_pair *pair, uint64_t mask, void *address, size_t length, unsigned flags)
{
    ucp_mem_map_params_t params;
    ucp_mem_h memh;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = mask;
    params.address = address;
    params.length = length;
    params.flags = flags;
    return ucp_mem_map(pair->tx->context, &params, &memh);
}

static ucs_status_t set_handler(struct cw_pair *pair, uint64_t mask, uint32_t flags)
{
    ucp_am_handler_param_t param;

    memset(&param, 0xff, sizeof(param));
    param.field_mask = mask;
    param.id = 5;
    param.flags = flags;
    param.cb = ignore;
    param.arg = NULL;
    return ucp_worker_set_am_recv_handler(pair->rx->worker, &param);
}

/* ABU-3 */
API_TEST(test_abu3_checks_that_are_always_on)
{
    const uint64_t region = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                   id = UCP_AM_HANDLER_PARAM_FIELD_ID, cb = UCP_AM_HANDLER_PARAM_FIELD_CB;
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = 77};
    ucp_mem_advise_params_t far = {.field_mask = UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS |
                                                 UCP_MEM_ADVISE_PARAM_FIELD_LENGTH | UCP_MEM_ADVISE_PARAM_FIELD_ADVICE,
                                   .advice = UCP_MADV_WILLNEED};
    ucp_listener_params_t nobody = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR};
    ucp_request_param_t force = cw_param_none();
    ucp_mem_map_params_t params;
    ucp_listener_h listener;
    ucp_worker_h unused;
    char memory[64] = "";
    ucp_mem_h memh;

    cw_test_skip_reference("not every build checks");
    cw_pair_open(pair, &all);
    REFUSED(create_ep(pair, 0));
    REFUSED(create_ep(pair, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS));
    REFUSED(create_ep(pair, UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR));
    REFUSED(ucp_listener_create(pair->tx->worker, &nobody, &listener));
    REFUSED(ucp_worker_create(pair->tx->context, &worker, &unused));
    REFUSED(map(pair, UCP_MEM_MAP_PARAM_FIELD_ADDRESS, memory, 0, 0));                        /* MEM-1 */
    REFUSED(map(pair, region, NULL, 8, 0));                                                   /* MEM-4 */
    REFUSED(map(pair, region | UCP_MEM_MAP_PARAM_FIELD_FLAGS, memory, 8, UCP_MEM_MAP_FIXED)); /* MEM-6 */
    REFUSED(set_handler(pair, id, 0));
    REFUSED(set_handler(pair, cb, 0));
    REFUSED(set_handler(pair, id | cb | UCP_AM_HANDLER_PARAM_FIELD_FLAGS, 1u << 20));
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    REFUSED_P(ucp_ep_close_nbx(pair->tx->ep, &force)); /* in mode NONE */
    memset(&params, 0xff, sizeof(params));
    params.field_mask = region;
    params.address = memory;
    params.length = sizeof(memory);
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    far.address = memory + 1;
    far.length = sizeof(memory);
    REFUSED(ucp_mem_advise(pair->tx->context, memh, &far));
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    cw_pair_close(pair);
}

/* ABU-4 */
API_TEST(test_abu4_checks_that_some_builds_lack)
{
    uint64_t words[4] = {0};
    ucp_request_param_t param = cw_param_none(), word = cw_param_none();
    ucp_mem_map_params_t params;
    uintptr_t at = (uintptr_t)words;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    size_t size;
    void *key;

    cw_test_skip_reference("not every build checks");
    cw_pair_open(pair, &all);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = words;
    params.length = sizeof(words);
    assert_int_equal(ucp_mem_map(pair->rx->context, &params, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &key, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_FAST_CMPL | UCP_OP_ATTR_FLAG_MULTI_SEND;
    REFUSED_P(ucp_tag_send_nbx(pair->tx->ep, words, 8, 1, &param));
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = (ucs_memory_type_t)99;
    REFUSED_P(ucp_tag_send_nbx(pair->tx->ep, words, 8, 1, &param));
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH; /* beyond what it covers */
    param.memh = memh;
    REFUSED_P(ucp_tag_send_nbx(pair->tx->ep, words + 1, sizeof(words), 1, &param));
    param = cw_param_none();
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = 1; /* strided: no class that is supported */
    REFUSED_P(ucp_tag_send_nbx(pair->tx->ep, words, 1, 1, &param));
    param = cw_param_none();
    REFUSED_P(ucp_put_nbx(pair->tx->ep, NULL, 8, at, rkey, &param));
    REFUSED_P(ucp_get_nbx(pair->tx->ep, NULL, 8, at, rkey, &param));
    word.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    word.datatype = ucp_dt_make_contig(8);
    REFUSED_P(ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, words, 1, at + 1, rkey, &word));
    REFUSED_P(ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, words, 2, at, rkey, &word));
    REFUSED_P(ucp_atomic_op_nbx(pair->tx->ep, (ucp_atomic_op_t)99, words, 1, at, rkey, &word));
    word.datatype = ucp_dt_make_contig(4);
    REFUSED_P(ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, words, 1, at, rkey, &word)); /* without AMO32 */
    word.datatype = ucp_dt_make_contig(8);
    word.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    word.memh = memh;
    REFUSED_P(ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, words, 1, at, rkey, &word));
    REFUSED_P(ucp_am_send_nbx(pair->tx->ep, 1, words, (size_t)1 << 30, NULL, 0, &param));
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = 1u << 20;
    REFUSED_P(ucp_stream_send_nbx(pair->tx->ep, words, 8, &param));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(words[i], 0);
    }
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memh), UCS_OK);
    cw_pair_close(pair);
}

/* ABU-10: the worker reports to a descriptor of the program's, and has none of its own to give. */
API_TEST(test_abu10_legal_but_not_possible)
{
    struct cw_side side;
    int own, fd;

    own = epoll_create1(EPOLL_CLOEXEC);
    assert_true(own >= 0);
    cw_side_open_on_epoll(&side, own, NULL, 0);
    assert_int_equal(ucp_worker_get_efd(side.worker, &fd), UCS_ERR_UNSUPPORTED);
    cw_side_destroy(&side);
    close(own);
}
