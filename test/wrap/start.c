/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starts the counters of the library CW_TEST_WRAP_AFTER pairs of steps before the end of their types, in each process
 * of a program.
 */
#include <stdlib.h>

#include "base/counter.h"

static void __attribute__((constructor)) start(void)
{
    const char *after = getenv("CW_TEST_WRAP_AFTER");

    cw_counter_start = (after == NULL) ? 0 : -2 * strtoull(after, NULL, 10);
}
