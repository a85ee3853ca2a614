/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calling thread and its processor.
 */
#ifndef CW_OS_THREAD_H
#define CW_OS_THREAD_H

#include <stdint.h>

/* Lets another thread have it that waits for this very processor; returns at once if there is none. */
void cw_thread_yield(void);

/* How often another one had it in between, by this one's will or not. */
uint64_t cw_thread_switches(void);

#endif
