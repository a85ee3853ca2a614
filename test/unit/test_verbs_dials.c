/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dials of the verbs transport that cross, or are given up, while datagrams are lost and come twice: they leave no
 * connection behind of which the peer knows nothing. Over a device in this process and on a clock of its own.
 */
#include "test_verbs_sides.h"

enum { NUM_EPS = 200, SETTLE_MS = 4000 };

static ucp_ep_h eps[2][NUM_EPS];

static int setup(void **state)
{
    (void)state;
    setenv("UCX_TLS", "rc", 1);
    setenv("UCX_UD_TIMEOUT", "60s", 1);
    setenv("UCX_RC_RX_QUEUE_LEN", "64", 1);
    setenv("UCX_IB_SEG_SIZE", "2048", 1);
    device_is.max_each = 1 << 20;
    device_is.loses = 0;
    memset(&device_saw, 0, sizeof(device_saw));
    return 0;
}

/* Queue pairs of type RC, of both ends. */
static unsigned num_rc(void)
{
    return device_saw.qps - num_sides;
}

static unsigned num_in(unsigned side, enum cw_verbs_state state)
{
    const struct cw_verbs_conn *conn;
    unsigned count = 0;

    cw_list_for_each(conn, &iface_of(side)->conns, const struct cw_verbs_conn, link)
    {
        count += conn->state == state;
    }
    return count;
}

TEST_WITH(crossing_dials_leave_one_connection_each, setup, NULL)
{
    ucs_status_ptr_t requests[2][NUM_EPS];
    uint32_t word = 1;
    unsigned round, side, made, i;

    for (round = 0; round < 4; round++) {
        open_sides(2, UINT32_MAX);
        device_is.loses = (int)(15 * round);
        made = device_saw.made_qps;
        for (i = 0; i < NUM_EPS; i++) {
            for (side = 0; side < 2; side++) {
                eps[side][i] = connect_ep(side, 1 - side, UCP_ERR_HANDLING_MODE_NONE);
                requests[side][i] = send_word(eps[side][i], &word, i);
            }
        }
        for (i = 0; i < NUM_EPS; i++) {
            for (side = 0; side < 2; side++) {
                expect_word(1 - side, i, word);
                assert_int_equal(end_request(requests[side][i]), UCS_OK);
            }
        }
        pass(SETTLE_MS);
        assert_int_equal(num_in(0, CW_VERBS_ACCEPTING) + num_in(1, CW_VERBS_ACCEPTING), 0);
        assert_int_equal(num_rc(), 2 * NUM_EPS);
        /* Two dials, of which one is accepted; few come so late that their refusal is not foreseen. */
        assert_in_range(device_saw.made_qps - made, 2 * NUM_EPS, 3 * NUM_EPS + NUM_EPS / 10);
        device_is.loses = 0;
        close_sides();
    }
}

TEST_WITH(dials_that_are_given_up_leave_nothing, setup, NULL)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    uint32_t word = 1;
    unsigned i;

    open_sides(2, UINT32_MAX);
    eps[0][0] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_NONE); /* late cancels find the peer by this one */
    assert_int_equal(end_request(send_word(eps[0][0], &word, 0)), UCS_OK);
    expect_word(1, 0, word);
    device_is.loses = 40;
    for (i = 1; i < NUM_EPS; i++) {
        eps[0][i] = connect_ep(0, 1, UCP_ERR_HANDLING_MODE_PEER);
    }
    for (i = 1; i < NUM_EPS; i++) {
        progress();
        assert_int_equal(end_request(ucp_ep_close_nbx(eps[0][i], &force)), UCS_OK);
    }
    assert_in_range(num_in(1, CW_VERBS_ACCEPTING), 1, NUM_EPS); /* their cancels were lost */
    device_is.loses = 0;
    pass(SETTLE_MS);
    assert_int_equal(num_in(1, CW_VERBS_ACCEPTING), 0);
    assert_int_equal(num_rc(), 2);
    close_sides();
}
