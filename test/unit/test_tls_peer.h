/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An end of TLS that asks the other one for new keys, as another implementation may do at any time. Sessions of
 * transport/tcp/tls/tls.h never do; OpenSSL's objects behind them can. A program that includes this makes one session
 * of each side at a time.
 */
#ifndef CW_TEST_TLS_PEER_H
#define CW_TEST_TLS_PEER_H

#include "transport/tcp/tls/openssl.h"
#include "transport/tcp/tls/tls.h"

#define TLS_ASK_YOURS 1 /* OpenSSL's name: SSL_KEY_UPDATE_REQUESTED */

const struct cw_openssl *__real_cw_openssl_open(enum cw_openssl_part part, const char **why_p);
const struct cw_openssl *__wrap_cw_openssl_open(enum cw_openssl_part part, const char **why_p);
struct cw_tls *__real_cw_tls_new(struct cw_tls_context *context, int fd, int dialled);
struct cw_tls *__wrap_cw_tls_new(struct cw_tls_context *context, int fd, int dialled);

static struct cw_openssl tls_openssl;
static void *(*tls_real_new)(void *context);
static void *tls_last;
static struct {
    struct cw_tls *tls;
    void *ssl;
} tls_ends[2]; /* the acceptor's, the dialler's */

static inline void *tls_note_new(void *context)
{
    tls_last = tls_real_new(context);
    return tls_last;
}

const struct cw_openssl *__wrap_cw_openssl_open(enum cw_openssl_part part, const char **why_p)
{
    const struct cw_openssl *openssl = __real_cw_openssl_open(part, why_p);

    if (openssl == NULL || part != CW_OPENSSL_SSL) {
        return openssl;
    }
    tls_openssl = *openssl;
    tls_real_new = openssl->SSL_new;
    tls_openssl.SSL_new = tls_note_new;
    return &tls_openssl;
}

struct cw_tls *__wrap_cw_tls_new(struct cw_tls_context *context, int fd, int dialled)
{
    struct cw_tls *tls = __real_cw_tls_new(context, fd, dialled);

    tls_ends[dialled != 0].tls = tls;
    tls_ends[dialled != 0].ssl = tls_last;
    return tls;
}

/* This end takes a new key and asks the other one to do so as well. True if that is on its way. */
static inline bool tls_ask_for_new_keys(int dialled)
{
    void *ssl = tls_ends[dialled != 0].ssl;

    return tls_openssl.SSL_key_update(ssl, TLS_ASK_YOURS) == 1 && tls_openssl.SSL_do_handshake(ssl) == 1;
}

#endif
