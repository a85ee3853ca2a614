/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The names of UCX_TLS: aliases, and which of our transports a name selects. Pure functions.
 */
#ifndef CW_CONFIG_TLS_H
#define CW_CONFIG_TLS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether an entry of an allow-list selects the transport. Shared memory is one transport here: sysv selects it too. */
int cw_plan_tls_selects(const char *entry, const char *transport);
/* Whether an entry of a ^list excludes the transport. */
int cw_plan_tls_excludes(const char *entry, const char *transport);
/* Whether the entry names something that another library would add beside the transport, so that no warning is due. */
int cw_plan_tls_covered(const char *entry, const char *transport);
/* Whether the entry selects the transport verbs, but means something other than connections. */
bool cw_plan_tls_asks_otherwise(const char *entry);
/* Writes the aliases of the transport, separated by ", "; for a warning. */
const char *cw_plan_tls_aliases(const char *transport);

#endif
