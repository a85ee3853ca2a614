/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of op/tag_spare.h.
 */
#include "op/tag_spare.h"

#include <stdlib.h>

#include "op/tag_desc.h"
#include "os/clock.h"

#define FADE_NS UINT64_C(1000000000)

static void set_fade(struct cw_tag_spares *spares)
{
    cw_poller_alarm_set_lazy(spares->poller, &spares->fade, cw_clock_ns() + FADE_NS);
}

/* Frees one half of the descriptors that were not needed since the last time. */
static unsigned fade(struct cw_alarm *alarm)
{
    struct cw_tag_spares *spares = cw_container_of(alarm, struct cw_tag_spares, fade);
    unsigned class;
    uint32_t i, unused;

    for (class = 0; class < CW_TAG_CLASSES; class++) {
        unused = spares->least[class] - spares->least[class] / 2;
        for (i = 0; i < unused; i++) {
            free(cw_tag_spares_pop(spares, class));
        }
        spares->least[class] = spares->count[class];
    }
    if (spares->bytes > CW_TAG_SPARE_KEPT) {
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
            free(cw_tag_spares_pop(spares, class));
        }
    }
}

struct ucp_recv_desc *cw_tag_spares_take(struct cw_tag_spares *spares, uint64_t room)
{
    const unsigned class = cw_tag_class(room);
    struct ucp_recv_desc *desc;

    if (class != CW_TAG_NO_CLASS && spares->count[class] > 0) {
        return cw_tag_spares_pop(spares, class);
    }
    if (class == CW_TAG_NO_CLASS) {
        desc = (room <= PTRDIFF_MAX - sizeof(*desc)) ? malloc(sizeof(*desc) + (size_t)room) : NULL;
    } else {
        desc = malloc(cw_tag_class_size(class));
    }
    if (desc != NULL) {
        desc->size_class = (uint8_t)class;
    }
    return desc;
}

void cw_tag_spares_give(struct cw_tag_spares *spares, struct ucp_recv_desc *desc)
{
    const unsigned class = desc->size_class;

    if (class == CW_TAG_NO_CLASS || cw_tag_class_size(class) > spares->most - spares->bytes) {
        free(desc);
        return;
    }
    cw_tag_spares_push(spares, class, desc);
    if (cw_unlikely(spares->bytes > CW_TAG_SPARE_KEPT && !cw_alarm_is_set(&spares->fade))) {
        set_fade(spares);
    }
}
