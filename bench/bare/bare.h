/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bare limits: what this machine needs for one message when nothing lies between program and hardware or system
 * call. Each program is two bound processes that play ping-pong, or of which one acts on the other's memory; this is
 * the common frame: options, start, timing of every trip with the same clock and histogram as the performance tool.
 *
 * Callers: bare_*.c. The functions of struct cw_bare never return on an error: they call cw_bare_die().
 */
#ifndef CW_BENCH_BARE_H
#define CW_BENCH_BARE_H

#include <stdbool.h>
#include <stdint.h>

struct cw_bare {
    const char *name;
    bool can_sleep; /* -S is understood */
    /* Before the processes part; `sleeps` as given by -S. */
    void (*open)(bool sleeps);
    /* In each process after the parting. */
    void (*start)(bool is_ping);
    /* One round trip, `trip` counts from 1: sends and awaits the answer. */
    void (*ping)(uint64_t trip);
    /* The other side: awaits a message and answers. NULL: it only holds its memory. */
    void (*pong)(uint64_t trip);
    /* Called with the value of -s, before open(); NULL: -s is not understood. */
    void (*set_size)(uint64_t size);
    /* Called with the value of -k, before open(); false: it is not a kind. NULL: -k is not understood. */
    bool (*set_kind)(const char *kind);
    /* Called with the two numbers of -i, before open(): so many instructions for each message at who sends, and at who
     * receives. NULL: -i is not understood. */
    void (*set_work)(unsigned sender, unsigned receiver);
    /* Called with the two names of -d, before open(): the answering side's device, and the measuring side's. NULL: -d
     * is not understood. */
    void (*set_devices)(const char *first, const char *second);
    /* Prints further lines of the result, or NULL. */
    void (*show)(void);
};

/* Runs the program: prints "key value" lines and returns its exit status. */
int cw_bare_main(const struct cw_bare *bare, int argc, char **argv);

/* Prints a sentence with errno's meaning and exits with status 1. */
void cw_bare_die(const char *what) __attribute__((noreturn));

#endif
