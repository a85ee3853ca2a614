/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes and lives of peers (transport/ofi/ofi_peer.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_PEER_H
#define CW_TRANSPORT_OFI_OFI_PEER_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct ofi_iface;
struct ofi_peer;
struct ofi_route;

/* Whether these bytes are an entry whose address this interface may give to its provider. */
int cw_ofi_entry_check(struct ofi_iface *iface, const void *bytes, size_t length, const char **why);
/* The peer of an entry that was checked. The caller holds a reference unless *peer_p is NULL: UCS_ERR_UNREACHABLE may
 * come with a peer that is known to be dead. */
ucs_status_t cw_ofi_peer_get(struct ofi_iface *iface, const void *entry, size_t length, struct ofi_peer **peer_p);
/* Whether the peer's process is known to have ended. */
int cw_ofi_peer_is_dead(struct ofi_peer *peer);
/* Add an interface of this process, by the random number of its entry, to the table of living ones, and remove it. */
void cw_ofi_life_begin(uint64_t life);
void cw_ofi_life_end(uint64_t life);
/* The route of an address that has the form of this provider's addresses; NULL: no memory, or it is no address. The
 * caller holds a reference. */
struct ofi_route *cw_ofi_route_get(struct ofi_iface *iface, const uint8_t *bytes, size_t length);
/* Makes the provider forget its way to that address, as far as it does (FI_AV_REMOVE_CLEANUP), after an access of this
 * age broke it. */
void cw_ofi_route_renew(struct ofi_iface *iface, struct ofi_route *route, uint64_t age);
void cw_ofi_route_drop(struct ofi_iface *iface, struct ofi_route *route);
/* Whether an address has the form of this provider's addresses. */
int cw_ofi_has_form(const struct ofi_iface *iface, const uint8_t *bytes, size_t length);
void cw_ofi_peer_hold(struct ofi_peer *peer);
void cw_ofi_peer_drop(struct ofi_peer *peer);

#endif
