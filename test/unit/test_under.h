/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport that only records (test_recorder.h), put under an endpoint that is open, in the place of its own.
 */
#ifndef CW_TEST_UNIT_TEST_UNDER_H
#define CW_TEST_UNIT_TEST_UNDER_H

#include "test_fake.h"
#include "test_recorder.h"

#include "base/bytes.h"
#include "core/ep.h"
#include "proto/protocol.h"

/* The end of short sends under which the records of test_recorder.h hold them. */
enum { FAKE_SHORT_END = 1025 };

static struct cw_iface fake_iface, *real_iface;
static struct cw_protocol_plan fake_plan;

static inline void put_under(ucp_ep_h ep)
{
    real_iface = ep->conn->iface;
    fake_iface = *real_iface;
    fake_tables(real_iface, &fake_iface);
    fake_plan = *real_iface->plan;
    fake_plan.short_end = cw_smaller(fake_plan.short_end, FAKE_SHORT_END);
    fake_iface.plan = &fake_plan;
    fake_iface.limits.max_short = cw_smaller(fake_iface.limits.max_short, FAKE_SHORT_END - 1);
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
