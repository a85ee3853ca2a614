/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Comparison of two libraries.
 *
 * Callers: main.c.
 * A run is one process with -l, otherwise a server and a client, bound to the first two processors (or as -c says).
 * They are this program, started with the same words and others behind them that win: no comparison, one row.
 * LD_LIBRARY_PATH decides which library they load. Every run ends by its own time limits. Ratios are taken within a
 * round of A and B, so that a machine that becomes slower slows both alike.
 */
#define _GNU_SOURCE
#include "compare.h"

#include "progress.h"
#include "say.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 256, EXTRA = 16, SIDES = 2, FIELDS = 8 };

/* Fields of a result row (PRF-22) that are compared. */
static const struct {
    int field;
    const char *name;
} shown[] = {{1, "percentile (usec)"}, {3, "overall (usec)"}, {5, "bandwidth (MB/s)"}, {7, "rate (msg/s)"}};

struct comparison {
    const struct cw_perf_options *options;
    char **words; /* of the command line */
    char self[PATH_MAX];
    char folder[PATH_MAX]; /* of the other library */
    char library[SIDES][2 * PATH_MAX]; /* version and file, as --library tells */
    double samples[CW_PERF_MAX_ROUNDS][SIDES][FIELDS];
};

/* ---- processes ---- */

struct process {
    pid_t pid;
    FILE *output;
};

static void be_child(const struct comparison *comparison, int side, int cpu, char **words)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    char path[2 * PATH_MAX];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (side == 1) {
        snprintf(path, sizeof(path), "%s%s%s", comparison->folder, old != NULL ? ":" : "", old != NULL ? old : "");
        setenv("LD_LIBRARY_PATH", path, 1);
    }
    if (cpu >= 0 && comparison->options->cpus == NULL && cw_cpu_count() >= 2) {
        cw_cpu_bind_nth((unsigned)cpu);
    }
    execv(comparison->self, words);
    cw_say_error("cannot start '%s': %s", comparison->self, strerror(errno));
    _exit(CW_PERF_EXIT_FAILURE);
}

/* Starts this program with the library of `side`, its output in a pipe. 0 or -1. */
static int start(const struct comparison *comparison, int side, int cpu, char **words, struct process *process)
{
    int ends[2];

    if (pipe(ends) != 0) {
        cw_say_error("no pipe: %s", strerror(errno));
        return -1;
    }
    fflush(stdout);
    process->pid = fork();
    if (process->pid < 0) {
        cw_say_error("no process: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (process->pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        be_child(comparison, side, cpu, words);
    }
    close(ends[1]);
    process->output = fdopen(ends[0], "r");
    if (process->output == NULL) {
        cw_say_error("no memory");
        close(ends[0]);
        kill(process->pid, SIGKILL);
        waitpid(process->pid, NULL, 0);
        return -1;
    }
    return 0;
}

/* Reads what the process prints up to its end, or to a line that begins with `until`; keeps the last line read. */
static bool read_lines(struct process *process, const char *until, char *last, size_t room)
{
    char line[PATH_MAX];

    while (fgets(line, sizeof(line), process->output) != NULL) {
        snprintf(last, room, "%s", line);
        if (until != NULL && strncmp(line, until, strlen(until)) == 0) {
            return true;
        }
    }
    return until == NULL;
}

/* Whether the process ended well. */
static bool finish(struct process *process)
{
    int status = 0;

    fclose(process->output);
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* A port that was free a moment ago; the server reports one that is taken meanwhile. */
static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned port = 13337;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &length) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

/* ---- one run ---- */

static int parse_row(char *line, double *row)
{
    char *to = line, *end = line;

    for (const char *from = line; *from != '\0'; from++) {
        if (*from != ',') { /* -N */
            *to++ = *from;
        }
    }
    *to = '\0';
    for (int i = 0; i < FIELDS; i++) {
        char *at = end;
        row[i] = strtod(at, &end);
        if (end == at) {
            return -1;
        }
    }
    return 0;
}

static int start_server(const struct comparison *comparison, int side, char *port, char *timeout,
                        struct process *server)
{
    char *words[EXTRA] = {comparison->words[0], "-p", port, "--timeout", timeout};
    int count = 5;
    char line[PATH_MAX];

    if (comparison->options->cpus != NULL) {
        words[count++] = "-c";
        words[count++] = (char *)(uintptr_t)comparison->options->cpus;
    }
    if (comparison->options->error_handling) {
        words[count++] = "-e";
    }
    if (start(comparison, side, 0, words, server) != 0) {
        return -1;
    }
    if (!read_lines(server, "Waiting for connection", line, sizeof(line))) {
        finish(server);
        return -1;
    }
    return 0;
}

static int run_once(const struct comparison *comparison, int side, double *row)
{
    bool alone = comparison->options->loopback;
    char *words[WORDS + EXTRA];
    char port[16], timeout[16], line[PATH_MAX] = "";
    char *extra[] = {"--compare", "", "-f", "-p", port, "127.0.0.1"};
    struct process server, client;
    int count = 0;

    snprintf(port, sizeof(port), "%u", free_port());
    snprintf(timeout, sizeof(timeout), "%u", comparison->options->timeout_s);
    for (; comparison->words[count] != NULL; count++) {
        words[count] = comparison->words[count];
    }
    for (int i = 0; i < (alone ? 3 : 6); i++) {
        words[count++] = extra[i];
    }
    words[count] = NULL;
    if (!alone && start_server(comparison, side, port, timeout, &server) != 0) {
        return -1;
    }
    bool well = start(comparison, side, 1, words, &client) == 0;
    if (well) {
        read_lines(&client, NULL, line, sizeof(line));
        well = finish(&client);
    } else if (!alone) {
        kill(server.pid, SIGKILL);
    }
    if (!alone) {
        char waste[PATH_MAX];
        read_lines(&server, NULL, waste, sizeof(waste));
        well = finish(&server) && well;
    }
    if (well && parse_row(line, row) != 0) {
        cw_say_error("a run printed no row but '%.80s'", line);
        well = false;
    }
    return well ? 0 : -1;
}

/* ---- libraries ---- */

static int find_folder(struct comparison *comparison, const char *library)
{
    char file[PATH_MAX + 16];
    struct stat status;

    if (realpath(library, comparison->folder) == NULL || stat(comparison->folder, &status) != 0) {
        cw_say_error("--compare '%s': %s", library, strerror(errno));
        return -1;
    }
    if (!S_ISDIR(status.st_mode)) {
        /* By the name that was given: behind a link the real name may be another one. */
        char copy[PATH_MAX];
        snprintf(copy, sizeof(copy), "%s", library);
        char *slash = strrchr(copy, '/');
        if (slash != NULL) {
            *slash = '\0';
        }
        if (realpath(slash == NULL ? "." : slash == copy ? "/" : copy, comparison->folder) == NULL) {
            cw_say_error("--compare '%s': %s", library, strerror(errno));
            return -1;
        }
    }
    snprintf(file, sizeof(file), "%s/libucp.so.0", comparison->folder);
    if (access(file, R_OK) != 0) {
        cw_say_error("--compare '%s': there is no libucp.so.0", library);
        return -1;
    }
    return 0;
}

static int ask_library(struct comparison *comparison, int side)
{
    char *words[] = {comparison->words[0], "--library", NULL};
    struct process process;
    char line[PATH_MAX] = "", file[PATH_MAX];

    if (start(comparison, side, -1, words, &process) != 0) {
        return -1;
    }
    read_lines(&process, NULL, line, sizeof(line));
    line[strcspn(line, "\n")] = '\0';
    if (!finish(&process)) {
        cw_say_error("this program does not run with the %s", side == 0 ? "library at hand" : "library of --compare");
        return -1;
    }
    /* Version, blank, file: one file may have several names. */
    char *name = strchr(line, ' ');
    if (name != NULL && realpath(name + 1, file) != NULL) {
        *name = '\0';
    } else {
        file[0] = '\0';
    }
    snprintf(comparison->library[side], sizeof(comparison->library[side]), "%s %s", line, file);
    return 0;
}

static int open_comparison(struct comparison *comparison, const struct cw_perf_options *options, char **argv)
{
    ssize_t length = readlink("/proc/self/exe", comparison->self, sizeof(comparison->self) - 1);
    int count = 0;

    comparison->options = options;
    comparison->words = argv;
    while (argv[count] != NULL) {
        count++;
    }
    if (length < 0 || count > WORDS) {
        cw_say_error(length < 0 ? "this program does not find itself in /proc" : "too many words for --compare");
        return -1;
    }
    if (find_folder(comparison, options->compare) != 0 || ask_library(comparison, 0) != 0 ||
        ask_library(comparison, 1) != 0) {
        return -1;
    }
    if (strcmp(comparison->library[0], comparison->library[1]) == 0) {
        cw_say_error("--compare '%s' leads to the library that is loaded anyway: %s", options->compare,
                     comparison->library[0]);
        return -1;
    }
    return 0;
}

/* ---- result ---- */

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

/* Median and range. */
static void print_values(double *values, unsigned count)
{
    char text[64];

    qsort(values, count, sizeof(values[0]), by_value);
    double middle = count % 2 == 1 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    int digits = middle >= 1000 ? 0 : middle >= 10 ? 1 : 3;
    snprintf(text, sizeof(text), "%.*f (%.*f to %.*f)", digits, middle, digits, values[0], digits, values[count - 1]);
    printf(" %32s", text);
}

static void print_result(const struct comparison *comparison)
{
    unsigned rounds = comparison->options->rounds;
    double values[CW_PERF_MAX_ROUNDS];

    printf("# A: %s\n# B: %s\n# median (range) of %u rounds\n", comparison->library[0], comparison->library[1], rounds);
    printf("%-18s %32s %32s %32s\n", "", "A", "B", "A / B");
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        printf("%-18s", shown[i].name);
        for (int side = 0; side <= SIDES; side++) {
            for (unsigned round = 0; round < rounds; round++) {
                double a = comparison->samples[round][0][shown[i].field];
                double b = comparison->samples[round][1][shown[i].field];
                values[round] = side == 0 ? a : side == 1 ? b : b > 0 ? a / b : 0;
            }
            print_values(values, rounds);
        }
        printf("\n");
    }
    fflush(stdout);
}

int cw_compare_run(const struct cw_perf_options *options, char **argv)
{
    struct comparison *comparison = calloc(1, sizeof(*comparison));

    if (comparison == NULL) {
        cw_say_error("no memory");
        return -1;
    }
    int result = open_comparison(comparison, options, argv);
    for (unsigned round = 0; result == 0 && round < options->rounds; round++) {
        for (int side = 0; result == 0 && side < SIDES; side++) {
            cw_progress_show("round %u of %u, %s", round + 1, options->rounds, comparison->library[side]);
            result = run_once(comparison, side, comparison->samples[round][side]);
            if (result != 0) {
                cw_say_error("the comparison ends: a run with %s failed", comparison->library[side]);
            }
        }
    }
    cw_progress_clear();
    if (result == 0) {
        print_result(comparison);
    }
    free(comparison);
    return result;
}
