/* SPDX-License-Identifier: BSD-3-Clause */
/* Handles packed by the newer call, exported and imported: MEM-30..33, AMS-8. An older reference has none. */
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

#if UCP_API_VERSION >= UCP_VERSION(1, 16)
static const struct cw_pair_config plain = {.features = CW_RMA_FEATURES};

/* CTX-13. */
API_TEST(test_mem30_export)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_EXPORTED_MEMH};
    ucp_memh_pack_params_t params;
    ucp_memh_buffer_release_params_t release = {.field_mask = 0};
    ucp_mem_h memh, own;
    ucp_rkey_h key;
    void *blob = NULL, *plain_blob = NULL;
    size_t size = 0, plain_size = 0;

    cw_pair_open(pair, &config); /* MEM-33 */
    memh = cw_mem_map(pair->rx->context, NULL, 100, UCP_MEM_MAP_ALLOCATE);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS;
    params.flags = UCP_MEMH_PACK_FLAG_EXPORT;
    if (cw_test_self_only() || cw_test_tls_has("tcp")) {
        assert_int_equal(ucp_memh_pack(memh, &params, &blob, &size), UCS_ERR_UNSUPPORTED);
    }
    own = cw_mem_map(pair->rx->context, &own, sizeof(own), 0);
    assert_int_equal(ucp_memh_pack(own, &params, &blob, &size), UCS_ERR_UNSUPPORTED);
    cw_mem_unmap(pair->rx->context, own);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memh, &plain_blob, &plain_size), UCS_OK);
    for (int i = 0; i < 2; i++) { /* MEM-31 */
        params.field_mask = i == 0 ? 0 : UCP_MEMH_PACK_PARAM_FIELD_FLAGS;
        params.flags = i == 0 ? UINT64_MAX : 0;
        assert_int_equal(ucp_memh_pack(memh, &params, &blob, &size), UCS_OK);
        assert_int_equal(size, plain_size);
        assert_memory_equal(blob, plain_blob, size);
        assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, blob, &key), UCS_OK);
        ucp_rkey_destroy(key);
        ucp_memh_buffer_release(blob, &release);
    }
    ucp_rkey_buffer_release(plain_blob);
    cw_mem_unmap(pair->rx->context, memh);
    cw_pair_close(pair);
}

/* Exports what it allocated, fills it, and checks what the other one stores. */
static int exporter(int fd, const char *argument)
{
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_EXPORTED_MEMH};
    const ucp_memh_pack_params_t params = {.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS,
                                           .flags = UCP_MEMH_PACK_FLAG_EXPORT};
    const ucp_memh_buffer_release_params_t release = {.field_mask = 0};
    struct cw_side side;
    ucp_mem_h memh;
    void *blob = NULL;
    size_t size = 0;
    uint64_t wire;
    char *bytes;

    (void)argument;
    cw_side_open(&side, &config);
    memh = cw_mem_map(side.context, NULL, CW_MIB, UCP_MEM_MAP_ALLOCATE);
    bytes = cw_mem_query(memh).address;
    cw_pattern_fill(bytes, CW_MIB, 1);
    wire = ucp_memh_pack(memh, &params, &blob, &size) == UCS_OK ? size : 0;
    cw_fd_write(fd, &wire, 8);
    cw_fd_write(fd, blob, wire);
    if (wire > 0) {
        ucp_memh_buffer_release(blob, &release);
        cw_fd_barrier(fd, NULL);
        cw_pattern_check(bytes, CW_MIB, 2);
        cw_pattern_fill(bytes, CW_MIB, 3);
        cw_fd_barrier(fd, NULL);
    }
    cw_mem_unmap(side.context, memh);
    cw_fd_barrier(fd, NULL);
    cw_side_destroy(&side);
    return 0;
}

static void import_and_check(struct cw_pair *pair, struct cw_remote *remote, const unsigned char *blob)
{
    ucp_mem_map_params_t params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER);
    ucp_mem_attr_t attr;
    ucp_mem_h memh, handles[20];

    params.exported_memh_buffer = blob;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(ucp_mem_map(pair->tx->context, &params, &handles[i]), UCS_OK);
    }
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    for (int i = 0; i < 20; i++) {
        cw_mem_unmap(pair->tx->context, handles[i]);
    }
    attr = cw_mem_query(memh);
    assert_true(attr.address != NULL && attr.length >= CW_MIB);
    cw_pattern_check(attr.address, CW_MIB, 1);
    cw_pattern_fill(attr.address, CW_MIB, 2);
    cw_fd_barrier(remote->fd, NULL);
    cw_fd_barrier(remote->fd, NULL);
    cw_pattern_check(attr.address, CW_MIB, 3);
    cw_fd_barrier(remote->fd, NULL);
    memset(attr.address, 4, CW_MIB); /* nobody's any more, but no crash */
    cw_mem_unmap(pair->tx->context, memh);
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_FLAGS;
    params.flags = 0;
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_UNREACHABLE);
}

API_TEST(test_mem30_import_in_another_process)
{
    struct cw_remote remote;
    unsigned char blob[CW_BLOB_MAX] = {0};
    uint64_t length;

    cw_pair_open(pair, &plain);
    cw_remote_start(&remote, "exporter", NULL);
    cw_fd_read(remote.fd, &length, 8, NULL);
    assert_true(length <= sizeof(blob));
    cw_fd_read(remote.fd, blob, length, NULL);
    if (length > 0) {
        import_and_check(pair, &remote, blob);
    } else {
        print_message("There is no export here\n");
        cw_fd_barrier(remote.fd, NULL);
    }
    cw_remote_join(&remote);
    cw_pair_close(pair);
}

/* Every byte of a right one turned: refused, or at least nobody crashes. */
API_TEST(test_mem32_flipped)
{
    const ucp_memh_pack_params_t pack = {.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS,
                                         .flags = UCP_MEMH_PACK_FLAG_EXPORT};
    const ucp_memh_buffer_release_params_t release = {.field_mask = 0};
    ucp_mem_map_params_t params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER);
    unsigned char bytes[CW_BLOB_MAX] = {0};
    ucp_mem_h own, memh;
    void *blob = NULL;
    size_t size = 0;

    cw_pair_open(pair, &plain);
    own = cw_mem_map(pair->rx->context, NULL, 100000, UCP_MEM_MAP_ALLOCATE);
    params.exported_memh_buffer = bytes;
    if (ucp_memh_pack(own, &pack, &blob, &size) == UCS_OK) {
        for (size_t i = 0; i < 8 * size; i++) {
            memset(bytes, 0, sizeof(bytes));
            memcpy(bytes, blob, size);
            bytes[i / 8] ^= (unsigned char)(1 << i % 8);
            if (ucp_mem_map(pair->tx->context, &params, &memh) == UCS_OK) {
                cw_mem_unmap(pair->tx->context, memh);
            }
        }
        ucp_memh_buffer_release(blob, &release);
    }
    cw_mem_unmap(pair->rx->context, own);
    cw_pair_close(pair);
}

API_TEST(test_mem32_import)
{
    unsigned char *blob = calloc(1, CW_BLOB_MAX);
    ucp_mem_map_params_t params;
    uint64_t random = 1;
    ucs_status_t status;

    assert_non_null(blob);
    cw_pair_open(pair, &plain);
    for (int i = 0; i < 1000; i++) {
        params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER);
        params.exported_memh_buffer = blob;
        status = cw_mem_refusal(pair->tx->context, &params);
        assert_true(status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_UNREACHABLE);
        for (int k = 0; k < 100; k++) {
            blob[k] = (unsigned char)cw_random_next(&random);
        }
    }
    params = cw_mem_params(NULL, 100, UCP_MEM_MAP_ALLOCATE);
    params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER;
    params.exported_memh_buffer = blob;
    assert_int_equal(cw_mem_refusal(pair->tx->context, &params), UCS_ERR_INVALID_PARAM);
    free(blob);
    cw_pair_close(pair);
}

struct seen {
    ucp_worker_h worker;
    volatile int calls;
    uint64_t attr;
    char in[100];
};

static ucs_status_t message_came(void *arg, const void *header, size_t header_length, void *data, size_t length,
                                 const ucp_am_recv_param_t *param)
{
    ucp_request_param_t none = cw_param_none();
    struct seen *seen = arg;
    ucs_status_ptr_t fetched;

    (void)header;
    (void)header_length;
    assert_int_equal(length, sizeof(seen->in));
    memset(seen->in, 0, length);
    seen->calls++;
    seen->attr = param->recv_attr;
    fetched = ucp_am_recv_data_nbx(seen->worker, data, seen->in, length, &none);
    assert_false(UCS_PTR_IS_ERR(fetched));
    if (fetched != NULL) {
        ucp_request_free(fetched);
    }
    return UCS_OK;
}

static void send_from(struct cw_pair *pair, struct seen *seen, const void *bytes, ucp_mem_h memh, uint32_t flags)
{
    struct cw_op send = {0};
    ucp_request_param_t param = cw_param_send(&send);
    int calls = seen->calls + 1;

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param.memh = memh;
    if (flags != 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = flags;
    }
    cw_op_started(&send, ucp_am_send_nbx(pair->tx->ep, 5, "h", 1, bytes, sizeof(seen->in), &param));
    cw_pair_wait_count(pair, &seen->calls, calls, "active message");
    assert_int_equal(cw_op_wait(pair, &send, "send from imported memory"), UCS_OK);
    cw_pair_settle(pair);
    cw_pattern_check(seen->in, sizeof(seen->in), 5);
}

/* AMS-8: a message from imported memory is announced, however short. */
API_TEST(test_ams8_imported_memory_is_announced)
{
    static const struct cw_pair_config config = {.features = UCP_FEATURE_AM | UCP_FEATURE_EXPORTED_MEMH};
    const ucp_memh_pack_params_t pack = {.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS,
                                         .flags = UCP_MEMH_PACK_FLAG_EXPORT};
    const ucp_memh_buffer_release_params_t release = {.field_mask = 0};
    ucp_mem_map_params_t params = cw_mem_garbage(UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER);
    ucp_am_handler_param_t handler;
    struct seen seen = {0};
    ucp_mem_h own, memh;
    char *bytes;
    void *blob;
    size_t size;

    cw_pair_open(pair, &config);
    own = cw_mem_map(pair->tx->context, NULL, CW_MIB, UCP_MEM_MAP_ALLOCATE);
    if (ucp_memh_pack(own, &pack, &blob, &size) != UCS_OK) {
        cw_mem_unmap(pair->tx->context, own);
        cw_pair_close(pair);
        print_message("There is no export here\n");
        return;
    }
    params.exported_memh_buffer = blob;
    assert_int_equal(ucp_mem_map(pair->tx->context, &params, &memh), UCS_OK);
    ucp_memh_buffer_release(blob, &release);
    seen.worker = pair->rx->worker;
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = 5;
    handler.cb = message_came;
    handler.arg = &seen;
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    bytes = cw_mem_query(memh).address;
    cw_pattern_fill(bytes, sizeof(seen.in), 5);
    send_from(pair, &seen, bytes, memh, 0);
    assert_true(seen.attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    send_from(pair, &seen, bytes, memh, UCP_AM_SEND_FLAG_EAGER);
    assert_false(seen.attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    send_from(pair, &seen, cw_mem_query(own).address, own, 0); /* the same memory, by its owner's handle */
    assert_false(seen.attr & UCP_AM_RECV_ATTR_FLAG_RNDV);
    cw_mem_unmap(pair->tx->context, memh);
    cw_mem_unmap(pair->tx->context, own);
    cw_pair_close(pair);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"exporter", exporter}};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
#else
int main(void)
{
    print_message("Skipped: this interface has no exported handles\n");
    return 0;
}
#endif
