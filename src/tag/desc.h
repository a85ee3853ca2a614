/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of unexpected messages: cached descriptors (tag/spare.h), or, if the transport can lend it, the packet of a
 * long message. Used by the tag operations only, with the worker entered.
 *
 * A sender that waits for an answer by id may cancel its message. While such a message is unexpected it is in a table,
 * so that TAG_CANCEL searches no list; the table's link follows the data of the message.
 */
#ifndef CW_TAG_DESC_H
#define CW_TAG_DESC_H

#include <stddef.h>
#include <stdlib.h>

#include "msg/credit.h"
#include "msg/msg.h"
#include "tag/tag.h"

#define CW_TAG_LEND_LEAST 2048u /* a shorter message would occupy a packet for little data */

/* Creates a descriptor in the packet received on the endpoint's lane, before the data, which follow the header of the
 * packet. NULL: the packet cannot be lent. Otherwise the bytes before the data are overwritten, and the caller sets all
 * members but size_class, lender and packet. */
struct ucp_recv_desc *cw_tag_desc_lend(struct ucp_ep *ep, const char *data);

#define CW_TAG_REVOCABLE 32u /* additional capacity of a message that can be cancelled */

/* Lets the sender cancel the message from now on. The message has a capacity of CW_TAG_REVOCABLE bytes after its data.
 * 0: protocol error, the peer used the id for two messages. */
int cw_tag_desc_revocable(struct ucp_ep *ep, struct ucp_recv_desc *desc);
/* Returns the message that the sender of this endpoint may cancel by that id, or NULL. */
struct ucp_recv_desc *cw_tag_desc_find(const struct ucp_ep *ep, uint64_t id);

/* Returns a descriptor with a capacity of `space` bytes; only size_class is set. NULL: no memory. */
static inline struct ucp_recv_desc *cw_tag_desc_alloc(struct ucp_worker *worker, uint64_t space)
{
    return cw_tag_spares_take(&worker->tag->spares, space);
}

/* Sends the acknowledgement for which the sender of the message, whose id is not 0, waits. */
void cw_tag_acknowledge(struct ucp_recv_desc *desc);

/* The message was matched: returns credit, and sends the acknowledgement that its sender may wait for. */
static inline void cw_tag_matched(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    if (cw_likely(desc->in.ep != NULL)) {
        cw_credit_consumed(desc->in.ep, desc->in.total);
        if (cw_unlikely(desc->id != 0)) {
            cw_tag_acknowledge(desc);
        }
    } else if (desc->left) {
        worker->msg->left -= desc->in.total + CW_RETAINED_ONE;
    }
    desc->id = 0;
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
