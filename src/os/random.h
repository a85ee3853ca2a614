/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpredictable numbers from the kernel: worker ids, socket names, hash seeds.
 */
#ifndef CW_OS_RANDOM_H
#define CW_OS_RANDOM_H

#include <stdint.h>

/* Never blocks for long and never fails: falls back to clock, process id and addresses if the kernel refuses (early
 * boot, seccomp). */
uint64_t cw_random_u64(void);

#endif
