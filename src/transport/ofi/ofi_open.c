/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening an interface: an endpoint with its address vector and completion queue.
 */
#include "transport/ofi/ofi_access.h"
#include "transport/ofi/ofi_send.h"
#include "transport/ofi/ofi_watch.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/config.h"
#include "os/clock.h"
#include "os/host.h"
#include "os/memory.h"
#include "os/random.h"

#define LEAVING_NS      300000000u /* longest wait for packets in flight at close */
#define LEAVING_IDLE_NS 30000000u  /* longest wait at close without a completion */
#define MOST_POSTED     64u        /* sends posted to a provider whose queue must not overflow; more would overflow a
                                    * socket buffer */

static struct ofi_iface *_Atomic left; /* closed interfaces whose endpoints could not be closed */

/* Logs the failure of a libfabric call. Returns 1 if it failed. */
static int fails(struct ofi_iface *iface, const char *what, int error)
{
    if (error != 0) {
        cw_warn("ofi/%s:%s is left out: %s failed: %s", iface->info->fabric_attr->prov_name,
                iface->info->domain_attr->name, what, iface->fi->strerror(-error));
    }
    return error != 0;
}

static unsigned queue_ready(struct cw_poll_item *item, unsigned events)
{
    (void)events;
    return cw_ofi_poll(cw_container_of(item, struct ofi_iface, item));
}

static unsigned poll_alarm(struct cw_alarm *alarm)
{
    return cw_ofi_poll(cw_container_of(alarm, struct ofi_iface, poll_alarm));
}

/* Opens the completion queue, with a descriptor if the worker sleeps and the provider supports one. */
static int open_queue(struct ofi_iface *iface)
{
    struct fi_cq_attr attr = {.size = iface->info->tx_attr->size + iface->info->rx_attr->size,
                          .format = FI_CQ_FORMAT_MSG,
                          .wait_obj = iface->wakeup ? FI_WAIT_FD : FI_WAIT_NONE};
    int error = fi_cq_open(iface->objects->domain, &attr, &iface->cq, NULL);

    if (error != 0 && iface->wakeup) {
        attr.wait_obj = FI_WAIT_NONE;
        error = fi_cq_open(iface->objects->domain, &attr, &iface->cq, NULL);
    }
    if (fails(iface, "a completion queue", error)) {
        return 0;
    }
    if (attr.wait_obj == FI_WAIT_FD && fi_control(&iface->cq->fid, FI_GETWAIT, &iface->item.fd) != 0) {
        iface->item.fd = -1;
    }
    if (iface->item.fd >= 0 && cw_poller_add(iface->poller, &iface->item, CW_POLL_READ) != UCS_OK) {
        iface->item.fd = -1;
        return 0;
    }
    return 1;
}

static int open_objects(struct ofi_iface *iface)
{
    struct fi_av_attr attr = {.type = iface->info->domain_attr->av_type};

    return !fails(iface, "the address vector", fi_av_open(iface->objects->domain, &attr, &iface->av, NULL)) &&
           open_queue(iface) &&
           !fails(iface, "the endpoint", fi_endpoint(iface->objects->domain, iface->info, &iface->ep, NULL)) &&
           !fails(iface, "binding the address vector", fi_ep_bind(iface->ep, &iface->av->fid, 0)) &&
           !fails(iface, "binding the completion queue",
                  fi_ep_bind(iface->ep, &iface->cq->fid, FI_TRANSMIT | FI_RECV)) &&
           !fails(iface, "enabling the endpoint", fi_enable(iface->ep));
}

static int open_endpoint(struct ofi_iface *iface)
{
    int is_open;

    cw_libfabric_begin();
    is_open = open_objects(iface);
    cw_libfabric_end();
    return is_open;
}

static int name_ourselves(struct ofi_iface *iface)
{
    size_t length = sizeof(iface->entry.bytes);

    if (fails(iface, "querying its own address", fi_getname(&iface->ep->fid, iface->entry.bytes, &length))) {
        return 0;
    }
    if (length > sizeof(iface->entry.bytes)) {
        cw_warn("the address of %s has %zu bytes, more than %u", iface->info->fabric_attr->prov_name, length,
                 CW_OFI_MAX_ADDRESS);
        return 0;
    }
    iface->entry.head = (struct cw_ofi_entry){.life = cw_random_u64(),
                                          .pidns = cw_host_pidns_id(),
                                          .process = cw_memory_process(),
                                          .provider = cw_ofi_provider_sum(iface->info),
                                          .format = iface->info->addr_format,
                                          .version = CW_OFI_VERSION,
                                          .local = (uint8_t)cw_ofi_is_local(iface->info),
                                          .length = (uint16_t)length,
                                          .boot = cw_host_boot_id()};
    iface->entry_length = sizeof(iface->entry.head) + length;
    cw_ofi_life_begin(iface->entry.head.life);
    return 1;
}

static size_t least(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

/* Derives packet and inject sizes from the provider's limits. */
static void take_sizes(struct ofi_iface *iface)
{
    const struct fi_info *info = iface->info;
    const unsigned quirks = iface->objects->quirks;

    iface->max_packet = least(info->ep_attr->max_msg_size, CW_OFI_LARGE);
    if (quirks & CW_OFI_EAGER_16K) {
        iface->max_packet = least(iface->max_packet, 16384);
    } else if (quirks & CW_OFI_SHORT_PACKETS) {
        iface->max_packet = least(iface->max_packet, info->tx_attr->inject_size);
    }
    iface->is_fragile = (quirks & CW_OFI_FEARS_THE_CLOSED) != 0;
    iface->most_posted = (quirks & CW_OFI_LOSES_EXCESS) ? MOST_POSTED : UINT_MAX;
    iface->window = (quirks & CW_OFI_LOSES_UNPOSTED) ? CW_OFI_WINDOW_S : CW_OFI_WINDOW;
    iface->inject = (quirks & CW_OFI_NAMELESS_INJECT) ? 0 : info->tx_attr->inject_size;
    if (iface->inject >= CW_OFI_INJECT_LEAST && !iface->is_fragile &&
        (info->tx_attr->msg_order & info->rx_attr->msg_order & FI_ORDER_SAS)) {
        iface->injects = 1;
        iface->inject_short = least(iface->inject, CW_OFI_INJECT_MOST) - sizeof(struct cw_ofi_header);
    }
    iface->has_work = iface->objects->end != NULL;
}

/* Uses the context's domain, or opens a private one for this interface. */
static ucs_status_t take_objects(struct ofi_iface *iface, const struct cw_iface_params *params)
{
    ucs_status_t status;

    if (params->domain != NULL && cw_container_of(params->domain, struct ofi_domain, super)->reaches) {
        iface->objects = cw_container_of(params->domain, struct ofi_domain, super);
    } else {
        status = cw_ofi_domain_make(params->devices[0].name, &iface->objects);
        if (status != UCS_OK) {
            return status;
        }
        iface->own_objects = 1;
    }
    iface->fi = iface->objects->fi;
    iface->info = iface->objects->info;
    return UCS_OK;
}

/* A NIC reports its speed; a provider without one uses the kernel's network stack. */
static void set_limits(struct ofi_iface *iface)
{
    const struct fid_nic *nic = iface->info->nic;
    const int is_card = nic != NULL && nic->link_attr != NULL && nic->link_attr->speed > 0;

    iface->super.limits = (struct cw_limits){.max_short = CW_OFI_MAX_SHORT,
                                         .max_bcopy = iface->max_packet - sizeof(struct cw_ofi_header),
                                         .latency_ns = is_card ? 2000 : 40000,
                                         .bandwidth_bps = is_card ? (double)nic->link_attr->speed / 8 : 1e9,
                                         .overhead_ns = is_card ? 300 : 5000};
}

static void init(struct ofi_iface *iface, const struct cw_iface_params *params)
{
    iface->super.transport = &cw_ofi_transport;
    iface->super.upcalls = params->upcalls;
    iface->super.owner = params->owner;
    iface->connect_timeout_ns = params->config->connect_timeout_ns;
    iface->keepalive_ns = params->config->keepalive_interval_ns;
    iface->poller = params->poller;
    iface->wakeup = (uint8_t)params->wakeup;
    iface->item = (struct cw_poll_item){.fd = -1, .ready = queue_ready};
    iface->poll_alarm = (struct cw_alarm){.fire = poll_alarm};
    cw_idmap_init(&iface->numbers);
    cw_hash_init(&iface->routes, cw_random_u64());
    cw_hash_init(&iface->peers, cw_random_u64());
    cw_list_init(&iface->conns);
    cw_ofi_unauth_open(iface);
    cw_list_init(&iface->blocked);
    cw_list_init(&iface->ending);
    cw_list_init(&iface->calling);
    cw_list_init(&iface->waiting);
    cw_list_init(&iface->orphans);
    cw_list_init(&iface->unposted);
    cw_list_init(&iface->over);
    cw_list_init(&iface->free_slots[OFI_BLOCK_SMALL]);
    cw_list_init(&iface->free_slots[OFI_BLOCK_LARGE]);
    cw_list_init(&iface->free_slots[OFI_BLOCK_LONG]);
}

static void close_fid(struct ofi_iface *iface, struct fid *fid)
{
    const int error = (fid != NULL) ? fi_close(fid) : 0;

    if (error != 0) {
        cw_debug("cannot close an object of %s: %s", iface->info->fabric_attr->prov_name, iface->fi->strerror(-error));
    }
}

#define CLOSE(iface, object) close_fid(iface, ((iface)->object != NULL) ? &(iface)->object->fid : NULL)

/* Whether closing the endpoint could crash the process. */
static bool must_stay(const struct ofi_iface *iface)
{
    const struct ofi_slot *slot;

    cw_list_for_each(slot, &iface->orphans, struct ofi_slot, link)
    {
        if (slot->access.under_way > 0 && (iface->objects->quirks & CW_OFI_FREES_TWICE)) {
            return true;
        }
    }
    return false;
}

static void dispose(struct ofi_iface *iface)
{
    cw_ofi_life_end(iface->entry.head.life);
    cw_poller_alarm_cancel(iface->poller, &iface->poll_alarm);
    cw_watch_listener_close(&iface->watch);
    if (iface->item.fd >= 0) {
        cw_poller_remove(iface->poller, &iface->item);
    }
    cw_idmap_cleanup(&iface->numbers);
    cw_hash_cleanup(&iface->routes);
    cw_hash_cleanup(&iface->peers);
    if (iface->stays) {
        iface->next_left = atomic_exchange(&left, iface);
        return;
    }
    CLOSE(iface, ep);
    cw_ofi_slots_cleanup(iface);
    CLOSE(iface, av);
    CLOSE(iface, cq);
    if (iface->own_objects) {
        cw_ofi_domain_close(&iface->objects->super);
    }
    free(iface);
}

/* Connections over libfabric are neither authenticated nor encrypted, so settings that require either refuse the
 * interface. */
static bool is_protected(const struct cw_config *config)
{
    const int wanted = (config->auth_key_file != NULL && config->auth_key_file[0] != '\0') || config->auth_tls != 0;

    if (wanted) {
        cw_error("connections over libfabric can be neither authenticated nor encrypted, as UCX_AUTH_KEY_FILE or "
                 "UCX_AUTH_TLS requires; exclude ofi from UCX_TLS");
    }
    return !wanted;
}

ucs_status_t cw_ofi_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct ofi_iface *iface;
    ucs_status_t status;

    if (!is_protected(params->config)) {
        return UCS_ERR_UNSUPPORTED;
    }
    iface = calloc(1, sizeof(*iface));
    if (iface == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    init(iface, params);
    status = take_objects(iface, params);
    if (status != UCS_OK) {
        dispose(iface);
        return status;
    }
    take_sizes(iface);
    /* create the poller's descriptor now: otherwise the first peer would create one that stays open */
    if (cw_poller_fd(iface->poller) < 0 || !open_endpoint(iface) || !name_ourselves(iface) ||
        cw_ofi_receives_new(iface) != UCS_OK) {
        dispose(iface);
        return UCS_ERR_IO_ERROR;
    }
    cw_ofi_watch_open(iface);
    set_limits(iface);
    cw_ofi_access_limits(iface);
    *iface_p = &iface->super;
    return UCS_OK;
}

/* Providers progress only inside calls, so this sends accepted packets, within a bounded time. */
static void let_leave(struct ofi_iface *iface)
{
    const uint64_t end = cw_clock_ns() + LEAVING_NS;
    uint64_t moved = cw_clock_ns(), now;
    unsigned flying = iface->flying;

    for (now = moved; !iface->broken && iface->flying > 0 && now < end && now < moved + LEAVING_IDLE_NS;
         now = cw_clock_ns()) {
        (void)cw_ofi_send_waiting(iface);
        (void)cw_ofi_access_settle(iface);
        (void)cw_ofi_poll(iface);
        if (iface->flying < flying) {
            flying = iface->flying;
            moved = cw_clock_ns();
        }
    }
}

void cw_ofi_close(struct cw_iface *super)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);
    struct ofi_slot *slot, *next;

    iface->closing = 1;
    let_leave(iface);
    cw_ofi_unauth_close(iface);
    if (must_stay(iface)) {
        cw_diag("an endpoint of %s stays open: a peer has not delivered all data that was read, and this release of "
                "libfabric cannot close it",
                iface->info->fabric_attr->prov_name);
        iface->stays = 1;
        iface->broken = 1;
    }
    cw_list_for_each_safe(slot, next, &iface->orphans, struct ofi_slot, link)
    {
        cw_list_remove(&slot->link);
        if (slot->access.use != OFI_USE_PACKET) {
            cw_ofi_route_drop(iface, slot->route);
            if (slot->access.bye != NULL && --slot->access.bye->access.waiting_for == 0) {
                cw_ofi_peer_drop(slot->access.bye->peer);
            }
        }
        cw_ofi_peer_drop(slot->peer);
    }
    dispose(iface);
}
