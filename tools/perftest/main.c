/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_perftest: measures the UCP interface between two processes, or within one (-l). See docs/operate/measure.md.
 *
 * A plain program of the public interface: started with another LD_LIBRARY_PATH it measures that library.
 * Exit status (PRF-5): 0 success, 129 wrong options, 255 failure.
 */
#define _GNU_SOURCE
#include "group.h"
#include "options.h"
#include "progress.h"
#include "say.h"
#include "session.h"
#include "ticks.h"

#include <dlfcn.h>
#include <stdio.h>

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

static int measure(struct cw_perf_options *options)
{
    struct cw_session session = {
        .options = options,
        .oob = {.fd = -1},
        .report = {.options = options},
        .box = options->loopback,
    };
    bool server = options->host == NULL && !options->loopback;
    int result;

    cw_ticks_start();
    cw_watchdog_start(options->timeout_s + 5, CW_PERF_EXIT_FAILURE);
    if (cw_group_wanted(options)) {
        result = cw_group_run(options);
    } else {
        result = server ? cw_session_serve(&session) : cw_session_run(&session);
    }
    return result == 0 ? 0 : CW_PERF_EXIT_FAILURE;
}

/* The words are joined by blanks: they are for people, and for telling rows apart. */
static void note_command(char *text, size_t size, int argc, char **argv)
{
    size_t used = 0;

    for (int i = 1; i < argc && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s", i > 1 ? " " : "", argv[i]);
    }
}

/* The exit status; results that were not written are no success. */
static int end(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        cw_say_error("the output cannot be written: the results are not complete");
        return CW_PERF_EXIT_FAILURE;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct cw_perf_options options;

    cw_say_setup("ucx_perftest", false);
    cw_options_init(&options);
    note_command(options.command, sizeof(options.command), argc, argv);
    if (!cw_options_parse(&options, argc, argv, false)) {
        return CW_PERF_EXIT_USAGE;
    }
    if (options.help) {
        cw_options_usage("ucx_perftest");
        return end(0);
    }
    if (options.show_library) {
        return end(show_library());
    }
    cw_progress_setup(!options.quiet);
    if (options.cpus != NULL) {
        const char *problem = cw_cpu_bind(options.cpus);
        if (problem != NULL) {
            cw_say_error("binding to processors '%s' (-c): %s", options.cpus, problem);
            return CW_PERF_EXIT_FAILURE;
        }
    }
    if ((options.host != NULL || options.loopback) && options.params.test[0] == '\0' && options.batches == 0) {
        cw_say_error("missing test name (-t)");
        return CW_PERF_EXIT_FAILURE;
    }
    return end(measure(&options));
}
