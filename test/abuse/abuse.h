/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ground that the tests of bad input share: children that may crash or hang without taking the test along, counters of
 * descriptors, processor time and log lines, and workers that shall keep talking whatever goes on beside them.
 * cw_check ends a child; everything here may be used inside of children and outside.
 */
#ifndef CW_ABUSE_H
#define CW_ABUSE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { CW_CHILD_S = 240, CW_CHILD_WRONG = 99, CW_CHILD_SKIP = 77 };

/* For the body of a child: tells where and ends it. */
#define cw_check(condition)                                                                 \
    do {                                                                                    \
        if (!(condition)) {                                                                 \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            _exit(CW_CHILD_WRONG);                                                          \
        }                                                                                   \
    } while (0)

/* Runs the body in a child, which is ended after CW_CHILD_S. Returns its exit code, or 128 + the signal's number. */
int cw_child_run(void (*body)(void *), void *argument);
/* Fails the running cmocka test unless the body returned; skips it if the body ended with CW_CHILD_SKIP. */
void cw_child_must_pass(void (*body)(void *), void *argument, const char *what);

int cw_open_fds(void);
uint64_t cw_now_ns(void);
/* Processor time of this thread. */
uint64_t cw_cpu_ns(void);
long cw_resident_kb(void);
uint64_t cw_random(uint64_t *state);
/* UCX_TLS of the running test contains this text. */
int cw_tls_has(const char *text);
void cw_sleep_ms(unsigned ms);

/* Records of level WARN and above are counted and kept from being printed, unless CW_ABUSE_SHOW is set. */
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
