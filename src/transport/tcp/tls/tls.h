/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 over connected sockets, by OpenSSL (transport/tcp/tls/openssl.h). Both ends prove their identity: by a key
 * that they share, or by certificates of an authority that both trust. The kernel encrypts if it can. No call waits,
 * raises SIGPIPE or leaves an entry in OpenSSL's queue of errors. Only a single thread at a time may use a context and
 * the sessions made from it; a session whose handshake is over does not depend on its context.
 */
#ifndef CW_TRANSPORT_TCP_TLS_TLS_H
#define CW_TRANSPORT_TCP_TLS_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CW_TLS_KEY_SIZE 32u

struct cw_tls_settings {
    const uint8_t *key;    /* shared, CW_TLS_KEY_SIZE; NULL: certificates, all three files in PEM */
    const char *cert_file;
    const char *cert_key_file;
    const char *ca_file;
    uint64_t rekey;        /* bytes written after which the key changes; 0: the usual number */
};

struct cw_tls_context;
struct cw_tls;

/* NULL: `why` is the reason, as the end of a sentence. */
struct cw_tls_context *cw_tls_context_new(const struct cw_tls_settings *settings, char *why, size_t size);
/* Sessions stay valid, but their handshakes must be over. */
void cw_tls_context_free(struct cw_tls_context *context);

/* NULL: no memory. The descriptor stays the caller's, who closes it after cw_tls_free. */
struct cw_tls *cw_tls_new(struct cw_tls_context *context, int fd, int dialled);
void cw_tls_free(struct cw_tls *tls);
/* 1: both ends have proved their identity; 0: call again when the descriptor can be read; -EINPROGRESS: when it can be
 * written; -EPROTO: the handshake failed; other errors: the connection ended. */
int cw_tls_handshake(struct cw_tls *tls);
/* Bytes moved, at most 64 KiB, or -errno; -EBADMSG: not the peer's bytes. Written bytes are with the kernel, bytes read
 * were checked. 0 from read: the peer's end. After -EAGAIN a write has to be repeated with the same bytes, at any
 * address, and perhaps more behind them; the peer may have some of them already. -EINPROGRESS from read: it waits until
 * the descriptor can be written. */
ssize_t cw_tls_write(struct cw_tls *tls, const void *data, size_t length);
ssize_t cw_tls_read(struct cw_tls *tls, void *data, size_t length);
/* Whether the session holds received bytes that the descriptor does not announce. They may be a part of a record: read
 * until -EAGAIN. */
int cw_tls_pending(const struct cw_tls *tls);
/* The last failure, in OpenSSL's words; the text lives for ever. */
const char *cw_tls_why(const struct cw_tls *tls);
/* Whether the kernel encrypts. */
int cw_tls_in_kernel(const struct cw_tls *tls);

#endif
