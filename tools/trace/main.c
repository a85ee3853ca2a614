/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_trace: the last events of the workers of a process that was started with UCX_TRACE, or of one that has written
 * them to UCX_TRACE_FILE. See docs/operate/observe.md.
 *
 * It only reads what workers show, from outside. Exit status: 0 success, 1 failure.
 */
#define _GNU_SOURCE
#include "say.h"
#include "trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLLOW_MS 100

struct options {
    bool events;
    bool follow;
    uint64_t request;           /* 0: none */
    const char *chrome;
    unsigned pid;
    const char *file;           /* NULL: a process */
};

static void print_usage(void)
{
    printf("\nUsage: ucx_trace [options] <pid or file>\n\n"
           "  -e, --events      each event, instead of the table of requests\n"
           "  -f, --follow      each event, and new ones\n"
           "  -r, --request <n>  one request from its call to its completion\n"
           "  -c, --chrome <file>  write a file for Perfetto or chrome://tracing\n"
           "  -h, --help        this text\n\n");
}

static bool parse_number(const char *text, const char *what, uint64_t most, uint64_t *number)
{
    char *end;

    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0 || value > most) {
        cw_say_error("%s needs a number, not '%s'", what, text);
        return false;
    }
    *number = value;
    return true;
}

/* true: go on. */
static bool parse(struct options *options, int argc, char **argv, int *status)
{
    static const struct option long_options[] = {
        {"events", no_argument, NULL, 'e'},       {"follow", no_argument, NULL, 'f'},
        {"request", required_argument, NULL, 'r'}, {"chrome", required_argument, NULL, 'c'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    uint64_t pid;
    int option;

    *status = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":efr:c:h", long_options, NULL)) != -1) {
        switch (option) {
        case 'e':
            options->events = true;
            break;
        case 'f':
            options->follow = true;
            break;
        case 'r':
            if (!parse_number(optarg, "a request (--request)", UINT64_MAX, &options->request)) {
                return false;
            }
            break;
        case 'c':
            options->chrome = optarg;
            break;
        case 'h':
            print_usage();
            *status = 0;
            return false;
        default:
            cw_say_option(option, argv);
            return false;
        }
    }
    if (argc - optind != 1) {
        cw_say_error("process id or file is missing; see ucx_trace --help");
        return false;
    }
    if (argv[optind][strspn(argv[optind], "0123456789")] != '\0' || argv[optind][0] == '\0') {
        options->file = argv[optind];
        if (options->follow) {
            cw_say_error("cannot follow a file");
        }
        return !options->follow;
    }
    if (!parse_number(argv[optind], "a process", INT32_MAX, &pid)) {
        return false;
    }
    options->pid = (unsigned)pid;
    return true;
}

static bool show_request(const struct cw_events *events, const struct cw_life *lives, size_t count, uint64_t request)
{
    for (size_t i = 0; i < count; i++) {
        if (events->events[lives[i].begin].number == request) {
            cw_print_life(events, &lives[i]);
            return true;
        }
    }
    return false;
}

static bool show(const struct options *options, const struct cw_watch_worker *worker, FILE *chrome, bool first)
{
    struct cw_events events;
    size_t count;

    if (!cw_events_read(worker, &events)) {
        return false;
    }
    struct cw_life *lives = cw_lives_find(&events, &count);
    bool done = lives != NULL;
    if (!done) {
        cw_events_free(&events);
        return false;
    }
    if (chrome != NULL) {
        cw_print_chrome(chrome, worker, &events, lives, count, first);
    } else if (options->request != 0) {
        done = show_request(&events, lives, count, options->request);
        if (!done) {
            cw_say_error("no request %llu in process %u, or its first event was overwritten",
                         (unsigned long long)options->request, worker->pid);
        }
    } else {
        printf("worker %s, %zu events\n", worker->name, events.count);
        for (size_t i = 0; options->events && i < events.count; i++) {
            cw_print_event(&events, i);
        }
        if (!options->events) {
            cw_print_lives(&events, lives, count);
        }
    }
    free(lives);
    cw_events_free(&events);
    return done;
}

/* Until the worker is gone. */
static bool follow(const struct cw_watch_worker *worker)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_MS * 1000000L};
    uint64_t last = 0;
    struct cw_events events;

    while (cw_events_read(worker, &events)) {
        if (last != 0 && events.count > 0 && events.events[0].number > last + 1) {
            printf("... %llu events were forgotten\n", (unsigned long long)(events.events[0].number - last - 1));
        }
        for (size_t i = 0; i < events.count; i++) {
            if (events.events[i].number > last) {
                cw_print_event(&events, i);
                last = events.events[i].number;
            }
        }
        cw_events_free(&events);
        if (fflush(stdout) != 0) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

/* Leaves the workers that keep events. */
static bool find(const struct options *options, struct cw_watch_list *list)
{
    size_t kept = 0;

    if (!(options->file != NULL ? cw_watch_read_file(options->file, list) : cw_watch_find(options->pid, list))) {
        return false;
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->workers[i].trace_offset != 0) {
            list->workers[kept++] = list->workers[i];
        }
    }
    list->count = kept;
    if (kept == 0 && options->file != NULL) {
        cw_say_error("%s holds no events", options->file);
    } else if (kept == 0) {
        cw_say_error("no worker of process %u keeps events; start the program with UCX_TRACE=4096, for instance",
                     options->pid);
    }
    return kept > 0;
}

static bool write_chrome(const struct options *options, const struct cw_watch_list *list)
{
    FILE *file = fopen(options->chrome, "we");
    bool done = true;

    if (file == NULL) {
        cw_say_error("cannot write %s: %s", options->chrome, strerror(errno));
        return false;
    }
    fprintf(file, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    for (size_t i = 0; i < list->count && done; i++) {
        done = show(options, &list->workers[i], file, i == 0);
    }
    fprintf(file, "\n]}\n");
    bool written = fflush(file) == 0 && !ferror(file);
    if (fclose(file) != 0 || !written) {
        cw_say_error("cannot write %s: %s", options->chrome, strerror(errno));
        return false;
    }
    return done;
}

static bool run(const struct options *options, struct cw_watch_list *list)
{
    bool done = find(options, list);

    if (!done || options->chrome != NULL) {
        return done && write_chrome(options, list);
    }
    if (options->follow) {
        return follow(&list->workers[0]);
    }
    for (size_t i = 0; i < list->count; i++) {
        done = show(options, &list->workers[i], NULL, false) && done;
    }
    if (fflush(stdout) != 0) {
        cw_say_error("cannot write: %s", strerror(errno));
        return false;
    }
    return done;
}

int main(int argc, char **argv)
{
    struct options options = {.pid = 0};
    struct cw_watch_list list = {.workers = NULL};
    int status;

    cw_say_setup("ucx_trace", false);
    if (!parse(&options, argc, argv, &status)) {
        return status;
    }
    status = run(&options, &list) ? 0 : 1;
    cw_watch_free(&list);
    return status;
}
