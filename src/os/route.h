/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The routes to addresses, read from the routing table; nothing is sent. Thread safe; never blocks.
 */
#ifndef CW_OS_ROUTE_H
#define CW_OS_ROUTE_H

#include <stdint.h>

#include "os/net.h"

enum cw_route_kind {
    CW_ROUTE_UNKNOWN,  /* unknown */
    CW_ROUTE_NONE,
    CW_ROUTE_OWN,      /* an address of this network namespace */
    CW_ROUTE_DIRECT,   /* without a gateway */
    CW_ROUTE_GATEWAY,
    CW_ROUTE_DOWN,     /* the device has no carrier */
    CW_ROUTE_EXCLUDED  /* set by callers: not to be used, for a reason of the caller */
};

struct cw_route {
    uint8_t kind;                 /* enum cw_route_kind */
    uint8_t prefix_bits;          /* of the route: 0 is the default route */
    char device[CW_NET_NAME_MAX]; /* "" when unknown, or when there are several */
};

/* The route of the kernel to each of these addresses; the ports do not matter. */
void cw_routes_find(const struct cw_net_address *to, unsigned count, struct cw_route *routes);

#endif
