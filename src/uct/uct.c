/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libuct: exists because binaries and link lines name it; offers no function.
 * Callers: none. The transport layer of Causeway is internal to libucp.
 */
#include <uct/api/uct.h>
#include <ucp/api/ucp_version.h>

/* NOLINTNEXTLINE(misc-redundant-expression): that they are equal is the point */
_Static_assert(UCT_API == UCP_API_VERSION, "both headers name one API level");
