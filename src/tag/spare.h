/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cache of descriptors of unexpected messages, in classes by capacity, which is a power of two. A program in which
 * messages arrive before their receives needs as many again in its next round. Descriptors that stay unused are freed
 * over time.
 */
#ifndef CW_TAG_SPARE_H
#define CW_TAG_SPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "os/poll.h"

#define CW_TAG_SMALL     48u /* capacity of class 0; with its descriptor it fills three cache lines */
#define CW_TAG_CLASSES   14u /* the last one holds 256 KiB and what follows the data */
#define CW_TAG_NO_CLASS  CW_TAG_CLASSES
#define CW_TAG_SPARE_RETAINED (16u << 10) /* bytes of spare descriptors that are never freed */

struct ucp_recv_desc;

struct cw_tag_spares {
    struct ucp_recv_desc *first[CW_TAG_CLASSES];
    uint32_t count[CW_TAG_CLASSES];
    uint32_t least[CW_TAG_CLASSES]; /* the minimum count since `fade` fired last */
    size_t bytes;                   /* of all spare descriptors, ... */
    size_t most;                    /* ... and their limit */
    struct cw_poller *poller;
    struct cw_alarm fade;
};

static inline unsigned cw_tag_class(uint64_t space)
{
    if (space <= CW_TAG_SMALL) {
        return 0;
    }
    if (space > UINT64_C(64) << (CW_TAG_CLASSES - 1)) {
        return CW_TAG_NO_CLASS;
    }
    return (space <= 128) ? 1 : 58 - (unsigned)__builtin_clzll(space - 1);
}

/* `most`: limit of the cached bytes. */
void cw_tag_spares_init(struct cw_tag_spares *spares, struct cw_poller *poller, size_t most);
void cw_tag_spares_cleanup(struct cw_tag_spares *spares);
/* Returns a descriptor with that capacity; only its size_class is set. NULL: no memory. */
struct ucp_recv_desc *cw_tag_spares_take(struct cw_tag_spares *spares, uint64_t space);
/* Caches the descriptor, or frees it. */
void cw_tag_spares_give(struct cw_tag_spares *spares, struct ucp_recv_desc *desc);

#endif
