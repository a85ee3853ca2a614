/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_info: what this library is, what it finds on this machine, and why a message takes its path. The library is
 * linked into it (docs/why/tools.md). The order of what is shown is fixed (INF-1). Exit statuses: options.h.
 */
#include <stdio.h>

#include "library.h"
#include "options.h"
#include "say.h"
#include "show.h"

#define PROGRAM   "ucx_info"
#define LIMIT_S   60u

static void show_facts(const struct cw_info_options *options)
{
    if (options->version) {
        cw_show_version();
    }
    if (options->build) {
        cw_show_build();
    }
    if (options->types) {
        cw_show_types();
    }
}

static void show_machine(const struct cw_info_options *options)
{
    if (options->topology) {
        cw_show_topology();
    }
    if (options->system) {
        cw_show_system();
    }
    if (options->copies) {
        cw_show_copies();
    }
}

/* Goes on after a failure, so that what can be shown is shown; the first failure is the exit status. */
static int show(const struct cw_info_options *options)
{
    int status = CW_INFO_OK, next;

    show_facts(options);
    if (options->devices) {
        status = cw_show_devices(options);
    }
    show_machine(options);
    if (options->config_flags != 0) {
        next = cw_show_config(options);
        status = (status == CW_INFO_OK) ? next : status;
    }
    if (options->context || options->worker || options->endpoint || options->memory != NULL) {
        next = cw_show_objects(options);
        status = (status == CW_INFO_OK) ? next : status;
    }
    if (options->address_file != NULL) {
        next = cw_show_address(options);
        status = (status == CW_INFO_OK) ? next : status;
    }
    if (options->why) {
        next = cw_show_why(options);
        status = (status == CW_INFO_OK) ? next : status;
    }
    return status;
}

int main(int argc, char **argv)
{
    struct cw_info_options options;
    int status;

    cw_say_setup(PROGRAM, false);
    status = cw_info_options_parse(&options, argc, argv);
    if (status != CW_INFO_OK || options.help) {
        cw_info_usage(PROGRAM);
        return status;
    }
    cw_watchdog_start(LIMIT_S, CW_INFO_FAILED);
    cw_info_library_stand_for();
    status = show(&options);
    if (status == CW_INFO_USAGE) {
        cw_info_usage(PROGRAM);
    }
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CW_INFO_OK) {
        cw_say_error("the output cannot be written");
        status = CW_INFO_FAILED;
    }
    return status;
}
