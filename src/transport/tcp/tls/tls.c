/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport/tcp/tls/tls.h on OpenSSL's ABI; its constants are repeated here, because its headers are not used.
 *
 * OpenSSL's socket BIO writes with write(2), which may raise SIGPIPE. The BIO of this file writes with send(2). With
 * kernel TLS some writes need OpenSSL's BIO; the signal is then blocked around them.
 *
 * After the handshake, without kernel TLS, records pass through buffers of the session: several move by one system
 * call, and OpenSSL never sees a partially written record, which it cannot combine with a key update. Its own
 * read-ahead (3.2 to 3.5 at least) loses the bytes behind a key update.
 */
#include "transport/tcp/tls/tls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"
#include "os/secret.h"
#include "os/signals.h"
#include "transport/tcp/tls/openssl.h"

#define CTRL_MODE             33
#define CTRL_MIN_VERSION      123
#define MODES                 (1 | 2 | 16)  /* partial writes, moving buffers, buffers freed when empty */
#define OP_KTLS               (UINT64_C(1) << 3)
#define OP_IGNORE_EOF         (UINT64_C(1) << 7) /* EOF without close_notify counts as EOF */
#define OP_NO_TICKET          (UINT64_C(1) << 14)
#define OP_NO_COMPRESSION     (UINT64_C(1) << 17)
#define TLS_1_3               0x0304
#define KEEP_YOURS            0 /* OpenSSL fails if it must answer with its own key update during a write */
#define FILETYPE_PEM          1
#define VERIFY_PEER           1
#define VERIFY_MUST           2
#define ERROR_WANT_READ       2
#define ERROR_WANT_WRITE      3
#define ERROR_SYSCALL         5
#define ERROR_ZERO_RETURN     6
#define BIO_TYPE_SOCKET       0x505
#define BIO_SET_FD            104
#define BIO_GET_FD            105
#define BIO_GET_KTLS_SEND     73
#define BIO_GET_KTLS_RECV     76
#define BIO_FLAGS_RETRY_ALL   0x0f
#define BIO_FLAGS_RETRY_READ  0x09
#define BIO_FLAGS_RETRY_WRITE 0x0a
#define BIO_FLAGS_IN_EOF      0x800
#define RECORD                16384u
#define RECORD_OVERHEAD       32u         /* upper bound of what a record adds to its data */
#define BATCH                 4u          /* records written at a time */
#define OTHER_BYTES           4096u       /* for records without data: key updates, alerts */
#define IN_SIZE               (66u << 10) /* some records */
#define REKEY_BYTES           (UINT64_C(1) << 36) /* far below the limit of AES-GCM for one key */

struct cw_tls_context {
    const struct cw_openssl *openssl;
    void *context;
    int by_key;
    uint64_t rekey;
    uint8_t key[CW_TLS_KEY_SIZE];
};

struct buffer {
    char *bytes; /* NULL while empty */
    size_t begin, end, size;
};

struct cw_tls {
    const struct cw_openssl *openssl;
    void *ssl;
    int fd;
    struct buffer in;             /* read, not yet consumed by OpenSSL */
    struct buffer out;            /* written by OpenSSL, not yet passed to the kernel */
    size_t out_data;              /* the caller's bytes in the records of `out` */
    const char *why;
    uint64_t rekey;
    uint64_t written;             /* since the last new key */
    uint8_t by_key;
    uint8_t buffers_in, buffers_out;
};

static const struct cw_openssl *the_openssl; /* for the callbacks of OpenSSL; the same for all sessions */
static void *the_method;
static const unsigned char identity[] = "causeway";

static bool is_in_kernel(void *bio)
{
    return the_openssl->BIO_ctrl(bio, BIO_GET_KTLS_SEND, 0, NULL) > 0;
}

static int socket_object_write(void *bio, const char *data, int length)
{
    return ((int (*)(void *, const char *, int))the_openssl->BIO_meth_get_write(the_openssl->BIO_s_socket()))(
        bio, data, length);
}

static int write_without_signal(void *bio, const char *data, int length)
{
    struct cw_signals_pipe held;
    int ret;

    cw_signals_hold_pipe(&held);
    ret = socket_object_write(bio, data, length);
    cw_signals_release_pipe(&held, ret < 0 && errno == EPIPE);
    return ret;
}

static struct cw_tls *tls_of(const void *bio)
{
    return the_openssl->BIO_get_ex_data(bio, 0);
}

static void buffer_free(struct buffer *buffer)
{
    const int error = errno;

    free(buffer->bytes);
    *buffer = (struct buffer){.bytes = NULL};
    errno = error;
}

static int buffer_reserve(struct buffer *buffer, size_t size)
{
    char *bytes;

    if (size <= buffer->size) {
        return 1;
    }
    bytes = realloc(buffer->bytes, size);
    if (bytes == NULL) {
        return 0;
    }
    buffer->bytes = bytes;
    buffer->size = size;
    return 1;
}

/* Passes the written records to the kernel. 0: all of them; -errno. */
static int flush_out(struct cw_tls *tls)
{
    struct buffer *out = &tls->out;
    ssize_t ret;

    while (out->begin < out->end) {
        ret = cw_net_send(tls->fd, out->bytes + out->begin, out->end - out->begin);
        if (ret < 0) {
            return (int)ret;
        }
        out->begin += (size_t)ret;
    }
    buffer_free(out);
    return 0;
}

static int write_to_buffer(struct cw_tls *tls, void *bio, const char *data, size_t length)
{
    struct buffer *out = &tls->out;

    the_openssl->BIO_clear_flags(bio, BIO_FLAGS_RETRY_ALL);
    if (length > out->size - out->end && (out->size > 0 || !buffer_reserve(out, OTHER_BYTES) || length > out->size)) {
        the_openssl->BIO_set_flags(bio, BIO_FLAGS_RETRY_WRITE);
        errno = EAGAIN;
        return -1;
    }
    memcpy(out->bytes + out->end, data, length);
    out->end += length;
    return (int)length;
}

/* What OpenSSL expects of a result of os/net.h. */
static int result_of(ssize_t ret)
{
    if (ret < 0) {
        errno = (int)-ret;
        return -1;
    }
    return (int)ret;
}

static int bio_write(void *bio, const char *data, int length)
{
    struct cw_tls *tls = tls_of(bio);
    ssize_t ret;

    if (is_in_kernel(bio)) {
        return write_without_signal(bio, data, length);
    }
    if (tls->buffers_out) {
        return write_to_buffer(tls, bio, data, (size_t)length);
    }
    ret = cw_net_send(tls->fd, data, (size_t)length);
    the_openssl->BIO_clear_flags(bio, BIO_FLAGS_RETRY_ALL);
    if (ret == -EAGAIN) {
        the_openssl->BIO_set_flags(bio, BIO_FLAGS_RETRY_WRITE);
    }
    return result_of(ret);
}

static int socket_object_read(void *bio, char *data, int length)
{
    return ((int (*)(void *, char *, int))the_openssl->BIO_meth_get_read(the_openssl->BIO_s_socket()))(bio, data,
                                                                                                       length);
}

static int bio_read(void *bio, char *data, int length)
{
    struct cw_tls *tls = tls_of(bio);
    struct buffer *in = &tls->in;
    size_t taken;
    ssize_t ret;

    if (!tls->buffers_in || (in->begin == in->end && !buffer_reserve(in, IN_SIZE))) {
        return socket_object_read(bio, data, length);
    }
    the_openssl->BIO_clear_flags(bio, BIO_FLAGS_RETRY_ALL | BIO_FLAGS_IN_EOF);
    if (in->begin == in->end) {
        ret = cw_net_recv(tls->fd, in->bytes, in->size);
        if (ret <= 0) {
            buffer_free(in);
            if (ret == 0) {
                the_openssl->BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
            } else if (ret == -EAGAIN) {
                the_openssl->BIO_set_flags(bio, BIO_FLAGS_RETRY_READ);
            }
            return result_of(ret);
        }
        in->begin = 0;
        in->end = (size_t)ret;
    }
    taken = (in->end - in->begin < (size_t)length) ? in->end - in->begin : (size_t)length;
    memcpy(data, in->bytes + in->begin, taken);
    in->begin += taken;
    if (in->begin == in->end) {
        buffer_free(in);
    }
    return (int)taken;
}

/* Once per process; a race of two threads leaks a few bytes. */
static int make_method(const struct cw_openssl *openssl)
{
    void *method = __atomic_load_n(&the_method, __ATOMIC_ACQUIRE), *none = NULL;
    const void *model;

    if (method != NULL) {
        return 1;
    }
    __atomic_store_n(&the_openssl, openssl, __ATOMIC_RELEASE);
    model = openssl->BIO_s_socket();
    method = openssl->BIO_meth_new(BIO_TYPE_SOCKET, "causeway socket");
    if (method == NULL ||
        !openssl->BIO_meth_set_read(method, bio_read) ||
        !openssl->BIO_meth_set_ctrl(method, (long (*)(void *, int, long, void *))openssl->BIO_meth_get_ctrl(model)) ||
        !openssl->BIO_meth_set_create(method, (int (*)(void *))openssl->BIO_meth_get_create(model)) ||
        !openssl->BIO_meth_set_destroy(method, (int (*)(void *))openssl->BIO_meth_get_destroy(model)) ||
        !openssl->BIO_meth_set_write(method, bio_write)) {
        return 0;
    }
    if (!__atomic_compare_exchange_n(&the_method, &none, method, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        openssl->BIO_meth_free(method);
    }
    return 1;
}

/* The pre-shared key as a resumable session. */
static void *make_session(void *ssl)
{
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    const struct cw_tls_context *context = the_openssl->SSL_get_ex_data(ssl, 0);
    void *session = the_openssl->SSL_SESSION_new();
    const void *cipher = the_openssl->SSL_CIPHER_find(ssl, aes_128_gcm_sha256);

    if (session == NULL || cipher == NULL ||
        !the_openssl->SSL_SESSION_set1_master_key(session, context->key, CW_TLS_KEY_SIZE) ||
        !the_openssl->SSL_SESSION_set_cipher(session, cipher) ||
        !the_openssl->SSL_SESSION_set_protocol_version(session, TLS_1_3)) {
        the_openssl->SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int use_key(void *ssl, const void *md, const unsigned char **id, size_t *length, void **session)
{
    (void)md;
    *session = make_session(ssl);
    *id = identity;
    *length = sizeof(identity) - 1;
    return *session != NULL;
}

static int find_key(void *ssl, const unsigned char *id, size_t length, void **session)
{
    *session = NULL;
    if (length == sizeof(identity) - 1 && memcmp(id, identity, length) == 0) {
        *session = make_session(ssl);
        return *session != NULL;
    }
    return 1;
}

static const char *last_error(const struct cw_openssl *openssl)
{
    const char *reason = openssl->ERR_reason_error_string(openssl->ERR_peek_last_error());

    openssl->ERR_clear_error();
    return (reason != NULL) ? reason : "OpenSSL gives no reason";
}

/* NULL, or the error, with the name of the setting. */
static const char *use_files(const struct cw_openssl *openssl, void *context, const struct cw_tls_settings *settings)
{
    if (openssl->SSL_CTX_use_certificate_chain_file(context, settings->cert_file) != 1) {
        return "UCX_AUTH_CERT_FILE cannot be used";
    }
    /* Also checks that the key belongs to the certificate. */
    if (openssl->SSL_CTX_use_PrivateKey_file(context, settings->cert_key_file, FILETYPE_PEM) != 1) {
        return "UCX_AUTH_CERT_KEY_FILE cannot be used";
    }
    if (openssl->SSL_CTX_load_verify_locations(context, settings->ca_file, NULL) != 1) {
        return "UCX_AUTH_CA_FILE cannot be used";
    }
    openssl->SSL_CTX_set_verify(context, VERIFY_PEER | VERIFY_MUST, NULL);
    return NULL;
}

static const char *set_up(const struct cw_openssl *openssl, void *context, const struct cw_tls_settings *settings)
{
    if (openssl->SSL_CTX_ctrl(context, CTRL_MIN_VERSION, TLS_1_3, NULL) != 1 ||
        openssl->SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256:"
                                                   "TLS_AES_256_GCM_SHA384") != 1 ||
        openssl->SSL_CTX_set_num_tickets(context, 0) != 1) {
        return "OpenSSL's configuration forbids TLS 1.3 or its ciphers";
    }
    openssl->SSL_CTX_set_options(context, OP_KTLS | OP_IGNORE_EOF | OP_NO_TICKET | OP_NO_COMPRESSION);
    openssl->SSL_CTX_ctrl(context, CTRL_MODE, MODES, NULL);
    openssl->SSL_CTX_set_quiet_shutdown(context, 1);
    if (settings->key == NULL) {
        return use_files(openssl, context, settings);
    }
    openssl->SSL_CTX_set_psk_use_session_callback(context, use_key);
    openssl->SSL_CTX_set_psk_find_session_callback(context, find_key);
    return NULL;
}

struct cw_tls_context *cw_tls_context_new(const struct cw_tls_settings *settings, char *why, size_t size)
{
    const char *wrong = NULL;
    const struct cw_openssl *openssl = cw_openssl_open(CW_OPENSSL_SSL, &wrong);
    struct cw_tls_context *tls = calloc(1, sizeof(*tls));

    if (openssl == NULL || tls == NULL) {
        snprintf(why, size, "%s", (openssl == NULL) ? wrong : "out of memory");
        free(tls);
        return NULL;
    }
    tls->openssl = openssl;
    tls->context = make_method(openssl) ? openssl->SSL_CTX_new(openssl->TLS_method()) : NULL;
    wrong = (tls->context == NULL) ? "OpenSSL failed to create a context" : set_up(openssl, tls->context, settings);
    if (wrong != NULL) {
        snprintf(why, size, "%s (%s)", wrong, last_error(openssl));
        cw_tls_context_free(tls);
        return NULL;
    }
    tls->by_key = settings->key != NULL;
    tls->rekey = (settings->rekey != 0) ? settings->rekey : REKEY_BYTES;
    if (tls->by_key) {
        memcpy(tls->key, settings->key, sizeof(tls->key));
    }
    openssl->ERR_clear_error();
    return tls;
}

void cw_tls_context_free(struct cw_tls_context *context)
{
    if (context != NULL) {
        context->openssl->SSL_CTX_free(context->context);
        cw_secret_wipe(context->key, sizeof(context->key));
        free(context);
    }
}

struct cw_tls *cw_tls_new(struct cw_tls_context *context, int fd, int dialled)
{
    const struct cw_openssl *openssl = context->openssl;
    struct cw_tls *tls = calloc(1, sizeof(*tls));
    void *bio = openssl->BIO_new(the_method);
    void *ssl = openssl->SSL_new(context->context);

    if (tls == NULL || bio == NULL || ssl == NULL || openssl->SSL_set_ex_data(ssl, 0, context) != 1 ||
        openssl->BIO_set_ex_data(bio, 0, tls) != 1) {
        if (bio != NULL && ssl != NULL) {
            openssl->SSL_set_bio(ssl, bio, bio);
        }
        openssl->SSL_free(ssl); /* one BIO may leak here, out of memory */
        free(tls);
        openssl->ERR_clear_error();
        return NULL;
    }
    openssl->BIO_ctrl(bio, BIO_SET_FD, 0, &fd);
    openssl->SSL_set_bio(ssl, bio, bio);
    if (dialled) {
        openssl->SSL_set_connect_state(ssl);
    } else {
        openssl->SSL_set_accept_state(ssl);
    }
    *tls = (struct cw_tls){.openssl = openssl, .ssl = ssl, .fd = fd, .rekey = context->rekey,
                           .by_key = (uint8_t)context->by_key};
    return tls;
}

void cw_tls_free(struct cw_tls *tls)
{
    tls->openssl->SSL_free(tls->ssl);
    tls->openssl->ERR_clear_error();
    buffer_free(&tls->in);
    buffer_free(&tls->out);
    free(tls);
}

/* 0: EOF; -EAGAIN: waits until readable; -EINPROGRESS: waits until writable; other errors. */
static int outcome(struct cw_tls *tls, int ret)
{
    const int error = errno;
    const int result = tls->openssl->SSL_get_error(tls->ssl, ret);
    const long refused = tls->openssl->SSL_get_verify_result(tls->ssl);

    switch (result) {
    case ERROR_WANT_READ:
        return -EAGAIN;
    case ERROR_WANT_WRITE:
        return -EINPROGRESS;
    case ERROR_ZERO_RETURN:
        return 0;
    case ERROR_SYSCALL:
        tls->openssl->ERR_clear_error();
        return (error != 0) ? -error : -ECONNRESET;
    default:
        tls->why = last_error(tls->openssl);
        if (!tls->by_key && refused != 0) {
            tls->why = tls->openssl->X509_verify_cert_error_string(refused);
        }
        return -EBADMSG;
    }
}

int cw_tls_handshake(struct cw_tls *tls)
{
    void *bio;
    int ret;

    tls->openssl->ERR_clear_error();
    errno = 0;
    ret = tls->openssl->SSL_do_handshake(tls->ssl);
    if (ret == 1) {
        if (tls->by_key && !tls->openssl->SSL_session_reused(tls->ssl)) {
            tls->why = "it did not use the shared key";
            return -EPROTO;
        }
        bio = tls->openssl->SSL_get_wbio(tls->ssl);
        tls->buffers_out = !is_in_kernel(bio);
        tls->buffers_in = tls->openssl->BIO_ctrl(bio, BIO_GET_KTLS_RECV, 0, NULL) <= 0;
        if (tls->buffers_in && tls->buffers_out) { /* must not start with the next key, while the buffers hold bytes */
            tls->openssl->SSL_clear_options(tls->ssl, OP_KTLS);
        }
        (void)tls->openssl->SSL_set_ex_data(tls->ssl, 0, NULL);
        return 1;
    }
    ret = outcome(tls, ret);
    switch (ret) {
    case -EAGAIN:
        return 0;
    case 0:
        return -EPIPE;
    default:
        return (ret == -EBADMSG) ? -EPROTO : ret;
    }
}

static ssize_t write_record(struct cw_tls *tls, const void *data, size_t length)
{
    size_t done = 0;
    int ret;

    tls->openssl->ERR_clear_error();
    errno = 0;
    if (tls->openssl->SSL_write_ex(tls->ssl, data, length, &done) == 1) {
        return (ssize_t)done;
    }
    ret = outcome(tls, 0);
    if (ret == 0) {
        return -EPIPE;
    }
    return (ret == -EINPROGRESS) ? -EAGAIN : ret;
}

/* Encrypts some records into the empty buffer. */
static int encrypt(struct cw_tls *tls, const char *data, size_t length)
{
    ssize_t ret;
    size_t part;

    length = (length < BATCH * RECORD) ? length : BATCH * RECORD;
    if (!buffer_reserve(&tls->out, length + BATCH * RECORD_OVERHEAD + OTHER_BYTES)) {
        return -EAGAIN;
    }
    if (tls->written >= tls->rekey) {
        tls->written = 0;
        (void)tls->openssl->SSL_key_update(tls->ssl, KEEP_YOURS); /* sent with the next bytes */
    }
    while (tls->out_data < length) {
        part = (length - tls->out_data < RECORD) ? length - tls->out_data : RECORD;
        ret = write_record(tls, data + tls->out_data, part);
        if (ret <= 0) {
            return (int)ret;
        }
        tls->out_data += (size_t)ret;
    }
    tls->written += tls->out_data;
    return 0;
}

ssize_t cw_tls_write(struct cw_tls *tls, const void *data, size_t length)
{
    size_t done;
    int ret;

    if (!tls->buffers_out) {
        return write_record(tls, data, length);
    }
    ret = flush_out(tls); /* records of a write that is repeated now, or answers to the peer */
    if (ret == 0 && tls->out_data == 0) {
        ret = encrypt(tls, data, length);
        ret = (ret == 0) ? flush_out(tls) : ret;
    }
    if (ret != 0) {
        return ret;
    }
    done = tls->out_data;
    tls->out_data = 0;
    return (ssize_t)done;
}

ssize_t cw_tls_read(struct cw_tls *tls, void *data, size_t length)
{
    size_t done = 0;
    int ret;

    tls->openssl->ERR_clear_error();
    errno = 0;
    if (tls->openssl->SSL_read_ex(tls->ssl, data, length, &done) == 1) {
        return (ssize_t)done;
    }
    ret = outcome(tls, 0);
    if (tls->out.begin < tls->out.end && tls->out_data == 0) {
        (void)flush_out(tls); /* answers to the peer, or an alert; the rest is sent with the next bytes. Bytes of the
                               * caller leave when it repeats its write, so that it learns of the last one. */
    }
    return ret;
}

int cw_tls_pending(const struct cw_tls *tls)
{
    return tls->in.begin < tls->in.end || tls->openssl->SSL_has_pending(tls->ssl);
}

const char *cw_tls_why(const struct cw_tls *tls)
{
    return tls->why;
}

int cw_tls_in_kernel(const struct cw_tls *tls)
{
    void *bio = tls->openssl->SSL_get_wbio(tls->ssl);

    return is_in_kernel(bio) || tls->openssl->BIO_ctrl(bio, BIO_GET_KTLS_RECV, 0, NULL) > 0;
}
