/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The situation of the tests of TCP connections: two nodes, and a connection that `left` dialled to `right`.
 */
#ifndef CW_TEST_UNIT_TEST_TCP_PAIR_H
#define CW_TEST_UNIT_TEST_TCP_PAIR_H

#include "test_tcp.h"

#define TINY 4608u /* about the least that Linux gives a socket */

static const struct cw_transport *const tcp = &cw_tcp_transport;

static struct node left, right;
static struct link *dialled, *accepted;

/* Set-ups of cmocka. nothing: the test opens the nodes itself. */
static inline int nothing(void **state)
{
    (void)state;
    return 0;
}

static inline int opened(void **state)
{
    (void)state;
    node_open(&left);
    node_open(&right);
    return 0;
}

static inline int connected(void **state)
{
    (void)opened(state);
    dialled = connect_nodes(&left, &right, &accepted);
    return 0;
}

/* The system takes little from `left` and keeps little for `right`. */
static inline int connected_tiny(void **state)
{
    (void)state;
    node_configure(&left);
    node_configure(&right);
    left.config.tcp_sndbuf = TINY;
    right.config.tcp_rcvbuf = TINY;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    return 0;
}

/* The last line of a test, for what arrived belongs to it. */
static inline void both_end(void)
{
    node_close(&left);
    node_close(&right);
}

#endif
