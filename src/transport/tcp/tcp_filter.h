/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Filters protect TCP connections: proof of identity, checksums, TLS (docs/operate/security.md). A filter sits between
 * the transport and the descriptor: all bytes sent and received go through the functions below. An unprotected
 * connection has no filter and pays one branch. Both sides agree on the protection before the handshake, while the peer
 * is still unauthenticated (docs/WIRE.md).
 *
 * A filter may buffer bytes that it has read from the descriptor and that the transport has not received yet. It is
 * then on iface->unread, and progress receives them, because the descriptor does not become readable for them.
 *
 * A filter detects bytes dropped in transit only by the bytes behind them. A watched connection that has sent bytes and
 * then none for a while therefore sends empty frames, at least as long as any record that its peer may be waiting for:
 * the record is then complete, and its check fails.
 */
#ifndef CW_TRANSPORT_TCP_TCP_FILTER_H
#define CW_TRANSPORT_TCP_TCP_FILTER_H

#include "base/compiler.h"
#include "transport/tcp/tcp.h"

enum cw_tcp_protection { /* bits, on the wire */
                         CW_TCP_PLAIN = 0,
                         CW_TCP_CHECKSUM = 1,
                         CW_TCP_SECRET = 2, /* both prove knowledge of the key, by hashes */
                       CW_TCP_TLS_PSK = 4, /* both prove knowledge of the key, by TLS */
                       CW_TCP_TLS_CERT = 8,
                       CW_TCP_SIZED = 16 /* with SECRET, TLS_PSK: the proof covers the key's length. Peers of release
                                          * 1.0 never set it, and are refused */
};

struct cw_tcp_filter {
    const struct cw_tcp_filter_ops *ops;
    struct cw_tcp_conn *conn;
    struct cw_list unread; /* in iface->unread, or alone */
    size_t said;        /* bytes sent that no empty frame has followed yet */
    size_t seen;        /* `said` at the last check */
    const char *why;    /* the reason of an error, as the end of a sentence about the peer; NULL: see errno */
    uint8_t has_unread; /* receive again although the descriptor may not be readable */
};

/* Results are those of os/net.h, and -EBADMSG for bytes that the peer did not send. The caller retries bytes that were
 * not accepted, unchanged, and perhaps with more behind them. */
struct cw_tcp_filter_ops {
    /* 1: done; 0: call again when the descriptor is readable; -EINPROGRESS: when it is writable; other errors. NULL:
     * the filter has no handshake. */
    int (*handshake)(struct cw_tcp_filter *filter);
    ssize_t (*sendv)(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count);
    /* Only verified bytes are written to iov. */
    ssize_t (*recvv)(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count);
    void (*free)(struct cw_tcp_filter *filter);
};

/* Slow paths of connections that have a filter. */
ssize_t cw_tcp_filter_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count);
ssize_t cw_tcp_filter_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count);
ssize_t cw_tcp_filter_send(struct cw_tcp_conn *conn, const void *data, size_t length);
ssize_t cw_tcp_filter_recv(struct cw_tcp_conn *conn, void *data, size_t length);

/* Removes the filter from the connection and frees it. */
void cw_tcp_filter_free(struct cw_tcp_conn *conn);
/* The connection leaves its iface, or has moved to another one. */
void cw_tcp_filter_leave(struct cw_tcp_conn *conn);
void cw_tcp_filter_enter(struct cw_tcp_conn *conn);
/* From progress, when iface->unread is not empty. */
unsigned cw_tcp_filter_progress(struct cw_tcp_iface *iface);

/* Checks an open, watched connection with a filter: sends the empty frames if nothing was sent since the last check.
 * True if another check is needed. */
bool cw_tcp_filter_check(struct cw_tcp_conn *conn);

/* The protection that a worker demands of every connection. */
struct cw_tcp_security {
    uint8_t protection;               /* enum cw_tcp_protection */
    const struct cw_openssl *openssl; /* NULL: not needed */
    struct cw_tls_context *tls;       /* NULL: not needed */
    uint8_t secret[32];               /* derived from the key */
    char why[320];                    /* buffer for a composed message */
    uint8_t *spare_in;                /* cached buffer of a filter with checksums, or NULL */
};

/* The error of the connection, as the end of a sentence about the peer. */
const char *cw_tcp_filter_reason(const struct cw_tcp_conn *conn, ssize_t error);

/* tcp_security.c. On errors, which it logs, the worker must not be created: UCS_ERR_INVALID_PARAM for settings that
 * cannot be met, UCS_ERR_UNSUPPORTED for a function that the machine lacks. */
ucs_status_t cw_tcp_security_new(const struct cw_tcp_auth *auth, struct cw_tcp_security **security_p);
void cw_tcp_security_free(struct cw_tcp_security *security);
/* Computes the keyed hash of the claim, 32 bytes. 0: OpenSSL fails. */
struct cw_tcp_claim;
int cw_tcp_prove(const struct cw_tcp_security *security, const struct cw_tcp_claim *claim, uint8_t *proof);

/* One step of the agreement of a connection in HANDSHAKE or UNAUTH. Returns NULL, or the reason of the failure, which
 * was also sent to the peer if that can help. *done_p: the handshake comes next, through the filter if there is one. */
const char *cw_tcp_agree_begin(struct cw_tcp_conn *conn);
const char *cw_tcp_agree_dialled(struct cw_tcp_conn *conn, int *done_p, ucs_status_t *status_p);
const char *cw_tcp_agree_accepted(struct cw_tcp_conn *conn, int *done_p);
/* Whether the failure is only that the dialler closed without a message, as it does if its dial loses to ours. */
int cw_tcp_agree_was_left(const struct cw_tcp_conn *conn, const char *wrong);
/* Whether the agreement is complete; an unprotected connection needs none. */
int cw_tcp_agreed(const struct cw_tcp_conn *conn);

/* NULL: no memory. */
struct cw_tls_context;
struct cw_tcp_filter *cw_tcp_filter_crc_new(int dialled);
struct cw_tcp_filter *cw_tcp_filter_tls_new(struct cw_tls_context *context, int fd, int dialled);

#endif
