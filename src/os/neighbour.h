/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: the hosts or gateways of a network whose link addresses the system knows. A device of RDMA over Ethernet
 * needs the link address when it makes the way to a peer, and the system then waits for it within the call. The
 * function of this file never waits.
 */
#ifndef CW_OS_NEIGHBOUR_H
#define CW_OS_NEIGHBOUR_H

#include "os/net.h"

/* The number of a network device; 0: none has that name. */
unsigned cw_neighbour_device(const char *name);

/* Whether the system knows the neighbour through which that network device (its number) reaches the address. 0: it does
 * not; the system asks for the neighbour now, and a later call may find it. 1: it does, or does not tell. */
int cw_neighbour_is_known(const struct cw_net_address *to, unsigned device);

#endif
