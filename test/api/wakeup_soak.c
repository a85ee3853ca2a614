/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proof of WAK-5 by load: two processes that only ever sleep between messages, each in the loop of WAK-4, with
 * sizes, bursts and pauses at random. A sleep of CW_WAIT_S seconds is a lost wake-up and fails.
 *     wakeup_soak [rounds]      default 100000; 10000000 by hand
 * With CW_TEST_EDGE=1 they sleep on an epoll descriptor of their own, which reports edges.
 */
#define _GNU_SOURCE
#include "harness.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { SIZE_MAX_BYTES = 1 << 20, BURST_MAX = 16 };

#define SEED 77u

static long rounds = 100000;
static bool is_edge;

/* What both processes know of a round without speaking: it is drawn from the same seed. */
struct round_plan {
    int burst;
    size_t sizes[BURST_MAX];
    unsigned pause[2];
};

struct sleeper {
    struct cw_side side;
    int efd;
    long sleeps;
    char *out;
    char *in;
};

static const struct cw_pair_config config = {.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP};

static struct round_plan plan_next(uint64_t *random)
{
    struct round_plan plan;
    uint64_t dice = cw_random_next(random);

    plan.burst = dice % 8 == 0 ? 1 + (int)((dice >> 8) % BURST_MAX) : 1;
    plan.pause[0] = (dice >> 16) % 4 == 0 ? (unsigned)((dice >> 24) % 4000) : 0;
    plan.pause[1] = (dice >> 20) % 4 == 0 ? (unsigned)((dice >> 40) % 4000) : 0;
    for (int i = 0; i < plan.burst; i++) {
        uint64_t kind = cw_random_next(random);
        size_t limit = 200;

        if (kind % 1000 == 0) {
            limit = SIZE_MAX_BYTES;
        } else if (kind % 20 == 0) {
            limit = 20000;
        }
        plan.sizes[i] = (size_t)((kind >> 16) % limit);
    }
    return plan;
}

/* A pause that does not sleep, so that messages fall into every point of the other side's arm protocol. */
static void spin(unsigned count)
{
    for (volatile unsigned i = 0; i < count; i++) {
    }
}

static void sleeper_wait(struct sleeper *sleeper, ucs_status_ptr_t request, const char *what, long round)
{
    struct pollfd item = {.fd = sleeper->efd, .events = POLLIN};
    struct epoll_event event;

    if (UCS_PTR_IS_ERR(request)) {
        fail_msg("Round %ld: %s: %s", round, what, ucs_status_string(UCS_PTR_STATUS(request)));
    }
    while (request != NULL) {
        while (ucp_worker_progress(sleeper->side.worker) != 0) {
        }
        if (ucp_request_is_completed(request)) {
            break;
        }
        if (ucp_worker_arm(sleeper->side.worker) != UCS_OK) {
            continue;
        }
        sleeper->sleeps++;
        if ((is_edge ? epoll_wait(sleeper->efd, &event, 1, CW_WAIT_S * 1000) : poll(&item, 1, CW_WAIT_S * 1000)) == 0) {
            while (ucp_worker_progress(sleeper->side.worker) != 0) {
            }
            fail_msg("Round %ld: %s slept for %d s; progress %s", round, what, CW_WAIT_S,
                     ucp_request_is_completed(request) ? "alone completes it: the wake-up was lost" : "does not help");
        }
    }
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void rounds_run(struct sleeper *sleeper, long count, bool first)
{
    ucp_request_param_t param = cw_param_none();
    uint64_t random = SEED;

    for (long round = 0; round < count; round++) {
        struct round_plan plan = plan_next(&random);
        ucs_status_ptr_t requests[BURST_MAX];

        for (int turn = 0; turn < 2; turn++) {
            bool sending = first == (turn == 0);

            for (int i = 0; i < plan.burst && sending; i++) {
                spin(plan.pause[turn]);
                memset(sleeper->out, (int)round, plan.sizes[i] < 64 ? plan.sizes[i] : 64);
                requests[i] = ucp_tag_send_nbx(sleeper->side.ep, sleeper->out, plan.sizes[i], (ucp_tag_t)round, &param);
            }
            for (int i = 0; i < plan.burst && sending; i++) {
                sleeper_wait(sleeper, requests[i], "send", round);
            }
            for (int i = 0; i < plan.burst && !sending; i++) {
                sleeper_wait(sleeper, ucp_tag_recv_nbx(sleeper->side.worker, sleeper->in, SIZE_MAX_BYTES,
                                                       (ucp_tag_t)round, CW_TAG_ALL, &param), "receive", round);
                if (plan.sizes[i] > 0 && sleeper->in[0] != (char)round) {
                    fail_msg("Round %ld: wrong data", round);
                }
            }
        }
    }
}

static void sleeper_open(struct sleeper *sleeper, int fd)
{
    is_edge = getenv("CW_TEST_EDGE") != NULL;
    if (is_edge) {
        sleeper->efd = epoll_create1(EPOLL_CLOEXEC);
        cw_side_open_on_epoll(&sleeper->side, sleeper->efd, sleeper, UCP_WAKEUP_TX | UCP_WAKEUP_RX | UCP_WAKEUP_EDGE);
    } else {
        cw_side_open(&sleeper->side, &config);
        assert_int_equal(ucp_worker_get_efd(sleeper->side.worker, &sleeper->efd), UCS_OK);
    }
    sleeper->side.ep = cw_fd_connect(fd, &sleeper->side, NULL);
    sleeper->out = calloc(1, SIZE_MAX_BYTES);
    sleeper->in = calloc(1, SIZE_MAX_BYTES);
    sleeper->sleeps = 0;
    assert_true(sleeper->out != NULL && sleeper->in != NULL);
}

static void sleeper_close(struct sleeper *sleeper)
{
    ucp_request_param_t param = cw_param_none();

    cw_worker_wait_request(sleeper->side.worker, ucp_ep_close_nbx(sleeper->side.ep, &param), "close");
    cw_side_destroy(&sleeper->side);
    if (is_edge) {
        close(sleeper->efd);
    }
    free(sleeper->out);
    free(sleeper->in);
}

static int role_second(int fd, const char *argument)
{
    struct sleeper sleeper;

    alarm(0);
    sleeper_open(&sleeper, fd);
    rounds_run(&sleeper, strtol(argument, NULL, 10), false);
    cw_fd_barrier(fd, sleeper.side.worker);
    sleeper_close(&sleeper);
    return 0;
}

API_TEST(test_wak5_two_processes_that_only_sleep)
{
    struct cw_remote remote;
    struct sleeper sleeper;
    char text[24];
    double start;

    cw_test_need_two_processes();
    alarm(0); /* every sleep has its own limit, and by hand the whole takes long */
    snprintf(text, sizeof(text), "%ld", rounds);
    cw_remote_start(&remote, "second", text);
    sleeper_open(&sleeper, remote.fd);
    start = cw_time_now_s();
    rounds_run(&sleeper, rounds, true);
    print_message("%ld rounds in %.1f s: %.0f per second, %ld sleeps\n", rounds, cw_time_now_s() - start,
                  (double)rounds / (cw_time_now_s() - start), sleeper.sleeps);
    cw_fd_barrier(remote.fd, sleeper.side.worker);
    sleeper_close(&sleeper);
    cw_remote_join(&remote);
}

int main(int argc, char **argv)
{
    const struct cw_role roles[] = {{"second", role_second}};
    int code;

    if (cw_test_role(argc, argv, roles, 1, &code)) {
        return code;
    }
    if (argc > 1) {
        rounds = strtol(argv[1], NULL, 10);
    }
    return cw_tests_run(NULL, NULL);
}
