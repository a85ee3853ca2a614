/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the results that --json has written: one object in each line.
 *
 * Callers: main.c.
 * Of an object only what a picture needs is kept; members that are not known are passed over, whatever they hold, so
 * that files of other versions can be drawn together.
 */
#define _GNU_SOURCE
#include "plot.h"

#include "say.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 16, NAME = 64 };

struct found {
    char test[NAME];
    char names[NAME]; /* of batch files; the size of a sweep is no name */
    char kind[NAME];
    double size;
    double threads;
    double usec;
    double mib_per_s;
};

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Text of at most NAME - 1 bytes goes into `text`, the rest is left out; NULL when it is no string. */
static const char *read_string(const char *at, char text[NAME])
{
    size_t length = 0;

    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        char letter = *at;
        if (letter == '\0') {
            return NULL;
        }
        if (letter == '\\') {
            letter = *++at;
            if (letter == 'u') {
                if (strspn(at + 1, "0123456789abcdefABCDEF") < 4) {
                    return NULL;
                }
                at += 4;
                letter = '?';
            } else if (letter == '\0' || strchr("\"\\/bfnrt", letter) == NULL) {
                return NULL;
            } else if (isalpha((unsigned char)letter)) {
                letter = ' ';
            }
        }
        if (length < NAME - 1) {
            text[length++] = letter;
        }
    }
    text[length] = '\0';
    return at + 1;
}

static void keep_string(struct found *found, const char *path, const char *text)
{
    if (strcmp(path, "test") == 0) {
        snprintf(found->test, NAME, "%s", text);
    } else if (strcmp(path, "kind") == 0) {
        snprintf(found->kind, NAME, "%s", text);
    } else if (strcmp(path, "names") == 0 && strspn(text, "0123456789") != strlen(text)) {
        size_t used = strlen(found->names);
        snprintf(found->names + used, NAME - used, " %s", text);
    }
}

static void keep_number(struct found *found, const char *path, double number)
{
    const struct {
        const char *path;
        double *to;
    } places[] = {
        {"size", &found->size},
        {"threads", &found->threads},
        {"usec.p50", &found->usec},
        {"mib_per_s", &found->mib_per_s},
    };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (strcmp(path, places[i].path) == 0) {
            *places[i].to = number;
        }
    }
}

static const char *read_value(const char *at, const char *path, unsigned depth, struct found *found);

/* Members of an object, or elements of a list, which have the path of the list. */
static const char *read_members(const char *at, const char *path, unsigned depth, struct found *found)
{
    bool object = *at == '{';
    char last = object ? '}' : ']';
    char name[NAME], inner[2 * NAME];

    at = skip_blanks(at + 1);
    if (*at == last) {
        return at + 1;
    }
    for (;;) {
        snprintf(inner, sizeof(inner), "%s", path);
        if (object) {
            at = read_string(at, name);
            if (at == NULL || *(at = skip_blanks(at)) != ':') {
                return NULL;
            }
            at++;
            snprintf(inner, sizeof(inner), "%.*s%s%s", NAME - 1, path, *path != '\0' ? "." : "", name);
        }
        at = read_value(skip_blanks(at), inner, depth + 1, found);
        if (at == NULL) {
            return NULL;
        }
        at = skip_blanks(at);
        if (*at == last) {
            return at + 1;
        }
        if (*at != ',') {
            return NULL;
        }
        at = skip_blanks(at + 1);
    }
}

/* What follows a value, or NULL where there is none. */
static const char *read_value(const char *at, const char *path, unsigned depth, struct found *found)
{
    static const char *const words[] = {"true", "false", "null"};
    char text[NAME], *end;

    if (depth > DEPTH) {
        return NULL;
    }
    if (*at == '{' || *at == '[') {
        return read_members(at, path, depth, found);
    }
    if (*at == '"') {
        at = read_string(at, text);
        if (at != NULL) {
            keep_string(found, path, text);
        }
        return at;
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strncmp(at, words[i], strlen(words[i])) == 0) {
            return at + strlen(words[i]);
        }
    }
    if (*at != '-' && !isdigit((unsigned char)*at)) {
        return NULL;
    }
    double number = strtod(at, &end);
    keep_number(found, path, number);
    return end == at ? NULL : end;
}

static bool sound(const struct found *found)
{
    return found->test[0] != '\0' && (strcmp(found->kind, "latency") == 0 || strcmp(found->kind, "overhead") == 0) &&
           found->size >= 0 && found->size <= (double)CW_PERF_MAX_SIZE && isfinite(found->usec) && found->usec >= 0 &&
           isfinite(found->mib_per_s) && found->mib_per_s >= 0;
}

static int add_line(struct cw_plot *plot, const char *run, const char *line)
{
    struct found found = {.size = -1, .usec = -1, .mib_per_s = -1};
    const char *end = *line == '{' ? read_value(line, "", 0, &found) : NULL;
    char test[96], threads[32] = "";

    if (end == NULL || *skip_blanks(end) != '\0' || !sound(&found)) {
        return 1;
    }
    if (found.threads > 1) {
        snprintf(threads, sizeof(threads), ", %.0f threads", found.threads);
    }
    snprintf(test, sizeof(test), "%.31s%.31s%s", found.test, found.names, threads);
    struct cw_plot_point point = {(uint64_t)found.size, found.usec, found.mib_per_s};
    return cw_plot_add(plot, run, test, strcmp(found.kind, "latency") == 0, &point);
}

int cw_plot_add_file(struct cw_plot *plot, const char *path)
{
    FILE *file = fopen(path, "re");
    const char *name = basename(path);
    size_t length = strlen(name);
    char *line = NULL, run[64];
    size_t room = 0;
    int number = 0, results = 0, status = 0;

    if (file == NULL) {
        cw_say_error("cannot read '%s': %s", path, strerror(errno));
        return -1;
    }
    length -= length > 5 && strcmp(name + length - 5, ".json") == 0 ? 5 : 0;
    snprintf(run, sizeof(run), "%.*s", (int)length, name);
    while (status == 0 && getline(&line, &room, file) >= 0) {
        const char *at = skip_blanks(line);
        number++;
        if (*at != '\0') {
            status = add_line(plot, run, at);
            results++;
        }
    }
    if (status > 0) {
        cw_say_error("'%s', line %d: not a result that --json writes", path, number);
    } else if (status == 0 && ferror(file)) {
        cw_say_error("cannot read '%s': %s", path, strerror(errno));
        status = -1;
    } else if (status == 0 && results == 0) {
        cw_say_error("'%s' holds no result", path);
        status = -1;
    }
    free(line);
    fclose(file);
    return status == 0 ? 0 : -1;
}
