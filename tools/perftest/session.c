/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side's whole work.
 *
 * Callers: main.c, group.c.
 */
#define _GNU_SOURCE
#include "session.h"

#include "progress.h"
#include "run.h"
#include "say.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_TIMEOUT_S 10u

/* A sweep without -n moves about so many bytes for each size, in so many messages. */
#define SWEEP_BYTES (UINT64_C(1) << 28)
#define SWEEP_LEAST 20u
#define SWEEP_MOST  50000u

int cw_session_hello_ms(const struct cw_perf_options *options)
{
    unsigned seconds = options->timeout_s < HELLO_TIMEOUT_S ? options->timeout_s : HELLO_TIMEOUT_S;

    return (int)seconds * 1000;
}

static int report_failure(const char *what)
{
    cw_say_error("%s: %s", what, cw_oob_error());
    return -1;
}

/* ---- server ---- */

int cw_session_answer(struct cw_session *session)
{
    enum cw_oob_type type;
    void *payload;
    size_t length;

    for (;;) {
        if (cw_oob_recv(&session->oob, 1u << CW_OOB_PARAMS | 1u << CW_OOB_END, &type, &payload, &length) != 0) {
            return report_failure("server failed");
        }
        if (type == CW_OOB_END) {
            free(payload);
            return 0;
        }
        struct cw_perf_params params;
        struct cw_perf_result result;
        bool sound = cw_params_decode(&params, payload, length);
        free(payload);
        if (!sound) {
            cw_say_error("server failed: the client sent parameters that cannot be right");
            cw_oob_give_up(&session->oob, "the server refuses the parameters");
            return -1;
        }
        const struct cw_perf_test *test = cw_test_find(params.test);
        if (test != NULL && !session->report.silent) {
            cw_report_box(test, &params, false);
        }
        if (cw_run_test(CW_ROLE_SERVER, &session->oob, &params, &session->report, &result) != 0) {
            return -1;
        }
        cw_result_free(&result);
    }
}

int cw_session_serve(struct cw_session *session)
{
    const struct cw_perf_options *options = session->options;
    int wait_ms = options->wait_limited ? (int)options->timeout_s * 1000 : -1;

    if (cw_oob_accept(&session->oob, options->family, options->port, wait_ms, cw_session_hello_ms(options)) != 0) {
        return report_failure("server failed");
    }
    session->oob.timeout_ms = (int)options->timeout_s * 1000;
    int result = cw_session_answer(session);
    cw_oob_close(&session->oob);
    return result;
}

/* ---- client and loopback ---- */

int cw_session_ask(struct cw_session *session, const struct cw_perf_params *params)
{
    uint8_t bytes[CW_PERF_WIRE_BYTES];

    cw_params_encode(params, bytes);
    return cw_oob_send(&session->oob, CW_OOB_PARAMS, bytes, sizeof(bytes)) != 0 ? report_failure("client failed") : 0;
}

static int run_here(struct cw_session *session, const struct cw_perf_params *params)
{
    const struct cw_perf_options *options = session->options;
    const struct cw_perf_test *test = cw_test_find(params->test);
    struct cw_perf_result result;

    if (!options->loopback) {
        if (cw_session_ask(session, params) != 0) {
            return -1;
        }
    }
    if (session->box && session->report.levels == 0 && !options->json) {
        cw_report_box(test, params, true);
    }
    if (!session->header_done) {
        cw_report_header(&session->report, test);
        session->header_done = true;
    }
    if (session->report.levels > 0 && !options->final_only && !options->csv && !options->json) {
        cw_report_test_name(&session->report);
    }
    cw_progress_show("%s, %llu bytes: warming up", params->test, (unsigned long long)params->size);
    if (cw_run_test(options->loopback ? CW_ROLE_LOOPBACK : CW_ROLE_CLIENT, options->loopback ? NULL : &session->oob,
                    params, &session->report, &result) != 0) {
        return -1;
    }
    cw_report_result(&session->report, &result);
    cw_result_free(&result);
    return 0;
}

static int run_test(struct cw_session *session, const struct cw_perf_params *params)
{
    if (cw_test_find(params->test) == NULL) {
        cw_say_error("missing test name (-t)");
        return -1;
    }
    return session->run != NULL ? session->run(session, params) : run_here(session, params);
}

/* The sizes of a sweep: the innermost level. */
static int run_sizes(struct cw_session *session, const struct cw_perf_params *params)
{
    const struct cw_perf_options *options = session->options;
    struct cw_perf_params one = *params;
    unsigned level = options->batches;
    char name[32];

    if (!options->sweep) {
        return run_test(session, params);
    }
    session->report.heads[level] = "size";
    session->report.names[level] = name;
    for (uint64_t size = options->sweep_first; size <= options->sweep_last; size = size == 0 ? 1 : size * 2) {
        one.size = size;
        one.part_count = 1;
        one.parts[0] = size;
        if (!options->iterations_given) {
            uint64_t count = SWEEP_BYTES / (size + 1);
            one.iterations = count > SWEEP_MOST ? SWEEP_MOST : count;
            if (count < SWEEP_LEAST) {
                one.iterations = SWEEP_LEAST;
            }
            one.warmup = one.iterations / 10;
        }
        snprintf(name, sizeof(name), "%llu", (unsigned long long)size);
        if (run_test(session, &one) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Runs every combination of one line of each batch file, from file `depth` on. */
static int run_batches(struct cw_session *session, const struct cw_perf_params *params, unsigned depth)
{
    struct cw_perf_options base = *session->options;
    struct cw_perf_line *lines;

    if (depth == session->options->batches) {
        return run_sizes(session, params);
    }
    base.params = *params;
    int count = cw_options_read_batch(&base, session->options->batch[depth], &lines);
    int result = count < 0 ? -1 : 0;
    session->report.heads[depth] = basename(session->options->batch[depth]);
    for (int i = 0; i < count && result == 0; i++) {
        session->report.names[depth] = lines[i].name;
        result = run_batches(session, &lines[i].params, depth + 1);
    }
    if (count >= 0) {
        cw_options_free_batch(lines, count);
    }
    return result;
}

int cw_session_each(struct cw_session *session)
{
    session->report.levels = session->options->batches + session->options->sweep;
    return run_batches(session, &session->options->params, 0);
}

int cw_session_run(struct cw_session *session)
{
    const struct cw_perf_options *options = session->options;

    if (!options->loopback) {
        if (cw_oob_connect(&session->oob, options->family, options->host, options->port,
                           cw_session_hello_ms(options)) != 0) {
            return report_failure("client failed");
        }
        session->oob.timeout_ms = (int)options->timeout_s * 1000;
    }
    return cw_session_tests(session);
}

int cw_session_tests(struct cw_session *session)
{
    int result = cw_session_each(session);

    if (!session->options->loopback) {
        if (result == 0) {
            cw_oob_send(&session->oob, CW_OOB_END, NULL, 0);
        }
        cw_oob_close(&session->oob);
    }
    return result;
}
