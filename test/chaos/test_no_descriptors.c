/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No descriptors left. A lifecycle with every limit from "none at all" upward ends with errors or succeeds, leaks
 * nothing and loses nothing; a worker that cannot accept, for want of descriptors or because the system forbids it,
 * says so, does not spin, sleeps if asked to, and goes on when it can again.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "chaos.h"
#include "lifecycle.h"

enum { MOST = 60, CHILD_COMPLETE = 42, MAX_FILLERS = 4096, CALLERS = 3 };

static struct rlimit old_limit;
static int refused; /* what accept4 answers; 0: what the system does */

int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    if (refused == 0) {
        return __real_accept4(fd, address, length, flags);
    }
    errno = refused;
    return -1;
}

/* So many further descriptors can be opened; those below the limit that are free count. */
static void leave_descriptors(unsigned count)
{
    struct rlimit limit = old_limit;
    int fds[MOST + 1], last = -1;
    unsigned i;

    for (i = 0; i < count; i++) {
        fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cw_check(fds[i] >= 0);
        last = fds[i];
    }
    if (count == 0) {
        last = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cw_check(last >= 0);
        (void)close(last);
        last--;
    }
    for (i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
    limit.rlim_cur = (rlim_t)last + 1;
    cw_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void descriptors_are_back(void)
{
    cw_check(setrlimit(RLIMIT_NOFILE, &old_limit) == 0);
}

static void body_lifecycle(void *argument)
{
    struct cw_lifecycle lifecycle = {.relief = descriptors_are_back, .features = UCP_FEATURE_WAKEUP};
    const unsigned *count = argument;
    int fds, complete;

    cw_check(getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
    cw_check(cw_lifecycle_run(&lifecycle));
    fds = cw_open_fds();
    leave_descriptors(*count);
    complete = cw_lifecycle_run(&lifecycle) && !lifecycle.relieved;
    descriptors_are_back();
    cw_check(cw_open_fds() == fds);
    if (complete) {
        _exit(CHILD_COMPLETE);
    }
    cw_check(cw_lifecycle_run(&lifecycle));
    cw_check(cw_open_fds() == fds);
}

/* ABU-26. */
TEST(test_lifecycles)
{
    unsigned count, complete = 0;
    int code;

    cw_log_watch();
    for (count = 0; count < MOST && complete < 3; count++) {
        code = cw_child_run(body_lifecycle, &count);
        if (code != 0 && code != CHILD_COMPLETE) {
            fail_msg("a lifecycle with %u descriptors left: %s %d", count, (code > 128) ? "signal" : "exit code",
                     (code > 128) ? code - 128 : code);
        }
        complete += (code == CHILD_COMPLETE);
    }
    print_message("complete with %u descriptors\n", count - complete);
    assert_int_equal(complete, 3);
    assert_true(count >= 5);
}

/* ---- a worker that cannot accept ---- */

static struct cw_party server;

static void use_up_descriptors(int *fillers, int *count)
{
    struct rlimit limit = old_limit;

    limit.rlim_cur = (old_limit.rlim_cur < 200) ? old_limit.rlim_cur : 200;
    cw_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (*count = 0; *count < MAX_FILLERS; (*count)++) {
        fillers[*count] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (fillers[*count] < 0) {
            break;
        }
    }
    cw_check(errno == EMFILE && *count > 10);
}

static struct sockaddr_in listening; /* port 0: callers use the server's address */

static void on_request(ucp_conn_request_h request, void *argument)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};
    ucp_ep_h ep;

    (void)argument;
    cw_check(ucp_ep_create(server.worker, &params, &ep) == UCS_OK);
}

static ucp_listener_h start_listener(void)
{
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .conn_handler = {on_request, NULL}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;

    listening = (struct sockaddr_in){.sin_family = AF_INET};
    listening.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    params.sockaddr.addr = (const struct sockaddr *)&listening;
    params.sockaddr.addrlen = sizeof(listening);
    cw_check(ucp_listener_create(server.worker, &params, &listener) == UCS_OK);
    cw_check(ucp_listener_query(listener, &attr) == UCS_OK);
    memcpy(&listening, &attr.sockaddr, sizeof(listening));
    return listener;
}

static void call_listener(struct cw_party *caller)
{
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                                    .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                                    .sockaddr = {(const struct sockaddr *)&listening, sizeof(listening)}};

    cw_check(ucp_ep_create(caller->worker, &params, &caller->ep) == UCS_OK);
}

/* Another process calls, sends one message and waits until it went out. */
static pid_t start_caller(uint64_t tag)
{
    static char text[5000];
    pid_t pid = fork();
    struct cw_party caller;
    ucp_request_param_t param = {.op_attr_mask = 0};

    if (pid != 0) {
        return pid;
    }
    (void)alarm(CW_CHILD_S);
    descriptors_are_back();
    cw_party_open(&caller, UCP_FEATURE_TAG);
    if (listening.sin_port != 0) {
        call_listener(&caller);
    } else {
        cw_party_connect(&caller, &server);
    }
    memset(text, 'x', sizeof(text));
    cw_check(cw_party_wait(&caller, NULL, ucp_tag_send_sync_nbx(caller.ep, text, sizeof(text), tag, &param)) == UCS_OK);
    cw_party_close(&caller);
    _exit(0);
}

static unsigned progress_for_ms(unsigned ms)
{
    uint64_t end = cw_now_ns() + ms * UINT64_C(1000000);
    unsigned work = 0;

    while (cw_now_ns() < end) {
        work += ucp_worker_progress(server.worker);
    }
    return work;
}

/* Sleeps on the worker's descriptor for so long, and progresses when it was woken. Returns how often. */
static unsigned sleep_for_ms(int efd, unsigned ms)
{
    const uint64_t end = cw_now_ns() + ms * UINT64_C(1000000);
    unsigned wakings = 0;

    while (cw_now_ns() < end) {
        if (ucp_worker_arm(server.worker) != UCS_OK) {
            (void)ucp_worker_progress(server.worker);
        } else if (poll(&(struct pollfd){.fd = efd, .events = POLLIN}, 1, (int)ms) == 1) {
            wakings++;
            while (ucp_worker_progress(server.worker) != 0) {
            }
        }
    }
    return wakings;
}

/* Nobody but the library wakes the server up: a message from each caller comes nevertheless. */
static void sleep_until_called(int efd)
{
    const uint64_t end = cw_now_ns() + 10 * UINT64_C(1000000000);
    ucp_tag_recv_info_t info;
    int i;

    for (i = 0; i < CALLERS; i++) {
        while (ucp_tag_probe_nb(server.worker, (ucp_tag_t)i, UINT64_MAX, 0, &info) == NULL) {
            (void)sleep_for_ms(efd, 20);
            cw_check(cw_now_ns() < end);
        }
    }
}

static void finish_callers(const pid_t *pids)
{
    static char in[5000];
    ucp_request_param_t param = {.op_attr_mask = 0};
    int i, status;

    for (i = 0; i < CALLERS; i++) {
        cw_check(cw_party_wait(&server, NULL, ucp_tag_recv_nbx(server.worker, in, sizeof(in), (ucp_tag_t)i, UINT64_MAX,
                                                               &param)) == UCS_OK);
    }
    for (i = 0; i < CALLERS; i++) {
        while (waitpid(pids[i], &status, WNOHANG) == 0) {
            (void)ucp_worker_progress(server.worker);
        }
        cw_check(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

struct obstacle {
    int with_listener;
    int error; /* of accept4; 0: no descriptors are left */
};

static void body_no_accept(void *argument)
{
    const struct obstacle *obstacle = argument;
    ucp_listener_h listener = NULL;
    struct cw_party client;
    int fillers[MAX_FILLERS], count = 0, fds, i, efd;
    pid_t pids[CALLERS];
    unsigned lines;
    uint64_t cpu;

    cw_check(getrlimit(RLIMIT_NOFILE, &old_limit) == 0);
    cw_party_open(&server, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    if (obstacle->with_listener) {
        listener = start_listener();
    }
    cw_party_open(&client, UCP_FEATURE_TAG);
    cw_party_connect(&client, &server);
    cw_party_talk(&client, &server, 100);
    cw_check(ucp_worker_get_efd(server.worker, &efd) == UCS_OK);
    fds = cw_open_fds();
    for (i = 0; i < CALLERS; i++) {
        pids[i] = start_caller((uint64_t)i);
        cw_check(pids[i] > 0);
    }
    refused = obstacle->error;
    if (refused == 0) {
        use_up_descriptors(fillers, &count);
    }
    lines = cw_log_lines();
    cw_check(progress_for_ms(600) < 50); /* looks now and then; a busy loop would count thousands */
    cw_check(cw_log_lines() > lines && cw_log_lines() <= lines + 3);
    cw_party_talk(&client, &server, 100000); /* others are served meanwhile */
    while (ucp_worker_arm(server.worker) != UCS_OK) {
        (void)ucp_worker_progress(server.worker);
    }
    cpu = cw_cpu_ns();
    cw_check(sleep_for_ms(efd, 500) < 20); /* a look ten times a second */
    cw_check(cw_cpu_ns() - cpu < 20000000);
    for (i = 0; i < count; i++) {
        (void)close(fillers[i]);
    }
    refused = 0;
    sleep_until_called(efd);
    finish_callers(pids);
    (void)progress_for_ms(100);
    cw_check(cw_open_fds() <= fds + CALLERS);
    cw_party_talk(&client, &server, 100000);
    if (listener != NULL) {
        ucp_listener_destroy(listener);
    }
    cw_party_close(&client);
    cw_party_close(&server);
    descriptors_are_back();
}

TEST(test_no_accept)
{
    if (!cw_tls_has("shm") && !cw_tls_has("tcp")) {
        skip(); /* nobody to accept */
    }
    cw_child_must_pass(body_no_accept, &(struct obstacle){.error = 0}, "a worker without descriptors");
}

TEST(test_accept_is_forbidden)
{
    if (!cw_tls_has("shm") && !cw_tls_has("tcp")) {
        skip(); /* nobody to accept */
    }
    cw_child_must_pass(body_no_accept, &(struct obstacle){.error = EPERM}, "a worker that may not accept");
    cw_child_must_pass(body_no_accept, &(struct obstacle){.error = ENOSYS}, "a system without accept4");
}

TEST(test_no_accept_at_a_listener)
{
    if (!cw_tls_has("tcp")) {
        skip(); /* clients come by TCP */
    }
    cw_child_must_pass(body_no_accept, &(struct obstacle){.with_listener = 1}, "a listener without descriptors");
    cw_child_must_pass(body_no_accept, &(struct obstacle){.with_listener = 1, .error = EPERM},
                       "a listener that may not accept");
}
