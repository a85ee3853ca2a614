/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of a transport that make connections: by the address of an interface, and by socket addresses
 * (transport/transport.h).
 */
#ifndef CW_TRANSPORT_CONNECT_H
#define CW_TRANSPORT_CONNECT_H

#include "transport/iface.h"

struct cw_listening;

#define CW_HELLO_MAX 256u

/* Connections by the address of an interface. Every transport has this group. */
struct cw_transport_connect {
    /* Starts a connection; `hello` (<= CW_HELLO_MAX) is copied. UCS_OK: `opened` follows from progress. Never waits. */
    ucs_status_t (*dial)(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
    /* How many different connections to that address gain something over one: pairs of addresses, flows of a network.
     * 0: further ones gain nothing. Not called often. NULL: one. */
    unsigned (*ways)(struct cw_iface *iface, const void *address, size_t address_length);
    /* As dial, by one of those ways (of any number, they come again), or by another one if that fails. NULL: dial. */
    ucs_status_t (*dial_way)(struct cw_iface *iface, const void *address, size_t address_length, unsigned way,
                             const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p);
    /* Whether the peer cannot have seen the hello of a dial yet; needs abandon. NULL: it may always have. */
    int (*is_unseen)(const struct cw_conn *conn);
    /* Ends a connection in any state and frees it. What was taken by sends before is still delivered if the peer lives
     * (hand it to the system first). Outstanding completions are called with UCS_ERR_CANCELED inside. Never called from
     * inside an upcall of this iface. */
    void (*close_conn)(struct cw_conn *conn);
    /* The death of the peer is to be noticed from now on even when its machine falls silent, within the configured
     * time: `closed` then tells UCS_ERR_ENDPOINT_TIMEOUT. Of a connection that is dialled, being accepted or open; may
     * be called again. NULL: it always is. */
    void (*watch)(struct cw_conn *conn);
    /* Memory that was given to this connection, payloads and places, becomes something else: none of it is touched any
     * more when this returns, and no hello said. What is under way is lost, sends fail, no upcalls follow; it waits for
     * close_conn, and its completions come there. Legal inside upcalls. NULL: nothing is kept between calls. */
    void (*abandon)(struct cw_conn *conn);
};

/* Meeting by socket addresses (docs/change/client-server.md): all five slots. */
struct cw_transport_cm {
    /* Everybody who comes to that address and says a hello is handed up by `requested`, with `user`. The port that was
     * chosen goes to *address. Logs. UCS_ERR_BUSY: the address is in use. */
    ucs_status_t (*listen)(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                           struct cw_listening **listening_p);
    /* Refuses, with an empty reply, everybody who came and was not handed up (CS-12). */
    void (*listen_end)(struct cw_listening *listening);
    /* As dial, to a listener; `source` may be NULL. Fails for want of memory only: the rest comes by `opened`. */
    ucs_status_t (*dial_to)(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
    /* Answers a connection of `requested`. Accepted: it belongs to `iface`, of any worker, and is open; conn->user was
     * set before. Refused, or on failure: it is gone. iface NULL: it is dropped without a word. The iface where it was
     * requested may be gone, and another thread may be in it. */
    ucs_status_t (*answer)(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                           size_t reply_length);
    /* Both ends; family CW_NET_NONE when they are not known any more. */
    void (*ends)(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);
};

#endif
