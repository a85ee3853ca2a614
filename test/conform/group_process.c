/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two processes: the second one is forked before anything is opened and speaks to the first over a socket only to send
 * its address and to keep in step. It dies in all the ways in which processes die.
 */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hash.h"
#include "os/clock.h"
#include "rig.h"
#include "stream.h"

struct child {
    pid_t pid;
    int fd;
};

static struct cw_stream sent, seen;

static void put(int fd, const void *data, size_t length)
{
    cw_check(write(fd, data, length) == (ssize_t)length, "the socket between the processes is broken");
}

/* Progresses while it waits. */
static void get(int fd, void *data, size_t length, struct cw_side *side)
{
    uint64_t deadline = cw_deadline();
    ssize_t got = 0;

    while (got < (ssize_t)length) {
        ssize_t part = recv(fd, (char *)data + got, length - (size_t)got, MSG_DONTWAIT);

        cw_check(part != 0, "the other process ended");
        got += (part > 0) ? part : 0;
        if (part < 0 && side != NULL) {
            cw_side_progress(side);
        }
        cw_deadline_check(deadline, "a word of the other process");
    }
}

static void barrier(int fd, struct cw_side *side)
{
    char byte = 0;

    put(fd, &byte, 1);
    get(fd, &byte, 1, side);
}

/* Both sides of the rig are closed; the caller opens rig->a again, alone, after this. */
static struct child start(struct cw_rig *rig, void (*role)(struct cw_rig *rig, int fd))
{
    struct child child;
    int fds[2];

    cw_rig_need(cw_subject.traits & CW_SUBJECT_PROCESSES, "a path to other processes");
    cw_side_close(rig->a);
    cw_side_close(rig->b);
    rig->b = rig->a;
    cw_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0, "no socket pair");
    child.pid = fork();
    cw_check(child.pid >= 0, "fork failed");
    if (child.pid == 0) {
        cw_check_in_child();
        close(fds[0]);
        cw_side_open(rig->a);
        put(fds[1], &rig->a->address_length, sizeof(rig->a->address_length));
        put(fds[1], rig->a->address, rig->a->address_length);
        role(rig, fds[1]);
        cw_side_close(rig->a);
        _exit(0);
    }
    close(fds[1]);
    child.fd = fds[0];
    cw_side_open(rig->a);
    return child;
}

static struct cw_end *dial_child(struct cw_rig *rig, const struct child *child)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_side remote;
    const char *why = NULL;

    get(child->fd, &remote.address_length, sizeof(remote.address_length), NULL);
    get(child->fd, remote.address, remote.address_length, NULL);
    cw_check(cw_iface_reachable(rig->a->iface, remote.address, remote.address_length, &why),
             "the other process is not reachable: %s", (why != NULL) ? why : "no reason given");
    return cw_end_dial(rig->a, &remote, &hello);
}

static struct cw_end *connect_child(struct cw_rig *rig, const struct child *child)
{
    struct cw_end *end = dial_child(rig, child);

    cw_rig_wait(rig, &end->opened, 1, "`opened` from another process");
    cw_check(end->opened_status == UCS_OK, "the connection opens with status %d", end->opened_status);
    if (cw_subject.traits & CW_SUBJECT_NEEDS_WATCH) {
        cw_subject.transport->connect->watch(end->conn);
    }
    return end;
}

static struct cw_end *await_parent(struct cw_rig *rig)
{
    cw_rig_wait(rig, &rig->a->accepted, 1, "the dial of the other process");
    return rig->a->last_accepted;
}

static void join(struct child *child, int killed)
{
    int status = 0;

    close(child->fd);
    cw_check(waitpid(child->pid, &status, 0) == child->pid, "waitpid failed");
    if (killed) {
        cw_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the second process ended with status %x", status);
    } else {
        cw_check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the second process ended with status %x", status);
    }
}

static void give_streams(struct cw_rig *rig, struct cw_end *end, uint64_t seed_out, uint64_t seed_in, uint64_t count)
{
    cw_stream_init(&sent, seed_out, rig->a, count);
    cw_stream_init(&seen, seed_in, rig->a, count);
    end->sending = &sent;
    end->receiving = &seen;
}

static int streams_done(void)
{
    return sent.done && seen.done && sent.outstanding == 0;
}

/* Progresses once; when there is nothing to do, sleeps as a program does. */
static void sleep_once(struct cw_rig *rig)
{
    if (cw_side_progress(rig->a) == 0 && cw_side_arm(rig->a) == UCS_OK) {
        cw_check(cw_side_wakes(rig->a, 10000), "asleep for 10 s: a wake-up was lost");
    }
}

/* Streams both ways to the end; `asleep`: spins never. */
static void run_streams(struct cw_rig *rig, struct cw_end *end, int asleep)
{
    uint64_t deadline = cw_deadline();
    uint64_t last = 0;

    while (!streams_done()) {
        unsigned pushed = cw_stream_push(end, asleep ? 7 : 64);

        if (asleep && pushed == 0) {
            sleep_once(rig);
        } else {
            cw_side_progress(rig->a);
        }
        if (seen.next + sent.next != last) {
            last = seen.next + sent.next;
            deadline = cw_deadline();
        }
        cw_deadline_check(deadline, "the rest of a stream between processes");
    }
    cw_check(sent.status == UCS_OK, "a send answers %d", sent.status);
}

static void wait_closed(struct cw_rig *rig, struct cw_end *end)
{
    cw_rig_wait(rig, &end->closed, 1, "`closed` after the other process is gone");
    cw_check(end->closed_status == UCS_ERR_CONNECTION_RESET ||
             (end->closed_status == UCS_ERR_ENDPOINT_TIMEOUT && (cw_subject.traits & CW_SUBJECT_NEEDS_WATCH)),
             "`closed` with status %d", end->closed_status);
    cw_rig_settle(rig);
    cw_check(end->closed == 1, "`closed` came %u times", end->closed);
}

static void role_traffic(struct cw_rig *rig, int fd)
{
    struct cw_end *end = await_parent(rig);

    give_streams(rig, end, 2, 1, cw_scaled(40000));
    barrier(fd, rig->a);
    run_streams(rig, end, 0);
    barrier(fd, rig->a);
    wait_closed(rig, end);
}

RIG_TEST(test_traffic)
{
    struct child child = start(rig, role_traffic);
    struct cw_end *end = connect_child(rig, &child);

    give_streams(rig, end, 1, 2, cw_scaled(40000));
    barrier(child.fd, rig->a);
    run_streams(rig, end, 0);
    barrier(child.fd, rig->a);
    cw_end_close(end);
    cw_rig_settle(rig);
    join(&child, 0);
}

static void role_traffic_asleep(struct cw_rig *rig, int fd)
{
    struct cw_end *end = await_parent(rig);

    give_streams(rig, end, 2, 1, cw_scaled(20000));
    barrier(fd, rig->a);
    run_streams(rig, end, 1);
    barrier(fd, rig->a);
}

RIG_TEST(test_traffic_asleep)
{
    struct child child = start(rig, role_traffic_asleep);
    struct cw_end *end = connect_child(rig, &child);

    give_streams(rig, end, 1, 2, cw_scaled(20000));
    barrier(child.fd, rig->a);
    run_streams(rig, end, 1);
    barrier(child.fd, rig->a);
    wait_closed(rig, end);
    join(&child, 0);
}

/* Time that differs from round to round, so that sends hit every point of the other side's way into sleep. */
static void dawdle(unsigned round)
{
    uint64_t until = cw_clock_ns() + cw_hash_mix(round) % 8000;

    while (cw_clock_ns() < until) {
    }
}

static void send_small(struct cw_end *end)
{
    const struct cw_packet_plan plan = {.slot = CW_SLOT_BCOPY, .length = 8, .seed = 1, .id = 1};
    ucs_status_t status = cw_packet_send(end, &sent, &plan);

    cw_check(status == UCS_OK, "a ping answers %d", status);
}

static void ping_pong(struct cw_rig *rig, struct cw_end *end, unsigned rounds, int first)
{
    unsigned round;

    for (round = 1; round <= rounds; round++) {
        if (first) {
            dawdle(round);
            send_small(end);
        }
        while (end->packets < round) {
            sleep_once(rig);
        }
        if (!first) {
            dawdle(round * 3);
            send_small(end);
        }
    }
}

static void role_ping_pong(struct cw_rig *rig, int fd)
{
    struct cw_end *end = await_parent(rig);

    barrier(fd, rig->a);
    ping_pong(rig, end, cw_scaled(20000), 0);
    barrier(fd, rig->a);
}

RIG_TEST(test_ping_pong_asleep)
{
    struct child child = start(rig, role_ping_pong);
    struct cw_end *end = connect_child(rig, &child);

    memset(&sent, 0, sizeof(sent));
    barrier(child.fd, rig->a);
    ping_pong(rig, end, cw_scaled(20000), 1);
    barrier(child.fd, rig->a);
    join(&child, 0);
}

static void role_wait(struct cw_rig *rig, int fd)
{
    struct cw_end *end = await_parent(rig);
    char byte;

    (void)end;
    barrier(fd, rig->a);
    while (read(fd, &byte, 1) > 0) {
    }
    _exit(0); /* as a program that ends without closing anything */
}

RIG_TEST(test_exit_without_close)
{
    struct child child = start(rig, role_wait);
    struct cw_end *end = connect_child(rig, &child);

    barrier(child.fd, rig->a);
    shutdown(child.fd, SHUT_WR);
    wait_closed(rig, end);
    join(&child, 0);
}

RIG_TEST(test_kill_while_spinning)
{
    struct child child = start(rig, role_wait);
    struct cw_end *end = connect_child(rig, &child);

    barrier(child.fd, rig->a);
    kill(child.pid, SIGKILL);
    wait_closed(rig, end);
    join(&child, 1);
}

RIG_TEST(test_kill_while_asleep)
{
    struct child child = start(rig, role_wait);
    struct cw_end *end = connect_child(rig, &child);

    barrier(child.fd, rig->a);
    cw_side_fall_asleep(rig->a, NULL);
    kill(child.pid, SIGKILL);
    while (!end->closed) {
        sleep_once(rig);
    }
    join(&child, 1);
}

static void role_flood(struct cw_rig *rig, int fd)
{
    struct cw_end *end = await_parent(rig);

    give_streams(rig, end, 2, 1, 100000000);
    barrier(fd, rig->a);
    for (;;) {
        cw_stream_push(end, 64);
        cw_side_progress(rig->a);
    }
}

/* In the middle of heavy traffic both ways: what came before is whole and in order, then the end. */
RIG_TEST(test_kill_in_traffic)
{
    struct child child;
    struct cw_end *end;
    uint64_t deadline, goal;
    unsigned round;

    for (round = 0; round < 5; round++) {
        child = start(rig, role_flood);
        end = connect_child(rig, &child);
        give_streams(rig, end, 1, 2, 100000000);
        barrier(child.fd, rig->a);
        goal = 500 + 700 * round;
        for (deadline = cw_deadline(); seen.next < goal || sent.next < goal;) {
            cw_stream_push(end, 64);
            cw_side_progress(rig->a);
            cw_deadline_check(deadline, "traffic");
        }
        kill(child.pid, SIGKILL);
        for (deadline = cw_deadline(); !end->closed;) {
            cw_stream_push(end, 64);
            cw_side_progress(rig->a);
            cw_deadline_check(deadline, "`closed` after the other process was killed in traffic");
        }
        cw_end_close(end);
        cw_check(sent.outstanding == 0, "%u completions are missing", sent.outstanding);
        join(&child, 1);
    }
}

static void role_stalled(struct cw_rig *rig, int fd)
{
    char byte;

    (void)rig;
    while (read(fd, &byte, 1) > 0) {
    }
    _exit(0);
}

/* The listener is killed before it ever checked the dial. */
RIG_TEST(test_kill_before_accept)
{
    struct child child = start(rig, role_stalled);
    struct cw_end *end = dial_child(rig, &child);
    int i;

    for (i = 0; i < 100; i++) {
        cw_side_progress(rig->a);
    }
    kill(child.pid, SIGKILL);
    cw_rig_wait(rig, &end->opened, 1, "`opened` with an error after the listener was killed");
    cw_check(end->opened_status != UCS_OK && end->opened_status != UCS_ERR_REJECTED,
             "a dial to a killed process ends with status %d", end->opened_status);
    join(&child, 1);
}

RIG_TEST(test_dial_after_kill)
{
    struct child child = start(rig, role_stalled);
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_side remote;
    const char *why;
    struct cw_end *end;
    ucs_status_t status;

    get(child.fd, &remote.address_length, sizeof(remote.address_length), NULL);
    get(child.fd, remote.address, remote.address_length, NULL);
    kill(child.pid, SIGKILL);
    join(&child, 1);
    if (!cw_iface_reachable(rig->a->iface, remote.address, remote.address_length, &why)) {
        return;
    }
    end = cw_end_dial_raw(rig->a, remote.address, remote.address_length, &hello, &status);
    if (end != NULL) {
        cw_rig_wait(rig, &end->opened, 1, "`opened` with an error from a process that is gone");
        cw_check(end->opened_status != UCS_OK, "a process that is gone accepts a dial");
    }
}

/* A peer that is stopped is slow, not dead. */
RIG_TEST(test_stopped_peer)
{
    struct child child = start(rig, role_traffic);
    struct cw_end *end = connect_child(rig, &child);
    uint64_t until;

    give_streams(rig, end, 1, 2, cw_scaled(40000));
    barrier(child.fd, rig->a);
    kill(child.pid, SIGSTOP);
    for (until = cw_clock_ns() + 300000000u; cw_clock_ns() < until;) {
        cw_stream_push(end, 64);
        cw_side_progress(rig->a);
    }
    cw_check(!end->closed, "a stopped process was taken for a dead one");
    kill(child.pid, SIGCONT);
    run_streams(rig, end, 0);
    barrier(child.fd, rig->a);
    cw_end_close(end);
    cw_rig_settle(rig);
    join(&child, 0);
}
