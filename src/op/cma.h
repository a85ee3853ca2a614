/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One-sided copies by the system between our memory and the registered memory of the peer's process
 * (docs/change/one-sided.md, "copy"). Short ones are made in the call. Longer ones are made in shares by jobs of
 * progress; the owner takes shares, too, when it is in progress (HELP), but is never waited for unless it took one.
 */
#ifndef CW_OP_CMA_H
#define CW_OP_CMA_H

#include "op/rma.h"

enum cw_cma_way { CW_CMA_PUT = CW_WIRE_HELP_PUT, CW_CMA_GET = CW_WIRE_HELP_GET };

/* Up to here in one call. */
#define CW_CMA_CALL_BYTES (128u << 10)

struct cw_cma;

/* Whether this endpoint can copy to and from the memory of that key: it is open, and the system allows it. */
int cw_cma_is_possible(struct ucp_ep *ep, const struct cw_key *key);

/* Copies all of the cursor's memory (contig or iov) to or from `address`. UCS_OK, or UCS_ERR_UNSUPPORTED: not this way,
 * for whatever reason; the cursor is rewound, some bytes may have been copied. */
ucs_status_t cw_cma_now(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                        enum cw_cma_way way);

/* Begins a long one. `done` follows from progress, with UCS_OK or UCS_ERR_UNSUPPORTED; the copy is gone by then. The
 * cursor belongs to the request and stays valid until then. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_cma_begin(struct cw_request *request, const struct cw_key *key, uint64_t address,
                          struct cw_dt_cursor *cursor, enum cw_cma_way way,
                          void (*done)(struct cw_request *request, ucs_status_t status), struct cw_cma **copy_p);
/* The request ends before: nobody copies for it any more when this returns. NULL: nothing. */
void cw_cma_cancel(struct cw_cma *copy);

/* The endpoint is about to lose its connection: as cw_rndv_recv_quiesce. */
void cw_cma_quiesce(struct ucp_ep *ep);

#endif
