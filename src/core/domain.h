/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domains of a context's devices (mem/domain.h): one for each device of a transport that has access. They
 * are opened with the context and end with it.
 */
#ifndef CW_CORE_DOMAIN_H
#define CW_CORE_DOMAIN_H

#include "core/context.h"

/* Opens the domains of all resources; a resource whose domain cannot be opened is removed. */
void cw_domains_open(struct ucp_context *context);
/* Ends the registrations that caches keep, and closes the domains. All other registrations must have ended. */
void cw_domains_close(struct ucp_context *context);

/* Whether what was registered with it is kept from one message to the next, for people. */
const char *cw_domain_keeping(const struct ucp_context *context, const struct cw_domain *domain);

/* Whether the devices carry out atomic operations of 8 bytes, in place of the processor (UCX_ATOMIC_MODE). */
int cw_domains_do_atomics(const struct ucp_context *context);

#endif
