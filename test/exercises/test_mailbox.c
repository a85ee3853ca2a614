/* SPDX-License-Identifier: BSD-3-Clause */
/* The transport of the exercise below a worker: every operation reaches the other end by its one send. */
#include <string.h>

#include "mailbox_transport.h"
#include "oneself.h"
#include "transport/registry.h"

/* In place of src/transport/registry.c. */
const struct cw_transport *const cw_transports[] = {&cw_mailbox_transport};
const unsigned cw_num_transports = 1;

enum { LONGEST = 100000, AM_ID = 3 };

static const size_t lengths[] = {0, 1, 8, 1000, 8192, LONGEST};
static const unsigned num_lengths = sizeof(lengths) / sizeof(lengths[0]);
static const ucp_request_param_t none;
static unsigned char there[LONGEST], here[LONGEST];
static unsigned calls;
static size_t called_with;

static ucs_status_t called(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    (void)arg, (void)header, (void)header_length, (void)data, (void)param;
    calls++;
    called_with = length;
    return UCS_OK;
}

static int set_up(void **state)
{
    const ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                                                          UCP_AM_HANDLER_PARAM_FIELD_CB,
                                            .id = AM_ID,
                                            .cb = called};

    (void)state;
    oneself_open(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64);
    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &handler), UCS_OK);
    for (size_t i = 0; i < LONGEST; i++) {
        here[i] = (unsigned char)(i * 7 + i / 251);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    finish(ucp_ep_close_nbx(ep, &none));
    oneself_close();
    return 0;
}

TEST(messages_with_tags_arrive)
{
    ucs_status_ptr_t receive;

    for (unsigned i = 0; i < num_lengths; i++) {
        memset(there, 0, sizeof(there));
        receive = ucp_tag_recv_nbx(worker, there, lengths[i], 1, UINT64_MAX, &none);
        finish(ucp_tag_send_nbx(ep, here, lengths[i], 1, &none));
        finish(receive);
        assert_memory_equal(there, here, lengths[i]);
    }
}

TEST(active_messages_arrive)
{
    for (unsigned i = 0; i < num_lengths; i++) {
        calls = 0;
        finish(ucp_am_send_nbx(ep, AM_ID, NULL, 0, here, lengths[i], &none));
        finish(ucp_ep_flush_nbx(ep, &none));
        while (calls == 0) {
            ucp_worker_progress(worker);
        }
        assert_int_equal(called_with, lengths[i]);
    }
}

TEST(puts_gets_and_additions_arrive)
{
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = there,
                                      .length = sizeof(there)};
    const ucp_request_param_t wide = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(8)};
    static unsigned char back[LONGEST];
    uint64_t one = 1, sum;
    size_t length;
    ucp_mem_h memh;
    ucp_rkey_h rkey;
    void *key;

    assert_int_equal(ucp_mem_map(context, &map, &memh), UCS_OK);
    assert_int_equal(ucp_rkey_pack(context, memh, &key, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    ucp_rkey_buffer_release(key);
    for (unsigned i = 0; i < num_lengths; i++) {
        memset(there, 0, sizeof(there));
        memset(back, 0, sizeof(back));
        finish(ucp_put_nbx(ep, here, lengths[i], (uintptr_t)there, rkey, &none));
        finish(ucp_ep_flush_nbx(ep, &none));
        assert_memory_equal(there, here, lengths[i]);
        finish(ucp_get_nbx(ep, back, lengths[i], (uintptr_t)there, rkey, &none));
        assert_memory_equal(back, here, lengths[i]);
    }
    memset(there, 0, 8);
    finish(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &one, 1, (uintptr_t)there, rkey, &wide));
    finish(ucp_ep_flush_nbx(ep, &none));
    memcpy(&sum, there, sizeof(sum));
    assert_int_equal(sum, 1);
    ucp_rkey_destroy(rkey);
    assert_int_equal(ucp_mem_unmap(context, memh), UCS_OK);
}

TEST(streams_arrive)
{
    size_t length;

    finish(ucp_stream_send_nbx(ep, here, 1000, &none));
    memset(there, 0, sizeof(there));
    finish(ucp_stream_recv_nbx(ep, there, 1000, &length,
                               &(ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                                      .flags = UCP_STREAM_RECV_FLAG_WAITALL}));
    assert_memory_equal(there, here, 1000);
}

int main(void)
{
    return cw_tests_run(set_up, tear_down);
}
