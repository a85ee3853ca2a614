/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners of the program in a TCP iface, and connections to them (docs/change/client-server.md).
 */
#ifndef CW_TRANSPORT_TCP_TCP_CM_H
#define CW_TRANSPORT_TCP_TCP_CM_H

#include <stdbool.h>

#include "transport/tcp/tcp.h"

struct cw_listening {
    struct cw_poll_item item;
    struct cw_list link; /* iface->listenings */
    struct cw_tcp_iface *iface;
    void *user;
    uint8_t paused; /* not in the poller, because no descriptors are left */
};
ucs_status_t cw_tcp_cm_listen(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                              struct cw_listening **listening_p);
void cw_tcp_cm_listen_end(struct cw_listening *listening);
ucs_status_t cw_tcp_cm_dial(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
ucs_status_t cw_tcp_cm_answer(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                              size_t reply_length);
int cw_tcp_cm_carries(struct cw_conn *conn, struct cw_iface *iface);
void cw_tcp_cm_ends(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);
/* A stranger at a listener has sent its hello. */
bool cw_tcp_cm_requested(struct cw_tcp_conn *conn, size_t hello_length);
/* Accepting at the listeners pauses or goes on together with that of the iface itself. 0: some of them are still
 * paused. */
void cw_tcp_cm_pause(struct cw_tcp_iface *iface);
int cw_tcp_cm_resume(struct cw_tcp_iface *iface);

#endif
