/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard against attackers who read or change bytes on the way: TLS over the connection's descriptor (os/tls.h). The
 * records are our own (os/tls_stream.h); or, where the kernel encrypts, those of OpenSSL's functions, one record at a
 * time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "os/tls.h"
#include "os/tls_stream.h"
#include "transport/tcp/tcp_guard.h"

#define RECORD     16384u        /* bytes that TLS encrypts at a time */
#define MAX_UNSENT (256u << 10) /* more would leave the caches before the network, or a slower peer, takes it */

struct tls_guard {
    struct cw_tcp_guard super;
    struct cw_tls *tls;
    uint8_t damaged;              /* damaged bytes came; OpenSSL does not remember why */
};

static struct cw_tls *tls_of(struct cw_tcp_guard *guard)
{
    return cw_container_of(guard, struct tls_guard, super)->tls;
}

static struct cw_tls_spare *spare_of(const struct cw_tcp_guard *guard)
{
    return &cw_tcp_iface_of(&guard->conn->super)->guarding->spare;
}

static int tls_handshake(struct cw_tcp_guard *guard)
{
    const int ret = cw_tls_handshake(tls_of(guard));

    if (ret == 1) {
        cw_net_limit_unsent(guard->conn->item.fd, MAX_UNSENT);
    }
    if (ret == -EPROTO) {
        guard->why = cw_tls_why(tls_of(guard));
    }
    return ret;
}

/* The bytes from *at_p and *offset_p on that make the next record: in place, or collected in the buffer. After a write
 * that took none it returns equal bytes again. */
static const char *next_bytes(const struct iovec *iov, unsigned count, unsigned at, size_t offset, char buffer[RECORD],
                              size_t *length_p)
{
    size_t length = 0, part;

    if (iov[at].iov_len - offset >= RECORD || at + 1 == count) {
        *length_p = iov[at].iov_len - offset;
        return (const char *)iov[at].iov_base + offset;
    }
    for (; at < count && length < RECORD; at++, offset = 0) {
        part = iov[at].iov_len - offset;
        part = (part < RECORD - length) ? part : RECORD - length;
        if (part > 0) {
            cw_bytes_copy_any(buffer + length, (const char *)iov[at].iov_base + offset, part);
        }
        length += part;
    }
    *length_p = length;
    return buffer;
}

static ssize_t openssl_sendv(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count)
{
    size_t total = 0, offset = 0, length;
    char buffer[RECORD];
    const char *bytes;
    unsigned at = 0;
    ssize_t sent;

    for (;;) {
        while (at < count && offset >= iov[at].iov_len) {
            offset -= iov[at++].iov_len;
        }
        if (at == count) {
            return (ssize_t)total;
        }
        bytes = next_bytes(iov, count, at, offset, buffer, &length);
        sent  = cw_tls_write(tls_of(guard), bytes, length);
        if (sent <= 0) {
            return (total > 0) ? (ssize_t)total : (sent == 0) ? -EAGAIN : sent;
        }
        total += (size_t)sent;
        offset += (size_t)sent;
    }
}

static ssize_t openssl_recvv(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count)
{
    struct cw_tls *tls = tls_of(guard);
    size_t total       = 0, offset = 0;
    unsigned at        = 0;
    ssize_t got        = -EAGAIN;
    uint8_t *damaged   = &cw_container_of(guard, struct tls_guard, super)->damaged;

    while (!*damaged) {
        while (at < count && offset == iov[at].iov_len) {
            at++;
            offset = 0;
        }
        if (at == count || (total > 0 && !cw_tls_pending(tls))) {
            break;
        }
        got = cw_tls_read(tls, (char *)iov[at].iov_base + offset, iov[at].iov_len - offset);
        if (got <= 0) {
            break;
        }
        total += (size_t)got;
        offset += (size_t)got;
    }
    if (got == -EBADMSG) {
        guard->why = cw_tls_why(tls);
        *damaged   = 1;
    }
    if (*damaged) {
        got = -EBADMSG;
    }
    guard->has_unread = total > 0 && ((got <= 0 && got != -EAGAIN) || (at == count && cw_tls_pending(tls)));
    return (total > 0) ? (ssize_t)total : got;
}

static ssize_t tls_sendv(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count)
{
    struct cw_tls_stream *stream = cw_tls_stream_of(tls_of(guard));

    return (stream != NULL) ? cw_tls_stream_sendv(stream, guard->conn->item.fd, iov, count, spare_of(guard)) :
           openssl_sendv(guard, iov, count);
}

static ssize_t tls_recvv(struct cw_tcp_guard *guard, const struct iovec *iov, unsigned count, unsigned shown)
{
    struct cw_tls_stream *stream = cw_tls_stream_of(tls_of(guard));
    ssize_t got;

    if (stream == NULL) {
        return openssl_recvv(guard, iov, count);
    }
    got = cw_tls_stream_recvv(stream, guard->conn->item.fd, iov, count, shown, spare_of(guard), &guard->has_unread);
    if (got == -EBADMSG) {
        guard->why = cw_tls_stream_why(stream);
    }
    return got;
}

static void tls_free(struct cw_tcp_guard *guard)
{
    cw_tls_free(tls_of(guard));
    free(cw_container_of(guard, struct tls_guard, super));
}

struct cw_tcp_guard *cw_tcp_guard_tls_new(struct cw_tls_context *context, int fd, int dialled)
{
    static const struct cw_tcp_guard_ops ops = {
        .handshake = tls_handshake, .sendv = tls_sendv, .recvv = tls_recvv, .free = tls_free};
    struct tls_guard *guard                  = calloc(1, sizeof(*guard));

    if (guard == NULL) {
        return NULL;
    }
    guard->super.ops = &ops;
    guard->tls       = cw_tls_new(context, fd, dialled);
    if (guard->tls == NULL) {
        free(guard);
        return NULL;
    }
    return &guard->super;
}
