/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Objects of the interface as they describe themselves: context, worker, memory (INF-10 to INF-12).
 *
 * Callers: main.c.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "endpoint.h"
#include "os/clock.h"
#include "say.h"
#include "show.h"
#include "side.h"

#define MB 1048576.0

/* What this process has at some point. */
struct resources {
    uint64_t at_ns;
    double bytes;
    int descriptors;
};

static int count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    int count = -3; /* ".", ".." and that of the directory */

    if (directory == NULL) {
        return 0;
    }
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count;
}

static struct resources resources_now(void)
{
    struct resources now = {.at_ns = cw_clock_ns(), .descriptors = count_descriptors()};
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%*u %lu", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    now.bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    return now;
}

/* What it took to make the objects since then. */
static void print_used(const struct resources *before, const struct resources *after)
{
    const double bytes = (after->bytes > before->bytes) ? after->bytes - before->bytes : 0;

    printf("# memory: %.2fMB, file descriptors: %d\n# create time: %.3f ms\n#\n", bytes / MB,
           after->descriptors - before->descriptors, (double)(after->at_ns - before->at_ns) / 1e6);
}

/* The library prints nothing when it cannot read the text. */
static int print_memory(const struct cw_info_side *side, const char *text)
{
    char *printed = NULL;
    FILE *stream;
    size_t size;
    int status;

    stream = open_memstream(&printed, &size);
    if (stream == NULL) {
        cw_say_error("out of memory");
        return CW_INFO_FAILED;
    }
    ucp_mem_print_info(text, side->context, stream);
    fclose(stream);
    status = CW_INFO_USAGE;
    if (size > 0) {
        status = (printed[0] == '#' && printed[1] == '\n') ? CW_INFO_OK : CW_INFO_FAILED;
    }
    fputs(printed, stdout);
    if (status == CW_INFO_USAGE) {
        cw_say_error("-m: '%s' is not a memory size, or its memory type is not supported here; expected SIZE[,TYPE], "
                     "such as 1m or 4096,host",
                     text);
    } else if (status == CW_INFO_FAILED) {
        cw_say_error("-m: %s of memory cannot be allocated", text);
    }
    free(printed);
    return status;
}

int cw_show_objects(const struct cw_info_options *options)
{
    const struct resources before = resources_now();
    struct cw_info_side side;
    struct resources after;
    int status = CW_INFO_OK;

    if (cw_side_open(&side, options, options->features, options->only) != UCS_OK) {
        return CW_INFO_FAILED;
    }
    after = resources_now();
    if (options->context) {
        ucp_context_print_info(side.context, stdout);
        print_used(&before, &after);
    }
    if (options->memory != NULL) {
        status = print_memory(&side, options->memory);
    }
    if (status == CW_INFO_OK && (options->worker || options->endpoint)) {
        status = (cw_side_add_worker(&side) == UCS_OK) ? CW_INFO_OK : CW_INFO_FAILED;
    }
    if (status == CW_INFO_OK && options->worker) {
        after = resources_now();
        ucp_worker_print_info(side.worker, stdout);
        print_used(&before, &after);
    }
    if (status == CW_INFO_OK && options->endpoint) {
        status = cw_endpoint_show(&side, options);
    }
    cw_side_close(&side);
    return status;
}
