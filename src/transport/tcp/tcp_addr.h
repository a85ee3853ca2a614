/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of the TCP transport: encoding, and the order in which a peer's are dialled. Network byte order.
 *
 *   OFFSET SIZE MEANING
 *        0    2 port
 *        2    8 network namespace (os/host.h): a worker in it is reached by loopback; or all bits of that inverted: it
 *               is reached by the addresses alone
 *       10    4 key, which the dialler has to name: the port may belong to another process by then
 *       14    1 1: listens on IPv4; 2: listens on IPv6
 *       15    1 number of addresses: IPv4 in the lower half, IPv6 in the upper; 8 in all at most
 *       16  4*n IPv4 addresses, then 16 * n IPv6 addresses, each kind in order of preference
 *
 * Loopback addresses are not listed. Each worker of a process has its own port.
 */
#ifndef CW_TRANSPORT_TCP_TCP_ADDR_H
#define CW_TRANSPORT_TCP_TCP_ADDR_H

#include <stddef.h>
#include <stdint.h>

#include "os/net.h"
#include "os/route.h"

#define CW_TCP_ADDRESS_MAX_HOSTS 8u
#define CW_TCP_ADDRESS_HEAD      16u
#define CW_TCP_ADDRESS_MAX       (CW_TCP_ADDRESS_HEAD + CW_TCP_ADDRESS_MAX_HOSTS * 16u)
#define CW_TCP_MAX_CANDIDATES    (CW_TCP_ADDRESS_MAX_HOSTS + 2u)

enum { CW_TCP_LISTENS_IPV4 = 1, CW_TCP_LISTENS_IPV6 = 2 };

struct cw_tcp_address {
    uint16_t port;
    uint64_t netns;
    uint32_t key;
    unsigned listens;
    unsigned num_hosts;
    struct cw_net_address hosts[CW_TCP_ADDRESS_MAX_HOSTS]; /* with the port */
};

/* The local addresses: those of the devices in use. */
struct cw_tcp_local {
    uint64_t netns;
    unsigned loopback;                 /* families of the loopback device if it is in use, as in `listens` */
    int ipv6_first;
    unsigned num_hosts;
    struct cw_net_interface hosts[CW_TCP_ADDRESS_MAX_HOSTS];
};

/* Returns the length, at most CW_TCP_ADDRESS_MAX. Preserves the order of the hosts within a family. */
size_t cw_tcp_address_encode(const struct cw_tcp_address *address, uint8_t *to);
/* NULL, or the error in these bytes, which are untrusted. */
const char *cw_tcp_address_decode(const void *from, size_t length, struct cw_tcp_address *address);

/* The families whose loopback addresses reach the peer, as in `listens`. */
unsigned cw_tcp_shared_loopback(const struct cw_tcp_local *local, const struct cw_tcp_address *peer);

/*
 * The addresses to dial, best first (docs/operate/routes.md): loopback within the namespace, then addresses on a direct
 * route, then those by a gateway, then those without a known route. The more specific route comes first, and the
 * families alternate, the preferred one first. `routes` are those to the peer's hosts; NULL: unknown. Returns how many;
 * on 0 *why is a phrase for the log.
 */
unsigned cw_tcp_candidates(const struct cw_tcp_local *local, const struct cw_tcp_address *peer,
                           const struct cw_route *routes, struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES],
                           const char **why);

/* Moves the candidates that use different local devices to the front, the best one for each device, and returns their
 * number; 1 if the devices are unknown. `routes` are those to the peer's hosts. */
unsigned cw_tcp_paths_first(const struct cw_tcp_address *peer, const struct cw_route *routes,
                            struct cw_net_address *candidates, unsigned count);

#endif
