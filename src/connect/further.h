/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening further lanes of an endpoint (core/lanes.h): selection, dialling, and accepting. Worker entered.
 */
#ifndef CW_CONNECT_FURTHER_H
#define CW_CONNECT_FURTHER_H

#include <stdbool.h>
#include <stdio.h>

#include "core/lanes.h"
#include "wire/address.h"

/* handlers->lanes_dial. */
unsigned cw_further_dial(struct ucp_ep *ep, int dial);

/* Whether the endpoint requests a message lane with failover if this interface dials it: it is in mode FAILOVER, and
 * there are at least two routes to the peer. */
bool cw_further_can_fail_over(const struct ucp_ep *ep, const struct cw_iface *iface);

/* For info texts: the further lanes that an endpoint to this address gets for long messages, puts and gets, the best
 * ones first. `by_access`: devices move them. Returns their number. */
struct cw_further_message {
    const struct cw_iface *iface;
    unsigned route; /* the number of this pair among several pairs of addresses */
    const char *why;
};
unsigned cw_further_send(const struct ucp_worker *worker, const struct cw_address *address, int by_access,
                         struct cw_further_message messages[CW_MAX_LANES]);

/* Handles the hello of a further lane that arrived on `conn`. Returns the answer of the upcall `accept`. */
ucs_status_t cw_further_accept(struct ucp_worker *worker, struct cw_conn *conn, const void *bytes, size_t length,
                               void *reply, size_t *reply_length);
/* The upcalls of a connection that is a further lane. */
void cw_further_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length);
void cw_further_space(struct cw_conn *conn);
void cw_further_closed(struct cw_conn *conn, ucs_status_t status);

#endif
