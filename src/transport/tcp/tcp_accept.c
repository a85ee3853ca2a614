/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening sockets, the iface's own and those of the program, and unauthenticated peers: connections that were
 * accepted and have not sent a valid hello yet. Unauthenticated peers are bounded in number, bytes and time, and each
 * costs at most one rate-limited log line. A refused one does not count as progress, so that a program's drain loop
 * ends even while unauthenticated peers keep connecting. Out of descriptors, accepting pauses (connections wait in the
 * kernel's backlog) until a descriptor of this worker is closed or a delay has passed.
 *
 * The key of handshakes at a listener of the program is 0, which distinguishes them from handshakes for a worker
 * (docs/change/client-server.md).
 */
#include "transport/tcp/tcp.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "os/clock.h"
#include "os/env.h"

#define ACCEPTS_PER_EVENT   16
#define ACCEPT_PAUSE_NS     UINT64_C(100000000)
#define MAX_REFUSE_ROUNDS   256
#define UNAUTH_GRACE_NS   UINT64_C(1000000000) /* an unauthenticated peer younger than this is not dropped when
                                                  * descriptors run out */

/* Accepting at the listeners of the program pauses and resumes together with that of the iface itself. */
static void pause_listeners(struct cw_tcp_iface *iface)
{
    struct cw_listening *listening;

    cw_list_for_each(listening, &iface->listenings, struct cw_listening, link)
    {
        if (!listening->paused) {
            cw_poller_remove(iface->poller, &listening->item);
            listening->paused = 1;
        }
    }
}

/* 0: some are still paused. */
static int resume_listeners(struct cw_tcp_iface *iface)
{
    struct cw_listening *listening;

    cw_list_for_each(listening, &iface->listenings, struct cw_listening, link)
    {
        if (listening->paused && cw_poller_add(iface->poller, &listening->item, CW_POLL_READ) != UCS_OK) {
            return 0;
        }
        listening->paused = 0;
    }
    return 1;
}

/* An unauthenticated peer at a listener of the program has sent its hello. */
static bool request(struct cw_tcp_conn *conn, size_t hello_length)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_listening *listening = conn->listening;

    cw_poller_remove(iface->poller, &conn->item);
    cw_poller_alarm_cancel(iface->poller, &conn->handshake->alarm);
    cw_tcp_filter_leave(conn);
    cw_tcp_conn_leave(conn);
    conn->listening = NULL;
    conn->state = CW_TCP_REQUESTED;
    return iface->super.upcalls->requested(listening->user, &conn->super, conn->handshake->in + CW_TCP_HANDSHAKE_SIZE,
                                           hello_length);
}

static void drop_unauth(struct cw_tcp_conn *conn, enum cw_log_level level, const char *reason)
{
    static struct cw_log_limit limit;
    char peer[CW_NET_TEXT_MAX];

    cw_net_peer_text(conn->item.fd, peer);
    cw_log_ratelimited(&limit, level, "dropped a TCP connection from %s: %s", peer, reason);
    if (conn->handshake->said_no) {
        conn->listening = NULL;
        cw_tcp_conn_linger(conn);
        return;
    }
    cw_tcp_conn_free(conn);
}

static struct cw_tcp_conn *oldest_unauth(struct cw_tcp_iface *iface)
{
    return cw_list_empty(&iface->unauth) ? NULL : cw_list_head(&iface->unauth, struct cw_tcp_conn, link);
}

unsigned cw_tcp_unauth_expire(struct cw_alarm *alarm)
{
    struct cw_tcp_iface *iface = cw_container_of(alarm, struct cw_tcp_iface, hello_deadline);
    const uint64_t now_ns = cw_clock_ns();
    struct cw_tcp_conn *conn;

    while ((conn = oldest_unauth(iface)) != NULL && conn->handshake->deadline_ns <= now_ns) {
        drop_unauth(conn, CW_LOG_WARN, "it did not send a handshake in time");
    }
    if (conn != NULL) {
        cw_poller_alarm_set(iface->poller, alarm, conn->handshake->deadline_ns);
    }
    return 0;
}

void cw_tcp_accept_resume(struct cw_tcp_iface *iface)
{
    if (!iface->paused) {
        return;
    }
    if (resume_listeners(iface) &&
        (iface->listener.fd < 0 || cw_poller_add(iface->poller, &iface->listener, CW_POLL_READ) == UCS_OK)) {
        iface->paused = 0;
        cw_poller_alarm_cancel(iface->poller, &iface->accept_again);
    } else {
        cw_poller_alarm_set(iface->poller, &iface->accept_again, cw_clock_ns() + ACCEPT_PAUSE_NS);
    }
}

unsigned cw_tcp_accept_again(struct cw_alarm *alarm)
{
    cw_tcp_accept_resume(cw_container_of(alarm, struct cw_tcp_iface, accept_again));
    return 0;
}

/* Whether the error is a shortage that dropping another connection may relieve. */
static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == ENOSPC;
}

static const char *remedy(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return "; raise the limit of open files (ulimit -n)";
    case EPERM:
    case EACCES:
    case ENOSYS:
        return "; allow the system call accept4";
    default:
        return "";
    }
}

/* True if a retry may succeed at once. */
static int accept_failed(struct cw_tcp_iface *iface, int error, uint64_t now_ns)
{
    struct cw_tcp_conn *oldest = oldest_unauth(iface);

    if (oldest != NULL && is_shortage(error) &&
        oldest->handshake->deadline_ns - CW_TCP_HELLO_TIMEOUT_NS + UNAUTH_GRACE_NS <= now_ns) {
        drop_unauth(oldest, CW_LOG_WARN, "it sent no handshake yet and its descriptor is needed for others");
        return 1;
    }
    if (!iface->shortage_logged) {
        iface->shortage_logged = 1;
        cw_warn("cannot accept a TCP connection: %s; retrying ten times a second%s",
                strerror(error), remedy(error));
    }
    if (!iface->paused && iface->listener.fd >= 0) {
        cw_poller_remove(iface->poller, &iface->listener);
    }
    iface->paused = 1;
    pause_listeners(iface);
    cw_poller_alarm_set(iface->poller, &iface->accept_again, now_ns + ACCEPT_PAUSE_NS);
    return 0;
}

/* Returns 0, or an errno value if the new connection cannot be added. */
static int add_unauth(struct cw_tcp_iface *iface, struct cw_listening *listening, int fd, uint64_t now_ns)
{
    struct cw_tcp_conn *conn;

    if (iface->num_unauth == CW_TCP_MAX_UNAUTH) {
        drop_unauth(oldest_unauth(iface), CW_LOG_WARN,
                    "it sent no handshake yet and too many connections without one are open");
    }
    conn = cw_tcp_conn_new(iface, CW_TCP_UNAUTH, fd);
    if (conn == NULL) {
        cw_net_close(fd);
        return ENOMEM;
    }
    if (cw_poller_add(iface->poller, &conn->item, CW_POLL_READ) != UCS_OK) {
        cw_tcp_conn_free(conn);
        return ENOSPC;
    }
    conn->listening = listening;
    conn->handshake->deadline_ns = now_ns + CW_TCP_HELLO_TIMEOUT_NS;
    cw_list_add_tail(&iface->unauth, &conn->link);
    if (iface->num_unauth++ == 0) {
        cw_poller_alarm_set(iface->poller, &iface->hello_deadline, conn->handshake->deadline_ns);
    }
    return 0;
}

/* Accepts pending connections at a listening socket: the iface's own (NULL) or one of the program's. */
static void accept_all(struct cw_tcp_iface *iface, struct cw_listening *listening, int listener)
{
    const uint64_t now_ns = cw_clock_ns();
    int i, fd, error;

    for (i = 0; i < ACCEPTS_PER_EVENT; i++) {
        fd = cw_net_accept(listener);
        if (fd == -EAGAIN) {
            break;
        }
        error = (fd < 0) ? -fd : add_unauth(iface, listening, fd, now_ns);
        if (error == 0) {
            iface->shortage_logged = 0;
        }
        if (error != 0 && !accept_failed(iface, error, now_ns)) {
            break;
        }
    }
}

static unsigned listener_ready(struct cw_poll_item *item, unsigned events CW_UNUSED)
{
    struct cw_tcp_iface *iface = cw_container_of(item, struct cw_tcp_iface, listener);

    accept_all(iface, NULL, iface->listener.fd);
    return 0;
}

static unsigned welcome(struct cw_tcp_conn *conn, size_t hello_length)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_handshake *handshake = conn->handshake;
    uint8_t reply[CW_HELLO_MAX];
    size_t reply_length = CW_HELLO_MAX;
    enum cw_tcp_handshake_kind kind = CW_TCP_REFUSED;
    ucs_status_t status;

    status = iface->super.upcalls->accept(iface->super.owner, &conn->super, handshake->in + CW_TCP_HANDSHAKE_SIZE,
                                          hello_length, reply, &reply_length);
    if (status == UCS_OK) {
        kind = CW_TCP_ACCEPTED;
        cw_tcp_conn_open(conn);
    }
    memcpy(handshake->out + CW_TCP_HANDSHAKE_SIZE, reply, reply_length);
    cw_tcp_handshake_encode(handshake->out, kind, reply_length, iface->key);
    cw_tcp_send_raw(conn, handshake->out, CW_TCP_HANDSHAKE_SIZE + reply_length);
    if (status != UCS_OK) {
        cw_tcp_conn_linger(conn);
        return 0;
    }
    cw_tcp_handshake_free(conn);
    cw_tcp_tx_update_interest(conn);
    return 1;
}

/* NULL, or the error. */
static const char *check_header(const struct cw_tcp_conn *conn, const struct cw_tcp_handshake_header *header)
{
    if (conn->listening != NULL) {
        return (header->kind == CW_TCP_HELLO && header->key == 0) ? NULL :
               "it connects to a worker, but this is a listener";
    }
    if (header->kind != CW_TCP_HELLO) {
        return "its handshake is malformed";
    }
    return (header->key == cw_tcp_iface_of(&conn->super)->key) ? NULL :
           "it connects to another worker, which used this port before";
}

static unsigned rest_expired(struct cw_alarm *alarm)
{
    drop_unauth(cw_container_of(alarm, struct cw_tcp_handshake, alarm)->conn, CW_LOG_WARN,
                "its handshake is incomplete");
    return 0;
}

/* Waits for the rest of the hello. */
static unsigned await_rest(struct cw_tcp_conn *conn)
{
    cw_tcp_handshake_await_rest(conn, rest_expired);
    return 0;
}

unsigned cw_tcp_unauth_ready(struct cw_tcp_conn *conn)
{
    struct cw_tcp_iface *iface = cw_tcp_iface_of(&conn->super);
    struct cw_tcp_handshake *handshake = conn->handshake;
    const char *wrong = NULL;
    struct cw_tcp_handshake_header header;
    int ret, agreed;

    if (!cw_tcp_tx_reserve(iface)) {
        return 0; /* no memory for the reply; the hello stays in the kernel */
    }
    if (!cw_tcp_agreed(conn)) {
        wrong = cw_tcp_agree_accepted(conn, &agreed);
        if (wrong != NULL) {
            drop_unauth(conn, cw_tcp_agree_was_left(conn, wrong) ? CW_LOG_DIAG : CW_LOG_WARN, wrong);
            return 0;
        }
        (void)await_rest(conn);
        if (!agreed) {
            return 0;
        }
    }
    ret = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE);
    if (!cw_tcp_handshake_plausible(handshake->in, handshake->have)) {
        wrong = "it does not speak this protocol";
    } else if (ret > 0) {
        wrong = cw_tcp_handshake_decode(handshake->in, CW_HELLO_MAX, &header);
        if (wrong == NULL && header.kind == CW_TCP_OFFER && handshake->phase == 0) {
            wrong = cw_tcp_agree_accepted(conn, &agreed); /* the dialler offers protection, and this worker uses none */
            if (wrong == NULL) {
                return 0;
            }
        }
        wrong = (wrong == NULL) ? check_header(conn, &header) : wrong;
        if (wrong == NULL) {
            ret = cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE + header.length);
        }
    }
    if (wrong != NULL) {
        drop_unauth(conn, CW_LOG_WARN, wrong);
        return 0;
    }
    if (ret < 0) {
        drop_unauth(conn, CW_LOG_DIAG, "it closed the connection before its handshake was complete");
        return 0;
    }
    if (ret > 0 && conn->listening != NULL) {
        return request(conn, header.length) ? 1 : 0;
    }
    return (ret == 0) ? await_rest(conn) : welcome(conn, header.length);
}

/* Tries the suitable addresses, best first. Returns a descriptor or -errno. */
static int listen_on_port(struct cw_tcp_iface *iface, uint16_t port, uint16_t *port_p, unsigned *listens_p)
{
    const struct cw_tcp_settings *settings = &iface->settings;
    const struct cw_tcp_local *local = &iface->local;
    struct cw_net_address address = {.family = CW_NET_IPV6, .port = port};
    const int only_loopback = local->num_hosts == 0;
    int fd = -EAFNOSUPPORT;

    if (only_loopback && (local->loopback & CW_TCP_LISTENS_IPV4)) {
        address.family = CW_NET_IPV4;
        address.bytes[0] = 127;
        address.bytes[3] = 1;
        *listens_p = CW_TCP_LISTENS_IPV4;
        return cw_net_listen(&address, settings->port_first != 0, &settings->socket, port_p);
    }
    if (settings->use_ipv6) {
        address.bytes[15] = only_loopback ? 1 : 0;
        *listens_p = CW_TCP_LISTENS_IPV6 | ((only_loopback || !settings->use_ipv4) ? 0 : CW_TCP_LISTENS_IPV4);
        fd = cw_net_listen(&address, settings->port_first != 0, &settings->socket, port_p);
    }
    if (settings->use_ipv4 && !only_loopback && fd < 0 && fd != -EADDRINUSE && fd != -EMFILE) {
        address = (struct cw_net_address){.family = CW_NET_IPV4, .port = port};
        *listens_p = CW_TCP_LISTENS_IPV4;
        fd = cw_net_listen(&address, settings->port_first != 0, &settings->socket, port_p);
    }
    return fd;
}

static const char *remedy_of_listen(int error, bool of_range)
{
    switch (error) {
    case EADDRINUSE:
        return of_range ? "; each worker needs one, so widen the range" : "; use another port, or 0 for any";
    case EACCES:
        return of_range ? "; this user cannot bind them, use ports from 1024 on"
                        : "; this user cannot bind it, use a port from 1024 on";
    case EADDRNOTAVAIL:
        return "; the address must be one of this machine, or the wildcard";
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    default:
        return "";
    }
}

/* `error` is that of the last port tried. */
static void complain(const struct cw_tcp_settings *settings, int error)
{
    char range[64] = "";

    if (settings->port_first != 0 && settings->port_first == settings->port_last) {
        (void)snprintf(range, sizeof(range), " on the port of UCX_TCP_PORT_RANGE=%u", settings->port_first);
    } else if (settings->port_first != 0) {
        (void)snprintf(range, sizeof(range), " on any port of UCX_TCP_PORT_RANGE=%u-%u", settings->port_first,
                       settings->port_last);
    }
    cw_error("cannot listen for TCP connections%s: %s%s", range, strerror(error),
             remedy_of_listen(error, range[0] != '\0'));
}

ucs_status_t cw_tcp_listen(struct cw_tcp_iface *iface, uint16_t *port_p, unsigned *listens_p)
{
    const unsigned first = iface->settings.port_first;
    const unsigned count = (first == 0) ? 1 : iface->settings.port_last - first + 1;
    const unsigned start = (unsigned)(cw_hash_mix(iface->key ^ ((uint64_t)cw_env_pid() << 32)) % count);
    int fd = -EADDRINUSE;
    ucs_status_t status;
    unsigned i;

    for (i = 0; i < count && (fd == -EADDRINUSE || fd == -EACCES); i++) {
        fd = listen_on_port(iface, (uint16_t)(first + (start + i) % count), port_p, listens_p);
    }
    if (fd < 0) {
        complain(&iface->settings, -fd);
        return (fd == -EADDRINUSE && first != 0) ? UCS_ERR_BUSY : UCS_ERR_IO_ERROR;
    }
    iface->listener.fd = fd;
    iface->listener.ready = listener_ready;
    status = cw_poller_add(iface->poller, &iface->listener, CW_POLL_READ);
    if (status != UCS_OK) {
        cw_net_close(fd);
        iface->listener.fd = -1;
    }
    return status;
}

void cw_tcp_listen_end(struct cw_tcp_iface *iface)
{
    struct cw_tcp_conn *conn;
    const int fd = iface->listener.fd;

    if (fd >= 0) {
        if (!iface->paused) {
            cw_poller_remove(iface->poller, &iface->listener);
        }
        iface->listener.fd = -1;
        cw_net_unlisten(fd);
    }
    iface->paused = 0; /* freeing descriptors must not resume accepting */
    while ((conn = oldest_unauth(iface)) != NULL) {
        cw_tcp_conn_free(conn);
    }
}

/* ---- connections by socket address ---- */

static unsigned listening_ready(struct cw_poll_item *item, unsigned events CW_UNUSED)
{
    struct cw_listening *listening = cw_container_of(item, struct cw_listening, item);

    accept_all(listening->iface, listening, item->fd);
    return 0;
}

ucs_status_t cw_tcp_cm_listen(struct cw_iface *super, struct cw_net_address *address, int backlog, void *user,
                              struct cw_listening **listening_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_net_options options = iface->settings.socket;
    struct cw_listening *listening = malloc(sizeof(*listening));
    char text[CW_NET_TEXT_MAX];
    int fd;

    if (listening == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    options.backlog = backlog;
    options.user_timeout_ms = iface->settings.cm_user_timeout_ms;
    cw_net_format(address, text);
    fd = cw_net_listen(address, 1, &options, &address->port);
    if (fd < 0) {
        cw_error("cannot listen on %s: %s%s", text, strerror(-fd), remedy_of_listen(-fd, false));
        free(listening);
        return (fd == -EADDRINUSE) ? UCS_ERR_BUSY : UCS_ERR_IO_ERROR;
    }
    *listening = (struct cw_listening){.item = {.fd = fd, .ready = listening_ready}, .iface = iface, .user = user};
    if (cw_poller_add(iface->poller, &listening->item, CW_POLL_READ) != UCS_OK) {
        cw_net_close(fd);
        free(listening);
        return UCS_ERR_NO_MEMORY;
    }
    cw_list_add_tail(&iface->listenings, &listening->link);
    *listening_p = listening;
    return UCS_OK;
}

/* Refuses an unauthenticated peer that was not handled yet. Reads its hello first, if it has arrived, because close(2)
 * with unread bytes sends a reset, which destroys the answer. */
static void refuse_unread(struct cw_tcp_conn *conn)
{
    struct cw_tcp_handshake *handshake = conn->handshake;

    conn->listening = NULL;
    if ((!cw_tcp_agreed(conn) && conn->filter != NULL) || !cw_tcp_tx_reserve(cw_tcp_iface_of(&conn->super)) ||
        cw_tcp_handshake_read(conn, CW_TCP_HANDSHAKE_SIZE) < 0 ||
        !cw_tcp_handshake_plausible(handshake->in, handshake->have)) {
        cw_tcp_conn_free(conn);
        return;
    }
    cw_net_discard(conn->item.fd, CW_HELLO_MAX);
    cw_tcp_handshake_encode(handshake->out, CW_TCP_REFUSED, 0, 0);
    cw_tcp_send_raw(conn, handshake->out, CW_TCP_HANDSHAKE_SIZE);
    cw_tcp_conn_linger(conn);
}

void cw_tcp_cm_listen_end(struct cw_listening *listening)
{
    struct cw_tcp_iface *iface = listening->iface;
    struct cw_tcp_conn *conn, *next;
    unsigned refused, rounds = 0;

    do { /* also those in the kernel's backlog */
        refused = 0;
        accept_all(iface, listening, listening->item.fd);
        cw_list_for_each_safe(conn, next, &iface->unauth, struct cw_tcp_conn, link)
        {
            if (conn->listening == listening) {
                refuse_unread(conn);
                refused++;
            }
        }
    } while (refused > 0 && ++rounds < MAX_REFUSE_ROUNDS);
    cw_poller_remove(iface->poller, &listening->item);
    cw_net_unlisten(listening->item.fd);
    cw_list_remove(&listening->link);
    free(listening);
}

/* Frees a connection that is in no list or poller of an iface. */
static void drop_requested(struct cw_tcp_conn *conn)
{
    cw_tcp_filter_free(conn);
    cw_net_close(conn->item.fd);
    free(conn->handshake);
    free(conn->super.end);
    free(conn);
}

ucs_status_t cw_tcp_cm_answer(struct cw_conn *super, struct cw_iface *to, int accepted, const void *reply,
                              size_t reply_length)
{
    struct cw_tcp_iface *iface = (to == NULL) ? NULL : cw_container_of(to, struct cw_tcp_iface, super);
    struct cw_tcp_conn *conn = cw_tcp_conn_of(super);
    struct cw_tcp_handshake *handshake = conn->handshake;

    if (iface == NULL || !cw_tcp_tx_reserve(iface) ||
        cw_poller_add(iface->poller, &conn->item, CW_POLL_READ) != UCS_OK) {
        drop_requested(conn);
        return UCS_ERR_NO_MEMORY;
    }
    super->iface = to;
    cw_tcp_filter_enter(conn);
    if (accepted) {
        cw_tcp_conn_open(conn);
    }
    cw_tcp_handshake_encode(handshake->out, accepted ? CW_TCP_ACCEPTED : CW_TCP_REFUSED, reply_length, 0);
    memcpy(handshake->out + CW_TCP_HANDSHAKE_SIZE, reply, reply_length);
    cw_tcp_send_raw(conn, handshake->out, CW_TCP_HANDSHAKE_SIZE + reply_length);
    if (!accepted) {
        cw_tcp_conn_linger(conn);
        return UCS_OK;
    }
    cw_tcp_handshake_release(iface, handshake);
    conn->handshake = NULL;
    cw_tcp_tx_update_interest(conn);
    return UCS_OK;
}

ucs_status_t cw_tcp_cm_dial(struct cw_iface *super, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p)
{
    struct cw_tcp_iface *iface = cw_container_of(super, struct cw_tcp_iface, super);
    struct cw_tcp_conn *conn = cw_tcp_conn_new(iface, CW_TCP_CONNECTING, -1);
    struct cw_tcp_handshake *handshake;

    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    handshake = conn->handshake;
    handshake->num_candidates = 1;
    handshake->candidates[0] = *address;
    handshake->is_cm = 1;
    if (source != NULL) {
        handshake->source = *source;
    }
    *conn_p = &conn->super;
    cw_tcp_dial_begin(conn, 0, hello, hello_length, user);
    return UCS_OK;
}

int cw_tcp_cm_carries(struct cw_conn *super, struct cw_iface *by)
{
    const struct cw_tcp_iface *iface = cw_container_of(by, struct cw_tcp_iface, super);
    struct cw_net_address local, peer;

    if (iface->address_length == 0) {
        return 0;
    }
    cw_net_ends(cw_tcp_conn_of(super)->item.fd, &local, &peer);
    return cw_tcp_allows(&iface->settings, &local);
}

void cw_tcp_cm_ends(struct cw_conn *super, struct cw_net_address *local, struct cw_net_address *peer)
{
    cw_net_ends(cw_tcp_conn_of(super)->item.fd, local, peer);
}
