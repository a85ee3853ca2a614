/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of the peer that rendezvous transfers copy from and to (docs/change/long-messages.md): by loads and stores
 * where it lies in memory that the peer's library allocated and that could be mapped here, else by the transport's
 * system copies. Each side tells the other of an allocated region when a message of it is announced for the first time.
 * Invariant: by loads and stores only memory of the peer's own process is reached, with the rights that it has given to
 * others.
 */
#ifndef CW_OP_PEER_REGIONS_H
#define CW_OP_PEER_REGIONS_H

#include "core/ep.h"
#include "wire/key.h"

/* Our memory is about to be named to the peer: tells it of the region, once. */
void cw_peer_regions_tell(struct ucp_ep *ep, const void *ptr, size_t length);

/* Whether copies there are possible now; `right`: CW_KEY_READ or CW_KEY_WRITE. */
int cw_peer_regions_is_possible(struct ucp_ep *ep, uint64_t address, uint64_t length, unsigned right);
/* As the transport's peer_read and peer_write. */
ucs_status_t cw_peer_regions_read(struct ucp_ep *ep, const struct iovec *to, unsigned count, uint64_t from);
ucs_status_t cw_peer_regions_write(struct ucp_ep *ep, const struct iovec *from, unsigned count, uint64_t to);

/* The packet REGION. */
ucs_status_t cw_peer_regions_on_region(struct ucp_ep *ep, const void *data, size_t length);
void cw_peer_regions_ep_lost(struct ucp_ep *ep);

#endif
