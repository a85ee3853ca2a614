/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of the verbs transport and their queue pairs.
 */
#ifndef CW_TRANSPORT_VERBS_VERBS_CONN_H
#define CW_TRANSPORT_VERBS_VERBS_CONN_H

#include "transport/verbs/verbs.h"

#define CW_VERBS_STUCK_POLLS 10u /* a watched peer may process nothing for so many intervals of keepalive */
#define CW_VERBS_STOP_NS     UINT64_C(100000000) /* in which a device has flushed a queue pair */
#define CW_VERBS_DRAIN_NS    UINT64_C(100000000) /* in which the last completions of a broken one come */

/* The request of that number, which is in flight. */
static inline struct cw_verbs_request *cw_verbs_request_at(const struct cw_verbs_conn *conn, uint32_t number)
{
    const struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    return (struct cw_verbs_request *)(conn->requests + (number & (iface->settings.sends - 1)) * iface->request_size);
}

/* Memory for the bytes of the next request, max_inline at most. An inline request of one part there is not copied. */
static inline char *cw_verbs_next_bytes(const struct cw_verbs_conn *conn)
{
    return cw_verbs_request_at(conn, conn->posted)->bytes;
}

/* Whether it is one of the packets that both sides count. Control words are not. */
static inline bool cw_verbs_is_packet(const struct cw_verbs_request *request)
{
    return request->opcode == IBV_WR_SEND_WITH_IMM && (request->word & htobe32(~UINT32_C(0xff))) == 0;
}

/* Whether the device has requests of the connection. */
static inline bool cw_verbs_is_running(const struct cw_verbs_conn *conn)
{
    return (int32_t)(conn->posted - conn->unsent - conn->completed) > 0;
}

/* Fills `attr` with the path to a peer. */
void cw_verbs_path(const struct cw_verbs_iface *iface, const struct cw_verbs_address *to, unsigned gid_index,
                   unsigned peer_gid, struct ibv_ah_attr *attr);
/* Creates a connection without a queue pair. */
struct cw_verbs_conn *cw_verbs_conn_new(struct cw_verbs_iface *iface, void *user);
/* Creates its queue pair; false: the device has none. */
bool cw_verbs_conn_make_qp(struct cw_verbs_conn *conn);
/* Destroys a queue pair that no connection uses any more. */
void cw_verbs_qp_destroy(struct cw_verbs_iface *iface, struct ibv_qp *qp);
/* Releases the segments of all requests: those of the connection's last queue pair are complete. */
void cw_verbs_conn_forget_requests(struct cw_verbs_conn *conn);
/* Frees a connection that the core has released. Its queue pair may last a little longer. */
void cw_verbs_conn_free(struct cw_verbs_conn *conn);
/* As cw_verbs_conn_free, and destroys the queue pair now. Receive completions that were not polled yet may be lost. */
void cw_verbs_conn_end(struct cw_verbs_conn *conn);
/* Afterwards the device neither reads nor writes memory for it. Blocks for a bounded time. */
void cw_verbs_conn_stop(struct cw_verbs_conn *conn);
/* Brings the queue pair to RTS. Returns 0 or an errno value. */
int cw_verbs_conn_connect(struct cw_verbs_conn *conn, uint32_t qp, uint32_t psn, unsigned mtu, unsigned reads);
/* Requests before `until` are complete, with this status. */
void cw_verbs_conn_complete(struct cw_verbs_conn *conn, uint32_t until, ucs_status_t status);
void cw_verbs_conn_due(struct cw_verbs_conn *conn);
/* Fails the connection; progress calls `closed`, or `opened`. */
void cw_verbs_conn_fail(struct cw_verbs_conn *conn, ucs_status_t status, const char *why);
void cw_verbs_peer_text(const struct cw_verbs_conn *conn, char *text, size_t size);
/* Posts a request and counts its send queue entry. `segment`, which may be NULL, is released when the request
 * completes, or at once if the post failed or the request is inline. Inline data may be reused on return. */
int cw_verbs_conn_post(struct cw_verbs_conn *conn, struct ibv_send_wr *wr, struct cw_verbs_segment *segment,
                       int signal);
/* Fills in the part of cw_verbs_conn_post that all short packets share. */
void cw_verbs_short_init(struct cw_verbs_iface *iface);
/* As cw_verbs_conn_post, for an inline packet whose bytes lie in cw_verbs_next_bytes. */
int cw_verbs_conn_post_short(struct cw_verbs_conn *conn, uint8_t id, size_t length);
/* Forces a signaled completion of all posted requests. */
void cw_verbs_conn_nudge(struct cw_verbs_conn *conn);
void cw_verbs_conn_say(struct cw_verbs_conn *conn, uint32_t word);
/* Polls send completions; makes no upcall. Returns whether there were any. */
int cw_verbs_sent(struct cw_verbs_iface *iface);
unsigned cw_verbs_conns_settle(struct cw_verbs_iface *iface);
void cw_verbs_close_conn(struct cw_conn *super);
int cw_verbs_stopping(struct cw_conn *super);
void cw_verbs_watch(struct cw_conn *super);
/* Whether the core watches the connection or waits for a message of the peer. */
bool cw_verbs_conn_is_wanted(const struct cw_verbs_conn *conn);
void cw_verbs_conn_poll_later(struct cw_verbs_conn *conn);
void cw_verbs_abandon(struct cw_conn *super);
/* Call when the peer's END came, or its connection is gone. */
void cw_verbs_conn_ended(struct cw_verbs_conn *conn);
/* Handles READY of the dialler: its queue pair receives, or it resumes after PARK. */
void cw_verbs_conn_first(struct cw_verbs_conn *conn);

/* verbs_batch.c */
void cw_verbs_batch(struct cw_conn *super, enum cw_batch what);
/* Appends a request whose data stay valid to the chain. Returns 0 if it must be posted alone, after the chain. */
int cw_verbs_chain_keep(struct cw_verbs_conn *conn, const struct ibv_send_wr *wr);
/* Returns 0 if the connection fails. */
int cw_verbs_chain_send(struct cw_verbs_conn *conn);
/* Returns the number of dropped requests. */
unsigned cw_verbs_chain_drop(struct cw_verbs_conn *conn);
void cw_verbs_chains_free(struct cw_verbs_iface *iface);

#endif
