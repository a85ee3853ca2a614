/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An owner of memory that takes shares of copies of ours and never ends them (op/cma.h): when the endpoint is lost,
 * the origin waits for all of them together, once, some milliseconds. ERR-9, RMA-9.
 */
#include "test_rma_counted.h"

#include "op/cma.h"

enum { LENGTH = 8 << 20, COPIES = CW_CLAIM_PAIRS, MS = 1000000 };

static char *there;

/* Shares that nobody else has taken. */
static void take_shares(void)
{
    for (unsigned i = 0; i < COPIES; i++) {
        pairs[i].claim = (uint64_t)(i + 1) << 32 | 1000;
    }
}

/* The peer, whenever it is looked at, has taken further ones. */
static int greedy_ready(struct cw_conn *conn)
{
    (void)conn;
    take_shares();
    return 1;
}

static void really_close(struct cw_conn *conn)
{
    conn->iface = real_iface;
    real_iface->transport->connect->close_conn(conn);
}

static void test_shares_that_never_end(void **state)
{
    ucs_status_ptr_t gets[COPIES];
    uint64_t begun_ns;

    (void)state;
    there = malloc(LENGTH);
    assert_non_null(there);
    begin_counted();
    rkey->key.length = LENGTH;
    for (unsigned i = 0; i < COPIES; i++) {
        gets[i] = ucp_get_nbx(ep, there, LENGTH, base(), rkey, &none);
        assert_true(is_pending(gets[i]));
    }
    assert_int_equal(count_packets(CW_PACKET_HELP), COPIES);
    take_shares();
    fake_copies.ready       = greedy_ready;
    fake_connect.close_conn = really_close;
    begun_ns                = now_ns;
    step_ns                 = 1000;
    cw_ep_fail(ep, UCS_ERR_IO_ERROR);
    progress();
    assert_in_range(now_ns - begun_ns, 15 * MS, 40 * MS);
    end_counted(0);
    for (unsigned i = 0; i < COPIES; i++) {
        assert_int_equal(finish(gets[i]), UCS_ERR_IO_ERROR);
    }
    free(there);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares_that_never_end),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
