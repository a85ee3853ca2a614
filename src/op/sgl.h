/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets of many pieces (N22-90 to N22-101): each piece is an operation of its own, and one request stands for
 * all of them.
 */
#ifndef CW_OP_SGL_H
#define CW_OP_SGL_H

#include "op/rma.h"

/* Arrays of the program's, which stay until completion. Everything in them was checked. */
struct cw_sgl {
    size_t count;               /* length of the arrays */
    void *const *buffers;
    const size_t *lengths;
    const size_t *blocks;       /* so many of each, `strides` apart here and one behind the other there; NULL: one */
    const size_t *strides;      /* NULL: one behind the other here as well */
    const uint64_t *addresses;
    struct ucp_rkey *const *rkeys;
    ucs_memory_type_t memory_type;
};

/* Bytes of an element, or of each block of it, that follow each other here; *num_p: how many such blocks it has. */
static inline size_t cw_sgl_block(const struct cw_sgl *sgl, size_t i, size_t *num_p)
{
    const size_t num = (sgl->blocks == NULL) ? 1 : sgl->blocks[i];

    if (sgl->strides == NULL || sgl->strides[i] == sgl->lengths[i] || num < 2) {
        *num_p = 1;
        return sgl->lengths[i] * num;
    }
    *num_p = num;
    return sgl->lengths[i];
}

/* As cw_put and cw_get. The parameters' datatype, memory handle and memory type are not looked at. */
ucs_status_ptr_t cw_sgl_put(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param);
ucs_status_ptr_t cw_sgl_get(struct ucp_ep *ep, const struct cw_sgl *sgl, const ucp_request_param_t *param);

#endif
