/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of TCP by which peers of other machines are watched (transport/ofi/ofi_watch.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_WATCH_H
#define CW_TRANSPORT_OFI_OFI_WATCH_H

#include "transport/ofi/ofi.h"

/* Listens for those that watch this process, where the provider needs that. Without it nobody is watched so. */
void cw_ofi_watch_open(struct ofi_iface *iface);
/* Watches the peer of an open connection that is watched. */
void cw_ofi_watch_begin(struct ofi_conn *conn);
/* The watch of a peer has ended. */
void cw_ofi_watch_ended(struct cw_watch *watch, ucs_status_t status, const char *why);

#endif
