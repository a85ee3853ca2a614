/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts in placed packets, target side. PUT_LIST lists the destinations; the placed packet that follows in order carries
 * the bytes. This release sends lists of one element (proto/put.c), release 1.0 longer ones.
 */
#ifndef CW_RMA_PUT_LIST_H
#define CW_RMA_PUT_LIST_H

#include "rma/rma.h"

/* The handler of PUT_LIST, the upcalls `place` and `placed` of the transport, and the release of the memory with the
 * endpoint. */
struct cw_put_places;
ucs_status_t cw_put_list_on_packet(struct ucp_ep *ep, const void *data, size_t length);
unsigned cw_put_list_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov);
void cw_put_list_placed(struct ucp_ep *ep, const void *header, size_t length);
void cw_put_list_free(struct ucp_context *context, struct cw_put_places *places);

#endif
