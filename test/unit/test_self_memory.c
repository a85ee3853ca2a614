/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages within a worker take no memory from the C library once the first of their length went: otherwise it gives
 * pages back to the system and gets them anew, for each message, wherever its heap happens to end behind them.
 */
#include "test_alone.h"

#include <string.h>

enum { WINDOW = 16, ROUNDS = 20, LONGEST = 32700 };

static unsigned allocations;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    allocations++;
    return __real_malloc(size);
}

/* `late`: the messages are on their way before there are receives. */
static void exchange(ucp_worker_h worker, ucp_ep_h ep, const char *out, char *in, size_t length, bool late)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    ucs_status_ptr_t sends[WINDOW], receives[WINDOW];

    for (int i = 0; i < WINDOW; i++) {
        if (!late) {
            receives[i] = ucp_tag_recv_nbx(worker, in, length, (ucp_tag_t)i, UINT64_MAX, &none);
        }
        sends[i] = ucp_tag_send_nbx(ep, out, length, (ucp_tag_t)i, &none);
    }
    for (int i = 0; i < WINDOW && late; i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in, length, (ucp_tag_t)i, UINT64_MAX, &none);
    }
    for (int i = 0; i < WINDOW; i++) {
        assert_int_equal(cw_alone_wait(worker, sends[i]), UCS_OK);
        assert_int_equal(cw_alone_wait(worker, receives[i]), UCS_OK);
    }
}

TEST(messages_of_any_length)
{
    static const size_t lengths[] = {0, 8, 64, 65, 1000, 8192, 16384, 24000, LONGEST};
    char *out = malloc(LONGEST), *in = malloc(LONGEST);
    ucp_ep_params_t params = {.field_mask = 0};
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;

    assert_true(out != NULL && in != NULL);
    memset(out, 0x5a, LONGEST);
    setenv("UCX_RNDV_THRESH", "inf", 1);
    assert_true(cw_alone_open(UCP_FEATURE_TAG, &context, &worker));
    ep = cw_alone_connect(worker, params);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        exchange(worker, ep, out, in, lengths[i], false);
        exchange(worker, ep, out, in, lengths[i], true);
        allocations = 0;
        for (int round = 0; round < ROUNDS; round++) {
            memset(in, 0, lengths[i]);
            exchange(worker, ep, out, in, lengths[i], round % 2 == 0);
            assert_memory_equal(in, out, lengths[i]);
        }
        assert_int_equal(allocations, 0);
    }
    ucp_ep_destroy(ep);
    cw_alone_close(context, worker);
    free(in);
    free(out);
}
