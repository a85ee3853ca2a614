/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of OpenSSL 3 that is used. It is loaded only if the settings require it: Causeway needs
 * neither its headers nor an installed OpenSSL. The types stand for OpenSSL's own, and the numbers are part of its ABI.
 * It is never unloaded, because it cannot be unloaded cleanly. Thread safe.
 */
#ifndef CW_TRANSPORT_TCP_TLS_OPENSSL_H
#define CW_TRANSPORT_TCP_TLS_OPENSSL_H

#include <stddef.h>
#include <stdint.h>

/* X(library, result, name, parameters) */
#define CW_OPENSSL_SYMBOLS(X)                                                                                          \
    X(crypto, int, OPENSSL_init_crypto, (uint64_t options, const void *settings))                                      \
    X(crypto, unsigned char *, HMAC, (const void *md, const void *key, int key_length, const unsigned char *data,      \
                                      size_t length, unsigned char *out, unsigned *out_length))                        \
    X(crypto, const void *, EVP_sha256, (void))                                                                        \
    X(crypto, unsigned long, ERR_peek_last_error, (void))                                                              \
    X(crypto, const char *, ERR_reason_error_string, (unsigned long error))                                            \
    X(crypto, void, ERR_clear_error, (void))                                                                           \
    X(crypto, const void *, BIO_s_socket, (void))                                                                      \
    X(crypto, void *, BIO_meth_new, (int type, const char *name))                                                      \
    X(crypto, void, BIO_meth_free, (void *method))                                                                     \
    X(crypto, int, BIO_meth_set_write, (void *method, int (*fn)(void *bio, const char *data, int length)))             \
    X(crypto, int, BIO_meth_set_read, (void *method, int (*fn)(void *bio, char *data, int length)))                    \
    X(crypto, int, BIO_meth_set_ctrl, (void *method, long (*fn)(void *bio, int command, long number, void *data)))     \
    X(crypto, int, BIO_meth_set_create, (void *method, int (*fn)(void *bio)))                                          \
    X(crypto, int, BIO_meth_set_destroy, (void *method, int (*fn)(void *bio)))                                         \
    X(crypto, void *, BIO_meth_get_write, (const void *method))                                                        \
    X(crypto, void *, BIO_meth_get_read, (const void *method))                                                         \
    X(crypto, void *, BIO_meth_get_ctrl, (const void *method))                                                         \
    X(crypto, void *, BIO_meth_get_create, (const void *method))                                                       \
    X(crypto, void *, BIO_meth_get_destroy, (const void *method))                                                      \
    X(crypto, void *, BIO_new, (const void *method))                                                                   \
    X(crypto, long, BIO_ctrl, (void *bio, int command, long number, void *data))                                       \
    X(crypto, int, BIO_set_ex_data, (void *bio, int index, void *data))                                                \
    X(crypto, void *, BIO_get_ex_data, (const void *bio, int index))                                                   \
    X(crypto, void, BIO_set_flags, (void *bio, int flags))                                                             \
    X(crypto, void, BIO_clear_flags, (void *bio, int flags))                                                           \
    X(crypto, const char *, X509_verify_cert_error_string, (long error))                                               \
    X(ssl, const void *, TLS_method, (void))                                                                           \
    X(ssl, void *, SSL_CTX_new, (const void *method))                                                                  \
    X(ssl, void, SSL_CTX_free, (void *context))                                                                        \
    X(ssl, long, SSL_CTX_ctrl, (void *context, int command, long number, void *data))                                  \
    X(ssl, uint64_t, SSL_CTX_set_options, (void *context, uint64_t options))                                           \
    X(ssl, int, SSL_CTX_set_ciphersuites, (void *context, const char *names))                                          \
    X(ssl, int, SSL_CTX_set_num_tickets, (void *context, size_t number))                                               \
    X(ssl, void, SSL_CTX_set_quiet_shutdown, (void *context, int mode))                                                \
    X(ssl, void, SSL_CTX_set_verify, (void *context, int mode, void *callback))                                        \
    X(ssl, int, SSL_CTX_use_certificate_chain_file, (void *context, const char *path))                                 \
    X(ssl, int, SSL_CTX_use_PrivateKey_file, (void *context, const char *path, int type))                              \
    X(ssl, int, SSL_CTX_load_verify_locations, (void *context, const char *file, const char *directory))               \
    X(ssl, void, SSL_CTX_set_psk_use_session_callback,                                                                 \
      (void *context, int (*fn)(void *ssl, const void *md, const unsigned char **id, size_t *length, void **session))) \
    X(ssl, void, SSL_CTX_set_psk_find_session_callback,                                                                \
      (void *context, int (*fn)(void *ssl, const unsigned char *id, size_t length, void **session)))                   \
    X(ssl, void *, SSL_new, (void *context))                                                                           \
    X(ssl, void, SSL_free, (void *ssl))                                                                                \
    X(ssl, void, SSL_set_bio, (void *ssl, void *in, void *out))                                                        \
    X(ssl, void, SSL_set_connect_state, (void *ssl))                                                                   \
    X(ssl, void, SSL_set_accept_state, (void *ssl))                                                                    \
    X(ssl, int, SSL_set_ex_data, (void *ssl, int index, void *data))                                                   \
    X(ssl, void *, SSL_get_ex_data, (const void *ssl, int index))                                                      \
    X(ssl, uint64_t, SSL_clear_options, (void *ssl, uint64_t options))                                                 \
    X(ssl, int, SSL_do_handshake, (void *ssl))                                                                         \
    X(ssl, int, SSL_read_ex, (void *ssl, void *to, size_t length, size_t *done))                                       \
    X(ssl, int, SSL_write_ex, (void *ssl, const void *from, size_t length, size_t *done))                              \
    X(ssl, int, SSL_get_error, (const void *ssl, int result))                                                          \
    X(ssl, int, SSL_has_pending, (const void *ssl))                                                                    \
    X(ssl, int, SSL_session_reused, (const void *ssl))                                                                 \
    X(ssl, int, SSL_key_update, (void *ssl, int type))                                                                 \
    X(ssl, void *, SSL_get_wbio, (const void *ssl))                                                                    \
    X(ssl, long, SSL_get_verify_result, (const void *ssl))                                                             \
    X(ssl, void *, SSL_SESSION_new, (void))                                                                            \
    X(ssl, void, SSL_SESSION_free, (void *session))                                                                    \
    X(ssl, int, SSL_SESSION_set1_master_key, (void *session, const unsigned char *key, size_t length))                 \
    X(ssl, int, SSL_SESSION_set_cipher, (void *session, const void *cipher))                                           \
    X(ssl, int, SSL_SESSION_set_protocol_version, (void *session, int version))                                        \
    X(ssl, const void *, SSL_CIPHER_find, (void *ssl, const unsigned char *id))

struct cw_openssl {
#define CW_OPENSSL_MEMBER(library, result, name, parameters) result (*name) parameters;
    CW_OPENSSL_SYMBOLS(CW_OPENSSL_MEMBER)
#undef CW_OPENSSL_MEMBER
};

enum cw_openssl_part { CW_OPENSSL_CRYPTO, CW_OPENSSL_SSL }; /* CW_OPENSSL_SSL opens both */

/* NULL: OpenSSL cannot be used, and *why_p is the reason and the remedy, as the end of a sentence, valid until the next
 * call. */
const struct cw_openssl *cw_openssl_open(enum cw_openssl_part part, const char **why_p);

#define CW_HMAC_SIZE 32u
/* HMAC-SHA256. 0: OpenSSL fails. */
int cw_hmac(const struct cw_openssl *openssl, const void *key, size_t key_length, const void *data, size_t length,
            uint8_t out[CW_HMAC_SIZE]);

#endif
