/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of tests: families that can run, then the names of the interface that are still to come, so that
 * asking for one of them is answered with a sentence instead of "unknown".
 *
 * Callers: options.c, run.c, main.c.
 */
#include "tests.h"

#include <string.h>

static const struct cw_perf_test later_tests[] = {
    {.name = "ucp_put_lat", .help = "UCP put latency"},
    {.name = "ucp_put_bw", .help = "UCP put bandwidth"},
    {.name = "ucp_get", .help = "UCP get latency, bandwidth, rate"},
    {.name = "ucp_add", .help = "UCP atomic add rate"},
    {.name = "ucp_fadd", .help = "UCP atomic fetch-and-add latency, rate"},
    {.name = "ucp_swap", .help = "UCP atomic swap latency, rate"},
    {.name = "ucp_cswap", .help = "UCP atomic compare-and-swap latency, rate"},
};

const struct cw_perf_test *cw_test_at(unsigned index)
{
    const struct {
        const struct cw_perf_test *tests;
        unsigned count;
    } families[] = {
        {cw_tag_tests, cw_tag_test_count},
        {cw_am_tests, cw_am_test_count},
        {cw_stream_tests, cw_stream_test_count},
        {later_tests, sizeof(later_tests) / sizeof(later_tests[0])},
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
