/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A test that runs for many seeds: CW_SIM_SEED is the first one, CW_SIM_SEEDS how many follow. CW_SIM_PERCENT: only
 * that many of a hundred, at least one.
 */
#ifndef CW_TEST_SIM_SERIES_H
#define CW_TEST_SIM_SERIES_H

#include <stdlib.h>

#include "runner.h"

struct cw_series {
    uint64_t seeds;                /* unless the environment says otherwise */
    void (*run)(uint64_t seed);
    void (*after)(uint64_t count); /* NULL, or checks what all seeds together met */
};

static inline uint64_t cw_series_setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);

    return (text != NULL) ? strtoull(text, NULL, 0) : otherwise;
}

static inline void cw_series_run(const struct cw_series *series)
{
    const uint64_t first = cw_series_setting("CW_SIM_SEED", 1);
    const uint64_t all = cw_series_setting("CW_SIM_SEEDS", series->seeds);
    const uint64_t part = all * cw_series_setting("CW_SIM_PERCENT", 100) / 100;
    const uint64_t count = (part > 0) ? part : 1;

    for (uint64_t seed = first; seed < first + count; seed++) {
        series->run(seed);
    }
    if (series->after != NULL) {
        series->after(count);
    }
}

/* So many seeds, and NULL or a function that is called behind them: as struct cw_series has it. The body has `seed`. */
#define SERIES_TEST(name, seeds, after)                                     \
    static void name##_of(uint64_t seed);                                   \
    TEST(name)                                                              \
    {                                                                       \
        cw_series_run(&(const struct cw_series){seeds, name##_of, after});  \
    }                                                                       \
    static void name##_of(uint64_t seed)

#endif
