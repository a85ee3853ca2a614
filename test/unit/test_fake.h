/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A transport whose slots a test may replace one by one: the tables of a real one, copied to where they can be written.
 */
#ifndef CW_TEST_UNIT_TEST_FAKE_H
#define CW_TEST_UNIT_TEST_FAKE_H

#include "transport/transport.h"

static struct cw_transport fake_transport;
static struct cw_transport_connect fake_connect;
static struct cw_transport_packets fake_packets;
static struct cw_transport_copies fake_copies;

/* Makes the tables from those of a real interface, and has the fake interface use them. A transport without copies
 * between processes has none here, unless the test sets fake_transport.copies. */
static inline void fake_tables(const struct cw_iface *real, struct cw_iface *fake)
{
    fake_transport = *real->transport;
    fake_connect = *real->transport->connect;
    fake_packets = *real->packets;
    fake_packets.send_joined = NULL; /* the test sees all of them in send_short */
    fake_packets.hand_over = NULL; /* it takes the connections for its own */
    if (real->transport->copies != NULL) {
        fake_copies = *real->transport->copies;
        fake_transport.copies = &fake_copies;
    }
    fake_transport.connect = &fake_connect;
    fake_transport.packets = &fake_packets;
    fake->transport = &fake_transport;
    fake->packets = &fake_packets;
}

#endif
