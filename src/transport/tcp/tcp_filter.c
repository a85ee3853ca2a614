/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common code of filters, the checksum filter, and the TLS filter.
 *
 * The checksum filter sends records with checksums (docs/WIRE.md). The header of a record is checked before its length
 * is used, and its bytes before any of them is delivered. The checksum of the header covers the number of the record
 * and its direction, so that missing, duplicated and reflected records are detected, too. If the kernel accepts only a
 * part of a record, the next send begins with its missing bytes.
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "transport/tcp/tls/tls.h"

#define EMPTY_SIZE  1024u
#define MAX_RECORDS 16u /* per system call */
#define MAX_PARTS   (1u + CW_TCP_MAX_IOV + 2 * MAX_RECORDS)
#define IN_SIZE     (128u << 10) /* fits into CPU caches */

_Static_assert(IN_SIZE >= 2 * (CW_TCP_RECORD_HEAD + CW_TCP_RECORD_MAX), "space for an incomplete record");

ssize_t cw_tcp_filter_sendv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count)
{
    const ssize_t sent = conn->filter->ops->sendv(conn->filter, iov, count);

    conn->filter->said += (sent > 0) ? (size_t)sent : 0;
    return sent;
}

ssize_t cw_tcp_filter_send(struct cw_tcp_conn *conn, const void *data, size_t length)
{
    const struct iovec iov = {(void *)(uintptr_t)data, length};

    return (conn->filter != NULL) ? cw_tcp_filter_sendv(conn, &iov, 1) : cw_net_send(conn->item.fd, data, length);
}

ssize_t cw_tcp_filter_recvv(struct cw_tcp_conn *conn, const struct iovec *iov, unsigned count)
{
    struct cw_tcp_filter *filter = conn->filter;
    const ssize_t got = filter->ops->recvv(filter, iov, count);

    if (filter->has_unread) {
        cw_tcp_filter_enter(conn);
    } else {
        cw_list_remove(&filter->unread);
    }
    return got;
}

ssize_t cw_tcp_filter_recv(struct cw_tcp_conn *conn, void *data, size_t length)
{
    const struct iovec iov = {data, length};

    return (conn->filter != NULL) ? cw_tcp_filter_recvv(conn, &iov, 1) : cw_net_recv(conn->item.fd, data, length);
}

void cw_tcp_filter_free(struct cw_tcp_conn *conn)
{
    struct cw_tcp_filter *filter = conn->filter;

    if (filter != NULL) {
        conn->filter = NULL;
        cw_list_remove(&filter->unread);
        filter->ops->free(filter);
    }
}

void cw_tcp_filter_leave(struct cw_tcp_conn *conn)
{
    if (conn->filter != NULL) {
        cw_list_remove(&conn->filter->unread);
    }
}

void cw_tcp_filter_enter(struct cw_tcp_conn *conn)
{
    if (conn->filter != NULL && conn->filter->has_unread && cw_list_empty(&conn->filter->unread)) {
        cw_list_add_tail(&cw_tcp_iface_of(&conn->super)->unread, &conn->filter->unread);
        cw_poller_wake(cw_tcp_iface_of(&conn->super)->poller);
    }
}

unsigned cw_tcp_filter_progress(struct cw_tcp_iface *iface)
{
    struct cw_list unread;
    struct cw_list *link;
    struct cw_tcp_conn *conn;
    unsigned events = 0;

    cw_list_init(&unread);
    cw_list_splice_tail(&unread, &iface->unread);
    while ((link = cw_list_pop_head(&unread)) != NULL) {
        conn = cw_container_of(link, struct cw_tcp_filter, unread)->conn;
        cw_list_add_tail(&iface->unread, link); /* until the filter is drained */
        events += conn->item.ready(&conn->item, CW_POLL_READ);
    }
    return events;
}

/* Whether the empty frames are still shorter than the bytes before them, and than the longest record. */
static bool needs_empty(const struct cw_tcp_filter *filter)
{
    return filter->followed < CW_TCP_RECORD_MAX && filter->followed < filter->seen - filter->followed;
}

/* While the socket is full, nothing is added: a later check sends the rest of the empty frames, unless other bytes have
 * followed. */
bool cw_tcp_filter_check(struct cw_tcp_conn *conn)
{
    static const uint8_t empty[EMPTY_SIZE] = {[4] = 2}; /* required by peers of release 1.0 */
    struct cw_tcp_filter *filter = conn->filter;

    if (filter->said == 0 || conn->broken != UCS_OK) {
        return false;
    }
    if (conn->tx != NULL) {
        return true;
    }
    if (filter->said != filter->seen) {
        filter->seen = filter->said;
        filter->followed = 0;
        return true;
    }
    while (needs_empty(filter)) {
        if (!cw_tcp_tx_reserve(cw_tcp_iface_of(&conn->super)) ||
            cw_tcp_send_frame(conn, CW_TCP_EMPTY, empty, sizeof(empty)) != UCS_OK) {
            return true;
        }
        filter->followed += sizeof(empty);
        filter->seen = filter->said;
        if (conn->tx != NULL) {
            filter->seen += conn->tx->length - conn->tx->head;
            return true;
        }
    }
    filter->said = filter->seen = filter->followed = 0;
    return false;
}

const char *cw_tcp_filter_reason(const struct cw_tcp_conn *conn, ssize_t error)
{
    return (conn->filter != NULL && conn->filter->why != NULL) ? conn->filter->why : strerror((int)-error);
}

struct crc_filter {
    struct cw_tcp_filter super;
    uint64_t out_number; /* of the next record, and its direction */
    uint64_t in_number;
    size_t out_missing;        /* payload bytes of the record that has begun */
    unsigned out_head_missing; /* bytes at the end of out_head */
    int broken;                /* -errno to return after all verified bytes are read */
    uint8_t *in;               /* bytes in_at .. in_have; NULL while empty */
    size_t in_at;
    size_t in_have;
    size_t in_good; /* verified payload bytes from in_at on */
    uint8_t out_head[CW_TCP_RECORD_HEAD];
};

/* A send: the records that it begins and the parts that it consists of. */
struct plan {
    struct iovec parts[MAX_PARTS];
    unsigned num_parts;
    unsigned num_records;
    size_t old_head; /* bytes of the header of a record that an earlier send began */
    size_t old_payload;
    size_t lengths[MAX_RECORDS];
    uint8_t heads[MAX_RECORDS][CW_TCP_RECORD_HEAD];
};

static struct crc_filter *crc_of(struct cw_tcp_filter *filter)
{
    return cw_container_of(filter, struct crc_filter, super);
}

static uint8_t **spare_of(const struct crc_filter *crc)
{
    return &cw_tcp_iface_of(&crc->super.conn->super)->security->spare_in;
}

static void put_part(struct plan *plan, const void *bytes, size_t length)
{
    plan->parts[plan->num_parts++] = (struct iovec){(void *)(uintptr_t)bytes, length};
}

/* A position in an iov array. */
struct walk {
    const struct iovec *iov;
    unsigned count;
    unsigned at;
    size_t offset;
};

/* Plans at most `length` bytes and adds them to *crc_p. Returns how many. */
static size_t take(struct walk *walk, struct plan *plan, size_t length, uint32_t *crc_p)
{
    const struct iovec *iov;
    size_t taken = 0, part;

    while (taken < length && walk->at < walk->count && plan->num_parts < MAX_PARTS) {
        iov = &walk->iov[walk->at];
        part = iov->iov_len - walk->offset;
        part = (part < length - taken) ? part : length - taken;
        if (part > 0) {
            put_part(plan, (const char *)iov->iov_base + walk->offset, part);
            *crc_p = cw_crc32c(*crc_p, (const char *)iov->iov_base + walk->offset, part);
        }
        taken += part;
        walk->offset += part;
        if (walk->offset == iov->iov_len) {
            walk->at++;
            walk->offset = 0;
        }
    }
    return taken;
}

static void make_plan(struct crc_filter *crc, const struct iovec *iov, unsigned count, struct plan *plan)
{
    struct walk walk = {iov, count, 0, 0};
    uint8_t *head;
    uint32_t sum = 0;
    unsigned head_part;
    size_t length;

    plan->num_parts = plan->num_records = 0;
    plan->old_head = crc->out_head_missing;
    plan->old_payload = 0;
    if (plan->old_head > 0) {
        put_part(plan, crc->out_head + CW_TCP_RECORD_HEAD - plan->old_head, plan->old_head);
    }
    if (crc->out_missing > 0) {
        plan->old_payload = take(&walk, plan, crc->out_missing, &sum);
        if (plan->old_payload < crc->out_missing) {
            return;
        }
    }
    while (plan->num_records < MAX_RECORDS && plan->num_parts + 2 <= MAX_PARTS && walk.at < walk.count) {
        head = plan->heads[plan->num_records];
        head_part = plan->num_parts;
        put_part(plan, head, CW_TCP_RECORD_HEAD);
        sum = 0;
        length = take(&walk, plan, CW_TCP_RECORD_MAX, &sum);
        if (length == 0) { /* only empty parts were left */
            plan->num_parts = head_part;
            return;
        }
        cw_tcp_record_encode(head, length, sum, crc->out_number + plan->num_records);
        plan->lengths[plan->num_records++] = length;
    }
}

/* The kernel accepted `sent` bytes of the plan. Returns how many of them are payload. */
static size_t sent_of_plan(struct crc_filter *crc, const struct plan *plan, size_t sent)
{
    size_t payload, part;
    unsigned i;

    part = (sent < plan->old_head) ? sent : plan->old_head;
    crc->out_head_missing -= (unsigned)part;
    sent -= part;
    payload = (sent < plan->old_payload) ? sent : plan->old_payload;
    crc->out_missing -= payload;
    sent -= payload;
    for (i = 0; i < plan->num_records && sent > 0; i++) {
        crc->out_number++;
        part = (sent < CW_TCP_RECORD_HEAD) ? sent : CW_TCP_RECORD_HEAD;
        crc->out_head_missing = (unsigned)(CW_TCP_RECORD_HEAD - part);
        memcpy(crc->out_head, plan->heads[i], CW_TCP_RECORD_HEAD);
        sent -= part;
        part = (sent < plan->lengths[i]) ? sent : plan->lengths[i];
        crc->out_missing = plan->lengths[i] - part;
        sent -= part;
        payload += part;
    }
    return payload;
}

static ssize_t crc_sendv(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count)
{
    struct crc_filter *crc = crc_of(filter);
    struct plan plan;
    ssize_t sent;

    make_plan(crc, iov, count, &plan);
    if (plan.num_parts == 0) {
        return 0;
    }
    sent = cw_net_sendv(filter->conn->item.fd, plan.parts, plan.num_parts);
    if (sent < 0) {
        return sent;
    }
    sent = (ssize_t)sent_of_plan(crc, &plan, (size_t)sent);
    return (sent > 0) ? sent : -EAGAIN;
}

/* Parses the next record. 1: its payload is verified; 0: it is incomplete; -EBADMSG. */
static int next_record(struct crc_filter *crc)
{
    const uint8_t *at = crc->in + crc->in_at;
    const size_t have = crc->in_have - crc->in_at;
    uint32_t length, sum;

    if (have < CW_TCP_RECORD_HEAD) {
        return 0;
    }
    if (!cw_tcp_record_decode(at, crc->in_number, &length, &sum)) {
        return -EBADMSG;
    }
    if (have < CW_TCP_RECORD_HEAD + length) {
        return 0;
    }
    if (cw_crc32c(0, at + CW_TCP_RECORD_HEAD, length) != sum) {
        return -EBADMSG;
    }
    crc->in_number++;
    crc->in_at += CW_TCP_RECORD_HEAD;
    crc->in_good = length;
    return 1;
}

/* Copies verified bytes to the iov until it is full or none is left; returns their number. */
static size_t hand_up(struct crc_filter *crc, const struct iovec *iov, unsigned count)
{
    size_t total = 0, offset = 0, part;
    unsigned i = 0;

    while (i < count && crc->broken == 0) {
        if (offset == iov[i].iov_len) {
            i++;
            offset = 0;
            continue;
        }
        if (crc->in_good == 0) {
            const int found = next_record(crc);

            if (found == 0) {
                break;
            }
            crc->broken = (found < 0) ? found : 0;
            continue;
        }
        part = iov[i].iov_len - offset;
        part = (part < crc->in_good) ? part : crc->in_good;
        cw_bytes_copy_any((char *)iov[i].iov_base + offset, crc->in + crc->in_at, part);
        crc->in_at += part;
        crc->in_good -= part;
        offset += part;
        total += part;
    }
    return total;
}

/* Appends bytes from the descriptor to the buffer, which always has space for at least a whole record. */
static ssize_t fill(struct crc_filter *crc)
{
    ssize_t got;

    if (crc->in == NULL) {
        crc->in = (*spare_of(crc) != NULL) ? *spare_of(crc) : malloc(IN_SIZE);
        *spare_of(crc) = NULL;
        if (crc->in == NULL) {
            return -EAGAIN;
        }
        crc->in_at = crc->in_have = 0;
    }
    if (crc->in_at > 0) {
        crc->in_have -= crc->in_at;
        cw_bytes_move(crc->in, crc->in + crc->in_at, crc->in_have);
        crc->in_at = 0;
    }
    got = cw_net_recv(crc->super.conn->item.fd, crc->in + crc->in_have, IN_SIZE - crc->in_have);
    if (got > 0) {
        crc->in_have += (size_t)got;
    }
    return got;
}

/* Returns fewer bytes than fit only if the descriptor has no more: it becomes readable for the next ones. */
static ssize_t crc_recvv(struct cw_tcp_filter *filter, const struct iovec *iov, unsigned count)
{
    const size_t space = cw_bytes_in_iov(iov, count);
    struct crc_filter *crc = crc_of(filter);
    size_t total = (crc->in != NULL) ? hand_up(crc, iov, count) : 0;
    ssize_t got = -EAGAIN;

    if (total == 0 && crc->broken == 0) {
        got = fill(crc);
        if (got > 0) {
            total = hand_up(crc, iov, count);
            got = -EAGAIN;
        }
    }
    if (crc->in != NULL && crc->in_at == crc->in_have) {
        free(*spare_of(crc));
        *spare_of(crc) = crc->in;
        crc->in = NULL;
    }
    filter->has_unread = total > 0 && (total == space || crc->broken != 0);
    if (total > 0) {
        return (ssize_t)total;
    }
    if (crc->broken != 0) {
        filter->why = "data corrupted in transit (checksum mismatch)";
        return crc->broken;
    }
    return got;
}

static void crc_free(struct cw_tcp_filter *filter)
{
    free(crc_of(filter)->in);
    free(crc_of(filter));
}

struct cw_tcp_filter *cw_tcp_filter_crc_new(int dialled)
{
    static const struct cw_tcp_filter_ops ops = {.sendv = crc_sendv, .recvv = crc_recvv, .free = crc_free};
    struct crc_filter *crc = calloc(1, sizeof(*crc));

    if (crc == NULL) {
        return NULL;
    }
    crc->super.ops = &ops;
    crc->out_number = dialled ? 0 : CW_TCP_RECORD_ACCEPTED;
    crc->in_number = dialled ? CW_TCP_RECORD_ACCEPTED : 0;
    return &crc->super;
}

/* ---- the TLS filter, against attackers who read or change bytes in transit ---- */

#define TLS_RECORD 16384u       /* bytes that TLS encrypts at a time */
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

    if (iov[at].iov_len - offset >= TLS_RECORD || at + 1 == count) {
        *length_p = iov[at].iov_len - offset;
        return (const char *)iov[at].iov_base + offset;
    }
    for (; at < count && length < TLS_RECORD; at++, offset = 0) {
        part = iov[at].iov_len - offset;
        part = (part < TLS_RECORD - length) ? part : TLS_RECORD - length;
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
            buffer = malloc(TLS_RECORD);
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
