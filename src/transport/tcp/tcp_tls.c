/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The TLS filter, against attackers who read or change bytes in transit (transport/tcp/tls/tls.h).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "transport/tcp/tcp_filter.h"
#include "transport/tcp/tls/tls.h"

#define RECORD     16384u       /* bytes that TLS encrypts at a time */
#define MAX_UNSENT (256u << 10) /* more would leave the caches before the network, or a slower peer, accepts it */

struct tls_filter {
    struct cw_tcp_filter super;
    struct cw_tls *tls;
    uint8_t damaged; /* damaged bytes were received; OpenSSL does not record it */
};

static struct cw_tls *tls_of(struct cw_tcp_filter *filter)
{
    return cw_container_of(filter, struct tls_filter, super)->tls;
}

static int tls_handshake(struct cw_tcp_filter *filter)
{
    const int ret = cw_tls_handshake(tls_of(filter));

    if (ret == 1) {
        cw_net_limit_unsent(filter->conn->item.fd, MAX_UNSENT);
    }
    if (ret == -EPROTO) {
        filter->why = cw_tls_why(tls_of(filter));
    }
    return ret;
}

/* The bytes of the next record, from iov[at] and `offset` on: in place, or gathered in the buffer. After a write that
 * accepted none it returns the same bytes again. */
static const char *next_bytes(const struct iovec *iov, unsigned count, unsigned at, size_t offset, char *buffer,
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

static ssize_t tls_sendv(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count)
{
    size_t total = 0, offset = 0, length;
    char *buffer = NULL; /* on the heap, because thread stacks may be small */
    const char *bytes;
    unsigned at = 0;
    ssize_t sent = 0;

    for (;;) {
        while (at < count && offset >= iov[at].iov_len) {
            offset -= iov[at++].iov_len;
        }
        if (at == count) {
            break;
        }
        if (buffer == NULL && at + 1 < count) {
            buffer = malloc(RECORD);
        }
        sent = 0;
        if (buffer == NULL && at + 1 < count) { /* retried, with the same bytes */
            break;
        }
        bytes = next_bytes(iov, count, at, offset, buffer, &length);
        sent = cw_tls_write(tls_of(filter), bytes, length);
        if (sent <= 0) {
            break;
        }
        total += (size_t)sent;
        offset += (size_t)sent;
    }
    free(buffer);
    if (at < count && total == 0) {
        return (sent == 0) ? -EAGAIN : sent;
    }
    return (ssize_t)total;
}

static ssize_t tls_recvv(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count)
{
    struct cw_tls *tls = tls_of(filter);
    size_t total = 0, offset = 0;
    unsigned at = 0;
    ssize_t got = -EAGAIN;
    uint8_t *damaged = &cw_container_of(filter, struct tls_filter, super)->damaged;

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
        filter->why = cw_tls_why(tls);
        *damaged = 1;
    }
    if (*damaged) {
        got = -EBADMSG;
    }
    filter->has_unread = got == -EINPROGRESS ||
                         (total > 0 && ((got <= 0 && got != -EAGAIN) || (at == count && cw_tls_pending(tls))));
    if (total > 0) {
        return (ssize_t)total;
    }
    return (got == -EINPROGRESS) ? -EAGAIN : got;
}

static void tls_free(struct cw_tcp_filter *filter)
{
    cw_tls_free(tls_of(filter));
    free(cw_container_of(filter, struct tls_filter, super));
}

struct cw_tcp_filter *cw_tcp_filter_tls_new(struct cw_tls_context *context, int fd, int dialled)
{
    static const struct cw_tcp_filter_ops ops = {
        .handshake = tls_handshake, .sendv = tls_sendv, .recvv = tls_recvv, .free = tls_free};
    struct tls_filter *filter = calloc(1, sizeof(*filter));

    if (filter == NULL) {
        return NULL;
    }
    filter->super.ops = &ops;
    filter->tls = cw_tls_new(context, fd, dialled);
    if (filter->tls == NULL) {
        free(filter);
        return NULL;
    }
    return &filter->super;
}
