/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The events of the simulated network and their order: events in the heap of an interface, interfaces with events in
 * the heap of the network, and the links at whose ends events happen.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "sim_rdma.h"

static int comes_before(const struct cw_sim_event *one, const struct cw_sim_event *other)
{
    return (one->time_ns != other->time_ns) ? one->time_ns < other->time_ns : one->age < other->age;
}

static struct cw_sim_event *meld(struct cw_sim_event *one, struct cw_sim_event *other)
{
    if (one == NULL || other == NULL) {
        return (one != NULL) ? one : other;
    }
    if (comes_before(other, one)) {
        return meld(other, one);
    }
    other->sibling = one->child;
    one->child = other;
    return one;
}

/* ---- the heap of interfaces ---- */

static void busy_set(struct cw_sim_network *network, unsigned at, struct cw_sim_iface *iface)
{
    network->busy[at] = iface;
    iface->place = at + 1;
}

static void sift_up(struct cw_sim_network *network, unsigned at, struct cw_sim_iface *iface)
{
    while (at > 0 && comes_before(iface->heap, network->busy[(at - 1) / 2]->heap)) {
        busy_set(network, at, network->busy[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    busy_set(network, at, iface);
}

static void sift_down(struct cw_sim_network *network, unsigned at, struct cw_sim_iface *iface)
{
    unsigned child;

    while ((child = 2 * at + 1) < network->num_busy) {
        child += child + 1 < network->num_busy &&
                 comes_before(network->busy[child + 1]->heap, network->busy[child]->heap);
        if (!comes_before(network->busy[child]->heap, iface->heap)) {
            break;
        }
        busy_set(network, at, network->busy[child]);
        at = child;
    }
    sift_up(network, at, iface);
}

void cw_sim_reorder(struct cw_sim_iface *iface)
{
    struct cw_sim_network *network = iface->network;
    const unsigned place = iface->place;
    struct cw_sim_iface *last;

    if (iface->heap != NULL && !iface->death) {
        if (place == 0) {
            sift_up(network, network->num_busy++, iface);
        } else {
            sift_down(network, place - 1, iface);
        }
    } else if (place > 0) {
        last = network->busy[--network->num_busy];
        iface->place = 0;
        if (last != iface) {
            sift_down(network, place - 1, last);
        }
    }
}

/* ---- events ---- */

/* Takes the first event out by the usual two passes over its children; without recursion, because a heap can be one
 * long chain. */
static struct cw_sim_event *pop(struct cw_sim_event **heap)
{
    struct cw_sim_event *root = *heap;
    struct cw_sim_event *next = root->child;
    struct cw_sim_event *pairs = NULL;
    struct cw_sim_event *rest = NULL;
    struct cw_sim_event *one, *other;

    while (next != NULL) {
        one = next;
        other = one->sibling;
        next = (other != NULL) ? other->sibling : NULL;
        one->sibling = NULL;
        if (other != NULL) {
            other->sibling = NULL;
        }
        one = meld(one, other);
        one->sibling = pairs;
        pairs = one;
    }
    while (pairs != NULL) {
        one = pairs;
        pairs = one->sibling;
        one->sibling = NULL;
        rest = meld(rest, one);
    }
    *heap = rest;
    root->child = NULL;
    root->queued = 0;
    return root;
}

void cw_sim_packet_retire(struct cw_sim_link *link, struct cw_sim_event *packet)
{
    if (link->pairs == NULL) {
        free(packet);
        return;
    }
    packet->sibling = link->retired;
    link->retired = packet;
}

void cw_sim_event_put(struct cw_sim_event *event)
{
    struct cw_sim_link *link = event->link;

    if (event->kind == CW_SIM_EVENT_ACCESS) {
        cw_sim_rdma_put(event);
    } else if ((event->kind == CW_SIM_EVENT_PACKET || event->kind == CW_SIM_EVENT_PLACED) && !event->queued) {
        cw_sim_packet_retire(link, event);
    }
    cw_sim_link_put(link);
}

void cw_sim_schedule(struct cw_sim_event *event, uint64_t time_ns)
{
    struct cw_sim_iface *iface = event->link->ifaces[event->side];

    if (event->queued) {
        return;
    }
    cw_sim_link_get(event->link);
    if (iface == NULL || iface->death) {
        cw_sim_event_put(event);
        return;
    }
    event->queued = 1;
    event->time_ns = time_ns;
    event->age = iface->network->next_age++;
    event->child = NULL;
    event->sibling = NULL;
    iface->heap = meld(iface->heap, event);
    if (iface->heap == event) {
        cw_sim_reorder(iface);
    }
    if (iface->armed) {
        iface->armed = 0;
        (void)cw_poller_signal(iface->poller);
    }
}

void cw_sim_launch(struct cw_sim_event *event)
{
    struct cw_sim_network *network = cw_sim_network_get();
    struct cw_sim_channel *channel = &event->link->channels[1 - event->side];
    uint64_t time_ns = network->now_ns + cw_sim_delay_ns(network);

    if (time_ns < channel->last_arrival_ns) {
        time_ns = channel->last_arrival_ns;
    }
    if (event->kind == CW_SIM_EVENT_PACKET && network->knobs.rdma > 0 && cw_sim_chance(network, CW_SIM_NO_RECEIVES)) {
        time_ns += 1000 + 4 * cw_sim_delay_ns(network); /* the packet is sent again, and all packets behind it wait */
    }
    if (event->kind == CW_SIM_EVENT_CLOSED && time_ns <= channel->last_placed_ns) {
        time_ns = channel->last_placed_ns + 1;
    }
    channel->last_arrival_ns = time_ns;
    cw_sim_schedule(event, time_ns);
}

void cw_sim_launch_placed(struct cw_sim_event *event)
{
    struct cw_sim_network *network = cw_sim_network_get();
    struct cw_sim_channel *channel = &event->link->channels[1 - event->side];
    uint64_t time_ns = network->now_ns + cw_sim_delay_ns(network);

    if (event->target->in_order && time_ns <= channel->last_arrival_ns) {
        time_ns = channel->last_arrival_ns + 1;
    }
    event->target->end_ns = time_ns + cw_sim_delay_ns(network);
    if (event->target->in_order) {
        channel->last_arrival_ns = event->target->end_ns + 1;
    }
    if (channel->last_placed_ns < event->target->end_ns) {
        channel->last_placed_ns = event->target->end_ns;
    }
    cw_sim_schedule(event, time_ns);
}

struct cw_sim_event *cw_sim_pop_due(struct cw_sim_iface *iface)
{
    struct cw_sim_network *network = iface->network;
    struct cw_sim_event *event = iface->heap;

    if (event == NULL || event->time_ns > network->now_ns) {
        return NULL;
    }
    pop(&iface->heap);
    cw_sim_reorder(iface);
    network->stats.events++;
    network->stats.digest = cw_hash_mix(network->stats.digest ^ event->time_ns) ^ ((uint64_t)event->kind << 48) ^
                          ((uint64_t)iface->number << 32) ^ event->length;
    return event;
}

void cw_sim_tick(struct cw_sim_iface *iface)
{
    struct cw_sim_network *network = iface->network;

    network->now_ns += network->knobs.step_ns;
    if (network->num_busy > 0 && network->busy[0]->heap->time_ns > network->now_ns) {
        network->now_ns = network->busy[0]->heap->time_ns;
    }
}

int64_t cw_sim_next(const struct cw_sim_network *network)
{
    return (network->num_busy == 0) ? -1 : (int64_t)network->busy[0]->number;
}

void cw_sim_drop_events(struct cw_sim_iface *iface, ucs_status_t status, uint64_t delay_ns)
{
    struct cw_sim_event *event, *heap;

    while (iface->heap != NULL) { /* looped, because an interface that dialled itself gets new events */
        heap = iface->heap;
        iface->heap = NULL;
        cw_sim_reorder(iface);
        while (heap != NULL) {
            event = pop(&heap);
            if (event->kind == CW_SIM_EVENT_HELLO) {
                event->link->opened.status = status;
                cw_sim_schedule(&event->link->opened, iface->network->now_ns + delay_ns);
            }
            cw_sim_event_put(event);
        }
    }
}

/* ---- links ---- */

static void event_init(struct cw_sim_event *event, struct cw_sim_link *link, unsigned side, enum cw_sim_event_kind kind)
{
    *event = (struct cw_sim_event){.link = link, .side = (uint8_t)side, .kind = (uint8_t)kind};
}

struct cw_sim_link *cw_sim_link_new(struct cw_sim_network *network, const void *hello, size_t hello_length)
{
    struct cw_sim_link *link = calloc(1, sizeof(*link) + hello_length);
    unsigned side;

    if (link == NULL) {
        return NULL;
    }
    link->references = 1;
    link->hello_length = hello_length;
    memcpy(link->hello_data, hello, hello_length);
    event_init(&link->hello, link, 1, CW_SIM_EVENT_HELLO);
    event_init(&link->opened, link, 0, CW_SIM_EVENT_OPENED);
    for (side = 0; side < 2; side++) {
        cw_list_init(&link->by_iface[side]);
        cw_list_init(&link->channels[side].queue);
        event_init(&link->closed[side], link, side, CW_SIM_EVENT_CLOSED);
        event_init(&link->channels[side].pump, link, side, CW_SIM_EVENT_PUMP);
        event_init(&link->channels[side].space, link, side, CW_SIM_EVENT_ROOM);
    }
    network->num_links++;
    return link;
}

void cw_sim_link_join(struct cw_sim_link *link, unsigned side, struct cw_sim_iface *iface)
{
    link->ifaces[side] = iface;
    if (iface != NULL) {
        cw_list_add_tail(&iface->links[side], &link->by_iface[side]);
    }
}

int cw_sim_link_reply(struct cw_sim_link *link, const void *reply, size_t length)
{
    link->reply_data = (length == 0) ? NULL : malloc(length);
    if (link->reply_data == NULL) {
        return length == 0;
    }
    memcpy(link->reply_data, reply, length);
    link->reply_length = length;
    return 1;
}

void cw_sim_link_get(struct cw_sim_link *link)
{
    link->references++;
}

void cw_sim_link_put(struct cw_sim_link *link)
{
    struct cw_sim_event *packet;

    cw_sim_must(link->references > 0, "a link is given back too often");
    if (--link->references == 0) {
        cw_sim_network_get()->num_links--;
        cw_list_remove(&link->by_iface[0]);
        cw_list_remove(&link->by_iface[1]);
        while ((packet = link->retired) != NULL) {
            link->retired = packet->sibling;
            free(packet);
        }
        free(link->pairs);
        free(link->reply_data);
        free(link);
    }
}

void cw_sim_link_end(struct cw_sim_link *link, unsigned side, ucs_status_t status)
{
    struct cw_sim_conn *conn = link->ends[side];

    link->channels[1 - side].cut = 1;
    if ((conn == NULL) ? !link->hello.queued : conn->state == CW_SIM_BROKEN) {
        return;
    }
    if (!link->closed[side].queued) {
        link->closed[side].status = status;
        cw_sim_launch(&link->closed[side]);
    }
}
