/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a transport that send packets over an open connection (transport/transport.h).
 */
#ifndef CW_TRANSPORT_PACKETS_H
#define CW_TRANSPORT_PACKETS_H

#include "transport/iface.h"

struct cw_access_iov;

/* Writes at most `max` bytes at `dest` and returns how many. Called at most once per send, and only if the transport
 * accepts the packet. */
typedef size_t (*cw_pack_fn)(void *dest, size_t max, void *arg);

#define CW_PLACE_HEADER  16u    /* length of the header of a packet that is placed */
#define CW_PLACE_MAX_IOV 16u    /* iov entries of its destination */

/* LONG begins a batch of several messages, so that no end of a message need be pushed on its own; LAST: only one more
 * message follows. */
enum cw_batch { CW_BATCH_END, CW_BATCH_BEGIN, CW_BATCH_LONG, CW_BATCH_LAST };

/* Packets of an open connection. Mandatory, with send_bcopy.
 *
 * Return values of the sends: UCS_OK: the packet is accepted, and the caller may reuse the buffer. CW_AGAIN: not
 * accepted, the upcall `space` follows. Other errors: the connection is broken, and `closed` follows or came before.
 * Packets of one connection arrive in order, exactly once. */
struct cw_transport_packets {
    ucs_status_t (*send_short)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
    /* As send_short, for a payload in two parts: `front_length` bytes at `front`, then `length` at `payload`, together
     * at most max_short. NULL: the caller joins them. */
    ucs_status_t (*send_joined)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *front,
                                size_t front_length, const void *payload, size_t length);
    /* Offers an eager tag message of any length to the core of the other end, which may consume it at once (upcall
     * `consume`). `may_store`: it may store the message if no receive matches. False: nothing was sent. NULL: always
     * false. For interfaces with both ends of a connection. */
    bool (*hand_over)(struct cw_conn *conn, uint64_t header, const void *payload, size_t length, bool may_store);
    /* `max`: upper bound of what pack writes, <= max_bcopy or max_whole of the connection. */
    ucs_status_t (*send_bcopy)(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
    /* UCS_INPROGRESS: accepted, the payload stays in use until `done`. The caller may reuse the header and the iov
     * array on return. */
    ucs_status_t (*send_zcopy)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
    /* A packet of a header and a payload of at least 1 byte each, at most max_registered bytes together. The device
     * reads the payload from memory registered in the interface's domain. UCS_OK: accepted and done. UCS_INPROGRESS:
     * accepted, the payload stays in use until `done`; the caller may reuse the header on return. Completion NULL:
     * UCS_OK, and the payload stays in use until a later packet with a completion is done. close_conn() may lose
     * packets accepted before while such a payload is in use. */
    ucs_status_t (*send_registered)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                                    const struct cw_access_iov *payload, struct cw_completion *completion);
    /* As send_zcopy, for payloads of up to max_placed bytes for which the peer's core has a destination: they are
     * received there directly (upcalls `place`, `placed`). The header has CW_PLACE_HEADER bytes. Such packets are
     * unordered with respect to other packets, because the transport may use further channels for them. */
    ucs_status_t (*send_placed)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion);
    /* As send_placed, but in order with all other packets. NULL: unsupported. */
    ucs_status_t (*send_in_place)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
    /* Between BEGIN or LONG and END, which may be nested, the transport may hold packets back and send them together.
     * NULL: a batch gains nothing. */
    void (*batch)(struct cw_conn *conn, enum cw_batch what);
    /* UCS_OK: all earlier packets have left this process. UCS_INPROGRESS: `done` follows. CW_AGAIN: too many flushes
     * are pending, `space` follows. NULL: always UCS_OK. With completion NULL the call only queries and returns UCS_OK
     * or UCS_INPROGRESS. A closed connection returns its status in both cases. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
    /* Whether `flush` must be called at all: some connection may have unsent packets. NULL: always, if there is a
     * flush. */
    int (*has_unsent)(const struct cw_iface *iface);
    /* Called inside the upcall `packet`, with its data: the transport lends these bytes, and limits.keep_space bytes
     * before them, to the core until the core passes the returned pointer to `give_back`, which it does before `close`.
     * Returns NULL if the transport is short of buffers; the core then copies the bytes. NULL as a slot: no buffers can
     * be retained. */
    void *(*keep)(struct cw_conn *conn, const void *data);
    void (*give_back)(struct cw_iface *iface, void *retained);
};

#endif
