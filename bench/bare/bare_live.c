/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of bench_live: records of 24 bytes over thousands of TCP connections between two processes, one system
 * call each, to a receiver that asks one epoll instance for all of them.
 *
 * Usage: bare_live [-n connections] [-m messages]
 * Prints "key value" lines: the rates in turn on FEW of the connections and on all of them, and the ratio of a round.
 */
#define _GNU_SOURCE
#include "bare.h"
#include "say.h"
#include "ticks.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 60, FEW = 10, ROUNDS = 5, RECORD = 24, EVENTS = 64, WINDOW = 4096, ACKNOWLEDGED = 512, RESERVED = 64 };

static int *fds;

static void check(bool fine, const char *what)
{
    if (!fine) {
        cw_bare_die(what);
    }
}

static void tune(int fd)
{
    const int on = 1;

    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0, "TCP_NODELAY");
}

/* ---- the receiver ---- */

static unsigned long drain(int fd)
{
    char bytes[RECORD * EVENTS];
    const ssize_t got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

    if (got == 0) {
        exit(0);
    }
    check(got > 0 || errno == EAGAIN, "recv");
    return (got > 0) ? (unsigned long)got : 0;
}

static void serve(int listener, unsigned long count)
{
    const int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS];
    unsigned long bytes = 0, next = ACKNOWLEDGED;
    int i, num;

    for (unsigned long made = 0; made < count; made++) {
        fds[made] = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        check(fds[made] >= 0, "accept4");
        tune(fds[made]);
        events[0] = (struct epoll_event){.events = EPOLLIN, .data.fd = fds[made]};
        check(epoll_ctl(set, EPOLL_CTL_ADD, fds[made], &events[0]) == 0, "epoll_ctl");
    }
    for (;;) {
        num = epoll_wait(set, events, EVENTS, 0);
        check(num >= 0 || errno == EINTR, "epoll_wait");
        for (i = 0; i < num; i++) {
            bytes += drain(events[i].data.fd);
        }
        for (; bytes >= next * RECORD; next += ACKNOWLEDGED) {
            check(send(fds[0], &next, sizeof(next), MSG_NOSIGNAL) == sizeof(next), "send");
            cw_watchdog_beat();
        }
    }
}

/* ---- the sender ---- */

static void dial_all(const struct sockaddr_in *address, unsigned long count)
{
    for (unsigned long made = 0; made < count; made++) {
        fds[made] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        check(fds[made] >= 0 && connect(fds[made], (const struct sockaddr *)address, sizeof(*address)) == 0,
              "connect");
        tune(fds[made]);
    }
}

static double rate_on(unsigned long count, unsigned long messages)
{
    static unsigned long sent, answered;
    const uint64_t start = cw_clock_ns();
    const unsigned long last = sent + messages;
    const char record[RECORD] = {0};
    unsigned long i = 0;

    while (sent < last || answered + ACKNOWLEDGED <= sent) {
        if (sent < last && sent < answered + WINDOW - ACKNOWLEDGED) {
            check(send(fds[i], record, sizeof(record), MSG_NOSIGNAL) == sizeof(record), "send");
            i = (i + 1 < count) ? i + 1 : 0;
            sent++;
        } else if (recv(fds[0], &answered, sizeof(answered), MSG_WAITALL) != sizeof(answered)) {
            cw_bare_die("recv");
        }
    }
    cw_watchdog_beat();
    return (double)messages * 1e9 / (double)(cw_clock_ns() - start);
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void measure(unsigned long count, unsigned long messages)
{
    double few[ROUNDS], all[ROUNDS], ratios[ROUNDS];

    for (unsigned i = 0; i < ROUNDS; i++) {
        few[i] = rate_on(FEW, messages);
        all[i] = rate_on(count, messages);
        ratios[i] = all[i] / few[i];
    }
    printf("few_rate %.0f\nall_rate %.0f\nall_ratio %.3f\n", median(few), median(all), median(ratios));
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned long count = 9000, messages = 100000;
    socklen_t length = sizeof(address);
    struct rlimit limit;
    int letter, listener;
    pid_t server;

    cw_say_setup("bare_live", false);
    while ((letter = getopt(argc, argv, "n:m:")) != -1) {
        if (letter == 'n') {
            count = strtoul(optarg, NULL, 10);
        } else if (letter == 'm') {
            messages = strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    if (optind != argc || count < FEW || count > 1000000 || messages < WINDOW) {
        fprintf(stderr, "Usage: bare_live [-n connections] [-m messages]\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count + RESERVED) {
        cw_say_error("%lu connections need as many open files", count);
        return 77;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    fds = calloc(count, sizeof(*fds));
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    check(fds != NULL && listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              listen(listener, SOMAXCONN) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0,
          "listening");
    cw_watchdog_start(SECONDS, 1);
    server = fork();
    check(server >= 0, "fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cw_cpu_bind_nth(0);
        cw_watchdog_start(SECONDS, 1);
        serve(listener, count);
    }
    cw_cpu_bind_nth(1);
    dial_all(&address, count);
    measure(count, messages);
    kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    free(fds);
    return 0;
}
