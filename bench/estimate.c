/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_estimate: what ucp_ep_evaluate_perf says that a message takes, beside what it takes: half of the best round
 * trip of tag messages between two processes.
 *
 * Usage: bench_estimate [-n round trips]
 * Prints a line for each size: bytes, the estimate and the measured time in microseconds, and their quotient. A plain
 * program of the public interface: LD_LIBRARY_PATH chooses the library, UCX_TLS the transport.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 100, TAG = 5, MOST_BYTES = 16 << 20, MOST_ROUND_TRIPS = 100000 };

static const ucp_request_param_t none;
static struct cw_side here;
static ucp_ep_h there;
static char *buffer;
static unsigned long round_trips = 200;

static void send_one(size_t size)
{
    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(there, buffer, size, TAG, &none), here.worker, NULL));
}

static void receive_one(size_t size)
{
    cw_side_check("ucp_tag_recv_nbx", cw_side_await(ucp_tag_recv_nbx(here.worker, buffer, size, TAG, UINT64_MAX, &none),
                                                    here.worker, NULL));
}

static unsigned long trips_of(size_t size)
{
    return (size > (1 << 20)) ? round_trips / 10 + 3 : round_trips;
}

static size_t next_size(size_t size)
{
    return (size == 1) ? 8 : size * 4;
}

static double estimate(size_t size)
{
    const ucp_ep_evaluate_perf_param_t param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE,
                                              .message_size = size};
    ucp_ep_evaluate_perf_attr_t attr = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};

    cw_side_check("ucp_ep_evaluate_perf", ucp_ep_evaluate_perf(there, &param, &attr));
    return 1e6 * attr.estimated_time;
}

static void measure(size_t size)
{
    uint64_t least_ns = UINT64_MAX, begin_ns, taken_ns;
    double estimated, measured;

    for (unsigned long i = 0; i < trips_of(size); i++) {
        begin_ns = cw_clock_ns();
        send_one(size);
        receive_one(size);
        taken_ns = cw_clock_ns() - begin_ns;
        least_ns = (taken_ns < least_ns) ? taken_ns : least_ns;
    }
    estimated = estimate(size);
    measured = (double)least_ns / 2e3;
    printf("%9zu bytes: estimated %10.3f us, measured %10.3f us, quotient %.2f\n", size, estimated, measured,
           estimated / measured);
}

static void answer(size_t size)
{
    for (unsigned long i = 0; i < trips_of(size); i++) {
        receive_one(size);
        send_one(size);
    }
}

int main(int argc, char **argv)
{
    int to[2], from[2], letter;
    pid_t child;

    cw_say_setup("bench_estimate", false);
    while ((letter = getopt(argc, argv, "n:")) != -1) {
        round_trips = (letter == 'n') ? strtoul(optarg, NULL, 10) : 0;
    }
    if (optind != argc || round_trips < 1 || round_trips > MOST_ROUND_TRIPS) {
        fprintf(stderr, "Usage: bench_estimate [-n round trips (at most %d)]\n", MOST_ROUND_TRIPS);
        return 2;
    }
    buffer = calloc(1, MOST_BYTES);
    if (buffer == NULL || pipe(to) != 0 || pipe(from) != 0) {
        cw_say_error("no memory, or no pipe");
        return 1;
    }
    child = fork();
    if (child < 0) {
        cw_say_error("no process");
        return 1;
    }
    cw_watchdog_start(SECONDS, 1);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    cw_side_open(&here, UCP_FEATURE_TAG);
    there = (child == 0) ? cw_side_meet(&here, to[0], from[1]) : cw_side_meet(&here, from[0], to[1]);
    for (size_t size = 1; size <= MOST_BYTES; size = next_size(size)) {
        if (child == 0) {
            answer(size);
        } else {
            measure(size);
        }
    }
    fflush(stdout);
    _exit(0);
}
