/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_many: whether anybody starves when many workers send to one. The senders share a process and get their turns
 * from it one after the other; each keeps some messages under way, so what the receiver takes decides.
 *
 * Usage: bench_many [-n senders] [-s bytes] [-m milliseconds] [-c cpu,cpu]
 * Prints "key value" lines: messages per second of all, the least and the most that one sender got through as parts of
 * the mean, and the longest time that the receiver heard nothing of some sender. A plain program of the public
 * interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, MOST = 1000, SLOTS = 64, WINDOW = 4, TAG_BITS = 16 };

/* What the receiver knows of a sender. */
struct sender {
    unsigned long count;
    uint64_t heard_ns;
    uint64_t longest_ns;
};

static struct cw_side here;
static struct sender senders[MOST];
static unsigned num_heard;
static bool counting;

static void *memory_new(size_t length)
{
    void *memory = aligned_alloc(4096, (length + 4095) / 4096 * 4096);

    if (memory == NULL) {
        cw_say_error("no memory");
        exit(1);
    }
    memset(memory, 1, length);
    return memory;
}

static void heard(struct sender *sender, uint64_t now)
{
    num_heard += sender->heard_ns == 0;
    if (counting) {
        sender->count++;
        if (now - sender->heard_ns > sender->longest_ns) {
            sender->longest_ns = now - sender->heard_ns;
        }
    }
    sender->heard_ns = now;
}

static void on_receive(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    cw_side_check("ucp_tag_recv_nbx", status);
    heard(&senders[info->sender_tag % MOST], cw_clock_ns());
    *(bool *)user_data = true;
    ucp_request_free(request);
}

static void post(void *memory, size_t bytes, bool *over)
{
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_receive,
        .user_data = over,
    };
    ucs_status_ptr_t request;

    *over = false;
    request = ucp_tag_recv_nbx(here.worker, memory, bytes, 0, 0, &param);
    cw_side_check("ucp_tag_recv_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
}

static void report(unsigned num_senders, uint64_t began, uint64_t ended)
{
    unsigned long all = 0, least = UINT64_MAX, most = 0;
    uint64_t longest = 0;
    double mean;

    for (unsigned i = 0; i < num_senders; i++) {
        if (ended - senders[i].heard_ns > senders[i].longest_ns) {
            senders[i].longest_ns = ended - senders[i].heard_ns;
        }
        all += senders[i].count;
        least = (senders[i].count < least) ? senders[i].count : least;
        most = (senders[i].count > most) ? senders[i].count : most;
        longest = (senders[i].longest_ns > longest) ? senders[i].longest_ns : longest;
    }
    mean = (all > 0) ? (double)all / num_senders : 1;
    printf("rate %.0f\nleast %.3f\nmost %.3f\nlongest_ms %.1f\n", (double)all * 1e9 / (double)(ended - began),
           (double)least / mean, (double)most / mean, (double)longest / 1e6);
}

static void receive(unsigned num_senders, size_t bytes, uint64_t length_ns)
{
    uint64_t began = 0, now;
    void *memory[SLOTS];
    bool over[SLOTS];
    int i;

    for (i = 0; i < SLOTS; i++) {
        memory[i] = memory_new(bytes);
        post(memory[i], bytes, &over[i]);
    }
    do {
        ucp_worker_progress(here.worker);
        for (i = 0; i < SLOTS; i++) {
            if (over[i]) {
                post(memory[i], bytes, &over[i]);
            }
        }
        now = cw_clock_ns();
        if (!counting && num_heard == num_senders) {
            counting = true;
            began = now;
            for (unsigned s = 0; s < num_senders; s++) {
                senders[s].heard_ns = now;
            }
        }
    } while (!counting || now - began < length_ns);
    report(num_senders, began, now);
}

static void send_all(unsigned num_senders, size_t bytes, const void *address)
{
    static const ucp_request_param_t none;
    static ucs_status_ptr_t requests[MOST][WINDOW];
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};
    struct cw_side sides[MOST];
    void *memory = memory_new(bytes);
    ucp_ep_h eps[MOST];

    for (unsigned i = 0; i < num_senders; i++) {
        sides[i] = here;
        cw_side_open_worker(&sides[i]);
        cw_side_check("ucp_ep_create", ucp_ep_create(sides[i].worker, &params, &eps[i]));
    }
    for (;;) {
        for (unsigned i = 0; i < num_senders; i++) {
            for (int w = 0; w < WINDOW; w++) {
                if (cw_side_is_over("ucp_tag_send_nbx", &requests[i][w])) {
                    requests[i][w] = ucp_tag_send_nbx(eps[i], memory, bytes, i, &none);
                }
            }
            ucp_worker_progress(sides[i].worker);
        }
    }
}

static int cross(int fds[2], void *bytes, size_t length, bool to)
{
    return (to ? write(fds[1], bytes, length) : read(fds[0], bytes, length)) == (ssize_t)length;
}

int main(int argc, char **argv)
{
    unsigned num_senders = 100;
    unsigned long milliseconds = 1000;
    size_t bytes = 8192, length = 0;
    int cpus[2] = {-1, -1}, fds[2], letter;
    ucp_address_t *address = NULL;
    pid_t pid;

    cw_say_setup("bench_many", false);
    while ((letter = getopt(argc, argv, "n:s:m:c:")) != -1) {
        if (letter == 'n') {
            num_senders = (unsigned)strtoul(optarg, NULL, 10);
        } else if (letter == 's') {
            bytes = strtoul(optarg, NULL, 10);
        } else if (letter == 'm') {
            milliseconds = strtoul(optarg, NULL, 10);
        } else if (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2) {
            num_senders = 0;
        }
    }
    if (optind != argc || num_senders < 1 || num_senders > MOST || bytes < 1 || milliseconds > SECONDS * 500) {
        fprintf(stderr, "Usage: bench_many [-n senders (at most %d)] [-s bytes] [-m milliseconds] [-c cpu,cpu]\n",
                MOST);
        return 2;
    }
    if (pipe(fds) != 0) {
        cw_say_error("no pipe");
        return 1;
    }
    pid = fork();
    if (pid < 0) {
        cw_say_error("no second process");
        return 1;
    }
    cw_watchdog_start(SECONDS, 1);
    cw_side_bind(cpus[pid == 0]);
    cw_side_open(&here, UCP_FEATURE_TAG);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!cross(fds, &length, sizeof(length), false) || (address = memory_new(length)) == NULL ||
            !cross(fds, address, length, false)) {
            return 1;
        }
        send_all(num_senders, bytes, address);
    }
    cw_side_check("ucp_worker_get_address", ucp_worker_get_address(here.worker, &address, &length));
    if (!cross(fds, &length, sizeof(length), true) || !cross(fds, address, length, true)) {
        cw_say_error("no address to send");
        return 1;
    }
    receive(num_senders, bytes, (uint64_t)milliseconds * 1000000);
    fflush(stdout);
    kill(pid, SIGKILL);
    _exit(0);
}
