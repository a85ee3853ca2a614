/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Entry points of the transport ofi: address, progress, sleep, and the tables.
 */
#include "transport/ofi/ofi_access.h"
#include "transport/ofi/ofi_send.h"

#include <string.h>

#include "base/bytes.h"
#include "os/clock.h"

#define POLL_NS 1000000u /* poll interval of a sleeping worker for a provider without a descriptor */

static size_t ofi_address(struct cw_iface *super, void *buffer, size_t max)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);

    if (max < iface->entry_length) {
        return 0;
    }
    cw_bytes_copy_any(buffer, &iface->entry, iface->entry_length);
    return iface->entry_length;
}

static int ofi_reachable(struct cw_iface *super, const void *address, size_t length, const char **why)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);

    *why = "its provider failed";
    return !iface->broken && cw_ofi_entry_check(iface, address, length, why);
}

static bool has_work(const struct ofi_iface *iface)
{
    return !cw_list_empty(&iface->unposted) || !cw_list_empty(&iface->waiting) || !cw_list_empty(&iface->blocked) ||
           !cw_list_empty(&iface->ending) || !cw_list_empty(&iface->calling) || !cw_list_empty(&iface->over);
}

/* Serves the lists that are mostly empty, and progresses a domain with its own endpoint. */
static CW_NOINLINE unsigned tidy(struct ofi_iface *iface, unsigned events)
{
    unsigned count = 0;

    iface->idle_rounds = (events > 0) ? 0 : iface->idle_rounds + 1;
    if (iface->objects->end != NULL) {
        cw_ofi_domain_progress(iface->objects);
    }

    if (!cw_list_empty(&iface->unposted)) {
        cw_ofi_post_receives_again(iface);
    }
    if (!cw_list_empty(&iface->calling)) {
        count += cw_ofi_call(iface);
    }
    if (!cw_list_empty(&iface->waiting)) {
        count += cw_ofi_send_waiting(iface);
    }
    if (!cw_list_empty(&iface->over)) {
        count += cw_ofi_access_settle(iface);
    }
    if (!cw_list_empty(&iface->blocked)) {
        count += cw_ofi_give_space(iface);
    }
    if (!cw_list_empty(&iface->ending)) {
        count += cw_ofi_notify_ends(iface);
    }
    iface->has_work = (uint8_t)(has_work(iface) || iface->objects->end != NULL);
    return count;
}

static unsigned ofi_progress(struct cw_iface *super)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);
    const unsigned count = cw_ofi_poll(iface);

    return cw_unlikely(iface->has_work) ? count + tidy(iface, count) : count;
}

/* Whether progress must run before a sleep. The completion of packets in flight wakes a connection that waits for tx
 * space. */
static bool must_poll(const struct ofi_iface *iface)
{
    return !cw_list_empty(&iface->unposted) || !cw_list_empty(&iface->ending) || !cw_list_empty(&iface->calling) ||
           !cw_list_empty(&iface->over) || (!cw_list_empty(&iface->blocked) && iface->flying == 0);
}

static ucs_status_t ofi_arm(struct cw_iface *super)
{
    struct ofi_iface *iface = cw_container_of(super, struct ofi_iface, super);
    struct fid *fid = &iface->cq->fid;

    if (must_poll(iface)) {
        return UCS_ERR_BUSY;
    }
    if (iface->broken) {
        return UCS_OK;
    }
    cw_ofi_polls_asleep(iface);
    /* a packet that the provider rejects now may be accepted once the peer progresses, and no event reports that */
    if (iface->item.fd < 0 || !cw_list_empty(&iface->waiting)) {
        cw_poller_alarm_set(iface->poller, &iface->poll_alarm, cw_clock_ns() + POLL_NS);
    }
    if (iface->item.fd < 0) {
        return cw_ofi_has_event(iface) ? UCS_ERR_BUSY : UCS_OK;
    }
    return (fi_trywait(iface->objects->fabric, &fid, 1) == FI_SUCCESS) ? UCS_OK : UCS_ERR_BUSY;
}

static const struct cw_transport_connect ofi_connect = {
    .dial = cw_ofi_dial,
    .close_conn = cw_ofi_close_conn,
    .watch = cw_ofi_watch,
    .abandon = cw_ofi_abandon,
};

static const struct cw_transport_packets ofi_packets = {
    .send_short = cw_ofi_send_short,
    .send_bcopy = cw_ofi_send_bcopy,
    .flush = cw_ofi_flush,
    .has_unsent = cw_ofi_has_unsent,
};

const struct cw_transport cw_ofi_transport = {
    .name = "ofi",
    .wire_id = CW_OFI_WIRE_ID,
    .device_class = CW_DEVICE_NET,
    .connect = &ofi_connect,
    .packets = &ofi_packets,
    .access = &cw_ofi_access,
    .query_devices = cw_ofi_query_devices,
    .explain = cw_ofi_explain,
    .open = cw_ofi_open,
    .close = cw_ofi_close,
    .address = ofi_address,
    .reachable = ofi_reachable,
    .progress = ofi_progress,
    .arm = ofi_arm,
};
