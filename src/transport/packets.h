/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The group of a transport that moves packets over an open connection (transport/transport.h).
 */
#ifndef CW_TRANSPORT_PACKETS_H
#define CW_TRANSPORT_PACKETS_H

#include "transport/iface.h"

/* Fills at most `max` bytes at `dest` and returns how many it wrote. Runs at most once per send, and only for a packet
 * that is taken. */
typedef size_t (*cw_pack_fn)(void *dest, size_t max, void *arg);

#define CW_PLACE_HEADER  16u    /* bytes of the header of a packet that is placed */
#define CW_PLACE_MAX_IOV 16u    /* entries of the memory that it goes to */

/* LONG: begins, and several messages follow, so that no end of one needs to leave by itself; LAST: but the next one. */
enum cw_batch { CW_BATCH_END, CW_BATCH_BEGIN, CW_BATCH_LONG, CW_BATCH_LAST };

/* Packets of an open connection. Every transport has this group, and send_bcopy in it.
 *
 * Answers of the sends: UCS_OK: taken, the buffer is free. CW_AGAIN: nothing taken. Other errors: the connection is
 * broken, `closed` follows or came. Packets of one connection arrive in the order in which they were taken, each
 * exactly once. */
struct cw_transport_packets {
    ucs_status_t (*send_short)(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
    /* `max`: upper bound of what pack will write, <= max_bcopy. Where there is a `board` and pack writes all of `max`,
     * the bytes stay where pack wrote them until the peer has handled the packet, or this end is closed. */
    ucs_status_t (*send_bcopy)(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
    /* UCS_INPROGRESS: taken, the payload stays in use until `done`. The header and the iov array are free on return. */
    ucs_status_t (*send_zcopy)(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
    /* As send_zcopy, for payloads of up to max_placed bytes that the peer's core has a place for: they go there without
     * another copy (upcalls `place`, `placed`). The header has CW_PLACE_HEADER bytes. Such packets keep no order with
     * any other packet: the transport may use further channels for them. */
    ucs_status_t (*send_placed)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion);
    /* As send_placed, in order with all other packets. NULL: no. */
    ucs_status_t (*send_in_place)(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
    /* A message of that length is about to be announced, as `eager_end` of the connection is not above it. NULL: that
     * never changes. */
    void (*grow)(struct cw_conn *conn, size_t length);
    /* Between BEGIN or LONG and END, which may be nested, packets may be kept and then handed over together. NULL: a
     * packet costs the same alone. */
    void (*batch)(struct cw_conn *conn, enum cw_batch what);
    /* UCS_OK: everything taken so far is out of this process' hands. UCS_INPROGRESS: `done` follows. CW_AGAIN:
     * too many wait already, `room` follows. NULL: always UCS_OK. With completion NULL it is a question only, which
     * UCS_OK or UCS_INPROGRESS answers. */
    ucs_status_t (*flush)(struct cw_conn *conn, struct cw_completion *completion);
    /* Whether flush has to be asked at all: some connection may have something in hand. NULL: it has, if there is a
     * flush. */
    int (*owes)(const struct cw_iface *iface);
};

#endif
