/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements transport/tcp/tls/openssl.h.
 */
#include "transport/tcp/tls/openssl.h"

#include <stdio.h>

#include "os/library.h"
#include "os/lock.h"

#define NO_ATEXIT UINT64_C(0x00080000) /* OPENSSL_INIT_NO_ATEXIT: workers may be destroyed in later exit handlers */

/* The functions of libcrypto are first in the list. */
#define SYMBOL(library, result, name, parameters) {#name, offsetof(struct cw_openssl, name), 0},
static const struct cw_symbol symbols[] = {CW_OPENSSL_SYMBOLS(SYMBOL)};
#undef SYMBOL

#define IS_crypto 1
#define IS_ssl    0
#define COUNT(library, result, name, parameters) +IS_##library
enum { NUM_SYMBOLS = sizeof(symbols) / sizeof(symbols[0]), NUM_CRYPTO = CW_OPENSSL_SYMBOLS(COUNT) };
#undef COUNT

#define INSTALL "install OpenSSL 3 (package libssl3 or openssl-libs)"
#define UPDATE  "install OpenSSL 3.0 or a later 3"
static const struct cw_library parts[] = {
    [CW_OPENSSL_CRYPTO] = {"libcrypto.so.3", INSTALL, UPDATE, symbols, NUM_CRYPTO},
    [CW_OPENSSL_SSL] = {"libssl.so.3", INSTALL, UPDATE, symbols + NUM_CRYPTO, NUM_SYMBOLS - NUM_CRYPTO},
};

static struct cw_lock lock;
static struct cw_openssl table;
static int opened[2];
static char why[CW_LIBRARY_WHY];

/* With the lock held. */
static int open_part(enum cw_openssl_part part)
{
    if (cw_library_open(&parts[part], &table, why) == NULL) {
        return 0;
    }
    if (part == CW_OPENSSL_CRYPTO && table.OPENSSL_init_crypto(NO_ATEXIT, NULL) != 1) {
        snprintf(why, sizeof(why), "%s cannot be initialized; its configuration file may be broken", parts[part].file);
        return 0;
    }
    return 1;
}

const struct cw_openssl *cw_openssl_open(enum cw_openssl_part part, const char **why_p)
{
    unsigned i;
    int good = 1;

    cw_lock_enter(&lock);
    for (i = 0; i <= (unsigned)part && good; i++) {
        opened[i] = opened[i] || open_part((enum cw_openssl_part)i);
        good = opened[i];
    }
    cw_lock_leave(&lock);
    *why_p = why;
    return good ? &table : NULL;
}

int cw_hmac(const struct cw_openssl *openssl, const void *key, size_t key_length, const void *data, size_t length,
            uint8_t out[CW_HMAC_SIZE])
{
    unsigned out_length = 0;

    return openssl->HMAC(openssl->EVP_sha256(), key, (int)key_length, data, length, out, &out_length) != NULL &&
           out_length == CW_HMAC_SIZE;
}
