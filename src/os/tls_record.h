/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The protection of records of TLS 1.3 (RFC 8446, 5 and 7.3) in one direction, by OpenSSL's ciphers. Callers:
 * os/tls_stream.c. Invariant: no number is used twice with one key.
 */
#ifndef CW_OS_TLS_RECORD_H
#define CW_OS_TLS_RECORD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "os/openssl.h"

#define CW_TLS_RECORD_MAX 16384u                         /* plain bytes */
#define CW_TLS_HEAD       5u
#define CW_TLS_TAG        16u
#define CW_TLS_MORE       (CW_TLS_HEAD + 1 + CW_TLS_TAG) /* bytes of a record of ours beside its plain ones */
#define CW_TLS_BODY_MAX   (CW_TLS_RECORD_MAX + 256u)     /* what a peer's may have behind its head */
#define CW_TLS_PLAIN(body) ((body) - 1 - CW_TLS_TAG)     /* at most this many plain bytes */
#define CW_TLS_SECRET_MAX 48u
#define CW_TLS_NONCE      12u

enum cw_tls_type { CW_TLS_ALERT = 21, CW_TLS_HANDSHAKE = 22, CW_TLS_DATA = 23 };

struct cw_tls_suite;

struct cw_tls_keys {
    const struct cw_openssl *openssl;
    const struct cw_tls_suite *suite;
    void *cipher;                 /* NULL: none */
    uint64_t number;              /* of the next record */
    int seals;                    /* 1: it seals records; 0: it opens them */
    uint8_t iv[CW_TLS_NONCE];
    uint8_t secret[CW_TLS_SECRET_MAX];
};

/* A position in an iov array. */
struct cw_tls_walk {
    const struct iovec *iov;
    unsigned count;
    unsigned at;
    size_t offset;
};

/* `secret` is a traffic secret, `suite` a cipher suite's number. 0: unknown, the wrong length, or OpenSSL refuses. */
int cw_tls_keys_init(struct cw_tls_keys *keys, const struct cw_openssl *openssl, unsigned suite, const uint8_t *secret,
                     size_t length, int seals);
/* Changes to the next key. 0: OpenSSL refuses. */
int cw_tls_keys_update(struct cw_tls_keys *keys);
void cw_tls_keys_clear(struct cw_tls_keys *keys);
/* Makes a record of the next `length` bytes, at most CW_TLS_RECORD_MAX and no more than there are. `to` has room for
 * CW_TLS_MORE besides. 0: OpenSSL refuses. */
int cw_tls_seal(struct cw_tls_keys *keys, enum cw_tls_type type, struct cw_tls_walk *walk, size_t length, uint8_t *to);
/* Decrypts a record with `body` bytes behind its head to `to`; *length_p is the number of plain bytes. `to` is the
 * place behind the head, or other memory with room for CW_TLS_PLAIN(body). 0: the peer did not make this record, and
 * the bytes at `to` must not be read. */
int cw_tls_open(struct cw_tls_keys *keys, const uint8_t *record, size_t body, uint8_t *to, size_t *length_p,
                uint8_t *type_p);

#endif
