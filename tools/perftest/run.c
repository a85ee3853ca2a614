/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One test from parameters to its numbers.
 *
 * Callers: session.c, group.c, threads.c.
 * A result exists after the last meeting with the peer: a failure that only the peer has seen (a wrong byte, say)
 * leaves none behind.
 */
#include "run.h"

#include "device.h"
#include "progress.h"
#include "say.h"
#include "threads.h"

#include <stdio.h>

/* The first thread shows how far the work is; the others are about as far. */
static void show_progress(const struct cw_perf_run *run, const struct cw_meter_row *row)
{
    const struct cw_perf_params *params = &run->params;
    if (params->iterations == CW_PERF_ENDLESS) {
        cw_progress_show("%s, %llu bytes: %llu iterations, until you end it", params->test,
                         (unsigned long long)params->size, (unsigned long long)row->iterations);
        return;
    }
    double left_s = row->overall_usec * run->test->parts * (double)(params->iterations - row->iterations) / 1e6;

    cw_progress_show("%s, %llu bytes: %.0f %% of %llu iterations, %.0f s left", params->test,
                     (unsigned long long)params->size, 100.0 * (double)row->iterations / (double)params->iterations,
                     (unsigned long long)params->iterations, left_s);
}

static void print_interval(void *arg, const struct cw_meter_row *row)
{
    const struct cw_perf_run *run = arg;
    const struct cw_perf_options *options = run->report->options;

    /* Threads cannot be distinguished in comma-separated values. */
    if (!run->report->silent && !options->final_only && !options->json &&
        (!options->csv || run->params.threads == 1)) {
        cw_report_interval(run->report, row, run);
    }
    if (run->thread == 0 && !run->report->silent) {
        show_progress(run, row);
    }
}

bool cw_run_meter(struct cw_perf_run *run, struct cw_meter *meter)
{
    *meter = (struct cw_meter){
        .rank = run->report->options->rank,
        .parts = run->test->parts,
        .size = run->params.size,
        .print = print_interval,
        .print_arg = run,
    };
    run->meter = meter;
    return cw_hist_init(&meter->hist);
}

struct cw_link_config cw_run_config(const struct cw_perf_run *run)
{
    const struct cw_perf_options *options = run->report->options;

    return (struct cw_link_config){
        .features = run->test->features | (options->wakeup ? UCP_FEATURE_WAKEUP : 0),
        .thread_mode = run->params.thread_mode,
        .sleep = run->params.sleep,
        .share_cpu = options->share_cpu,
        .error_mode = options->error_mode,
        .timeout_s = options->timeout_s,
    };
}

static int measure(struct cw_perf_run *run)
{
    if (cw_link_barrier(run->link) != 0 || run->test->run(run) != 0) {
        return -1;
    }
    return cw_link_barrier(run->link);
}

int cw_run_worker(struct cw_perf_run *run, const struct cw_link_config *config, struct cw_oob *oob,
                  char sentence[CW_SENTENCE])
{
    const char *problem = cw_device_enter(run->params.send_memory); /* before the library looks for a driver */
    struct cw_link link;
    int result;

    if (problem == NULL) {
        problem = cw_device_enter(run->params.recv_memory);
    }
    if (problem != NULL) {
        snprintf(sentence, CW_SENTENCE, "memory of a GPU (-m): %s", problem);
        if (oob != NULL) {
            cw_oob_give_up(oob, sentence);
        }
        return -1;
    }
    result = cw_link_open(&link, config, oob);

    run->link = &link;
    if (result == 0) {
        if (run->role != CW_ROLE_SERVER && run->thread == 0) {
            cw_report_path(&link, &run->path);
            cw_report_extra(run->report, &run->path);
        }
        result = measure(run);
    }
    if (result != 0 && oob != NULL) {
        /* Reported before the close, which may take a while on a connection that is broken. */
        cw_oob_give_up(oob, link.error);
    }
    if (cw_link_close(&link) != 0) {
        snprintf(sentence, CW_SENTENCE, "%s", link.error);
        result = -1;
    }
    run->link = NULL;
    return result;
}

static int run_one(struct cw_perf_run *run, struct cw_oob *oob, struct cw_perf_result *result, char *sentence)
{
    struct cw_link_config config = cw_run_config(run);

    if (!cw_run_meter(run, &result->meter)) {
        snprintf(sentence, CW_SENTENCE, "out of memory for the histogram");
        if (oob != NULL) {
            cw_oob_give_up(oob, sentence);
        }
        return -1;
    }
    if (cw_run_worker(run, &config, oob, sentence) != 0) {
        return -1;
    }
    result->row = cw_meter_row(&result->meter);
    result->verified = run->verified;
    result->path = run->path;
    return 0;
}

int cw_run_test(enum cw_perf_role role, struct cw_oob *oob, const struct cw_perf_params *params,
                const struct cw_report *report, struct cw_perf_result *result)
{
    struct cw_perf_run run = {
        .role = role,
        .test = cw_test_find(params->test),
        .params = *params,
        .report = report,
    };
    char sentence[CW_SENTENCE] = "";

    *result = (struct cw_perf_result){0};
    if (run.test == NULL) {
        cw_say_error("the client requests test '%s', which this version does not have", params->test);
        if (oob != NULL) {
            cw_oob_give_up(oob, "the server does not have this test: use the same release on both sides");
        }
        return -1;
    }
    if (run.params.window == 0) {
        run.params.window = run.test->window;
    }
    int status = params->threads > 1 ? cw_threads_run(&run, oob, result, sentence)
                                     : run_one(&run, oob, result, sentence);
    cw_progress_clear();
    if (status != 0) {
        cw_say_error("test '%s' failed: %s", params->test, sentence);
        cw_result_free(result);
    }
    result->params = run.params;
    result->test = run.test;
    return status;
}

void cw_result_free(struct cw_perf_result *result)
{
    cw_hist_fini(&result->meter.hist);
    *result = (struct cw_perf_result){0};
}
