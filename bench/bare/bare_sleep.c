/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of a message to a process that sleeps for sure: each of two processes pauses before it sends, so that the
 * other one has been asleep for long. Time is taken on each way, from before the call that wakes to behind the one that
 * slept; a trip's own time is mostly pauses.
 *   -k eventfd  write, poll and read, the message lies in shared memory
 *   -k futex    the same with a futex
 *   -k tcp      send, poll and recv through the loopback interface
 */
#define _GNU_SOURCE
#include "bare.h"

#include "ticks.h"

#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAUSE_US = 300, MOST = 100000, FUTEX_DONE = 1 };

/* Sides: 0 answers, 1 measures. What is of a side is what it awaits. */
struct board {
    _Alignas(64) _Atomic uint32_t words[2];
    uint64_t sent_ns[2];
    unsigned count[2];
    uint64_t took_ns[2][MOST];
};

static struct board *board;
static int descriptors[2]; /* of each side: eventfds or ends of a connection */
static unsigned me;
static const char *kind = "eventfd";

static void check(bool fine, const char *what)
{
    if (!fine) {
        cw_bare_die(what);
    }
}

static void connect_both(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;

    check(listener >= 0 && bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&address, &length) == 0,
          "listening on the loopback interface");
    descriptors[1] = socket(AF_INET, SOCK_STREAM, 0);
    check(descriptors[1] >= 0 && connect(descriptors[1], (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    descriptors[0] = accept(listener, NULL, NULL);
    check(descriptors[0] >= 0, "accept");
    for (int i = 0; i < 2; i++) {
        check(setsockopt(descriptors[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) == 0, "setting socket options");
    }
    close(listener);
}

static void open_all(bool sleeps)
{
    (void)sleeps;
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(board != MAP_FAILED, "memory");
    if (strcmp(kind, "tcp") == 0) {
        connect_both();
        return;
    }
    for (int i = 0; i < 2; i++) {
        descriptors[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        check(descriptors[i] >= 0, "eventfd");
    }
}

static void start(bool is_ping)
{
    me = is_ping;
}

static void wake_other(void)
{
    const uint64_t word = 1;

    usleep(PAUSE_US);
    board->sent_ns[!me] = cw_clock_ns();
    if (strcmp(kind, "futex") == 0) {
        atomic_store(&board->words[!me], FUTEX_DONE);
        check(syscall(SYS_futex, &board->words[!me], FUTEX_WAKE, 1, NULL, NULL, 0) >= 0, "futex");
    } else { /* an eventfd is written where the other reads it, a connection at this side's end */
        const int at = descriptors[strcmp(kind, "tcp") == 0 ? me : !me];
        check(write(at, &word, sizeof(word)) == (ssize_t)sizeof(word), "write");
    }
}

static void sleep_on_futex(void)
{
    while (atomic_exchange(&board->words[me], 0) != FUTEX_DONE) {
        check(syscall(SYS_futex, &board->words[me], FUTEX_WAIT, 0, NULL, NULL, 0) == 0 || errno == EAGAIN ||
                  errno == EINTR,
              "futex");
    }
}

static void sleep_on_descriptor(void)
{
    struct pollfd item = {.fd = descriptors[me], .events = POLLIN};
    uint64_t word;

    check(poll(&item, 1, -1) == 1 && read(item.fd, &word, sizeof(word)) == (ssize_t)sizeof(word), "poll and read");
}

static void await(void)
{
    if (strcmp(kind, "futex") == 0) {
        sleep_on_futex();
    } else {
        sleep_on_descriptor();
    }
    if (board->count[me] < MOST) {
        board->took_ns[me][board->count[me]++] = cw_clock_ns() - board->sent_ns[me];
    }
}

static void ping(uint64_t trip)
{
    (void)trip;
    wake_other();
    await();
}

static void pong(uint64_t trip)
{
    (void)trip;
    await();
    wake_other();
}

static bool set_kind(const char *name)
{
    kind = name;
    return strcmp(name, "eventfd") == 0 || strcmp(name, "futex") == 0 || strcmp(name, "tcp") == 0;
}

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void show(void)
{
    double sum = 0;

    for (int i = 0; i < 2; i++) {
        qsort(board->took_ns[i], board->count[i], sizeof(board->took_ns[i][0]), by_value);
        const unsigned middle = board->count[i] / 2;
        sum += (double)board->took_ns[i][middle];
    }
    printf("wake_ns_p50 %.1f\n", sum / 2);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_sleep",
        .open = open_all,
        .start = start,
        .ping = ping,
        .pong = pong,
        .set_kind = set_kind,
        .show = show,
    };

    return cw_bare_main(&bare, argc, argv);
}
