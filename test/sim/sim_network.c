/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The simulated network: chance, the interfaces, and the functions by which a test changes it. Events and the clock
 * that they drive are in sim_event.c, the transport's slots in sim.c, sim_send.c and sim_peer.c. There is one thread;
 * the only system call is the signal for a sleeping worker.
 */
#include "sim_network.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"

static struct cw_sim_network *the_world;

struct cw_sim_network *cw_sim_network_get(void)
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
uint64_t cw_sim_random(struct cw_sim_network *network)
{
    uint64_t *state = network->random;
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

uint64_t cw_sim_below(struct cw_sim_network *network, uint64_t limit)
{
    return cw_sim_random(network) % limit;
}

int cw_sim_chance(struct cw_sim_network *network, enum cw_sim_fault fault)
{
    if (network->knobs.chance[fault] == 0 || cw_sim_below(network, CW_SIM_ALWAYS) >= network->knobs.chance[fault]) {
        return 0;
    }
    network->stats.faults[fault]++;
    return 1;
}

uint64_t cw_sim_delay_ns(struct cw_sim_network *network)
{
    const uint64_t least = network->knobs.delay_min_ns;

    return least + cw_sim_below(network, network->knobs.delay_max_ns - least + 1);
}

int cw_sim_network_add(struct cw_sim_network *network, struct cw_sim_iface *iface)
{
    const unsigned max = (network->max_ifaces == 0) ? 16 : network->max_ifaces * 2;
    struct cw_sim_iface **ifaces, **busy;

    if (network->num_ifaces == network->max_ifaces) {
        ifaces = realloc(network->ifaces, max * sizeof(struct cw_sim_iface *));
        network->ifaces = (ifaces != NULL) ? ifaces : network->ifaces;
        busy = realloc(network->busy, max * sizeof(struct cw_sim_iface *));
        network->busy = (busy != NULL) ? busy : network->busy;
        if (ifaces == NULL || busy == NULL) {
            return -1;
        }
        network->max_ifaces = max;
    }
    iface->number = network->num_ifaces++;
    network->ifaces[iface->number] = iface;
    network->num_open++;
    return 0;
}

void cw_sim_network_remove(struct cw_sim_iface *iface)
{
    iface->network->ifaces[iface->number] = NULL;
    iface->network->num_open--;
}

struct cw_sim_iface *cw_sim_network_find(const struct cw_sim_network *network, unsigned number)
{
    return (number < network->num_ifaces) ? network->ifaces[number] : NULL;
}

void cw_sim_knobs_default(struct cw_sim_knobs *knobs)
{
    *knobs = (struct cw_sim_knobs){
        .max_short = 32,
        .max_bcopy = 256,
        .max_zcopy = 1024,
        .max_placed = 65536,
        .max_iov = 4,
        .window = 4096,
        .budget = 8,
        .delay_min_ns = 500,
        .delay_max_ns = 20000,
        .dial_timeout_ns = 10000000,
        .step_ns = 100,
        .max_access = 65536,
    };
}

void cw_sim_knobs_random(struct cw_sim_knobs *knobs, uint64_t seed)
{
    static const uint32_t chances[] = {0, 1000, 30000, 300000};
    uint64_t state = seed ^ 0x6b6e6f6273u;

    cw_sim_knobs_default(knobs);
    knobs->max_short = spread(&state) % 65;
    knobs->max_bcopy = 128 + spread(&state) % 1024;
    knobs->max_zcopy = (spread(&state) % 4 == 0) ? 0 : 256 + spread(&state) % 8192;
    knobs->max_iov = 1 + (unsigned)(spread(&state) % CW_SIM_MAX_IOV);
    knobs->window = 256u << (spread(&state) % 9);
    knobs->budget = 1u << (spread(&state) % 6);
    knobs->delay_min_ns = spread(&state) % 2000;
    knobs->delay_max_ns = knobs->delay_min_ns + (spread(&state) % 3) * (spread(&state) % 100000);
    knobs->chance[CW_SIM_AGAIN] = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_SHORT] = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_SPURIOUS_ROOM] = chances[spread(&state) % 4];
    knobs->max_placed = (spread(&state) % 4 == 0) ? 0 : 256 + spread(&state) % 65536;
    knobs->chance[CW_SIM_NO_COPIES] = chances[spread(&state) % 4];
    knobs->chance[CW_SIM_COPY] = chances[spread(&state) % 4];
}

struct cw_sim_network *cw_sim_network_new(uint64_t seed, const struct cw_sim_knobs *knobs)
{
    struct cw_sim_network *network = calloc(1, sizeof(*network));
    uint64_t state = seed;
    unsigned i;

    cw_sim_must(the_world == NULL, "there is a simulated network already");
    if (network == NULL) {
        return NULL;
    }
    network->seed = seed;
    for (i = 0; i < 4; i++) {
        network->random[i] = spread(&state);
    }
    if (knobs != NULL) {
        network->knobs = *knobs;
    } else {
        cw_sim_knobs_default(&network->knobs);
    }
    cw_sim_must(network->knobs.max_iov <= CW_SIM_MAX_IOV && network->knobs.budget > 0 &&
                network->knobs.delay_min_ns <= network->knobs.delay_max_ns && network->knobs.rdma <= CW_SIM_MAX_RDMA,
                "the knobs are out of range");
    the_world = network;
    return network;
}

void cw_sim_network_free(struct cw_sim_network *network)
{
    cw_sim_must(network == the_world && network->num_open == 0 && network->num_links == 0,
                "an interface or connection is left");
    the_world = NULL;
    free(network->ifaces);
    free(network->busy);
    free(network);
}

uint64_t cw_sim_seed(const struct cw_sim_network *network)
{
    return network->seed;
}

uint64_t cw_sim_now_ns(const struct cw_sim_network *network)
{
    return network->now_ns;
}

void cw_sim_advance(struct cw_sim_network *network, uint64_t ns)
{
    network->now_ns += ns;
}

void cw_sim_set_fault(struct cw_sim_network *network, enum cw_sim_fault fault, uint32_t chance)
{
    network->knobs.chance[fault] = chance;
}

void cw_sim_get_stats(const struct cw_sim_network *network, struct cw_sim_stats *stats)
{
    *stats = network->stats;
}

size_t cw_sim_memory(const struct cw_sim_network *network)
{
    size_t conns = 0;
    unsigned i;

    for (i = 0; i < network->num_ifaces; i++) {
        conns += (network->ifaces[i] != NULL) ? network->ifaces[i]->num_conns : 0;
    }
    return network->num_links * sizeof(struct cw_sim_link) + conns * sizeof(struct cw_sim_conn) +
           network->num_open * sizeof(struct cw_sim_iface) + network->max_ifaces * 2 * sizeof(struct cw_sim_iface *);
}

unsigned cw_sim_num_ifaces(const struct cw_sim_network *network)
{
    return network->num_ifaces;
}

/* Sends the end of the connections to the peers of an interface, and with `both` to the interface itself. */
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

void cw_sim_kill(struct cw_sim_network *network, unsigned number, enum cw_sim_death death)
{
    struct cw_sim_iface *iface = cw_sim_network_find(network, number);

    if (iface == NULL || iface->death) {
        return;
    }
    cw_sim_must(!iface->upcall, "an interface is killed inside its own upcall");
    if (death == CW_SIM_KILLED) {
        cw_sim_drop_events(iface, UCS_ERR_UNREACHABLE, cw_sim_delay_ns(network));
        end_all(iface, 0);
    } else {
        cw_sim_drop_events(iface, UCS_ERR_TIMED_OUT, network->knobs.dial_timeout_ns);
    }
    iface->death = (uint8_t)death;
    cw_sim_reorder(iface);
}

void cw_sim_reset_all(struct cw_sim_network *network, unsigned number)
{
    struct cw_sim_iface *iface = cw_sim_network_find(network, number);

    if (iface != NULL && !iface->death) {
        cw_sim_must(!iface->upcall, "an interface is reset inside its own upcall");
        end_all(iface, 1);
    }
}

/* Whether this is an open connection whose hello begins with these bytes. */
static int is_meant(const struct cw_sim_link *link, const void *hello, size_t length)
{
    return link->ends[0] != NULL && link->ends[1] != NULL && link->ends[0]->state == CW_SIM_OPEN &&
           link->ends[1]->state == CW_SIM_OPEN && link->hello_length >= length &&
           memcmp(link->hello_data, hello, length) == 0;
}

static int is_cut(const struct cw_sim_link *link)
{
    return link->channels[0].cut || link->channels[1].cut;
}

/* Whether another connection of these two owners is open whose hello begins with these bytes. */
static int has_spare(const struct cw_sim_network *network, const struct cw_sim_link *link, const void *hello,
                     size_t length)
{
    const void *from = link->ifaces[0]->iface.owner, *to = link->ifaces[1]->iface.owner;
    const struct cw_sim_link *other;
    unsigned i;

    for (i = 0; i < network->num_ifaces; i++) {
        if (network->ifaces[i] == NULL || network->ifaces[i]->iface.owner != from) {
            continue;
        }
        cw_list_for_each(other, &network->ifaces[i]->links[0], struct cw_sim_link, by_iface[0])
        {
            if (other != link && is_meant(other, hello, length) && other->ifaces[1]->iface.owner == to &&
                !is_cut(other)) {
                return 1;
            }
        }
    }
    return 0;
}

static void cut(struct cw_sim_link *link, int silently)
{
    if (silently) {
        link->channels[0].cut = 1;
        link->channels[1].cut = 1;
    } else {
        cw_sim_link_end(link, 0, UCS_ERR_CONNECTION_RESET);
        cw_sim_link_end(link, 1, UCS_ERR_CONNECTION_RESET);
    }
}

int cw_sim_cut(struct cw_sim_network *network, const void *hello, size_t length, const void *spare, int silently)
{
    struct cw_sim_link *link, *chosen = NULL;
    uint64_t count = 0;
    unsigned i;

    for (i = 0; i < network->num_ifaces; i++) {
        if (network->ifaces[i] == NULL) {
            continue;
        }
        cw_list_for_each(link, &network->ifaces[i]->links[0], struct cw_sim_link, by_iface[0])
        {
            if (is_meant(link, hello, length) &&
                (spare == NULL || (!is_cut(link) && has_spare(network, link, spare, length))) &&
                cw_sim_below(network, ++count) == 0) {
                chosen = link;
            }
        }
    }
    if (chosen == NULL) {
        return 0;
    }
    cut(chosen, silently);
    return 1;
}

unsigned cw_sim_cut_device(struct cw_sim_network *network, const char *name, int silently)
{
    struct cw_sim_link *link, *next;
    unsigned count = 0, i;

    for (i = 0; i < network->num_ifaces; i++) {
        if (network->ifaces[i] == NULL || strcmp(network->ifaces[i]->iface.device->name, name) != 0) {
            continue;
        }
        cw_list_for_each_safe(link, next, &network->ifaces[i]->links[0], struct cw_sim_link, by_iface[0])
        {
            if (is_meant(link, "", 0) && link->ifaces[0]->iface.owner != link->ifaces[1]->iface.owner) {
                cut(link, silently);
                count++;
            }
        }
    }
    return count;
}

int cw_sim_has_cut(const struct cw_sim_network *network)
{
    const struct cw_sim_link *link;
    unsigned i;

    for (i = 0; i < network->num_ifaces; i++) {
        if (network->ifaces[i] == NULL) {
            continue;
        }
        cw_list_for_each(link, &network->ifaces[i]->links[0], struct cw_sim_link, by_iface[0])
        {
            if (is_meant(link, "", 0) && is_cut(link)) {
                return 1;
            }
        }
    }
    return 0;
}
