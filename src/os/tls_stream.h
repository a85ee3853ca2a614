/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of TLS 1.3 on a socket after the handshake, many per system call. OpenSSL's own layer moves one record per
 * call and copies each byte once more on both sides (docs/why/trust.md). Callers: os/tls.c, and the filter of TCP by
 * it.
 *
 * Encrypted bytes that the socket does not take stay in a buffer, in order. The plain bytes in them count as sent when
 * the socket has taken their record. Until then the caller offers these bytes again, and the stream does not read them
 * again. Received bytes are checked before any of them is handed up; memory that the caller declares unread may be
 * written before the check. A stream without bytes in progress has no buffers.
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

/* An unused buffer of CW_TLS_BUFFER bytes, or NULL; for one thread at a time. Freed with free. */
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

/* Returns the values of os/net.h. Bytes that were not taken must be offered again, and perhaps more behind them. */
ssize_t cw_tls_stream_sendv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            struct cw_tls_spare *spare);
/* Returns the values of os/net.h; 0: the peer's end; -EBADMSG, from then on always: bytes came that the peer did not
 * send. The program may read the first `shown` entries of iov at any time, so only checked bytes are written there; in
 * the other entries any bytes may stand behind the received ones. *unread_p: the caller must call again although the
 * descriptor may announce nothing. */
ssize_t cw_tls_stream_recvv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            unsigned shown, struct cw_tls_spare *spare, uint8_t *unread_p);
/* The reason of -EBADMSG; the text lives for ever. */
const char *cw_tls_stream_why(const struct cw_tls_stream *stream);

#endif
