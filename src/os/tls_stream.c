/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/tls_stream.h. Our records are full but for the last of a batch, so a position in a batch tells how many plain
 * bytes stand before it. A notice that keys change is a batch of its own.
 */
#include "os/tls_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "os/net.h"
#include "os/tls_record.h"

#define FULL            (CW_TLS_RECORD_MAX + CW_TLS_MORE)
#define BATCH           (CW_TLS_BUFFER / FULL)
#define DIRECT_MIN      1024u /* bytes of a record: a shorter one is copied in less time than the search for room
                               * takes */
#define REKEY_RECORDS   (UINT64_C(1) << 22) /* far below what AES-GCM may encrypt by one key */
#define KEY_UPDATE      24
#define ALERT_CLOSE     0
#define ALERT_DAMAGE    20
#define ALERT_UNASKED   10
#define ALERT_CANCELED  90
#define ALERT_FATAL     2

_Static_assert(CW_TLS_BUFFER == BATCH * FULL, "whole records");
_Static_assert(CW_TLS_BUFFER >= 2 * (CW_TLS_HEAD + CW_TLS_BODY_MAX), "room for a record that is not complete");

struct cw_tls_stream {
    const struct cw_openssl *openssl;
    struct cw_tls_keys out;
    struct cw_tls_keys in;
    uint64_t rekey;
    const char *why;
    int broken;                   /* receiving: the error to answer with when all good bytes are read; 1: the peer's
                                   * end */
    uint8_t alert;                /* the alert to send to the peer about it; 0: none */
    uint8_t fails;                /* sending: no more bytes may be sent */
    uint8_t owes_update;          /* the peer asked for new keys */
    uint8_t *out_bytes;           /* NULL, or a batch: out_at .. out_have are not sent */
    size_t out_at;
    size_t out_have;
    size_t out_plain;             /* plain bytes in it */
    size_t out_taken;             /* plain bytes of it that the caller was told were taken */
    uint8_t *in_bytes;            /* NULL while nothing is in it: in_at .. in_have */
    size_t in_at;
    size_t in_have;
    size_t in_good;               /* plain bytes from in_at on */
    size_t in_rest;               /* of their record, behind them */
};

struct cw_tls_stream *cw_tls_stream_new(const struct cw_openssl *openssl, const struct cw_tls_stream_keys *keys)
{
    struct cw_tls_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return NULL;
    }
    stream->openssl = openssl;
    stream->rekey   = (keys->rekey != 0) ? keys->rekey : REKEY_RECORDS;
    if (!cw_tls_keys_init(&stream->out, openssl, keys->suite, keys->out, keys->length, 1) ||
        !cw_tls_keys_init(&stream->in, openssl, keys->suite, keys->in, keys->length, 0)) {
        cw_tls_stream_free(stream);
        return NULL;
    }
    return stream;
}

void cw_tls_stream_free(struct cw_tls_stream *stream)
{
    if (stream->out.openssl != NULL) {
        cw_tls_keys_clear(&stream->out);
    }
    if (stream->in.openssl != NULL) {
        cw_tls_keys_clear(&stream->in);
    }
    free(stream->out_bytes);
    free(stream->in_bytes);
    free(stream);
}

static void give_out_bytes(struct cw_tls_stream *stream, struct cw_tls_spare *spare)
{
    cw_tls_spare_give(spare, stream->out_bytes);
    stream->out_bytes = NULL;
}

static int seal_bytes(struct cw_tls_stream *stream, enum cw_tls_type type, uint8_t *bytes, size_t length, uint8_t *to)
{
    const struct iovec iov  = {bytes, length};
    struct cw_tls_walk walk = {.iov = &iov, .count = 1};

    return cw_tls_seal(&stream->out, type, &walk, length, to);
}

/* New keys for what we send, and the notice of it by the old ones. */
static int begin_update(struct cw_tls_stream *stream)
{
    uint8_t notice[5] = {KEY_UPDATE, 0, 0, 1, 0};

    stream->out_have    = sizeof(notice) + CW_TLS_MORE;
    stream->out_plain   = 0;
    stream->owes_update = 0;
    return seal_bytes(stream, CW_TLS_HANDSHAKE, notice, sizeof(notice), stream->out_bytes) &&
           cw_tls_keys_update(&stream->out);
}

/* Encrypts as much of the next `left` bytes as a buffer holds. */
static int begin_batch(struct cw_tls_stream *stream, struct cw_tls_walk *walk, size_t left,
                       struct cw_tls_spare *spare)
{
    size_t part;
    int good = 1;

    if (stream->fails) {
        return -EIO;
    }
    stream->out_bytes = cw_tls_spare_take(spare);
    if (stream->out_bytes == NULL) {
        return -EAGAIN;
    }
    stream->out_at = stream->out_have = stream->out_plain = stream->out_taken = 0;
    if (stream->owes_update || stream->out.number >= stream->rekey) {
        good = begin_update(stream);
        left = 0;
    }
    while (good && left > 0 && stream->out_have < CW_TLS_BUFFER) {
        part = (left < CW_TLS_RECORD_MAX) ? left : CW_TLS_RECORD_MAX;
        good = cw_tls_seal(&stream->out, CW_TLS_DATA, walk, part, stream->out_bytes + stream->out_have);
        stream->out_have += part + CW_TLS_MORE;
        stream->out_plain += part;
        left -= part;
    }
    if (!good) {
        stream->fails = 1;
        give_out_bytes(stream, spare);
        stream->openssl->ERR_clear_error();
        return -EIO;
    }
    return 0;
}

/* Sends what the socket takes of the batch. Adds to *taken_p what counts as sent. 1: it is all out. */
static int send_batch(struct cw_tls_stream *stream, int fd, size_t *taken_p, struct cw_tls_spare *spare)
{
    const ssize_t sent = cw_net_send(fd, stream->out_bytes + stream->out_at, stream->out_have - stream->out_at);
    size_t plain;

    if (sent < 0) {
        return (int)sent;
    }
    stream->out_at += (size_t)sent;
    plain = stream->out_at / FULL * CW_TLS_RECORD_MAX;
    if (plain > stream->out_plain || stream->out_at == stream->out_have) {
        plain = stream->out_plain;
    }
    *taken_p += plain - stream->out_taken;
    stream->out_taken = plain;
    if (stream->out_at < stream->out_have) {
        return -EAGAIN;
    }
    give_out_bytes(stream, spare);
    return 1;
}

static void skip_bytes(struct cw_tls_walk *walk, size_t length)
{
    size_t part;

    while (length > 0) {
        part = walk->iov[walk->at].iov_len - walk->offset;
        if (part > length) {
            walk->offset += length;
            return;
        }
        length -= part;
        walk->at++;
        walk->offset = 0;
    }
}

ssize_t cw_tls_stream_sendv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            struct cw_tls_spare *spare)
{
    const size_t offered    = cw_bytes_in_iov(iov, count);
    struct cw_tls_walk walk = {.iov = iov, .count = count};
    size_t taken            = 0;
    int ret                 = 1;

    if (stream->out_bytes != NULL) {
        ret = send_batch(stream, fd, &taken, spare);
        assert(taken <= offered); /* the caller offers again the bytes that were not taken before */
        skip_bytes(&walk, taken);
    }
    while (ret == 1 && taken < offered) {
        ret = begin_batch(stream, &walk, offered - taken, spare);
        if (ret == 0) {
            ret = send_batch(stream, fd, &taken, spare);
        }
    }
    return (taken > 0 || ret == 1) ? (ssize_t)taken : ret;
}

/* Handles a record that carries no data. 1: go on; otherwise the error, or the end, of the stream. */
static int take_message(struct cw_tls_stream *stream, unsigned type, const uint8_t *bytes, size_t length)
{
    if (type == CW_TLS_ALERT && length == 2) {
        if (bytes[1] == ALERT_CLOSE || bytes[1] == ALERT_CANCELED) {
            stream->broken = 1;
            return 0;
        }
        stream->why = stream->openssl->SSL_alert_desc_string_long(bytes[1]);
        return -EBADMSG;
    }
    if (type == CW_TLS_HANDSHAKE && length == 5 && bytes[0] == KEY_UPDATE && bytes[1] == 0 && bytes[2] == 0 &&
        bytes[3] == 1 && bytes[4] <= 1) {
        stream->owes_update |= bytes[4];
        if (cw_tls_keys_update(&stream->in)) {
            return 1;
        }
        stream->why = "OpenSSL makes no new key";
        return -EBADMSG;
    }
    stream->why   = "a message that does not belong here";
    stream->alert = ALERT_UNASKED;
    return -EBADMSG;
}

/* Looks for a record. 1: there was one; its plain bytes, if any, are good now, or they are the *direct_p bytes at `to`,
 * if they fit there. 0: the record is not complete, or the end has come; -EBADMSG. */
static int next_record(struct cw_tls_stream *stream, uint8_t *to, size_t room, size_t *direct_p)
{
    uint8_t *at = stream->in_bytes + stream->in_at, *plain = at + CW_TLS_HEAD;
    size_t have = stream->in_have - stream->in_at, body, length;
    uint8_t type;

    if (have < CW_TLS_HEAD) {
        return 0;
    }
    body = (size_t)at[3] << 8 | at[4];
    if (body <= CW_TLS_BODY_MAX && have < CW_TLS_HEAD + body) {
        return 0;
    }
    if (body >= DIRECT_MIN && CW_TLS_PLAIN(body) <= room) {
        plain = to;
    }
    if (!cw_tls_open(&stream->in, at, body, plain, &length, &type)) {
        stream->why   = "bad record mac";
        stream->alert = ALERT_DAMAGE;
        stream->openssl->ERR_clear_error();
        return -EBADMSG;
    }
    stream->in_at += CW_TLS_HEAD;
    if (type == CW_TLS_DATA && plain == at + CW_TLS_HEAD && length > 0) {
        stream->in_good = length;
        stream->in_rest = body - length;
        return 1;
    }
    stream->in_at += body;
    if (type == CW_TLS_DATA) {
        *direct_p = (plain == to) ? length : 0;
        return 1;
    }
    return take_message(stream, type, plain, length);
}

/* Copies good bytes to the iov and returns their number: after that the iov is full or no good byte is left. */
static size_t hand_up(struct cw_tls_stream *stream, const struct iovec *iov, unsigned count, unsigned shown)
{
    size_t total = 0, offset = 0, part, room;
    unsigned i = 0;
    int found;

    while (i < count && stream->broken == 0) {
        if (offset == iov[i].iov_len) {
            i++;
            offset = 0;
            continue;
        }
        if (stream->in_good == 0) {
            part  = 0;
            room  = (i < shown) ? 0 : iov[i].iov_len - offset;
            found = next_record(stream, (uint8_t *)iov[i].iov_base + offset, room, &part);
            if (found == 0) {
                break;
            }
            stream->broken = (found < 0) ? found : 0;
            offset += part;
            total += part;
            continue;
        }
        part = iov[i].iov_len - offset;
        part = (part < stream->in_good) ? part : stream->in_good;
        cw_bytes_copy_any((char *)iov[i].iov_base + offset, stream->in_bytes + stream->in_at, part);
        offset += part;
        total += part;
        stream->in_good -= part;
        stream->in_at += part + ((stream->in_good == 0) ? stream->in_rest : 0);
    }
    return total;
}

/* Reads bytes from the descriptor behind those that are there, which are less than a record. */
static ssize_t fill(struct cw_tls_stream *stream, int fd, struct cw_tls_spare *spare)
{
    ssize_t got;

    if (stream->in_bytes == NULL) {
        stream->in_bytes = cw_tls_spare_take(spare);
        if (stream->in_bytes == NULL) {
            return -EAGAIN;
        }
        stream->in_at = stream->in_have = 0;
    }
    if (stream->in_at > 0) {
        stream->in_have -= stream->in_at;
        cw_bytes_move(stream->in_bytes, stream->in_bytes + stream->in_at, stream->in_have);
        stream->in_at = 0;
    }
    got = cw_net_recv(fd, stream->in_bytes + stream->in_have, CW_TLS_BUFFER - stream->in_have);
    if (got > 0) {
        stream->in_have += (size_t)got;
    }
    return got;
}

/* Tells the peer by an alert that its bytes are wrong, if the socket takes the alert at once. */
static void send_alert(struct cw_tls_stream *stream, int fd)
{
    uint8_t alert[2] = {ALERT_FATAL, stream->alert}, record[sizeof(alert) + CW_TLS_MORE];

    if (stream->out_bytes == NULL && !stream->fails &&
        seal_bytes(stream, CW_TLS_ALERT, alert, sizeof(alert), record)) {
        (void)cw_net_send(fd, record, sizeof(record));
    }
    stream->alert = 0;
    stream->fails = 1;
}

ssize_t cw_tls_stream_recvv(struct cw_tls_stream *stream, int fd, const struct iovec *iov, unsigned count,
                            unsigned shown, struct cw_tls_spare *spare, uint8_t *unread_p)
{
    size_t total = 0;
    ssize_t got  = -EAGAIN;

    if (stream->in_bytes != NULL) {
        total = hand_up(stream, iov, count, shown);
    }
    if (total == 0 && stream->broken == 0) {
        got = fill(stream, fd, spare);
        if (got > 0) {
            total = hand_up(stream, iov, count, shown);
            got   = -EAGAIN;
        }
    }
    if (stream->alert != 0) {
        send_alert(stream, fd);
    }
    if (stream->in_bytes != NULL && stream->in_at == stream->in_have) {
        cw_tls_spare_give(spare, stream->in_bytes);
        stream->in_bytes = NULL;
    }
    *unread_p = total > 0 &&
                (stream->broken != 0 || (stream->in_bytes != NULL && total == cw_bytes_in_iov(iov, count)));
    if (total > 0) {
        return (ssize_t)total;
    }
    return (stream->broken < 0) ? stream->broken : (stream->broken > 0) ? 0 : got;
}

const char *cw_tls_stream_why(const struct cw_tls_stream *stream)
{
    return stream->why;
}
