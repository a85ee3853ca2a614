/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The groups of slots of a transport that make connections: by the address of an interface, and by socket addresses
 * (transport/transport.h).
 */
#ifndef CW_TRANSPORT_CONNECT_H
#define CW_TRANSPORT_CONNECT_H

#include "transport/iface.h"

struct cw_listening;

#define CW_HELLO_MAX 256u

/* Connections by the address of an interface. Every transport has this group. */
struct cw_transport_connect {
    /* Starts a connection; `hello` (<= CW_HELLO_MAX) is copied. UCS_OK: `opened` follows from progress. The call never
     * waits. */
    ucs_status_t (*dial)(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
    /* The number of different connections to that address that are faster together than one: pairs of addresses, flows
     * of a network. 0: further connections gain nothing. The core calls it seldom. NULL: one. */
    unsigned (*ways)(struct cw_iface *iface, const void *address, size_t address_length);
    /* As dial, by one of those ways (a number beyond them starts again from the first), or by another one if that
     * fails. NULL: dial. */
    ucs_status_t (*dial_way)(struct cw_iface *iface, const void *address, size_t address_length, unsigned way,
                             const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p);
    /* Whether the peer cannot have seen the hello of a dial yet; a transport with it has `abandon` too. NULL: the peer
     * may always have seen it. */
    int (*is_unseen)(const struct cw_conn *conn);
    /* Whether a dial that is not accepted yet has shown that the peer's process lives. NULL: only `opened` shows it. */
    int (*is_there)(const struct cw_conn *conn);
    /* Ends a connection in any state and frees it. Packets that were taken before are still delivered if the peer lives
     * (the transport hands them to the system first). Outstanding completions are called inside with UCS_ERR_CANCELED.
     * Never called from inside an upcall of this iface. */
    void (*close_conn)(struct cw_conn *conn);
    /* Whether the device still uses memory that the core gave for this connection. If so, sends fail from now on, no
     * upcall but completions follows, and the core asks again from its next progress, until `close_conn` need not wait
     * for the device. Not in upcalls. NULL: close_conn never waits. */
    int (*stopping)(struct cw_conn *conn);
    /* From now on the transport notices the death of the peer within the configured time, also when the peer's machine
     * falls silent: `closed` then tells UCS_ERR_ENDPOINT_TIMEOUT. For a connection that is dialled, being accepted or
     * open; may be called again. NULL: the transport always notices it. */
    void (*watch)(struct cw_conn *conn);
    /* The program takes back memory that was given to this connection, payloads and places: on return the transport
     * touches none of it any more, and sends no hello any more. Packets under way are lost, sends fail, and no upcalls
     * follow; the connection waits for close_conn, which calls its completions. May be called inside upcalls. NULL: the
     * transport keeps no memory between calls. */
    void (*abandon)(struct cw_conn *conn);
};

/* Connections by socket addresses (docs/change/client-server.md); a transport has all slots or none. It uses all
 * devices of the machine for them, and an interface that was opened without devices has these connections only. */
struct cw_transport_cm {
    /* Each peer that connects to that address and says a hello is handed up by `requested`, with `user`. The chosen
     * port is written to *address. Logs errors. UCS_ERR_BUSY: the address is in use. */
    ucs_status_t (*listen)(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                           struct cw_listening **listening_p);
    /* Ends listening. Connections that came and were not handed up are refused with an empty reply. */
    void (*listen_end)(struct cw_listening *listening);
    /* As dial, to a listener; `source` may be NULL. It fails only when there is no memory; `opened` tells every other
     * failure. */
    ucs_status_t (*dial_to)(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
    /* Answers a connection of `requested`. Accepted: it belongs to `iface`, of any worker, and is open; conn->user was
     * set before. Refused, or on failure: the connection is freed. iface NULL: it is closed without an answer. The
     * iface that requested it may be closed already, and another thread may be in it. */
    ucs_status_t (*answer)(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                           size_t reply_length);
    /* Whether the settings let data go by this connection, which belongs to `iface` or is about to: it uses one of the
     * devices that the interface was opened with. */
    int (*carries)(struct cw_conn *conn, struct cw_iface *iface);
    /* The addresses of both ends; family CW_NET_NONE when they are not known any more. */
    void (*ends)(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);
};

#endif
