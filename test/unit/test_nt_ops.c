/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every operation copies its long packets by its ring's state (base/nt_copy.h): the bytes that go by it are counted,
 * with copies through the caches and past them, and everything arrives. Two workers in one process, by rings alone.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/nt_copy.h"
#include "core/ep.h"
#include "core/rkey.h"

enum { LONG = 300000, TAG = 5, HANDLER = 3 };

void __real_cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length);
void __wrap_cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length);

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h eps[2];             /* of each worker to the other */
static uint8_t out[LONG], in[LONG];
static size_t by_far;
static unsigned handled;
static int past;
static const ucp_request_param_t none;

void __wrap_cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    by_far += length;
    nt->past = (uint8_t)past;
    nt->left = 1u << 30;
    __real_cw_nt_copy_long(nt, to, from, length);
}

static void wait_for(ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        assert_int_equal(UCS_PTR_STATUS(request), UCS_OK);
        return;
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(workers[0]);
        ucp_worker_progress(workers[1]);
    }
    assert_int_equal(ucp_request_check_status(request), UCS_OK);
    ucp_request_free(request);
}

static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    assert_int_equal(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV, 0);
    memcpy(in, data, length);
    handled++;
    return UCS_OK;
}

static ucp_ep_h connect_to(unsigned from)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_ep_h made;

    assert_int_equal(ucp_worker_query(workers[1 - from], &attr), UCS_OK);
    params.address = attr.address;
    assert_int_equal(ucp_ep_create(workers[from], &params, &made), UCS_OK);
    ucp_worker_release_address(workers[1 - from], attr.address);
    return made;
}

static int setup(void **state)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM |
                                         UCP_FEATURE_RMA};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                 .id = HANDLER,
                                 .cb = handler};
    size_t i;

    (void)state;
    setenv("UCX_TLS", "posix", 1); /* no copies by the system */
    setenv("UCX_RNDV_THRESH", "200000", 1);
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    for (i = 0; i < 2; i++) {
        assert_int_equal(ucp_worker_create(context, &worker_params, &workers[i]), UCS_OK);
    }
    for (i = 0; i < 2; i++) {
        eps[i] = connect_to((unsigned)i);
    }
    assert_int_equal(ucp_worker_set_am_recv_handler(workers[1], &am), UCS_OK);
    wait_for(ucp_ep_flush_nbx(eps[0], &none));
    for (i = 0; i < LONG; i++) {
        out[i] = (uint8_t)(i * 7 + i / 251);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ucp_worker_destroy(workers[0]);
    ucp_worker_destroy(workers[1]);
    ucp_cleanup(context);
    return 0;
}

static void begin(void)
{
    memset(in, 0, sizeof(in));
    by_far = 0;
}

/* All arrived, and went by the ring's state, but for what a shorter last packet holds. */
static void end(size_t length)
{
    assert_memory_equal(in, out, length);
    if (CW_NT_HELPS) {
        assert_in_range(by_far, length - (CW_NT_LEAST - 1), length);
    }
}

static void tag(size_t length, ucp_datatype_t datatype, const void *buffer, size_t count)
{
    ucp_request_param_t typed = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = datatype};
    ucs_status_ptr_t receive, send;

    begin();
    receive = ucp_tag_recv_nbx(workers[1], in, length, TAG, UINT64_MAX, &none);
    send = ucp_tag_send_nbx(eps[0], buffer, count, TAG, &typed);
    wait_for(receive);
    wait_for(send);
    end(length);
}

TEST(test_tag_messages)
{
    static const size_t lengths[] = {CW_NT_LEAST, 6000, 8000, 50000, LONG}; /* by one packet, several, rendezvous */
    const ucp_dt_iov_t iov[] = {{out, 8000}, {out + 8000, 7000}};
    size_t i;

    for (past = 0; past < 2; past++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            tag(lengths[i], ucp_dt_make_contig(1), out, lengths[i]);
        }
        tag(15000, UCP_DATATYPE_IOV, iov, 2);
    }
}

TEST(test_active_messages)
{
    static const size_t lengths[] = {CW_NT_LEAST, 6000, 8000, 50000};
    size_t i;
    ucs_status_ptr_t send;
    unsigned before;

    for (past = 0; past < 2; past++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            begin();
            before = handled;
            send = ucp_am_send_nbx(eps[0], HANDLER, NULL, 0, out, lengths[i], &none);
            while (handled == before) {
                ucp_worker_progress(workers[0]);
                ucp_worker_progress(workers[1]);
            }
            wait_for(send);
            end(lengths[i]);
        }
    }
}

TEST(test_streams)
{
    static const size_t lengths[] = {CW_NT_LEAST, 6000, 50000, LONG};
    const ucp_request_param_t whole = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    ucs_status_ptr_t receive, send;
    size_t i, length;

    for (past = 0; past < 2; past++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            begin();
            receive = ucp_stream_recv_nbx(eps[1], in, lengths[i], &length, &whole);
            send = ucp_stream_send_nbx(eps[0], out, lengths[i], &none);
            wait_for(receive);
            wait_for(send);
            end(lengths[i]);
        }
    }
}

/* Memory of the other worker, by packets only. */
static void reach(void *memory, ucp_mem_h *memh, ucp_rkey_h *rkey)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = memory,
                                   .length = LONG};
    size_t length;
    void *packed;

    assert_int_equal(ucp_mem_map(context, &params, memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, *memh, &packed, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(eps[0], packed, rkey), UCS_OK);
    ucp_rkey_buffer_release(packed);
    cw_rkey_set_local(*rkey, NULL);
    (*rkey)->key.validity = 0;
}

TEST(test_puts_and_gets)
{
    static const size_t lengths[] = {CW_NT_LEAST, 6000, 50000, LONG};
    ucp_rkey_h rkeys[2];
    ucp_mem_h memhs[2];
    size_t i;

    reach(in, &memhs[0], &rkeys[0]);
    reach(out, &memhs[1], &rkeys[1]);
    for (past = 0; past < 2; past++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            begin();
            wait_for(ucp_put_nbx(eps[0], out, lengths[i], (uint64_t)(uintptr_t)in, rkeys[0], &none));
            wait_for(ucp_ep_flush_nbx(eps[0], &none));
            end(lengths[i]);
            begin();
            wait_for(ucp_get_nbx(eps[0], in, lengths[i], (uint64_t)(uintptr_t)out, rkeys[1], &none));
            end(lengths[i]);
        }
    }
    for (i = 0; i < 2; i++) {
        ucp_rkey_destroy(rkeys[i]);
        assert_int_equal(ucp_mem_unmap(context, memhs[i]), UCS_OK);
    }
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
