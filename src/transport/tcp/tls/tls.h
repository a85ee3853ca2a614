/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS 1.3 over connected sockets, by OpenSSL (transport/tcp/tls/openssl.h). Both ends authenticate: by a pre-shared
 * key, or by certificates of an authority that both trust. Uses kernel TLS if available. No call blocks, raises SIGPIPE
 * or leaves an entry in OpenSSL's error queue. Only one thread at a time may use a context and its sessions; a session
 * whose handshake is complete does not depend on its context.
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
    uint64_t rekey;        /* bytes written after which the key changes; 0: the default */
};

struct cw_tls_context;
struct cw_tls;

/* NULL: `why` is the reason, as the end of a sentence. */
struct cw_tls_context *cw_tls_context_new(const struct cw_tls_settings *settings, char *why, size_t size);
/* Sessions stay valid, but their handshakes must be complete. */
void cw_tls_context_free(struct cw_tls_context *context);

/* NULL: no memory. The caller keeps the descriptor and closes it after cw_tls_free. */
struct cw_tls *cw_tls_new(struct cw_tls_context *context, int fd, int dialled);
void cw_tls_free(struct cw_tls *tls);
/* 1: both ends are authenticated; 0: call again when the descriptor is readable; -EINPROGRESS: when it is writable;
 * -EPROTO: the handshake failed; other errors: the connection ended. */
int cw_tls_handshake(struct cw_tls *tls);
/* Bytes moved, at most 64 KiB, or -errno; -EBADMSG: not the peer's bytes. Written bytes are in the kernel, bytes read
 * are authenticated. 0 from read: EOF. After -EAGAIN a write must be repeated with the same bytes, at any address, and
 * perhaps more behind them; the peer may have received some of them. -EINPROGRESS from read: call again when the
 * descriptor is writable. */
ssize_t cw_tls_write(struct cw_tls *tls, const void *data, size_t length);
ssize_t cw_tls_read(struct cw_tls *tls, void *data, size_t length);
/* Whether the session buffers received bytes, for which the descriptor does not become readable. They may be a partial
 * record: read until -EAGAIN. */
int cw_tls_pending(const struct cw_tls *tls);
/* OpenSSL's text for the last failure; static. */
const char *cw_tls_why(const struct cw_tls *tls);
/* Whether kernel TLS is in use. */
int cw_tls_in_kernel(const struct cw_tls *tls);

#endif
