/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_threads: how several threads share one worker of thread mode MULTI. Active messages of 8 bytes go to another
 * process, which counts them; each sending thread has an endpoint of its own.
 *
 * Usage: bench_threads [-n messages] [-p places]
 * Prints "key value" lines. Rates are messages per second from the common start to the last one's arrival:
 *   single_rate   SINGLE worker: its thread sends and progresses
 *   alone_rate    MULTI worker: one thread sends and progresses
 *   one_rate      MULTI worker: one thread sends, one progresses without pause
 *   two_rate      MULTI worker: two threads send, one progresses without pause
 *   longest_us    of all sends of the last two, the longest call in microseconds
 *   longest_kept_us  likewise of those in which nobody took the processor from the thread: what the lock alone takes
 * Nothing is bound, as in a program that leaves it to the system: then three or four threads that never rest share the
 * processors, and rates depend most on whom the receiver shares its own with. With -p, digits bind receiver, first
 * sender, second sender and the thread in progress: by 0101 the receiver shares processor 0 with the second sender.
 * A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { MAX_SENDERS = 2, SECONDS = 60, AM_ID = 3, ADDRESS_MAX = 4096, UNTIMED = 64 };

/* Between the two processes. */
struct board {
    uint64_t address_length;        /* 0: not there yet */
    uint64_t arrived;
    uint64_t over;
    char address[ADDRESS_MAX];
};

static struct board *board;

/* Processors: who shares which one is most of what is measured. -1: wherever the system likes. */
enum who { RECEIVER, SENDER, SECOND_SENDER, PROGRESS, NUM_PLACES };

static int places[NUM_PLACES] = {-1, -1, -1, -1};

struct run {
    struct cw_side side;
    ucp_ep_h eps[MAX_SENDERS];
    uint64_t messages;              /* of each sender */
    bool progresses_itself;
    bool go;
    bool over;
};

struct sender {
    struct run *run;
    unsigned index;
    uint64_t longest;               /* ticks of a call */
    uint64_t longest_kept;
};

static uint64_t read_word(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static bool is_set(const bool *flag)
{
    return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    __atomic_store_n(&board->arrived, board->arrived + 1, __ATOMIC_RELEASE);
    return UCS_OK;
}

static void receive_all(void)
{
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .id = AM_ID,
                                      .cb = on_message};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    struct cw_side side = {.mode = UCS_THREAD_MODE_SINGLE};

    cw_side_open(&side, UCP_FEATURE_AM);
    cw_side_check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(side.worker, &handler));
    cw_side_check("ucp_worker_query", ucp_worker_query(side.worker, &attr));
    if (attr.address_length > ADDRESS_MAX) {
        cw_say_error("an address of %zu bytes is too long for this program", attr.address_length);
        exit(1);
    }
    memcpy(board->address, attr.address, attr.address_length);
    __atomic_store_n(&board->address_length, attr.address_length, __ATOMIC_RELEASE);
    while (!read_word(&board->over)) {
        ucp_worker_progress(side.worker);
    }
}

static void finish(struct run *run, ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
            if (run->progresses_itself) {
                ucp_worker_progress(run->side.worker);
            } else {
                sched_yield();
            }
        }
        ucp_request_free(request);
    }
    cw_side_check("ucp_am_send_nbx", status);
}

/* How often this thread lost its processor to another one. */
static long times_lost(void)
{
    struct rusage usage;

    return (getrusage(RUSAGE_THREAD, &usage) == 0) ? usage.ru_nivcsw : 0;
}

static uint64_t longer(uint64_t one, uint64_t other)
{
    return (one > other) ? one : other;
}

static void *send_all(void *arg)
{
    static const ucp_request_param_t none;
    struct sender *sender = arg;
    struct run *run = sender->run;
    uint64_t i, word = 1, before = 0, took;
    long lost = 0;
    bool timed;

    cw_side_bind(places[SENDER + sender->index]);
    while (!is_set(&run->go)) {
        sched_yield();
    }
    for (i = 0; i < run->messages; i++) {
        timed = i % UNTIMED == 0;
        lost = timed ? times_lost() : 0;
        before = timed ? cw_ticks_now() : 0;
        ucs_status_ptr_t request = ucp_am_send_nbx(run->eps[sender->index], AM_ID, NULL, 0, &word, sizeof(word), &none);
        took = timed ? cw_ticks_now() - before : 0;
        sender->longest = longer(took, sender->longest);
        if (timed && times_lost() == lost) {
            sender->longest_kept = longer(took, sender->longest_kept);
        }
        finish(run, request);
        if (run->progresses_itself && timed) {
            ucp_worker_progress(run->side.worker);
        }
    }
    return NULL;
}

static void *progress_always(void *arg)
{
    struct run *run = arg;

    cw_side_bind(places[PROGRESS]);
    while (!is_set(&run->over)) {
        ucp_worker_progress(run->side.worker);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    if (pthread_create(thread, NULL, body, arg) != 0) {
        cw_say_error("cannot start a thread");
        exit(1);
    }
}

/* Every endpoint has sent a message that arrived. */
static void connect_all(struct run *run, unsigned senders, ucs_thread_mode_t mode)
{
    static const ucp_request_param_t none;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = (const ucp_address_t *)(const void *)board->address};
    uint64_t word = 1, before;

    run->side.mode = mode;
    cw_side_open(&run->side, UCP_FEATURE_AM);
    for (unsigned i = 0; i < senders; i++) {
        before = read_word(&board->arrived);
        cw_side_check("ucp_ep_create", ucp_ep_create(run->side.worker, &params, &run->eps[i]));
        cw_side_check("ucp_am_send_nbx",
                      cw_side_await(ucp_am_send_nbx(run->eps[i], AM_ID, NULL, 0, &word, sizeof(word), &none),
                                    run->side.worker, NULL));
        while (read_word(&board->arrived) == before) {
            ucp_worker_progress(run->side.worker);
        }
    }
}

/* Messages per second. */
static double rate(unsigned senders, bool helped, ucs_thread_mode_t mode, uint64_t messages, struct sender *longest)
{
    struct run run = {.messages = messages / senders, .progresses_itself = !helped};
    struct sender bodies[MAX_SENDERS];
    pthread_t threads[MAX_SENDERS], progress;
    uint64_t started, wanted;

    connect_all(&run, senders, mode);
    wanted = read_word(&board->arrived) + run.messages * senders;
    if (helped) {
        start(&progress, progress_always, &run);
    }
    for (unsigned i = 0; i < senders; i++) {
        bodies[i] = (struct sender){.run = &run, .index = i};
        start(&threads[i], send_all, &bodies[i]);
    }
    started = cw_ticks_now();
    __atomic_store_n(&run.go, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < senders; i++) {
        pthread_join(threads[i], NULL);
        longest->longest = longer(bodies[i].longest, longest->longest);
        longest->longest_kept = longer(bodies[i].longest_kept, longest->longest_kept);
    }
    while (read_word(&board->arrived) < wanted) {
        if (!helped) {
            ucp_worker_progress(run.side.worker);
        }
        sched_yield();
    }
    started = cw_ticks_now() - started;
    __atomic_store_n(&run.over, true, __ATOMIC_RELEASE);
    if (helped) {
        pthread_join(progress, NULL);
    }
    ucp_worker_destroy(run.side.worker);
    ucp_cleanup(run.side.context);
    cw_watchdog_beat();
    return (double)(run.messages * senders) / ((double)started * cw_ticks_ns() / 1e9);
}

static bool place(const char *digits)
{
    for (int i = 0; i < NUM_PLACES; i++) {
        if (digits[i] < '0' || digits[i] > '9') {
            return false;
        }
        places[i] = digits[i] - '0';
    }
    return digits[NUM_PLACES] == '\0';
}

static bool read_options(int argc, char **argv, uint64_t *messages)
{
    int option;

    while ((option = getopt(argc, argv, "n:p:")) != -1) {
        if (option == 'n') {
            *messages = strtoull(optarg, NULL, 10);
        } else if (option != 'p' || !place(optarg)) {
            return false;
        }
    }
    return optind == argc && *messages >= 2;
}

int main(int argc, char **argv)
{
    uint64_t messages = 1000000;
    struct sender longest = {.longest = 0}, ignored = longest;
    pid_t child;

    cw_say_setup("bench_threads", false);
    if (!read_options(argc, argv, &messages)) {
        fprintf(stderr, "Usage: bench_threads [-n messages] [-p places]\n");
        return 2;
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    child = (board == MAP_FAILED) ? -1 : fork();
    if (child < 0) {
        cw_say_error("no second process");
        return 1;
    }
    cw_watchdog_start(SECONDS, 1);
    cw_ticks_start();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cw_side_bind(places[RECEIVER]);
        receive_all();
        _exit(0);
    }
    while (read_word(&board->address_length) == 0) {
        sched_yield();
    }
    printf("single_rate %.0f\n", rate(1, false, UCS_THREAD_MODE_SINGLE, messages, &ignored));
    printf("alone_rate %.0f\n", rate(1, false, UCS_THREAD_MODE_MULTI, messages, &ignored));
    printf("one_rate %.0f\n", rate(1, true, UCS_THREAD_MODE_MULTI, messages, &longest));
    printf("two_rate %.0f\n", rate(2, true, UCS_THREAD_MODE_MULTI, messages, &longest));
    printf("longest_us %.1f\n", (double)longest.longest * cw_ticks_ns() / 1e3);
    printf("longest_kept_us %.1f\n", (double)longest.longest_kept * cw_ticks_ns() / 1e3);
    __atomic_store_n(&board->over, 1, __ATOMIC_RELEASE);
    return (waitpid(child, NULL, 0) == child) ? 0 : 1;
}
