/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ground that the storms share: seeded random numbers, time, what a process holds, children that play a role, and the
 * one way to fail: a sentence with the seed, and the end of the program. Children die with their parent.
 */
#ifndef CW_STORM_H
#define CW_STORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <ucp/api/ucp.h>

enum { STORM_BOUND_S = 20 }; /* nothing may take longer; a machine may be busy */

uint64_t storm_random(uint64_t *state);
/* At least 0, less than limit. */
size_t storm_below(uint64_t *state, size_t limit);
/* true in one of n cases. */
bool storm_one_in(uint64_t *state, unsigned n);

/* The time that this process saw: while somebody stopped it, 5 s passed at most. */
double storm_now_s(void);

/* What a process holds. */
struct storm_holds {
    int fds;
    int maps;           /* lines of /proc/self/maps without stack and heap */
    size_t allocated;   /* bytes that malloc gave out */
};

struct storm_holds storm_holds(void);
/* Starts the program again with an allocator that keeps nothing back, so that `allocated` is exact. First in main. */
void storm_exact_memory(char **argv);

/* Told by every failure. */
extern const char *storm_name;
extern uint64_t storm_seed;
extern long storm_round;

/* Says what is wrong and ends the program; the children end with it. */
void storm_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void storm_check_at(bool good, const char *what, const char *file, int line);
#define storm_check(condition) storm_check_at((condition), #condition, __FILE__, __LINE__)

/* A child that runs this program again with "--role <role> <fd> <argument>"; fd is its end of a stream socket. */
struct storm_child {
    pid_t pid;
    int fd;
};

void storm_child_start(struct storm_child *child, const char *role, const char *argument);
/* Waits for its end and closes fd: its exit code, or 128 + the number of the signal. Kills it after the bound. */
int storm_child_join(struct storm_child *child);

struct storm_role {
    const char *name;
    int (*run)(int fd, const char *argument);
};
/* Plays the role if one was asked for; *code is then the program's exit code. */
bool storm_play(int argc, char **argv, const struct storm_role *roles, size_t count, int *code);

/* All of it, with progress of the worker (may be NULL) meanwhile. read: false when the other side is gone. */
bool storm_write(int fd, const void *data, size_t length);
bool storm_read(int fd, void *data, size_t length, ucp_worker_h worker);

/* Options of all drivers: -s seed, -n rounds, -t seconds; what is not given is left alone. */
struct storm_options {
    uint64_t seed;
    long rounds;
    long rounds_per_worker;
    double seconds;
    bool verbose;
};
void storm_options(int argc, char **argv, struct storm_options *options);

/* Times in milliseconds; a table of what was measured. */
enum { STORM_TIMES = 1 << 16 };
struct storm_times {
    float *values;
    size_t count;
};
void storm_times_add(struct storm_times *times, double ms);
void storm_times_print(struct storm_times *times, const char *what);

#endif
