/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of unexpected messages: descriptors that are kept for the next ones (tag/spare.h), or, where the transport
 * can spare it, the packet of a long message. Used by the tag operations only, with the worker entered.
 *
 * A sender that waits with an id for an answer may cancel its message. Such messages are in a table while they are
 * unexpected, so that TAG_CANCEL searches no list; the table's link lies after the data of the message.
 */
#ifndef CW_TAG_DESC_H
#define CW_TAG_DESC_H

#include <stddef.h>
#include <stdlib.h>

#include "tag/tag.h"

#define CW_TAG_LEND_LEAST 2048u /* a shorter one would keep a packet for a small part of it */

/* Makes a descriptor in the packet that came on the endpoint's lane, before the data, which are behind the header of
 * the packet. NULL: the packet is not kept. Otherwise the bytes before the data are overwritten; the caller fills the
 * descriptor, but for size_class, lender and packet. */
struct ucp_recv_desc *cw_tag_desc_lend(struct ucp_ep *ep, const char *data);

#define CW_TAG_REVOCABLE 32u /* additional room for a message that can be cancelled */

/* From now on the sender may cancel the message, which has CW_TAG_REVOCABLE bytes of room after its data. 0: the peer
 * has used the id for two messages, which breaks the protocol. */
int cw_tag_desc_revocable(struct ucp_ep *ep, struct ucp_recv_desc *desc);
/* Returns the message that the sender of this endpoint may cancel by that id, or NULL. */
struct ucp_recv_desc *cw_tag_desc_find(const struct ucp_ep *ep, uint64_t id);

/* Returns a descriptor with `room` bytes for data; only size_class is set. NULL: no memory. */
static inline struct ucp_recv_desc *cw_tag_desc_alloc(struct ucp_worker *worker, uint64_t space)
{
    return cw_tag_spares_take(&worker->tag->spares, space);
}

static inline void cw_tag_desc_free(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    if (desc->is_lent) {
        cw_iface_give_back(desc->lender, desc->packet);
    } else {
        cw_tag_spares_give(&worker->tag->spares, desc);
    }
}

#endif
