/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and interfaces of any transport (transport/transport.h).
 */
#include <string.h>

#include "transport/transport.h"

unsigned cw_transport_devices(const struct cw_transport *transport, const struct cw_config *config,
                              struct cw_device *devices, unsigned max)
{
    if (transport->query_devices != NULL) {
        return transport->query_devices(config, devices, max);
    }
    if (max > 0) {
        strcpy(devices[0].name, "memory");
    }
    return 1;
}

ucs_status_t cw_iface_open(const struct cw_transport *transport, const struct cw_iface_params *params,
                           struct cw_iface **iface_p)
{
    const ucs_status_t status = transport->open(params, iface_p);

    if (status == UCS_OK && (*iface_p)->upcalls == NULL) {
        (*iface_p)->transport = transport;
        (*iface_p)->upcalls   = params->upcalls;
        (*iface_p)->owner     = params->owner;
    }
    if (status == UCS_OK) {
        (*iface_p)->packets    = transport->packets;
        (*iface_p)->worker_uid = params->worker_uid;
        (*iface_p)->domain     = params->domain;
    }
    return status;
}
