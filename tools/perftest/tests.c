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
    {.name = "stream_bw", .help = "UCP stream bandwidth"},
    {.name = "stream_lat", .help = "UCP stream latency"},
    {.name = "ucp_am_lat", .help = "UCP active message latency"},
    {.name = "ucp_am_bw", .help = "UCP active message bandwidth, rate"},
};

const struct cw_perf_test *cw_test_at(unsigned index)
{
    const unsigned later_count = sizeof(later_tests) / sizeof(later_tests[0]);

    if (index < cw_tag_test_count) {
        return &cw_tag_tests[index];
    }
    index -= cw_tag_test_count;
    return index < later_count ? &later_tests[index] : NULL;
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
