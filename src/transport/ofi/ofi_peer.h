/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes and lives of peers (transport/ofi/ofi_peer.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_PEER_H
#define CW_TRANSPORT_OFI_OFI_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct ofi_iface;
struct ofi_peer;
struct ofi_route;

/* Unauthenticated peers: only packets named them. */
enum ofi_strange {
    OFI_ADDRESSED,  /* a packet to them waits that the provider has not accepted yet */
    OFI_UNANSWERED, /* no packet was sent to them; their address is in the vector so that the provider can identify
                     * them */
    OFI_UNAUTH
};

/* Whether these bytes are an entry whose address may be passed to the provider. */
int cw_ofi_entry_check(struct ofi_iface *iface, const void *bytes, size_t length, const char **why);
/* Finds or creates the peer of a checked entry. The caller holds a reference unless *peer_p is NULL:
 * UCS_ERR_UNREACHABLE may come with a peer that is known to be dead. `is_named`: the program named its address;
 * otherwise a packet did. */
ucs_status_t cw_ofi_peer_get(struct ofi_iface *iface, const void *entry, size_t length, bool is_named,
                             struct ofi_peer **peer_p);
/* Finds the peer of a checked entry; NULL: there is none. Takes no reference. */
struct ofi_peer *cw_ofi_peer_find(struct ofi_iface *iface, const void *entry, size_t length);
/* Whether the provider reports another source address for the packet than the entry claims. */
bool cw_ofi_is_contradicted(const struct ofi_iface *iface, const void *entry, size_t length, uint64_t source);

/* Peers that only packets named are unauthenticated until the provider accepts a packet to them: CW_OFI_UNAUTH of each
 * kind at a time, each for 10 s. Many providers connect for the first packet, to any address, and cannot cancel that,
 * so no OFI_ADDRESSED peer is evicted: cw_ofi_unauth_full() must be false before. Of the other kind the oldest one is
 * evicted. */
bool cw_ofi_unauth_full(const struct ofi_iface *iface);
void cw_ofi_peer_is_strange(struct ofi_peer *peer, enum ofi_strange why);
void cw_ofi_peer_reached(struct ofi_peer *peer);
/* Call when a packet from the peer carries a token of this side: its address is genuine. */
void cw_ofi_peer_proved(struct ofi_peer *peer);
void cw_ofi_unauth_open(struct ofi_iface *iface);
void cw_ofi_unauth_close(struct ofi_iface *iface);
/* Whether the peer's process is known to have ended. */
int cw_ofi_peer_is_dead(struct ofi_peer *peer);
/* Add an interface of this process, by the random number of its entry, to the table of live ones, and remove it. */
void cw_ofi_life_begin(uint64_t life);
void cw_ofi_life_end(uint64_t life);
/* Finds or creates the route of an address. The caller holds a reference. NULL: out of memory, or the address does not
 * have the form of this provider's addresses. */
struct ofi_route *cw_ofi_route_get(struct ofi_iface *iface, const uint8_t *bytes, size_t length);
/* Makes the provider drop its connection to that address, if it supports that (FI_AV_REMOVE_CLEANUP), after an access
 * of this age broke it. */
void cw_ofi_route_renew(struct ofi_iface *iface, struct ofi_route *route, uint64_t age);
void cw_ofi_route_drop(struct ofi_iface *iface, struct ofi_route *route);
/* Whether an address has the form of this provider's addresses. */
int cw_ofi_has_form(const struct ofi_iface *iface, const uint8_t *bytes, size_t length);
void cw_ofi_peer_hold(struct ofi_peer *peer);
void cw_ofi_peer_drop(struct ofi_peer *peer);

#endif
