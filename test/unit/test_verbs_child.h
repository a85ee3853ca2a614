/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer of the verbs transport whose process ends while the device says nothing: instead of a socket of this process,
 * the watch is given one of a child that can be killed.
 */
#ifndef CW_TEST_VERBS_CHILD_H
#define CW_TEST_VERBS_CHILD_H

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "../devices/verbs_stand_in.h"
#include "os/watch.h"

static uint16_t child_port; /* 0: there is no child */
static int failures;        /* calls of the error handler */
static ucs_status_t failure;

static inline void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg, (void)ep;
    failures++;
    failure = status;
}

/* The device is Ethernet then, on which processes are watched. */
static inline pid_t start_child(void)
{
    static const uint8_t loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
    const struct cw_net_address here = {.family = CW_NET_IPV4, .bytes = {127, 0, 0, 1}};
    const struct cw_net_options none = {0};
    int fds[2];
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (cw_net_listen(&here, 1, &none, &child_port) < 0 ||
            write(fds[1], &child_port, sizeof(child_port)) != sizeof(child_port)) {
            _exit(1);
        }
        for (;;) {
            (void)pause();
        }
    }
    assert_int_equal(read(fds[0], &child_port, sizeof(child_port)), sizeof(child_port));
    close(fds[0]);
    close(fds[1]);
    device_is.is_ethernet = 1;
    memcpy(device_is.gid, loopback, sizeof(loopback));
    return child;
}

static inline void kill_child(pid_t child)
{
    int status;

    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* When all workers are closed. */
static inline void forget_child(void)
{
    child_port = 0;
    device_is.is_ethernet = 0;
}

#endif
