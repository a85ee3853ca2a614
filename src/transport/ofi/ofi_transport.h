/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transport over libfabric: every fabric for which a provider is installed (docs/why/libfabric.md).
 */
#ifndef CW_TRANSPORT_OFI_OFI_TRANSPORT_H
#define CW_TRANSPORT_OFI_OFI_TRANSPORT_H

#include "transport/transport.h"

#define CW_OFI_WIRE_ID 6u

extern const struct cw_transport cw_ofi_transport;

#endif
