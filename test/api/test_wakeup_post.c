/* SPDX-License-Identifier: BSD-3-Clause */
/* What is posted while the worker is armed (WAK-5, WAK-7): another thread does so while the one that progresses sleeps.
 * Whatever the library leaves to progress then has to make the descriptor readable, or nobody ever does it. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 24, LONGEST = 3 << 20 };

static const struct cw_pair_config config = {
    .features = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_STREAM |
                UCP_FEATURE_WAKEUP};

struct memory {
    char *local, *remote;
    ucp_mem_h handle;
    ucp_rkey_h key;
};

struct posts {
    ucs_status_ptr_t results[MOST];
    int count;
};

static void open_both(struct cw_pair *pair, struct memory *memory)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LONGEST};
    void *packed;
    size_t length;

    if (cw_test_self_only()) {
        cw_test_skip_reference("its self transport has no wake-up and refuses the endpoint");
    }
    cw_pair_open(pair, &config);
    *memory = (struct memory){.local = calloc(1, LONGEST), .remote = calloc(1, LONGEST)};
    params.address = memory->remote;
    assert_int_equal(ucp_mem_map(pair->rx->context, &params, &memory->handle), UCS_OK);
    assert_int_equal(ucp_rkey_pack(pair->rx->context, memory->handle, &packed, &length), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(pair->tx->ep, packed, &memory->key), UCS_OK);
    ucp_rkey_buffer_release(packed);
}

static void close_both(struct cw_pair *pair, struct memory *memory)
{
    ucp_rkey_destroy(memory->key);
    assert_int_equal(ucp_mem_unmap(pair->rx->context, memory->handle), UCS_OK);
    cw_pair_close(pair);
    free(memory->local);
    free(memory->remote);
}

/* So that endpoints are connected and nothing is under way. */
static void warm_up(struct cw_pair *pair, struct memory *memory)
{
    ucp_request_param_t param = cw_param_none();
    struct cw_op recv = {0};

    cw_op_recv(&recv, pair->rx->worker, memory->remote, 8, 1, CW_TAG_ALL);
    assert_int_equal(cw_pair_wait(pair, ucp_tag_send_nbx(pair->tx->ep, memory->local, 8, 1, &param), "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_pair_wait(pair, ucp_worker_flush_nbx(pair->tx->worker, &param), "flush"), UCS_OK);
    cw_pair_settle(pair);
}

static void add(struct posts *posts, ucs_status_ptr_t result)
{
    assert_true(posts->count < MOST && !UCS_PTR_IS_ERR(result));
    posts->results[posts->count++] = result;
}

static bool all_over(struct posts *posts)
{
    for (int i = 0; i < posts->count; i++) {
        if (posts->results[i] != NULL) {
            if (!ucp_request_is_completed(posts->results[i])) {
                return false;
            }
            assert_int_equal(ucp_request_check_status(posts->results[i]), UCS_OK);
            ucp_request_free(posts->results[i]);
            posts->results[i] = NULL;
        }
    }
    return true;
}

/* The sender progresses only once its descriptor says so; the other side spins. */
static void wait_asleep(struct cw_pair *pair, struct posts *posts, const char *what)
{
    double end = cw_time_now_s() + CW_WAIT_S;

    while (!all_over(posts)) {
        if (pair->rx != pair->tx) {
            ucp_worker_progress(pair->rx->worker);
        }
        if (cw_fd_poll(cw_worker_efd(pair->tx->worker), 0) != 0) {
            cw_worker_drain_and_arm(pair->tx->worker);
            end = cw_time_now_s() + CW_WAIT_S;
        } else if (cw_time_now_s() > end) {
            fail_msg("%s: the sender was not woken within %d s of its posts", what, CW_WAIT_S);
        }
    }
    posts->count = 0;
}

static void receive_all(struct cw_pair *pair, struct memory *memory, size_t length, int count)
{
    ucp_request_param_t param = cw_param_none();

    for (int i = 0; i < count; i++) {
        ucs_status_ptr_t recv = ucp_tag_recv_nbx(pair->rx->worker, memory->remote, length, 7, CW_TAG_ALL, &param);

        assert_int_equal(cw_pair_wait(pair, recv, "receive"), UCS_OK);
    }
}

API_TEST(test_wak7_sends_posted_asleep)
{
    static const size_t lengths[] = {8, 700, 5000, 40000, 400000, LONGEST};
    ucp_request_param_t param = cw_param_none();
    struct posts posts = {0};
    struct memory memory;

    open_both(pair, &memory);
    for (size_t warm = 0; warm < 2; warm++) { /* the very first ones have to connect */
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            struct cw_op recv[6] = {0};

            for (int n = 0; n < 6; n++) {
                cw_op_recv(&recv[n], pair->rx->worker, memory.remote, lengths[i], 7, CW_TAG_ALL);
            }
            cw_worker_drain_and_arm(pair->tx->worker);
            for (int n = 0; n < 6; n++) {
                add(&posts, ucp_tag_send_nbx(pair->tx->ep, memory.local, lengths[i], 7, &param));
            }
            wait_asleep(pair, &posts, "tag messages");
            for (int n = 0; n < 6; n++) {
                assert_int_equal(cw_op_wait(pair, &recv[n], "receive"), UCS_OK);
            }
        }
        warm_up(pair, &memory);
    }
    close_both(pair, &memory);
}

API_TEST(test_wak7_one_sided_operations_posted_asleep)
{
    static const size_t lengths[] = {8, 700, 5000, 40000, 400000};
    ucp_request_param_t param = cw_param_none(), add_param = cw_param_none();
    struct posts posts = {0};
    uint64_t one = 1, before[4];
    struct memory memory;

    add_param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
    add_param.datatype = ucp_dt_make_contig(8);
    open_both(pair, &memory);
    warm_up(pair, &memory);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        cw_worker_drain_and_arm(pair->tx->worker);
        for (int n = 0; n < 6; n++) {
            add(&posts, ucp_put_nbx(pair->tx->ep, memory.local, lengths[i], (uintptr_t)memory.remote, memory.key,
                                    &param));
        }
        add(&posts, ucp_ep_flush_nbx(pair->tx->ep, &param));
        wait_asleep(pair, &posts, "puts");
        cw_worker_drain_and_arm(pair->tx->worker);
        for (int n = 0; n < 6; n++) {
            add(&posts, ucp_get_nbx(pair->tx->ep, memory.local, lengths[i], (uintptr_t)memory.remote, memory.key,
                                    &param));
        }
        wait_asleep(pair, &posts, "gets");
    }
    cw_worker_drain_and_arm(pair->tx->worker);
    for (int n = 0; n < 4; n++) {
        add_param.reply_buffer = &before[n];
        add(&posts, ucp_atomic_op_nbx(pair->tx->ep, UCP_ATOMIC_OP_ADD, &one, 1, (uintptr_t)memory.remote, memory.key,
                                      &add_param));
    }
    wait_asleep(pair, &posts, "atomics");
    close_both(pair, &memory);
}

static ucs_status_t take(void *arg, const void *header, size_t header_length, void *data, size_t length,
                         const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    ++*(int *)arg;
    return UCS_OK; /* what was only announced is not wanted */
}

API_TEST(test_wak7_active_messages_and_streams_posted_asleep)
{
    static const size_t lengths[] = {8, 700, 5000, 40000, 400000};
    ucp_request_param_t param = cw_param_none();
    struct posts posts = {0};
    int handled = 0;
    ucp_am_handler_param_t handler;
    struct memory memory;

    handler = (ucp_am_handler_param_t){.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                     UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                       .id = 3, .cb = take, .arg = &handled};
    open_both(pair, &memory);
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    warm_up(pair, &memory);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        cw_worker_drain_and_arm(pair->tx->worker);
        for (int n = 0; n < 6; n++) {
            add(&posts, ucp_am_send_nbx(pair->tx->ep, 3, NULL, 0, memory.local, lengths[i], &param));
        }
        wait_asleep(pair, &posts, "active messages");
        cw_worker_drain_and_arm(pair->tx->worker);
        for (int n = 0; n < 3; n++) {
            add(&posts, ucp_stream_send_nbx(pair->tx->ep, memory.local, lengths[0], &param));
        }
        wait_asleep(pair, &posts, "streams");
    }
    cw_pair_settle(pair);
    assert_int_equal(handled, 30);
    close_both(pair, &memory);
}

/* The one that sleeps receives what came before: its call asks for the rest. */
API_TEST(test_wak7_receive_posted_asleep)
{
    static const size_t lengths[] = {8, 5000, 400000, LONGEST};
    ucp_request_param_t param = cw_param_none();
    struct posts posts = {0};
    ucp_tag_recv_info_t info;
    struct memory memory;

    open_both(pair, &memory);
    warm_up(pair, &memory);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        ucs_status_ptr_t sends[2];

        for (int n = 0; n < 2; n++) {
            sends[n] = ucp_tag_send_nbx(pair->rx->ep, memory.remote, lengths[i], 7, &param);
        }
        for (double end = cw_time_now_s() + CW_WAIT_S;
             ucp_tag_probe_nb(pair->tx->worker, 7, CW_TAG_ALL, 0, &info) == NULL;) {
            cw_pair_progress(pair);
            assert_true(cw_time_now_s() < end);
        }
        cw_pair_settle(pair);
        cw_worker_drain_and_arm(pair->tx->worker);
        for (int n = 0; n < 2; n++) {
            add(&posts, ucp_tag_recv_nbx(pair->tx->worker, memory.local + n * (LONGEST / 2), LONGEST / (n + 1), 7,
                                         CW_TAG_ALL, &param));
            if (lengths[i] == LONGEST) {
                break; /* the second half of the memory is too short for another one */
            }
        }
        wait_asleep(pair, &posts, "receives");
        if (lengths[i] == LONGEST) {
            add(&posts, ucp_tag_recv_nbx(pair->tx->worker, memory.local, LONGEST, 7, CW_TAG_ALL, &param));
            assert_int_equal(cw_pair_wait(pair, posts.results[0], "receive"), UCS_OK);
            posts.count = 0;
        }
        for (int n = 0; n < 2; n++) {
            assert_int_equal(cw_pair_wait(pair, sends[n], "send"), UCS_OK);
        }
    }
    close_both(pair, &memory);
}

/* Nothing is left behind: once the wake-up was seen, the worker sleeps. */
API_TEST(test_wak9_one_wakeup_is_enough)
{
    ucp_request_param_t param = cw_param_none();
    struct posts posts = {0};
    struct memory memory;

    open_both(pair, &memory);
    warm_up(pair, &memory);
    cw_worker_drain_and_arm(pair->tx->worker);
    for (int n = 0; n < 6; n++) {
        add(&posts, ucp_tag_send_nbx(pair->tx->ep, memory.local, 8, 7, &param));
    }
    wait_asleep(pair, &posts, "tag messages");
    receive_all(pair, &memory, 8, 6);
    cw_pair_settle(pair);
    cw_worker_drain_and_arm(pair->tx->worker);
    assert_int_equal(cw_fd_poll(cw_worker_efd(pair->tx->worker), 0), 0);
    close_both(pair, &memory);
}
