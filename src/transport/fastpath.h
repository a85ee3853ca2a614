/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of a transport whose short packets the core may write by itself (transport/transport.h).
 */
#ifndef CW_TRANSPORT_FASTPATH_H
#define CW_TRANSPORT_FASTPATH_H

#include "transport/iface.h"

struct cw_producer;

/* Short packets without the transport's help (base/cell.h). */
struct cw_transport_fastpath {
    /* Asked when a connection is open: the cells into which the core may put short packets by itself, in turn with the
     * send slots, whenever one is free; a packet that finds none free takes a slot. NULL: this connection has none. */
    struct cw_producer *(*cells)(struct cw_conn *conn);
};

#endif
