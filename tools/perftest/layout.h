/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of one message: contiguous, or the parts of a scatter-gather list (-D iov) that lie one behind the other
 * or at the distance of -i. With it the content that --verify sends and looks for.
 *
 * Callers: the test families. Fields of an entry are written once, when a slot is cut; nothing here is per message
 * except fill and search.
 */
#ifndef CW_PERF_LAYOUT_H
#define CW_PERF_LAYOUT_H

#include <string.h>

#include "options.h"

/* Bytes of memory that one message spans. */
size_t cw_layout_extent(const struct cw_perf_params *params);

/* Writes the list of a message at `base` into `iov`, which has room for params->part_count entries. */
void cw_layout_list(const struct cw_perf_params *params, char *base, ucp_dt_iov_t *iov);

/* Begins the parameters of an operation with a callback, which the caller sets. Members that the mask does not name
 * stay unset: to clear them would be a good part of a short message's time. */
static inline void cw_layout_begin(ucp_request_param_t *param, void *user_data)
{
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param->user_data = user_data;
}

/* What the arguments buffer and count of a call are; adds the datatype to `param`. `iov` NULL: contiguous. */
static inline const void *cw_layout_apply(ucp_request_param_t *param, const ucp_dt_iov_t *iov, size_t entries,
                                          const char *buffer, size_t size, size_t *count)
{
    if (iov == NULL) {
        *count = size;
        return buffer;
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype = ucp_dt_make_iov();
    *count = entries;
    return iov;
}

/* A key of its own for each message and kind. */
uint64_t cw_pattern_key(uint64_t message, uint64_t kind);

void cw_pattern_fill(char *buffer, size_t size, uint64_t key);

/* Position of the first byte that is not as cw_pattern_fill() made it, or `size`. */
size_t cw_pattern_search(const char *buffer, size_t size, uint64_t key);

#endif
