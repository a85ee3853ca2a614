/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cross-memory attach: the kernel copies between memory of this process and registered memory of the peer's process,
 * within the call at every length (docs/change/one-sided.md, "copy").
 */
#ifndef CW_RMA_CMA_H
#define CW_RMA_CMA_H

#include <stdbool.h>

#include "rma/rma.h"

enum cw_cma_direction { CW_CMA_PUT, CW_CMA_GET };

/* Whether the endpoint can copy to and from registered memory of the peer: the kernel permits it, and the endpoint is
 * open, or dials and awaits the peer's answer. An idle endpoint dials. */
bool cw_cma_is_ready(struct ucp_ep *ep);

/* The same, for the memory of that key. */
bool cw_cma_is_possible(struct ucp_ep *ep, const struct cw_key *key);

/* Copies all of the cursor's memory (contig or iov) to or from `address`. Returns UCS_OK, or UCS_ERR_UNSUPPORTED if the
 * kernel cannot copy, for any reason; then the cursor is rewound, and some bytes may have been copied. */
ucs_status_t cw_cma_copy(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                         enum cw_cma_direction direction);

/* The first attempt of a request that cw_cma_copy carries out. Also returns the status of cw_rma_admit. */
ucs_status_t cw_cma_start(struct cw_request *request, const struct cw_key *key, uint64_t address,
                          struct cw_dt_cursor *cursor, enum cw_cma_direction direction);

#endif
