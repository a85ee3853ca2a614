/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The weak references from libucp to libucm (base/unmapped.h).
 */
#include "base/unmapped.h"

#include <stddef.h>

#include "compat/ucm/share.h"

#pragma weak ucm_cw_reports
#pragma weak ucm_cw_count
#pragma weak ucm_cw_range

int cw_unmapped_is_reported(void)
{
    return ucm_cw_reports != NULL && ucm_cw_count != NULL && ucm_cw_range != NULL && ucm_cw_reports();
}

uint64_t cw_unmapped_count(void)
{
    return (ucm_cw_count != NULL) ? ucm_cw_count() : 0;
}

int cw_unmapped_range(uint64_t number, uintptr_t *begin_p, uintptr_t *end_p)
{
    return ucm_cw_range != NULL && ucm_cw_range(number, begin_p, end_p);
}
