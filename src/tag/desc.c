/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of unexpected messages that their senders may cancel. A key is a hash of endpoint and id, so keys can
 * collide. An endpoint has one message for each id, so a peer cannot lengthen a chain at will.
 */
#include "tag/desc.h"

#include <stdalign.h>

#include "rndv/recv.h"
#include "wire/packet.h"

/* Follows the data of such a message. */
struct revocable {
    struct cw_hash_link link;
    struct ucp_recv_desc *desc;
};

_Static_assert(sizeof(struct revocable) + sizeof(uint64_t) - 1 <= CW_TAG_REVOCABLE, "there is space, aligned");

struct ucp_recv_desc *cw_tag_desc_lend(struct ucp_ep *ep, const char *data)
{
    const size_t header = sizeof(struct cw_wire_tag);
    struct cw_conn *lane = ep->conn;
    struct ucp_recv_desc *desc =
        (struct ucp_recv_desc *)(void *)((uintptr_t)data - offsetof(struct ucp_recv_desc, data));
    void *packet;

    if (lane == NULL || lane->iface->limits.keep_space + header < offsetof(struct ucp_recv_desc, data) ||
        (uintptr_t)data % alignof(struct ucp_recv_desc) != 0) {
        return NULL;
    }
    packet = cw_lane_keep(lane, data - header);
    if (packet == NULL) {
        return NULL;
    }
    desc->lender = lane->iface;
    desc->packet = packet;
    desc->size_class = CW_TAG_NO_CLASS;
    return desc;
}

static uint64_t key_of(const struct ucp_ep *ep, uint64_t id)
{
    return cw_hash_mix((uintptr_t)ep) + id;
}

/* The bytes in desc->data. */
static uint64_t length_of(const struct ucp_recv_desc *desc)
{
    if (!desc->announced) {
        return desc->in.total;
    }
    return (desc->num_keys > 0) ? sizeof(struct cw_offer_keys) : 0;
}

static struct revocable *revocable_of(struct ucp_recv_desc *desc)
{
    const uintptr_t end = (uintptr_t)desc->data + length_of(desc);

    return (struct revocable *)((end + sizeof(uint64_t) - 1) / sizeof(uint64_t) * sizeof(uint64_t));
}

struct ucp_recv_desc *cw_tag_desc_find(const struct ucp_ep *ep, uint64_t id)
{
    const struct cw_hash_link *link = cw_hash_find(&ep->worker->tag->revocable, key_of(ep, id));
    struct ucp_recv_desc *desc;

    for (; link != NULL; link = cw_hash_next(link)) {
        desc = cw_container_of(link, struct revocable, link)->desc;
        if (desc->in.ep == ep && desc->id == id) {
            return desc;
        }
    }
    return NULL;
}

int cw_tag_desc_revocable(struct ucp_ep *ep, struct ucp_recv_desc *desc)
{
    struct revocable *revocable = revocable_of(desc);

    if (cw_tag_desc_find(ep, desc->id) != NULL) {
        return 0;
    }
    revocable->desc = desc;
    desc->revocable = 1;
    cw_hash_add(&ep->worker->tag->revocable, &revocable->link, key_of(ep, desc->id));
    return 1;
}

void cw_tag_desc_keep(struct ucp_worker *worker, struct ucp_recv_desc *desc)
{
    if (desc->revocable) {
        desc->revocable = 0;
        cw_hash_remove(&worker->tag->revocable, &revocable_of(desc)->link);
    }
}
