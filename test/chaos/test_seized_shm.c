/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that go from process to process: a peer that turns each of its own against us, a user who has so many
 * under way that the system carries no more, and processes without room for the one that comes. Nobody blocks; what
 * cannot be had costs a sentence in the log and an endpoint, soon.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "chaos.h"

enum { SOON_S = 5, MOST_FDS = 256, FEW_FDS = 48, NOBODY = 54321 };

static char address_of_other[1024];

static uint64_t soon(void)
{
    return cw_now_ns() + SOON_S * UINT64_C(1000000000);
}

static void notify(int fd)
{
    cw_check(write(fd, "x", 1) == 1);
}

static void hear(int fd)
{
    char byte;

    cw_check(read(fd, &byte, 1) == 1);
}

/* ---- a peer that turns its descriptors against us ---- */

static int is_eventfd(int fd)
{
    char path[64], target[64];
    ssize_t length;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    length = readlink(path, target, sizeof(target));
    return length > 0 && memmem(target, (size_t)length, "eventfd", 7) != NULL;
}

/* Everything that came since `first` blocks from now on, and what can be filled is full. */
static void seize(int first)
{
    const uint64_t most = UINT64_MAX - 1;
    uint64_t value;
    int fd;

    for (fd = first; fd < MOST_FDS; fd++) {
        if (fcntl(fd, F_GETFD) < 0) {
            continue;
        }
        if (is_eventfd(fd)) {
            (void)fcntl(fd, F_SETFL, O_NONBLOCK);
            (void)!read(fd, &value, sizeof(value));
            cw_check(write(fd, &most, sizeof(most)) == sizeof(most));
        }
        (void)fcntl(fd, F_SETFL, 0);
    }
}

/* Receives one message, sleeps, and is not to be woken. */
static void attack(int address_to, int word_to)
{
    const int first = dup(0);
    char bytes[1024], in[8];
    ucp_request_param_t param = {.op_attr_mask = 0};
    struct cw_party party;
    size_t length;

    (void)close(first);
    cw_party_open(&party, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    length = cw_party_address(&party, bytes);
    cw_check(write(address_to, bytes, length) == (ssize_t)length);
    cw_check(cw_party_wait(&party, NULL, ucp_tag_recv_nbx(party.worker, in, sizeof(in), 1, UINT64_MAX, &param)) ==
             UCS_OK);
    do {
        while (ucp_worker_progress(party.worker) != 0) {
        }
    } while (ucp_worker_arm(party.worker) != UCS_OK);
    seize(first);
    notify(word_to);
    for (;;) {
        (void)pause();
    }
}

static void send_one(struct cw_party *party, uint64_t tag)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    cw_check(cw_party_wait(party, NULL, ucp_tag_send_nbx(party->ep, "12345678", 8, tag, &param)) == UCS_OK);
}

static void ep_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct cw_party *party = argument;

    (void)ep, (void)status;
    party->failures++;
}

static void connect_to_other(struct cw_party *party, int address_from)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
                             .address = (const ucp_address_t *)address_of_other,
                             .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                             .err_handler = {.cb = ep_failed, .arg = party}};

    cw_check(read(address_from, address_of_other, sizeof(address_of_other)) > 0);
    cw_check(ucp_ep_create(party->worker, &params, &party->ep) == UCS_OK);
}

/* WAK-5: whoever sleeps must be woken, and whoever wakes must not wait for that. */
CHILD_TEST(test_seized)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    int address_pipe[2], word_pipe[2], status, i;
    struct cw_party party;
    uint64_t end;
    pid_t pid;

    cw_check(pipe(address_pipe) == 0 && pipe(word_pipe) == 0);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CW_CHILD_S);
        attack(address_pipe[1], word_pipe[1]);
    }
    cw_party_open(&party, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    connect_to_other(&party, address_pipe[0]);
    send_one(&party, 1);
    hear(word_pipe[0]);
    (void)alarm(SOON_S); /* who hangs is ended */
    for (i = 0; i < 100; i++) {
        (void)cw_party_wait(&party, NULL, ucp_tag_send_nbx(party.ep, "12345678", 8, 2, &param));
        (void)ucp_worker_progress(party.worker);
        (void)ucp_worker_arm(party.worker); /* reads, too */
    }
    cw_check(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
    end = soon();
    while (party.failures == 0) {
        (void)ucp_worker_progress(party.worker);
        cw_check(cw_now_ns() < end);
    }
    cw_party_close(&party);
}

/* ---- too many descriptors under way ---- */

/* The system bounds what a user without privileges has under way by the limit of open files. Returns the pair that
 * holds them. */
static void fill_the_socket(int *pair)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = "x", .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    int i;

    cw_check(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &pair[0], sizeof(int));
    for (i = 0; i < 4 * FEW_FDS; i++) {
        if (sendmsg(pair[1], &msg, MSG_NOSIGNAL) < 0) {
            cw_check(errno == ETOOMANYREFS || errno == EAGAIN);
            if (errno == ETOOMANYREFS) {
                return;
            }
            cw_check(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
        }
    }
    _exit(CW_CHILD_SKIP); /* privileged */
}

static void become_unprivileged(void)
{
    struct rlimit limit;

    if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) != 0)) {
        _exit(CW_CHILD_SKIP);
    }
    cw_check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = FEW_FDS;
    cw_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static void progress_both(struct cw_party *one, struct cw_party *two)
{
    (void)ucp_worker_progress(one->worker);
    (void)ucp_worker_progress(two->worker);
}

/* ERR-1: what is sent ends, well or not, and if not the endpoint's handler is called. */
static ucs_status_t outcome(struct cw_party *client, struct cw_party *server, ucs_status_ptr_t request)
{
    const uint64_t end = soon();
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        progress_both(client, server);
        cw_check(cw_now_ns() < end);
    }
    ucp_request_free(request);
    return status;
}

static ucs_status_ptr_t post(struct cw_party *client)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    return ucp_tag_send_sync_nbx(client->ep, "12345678", 8, 1, &param);
}

struct two {
    struct cw_party client;
    struct cw_party server;
    ucs_status_ptr_t receive;
    char in[8];
};

static void open_two(struct two *two, const char *tls)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    cw_check(setenv("UCX_TLS", tls, 1) == 0);
    cw_party_open(&two->server, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    cw_party_open(&two->client, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    cw_party_connect(&two->client, &two->server);
    two->receive = ucp_tag_recv_nbx(two->server.worker, two->in, sizeof(two->in), 1, UINT64_MAX, &param);
}

/* The socket fills up when the client has sent its memory, and before the server answers. */
static void body_no_space_for_the_answer(void *argument)
{
    ucs_status_ptr_t request;
    struct two two;
    int pair[2];

    (void)argument;
    become_unprivileged();
    open_two(&two, "self,shm");
    request = post(&two.client);
    fill_the_socket(pair);
    cw_check(outcome(&two.client, &two.server, request) == UCS_OK);
    cw_check(two.client.failures == 0 && cw_log_lines() == 0);
}

static void body_no_space_for_the_memory(void *argument)
{
    const uint64_t end = soon();
    struct two two;
    unsigned lines;
    int pair[2];

    (void)argument;
    become_unprivileged();
    open_two(&two, "self,shm");
    fill_the_socket(pair);
    lines = cw_log_lines();
    cw_check(outcome(&two.client, &two.server, post(&two.client)) < 0);
    while (two.client.failures == 0) {
        progress_both(&two.client, &two.server);
        cw_check(cw_now_ns() < end);
    }
    cw_check(cw_log_lines() > lines && strstr(cw_log_last(), "ulimit -n") != NULL);
}

static void body_another_transport(void *argument)
{
    struct two two;
    unsigned lines;
    int pair[2];

    (void)argument;
    become_unprivileged();
    open_two(&two, "self,shm,tcp");
    fill_the_socket(pair);
    lines = cw_log_lines();
    cw_check(outcome(&two.client, &two.server, post(&two.client)) == UCS_OK);
    cw_check(two.client.failures == 0 && cw_log_lines() == lines + 1);
}

TEST(test_in_flight)
{
    cw_child_must_pass(body_no_space_for_the_answer, NULL, "an answer while too many descriptors are under way");
    cw_child_must_pass(body_no_space_for_the_memory, NULL, "memory while too many descriptors are under way");
    cw_child_must_pass(body_another_transport, NULL, "another transport while too many descriptors are under way");
}

/* ---- no room for what comes ---- */

static void leave_no_more_than(int count)
{
    struct rlimit limit;
    int fds[8] = {0}, i;

    for (i = 0; i <= count; i++) {
        fds[i] = dup(0);
        cw_check(fds[i] >= 0);
    }
    cw_check(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = (rlim_t)fds[count];
    for (i = 0; i <= count; i++) {
        (void)close(fds[i]);
    }
    cw_check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

/* The client has used up its descriptors when the answer comes. */
static void body_client_is_full(void *argument)
{
    ucs_status_ptr_t request;
    struct two two;
    pid_t pid;
    int status, pipe_to[2], pipe_from[2], i;
    char bytes[1024];

    (void)argument;
    cw_check(pipe(pipe_to) == 0 && pipe(pipe_from) == 0 && setenv("UCX_TLS", "self,shm", 1) == 0);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CW_CHILD_S);
        cw_party_open(&two.server, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
        cw_check(write(pipe_from[1], bytes, cw_party_address(&two.server, bytes)) > 0);
        hear(pipe_to[0]);
        two.server.ep = NULL;
        for (;;) {
            (void)ucp_worker_progress(two.server.worker);
        }
    }
    cw_party_open(&two.client, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    connect_to_other(&two.client, pipe_from[0]);
    request = ucp_tag_send_nbx(two.client.ep, "12345678", 8, 1, &(ucp_request_param_t){.op_attr_mask = 0});
    for (i = 0; i < 100; i++) {
        (void)ucp_worker_progress(two.client.worker);
    }
    leave_no_more_than(0);
    notify(pipe_to[1]);
    cw_check(cw_party_wait(&two.client, NULL, request) == UCS_OK);
    cw_check(cw_log_lines() == 0);
    cw_check(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
}

/* The server can accept a connection, and has no room for its memory. Both log it, and the client fails. */
static void body_server_is_full(void *argument)
{
    struct cw_party client, server;
    int status, pipe_to[2], pipe_from[2];
    char bytes[1024];
    pid_t pid;

    (void)argument;
    cw_check(pipe(pipe_to) == 0 && pipe(pipe_from) == 0 && setenv("UCX_TLS", "self,shm", 1) == 0);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CW_CHILD_S);
        cw_party_open(&server, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
        leave_no_more_than(1);
        cw_check(write(pipe_from[1], bytes, cw_party_address(&server, bytes)) > 0);
        while (cw_log_lines() == 0) {
            (void)ucp_worker_progress(server.worker);
        }
        cw_check(strstr(cw_log_last(), "ulimit -n") != NULL);
        _exit(0);
    }
    cw_party_open(&client, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    connect_to_other(&client, pipe_from[0]);
    cw_check(cw_party_wait(&client, NULL, ucp_tag_send_sync_nbx(client.ep, "12345678", 8, 1,
                                                                &(ucp_request_param_t){.op_attr_mask = 0})) < 0);
    cw_check(cw_log_lines() == 1);
    cw_check(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(test_no_room)
{
    cw_child_must_pass(body_client_is_full, NULL, "a client without descriptors");
    cw_child_must_pass(body_server_is_full, NULL, "a server without room for memory");
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
