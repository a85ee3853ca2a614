/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the memory domain that carries out a copy. Copies within host memory are requested only by callers that do not
 * check the memory type; others copy host memory themselves.
 */
#include "mem/copy.h"

#include "base/log.h"
#include "mem/registry.h"

ucs_status_t cw_mem_copy(void *to, ucs_memory_type_t to_type, const void *from, ucs_memory_type_t from_type,
                         size_t length)
{
    static struct cw_log_limit limit;
    const ucs_memory_type_t type = (to_type != UCS_MEMORY_TYPE_HOST) ? to_type : from_type;
    const int mixed = from_type != type && from_type != UCS_MEMORY_TYPE_HOST;
    const struct cw_md *md = mixed ? NULL : cw_md_of_type(type);
    ucs_status_t status = UCS_ERR_UNSUPPORTED;

    if (md != NULL && md->copy_out != NULL && to_type == UCS_MEMORY_TYPE_HOST) {
        status = md->copy_out(md, to, from, length);
    } else if (md != NULL && md->copy_in != NULL && from_type == UCS_MEMORY_TYPE_HOST) {
        status = md->copy_in(md, to, from, length);
    } else if (md != NULL) {
        status = md->copy(md, to, from, length);
    }
    if (status != UCS_OK) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "cannot copy %zu bytes from memory of type %d to type %d: %s", length,
                           (int)from_type, (int)to_type, ucs_status_string(status));
    }
    return status;
}
