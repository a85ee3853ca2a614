/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The variable of base/counter.h.
 */
#include "base/counter.h"

uint64_t cw_counter_start;
