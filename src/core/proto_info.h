/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of protocols that UCX_PROTO_INFO asks for (VAR-31).
 */
#ifndef CW_CORE_PROTO_INFO_H
#define CW_CORE_PROTO_INFO_H

#include "core/ep.h"

/* Called when an endpoint is connected; prints once for each interface of a worker. */
void cw_proto_info_print(const struct ucp_ep *ep);

#endif
