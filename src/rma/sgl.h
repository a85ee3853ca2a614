/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of many pieces: each piece is an operation of its own, and one request represents all of them.
 */
#ifndef CW_RMA_SGL_H
#define CW_RMA_SGL_H

#include "rma/rma.h"

/* Arrays of the program, which stay valid until completion. The caller has checked everything in them. */
struct cw_sgl {
    size_t count;               /* length of the arrays */
    void *const *buffers;
    const size_t *lengths;
    const size_t *blocks;       /* blocks of each element, at a distance of `strides` on both sides; NULL: one */
    const size_t *strides;      /* not NULL if an element has several blocks */
    const uint64_t *addresses;
    struct ucp_rkey *const *rkeys;
    ucs_memory_type_t memory_type;
};

/* Length of an element's blocks; *num_p: their number. Blocks that touch or overlap count as one: they do so on both
 * sides. */
static inline size_t cw_sgl_block(const struct cw_sgl *sgl, size_t i, size_t *num_p)
{
    const size_t num = (sgl->blocks == NULL) ? 1 : sgl->blocks[i];

    if (num > 1 && sgl->strides[i] > sgl->lengths[i]) {
        *num_p = num;
        return sgl->lengths[i];
    }
    *num_p = 1;
    if (num == 0 || sgl->lengths[i] == 0) {
        return 0;
    }
    return (num == 1) ? sgl->lengths[i] : (num - 1) * sgl->strides[i] + sgl->lengths[i];
}

/* As cw_put and cw_get. The datatype, the memory handle and the memory type of the parameters are ignored. */
ucs_status_ptr_t cw_sgl_put(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param);
ucs_status_ptr_t cw_sgl_get(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param);

#endif
