/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a transport that set up connections: by the address of an interface, and by socket address
 * (transport/transport.h).
 */
#ifndef CW_TRANSPORT_CONNECT_H
#define CW_TRANSPORT_CONNECT_H

#include "transport/iface.h"

struct cw_listening;

#define CW_HELLO_MAX 256u

/* Connections by the address of an interface. Mandatory. */
struct cw_transport_connect {
    /* Starts a connection; `hello` (<= CW_HELLO_MAX) is copied. UCS_OK: progress() calls `opened`. Never blocks. */
    ucs_status_t (*dial)(struct cw_iface *iface, const void *address, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p);
    /* The number of connections to that address that add bandwidth: distinct address pairs or network flows. 0: further
     * connections gain nothing. Not called on a fast path. NULL: one. */
    unsigned (*num_paths)(struct cw_iface *iface, const void *address, size_t address_length);
    /* As dial, over the path of number `path` (modulo the number that `num_paths` returns), or over another one if that
     * fails. NULL: dial. */
    ucs_status_t (*dial_path)(struct cw_iface *iface, const void *address, size_t address_length, unsigned path,
                              const void *hello, size_t hello_length, void *user, struct cw_conn **conn_p);
    /* Whether the peer cannot have received the hello of a dial yet; requires `abandon`. NULL: the peer may have
     * received it. */
    int (*is_unseen)(const struct cw_conn *conn);
    /* Whether a pending dial has already proved that the peer's process is alive. NULL: only `opened` proves it. */
    int (*is_there)(const struct cw_conn *conn);
    /* Closes a connection in any state and frees it. Packets accepted before are still delivered if the peer is alive
     * (the transport passes them to the kernel first). Outstanding completions are called inside with UCS_ERR_CANCELED.
     * Never called from inside an upcall of this iface. */
    void (*close_conn)(struct cw_conn *conn);
    /* Whether the device still uses memory that the core gave for this connection. If so, sends fail from now on, no
     * upcalls follow except completions, and the core polls again in each progress, until `close_conn` need not wait
     * for the device. Never called from inside an upcall. NULL: close_conn never waits. */
    int (*stopping)(struct cw_conn *conn);
    /* Enables keepalive: from now on the transport detects the death of the peer within the configured time, also when
     * the peer's machine falls silent; `closed` then reports UCS_ERR_ENDPOINT_TIMEOUT. For a connection that is
     * dialled, being accepted or open; idempotent. NULL: the transport always detects it. */
    void (*watch)(struct cw_conn *conn);
    /* Revokes all memory that was given to this connection, payloads and destinations: on return the transport no
     * longer accesses any of it and sends no hello. Packets in flight are lost, sends fail, and no upcalls follow; the
     * connection waits for close_conn, which calls its completions. May be called inside upcalls. NULL: the transport
     * retains no memory between calls. */
    void (*abandon)(struct cw_conn *conn);
};

/* Connections by socket address (docs/change/client-server.md); all slots or none. They use all devices of the machine;
 * an interface that was opened without devices has these connections only. */
struct cw_transport_cm {
    /* Listens. `requested` is called with `user` for each peer that connects to that address and sends a hello. The
     * chosen port is written to *address. Logs errors. UCS_ERR_BUSY: the address is in use. */
    ucs_status_t (*listen)(struct cw_iface *iface, struct cw_net_address *address, int backlog, void *user,
                           struct cw_listening **listening_p);
    /* Stops listening. Connections for which `requested` was not called yet are refused with an empty reply. */
    void (*listen_end)(struct cw_listening *listening);
    /* As dial, to a listener; `source` may be NULL. Fails only if out of memory; `opened` reports every other
     * failure. */
    ucs_status_t (*dial_to)(struct cw_iface *iface, const struct cw_net_address *address,
                            const struct cw_net_address *source, const void *hello, size_t hello_length, void *user,
                            struct cw_conn **conn_p);
    /* Answers a connection of `requested`. Accepted: it belongs to `iface`, of any worker, and is open; conn->user was
     * set before. Refused, or on failure: the connection is freed. iface NULL: it is closed without an answer. The
     * iface that requested it may be closed already, and another thread may be in it. */
    ucs_status_t (*answer)(struct cw_conn *conn, struct cw_iface *iface, int accepted, const void *reply,
                           size_t reply_length);
    /* Whether the settings allow data on this connection, which belongs to `iface` or is about to: it uses one of the
     * devices that the interface was opened with. */
    int (*carries)(struct cw_conn *conn, struct cw_iface *iface);
    /* The addresses of both ends; family CW_NET_NONE if they are no longer known. */
    void (*ends)(struct cw_conn *conn, struct cw_net_address *local, struct cw_net_address *peer);
};

#endif
