/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending on a connection of the TCP transport.
 */
#ifndef CW_TRANSPORT_TCP_TCP_SEND_H
#define CW_TRANSPORT_TCP_TCP_SEND_H

#include "transport/tcp/tcp.h"

/* tcp_send.c: the slots of the transport's table, and the function that the poller calls when there is room. */
ucs_status_t cw_tcp_send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length);
ucs_status_t cw_tcp_send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg);
ucs_status_t cw_tcp_send_zcopy(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion);
ucs_status_t cw_tcp_send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion);
/* Sends a frame of the transport itself, in order with all others. CW_AGAIN: `room` will be called. */
ucs_status_t cw_tcp_send_frame(struct cw_tcp_conn *conn, enum cw_tcp_frame_kind kind, const void *body, size_t length);
void cw_tcp_batch(struct cw_conn *conn, enum cw_batch what);
ucs_status_t cw_tcp_flush(struct cw_conn *conn, struct cw_completion *completion);
int cw_tcp_owes(const struct cw_iface *iface);
/* Sends bytes that are no frame before all others; the part that does not fit is kept. The spare tx must be there, and
 * conn->tx must be NULL. */
void cw_tcp_send_raw(struct cw_tcp_conn *conn, const void *data, size_t length);

/* tcp_send_rest.c. Makes iface->spare_tx if it is missing. 0: no memory. */
int cw_tcp_tx_reserve(struct cw_tcp_iface *iface);
/* Returns the tx to the iface, or its memory to the system. */
void cw_tcp_tx_release(struct cw_tcp_iface *iface, struct cw_tcp_tx *tx);
/* All bytes of the tx, the spare one or that of a batch, are sent. */
void cw_tcp_tx_drop(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx);
/* Offers the tx to the kernel once. `more`: other bytes follow at once, or cw_tcp_batch ends. Bytes taken, or
 * -errno. */
ssize_t cw_tcp_tx_offer(struct cw_tcp_conn *conn, struct cw_tcp_tx *tx, int more);
/* Removes n bytes from the front. True when none is left. */
int cw_tcp_tx_advance(struct cw_tcp_tx *tx, size_t n);
/* Offers a batch to the kernel. The part that it does not take waits in conn->tx. */
void cw_tcp_push(struct cw_tcp_conn *conn, int more);
/* Has `room` called once there is room. */
void cw_tcp_want_room(struct cw_tcp_conn *conn);
static inline ucs_status_t cw_tcp_again(struct cw_tcp_conn *conn)
{
    cw_tcp_want_room(conn);
    return CW_AGAIN;
}
/* A send failed. Progress tells the end of the connection, after the bytes that were received before it. */
ucs_status_t cw_tcp_send_failed(struct cw_tcp_conn *conn, ssize_t error);
/* Sends the rest, then calls completions and `room`. Returns events. From progress, unless LINGERING. */
unsigned cw_tcp_send_rest(struct cw_tcp_conn *conn);
/* Calls the completions that wait on the connection and frees the unsent bytes. Keeps unsent bytes without user memory
 * if asked to. */
void cw_tcp_tx_cancel(struct cw_tcp_conn *conn, ucs_status_t status, int keep_bytes);
/* Registers in the poller for the events that the state of sending needs. */
void cw_tcp_tx_update_interest(struct cw_tcp_conn *conn);

#endif
