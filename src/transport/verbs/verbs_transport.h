/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * InfiniBand and RoCE by libibverbs (docs/why/verbs.md). Built without its header it has no devices.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_TRANSPORT_H
#define CW_TRANSPORT_VERBS_VERBS_TRANSPORT_H

#include "transport/transport.h"

#define CW_VERBS_WIRE_ID 5u

extern const struct cw_transport cw_verbs_transport;

#endif
