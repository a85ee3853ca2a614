/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exit of another process.
 */
#ifndef CW_OS_PROCESS_H
#define CW_OS_PROCESS_H

#include <stdint.h>

/* A descriptor, close-on-exec, that becomes readable when that process of our pid namespace has ended. Negative: 0 -
 * ESRCH when it has ended already, any other value when unknown. */
int cw_process_watch(uint32_t process);
void cw_process_unwatch(int fd);

#endif
