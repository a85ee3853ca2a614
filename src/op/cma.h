/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided copies by the system between memory of this process and registered memory of the peer's process
 * (docs/change/one-sided.md, "copy"). A short copy is made in the call. Jobs of progress make a longer copy in shares;
 * the owner takes shares, too, while it is in progress (HELP). The origin waits for the owner only if the owner took a
 * share.
 */
#ifndef CW_OP_CMA_H
#define CW_OP_CMA_H

#include "op/rma.h"

enum cw_cma_way { CW_CMA_PUT = CW_WIRE_HELP_PUT, CW_CMA_GET = CW_WIRE_HELP_GET };

/* The longest copy that is made in the call. */
#define CW_CMA_CALL_BYTES (128u << 10)

struct cw_cma;

/* Returns whether this endpoint can copy to and from the memory of the key: it is open, and the system allows it. */
int cw_cma_is_possible(struct ucp_ep *ep, const struct cw_key *key);

/* Copies all of the cursor's memory (contig or iov) to or from `address`. Returns UCS_OK, or UCS_ERR_UNSUPPORTED if the
 * system cannot copy, for any reason; the cursor is rewound then, and some bytes may have been copied. */
ucs_status_t cw_cma_now(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                        enum cw_cma_way way);

/* Begins a long copy. Later, progress frees the copy and calls `done` with UCS_OK or UCS_ERR_UNSUPPORTED. The cursor
 * belongs to the request and must stay valid until then. Returns UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t cw_cma_begin(struct cw_request *request, const struct cw_key *key, uint64_t address,
                          struct cw_dt_cursor *cursor, enum cw_cma_way way,
                          void (*done)(struct cw_request *request, ucs_status_t status), struct cw_cma **copy_p);
/* Ends the copy of a request that ends early. Before it returns, it waits for the shares that the owner is copying, for
 * a bounded time. NULL is allowed and does nothing. */
void cw_cma_cancel(struct cw_cma *copy);

/* The endpoint is about to lose its connection: waits for the shares that the owner is copying, as cw_rndv_recv_quiesce
 * waits for its shares. */
void cw_cma_quiesce(struct ucp_ep *ep);

#endif
