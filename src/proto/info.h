/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protocol tables that UCX_PROTO_INFO prints.
 */
#ifndef CW_PROTO_INFO_H
#define CW_PROTO_INFO_H

#include <stdio.h>

#include "core/ep.h"

/* Identifies one table. */
struct cw_proto_table {
    enum cw_proto_operation operation;
    enum cw_protocol_data data;
    unsigned remote; /* enum cw_protocol_remote, of one-sided operations */
    int fast;        /* the next members are those of struct cw_protocol_ask */
    int registered;
    int on_device;
};

/* Display name of an operation. */
const char *cw_proto_name(enum cw_proto_operation operation);
/* Fills the rows of a table for a connection in its current state, or for a new one (NULL). Returns how many. */
unsigned cw_proto_rows(const struct ucp_worker *worker, const struct cw_iface *iface, const struct cw_conn *conn,
                       const struct cw_proto_table *table, struct cw_protocol_row rows[CW_PROTOCOL_MAX_ROWS]);

/* Writes the tables of all operations that the features allow, for ucp_ep_print_info; `conn` as above. */
void cw_proto_info_write(const struct ucp_worker *worker, const struct cw_iface *iface, struct cw_conn *conn,
                         FILE *stream);

/* Called when an endpoint is connected; prints the tables once for each interface of a worker. */
void cw_proto_info_print(const struct ucp_ep *ep);

#endif
