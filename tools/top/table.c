/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The counters for people: one line per worker.
 */
#include "top.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const enum cw_counter sent[] = {CW_COUNT_TAG_SENT, CW_COUNT_AM_SENT, CW_COUNT_STREAM_SENT,
                                       CW_COUNT_PUT_SENT, CW_COUNT_GET_SENT, CW_COUNT_AMO_SENT};
static const enum cw_counter received[] = {CW_COUNT_TAG_RECEIVED, CW_COUNT_AM_RECEIVED, CW_COUNT_STREAM_RECEIVED,
                                           CW_COUNT_PUT_RECEIVED, CW_COUNT_GET_RECEIVED, CW_COUNT_AMO_RECEIVED};
static const enum cw_counter retries[] = {CW_COUNT_RETRIES, CW_COUNT_REDIALS};
static const enum cw_counter errors[] = {CW_COUNT_EPS_FAILED, CW_COUNT_BAD_PACKETS};
static const enum cw_counter posted[] = {CW_COUNT_POSTED};
static const enum cw_counter unexp[] = {CW_COUNT_UNEXPECTED};
static const enum cw_counter waiting[] = {CW_COUNT_WAITING};
static const enum cw_counter arms[] = {CW_COUNT_ARMS};
static const enum cw_counter eps[] = {CW_COUNT_EPS};

#define SUM(counters) counters, sizeof(counters) / sizeof((counters)[0])

static const struct column {
    const char *title;          /* of totals, */
    const char *rate_title;     /* and of what comes per second; NULL: always the total */
    const enum cw_counter *counters;
    size_t count;
    unsigned offset;            /* from each of the counters */
} columns[] = {
    {"EPS", NULL, SUM(eps), 0},
    {"MSG-OUT", "MSG-OUT/s", SUM(sent), 0},
    {"MSG-IN", "MSG-IN/s", SUM(received), 0},
    {"BYTES-OUT", "OUT-B/s", SUM(sent), CW_COUNT_BYTES},
    {"BYTES-IN", "IN-B/s", SUM(received), CW_COUNT_BYTES},
    {"POSTED", NULL, SUM(posted), 0},
    {"UNEXP", NULL, SUM(unexp), 0},
    {"WAITING", NULL, SUM(waiting), 0},
    {"RETRIES", "RETRIES/s", SUM(retries), 0},
    {"SLEEPS", "SLEEPS/s", SUM(arms), 0},
    {"ERRORS", NULL, SUM(errors), 0},
};

#define COLUMNS      (sizeof(columns) / sizeof(columns[0]))
#define COLUMN_WIDTH 10

/* What is sorted by: the sum of these columns. */
static const struct {
    unsigned first, count;
} keys[] = {[CW_TOP_MESSAGES] = {1, 2}, [CW_TOP_BYTES] = {3, 2}, [CW_TOP_ERRORS] = {10, 1}};

static uint64_t total_of(const struct column *column, const struct cw_watch_worker *worker)
{
    uint64_t total = 0;

    for (size_t i = 0; i < column->count; i++) {
        total += worker->values[column->counters[i] + column->offset];
    }
    return total;
}

/* At most seven characters. */
static void format_number(char text[COLUMN_WIDTH], double number)
{
    static const char units[] = "kMGTPE";
    unsigned unit = 0;

    if (number < 99999.5) {
        snprintf(text, COLUMN_WIDTH, "%.0f", number);
        return;
    }
    number /= 1000;
    while (number >= 999.5 && units[unit + 1] != '\0') {
        number /= 1000;
        unit++;
    }
    snprintf(text, COLUMN_WIDTH, "%.*f%c", number < 99.95 ? 1 : 0, number, units[unit]);
}

static const struct cw_watch_worker *find(const struct cw_watch_list *list, const struct cw_watch_worker *worker)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->workers[i].pid == worker->pid && list->workers[i].uid == worker->uid) {
            return &list->workers[i];
        }
    }
    return NULL;
}

static double value_of(const struct column *column, const struct cw_watch_worker *worker,
                       const struct cw_watch_list *before)
{
    uint64_t total = total_of(column, worker);

    if (before == NULL || column->rate_title == NULL) {
        return (double)total;
    }
    const struct cw_watch_worker *old = find(before, worker);
    uint64_t since_ns = old != NULL ? old->read_ns : worker->started_ns;
    uint64_t since = old != NULL ? total_of(column, old) : 0;
    return worker->read_ns > since_ns && total >= since ?
           (double)(total - since) * 1e9 / (double)(worker->read_ns - since_ns) : 0;
}

/* A line, cut where the terminal ends. */
static void print_line(FILE *file, const char *line, unsigned width)
{
    fprintf(file, "%.*s\n", width == 0 ? (int)strlen(line) : (int)width, line);
}

static void print_heading(FILE *file, bool rates, unsigned width)
{
    char line[512];
    int at = snprintf(line, sizeof(line), "%7s %-15s %-14s", "PID", "COMMAND", "WORKER");

    for (size_t i = 0; i < COLUMNS; i++) {
        const struct column *column = &columns[i];
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %9s",
                       rates && column->rate_title != NULL ? column->rate_title : column->title);
    }
    snprintf(line + at, sizeof(line) - (size_t)at, "  %s", "CONNECTIONS");
    print_line(file, line, width);
}

static void print_worker(FILE *file, const struct cw_watch_worker *worker, const struct cw_watch_list *before,
                         unsigned width)
{
    char line[512], number[COLUMN_WIDTH];
    int at = snprintf(line, sizeof(line), "%7u %-15.15s %-14.14s", worker->pid, worker->command, worker->name);

    for (size_t i = 0; i < COLUMNS; i++) {
        format_number(number, value_of(&columns[i], worker, before));
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %9s", number);
    }
    at += snprintf(line + at, sizeof(line) - (size_t)at, " ");
    for (unsigned i = 0; i < worker->num_transports; i++) {
        if (worker->transports[i].open > 0) {
            at += snprintf(line + at, sizeof(line) - (size_t)at, " %s:%" PRIu64, worker->transports[i].name,
                           worker->transports[i].open);
        }
    }
    print_line(file, line, width);
}

static void print_total(FILE *file, const struct cw_watch_list *list, const struct cw_watch_list *before,
                        unsigned width)
{
    char line[512], number[COLUMN_WIDTH], workers[32];

    snprintf(workers, sizeof(workers), "%zu workers", list->count);
    int at = snprintf(line, sizeof(line), "%7s %-15s %-14.14s", "TOTAL", "", workers);
    for (size_t i = 0; i < COLUMNS; i++) {
        double total = 0;
        for (size_t k = 0; k < list->count; k++) {
            total += value_of(&columns[i], &list->workers[k], before);
        }
        format_number(number, total);
        at += snprintf(line + at, sizeof(line) - (size_t)at, " %9s", number);
    }
    print_line(file, line, width);
}

struct place {
    const struct cw_watch_worker *worker;
    double value;
};

static int compare(const void *one, const void *other)
{
    const struct place *a = one, *b = other;

    if (a->value != b->value) {
        return a->value < b->value ? 1 : -1;
    }
    return (a->worker->pid > b->worker->pid) - (a->worker->pid < b->worker->pid);
}

/* NULL: no memory, or no workers. */
static struct place *sort(const struct cw_watch_list *list, const struct cw_watch_list *before,
                          enum cw_top_order order)
{
    struct place *places = calloc(list->count, sizeof(*places));

    if (places == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < list->count; i++) {
        places[i].worker = &list->workers[i];
        for (unsigned k = 0; order != CW_TOP_PID && k < keys[order].count; k++) {
            places[i].value += value_of(&columns[keys[order].first + k], places[i].worker, before);
        }
    }
    qsort(places, list->count, sizeof(*places), compare);
    return places;
}

void cw_top_table(FILE *file, const struct cw_watch_list *list, const struct cw_watch_list *before,
                  enum cw_top_order order, unsigned width, unsigned height)
{
    struct place *places = list->count > 0 ? sort(list, before, order) : NULL;
    size_t shown = list->count, others = list->count > 1 ? 2 : 1; /* the heading, and the sums */

    if (height > 0 && shown + others > height) {
        shown = height > others + 1 ? height - others - 1 : 0;
    }
    print_heading(file, before != NULL, width);
    for (size_t i = 0; i < shown; i++) {
        print_worker(file, places != NULL ? places[i].worker : &list->workers[i], before, width);
    }
    if (shown < list->count) {
        fprintf(file, "... and %zu more\n", list->count - shown);
    }
    if (list->count > 1) {
        print_total(file, list, before, width);
    } else if (list->count == 0 && before != NULL) {
        print_line(file, "no workers that this user may inspect", width);
    }
    free(places);
}
