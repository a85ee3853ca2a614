/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dialling a peer's addresses in turn, for the slots of the transport and for further sockets.
 */
#ifndef CW_TRANSPORT_TCP_TCP_DIAL_H
#define CW_TRANSPORT_TCP_TCP_DIAL_H

#include "transport/tcp/tcp.h"

/* The slots of the transport's table. */
ucs_status_t cw_tcp_dial(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
int cw_tcp_is_unseen(const struct cw_conn *conn);
/* The descriptor of a CONNECTING or GREETING connection is ready. */
unsigned cw_tcp_dial_ready(struct cw_tcp_conn *conn);
/* Says hello to the candidates of a new connection, whose key is that one. */
void cw_tcp_dial_begin(struct cw_tcp_conn *conn, uint64_t key, const void *hello, size_t hello_length, void *user);
/* Starts with the next candidate. 0: none is left, and the connection is CLOSED. */
int cw_tcp_dial_next(struct cw_tcp_conn *conn);
/* Tells the core that dialling failed. From progress. */
unsigned cw_tcp_dial_failed(struct cw_tcp_conn *conn);
/* The slots `ways` and `dial_way` of the transport's table. */
unsigned cw_tcp_ways(struct cw_iface *iface, const void *address, size_t address_length);
ucs_status_t cw_tcp_dial_way(struct cw_iface *iface, const void *address, size_t address_length, unsigned way,
                             const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p);

#endif
