/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be written (docs/RMA.md).
 */
#include "op/copy.h"
#include "op/rma.h"

int cw_copy_is_possible(struct ucp_ep *ep, const struct cw_key *key)
{
    (void)ep, (void)key;
    return 0;
}

ucs_status_t cw_copy_now(struct ucp_ep *ep, const struct cw_key *key, uint64_t address, struct cw_dt_cursor *cursor,
                         enum cw_copy_way way)
{
    (void)ep, (void)key, (void)address, (void)cursor, (void)way;
    return UCS_ERR_UNSUPPORTED;
}

ucs_status_t cw_copy_begin(struct cw_request *request, const struct cw_key *key, uint64_t address,
                           struct cw_dt_cursor *cursor, enum cw_copy_way way,
                           void (*done)(struct cw_request *request, ucs_status_t status), struct cw_copy **copy_p)
{
    (void)request, (void)key, (void)address, (void)cursor, (void)way, (void)done, (void)copy_p;
    return UCS_ERR_UNSUPPORTED;
}

void cw_copy_cancel(struct cw_copy *copy)
{
    (void)copy;
}

void cw_copy_quiesce(struct ucp_ep *ep)
{
    (void)ep;
}

ucs_status_t cw_copy_on_help(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}

ucs_status_t cw_copy_on_helped(struct ucp_ep *ep, const void *data, size_t length)
{
    (void)ep, (void)data, (void)length;
    return UCS_ERR_IO_ERROR;
}
