/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of tests, family by family.
 *
 * Callers: options.c, run.c, main.c.
 */
#include "tests.h"

#include <string.h>

const struct cw_perf_test *cw_test_at(unsigned index)
{
    const struct {
        const struct cw_perf_test *tests;
        unsigned count;
    } families[] = {
        {cw_tag_tests, cw_tag_test_count},
        {cw_am_tests, cw_am_test_count},
        {cw_stream_tests, cw_stream_test_count},
        {cw_rma_tests, cw_rma_test_count},
        {cw_amo_tests, cw_amo_test_count},
    };

    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        if (index < families[i].count) {
            return &families[i].tests[index];
        }
        index -= families[i].count;
    }
    return NULL;
}

const struct cw_perf_test *cw_test_find(const char *name)
{
    const struct cw_perf_test *test;

    for (unsigned index = 0; (test = cw_test_at(index)) != NULL; index++) {
        if (strcmp(test->name, name) == 0) {
            return test;
        }
    }
    return NULL;
}
