/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer's machine that falls silent (ERR-2, ERR-3, VAR-40), between two network namespaces joined by a pair of virtual
 * interfaces. Each scenario is a process of its own with its own namespaces, which vanish with it; all run at once. Who
 * waits sleeps on the worker's descriptor, so that nothing but the library wakes it. Needs root and ip(8).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "chaos.h"

#define INTERVAL_MS 1000u           /* UCX_KEEPALIVE_INTERVAL */
#define LATEST_MS   (6 * INTERVAL_MS)
#define LARGE       (8u << 20)
#define EAGER       8000u
#define EAGER_COUNT 2000

struct machine {
    struct cw_party party;
    int efd;
    int peer;                       /* socket to the other process */
    pid_t pid;                      /* of that */
    ucs_status_t status;            /* what the error handler got */
};

static void command(const char *format, int number)
{
    char text[200];

    (void)snprintf(text, sizeof(text), format, number);
    cw_check(system(text) == 0);
}

static void send_bytes(const struct machine *machine, const void *data, size_t length)
{
    cw_check(write(machine->peer, data, length) == (ssize_t)length);
}

static void hear(const struct machine *machine, void *data, size_t length)
{
    cw_check(recv(machine->peer, data, length, MSG_WAITALL) == (ssize_t)length);
}

static void meet(const struct machine *machine)
{
    char byte = 'x';

    send_bytes(machine, &byte, 1);
    hear(machine, &byte, 1);
}

static void failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct machine *machine = argument;

    (void)ep;
    machine->party.failures++;
    machine->status = status;
}

static ucp_ep_params_t ep_params(struct machine *machine)
{
    ucp_ep_params_t params;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = failed;
    params.err_handler.arg = machine;
    return params;
}

/* Two machines, number 1 and 2, with a cable between them; this is the first one of the pair that returns. */
static void machines_start(struct machine *machine, void (*second)(struct machine *machine))
{
    int ends[2], number = 1;

    if (geteuid() != 0 || unshare(CLONE_NEWNET) < 0 || system("ip -V >/dev/null 2>&1") != 0) {
        (void)fprintf(stderr, "skipped: needs root, network namespaces and ip(8)\n");
        _exit(CW_CHILD_SKIP);
    }
    memset(machine, 0, sizeof(*machine));
    cw_check(setenv("UCX_KEEPALIVE_INTERVAL", "1s", 1) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    machine->pid = fork();
    cw_check(machine->pid >= 0);
    machine->peer = ends[machine->pid == 0];
    (void)close(ends[machine->pid != 0]);
    if (machine->pid == 0) {
        cw_check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && unshare(CLONE_NEWNET) == 0);
        number = 2;
        (void)alarm(CW_CHILD_S);
    }
    meet(machine);
    if (number == 1) {
        command("ip link add cw1 type veth peer name cw2 && ip link set cw2 netns %d", machine->pid);
    }
    meet(machine);
    command((number == 1) ? "ip addr add 10.213.0.%d/24 dev cw1 && ip link set cw1 up" :
            "ip addr add 10.213.0.%d/24 dev cw2 && ip link set cw2 up", number);
    meet(machine);
    command("until ip link show cw%d | grep -q 'state UP'; do sleep 0.01; done", number);
    meet(machine);
    cw_party_open(&machine->party, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP);
    cw_check(ucp_worker_get_efd(machine->party.worker, &machine->efd) == UCS_OK);
    if (number == 2) {
        second(machine);
        _exit(0);
    }
}

/* From now on no packet of this machine reaches the other one. Without a sound: not even a carrier is lost. */
static void fall_silent(int number)
{
    command((number == 1) ? "ip neigh replace 10.213.0.%d lladdr 02:00:00:00:00:99 dev cw1 nud permanent" :
            "ip neigh replace 10.213.0.%d lladdr 02:00:00:00:00:99 dev cw2 nud permanent", 3 - number);
}

static void machines_silent(const struct machine *machine, int number)
{
    meet(machine);
    fall_silent(number);
    meet(machine);
}

/* Sleeps for so long, or until the condition holds; returns how often it was woken. */
static unsigned sleep_for(struct machine *machine, unsigned ms, int (*until)(const struct machine *machine))
{
    const uint64_t end = cw_now_ns() + ms * UINT64_C(1000000);
    unsigned wakings = 0;
    uint64_t now;

    while ((now = cw_now_ns()) < end && (until == NULL || !until(machine))) {
        if (ucp_worker_arm(machine->party.worker) == UCS_OK) {
            wakings += (unsigned)poll(&(struct pollfd){.fd = machine->efd, .events = POLLIN}, 1,
                                      (int)((end - now) / 1000000) + 1);
        }
        while (ucp_worker_progress(machine->party.worker) != 0) {
        }
    }
    return wakings;
}

static int has_failed(const struct machine *machine)
{
    return machine->party.failures > 0;
}

static void must_fail(struct machine *machine)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    uint64_t word = 0;

    (void)sleep_for(machine, LATEST_MS, has_failed);
    cw_check(machine->party.failures == 1 && machine->status == UCS_ERR_ENDPOINT_TIMEOUT);
    cw_check(UCS_PTR_STATUS(ucp_tag_send_nbx(machine->party.ep, &word, sizeof(word), 1, &none)) ==
             UCS_ERR_ENDPOINT_TIMEOUT);
    (void)sleep_for(machine, INTERVAL_MS / 5, NULL);
    cw_check(machine->party.failures == 1);
    cw_check(ucp_ep_close_nbx(machine->party.ep, &force) == NULL);
    machine->party.ep = NULL;
    cw_party_close(&machine->party);
}

/* Exchanges addresses and makes an endpoint. */
static void join(struct machine *machine)
{
    ucp_ep_params_t params = ep_params(machine);
    char bytes[1024] = {0};

    (void)cw_party_address(&machine->party, bytes);
    send_bytes(machine, bytes, sizeof(bytes));
    hear(machine, bytes, sizeof(bytes));
    params.field_mask |= UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = (const ucp_address_t *)bytes;
    cw_check(ucp_ep_create(machine->party.worker, &params, &machine->party.ep) == UCS_OK);
}

static ucs_status_ptr_t post_recv(struct machine *machine, void *data, size_t length, ucp_tag_t tag)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};

    return ucp_tag_recv_nbx(machine->party.worker, data, length, tag, UINT64_MAX, &none);
}

static ucs_status_ptr_t post_send(struct machine *machine, const void *data, size_t length, ucp_tag_t tag)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};

    return ucp_tag_send_nbx(machine->party.ep, data, length, tag, &none);
}

/* Both ways, long enough for further sockets. */
static void talk(struct machine *machine)
{
    char *in = malloc(LARGE), *out = calloc(1, LARGE);
    ucs_status_ptr_t recv, send;

    cw_check(in != NULL && out != NULL);
    recv = post_recv(machine, in, LARGE, 1);
    send = post_send(machine, out, LARGE, 1);
    cw_check(cw_party_wait(&machine->party, NULL, recv) == UCS_OK);
    cw_check(cw_party_wait(&machine->party, NULL, send) == UCS_OK);
    free(in);
    free(out);
}

/* ---- nothing is under way when the other machine falls silent: both notice ---- */

static void idle_second(struct machine *machine)
{
    join(machine);
    talk(machine);
    machines_silent(machine, 2);
    must_fail(machine);
    meet(machine);
}

static void body_idle(void *argument)
{
    struct machine machine;

    (void)argument;
    machines_start(&machine, idle_second);
    join(&machine);
    talk(&machine);
    machines_silent(&machine, 1);
    must_fail(&machine);
    meet(&machine);
}

/* ---- the other program computes and has not answered the handshake yet ---- */

static void unanswered_second(struct machine *machine)
{
    join(machine);
    meet(machine);
    machines_silent(machine, 2);
    meet(machine);
}

static void body_unanswered(void *argument)
{
    struct machine machine;

    (void)argument;
    if (strstr(getenv("UCX_TLS"), "tcp") == NULL) {
        (void)fprintf(stderr, "skipped: a dial is bounded by UCX_CONNECT_TIMEOUT alone\n");
        _exit(CW_CHILD_SKIP);
    }
    machines_start(&machine, unanswered_second);
    join(&machine);
    (void)sleep_for(&machine, INTERVAL_MS / 2, NULL);
    cw_check(machine.party.failures == 0);
    meet(&machine);
    machines_silent(&machine, 1);
    must_fail(&machine);
    meet(&machine);
}

/* ---- a message is sent into the silence ---- */

static void sending_second(struct machine *machine)
{
    join(machine);
    talk(machine);
    machines_silent(machine, 2);
    meet(machine);
}

static void body_sending(void *argument)
{
    static char data[LARGE];
    struct machine machine;
    ucs_status_ptr_t small, large;
    uint64_t start;

    (void)argument;
    machines_start(&machine, sending_second);
    join(&machine);
    talk(&machine);
    machines_silent(&machine, 1);
    small = post_send(&machine, data, 100, 2);
    large = post_send(&machine, data, LARGE, 2);
    cw_check(small == NULL && UCS_PTR_IS_PTR(large));
    start = cw_now_ns();
    (void)sleep_for(&machine, LATEST_MS, has_failed);
    cw_check(cw_now_ns() - start > INTERVAL_MS / 2 * UINT64_C(1000000));
    cw_check(cw_party_wait(&machine.party, NULL, large) != UCS_OK);
    must_fail(&machine);
    meet(&machine);
}

/* ---- the other machine lives, but its program is stopped: nobody is taken for dead, nothing is lost ---- */

static void stopped_second(struct machine *machine)
{
    static char data[EAGER];
    int i;

    join(machine);
    talk(machine);
    meet(machine);
    (void)raise(SIGSTOP);
    for (i = 0; i < EAGER_COUNT; i++) {
        cw_check(cw_party_wait(&machine->party, NULL, post_recv(machine, data, sizeof(data), 3)) == UCS_OK);
    }
    talk(machine);
    cw_check(machine->party.failures == 0);
    meet(machine);
    cw_party_close(&machine->party);
}

static void body_stopped(void *argument)
{
    static ucs_status_ptr_t sends[EAGER_COUNT];
    static char data[EAGER];
    struct machine machine;
    int i, status, waiting = 0;

    (void)argument;
    machines_start(&machine, stopped_second);
    join(&machine);
    talk(&machine);
    meet(&machine);
    cw_check(waitpid(machine.pid, &status, WUNTRACED) == machine.pid && WIFSTOPPED(status));
    (void)sleep_for(&machine, 3 * INTERVAL_MS, NULL); /* nothing under way */
    cw_check(machine.party.failures == 0);
    for (i = 0; i < EAGER_COUNT; i++) {
        sends[i] = post_send(&machine, data, sizeof(data), 3);
        waiting += UCS_PTR_IS_PTR(sends[i]);
        cw_check(!UCS_PTR_IS_ERR(sends[i]));
    }
    cw_check(waiting > 0); /* more than the systems on both sides take */
    (void)sleep_for(&machine, 4 * INTERVAL_MS, NULL);
    cw_check(machine.party.failures == 0);
    cw_check(kill(machine.pid, SIGCONT) == 0);
    for (i = 0; i < EAGER_COUNT; i++) {
        cw_check(cw_party_wait(&machine.party, NULL, sends[i]) == UCS_OK);
    }
    talk(&machine);
    cw_check(machine.party.failures == 0);
    meet(&machine);
    cw_party_close(&machine.party);
}

/* ---- a client waits for a server whose machine falls silent before its program has answered ---- */

static void on_request(ucp_conn_request_h request, void *argument)
{
    *(ucp_conn_request_h *)argument = request;
}

static void waiting_second(struct machine *machine)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    ucp_conn_request_h request = NULL;
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(const struct sockaddr *)&address, sizeof(address)},
                                    .conn_handler = {on_request, &request}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;

    cw_check(ucp_listener_create(machine->party.worker, &params, &listener) == UCS_OK);
    cw_check(ucp_listener_query(listener, &attr) == UCS_OK);
    send_bytes(machine, &((struct sockaddr_in *)&attr.sockaddr)->sin_port, sizeof(in_port_t));
    while (request == NULL) {
        (void)ucp_worker_progress(machine->party.worker);
    }
    machines_silent(machine, 2);
    meet(machine);
}

static void body_waiting(void *argument)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct machine machine;
    ucp_ep_params_t params;

    (void)argument;
    if (strstr(getenv("UCX_TLS"), "tcp") == NULL) {
        (void)fprintf(stderr, "skipped: no transport here has listeners\n");
        _exit(CW_CHILD_SKIP);
    }
    machines_start(&machine, waiting_second);
    hear(&machine, &address.sin_port, sizeof(address.sin_port));
    cw_check(inet_pton(AF_INET, "10.213.0.2", &address.sin_addr) == 1);
    params = ep_params(&machine);
    params.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr.addr = (const struct sockaddr *)&address;
    params.sockaddr.addrlen = sizeof(address);
    cw_check(ucp_ep_create(machine.party.worker, &params, &machine.party.ep) == UCS_OK);
    while (poll(&(struct pollfd){.fd = machine.peer, .events = POLLIN}, 1, 0) == 0) {
        (void)ucp_worker_progress(machine.party.worker);
    }
    machines_silent(&machine, 1);
    must_fail(&machine);
    meet(&machine);
}

/* ---- watching costs nothing while both live and nothing is said ---- */

/* It makes progress, too: a program that stops may leave the handshake of a further socket unread. */
static void calm_second(struct machine *machine)
{
    join(machine);
    talk(machine);
    (void)sleep_for(machine, 4 * INTERVAL_MS, NULL);
    meet(machine);
    cw_party_close(&machine->party);
}

static void body_calm(void *argument)
{
    struct machine machine;
    uint64_t cpu;

    (void)argument;
    machines_start(&machine, calm_second);
    join(&machine);
    talk(&machine);
    (void)sleep_for(&machine, INTERVAL_MS / 2, NULL); /* all is acknowledged, and the last check has been */
    cpu = cw_cpu_ns();
    cw_check(sleep_for(&machine, 3 * INTERVAL_MS, NULL) == 0);
    cw_check(cw_cpu_ns() - cpu < 5000000 && machine.party.failures == 0);
    meet(&machine);
    cw_party_close(&machine.party);
}

/* ---- all at once ---- */

static struct scenario {
    const char *name;
    void (*body)(void *argument);
    pid_t pid;
} scenarios[] = {{"idle", body_idle, 0}, {"sending", body_sending, 0}, {"stopped", body_stopped, 0},
                 {"waiting", body_waiting, 0}, {"calm", body_calm, 0}, {"unanswered", body_unanswered, 0}};

static int start_all(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++) {
        scenarios[i].pid = fork();
        if (scenarios[i].pid == 0) {
            _exit(cw_child_run(scenarios[i].body, NULL));
        }
    }
    return 0;
}

static void test_scenario(void **state)
{
    const struct scenario *scenario = *state;
    int status;

    assert_int_equal(waitpid(scenario->pid, &status, 0), scenario->pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CW_CHILD_SKIP) {
        skip();
    }
    if (status != 0) {
        fail_msg("scenario \"%s\" ended with status %#x", scenario->name, (unsigned)status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        {"a silent machine is noticed when nothing is under way", test_scenario, NULL, NULL, &scenarios[0]},
        {"a silent machine is noticed by a sender", test_scenario, NULL, NULL, &scenarios[1]},
        {"a stopped program is not taken for a dead machine", test_scenario, NULL, NULL, &scenarios[2]},
        {"a silent machine is noticed by a client that waits", test_scenario, NULL, NULL, &scenarios[3]},
        {"watching costs nothing", test_scenario, NULL, NULL, &scenarios[4]},
        {"a silent machine is noticed before it has answered", test_scenario, NULL, NULL, &scenarios[5]},
    };

    return cmocka_run_group_tests(tests, start_all, NULL);
}
