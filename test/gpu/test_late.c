/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program makes its workers and sends memory of the host. Then it loads the driver of its GPU, and its next call
 * names memory of the device: MPI_Init before the first CUDA call (MTY-1, OPA-1). One case for each process, since a
 * driver is loaded only once; its name is the argument.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

enum { SHORT = 16, LONG = 1 << 20, FEATURES = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA |
                                              UCP_FEATURE_AMO64 };

static struct {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(unsigned long long *ptr, size_t length);
    int (*copy)(unsigned long long to, unsigned long long from, size_t length);
} driver;

static char *host, *copy; /* memory of the host, LONG bytes */
static char *device;      /* memory of the device, LONG bytes with the pattern 7 */

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);

    assert_non_null(address);
    return address;
}

static void load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *address, *context;
    unsigned long long ptr;

    assert_non_null(library);
    address = symbol(library, "cuInit");
    memcpy(&driver.init, &address, sizeof(address));
    address = symbol(library, "cuDevicePrimaryCtxRetain");
    memcpy(&driver.retain, &address, sizeof(address));
    address = symbol(library, "cuCtxSetCurrent");
    memcpy(&driver.set_current, &address, sizeof(address));
    address = symbol(library, "cuMemAlloc_v2");
    memcpy(&driver.alloc, &address, sizeof(address));
    address = symbol(library, "cuMemcpy");
    memcpy(&driver.copy, &address, sizeof(address));
    assert_int_equal(driver.init(0), 0);
    assert_int_equal(driver.retain(&context, 0), 0);
    assert_int_equal(driver.set_current(context), 0);
    assert_int_equal(driver.alloc(&ptr, LONG), 0);
    cw_pattern_fill(host, LONG, 7);
    assert_int_equal(driver.copy(ptr, (uintptr_t)host, LONG), 0);
    memset(host, 0, LONG);
    device = (char *)(uintptr_t)ptr;
}

static void check_device(size_t length, uint64_t seed)
{
    assert_int_equal(driver.copy((uintptr_t)host, (uintptr_t)device, length), 0);
    cw_pattern_check(host, length, seed);
}

/* Workers that have talked, with memory of the host that they know. */
static void begin(struct cw_pair *pair, ucs_thread_mode_t mode)
{
    const struct cw_pair_config config = {.features = FEATURES, .thread_mode = mode};
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t receive;

    host = calloc(1, LONG);
    copy = calloc(1, LONG);
    assert_true(host != NULL && copy != NULL);
    cw_pair_open(pair, &config);
    for (int i = 0; i < 3; i++) {
        receive = ucp_tag_recv_nbx(pair->rx->worker, copy, SHORT, 1, CW_TAG_ALL, &param);
        assert_int_equal(
            cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, host, SHORT, 1, &param), "the first message"), UCS_OK);
        assert_int_equal(cw_pair_wait(pair, receive, "the first message"), UCS_OK);
    }
}

static void begin_late(struct cw_pair *pair)
{
    begin(pair, UCS_THREAD_MODE_SINGLE);
    load(STANDIN_CUDA);
}

static void send_tag(struct cw_pair *pair, const void *from, void *to, size_t length)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(pair->rx->worker, to, length, 1, CW_TAG_ALL, &param);

    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, from, length, 1, &param), "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
}

API_TEST(test_tag_send)
{
    begin_late(pair);
    send_tag(pair, device, copy, SHORT);
    cw_pattern_check(copy, SHORT, 7);
}

API_TEST(test_tag_send_long)
{
    begin_late(pair);
    send_tag(pair, device, copy, LONG);
    cw_pattern_check(copy, LONG, 7);
}

API_TEST(test_tag_recv)
{
    begin_late(pair);
    cw_pattern_fill(copy, SHORT, 9);
    send_tag(pair, copy, device, SHORT);
    check_device(SHORT, 9);
}

API_TEST(test_tag_recv_long)
{
    begin_late(pair);
    cw_pattern_fill(copy, LONG, 9);
    send_tag(pair, copy, device, LONG);
    check_device(LONG, 9);
}

API_TEST(test_msg_recv)
{
    ucp_request_param_t param = cw_param_none();
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    begin(pair, UCS_THREAD_MODE_SINGLE);
    cw_pattern_fill(copy, SHORT, 9);
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, copy, SHORT, 1, &param), "the send"), UCS_OK);
    cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
    message = ucp_tag_probe_nb(pair->rx->worker, 1, CW_TAG_ALL, 1, &info);
    assert_non_null(message);
    load(STANDIN_CUDA);
    assert_int_equal(
        cw_pair_wait(pair, ucp_tag_msg_recv_nbx(pair->rx->worker, device, SHORT, message, &param), "the receive"),
        UCS_OK);
    check_device(SHORT, 9);
}

API_TEST(test_sync)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t receive;

    begin_late(pair);
    receive = ucp_tag_recv_nbx(pair->rx->worker, copy, SHORT, 1, CW_TAG_ALL, &param);
    assert_int_equal(
        cw_pair_wait(pair, ucp_tag_send_sync_nbx(pair->tx->ep, device, SHORT, 1, &param), "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
    cw_pattern_check(copy, SHORT, 7);
}

/* ---- active messages ---- */

static struct {
    ucp_worker_h worker;
    void *descriptor;
    int count;
} am;

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    am.count++;
    if (param->recv_attr & (UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA)) {
        am.descriptor = data;
        return UCS_INPROGRESS;
    }
    memcpy(copy, data, length);
    return UCS_OK;
}

static void set_handler(struct cw_pair *pair)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = 1,
                                            .cb = on_message};

    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
}

static void send_am(struct cw_pair *pair, const void *from, size_t length)
{
    ucp_request_param_t param = cw_param_none();
    const int before = am.count;
    ucs_status_ptr_t request = ucp_am_send_nbx(pair->tx->ep, 1, NULL, 0, from, length, &param);

    cw_pair_until(pair, am.count > before, "the message");
    if (length <= SHORT) {
        assert_int_equal(cw_pair_wait(pair, request, "the send"), UCS_OK);
    } else if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

API_TEST(test_am_send)
{
    begin(pair, UCS_THREAD_MODE_SINGLE);
    set_handler(pair);
    send_am(pair, host, SHORT);
    load(STANDIN_CUDA);
    send_am(pair, device, SHORT);
    cw_pattern_check(copy, SHORT, 7);
}

API_TEST(test_am_recv)
{
    ucp_request_param_t param = cw_param_none();

    begin(pair, UCS_THREAD_MODE_SINGLE);
    set_handler(pair);
    cw_pattern_fill(copy, LONG, 9);
    send_am(pair, copy, LONG);
    assert_non_null(am.descriptor);
    load(STANDIN_CUDA);
    assert_int_equal(
        cw_pair_wait(pair, ucp_am_recv_data_nbx(pair->rx->worker, am.descriptor, device, LONG, &param), "the data"),
        UCS_OK);
    check_device(LONG, 9);
}

/* ---- streams ---- */

static void stream(struct cw_pair *pair, const void *from, void *to)
{
    ucp_request_param_t param = cw_param_none();
    size_t got = 0;
    ucs_status_ptr_t receive, send;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_STREAM_RECV_FLAG_WAITALL;
    receive = ucp_stream_recv_nbx(pair->rx->ep, to, SHORT, &got, &param);
    param.op_attr_mask = 0;
    send = ucp_stream_send_nbx(pair->tx->ep, from, SHORT, &param);
    assert_int_equal(cw_pair_wait(pair, send, "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
}

API_TEST(test_stream_send)
{
    begin(pair, UCS_THREAD_MODE_SINGLE);
    stream(pair, host, copy);
    load(STANDIN_CUDA);
    stream(pair, device, copy);
    cw_pattern_check(copy, SHORT, 7);
}

API_TEST(test_stream_recv)
{
    begin(pair, UCS_THREAD_MODE_SINGLE);
    stream(pair, host, copy);
    load(STANDIN_CUDA);
    cw_pattern_fill(host, SHORT, 9);
    stream(pair, host, device);
    check_device(SHORT, 9);
}

/* ---- one-sided ---- */

struct target {
    ucp_mem_h memh;
    ucp_rkey_h key;
    char *memory;
};

static void target_open(struct cw_pair *pair, struct target *target)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = LONG,
                                         .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    void *packed;
    size_t length;

    assert_int_equal(ucp_mem_map(pair->rx->context, &params, &target->memh), UCS_OK);
    assert_int_equal(ucp_mem_query(target->memh, &attr), UCS_OK);
    target->memory = attr.address;
    assert_int_equal(ucp_rkey_pack(pair->rx->context, target->memh, &packed, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &target->key), UCS_OK);
    ucp_rkey_buffer_release(packed);
}

static void target_close(struct cw_pair *pair, struct target *target)
{
    ucp_rkey_destroy(target->key);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, target->memh), UCS_OK);
}

static void put(struct cw_pair *pair, struct target *target, const void *from, size_t length)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, from, length, (uintptr_t)target->memory, target->key,
                                                    &param), "the put"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "the flush"), UCS_OK);
}

static void get(struct cw_pair *pair, struct target *target, void *to, size_t length)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_get_nbx(pair->tx->ep, to, length, (uintptr_t)target->memory, target->key,
                                                    &param), "the get"), UCS_OK);
}

API_TEST(test_put)
{
    struct target target;

    begin(pair, UCS_THREAD_MODE_SINGLE);
    target_open(pair, &target);
    put(pair, &target, host, SHORT);
    load(STANDIN_CUDA);
    put(pair, &target, device, SHORT);
    cw_pattern_check(target.memory, SHORT, 7);
    put(pair, &target, device, LONG);
    cw_pattern_check(target.memory, LONG, 7);
    target_close(pair, &target);
}

API_TEST(test_get)
{
    struct target target;

    begin(pair, UCS_THREAD_MODE_SINGLE);
    target_open(pair, &target);
    get(pair, &target, host, SHORT);
    load(STANDIN_CUDA);
    cw_pattern_fill(target.memory, LONG, 9);
    get(pair, &target, device, SHORT);
    check_device(SHORT, 9);
    get(pair, &target, device, LONG);
    check_device(LONG, 9);
    target_close(pair, &target);
}

API_TEST(test_iov)
{
    ucp_request_param_t param = cw_param_none();
    ucp_dt_iov_t iov[2];
    ucs_status_ptr_t receive;

    begin_late(pair);
    iov[0] = (ucp_dt_iov_t){.buffer = device, .length = SHORT / 2};
    iov[1] = (ucp_dt_iov_t){.buffer = device + SHORT / 2, .length = SHORT / 2};
    receive = ucp_tag_recv_nbx(pair->rx->worker, copy, SHORT, 1, CW_TAG_ALL, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = UCP_DATATYPE_IOV;
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, iov, 2, 1, &param), "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
    cw_pattern_check(copy, SHORT, 7);
}

/* The call says that the memory is a device's. */
API_TEST(test_typed)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t receive;

    begin_late(pair);
    receive = ucp_tag_recv_nbx(pair->rx->worker, copy, SHORT, 1, CW_TAG_ALL, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_CUDA;
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, device, SHORT, 1, &param), "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
    cw_pattern_check(copy, SHORT, 7);
}

/* The memory is registered, and the call names the handle. */
API_TEST(test_mapped)
{
    ucp_request_param_t param = cw_param_none();
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LONG};
    ucs_status_ptr_t receive;
    ucp_mem_h memh;

    begin_late(pair);
    params.address = device;
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    receive = ucp_tag_recv_nbx(pair->rx->worker, copy, SHORT, 1, CW_TAG_ALL, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memh;
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, device, SHORT, 1, &param), "the send"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, receive, "the receive"), UCS_OK);
    cw_pattern_check(copy, SHORT, 7);
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
}

API_TEST(test_sgl)
{
    ucp_request_param_t param = cw_param_none();
    size_t lengths[2] = {SHORT, SHORT};
    void *buffers[2] = {host, host};
    ucp_dt_remote_sgl_t remote = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS};
    ucp_dt_local_sgl_t local = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS};
    struct target target;
    uint64_t addresses[2];
    ucp_rkey_h keys[2];

    begin(pair, UCS_THREAD_MODE_SINGLE);
    target_open(pair, &target);
    addresses[0] = (uintptr_t)target.memory;
    addresses[1] = addresses[0] + SHORT;
    keys[0] = keys[1] = target.key;
    buffers[0] = buffers[1] = host;
    local.buffers = buffers;
    local.lengths = lengths;
    remote.remote_addrs = addresses;
    remote.lengths = lengths;
    remote.rkeys = keys;
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE;
    param.datatype = param.remote_datatype = ucp_dt_make_sgl();
    param.remote = &remote;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cw_pair_wait(pair, ucp_put_nbx(pair->tx->ep, &local, 2, UCP_REMOTE_ADDR_INVALID,
                                                        UCP_RKEY_INVALID, &param), "the list"), UCS_OK);
        if (i == 0) {
            load(STANDIN_CUDA);
            buffers[0] = device;
            buffers[1] = device + SHORT;
        }
    }
    param = cw_param_none();
    assert_int_equal(cw_pair_wait(pair, ucp_ep_flush_nbx(pair->tx->ep, &param), "the flush"), UCS_OK);
    cw_pattern_check(target.memory, 2 * SHORT, 7);
    target_close(pair, &target);
}

/* Operands in memory of a device are refused, not touched. */
static void atomic(struct cw_pair *pair, bool in_reply)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t one = 1, old = 0;
    struct target target;

    begin(pair, UCS_THREAD_MODE_SINGLE);
    target_open(pair, &target);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    param.datatype = ucp_dt_make_contig(8);
    param.reply_buffer = &old;
    assert_int_equal(cw_pair_wait(pair, ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, &one, 1,
                                                          (uintptr_t)target.memory, target.key, &param),
                                  "the operation"), UCS_OK);
    load(STANDIN_CUDA);
    param.reply_buffer = in_reply ? (void *)device : &old;
    assert_int_equal(cw_pair_wait(pair, ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, in_reply ? (void *)&one :
                                                          (void *)device, 1, (uintptr_t)target.memory, target.key,
                                                          &param), "the operation"), UCS_ERR_UNSUPPORTED);
    target_close(pair, &target);
}

API_TEST(test_atomic)
{
    atomic(pair, false);
}

API_TEST(test_reply)
{
    atomic(pair, true);
}

/* The library of AMD's GPUs. */
API_TEST(test_hip)
{
    begin(pair, UCS_THREAD_MODE_SINGLE);
    load(STANDIN_HIP);
    send_tag(pair, device, copy, SHORT);
    cw_pattern_check(copy, SHORT, 7);
}

/* Calls that take a lock. */
API_TEST(test_multi)
{
    begin(pair, UCS_THREAD_MODE_MULTI);
    load(STANDIN_CUDA);
    send_tag(pair, device, copy, SHORT);
    cw_pattern_check(copy, SHORT, 7);
    cw_pattern_fill(copy, SHORT, 9);
    send_tag(pair, copy, device, SHORT);
    check_device(SHORT, 9);
}
