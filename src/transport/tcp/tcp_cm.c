/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections by socket address (docs/change/client-server.md): listeners of the program, connections to them, and
 * connections that wait for the program's answer. The key of their handshakes is 0, which distinguishes them from
 * handshakes for a worker.
 */
#include "transport/tcp/tcp_filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define MAX_REFUSE_ROUNDS 256

static unsigned listening_ready(struct cw_poll_item *item, unsigned events CW_UNUSED)
{
    struct cw_listening *listening = cw_container_of(item, struct cw_listening, item);

    cw_tcp_accept(listening->iface, listening, item->fd);
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
        cw_error("cannot listen on %s: %s%s", text, strerror(-fd),
                 (fd == -EADDRNOTAVAIL) ? "; the address must be one of this machine, or the wildcard"
                 : (fd == -EMFILE)      ? "; raise the limit of open files (ulimit -n)"
                                        : "");
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
static void refuse(struct cw_tcp_conn *conn)
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
        cw_tcp_accept(iface, listening, listening->item.fd);
        cw_list_for_each_safe(conn, next, &iface->unauth, struct cw_tcp_conn, link)
        {
            if (conn->listening == listening) {
                refuse(conn);
                refused++;
            }
        }
    } while (refused > 0 && ++rounds < MAX_REFUSE_ROUNDS);
    cw_poller_remove(iface->poller, &listening->item);
    cw_net_unlisten(listening->item.fd);
    cw_list_remove(&listening->link);
    free(listening);
}

void cw_tcp_cm_pause(struct cw_tcp_iface *iface)
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

int cw_tcp_cm_resume(struct cw_tcp_iface *iface)
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

bool cw_tcp_cm_requested(struct cw_tcp_conn *conn, size_t hello_length)
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
