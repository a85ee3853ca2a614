/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a transport with no more than it must have. Both ends of a connection belong to one
 * interface. Each end has a box with room for one letter, which the other end fills and progress empties. */
#include <stdlib.h>
#include <string.h>

#include "mailbox_transport.h"

enum { MAX_PACKET = 8192 };

struct mailbox_conn {
    struct cw_conn super;
    struct mailbox_conn *next; /* in the list of the interface */
    struct mailbox_conn *peer; /* NULL: not accepted yet, or closed by the other end */
    enum { OPEN, DIALLED, OVER } state;
    int full, blocked; /* the box has a letter; a send was answered by CW_AGAIN */
    uint8_t id;        /* of the letter */
    size_t length;
    char box[MAX_PACKET]; /* DIALLED: the hello for the other end */
};

struct mailbox_iface {
    struct cw_iface super;
    struct mailbox_conn *conns;
};

static struct mailbox_iface *iface_of(struct cw_iface *super)
{
    return cw_container_of(super, struct mailbox_iface, super);
}

static struct mailbox_conn *conn_new(struct cw_iface *super, struct mailbox_conn *peer, void *user)
{
    struct mailbox_conn *conn = malloc(sizeof(*conn));

    if (conn != NULL) {
        *conn = (struct mailbox_conn){.super = {.iface = super, .user = user}, .peer = peer};
        conn->next = iface_of(super)->conns;
        iface_of(super)->conns = conn;
    }
    return conn;
}

static void close_conn(struct cw_conn *super)
{
    struct mailbox_conn *conn = cw_container_of(super, struct mailbox_conn, super);
    struct mailbox_conn **at = &iface_of(super->iface)->conns;

    while (*at != conn) {
        at = &(*at)->next;
    }
    *at = conn->next;
    if (conn->peer != NULL) {
        conn->peer->peer = NULL;
        cw_iface_wake(super->iface);
    }
    free(conn);
}

static ucs_status_t dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    const int is_here = cw_iface_is_own(super, address, address_length);
    struct mailbox_conn *conn = is_here ? conn_new(super, NULL, user) : NULL;

    if (conn == NULL) {
        return is_here ? UCS_ERR_NO_MEMORY : UCS_ERR_UNREACHABLE;
    }
    memcpy(conn->box, hello, hello_length);
    conn->length = hello_length;
    conn->full = 1;
    conn->state = DIALLED;
    *conn_p = &conn->super;
    cw_iface_wake(super);
    return UCS_OK;
}

/* The box is full of the hello meanwhile, so what the core sends inside `accept` comes behind `opened`. */
static void send_hello(struct mailbox_conn *dialler)
{
    struct mailbox_conn *acceptor = conn_new(dialler->super.iface, dialler, NULL);
    struct cw_conn *super = (acceptor != NULL) ? &acceptor->super : NULL;

    dialler->peer = acceptor;
    dialler->state = (cw_conn_introduce(&dialler->super, super, dialler->box, dialler->length) == UCS_OK) ? OPEN : OVER;
    if (dialler->state == OVER && acceptor != NULL) {
        close_conn(super);
    }
}

static ucs_status_t send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct mailbox_conn *conn = cw_container_of(super, struct mailbox_conn, super);

    if (conn->peer == NULL) {
        return UCS_ERR_CONNECTION_RESET;
    }
    if (conn->peer->full) {
        conn->blocked = 1;
        return CW_AGAIN;
    }
    conn->peer->full = 1;
    conn->peer->id = id;
    conn->peer->length = pack(conn->peer->box, max, arg);
    cw_iface_wake(super->iface);
    return UCS_OK;
}

/* Each connection has one event in a round: what is in its box, or else its end. */
static unsigned progress(struct cw_iface *super)
{
    struct mailbox_conn *conn;
    unsigned count = 0;

    super->woken = 0;
    for (conn = iface_of(super)->conns; conn != NULL; conn = conn->next) {
        if (conn->full && conn->state == DIALLED) {
            send_hello(conn);
        } else if (conn->full) {
            super->upcalls->packet(&conn->super, conn->id, conn->box, conn->length);
        } else if (conn->state == OPEN && conn->peer == NULL) {
            conn->state = OVER;
            super->upcalls->closed(&conn->super, UCS_ERR_CONNECTION_RESET);
        } else {
            continue;
        }
        conn->full = 0;
        count++;
        if (conn->peer != NULL && conn->peer->blocked) {
            conn->peer->blocked = 0;
            super->upcalls->space(&conn->peer->super);
        }
    }
    return count;
}

static const struct cw_transport_connect connect_group = {.dial = dial, .close_conn = close_conn};
static const struct cw_transport_packets packets_group = {.send_bcopy = send_bcopy};

const struct cw_transport cw_mailbox_transport = {
    .name = "mailbox",
    .wire_id = 251,
    .device_class = CW_DEVICE_SELF,
    .iface_size = sizeof(struct mailbox_iface),
    .limits = {.max_bcopy = MAX_PACKET, .bandwidth_bps = 1e9},
    .connect = &connect_group,
    .packets = &packets_group,
    .progress = progress,
};
