/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices and interfaces of any transport (transport/transport.h).
 */
#include <assert.h>
#include <stdlib.h>
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

static ucs_status_t open_now(const struct cw_transport *transport, struct cw_iface **iface_p)
{
    *iface_p = calloc(1, transport->iface_size);
    if (*iface_p == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    (*iface_p)->limits = transport->limits;
    return UCS_OK;
}

ucs_status_t cw_iface_open(const struct cw_transport *transport, const struct cw_iface_params *params,
                           struct cw_iface **iface_p)
{
    const ucs_status_t status =
        (transport->open != NULL) ? transport->open(params, iface_p) : open_now(transport, iface_p);

    if (status == UCS_OK && (*iface_p)->upcalls == NULL) {
        (*iface_p)->transport = transport;
        (*iface_p)->upcalls = params->upcalls;
        (*iface_p)->owner = params->owner;
    }
    if (status == UCS_OK) {
        assert(transport->copies == NULL || (*iface_p)->limits.copies_break_even > 0);
        (*iface_p)->name = transport->name;
        (*iface_p)->packets = transport->packets;
        (*iface_p)->worker_uid = params->worker_uid;
        (*iface_p)->domain = params->domain;
        (*iface_p)->poller = params->poller;
    }
    return status;
}

void cw_iface_close(struct cw_iface *iface)
{
    if (iface->transport->close != NULL) {
        iface->transport->close(iface);
    } else {
        free(iface);
    }
}

ucs_status_t cw_conn_introduce(struct cw_conn *dialler, struct cw_conn *acceptor, const void *hello, size_t length)
{
    const struct cw_iface *iface = dialler->iface;
    char reply[CW_HELLO_MAX];
    size_t reply_length = sizeof(reply);
    ucs_status_t status;

    if (acceptor == NULL) {
        iface->upcalls->opened(dialler, UCS_ERR_NO_MEMORY, NULL, 0);
        return UCS_ERR_NO_MEMORY;
    }
    status = iface->upcalls->accept(iface->owner, acceptor, hello, length, reply, &reply_length);
    iface->upcalls->opened(dialler, (status == UCS_OK) ? UCS_OK : UCS_ERR_REJECTED, reply, reply_length);
    return status;
}
