/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker's own address.
 */
#include "connect/connect.h"

static int is_part(const struct cw_transport *transport, enum cw_address_part part)
{
    switch (part) {
    case CW_ADDRESS_NET:
        return transport->device_class == CW_DEVICE_NET;
    case CW_ADDRESS_TO_MOVE:
        return transport->dial_to == NULL;
    default:
        return 1;
    }
}

size_t cw_worker_address(struct ucp_worker *worker, enum cw_address_part part, uint8_t *buffer)
{
    struct cw_address_writer writer;
    struct cw_iface *iface;
    size_t max, length;
    uint8_t *entry;
    unsigned i;

    cw_address_begin(&writer, buffer, worker->uid);
    for (i = 0; i < worker->num_ifaces; i++) {
        iface = worker->ifaces[i];
        if (!is_part(iface->transport, part)) {
            continue;
        }
        entry  = cw_address_entry(&writer, &max);
        length = (entry == NULL) ? 0 : iface->transport->address(iface, entry, max);
        if (length > 0) {
            cw_address_entry_done(&writer, iface->transport->wire_id, length);
        }
    }
    return cw_address_end(&writer);
}
