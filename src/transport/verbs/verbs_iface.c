/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs transport's table, and its interface: opening, completion queues, arming, device events.
 */
#include "transport/verbs/verbs_conn.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/random.h"

#define FIRST_CONNS   16u
#define ENOUGH_PLACES (UINT64_C(1) << 16) /* send_cq is larger only if FEW_PLACES per connection need more */
#define FEW_PLACES    8u                  /* send_cq entries per connection, at least */
#define EMPTY_BATCHES 64u
#define MOST_UNSIGNALLED 64u
#define LAST_WORDS_NS UINT64_C(1000000000)
#define LAST_CLOSE_NS UINT64_C(200000000) /* time for the peer's program to answer */
#define POLL_NS       UINT64_C(50000000)

static struct cw_verbs_iface *iface_of(struct cw_iface *super)
{
    return cw_container_of(super, struct cw_verbs_iface, super);
}

/* The next poll of the queues finds packets that arrive during this call. */
static unsigned on_events(struct cw_poll_item *item, unsigned events)
{
    struct cw_verbs_iface *iface = cw_container_of(item, struct cw_verbs_iface, events);
    struct ibv_cq *cq;
    void *context;

    (void)events;
    while (iface->lib->get_cq_event(iface->channel, &cq, &context) == 0) {
        iface->lib->ack_cq_events(cq, 1);
        iface->armed = 0;
    }
    return 0;
}

static void fail_all(struct cw_verbs_iface *iface, const char *why)
{
    struct cw_verbs_conn *conn;

    iface->vanished = 1;
    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, why);
    }
}

void cw_verbs_gone(struct cw_verbs_iface *iface, const char *why)
{
    if (!iface->vanished) {
        cw_warn("%s: %s; its connections are closed", iface->port.name, why);
        fail_all(iface, why);
    }
}

int cw_verbs_poll(struct cw_verbs_iface *iface, struct ibv_cq *cq, unsigned most, struct ibv_wc *wc)
{
    const int num = ibv_poll_cq(cq, (int)most, wc);

    if (cw_unlikely(num < 0)) {
        cw_verbs_gone(iface, "cannot read its completions");
    }
    return (num > 0) ? num : 0;
}

static struct cw_verbs_conn *find_conn(const struct cw_verbs_iface *iface, const struct ibv_qp *qp)
{
    struct cw_verbs_conn *conn;

    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->qp == qp) {
            return conn;
        }
    }
    return NULL;
}

/* Interfaces that share a domain share its events. The interface that reads an event acknowledges it, because an
 * unacknowledged event blocks the destruction of its queue pair for ever. It does not touch a queue pair of another
 * worker, whose requests complete with errors by themselves. Device failure reaches all interfaces through the
 * domain. */
static unsigned on_async(struct cw_poll_item *item, unsigned events)
{
    struct cw_verbs_iface *iface = cw_container_of(item, struct cw_verbs_iface, async);
    struct ibv_async_event event;
    struct cw_verbs_conn *conn;

    (void)events;
    while (iface->lib->get_async_event(iface->context, &event) == 0) {
        const char *text = iface->lib->event_type_str(event.event_type);

        switch (event.event_type) {
        case IBV_EVENT_DEVICE_FATAL:
        case IBV_EVENT_CQ_ERR:
        case IBV_EVENT_SRQ_ERR:
            cw_verbs_gone(iface, text);
            atomic_store_explicit(&iface->health->vanished, 1, memory_order_relaxed);
            atomic_fetch_add_explicit(&iface->health->changes, 1, memory_order_release);
            break;
        case IBV_EVENT_QP_FATAL:
            conn = find_conn(iface, event.element.qp);
            if (conn != NULL) {
                cw_verbs_conn_fail(conn, UCS_ERR_IO_ERROR, text);
            }
            break;
        case IBV_EVENT_QP_REQ_ERR: /* the device refused a request of the peer */
        case IBV_EVENT_QP_ACCESS_ERR:
            conn = find_conn(iface, event.element.qp);
            if (conn != NULL) {
                cw_verbs_renew(conn);
            }
            break;
        case IBV_EVENT_SRQ_LIMIT_REACHED: /* the queue exists until its events are acknowledged */
            atomic_store_explicit(&((struct cw_verbs_iface *)event.element.srq->srq_context)->receives_ran_out, 1,
                                  memory_order_relaxed);
            break;
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE:
            if (event.element.port_num == iface->port.number) {
                cw_diag("%s: %s", iface->port.name, text);
                cw_verbs_port_event(iface, event.event_type == IBV_EVENT_PORT_ACTIVE);
            }
            break;
        default:
            cw_debug("%s: %s", iface->port.name, text);
            break;
        }
        iface->lib->ack_async_event(&event);
    }
    return 0;
}

static bool is_broken(const struct cw_verbs_iface *iface, struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    return iface->lib->query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 && attr.qp_state == IBV_QPS_ERR;
}

/* A peer whose access broke the queue pair may have missed the device's NAK, and retries in vain. */
static unsigned on_poll(struct cw_alarm *alarm)
{
    struct cw_verbs_iface *iface = cw_container_of(alarm, struct cw_verbs_iface, check);
    struct cw_verbs_conn *conn;

    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        if ((conn->state >= CW_VERBS_OPEN && conn->state <= CW_VERBS_LEAVING) && conn->qp != NULL &&
            !conn->is_broken && is_broken(iface, conn->qp)) {
            (void)cw_verbs_sent(iface); /* the device may have reported a reason */
            cw_verbs_renew(conn);
        }
    }
    if (!cw_list_empty(&iface->conns)) {
        cw_verbs_poll_broken(iface);
    }
    return 0;
}

void cw_verbs_poll_broken(struct cw_verbs_iface *iface)
{
    if (iface->port.breaks_unseen && !cw_alarm_is_set(&iface->check)) {
        cw_poller_alarm_set_lazy(iface->poller, &iface->check, cw_clock_ns() + POLL_NS);
    }
}

/* The queue grows with the connections up to a bound on unused memory; beyond that, or if the device cannot resize it,
 * it has fewer entries than the connections could use together. */
static void resize_cq(struct cw_verbs_iface *iface, uint64_t conns)
{
    const uint64_t most = iface->port.max_completions;
    const uint64_t few = conns * FEW_PLACES + CW_VERBS_UD_SENDS;
    uint64_t needed = conns * iface->settings.sends + CW_VERBS_UD_SENDS;

    if (needed > ENOUGH_PLACES) {
        needed = (few < ENOUGH_PLACES) ? ENOUGH_PLACES : few;
    }
    if (needed <= (uint64_t)iface->send_cq->cqe || (uint64_t)iface->send_cq->cqe >= most || iface->cq_stays) {
        return;
    }
    (void)cw_verbs_sent(iface);
    if (iface->lib->resize_cq(iface->send_cq, (int)((needed + needed / 2 < most) ? needed + needed / 2 : most)) != 0 &&
        (needed >= most || iface->lib->resize_cq(iface->send_cq, (int)needed) != 0)) {
        iface->cq_stays = 1;
    }
}

void cw_verbs_share_cq(struct cw_verbs_iface *iface)
{
    const unsigned places = (unsigned)iface->send_cq->cqe - CW_VERBS_UD_SENDS;

    iface->most_in_flight = places - iface->num_qps * CW_VERBS_RETAINED;
    iface->most_unseen =
        (places / iface->settings.sends < iface->num_qps) ? iface->most_in_flight / 4 * 3 : UINT32_MAX;
}

int cw_verbs_grow_cq(struct cw_verbs_iface *iface)
{
    const uint64_t conns = (uint64_t)iface->num_qps + 1;

    resize_cq(iface, conns);
    errno = ENOSPC;
    return conns * CW_VERBS_RETAINED + iface->settings.sends + CW_VERBS_UD_SENDS <= (uint64_t)iface->send_cq->cqe;
}

int cw_verbs_can_feed(const struct cw_verbs_iface *iface)
{
    return iface->starved && iface->pool.free != NULL && iface->in_flight < iface->most_in_flight;
}

ucs_status_t cw_verbs_lacks(struct cw_verbs_iface *iface, const char *what, int error)
{
    snprintf(iface->port.why, sizeof(iface->port.why), "out of resources for %s: %s", what, strerror(error));
    return UCS_ERR_NO_MEMORY;
}

static ucs_status_t make_queues(struct cw_verbs_iface *iface, int wakeup)
{
    const struct cw_verbs_settings *settings = &iface->settings;
    const unsigned first = FIRST_CONNS * settings->sends + CW_VERBS_UD_SENDS;

    if (iface->domain == NULL) {
        iface->pd = iface->lib->alloc_pd(iface->context);
    }
    if (iface->pd == NULL) {
        return cw_verbs_lacks(iface, "a protection domain", errno);
    }
    if (wakeup) {
        iface->channel = iface->lib->create_comp_channel(iface->context);
        if (iface->channel == NULL) {
            return cw_verbs_lacks(iface, "a channel for completions", errno);
        }
        cw_fd_unblock(iface->channel->fd);
    }
    iface->recv_cq = iface->lib->create_cq(iface->context, (int)(settings->receives + CW_VERBS_UD_RECEIVES), NULL,
                                           iface->channel, 0);
    if (iface->recv_cq == NULL) {
        return cw_verbs_lacks(iface, "a completion queue", errno);
    }
    iface->send_cq = iface->lib->create_cq(
        iface->context, (int)((first < iface->port.max_completions) ? first : iface->port.max_completions), NULL,
        iface->channel, 0);
    if (iface->send_cq == NULL) {
        return cw_verbs_lacks(iface, "a completion queue", errno);
    }
    iface->most_polled = (unsigned)iface->recv_cq->cqe + CW_VERBS_BATCH;
    iface->polled = malloc(iface->most_polled * sizeof(*iface->polled));
    return (iface->polled == NULL) ? cw_verbs_lacks(iface, "its completions", ENOMEM) : cw_verbs_ud_open(iface);
}

static ucs_status_t watch_descriptors(struct cw_verbs_iface *iface)
{
    ucs_status_t status;

    cw_fd_unblock(iface->context->async_fd);
    iface->async = (struct cw_poll_item){.fd = iface->context->async_fd, .ready = on_async};
    status = cw_poller_add(iface->poller, &iface->async, CW_POLL_READ);
    if (status != UCS_OK) {
        iface->async.fd = -1;
    } else if (iface->channel != NULL) {
        iface->events = (struct cw_poll_item){.fd = iface->channel->fd, .ready = on_events};
        status = cw_poller_add(iface->poller, &iface->events, CW_POLL_READ);
        if (status != UCS_OK) {
            iface->events.fd = -1;
        }
    }
    return (status == UCS_OK) ? UCS_OK : cw_verbs_lacks(iface, "its descriptors", errno);
}

static void set_limits(struct cw_verbs_iface *iface)
{
    struct cw_limits *limits = &iface->super.limits;

    limits->max_short = iface->settings.inlined - sizeof(uint64_t);
    limits->max_bcopy = iface->settings.segment;
    limits->latency_ns = 1000;
    limits->bandwidth_bps = iface->port.bandwidth_bps;
    limits->overhead_ns = 200;
    limits->keep_space = CW_VERBS_KEEP_SPACE;
}

static void set_address(struct cw_verbs_iface *iface)
{
    iface->local = iface->port.address;
    iface->local.watch_port = iface->watched.port;
    iface->local.qp = iface->ud->qp_num;
    iface->local.key = iface->key;
    iface->local.domain = (iface->domain != NULL) ? iface->domain->super.number : 0;
    iface->address_length = cw_verbs_address_encode(&iface->local, iface->address);
}

static void free_iface(struct cw_verbs_iface *iface)
{
    const struct cw_verbs_library *lib = iface->lib;
    struct cw_verbs_op *op;

    if (iface->events.fd >= 0) {
        cw_poller_remove(iface->poller, &iface->events);
    }
    if (iface->async.fd >= 0) {
        cw_poller_remove(iface->poller, &iface->async);
    }
    cw_poller_alarm_cancel(iface->poller, &iface->check);
    cw_poller_alarm_cancel(iface->poller, &iface->down);
    cw_poller_alarm_cancel(iface->poller, &iface->sweep);
    (void)cw_verbs_retired_free(iface, true);
    cw_watch_listener_close(&iface->watched);
    cw_verbs_ud_close(iface);
    if (iface->srq != NULL) {
        (void)lib->destroy_srq(iface->srq);
    }
    if (iface->recv_cq != NULL) {
        (void)lib->destroy_cq(iface->recv_cq);
    }
    if (iface->send_cq != NULL) {
        (void)lib->destroy_cq(iface->send_cq);
    }
    if (iface->channel != NULL) {
        (void)lib->destroy_comp_channel(iface->channel);
    }
    cw_verbs_pool_free(iface);
    if (iface->domain == NULL && iface->pd != NULL) {
        (void)lib->dealloc_pd(iface->pd);
    }
    if (iface->domain == NULL && iface->context != NULL) {
        (void)lib->close_device(iface->context);
    }
    while (iface->spare_ops != NULL) {
        op = iface->spare_ops;
        iface->spare_ops = op->next;
        free(op);
    }
    cw_verbs_chains_free(iface);
    cw_hash_cleanup(&iface->processes);
    cw_hash_cleanup(&iface->by_qp);
    cw_hash_cleanup(&iface->by_peer);
    cw_idmap_cleanup(&iface->ids);
    free(iface->refusals);
    free(iface->polled);
    free(iface);
}

static ucs_status_t verbs_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    const char *why = NULL;
    const struct cw_verbs_library *lib = cw_verbs_library(&why);
    struct cw_verbs_iface *iface = calloc(1, sizeof(*iface));
    ucs_status_t status;

    if (lib == NULL || iface == NULL) {
        cw_warn("verbs/%s is left out: %s", params->devices[0].name, (lib == NULL) ? why : "out of memory");
        free(iface);
        return (lib == NULL) ? UCS_ERR_NO_DEVICE : UCS_ERR_NO_MEMORY;
    }
    iface->super.transport = &cw_verbs_transport;
    iface->super.upcalls = params->upcalls;
    iface->super.owner = params->owner;
    iface->lib = lib;
    iface->poller = params->poller;
    iface->events.fd = -1;
    iface->async.fd = -1;
    iface->check.fire = on_poll;
    iface->key = cw_random_u64();
    cw_list_init(&iface->conns);
    cw_verbs_sweep_init(iface);
    cw_list_init(&iface->blocked);
    cw_list_init(&iface->due);
    cw_hash_init(&iface->processes, cw_random_u64());
    cw_hash_init(&iface->by_qp, 0);
    cw_hash_init(&iface->by_peer, cw_random_u64());
    cw_idmap_init(&iface->ids);
    cw_verbs_settings_load(params->config, &iface->settings);
    if (params->domain != NULL) {
        iface->domain = cw_container_of(params->domain, struct cw_verbs_domain, super);
        iface->context = iface->domain->context;
        iface->pd = iface->domain->pd;
        iface->port = iface->domain->port;
    } else {
        iface->context = cw_verbs_device_open(lib, &iface->settings, params->devices[0].name, &iface->port);
    }
    if (iface->context == NULL) {
        cw_warn("verbs/%s is left out: %s", params->devices[0].name, iface->port.why);
        free_iface(iface);
        return UCS_ERR_NO_DEVICE;
    }
    cw_verbs_settings_fit(&iface->settings, &iface->port);
    iface->request_size = cw_verbs_request_size(&iface->settings);
    iface->most_unsignalled = (iface->settings.sends / 2 < MOST_UNSIGNALLED) ? iface->settings.sends / 2
                                                                             : MOST_UNSIGNALLED;
    cw_verbs_short_init(iface);
    iface->most_live = iface->settings.most_live;
    iface->most_dials = (iface->most_live < UINT32_MAX) ? iface->port.max_qps / 4 : UINT32_MAX;
    set_limits(iface);
    if (iface->domain != NULL) {
        cw_verbs_access_limits(iface);
    }
    status = make_queues(iface, params->wakeup);
    status = (status == UCS_OK) ? watch_descriptors(iface) : status;
    if (status != UCS_OK) {
        cw_warn("verbs/%s is left out: %s", iface->port.name, iface->port.why);
        free_iface(iface);
        return status;
    }
    cw_verbs_port_init(iface);
    cw_verbs_watch_open(iface);
    set_address(iface);
    *iface_p = &iface->super;
    return UCS_OK;
}

/* Fills iface->polled when it is empty. Returns whether it holds a completion. */
static int take_received(struct cw_verbs_iface *iface)
{
    int num;

    if (iface->next_polled == iface->num_polled) {
        num = cw_verbs_poll(iface, iface->recv_cq, CW_VERBS_BATCH, iface->polled);
        iface->num_polled = (unsigned)num;
        iface->next_polled = 0;
        iface->drained = num < CW_VERBS_BATCH;
    }
    return iface->next_polled < iface->num_polled;
}

void cw_verbs_hold_received(struct cw_verbs_iface *iface)
{
    int num;

    do {
        num = cw_verbs_poll(iface, iface->recv_cq, iface->most_polled - iface->num_polled,
                            iface->polled + iface->num_polled);
        iface->num_polled += (unsigned)num;
    } while (num > 0);
    iface->drained = 0;
}

static int is_leaving(const struct cw_verbs_iface *iface, uint64_t begin)
{
    const uint64_t now = cw_clock_ns();
    struct cw_verbs_conn *conn;
    int any = iface->ud_sending > 0 && !iface->vanished;

    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->state == CW_VERBS_LEAVING && conn->qp == NULL) {
            any |= !iface->vanished && now < begin + LAST_CLOSE_NS && cw_verbs_say_close(conn, now);
        } else if (conn->state == CW_VERBS_LEAVING && (conn->is_last || (conn->is_ended && now < conn->grace_ns))) {
            any = 1;
        }
    }
    return any;
}

/* The peer's END shows that the peer needs no further packet of this side. It causes no upcall, as the core has closed
 * all connections; a new hello is not answered. */
static void take_last_words(struct cw_verbs_iface *iface)
{
    const struct ibv_wc *wc;

    while (take_received(iface)) {
        wc = &iface->polled[iface->next_polled++];
        if (wc->qp_num != iface->ud->qp_num) {
            (void)cw_verbs_received(iface, wc);
        } else {
            (void)cw_verbs_ud_received(iface, wc);
        }
    }
}

/* Destroying a queue pair discards its last packets, so the device gets a short time to send them. */
static void verbs_close(struct cw_iface *super)
{
    struct cw_verbs_iface *iface = iface_of(super);
    const uint64_t begin = cw_clock_ns();
    struct cw_verbs_conn *conn;

    iface->is_closing = 1;
    do {
        (void)cw_verbs_sent(iface);
        take_last_words(iface);
    } while (is_leaving(iface, begin) && cw_clock_ns() < begin + LAST_WORDS_NS);
    while (!cw_list_empty(&iface->conns)) {
        conn = cw_list_head(&iface->conns, struct cw_verbs_conn, link);
        assert(conn->state >= CW_VERBS_LEAVING);
        cw_verbs_conn_end(conn);
    }
    free_iface(iface);
}

static size_t verbs_address(struct cw_iface *super, void *buffer, size_t max)
{
    const struct cw_verbs_iface *iface = iface_of(super);

    if (iface->address_length > max) {
        return 0;
    }
    memcpy(buffer, iface->address, iface->address_length);
    return iface->address_length;
}

/* Another interface of the domain has read an event, or this one. */
static CW_NOINLINE void follow_health(struct cw_verbs_iface *iface)
{
    iface->changes = atomic_load_explicit(&iface->health->changes, memory_order_acquire);
    if (!iface->vanished && atomic_load_explicit(&iface->health->vanished, memory_order_relaxed)) {
        fail_all(iface, "the device is gone");
    }
    cw_verbs_port_follow(iface);
}

static unsigned verbs_progress(struct cw_iface *super)
{
    struct cw_verbs_iface *iface = iface_of(super);
    const struct ibv_wc *wc;
    unsigned count = 0, batches = 0;

    if (cw_unlikely(atomic_load_explicit(&iface->health->changes, memory_order_relaxed) != iface->changes)) {
        follow_health(iface);
    }
    while (take_received(iface)) { /* packets may follow datagrams of unauthenticated peers, which do not count */
        while (iface->next_polled < iface->num_polled) {
            wc = &iface->polled[iface->next_polled++];
            count += (wc->qp_num == iface->ud->qp_num) ? cw_verbs_ud_received(iface, wc) : cw_verbs_received(iface, wc);
        }
        if (count > 0 || iface->drained || ++batches == EMPTY_BATCHES) {
            break;
        }
    }
    /* A program answers a packet after this call, so a few missing receives wait for a call without packets. */
    if (count == 0 && iface->missing > 0 && iface->pool.free != NULL) {
        cw_verbs_refill(iface);
    }
    if (iface->in_flight + iface->ud_sending > 0) {
        (void)cw_verbs_sent(iface);
    }
    if (!cw_list_empty(&iface->due) || iface->starved) {
        count += cw_verbs_conns_settle(iface);
    }
    return count;
}

static ucs_status_t verbs_arm(struct cw_iface *super)
{
    struct cw_verbs_iface *iface = iface_of(super);

    if (iface->channel != NULL && !iface->armed) {
        if (ibv_req_notify_cq(iface->recv_cq, 0) != 0 || ibv_req_notify_cq(iface->send_cq, 0) != 0) {
            return UCS_ERR_BUSY;
        }
        iface->armed = 1;
    }
    (void)cw_verbs_sent(iface);
    return (take_received(iface) || !cw_list_empty(&iface->due) || cw_verbs_can_feed(iface)) ? UCS_ERR_BUSY : UCS_OK;
}

static const struct cw_transport_connect verbs_connect = {
    .dial = cw_verbs_dial,
    .close_conn = cw_verbs_close_conn,
    .stopping = cw_verbs_stopping,
    .watch = cw_verbs_watch,
    .abandon = cw_verbs_abandon,
};

const struct cw_transport cw_verbs_transport = {
    .name = "verbs",
    .wire_id = CW_VERBS_WIRE_ID,
    .device_class = CW_DEVICE_NET,
    .connect = &verbs_connect,
    .packets = &cw_verbs_packets,
    .access = &cw_verbs_access,
    .query_devices = cw_verbs_query_devices,
    .explain = cw_verbs_explain,
    .open = verbs_open,
    .close = verbs_close,
    .address = verbs_address,
    .reachable = cw_verbs_reachable,
    .progress = verbs_progress,
    .arm = verbs_arm,
};
