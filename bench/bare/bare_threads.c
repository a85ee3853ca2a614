/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limit of threads that send side by side: what bench_threads measures, without a library. Messages of 8 bytes go
 * to another process through rings of shared memory, each sender has one of its own, and one more thread of the sending
 * process polls without pause, which never does. Who finds nothing to do 64 times in a row gives
 * its processor away.
 *
 * Usage: bare_threads [-n messages] [-w nanoseconds]
 *   -w   the receiver works so long on each message (0), as one of a library does
 * Prints "key value" lines, messages a second from the common start to the last one's arrival, nothing bound:
 *   one_rate   one sender beside the thread that polls; nobody takes a lock
 *   two_rate   two senders beside it
 *   one_locked_rate, two_locked_rate   the same when each sender takes a lock of its ring for each message, and who
 *              polls one of its own, which nobody else wants
 */
#define _GNU_SOURCE
#include "bare.h"

#include "say.h"
#include "ticks.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SENDERS = 2, CELLS = 256, LINE = 64, PATIENCE = 64, LONGEST_SECONDS = 60, MOST_WORK_NS = 10000 };

struct cell {
    _Alignas(LINE) _Atomic uint64_t number; /* of the message that lies in it, from 1 */
    uint64_t word;
};

struct ring {
    struct cell cells[CELLS];
    _Alignas(LINE) _Atomic uint64_t done;   /* messages that the receiver has taken */
};

struct board {
    struct ring rings[SENDERS];
    struct cell never;                      /* what the polling thread reads */
};

struct lock {
    _Alignas(LINE) _Atomic unsigned taken;
};

struct sender {
    struct lock lock;                       /* of the ring */
    struct ring *ring;
    uint64_t first, last;                   /* numbers of its messages */
};

static struct board *board;
static _Atomic bool go, over;
static bool locked;                         /* they take locks */
static uint64_t work;                       /* ticks of the receiver for each message */

static void enter(struct lock *lock)
{
    unsigned expected = 0;

    while (locked && !atomic_compare_exchange_strong_explicit(&lock->taken, &expected, 1, memory_order_acquire,
                                                              memory_order_relaxed)) {
        expected = 0; /* never: each of them has one user */
    }
}

static void leave(struct lock *lock)
{
    if (locked) {
        atomic_store_explicit(&lock->taken, 0, memory_order_release);
    }
}

static void pause_after(unsigned *idle)
{
    if (++*idle % PATIENCE == 0) {
        sched_yield();
    }
}

static void work_on_message(void)
{
    const uint64_t started = cw_ticks_now();

    while (work > 0 && cw_ticks_now() - started < work) {
    }
}

static void receive_all(void)
{
    uint64_t taken[SENDERS] = {0}, sum = 0;
    unsigned idle = 0;

    for (;;) {
        unsigned found = 0;

        for (unsigned i = 0; i < SENDERS; i++) {
            struct ring *ring = &board->rings[i];
            struct cell *cell = &ring->cells[taken[i] % CELLS];

            if (atomic_load_explicit(&cell->number, memory_order_acquire) == taken[i] + 1) {
                sum += cell->word;
                work_on_message();
                taken[i]++;
                found++;
                atomic_store_explicit(&ring->done, taken[i], memory_order_release);
            }
        }
        if (found > 0) {
            idle = 0;
        } else {
            pause_after(&idle);
        }
        if (sum == UINT64_MAX) {
            return; /* never: so that the words are read */
        }
    }
}

static void *send_all(void *arg)
{
    struct sender *sender = arg;
    struct ring *ring = sender->ring;
    uint64_t number, done = sender->first - 1;
    unsigned idle = 0;

    while (!go) {
        sched_yield();
    }
    for (number = sender->first; number <= sender->last; number++) {
        while (number - done > CELLS) {
            done = atomic_load_explicit(&ring->done, memory_order_acquire);
            if (number - done > CELLS) {
                pause_after(&idle);
            }
        }
        enter(&sender->lock);
        ring->cells[(number - 1) % CELLS].word = 1;
        atomic_store_explicit(&ring->cells[(number - 1) % CELLS].number, number, memory_order_release);
        leave(&sender->lock);
    }
    return NULL;
}

static void *poll_always(void *arg)
{
    struct lock lock = {0};
    unsigned idle = 0;

    (void)arg;
    while (!over) {
        enter(&lock);
        if (atomic_load_explicit(&board->never.number, memory_order_acquire) == 0) {
            pause_after(&idle);
        }
        leave(&lock);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), void *arg)
{
    if (pthread_create(thread, NULL, body, arg) != 0) {
        cw_bare_die("pthread_create");
    }
}

/* Messages a second. */
static double rate(unsigned senders, uint64_t messages)
{
    const uint64_t each = messages / senders;
    struct sender bodies[SENDERS];
    pthread_t threads[SENDERS], poller;
    uint64_t started;

    go = over = false;
    start(&poller, poll_always, NULL);
    for (unsigned i = 0; i < senders; i++) {
        bodies[i].lock = (struct lock){0};
        bodies[i].ring = &board->rings[i];
        bodies[i].first = bodies[i].ring->done + 1;
        bodies[i].last = bodies[i].ring->done + each;
        start(&threads[i], send_all, &bodies[i]);
    }
    started = cw_ticks_now();
    go = true;
    for (unsigned i = 0; i < senders; i++) {
        pthread_join(threads[i], NULL);
    }
    for (unsigned i = 0; i < senders; i++) {
        while (bodies[i].ring->done < bodies[i].last) {
            sched_yield();
        }
    }
    started = cw_ticks_now() - started;
    over = true;
    pthread_join(poller, NULL);
    return (double)(each * senders) / ((double)started * cw_ticks_ns() / 1e9);
}

int main(int argc, char **argv)
{
    uint64_t messages = 1000000;
    double work_ns = 0;
    pid_t child;
    int option;

    cw_say_setup("bare_threads", false);
    while ((option = getopt(argc, argv, "n:w:")) == 'n' || option == 'w') {
        if (option == 'n') {
            messages = strtoull(optarg, NULL, 10);
        } else {
            work_ns = strtod(optarg, NULL);
        }
    }
    if (option != -1 || optind != argc || messages < SENDERS || !(work_ns >= 0 && work_ns <= MOST_WORK_NS)) {
        fprintf(stderr, "Usage: bare_threads [-n messages] [-w nanoseconds]\n");
        return 2;
    }
    cw_ticks_start();
    work = (uint64_t)(work_ns / cw_ticks_ns());
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    child = (board == MAP_FAILED) ? -1 : fork();
    if (child < 0) {
        cw_bare_die("no second process: it");
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        receive_all();
        _exit(0);
    }
    alarm(LONGEST_SECONDS); /* the other side may be gone */
    printf("one_rate %.0f\n", rate(1, messages));
    printf("two_rate %.0f\n", rate(2, messages));
    locked = true;
    printf("one_locked_rate %.0f\n", rate(1, messages));
    printf("two_locked_rate %.0f\n", rate(2, messages));
    kill(child, SIGKILL);
    return (waitpid(child, NULL, 0) == child) ? 0 : 1;
}
