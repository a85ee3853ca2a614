/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches peers on other machines over software providers (tcp, udp, sockets): these do not report a silent machine,
 * nor the end of a process before something is sent, and a peer that answers no ping may be busy computing. So a
 * watched connection watches the peer's process by TCP (os/watch.h). Handshakes carry the port.
 */
#include "transport/ofi/ofi_watch.h"

#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "os/net.h"

static bool is_software(const struct fi_info *info)
{
    static const char *const names[] = {"tcp", "net", "udp", "sockets"};
    const size_t length = strcspn(info->fabric_attr->prov_name, ";");
    size_t i;

    for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strlen(names[i]) == length && memcmp(names[i], info->fabric_attr->prov_name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Gets the IP address from a provider's address. Returns 0 if there is none. */
static int read_address(const struct ofi_iface *iface, const uint8_t *bytes, size_t length,
                        struct cw_net_address *address)
{
    _Alignas(uint64_t) uint8_t aligned[CW_OFI_MAX_ADDRESS];
    const struct sockaddr *from = (const struct sockaddr *)(const void *)aligned;
    const uint32_t format = iface->info->addr_format;

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

void cw_ofi_watch_open(struct ofi_iface *iface)
{
    struct cw_net_address address;

    cw_watch_listener_init(&iface->watch, iface->poller, &iface->num_conns);
    if (!is_software(iface->info) || iface->keepalive_ns == UINT64_MAX ||
        !read_address(iface, iface->entry.bytes, iface->entry.head.length, &address) || cw_net_is_loopback(&address)) {
        return;
    }
    if (!cw_watch_listen(&iface->watch, &address)) {
        cw_debug("%s: cannot listen for peers that watch this process", iface->info->fabric_attr->prov_name);
    }
}

void cw_ofi_watch_ended(struct cw_watch *watch, ucs_status_t status, const char *why)
{
    cw_ofi_peer_died(cw_container_of(watch, struct ofi_peer, watch), status, why);
}

void cw_ofi_watch_begin(struct ofi_conn *conn)
{
    struct ofi_iface *iface = cw_ofi_iface_of(&conn->super);
    struct ofi_peer *peer = conn->peer;
    struct cw_net_address address;

    if (conn->watch_port == 0 || !conn->is_proved || peer->is_tried || iface->watch.num_sockets == 0 || !peer->route ||
        !read_address(iface, peer->route->bytes, peer->route->length, &address)) {
        return;
    }
    peer->is_tried = 1;
    address.port = conn->watch_port;
    cw_watch_begin(&peer->watch, &address, NULL, iface->keepalive_ns);
}
