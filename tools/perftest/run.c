/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One test from parameters to final row.
 *
 * Callers: main.c.
 * The final row is printed after the last meeting with the peer: a failure that only the peer has seen (a wrong
 * byte, say) leaves no final row behind.
 */
#include "run.h"

#include "say.h"

#include <stdio.h>

static void print_interval(void *arg, const struct cw_meter_row *row)
{
    cw_report_row(arg, row, false);
}

static void print_result(const struct cw_report *report, const struct cw_perf_run *run)
{
    struct cw_meter_row row = cw_meter_row(run->meter);

    if (report->options->json) {
        cw_report_json(report, run, &row);
        return;
    }
    /* Comma-separated values hold rows alone. */
    if (!report->options->csv) {
        if (report->options->percentiles) {
            cw_report_percentiles(run->meter);
        }
        if (run->params.verify) {
            printf("# verified: %llu messages of %llu bytes on this side\n", (unsigned long long)run->verified,
                   (unsigned long long)run->params.size);
        }
    } else if (report->options->percentiles) {
        cw_say_note("--percentiles has no place in comma-separated values (-v)");
    }
    cw_report_row(report, &row, true);
}

static int measure(struct cw_perf_run *run)
{
    if (cw_link_barrier(run->link) != 0 || run->test->run(run) != 0) {
        return -1;
    }
    return cw_link_barrier(run->link);
}

static struct cw_link_config link_config(const struct cw_perf_run *run, const struct cw_perf_options *options)
{
    return (struct cw_link_config){
        .features = run->test->features,
        .thread_mode = run->params.thread_mode,
        .sleep = run->params.sleep,
        .error_handling = options->error_handling,
        .timeout_s = options->timeout_s,
    };
}

static struct cw_meter new_meter(const struct cw_perf_run *run, const struct cw_report *report)
{
    return (struct cw_meter){
        .rank = report->options->rank,
        .parts = run->test->parts,
        .size = run->params.size,
        .print = report->options->final_only || report->options->json ? NULL : print_interval,
        .print_arg = (void *)report,
    };
}

int cw_run_test(enum cw_perf_role role, struct cw_oob *oob, const struct cw_perf_params *params,
                const struct cw_report *report)
{
    struct cw_perf_run run = {.role = role, .test = cw_test_find(params->test), .params = *params};
    struct cw_link link;

    if (run.test == NULL) {
        cw_say_error("the client asks for test '%s', which this version does not have", params->test);
        if (oob != NULL) {
            cw_oob_give_up(oob, "the server does not have this test: use the same release on both sides");
        }
        return -1;
    }
    if (run.params.window == 0) {
        run.params.window = run.test->window;
    }
    struct cw_meter meter = new_meter(&run, report);
    if (!cw_hist_init(&meter.hist)) {
        cw_say_error("no memory for the histogram");
        if (oob != NULL) {
            cw_oob_give_up(oob, "no memory for the histogram");
        }
        return -1;
    }
    run.meter = &meter;
    run.link = &link;

    struct cw_link_config config = link_config(&run, report->options);
    int result = cw_link_open(&link, &config, oob);
    if (result == 0) {
        result = measure(&run);
    }
    if (result != 0 && oob != NULL) {
        /* Told before the close, which may take a while on a connection that is broken. */
        cw_oob_give_up(oob, link.error);
    }
    if (cw_link_close(&link) != 0) {
        cw_say_error("test '%s' failed: %s", params->test, link.error);
        result = -1;
    }
    if (result == 0 && role != CW_ROLE_SERVER) {
        print_result(report, &run);
    }
    cw_hist_fini(&meter.hist);
    return result;
}
