/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * To be written (docs/RMA.md).
 */
#include "core/mem.h"

ucs_status_t cw_mem_enter(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length,
                          unsigned rights, void **ptr_p)
{
    (void)context, (void)token, (void)address, (void)length, (void)rights, (void)ptr_p;
    return UCS_ERR_INVALID_ADDR;
}

void cw_mem_leave(struct ucp_context *context)
{
    (void)context;
}

ucs_status_t cw_mem_pin(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length, unsigned rights,
                        struct ucp_ep *ep, struct cw_mem_pin *pin, void **ptr_p)
{
    (void)ep, (void)pin;
    return cw_mem_enter(context, token, address, length, rights, ptr_p);
}

void cw_mem_unpin(struct ucp_context *context, struct cw_mem_pin *pin)
{
    (void)context, (void)pin;
}

ucs_status_t cw_mem_attach(struct ucp_context *context, const struct cw_key *key, char **local_p,
                           const uint64_t **beacon_p, struct cw_mapping **mapping_p)
{
    (void)context, (void)key, (void)local_p, (void)beacon_p, (void)mapping_p;
    return UCS_ERR_UNREACHABLE;
}

void cw_mem_detach(struct ucp_context *context, struct cw_mapping *mapping)
{
    (void)context, (void)mapping;
}
