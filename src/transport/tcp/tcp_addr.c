/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of tcp_addr.h. All are pure.
 */
#include "transport/tcp/tcp_addr.h"

#include <stdbool.h>
#include <string.h>

#include "os/host.h"

static uint64_t get_number(const uint8_t *from, unsigned bytes)
{
    uint64_t value = 0;
    unsigned i;

    for (i = 0; i < bytes; i++) {
        value = (value << 8) | from[i];
    }
    return value;
}

static void put_number(uint8_t *to, uint64_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        to[bytes] = (uint8_t)value;
        value >>= 8;
    }
}

static unsigned family_bit(const struct cw_net_address *address)
{
    return (address->family == CW_NET_IPV4) ? CW_TCP_LISTENS_IPV4 : CW_TCP_LISTENS_IPV6;
}

size_t cw_tcp_address_encode(const struct cw_tcp_address *address, uint8_t *to)
{
    static const enum cw_net_family families[2] = {CW_NET_IPV4, CW_NET_IPV6};
    size_t length = CW_TCP_ADDRESS_HEAD;
    unsigned counts[2] = {0, 0};
    unsigned family, i;
    size_t bytes;

    for (family = 0; family < 2; family++) {
        bytes = (families[family] == CW_NET_IPV4) ? 4 : 16;
        for (i = 0; i < address->num_hosts; i++) {
            if (address->hosts[i].family == families[family]) {
                memcpy(to + length, address->hosts[i].bytes, bytes);
                length += bytes;
                counts[family]++;
            }
        }
    }
    put_number(to, address->port, 2);
    put_number(to + 2, address->netns, 8);
    put_number(to + 10, address->key, 4);
    to[14] = (uint8_t)address->listens;
    to[15] = (uint8_t)(counts[0] | (counts[1] << 4));
    return length;
}

const char *cw_tcp_address_decode(const void *from, size_t length, struct cw_tcp_address *address)
{
    const uint8_t *bytes = from;
    struct cw_net_address *host;
    unsigned num_v4, num_v6, i;
    size_t size;

    if (length < CW_TCP_ADDRESS_HEAD) {
        return "its TCP address is too short";
    }
    num_v4 = bytes[15] & 15u;
    num_v6 = bytes[15] >> 4;
    address->port = (uint16_t)get_number(bytes, 2);
    address->netns = get_number(bytes + 2, 8);
    address->key = (uint32_t)get_number(bytes + 10, 4);
    address->listens = bytes[14];
    if (num_v4 + num_v6 > CW_TCP_ADDRESS_MAX_HOSTS || length != CW_TCP_ADDRESS_HEAD + 4u * num_v4 + 16u * num_v6) {
        return "its TCP address has a wrong length";
    }
    if (address->port == 0 || address->listens == 0 || address->listens > (CW_TCP_LISTENS_IPV4 | CW_TCP_LISTENS_IPV6)) {
        return "its TCP address is malformed";
    }
    address->num_hosts = num_v4 + num_v6;
    bytes += CW_TCP_ADDRESS_HEAD;
    for (i = 0; i < address->num_hosts; i++) {
        host = &address->hosts[i];
        size = (i < num_v4) ? 4 : 16;
        memset(host, 0, sizeof(*host));
        host->family = (i < num_v4) ? CW_NET_IPV4 : CW_NET_IPV6;
        host->port = address->port;
        memcpy(host->bytes, bytes, size);
        bytes += size;
    }
    return NULL;
}

unsigned cw_tcp_shared_loopback(const struct cw_tcp_local *local, const struct cw_tcp_address *peer)
{
    return (peer->netns == local->netns) ? (local->loopback & peer->listens) : 0;
}

static struct cw_net_address loopback_address(enum cw_net_family family, uint16_t port)
{
    struct cw_net_address address = {.family = (uint8_t)family, .port = port};

    if (family == CW_NET_IPV4) {
        address.bytes[0] = 127;
        address.bytes[3] = 1;
    } else {
        address.bytes[15] = 1;
    }
    return address;
}

static bool is_same_namespace(const struct cw_tcp_local *local, const struct cw_tcp_address *peer)
{
    return peer->netns == local->netns || peer->netns == ~local->netns;
}

/* 0: the host is in a local subnet, and the longest such prefix has *bits_p bits; 1: there is a local address of its
 * family; -1: neither. */
static int distance(const struct cw_tcp_local *local, const struct cw_net_address *host, unsigned *bits_p)
{
    int best = -1;
    unsigned i;

    *bits_p = 0;
    for (i = 0; i < local->num_hosts; i++) {
        if (cw_net_same_subnet(&local->hosts[i].address, host, local->hosts[i].prefix_bits)) {
            *bits_p = (local->hosts[i].prefix_bits > *bits_p) ? local->hosts[i].prefix_bits : *bits_p;
            best = 0;
        } else if (best < 0 && local->hosts[i].address.family == host->family) {
            best = 1;
        }
    }
    return best;
}

static bool is_dialable(const struct cw_net_address *host)
{
    static const uint8_t zero[16];

    return !cw_net_is_loopback(host) && memcmp(host->bytes, zero, sizeof(zero)) != 0;
}

/* In dial order; within a level the more specific route comes first. */
enum level { LEVEL_DIRECT, LEVEL_GATEWAY, LEVEL_UNKNOWN, LEVEL_DOWN, LEVEL_NEVER };

struct rank {
    enum level level;
    unsigned bits;
    unsigned host;
};

static struct rank rank_host(const struct cw_tcp_local *local, const struct cw_tcp_address *peer, unsigned host,
                             const struct cw_route *route)
{
    struct rank rank = {.level = LEVEL_NEVER, .host = host};
    const int far = distance(local, &peer->hosts[host], &rank.bits);

    if (far < 0 || !is_dialable(&peer->hosts[host]) || !(peer->listens & family_bit(&peer->hosts[host]))) {
        return rank;
    }
    switch ((route == NULL) ? CW_ROUTE_UNKNOWN : (enum cw_route_kind)route->kind) {
    case CW_ROUTE_UNKNOWN:
        rank.level = (far == 0) ? LEVEL_DIRECT : LEVEL_UNKNOWN;
        break;
    case CW_ROUTE_OWN:
        rank.level = is_same_namespace(local, peer) ? LEVEL_DIRECT : LEVEL_NEVER;
        rank.bits = 128;
        break;
    case CW_ROUTE_DIRECT:
        rank.level = LEVEL_DIRECT;
        rank.bits = route->prefix_bits;
        break;
    case CW_ROUTE_GATEWAY:
        rank.level = LEVEL_GATEWAY;
        rank.bits = route->prefix_bits;
        break;
    case CW_ROUTE_DOWN:
        rank.level = LEVEL_DOWN;
        break;
    case CW_ROUTE_EXCLUDED:
        rank.level = (far == 0) ? LEVEL_DIRECT : LEVEL_NEVER; /* with two devices in one subnet the kernel may send by
                                                               * either */
        break;
    case CW_ROUTE_NONE:
        break;
    }
    return rank;
}

static bool is_better(const struct rank *left, const struct rank *right)
{
    return left->level < right->level || (left->level == right->level && left->bits > right->bits);
}

/* The peer's hosts of a family, best first. */
static unsigned rank_family(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                            const struct cw_route *routes, enum cw_net_family family, struct rank *ranks)
{
    unsigned count = 0, i, at;
    struct rank rank;

    for (i = 0; i < peer->num_hosts; i++) {
        if (peer->hosts[i].family != family) {
            continue;
        }
        rank = rank_host(local, peer, i, (routes == NULL) ? NULL : &routes[i]);
        if (rank.level == LEVEL_NEVER) {
            continue;
        }
        for (at = count++; at > 0 && is_better(&rank, &ranks[at - 1]); at--) {
            ranks[at] = ranks[at - 1];
        }
        ranks[at] = rank;
    }
    return count;
}

static const char *why_none(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                            const struct cw_route *routes)
{
    const char *unknown = is_same_namespace(local, peer) ? NULL : cw_host_why_apart(local->netns, peer->netns);
    unsigned excluded = 0, without = 0, own = 0, i;

    if (unknown != NULL && (peer->num_hosts == 0 || local->num_hosts == 0)) {
        return unknown;
    }
    if (peer->num_hosts == 0) {
        return "it is on another host or in another network namespace and offers only loopback there";
    }
    if (local->num_hosts == 0) {
        return "only loopback is usable here and it is on another host or in another network namespace";
    }
    for (i = 0; routes != NULL && i < peer->num_hosts; i++) {
        excluded += routes[i].kind == CW_ROUTE_EXCLUDED;
        without += routes[i].kind == CW_ROUTE_NONE;
        own += routes[i].kind == CW_ROUTE_OWN;
    }
    if (excluded > 0) {
        return "UCX_NET_DEVICES excludes the device of the route to it";
    }
    if (without > 0) {
        return "there is no route to any of its addresses";
    }
    if (own > 0) {
        return (unknown != NULL) ? unknown : "it is on another host that has the same addresses as this one";
    }
    return "no network device here has the family of any of its addresses";
}

unsigned cw_tcp_candidates(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                           const struct cw_route *routes, struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES],
                           const char **why)
{
    const enum cw_net_family families[2] = {local->ipv6_first ? CW_NET_IPV6 : CW_NET_IPV4,
                                            local->ipv6_first ? CW_NET_IPV4 : CW_NET_IPV6};
    const unsigned loopback = cw_tcp_shared_loopback(local, peer);
    unsigned count = 0, turn = 0, num[2], at[2] = {0, 0}, family;
    struct rank ranks[2][CW_TCP_ADDRESS_MAX_HOSTS];

    for (family = 0; family < 2; family++) {
        candidates[count] = loopback_address(families[family], peer->port);
        count += (loopback & family_bit(&candidates[count])) != 0;
        num[family] = rank_family(local, peer, routes, families[family], ranks[family]);
    }
    while (at[0] < num[0] || at[1] < num[1]) {
        family = turn;
        if (at[0] == num[0] || at[1] == num[1]) {
            family = at[0] == num[0];
        } else if (ranks[0][at[0]].level != ranks[1][at[1]].level) {
            family = ranks[1][at[1]].level < ranks[0][at[0]].level;
        }
        candidates[count++] = peer->hosts[ranks[family][at[family]++].host];
        turn = 1 - family;
    }
    if (count == 0) {
        *why = why_none(local, peer, routes);
    }
    return count;
}

/* The device by which the kernel sends to that address; "": unknown. */
static const char *device_to(const struct cw_tcp_address *peer, const struct cw_route *routes,
                             const struct cw_net_address *address)
{
    unsigned i;

    for (i = 0; i < peer->num_hosts; i++) {
        if (peer->hosts[i].family == address->family &&
            memcmp(peer->hosts[i].bytes, address->bytes, sizeof(address->bytes)) == 0 &&
            (routes[i].kind == CW_ROUTE_DIRECT || routes[i].kind == CW_ROUTE_GATEWAY)) {
            return routes[i].device;
        }
    }
    return "";
}

unsigned cw_tcp_paths_first(const struct cw_tcp_address *peer, const struct cw_route *routes,
                            struct cw_net_address *candidates, unsigned count)
{
    const char *devices[CW_TCP_MAX_CANDIDATES], *device;
    struct cw_net_address address;
    unsigned num_paths = 0, i, j;

    for (i = 0; i < count; i++) {
        device = device_to(peer, routes, &candidates[i]);
        for (j = 0; j < num_paths && strcmp(devices[j], device) != 0; j++) {
        }
        if (device[0] == '\0' || j < num_paths) {
            continue;
        }
        address = candidates[i];
        memmove(&candidates[num_paths + 1], &candidates[num_paths], (i - num_paths) * sizeof(address));
        candidates[num_paths] = address;
        devices[num_paths++] = device;
    }
    return (num_paths > 0) ? num_paths : 1;
}
