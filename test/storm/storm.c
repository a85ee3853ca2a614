/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of storm.h. */
#define _GNU_SOURCE
#include "storm.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const char *storm_name = "storm";
uint64_t storm_seed;
long storm_round;

uint64_t storm_random(uint64_t *state)
{
    uint64_t x = (*state += UINT64_C(0x9e3779b97f4a7c15));

    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

size_t storm_below(uint64_t *state, size_t limit)
{
    return (size_t)(storm_random(state) % limit);
}

bool storm_one_in(uint64_t *state, unsigned n)
{
    return storm_below(state, n) == 0;
}

/* Longer than anything that is waited for between two looks. */
#define PAUSE_S 5.0

double storm_now_s(void)
{
    static double last, paused;
    struct timespec now;
    double now_s;

    clock_gettime(CLOCK_MONOTONIC, &now);
    now_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    if (last > 0 && now_s - last > PAUSE_S) {
        paused += now_s - last - PAUSE_S;
    }
    last = now_s;
    return now_s - paused;
}

void storm_exact_memory(char **argv)
{
    const char *name = "GLIBC_TUNABLES", *exact = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0";

    if (getenv(name) == NULL || strcmp(getenv(name), exact) != 0) {
        setenv(name, exact, 1);
        execv("/proc/self/exe", argv);
    }
}

struct storm_holds storm_holds(void)
{
    struct mallinfo2 info = mallinfo2();
    struct storm_holds holds = {.allocated = info.uordblks + info.hblkhd};
    DIR *directory = opendir("/proc/self/fd");
    FILE *maps;
    char line[512];

    storm_check(directory != NULL);
    while (readdir(directory) != NULL) {
        holds.fds++;
    }
    closedir(directory);
    holds.fds -= 3; /* ".", ".." and the directory itself */
    maps = fopen("/proc/self/maps", "re");
    storm_check(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        holds.maps += strchr(line, '[') == NULL;
    }
    fclose(maps);
    return holds;
}

void storm_fail(const char *format, ...)
{
    va_list list;

    fprintf(stderr, "%s: seed %llu, round %ld, process %d: ", storm_name, (unsigned long long)storm_seed, storm_round,
            (int)getpid());
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\n");
    if (getenv("STORM_STOP") != NULL) { /* for a debugger */
        raise(SIGSTOP);
    }
    _exit(1);
}

void storm_check_at(bool good, const char *what, const char *file, int line)
{
    if (!good) {
        storm_fail("%s:%d: not so: %s", file, line, what);
    }
}

void storm_child_start(struct storm_child *child, const char *role, const char *argument)
{
    char number[16];
    int fds[2];

    storm_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    fflush(NULL);
    child->pid = fork();
    storm_check(child->pid >= 0);
    if (child->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(number, sizeof(number), "%d", dup(fds[1])); /* dup drops close-on-exec */
        execl("/proc/self/exe", "role", "--role", role, number, argument, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    child->fd = fds[0];
}

int storm_child_join(struct storm_child *child)
{
    double end = storm_now_s() + STORM_BOUND_S;
    int status = 0;

    while (waitpid(child->pid, &status, WNOHANG) == 0) {
        if (storm_now_s() > end) {
            kill(child->pid, SIGKILL);
            waitpid(child->pid, &status, 0);
            storm_fail("child %d did not end", (int)child->pid);
        }
        usleep(200);
    }
    close(child->fd);
    child->fd = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool storm_play(int argc, char **argv, const struct storm_role *roles, size_t count, int *code)
{
    if (argc < 5 || strcmp(argv[1], "--role") != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(argv[2], roles[i].name) == 0) {
            *code = roles[i].run(atoi(argv[3]), argv[4]);
            return true;
        }
    }
    storm_fail("no role is called %s", argv[2]);
}

bool storm_write(int fd, const void *data, size_t length)
{
    const char *bytes = data;

    while (length > 0) {
        ssize_t done = send(fd, bytes, length, MSG_NOSIGNAL);

        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes += done;
        length -= (size_t)done;
    }
    return true;
}

bool storm_read(int fd, void *data, size_t length, ucp_worker_h worker)
{
    double end = storm_now_s() + STORM_BOUND_S;
    char *bytes = data;

    while (length > 0) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        ssize_t done;

        if (worker != NULL) {
            ucp_worker_progress(worker);
        }
        if (poll(&item, 1, worker == NULL ? 100 : 0) <= 0) {
            if (storm_now_s() > end) {
                storm_fail("the other process said nothing for %d s", STORM_BOUND_S);
            }
            continue;
        }
        done = recv(fd, bytes, length, MSG_DONTWAIT);
        if (done == 0 || (done < 0 && errno == ECONNRESET)) {
            return false;
        }
        if (done > 0) {
            bytes += done;
            length -= (size_t)done;
        }
    }
    return true;
}

void storm_options(int argc, char **argv, struct storm_options *options)
{
    int option;

    while ((option = getopt(argc, argv, "s:n:w:t:v")) != -1) {
        switch (option) {
        case 's':
            options->seed = strtoull(optarg, NULL, 0);
            break;
        case 'n':
            options->rounds = strtol(optarg, NULL, 0);
            break;
        case 'w':
            options->rounds_per_worker = strtol(optarg, NULL, 0);
            break;
        case 't':
            options->seconds = strtod(optarg, NULL);
            break;
        case 'v':
            options->verbose = true;
            break;
        default:
            fprintf(stderr, "Usage: %s [-s seed] [-n rounds] [-w rounds of a worker] [-t seconds] [-v]\n", argv[0]);
            exit(2);
        }
    }
    storm_seed = options->seed;
    printf("%s: seed %llu (-s)\n", storm_name, (unsigned long long)options->seed);
    fflush(stdout);
}

void storm_times_add(struct storm_times *times, double ms)
{
    if (times->values == NULL) {
        times->values = malloc(STORM_TIMES * sizeof(*times->values));
        storm_check(times->values != NULL);
    }
    if (times->count < STORM_TIMES) {
        times->values[times->count++] = (float)ms;
    }
}

static int by_value(const void *a, const void *b)
{
    float one = *(const float *)a, other = *(const float *)b;

    return (one > other) - (one < other);
}

void storm_times_print(struct storm_times *times, const char *what)
{
    size_t n = times->count;

    if (n == 0) {
        printf("%-40s none\n", what);
        return;
    }
    qsort(times->values, n, sizeof(*times->values), by_value);
    printf("%-40s %6zu times: median %.2f, 99%% %.2f, worst %.2f ms\n", what, n, (double)times->values[n / 2],
           (double)times->values[n * 99 / 100], (double)times->values[n - 1]);
}
