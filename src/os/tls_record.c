/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/tls_record.h. The nonce of a record is the number of the record, added to the iv.
 */
#include "os/tls_record.h"

#include <limits.h>
#include <string.h>

#include "os/secret.h"

#define CTRL_GET_TAG 0x10
#define CTRL_SET_TAG 0x11
#define VERSION      0x03 /* stands twice in a head, for middle boxes that expect it */
#define KEY_MAX      32u
#define LABEL_MAX    16u

struct cw_tls_suite {
    unsigned number;
    unsigned hash_length;
    unsigned key_length;
};

static const struct cw_tls_suite suites[] = {{0x1301, 32, 16}, {0x1302, 48, 32}, {0x1303, 32, 32}};

static const void *cipher_of(const struct cw_tls_keys *keys)
{
    return (keys->suite->number == 0x1301) ? keys->openssl->EVP_aes_128_gcm() :
           (keys->suite->number == 0x1302) ? keys->openssl->EVP_aes_256_gcm() :
           keys->openssl->EVP_chacha20_poly1305();
}

/* HKDF-Expand-Label with an empty context, for no more than one hash. */
static int expand(const struct cw_tls_keys *keys, const char *name, uint8_t *to, size_t length)
{
    const unsigned hash_length = keys->suite->hash_length;
    const void *md             = (hash_length == 32) ? keys->openssl->EVP_sha256() : keys->openssl->EVP_sha384();
    const size_t label         = 6 + strlen(name);
    uint8_t info[4 + 6 + LABEL_MAX + 1], hash[CW_TLS_SECRET_MAX];
    unsigned hashed            = 0;
    int good;

    info[0] = 0;
    info[1] = (uint8_t)length;
    info[2] = (uint8_t)label;
    memcpy(info + 3, "tls13 ", 6);
    memcpy(info + 9, name, label - 6);
    info[3 + label] = 0; /* of the context */
    info[4 + label] = 1; /* of the hash */
    good = keys->openssl->HMAC(md, keys->secret, (int)hash_length, info, 5 + label, hash, &hashed) != NULL &&
           hashed == hash_length;
    memcpy(to, hash, good ? length : 0);
    cw_secret_wipe(hash, sizeof(hash));
    return good;
}

/* The key and iv of the secret. */
static int make_keys(struct cw_tls_keys *keys)
{
    uint8_t key[KEY_MAX];
    int good;

    keys->number = 0;
    good = expand(keys, "key", key, keys->suite->key_length) && expand(keys, "iv", keys->iv, sizeof(keys->iv)) &&
           keys->openssl->EVP_CipherInit_ex(keys->cipher, cipher_of(keys), NULL, key, keys->iv, keys->seals) == 1;
    cw_secret_wipe(key, sizeof(key));
    return good;
}

int cw_tls_keys_init(struct cw_tls_keys *keys, const struct cw_openssl *openssl, unsigned suite, const uint8_t *secret,
                     size_t length, int seals)
{
    size_t i;

    memset(keys, 0, sizeof(*keys));
    keys->openssl = openssl;
    keys->seals   = seals;
    for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
        if (suites[i].number == suite && suites[i].hash_length == length) {
            keys->suite = &suites[i];
        }
    }
    if (keys->suite == NULL) {
        return 0;
    }
    memcpy(keys->secret, secret, length);
    keys->cipher = openssl->EVP_CIPHER_CTX_new();
    if (keys->cipher == NULL || !make_keys(keys)) {
        cw_tls_keys_clear(keys);
        return 0;
    }
    return 1;
}

int cw_tls_keys_update(struct cw_tls_keys *keys)
{
    uint8_t next[CW_TLS_SECRET_MAX];
    int good = expand(keys, "traffic upd", next, keys->suite->hash_length);

    if (good) {
        memcpy(keys->secret, next, keys->suite->hash_length);
        good = make_keys(keys);
    }
    cw_secret_wipe(next, sizeof(next));
    return good;
}

void cw_tls_keys_clear(struct cw_tls_keys *keys)
{
    if (keys->cipher != NULL) {
        keys->openssl->EVP_CIPHER_CTX_free(keys->cipher);
    }
    cw_secret_wipe(keys, sizeof(*keys));
}

/* Begins the next record: makes its nonce, and has its head checked but not encrypted. */
static int begin(struct cw_tls_keys *keys, const uint8_t *head)
{
    uint8_t nonce[CW_TLS_NONCE];
    unsigned i;
    int done;

    memcpy(nonce, keys->iv, sizeof(nonce));
    for (i = 0; i < 8; i++) {
        nonce[CW_TLS_NONCE - 1 - i] ^= (uint8_t)(keys->number >> (8 * i));
    }
    keys->number++;
    return keys->openssl->EVP_CipherInit_ex(keys->cipher, NULL, NULL, NULL, nonce, -1) == 1 &&
           keys->openssl->EVP_CipherUpdate(keys->cipher, NULL, &done, head, CW_TLS_HEAD) == 1;
}

int cw_tls_seal(struct cw_tls_keys *keys, enum cw_tls_type type, struct cw_tls_walk *walk, size_t length, uint8_t *to)
{
    const struct cw_openssl *openssl = keys->openssl;
    const size_t body                = length + CW_TLS_MORE - CW_TLS_HEAD;
    const uint8_t inner              = (uint8_t)type;
    const struct iovec *iov;
    size_t part;
    int good, done;

    to[0] = CW_TLS_DATA;
    to[1] = to[2] = VERSION;
    to[3] = (uint8_t)(body >> 8);
    to[4] = (uint8_t)body;
    good  = begin(keys, to);
    to += CW_TLS_HEAD;
    while (good && length > 0) {
        iov  = &walk->iov[walk->at];
        part = iov->iov_len - walk->offset;
        part = (part < length) ? part : length;
        if (part > 0) {
            good = openssl->EVP_CipherUpdate(keys->cipher, to, &done, (const uint8_t *)iov->iov_base + walk->offset,
                                             (int)part) == 1;
        }
        to += part;
        length -= part;
        walk->offset += part;
        if (walk->offset == iov->iov_len) {
            walk->at++;
            walk->offset = 0;
        }
    }
    return good && openssl->EVP_CipherUpdate(keys->cipher, to, &done, &inner, 1) == 1 &&
           openssl->EVP_CipherFinal_ex(keys->cipher, to + 1, &done) == 1 &&
           openssl->EVP_CIPHER_CTX_ctrl(keys->cipher, CTRL_GET_TAG, CW_TLS_TAG, to + 1) == 1;
}

int cw_tls_open(struct cw_tls_keys *keys, const uint8_t *record, size_t body, uint8_t *to, size_t *length_p,
                uint8_t *type_p)
{
    const struct cw_openssl *openssl = keys->openssl;
    const uint8_t *bytes             = record + CW_TLS_HEAD;
    uint8_t tag[CW_TLS_TAG], type;
    size_t length;
    int done;

    if (record[0] != CW_TLS_DATA || record[1] != VERSION || record[2] != VERSION || body < 1 + CW_TLS_TAG ||
        body > CW_TLS_BODY_MAX) {
        return 0;
    }
    length = CW_TLS_PLAIN(body);
    memcpy(tag, bytes + length + 1, sizeof(tag));
    if (!begin(keys, record) ||
        (length > 0 && openssl->EVP_CipherUpdate(keys->cipher, to, &done, bytes, (int)length) != 1) ||
        openssl->EVP_CipherUpdate(keys->cipher, &type, &done, bytes + length, 1) != 1 ||
        openssl->EVP_CIPHER_CTX_ctrl(keys->cipher, CTRL_SET_TAG, sizeof(tag), tag) != 1 ||
        openssl->EVP_CipherFinal_ex(keys->cipher, tag, &done) != 1) {
        return 0;
    }
    while (type == 0 && length > 0) { /* zeros behind the type are padding */
        type = to[--length];
    }
    if (type == 0 || length > CW_TLS_RECORD_MAX) {
        return 0;
    }
    *length_p = length;
    *type_p   = type;
    return 1;
}
