/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_mixed: the way of messages of 8 B while long ones go the same way. The sender keeps some long messages under
 * way and sends a short one now and then, with the time at which it does; all receives are posted before.
 *
 * Usage: bench_mixed [-n messages] [-m alone|same|other] [-s bytes] [-c cpu,cpu]
 *   -m  no long messages; on the same endpoint as the short ones; on another one of the same workers
 * Prints "key value" lines: median, 90th and 99th percentile of the time from the call that sends a short message to
 * its receive's callback, and the bandwidth of the long ones. A plain program of the public interface: LD_LIBRARY_PATH
 * chooses the library.
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

enum { SECONDS = 30, SHORTS = 16, LONGS = 4, PAUSE_NS = 20000, WARM_UP = 200, MOST = 1000000, EPS = 2 };
enum { TAG_SHORT = 1, TAG_LONG = 2 };

enum how { ALONE, SAME, OTHER };

/* A receive. */
struct slot {
    void *memory;
    size_t length;
    ucp_tag_t tag;
    bool over;
};

static struct cw_side here;
static uint64_t *times;
static unsigned long num_times, wanted_times, num_longs;

static void on_receive(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct slot *slot = user_data;
    uint64_t sent_ns;

    (void)info;
    cw_side_check("ucp_tag_recv_nbx", status);
    if (slot->tag == TAG_LONG) {
        num_longs++;
    } else if (num_times < wanted_times) {
        memcpy(&sent_ns, slot->memory, sizeof(sent_ns));
        times[num_times++] = cw_clock_ns() - sent_ns;
    }
    slot->over = true;
    ucp_request_free(request);
}

static void post(struct slot *slot)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_receive,
        .user_data = slot,
    };
    ucs_status_ptr_t request;

    slot->over = false;
    request = ucp_tag_recv_nbx(here.worker, slot->memory, slot->length, slot->tag, UINT64_MAX, &param);
    cw_side_check("ucp_tag_recv_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
}

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

static int compare(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static double percentile(unsigned long per_mille)
{
    const unsigned long last = num_times - WARM_UP - 1, at = WARM_UP + last * per_mille / 1000;

    return (double)times[at] / 1e3;
}

static void measure(unsigned long messages, size_t bytes)
{
    struct slot slots[SHORTS + LONGS];
    uint64_t started = 0;
    unsigned long longs_before = 0;
    double seconds, megabytes;
    int i;

    wanted_times = messages + WARM_UP;
    times = memory_new(wanted_times * sizeof(*times));
    for (i = 0; i < SHORTS + LONGS; i++) {
        slots[i].tag = (i < SHORTS) ? TAG_SHORT : TAG_LONG;
        slots[i].length = (i < SHORTS) ? sizeof(uint64_t) : bytes;
        slots[i].memory = memory_new(slots[i].length);
        post(&slots[i]);
    }
    while (num_times < wanted_times) {
        ucp_worker_progress(here.worker);
        for (i = 0; i < SHORTS + LONGS; i++) {
            if (slots[i].over) {
                post(&slots[i]);
            }
        }
        if (started == 0 && num_times >= WARM_UP) {
            started = cw_clock_ns();
            longs_before = num_longs;
        }
    }
    started = cw_clock_ns() - started;
    qsort(times + WARM_UP, messages, sizeof(times[0]), compare);
    seconds = (double)started / 1e9;
    megabytes = (double)(num_longs - longs_before) * (double)bytes / (double)(1 << 20);
    printf("short_us %.3f\nshort_p90_us %.3f\nshort_p99_us %.3f\nlong_mbps %.0f\n", percentile(500), percentile(900),
           percentile(990), megabytes / seconds);
}

static void send_both(ucp_ep_h shorts, ucp_ep_h longs, size_t bytes)
{
    static const ucp_request_param_t none;
    ucs_status_ptr_t long_requests[LONGS] = {NULL}, request = NULL;
    void *memory[LONGS];
    uint64_t word = 0, now;
    int i;

    for (i = 0; i < LONGS; i++) {
        memory[i] = memory_new(bytes);
    }
    for (;;) {
        for (i = 0; longs != NULL && i < LONGS; i++) {
            if (cw_side_is_over("ucp_tag_send_nbx", &long_requests[i])) {
                long_requests[i] = ucp_tag_send_nbx(longs, memory[i], bytes, TAG_LONG, &none);
            }
        }
        now = cw_clock_ns();
        if (now - word >= PAUSE_NS && cw_side_is_over("ucp_tag_send_nbx", &request)) {
            word = now;
            request = ucp_tag_send_nbx(shorts, &word, sizeof(word), TAG_SHORT, &none);
        }
        ucp_worker_progress(here.worker);
    }
}

static bool find_how(const char *name, enum how *how)
{
    static const char *const names[] = {"alone", "same", "other"};

    for (int i = ALONE; i <= OTHER; i++) {
        if (strcmp(name, names[i]) == 0) {
            *how = (enum how)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    unsigned long messages = 5000;
    size_t bytes = 1 << 20;
    enum how how = OTHER;
    int cpus[2] = {-1, -1}, there[EPS][2], back[EPS][2], letter;
    ucp_ep_h eps[EPS];
    pid_t pid;

    cw_say_setup("bench_mixed", false);
    while ((letter = getopt(argc, argv, "n:m:s:c:")) != -1) {
        if (letter == 'n') {
            messages = strtoul(optarg, NULL, 10);
        } else if (letter == 's') {
            bytes = strtoul(optarg, NULL, 10);
        } else if ((letter != 'm' || !find_how(optarg, &how)) &&
                   (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2)) {
            messages = 0;
        }
    }
    if (optind != argc || messages < 1 || messages > MOST || bytes < 1) {
        fprintf(stderr, "Usage: bench_mixed [-n messages (at most %d)] [-m alone|same|other] [-s bytes] [-c cpu,cpu]\n",
                MOST);
        return 2;
    }
    for (int i = 0; i < EPS; i++) { /* one address in a pipe, so that they are not read together */
        if (pipe(there[i]) != 0 || pipe(back[i]) != 0) {
            cw_say_error("no pipe");
            return 1;
        }
    }
    pid = fork();
    if (pid < 0) {
        cw_say_error("no second process");
        return 1;
    }
    cw_watchdog_start(SECONDS, 1);
    cw_side_bind(cpus[pid == 0]);
    cw_side_open(&here, UCP_FEATURE_TAG);
    for (int i = 0; i < EPS; i++) {
        eps[i] = (pid == 0) ? cw_side_meet(&here, there[i][0], back[i][1]) :
                              cw_side_meet(&here, back[i][0], there[i][1]);
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (how == ALONE) {
            send_both(eps[0], NULL, bytes);
        } else {
            send_both(eps[0], (how == SAME) ? eps[0] : eps[1], bytes);
        }
    }
    measure(messages, bytes);
    fflush(stdout);
    kill(pid, SIGKILL);
    _exit(0);
}
