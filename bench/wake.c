/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_wake: the way of a message of 8 B to a process that sleeps for sure: its sender pauses before each message.
 * Where two sleepers answer each other at once, whoever is slow finds the answer before it sleeps, and looks fast.
 *
 * Usage: bench_wake [-n messages] [-b] [-c cpu,cpu]
 * With -b both sides pause before each message, so that both sleep for sure; times are those of both ways then.
 * Prints "key value" lines: median and 90th percentile of the time from the call that sends to the one that has
 * received, and how many of the sleeps ended by a wake-up (of this side). A plain program of the public interface:
 * LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, TAG = 5, PAUSE_US = 300, WARM_UP = 20, MOST = 100000 };

static const ucp_request_param_t none;
static struct cw_side here;
static int efd;
static unsigned long sleeps;
static bool both;
static uint64_t *times; /* of both processes: as many of this side, then as many of the other one */

/* Waits for a receive without spinning. */
static void await_asleep(ucs_status_ptr_t request)
{
    struct pollfd fd = {.fd = efd, .events = POLLIN};
    ucs_status_t status;

    cw_side_check("ucp_tag_recv_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
    while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        if (ucp_worker_progress(here.worker) != 0) {
            continue;
        }
        status = ucp_worker_arm(here.worker);
        if (status == UCS_OK) {
            (void)poll(&fd, 1, -1);
            sleeps++;
        } else if (status != UCS_ERR_BUSY) {
            cw_side_check("ucp_worker_arm", status);
        }
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static uint64_t receive(void)
{
    uint64_t word;

    await_asleep(ucp_tag_recv_nbx(here.worker, &word, sizeof(word), TAG, UINT64_MAX, &none));
    return word;
}

static void give(ucp_ep_h ep, uint64_t word)
{
    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none), here.worker, NULL));
}

/* A worker that may sleep, and an endpoint to the other process. */
static ucp_ep_h meet(int in, int out)
{
    cw_side_open(&here, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    cw_side_check("ucp_worker_get_efd", ucp_worker_get_efd(here.worker, &efd));
    return cw_side_meet(&here, in, out);
}

static void be_sender(ucp_ep_h ep, unsigned long count)
{
    for (unsigned long i = 0;; i++) {
        uint64_t sent_ns = receive();
        if (i < count) {
            times[count + i] = cw_clock_ns() - sent_ns;
        }
        usleep(PAUSE_US);
        give(ep, cw_clock_ns());
    }
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void measure(ucp_ep_h ep, unsigned long messages)
{
    const unsigned long count = messages + WARM_UP;
    uint64_t sent_ns;

    for (unsigned long i = 0; i < count; i++) {
        if (both) {
            usleep(PAUSE_US);
        }
        give(ep, cw_clock_ns());
        sent_ns = receive();
        times[i] = cw_clock_ns() - sent_ns;
    }
    if (both) { /* the other side's last one was there before its answer was */
        memmove(times + count, times + count + WARM_UP, messages * sizeof(times[0]));
        messages *= 2;
    }
    const unsigned long middle = WARM_UP + messages / 2, late = WARM_UP + messages * 9 / 10;
    qsort(times + WARM_UP, messages, sizeof(times[0]), compare);
    printf("wake_us %.2f\nwake_p90_us %.2f\nsleeps %lu\n", (double)times[middle] / 1e3, (double)times[late] / 1e3,
           sleeps);
}

int main(int argc, char **argv)
{
    unsigned long messages = 500;
    int cpus[2] = {-1, -1}, letter;
    struct cw_side_pair pair;

    cw_say_setup("bench_wake", false);
    while ((letter = getopt(argc, argv, "n:bc:")) != -1) {
        if (letter == 'n') {
            messages = strtoul(optarg, NULL, 10);
        } else if (letter == 'b') {
            both = true;
        } else if (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2) {
            messages = 0;
        }
    }
    if (optind != argc || messages < 1 || messages > MOST) {
        fprintf(stderr, "Usage: bench_wake [-n messages (at most %d)] [-b] [-c cpu,cpu]\n", MOST);
        return 2;
    }
    times = mmap(NULL, 2 * (messages + WARM_UP) * sizeof(times[0]), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                 -1, 0);
    if (times == MAP_FAILED) {
        cw_say_error("no memory");
        return 1;
    }
    pair = cw_side_fork(cpus, SECONDS);
    if (pair.other == 0) {
        be_sender(meet(pair.from, pair.to), messages + WARM_UP);
    }
    measure(meet(pair.from, pair.to), messages);
    fflush(stdout);
    kill(pair.other, SIGKILL);
    _exit(0);
}
