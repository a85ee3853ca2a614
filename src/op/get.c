/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be written (docs/RMA.md).
 */
#include "op/copy.h"
#include "op/rma.h"

ucs_status_ptr_t cw_get(struct ucp_ep *ep, void *buffer, size_t count, uint64_t address, struct ucp_rkey *rkey,
                        const ucp_request_param_t *param)
{
    (void)ep, (void)buffer, (void)count, (void)address, (void)rkey, (void)param;
    return UCS_STATUS_PTR(UCS_ERR_NOT_IMPLEMENTED);
}

ucs_status_t cw_get_on_refused(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}
