/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_first: from the start of a process to its first message being received by a peer that runs already: loading of
 * the library, ucp_init, worker, endpoint, connection, message.
 *
 * Usage: bench_first [-n processes]
 * Prints "key value" lines: the median and the least. A plain program of the public interface: LD_LIBRARY_PATH chooses
 * the library. The program starts itself with the word "child"; the address comes on its standard input.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, TAG = 5, MOST = 1000, MOST_ADDRESS = 4096 };

static const ucp_request_param_t none;

static int be_child(void)
{
    char address[MOST_ADDRESS];
    uint64_t word = 42;
    struct cw_side here = {.mode = UCS_THREAD_MODE_SINGLE};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (void *)address};
    ucp_ep_h ep;

    if (read(0, address, sizeof(address)) <= 0) {
        return 1;
    }
    cw_side_open(&here, UCP_FEATURE_TAG);
    cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &ep));
    cw_side_check("ucp_tag_send_nbx",
                  cw_side_await(ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none), here.worker, NULL));
    cw_side_check("ucp_ep_flush_nbx", cw_side_await(ucp_ep_flush_nbx(ep, &none), here.worker, NULL));
    fflush(stdout);
    _exit(0);
}

static void fail(const char *what, int error)
{
    cw_say_error("%s: %s", what, strerror(error));
    exit(1);
}

/* Nanoseconds from here to the message. */
static uint64_t run_one(struct cw_side *here, const ucp_worker_attr_t *attr)
{
    char *const arguments[] = {"bench_first", "child", NULL};
    posix_spawn_file_actions_t actions;
    ucs_status_ptr_t receive;
    uint64_t word = 0, start_ns, end_ns;
    int ends[2], error, status;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) != 0 ||
        write(ends[1], attr->address, attr->address_length) != (ssize_t)attr->address_length) {
        fail("no pipe", errno);
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], 0);
    receive = ucp_tag_recv_nbx(here->worker, &word, sizeof(word), TAG, UINT64_MAX, &none);
    start_ns = cw_clock_ns();
    error = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    if (error != 0) {
        fail("no process", error);
    }
    cw_side_check("ucp_tag_recv_nbx", cw_side_await(receive, here->worker, NULL));
    end_ns = cw_clock_ns();
    while ((error = waitpid(pid, &status, WNOHANG)) == 0) {
        ucp_worker_progress(here->worker); /* its flush may need us */
    }
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    close(ends[1]);
    if (error < 0 || status != 0 || word != 42) {
        cw_say_error("the started process failed");
        exit(1);
    }
    return end_ns - start_ns;
}

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    struct cw_side here = {.mode = UCS_THREAD_MODE_SINGLE};
    unsigned long processes = 5, middle, i;
    uint64_t times[MOST];
    int letter;

    cw_say_setup("bench_first", false);
    if (argc == 2 && strcmp(argv[1], "child") == 0) {
        return be_child();
    }
    while ((letter = getopt(argc, argv, "n:")) != -1) {
        processes = (letter == 'n') ? strtoul(optarg, NULL, 10) : 0;
    }
    if (optind != argc || processes < 1 || processes > MOST) {
        fprintf(stderr, "Usage: bench_first [-n processes (at most %d)]\n", MOST);
        return 2;
    }
    cw_watchdog_start(SECONDS, 1);
    cw_side_open(&here, UCP_FEATURE_TAG);
    cw_side_check("ucp_worker_query", ucp_worker_query(here.worker, &attr));
    if (attr.address_length > MOST_ADDRESS) {
        cw_say_error("an address of %zu bytes", attr.address_length);
        return 1;
    }
    (void)run_one(&here, &attr); /* files and pages are in memory */
    for (i = 0; i < processes; i++) {
        times[i] = run_one(&here, &attr);
    }
    qsort(times, processes, sizeof(times[0]), compare);
    middle = processes / 2;
    printf("first_message_us %.1f\nleast_us %.1f\n", (double)times[middle] / 1e3, (double)times[0] / 1e3);
    ucp_worker_release_address(here.worker, attr.address);
    fflush(stdout);
    _exit(0);
}
