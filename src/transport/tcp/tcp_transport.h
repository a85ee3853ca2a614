/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP transport's table.
 */
#ifndef CW_TRANSPORT_TCP_TCP_TRANSPORT_H
#define CW_TRANSPORT_TCP_TCP_TRANSPORT_H

#include "transport/transport.h"

extern const struct cw_transport cw_tcp_transport;

#endif
