/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_types: bandwidth of windows of tag messages of a generic datatype, between two processes. The datatype copies
 * bytes, so the rows show what the library adds to the program's own pack and unpack.
 *
 * Usage: bench_types [-s bytes] [-w window] [-t milliseconds] [-c cpu,cpu]
 * Prints "mbps value": the median of the rounds, in 2^20 bytes per second. A plain program of the public interface:
 * LD_LIBRARY_PATH chooses the library, UCX_TLS the transport.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, DATA = 5, DONE = 6, MOST_WINDOW = 64, ROUNDS = 5, WARM_UP = 3 };

static struct cw_side here;
static ucp_ep_h there;
static ucp_datatype_t type;
static char *buffer;
static size_t size = 64 << 10;
static unsigned window = 32;

/* The count of a message is its number of bytes. The state of an operation is its part of the buffer. */
static void *start_pack(void *context, const void *from, size_t count)
{
    (void)context;
    (void)count;
    return (void *)(uintptr_t)from;
}

static void *start_unpack(void *context, void *to, size_t count)
{
    (void)context;
    (void)count;
    return to;
}

static size_t packed_size(void *state)
{
    (void)state;
    return size;
}

static size_t pack(void *state, size_t offset, void *to, size_t most)
{
    const size_t length = (size - offset < most) ? size - offset : most;

    memcpy(to, (const char *)state + offset, length);
    return length;
}

static ucs_status_t unpack(void *state, size_t offset, const void *from, size_t length)
{
    memcpy((char *)state + offset, from, length);
    return UCS_OK;
}

static void finish(void *state)
{
    (void)state;
}

static void await_all(ucs_status_ptr_t *requests)
{
    for (unsigned i = 0; i < window; i++) {
        cw_side_check("a message", cw_side_await(requests[i], here.worker, NULL));
    }
}

static void send_window(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = type};
    ucs_status_ptr_t requests[MOST_WINDOW];

    for (unsigned i = 0; i < window; i++) {
        requests[i] = ucp_tag_send_nbx(there, buffer + i * size, size, DATA, &param);
    }
    await_all(requests);
}

static void receive_window(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = type};
    ucs_status_ptr_t requests[MOST_WINDOW];

    for (unsigned i = 0; i < window; i++) {
        requests[i] = ucp_tag_recv_nbx(here.worker, buffer + i * size, size, DATA, UINT64_MAX, &param);
    }
    await_all(requests);
}

/* So much arrived. */
static void notify(void)
{
    static const ucp_request_param_t none;
    static uint64_t word;

    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(there, &word, sizeof(word), DONE, &none), here.worker, NULL));
}

static void hear(void)
{
    static const ucp_request_param_t none;
    uint64_t word;

    cw_side_check("ucp_tag_recv_nbx",
                  cw_side_await(ucp_tag_recv_nbx(here.worker, &word, sizeof(word), DONE, UINT64_MAX, &none),
                                here.worker, NULL));
}

static void be_other(void)
{
    for (;;) {
        receive_window();
        notify();
    }
}

/* 2^20 bytes per second, over at least that time. */
static double measure(uint64_t least_ns)
{
    const uint64_t start = cw_clock_ns();
    unsigned long windows = 0;
    uint64_t now;

    do {
        send_window();
        hear();
        windows++;
        now = cw_clock_ns();
    } while (now - start < least_ns);
    return (double)windows * window * (double)size / 1048576 / ((double)(now - start) / 1e9);
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double measure_all(unsigned long milliseconds)
{
    double found[ROUNDS];

    for (unsigned i = 0; i < WARM_UP; i++) {
        (void)measure(0);
    }
    for (unsigned i = 0; i < ROUNDS; i++) {
        found[i] = measure(milliseconds * 1000000 / ROUNDS);
    }
    qsort(found, ROUNDS, sizeof(found[0]), compare);
    return found[ROUNDS / 2];
}

static void meet(int from, int to)
{
    static const ucp_generic_dt_ops_t ops = {
        .start_pack = start_pack,
        .start_unpack = start_unpack,
        .packed_size = packed_size,
        .pack = pack,
        .unpack = unpack,
        .finish = finish,
    };

    buffer = malloc(window * size);
    if (buffer == NULL) {
        cw_say_error("no memory");
        exit(1);
    }
    memset(buffer, 1, window * size);
    cw_side_check("ucp_dt_create_generic", ucp_dt_create_generic(&ops, NULL, &type));
    cw_side_open(&here, UCP_FEATURE_TAG);
    there = cw_side_meet(&here, from, to);
}

int main(int argc, char **argv)
{
    unsigned long milliseconds = 100;
    int cpus[2] = {-1, -1}, letter;
    bool valid = true;
    struct cw_side_pair pair;

    cw_say_setup("bench_types", false);
    while ((letter = getopt(argc, argv, "s:w:t:c:")) != -1) {
        if (letter == 's') {
            size = strtoul(optarg, NULL, 10);
        } else if (letter == 'w') {
            window = (unsigned)strtoul(optarg, NULL, 10);
        } else if (letter == 't') {
            milliseconds = strtoul(optarg, NULL, 10);
        } else if (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2) {
            valid = false;
        }
    }
    if (!valid || optind != argc || size < 1 || size > 1 << 30 || window < 1 || window > MOST_WINDOW ||
        milliseconds < 1 || milliseconds > SECONDS * 500) {
        fprintf(stderr, "Usage: bench_types [-s bytes] [-w window, at most %d] [-t milliseconds] [-c cpu,cpu]\n",
                MOST_WINDOW);
        return 2;
    }
    pair = cw_side_fork(cpus, SECONDS);
    meet(pair.from, pair.to);
    if (pair.other == 0) {
        be_other();
    }
    printf("mbps %.1f\n", measure_all(milliseconds));
    fflush(stdout);
    kill(pair.other, SIGKILL);
    _exit(0);
}
