/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The world of the simulated network: chance, the virtual clock, the events and what a test may do to it from outside.
 * The transport's slots are in sim.c, sim_send.c and sim_peer.c. One thread; the only system call is the signal for a
 * sleeping worker.
 */
#include "transport/sim/sim_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

static struct cw_sim_world *the_world;

struct cw_sim_world *cw_sim_world_get(void)
{
    return the_world;
}

void cw_sim_must(int condition, const char *otherwise)
{
    if (!condition) {
        cw_fatal("the simulated network is used against its contract: %s; the seed is %llu", otherwise,
                 (the_world != NULL) ? (unsigned long long)the_world->seed : 0);
        abort();
    }
}

/* splitmix64: spreads one number over the state of the generator proper. */
static uint64_t spread(uint64_t *state)
{
    uint64_t value = (*state += 0x9e3779b97f4a7c15u);

    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static uint64_t rotate(uint64_t value, int count)
{
    return (value << count) | (value >> (64 - count));
}

/* xoshiro256**. */
uint64_t cw_sim_random(struct cw_sim_world *world)
{
    uint64_t *state       = world->random;
    const uint64_t result = rotate(state[1] * 5, 7) * 9;
    const uint64_t shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

uint64_t cw_sim_below(struct cw_sim_world *world, uint64_t limit)
{
    return cw_sim_random(world) % limit;
}

int cw_sim_chance(struct cw_sim_world *world, enum cw_sim_fault fault)
{
    if (world->knobs.chance[fault] == 0 || cw_sim_below(world, CW_SIM_ALWAYS) >= world->knobs.chance[fault]) {
        return 0;
    }
    world->stats.faults[fault]++;
    return 1;
}

uint64_t cw_sim_delay_ns(struct cw_sim_world *world)
{
    return world->knobs.delay_min_ns + cw_sim_below(world, world->knobs.delay_max_ns - world->knobs.delay_min_ns + 1);
}

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
    one->child     = other;
    return one;
}

/* ---- the interfaces ---- */

static void busy_set(struct cw_sim_world *world, unsigned at, struct cw_sim_iface *iface)
{
    world->busy[at] = iface;
    iface->place    = at + 1;
}

static void sift_up(struct cw_sim_world *world, unsigned at, struct cw_sim_iface *iface)
{
    while (at > 0 && comes_before(iface->heap, world->busy[(at - 1) / 2]->heap)) {
        busy_set(world, at, world->busy[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    busy_set(world, at, iface);
}

static void sift_down(struct cw_sim_world *world, unsigned at, struct cw_sim_iface *iface)
{
    unsigned child;

    while ((child = 2 * at + 1) < world->num_busy) {
        child += child + 1 < world->num_busy &&
                 comes_before(world->busy[child + 1]->heap, world->busy[child]->heap);
        if (!comes_before(world->busy[child]->heap, iface->heap)) {
            break;
        }
        busy_set(world, at, world->busy[child]);
        at = child;
    }
    sift_up(world, at, iface);
}

void cw_sim_reorder(struct cw_sim_iface *iface)
{
    struct cw_sim_world *world = iface->world;
    const unsigned place       = iface->place;
    struct cw_sim_iface *last;

    if (iface->heap != NULL && !iface->death) {
        if (place == 0) {
            sift_up(world, world->num_busy++, iface);
        } else {
            sift_down(world, place - 1, iface);
        }
    } else if (place > 0) {
        last         = world->busy[--world->num_busy];
        iface->place = 0;
        if (last != iface) {
            sift_down(world, place - 1, last);
        }
    }
}

int cw_sim_world_add(struct cw_sim_world *world, struct cw_sim_iface *iface)
{
    const unsigned max = (world->max_ifaces == 0) ? 16 : world->max_ifaces * 2;
    struct cw_sim_iface **ifaces, **busy;

    if (world->num_ifaces == world->max_ifaces) {
        ifaces        = realloc(world->ifaces, max * sizeof(struct cw_sim_iface *));
        world->ifaces = (ifaces != NULL) ? ifaces : world->ifaces;
        busy          = realloc(world->busy, max * sizeof(struct cw_sim_iface *));
        world->busy   = (busy != NULL) ? busy : world->busy;
        if (ifaces == NULL || busy == NULL) {
            return -1;
        }
        world->max_ifaces = max;
    }
    iface->number                = world->num_ifaces++;
    world->ifaces[iface->number] = iface;
    world->num_open++;
    return 0;
}

void cw_sim_world_remove(struct cw_sim_iface *iface)
{
    iface->world->ifaces[iface->number] = NULL;
    iface->world->num_open--;
}

struct cw_sim_iface *cw_sim_world_find(const struct cw_sim_world *world, unsigned number)
{
    return (number < world->num_ifaces) ? world->ifaces[number] : NULL;
}

/* ---- events ---- */

/* The usual two passes over the children of the old root; without recursion, because a heap can be one long chain. */
static struct cw_sim_event *pop(struct cw_sim_event **heap)
{
    struct cw_sim_event *root  = *heap;
    struct cw_sim_event *next  = root->child;
    struct cw_sim_event *pairs = NULL;
    struct cw_sim_event *rest  = NULL;
    struct cw_sim_event *one, *other;

    while (next != NULL) {
        one   = next;
        other = one->sibling;
        next  = (other != NULL) ? other->sibling : NULL;
        one->sibling = NULL;
        if (other != NULL) {
            other->sibling = NULL;
        }
        one          = meld(one, other);
        one->sibling = pairs;
        pairs        = one;
    }
    while (pairs != NULL) {
        one          = pairs;
        pairs        = one->sibling;
        one->sibling = NULL;
        rest         = meld(rest, one);
    }
    *heap        = rest;
    root->child  = NULL;
    root->queued = 0;
    return root;
}

void cw_sim_packet_retire(struct cw_sim_link *link, struct cw_sim_event *packet)
{
    if (link->boards == NULL) {
        free(packet);
        return;
    }
    packet->sibling = link->retired;
    link->retired   = packet;
}

void cw_sim_event_put(struct cw_sim_event *event)
{
    struct cw_sim_link *link = event->link;

    if (event->kind == CW_SIM_EVENT_PACKET || (event->kind == CW_SIM_EVENT_PLACED && !event->queued)) {
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
    event->queued  = 1;
    event->time_ns = time_ns;
    event->age     = iface->world->next_age++;
    event->child   = NULL;
    event->sibling = NULL;
    iface->heap    = meld(iface->heap, event);
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
    struct cw_sim_world *world     = the_world;
    struct cw_sim_channel *channel = &event->link->channels[1 - event->side];
    uint64_t time_ns               = world->now_ns + cw_sim_delay_ns(world);

    if (time_ns < channel->last_arrival_ns) {
        time_ns = channel->last_arrival_ns;
    }
    if (event->kind == CW_SIM_EVENT_CLOSED && time_ns <= channel->last_placed_ns) {
        time_ns = channel->last_placed_ns + 1;
    }
    channel->last_arrival_ns = time_ns;
    cw_sim_schedule(event, time_ns);
}

void cw_sim_launch_placed(struct cw_sim_event *event)
{
    struct cw_sim_world *world     = the_world;
    struct cw_sim_channel *channel = &event->link->channels[1 - event->side];
    uint64_t time_ns               = world->now_ns + cw_sim_delay_ns(world);

    if (event->target->in_order && time_ns <= channel->last_arrival_ns) {
        time_ns = channel->last_arrival_ns + 1;
    }
    event->target->end_ns = time_ns + cw_sim_delay_ns(world);
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
    struct cw_sim_world *world = iface->world;
    struct cw_sim_event *event = iface->heap;

    if (event == NULL || event->time_ns > world->now_ns) {
        return NULL;
    }
    pop(&iface->heap);
    cw_sim_reorder(iface);
    world->stats.events++;
    world->stats.digest = cw_hash_mix(world->stats.digest ^ event->time_ns) ^ ((uint64_t)event->kind << 48) ^
                          ((uint64_t)iface->number << 32) ^ event->length;
    return event;
}

void cw_sim_tick(struct cw_sim_iface *iface)
{
    struct cw_sim_world *world = iface->world;

    world->now_ns += world->knobs.step_ns;
    if (world->num_busy > 0 && world->busy[0]->heap->time_ns > world->now_ns) {
        world->now_ns = world->busy[0]->heap->time_ns;
    }
}

int64_t cw_sim_next(const struct cw_sim_world *world)
{
    return (world->num_busy == 0) ? -1 : (int64_t)world->busy[0]->number;
}

void cw_sim_drop_events(struct cw_sim_iface *iface, ucs_status_t status, uint64_t delay_ns)
{
    struct cw_sim_event *event, *heap;

    while (iface->heap != NULL) { /* again: it may have dialled itself */
        heap        = iface->heap;
        iface->heap = NULL;
        cw_sim_reorder(iface);
        while (heap != NULL) {
            event = pop(&heap);
            if (event->kind == CW_SIM_EVENT_HELLO) {
                event->link->opened.status = status;
                cw_sim_schedule(&event->link->opened, iface->world->now_ns + delay_ns);
            }
            cw_sim_event_put(event);
        }
    }
}

static void event_init(struct cw_sim_event *event, struct cw_sim_link *link, unsigned side, enum cw_sim_event_kind kind)
{
    *event = (struct cw_sim_event){.link = link, .side = (uint8_t)side, .kind = (uint8_t)kind};
}

struct cw_sim_link *cw_sim_link_new(struct cw_sim_world *world, const void *hello, size_t hello_length)
{
    struct cw_sim_link *link = calloc(1, sizeof(*link) + hello_length);
    unsigned side;

    if (link == NULL) {
        return NULL;
    }
    link->references   = 1;
    link->hello_length = hello_length;
    memcpy(link->hello_data, hello, hello_length);
    event_init(&link->hello, link, 1, CW_SIM_EVENT_HELLO);
    event_init(&link->opened, link, 0, CW_SIM_EVENT_OPENED);
    for (side = 0; side < 2; side++) {
        cw_list_init(&link->by_iface[side]);
        cw_list_init(&link->channels[side].queue);
        event_init(&link->closed[side], link, side, CW_SIM_EVENT_CLOSED);
        event_init(&link->channels[side].pump, link, side, CW_SIM_EVENT_PUMP);
        event_init(&link->channels[side].room, link, side, CW_SIM_EVENT_ROOM);
    }
    world->num_links++;
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
        the_world->num_links--;
        cw_list_remove(&link->by_iface[0]);
        cw_list_remove(&link->by_iface[1]);
        while ((packet = link->retired) != NULL) {
            link->retired = packet->sibling;
            free(packet);
        }
        free(link->boards);
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

void cw_sim_knobs_default(struct cw_sim_knobs *knobs)
{
    *knobs = (struct cw_sim_knobs){
        .max_short       = 32,
        .max_bcopy       = 256,
        .max_zcopy       = 1024,
        .max_placed      = 65536,
        .max_iov         = 4,
        .window          = 4096,
        .budget          = 8,
        .delay_min_ns    = 500,
        .delay_max_ns    = 20000,
        .dial_timeout_ns = 10000000,
        .step_ns         = 100,
    };
}

void cw_sim_knobs_random(struct cw_sim_knobs *knobs, uint64_t seed)
{
    static const uint32_t chances[] = {0, 1000, 30000, 300000};
    uint64_t state = seed ^ 0x6b6e6f6273u;

    cw_sim_knobs_default(knobs);
    knobs->max_short    = spread(&state) % 65;
    knobs->max_bcopy    = 128 + spread(&state) % 1024;
    knobs->max_zcopy    = (spread(&state) % 4 == 0) ? 0 : 256 + spread(&state) % 8192;
    knobs->max_iov      = 1 + (unsigned)(spread(&state) % CW_SIM_MAX_IOV);
    knobs->window       = 256u << (spread(&state) % 9);
    knobs->budget       = 1u << (spread(&state) % 6);
    knobs->delay_min_ns = spread(&state) % 2000;
    knobs->delay_max_ns = knobs->delay_min_ns + (spread(&state) % 3) * (spread(&state) % 100000);
    knobs->chance[CW_SIM_AGAIN]         = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_SHORT]         = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_SPURIOUS_ROOM] = chances[spread(&state) % 4];
    knobs->max_placed                   = (spread(&state) % 4 == 0) ? 0 : 256 + spread(&state) % 65536;
    knobs->chance[CW_SIM_NO_COPIES]     = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_COPY]          = chances[spread(&state) % 4];
}

struct cw_sim_world *cw_sim_world_new(uint64_t seed, const struct cw_sim_knobs *knobs)
{
    struct cw_sim_world *world = calloc(1, sizeof(*world));
    uint64_t state             = seed;
    unsigned i;

    cw_sim_must(the_world == NULL, "there is a simulated network already");
    if (world == NULL) {
        return NULL;
    }
    world->seed = seed;
    for (i = 0; i < 4; i++) {
        world->random[i] = spread(&state);
    }
    if (knobs != NULL) {
        world->knobs = *knobs;
    } else {
        cw_sim_knobs_default(&world->knobs);
    }
    cw_sim_must(world->knobs.max_iov <= CW_SIM_MAX_IOV && world->knobs.budget > 0 &&
                world->knobs.delay_min_ns <= world->knobs.delay_max_ns,
                "the knobs are out of range");
    the_world = world;
    return world;
}

void cw_sim_world_free(struct cw_sim_world *world)
{
    cw_sim_must(world == the_world && world->num_open == 0 && world->num_links == 0,
                "an interface or connection is left");
    the_world = NULL;
    free(world->ifaces);
    free(world->busy);
    free(world);
}

uint64_t cw_sim_seed(const struct cw_sim_world *world)
{
    return world->seed;
}

uint64_t cw_sim_now_ns(const struct cw_sim_world *world)
{
    return world->now_ns;
}

void cw_sim_advance(struct cw_sim_world *world, uint64_t ns)
{
    world->now_ns += ns;
}

void cw_sim_set_fault(struct cw_sim_world *world, enum cw_sim_fault fault, uint32_t chance)
{
    world->knobs.chance[fault] = chance;
}

void cw_sim_get_stats(const struct cw_sim_world *world, struct cw_sim_stats *stats)
{
    *stats = world->stats;
}

size_t cw_sim_memory(const struct cw_sim_world *world)
{
    size_t conns = 0;
    unsigned i;

    for (i = 0; i < world->num_ifaces; i++) {
        conns += (world->ifaces[i] != NULL) ? world->ifaces[i]->num_conns : 0;
    }
    return world->num_links * sizeof(struct cw_sim_link) + conns * sizeof(struct cw_sim_conn) +
           world->num_open * sizeof(struct cw_sim_iface) + world->max_ifaces * 2 * sizeof(struct cw_sim_iface *);
}

unsigned cw_sim_num_ifaces(const struct cw_sim_world *world)
{
    return world->num_ifaces;
}

/* Calls the peers of an interface, and with `both` the interface itself, off. */
static void end_all(struct cw_sim_iface *iface, int both)
{
    struct cw_sim_link *link;
    unsigned side;

    for (side = 0; side < 2; side++) {
        cw_list_for_each(link, &iface->links[side], struct cw_sim_link, by_iface[side]) {
            if (link->ends[side] != NULL || link->hello.queued) {
                cw_sim_link_end(link, 1 - side, UCS_ERR_CONNECTION_RESET);
                if (both) {
                    cw_sim_link_end(link, side, UCS_ERR_CONNECTION_RESET);
                }
            }
        }
    }
}

void cw_sim_kill(struct cw_sim_world *world, unsigned number, enum cw_sim_death death)
{
    struct cw_sim_iface *iface = cw_sim_world_find(world, number);

    if (iface == NULL || iface->death) {
        return;
    }
    cw_sim_must(!iface->upcall, "an interface is killed inside its own upcall");
    if (death == CW_SIM_KILLED) {
        cw_sim_drop_events(iface, UCS_ERR_UNREACHABLE, cw_sim_delay_ns(world));
        end_all(iface, 0);
    } else {
        cw_sim_drop_events(iface, UCS_ERR_TIMED_OUT, world->knobs.dial_timeout_ns);
    }
    iface->death = (uint8_t)death;
    cw_sim_reorder(iface);
}

void cw_sim_reset_all(struct cw_sim_world *world, unsigned number)
{
    struct cw_sim_iface *iface = cw_sim_world_find(world, number);

    if (iface != NULL && !iface->death) {
        cw_sim_must(!iface->upcall, "an interface is reset inside its own upcall");
        end_all(iface, 1);
    }
}
