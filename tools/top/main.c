/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_top: what the Causeway workers of this user are doing. See docs/operate/observe.md.
 *
 * It only reads what workers show, from outside; it uses no communication library. Exit status: 0 success, 1 failure.
 */
#define _GNU_SOURCE
#include "say.h"
#include "top.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum form { TABLE, JSON, PROMETHEUS };

struct options {
    enum form form;
    enum cw_top_order order;
    bool once;
    bool queues;
    unsigned interval_ms;
    unsigned pid;
};

static void print_usage(void)
{
    printf("\nUsage: ucx_top [options]\n\n"
           "  -1, --once        print the counters since the start of each worker, and exit\n"
           "  -d, --interval <s>  seconds between two samples, at least 0.1 (1)\n"
           "  -p, --pid <n>     only the workers of this process\n"
           "  -q, --queues <n>  posted receives and unexpected messages of this process, once, if it makes progress\n"
           "  --json            one JSON object per sample, with all counters\n"
           "  --prometheus      the text format of Prometheus, once\n"
           "  -h, --help        this text\n\n"
           "Keys: q quits; p, m, b, e sort by process, messages, bytes, errors; space refreshes.\n\n");
}

static bool parse_interval(const char *text, unsigned *milliseconds)
{
    char *end;
    double seconds = strtod(text, &end);

    if (end == text || *end != '\0' || !(seconds >= 0.1 && seconds <= 86400)) {
        cw_say_error("an interval (--interval) is a number of seconds from 0.1 to 86400, not '%s'", text);
        return false;
    }
    *milliseconds = (unsigned)(seconds * 1000);
    return true;
}

static bool parse_pid(const char *text, unsigned *pid)
{
    char *end;

    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value == 0 || value > INT32_MAX) {
        cw_say_error("a process (--pid, --queues) needs a process id, not '%s'", text);
        return false;
    }
    *pid = (unsigned)value;
    return true;
}

/* true: go on. */
static bool parse(struct options *options, int argc, char **argv, int *status)
{
    static const struct option long_options[] = {
        {"once", no_argument, NULL, '1'},        {"interval", required_argument, NULL, 'd'},
        {"pid", required_argument, NULL, 'p'},   {"queues", required_argument, NULL, 'q'},
        {"json", no_argument, NULL, 'j'},        {"prometheus", no_argument, NULL, 'P'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
    };
    int option;

    *status = 1;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":1d:p:q:h", long_options, NULL)) != -1) {
        switch (option) {
        case '1':
            options->once = true;
            break;
        case 'd':
            if (!parse_interval(optarg, &options->interval_ms)) {
                return false;
            }
            break;
        case 'p':
            if (!parse_pid(optarg, &options->pid)) {
                return false;
            }
            break;
        case 'q':
            if (!parse_pid(optarg, &options->pid)) {
                return false;
            }
            options->queues = true;
            break;
        case 'j':
            options->form = JSON;
            break;
        case 'P':
            options->form = PROMETHEUS;
            options->once = true;
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
    if (optind < argc) {
        cw_say_error("'%s' is no option; ucx_top -h lists the options", argv[optind]);
        return false;
    }
    if (options->queues && options->form != TABLE) {
        cw_say_error("the queues (--queues) are printed as a table only");
        return false;
    }
    return true;
}

static void obey(struct options *options, char key)
{
    static const struct {
        char key;
        enum cw_top_order order;
    } orders[] = {{'p', CW_TOP_PID}, {'m', CW_TOP_MESSAGES}, {'b', CW_TOP_BYTES}, {'e', CW_TOP_ERRORS}};

    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (orders[i].key == key) {
            options->order = orders[i].order;
        }
    }
}

static void print_sample(const struct options *options, const struct cw_watch_list *list,
                       const struct cw_watch_list *before)
{
    unsigned width, height;

    if (options->form == JSON) {
        cw_top_json(stdout, list);
    } else if (options->form == PROMETHEUS) {
        cw_top_prometheus(stdout, list);
    } else {
        cw_screen_size(&width, &height);
        if (height > 0) {
            printf("\033[H\033[J");
        }
        if (height > 4) { /* a line for the keys, without a line feed that would scroll */
            printf("\033[%u;1H%.*s\033[H", height, (int)width, "q: leave   sort by p: process m: messages b: bytes e: "
                   "errors   space: sample again");
            height--;
        }
        cw_top_table(stdout, list, before, options->order, width, height);
    }
}

/* 0, or the exit status of a failure. */
static int flush_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return 0;
    }
    if (errno != EPIPE) {
        cw_say_error("cannot write: %s", strerror(errno));
    }
    return 1;
}

static int run(struct options *options)
{
    struct cw_watch_list lists[2] = {{.workers = NULL}, {.workers = NULL}};
    int status = 0;

    if (!options->once) {
        cw_screen_begin();
    }
    for (unsigned sample = 0;; sample++) {
        struct cw_watch_list *list = &lists[sample % 2];
        const struct cw_watch_list *before = &lists[(sample + 1) % 2];
        status = cw_watch_find(options->pid, list) ? 0 : 1;
        if (status == 0) {
            print_sample(options, list, options->once || options->form != TABLE ? NULL : before);
            status = flush_output();
        }
        char key;
        if (status != 0 || options->once || cw_screen_wait(options->interval_ms, &key)) {
            break;
        }
        obey(options, key);
    }
    cw_screen_end();
    if (status == 0 && options->once && options->form == TABLE && lists[0].count == 0) {
        cw_say_note("no workers%s", options->pid != 0 ? " in this process" : " that this user may inspect");
    }
    cw_watch_free(&lists[0]);
    cw_watch_free(&lists[1]);
    return status;
}

static int show_queues(const struct options *options)
{
    struct cw_watch_list list = {.workers = NULL};
    bool done = cw_watch_find(options->pid, &list);

    if (done && list.count == 0) {
        cw_say_error("no workers in process %u that can be queried", options->pid);
        done = false;
    } else if (done) {
        done = cw_top_queues(&list);
    }
    cw_watch_free(&list);
    return flush_output() == 0 && done ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct options options = {.form = TABLE, .interval_ms = 1000};
    int status;

    cw_say_setup("ucx_top", false);
    if (!parse(&options, argc, argv, &status)) {
        return status;
    }
    return options.queues ? show_queues(&options) : run(&options);
}
