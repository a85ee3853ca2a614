/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of slots of a transport whose short packets the core may write by itself (transport/transport.h).
 */
#ifndef CW_TRANSPORT_FASTPATH_H
#define CW_TRANSPORT_FASTPATH_H

#include "transport/iface.h"

struct cw_producer;

/* Short packets that the core writes without a call of the transport (base/cell.h). */
struct cw_transport_fastpath {
    /* The core asks once a connection is open: the cells into which it may put short packets by itself, in one order
     * with the send slots, whenever a cell is free; a packet that finds none free goes through a send slot. NULL: this
     * connection has no cells. */
    struct cw_producer *(*cells)(struct cw_conn *conn);
};

#endif
