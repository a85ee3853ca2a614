/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The link of the own port. A cable may be plugged in again, so a port that goes down ends no connection at once. One
 * that stays down ends those that are watched, within UCX_KEEPALIVE_INTERVAL: the device may retry for far longer, and
 * the peer's process may still be seen over another network (verbs_watch.c).
 */
#include "transport/verbs/verbs_conn.h"

#include <stdatomic.h>

#include "os/clock.h"

/* Leaves a part of the interval for progress to notice and report it. */
static uint64_t patience(const struct cw_verbs_iface *iface)
{
    return iface->settings.keepalive_ns / 10 * 9;
}

void cw_verbs_port_event(struct cw_verbs_iface *iface, bool has_link)
{
    struct cw_verbs_health *health = iface->health;
    uint64_t none = 0;

    if (has_link) {
        atomic_store_explicit(&health->down_ns, 0, memory_order_relaxed);
    } else {
        (void)atomic_compare_exchange_strong(&health->down_ns, &none, cw_clock_ns());
    }
    atomic_fetch_add_explicit(&health->changes, 1, memory_order_release);
    cw_verbs_port_follow(iface);
}

void cw_verbs_port_follow(struct cw_verbs_iface *iface)
{
    const uint64_t down_ns = atomic_load_explicit(&iface->health->down_ns, memory_order_relaxed);

    if (down_ns == 0 || iface->settings.keepalive_ns == UINT64_MAX) {
        cw_poller_alarm_cancel(iface->poller, &iface->down);
    } else {
        cw_poller_alarm_set(iface->poller, &iface->down, down_ns + patience(iface));
    }
}

/* Events may be lost, so the port itself decides. */
static bool has_link(const struct cw_verbs_iface *iface)
{
    struct ibv_port_attr attr = {0};

    return iface->lib->query_port_compat(iface->context, iface->port.number,
                                         (struct _compat_ibv_port_attr *)(void *)&attr) == 0 &&
           attr.state == IBV_PORT_ACTIVE;
}

static unsigned on_down(struct cw_alarm *alarm)
{
    struct cw_verbs_iface *iface = cw_container_of(alarm, struct cw_verbs_iface, down);
    struct cw_verbs_conn *conn;

    if (has_link(iface)) {
        cw_verbs_port_event(iface, true);
        return 0;
    }
    iface->drained = 0; /* deliver received packets before the end */
    cw_list_for_each(conn, &iface->conns, struct cw_verbs_conn, link)
    {
        if (conn->is_watched && conn->state != CW_VERBS_DIALLING && conn->state < CW_VERBS_FAILING) {
            conn->lost = "its port lost its link (UCX_KEEPALIVE_INTERVAL)";
            conn->lost_status = UCS_ERR_ENDPOINT_TIMEOUT;
            cw_verbs_conn_due(conn);
        }
    }
    return 1;
}

void cw_verbs_port_init(struct cw_verbs_iface *iface)
{
    iface->down.fire = on_down;
    iface->health = (iface->domain != NULL) ? &iface->domain->health : &iface->own_health;
}
