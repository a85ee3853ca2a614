/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers that end under puts, messages and flushes over verbs: the flush of their endpoint fails, that of the worker
 * does not (FLU-2, FLU-4), however long the device takes to return the requests.
 */
#include "test_verbs_sides.h"

enum { LONG = 1 << 16, PUTS = 3 };

static const ucp_request_param_t none = {.op_attr_mask = 0};

static char *here, *there;
static ucp_mem_h memhs[2];
static ucp_rkey_h key;
static ucp_ep_h lost, other;

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_KEEPALIVE_INTERVAL", "1000s", 1);
    setenv("UCX_LOG_LEVEL", "error", 1); /* messages to a peer that ends are never matched */
    device_is.num_devices = 1;
    return 0;
}

static ucp_mem_h map(unsigned side, char **memory_p)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = LONG};
    ucp_mem_h memh;

    params.address = *memory_p = calloc(1, LONG);
    assert_non_null(*memory_p);
    assert_int_equal(ucp_mem_map(sides[side].context, &params, &memh), UCS_OK);
    return memh;
}

static void reach(ucp_ep_h ep, unsigned side, uint32_t word)
{
    ucs_status_ptr_t sent = send_word(ep, &word, 1);

    expect_word(side, 1, word);
    assert_int_equal(end_request(sent), UCS_OK);
}

static void open_all(void)
{
    void *packed;
    size_t size;

    open_sides(3, 256);
    failures = 0;
    memhs[0] = map(0, &here);
    memhs[1] = map(1, &there);
    lost = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    other = connect_ep(0, 2, UCP_ERR_HANDLING_MODE_NONE);
    assert_int_equal(ucp_rkey_pack(sides[1].context, memhs[1], &packed, &size), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(lost, packed, &key), UCS_OK);
    ucp_rkey_buffer_release(packed);
    reach(lost, 1, 5);
    reach(other, 2, 6);
    assert_int_equal(end_request(ucp_put_nbx(lost, here, LONG, (uintptr_t)there, key, &none)), UCS_OK);
    assert_int_equal(end_request(ucp_worker_flush_nbx(sides[0].worker, &none)), UCS_OK);
}

static void close_all(void)
{
    ucp_rkey_destroy(key);
    (void)ucp_mem_unmap(sides[0].context, memhs[0]);
    (void)ucp_mem_unmap(sides[1].context, memhs[1]);
    device_is.stands = 0;
    close_sides();
    free(here);
    free(there);
}

static ucs_status_ptr_t put(size_t length)
{
    return ucp_put_nbx(lost, here, length, (uintptr_t)there, key, &none);
}

/* The device of the peer does not answer any more, which this side learns from its own device or from the system. */
static void end_peer(pid_t child)
{
    struct cw_verbs_conn *conn = cw_list_head(&iface_of(1)->conns, struct cw_verbs_conn, link);

    conn->qp->state = IBV_QPS_ERR;
    device_is.repeats = child != 0;
    if (child != 0) {
        kill_child(child);
    }
}

/* `progressed`: how often before the peer ends. */
static void lose_peer(bool is_watched, int flushes_late, unsigned progressed)
{
    const pid_t child = is_watched ? start_child() : 0;
    const uint32_t word = 9;
    ucs_status_ptr_t sent[3 * PUTS + 2], flushes[4];
    unsigned i;

    open_all();
    num_sides = 1;
    device_is.stands = 1;
    for (i = 0; i < PUTS; i++) {
        sent[3 * i] = put(8);
        sent[3 * i + 1] = put(LONG);
        sent[3 * i + 2] = send_word(lost, &word, 1);
    }
    flushes[0] = ucp_ep_flush_nbx(lost, &none);
    flushes[1] = ucp_worker_flush_nbx(sides[0].worker, &none);
    sent[3 * PUTS] = put(8);
    flushes[2] = ucp_ep_flush_nbx(lost, &none);
    flushes[3] = ucp_worker_flush_nbx(sides[0].worker, &none);
    for (i = 0; i < 4; i++) {
        assert_true(UCS_PTR_IS_PTR(flushes[i]));
    }
    device_is.stands = 0;
    for (i = 0; i < progressed; i++) {
        progress();
    }
    device_is.flushes_late = flushes_late;
    end_peer(child);
    sent[3 * PUTS + 1] = put(LONG);
    for (i = 0; i < 4; i++) {
        const ucs_status_t status = end_request(flushes[i]);

        assert_true((i % 2 == 0) ? status < 0 || progressed > 0 : status == UCS_OK);
    }
    for (i = 0; i < 3 * PUTS + 2; i++) {
        (void)end_request(sent[i]);
    }
    pass(500);
    assert_int_equal(failures, 1);
    assert_true(UCS_PTR_IS_ERR(ucp_ep_flush_nbx(lost, &none)));
    assert_int_equal(end_request(ucp_worker_flush_nbx(sides[0].worker, &none)), UCS_OK);
    num_sides = 3;
    reach(other, 2, 7);
    device_is.flushes_late = 0;
    device_is.repeats = 1;
    close_all();
    forget_child();
}

TEST_WITH(test_flu4_device_reports, setup, NULL)
{
    for (unsigned progressed = 0; progressed < 6; progressed++) {
        lose_peer(false, 0, progressed);
        lose_peer(false, 1, progressed);
    }
}

TEST_WITH(test_flu4_system_reports, setup, NULL)
{
    for (unsigned progressed = 0; progressed < 6; progressed++) {
        lose_peer(true, 0, progressed);
        lose_peer(true, 1, progressed);
    }
}
