/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes and lives. A route is an address in the provider's vector, inserted once for all peers that name it. A life is
 * an address entry with its random number: a process that restarts at an address begins another life, and its peers and
 * connections are new ones.
 *
 * Entries come from peers and from worker addresses, so they may hold any bytes: the provider gets only addresses that
 * have the form of this side's own.
 */
#include "transport/ofi/ofi_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "os/process.h"

/* Interfaces of this process. For a peer among them this table tells whether it ended; with more than MAX_LIVES
 * interfaces it tells nothing. */
#define MAX_LIVES 256u

static _Atomic uint64_t lives[MAX_LIVES];
static _Atomic int overflowed;

void cw_ofi_life_begin(uint64_t life)
{
    uint64_t none;
    unsigned i;

    for (i = 0; i < MAX_LIVES; i++) {
        none = 0;
        if (atomic_compare_exchange_strong(&lives[i], &none, life)) {
            return;
        }
    }
    atomic_store(&overflowed, 1);
}

/* Replaces a life in the table. Returns 1 if it was there. */
static int find_life(uint64_t life, uint64_t then)
{
    uint64_t value;
    unsigned i;

    for (i = 0; i < MAX_LIVES; i++) {
        value = life;
        if (atomic_compare_exchange_strong(&lives[i], &value, then)) {
            return 1;
        }
    }
    return 0;
}

void cw_ofi_life_end(uint64_t life)
{
    (void)find_life(life, 0);
}

static int is_over(const struct ofi_iface *iface, const struct cw_ofi_entry *entry)
{
    const struct cw_ofi_entry *ours = &iface->entry.head;

    return entry->process == ours->process && entry->pidns == ours->pidns && entry->boot == ours->boot &&
           !atomic_load(&overflowed) && !find_life(entry->life, entry->life);
}

int cw_ofi_peer_is_dead(struct ofi_peer *peer)
{
    peer->dead |= is_over(peer->iface, &peer->entry);
    return peer->dead;
}

static uint64_t sum(const void *bytes, size_t length)
{
    const uint8_t *byte = bytes;
    uint64_t value      = length;
    size_t i;

    for (i = 0; i < length; i++) {
        value = cw_hash_mix(value + byte[i] + 1);
    }
    return value;
}

int cw_ofi_has_form(const struct ofi_iface *iface, const uint8_t *bytes, size_t length)
{
    const size_t own = iface->entry.head.length;

    if (iface->info->addr_format == FI_ADDR_STR) {
        return length > 0 && memchr(bytes, '\0', length) == bytes + length - 1;
    }
    /* the address family is part of the form */
    return length == own &&
           ((iface->info->addr_format != FI_SOCKADDR_IN && iface->info->addr_format != FI_SOCKADDR_IN6) ||
            memcmp(bytes, iface->entry.bytes, 2) == 0);
}

int cw_ofi_entry_check(struct ofi_iface *iface, const void *bytes, size_t length, const char **why)
{
    struct cw_ofi_entry entry;

    *why = "the address is no address of ofi";
    if (length < sizeof(entry) || length > CW_OFI_MAX_ENTRY) {
        return 0;
    }
    memcpy(&entry, bytes, sizeof(entry));
    if (entry.version != CW_OFI_VERSION || entry.length != length - sizeof(entry)) {
        return 0;
    }
    *why = "it is another provider of libfabric, or another form of address";
    if (entry.provider != iface->entry.head.provider || entry.format != iface->info->addr_format ||
        !cw_ofi_has_form(iface, (const uint8_t *)bytes + sizeof(entry), entry.length)) {
        return 0;
    }
    *why = "the provider reaches its own machine only";
    return (!entry.local && !iface->entry.head.local) ||
           (entry.local && iface->entry.head.local && entry.boot == iface->entry.head.boot);
}

static struct ofi_route *find_route(const struct ofi_iface *iface, const uint8_t *bytes, size_t length, uint64_t key)
{
    struct cw_hash_link *link;
    struct ofi_route *route;

    for (link = cw_hash_find(&iface->routes, key); link != NULL; link = cw_hash_next(link)) {
        route = cw_container_of(link, struct ofi_route, link);
        if (route->length == length && memcmp(route->bytes, bytes, length) == 0) {
            return route;
        }
    }
    return NULL;
}

struct ofi_route *cw_ofi_route_get(struct ofi_iface *iface, const uint8_t *bytes, size_t length)
{
    const uint64_t key      = sum(bytes, length);
    struct ofi_route *route = find_route(iface, bytes, length, key);

    if (route == NULL) {
        route = calloc(1, sizeof(*route));
        if (route == NULL) {
            return NULL;
        }
        cw_bytes_copy_any(route->bytes, bytes, length);
        route->length  = length;
        route->address = FI_ADDR_NOTAVAIL;
        if (fi_av_insert(iface->av, route->bytes, 1, &route->address, 0, NULL) != 1 ||
            route->address == FI_ADDR_NOTAVAIL) {
            free(route);
            return NULL;
        }
        cw_hash_add(&iface->routes, &route->link, key);
    }
    route->references++;
    return route;
}

void cw_ofi_route_renew(struct ofi_iface *iface, struct ofi_route *route, uint64_t age)
{
    fi_addr_t address = FI_ADDR_NOTAVAIL;

    if (age <= route->renewed || fi_av_remove(iface->av, &route->address, 1, 0) != 0) {
        return;
    }
    route->renewed = iface->ages; /* later accesses of connections until now broke the former way */
    if (fi_av_insert(iface->av, route->bytes, 1, &address, 0, NULL) == 1) {
        route->address = address;
    }
}

void cw_ofi_route_drop(struct ofi_iface *iface, struct ofi_route *route)
{
    if (route != NULL && --route->references == 0) {
        cw_hash_remove(&iface->routes, &route->link);
        if (!iface->broken) {
            (void)fi_av_remove(iface->av, &route->address, 1, 0);
        }
        free(route);
    }
}

static unsigned process_ended(struct cw_poll_item *item, unsigned events)
{
    struct ofi_peer *peer = cw_container_of(item, struct ofi_peer, process);

    (void)events;
    cw_ofi_peer_died(peer, UCS_ERR_CONNECTION_RESET, "the process ended");
    return 1;
}

/* For a process on this machine the system reports its end. */
static void watch_process(struct ofi_peer *peer)
{
    struct ofi_iface *iface         = peer->iface;
    const struct cw_ofi_entry *ours = &iface->entry.head;

    peer->process = (struct cw_poll_item){.fd = -1, .ready = process_ended};
    if (peer->entry.pidns != ours->pidns || peer->entry.boot != ours->boot || peer->entry.process == ours->process) {
        return;
    }
    peer->process.fd = cw_process_watch(peer->entry.process);
    peer->dead       = peer->process.fd == -ESRCH;
    if (peer->process.fd >= 0 && cw_poller_add(iface->poller, &peer->process, CW_POLL_READ) != UCS_OK) {
        cw_process_unwatch(peer->process.fd);
        peer->process.fd = -1;
    }
}

ucs_status_t cw_ofi_peer_get(struct ofi_iface *iface, const void *bytes, size_t length, struct ofi_peer **peer_p)
{
    const uint64_t key = sum(bytes, length);
    struct cw_hash_link *link;
    struct ofi_peer *peer;

    *peer_p = NULL;
    for (link = cw_hash_find(&iface->peers, key); link != NULL; link = cw_hash_next(link)) {
        peer = cw_container_of(link, struct ofi_peer, link);
        if (memcmp(&peer->entry, bytes, sizeof(peer->entry)) == 0 &&
            memcmp(peer->route->bytes, (const char *)bytes + sizeof(peer->entry), peer->route->length) == 0) {
            cw_ofi_peer_hold(peer);
            *peer_p = peer;
            return cw_ofi_peer_is_dead(peer) ? UCS_ERR_UNREACHABLE : UCS_OK;
        }
    }
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(&peer->entry, bytes, sizeof(peer->entry));
    peer->iface    = iface;
    peer->watch.fd = -1;
    if (!is_over(iface, &peer->entry)) {
        peer->route = cw_ofi_route_get(iface, (const uint8_t *)bytes + sizeof(peer->entry), peer->entry.length);
    }
    if (peer->route == NULL) {
        free(peer);
        return UCS_ERR_UNREACHABLE;
    }
    watch_process(peer);
    peer->references = 1;
    cw_hash_add(&iface->peers, &peer->link, key);
    *peer_p = peer;
    return cw_ofi_peer_is_dead(peer) ? UCS_ERR_UNREACHABLE : UCS_OK;
}

void cw_ofi_peer_hold(struct ofi_peer *peer)
{
    peer->references++;
}

void cw_ofi_peer_drop(struct ofi_peer *peer)
{
    if (peer == NULL || --peer->references > 0) {
        return;
    }
    cw_hash_remove(&peer->iface->peers, &peer->link);
    if (peer->process.fd >= 0) {
        cw_poller_remove(peer->iface->poller, &peer->process);
        cw_process_unwatch(peer->process.fd);
    }
    cw_ofi_watch_end(peer);
    cw_ofi_route_drop(peer->iface, peer->route);
    free(peer);
}
