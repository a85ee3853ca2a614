/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/counter.h"

uint64_t cw_counter_start;
