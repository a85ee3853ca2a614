/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Functions of libucm for libucp that are not public: which memory the program reports as unmapped. libucp calls these
 * through weak references (base/unmapped.c): beside another libucm nothing is reported. Not part of the interface:
 * programs must not call them. Every function is thread safe, takes no lock and calls nothing.
 */
#ifndef CW_COMPAT_UCM_SHARE_H
#define CW_COMPAT_UCM_SHARE_H

#include <stdint.h>

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Number of the last ranges that are recorded. */
#define UCM_CW_RANGES 256u

/* Whether the program currently reports what it unmaps (ucm_set_external_event). */
int ucm_cw_reports(void);
/* Number of ranges reported so far. */
uint64_t ucm_cw_count(void);
/* The range of that number, from 0: [*begin_p, *end_p). 0: it is not recorded any more, or is just being written. */
int ucm_cw_range(uint64_t number, uintptr_t *begin_p, uintptr_t *end_p);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
