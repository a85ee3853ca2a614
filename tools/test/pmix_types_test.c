/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds what the tools have written down of the interface of PMIx against its header. Built where that is installed.
 */
#include <pmix.h>

#define pmix_proc  our_proc
#define pmix_value our_value
#define pmix_info  our_info
#include "pmix_types.h"

#include <stddef.h>

_Static_assert(PMIX_TYPE_BOOL == PMIX_BOOL && PMIX_TYPE_STRING == PMIX_STRING, "type");
_Static_assert(PMIX_TYPE_UINT32 == PMIX_UINT32, "type");
/* NOLINTNEXTLINE(misc-redundant-expression): that they are the same is the point */
_Static_assert(PMIX_SCOPE_GLOBAL == PMIX_GLOBAL && PMIX_RANK_ALL == PMIX_RANK_WILDCARD, "scope, rank");
/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(PMIX_DONE_AT_ONCE == PMIX_OPERATION_SUCCEEDED && PMIX_SUCCESS == 0, "status");
_Static_assert(sizeof(struct our_proc) == sizeof(pmix_proc_t), "pmix_proc_t");
_Static_assert(offsetof(struct our_proc, rank) == offsetof(pmix_proc_t, rank), "rank");
_Static_assert(offsetof(struct our_value, data) == offsetof(pmix_value_t, data), "pmix_value_t");
_Static_assert(sizeof(struct our_value) >= sizeof(pmix_value_t), "room of a value");
_Static_assert(sizeof(((pmix_value_t *)0)->type) == sizeof(((struct our_value *)0)->type), "type of a value");
_Static_assert(offsetof(struct our_info, flags) == offsetof(pmix_info_t, flags), "flags");
_Static_assert(offsetof(struct our_info, value) == offsetof(pmix_info_t, value), "value");

int main(void)
{
    return 0;
}
