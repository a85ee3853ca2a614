/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of tcp_addr.h; pure.
 */
#include "transport/tcp/tcp_addr.h"

#include <string.h>

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
    size_t length                               = CW_TCP_ADDRESS_HEAD;
    unsigned counts[2]                          = {0, 0};
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
    num_v4           = bytes[15] & 15u;
    num_v6           = bytes[15] >> 4;
    address->port    = (uint16_t)get_number(bytes, 2);
    address->netns   = get_number(bytes + 2, 8);
    address->key     = (uint32_t)get_number(bytes + 10, 4);
    address->listens = bytes[14];
    if (num_v4 + num_v6 > CW_TCP_ADDRESS_MAX_HOSTS || length != CW_TCP_ADDRESS_HEAD + 4u * num_v4 + 16u * num_v6) {
        return "its TCP address has another length than it says";
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
        host->port   = address->port;
        memcpy(host->bytes, bytes, size);
        bytes += size;
    }
    return NULL;
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

/* 0: lies in a subnet of ours; 1: we have an address of the family; -1: out of reach. */
static int distance(const struct cw_tcp_local *local, const struct cw_net_address *host)
{
    int best = -1;
    unsigned i;

    for (i = 0; i < local->num_hosts; i++) {
        if (cw_net_same_subnet(&local->hosts[i].address, host, local->hosts[i].prefix_bits)) {
            return 0;
        }
        if (local->hosts[i].address.family == host->family) {
            best = 1;
        }
    }
    return best;
}

static int is_dialable(const struct cw_net_address *host)
{
    static const uint8_t zero[16];

    return !cw_net_is_loopback(host) && memcmp(host->bytes, zero, sizeof(zero)) != 0;
}

unsigned cw_tcp_candidates(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                           struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES], const char **why)
{
    const enum cw_net_family families[2] = {local->ipv6_first ? CW_NET_IPV6 : CW_NET_IPV4,
                                            local->ipv6_first ? CW_NET_IPV4 : CW_NET_IPV6};
    const unsigned loopback              = (peer->netns == local->netns) ? (local->loopback & peer->listens) : 0;
    unsigned count                       = 0;
    unsigned family, i;
    int level;

    for (family = 0; family < 2; family++) {
        candidates[count] = loopback_address(families[family], peer->port);
        count += (loopback & family_bit(&candidates[count])) != 0;
    }
    for (level = 0; level < 2; level++) {
        for (family = 0; family < 2; family++) {
            for (i = 0; i < peer->num_hosts; i++) {
                if (peer->hosts[i].family == families[family] && (peer->listens & family_bit(&peer->hosts[i])) &&
                    is_dialable(&peer->hosts[i]) && distance(local, &peer->hosts[i]) == level) {
                    candidates[count++] = peer->hosts[i];
                }
            }
        }
    }
    if (count == 0) {
        *why = (peer->num_hosts == 0)
                   ? "it is on another host or in another network namespace and offers only loopback there"
               : (local->num_hosts == 0)
                   ? "only loopback is usable here and it is on another host or in another network namespace"
                   : "no address of it is of a family that a network device here has";
    }
    return count;
}
