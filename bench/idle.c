/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_idle: what connected endpoints cost on which nothing moves. A worker with many endpoints, all but one to
 * another process, and a worker with a single endpoint, in turn: a call of progress that finds nothing, and a message
 * of 8 B from another worker of this process with the progress that finds it.
 *
 * Usage: bench_idle [-n endpoints]
 * Prints "key value" lines: medians, and the medians of the ratios of many to one in each round. A plain program of the
 * public interface: LD_LIBRARY_PATH chooses the library, UCX_TLS the transport. Status 77: too few descriptors.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 100, TAG = 5, ROUNDS = 21, CALLS = 2000, AT_ONCE = 64, MOST_ADDRESS = 4096, SKIPPED = 77 };

/* One endpoint from `hub` to `far`, and back; the messages go to the hub, whose progress is checked. */
struct pair {
    struct cw_side hub;
    struct cw_side far;
    ucp_ep_h back;
};

static const ucp_request_param_t none;

static void await(struct pair *pair, const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, pair->hub.worker, pair->far.worker));
}

static ucp_ep_h connect_to(const struct cw_side *from, const struct cw_side *to)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_ep_h made;

    cw_side_check("ucp_worker_query", ucp_worker_query(to->worker, &attr));
    params.address = attr.address;
    cw_side_check("ucp_ep_create", ucp_ep_create(from->worker, &params, &made));
    ucp_worker_release_address(to->worker, attr.address);
    return made;
}

static void meet(struct pair *pair)
{
    uint64_t word = 1, got;

    cw_side_open(&pair->hub, UCP_FEATURE_TAG);
    cw_side_open(&pair->far, UCP_FEATURE_TAG);
    await(pair, "ucp_tag_send_nbx",
          ucp_tag_send_nbx(connect_to(&pair->hub, &pair->far), &word, sizeof(word), TAG, &none));
    await(pair, "ucp_tag_recv_nbx", ucp_tag_recv_nbx(pair->far.worker, &got, sizeof(got), TAG, UINT64_MAX, &none));
    pair->back = connect_to(&pair->far, &pair->hub);
}

/* ---- the idle ones ---- */

/* The process at their other ends: sends its address, and takes what comes without hurry. */
static void be_others(int fd)
{
    struct cw_side here = {.mode = UCS_THREAD_MODE_SINGLE};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cw_side_open(&here, UCP_FEATURE_TAG);
    cw_side_check("ucp_worker_query", ucp_worker_query(here.worker, &attr));
    if (write(fd, attr.address, attr.address_length) != (ssize_t)attr.address_length) {
        _exit(1);
    }
    for (;;) {
        if (ucp_worker_progress(here.worker) == 0) {
            usleep(200);
        }
    }
}

static int start_others(void)
{
    int ends[2];
    pid_t pid;

    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        cw_say_error("no second process");
        exit(1);
    }
    if (pid == 0) {
        be_others(ends[1]);
    }
    close(ends[1]);
    return ends[0];
}

static void add_idle(struct pair *pair, int others, unsigned long endpoints)
{
    char address[MOST_ADDRESS];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (void *)address};
    ucs_status_ptr_t sends[AT_ONCE];
    uint64_t word = 1;
    unsigned long i, j, count;
    ucp_ep_h ep;

    if (read(others, address, sizeof(address)) <= 0) {
        cw_say_error("the second process failed");
        exit(1);
    }
    for (i = 0; i < endpoints; i += count) {
        count = (endpoints - i < AT_ONCE) ? endpoints - i : AT_ONCE;
        for (j = 0; j < count; j++) {
            cw_side_check("ucp_ep_create", ucp_ep_create(pair->hub.worker, &params, &ep));
            sends[j] = ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none);
        }
        for (j = 0; j < count; j++) {
            await(pair, "ucp_tag_send_nbx", sends[j]);
        }
    }
}

/* ---- measurements ---- */

/* Nanoseconds of one call. */
static double idle_ns(struct pair *pair)
{
    const uint64_t start_ns = cw_clock_ns();
    int i;

    for (i = 0; i < CALLS; i++) {
        ucp_worker_progress(pair->hub.worker);
    }
    return (double)(cw_clock_ns() - start_ns) / CALLS;
}

static double message_ns(struct pair *pair)
{
    const uint64_t start_ns = cw_clock_ns();
    uint64_t word = 1, got;
    int i;

    for (i = 0; i < CALLS; i++) {
        ucs_status_ptr_t receive = ucp_tag_recv_nbx(pair->hub.worker, &got, sizeof(got), TAG, UINT64_MAX, &none);
        await(pair, "ucp_tag_send_nbx", ucp_tag_send_nbx(pair->back, &word, sizeof(word), TAG, &none));
        await(pair, "ucp_tag_recv_nbx", receive);
    }
    return (double)(cw_clock_ns() - start_ns) / CALLS;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof(values[0]), compare);
    return values[ROUNDS / 2];
}

static void measure(const char *name, double (*of)(struct pair *), struct pair *one, struct pair *many)
{
    double ones[ROUNDS], manies[ROUNDS], ratios[ROUNDS];
    int i;

    for (i = 0; i < ROUNDS; i++) {
        ones[i] = of(one);
        manies[i] = of(many);
        ratios[i] = manies[i] / ones[i];
    }
    printf("%s_one_ns %.1f\n%s_many_ns %.1f\n%s_ratio %.3f\n", name, median(ones), name, median(manies), name,
           median(ratios));
}

/* A connection has one, and further ones while it is made. */
static int have_descriptors(unsigned long endpoints)
{
    const rlim_t needed = endpoints + 4 * AT_ONCE + 64;
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = needed;
        limit.rlim_max = (limit.rlim_max < needed) ? needed : limit.rlim_max;
        return setrlimit(RLIMIT_NOFILE, &limit) == 0;
    }
    return 1;
}

/* Nothing moves for a while: what gets cheaper then has done so. */
static void rest(struct pair *pair)
{
    const uint64_t end_ns = cw_clock_ns() + 400000000u;

    while (cw_clock_ns() < end_ns) {
        ucp_worker_progress(pair->hub.worker);
        ucp_worker_progress(pair->far.worker);
    }
}

int main(int argc, char **argv)
{
    static struct pair one, many;
    unsigned long endpoints = 10000;
    int letter, others;

    cw_say_setup("bench_idle", false);
    while ((letter = getopt(argc, argv, "n:")) != -1) {
        endpoints = (letter == 'n') ? strtoul(optarg, NULL, 10) : 0;
    }
    if (optind != argc || endpoints < 1 || endpoints > 1000000) {
        fprintf(stderr, "Usage: bench_idle [-n endpoints]\n");
        return 2;
    }
    if (!have_descriptors(endpoints)) {
        printf("skipped: %lu endpoints need %lu descriptors, and this user may not have so many (ulimit -n)\n",
               endpoints, endpoints);
        return SKIPPED;
    }
    cw_watchdog_start(SECONDS, 1);
    others = start_others();
    meet(&one);
    meet(&many);
    add_idle(&many, others, endpoints - 1);
    rest(&many);
    measure("idle", idle_ns, &one, &many);
    measure("message", message_ns, &one, &many);
    fflush(stdout);
    _exit(0); /* taking so many connections down is not what is measured */
}
