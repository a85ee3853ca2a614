/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What protects TCP connections: proof of who is there, checksums, TLS (docs/operate/security.md). A guard stands
 * between the transport and the descriptor: everything sent and received goes through the functions below. Plain
 * connections have none and pay one branch. Both sides agree before the greeting, while the acceptor's is a stranger
 * (docs/WIRE.md).
 *
 * A guard may hold bytes that were taken from the descriptor and not asked for yet. Then it is on iface->unread, and
 * progress asks for them: nothing else would say that they are there.
 */
#ifndef CW_TRANSPORT_TCP_TCP_GUARD_H
#define CW_TRANSPORT_TCP_TCP_GUARD_H

#include "base/compiler.h"
#include "os/tls_stream.h"
#include "transport/tcp/tcp.h"
#include "transport/tcp/tcp_mark.h"

enum cw_tcp_protection { /* bits, on the wire */
    CW_TCP_PLAIN    = 0,
    CW_TCP_CHECKSUM = 1,
    CW_TCP_SECRET   = 2, /* both prove that they know the key, by hashes */
    CW_TCP_TLS_PSK  = 4, /* the same by TLS */
    CW_TCP_TLS_CERT = 8
};

struct cw_tcp_guard {
    const struct cw_tcp_guard_ops *ops;
    struct cw_tcp_conn *conn;
    struct cw_list unread;        /* iface->unread, or alone */
    struct cw_tcp_mark mark;
    const char *why;              /* what an error was, as the end of a sentence about the peer; NULL: see errno */
    uint8_t has_unread;           /* receive again although the descriptor may be silent */
};

/* Answers are those of os/net.h, and -EBADMSG for bytes that are not the peer's. Bytes that were not taken are offered
 * again, the same and perhaps more behind them. */
struct cw_tcp_guard_ops {
    /* 1: done; 0: when the descriptor can be read; -EINPROGRESS: when it can be written; other errors. NULL: none. */
    int (*handshake)(struct cw_tcp_guard *guard);
    ssize_t (*sendv)(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count);
    /* Only checked bytes are written to the first `shown` entries, and anything to the others. */
    ssize_t (*recvv)(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count, unsigned shown);
    void (*free)(struct cw_tcp_guard *guard);
};

/* Slow paths of connections that have a guard. */
ssize_t cw_tcp_guard_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count);
ssize_t cw_tcp_guard_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count, unsigned shown);
ssize_t cw_tcp_guard_send(struct cw_tcp_conn *conn, const void *data, size_t length);
ssize_t cw_tcp_guard_recv(struct cw_tcp_conn *conn, void *data, size_t length);

/* Takes the guard from the connection. */
void cw_tcp_guard_free(struct cw_tcp_conn *conn);
/* The connection leaves its iface, or has come to another one. */
void cw_tcp_guard_leave(struct cw_tcp_conn *conn);
void cw_tcp_guard_enter(struct cw_tcp_conn *conn);
/* From progress, when iface->unread is not empty. */
unsigned cw_tcp_guard_progress(struct cw_tcp_iface *iface);

/* What a worker demands of every connection. */
struct cw_tcp_guarding {
    uint8_t protection;           /* enum cw_tcp_protection */
    const struct cw_openssl *openssl; /* NULL: not needed */
    struct cw_tls_context *tls;   /* likewise */
    uint8_t secret[32];           /* made of the key */
    char why[320];                /* a sentence that was put together */
    struct cw_tls_spare spare;    /* of all its connections */
};

/* What it was that went wrong on the connection, as the end of a sentence about the peer. */
const char *cw_tcp_guard_reason(const struct cw_tcp_conn *conn, ssize_t error);

/* tcp_guarding.c. Errors are in the log, and then there must be no worker: UCS_ERR_INVALID_PARAM for settings that
 * cannot be, UCS_ERR_UNSUPPORTED for what the machine lacks. */
ucs_status_t cw_tcp_guarding_new(const struct cw_config *config, struct cw_tcp_guarding **guarding_p);
void cw_tcp_guarding_free(struct cw_tcp_guarding *guarding);
/* The keyed hash over the claim, 32 bytes. 0: refused. */
struct cw_tcp_claim;
int cw_tcp_prove(const struct cw_tcp_guarding *guarding, const struct cw_tcp_claim *claim, uint8_t *proof);

/* tcp_agree.c: the way to agreement of a connection in GREETING or STRANGER. Returns NULL, or what went wrong, and then
 * the peer was told if that makes sense. *done_p: the greeting's turn has come, through the guard if there is one. */
const char *cw_tcp_agree_begin(struct cw_tcp_conn *conn);
const char *cw_tcp_agree_dialled(struct cw_tcp_conn *conn, int *done_p, ucs_status_t *status_p);
const char *cw_tcp_agree_accepted(struct cw_tcp_conn *conn, int *done_p);
/* Whether what went wrong is only that the dialler left without a word, as one does whose dial gives way to ours. */
int cw_tcp_agree_was_left(const struct cw_tcp_conn *conn, const char *wrong);
/* Plain connections are agreed about from the beginning. */
int cw_tcp_agreed(const struct cw_tcp_conn *conn);

/* tcp_guard_crc.c, tcp_guard_tls.c. NULL: no memory. */
struct cw_tls_context;
struct cw_tcp_guard *cw_tcp_guard_crc_new(int dialled);
struct cw_tcp_guard *cw_tcp_guard_tls_new(struct cw_tls_context *context, int fd, int dialled);

#endif
