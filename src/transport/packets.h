/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of slots of a transport that moves packets over an open connection (transport/transport.h).
 */
#ifndef CW_TRANSPORT_PACKETS_H
#define CW_TRANSPORT_PACKETS_H

#include "transport/iface.h"

struct cw_access_iov;

/* Fills at most `max` bytes at `dest` and returns how many it wrote. Runs at most once per send, and only when the
 * transport takes the packet. */
typedef size_t (*cw_pack_fn)(void *dest, size_t max, void *arg);

#define CW_PLACE_HEADER  16u    /* length of the header of a packet that is placed */
#define CW_PLACE_MAX_IOV 16u    /* entries of the place that it is written to */

/* LONG begins a batch of several messages, so that no end of a message needs to leave by itself; LAST: only one more
 * message follows. */
enum cw_batch { CW_BATCH_END, CW_BATCH_BEGIN, CW_BATCH_LONG, CW_BATCH_LAST };

/* Packets of an open connection. Every transport has this group, and send_bcopy in it.
 *
 * Answers of the sends: UCS_OK: the packet is taken, and the caller may reuse the buffer. CW_AGAIN: nothing is taken.
 * Other errors: the connection is broken, and `closed` follows or came before. Packets of one connection arrive in the
 * order in which they were taken, each exactly once. */
struct cw_transport_packets {
    ucs_status_t (*send_short)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
    /* As send_short, for a payload of any length, if the peer's core takes the packet at once (upcall `take`). False:
     * nothing was sent. NULL: always false. */
    bool (*hand_over)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
    /* `max`: upper bound of what pack will write, <= max_bcopy. */
    ucs_status_t (*send_bcopy)(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
    /* UCS_INPROGRESS: taken, the payload stays in use until `done`. The caller may reuse the header and the iov array
     * on return. */
    ucs_status_t (*send_zcopy)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
    /* A packet of a header and a payload of at least 1 byte each, of max_registered bytes together. The device reads
     * the payload out of memory with a handle of the interface's domain. UCS_OK: taken and done. UCS_INPROGRESS: taken,
     * the payload stays in use until `done`; the caller may reuse the header on return. Completion NULL: UCS_OK, and
     * the payload stays in use until a later packet with a completion is done. close_conn() may lose packets that were
     * taken before while such a payload is in use. */
    ucs_status_t (*send_registered)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                                    const struct cw_access_iov *payload, struct cw_completion *completion);
    /* As send_zcopy, for payloads of up to max_placed bytes for which the peer's core has a place: they are written
     * there without another copy (upcalls `place`, `placed`). The header has CW_PLACE_HEADER bytes. Such packets are in
     * no order with other packets, because the transport may use further channels for them. */
    ucs_status_t (*send_placed)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion);
    /* As send_placed, but in order with all other packets. NULL: the transport cannot. */
    ucs_status_t (*send_in_place)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
    /* The core is about to announce a message of that length, which it could send in packets if `eager_end` of the
     * connection were greater. NULL: eager_end never changes. */
    void (*grow)(struct cw_conn *conn, size_t length);
    /* Between BEGIN or LONG and END, which may be nested, the transport may keep packets and then hand them over
     * together. NULL: a batch gains nothing. */
    void (*batch)(struct cw_conn *conn, enum cw_batch what);
    /* UCS_OK: all packets taken before have left this process. UCS_INPROGRESS: `done` follows. CW_AGAIN: too many
     * flushes wait already, `room` follows. NULL: always UCS_OK. With completion NULL the call only asks, and the
     * answer is UCS_OK or UCS_INPROGRESS. A connection that is over answers its status, in both cases. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
    /* Whether the core has to ask `flush` at all: some connection may still hold a packet. NULL: it has to if there is
     * a flush. */
    int (*owes)(const struct cw_iface *iface);
    /* Called inside the upcall `packet`, with its data: the transport leaves these bytes to the core, and
     * limits.keep_space bytes before them as well, until `give_back` gets the answer, which comes before `close`. NULL:
     * the transport has few buffers left, so the core copies the bytes. NULL as a slot: it keeps none. */
    void *(*keep)(struct cw_conn *conn, const void *data);
    void (*give_back)(struct cw_iface *iface, void *retained);
};

#endif
