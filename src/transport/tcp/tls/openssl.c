/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/tcp/tls/openssl.h by dlopen(3).
 */
#include "transport/tcp/tls/openssl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NO_ATEXIT UINT64_C(0x00080000) /* OPENSSL_INIT_NO_ATEXIT: workers may be destroyed in later exit handlers */


struct symbol {
    const char *name;
    enum cw_openssl_part part;
    size_t offset;
};

#define PART_crypto CW_OPENSSL_CRYPTO
#define PART_ssl    CW_OPENSSL_SSL
#define SYMBOL(library, result, name, parameters) {#name, PART_##library, offsetof(struct cw_openssl, name)},
static const struct symbol symbols[] = {CW_OPENSSL_SYMBOLS(SYMBOL)};
#undef SYMBOL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cw_openssl table;
static int opened[2];
static char why[256];

/* With the lock held. */
static int open_part(enum cw_openssl_part part)
{
    const char *file = (part == CW_OPENSSL_CRYPTO) ? "libcrypto.so.3" : "libssl.so.3";
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *error;
    void *address;
    size_t i;

    if (library == NULL) {
        error = dlerror();
        snprintf(why, sizeof(why),
                 "%s cannot be opened (%s); install OpenSSL 3 (package libssl3 or openssl-libs)", file,
                 (error != NULL) ? error : "no reason given");
        return 0;
    }
    for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        if (symbols[i].part != part) {
            continue;
        }
        address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            snprintf(why, sizeof(why), "%s lacks %s; install OpenSSL 3.0 or a later 3", file, symbols[i].name);
            return 0;
        }
        memcpy((char *)&table + symbols[i].offset, &address, sizeof(address));
    }
    if (part == CW_OPENSSL_CRYPTO && table.OPENSSL_init_crypto(NO_ATEXIT, NULL) != 1) {
        snprintf(why, sizeof(why), "%s cannot be initialized; its configuration file may be broken", file);
        return 0;
    }
    return 1;
}

const struct cw_openssl *cw_openssl_open(enum cw_openssl_part part, const char **why_p)
{
    unsigned i;
    int good = 1;

    pthread_mutex_lock(&lock);
    for (i = 0; i <= (unsigned)part && good; i++) {
        opened[i] = opened[i] || open_part((enum cw_openssl_part)i);
        good = opened[i];
    }
    pthread_mutex_unlock(&lock);
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
