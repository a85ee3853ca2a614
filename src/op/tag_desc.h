/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of unexpected messages. Some descriptors of small messages are kept after their messages were received: a
 * program in which messages arrive before their receives mostly needs them again. A long message stays in its packet
 * where the transport can spare that. Used by the tag operations only, with
 * the worker entered.
 *
 * A sender that waits with an id for an answer may cancel its message. Such messages are in a table while they are
 * unexpected, so that TAG_CANCEL searches no list; the table's link lies after the data of the message.
 */
#ifndef CW_OP_TAG_DESC_H
#define CW_OP_TAG_DESC_H

#include <stddef.h>
#include <stdlib.h>

#include "op/op.h"
#include "op/tag.h"

#define CW_TAG_SMALL      48u /* bytes of the longest small message; with its descriptor it fills three cache lines */
#define CW_TAG_MAX_SPARE  32u
#define CW_TAG_LEND_LEAST 2048u /* a shorter one would keep a packet for a small part of it */

/* Takes a kept descriptor, for a message of at most CW_TAG_SMALL bytes; NULL: there is none. */
static inline struct ucp_recv_desc *cw_tag_desc_spare(struct cw_op_state *state)
{
    struct ucp_recv_desc *desc = state->spare_tags;

    if (desc != NULL) {
        state->spare_tags = desc->next_spare;
        state->num_spare_tags--;
    }
    return desc;
}

/* Makes a descriptor in the packet that came on the endpoint's lane, before the data, which are behind the header of
 * the packet. NULL: the packet is not kept. Otherwise the bytes before the data are overwritten; the caller fills the
 * descriptor, but for is_small, lender and packet. */
struct ucp_recv_desc *cw_tag_desc_lend(struct ucp_ep *ep, const char *data);

#define CW_TAG_REVOCABLE 32u /* additional room for a message that can be cancelled */

/* From now on the sender may cancel the message, which has CW_TAG_REVOCABLE bytes of room after its data. 0: the peer
 * has used the id for two messages, which breaks the protocol. */
int cw_tag_desc_revocable(struct ucp_ep *ep, struct ucp_recv_desc *desc);
/* Returns the message that the sender of this endpoint may cancel by that id, or NULL. */
struct ucp_recv_desc *cw_tag_desc_find(const struct ucp_ep *ep, uint64_t id);

/* Returns a descriptor with `room` bytes for data; only is_small is set. NULL: no memory. */
static inline struct ucp_recv_desc *cw_tag_desc_alloc(struct ucp_worker *worker, uint64_t room)
{
    const int is_small         = room <= CW_TAG_SMALL;
    struct ucp_recv_desc *desc = is_small ? cw_tag_desc_spare(cw_op_state(worker)) : NULL;

    if (desc == NULL && room <= PTRDIFF_MAX - sizeof(*desc)) {
        desc = malloc(sizeof(*desc) + (is_small ? CW_TAG_SMALL : room));
        if (desc != NULL) {
            desc->is_small = (uint8_t)is_small;
        }
    }
    return desc;
}

static inline void cw_tag_desc_free(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    struct cw_op_state *state = cw_op_state(worker);

    if (!desc->is_small || state->num_spare_tags == CW_TAG_MAX_SPARE) {
        if (desc->is_lent) {
            cw_iface_give_back(desc->lender, desc->packet);
        } else {
            free(desc);
        }
        return;
    }
    desc->next_spare  = state->spare_tags;
    state->spare_tags = desc;
    state->num_spare_tags++;
}

#endif
