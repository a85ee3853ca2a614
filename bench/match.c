/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_match: what a message of 8 bytes costs beside receives that are posted, or messages that nobody has received
 * yet. One worker that talks to itself, so that nothing but matching depends on the length of the queue.
 *
 * Usage: bench_match [-k posted|unexpected] [-q queued] [-m exact|any] [-o hot|spread] [-t milliseconds]
 * Prints "key value" lines: `operation_ns` is the median over batches. A plain program of the public interface:
 * LD_LIBRARY_PATH chooses the library.
 *
 * One operation is a receive and its message: with -k posted the receive is there first, else the message. "hot": the
 * same tag again and again beside a queue that never matches; "spread": the queue itself, in random order. "any": the
 * receives take any source, the low half of a tag.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 60, MOST_BATCHES = 100000, ENDPOINTS = 17, LEAST_WARM_UP = 20 };

#define HOT_TAG    (UINT64_C(7) << 56 | 5)
#define ANY_SOURCE UINT64_C(0xffffffff00000000)

static struct cw_side here;
/* The hot tag has an endpoint of its own, the queue shares the others: no sender may leave any number of messages
 * unreceived. */
static ucp_ep_h selves[ENDPOINTS];
static ucs_status_ptr_t *posted; /* of the queue; the hot one behind it */
static unsigned long queued;
static uint64_t mask = UINT64_MAX;
static uint64_t random_state = 88172645463325252u;

static void quit(const char *what)
{
    cw_say_error("%s", what);
    exit(1);
}

static uint64_t tag_of(unsigned long i)
{
    return i == queued ? HOT_TAG : UINT64_C(3) << 56 | (uint64_t)i << 32 | (i % 64);
}

static unsigned long any_index(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % queued;
}

static void post(unsigned long i)
{
    static const ucp_request_param_t none;
    static uint64_t word;

    posted[i] = ucp_tag_recv_nbx(here.worker, &word, sizeof(word), tag_of(i), mask, &none);
    if (UCS_PTR_IS_ERR(posted[i])) {
        cw_side_check("ucp_tag_recv_nbx", UCS_PTR_STATUS(posted[i]));
    }
}

/* When this returns, the message has arrived. */
static void send_to(unsigned long i)
{
    static const ucp_request_param_t none;
    static const uint64_t word = 42;
    ucp_ep_h ep = selves[i == queued ? 0 : 1 + i % (ENDPOINTS - 1)];

    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(ep, &word, sizeof(word), tag_of(i), &none), here.worker, NULL));
    while (ucp_worker_progress(here.worker) != 0) {
    }
}

static void expect_done(unsigned long i)
{
    if (UCS_PTR_IS_PTR(posted[i])) {
        if (ucp_request_check_status(posted[i]) != UCS_OK) {
            quit("a message did not meet its receive");
        }
        ucp_request_free(posted[i]);
    }
}

/* ---- operations ---- */

static void expected_hot(void)
{
    post(queued);
    send_to(queued);
    expect_done(queued);
}

static void unexpected_hot(void)
{
    send_to(queued);
    post(queued);
    expect_done(queued);
}

static void expected_spread(void)
{
    unsigned long i = any_index();

    send_to(i);
    expect_done(i);
    post(i);
}

static void unexpected_spread(void)
{
    unsigned long i = any_index();

    post(i);
    expect_done(i);
    send_to(i);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static uint64_t time_of(void (*operate)(void), unsigned long count)
{
    uint64_t start = cw_clock_ns();

    for (unsigned long i = 0; i < count; i++) {
        operate();
    }
    cw_watchdog_beat();
    return cw_clock_ns() - start;
}

/* For as long as asked; before that as long again, for a library may build what it needs when it is asked. */
static double measure(void (*operate)(void), uint64_t duration_ns)
{
    double *batches = calloc(MOST_BATCHES, sizeof(*batches)), result;
    uint64_t end = cw_clock_ns() + duration_ns;
    unsigned long size = 1, count = 0;

    if (batches == NULL) {
        quit("no memory for the batches");
    }
    for (unsigned i = 0; i < LEAST_WARM_UP || cw_clock_ns() < end; i++) {
        operate();
        cw_watchdog_beat();
    }
    while (time_of(operate, size) < 100000) {
        size *= 2;
    }
    end = cw_clock_ns() + duration_ns;
    do {
        batches[count++] = (double)time_of(operate, size) / (double)size;
    } while (count < MOST_BATCHES && (count < 3 || cw_clock_ns() < end));
    qsort(batches, count, sizeof(*batches), by_value);
    result = batches[count / 2];
    free(batches);
    return result;
}

static void open_selves(void)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};

    cw_side_open(&here, UCP_FEATURE_TAG);
    cw_side_check("ucp_worker_query", ucp_worker_query(here.worker, &attr));
    params.address = attr.address;
    for (unsigned i = 0; i < ENDPOINTS; i++) {
        cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &selves[i]));
    }
    ucp_worker_release_address(here.worker, attr.address);
}

static int usage(void)
{
    fprintf(stderr, "Usage: bench_match [-k posted|unexpected] [-q queued (at most 1000000)] [-m exact|any] "
                    "[-o hot|spread] [-t milliseconds]\n");
    return 2;
}

int main(int argc, char **argv)
{
    bool is_unexpected = false, is_spread = false;
    void (*operation)(void);
    unsigned long milliseconds = 100;
    int letter;

    cw_say_setup("bench_match", false);
    while ((letter = getopt(argc, argv, "k:q:m:o:t:")) != -1) {
        if (letter == 'q') {
            queued = strtoul(optarg, NULL, 10);
        } else if (letter == 't') {
            milliseconds = strtoul(optarg, NULL, 10);
        } else if (letter == 'k' && (strcmp(optarg, "posted") == 0 || strcmp(optarg, "unexpected") == 0)) {
            is_unexpected = *optarg == 'u';
        } else if (letter == 'm' && (strcmp(optarg, "exact") == 0 || strcmp(optarg, "any") == 0)) {
            mask = *optarg == 'a' ? ANY_SOURCE : UINT64_MAX;
        } else if (letter == 'o' && (strcmp(optarg, "hot") == 0 || strcmp(optarg, "spread") == 0)) {
            is_spread = *optarg == 's';
        } else {
            return usage();
        }
    }
    if (optind != argc || queued > 1000000 || milliseconds < 1 || (is_spread && queued == 0)) {
        return usage();
    }
    cw_watchdog_start(SECONDS, 1);
    posted = calloc(queued + 1, sizeof(*posted));
    if (posted == NULL) {
        quit("no memory for the queue");
    }
    open_selves();
    for (unsigned long i = 0; i < queued; i++) {
        is_unexpected ? send_to(i) : post(i);
    }
    printf("version %s\n", ucp_get_version_string());
    if (is_unexpected) {
        operation = is_spread ? unexpected_spread : unexpected_hot;
    } else {
        operation = is_spread ? expected_spread : expected_hot;
    }
    printf("operation_ns %.1f\n", measure(operation, milliseconds * 1000000));
    /* The queue is not taken down: the process just ends. */
    fflush(stdout);
    _exit(0);
}
