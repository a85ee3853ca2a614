/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The initial value of counters that may wrap while the library runs: numbers of packets, bytes and requests,
 * generations, sequence numbers (docs/reference/wrap.md).
 */
#ifndef CW_BASE_COUNTER_H
#define CW_BASE_COUNTER_H

#include <stdint.h>

/* 0. A test sets it before it makes a context, so that counters of every width wrap soon: each uses the low bits. It is
 * even, and equal in all processes that communicate with each other. */
extern uint64_t cw_counter_start;

#endif
