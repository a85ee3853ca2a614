/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of waking a sleeper: two processes that only ever sleep in poll() wake each other through eventfds.
 */
#define _GNU_SOURCE
#include "bare.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int bells[2];

static void open_bells(bool sleeps)
{
    (void)sleeps;
    for (int i = 0; i < 2; i++) {
        bells[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (bells[i] < 0) {
            cw_bare_die("eventfd");
        }
    }
}

static void start(bool is_ping)
{
    (void)is_ping;
}

static void ring(int bell)
{
    uint64_t one = 1;

    if (write(bell, &one, sizeof(one)) != (ssize_t)sizeof(one)) {
        cw_bare_die("write");
    }
}

static void await(int bell)
{
    uint64_t count;

    for (;;) {
        struct pollfd item = {.fd = bell, .events = POLLIN};
        poll(&item, 1, -1);
        if (read(bell, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
            return;
        }
        if (errno != EAGAIN && errno != EINTR) {
            cw_bare_die("read");
        }
    }
}

static void ping(uint64_t trip)
{
    (void)trip;
    ring(bells[0]);
    await(bells[1]);
}

static void pong(uint64_t trip)
{
    (void)trip;
    await(bells[0]);
    ring(bells[1]);
}

int main(int argc, char **argv)
{
    static const struct cw_bare bare = {
        .name = "bare_wakeup",
        .can_sleep = false,
        .open = open_bells,
        .start = start,
        .ping = ping,
        .pong = pong,
    };

    return cw_bare_main(&bare, argc, argv);
}
