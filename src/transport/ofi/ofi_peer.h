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

/* Peers that only packets named. */
enum ofi_strange {
    OFI_ADDRESSED,  /* a packet waits for them, which the provider does not take, */
    OFI_UNANSWERED, /* or none was sent to them: their address is in the vector, so that the provider knows it again */
    OFI_UNAUTH
};

/* Whether these bytes are an entry whose address this interface may give to its provider. */
int cw_ofi_entry_check(struct ofi_iface *iface, const void *bytes, size_t length, const char **why);
/* The peer of an entry that was checked. The caller holds a reference unless *peer_p is NULL: UCS_ERR_UNREACHABLE may
 * come with a peer that is known to be dead. `is_named`: the program named its address; otherwise a packet did. */
ucs_status_t cw_ofi_peer_get(struct ofi_iface *iface, const void *entry, size_t length, bool is_named,
                             struct ofi_peer **peer_p);
/* The peer of an entry that was checked, if there is one; no reference is taken. */
struct ofi_peer *cw_ofi_peer_find(struct ofi_iface *iface, const void *entry, size_t length);
/* Whether the entry claims an address although the provider names another one as the source of its packet. */
bool cw_ofi_is_contradicted(const struct ofi_iface *iface, const void *entry, size_t length, uint64_t source);

/* Peers that only packets named are unauthenticated peers until the provider takes a packet to them: CW_OFI_UNAUTH of
 * each kind at a time, each for 10 s. Many providers connect for the first packet, to any address, and do not take that
 * back, so no peer of OFI_ADDRESSED makes room for another one: cw_ofi_unauth_full() must be false before. Of the other
 * ones the oldest makes room. */
bool cw_ofi_unauth_full(const struct ofi_iface *iface);
void cw_ofi_peer_is_strange(struct ofi_peer *peer, enum ofi_strange why);
void cw_ofi_peer_reached(struct ofi_peer *peer);
/* A packet with a token of this side came from the peer, so it is where it says. */
void cw_ofi_peer_proved(struct ofi_peer *peer);
void cw_ofi_unauth_open(struct ofi_iface *iface);
void cw_ofi_unauth_close(struct ofi_iface *iface);
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
