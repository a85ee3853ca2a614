/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpredictable numbers from the system: worker ids, socket names, hash seeds.
 */
#ifndef CW_OS_RANDOM_H
#define CW_OS_RANDOM_H

#include <stdint.h>

/* Never waits long and never fails: uses clock, process id and addresses where the system refuses (early boot,
 * seccomp). */
uint64_t cw_random_u64(void);

#endif
