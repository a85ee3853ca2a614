/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Helpers of the chaos tests: checks that end the process, children that may crash or hang, processes that run a role
 * of the same program, seeded random numbers, what a process holds, log lines, and workers that have to be served
 * throughout. Everything may be used in children and outside.
 */
#ifndef CW_CHAOS_H
#define CW_CHAOS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum {
    CW_CHILD_S = 240,
    CW_CHILD_WRONG = 99,
    CW_CHILD_SKIP = 77,
    CW_BOUND_S = 20 /* nothing may take longer; a machine may be busy */
};

/* Named by failures, where a program sets it. */
extern struct cw_run {
    const char *name;
    uint64_t seed;
    long round;
} cw_run;

/* Says what is wrong and ends the process with CW_CHILD_WRONG. */
void cw_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
#define cw_check(condition) \
    ((condition) ? (void)0 : cw_fail("%s:%d: not so: %s", __FILE__, __LINE__, #condition))

/* Runs the body in a child, which is ended after CW_CHILD_S. Returns its exit code, or 128 + the signal's number. */
int cw_child_run(void (*body)(void *), void *argument);
/* Fails the running cmocka test unless the body returned; skips it if the body ended with CW_CHILD_SKIP. */
void cw_child_must_pass(void (*body)(void *), void *argument, const char *what);
/* A test whose body runs in a child. */
#define CHILD_TEST(name)                                    \
    static void name##_body(void *argument);                \
    TEST(name)                                              \
    {                                                       \
        cw_child_must_pass(name##_body, NULL, #name);       \
    }                                                       \
    static void name##_body(void *argument __attribute__((unused)))

/* A process that runs this program again with "--role <role> <fd> <argument>"; fd is its end of a stream socket. It
 * dies with its parent. */
struct cw_process {
    pid_t pid;
    int fd;
};

void cw_process_start(struct cw_process *process, const char *role, const char *argument);
/* Waits for its end and closes fd: its exit code, or 128 + the number of the signal. Kills it after the bound. */
int cw_process_join(struct cw_process *process);

struct cw_role {
    const char *name;
    int (*run)(int fd, const char *argument);
};
/* Runs the role if one was asked for; *code is then the program's exit code. */
bool cw_process_role(int argc, char **argv, const struct cw_role *roles, size_t count, int *code);

/* All of it, with progress of the worker (may be NULL) meanwhile. read: false when the other side is gone. */
bool cw_fd_write(int fd, const void *data, size_t length);
bool cw_fd_read(int fd, void *data, size_t length, ucp_worker_h worker);

/* Options of the programs that run by seed: -s seed, -n rounds, -w rounds of a worker, -t seconds, -v; what is not
 * given is left alone. Sets cw_run.seed. */
struct cw_options {
    uint64_t seed;
    long rounds;
    long rounds_per_worker;
    double seconds;
    bool verbose;
};
void cw_options(int argc, char **argv, struct cw_options *options);

uint64_t cw_random(uint64_t *state);
/* At least 0, less than limit. */
size_t cw_random_below(uint64_t *state, size_t limit);
/* true in one of n cases. */
bool cw_one_in(uint64_t *state, unsigned n);

uint64_t cw_now_ns(void);
/* The time that this process saw: while somebody stopped it, 5 s passed at most. Of one thread. */
double cw_now_s(void);
/* Processor time of this thread. */
uint64_t cw_cpu_ns(void);
void cw_sleep_ms(unsigned ms);

int cw_open_fds(void);
long cw_resident_kb(void);
/* What a process holds. */
struct cw_holds {
    int fds;
    int maps;           /* lines of /proc/self/maps without stack and heap */
    size_t allocated;   /* bytes that malloc gave out */
};
struct cw_holds cw_holds(void);
/* Fails when there is more now than at first, but for so many mappings and bytes; sanitizers keep what was freed. */
void cw_check_holds(const struct cw_holds *first, const struct cw_holds *now, int maps, size_t bytes);
/* Starts the program again with an allocator that keeps nothing back, so that `allocated` is exact. First in main. */
void cw_exact_memory(char **argv);

/* UCX_TLS of the running test contains this text. */
int cw_tls_has(const char *text);

/* Records of level WARN and above are counted and kept from being printed, unless CHAOS_SHOW_LOG is set. For programs
 * that are linked with the library's insides. */
void cw_log_watch(void);
unsigned cw_log_lines(void);
/* The last of them. */
const char *cw_log_last(void);

/* A context with one worker and an endpoint to a peer. */
struct cw_party {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int failures; /* calls of the endpoint's error handler */
};

/* The functions below end the program by cw_check when anything but success comes back. */
void cw_party_open(struct cw_party *party, uint64_t features);
/* As it is, with what failed left NULL. */
ucs_status_t cw_party_try(struct cw_party *party, uint64_t features);
void cw_party_connect(struct cw_party *from, struct cw_party *to);
void cw_party_close(struct cw_party *party);
/* One message of `length` bytes, posted, received and compared. */
void cw_party_talk(struct cw_party *from, struct cw_party *to, size_t length);
/* Waits for the request to end, progressing both (the second may be NULL); frees it. */
ucs_status_t cw_party_wait(struct cw_party *one, struct cw_party *other, ucs_status_ptr_t result);
/* A copy of the worker's address in `bytes` of at least 1024; returns its length. */
size_t cw_party_address(const struct cw_party *party, void *bytes);

#endif
