/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of tag/spare.h.
 */
#include "tag/spare.h"

#include <stdlib.h>

#include "os/clock.h"
#include "tag/desc.h"

#define FADE_NS UINT64_C(1000000000)

static size_t class_size(unsigned class)
{
    return sizeof(struct ucp_recv_desc) + ((class == 0) ? CW_TAG_SMALL : (size_t)64 << class);
}

/* Requires that one exists. */
static struct ucp_recv_desc *pop(struct cw_tag_spares *spares, unsigned class)
{
    struct ucp_recv_desc *desc = spares->first[class];

    spares->first[class] = desc->next_spare;
    spares->bytes -= class_size(class);
    if (--spares->count[class] < spares->least[class]) {
        spares->least[class] = spares->count[class];
    }
    return desc;
}

static CW_NOINLINE void set_fade(struct cw_tag_spares *spares)
{
    cw_poller_alarm_set_lazy(spares->poller, &spares->fade, cw_clock_ns() + FADE_NS);
}

/* Frees half of the descriptors that were unused since the last run. */
static unsigned fade(struct cw_alarm *alarm)
{
    struct cw_tag_spares *spares = cw_container_of(alarm, struct cw_tag_spares, fade);
    unsigned class;
    uint32_t i, unused;

    for (class = 0; class < CW_TAG_CLASSES; class++) {
        unused = spares->least[class] - spares->least[class] / 2;
        for (i = 0; i < unused; i++) {
            free(pop(spares, class));
        }
        spares->least[class] = spares->count[class];
    }
    if (spares->bytes > CW_TAG_SPARE_RETAINED) {
        set_fade(spares);
    }
    return 0;
}

void cw_tag_spares_init(struct cw_tag_spares *spares, struct cw_poller *poller, size_t most)
{
    *spares = (struct cw_tag_spares){.most = most, .poller = poller, .fade = {.fire = fade}};
}

void cw_tag_spares_cleanup(struct cw_tag_spares *spares)
{
    unsigned class;

    cw_poller_alarm_cancel(spares->poller, &spares->fade);
    for (class = 0; class < CW_TAG_CLASSES; class++) {
        while (spares->count[class] > 0) {
            free(pop(spares, class));
        }
    }
}

static CW_NOINLINE struct ucp_recv_desc *make(unsigned class, uint64_t space)
{
    struct ucp_recv_desc *desc;

    if (class == CW_TAG_NO_CLASS) {
        desc = (space <= PTRDIFF_MAX - sizeof(*desc)) ? malloc(sizeof(*desc) + (size_t)space) : NULL;
    } else {
        desc = malloc(class_size(class));
    }
    if (desc != NULL) {
        desc->size_class = (uint8_t)class;
    }
    return desc;
}

struct ucp_recv_desc *cw_tag_spares_take(struct cw_tag_spares *spares, uint64_t space)
{
    const unsigned class = cw_tag_class(space);

    return (class != CW_TAG_NO_CLASS && spares->count[class] > 0) ? pop(spares, class) : make(class, space);
}

static size_t class_bytes(const struct cw_tag_spares *spares, unsigned class)
{
    return spares->count[class] * class_size(class);
}

static inline bool fits(const struct cw_tag_spares *spares, unsigned class)
{
    return class != CW_TAG_NO_CLASS && class_size(class) <= spares->most - spares->bytes;
}

/* Frees spares of the class that has the most bytes until one more of `class` fits, so that the messages of an earlier
 * burst do not occupy the whole cache. False: that class is `class`, or none would fit. */
static CW_NOINLINE bool make_space(struct cw_tag_spares *spares, unsigned class)
{
    unsigned largest, i;

    if (class_size(class) > spares->most) {
        return false;
    }
    while (!fits(spares, class)) {
        largest = class;
        for (i = 0; i < CW_TAG_CLASSES; i++) {
            if (class_bytes(spares, i) > class_bytes(spares, largest)) {
                largest = i;
            }
        }
        if (largest == class) {
            return false;
        }
        free(pop(spares, largest));
    }
    return true;
}

/* There must be space. */
static inline void push(struct cw_tag_spares *spares, struct ucp_recv_desc *desc)
{
    const unsigned class = desc->size_class;

    desc->next_spare = spares->first[class];
    spares->first[class] = desc;
    spares->count[class]++;
    spares->bytes += class_size(class);
    if (cw_unlikely(spares->bytes > CW_TAG_SPARE_RETAINED && !cw_alarm_is_set(&spares->fade))) {
        set_fade(spares);
    }
}

static CW_NOINLINE void give_other(struct cw_tag_spares *spares, struct ucp_recv_desc *desc)
{
    if (desc->size_class != CW_TAG_NO_CLASS && make_space(spares, desc->size_class)) {
        push(spares, desc);
    } else {
        free(desc);
    }
}

void cw_tag_spares_give(struct cw_tag_spares *spares, struct ucp_recv_desc *desc)
{
    if (cw_likely(fits(spares, desc->size_class))) {
        push(spares, desc);
    } else {
        give_other(spares, desc);
    }
}
