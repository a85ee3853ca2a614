/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The contract between the core and a transport: how bytes move between two workers.
 *
 * A transport is one const table (struct cw_transport) with groups of slots beside it. An interface (iface) is the
 * transport opened for one worker; a connection (conn) is one ordered, reliable, bidirectional channel of packets
 * between two endpoints. Every call is made with the worker entered, so an interface takes no locks except on memory
 * shared with other processes. Upcalls run only inside progress(), dial's own completion comes from progress() too: no
 * upcall is ever made from inside a call of the core, except `done` from close(). The author's guide is
 * docs/TRANSPORT.md; the suite in test/conform holds every transport against this page.
 */
#ifndef CW_TRANSPORT_TRANSPORT_H
#define CW_TRANSPORT_TRANSPORT_H

#include "transport/access.h"   /* the memory of the peer, by the device */
#include "transport/connect.h"  /* connections by address, and by socket address */
#include "transport/copies.h"   /* the memory of the peer's process */
#include "transport/fastpath.h" /* short packets without a slot */
#include "transport/iface.h"    /* the head, the upcalls, interface and connection */
#include "transport/packets.h"  /* packets over an open connection */

#endif
