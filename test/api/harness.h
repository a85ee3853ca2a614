/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared ground of the API conformance programs: they see the library only through its public headers, so that the same
 * program runs against this library and against any other one with the same interface.
 *
 * UCX_TLS chooses the transport. With "self" alone both sides of a pair are one and the same worker.
 * CW_TEST_REFERENCE=1 says that the library under test is the reference of an older API level: statements in which it
 * is known to differ are then skipped, each with its reason. Nothing here waits for ever: a wait that exceeds CW_WAIT_S
 * fails the test with a sentence; a library call that does not return within CW_HANG_S ends the program. Every
 * parameter structure is filled with 0xff first (GEN-2).
 */
#ifndef CW_API_HARNESS_H
#define CW_API_HARNESS_H

#include <stdbool.h>
#include <sys/types.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum {
    CW_WAIT_S = 10,
    CW_HANG_S = 120,
    CW_GUARD_BYTES = 64,
    CW_GUARD_VALUE = 0xa5,
    CW_SETTLE_ROUNDS = 200
};

#define CW_SETTLE_S 0.005
#define CW_TAG_ALL  UINT64_MAX

/* One context with one worker and, usually, one endpoint to the other side. */
struct cw_side {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
};

/* Two sides in one process; with self there is one side and tx == rx. tx->ep leads to rx and rx->ep back. */
struct cw_pair {
    struct cw_side sides[2];
    int count;
    struct cw_side *tx;
    struct cw_side *rx;
};

/* All zero means: TAG feature, SINGLE threads, no request area, endpoints both ways, default events. */
struct cw_pair_config {
    uint64_t features;
    size_t request_size;
    ucp_request_init_callback_t request_init;
    ucp_request_cleanup_callback_t request_cleanup;
    ucs_thread_mode_t thread_mode;
    bool no_endpoints;
    bool peer_mode;
    ucp_err_handler_cb_t on_failure;
    unsigned events;
};

/* What one operation did: filled by its callback and by cw_op_started. */
struct cw_op {
    ucs_status_ptr_t result;
    int calls;
    int calls_inside;
    bool inside;
    bool free_inside;
    ucs_status_t status;
    ucs_status_t checked;
    void *request;
    ucp_tag_recv_info_t info;
};

/* A buffer with CW_GUARD_BYTES of known bytes on both sides. */
struct cw_buffer {
    char *base;
    char *data;
    size_t length;
};

/* A second process of the same program, connected by a stream socket. */
struct cw_remote {
    pid_t pid;
    int fd;
};

struct cw_role {
    const char *name;
    int (*run)(int fd, const char *argument);
};

/* Set-up and tear-down of each test: *state becomes a zeroed struct cw_pair; what the test left open is destroyed. */
int cw_test_setup(void **state);
int cw_test_teardown(void **state);
/* A test of a pair: the body has `pair`. */
#define API_TEST_WITH(name, setup, teardown)                                        \
    static void name##_of(struct cw_pair *pair);                                    \
    TEST_WITH(name, setup, teardown)                                                \
    {                                                                               \
        name##_of(*state);                                                          \
    }                                                                               \
    static void name##_of(struct cw_pair *pair __attribute__((unused)))

#define API_TEST(name) API_TEST_WITH(name, cw_test_setup, cw_test_teardown)

/* If argv asks for the role of a second process, runs it and returns true with its exit code in *code. */
bool cw_test_role(int argc, char **argv, const struct cw_role *roles, size_t count, int *code);
/* The main of a program with roles: the role that argv asks for, or cw_tests_main. */
int cw_test_main(int argc, char **argv, const struct cw_role *roles, size_t count);
/* Skips the running test when the library under test is the reference. */
void cw_test_skip_reference(const char *why);
bool cw_test_reference(void);
/* Whether UCX_TLS contains this text. */
bool cw_test_tls_has(const char *text);
/* Leaves the test if UCX_TLS has that. */
void cw_test_skip_over(const char *text, const char *why);
/* Leaves the test over one of these providers of libfabric, named as their devices begin ("shm:,udp:"). */
void cw_test_skip_over_providers(const char *providers, const char *why);
/* Whether what is more than a packet moves only while both ends call progress, and packets may still be under way when
 * a worker ends. */
bool cw_test_over_network(void);
/* UCX_TLS names nothing but self. */
bool cw_test_self_only(void);
/* Skips the running test unless two workers (two processes) can reach each other with this UCX_TLS. */
void cw_test_need_two_workers(void);
void cw_test_need_two_processes(void);
/* A slower machine or a sanitizer may lower counts: CW_TEST_SCALE=n divides by n. At least 1. */
long cw_test_scaled(long count);

double cw_time_now_s(void);

/* Rounds of progress until what is under way has come: so many, and so long, since a worker does not poll its
 * descriptors in each round. for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) { progress } */
struct cw_settling {
    int rounds;
    double end_s;
};

static inline struct cw_settling cw_settling(void)
{
    return (struct cw_settling){.rounds = CW_SETTLE_ROUNDS, .end_s = cw_time_now_s() + CW_SETTLE_S};
}

static inline bool cw_settles(struct cw_settling *settling)
{
    return settling->rounds-- > 0 || cw_time_now_s() < settling->end_s;
}
uint64_t cw_random_next(uint64_t *state);
/* Open descriptors of the process; resident memory in kilobytes. */
int cw_process_fds(void);
long cw_process_rss_kb(void);

/* Each returns after success and otherwise fails the test. config NULL means all zero. */
void cw_side_open(struct cw_side *side, const struct cw_pair_config *config);
/* Destroys worker and context, whatever state they are in. */
void cw_side_destroy(struct cw_side *side);
ucp_ep_h cw_side_connect(struct cw_side *side, ucp_worker_h target, const struct cw_pair_config *config);
/* Returns a malloc'ed copy of the worker's address at its length. */
void *cw_test_worker_address(ucp_worker_h worker, size_t *length);
void cw_pair_open(struct cw_pair *pair, const struct cw_pair_config *config);
/* Closes the endpoints in flush mode, both at once, then destroys everything. Workers of mode MULTI let others in. */
void cw_pair_close(struct cw_pair *pair);
unsigned cw_pair_progress(struct cw_pair *pair);
/* Progresses until the condition holds, at most CW_WAIT_S whatever progress does; what: as above. */
#define cw_pair_until(pair, condition, what)                                \
    do {                                                                    \
        const double until_s = cw_time_now_s() + CW_WAIT_S;                 \
        while (!(condition)) {                                              \
            (void)cw_pair_progress(pair);                                   \
            if (cw_time_now_s() > until_s) {                                \
                fail_msg("%s did not come within %d s", what, CW_WAIT_S);   \
            }                                                               \
        }                                                                   \
    } while (0)
/* Progresses a fixed number of rounds, for "and nothing more happens". */
void cw_pair_settle(struct cw_pair *pair);
/* Progresses until *counter >= target. what: the sentence's subject if it does not come. */
void cw_pair_wait_count(struct cw_pair *pair, const volatile int *counter, int target, const char *what);
/* Waits for a result of any op and frees its request; returns the final status (also of NULL and error pointers). */
ucs_status_t cw_pair_wait(struct cw_pair *pair, ucs_status_ptr_t result, const char *what);
/* As cw_pair_wait, of one worker alone. */
ucs_status_t cw_worker_wait_request(ucp_worker_h worker, ucs_status_ptr_t result, const char *what);
/* As cw_pair_open, with wake-up; skips where the reference has none. */
void cw_pair_open_wakeup(struct cw_pair *pair);
int cw_worker_efd(ucp_worker_h worker);
/* Opens a side with wake-up whose worker reports to the program's own epoll descriptor; events 0: not given. */
void cw_side_open_on_epoll(struct cw_side *side, int epoll_fd, void *user_data, unsigned events);
/* poll of one descriptor for reading: 1 or 0. */
int cw_fd_poll(int fd, int timeout_ms);
/* WAK-4: to the point where sleeping is allowed. */
void cw_worker_drain_and_arm(ucp_worker_h worker);
/* Waits until a message that matches lies unexpected at rx, without removing it. */
void cw_pair_wait_probe(struct cw_pair *pair, ucp_tag_t tag, ucp_tag_t mask, ucp_tag_recv_info_t *info);

/* Parameters whose unmasked fields are garbage. With an op: callback and user data that fill it; marks it "inside". */
ucp_request_param_t cw_param_none(void);
ucp_request_param_t cw_param_send(struct cw_op *op);
ucp_request_param_t cw_param_recv(struct cw_op *op);
/* Notes what the starting call returned. */
void cw_op_started(struct cw_op *op, ucs_status_ptr_t result);
/* Waits for completion, checks REQ-1..7 on the way, frees the request; returns the final status. */
ucs_status_t cw_op_wait(struct cw_pair *pair, struct cw_op *op, const char *what);

void cw_op_send(struct cw_op *op, ucp_ep_h ep, const void *data, size_t length, ucp_tag_t tag);
/* Receives with RECV_INFO: op->info is valid after cw_op_wait in every case of success. */
void cw_op_recv(struct cw_op *op, ucp_worker_h worker, void *data, size_t length, ucp_tag_t tag, ucp_tag_t mask);

/* One small message from end to end, over tx->ep or over that endpoint to rx; no request is left. */
void cw_pair_ping(struct cw_pair *pair, ucp_tag_t tag);
void cw_pair_ping_on(struct cw_pair *pair, ucp_ep_h ep, ucp_tag_t tag);

void cw_pattern_fill(void *data, size_t length, uint64_t seed);
/* Fails the test with the offset of the first wrong byte. */
void cw_pattern_check(const void *data, size_t length, uint64_t seed);
/* Offset of the first wrong byte, or -1: for threads and second processes. */
ssize_t cw_pattern_find(const void *data, size_t length, uint64_t seed);

struct cw_buffer cw_buffer_new(size_t length);
void cw_buffer_check(const struct cw_buffer *buffer);
void cw_buffer_free(struct cw_buffer *buffer);

/*
 * Memory for a user-provided request (OPA-6, CTX-21, CTX-22): the library's bytes end at ->handle, which is aligned to
 * 8 bytes and not to 16; CW_GUARD_BYTES above it and below the reported size are guarded.
 */
struct cw_user_request {
    char *base;
    size_t size;
    char *handle;
};

struct cw_user_request cw_user_request_new(ucp_context_h context);
void cw_user_request_check(const struct cw_user_request *request);
void cw_user_request_free(struct cw_user_request *request);

/* Starts this program again in the given role. The role gets the other end of the socket as its fd. */
void cw_remote_start(struct cw_remote *remote, const char *role, const char *argument);
/* Waits for its end and fails unless it exited with 0. */
void cw_remote_join(struct cw_remote *remote);
void cw_remote_kill(struct cw_remote *remote);
/* Progresses (if worker is not NULL) while waiting; fails after CW_WAIT_S. */
void cw_fd_write(int fd, const void *data, size_t length);
void cw_fd_read(int fd, void *data, size_t length, ucp_worker_h worker);
/* Both sides call it; returns when both have. */
void cw_fd_barrier(int fd, ucp_worker_h worker);
/* Sends own address, receives the other's and makes an endpoint to it. */
ucp_ep_h cw_fd_connect(int fd, struct cw_side *side, const struct cw_pair_config *config);

/* The endpoint's only transport, as ep_query names it; "none". */
const char *cw_transport_of(ucp_ep_h ep);

/* All that the library writes to stdout and stderr between start and end lands in the text. */
int cw_capture_start(int saved[2]);
void cw_capture_end(int file, const int saved[2], char *text, size_t room);
/* How often the words stand in the text. */
int cw_capture_count(const char *text, const char *words);

#endif
