/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TCP transport's table, and its iface: opening, address, progress.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/log.h"
#include "transport/tcp/tcp_dial.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tcp_cm.h"
#include "transport/tcp/tcp_send.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp/tcp_watch.h"

#define MAX_SHORT           2048u
#define LAST_WORDS_RECEIVES 4096u /* more than any kernel keeps for a connection that has ended */

static struct cw_tcp_iface *iface_of(struct cw_iface *super)
{
    return cw_container_of(super, struct cw_tcp_iface, super);
}

static void set_limits(struct cw_limits *limits, const struct cw_tcp_settings *settings)
{
    const size_t most_short = settings->tx_seg_size - sizeof(uint64_t);

    limits->max_short     = (most_short < MAX_SHORT) ? most_short : MAX_SHORT;
    limits->max_bcopy     = settings->tx_seg_size;
    limits->max_zcopy     = CW_TCP_PACKET_MAX;
    limits->max_iov       = settings->max_iov;
    limits->max_placed    = CW_TCP_PLACED_MAX;
    limits->latency_ns    = 4000;
    limits->bandwidth_bps = settings->bandwidth_bps;
    limits->overhead_ns   = 1000;
}

static void set_address(struct cw_tcp_iface *iface, uint16_t port, unsigned listens)
{
    struct cw_tcp_address address = {.port      = port,
                                     .netns     = iface->local.netns,
                                     .key       = iface->key,
                                     .listens   = listens,
                                     .num_hosts = iface->local.num_hosts};
    unsigned i;

    for (i = 0; i < address.num_hosts; i++) {
        address.hosts[i] = iface->local.hosts[i].address;
    }
    iface->address_length = cw_tcp_address_encode(&address, iface->address);
}

static ucs_status_t tcp_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct cw_tcp_iface *iface = calloc(1, sizeof(*iface));
    unsigned listens           = 0;
    uint16_t port              = 0;
    ucs_status_t status;

    if (iface == NULL) {
        cw_error("cannot open the TCP transport: out of memory");
        return UCS_ERR_NO_MEMORY;
    }
    iface->super.transport = &cw_tcp_transport;
    iface->super.upcalls   = params->upcalls;
    iface->super.owner     = params->owner;
    iface->poller          = params->poller;
    iface->listener.fd     = -1;
    iface->accept_again    = (struct cw_alarm){.fire = cw_tcp_accept_again};
    iface->hello_deadline  = (struct cw_alarm){.fire = cw_tcp_strangers_expire};
    iface->look            = (struct cw_alarm){.fire = cw_tcp_watch_look};
    iface->linger_deadline = (struct cw_alarm){.fire = cw_tcp_lingering_expire};
    iface->key             = (uint32_t)(params->worker_uid ^ (params->worker_uid >> 32));
    cw_list_init(&iface->listenings);
    cw_list_init(&iface->strangers);
    cw_list_init(&iface->pending);
    cw_list_init(&iface->lingering);
    cw_list_init(&iface->unread);
    cw_list_init(&iface->in_flight);
    cw_list_init(&iface->resting);
    cw_tcp_settings_load(params->config, &iface->settings);
    cw_tcp_local_load(&iface->settings, params->devices, params->num_devices, &iface->local);
    set_limits(&iface->super.limits, &iface->settings);
    iface->staging_size = CW_TCP_FRAME_HEADER + iface->settings.rx_seg_size;
    iface->tx_capacity  = CW_TCP_FRAME_HEADER + iface->settings.tx_seg_size;
    if (params->num_devices > 0 && iface->local.num_hosts == 0 && iface->local.loopback == 0) {
        cw_error("cannot open the TCP transport: no address is left on device %s; it went down, or "
                 "UCX_TCP_AF_PRIO=%s%s%s leaves out its family", params->devices[0].name,
                 iface->settings.use_ipv4 ? "inet" : "",
                 (iface->settings.use_ipv4 && iface->settings.use_ipv6) ? "," : "",
                 iface->settings.use_ipv6 ? "inet6" : "");
        status = UCS_ERR_NO_DEVICE;
        goto fail;
    }
    status = cw_tcp_security_new(params->config, &iface->security);
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
    free(iface);
    return status;
}

static void tcp_close(struct cw_iface *super)
{
    struct cw_tcp_iface *iface = iface_of(super);

    assert(cw_list_empty(&iface->pending) && iface->active == NULL);
    cw_tcp_listen_end(iface);
    while (!cw_list_empty(&iface->listenings)) { /* the program forgot them */
        cw_tcp_cm_listen_end(cw_list_head(&iface->listenings, struct cw_listening, link));
    }
    cw_tcp_lingering_end(iface);
    assert(!cw_tcp_owes(super));
    assert(!cw_alarm_is_set(&iface->hello_deadline) && !cw_alarm_is_set(&iface->linger_deadline) &&
           !cw_alarm_is_set(&iface->look));
    cw_poller_alarm_cancel(iface->poller, &iface->accept_again);
    free(iface->staging);
    free(iface->spare_greeting);
    free(iface->spare_tx);
    free(iface->spare_place);
    cw_tcp_security_free(iface->security);
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

/* A send failed on this socket: bytes that came before are handed up first. 0: no memory to receive in; call again. */
static int end_failed(struct cw_tcp_conn *conn, unsigned *events)
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);

    if (cw_tcp_recv(conn, LAST_WORDS_RECEIVES, events) != CW_TCP_RECV_ENDED) {
        if (iface->staging == NULL || iface->spare_place == NULL) {
            return 0;
        }
        (*events)++;
        cw_tcp_conn_lost(conn, (conn->broken != UCS_OK) ? conn->broken : UCS_ERR_CONNECTION_RESET);
    }
    return 1;
}

/* Finishes a dial that failed at once, or a connection on which a send failed. */
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

/* Receives from the connection that all events come from, and sends what it holds as soon as there is any room; the
 * poller would wait for more room. */
static unsigned progress_hot(struct cw_tcp_iface *iface, struct cw_tcp_conn *conn)
{
    unsigned events = 0;

    if (cw_tcp_recv(conn, 1, &events) == CW_TCP_RECV_ENDED) {
        return events;
    }
    if (cw_unlikely((conn->tx != NULL && !conn->collected) || conn->wants_room)) {
        events += cw_tcp_send_rest(conn);
    }
    if (events > 0) {
        conn->fruitless = 0;
    } else if (iface->hot == conn && ++conn->fruitless >= CW_TCP_MAX_FRUITLESS) {
        iface->hot    = NULL;
        iface->streak = 0;
    }
    return events;
}

static unsigned tcp_progress(struct cw_iface *super)
{
    struct cw_tcp_iface *iface = iface_of(super);
    unsigned events            = (iface->hot != NULL) ? progress_hot(iface, iface->hot) : 0;

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
    .ways       = cw_tcp_ways,
    .dial_way   = cw_tcp_dial_way,
    .dial       = cw_tcp_dial,
    .is_unseen  = cw_tcp_is_unseen,
    .close_conn = cw_tcp_close_conn,
    .watch      = cw_tcp_watch,
    .abandon    = cw_tcp_abandon,
};

static const struct cw_transport_packets tcp_packets = {
    .send_short    = cw_tcp_send_short,
    .send_bcopy    = cw_tcp_send_bcopy,
    .send_zcopy    = cw_tcp_send_zcopy,
    .send_placed   = cw_tcp_send_in_place,
    .send_in_place = cw_tcp_send_in_place,
    .batch         = cw_tcp_batch,
    .flush         = cw_tcp_flush,
    .owes          = cw_tcp_owes,
};

static const struct cw_transport_cm tcp_cm = {
    .listen     = cw_tcp_cm_listen,
    .listen_end = cw_tcp_cm_listen_end,
    .dial_to    = cw_tcp_cm_dial,
    .answer     = cw_tcp_cm_answer,
    .carries    = cw_tcp_cm_carries,
    .ends       = cw_tcp_cm_ends,
};

const struct cw_transport cw_tcp_transport = {
    .name          = "tcp",
    .wire_id       = CW_TCP_WIRE_ID,
    .device_class  = CW_DEVICE_NET,
    .spans_devices = 1,
    .connect       = &tcp_connect,
    .packets       = &tcp_packets,
    .cm            = &tcp_cm,
    .query_devices = cw_tcp_query_devices,
    .open          = tcp_open,
    .close         = tcp_close,
    .address       = tcp_address,
    .reachable     = tcp_reachable,
    .progress      = tcp_progress,
    .arm           = tcp_arm,
};
