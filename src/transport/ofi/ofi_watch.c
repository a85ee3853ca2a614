/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Peers of other machines over providers that are software (tcp, udp, sockets): these report neither a machine that
 * fell silent nor, before something is sent, a process that ended, and a peer that answers no ping may compute. So an
 * interface listens for TCP connections that carry nothing; a watched connection makes one to the peer's process, and
 * the systems tell each other whether it lives (SO_KEEPALIVE). Greetings carry the port.
 *
 * Only the end of a connection that was established says something: a firewall may leave no way for it. Bytes that come
 * there end it without a consequence.
 */
#include "transport/ofi/ofi_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "config/config.h"
#include "os/net.h"

#define STRANGERS 16u /* watchers beyond the connections of this side, since a watcher says nothing */
#define NS_PER_S  UINT64_C(1000000000)
#define MOST_S    32767u

/* A connection that a peer made here. */
struct accepted {
    struct cw_list link; /* iface->watch.accepted */
    struct ofi_iface *iface;
    struct cw_poll_item item;
};

static int is_software(const struct fi_info *info)
{
    static const char *const names[] = {"tcp", "net", "udp", "sockets"};
    const size_t length              = strcspn(info->fabric_attr->prov_name, ";");
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], info->fabric_attr->prov_name, length) == 0) {
            return 1;
        }
    }
    return 0;
}

/* The internet address in an address of the provider. Returns 0 if there is none. */
static int read_address(const struct ofi_iface *iface, const uint8_t *bytes, size_t length,
                        struct cw_net_address *address)
{
    _Alignas(uint64_t) uint8_t aligned[CW_OFI_MAX_ADDRESS];
    const struct sockaddr *from = (const struct sockaddr *)(const void *)aligned;
    const uint32_t format       = iface->info->addr_format;

    if ((format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6) || length > sizeof(aligned)) {
        return 0;
    }
    cw_bytes_copy_any(aligned, bytes, length);
    if (cw_net_sockaddr_size(from, length) != length) {
        return 0;
    }
    cw_net_from_sockaddr(from, address);
    return 1;
}

static unsigned seconds(uint64_t ns)
{
    const uint64_t whole = ns / NS_PER_S;

    if (whole == 0) {
        return 1;
    }
    return (whole < MOST_S) ? (unsigned)whole : MOST_S;
}

/* Half of the interval passes before the system asks the first time. */
static struct cw_net_keepalive questions(const struct cw_config *config)
{
    const uint64_t interval_ns        = config->keepalive_interval_ns;
    struct cw_net_keepalive keepalive = {
        .idle_s = seconds(interval_ns / 2), .interval_s = seconds(interval_ns / 10), .count = 2};
    const unsigned whole_s = seconds(interval_ns);

    if (whole_s > keepalive.idle_s && (whole_s - keepalive.idle_s) / keepalive.interval_s > keepalive.count) {
        keepalive.count = (whole_s - keepalive.idle_s) / keepalive.interval_s;
    }
    return keepalive;
}

/* ---- the side that is watched ----
 * Nothing here is work done, so a program's drain loop ends while strangers keep coming. */

static bool is_full(const struct ofi_iface *iface)
{
    return iface->watch.count >= iface->num_conns + STRANGERS;
}

void cw_ofi_watch_listen(struct ofi_iface *iface)
{
    if (cw_unlikely(iface->watch.is_deaf) && !is_full(iface) &&
        cw_poller_add(iface->poller, &iface->watch.item, CW_POLL_READ) == UCS_OK) {
        iface->watch.is_deaf = 0;
    }
}

static void drop(struct accepted *accepted)
{
    struct ofi_iface *iface = accepted->iface;

    cw_list_remove(&accepted->link);
    cw_poller_remove(iface->poller, &accepted->item);
    cw_net_close(accepted->item.fd);
    iface->watch.count--;
    free(accepted);
    cw_ofi_watch_listen(iface);
}

static unsigned accepted_ready(struct cw_poll_item *item, unsigned events)
{
    char byte;

    (void)events;
    if (cw_net_recv(item->fd, &byte, sizeof(byte)) != -EAGAIN) {
        drop(cw_container_of(item, struct accepted, item));
    }
    return 0;
}

/* Connections that are not accepted live in the system as well, so a shortage ends none: the interface does not look at
 * its listener for a while. */
static void stop_accepting(struct ofi_iface *iface)
{
    cw_poller_remove(iface->poller, &iface->watch.item);
    iface->watch.is_deaf = 1;
}

static unsigned listener_ready(struct cw_poll_item *item, unsigned events)
{
    struct ofi_iface *iface = cw_container_of(item, struct ofi_iface, watch.item);
    struct accepted *accepted;
    int fd;

    (void)events;
    accepted = is_full(iface) ? NULL : calloc(1, sizeof(*accepted));
    if (accepted == NULL) {
        stop_accepting(iface);
        return 0;
    }
    fd = cw_net_accept(item->fd);
    if (fd < 0) {
        free(accepted);
        if (fd != -EAGAIN) {
            stop_accepting(iface);
        }
        return 0;
    }
    accepted->iface = iface;
    accepted->item  = (struct cw_poll_item){.fd = fd, .ready = accepted_ready};
    if (cw_poller_add(iface->poller, &accepted->item, CW_POLL_READ) != UCS_OK) {
        cw_net_close(fd);
        free(accepted);
        return 0;
    }
    iface->watch.count++;
    cw_list_add_tail(&iface->watch.accepted, &accepted->link);
    return 0;
}

void cw_ofi_watch_open(struct ofi_iface *iface)
{
    const struct cw_net_options options = {.backlog = 0};
    struct cw_net_address address;

    iface->watch.item = (struct cw_poll_item){.fd = -1, .ready = listener_ready};
    cw_list_init(&iface->watch.accepted);
    if (!is_software(iface->info) || iface->config->keepalive_interval_ns == CW_TIME_INF ||
        !read_address(iface, iface->entry.bytes, iface->entry.head.length, &address) || cw_net_is_loopback(&address)) {
        return;
    }
    address.port         = 0;
    iface->watch.item.fd = cw_net_listen(&address, 1, &options, &iface->watch.port);
    if (iface->watch.item.fd >= 0 && cw_poller_add(iface->poller, &iface->watch.item, CW_POLL_READ) != UCS_OK) {
        cw_net_close(iface->watch.item.fd);
        iface->watch.item.fd = -1;
    }
    if (iface->watch.item.fd < 0) {
        iface->watch.port = 0;
        cw_debug("%s does not listen for those that watch this process", iface->info->fabric_attr->prov_name);
    }
}

void cw_ofi_watch_close(struct ofi_iface *iface)
{
    if (iface->watch.item.fd < 0) {
        return;
    }
    while (!cw_list_empty(&iface->watch.accepted)) {
        drop(cw_list_head(&iface->watch.accepted, struct accepted, link));
    }
    if (!iface->watch.is_deaf) {
        cw_poller_remove(iface->poller, &iface->watch.item);
    }
    cw_net_close(iface->watch.item.fd);
    iface->watch.item.fd = -1;
}

/* ---- the side that watches ---- */

void cw_ofi_watch_end(struct ofi_peer *peer)
{
    if (peer->watch.fd >= 0) {
        cw_poller_remove(peer->iface->poller, &peer->watch);
        cw_net_close(peer->watch.fd);
        peer->watch.fd = -1;
    }
    peer->is_seen = 0;
}

static unsigned watch_ready(struct cw_poll_item *item, unsigned events)
{
    struct ofi_peer *peer = cw_container_of(item, struct ofi_peer, watch);
    ssize_t result;
    char byte;

    (void)events;
    if (!peer->is_seen) {
        result = cw_net_connect_result(item->fd);
        if (result == 0) {
            peer->is_seen = 1;
            cw_poller_modify(peer->iface->poller, item, CW_POLL_READ);
        } else if (result != -EINPROGRESS) {
            cw_debug("process %u cannot be watched by TCP: %s", peer->entry.process, strerror((int)-result));
            cw_ofi_watch_end(peer);
        }
        return 1;
    }
    result = cw_net_recv(item->fd, &byte, sizeof(byte));
    if (result == -EAGAIN) {
        return 0;
    }
    cw_ofi_watch_end(peer);
    if (result == -ETIMEDOUT || result == -EHOSTUNREACH || result == -ENETUNREACH) {
        cw_ofi_peer_died(peer, UCS_ERR_ENDPOINT_TIMEOUT, "its machine does not answer any more");
    } else if (result <= 0) {
        cw_ofi_peer_died(peer, UCS_ERR_CONNECTION_RESET, "the process ended");
    }
    return 1;
}

void cw_ofi_watch_begin(struct ofi_conn *conn)
{
    struct ofi_iface *iface             = cw_ofi_iface_of(&conn->super);
    struct ofi_peer *peer               = conn->peer;
    const struct cw_net_options options = {.syn_retries = 2, .keepalive = questions(iface->config)};
    struct cw_net_address address;
    int is_connected = 0;

    if (conn->watch_port == 0 || !conn->is_proved || peer->is_tried || iface->watch.item.fd < 0 || !peer->route ||
        !read_address(iface, peer->route->bytes, peer->route->length, &address)) {
        return;
    }
    peer->is_tried = 1;
    address.port   = conn->watch_port;
    peer->watch    = (struct cw_poll_item){.ready = watch_ready};
    peer->watch.fd = cw_net_connect(&address, &options, &is_connected);
    if (peer->watch.fd < 0) {
        return;
    }
    peer->is_seen = (uint8_t)is_connected;
    if (cw_poller_add(iface->poller, &peer->watch, is_connected ? CW_POLL_READ : CW_POLL_WRITE) != UCS_OK) {
        cw_net_close(peer->watch.fd);
        peer->watch.fd = -1;
        peer->is_seen  = 0;
    }
}
