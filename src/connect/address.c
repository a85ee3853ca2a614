/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's own address.
 */
#include "connect/connect.h"

#include <string.h>

#include "base/log.h"
#include "connect/path.h"
#include "core/lane_cm.h"

static bool is_part(const struct cw_iface *iface, enum cw_address_part part)
{
    switch (part) {
    case CW_ADDRESS_NET:
        return iface->transport->device_class == CW_DEVICE_NET;
    case CW_ADDRESS_TO_MOVE:
        return cw_iface_cm(iface) == NULL;
    default:
        return true;
    }
}

/* Warns that this interface is not in the address, so that peers cannot dial it. */
static void log_left_out(const struct ucp_worker *worker, struct cw_iface *iface)
{
    if (!iface->left_out) {
        iface->left_out = 1;
        cw_warn("worker address of %s is full: %s/%s is left out and peers will not use it; exclude less important "
                "devices by UCX_NET_DEVICES", worker->name, cw_iface_name(iface), cw_iface_device(iface));
    }
}

/* The best interfaces come first, so that the others are omitted if the address is full. */
size_t cw_worker_address(struct ucp_worker *worker, enum cw_address_part part, uint8_t *buffer)
{
    struct cw_address_writer writer;
    struct cw_iface *iface = NULL;
    size_t max, length;
    uint8_t *entry;

    cw_address_begin(&writer, buffer, worker->uid);
    while ((iface = cw_path_next_iface(worker, iface)) != NULL) {
        if (!is_part(iface, part)) {
            continue;
        }
        entry = cw_address_entry(&writer, &max);
        length = (entry == NULL) ? 0 : cw_iface_address(iface, entry, max);
        if (length > 0) {
            cw_address_entry_done(&writer, cw_iface_wire_id(iface), length);
        } else {
            log_left_out(worker, iface);
        }
    }
    return cw_address_end(&writer);
}

size_t cw_worker_device_address(struct ucp_worker *worker, enum cw_address_part part, const char *device,
                                uint8_t *buffer)
{
    struct cw_address_writer writer;
    struct cw_iface *iface = NULL;
    size_t max, length, count = 0;
    uint8_t *entry;

    cw_address_begin(&writer, buffer, worker->uid);
    while ((iface = cw_path_next_iface(worker, iface)) != NULL) {
        entry = is_part(iface, part) ? cw_address_entry(&writer, &max) : NULL;
        length = (entry == NULL) ? 0 : cw_iface_device_address(iface, device, entry, max);
        if (length > 0) {
            cw_address_entry_done(&writer, cw_iface_wire_id(iface), length);
            count++;
        }
    }
    return (count > 0) ? cw_address_end(&writer) : 0;
}
