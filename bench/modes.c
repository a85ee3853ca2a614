/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_modes: what a thread mode costs a thread that has its worker to itself, and whether threads with workers of
 * their own get into each other's way. Each thread has two workers of one context and sends from one to the other by
 * itself, so no line has to cross between processors and what is left is what the library does.
 *
 * Usage: bench_modes [-n messages]
 * Prints "key value" lines, the medians of rounds in which all are measured in turn:
 *   idle_MODE_ns      a call of progress that finds nothing; MODE: single, multi
 *   am_MODE_ns        an active message of 8 bytes, with the progress that finds it
 *   tag_MODE_ns       the same of a tagged message, with its receive
 *   idle_ratio, am_ratio, tag_ratio    multi against single in the same round
 *   MODE_two_ratio    active messages a second of two threads on two processors, each with workers of its own, against
 *                     one thread; 2 when nothing is shared
 * A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { ROUNDS = 9, SECONDS = 60, AM_ID = 3, TAG = 5, MOST_THREADS = 2, WARM_UP = 5000 };

enum what { IDLE, AM, TAGGED, NUM_WHATS };
enum mode { SINGLE, MULTI, NUM_MODES };

static const char *const what_names[] = {"idle", "am", "tag"};
static const char *const mode_names[] = {"single", "multi"};

/* Of one thread; apart from those of others. */
struct talk {
    _Alignas(128) struct cw_side near;
    struct cw_side far;
    ucp_ep_h ep;
    uint64_t arrived;
    uint64_t messages;
    uint64_t took;              /* ticks */
    int cpu;
};

static unsigned num_ready, num_awaited; /* threads that begin at the same time */

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    struct talk *talk = arg;

    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    talk->arrived++;
    return UCS_OK;
}

static void on_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct talk *talk = user_data;

    (void)info;
    cw_side_check("ucp_tag_recv_nbx", status);
    talk->arrived++;
    ucp_request_free(request);
}

static void sent(struct talk *talk, ucs_status_ptr_t request)
{
    cw_side_check("a send", cw_side_await(request, talk->near.worker, talk->far.worker));
}

static void step(struct talk *talk, enum what what)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    const ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                         .cb.recv = on_tag,
                                         .user_data = talk};
    const uint64_t before = talk->arrived;
    uint64_t word = 7, got;

    if (what == IDLE) {
        ucp_worker_progress(talk->far.worker);
        return;
    }
    if (what == AM) {
        sent(talk, ucp_am_send_nbx(talk->ep, AM_ID, NULL, 0, &word, sizeof(word), &none));
    } else {
        ucs_status_ptr_t request = ucp_tag_recv_nbx(talk->far.worker, &got, sizeof(got), TAG, UINT64_MAX, &receive);

        if (!UCS_PTR_IS_PTR(request)) {
            cw_side_check("ucp_tag_recv_nbx", UCS_PTR_STATUS(request));
        }
        sent(talk, ucp_tag_send_nbx(talk->ep, &word, sizeof(word), TAG, &none));
    }
    while (talk->arrived == before) {
        ucp_worker_progress(talk->far.worker);
    }
}

static double measure(struct talk *talk, enum what what)
{
    uint64_t started;

    for (unsigned i = 0; i < WARM_UP; i++) {
        step(talk, what);
    }
    __atomic_add_fetch(&num_ready, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&num_ready, __ATOMIC_ACQUIRE) < num_awaited) {
    }
    started = cw_ticks_now();
    for (uint64_t i = 0; i < talk->messages; i++) {
        step(talk, what);
    }
    talk->took = cw_ticks_now() - started;
    return (double)talk->took * cw_ticks_ns() / (double)talk->messages;
}

static void *measure_am(void *arg)
{
    struct talk *talk = arg;

    cw_side_bind(talk->cpu);
    (void)measure(talk, AM);
    return NULL;
}

static void open_talk(struct talk *talk, ucp_context_h context, ucs_thread_mode_t mode)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = AM_ID,
                                      .cb = on_message,
                                      .arg = talk};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};

    talk->near = talk->far = (struct cw_side){.context = context, .mode = mode};
    cw_side_open_worker(&talk->near);
    cw_side_open_worker(&talk->far);
    cw_side_check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(talk->far.worker, &handler));
    cw_side_check("ucp_worker_query", ucp_worker_query(talk->far.worker, &attr));
    params.address = attr.address;
    cw_side_check("ucp_ep_create", ucp_ep_create(talk->near.worker, &params, &talk->ep));
    ucp_worker_release_address(talk->far.worker, attr.address);
    step(talk, AM);
}

static void close_talk(struct talk *talk)
{
    ucp_worker_destroy(talk->near.worker);
    ucp_worker_destroy(talk->far.worker);
}

/* Messages a second, of all threads together. */
static double rate(struct talk *talks, unsigned threads)
{
    pthread_t ids[MOST_THREADS];
    uint64_t longest = 0;

    num_ready = 0;
    num_awaited = threads;
    for (unsigned i = 0; i < threads; i++) {
        talks[i].cpu = (int)i;
        if (pthread_create(&ids[i], NULL, measure_am, &talks[i]) != 0) {
            cw_say_error("cannot start a thread");
            exit(1);
        }
    }
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        longest = (talks[i].took > longest) ? talks[i].took : longest;
    }
    return (double)(talks[0].messages * threads) / (double)longest;
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static void print(const char *prefix, const char *suffix, double *values)
{
    qsort(values, ROUNDS, sizeof(*values), compare);
    printf("%s%s %.3f\n", prefix, suffix, values[ROUNDS / 2]);
}

static void run(struct talk talks[NUM_MODES][MOST_THREADS])
{
    static double ns[NUM_WHATS][NUM_MODES][ROUNDS], ratios[NUM_WHATS][ROUNDS], two[NUM_MODES][ROUNDS];
    char suffix[32];
    int what, mode, round;

    for (round = 0; round < ROUNDS; round++) {
        for (what = 0; what < NUM_WHATS; what++) {
            for (mode = 0; mode < NUM_MODES; mode++) {
                num_ready = num_awaited = 0;
                ns[what][mode][round] = measure(talks[mode], (enum what)what);
            }
            ratios[what][round] = ns[what][MULTI][round] / ns[what][SINGLE][round];
        }
        cw_watchdog_beat();
    }
    for (round = 0; round < ROUNDS; round++) { /* afterwards: these workers belong to other threads then */
        for (mode = 0; mode < NUM_MODES; mode++) {
            const double one = rate(talks[mode], 1);

            two[mode][round] = rate(talks[mode], 2) / one;
        }
        cw_watchdog_beat();
    }
    for (what = 0; what < NUM_WHATS; what++) {
        for (mode = 0; mode < NUM_MODES; mode++) {
            snprintf(suffix, sizeof(suffix), "_%s_ns", mode_names[mode]);
            print(what_names[what], suffix, ns[what][mode]);
        }
        print(what_names[what], "_ratio", ratios[what]);
    }
    for (mode = 0; mode < NUM_MODES; mode++) {
        print(mode_names[mode], "_two_ratio", two[mode]);
    }
}

int main(int argc, char **argv)
{
    static const ucs_thread_mode_t modes[] = {UCS_THREAD_MODE_SINGLE, UCS_THREAD_MODE_MULTI};
    static struct talk talks[NUM_MODES][MOST_THREADS];
    uint64_t messages = 200000;
    struct cw_side side = {.mode = UCS_THREAD_MODE_MULTI};
    int mode, i, option;

    cw_say_setup("bench_modes", false);
    while ((option = getopt(argc, argv, "n:")) != -1) {
        messages = (option == 'n') ? strtoull(optarg, NULL, 10) : 0;
        if (messages == 0) {
            fprintf(stderr, "Usage: bench_modes [-n messages]\n");
            return 2;
        }
    }
    cw_watchdog_start(SECONDS, 1);
    cw_ticks_start();
    cw_side_bind(0);
    cw_side_open(&side, UCP_FEATURE_TAG | UCP_FEATURE_AM);
    for (mode = 0; mode < NUM_MODES; mode++) {
        for (i = 0; i < MOST_THREADS; i++) {
            talks[mode][i].messages = messages;
            open_talk(&talks[mode][i], side.context, modes[mode]);
        }
    }
    run(talks);
    for (mode = 0; mode < NUM_MODES; mode++) {
        for (i = 0; i < MOST_THREADS; i++) {
            close_talk(&talks[mode][i]);
        }
    }
    ucp_worker_destroy(side.worker);
    ucp_cleanup(side.context);
    return 0;
}
