/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport that only records (test_recorder.h), put under an endpoint that is open, in the place of its own.
 */
#ifndef CW_TEST_UNIT_TEST_UNDER_H
#define CW_TEST_UNIT_TEST_UNDER_H

#include "test_fake.h"
#include "test_recorder.h"

#include "core/ep.h"

static struct cw_iface fake_iface, *real_iface;

static inline void put_under(ucp_ep_h ep)
{
    real_iface = ep->conn->iface;
    fake_iface = *real_iface;
    fake_tables(real_iface, &fake_iface);
    fake_packets.send_short = fake_short;
    fake_packets.send_bcopy = fake_bcopy;
    ep->conn->iface = &fake_iface;
    num_records = 0;
}

/* Its own again. */
static inline void take_away(ucp_ep_h ep)
{
    ep->conn->iface = real_iface;
}

#endif
