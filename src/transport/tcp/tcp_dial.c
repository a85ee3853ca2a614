/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Dialling: the candidates of the peer's address one after the other, until one connects and somebody there answers the
 * hello. The key in the greeting keeps a wrong listener (a port that found a new owner, a network namespace that only
 * looks the same) from being taken for the peer.
 */
#include "transport/tcp/tcp_guard.h"
#include "transport/tcp/tcp_guard_wire.h"
#include "transport/tcp/tcp_rails.h"
#include "transport/tcp/tcp_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static ucs_status_t error_status(const struct cw_tcp_greeting *greeting, int error)
{
    switch (error) {
    case ECONNREFUSED:
        return greeting->meets ? UCS_ERR_NOT_CONNECTED : UCS_ERR_UNREACHABLE; /* CS-25 */
    case ETIMEDOUT:
        return greeting->meets ? UCS_ERR_UNREACHABLE : UCS_ERR_ENDPOINT_TIMEOUT; /* CS-26 */
    case ENOMEM:
    case ENOBUFS:
        return UCS_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE:
        return UCS_ERR_IO_ERROR;
    case EADDRNOTAVAIL:
    case EADDRINUSE:
    case EACCES:
    case EINVAL:
        return (greeting->source.family != CW_NET_NONE) ? UCS_ERR_IO_ERROR : UCS_ERR_UNREACHABLE; /* CS-21 */
    case EPIPE:
    case ECONNRESET:
        return UCS_ERR_CONNECTION_RESET;
    default:
        return UCS_ERR_UNREACHABLE;
    }
}

/* One attempt is over. The reason is a phrase. */
static void attempt_failed(struct cw_tcp_conn *conn, ucs_status_t status, const char *reason)
{
    const struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_greeting *greeting = conn->greeting;
    char text[CW_NET_TEXT_MAX];

    greeting->status = status;
    cw_tcp_conn_drop_fd(conn);
    cw_net_format(&greeting->candidates[greeting->next], text);
    greeting->next++;
    if (conn->first != NULL) {
        cw_debug("cannot open a further TCP connection to %s: %s", text, reason);
        return;
    }
    cw_log(iface->settings.failure_level, "cannot connect to %s: %s; %s", text, reason,
           (greeting->next < greeting->num_candidates) ? "trying the next address of this peer"
           : (greeting->source.family != CW_NET_NONE && status == UCS_ERR_IO_ERROR)
               ? "the local address must be one of this machine that reaches the server, and its port free"
           : (status == UCS_ERR_IO_ERROR)
               ? "raise the limit of open files (ulimit -n)"
               : "no other address of this peer is left, so see whether its process lives and "
                 "whether a firewall lets this port pass");
}

/* Both disagree about protection, or one did not prove itself: at the peer's other addresses it would be the same. */
static void disagreed(struct cw_tcp_conn *conn, ucs_status_t status, const char *reason)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    static struct cw_log_limit limit;
    char text[CW_NET_TEXT_MAX];

    if (status == UCS_ERR_REJECTED) {
        cw_net_format(&greeting->candidates[greeting->next], text);
        cw_log_ratelimited(&limit, CW_LOG_WARN, "cannot connect to %s: %s", text, reason);
        greeting->candidates[greeting->num_candidates - 1] = greeting->candidates[greeting->next];
        greeting->next                                     = greeting->num_candidates - 1;
    }
    attempt_failed(conn, status, reason);
}

/* The greeting always fits into a new socket's buffer. 1: sent. */
static int send_greeting(struct cw_tcp_conn *conn)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    const ssize_t sent               = cw_tcp_guard_send(conn, greeting->out, greeting->out_length);

    if (sent != (ssize_t)greeting->out_length) {
        attempt_failed(conn, UCS_ERR_CONNECTION_RESET,
                       (sent < 0) ? cw_tcp_guard_reason(conn, sent) : "no room for the greeting");
        return 0;
    }
    greeting->have = 0;
    return 1;
}

/* Established. 1: the first words are said. */
static int greet(struct cw_tcp_conn *conn)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    struct cw_net_address local, peer;
    const char *wrong;

    greeting->phase = 0;
    if (greeting->meets) {
        cw_net_ends(conn->item.fd, &local, &peer);
        if (!cw_tcp_allows(&cw_tcp_iface_of(&conn->super)->settings, &local)) {
            attempt_failed(conn, UCS_ERR_UNREACHABLE, "UCX_NET_DEVICES excludes the way there"); /* CS-35 */
            return 0;
        }
    }
    conn->state = CW_TCP_GREETING;
    if (!cw_tcp_agreed(conn)) {
        wrong = cw_tcp_agree_begin(conn);
        if (wrong != NULL) {
            attempt_failed(conn, UCS_ERR_CONNECTION_RESET, wrong);
            return 0;
        }
    } else if (!send_greeting(conn)) {
        return 0;
    }
    cw_tcp_watch_greeting(conn);
    cw_poller_modify(cw_tcp_iface_of(&conn->super)->poller, &conn->item, CW_POLL_READ);
    return 1;
}

int cw_tcp_dial_next(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface       = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_greeting *greeting = conn->greeting;
    struct cw_net_options options    = iface->settings.socket;
    int connected, fd;

    options.source = (greeting->source.family != CW_NET_NONE) ? &greeting->source : NULL;
    while (greeting->next < greeting->num_candidates) {
        if (greeting->next + 1 == greeting->num_candidates) {
            options.syn_retries = iface->settings.last_syn_retries;
        }
        fd = cw_net_connect(&greeting->candidates[greeting->next], &options, &connected);
        if (fd < 0) {
            attempt_failed(conn, error_status(greeting, -fd), strerror(-fd));
            continue;
        }
        conn->item.fd = fd;
        conn->state   = CW_TCP_CONNECTING;
        if (cw_poller_add(iface->poller, &conn->item, CW_POLL_WRITE) != UCS_OK) {
            attempt_failed(conn, UCS_ERR_NO_MEMORY, "its socket cannot be watched");
            continue;
        }
        if (!connected || greet(conn)) {
            return 1;
        }
    }
    conn->state = CW_TCP_CLOSED;
    return 0;
}

unsigned cw_tcp_dial_failed(struct cw_tcp_conn *conn)
{
    const ucs_status_t status = conn->greeting->status;

    if (conn->first != NULL) {
        cw_tcp_rails_leave(conn);
        return 0;
    }
    free(conn->greeting);
    conn->greeting = NULL;
    conn->broken   = status;
    conn->super.iface->upcalls->opened(&conn->super, status, NULL, 0);
    return 1;
}

static unsigned next_or_fail(struct cw_tcp_conn *conn)
{
    return cw_tcp_dial_next(conn) ? 0 : cw_tcp_dial_failed(conn);
}

/* The acceptor's answer is complete. */
static unsigned answered(struct cw_tcp_conn *conn, const struct cw_tcp_greeting_header *header)
{
    const struct cw_upcalls *upcalls = conn->super.iface->upcalls;
    struct cw_tcp_greeting *greeting = conn->greeting;
    const uint8_t *reply             = greeting->in + CW_TCP_GREETING_SIZE;
    const size_t pass_length         = (header->kind == CW_TCP_ACCEPTED_PASS) ? CW_TCP_PASS_SIZE : 0;

    if (pass_length > 0) {
        cw_tcp_rails_take(conn, reply);
    }
    conn->greeting = NULL;
    cw_tcp_watch_greeted(conn);
    if (header->kind == CW_TCP_JOINED) {
        cw_tcp_conn_open(conn);
        cw_tcp_watch_joined(conn);
    } else if (header->kind != CW_TCP_REFUSED) {
        cw_tcp_conn_open(conn);
        upcalls->opened(&conn->super, UCS_OK, reply + pass_length, header->length - pass_length);
    } else {
        cw_tcp_conn_drop_fd(conn);
        conn->state  = CW_TCP_CLOSED;
        conn->broken = UCS_ERR_REJECTED;
        upcalls->opened(&conn->super, UCS_ERR_REJECTED, reply, header->length);
    }
    free(greeting);
    cw_tcp_tx_update_interest(conn); /* somebody may have tried to send before: `room` comes by the poller */
    return 1;
}

/* Whether this can be the answer to what we said. */
static int fits(const struct cw_tcp_conn *conn, const struct cw_tcp_greeting_header *header)
{
    if (header->key != conn->greeting->key) {
        return 0;
    }
    switch (header->kind) {
    case CW_TCP_ACCEPTED:
    case CW_TCP_REFUSED:
        return conn->first == NULL && header->length <= CW_HELLO_MAX;
    case CW_TCP_ACCEPTED_PASS:
        return conn->first == NULL && conn->greeting->wants_pass && header->length >= CW_TCP_PASS_SIZE;
    default:
        return conn->first != NULL && header->kind == CW_TCP_JOINED && header->length == 0;
    }
}

/* Before the greeting, or the other side demands that there is something before it. */
static unsigned agree(struct cw_tcp_conn *conn)
{
    ucs_status_t status;
    int done;
    const char *wrong = cw_tcp_agree_dialled(conn, &done, &status);

    if (wrong != NULL) {
        disagreed(conn, status, wrong);
        return next_or_fail(conn);
    }
    return (!done || send_greeting(conn)) ? 0 : next_or_fail(conn);
}

unsigned cw_tcp_dial_ready(struct cw_tcp_conn *conn)
{
    struct cw_tcp_greeting *greeting = conn->greeting;
    struct cw_tcp_greeting_header header;
    const char *wrong;
    int ret;

    if (conn->state == CW_TCP_CONNECTING) {
        ret = cw_net_connect_result(conn->item.fd);
        if (ret == -EINPROGRESS) {
            return 0;
        }
        if (ret < 0) {
            attempt_failed(conn, error_status(greeting, -ret), strerror(-ret));
        }
        return (ret == 0 && greet(conn)) ? 0 : next_or_fail(conn);
    }
    if (!cw_tcp_agreed(conn)) {
        return agree(conn);
    }
    ret = cw_tcp_greeting_read(conn, CW_TCP_GREETING_SIZE);
    if (ret > 0) {
        wrong = cw_tcp_greeting_decode(greeting->in, CW_TCP_PASS_SIZE + CW_HELLO_MAX, &header);
        if (wrong == NULL && header.kind == CW_TCP_UNSUITED && greeting->phase == 0) {
            return agree(conn);
        }
        if (wrong == NULL && !fits(conn, &header)) {
            wrong = "its greeting is malformed";
        }
        if (wrong != NULL) {
            attempt_failed(conn, UCS_ERR_UNREACHABLE, wrong);
            return next_or_fail(conn);
        }
        ret = cw_tcp_greeting_read(conn, CW_TCP_GREETING_SIZE + header.length);
    }
    if (ret == -EBADMSG && cw_tcp_iface_of(&conn->super)->guarding->protection == CW_TCP_TLS_CERT) {
        disagreed(conn, UCS_ERR_REJECTED, cw_tcp_guard_reason(conn, ret)); /* our certificate was looked at last */
        return next_or_fail(conn);
    }
    if (ret < 0) {
        attempt_failed(conn, cw_tcp_end_status(ret),
                       (ret == -EPIPE) ? "it closed the connection without an answer" :
                       cw_tcp_guard_reason(conn, ret));
        return next_or_fail(conn);
    }
    return (ret == 0) ? 0 : answered(conn, &header);
}

ucs_status_t cw_tcp_dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_net_address candidates[CW_TCP_MAX_CANDIDATES];
    struct cw_tcp_greeting *greeting;
    struct cw_tcp_address peer;
    struct cw_tcp_conn *conn;
    unsigned num_candidates = 0;
    const char *why         = cw_tcp_address_decode(address, address_length, &peer);

    if (hello_length > CW_HELLO_MAX) {
        return UCS_ERR_INVALID_PARAM;
    }
    if (why == NULL) {
        num_candidates = cw_tcp_candidates(&iface->local, &peer, candidates, &why);
    }
    if (num_candidates == 0) {
        cw_log(iface->settings.failure_level, "cannot connect to a peer by TCP: %s", why);
        return UCS_ERR_UNREACHABLE;
    }
    conn = cw_tcp_conn_new(iface, CW_TCP_CONNECTING, -1);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    greeting                 = conn->greeting;
    greeting->num_candidates = num_candidates;
    greeting->key            = peer.key;
    greeting->out_length     = CW_TCP_GREETING_SIZE + hello_length;
    memcpy(greeting->candidates, candidates, num_candidates * sizeof(candidates[0]));
    greeting->wants_pass     = iface->settings.num_joined > 0 &&
                           (iface->settings.joins_on_loopback || !cw_net_is_loopback(&candidates[0]));
    cw_tcp_greeting_encode(greeting->out, greeting->wants_pass ? CW_TCP_HELLO_PASS : CW_TCP_HELLO, hello_length,
                           peer.key);
    if (hello_length > 0) {
        memcpy(greeting->out + CW_TCP_GREETING_SIZE, hello, hello_length);
    }
    conn->super.user = user;
    *conn_p          = &conn->super;
    if (!cw_tcp_dial_next(conn)) {
        cw_list_add_tail(&iface->pending, &conn->link);
    }
    return UCS_OK;
}
