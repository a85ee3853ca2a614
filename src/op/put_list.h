/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts of many pieces in placed packets (docs/change/one-sided.md, "Many pieces"): PUT_LIST tells the owner where the
 * pieces go. The placed packet that follows in order carries the bytes of the pieces from the program's memory to those
 * places.
 */
#ifndef CW_OP_PUT_LIST_H
#define CW_OP_PUT_LIST_H

#include "op/sgl.h"

/* Lengths of the pieces that go into a list. Shorter pieces are faster in packets that are copied, longer pieces are
 * faster alone. CW_PUT_LIST_FEW: a list has at least that many pieces. */
#define CW_PUT_LIST_SHORT 1024u
#define CW_PUT_LIST_LONG  (64u << 10)
#define CW_PUT_LIST_FEW   2u

/* Whether the connection of an open endpoint carries such packets. */
int cw_put_list_is_possible(const struct ucp_ep *ep);

/* Posts the elements [first, end). All have one key, each has one block, and each length is between the two limits
 * above. The result is as that of cw_put. */
ucs_status_ptr_t cw_put_list(struct ucp_ep *ep, const struct cw_sgl *sgl, size_t first, size_t end,
                             const ucp_request_param_t *param);

/* The owner's side (put_list_target.c): the handler of PUT_LIST, the upcalls `place` and `placed` of the transport, and
 * the release of the memory with the endpoint. */
struct cw_put_places;
ucs_status_t cw_put_list_on_packet(struct ucp_ep *ep, const void *data, size_t length);
unsigned cw_put_list_place(struct ucp_ep *ep, const void *header, size_t length, struct iovec *iov);
void cw_put_list_placed(struct ucp_ep *ep, const void *header, size_t length);
void cw_put_list_free(struct ucp_context *context, struct cw_put_places *places);

#endif
