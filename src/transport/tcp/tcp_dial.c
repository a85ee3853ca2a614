/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses, the order in which a peer's are dialled, and dialling: the candidates of the peer's address are tried in
 * turn, until one connects and the peer answers the hello (docs/operate/routes.md). Each candidate has a share of the
 * timeout; silent ones are retried. The key in the handshake detects a wrong listener: a port that belongs to another
 * process now, or a host of another network namespace with equal addresses.
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"
#include "os/host.h"

/* The share of a candidate in the first round: leaves time for the kernel to retransmit a lost SYN, after a second. */
#define SHARE_NS UINT64_C(1300000000)

/* ---- addresses. These functions are pure. ---- */

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

/* ---- dialling ---- */

static ucs_status_t error_status(const struct cw_tcp_handshake *handshake, int error)
{
    switch (error) {
    case ECONNREFUSED:
        return handshake->is_cm ? UCS_ERR_NOT_CONNECTED : UCS_ERR_UNREACHABLE;
    case ETIMEDOUT:
        return handshake->is_cm ? UCS_ERR_UNREACHABLE : UCS_ERR_ENDPOINT_TIMEOUT;
    case ENOMEM:
    case ENOBUFS:
        return UCS_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return UCS_ERR_IO_ERROR;
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EACCES:
    case EINVAL:
        return (handshake->source.family != CW_NET_NONE) ? UCS_ERR_IO_ERROR : UCS_ERR_UNREACHABLE;
    case EPIPE:
    case ECONNRESET:
        return UCS_ERR_CONNECTION_RESET;
    default:
        return UCS_ERR_UNREACHABLE;
    }
}

/* Advice to the user, if the failure suggests one. */
enum hint { HINT_NONE = 0, HINT_REACH = 1, HINT_FILES = 2, HINT_LOCAL = 4, HINT_ITS_LOG = 8 };

static enum hint hint_of(const struct cw_tcp_handshake *handshake, int error)
{
    switch (error) {
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ETIMEDOUT:
        return HINT_REACH;
    case EMFILE:
    case ENFILE:
        return HINT_FILES;
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EACCES:
    case EINVAL:
        return (handshake->source.family != CW_NET_NONE) ? HINT_LOCAL : HINT_NONE;
    default:
        return HINT_NONE;
    }
}

static void add_hints(struct cw_text *text, unsigned hints)
{
    if (hints & HINT_REACH) {
        cw_text_addf(text, "; check that its process runs and that no firewall blocks this port");
    }
    if (hints & HINT_FILES) {
        cw_text_addf(text, "; raise the limit of open files (ulimit -n)");
    }
    if (hints & HINT_LOCAL) {
        cw_text_addf(text,
                     "; the local address must belong to this machine and reach the server, and its port be free");
    }
    if (hints & HINT_ITS_LOG) {
        cw_text_addf(text, "; see the log of its process");
    }
}

/* Stores the reason for the log line that is written when no candidate is left. */
static void note_failure(struct cw_tcp_handshake *handshake, unsigned candidate, const char *reason)
{
    char text[CW_NET_TEXT_MAX];

    cw_net_format(&handshake->candidates[candidate], text);
    cw_text_addf(&handshake->tried, "%s%s (%s)", (handshake->tried.length > 0) ? ", " : "", text, reason);
}

/* No candidate is left: logs the failure, and stores it for the core. */
static void log_failure(struct cw_tcp_conn *conn)
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_handshake *handshake = conn->handshake;
    struct cw_text end = {0};
    unsigned i;

    for (i = 0; i < handshake->num_candidates; i++) {
        if (handshake->silent & (1u << i)) {
            note_failure(handshake, i, "timeout");
            handshake->hints |= HINT_REACH;
        }
    }
    cw_text_addf(&end, "cannot connect%s by TCP to %s", handshake->is_further ? " once more" : "",
                 cw_text_get(&handshake->tried));
    add_hints(&end, handshake->hints);
    cw_log(handshake->is_further ? CW_LOG_DEBUG : (enum cw_log_level)iface->settings.failure_level, "%s",
           cw_text_get(&end));
    free(conn->super.end);
    conn->super.end = end.data;
}

static void attempt_over(struct cw_tcp_conn *conn)
{
    cw_poller_alarm_cancel(cw_tcp_iface_of(&conn->super)->poller, &conn->handshake->alarm);
    cw_tcp_conn_drop_fd(conn);
    conn->handshake->next++;
}

/* An attempt failed. The reason is a phrase. */
static void attempt_failed(struct cw_tcp_conn *conn, ucs_status_t status, const char *reason, enum hint hint)
{
    struct cw_tcp_handshake *handshake = conn->handshake;

    note_failure(handshake, handshake->next, reason);
    handshake->hints |= (uint8_t)hint;
    if (handshake->silent == 0) {
        handshake->status = status;
    }
    if (conn->state == CW_TCP_HANDSHAKE) {
        handshake->deadline_ns = 0; /* the deadline was this candidate's; the others get their shares of the timeout */
    }
    attempt_over(conn);
}

/* This candidate timed out; it is retried. */
static void attempt_silent(struct cw_tcp_conn *conn)
{
    struct cw_tcp_handshake *handshake = conn->handshake;

    handshake->silent |= 1u << handshake->next;
    handshake->status = error_status(handshake, ETIMEDOUT);
    attempt_over(conn);
}

/* Dials the next candidate. 0: none is left, and the connection is CLOSED. */
static int dial_next(struct cw_tcp_conn *conn);

static unsigned next_or_fail(struct cw_tcp_conn *conn)
{
    return dial_next(conn) ? 0 : cw_tcp_dial_failed(conn);
}

/* The share of this candidate has ended. */
static unsigned share_over(struct cw_alarm *alarm)
{
    struct cw_tcp_conn *conn = cw_container_of(alarm, struct cw_tcp_handshake, alarm)->conn;

    if (conn->state != CW_TCP_CONNECTING) {
        return 0;
    }
    attempt_silent(conn);
    return next_or_fail(conn);
}

/* Moves to the next candidate. 0: none is left, or timeout. */
static int choose_candidate(struct cw_tcp_handshake *handshake, uint64_t now_ns)
{
    while (handshake->next == handshake->num_candidates ||
           (handshake->rounds > 0 && !(handshake->silent & (1u << handshake->next)))) {
        if (handshake->next < handshake->num_candidates) {
            handshake->next++;
        } else if (handshake->silent == 0 || now_ns >= handshake->deadline_ns) {
            return 0;
        } else {
            handshake->next = 0;
            handshake->rounds++;
        }
    }
    return handshake->rounds == 0 || now_ns < handshake->deadline_ns;
}

/* The time when the candidate's share ends. */
static uint64_t share_end(const struct cw_tcp_handshake *handshake, uint64_t timeout_ns, uint64_t now_ns)
{
    const int endless = handshake->deadline_ns == UINT64_MAX;
    const uint64_t left_ns = (handshake->deadline_ns > now_ns) ? handshake->deadline_ns - now_ns : 0;
    const unsigned to_come = (unsigned)__builtin_popcount(handshake->silent >> handshake->next);
    const uint64_t one_of_ns = timeout_ns / (2u * handshake->num_candidates);
    uint64_t share_ns = (one_of_ns < SHARE_NS) ? one_of_ns : SHARE_NS;

    if (handshake->rounds == 0 && handshake->silent == 0 && handshake->next + 1 == handshake->num_candidates) {
        return handshake->deadline_ns;
    }
    if (handshake->rounds > 0) {
        share_ns = endless ? SHARE_NS << cw_smaller(handshake->rounds, 6) : left_ns / to_come;
    }
    return now_ns + ((share_ns < left_ns) ? share_ns : left_ns);
}

/* Both sides disagree on protection, or one failed to authenticate. The peer's other addresses are not tried: the
 * result would be the same. */
static void disagreed(struct cw_tcp_conn *conn, ucs_status_t status, const char *reason)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    static struct cw_log_limit limit;
    char text[CW_NET_TEXT_MAX];

    if (status == UCS_ERR_REJECTED) {
        cw_net_format(&handshake->candidates[handshake->next], text);
        cw_log_ratelimited(&limit, CW_LOG_WARN, "cannot connect to %s: %s", text, reason);
        handshake->candidates[handshake->num_candidates - 1] = handshake->candidates[handshake->next];
        handshake->next = handshake->num_candidates - 1;
        handshake->silent = 0;
    }
    attempt_failed(conn, status, reason, HINT_NONE);
}

/* Sends the handshake, which always fits into the buffer of a new socket. 1: sent. */
static int send_handshake(struct cw_tcp_conn *conn)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    const ssize_t sent = cw_tcp_filter_send(conn, handshake->out, handshake->out_length);

    if (sent != (ssize_t)handshake->out_length) {
        attempt_failed(conn, UCS_ERR_CONNECTION_RESET,
                       (sent < 0) ? cw_tcp_filter_reason(conn, sent) : "the handshake does not fit the send "
                                                                       "buffer", HINT_NONE);
        return 0;
    }
    handshake->have = 0;
    return 1;
}

/* A server has not begun to answer. It may be computing, for any time; a server of another protocol never answers. The
 * connection stays pending. */
static unsigned server_is_silent(struct cw_alarm *alarm)
{
    const struct cw_tcp_handshake *handshake = cw_container_of(alarm, struct cw_tcp_handshake, alarm);
    static struct cw_log_limit limit;
    char text[CW_NET_TEXT_MAX];

    cw_net_format(&handshake->candidates[handshake->next], text);
    cw_log_ratelimited(&limit, CW_LOG_WARN,
                       "no handshake from the server at %s: its worker is not progressing, or it runs another "
                       "implementation of UCP (not wire compatible)", text);
    return 0;
}

static void await_server(struct cw_tcp_conn *conn)
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const uint64_t timeout_ns = iface->settings.connect_timeout_ns, now_ns = cw_clock_ns();

    if (timeout_ns < UINT64_MAX - now_ns) {
        conn->handshake->alarm.fire = server_is_silent;
        cw_poller_alarm_set(iface->poller, &conn->handshake->alarm, now_ns + timeout_ns);
    }
}

/* The socket is connected: sends the first message. 1: sent. */
static int start_handshake(struct cw_tcp_conn *conn)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    const char *wrong;

    handshake->phase = 0;
    cw_poller_alarm_cancel(cw_tcp_iface_of(&conn->super)->poller, &handshake->alarm);
    conn->state = CW_TCP_HANDSHAKE;
    if (!cw_tcp_agreed(conn)) {
        wrong = cw_tcp_agree_begin(conn);
        if (wrong != NULL) {
            attempt_failed(conn, UCS_ERR_CONNECTION_RESET, wrong, HINT_NONE);
            return 0;
        }
    } else if (!send_handshake(conn)) {
        return 0;
    }
    cw_tcp_watch_handshake(conn);
    cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item, CW_POLL_READ);
    if (handshake->is_cm) {
        await_server(conn);
    }
    return 1;
}

static int dial_next(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    const uint64_t timeout_ns = iface->settings.connect_timeout_ns;
    struct cw_tcp_handshake *handshake = conn->handshake;
    struct cw_net_options options = iface->settings.socket;
    uint64_t now_ns = cw_clock_ns(), end_ns;
    int connected, fd;

    if (handshake->deadline_ns == 0) {
        handshake->deadline_ns = (timeout_ns < UINT64_MAX - now_ns) ? now_ns + timeout_ns : UINT64_MAX;
    }
    if (handshake->is_cm) {
        options.user_timeout_ms = iface->settings.cm_user_timeout_ms;
    }
    options.source = (handshake->source.family != CW_NET_NONE) ? &handshake->source : NULL;
    while (choose_candidate(handshake, now_ns)) {
        end_ns = share_end(handshake, timeout_ns, now_ns);
        handshake->silent &= ~(1u << handshake->next);
        fd = cw_net_connect(&handshake->candidates[handshake->next], &options, &connected);
        if (fd < 0) {
            attempt_failed(conn, error_status(handshake, -fd), strerror(-fd), hint_of(handshake, -fd));
            continue;
        }
        conn->item.fd = fd;
        conn->state = CW_TCP_CONNECTING;
        if (cw_poller_add(iface->poller, &conn->item, CW_POLL_WRITE) != UCS_OK) {
            attempt_failed(conn, UCS_ERR_NO_MEMORY, "its socket cannot be watched", HINT_NONE);
            continue;
        }
        if (!connected && end_ns != UINT64_MAX) {
            handshake->alarm.fire = share_over;
            cw_poller_alarm_set(iface->poller, &handshake->alarm, end_ns);
        }
        if (!connected || start_handshake(conn)) {
            return 1;
        }
    }
    log_failure(conn);
    conn->state = CW_TCP_CLOSED;
    return 0;
}

unsigned cw_tcp_dial_failed(struct cw_tcp_conn *conn)
{
    const ucs_status_t status = conn->handshake->status;

    cw_tcp_handshake_free(conn);
    conn->broken = status;
    conn->super.iface->upcalls->opened(&conn->super, status, NULL, 0);
    return 1;
}

static unsigned rest_expired(struct cw_alarm *alarm)
{
    struct cw_tcp_conn *conn = cw_container_of(alarm, struct cw_tcp_handshake, alarm)->conn;

    attempt_failed(conn, UCS_ERR_UNREACHABLE, "its reply is incomplete", HINT_NONE);
    return next_or_fail(conn);
}

/* Waits for more bytes. The peer's program may take any time until the answer begins; then the rest must arrive
 * soon. */
static unsigned await_rest(struct cw_tcp_conn *conn)
{
    cw_tcp_handshake_await_rest(conn, rest_expired);
    return 0;
}

/* The acceptor's answer is complete. */
static unsigned answered(struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;
    struct cw_tcp_handshake *handshake = conn->handshake;
    const uint8_t *reply = handshake->in + CW_TCP_HANDSHAKE_SIZE;

    cw_poller_alarm_cancel(cw_tcp_iface_of(&conn->super)->poller, &handshake->alarm);
    conn->handshake = NULL; /* a send from within the upcalls must find the connection in its final state */
    cw_tcp_watch_handshake_done(conn);
    if (header->kind != CW_TCP_REFUSED) {
        cw_tcp_conn_open(conn);
        upcalls->opened(&conn->super, UCS_OK, reply, header->length);
    } else {
        cw_tcp_conn_drop_fd(conn);
        conn->state = CW_TCP_CLOSED;
        conn->broken = UCS_ERR_REJECTED;
        upcalls->opened(&conn->super, UCS_ERR_REJECTED, reply, header->length);
    }
    cw_tcp_handshake_release(cw_tcp_iface_of(&conn->super), handshake);
    cw_tcp_tx_update_interest(conn); /* a send may have got CW_AGAIN before: the poller then leads to `space` */
    return 1;
}

/* Whether this can be the answer to our handshake. */
static bool fits(const struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    if (header->key != conn->handshake->key) {
        return false;
    }
    return (header->kind == CW_TCP_ACCEPTED || header->kind == CW_TCP_REFUSED) && header->length <= CW_HELLO_MAX;
}

/* Runs the agreement that precedes the handshake, or handles the other side's demand for one. */
static unsigned agree(struct cw_tcp_conn *conn)
{
    ucs_status_t status;
    int done;
    const char *wrong = cw_tcp_agree_dialled(conn, &done, &status);

    if (wrong != NULL) {
        disagreed(conn, status, wrong);
        return next_or_fail(conn);
    }
    (void)await_rest(conn); /* after a complete message, the next one may begin at any time */
    if (!done) {
        return 0;
    }
    return send_handshake(conn) ? 0 : next_or_fail(conn);
}

unsigned cw_tcp_dial_ready(struct cw_tcp_conn *conn)
{
    struct cw_tcp_handshake *handshake = conn->handshake;
    struct cw_tcp_handshake_header header;
    const char *wrong;
    int ret;

    if (conn->state == CW_TCP_CONNECTING) {
        ret = cw_net_connect_result(conn->item.fd);
        if (ret == -EINPROGRESS) {
            return 0;
        }
        if (ret == -ETIMEDOUT && cw_tcp_iface_of(&conn->super)->settings.socket.syn_retries == 0) {
            attempt_silent(conn);
        } else if (ret < 0) {
            attempt_failed(conn, error_status(handshake, -ret), strerror(-ret), hint_of(handshake, -ret));
        }
        return (ret == 0 && start_handshake(conn)) ? 0 : next_or_fail(conn);
    }
    if (!cw_tcp_agreed(conn)) {
        return agree(conn);
    }
    ret = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE);
    if (ret > 0) {
        wrong = cw_tcp_handshake_decode(handshake->in, CW_HELLO_MAX, &header);
        if (wrong == NULL && header.kind == CW_TCP_UNSUITED && handshake->phase == 0) {
            return agree(conn);
        }
        if (wrong == NULL && !fits(conn, &header)) {
            wrong = "its handshake is malformed";
        }
        if (wrong != NULL) {
            attempt_failed(conn, UCS_ERR_UNREACHABLE, wrong, HINT_NONE);
            return next_or_fail(conn);
        }
        ret = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE + header.length);
    }
    if (ret == -EBADMSG && cw_tcp_iface_of(&conn->super)->security->protection == CW_TCP_TLS_CERT) {
        disagreed(conn, UCS_ERR_REJECTED, cw_tcp_filter_reason(conn, ret)); /* the peer verifies our certificate last */
        return next_or_fail(conn);
    }
    if (ret < 0) {
        attempt_failed(conn, cw_tcp_end_status(ret),
                       (ret == -EPIPE) ? "it closed the connection without a reply"
                                       : cw_tcp_filter_reason(conn, ret),
                       (ret == -EPIPE || ret == -ECONNRESET) ? HINT_ITS_LOG : HINT_NONE);
        return next_or_fail(conn);
    }
    return (ret == 0) ? await_rest(conn) : answered(conn, &header);
}

/* Finds the candidates to dial, best first, and the number of different paths to the peer: one for each local device,
 * and these come first. Within one network namespace there is one path. 0: no candidate, and *why_p is a phrase. */
static unsigned find_paths(const struct cw_tcp_iface *iface, const struct cw_tcp_address *peer,
                           struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES], unsigned *paths_p,
                           const char **why_p)
{
    const int apart = cw_tcp_shared_loopback(&iface->local, peer) == 0;
    struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS];
    unsigned count;

    if (apart) {
        cw_tcp_routes_find(&iface->settings, peer, routes);
    }
    count = cw_tcp_candidates(&iface->local, peer, apart ? routes : NULL, candidates, why_p);
    *paths_p = apart ? cw_tcp_paths_first(peer, routes, candidates, count) : 1;
    return count;
}

unsigned cw_tcp_paths(struct cw_iface *super, const void *address, size_t address_length)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    struct cw_tcp_address peer;
    const char *why;
    unsigned num_paths;

    if (cw_tcp_address_decode(address, address_length, &peer) != NULL ||
        find_paths(iface, &peer, candidates, &num_paths, &why) == 0 ||
        (!iface->settings.lanes_on_loopback && cw_net_is_loopback(&candidates[0]))) {
        return 0;
    }
    return num_paths;
}

void cw_tcp_dial_begin(struct cw_tcp_conn *conn, uint64_t key, const void *hello, size_t hello_length, void *user)
{
    struct cw_tcp_handshake *handshake = conn->handshake;

    handshake->key = key;
    handshake->out_length = CW_TCP_HANDSHAKE_SIZE + hello_length;
    cw_tcp_handshake_encode(handshake->out, CW_TCP_HELLO, hello_length, key);
    if (hello_length > 0) {
        memcpy(handshake->out + CW_TCP_HANDSHAKE_SIZE, hello, hello_length);
    }
    conn->super.user = user;
    if (!dial_next(conn)) {
        cw_tcp_notify_later(conn);
    }
}

static ucs_status_t dial(struct cw_iface *super, const struct cw_tcp_address *peer,
                         const struct cw_net_address *candidates, unsigned num_candidates, int is_further,
                         const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_tcp_conn *conn = cw_tcp_conn_new(iface, CW_TCP_CONNECTING, -1);

    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *conn_p = &conn->super;
    conn->handshake->num_candidates = num_candidates;
    conn->handshake->is_further = is_further;
    memcpy(conn->handshake->candidates, candidates, num_candidates * sizeof(candidates[0]));
    cw_tcp_dial_begin(conn, peer->key, hello, hello_length, user);
    return UCS_OK;
}

/* No address of the peer can be dialled: returns a connection that fails, because the core gets the reason from
 * `opened`. */
static ucs_status_t dial_nowhere(struct cw_tcp_iface *iface, const char *why, void *user, struct cw_conn **conn_p)
{
    struct cw_tcp_conn *conn = cw_tcp_conn_new(iface, CW_TCP_CLOSED, -1);
    struct cw_text end = {0};

    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_text_addf(&end, "cannot connect to a peer by TCP: %s", why);
    cw_log(iface->settings.failure_level, "%s", cw_text_get(&end));
    conn->super.user = user;
    conn->super.end = end.data;
    conn->handshake->status = UCS_ERR_NO_DEVICE; /* unreachable, whether the peer is alive or not */
    cw_tcp_notify_later(conn);
    *conn_p = &conn->super;
    return UCS_OK;
}

ucs_status_t cw_tcp_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS];
    struct cw_tcp_address peer;
    const struct cw_route *known = NULL;
    unsigned num_candidates = 0;
    const char *why = cw_tcp_address_decode(address, address_length, &peer);

    if (hello_length > CW_HELLO_MAX) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (why == NULL) {
        if (cw_tcp_shared_loopback(&iface->local, &peer) == 0) {
            cw_tcp_routes_find(&iface->settings, &peer, routes);
            known = routes;
        }
        num_candidates = cw_tcp_candidates(&iface->local, &peer, known, candidates, &why);
    }
    if (num_candidates == 0) {
        return dial_nowhere(iface, why, user, conn_p);
    }
    return dial(super, &peer, candidates, num_candidates, 0, hello, hello_length, user, conn_p);
}

ucs_status_t cw_tcp_dial_path(struct cw_iface *super, const void *address, size_t address_length, unsigned path,
                              const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES], first;
    const char *why = "";
    struct cw_tcp_address peer;
    unsigned count, num_paths;

    if (hello_length > CW_HELLO_MAX || cw_tcp_address_decode(address, address_length, &peer) != NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    count = find_paths(iface, &peer, candidates, &num_paths, &why);
    if (count == 0) {
        cw_debug("cannot connect to a peer by TCP once more: %s", why);
        return UCS_ERR_UNREACHABLE;
    }
    path = path % num_paths;
    first = candidates[path];
    memmove(&candidates[1], &candidates[0], path * sizeof(candidates[0]));
    candidates[0] = first;
    return dial(super, &peer, candidates, count, 1, hello, hello_length, user, conn_p);
}

int cw_tcp_is_unseen(const struct cw_conn *super)
{
    const struct cw_tcp_conn *conn = cw_container_of(super, const struct cw_tcp_conn, super);

    return conn->state == CW_TCP_CONNECTING || conn->state == CW_TCP_CLOSED || /* not connected */
           (conn->state == CW_TCP_HANDSHAKE && !cw_tcp_agreed(conn));
}
