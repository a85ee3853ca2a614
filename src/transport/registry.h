/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of all transports that are built in; of equal ones the better stands first. The core walks it when a context
 * is created.
 */
#ifndef CW_TRANSPORT_REGISTRY_H
#define CW_TRANSPORT_REGISTRY_H

#include "transport/transport.h"

extern const struct cw_transport *const cw_transports[];
extern const unsigned cw_num_transports;

#endif
