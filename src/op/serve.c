/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be written (docs/RMA.md).
 */
#include "op/copy.h"
#include "op/rma.h"

ucs_status_t cw_serve_on_put(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}

ucs_status_t cw_serve_on_put_rts(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}

ucs_status_t cw_serve_on_get(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}

