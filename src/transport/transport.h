/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a transport.
 *
 * A transport is a const table (struct cw_transport) with groups of slots. An interface (iface) is the transport opened
 * for one worker; a connection (conn) is an ordered, reliable, bidirectional packet channel between two endpoints. The
 * core makes every call with the worker entered, so an interface takes no locks except on memory shared with other
 * processes. Upcalls run only inside progress(), and so does the completion of a dial: no upcall is made from inside a
 * call of the core, except `done` from close_conn() and `consume` from a send. Guide for authors: docs/TRANSPORT.md;
 * the suite in test/conform checks every transport against these headers.
 */
#ifndef CW_TRANSPORT_TRANSPORT_H
#define CW_TRANSPORT_TRANSPORT_H

#include "transport/access.h"   /* one-sided access by the device */
#include "transport/connect.h"  /* connections by interface address and socket address */
#include "transport/copies.h"   /* copies between processes */
#include "transport/fastpath.h" /* short packets without a call */
#include "transport/iface.h"    /* table, upcalls, interface, connection */
#include "transport/packets.h"  /* packets over an open connection */

/* opening.c: the slots query_devices, open and close of a transport, with their defaults. */
unsigned cw_transport_devices(const struct cw_transport *transport, const struct cw_config *config,
                              struct cw_device *devices, unsigned max);
ucs_status_t cw_iface_open(const struct cw_transport *transport, const struct cw_iface_params *params,
                           struct cw_iface **iface_p);
void cw_iface_close(struct cw_iface *iface);

/* For transports whose connections have both ends in one interface: passes the hello of a dial to the core's `accept`
 * for `acceptor` (NULL: out of memory) and the result to the dialler's `opened`. Both ends must be able to send when it
 * is called. Unless it returns UCS_OK, the caller frees the acceptor's end. */
ucs_status_t cw_conn_introduce(struct cw_conn *dialler, struct cw_conn *acceptor, const void *hello, size_t length);

#endif
