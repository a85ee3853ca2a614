/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reports the queues of the matcher to a process that diagnoses why a receive was not matched (core/queues.h).
 */
#include <stdlib.h>

#include "core/queues.h"
#include "tag/tag.h"

void cw_tag_gauges(struct ucp_worker *worker)
{
    const struct cw_tag_matcher *matcher = &worker->tag->matcher;

    worker->counts.values[CW_COUNT_POSTED] = cw_tag_matcher_num_posted(matcher);
    worker->counts.values[CW_COUNT_UNEXPECTED] = matcher->num_unexpected;
}

static uint64_t age_ns(const struct ucp_worker *worker, uint32_t since)
{
    return (uint64_t)(worker->moment - since) << CW_MOMENT_SHIFT;
}

static struct cw_queues_item show_recv(const struct ucp_worker *worker, const struct cw_tag_posted *posted)
{
    const struct cw_tag_recv_state *state = cw_container_of(posted->recv, struct cw_tag_recv_state, match);

    return (struct cw_queues_item){.tag = posted->key,
                                .mask = posted->mask,
                                .length = state->cursor.length,
                                .age_ns = age_ns(worker, state->since)};
}

static struct cw_queues_item show_message(const struct ucp_worker *worker, const struct ucp_recv_desc *desc)
{
    struct cw_queues_item item = {.tag = desc->match.tag,
                               .mask = UINT64_MAX,
                               .length = desc->in.total,
                               .age_ns = age_ns(worker, desc->since)};

    if (desc->announced) {
        item.flags = CW_QUEUES_ANNOUNCED;
    } else {
        item.flags = (desc->in.received < desc->in.total) ? CW_QUEUES_PARTIAL : 0;
        item.flags |= (desc->id != 0) ? CW_QUEUES_SYNC : 0;
    }
    if (desc->in.ep != NULL) {
        item.peer = cw_ep_peer_uid(desc->in.ep);
        item.endpoint = desc->in.ep->number;
    }
    return item;
}

void cw_tag_show(const struct ucp_worker *worker, struct cw_queues *queues)
{
    const struct cw_tag_matcher *matcher = &worker->tag->matcher;
    const size_t space = queues->listed_posted;
    const struct cw_tag_message *message = cw_tag_matcher_first_message(matcher);
    struct cw_tag_posted *posted = (space == 0) ? NULL : malloc(space * sizeof(*posted));
    struct cw_queues_item *item = queues->items;
    size_t i;

    queues->listed_posted = (posted == NULL) ? 0 : cw_tag_matcher_oldest(matcher, posted, space);
    for (i = 0; i < queues->listed_posted; i++) {
        *item++ = show_recv(worker, &posted[i]);
    }
    for (i = 0; i < queues->listed_unexpected && message != NULL; i++) {
        *item++ = show_message(worker, cw_container_of(message, struct ucp_recv_desc, match));
        message = cw_tag_matcher_next_message(matcher, message);
    }
    queues->listed_unexpected = i;
    free(posted);
}
