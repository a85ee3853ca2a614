/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TCP connections that watch peers on other machines (transport/ofi/ofi_watch.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_WATCH_H
#define CW_TRANSPORT_OFI_OFI_WATCH_H

#include "transport/ofi/ofi.h"

/* Listens for peers that watch this process, if the provider needs that. Failure disables this watch. */
void cw_ofi_watch_open(struct ofi_iface *iface);
/* Starts to watch the peer of an open connection that is watched. */
void cw_ofi_watch_begin(struct ofi_conn *conn);
/* Callback: the watch of a peer has ended. */
void cw_ofi_watch_ended(struct cw_watch *watch, ucs_status_t status, const char *why);

#endif
