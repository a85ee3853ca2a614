/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that have nothing but the public headers: progresses until a request is over, and returns its status.
 */
#ifndef CW_TEST_ABI_FINISH_H
#define CW_TEST_ABI_FINISH_H

#include <ucp/api/ucp.h>

static inline ucs_status_t finish(ucp_worker_h worker, ucs_status_ptr_t request)
{
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    ucp_request_free(request);
    return status;
}

#endif
