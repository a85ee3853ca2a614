/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a transport, which moves bytes between two workers.
 *
 * A transport is one const table (struct cw_transport) with groups of slots beside it. An interface (iface) is the
 * transport opened for one worker; a connection (conn) is one ordered, reliable, bidirectional channel of packets
 * between two endpoints. The core makes every call with the worker entered, so an interface takes no locks except on
 * memory shared with other processes. Upcalls run only inside progress(), and so does the completion of a dial: no
 * upcall is ever made from inside a call of the core, except `done` from close_conn() and `take` from a send. The
 * author's guide is docs/TRANSPORT.md; the suite in test/conform checks every transport against these headers.
 */
#ifndef CW_TRANSPORT_TRANSPORT_H
#define CW_TRANSPORT_TRANSPORT_H

#include "transport/access.h"   /* the memory of the peer, by the device */
#include "transport/connect.h"  /* connections by address, and by socket address */
#include "transport/copies.h"   /* the memory of the peer's process */
#include "transport/fastpath.h" /* short packets without a slot */
#include "transport/iface.h"    /* the head, the upcalls, interface and connection */
#include "transport/packets.h"  /* packets over an open connection */

/* opening.c: the slots query_devices and open of a transport, and what every transport gets there. */
unsigned cw_transport_devices(const struct cw_transport *transport, const struct cw_config *config,
                              struct cw_device *devices, unsigned max);
ucs_status_t cw_iface_open(const struct cw_transport *transport, const struct cw_iface_params *params,
                           struct cw_iface **iface_p);
void cw_iface_close(struct cw_iface *iface);

/* For transports whose connections have both ends in one interface: has the core accept the hello of a dial, for which
 * `acceptor` was made (NULL: there was no memory), and tells the dialler. Sends of both ends are possible once this
 * calls the core. Unless it returns UCS_OK, the caller frees the acceptor's end. */
ucs_status_t cw_conn_introduce(struct cw_conn *dialler, struct cw_conn *acceptor, const void *hello, size_t length);

#endif
