/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the program reports as unmapped through libucm (compat/ucm/share.h). Beside a foreign libucm, or without
 * one, nothing is reported.
 */
#ifndef CW_BASE_UNMAPPED_H
#define CW_BASE_UNMAPPED_H

#include <stdint.h>

/* Whether the program currently reports everything that it unmaps. */
int cw_unmapped_is_reported(void);
/* How many ranges it has reported so far. */
uint64_t cw_unmapped_count(void);
/* The range of that number, from 0, from *begin_p to before *end_p. 0: it is not recorded any more. */
int cw_unmapped_range(uint64_t number, uintptr_t *begin_p, uintptr_t *end_p);

#endif
