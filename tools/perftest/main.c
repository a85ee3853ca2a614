/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_perftest: measures the UCP interface between two processes, or within one (-l). See docs/PERFORMANCE.md.
 *
 * A plain program of the public interface: started with another LD_LIBRARY_PATH it measures that library.
 * Exit status (PRF-5): 0 success, 129 wrong options, 255 failure.
 */
#define _GNU_SOURCE
#include "compare.h"
#include "oob.h"
#include "options.h"
#include "report.h"
#include "run.h"
#include "say.h"
#include "ticks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELLO_TIMEOUT_S 10u

struct session {
    struct cw_perf_options *options;
    struct cw_oob oob;
    struct cw_report report;
    bool header_done;
};

static int show_library(void)
{
    Dl_info info;
    const char *file = "unknown";

    if (dladdr((void *)(uintptr_t)ucp_get_version_string, &info) != 0 && info.dli_fname != NULL) {
        file = info.dli_fname;
    }
    printf("%s %s\n", ucp_get_version_string(), file);
    return 0;
}

/* How long the other side may take for its first words. */
static int hello_timeout_ms(const struct cw_perf_options *options)
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

static int serve(struct session *session)
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
        bool sound = cw_params_decode(&params, payload, length);
        free(payload);
        if (!sound) {
            cw_say_error("server failed: the client sent parameters that cannot be right");
            cw_oob_give_up(&session->oob, "the server refuses the parameters");
            return -1;
        }
        const struct cw_perf_test *test = cw_test_find(params.test);
        if (test != NULL) {
            cw_report_box(test, &params, false);
        }
        if (cw_run_test(CW_ROLE_SERVER, &session->oob, &params, &session->report) != 0) {
            return -1;
        }
    }
}

static int run_server(struct session *session)
{
    const struct cw_perf_options *options = session->options;
    int wait_ms = options->wait_limited ? (int)options->timeout_s * 1000 : -1;

    if (cw_oob_accept(&session->oob, options->family, options->port, wait_ms, hello_timeout_ms(options)) != 0) {
        return report_failure("server failed");
    }
    session->oob.timeout_ms = (int)options->timeout_s * 1000;
    int result = serve(session);
    cw_oob_close(&session->oob);
    return result;
}

/* ---- client and loopback ---- */

static int run_one(struct session *session, const struct cw_perf_params *params)
{
    const struct cw_perf_test *test = cw_test_find(params->test);
    bool loopback = session->options->loopback;

    if (test == NULL) {
        cw_say_error("missing test name (-t)");
        return -1;
    }
    if (!loopback) {
        uint8_t bytes[CW_PERF_WIRE_BYTES];
        cw_params_encode(params, bytes);
        if (cw_oob_send(&session->oob, CW_OOB_PARAMS, bytes, sizeof(bytes)) != 0) {
            return report_failure("client failed");
        }
    } else if (session->options->batches == 0 && !session->options->json) {
        cw_report_box(test, params, true);
    }
    if (!session->header_done) {
        cw_report_header(&session->report, test);
        session->header_done = true;
    }
    if (session->options->batches > 0 && !session->options->final_only && !session->options->csv &&
        !session->options->json) {
        cw_report_test_name(&session->report);
    }
    return cw_run_test(loopback ? CW_ROLE_LOOPBACK : CW_ROLE_CLIENT, loopback ? NULL : &session->oob, params,
                       &session->report);
}

/* Runs every combination of one line of each batch file, from file `depth` on. */
static int run_batches(struct session *session, const struct cw_perf_params *params, unsigned depth)
{
    struct cw_perf_options base = *session->options;
    struct cw_perf_line *lines;

    if (depth == session->options->batches) {
        return run_one(session, params);
    }
    base.params = *params;
    int count = cw_options_read_batch(&base, session->options->batch[depth], &lines);
    int result = count < 0 ? -1 : 0;
    for (int i = 0; i < count && result == 0; i++) {
        session->report.names[depth] = lines[i].name;
        result = run_batches(session, &lines[i].params, depth + 1);
    }
    if (count >= 0) {
        cw_options_free_batch(lines, count);
    }
    return result;
}

static int run_client(struct session *session)
{
    const struct cw_perf_options *options = session->options;

    if (!options->loopback) {
        if (cw_oob_connect(&session->oob, options->family, options->host, options->port,
                           hello_timeout_ms(options)) != 0) {
            return report_failure("client failed");
        }
        session->oob.timeout_ms = (int)options->timeout_s * 1000;
    }
    int result = run_batches(session, &options->params, 0);
    if (!options->loopback) {
        if (result == 0) {
            cw_oob_send(&session->oob, CW_OOB_END, NULL, 0);
        }
        cw_oob_close(&session->oob);
    }
    return result;
}

int main(int argc, char **argv)
{
    struct cw_perf_options options;
    struct session session = {.options = &options, .oob = {.fd = -1}, .report = {.options = &options}};

    cw_say_setup("ucx_perftest", false);
    cw_options_init(&options);
    if (!cw_options_parse(&options, argc, argv, false)) {
        cw_options_usage("ucx_perftest");
        return CW_PERF_EXIT_USAGE;
    }
    if (options.help) {
        cw_options_usage("ucx_perftest");
        return 0;
    }
    if (options.show_library) {
        return show_library();
    }
    if (options.compare != NULL) {
        return cw_compare_run(&options, argv) == 0 ? 0 : CW_PERF_EXIT_FAILURE;
    }
    if (options.cpus != NULL) {
        const char *problem = cw_cpu_bind(options.cpus);
        if (problem != NULL) {
            cw_say_error("binding to processors '%s' (-c): %s", options.cpus, problem);
            return CW_PERF_EXIT_FAILURE;
        }
    }
    bool server = options.host == NULL && !options.loopback;
    if (!server && options.params.test[0] == '\0' && options.batches == 0) {
        cw_say_error("missing test name (-t)");
        return CW_PERF_EXIT_FAILURE;
    }
    cw_ticks_start();
    cw_watchdog_start(options.timeout_s + 5, CW_PERF_EXIT_FAILURE);
    return (server ? run_server(&session) : run_client(&session)) == 0 ? 0 : CW_PERF_EXIT_FAILURE;
}
