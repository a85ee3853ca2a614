/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the verbs transport: the functions of queue pairs for its other files.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_CONN_H
#define CW_TRANSPORT_VERBS_VERBS_CONN_H

#include "transport/verbs/verbs.h"

/* The path to a peer in the structure of the verbs interface. */
void cw_verbs_path(const struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                   unsigned peer_gid, struct ibv_ah_attr *attr);
/* A connection without a queue pair. */
struct cw_verbs_conn *cw_verbs_conn_new(struct cw_verbs_iface *iface, void *user);
/* Makes its queue pair; false: the device has none. */
bool cw_verbs_conn_make_qp(struct cw_verbs_conn *conn);
/* Ends a queue pair that is no connection's any more. */
void cw_verbs_qp_destroy(struct cw_verbs_iface *iface, struct ibv_qp *qp);
/* All requests of the connection's last queue pair are over. */
void cw_verbs_conn_forget_requests(struct cw_verbs_conn *conn);
/* The core does not know the connection any more. Its queue pair may last a little longer. */
void cw_verbs_conn_free(struct cw_verbs_conn *conn);
/* As well, and the queue pair ends now. Completions of receives that nobody has polled may be lost with it. */
void cw_verbs_conn_end(struct cw_verbs_conn *conn);
/* Afterwards the device neither reads nor writes memory for it. Waits for the device, for a bounded time. */
void cw_verbs_conn_stop(struct cw_verbs_conn *conn);
/* Brings the queue pair to RTS. 0, or an errno value. */
int cw_verbs_conn_connect(struct cw_verbs_conn *conn, uint32_t qp, uint32_t psn, unsigned mtu, unsigned reads);
void cw_verbs_conn_due(struct cw_verbs_conn *conn);
/* The connection failed; `closed`, or `opened`, follows from progress. */
void cw_verbs_conn_fail(struct cw_verbs_conn *conn, ucs_status_t status, const char *why);
void cw_verbs_peer_text(const struct cw_verbs_conn *conn, char *text, size_t size);
/* Posts a request and counts its place. `segment`, which may be NULL, is given back when the request is over, or at
 * once if the post failed or the request carries the data itself. */
int cw_verbs_conn_post(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct cw_verbs_segment *segment,
                       int signal);
/* Makes all posted requests complete visibly. */
void cw_verbs_conn_nudge(struct cw_verbs_conn *conn);
void cw_verbs_conn_say(struct cw_verbs_conn *conn, uint32_t word);
/* Takes completions of sends; makes no upcall. Returns whether there were any. */
int cw_verbs_sent(struct cw_verbs_iface *iface);
unsigned cw_verbs_conns_settle(struct cw_verbs_iface *iface);
void cw_verbs_close_conn(struct cw_conn *super);
int cw_verbs_stopping(struct cw_conn *super);
void cw_verbs_watch(struct cw_conn *super);
/* The core watches the connection or waits for a message of the peer. */
bool cw_verbs_conn_is_wanted(const struct cw_verbs_conn *conn);
void cw_verbs_conn_look_later(struct cw_verbs_conn *conn);
void cw_verbs_abandon(struct cw_conn *super);
/* The peer's END came, or its connection is over. */
void cw_verbs_conn_ended(struct cw_verbs_conn *conn);
/* The first word of the dialler came: its queue pair receives. Or its later word that it goes on. */
void cw_verbs_conn_first(struct cw_verbs_conn *conn);

/* verbs_batch.c */
void cw_verbs_batch(struct cw_conn *super, enum cw_batch what);
/* Keeps a request whose data stay in place. 0: it must be posted alone, behind the chain. */
int cw_verbs_chain_keep(struct cw_verbs_conn *conn, const struct ibv_send_wr *wr, struct cw_verbs_segment *segment);
/* 0: the connection fails. */
int cw_verbs_chain_send(struct cw_verbs_conn *conn);
/* Returns how many requests were dropped. */
unsigned cw_verbs_chain_drop(struct cw_verbs_conn *conn);
void cw_verbs_chains_free(struct cw_verbs_iface *iface);

#endif
