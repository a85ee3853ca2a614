/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The curves of a picture and its file.
 *
 * Callers: main.c, session.c, plot_read.c.
 */
#define _GNU_SOURCE
#include "plot.h"

#include "say.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *path, int error)
{
    cw_say_error("the picture '%s' cannot be written: %s", path, strerror(error));
    return -1;
}

int cw_plot_check(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    struct stat status;

    if (*path == '\0' || strlen(path) + 8 >= sizeof(folder)) {
        return fail(path, *path == '\0' ? ENOENT : ENAMETOOLONG);
    }
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        return fail(path, EISDIR);
    }
    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1, slash == NULL ? "." : path);
    return access(folder, W_OK | X_OK) == 0 ? 0 : fail(path, errno);
}

static struct cw_plot_curve *find_curve(struct cw_plot *plot, const char *run, const char *test, bool latency)
{
    for (unsigned i = 0; i < plot->count; i++) {
        if (strcmp(plot->curves[i].run, run) == 0 && strcmp(plot->curves[i].test, test) == 0) {
            return &plot->curves[i];
        }
    }
    struct cw_plot_curve *more = realloc(plot->curves, (plot->count + 1) * sizeof(*more));
    if (more == NULL) {
        return NULL;
    }
    plot->curves = more;
    more += plot->count++;
    *more = (struct cw_plot_curve){.latency = latency};
    snprintf(more->run, sizeof(more->run), "%s", run);
    snprintf(more->test, sizeof(more->test), "%s", test);
    return more;
}

int cw_plot_add(struct cw_plot *plot, const char *run, const char *test, bool latency,
                const struct cw_plot_point *point)
{
    struct cw_plot_curve *curve = find_curve(plot, run, test, latency);
    struct cw_plot_point *more =
        curve == NULL ? NULL : realloc(curve->points, (curve->count + 1) * sizeof(*curve->points));
    unsigned at;

    if (more == NULL) {
        cw_say_error("no memory for the picture");
        return -1;
    }
    curve->points = more;
    for (at = curve->count++; at > 0 && more[at - 1].size > point->size; at--) {
        more[at] = more[at - 1];
    }
    more[at] = *point;
    return 0;
}

int cw_plot_add_result(struct cw_plot *plot, const struct cw_report *report, const struct cw_perf_result *result)
{
    struct cw_plot_point point = {
        .size = result->params.size,
        .usec = cw_meter_percentile(&result->meter, 50),
        .mib_per_s = result->row.overall_mbps,
    };
    char test[96];
    int length = snprintf(test, sizeof(test), "%s", result->params.test);

    /* Lines of batch files have names of their own. */
    for (unsigned i = 0; i < report->options->batches && length < (int)sizeof(test); i++) {
        length += snprintf(test + length, sizeof(test) - (size_t)length, " %s", report->names[i]);
    }
    if (result->params.threads > 1 && length < (int)sizeof(test)) {
        snprintf(test + length, sizeof(test) - (size_t)length, ", %u threads", result->params.threads);
    }
    return cw_plot_add(plot, "", test, result->test->latency, &point);
}

int cw_plot_write(const struct cw_plot *plot, const char *path)
{
    char part[PATH_MAX];
    FILE *file;

    if (cw_plot_check(path) != 0) {
        return -1;
    }
    snprintf(part, sizeof(part), "%s.part", path);
    file = fopen(part, "we");
    if (file == NULL) {
        return fail(path, errno);
    }
    cw_plot_draw(plot, file);
    bool whole = !ferror(file);
    whole = fclose(file) == 0 && whole;
    if (!whole || rename(part, path) != 0) {
        int error = errno;
        unlink(part);
        return fail(path, error);
    }
    return 0;
}

void cw_plot_free(struct cw_plot *plot)
{
    for (unsigned i = 0; i < plot->count; i++) {
        free(plot->curves[i].points);
    }
    free(plot->curves);
    *plot = (struct cw_plot){0};
}
