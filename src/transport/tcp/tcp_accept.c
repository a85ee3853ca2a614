/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The listening socket, and unauthenticated peers: connections that were accepted and have not sent a valid hello yet.
 * Unauthenticated peers are bounded in number, bytes and time, and each costs at most one rate-limited log line. A
 * refused one does not count as progress, so that a program's drain loop ends even while unauthenticated peers keep
 * connecting. Out of descriptors, accepting pauses (connections wait in the kernel's backlog) until a descriptor of
 * this worker is closed or a delay has passed.
 */
#include "transport/tcp/tcp_filter.h"

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
#define UNAUTH_GRACE_NS   UINT64_C(1000000000) /* an unauthenticated peer younger than this is not dropped when
                                                  * descriptors run out */

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
    if (cw_tcp_cm_resume(iface) &&
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
static int is_shortage(int error)
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
        return "; let the process call accept4";
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
        cw_warn("cannot accept a TCP connection: %s; callers wait, and it is tried again ten times a second%s",
                strerror(error), remedy(error));
    }
    if (!iface->paused && iface->listener.fd >= 0) {
        cw_poller_remove(iface->poller, &iface->listener);
    }
    iface->paused = 1;
    cw_tcp_cm_pause(iface);
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

void cw_tcp_accept(struct cw_tcp_iface *iface, struct cw_listening *listening, int listener)
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

    cw_tcp_accept(iface, NULL, iface->listener.fd);
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
               "it looks for a worker, and this is a listener of a program";
    }
    if (header->kind != CW_TCP_HELLO) {
        return "its handshake is malformed";
    }
    return (header->key == cw_tcp_iface_of(&conn->super)->key) ? NULL :
           "it looks for another worker, which used this port before";
}

static unsigned rest_expired(struct cw_alarm *alarm)
{
    drop_unauth(cw_container_of(alarm, struct cw_tcp_handshake, alarm)->conn, CW_LOG_WARN,
                "the rest of its handshake does not come");
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
        return cw_tcp_cm_requested(conn, header.length) ? 1 : 0;
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
        return of_range ? "; each worker needs one, so widen the range" : "";
    case EACCES:
        return of_range ? "; this user may not take them, so choose ports from 1024 on" : "";
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
