/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Batch files (PRF-25).
 *
 * Callers: session.c.
 */
#define _GNU_SOURCE
#include "options.h"

#include "say.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Cuts a line into words at blanks; returns how many, or -1 when there are too many. */
static int split_words(char *line, char **words, int most)
{
    char *rest = NULL;
    int count = 0;

    for (char *word = strtok_r(line, " \t\r\n", &rest); word != NULL; word = strtok_r(NULL, " \t\r\n", &rest)) {
        if (count == most - 1) {
            return -1;
        }
        words[count++] = word;
    }
    words[count] = NULL;
    return count;
}

/* One line over `base`: 1 when it holds a test, 0 when it is empty or a comment, -1 after an error line. */
static int read_line(const struct cw_perf_options *base, char *text, struct cw_perf_line *line)
{
    char *words[64];
    int count = split_words(text, words, 64);

    if (count == 0 || (count > 0 && words[0][0] == '#')) {
        return 0;
    }
    if (count < 0) {
        cw_say_error("more than 62 words");
        return -1;
    }
    struct cw_perf_options options = *base;
    options.host = NULL;
    options.loopback = false;
    if (!cw_options_parse(&options, count, words, true)) {
        return -1;
    }
    line->params = options.params;
    line->name = strdup(words[0]);
    if (line->name == NULL) {
        cw_say_error("out of memory");
        return -1;
    }
    return 1;
}

int cw_options_read_batch(const struct cw_perf_options *base, const char *path, struct cw_perf_line **lines)
{
    FILE *file = fopen(path, "re");
    struct cw_perf_line *found = NULL;
    char *text = NULL;
    size_t room = 0;
    int count = 0, number = 0, status = 0;
    char place[PATH_MAX + 16];

    if (file == NULL) {
        cw_say_error("cannot read batch file '%s': %s", path, strerror(errno));
        return -1;
    }
    while (status >= 0 && getline(&text, &room, file) >= 0) {
        struct cw_perf_line *more = realloc(found, ((size_t)count + 1) * sizeof(*found));
        snprintf(place, sizeof(place), "%s:%d: ", path, ++number);
        cw_say_place(place);
        if (more == NULL) {
            cw_say_error("out of memory");
            status = -1;
            break;
        }
        found = more;
        status = read_line(base, text, &found[count]);
        count += status > 0;
    }
    cw_say_place(NULL);
    free(text);
    if (status >= 0 && ferror(file)) {
        cw_say_error("cannot read batch file '%s': %s", path, strerror(errno));
        status = -1;
    } else if (status >= 0 && count == 0) {
        cw_say_error("batch file '%s' holds no test", path);
        status = -1;
    }
    fclose(file);
    if (status < 0) {
        cw_options_free_batch(found, count);
        return -1;
    }
    *lines = found;
    return count;
}

void cw_options_free_batch(struct cw_perf_line *lines, int count)
{
    for (int i = 0; i < count; i++) {
        free(lines[i].name);
    }
    free(lines);
}
