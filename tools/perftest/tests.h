/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of tests of the performance tool. A family of tests (tag, am, stream, rma, atomics) is one file
 * that defines an array of entries and is named in tests.c; nothing else knows about it.
 *
 * Callers: options.c (names), run.c (runs).
 */
#ifndef CW_PERF_TESTS_H
#define CW_PERF_TESTS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "link.h"
#include "meter.h"
#include "options.h"

struct cw_report;

enum cw_perf_role { CW_ROLE_SERVER, CW_ROLE_CLIENT, CW_ROLE_LOOPBACK };

/* By what the messages of an endpoint go, as far as the library says it: names joined by +. */
struct cw_perf_path {
    char transports[64];
    char devices[128];
};

/* Everything a running test uses. */
struct cw_perf_run {
    enum cw_perf_role role;
    const struct cw_perf_test *test;
    struct cw_perf_params params; /* window filled in */
    struct cw_link *link;
    struct cw_meter *meter; /* started by the test after warm-up; unused at the server */
    uint64_t verified;      /* messages checked byte by byte */
    unsigned thread;        /* which one of several (-T) */
    struct cw_perf_path path;
    const struct cw_report *report;
};

struct cw_perf_test {
    const char *name;        /* as given to -t */
    const char *description; /* as in the information box */
    const char *help;        /* as in the usage text */
    uint64_t features;       /* UCP_FEATURE_* */
    bool latency;            /* reports latency, otherwise the time between messages */
    unsigned parts;          /* messages of an iteration one after the other: 2 of a round trip (PRF-27) */
    unsigned window;         /* bound on unfinished sends when -O is not given */
    /* Runs warm-up and measurement. 0, or -1 after cw_link_fail(). */
    int (*run)(struct cw_perf_run *run);
};

/* Whether one side alone acts: the options about memory of the peer are for these tests. */
static inline bool cw_test_one_sided(const struct cw_perf_test *test)
{
    return (test->features & (UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64)) != 0;
}

/* Whether the test's memory may be that of a GPU, which no processor reads. */
static inline bool cw_test_takes_gpu(const struct cw_perf_test *test)
{
    return (test->features & (UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64)) == 0 && strcmp(test->name, "ucp_put_lat") != 0;
}

/*
 * Zeroed memory for the state of a test, or NULL. After a failure operations may be in flight: the state is then not
 * freed but lasts until the process ends, where it can be found. Any thread may call.
 */
void *cw_test_new(size_t size);
void cw_test_free(void *state);

/* The entry of a name, or NULL. */
const struct cw_perf_test *cw_test_find(const char *name);

/* The index-th entry in the order of the usage text, or NULL beyond the last. */
const struct cw_perf_test *cw_test_at(unsigned index);

extern const struct cw_perf_test cw_tag_tests[];
extern const unsigned cw_tag_test_count;
extern const struct cw_perf_test cw_am_tests[];
extern const unsigned cw_am_test_count;
extern const struct cw_perf_test cw_stream_tests[];
extern const unsigned cw_stream_test_count;
extern const struct cw_perf_test cw_rma_tests[];
extern const unsigned cw_rma_test_count;
extern const struct cw_perf_test cw_amo_tests[];
extern const unsigned cw_amo_test_count;

#endif
