/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * causeway-demo [options] [FILE]: moves FILE between two processes over each transport, compares checksums, and
 * prints latency and bandwidth by message size.
 *
 * This process only coordinates: it starts this program again for the sides of each pair, reads their reports from
 * a pipe, shows progress, and checks the received file itself. A side that reports nothing for 30 seconds is ended.
 * Exit status: 0 when every transport delivered the file unchanged, 1 otherwise, 2 for wrong options.
 */
#define _GNU_SOURCE
#include "demo.h"

#include "say.h"
#include "sha256.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SILENCE_MS     30000
#define MOST_TRANSPORT 8

struct demo {
    const char *file;
    char folder[256];
    char received[300];
    char digest[65]; /* of `file` */
    const char *transports[MOST_TRANSPORT];
    int transport_count;
    int current;
    double seconds;
    bool keep;
};

/* One run over one transport. */
struct pair {
    pid_t sides[2];
    int events;
    char line[1024]; /* what of the pipe is no full line yet */
    size_t held;
    unsigned rows;
    bool file_done;
    bool failed;
};

static bool file_digest(const char *path, char digest[65], uint64_t *size)
{
    static char block[1 << 16];
    struct cw_sha256 sha;
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return false;
    }
    *size = 0;
    cw_sha256_start(&sha);
    while ((got = read(fd, block, sizeof(block))) > 0) {
        cw_sha256_add(&sha, block, (size_t)got);
        *size += (uint64_t)got;
    }
    int error = errno;
    close(fd);
    errno = error;
    cw_sha256_finish(&sha, digest);
    return got == 0;
}

/* ---- starting a pair ---- */

static pid_t start_side(const struct demo *demo, const char *role, int events, int link, int cpu)
{
    char event_text[16], link_text[16], cpu_text[16], seconds_text[32];
    char *arguments[] = {"causeway-demo", "--side",   (char *)role, (char *)demo->file, (char *)demo->received,
                         event_text,      link_text, cpu_text,     seconds_text,       NULL};

    snprintf(event_text, sizeof(event_text), "%d", events);
    snprintf(link_text, sizeof(link_text), "%d", link);
    snprintf(cpu_text, sizeof(cpu_text), "%d", cpu);
    snprintf(seconds_text, sizeof(seconds_text), "%g", demo->seconds);
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0) {
        return pid;
    }
    fcntl(events, F_SETFD, 0);
    if (link >= 0) {
        fcntl(link, F_SETFD, 0);
    }
    setenv("UCX_TLS", demo->transports[demo->current], 1);
    execv("/proc/self/exe", arguments);
    dprintf(events, "%c cannot start this program again: %s\n", DEMO_ERROR, strerror(errno));
    _exit(1);
}

static bool start_pair(struct demo *demo, struct pair *pair)
{
    int events[2], link[2] = {-1, -1};
    bool self = strcmp(demo->transports[demo->current], "self") == 0;
    bool bind = cw_cpu_count() >= 2;

    *pair = (struct pair){.sides = {-1, -1}, .events = -1};
    if (pipe2(events, O_CLOEXEC) != 0) {
        cw_say_error("no pipe: %s", strerror(errno));
        return false;
    }
    if (!self && socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, link) != 0) {
        cw_say_error("no socket pair: %s", strerror(errno));
        close(events[0]);
        close(events[1]);
        return false;
    }
    pair->sides[0] = start_side(demo, self ? "both" : "send", events[1], link[0], bind ? 0 : -1);
    if (!self && pair->sides[0] > 0) {
        pair->sides[1] = start_side(demo, "receive", events[1], link[1], bind ? 1 : -1);
    }
    pair->failed = pair->sides[0] < 0 || (!self && pair->sides[1] < 0);
    if (pair->failed) {
        cw_say_error("no process: %s", strerror(errno));
    }
    close(events[1]);
    if (!self) {
        close(link[0]);
        close(link[1]);
    }
    pair->events = events[0];
    return true;
}

/* ---- following a pair ---- */

static void check_file(struct demo *demo, struct pair *pair, const char *text)
{
    char digest[65];
    uint64_t size;
    unsigned long long bytes = 0, pieces = 0, usec = 0;

    pair->file_done = true;
    demo_hide_progress();
    if (sscanf(text, "%llu %llu %llu", &bytes, &pieces, &usec) != 3 || !file_digest(demo->received, digest, &size)) {
        cw_say_error("%s: the received file cannot be read", demo->transports[demo->current]);
        pair->failed = true;
        return;
    }
    bool equal = strcmp(digest, demo->digest) == 0;
    printf("%s: %llu bytes in %llu messages, %.1f ms\n", demo->transports[demo->current], bytes, pieces,
           (double)usec / 1e3);
    printf("  %s  sent\n  %s  received: %s\n", demo->digest, digest, equal ? "equal" : "DIFFERENT");
    if (!equal) {
        cw_say_error("%s: the file arrived changed (%llu bytes received)", demo->transports[demo->current],
                     (unsigned long long)size);
        pair->failed = true;
    }
    demo_show_table_head();
    fflush(stdout);
}

static void take_line(struct demo *demo, struct pair *pair, char *line)
{
    const char *text = line + 2;
    size_t size;
    double fraction, median, p99, mbps;
    int at = 0;

    if (line[0] == '\0' || line[1] == '\0') {
        return;
    }
    switch (line[0]) {
    case DEMO_PROGRESS:
        if (sscanf(text, "%lf %n", &fraction, &at) >= 1) {
            demo_show_progress((demo->current + fraction) / demo->transport_count, demo->transports[demo->current],
                               text + at);
        }
        break;
    case DEMO_FILE:
        check_file(demo, pair, text);
        break;
    case DEMO_RESULT:
        if (sscanf(text, "%zu %lf %lf %lf", &size, &median, &p99, &mbps) == 4) {
            demo_hide_progress();
            demo_show_table_row(size, median, p99, mbps);
            pair->rows++;
        }
        break;
    case DEMO_ERROR:
        demo_hide_progress();
        cw_say_error("%s: %s", demo->transports[demo->current], text);
        pair->failed = true;
        break;
    }
}

static void take_bytes(struct demo *demo, struct pair *pair)
{
    char *start = pair->line, *end;

    pair->line[pair->held] = '\0';
    while ((end = strchr(start, '\n')) != NULL) {
        *end = '\0';
        take_line(demo, pair, start);
        start = end + 1;
    }
    pair->held = strlen(start);
    memmove(pair->line, start, pair->held);
    if (pair->held == sizeof(pair->line) - 1) {
        pair->held = 0;
    }
}

/* Reads reports until all sides have closed the pipe; false when they fall silent. */
static bool follow(struct demo *demo, struct pair *pair)
{
    for (;;) {
        struct pollfd item = {.fd = pair->events, .events = POLLIN};
        int count = poll(&item, 1, SILENCE_MS);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0) {
            demo_hide_progress();
            cw_say_error("%s: no sign of life for %d seconds", demo->transports[demo->current], SILENCE_MS / 1000);
            return false;
        }
        ssize_t got = read(pair->events, pair->line + pair->held, sizeof(pair->line) - 1 - pair->held);
        if (got == 0) {
            return true;
        }
        if (got > 0) {
            pair->held += (size_t)got;
            take_bytes(demo, pair);
        }
    }
}

/* Ends what still runs after a failure and reaps the sides. */
static void reap(struct demo *demo, struct pair *pair, bool kill_first)
{
    for (int i = 0; i < 2; i++) {
        int status = 0;
        if (pair->sides[i] <= 0) {
            continue;
        }
        if (kill_first) {
            kill(pair->sides[i], SIGKILL);
        }
        while (waitpid(pair->sides[i], &status, 0) < 0 && errno == EINTR) {
        }
        if (WIFSIGNALED(status) && !kill_first) {
            cw_say_error("%s: a side was ended by signal %d (%s)", demo->transports[demo->current], WTERMSIG(status),
                         strsignal(WTERMSIG(status)));
        }
        pair->failed = pair->failed || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    }
}

static bool run_transport(struct demo *demo, int index)
{
    struct pair pair;

    demo->current = index;
    unlink(demo->received);
    if (!start_pair(demo, &pair)) {
        return false;
    }
    bool alive = follow(demo, &pair);
    close(pair.events);
    reap(demo, &pair, !alive || pair.failed);
    if (!pair.failed && (!pair.file_done || pair.rows != demo_size_count)) {
        cw_say_error("%s: the run ended early", demo->transports[index]);
        pair.failed = true;
    }
    demo_hide_progress();
    printf("\n");
    return !pair.failed;
}

/* ---- options ---- */

static int usage(FILE *to, int status)
{
    fprintf(to, "Usage: causeway-demo [options] [FILE]\n"
                "  -t <list>     transports, as in UCX_TLS (self,shm,tcp)\n"
                "  -d <seconds>  duration of one measurement (0.2)\n"
                "  -k            keep the received file and print its path\n"
                "  -h            this text\n"
                "Moves FILE (without one: the library's own file) between two processes through tag messages.\n");
    return status;
}

static bool parse_transports(struct demo *demo, char *list)
{
    demo->transport_count = 0;
    for (char *name = strtok(list, ","); name != NULL; name = strtok(NULL, ",")) {
        if (demo->transport_count == MOST_TRANSPORT) {
            return false;
        }
        demo->transports[demo->transport_count++] = name;
    }
    return demo->transport_count > 0;
}

static bool prepare(struct demo *demo)
{
    const char *base = getenv("TMPDIR");
    Dl_info info;
    uint64_t size;

    if (demo->file == NULL && dladdr((void *)(uintptr_t)ucp_get_version_string, &info) != 0) {
        demo->file = info.dli_fname;
    }
    if (demo->file == NULL || !file_digest(demo->file, demo->digest, &size)) {
        cw_say_error("cannot read '%s': %s", demo->file == NULL ? "(no file)" : demo->file, strerror(errno));
        return false;
    }
    snprintf(demo->folder, sizeof(demo->folder), "%s/causeway-demo.XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(demo->folder) == NULL) {
        cw_say_error("cannot make folder '%s': %s", demo->folder, strerror(errno));
        return false;
    }
    snprintf(demo->received, sizeof(demo->received), "%s/received", demo->folder);
    const char *name = strrchr(demo->file, '/');
    printf("File %s, %llu bytes; library version %s.\n", name != NULL ? name + 1 : demo->file,
           (unsigned long long)size, ucp_get_version_string());
    printf("Latency is one-way; MB/s are 2^20 bytes per second with 16 messages in flight.\n\n");
    return true;
}

int main(int argc, char **argv)
{
    struct demo demo = {.transports = {"self", "shm", "tcp"}, .transport_count = 3, .seconds = 0.2};
    int letter, delivered = 0;

    cw_say_setup("causeway-demo", false);
    if (argc > 1 && strcmp(argv[1], "--side") == 0) {
        return demo_side_main(argc, argv);
    }
    while ((letter = getopt(argc, argv, "t:d:kh")) != -1) {
        switch (letter) {
        case 't':
            if (!parse_transports(&demo, optarg)) {
                return usage(stderr, 2);
            }
            break;
        case 'd':
            demo.seconds = atof(optarg);
            break;
        case 'k':
            demo.keep = true;
            break;
        default:
            return usage(letter == 'h' ? stdout : stderr, letter == 'h' ? 0 : 2);
        }
    }
    if (argc - optind > 1 || !(demo.seconds > 0 && demo.seconds <= 10)) {
        return usage(stderr, 2);
    }
    demo.file = argv[optind];
    if (!prepare(&demo)) {
        return 1;
    }
    for (int i = 0; i < demo.transport_count; i++) {
        delivered += run_transport(&demo, i);
    }
    if (demo.keep) {
        printf("The received file: %s\n", demo.received);
    } else {
        unlink(demo.received);
        rmdir(demo.folder);
    }
    printf("%d of %d transports delivered the file unchanged.\n", delivered, demo.transport_count);
    return delivered == demo.transport_count ? 0 : 1;
}
