/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_both: bandwidth of tag messages one way, and both ways at the same time, between two processes, in turn. Each
 * side keeps up to WINDOW sends and as many receives unfinished.
 *
 * Usage: bench_both [-s bytes] [-n messages] [-c cpu,cpu]
 * Prints "key value" lines: medians of the rounds, in 2^20 bytes per second; both ways count together. A plain program
 * of the public interface: LD_LIBRARY_PATH chooses the library, UCX_TLS the transport.
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
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, TAG = 5, END = 6, WINDOW = 32, ROUNDS = 5, PAGE = 4096 };

struct direction {
    char *buffer;
    unsigned long left;   /* not begun */
    unsigned in_flight;
};

static struct cw_side here;
static ucp_ep_h there;
static size_t size = 1 << 20;
static struct direction out, in;

static void sent(void *request, ucs_status_t status, void *user_data)
{
    (void)user_data;
    cw_side_check("a send", status);
    out.in_flight--;
    ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info;
    (void)user_data;
    cw_side_check("a receive", status);
    in.in_flight--;
    ucp_request_free(request);
}

static void begin_sends(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = sent};
    ucs_status_ptr_t request;

    while (out.left > 0 && out.in_flight < WINDOW) {
        out.left--;
        out.in_flight++;
        request = ucp_tag_send_nbx(there, out.buffer, size, TAG, &param);
        if (!UCS_PTR_IS_PTR(request)) {
            cw_side_check("ucp_tag_send_nbx", UCS_PTR_STATUS(request));
            out.in_flight--;
        }
    }
}

static void begin_receives(void)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL, .cb.recv = received};

    while (in.left > 0 && in.in_flight < WINDOW) {
        in.left--;
        in.in_flight++;
        ucs_status_ptr_t request = ucp_tag_recv_nbx(here.worker, in.buffer, size, TAG, UINT64_MAX, &param);
        cw_side_check("ucp_tag_recv_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
    }
}

static void move(unsigned long sends, unsigned long receives)
{
    out.left = sends;
    in.left = receives;
    while (out.left + out.in_flight + in.left + in.in_flight > 0) {
        begin_receives();
        begin_sends();
        ucp_worker_progress(here.worker);
    }
}

/* So much came, or may come. */
static void notify(void)
{
    static const ucp_request_param_t none;
    static uint64_t word;

    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(there, &word, sizeof(word), END, &none), here.worker, NULL));
}

static void hear(void)
{
    static const ucp_request_param_t none;
    uint64_t word;

    cw_side_check("ucp_tag_recv_nbx",
                  cw_side_await(ucp_tag_recv_nbx(here.worker, &word, sizeof(word), END, UINT64_MAX, &none), here.worker,
                                NULL));
}

static void be_other(unsigned long messages)
{
    for (unsigned round = 0; round <= 2 * ROUNDS + 1; round++) {
        hear();
        move(round % 2 == 1 ? messages : 0, messages);
        notify();
    }
    for (;;) {
        ucp_worker_progress(here.worker);
    }
}

static double measure(bool both, unsigned long messages)
{
    notify();
    uint64_t start = cw_clock_ns();
    move(messages, both ? messages : 0);
    hear();
    return (double)messages * (double)size * (both ? 2 : 1) / (double)(cw_clock_ns() - start) * 1e9 / 1048576;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static void measure_all(unsigned long messages)
{
    double found[3][ROUNDS];

    (void)measure(false, messages); /* warm up */
    (void)measure(true, messages);
    for (unsigned round = 0; round < ROUNDS; round++) {
        found[0][round] = measure(false, messages);
        found[1][round] = measure(true, messages);
        found[2][round] = found[1][round] / found[0][round];
    }
    for (unsigned i = 0; i < 3; i++) {
        qsort(found[i], ROUNDS, sizeof(found[i][0]), compare);
    }
    printf("one_mbps %.1f\nboth_mbps %.1f\nratio %.3f\n", found[0][ROUNDS / 2], found[1][ROUNDS / 2],
           found[2][ROUNDS / 2]);
}

static char *new_buffer(void)
{
    char *memory = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);

    if (memory == NULL) {
        cw_say_error("no memory");
        exit(1);
    }
    memset(memory, 1, size);
    return memory;
}

static void meet(int from, int to)
{
    out.buffer = new_buffer();
    in.buffer = new_buffer();
    cw_side_open(&here, UCP_FEATURE_TAG);
    there = cw_side_meet(&here, from, to);
}

int main(int argc, char **argv)
{
    unsigned long messages = 200;
    int cpus[2] = {-1, -1}, letter;
    struct cw_side_pair pair;

    cw_say_setup("bench_both", false);
    while ((letter = getopt(argc, argv, "s:n:c:")) != -1) {
        if (letter == 's') {
            size = strtoul(optarg, NULL, 10);
        } else if (letter == 'n') {
            messages = strtoul(optarg, NULL, 10);
        } else if (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2) {
            messages = 0;
        }
    }
    if (optind != argc || messages < 1 || size < 1 || size > SIZE_MAX / 2) {
        fprintf(stderr, "Usage: bench_both [-s bytes] [-n messages] [-c cpu,cpu]\n");
        return 2;
    }
    pair = cw_side_fork(cpus, SECONDS);
    meet(pair.from, pair.to);
    if (pair.other == 0) {
        be_other(messages);
    }
    measure_all(messages);
    fflush(stdout);
    kill(pair.other, SIGKILL);
    _exit(0);
}
