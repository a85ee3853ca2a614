/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The packet upcalls, which dispatch received packets to the functions of their operations.
 */
#ifndef CW_API_DISPATCH_H
#define CW_API_DISPATCH_H

#include "transport/transport.h"

/* The packet upcall: finds the handler by the packet's id. A malformed packet ends its connection and logs one line. */
void cw_op_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length);
/* The upcalls of placed packets. */
unsigned cw_op_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov);
void cw_op_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length);
void cw_op_unplaced(struct cw_conn *conn, uint8_t id, const void *header, size_t length);

#endif
