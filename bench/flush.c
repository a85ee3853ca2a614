/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_flush: what a flush costs when nothing is outstanding. All endpoints have talked once.
 *
 * Usage: bench_flush [-e endpoints]
 * Prints "key value" lines, medians of many calls: ucp_worker_flush_nbx(), and ucp_ep_flush_nbx() on each endpoint.
 * A plain program of the public interface: LD_LIBRARY_PATH chooses the library. Both workers are in this process.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { REPETITIONS = 201, SECONDS = 60 };

static struct cw_side near, far;

static void await(const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, near.worker, far.worker));
}

/* One message on each endpoint; what is received is not checked. */
static ucp_ep_h *make_endpoints(unsigned count)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_h *endpoints = calloc(count, sizeof(*endpoints));
    static const ucp_request_param_t none;
    uint64_t word = 1, got;

    if (endpoints == NULL) {
        cw_say_error("no memory for %u endpoints", count);
        exit(1);
    }
    cw_side_check("ucp_worker_query", ucp_worker_query(far.worker, &attr));
    for (unsigned i = 0; i < count; i++) {
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = attr.address};
        cw_side_check("ucp_ep_create", ucp_ep_create(near.worker, &params, &endpoints[i]));
        ucs_status_ptr_t receive = ucp_tag_recv_nbx(far.worker, &got, sizeof(got), 0, 0, &none);
        await("ucp_tag_send_nbx", ucp_tag_send_nbx(endpoints[i], &word, sizeof(word), 0, &none));
        await("ucp_tag_recv_nbx", receive);
        cw_watchdog_beat();
    }
    await("ucp_worker_flush_nbx", ucp_worker_flush_nbx(near.worker, &none));
    ucp_worker_release_address(far.worker, attr.address);
    return endpoints;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static void measure(const char *key, const ucp_ep_h *endpoints, unsigned count)
{
    static const ucp_request_param_t none;
    uint64_t samples[REPETITIONS];
    uint64_t median;

    for (int i = 0; i < REPETITIONS; i++) {
        uint64_t start = cw_ticks_now();
        if (endpoints == NULL) {
            await("ucp_worker_flush_nbx", ucp_worker_flush_nbx(near.worker, &none));
        }
        for (unsigned j = 0; endpoints != NULL && j < count; j++) {
            await("ucp_ep_flush_nbx", ucp_ep_flush_nbx(endpoints[j], &none));
        }
        samples[i] = cw_ticks_now() - start;
        cw_watchdog_beat();
    }
    qsort(samples, REPETITIONS, sizeof(samples[0]), by_value);
    median = samples[REPETITIONS / 2];
    printf("%s %.3f\n", key, (double)median * cw_ticks_ns() / 1e3);
}

int main(int argc, char **argv)
{
    unsigned long count = 1000;
    int letter;

    cw_say_setup("bench_flush", false);
    while ((letter = getopt(argc, argv, "e:")) != -1) {
        if (letter != 'e') {
            return 2;
        }
        count = strtoul(optarg, NULL, 10);
    }
    if (optind != argc || count < 1 || count > 1000000) {
        fprintf(stderr, "Usage: bench_flush [-e endpoints]\n");
        return 2;
    }
    cw_watchdog_start(SECONDS, 1);
    cw_ticks_start();
    cw_side_open(&near, UCP_FEATURE_TAG | UCP_FEATURE_RMA);
    cw_side_open(&far, UCP_FEATURE_TAG | UCP_FEATURE_RMA);
    ucp_ep_h *endpoints = make_endpoints((unsigned)count);
    printf("endpoints %lu\n", count);
    measure("worker_flush_us", NULL, 0);
    measure("endpoints_flush_us", endpoints, (unsigned)count);
    /* Taking down so many connections is not measured here: the process just ends. */
    fflush(stdout);
    _exit(0);
}
