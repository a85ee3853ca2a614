/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connecting to a peer: the worker's own address, and wireup of endpoints. Worker entered.
 */
#ifndef CW_CONNECT_CONNECT_H
#define CW_CONNECT_CONNECT_H

#include "core/ep.h"
#include "wire/address.h"

enum cw_address_part {
    CW_ADDRESS_ALL,
    CW_ADDRESS_NET,     /* network transports only */
    CW_ADDRESS_TO_MOVE  /* without the transport on which client and server meet: for the change of a client to a faster
                           transport, where not all entries fit */
};

/* Writes the worker's address to CW_ADDRESS_MAX bytes; returns its length. */
size_t cw_worker_address(struct ucp_worker *worker, enum cw_address_part part, uint8_t *buffer);

/* The same, restricted to what the device of that name contributes; 0: nothing. */
size_t cw_worker_device_address(struct ucp_worker *worker, enum cw_address_part part, const char *device,
                                uint8_t *buffer);

/* UCS_OK if some interface can dial it; else UCS_ERR_UNREACHABLE, with the reasons in the log. No system call. */
ucs_status_t cw_wireup_check(struct ucp_worker *worker, const struct cw_address *address);

/* ucp_ep_create with a worker address, which is checked as above. The caller gives the endpoint to the program, here
 * and in connect/cm.h. */
ucs_status_t cw_wireup_create(struct ucp_worker *worker, const void *blob, uint8_t err_mode, struct ucp_ep **ep_p);

/* Starts to connect an idle endpoint by the best untried path (connect/path.h). The transport reports the result by
 * upcalls. */
ucs_status_t cw_wireup_connect(struct ucp_ep *ep);

/* Upcalls of transports, see transport/transport.h. */
ucs_status_t cw_wireup_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length);
bool cw_wireup_is_ours(const struct cw_iface *iface, const void *hello, size_t length);
bool cw_wireup_refuses(const struct cw_iface *iface, const void *hello, size_t hello_length, void *reply,
                       size_t *reply_length);
void cw_wireup_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length);
void cw_wireup_space(struct cw_conn *conn);
void cw_wireup_closed(struct cw_conn *conn, ucs_status_t status);
int cw_wireup_awaits(const struct cw_conn *conn);

#endif
