/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a type of memory. */
#ifndef CW_EXERCISE_MIRROR_H
#define CW_EXERCISE_MIRROR_H

#include "mem/md.h"

extern const struct cw_md mirror_md;

/* For its test: as the domain copies, without being counted; further copies fail once there were so many; how many. */
void mirror_move(void *to, const void *from, size_t length);
void mirror_fail_after(uint64_t count);
uint64_t mirror_copies(void);

#endif
