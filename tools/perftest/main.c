/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_perftest: measures the UCP interface between two processes, or within one (-l). See docs/operate/measure.md.
 *
 * A plain program of the public interface: started with another LD_LIBRARY_PATH it measures that library.
 * Exit status (PRF-5): 0 success, 129 wrong options, 255 failure; 1 where no picture (--plot) can be drawn.
 */
#define _GNU_SOURCE
#include "compare.h"
#include "group.h"
#include "options.h"
#include "plot.h"
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

static int plot_files(const struct cw_perf_options *options)
{
    struct cw_plot plot = {0};
    int result = cw_plot_check(options->plot);

    for (unsigned i = 0; i < options->file_count && result == 0; i++) {
        result = cw_plot_add_file(&plot, options->files[i]);
    }
    if (result == 0) {
        result = cw_plot_write(&plot, options->plot);
    }
    cw_plot_free(&plot);
    return result == 0 ? 0 : CW_PERF_EXIT_PLOT;
}

static int measure(struct cw_perf_options *options)
{
    struct cw_plot plot = {0};
    struct cw_session session = {
        .options = options,
        .oob = {.fd = -1},
        .report = {.options = options},
        .box = options->loopback,
        .plot = options->plot != NULL ? &plot : NULL,
    };
    bool server = options->host == NULL && !options->loopback;
    int result, status = CW_PERF_EXIT_FAILURE;

    cw_ticks_start();
    cw_watchdog_start(options->timeout_s + 5, CW_PERF_EXIT_FAILURE);
    if (cw_group_wanted(options)) {
        result = cw_group_run(options, session.plot);
    } else {
        result = server ? cw_session_serve(&session) : cw_session_run(&session);
    }
    if (result == 0) {
        /* A server has nothing to draw. */
        status = plot.count == 0 || cw_plot_write(&plot, options->plot) == 0 ? 0 : CW_PERF_EXIT_PLOT;
    }
    cw_plot_free(&plot);
    return status;
}

int main(int argc, char **argv)
{
    struct cw_perf_options options;

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
    cw_progress_setup(!options.quiet);
    if (options.file_count > 0) {
        return plot_files(&options);
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
    if ((options.host != NULL || options.loopback) && options.params.test[0] == '\0' && options.batches == 0) {
        cw_say_error("missing test name (-t)");
        return CW_PERF_EXIT_FAILURE;
    }
    /* Before hours of measurement. */
    if (options.plot != NULL && cw_plot_check(options.plot) != 0) {
        return CW_PERF_EXIT_PLOT;
    }
    return measure(&options);
}
