/* SPDX-License-Identifier: BSD-3-Clause */
/* The upcall `seen` of the TCP transport's unit tests: it may be said of what is not unseen alone. */
#ifndef CW_TEST_UNIT_TEST_TCP_SEEN_H
#define CW_TEST_UNIT_TEST_TCP_SEEN_H

#include "transport/tcp/tcp_transport.h"

static inline void on_seen(struct cw_conn *conn)
{
    assert_false(cw_tcp_transport.connect->is_unseen(conn));
}

#endif
