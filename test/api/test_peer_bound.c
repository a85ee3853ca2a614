/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UCX_PEER_MEMORY: what is announced up to the bound can be received in any order and as often as one likes; who
 * announces more loses the connection, and both sides are notified (docs/reference/bounds.md).
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 40, ROUNDS = 5, NOTE_BYTES = 256, POLITE = 3, FEW = 5, POLITE_TAG = 1000 };

static const struct cw_pair_config peer_mode = {.peer_mode = true};

static int bound_teardown(void **state)
{
    unsetenv("UCX_PEER_MEMORY");
    unsetenv("UCX_RNDV_THRESH");
    return cw_test_teardown(state);
}

static void open_pair(struct cw_pair *pair)
{
    char bound[32];

    snprintf(bound, sizeof(bound), "%d", MANY * NOTE_BYTES);
    setenv("UCX_PEER_MEMORY", bound, 1);
    setenv("UCX_RNDV_THRESH", "0", 1);
    cw_pair_open(pair, &peer_mode);
}

static void announce(struct cw_pair *pair, struct cw_op *sends, int count)
{
    static int values[MANY + 1];

    memset(sends, 0, (size_t)count * sizeof(*sends));
    for (int i = 0; i < count; i++) {
        values[i] = i;
        cw_op_send(&sends[i], pair->tx->ep, &values[i], sizeof(values[i]), (ucp_tag_t)i);
    }
    cw_pair_settle(pair);
}

API_TEST_WITH(test_as_many_as_the_bound, cw_test_setup, bound_teardown)
{
    struct cw_op sends[MANY], recv;
    int value;

    cw_test_skip_reference("it has no bound");
    open_pair(pair);
    for (int round = 0; round < ROUNDS; round++) {
        announce(pair, sends, MANY);
        for (int i = 0; i < MANY; i++) {
            int tag = (round % 2 == 0) ? i : MANY - 1 - i;

            memset(&recv, 0, sizeof(recv));
            cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), (ucp_tag_t)tag, CW_TAG_ALL);
            assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
            assert_int_equal(value, tag);
        }
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_OK);
        }
    }
}

API_TEST_WITH(test_one_more, cw_test_setup, bound_teardown)
{
    struct cw_op sends[MANY + 1], back = {0};
    char byte = 0;

    cw_test_skip_reference("it has no bound");
    open_pair(pair);
    announce(pair, sends, MANY + 1);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send"), UCS_ERR_CONNECTION_RESET);
    }
    assert_int_equal(cw_op_wait(pair, &sends[MANY], "the send beyond the bound"), UCS_ERR_EXCEEDS_LIMIT);
    cw_op_send(&back, pair->rx->ep, &byte, sizeof(byte), 1);
    assert_int_equal(cw_op_wait(pair, &back, "send of the side that refused"), UCS_ERR_EXCEEDS_LIMIT);
}

/* Whoever keeps to the bound notices nothing of a peer that does not: not of its announcements, nor of its end. */
API_TEST_WITH(test_greedy_among_polite, cw_test_setup, bound_teardown)
{
    struct cw_op sends[MANY + 1], polite[POLITE][2 * FEW], recv;
    ucp_ep_h eps[POLITE];
    int words[POLITE], value; /* read when they are received */

    cw_test_skip_reference("it has no bound");
    open_pair(pair);
    memset(polite, 0, sizeof(polite));
    for (int i = 0; i < POLITE; i++) {
        eps[i] = cw_side_connect(pair->tx, pair->rx->worker, &peer_mode);
        words[i] = i;
    }
    for (int k = 0; k < 2 * FEW; k++) {
        if (k == FEW) {
            announce(pair, sends, MANY + 1);
            assert_int_equal(cw_op_wait(pair, &sends[MANY], "the send beyond the bound"), UCS_ERR_EXCEEDS_LIMIT);
        }
        for (int i = 0; i < POLITE; i++) {
            cw_op_send(&polite[i][k], eps[i], &words[i], sizeof(words[i]),
                       (ucp_tag_t)(POLITE_TAG + i * 2 * FEW + k));
            cw_pair_settle(pair);
        }
    }
    for (int i = POLITE - 1; i >= 0; i--) {
        for (int k = 0; k < 2 * FEW; k++) {
            memset(&recv, 0, sizeof(recv));
            cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), (ucp_tag_t)(POLITE_TAG + i * 2 * FEW + k),
                       CW_TAG_ALL);
            assert_int_equal(cw_op_wait(pair, &recv, "receive of a polite peer's"), UCS_OK);
            assert_int_equal(value, i);
            assert_int_equal(cw_op_wait(pair, &polite[i][k], "send of a polite peer"), UCS_OK);
        }
    }
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send of the greedy peer"), UCS_ERR_CONNECTION_RESET);
    }
}
