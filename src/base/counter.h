/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The first value of counters that may pass the end of their type while the library works: numbers of packets, bytes
 * and requests, generations, sequence numbers (docs/reference/wrap.md).
 */
#ifndef CW_BASE_COUNTER_H
#define CW_BASE_COUNTER_H

#include <stdint.h>

/* 0. A test sets it before it makes a context, so that counters of every width pass their end soon: each takes the low
 * bits. It is even, and equal in all processes that talk to each other. */
extern uint64_t cw_counter_start;

#endif
