/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All built-in transports, the preferred of equal ones first.
 */
#ifndef CW_TRANSPORT_REGISTRY_H
#define CW_TRANSPORT_REGISTRY_H

#include "transport/transport.h"

extern const struct cw_transport *const cw_transports[];
extern const unsigned cw_num_transports;

#endif
