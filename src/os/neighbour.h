/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: the hosts or gateways of a network whose link addresses the kernel has resolved. A RoCE device needs the
 * link address when it connects to a peer, and the kernel then waits for it within the call. The functions of this file
 * never block.
 */
#ifndef CW_OS_NEIGHBOUR_H
#define CW_OS_NEIGHBOUR_H

#include <stdbool.h>

#include "os/net.h"

/* The index of a network device; 0: none has that name. */
unsigned cw_neighbour_device(const char *name);

/* Whether the kernel has resolved the neighbour through which that network device (its index) reaches the address. True
 * also if that is unknown. False: resolution starts now, and a later call may succeed. */
bool cw_neighbour_is_known(const struct cw_net_address *to, unsigned device);

#endif
