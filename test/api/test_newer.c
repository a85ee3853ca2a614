/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What levels after 1.16 added, but for puts and gets of many pieces (test_sgl.c) and configuration: N22-40..52,
 * N22-60..62, N22-70..74, N22-82, N22-110, N22-120..127.
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucp/api/device/ucp_host.h>

static int dummy;

static void *user_data_of(ucp_ep_h ep)
{
    ucp_ep_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_USER_DATA;
    assert_int_equal(ucp_ep_query(ep, &attr), UCS_OK);
    assert_int_equal((unsigned char)attr.name[0], 0xff);
    return attr.user_data;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    (void)status;
}

/* An endpoint to the worker of rx. */
static ucp_ep_h create(struct cw_pair *pair, ucp_ep_params_t *params)
{
    size_t length;
    void *address = cw_test_worker_address(pair->rx->worker, &length);
    ucp_ep_h ep;

    params->field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params->address = address;
    assert_int_equal(ucp_ep_create(pair->tx->worker, params, &ep), UCS_OK);
    free(address);
    return ep;
}

static ucp_ep_params_t ep_params(void)
{
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = 0;
    return params;
}

static void close_one(struct cw_pair *pair, ucp_ep_h ep)
{
    ucp_request_param_t param = cw_param_none();

    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &param), "close"), UCS_OK);
}

static void send_one(struct cw_pair *pair, ucp_ep_h ep, ucp_tag_t tag)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = tag + 3, in = 0;

    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), tag, CW_TAG_ALL);
    cw_op_send(&send, ep, &out, sizeof(out), tag);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
}

/* N22-50, N22-51. EP-34. */
API_TEST(test_n22_50_user_data)
{
    ucp_ep_params_t params = ep_params();
    ucp_ep_h ep;

    cw_pair_open(pair, NULL);
    ep = create(pair, &params);
    assert_null(user_data_of(ep));
    send_one(pair, ep, 1);
    assert_null(user_data_of(ep));
    params.field_mask = UCP_EP_PARAM_FIELD_USER_DATA;
    params.user_data = &dummy;
    assert_null(ucp_ep_modify_nb(ep, &params));
    assert_ptr_equal(user_data_of(ep), &dummy);
    close_one(pair, ep);
    params = ep_params();
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = on_error;
    params.err_handler.arg = &dummy;
    ep = create(pair, &params);
    assert_null(user_data_of(ep)); /* the handler's argument is something else */
    close_one(pair, ep);
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_USER_DATA;
    params.user_data = pair;
    ep = create(pair, &params);
    assert_ptr_equal(user_data_of(ep), pair);
    close_one(pair, ep);
    cw_pair_close(pair);
}

/* N22-50: a field that fails comes first. */
API_TEST(test_n22_50_user_data_after_what_fails)
{
    ucp_ep_attr_t attr;

    cw_pair_open(pair, NULL);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | UCP_EP_ATTR_FIELD_USER_DATA;
    attr.user_data = &dummy;
    assert_int_equal(ucp_ep_query(pair->tx->ep, &attr), UCS_ERR_NOT_CONNECTED);
    assert_ptr_equal(attr.user_data, &dummy);
    cw_pair_close(pair);
}

/* N22-52, N22-53 */
API_TEST(test_n22_52_n22_53_context_attributes)
{
    ucp_context_attr_t attr;
    char first[sizeof(attr.name)];

    cw_pair_open(pair, NULL);
    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_ATTR_FIELD_DEVICE_COUNTER_SIZE | UCP_ATTR_FIELD_NAME;
    assert_int_equal(ucp_context_query(pair->tx->context, &attr), UCS_OK);
    assert_int_equal(attr.device_counter_size, 8);
    assert_int_equal(attr.memory_types, UINT64_MAX);
    assert_int_equal(strncmp(attr.name, "ucp_context_", 12), 0);
    memcpy(first, attr.name, sizeof(first));
    assert_int_equal(ucp_context_query(pair->rx->context, &attr), UCS_OK);
    assert_int_equal(strcmp(first, attr.name) == 0, pair->tx == pair->rx);
    cw_pair_close(pair);
}

/* N22-60, N22-120: hints. */
API_TEST(test_n22_60_n22_120_hints_of_a_context)
{
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_params_t params;
    size_t ids[] = {0, 1, 7, SIZE_MAX};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct cw_side side = {0};

        memset(&params, 0xff, sizeof(params));
        params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NODE_LOCAL_ID;
        params.features = UCP_FEATURE_DEVICE | (i % 2 ? UCP_FEATURE_TAG : 0);
        params.node_local_id = ids[i];
        assert_int_equal(ucp_init(&params, NULL, &side.context), UCS_OK);
        assert_int_equal(ucp_worker_create(side.context, &worker_params, &side.worker), UCS_OK);
        ucp_worker_destroy(side.worker);
        ucp_cleanup(side.context);
    }
}

/* Opens a pair under settings, given as NAME, VALUE, ..., NULL, and puts, fences and reads back. */
static void works_with(struct cw_pair *pair, const char *const *settings)
{
    static const struct cw_pair_config config = {.features = CW_RMA_FEATURES};
    struct cw_target target;

    for (size_t i = 0; settings[i] != NULL; i += 2) {
        assert_int_equal(setenv(settings[i], settings[i + 1], 1), 0);
    }
    cw_pair_open(pair, &config);
    for (size_t i = 0; settings[i] != NULL; i += 2) {
        assert_int_equal(unsetenv(settings[i]), 0);
    }
    cw_target_open(&target, pair, NULL, CW_MEMORY_HEAP, CW_PAGE);
    cw_target_try(&target, 0);
    assert_int_equal(ucp_worker_fence(pair->tx->worker), UCS_OK);
    cw_target_try(&target, 64);
    cw_target_close(&target);
    cw_pair_close(pair);
}

/* N22-60 to N22-62, N23-50: whatever device that chooses, or none, peers stay reachable (unit.single_device has the
 * choice). */
API_TEST(test_n22_61_n22_62_node_local_id)
{
    static const char *const ids[] = {"0", "1", "77", "auto"};

    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        works_with(pair, (const char *const[]){"UCX_SINGLE_NET_DEVICE", "y", "UCX_NODE_LOCAL_ID", ids[i], NULL});
        works_with(pair, (const char *const[]){"UCX_NODE_LOCAL_ID", ids[i], NULL});
    }
}

/* N22-82: no round of recovery is not a number of rounds. */
API_TEST(test_n22_82_recovery_retries)
{
    static const char *const values[] = {"0", "1", "inf"};
    ucp_params_t params;
    ucp_context_h context;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        setenv("UCX_RECOVERY_RETRIES", values[i], 1);
        assert_int_equal(ucp_init(&params, NULL, &context), (i == 0) ? UCS_ERR_INVALID_PARAM : UCS_OK);
        if (i > 0) {
            ucp_cleanup(context);
        }
    }
    unsetenv("UCX_RECOVERY_RETRIES");
}

/* Whether the first and the last page are there. */
static int is_resident(void *address, size_t length)
{
    unsigned char seen[2];

    assert_int_equal(mincore(address, CW_PAGE, seen), 0);
    assert_int_equal(mincore((char *)address + length - CW_PAGE, CW_PAGE, seen + 1), 0);
    return (seen[0] & 1) && (seen[1] & 1);
}

/* N22-40, N22-45 */
API_TEST(test_n22_40_locked_pages_are_there)
{
    ucp_mem_attr_t attr;
    ucp_mem_h memh;
    void *own;

    cw_pair_open(pair, NULL);
    own = mmap(NULL, CW_MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(own, MAP_FAILED);
    assert_false(is_resident(own, CW_MIB));
    memh = cw_mem_map(pair->tx->context, own, CW_MIB, UCP_MEM_MAP_LOCK);
    assert_true(is_resident(own, CW_MIB));
    cw_mem_unmap(pair->tx->context, memh);
    munmap(own, CW_MIB);
    memh = cw_mem_map(pair->tx->context, NULL, CW_MIB, UCP_MEM_MAP_LOCK | UCP_MEM_MAP_ALLOCATE);
    attr = cw_mem_query(memh);
    assert_true(is_resident(attr.address, CW_MIB));
    cw_mem_unmap(pair->tx->context, memh);
    own = mmap(NULL, CW_MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* MEM-2 */
    assert_ptr_not_equal(own, MAP_FAILED);
    memh = cw_mem_map(pair->tx->context, own, CW_MIB, UCP_MEM_MAP_LOCK);
    cw_mem_unmap(pair->tx->context, memh);
    munmap(own, CW_MIB);
    cw_pair_close(pair);
}

/* N22-41, VER-22 */
API_TEST(test_n22_41_locked_and_nonblocking)
{
    const unsigned both = UCP_MEM_MAP_LOCK | UCP_MEM_MAP_NONBLOCK;
    ucp_mem_map_params_t params;
    char memory[64];
    ucp_mem_h memh;

    cw_pair_open(pair, NULL);
    params = cw_mem_params(memory, sizeof(memory), both);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    params = cw_mem_params(NULL, sizeof(memory), both | UCP_MEM_MAP_ALLOCATE);
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    memh = cw_mem_map(pair->tx->context, NULL, 0, both);
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}

/* N22-70, N22-76, VER-20: all kinds of operations work in the mode; by force it closes as with PEER (N22-84). */
API_TEST(test_n22_70_failover)
{
    ucp_ep_params_t params = ep_params();
    ucp_request_param_t force = cw_param_none();
    ucp_ep_h ep;

    if (!cw_test_tls_has("tcp")) {
        skip();
    }
    cw_pair_open(pair, NULL);
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_FAILOVER;
    params.err_handler.cb = on_error;
    ep = create(pair, &params);
    send_one(pair, ep, 4);
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &force), "close"), UCS_OK);
    cw_pair_close(pair);
}

/* N22-83: a DIAG line at creation, if nothing checks idle connections. */
API_TEST(test_n22_83_failover_needs_keepalive)
{
    ucp_ep_params_t params = ep_params();
    ucp_request_param_t force = cw_param_none();
    char text[4096];
    int saved[2], file;
    ucp_config_t *config;
    ucp_ep_h ep;

    assert_int_equal(ucp_config_read(NULL, NULL, &config), UCS_OK);
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = on_error;
    force.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    for (int i = 0; i < 4; i++) {
        params.err_mode = (i % 2 == 0) ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_FAILOVER;
        setenv("UCX_KEEPALIVE_INTERVAL", (i / 2 == 0) ? "20s" : "inf", 1);
        cw_pair_open(pair, NULL);
        unsetenv("UCX_KEEPALIVE_INTERVAL");
        assert_int_equal(ucp_config_modify(config, "LOG_LEVEL", "diag"), UCS_OK);
        file = cw_capture_start(saved);
        ep = create(pair, &params);
        cw_capture_end(file, saved, text, sizeof(text));
        assert_int_equal(ucp_config_modify(config, "LOG_LEVEL", "warn"), UCS_OK);
        assert_int_equal(strstr(text, "UCX_KEEPALIVE_INTERVAL is inf") != NULL, i == 3);
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(ep, &force), "close"), UCS_OK);
        cw_pair_close(pair);
    }
    ucp_config_release(config);
}

/* ---- lists of memory for devices ---- */

#define LIST (UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENTS | UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENT_SIZE | \
              UCP_DEVICE_MEM_LIST_PARAMS_FIELD_NUM_ELEMENTS | UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER)

static ucp_device_mem_list_params_t list_of(ucp_worker_h worker, ucp_device_mem_list_elem_t *entries, size_t count)
{
    ucp_device_mem_list_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = LIST;
    params.element_size = sizeof(*entries);
    params.num_elements = count;
    params.worker = worker;
    params.elements = entries;
    return params;
}

static ucs_status_t local_list(const ucp_device_mem_list_params_t *params)
{
    ucp_device_local_mem_list_h list = (void *)&dummy;
    ucs_status_t status = ucp_device_local_mem_list_create(params, &list);

    assert_ptr_equal(list, &dummy); /* N22-124 */
    return status;
}

static ucs_status_t remote_list(const ucp_device_mem_list_params_t *params)
{
    ucp_device_remote_mem_list_h list = (void *)&dummy;
    ucs_status_t status = ucp_device_remote_mem_list_create(params, &list);

    assert_ptr_equal(list, &dummy); /* N23-41 */
    return status;
}

/* N22-122, N22-125 */
API_TEST(test_n22_122_local_list)
{
    ucp_device_mem_list_elem_t entries[3];
    ucp_device_mem_list_params_t params;
    char memory[64];
    ucp_mem_h memh;

    cw_pair_open(pair, NULL);
    memh = cw_mem_map(pair->tx->context, memory, sizeof(memory), 0);
    memset(entries, 0xff, sizeof(entries));
    for (int i = 0; i < 3; i++) {
        entries[i].field_mask = UCP_DEVICE_MEM_LIST_ELEM_FIELD_MEMH;
        entries[i].memh = memh;
    }
    params = list_of(pair->tx->worker, entries, 3);
    assert_int_equal(local_list(&params), UCS_ERR_UNSUPPORTED);
    for (uint64_t bit = 1; bit <= UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER; bit <<= 1) {
        params.field_mask = LIST & ~bit;
        assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    }
    assert_int_equal(local_list(NULL), UCS_ERR_INVALID_PARAM);
    params = list_of(NULL, entries, 3);
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params = list_of(pair->tx->worker, NULL, 3);
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params = list_of(pair->tx->worker, entries, 0);
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params = list_of(pair->tx->worker, entries, SIZE_MAX); /* a list that lies about its length */
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params = list_of(pair->tx->worker, entries, 3);
    params.element_size = 0;
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params.element_size = sizeof(uint64_t); /* entries without the member that they name */
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    params.element_size = 16; /* enough for it */
    params.num_elements = 1;
    assert_int_equal(local_list(&params), UCS_ERR_UNSUPPORTED);
    params = list_of(pair->tx->worker, entries, 3);
    entries[1].memh = NULL;
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    entries[1].memh = memh;
    entries[2].field_mask = 0; /* no gaps here */
    assert_int_equal(local_list(&params), UCS_ERR_INVALID_PARAM);
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}

/* N22-123, N22-125: the caller repeats until the endpoints are connected, as NIXL does, and is then refused. */
API_TEST(test_n22_123_remote_list)
{
    const struct cw_pair_config config = {.features = UCP_FEATURE_RMA | UCP_FEATURE_DEVICE};
    ucp_device_mem_list_elem_t entries[3];
    ucp_device_mem_list_params_t params;
    struct cw_region region;
    ucs_status_t status;
    ucp_rkey_h rkey;
    int file, saved[2];
    char text[1024];

    cw_pair_open(pair, &config);
    cw_region_open(&region, pair->rx->context, CW_MEMORY_HEAP, 64);
    rkey = cw_region_key(&region, pair->tx->ep);
    memset(entries, 0xff, sizeof(entries));
    entries[0].field_mask = UCP_DEVICE_MEM_LIST_ELEM_FIELD_RKEY | UCP_DEVICE_MEM_LIST_ELEM_FIELD_EP |
                            UCP_DEVICE_MEM_LIST_ELEM_FIELD_REMOTE_ADDR;
    entries[0].rkey = rkey;
    entries[0].ep = pair->tx->ep;
    entries[1].field_mask = 0;
    entries[2] = entries[0];
    params = list_of(NULL, entries, 3);
    params.field_mask &= ~(uint64_t)UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER;
    file = cw_capture_start(saved);
    while ((status = remote_list(&params)) == UCS_ERR_NOT_CONNECTED) {
        cw_pair_progress(pair);
    }
    cw_capture_end(file, saved, text, sizeof(text));
    assert_int_equal(status, UCS_ERR_UNSUPPORTED);
    assert_non_null(strstr(text, "no device"));
    assert_null(strstr(strstr(text, "no device") + 1, "ERROR")); /* one line, when all was there */
    for (uint64_t bit = 1; bit < UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER; bit <<= 1) {
        params.field_mask = LIST & ~bit;
        assert_int_equal(remote_list(&params), UCS_ERR_INVALID_PARAM);
    }
    params.field_mask = LIST;
    entries[2].field_mask &= ~(uint64_t)UCP_DEVICE_MEM_LIST_ELEM_FIELD_RKEY;
    assert_int_equal(remote_list(&params), UCS_ERR_INVALID_PARAM);
    entries[2] = entries[0];
    entries[2].ep = NULL;
    assert_int_equal(remote_list(&params), UCS_ERR_INVALID_PARAM);
    entries[0].field_mask = 0;
    entries[2].field_mask = 0;
    assert_int_equal(remote_list(&params), UCS_ERR_INVALID_PARAM); /* nothing but gaps */
    ucp_rkey_destroy(rkey);
    cw_region_close(&region);
    cw_pair_close(pair);
}

/* N22-126 */
API_TEST(test_n22_126_what_is_no_list)
{
    assert_int_equal(ucp_device_get_mem_list_length(NULL), 0);
    assert_int_equal(ucp_device_get_mem_list_length(&dummy), 0);
    ucp_device_mem_list_release(&dummy);
    ucp_device_mem_list_release(NULL);
}

/* N22-127. N22-121. */
API_TEST(test_n22_127_counters)
{
    ucp_device_counter_params_t params;
    uint64_t counters[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    uint64_t *counter = &counters[1];
    ucp_mem_h memh;

    cw_pair_open(pair, NULL);
    memh = cw_mem_map(pair->tx->context, counter, sizeof(*counter), 0);
    for (int variant = 0; variant < 4; variant++) {
        memset(&params, 0xff, sizeof(params));
        params.field_mask = 0;
        if (variant == 1) {
            params.field_mask = UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE;
            params.mem_type = UCS_MEMORY_TYPE_HOST;
        } else if (variant == 2) {
            params.field_mask = UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE;
            params.mem_type = UCS_MEMORY_TYPE_UNKNOWN;
        } else if (variant == 3) {
            params.field_mask = UCP_DEVICE_COUNTER_PARAMS_FIELD_MEMH | UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE;
            params.mem_type = UCS_MEMORY_TYPE_CUDA; /* the registration knows better */
            params.memh = memh;
        }
        *counter = UINT64_MAX;
        assert_int_equal(ucp_device_counter_init(pair->tx->worker, &params, counter), UCS_OK);
        assert_true(counters[0] == UINT64_MAX && counters[1] == 0 && counters[2] == UINT64_MAX);
        *counter = UINT64_C(0x123456789abcdef0);
        assert_true(ucp_device_counter_read(pair->tx->worker, &params, counter) == *counter);
    }
    params.field_mask = UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE;
    params.mem_type = UCS_MEMORY_TYPE_CUDA;
    assert_int_equal(ucp_device_counter_init(pair->tx->worker, &params, counter), UCS_ERR_UNSUPPORTED);
    params.mem_type = (ucs_memory_type_t)(UCS_MEMORY_TYPE_LAST + 1);
    assert_int_equal(ucp_device_counter_init(pair->tx->worker, &params, counter), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCP_DEVICE_COUNTER_PARAMS_FIELD_MEMH;
    assert_int_equal(ucp_device_counter_init(pair->tx->worker, &params, counter + 1), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_device_counter_init(NULL, &params, counter), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_device_counter_init(pair->tx->worker, &params, NULL), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_device_counter_read(pair->tx->worker, &params, NULL), 0);
    assert_true(*counter == UINT64_C(0x123456789abcdef0));
    cw_mem_unmap(pair->tx->context, memh);
    cw_pair_close(pair);
}
