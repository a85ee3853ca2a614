/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of unexpected messages. Small ones that were received are kept for the next ones, a few of them: what arrives
 * before its receive mostly does so again and again. Used by the tag operations only, worker entered.
 *
 * Those that their sender waits for by an id may be taken back by it. They are in a table while they are unexpected, so
 * that TAG_CANCEL looks through no list; what links them there lies behind their data.
 */
#ifndef CW_OP_TAG_DESC_H
#define CW_OP_TAG_DESC_H

#include <stddef.h>
#include <stdlib.h>

#include "op/op.h"
#include "op/tag.h"

#define CW_TAG_SMALL     48u /* bytes of a small message at most: with the head, it fills three lines */
#define CW_TAG_MAX_SPARE 32u

/* One that is kept, for a message of CW_TAG_SMALL bytes at most; NULL: none is. */
static inline struct ucp_recv_desc *cw_tag_desc_spare(struct cw_op_state *state)
{
    struct ucp_recv_desc *desc = state->spare_tags;

    if (desc != NULL) {
        state->spare_tags = desc->next_spare;
        state->num_spare_tags--;
    }
    return desc;
}

#define CW_TAG_REVOCABLE 32u /* more room for one that can be taken back */

/* Its sender may take it back from now on; there is that room behind its data. 0: the peer has another one of that id,
 * which no honest one has. */
int cw_tag_desc_revocable(struct ucp_ep *ep, struct ucp_recv_desc *desc);
/* That message, or NULL. */
struct ucp_recv_desc *cw_tag_desc_find(const struct ucp_ep *ep, uint64_t id);

/* With room for so many bytes of data; only is_small is set. NULL: no memory. */
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
        free(desc);
        return;
    }
    desc->next_spare  = state->spare_tags;
    state->spare_tags = desc;
    state->num_spare_tags++;
}

#endif
