/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domains of a context's devices (mem/domain.h): one for each device of a transport with remote access. They
 * are opened and closed with the context.
 */
#ifndef CW_CORE_DOMAIN_H
#define CW_CORE_DOMAIN_H

#include "core/context.h"

/* Opens the domains of all resources; a resource whose domain cannot be opened is removed. */
void cw_domains_open(struct ucp_context *context);
/* Ends the registrations that caches retain, and closes the domains. All other registrations must have ended. */
void cw_domains_close(struct ucp_context *context);

/* Whether registrations with it are cached between messages, for texts. */
const char *cw_domain_keeping(const struct ucp_context *context, const struct cw_domain *domain);

/* Whether the devices, and not the processor, carry out 8-byte atomic operations (UCX_ATOMIC_MODE). */
int cw_domains_do_atomics(const struct ucp_context *context);

#endif
