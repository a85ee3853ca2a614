/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP transport's table and iface: settings, network interfaces, open, address, progress.
 */
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_transport.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/log.h"
#include "base/string.h"
#include "config/config.h"
#include "os/host.h"

#define MAX_SHORT           2048u
#define MAX_PLACED          (320u << 10) /* a short packet may have to wait for the whole frame */
#define ZCOPY_BREAK_EVEN    (16u << 10) /* at most a segment (UCX_TCP_TX_SEG_SIZE): beyond it nothing is copied */
#define MAX_INTERFACES      256u
#define LAST_WORDS_RECEIVES 4096u /* more than any kernel buffers for a closed connection */
#define MIN_SEG_SIZE        1024u
#define NS_PER_S            UINT64_C(1000000000)
#define NS_PER_MS           UINT64_C(1000000)

/* 0 for auto and inf: the kernel chooses the size. */
static size_t buffer_size(size_t value)
{
    return (value == CW_MEMUNITS_AUTO || value == CW_MEMUNITS_INF) ? 0 : value;
}

/* Intervals of kernel keepalive, in whole seconds. auto: `whole_ns` / `part`; otherwise at most that. */
static unsigned seconds(uint64_t value_ns, uint64_t whole_ns, unsigned part)
{
    const uint64_t most_s = cw_clamp(whole_ns / part / NS_PER_S, 1, 32767);

    return (unsigned)((value_ns == CW_TIME_AUTO) ? most_s : cw_clamp((value_ns + NS_PER_S - 1) / NS_PER_S, 1, most_s));
}

static unsigned count_of(uint64_t value, unsigned max)
{
    return (value == CW_ULUNITS_AUTO) ? 0 : (unsigned)cw_clamp(value, 1, max);
}

/* 0: the kernel's default. */
static uint64_t user_timeout_ms(uint64_t value_ns)
{
    return (value_ns == CW_TIME_AUTO) ? 0 : cw_clamp(value_ns / NS_PER_MS + (value_ns % NS_PER_MS != 0), 0, INT_MAX);
}

/* Keepalive of idle connections that are not watched: they end as late as the kernel ends others. */
#define KEEPALIVE_IDLE_S     300u
#define KEEPALIVE_INTERVAL_S 60u
#define KEEPALIVE_COUNT      10u

/* The death of a peer must be detected within the interval: half of it passes before the first probe. */
static void load_keepalive(const struct cw_config *config, struct cw_tcp_settings *settings)
{
    struct cw_net_keepalive *keepalive = &settings->keepalive;
    const uint64_t interval_ns = cw_clamp(config->keepalive_interval_ns, NS_PER_S, 32767 * NS_PER_S);
    uint64_t probing_s;

    if (config->keepalive_interval_ns == CW_TIME_INF) {
        return;
    }
    settings->silence_ns = interval_ns;
    if (config->tcp_keepidle_ns == CW_TIME_INF) {
        return;
    }
    settings->socket.keepalive = (struct cw_net_keepalive){KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT};
    keepalive->idle_s = seconds(config->tcp_keepidle_ns, interval_ns, 2);
    keepalive->interval_s = seconds(config->tcp_keepintvl_ns, interval_ns, 10);
    probing_s = interval_ns / NS_PER_S - cw_clamp(keepalive->idle_s, 0, interval_ns / NS_PER_S);
    keepalive->count = (config->tcp_keepcnt != CW_ULUNITS_AUTO) ? count_of(config->tcp_keepcnt, 127) :
                       (unsigned)cw_clamp(probing_s / keepalive->interval_s, 2, 127);
}

void cw_tcp_settings_load(const struct cw_config *config, struct cw_tcp_settings *settings)
{
    const struct cw_name_list *families = &config->tcp_af_prio;
    struct cw_net_options *socket = &settings->socket;
    unsigned i;

    *settings = (struct cw_tcp_settings){0};
    settings->tx_seg_size = cw_clamp(config->tcp_tx_seg_size, MIN_SEG_SIZE, CW_TCP_PACKET_MAX);
    settings->rx_seg_size = cw_clamp(config->tcp_rx_seg_size, CW_TCP_PACKET_MAX, 16u << 20);
    settings->max_iov = (unsigned)cw_clamp(config->tcp_max_iov, 1, CW_TCP_MAX_IOV);
    settings->max_poll = (unsigned)cw_clamp(config->tcp_max_poll, 1, 1024);
    settings->lanes_on_loopback = config->max_rndv_rails > 2 || config->max_rma_rails > 2;
    settings->port_first = (unsigned)cw_clamp(config->tcp_port_range.first, 0, UINT16_MAX);
    settings->port_last = (unsigned)cw_clamp(config->tcp_port_range.last, 0, UINT16_MAX);
    settings->use_bridges = config->tcp_bridge_enable;
    settings->prefer_default = config->tcp_prefer_default;
    settings->failure_level = config->tcp_failure;
    settings->bandwidth_bps = (config->tcp_max_bw_bps > 0) ? config->tcp_max_bw_bps : 2.2e9;
    settings->only_devices = &config->net_devices;
    for (i = 0; i < config->net_devices.count; i++) {
        if (strcmp(config->net_devices.names[i], "all") == 0) {
            settings->only_devices = NULL;
        }
    }
    for (i = 0; i < families->count; i++) {
        settings->ipv6_first |= !settings->use_ipv4 && cw_string_equal_nocase(families->names[i], "inet6");
        settings->use_ipv4 |= cw_string_equal_nocase(families->names[i], "inet");
        settings->use_ipv6 |= cw_string_equal_nocase(families->names[i], "inet6");
    }
    if (!settings->use_ipv4 && !settings->use_ipv6) {
        settings->use_ipv4 = settings->use_ipv6 = 1;
    }
    socket->nodelay = config->tcp_nodelay;
    socket->sndbuf = buffer_size(config->tcp_sndbuf);
    socket->rcvbuf = buffer_size(config->tcp_rcvbuf);
    socket->syn_retries = count_of(config->tcp_syn_cnt, 127);
    socket->user_timeout_ms = user_timeout_ms(config->tcp_user_timeout_ns);
    settings->cm_user_timeout_ms = user_timeout_ms(config->tcp_cm_user_timeout_ns);
    settings->connect_timeout_ns = config->connect_timeout_ns;
    settings->auth = (struct cw_tcp_auth){.tls = (unsigned)config->auth_tls,
                                          .checksum = config->tcp_checksum,
                                          .key_file = config->auth_key_file,
                                          .cert_file = config->auth_cert_file,
                                          .cert_key_file = config->auth_cert_key_file,
                                          .ca_file = config->auth_ca_file};
    load_keepalive(config, settings);
}

/* All network interfaces of the allowed families, in the kernel's order; the caller frees them. NULL: unknown. On the
 * heap, because thread stacks may be small. */
static struct cw_net_interface *list_interfaces(const struct cw_tcp_settings *settings, unsigned *num_p)
{
    struct cw_net_interface *list = malloc(MAX_INTERFACES * sizeof(*list));
    const int all = (list == NULL) ? -ENOMEM : cw_net_interfaces(list, MAX_INTERFACES);
    unsigned count = 0;
    int i;

    if (all < 0) {
        cw_error("cannot list the network interfaces: %s%s", strerror(-all),
                 (all == -EMFILE) ? "; raise the limit of open files (ulimit -n)" : "");
        free(list);
        list = NULL;
    }
    for (i = 0; i < all; i++) {
        if ((list[i].address.family == CW_NET_IPV4) ? !settings->use_ipv4 : !settings->use_ipv6) {
            continue;
        }
        list[count++] = list[i];
    }
    *num_p = count;
    return list;
}

/* Whether an earlier entry has the same name and that family (CW_NET_NONE: any family). */
static int seen_before(const struct cw_net_interface *list, unsigned index, enum cw_net_family family)
{
    unsigned i;

    for (i = 0; i < index; i++) {
        if (strcmp(list[i].name, list[index].name) == 0 &&
            (family == CW_NET_NONE || list[i].address.family == family)) {
            return 1;
        }
    }
    return 0;
}

/* Whether the device reaches only containers and virtual machines of this host. */
static int leads_nowhere(const struct cw_tcp_settings *settings, const struct cw_net_interface *interface)
{
    return !settings->use_bridges && !interface->loopback && cw_net_is_bridge(interface->name) &&
           !cw_net_has_default_route(interface->name);
}

/* Reduces the list to the first entry of each device. Returns how many of them are not loopback. */
static unsigned keep_devices(const struct cw_tcp_settings *settings, struct cw_net_interface *list, unsigned *num_p)
{
    unsigned count = 0, out = 0, i;

    for (i = 0; i < *num_p; i++) {
        list[count] = list[i];
        if (!seen_before(list, count, CW_NET_NONE) && !leads_nowhere(settings, &list[count])) {
            out += !list[count].loopback;
            count++;
        }
    }
    *num_p = count;
    return out;
}

static unsigned tcp_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    char preferred[CW_NET_NAME_MAX] = "";
    struct cw_tcp_settings settings;
    struct cw_net_interface *list;
    unsigned num, count = 0, round, i;
    int rank;

    cw_tcp_settings_load(config, &settings);
    list = list_interfaces(&settings, &num);
    if (keep_devices(&settings, list, &num) > 1 && settings.prefer_default) {
        cw_net_default_interface(preferred);
    }
    for (round = 0; round < 3; round++) {
        for (i = 0; i < num; i++) {
            rank = (strcmp(list[i].name, preferred) == 0) ? 0 : 1;
            rank = list[i].loopback ? 2 : rank;
            if (rank != (int)round) {
                continue;
            }
            if (count < max) {
                cw_string_copy(devices[count].name, sizeof(devices[count].name), list[i].name);
                devices[count].is_local = list[i].loopback;
            }
            count++;
        }
    }
    free(list);
    return count;
}

static void explain_one(const struct cw_tcp_settings *settings, const struct cw_net_interface *list, unsigned num,
                        const char *name, struct cw_text *text)
{
    unsigned i = 0;

    while (i < num && strcmp(list[i].name, name) != 0) {
        i++;
    }
    if (i == num) {
        cw_text_addf(text, "%s: %s\n", name, cw_net_why_unlisted(name));
    } else if (leads_nowhere(settings, &list[i])) {
        cw_text_addf(text, "%s: a bridge that leads to this host only; UCX_TCP_BRIDGE_ENABLE=y uses it\n", name);
    }
}

static void tcp_explain(const struct cw_config *config, struct cw_text *text)
{
    char (*const names)[CW_NET_NAME_MAX] = malloc(MAX_INTERFACES * sizeof(*names));
    const unsigned all = (names == NULL) ? 0 : cw_net_names(names, MAX_INTERFACES);
    struct cw_tcp_settings settings;
    struct cw_net_interface *list;
    unsigned num, i;

    cw_tcp_settings_load(config, &settings);
    list = list_interfaces(&settings, &num);
    for (i = 0; i < all; i++) {
        explain_one(&settings, list, num, names[i], text);
    }
    free(list);
    free(names);
}

/* The addresses of the devices. Returns whether the interfaces are known. */
static bool local_load(const struct cw_tcp_settings *settings, const struct cw_device *devices, unsigned num_devices,
                       struct cw_tcp_local *local)
{
    unsigned num, round, device, i;
    struct cw_net_interface *const list = list_interfaces(settings, &num);

    *local = (struct cw_tcp_local){0};
    local->netns = cw_host_netns_id();
    local->ipv6_first = settings->ipv6_first;
    for (round = 0; round < 2; round++) { /* first one address per family and device, then further ones */
        for (device = 0; device < num_devices; device++) {
            for (i = 0; i < num; i++) {
                if (strcmp(devices[device].name, list[i].name) != 0 ||
                    seen_before(list, i, list[i].address.family) != (int)round) {
                    continue;
                }
                if (list[i].loopback) {
                    local->loopback |=
                        (list[i].address.family == CW_NET_IPV4) ? CW_TCP_LISTENS_IPV4 : CW_TCP_LISTENS_IPV6;
                } else if (local->num_hosts < CW_TCP_ADDRESS_MAX_HOSTS) {
                    local->hosts[local->num_hosts++] = list[i];
                }
            }
        }
    }
    free(list);
    return list != NULL;
}

void cw_tcp_routes_find(const struct cw_tcp_settings *settings, const struct cw_tcp_address *peer,
                        struct cw_route routes[CW_TCP_ADDRESS_MAX_HOSTS])
{
    unsigned i;

    cw_routes_find(peer->hosts, peer->num_hosts, routes);
    for (i = 0; settings->only_devices != NULL && i < peer->num_hosts; i++) {
        if ((routes[i].kind == CW_ROUTE_DIRECT || routes[i].kind == CW_ROUTE_GATEWAY) && routes[i].device[0] != '\0' &&
            !cw_device_list_allows(settings->only_devices, routes[i].device)) {
            routes[i].kind = CW_ROUTE_EXCLUDED;
        }
    }
}

int cw_tcp_allows(const struct cw_tcp_settings *settings, const struct cw_net_address *local)
{
    const struct cw_name_list *only = settings->only_devices;
    struct cw_net_interface *const list = (only == NULL) ? NULL : malloc(MAX_INTERFACES * sizeof(*list));
    const int loopback = cw_net_is_loopback(local);
    int num = (list == NULL) ? 0 : cw_net_interfaces(list, MAX_INTERFACES);
    int known = 0, allowed = 0, i;

    for (i = 0; i < num && !allowed; i++) {
        if (loopback ? !list[i].loopback : (list[i].address.family != local->family ||
                                            memcmp(list[i].address.bytes, local->bytes, sizeof(local->bytes)) != 0)) {
            continue;
        }
        known = 1;
        allowed = cw_device_list_allows(only, list[i].name);
    }
    free(list);
    return allowed || !known;
}

static struct cw_tcp_iface *iface_of(struct cw_iface *super)
{
    return cw_container_of(super, struct cw_tcp_iface, super);
}

static void set_limits(struct cw_limits *limits, const struct cw_tcp_settings *settings)
{
    const size_t most_short = settings->tx_seg_size - sizeof(uint64_t);

    limits->max_short = (most_short < MAX_SHORT) ? most_short : MAX_SHORT;
    limits->max_bcopy = settings->tx_seg_size;
    limits->max_zcopy = CW_TCP_PACKET_MAX;
    limits->zcopy_break_even = ZCOPY_BREAK_EVEN;
    limits->max_iov = settings->max_iov;
    limits->max_placed = MAX_PLACED;
    limits->latency_ns = 4000;
    limits->bandwidth_bps = settings->bandwidth_bps;
    limits->overhead_ns = 1000;
}

static size_t encode(struct cw_tcp_address *address, const struct cw_tcp_local *local, uint8_t *bytes)
{
    unsigned i;

    address->num_hosts = local->num_hosts;
    for (i = 0; i < local->num_hosts; i++) {
        address->hosts[i] = local->hosts[i].address;
    }
    return cw_tcp_address_encode(address, bytes);
}

static void set_address(struct cw_tcp_iface *iface, uint16_t port, unsigned listens)
{
    struct cw_tcp_address address = {
        .port = port, .netns = iface->local.netns, .key = iface->key, .listens = listens};

    iface->address_length = encode(&address, &iface->local, iface->address);
}

static bool copy_devices(struct cw_tcp_iface *iface, const struct cw_iface_params *params)
{
    iface->num_devices = params->num_devices;
    if (params->num_devices > 0) {
        iface->devices = malloc(params->num_devices * sizeof(*iface->devices));
        if (iface->devices != NULL) {
            memcpy(iface->devices, params->devices, params->num_devices * sizeof(*iface->devices));
        }
    }
    return params->num_devices == 0 || iface->devices != NULL;
}

static ucs_status_t tcp_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct cw_tcp_iface *iface = calloc(1, sizeof(*iface));
    unsigned listens = 0;
    uint16_t port = 0;
    ucs_status_t status;

    if (iface == NULL || !copy_devices(iface, params)) {
        cw_error("cannot open the TCP transport: out of memory");
        free(iface);
        return UCS_ERR_NO_MEMORY;
    }
    iface->super.transport = &cw_tcp_transport;
    iface->super.upcalls = params->upcalls;
    iface->super.owner = params->owner;
    iface->poller = params->poller;
    iface->listener.fd = -1;
    iface->accept_again = (struct cw_alarm){.fire = cw_tcp_accept_again};
    iface->hello_deadline = (struct cw_alarm){.fire = cw_tcp_unauth_expire};
    iface->check = (struct cw_alarm){.fire = cw_tcp_watch_check};
    iface->linger_deadline = (struct cw_alarm){.fire = cw_tcp_lingering_expire};
    iface->key = (uint32_t)(params->worker_uid ^ (params->worker_uid >> 32));
    cw_list_init(&iface->listenings);
    cw_list_init(&iface->unauth);
    cw_list_init(&iface->pending);
    cw_list_init(&iface->lingering);
    cw_list_init(&iface->unread);
    cw_list_init(&iface->in_flight);
    cw_list_init(&iface->resting);
    cw_tcp_settings_load(params->config, &iface->settings);
    if (!local_load(&iface->settings, params->devices, params->num_devices, &iface->local) &&
        params->num_devices > 0) {
        status = UCS_ERR_NO_DEVICE;
        goto fail;
    }
    set_limits(&iface->super.limits, &iface->settings);
    iface->staging_size = CW_TCP_FRAME_HEADER + iface->settings.rx_seg_size;
    iface->tx_capacity = CW_TCP_FRAME_HEADER + iface->settings.tx_seg_size;
    if (params->num_devices > 0 && iface->local.num_hosts == 0 && iface->local.loopback == 0) {
        cw_error("cannot open the TCP transport: no address on device %s; it is down, or UCX_TCP_AF_PRIO=%s%s%s "
                 "excludes its family", params->devices[0].name,
                 iface->settings.use_ipv4 ? "inet" : "",
                 (iface->settings.use_ipv4 && iface->settings.use_ipv6) ? "," : "",
                 iface->settings.use_ipv6 ? "inet6" : "");
        status = UCS_ERR_NO_DEVICE;
        goto fail;
    }
    status = cw_tcp_security_new(&iface->settings.auth, &iface->security);
    if (status != UCS_OK) {
        goto fail;
    }
    if (params->num_devices > 0) {
        status = cw_tcp_listen(iface, &port, &listens);
        if (status != UCS_OK) {
            goto fail;
        }
        set_address(iface, port, listens);
    }
    *iface_p = &iface->super;
    return UCS_OK;

fail:
    cw_tcp_security_free(iface->security);
    free(iface->devices);
    free(iface);
    return status;
}

static void tcp_close(struct cw_iface *super)
{
    struct cw_tcp_iface *iface = iface_of(super);

    assert(cw_list_empty(&iface->pending) && iface->active == NULL);
    cw_tcp_listen_end(iface);
    while (!cw_list_empty(&iface->listenings)) { /* listeners that the program did not destroy */
        cw_tcp_cm_listen_end(cw_list_head(&iface->listenings, struct cw_listening, link));
    }
    cw_tcp_lingering_end(iface);
    assert(!cw_tcp_has_unsent(super));
    assert(!cw_alarm_is_set(&iface->hello_deadline) && !cw_alarm_is_set(&iface->linger_deadline) &&
           !cw_alarm_is_set(&iface->check));
    cw_poller_alarm_cancel(iface->poller, &iface->accept_again);
    free(iface->staging);
    free(iface->spare_handshake);
    free(iface->spare_tx);
    free(iface->spare_place);
    cw_tcp_security_free(iface->security);
    free(iface->devices);
    free(iface);
}

static size_t tcp_address(struct cw_iface *super, void *buffer, size_t max)
{
    const struct cw_tcp_iface *iface = iface_of(super);

    if (iface->address_length > max) {
        return 0;
    }
    memcpy(buffer, iface->address, iface->address_length);
    return iface->address_length;
}

static size_t tcp_device_address(struct cw_iface *super, const char *device, void *buffer, size_t max)
{
    const struct cw_tcp_iface *iface = iface_of(super);
    unsigned i = 0;
    uint8_t bytes[CW_TCP_ADDRESS_MAX];
    struct cw_tcp_address address;
    struct cw_tcp_local local;
    size_t length;

    while (i < iface->num_devices && strcmp(iface->devices[i].name, device) != 0) {
        i++;
    }
    if (i == iface->num_devices ||
        cw_tcp_address_decode(iface->address, iface->address_length, &address) != NULL) {
        return 0;
    }
    (void)local_load(&iface->settings, &iface->devices[i], 1, &local);
    if (local.loopback == 0) {
        address.netns = ~address.netns;
    }
    length = encode(&address, &local, bytes);
    if ((local.loopback == 0 && local.num_hosts == 0) || length > max) {
        return 0;
    }
    cw_bytes_copy_any(buffer, bytes, length);
    return length;
}

static int tcp_reachable(struct cw_iface *super, const void *address, size_t length, const char **why)
{
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    struct cw_tcp_address peer;
    const char *wrong = cw_tcp_address_decode(address, length, &peer);

    if (wrong != NULL) {
        *why = wrong;
        return 0;
    }
    return cw_tcp_candidates(&iface_of(super)->local, &peer, NULL, candidates, why) > 0;
}

/* A send failed on this socket: delivers the bytes received before it, then ends the connection. 0: no memory; call
 * again. */
static int end_failed(struct cw_tcp_conn *conn, unsigned *events)
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    enum cw_tcp_recv_result result = CW_TCP_RECV_MORE;
    unsigned i;

    for (i = 0; i < LAST_WORDS_RECEIVES && result == CW_TCP_RECV_MORE; i++) {
        result = cw_tcp_recv(conn, 1, events);
    }
    if (result != CW_TCP_RECV_ENDED) {
        if (iface->staging == NULL || iface->spare_place == NULL) {
            return 0;
        }
        (*events)++;
        cw_tcp_conn_end(conn, (conn->broken != UCS_OK) ? conn->broken : UCS_ERR_CONNECTION_RESET);
    }
    return 1;
}

/* Reports a dial that failed at once, or ends a connection on which a send failed. */
static unsigned finish_pending(struct cw_tcp_iface *iface, struct cw_tcp_conn *conn)
{
    unsigned events = 0;

    if (conn->state == CW_TCP_CLOSED) {
        return cw_tcp_dial_failed(conn);
    }
    if (conn->state == CW_TCP_OPEN && conn->failed && conn->item.fd >= 0 && !end_failed(conn, &events) &&
        conn->state == CW_TCP_OPEN && cw_list_empty(&conn->link)) {
        cw_list_add_tail(&iface->pending, &conn->link);
    }
    return events;
}

static unsigned progress_pending(struct cw_tcp_iface *iface)
{
    struct cw_list pending;
    struct cw_list *link;
    unsigned events = 0;

    cw_list_init(&pending);
    cw_list_splice_tail(&pending, &iface->pending);
    while ((link = cw_list_pop_head(&pending)) != NULL) {
        events += finish_pending(iface, cw_container_of(link, struct cw_tcp_conn, link));
    }
    return events;
}

/* Receives from the connection that all events come from, and sends its unsent bytes as soon as the kernel has any
 * space; the poller would report only more space. */
static unsigned progress_hot(struct cw_tcp_iface *iface, struct cw_tcp_conn *conn)
{
    unsigned events = 0;

    if (cw_tcp_recv(conn, 1, &events) == CW_TCP_RECV_ENDED) {
        return events;
    }
    if (cw_unlikely((conn->tx != NULL && !conn->collected) || conn->wants_space)) {
        events += cw_tcp_send_rest(conn);
    }
    if (events > 0) {
        conn->fruitless = 0;
    } else if (iface->hot == conn && ++conn->fruitless >= CW_TCP_MAX_FRUITLESS) {
        iface->hot = NULL;
        iface->streak = 0;
    }
    if (iface->unpolled >= CW_TCP_TURN) {
        iface->unpolled = 0;
        events += cw_poller_dispatch(iface->poller);
    }
    return events;
}

static unsigned tcp_progress(struct cw_iface *super)
{
    struct cw_tcp_iface *iface = iface_of(super);
    unsigned events = (iface->hot != NULL) ? progress_hot(iface, iface->hot) : 0;

    if (cw_unlikely(!cw_list_empty(&iface->unread))) {
        events += cw_tcp_filter_progress(iface);
    }
    if (cw_unlikely(!cw_list_empty(&iface->pending))) {
        events += progress_pending(iface);
    }
    return events;
}

static ucs_status_t tcp_arm(struct cw_iface *super)
{
    struct cw_tcp_iface *iface = iface_of(super);

    if (!cw_list_empty(&iface->pending) || !cw_list_empty(&iface->unread)) {
        return UCS_ERR_BUSY;
    }
    if (!cw_list_empty(&iface->in_flight)) {
        cw_tcp_watch_settle(iface);
    }
    return UCS_OK;
}

static const struct cw_transport_connect tcp_connect = {
    .num_paths = cw_tcp_paths,
    .dial_path = cw_tcp_dial_path,
    .dial = cw_tcp_dial,
    .is_unseen = cw_tcp_is_unseen,
    .close_conn = cw_tcp_close_conn,
    .watch = cw_tcp_watch,
    .abandon = cw_tcp_abandon,
};

static const struct cw_transport_packets tcp_packets = {
    .send_short = cw_tcp_send_short,
    .send_bcopy = cw_tcp_send_bcopy,
    .send_zcopy = cw_tcp_send_zcopy,
    .send_placed = cw_tcp_send_in_place,
    .send_in_place = cw_tcp_send_in_place,
    .batch = cw_tcp_batch,
    .flush = cw_tcp_flush,
    .has_unsent = cw_tcp_has_unsent,
};

static const struct cw_transport_cm tcp_cm = {
    .listen = cw_tcp_cm_listen,
    .listen_end = cw_tcp_cm_listen_end,
    .dial_to = cw_tcp_cm_dial,
    .answer = cw_tcp_cm_answer,
    .carries = cw_tcp_cm_carries,
    .ends = cw_tcp_cm_ends,
};

const struct cw_transport cw_tcp_transport = {
    .name = "tcp",
    .wire_id = CW_TCP_WIRE_ID,
    .device_class = CW_DEVICE_NET,
    .spans_devices = 1,
    .connect = &tcp_connect,
    .packets = &tcp_packets,
    .cm = &tcp_cm,
    .query_devices = tcp_query_devices,
    .explain = tcp_explain,
    .open = tcp_open,
    .close = tcp_close,
    .address = tcp_address,
    .device_address = tcp_device_address,
    .reachable = tcp_reachable,
    .progress = tcp_progress,
    .arm = tcp_arm,
};
