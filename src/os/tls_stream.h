/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows a handshake of TLS 1.3 on a socket: records, many per system call. OpenSSL's own layer moves one per
 * call and copies each byte once more on both sides (docs/why/trust.md). Callers: os/tls.c, and the guard by it.
 *
 * Encrypted bytes that the socket does not take stay in a buffer, in order. The plain bytes in them count as sent when
 * the socket took their record; until then they are offered again and not looked at again. What is received is checked
 * before any of it is handed up; memory that nobody looks at may be written before. A stream without bytes under way
 * has no buffers.
 */
#ifndef CW_OS_TLS_STREAM_H
#define CW_OS_TLS_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "os/openssl.h"

#define CW_TLS_BUFFER (8u * (16384u + 22u)) /* eight full records, which caches of processors hold */

/* A buffer of CW_TLS_BUFFER bytes that nobody uses, or NULL; for one thread at a time. Freed with free. */
struct cw_tls_spare {
    void *bytes;
};

/* NULL: no memory. */
static inline void *cw_tls_spare_take(struct cw_tls_spare *spare)
{
    void *bytes = spare->bytes;

    spare->bytes = NULL;
    return (bytes != NULL) ? bytes : malloc(CW_TLS_BUFFER);
}

static inline void cw_tls_spare_give(struct cw_tls_spare *spare, void *bytes)
{
    if (spare->bytes == NULL) {
        spare->bytes = bytes;
    } else {
        free(bytes);
    }
}

struct cw_tls_stream;

struct cw_tls_stream_keys {
    unsigned suite;               /* number of the cipher suite */
    const uint8_t *out;           /* traffic secrets */
    const uint8_t *in;
    size_t length;
    uint64_t rekey;               /* records after which new keys are made; 0: the usual number */
};

/* NULL: no memory, an unknown suite, or OpenSSL refuses. */
struct cw_tls_stream *cw_tls_stream_new(const struct cw_openssl *openssl, const struct cw_tls_stream_keys *keys);
void cw_tls_stream_free(struct cw_tls_stream *stream);

/* Answers are those of os/net.h; bytes that were not taken must be offered again, and perhaps more behind them. */
ssize_t cw_tls_stream_sendv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            struct cw_tls_spare *spare);
/* Likewise, and -EBADMSG for good once bytes were not the peer's; 0: its end. Somebody may look at the first `shown`
 * entries of iov at any time, so only checked bytes are written there; in the others anything may stand behind those
 * that were received. *unread_p: to be called again though the descriptor may be silent. */
ssize_t cw_tls_stream_recvv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            unsigned shown, struct cw_tls_spare *spare, uint8_t *unread_p);
/* What -EBADMSG was; lives for ever. */
const char *cw_tls_stream_why(const struct cw_tls_stream *stream);

#endif
