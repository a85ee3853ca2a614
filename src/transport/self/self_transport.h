/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport of a worker to itself: packets pass through a queue, and the next progress delivers them.
 */
#ifndef CW_TRANSPORT_SELF_TRANSPORT_H
#define CW_TRANSPORT_SELF_TRANSPORT_H

#include "transport/transport.h"

extern const struct cw_transport cw_self_transport;

#endif
