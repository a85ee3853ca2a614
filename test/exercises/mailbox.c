/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a transport with no more than it must have. Both ends of a connection belong to one
 * interface, and whatever one end has for the other waits in a queue until progress hands it up. */
#include <stdlib.h>
#include <string.h>

#include "mailbox_transport.h"

enum { MAX_PACKET = 8192, MAX_QUEUED = 256 };
enum kind { HELLO, PACKET, CLOSED };

struct letter {
    struct cw_list link;
    struct mailbox_conn *to; /* of a hello: the dialler */
    enum kind kind;
    uint8_t id;
    size_t length;
    char data[];
};

struct mailbox_iface {
    struct cw_iface super;
    struct cw_poller *poller;
    struct cw_list queue, conns;
    unsigned queued;
};

struct mailbox_conn {
    struct cw_conn super;
    struct cw_list link;
    struct mailbox_conn *peer; /* NULL: not accepted yet, or closed by the other end */
    int blocked;
};

static struct mailbox_iface *iface_of(struct cw_iface *super)
{
    return cw_container_of(super, struct mailbox_iface, super);
}

/* A letter with room for `length` bytes at the end of the queue; NULL: no memory. Nobody may be awake. */
static struct letter *post(struct cw_iface *super, struct mailbox_conn *to, enum kind kind, size_t length)
{
    struct mailbox_iface *iface = iface_of(super);
    struct letter *letter       = malloc(sizeof(*letter) + length);

    if (letter != NULL) {
        *letter = (struct letter){.to = to, .kind = kind, .length = length};
        cw_list_add_tail(&iface->queue, &letter->link);
        iface->queued++;
        cw_poller_stir(iface->poller);
    }
    return letter;
}

static void discard(struct mailbox_iface *iface, struct letter *letter)
{
    cw_list_remove(&letter->link);
    iface->queued--;
    free(letter);
}

static struct mailbox_conn *conn_new(struct cw_iface *super, struct mailbox_conn *peer, void *user)
{
    struct mailbox_conn *conn = malloc(sizeof(*conn));

    if (conn != NULL) {
        *conn = (struct mailbox_conn){.super = {.iface = super, .user = user}, .peer = peer};
        cw_list_add_tail(&iface_of(super)->conns, &conn->link);
    }
    return conn;
}

static void close_conn(struct cw_conn *super)
{
    struct mailbox_conn *conn = cw_container_of(super, struct mailbox_conn, super);
    struct letter *letter, *next;

    cw_list_for_each_safe(letter, next, &iface_of(super->iface)->queue, struct letter, link) {
        if (letter->to == conn) {
            discard(iface_of(super->iface), letter);
        }
    }
    if (conn->peer != NULL) {
        conn->peer->peer = NULL;
        (void)post(super->iface, conn->peer, CLOSED, 0); /* a transport for users would make this letter beforehand */
    }
    cw_list_remove(&conn->link);
    free(conn);
}

static ucs_status_t dial(struct cw_iface *super, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct mailbox_conn *conn;
    struct letter *letter;

    if (!cw_iface_is_own(super, address, address_length)) {
        return UCS_ERR_UNREACHABLE;
    }
    conn   = conn_new(super, NULL, user);
    letter = (conn != NULL) ? post(super, conn, HELLO, hello_length) : NULL;
    if (letter == NULL) {
        if (conn != NULL) {
            close_conn(&conn->super);
        }
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(letter->data, hello, hello_length);
    *conn_p = &conn->super;
    return UCS_OK;
}

/* Packets that the core sends inside `accept` stand in the queue, and so come behind `opened`. */
static void greet(struct cw_iface *super, const struct letter *hello)
{
    struct mailbox_conn *acceptor = conn_new(super, hello->to, NULL);
    char reply[CW_HELLO_MAX];
    size_t length       = sizeof(reply);
    ucs_status_t status;

    if (acceptor == NULL) {
        super->upcalls->opened(&hello->to->super, UCS_ERR_NO_MEMORY, NULL, 0);
        return;
    }
    status = super->upcalls->accept(super->owner, &acceptor->super, hello->data, hello->length, reply, &length);
    if (status == UCS_OK) {
        hello->to->peer = acceptor;
    } else {
        acceptor->peer = NULL;
        close_conn(&acceptor->super);
    }
    super->upcalls->opened(&hello->to->super, (status == UCS_OK) ? UCS_OK : UCS_ERR_REJECTED, reply, length);
}

static ucs_status_t send_bcopy(struct cw_conn *super, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct mailbox_conn *conn = cw_container_of(super, struct mailbox_conn, super);
    const int full            = iface_of(super->iface)->queued >= MAX_QUEUED;
    struct letter *letter     = NULL;

    if (conn->peer == NULL) {
        return UCS_ERR_CONNECTION_RESET;
    }
    if (!full) {
        letter = post(super->iface, conn->peer, PACKET, max);
    }
    if (letter == NULL) {
        conn->blocked = 1;
        return CW_AGAIN;
    }
    letter->id     = id;
    letter->length = pack(letter->data, max, arg);
    return UCS_OK;
}

/* No more letters than there were at the beginning, because upcalls write new ones. */
static unsigned progress(struct cw_iface *super)
{
    struct mailbox_iface *iface = iface_of(super);
    struct mailbox_conn *conn, *next;
    unsigned count = 0, end = iface->queued;

    for (; count < end && !cw_list_empty(&iface->queue); count++) {
        struct letter *letter = cw_list_head(&iface->queue, struct letter, link);

        if (letter->kind == HELLO) {
            greet(super, letter);
        } else if (letter->kind == PACKET) {
            super->upcalls->packet(&letter->to->super, letter->id, letter->data, letter->length);
        } else {
            super->upcalls->closed(&letter->to->super, UCS_ERR_CONNECTION_RESET);
        }
        discard(iface, letter);
    }
    cw_list_for_each_safe(conn, next, &iface->conns, struct mailbox_conn, link) {
        if (conn->blocked && iface->queued < MAX_QUEUED / 2) {
            conn->blocked = 0;
            super->upcalls->room(&conn->super);
            count++;
        }
    }
    return count;
}

static ucs_status_t arm(struct cw_iface *super)
{
    return cw_list_empty(&iface_of(super)->queue) ? UCS_OK : UCS_ERR_BUSY;
}

static ucs_status_t open_iface(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct mailbox_iface *iface = malloc(sizeof(*iface));

    if (iface == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *iface = (struct mailbox_iface){.super.limits = {.max_bcopy = MAX_PACKET, .bandwidth_bps = 1e9},
                                    .poller       = params->poller};
    cw_list_init(&iface->queue);
    cw_list_init(&iface->conns);
    *iface_p = &iface->super;
    return UCS_OK;
}

/* Letters go with the connections that they are for. */
static void close_iface(struct cw_iface *super)
{
    free(iface_of(super));
}

static const struct cw_transport_connect connect_group = {.dial = dial, .close_conn = close_conn};
static const struct cw_transport_packets packets_group = {.send_bcopy = send_bcopy};

const struct cw_transport cw_mailbox_transport = {
    .name          = "mailbox",
    .wire_id       = 251,
    .device_class  = CW_DEVICE_SELF,
    .connect       = &connect_group,
    .packets       = &packets_group,
    .open          = open_iface,
    .close         = close_iface,
    .progress      = progress,
    .arm           = arm,
};
