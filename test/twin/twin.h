/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of another API level that drives every public function and every member of every parameter structure, and
 * prints what it sees. Compiled once against an installed reference library's headers (Debian: libucx-dev), it runs on
 * that library and on ours; twin.py compares what it printed. It prints only what a program can rely on: whether an
 * operation was over at once or later, addresses, sizes and times are left out.
 */
#ifndef CW_TWIN_H
#define CW_TWIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <ucp/api/ucp.h>

enum { TWIN_SECONDS = 5, TWIN_SCENARIO_SECONDS = 60, TWIN_FILL = 0xee };

/* Bits that no level knows. One that a later level knows is a promise of a member behind the structure of this one. */
#define TWIN_UNKNOWN (UINT64_C(0xffff) << 32)

/* One process each: what crashes or hangs costs its own lines only. */
struct twin_case {
    const char *name;
    void (*run)(void);
};

/* A part of a case that sleeps most of its time, in a process of its own. */
struct twin_scenario {
    void (*run)(const struct twin_scenario *scenario);
    const char *what;
    int moment, ending;
    char name[64]; /* what its lines begin with */
    pid_t pid;
};

/* A member of a structure, to see whether a query filled it. */
struct twin_field {
    const char *name;
    size_t offset;
    size_t size;
};
#define TWIN_FIELD(type, member)                                                                                       \
    {                                                                                                                  \
#member, offsetof(type, member), sizeof(((type *)0)->member)                                                   \
    }
#define TWIN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* One mask of a list to go through. */
struct twin_mask {
    const char *name;
    uint64_t bits;
};

extern const struct twin_case twin_config_cases[], twin_context_cases[], twin_worker_cases[], twin_ep_cases[],
    twin_listen_cases[], twin_gone_cases[], twin_gone_here_cases[], twin_memory_cases[], twin_tag_cases[],
    twin_stream_cases[], twin_am_cases[], twin_rma_cases[], twin_old_cases[];

/* A line of the report: the name of the case is put before it. */
void twin_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The name of a status without UCS_. */
const char *twin_status(ucs_status_t status);
const char *twin_pointer_status(ucs_status_ptr_t result);
/* Ends the case: without `what` nothing else can be reported. */
void twin_need(bool condition, const char *what);

/* Runs the scenarios, several at a time. */
void twin_each(struct twin_scenario *list, size_t count);

/* Prints which members are no longer full of TWIN_FILL. */
void twin_print_filled(const char *what, ucs_status_t status, const void *object, const struct twin_field *fields,
                      size_t count);
bool twin_has_word(const char *text, const char *word);

/* Two workers of one context, an endpoint each way, and memory of each. */
struct twin_pair {
    ucp_context_h context;
    ucp_worker_h worker[2];
    ucp_ep_h ep[2];
    size_t request_size;
};

enum { TWIN_ALL_FEATURES = 0x7f };

/* How long a wait lasts already. */
struct twin_waiting {
    time_t end;
    unsigned rounds;
};

/* For the old calls, whose callback is no choice. */
void twin_done(void *request, ucs_status_t status);
void twin_got(void *request, ucs_status_t status, ucp_tag_recv_info_t *info);
ucp_context_h twin_context(uint64_t features);
ucp_worker_h twin_worker(ucp_context_h context);
ucp_ep_h twin_connect(ucp_worker_h from, ucp_worker_h to, ucp_err_handling_mode_t mode);
void twin_pair_open(struct twin_pair *pair, uint64_t features, ucp_err_handling_mode_t mode);
void twin_pair_close(struct twin_pair *pair);
ucp_mem_h twin_register(struct twin_pair *pair, void *memory, size_t length);
void twin_progress(struct twin_pair *pair);
void twin_settle(struct twin_pair *pair);
/* One round of a wait that began with zeros: progress, and a short sleep when the wait has lasted a while. False when
 * TWIN_SECONDS are over. */
bool twin_round(struct twin_pair *pair, struct twin_waiting *waiting);
/* Progress until the request is over; INPROGRESS when it is not within TWIN_SECONDS. Frees it. */
ucs_status_t twin_wait(struct twin_pair *pair, ucs_status_ptr_t result);
/* As twin_wait, of what only prepares a comparison: on a busy machine it may take long, so the alarm of the case ends
 * it. */
ucs_status_t twin_prepare(struct twin_pair *pair, ucs_status_ptr_t result);
bool twin_late(const int *seen, struct twin_pair *pair);

#endif
