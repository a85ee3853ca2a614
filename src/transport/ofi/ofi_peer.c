/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Routes and lives. A route is an address in the provider's vector, inserted once for all peers with that address. A
 * life is an address entry with its random number: a process that restarts at an address begins another life, with new
 * peers and connections.
 *
 * Entries come from peers and from worker addresses and are untrusted: the provider gets only addresses that have the
 * form of this side's own.
 */
#include "transport/ofi/ofi_watch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "os/clock.h"
#include "os/process.h"

/* Interfaces of this process, to detect the end of a peer among them. Ineffective with more than MAX_LIVES
 * interfaces. */
#define MAX_LIVES 256u

#define STRANGE_NS UINT64_C(10000000000) /* how long an unauthenticated peer may occupy an entry */

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

static bool is_over(const struct ofi_iface *iface, const struct cw_ofi_entry *entry)
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
    uint64_t value = length;
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
    /* the address family must match, too */
    return length == own &&
           ((iface->info->addr_format != FI_SOCKADDR_IN && iface->info->addr_format != FI_SOCKADDR_IN6) ||
            memcmp(bytes, iface->entry.bytes, 2) == 0);
}

int cw_ofi_entry_check(struct ofi_iface *iface, const void *bytes, size_t length, const char **why)
{
    struct cw_ofi_entry entry;

    *why = "not an address of ofi";
    if (length < sizeof(entry) || length > CW_OFI_MAX_ENTRY) {
        return 0;
    }
    memcpy(&entry, bytes, sizeof(entry));
    if (entry.version != CW_OFI_VERSION || entry.length != length - sizeof(entry)) {
        return 0;
    }
    *why = "it is another provider of libfabric, or another format of address";
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
    const uint64_t key = sum(bytes, length);
    struct ofi_route *route = find_route(iface, bytes, length, key);

    if (route == NULL) {
        route = calloc(1, sizeof(*route));
        if (route == NULL) {
            return NULL;
        }
        cw_bytes_copy_any(route->bytes, bytes, length);
        route->length = length;
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
    route->renewed = iface->ages; /* accesses up to this age used the former connection */
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
    return 0; /* does not count as work: connection ends count when they are reported, and unauthenticated peers have
               * none */
}

/* The system reports the end of a process on this machine. */
static void watch_process(struct ofi_peer *peer)
{
    struct ofi_iface *iface = peer->iface;
    const struct cw_ofi_entry *ours = &iface->entry.head;

    peer->process = (struct cw_poll_item){.fd = -1, .ready = process_ended};
    if (peer->entry.pidns != ours->pidns || peer->entry.boot != ours->boot || peer->entry.process == ours->process) {
        return;
    }
    peer->process.fd = cw_process_watch(peer->entry.process);
    peer->dead |= peer->process.fd == -ESRCH;
    if (peer->process.fd >= 0 && cw_poller_add(iface->poller, &peer->process, CW_POLL_READ) != UCS_OK) {
        cw_process_unwatch(peer->process.fd);
        peer->process.fd = -1;
    }
}

struct ofi_peer *cw_ofi_peer_find(struct ofi_iface *iface, const void *bytes, size_t length)
{
    struct cw_hash_link *link;
    struct ofi_peer *peer;

    for (link = cw_hash_find(&iface->peers, sum(bytes, length)); link != NULL; link = cw_hash_next(link)) {
        peer = cw_container_of(link, struct ofi_peer, link);
        if (memcmp(&peer->entry, bytes, sizeof(peer->entry)) == 0 &&
            memcmp(peer->route->bytes, (const char *)bytes + sizeof(peer->entry), peer->route->length) == 0) {
            return peer;
        }
    }
    return NULL;
}

/* Marks the peer as named by the program. */
static void name_peer(struct ofi_peer *peer)
{
    cw_ofi_peer_reached(peer);
    cw_ofi_peer_proved(peer);
}

static struct ofi_peer *peer_new(struct ofi_iface *iface, const void *bytes, size_t length)
{
    struct ofi_peer *peer = calloc(1, sizeof(*peer));

    if (peer == NULL) {
        return NULL;
    }
    memcpy(&peer->entry, bytes, sizeof(peer->entry));
    peer->iface = iface;
    peer->references = 1;
    peer->process = (struct cw_poll_item){.fd = -1};
    peer->watch.ended = cw_ofi_watch_ended;
    cw_watch_init(&peer->watch, iface->poller);
    peer->route = cw_ofi_route_get(iface, (const uint8_t *)bytes + sizeof(peer->entry), peer->entry.length);
    cw_list_init(&peer->strange);
    if (peer->route == NULL) {
        free(peer);
        return NULL;
    }
    cw_hash_add(&iface->peers, &peer->link, sum(bytes, length));
    return peer;
}

ucs_status_t cw_ofi_peer_get(struct ofi_iface *iface, const void *bytes, size_t length, bool is_named,
                             struct ofi_peer **peer_p)
{
    struct ofi_peer *peer = cw_ofi_peer_find(iface, bytes, length);
    struct cw_ofi_entry entry;

    *peer_p = NULL;
    if (peer == NULL) {
        memcpy(&entry, bytes, sizeof(entry));
        peer = is_over(iface, &entry) ? NULL : peer_new(iface, bytes, length);
        if (peer == NULL) {
            return UCS_ERR_UNREACHABLE;
        }
        if (!is_named && iface->unauth.guessed < CW_OFI_GUESSES) {
            peer->is_guessed = 1;
            iface->unauth.guessed++;
            watch_process(peer);
        }
    } else {
        cw_ofi_peer_hold(peer);
    }
    if (is_named) {
        name_peer(peer);
    }
    *peer_p = peer;
    return cw_ofi_peer_is_dead(peer) ? UCS_ERR_UNREACHABLE : UCS_OK;
}

bool cw_ofi_is_contradicted(const struct ofi_iface *iface, const void *bytes, size_t length, uint64_t source)
{
    const struct ofi_conn *conn;
    const uint8_t *address = (const uint8_t *)bytes + sizeof(struct cw_ofi_entry);

    length -= sizeof(struct cw_ofi_entry);
    if (source == FI_ADDR_NOTAVAIL) {
        return false;
    }
    /* a removed entry proves nothing */
    cw_list_for_each(conn, &iface->conns, struct ofi_conn, link)
    {
        if (conn->peer != NULL && conn->peer->route->address == source) {
            return conn->peer->route->length != length || memcmp(conn->peer->route->bytes, address, length) != 0;
        }
    }
    return false;
}

/* ---- unauthenticated peers ---- */

static void unlist(struct ofi_peer *peer)
{
    if (!cw_list_empty(&peer->strange)) {
        cw_list_remove(&peer->strange);
        peer->iface->unauth.counts[peer->why]--;
        cw_ofi_peer_drop(peer);
    }
}

static struct ofi_peer *oldest(struct ofi_iface *iface, enum ofi_strange why)
{
    struct cw_list *list = &iface->unauth.lists[why];

    return cw_list_empty(list) ? NULL : cw_list_head(list, struct ofi_peer, strange);
}

static void set_alarm(struct ofi_iface *iface)
{
    uint64_t next_ns = UINT64_MAX;
    const struct ofi_peer *peer;
    unsigned why;

    for (why = 0; why < OFI_UNAUTH; why++) {
        peer = oldest(iface, why);
        if (peer != NULL && peer->since_ns + STRANGE_NS < next_ns) {
            next_ns = peer->since_ns + STRANGE_NS;
        }
    }
    if (next_ns != UINT64_MAX) {
        cw_poller_alarm_set(iface->poller, &iface->unauth.over, next_ns);
    }
}

static unsigned unauth_over(struct cw_alarm *alarm)
{
    struct ofi_iface *iface = cw_container_of(alarm, struct ofi_iface, unauth.over);
    const uint64_t now_ns = cw_clock_ns();
    struct ofi_peer *peer;
    unsigned why;

    for (why = 0; why < OFI_UNAUTH; why++) {
        while ((peer = oldest(iface, why)) != NULL && peer->since_ns + STRANGE_NS <= now_ns) {
            cw_ofi_peer_died(peer, UCS_ERR_UNREACHABLE, "the address in its packet is unreachable");
            unlist(peer);
        }
    }
    set_alarm(iface);
    return 0; /* connection ends count as work when they are reported */
}

void cw_ofi_unauth_open(struct ofi_iface *iface)
{
    unsigned why;

    for (why = 0; why < OFI_UNAUTH; why++) {
        cw_list_init(&iface->unauth.lists[why]);
    }
    iface->unauth.over = (struct cw_alarm){.fire = unauth_over};
}

void cw_ofi_unauth_close(struct ofi_iface *iface)
{
    struct ofi_peer *peer;
    unsigned why;

    for (why = 0; why < OFI_UNAUTH; why++) {
        while ((peer = oldest(iface, why)) != NULL) {
            unlist(peer);
        }
    }
    cw_poller_alarm_cancel(iface->poller, &iface->unauth.over);
}

bool cw_ofi_unauth_full(const struct ofi_iface *iface)
{
    return iface->unauth.counts[OFI_ADDRESSED] >= CW_OFI_UNAUTH;
}

void cw_ofi_peer_is_strange(struct ofi_peer *peer, enum ofi_strange why)
{
    struct ofi_iface *iface = peer->iface;

    if (!cw_list_empty(&peer->strange) && peer->why == why) {
        return;
    }
    cw_ofi_peer_hold(peer);
    unlist(peer);
    if (why == OFI_UNANSWERED && iface->unauth.counts[why] >= CW_OFI_UNAUTH) {
        unlist(oldest(iface, why));
    }
    peer->why = why;
    peer->since_ns = cw_clock_ns();
    cw_list_add_tail(&iface->unauth.lists[why], &peer->strange);
    iface->unauth.counts[why]++;
    set_alarm(iface);
}

void cw_ofi_peer_reached(struct ofi_peer *peer)
{
    peer->is_reached = 1;
    unlist(peer);
}

static void end_guess(struct ofi_peer *peer)
{
    peer->iface->unauth.guessed -= peer->is_guessed;
    peer->is_guessed = 0;
}

void cw_ofi_peer_proved(struct ofi_peer *peer)
{
    const int is_new = !peer->is_guessed && !peer->is_proved;

    end_guess(peer);
    peer->is_proved = 1;
    if (is_new) {
        watch_process(peer);
    }
    if (peer->dead) {
        cw_ofi_peer_died(peer, UCS_ERR_CONNECTION_RESET, "the process ended");
    }
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
    end_guess(peer);
    cw_hash_remove(&peer->iface->peers, &peer->link);
    if (peer->process.fd >= 0) {
        cw_poller_remove(peer->iface->poller, &peer->process);
        cw_process_unwatch(peer->process.fd);
    }
    cw_watch_end(&peer->watch);
    cw_ofi_route_drop(peer->iface, peer->route);
    free(peer);
}
