/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What several processes have measured: a row for each pair, and what they come to together.
 *
 * Callers: group.c. Clients pack their result into a text, the first process prints it.
 */
#ifndef CW_PERF_GROUP_REPORT_H
#define CW_PERF_GROUP_REPORT_H

#include "report.h"

#define CW_GROUP_RESULT 448

struct cw_group_pair {
    uint32_t client, server;
    double usec;
};

struct cw_group_report {
    char (*hosts)[128]; /* of each process */
    const struct cw_report *report;
    const struct cw_perf_params *params;
    const struct cw_perf_test *test;
    bool header_done;
    uint32_t size;
    unsigned pairs;
    uint64_t iterations;
    double usec, mbps, rate; /* sums */
    struct cw_group_pair fastest, slowest;
};

void cw_group_report_pack(const struct cw_perf_result *result, char text[CW_GROUP_RESULT]);

/* A test among `size` processes begins; a pair has measured; all have. */
void cw_group_report_begin(struct cw_group_report *group, const struct cw_report *report,
                           const struct cw_perf_params *params, uint32_t size);
void cw_group_report_pair(struct cw_group_report *group, uint32_t client, uint32_t server, const char *text);
void cw_group_report_end(const struct cw_group_report *group);

#endif
