/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_sizes: latency over message size, for many sizes in one run.
 *
 * Usage: bench_sizes [-o tag|am|am_header|stream] [-u usec] [-l largest] [-i step] [-c cpu,cpu] [-1]
 *   -o  operation; am_header sends 16 bytes of header in front of the data
 *   -u  microseconds that each size is measured
 *   -i  step: sizes 1 to 64, then each multiple of step and its two neighbours up to 2,048, then each power of two and
 *       its two neighbours up to the largest
 *   -1  one process that sends to itself (operations tag, am, am_header)
 * Prints lines "size usec": the median over blocks of round trips, halved; with -1 the time from the send to the end of
 * both requests. A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
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

enum { SECONDS = 300, BLOCKS = 21, TAG = 7, AM_ID = 3, HEADER = 16, DENSE = 64, MEDIUM = 2048, MOST_SIZES = 16384 };

enum op { OP_TAG, OP_AM, OP_AM_HEADER, OP_STREAM, NUM_OPS };

static const char *const op_names[NUM_OPS] = {"tag", "am", "am_header", "stream"};

static struct cw_side here;
static ucp_ep_h ep;
static enum op op;
static char *data, *target; /* of sends, of receives */
static char header[HEADER];
static unsigned long ams_received, ams_awaited;
static const ucp_request_param_t none;

static void wait_for(const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, here.worker, NULL));
}

static void on_am_data(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)length;
    (void)user_data;
    cw_side_check("ucp_am_recv_data_nbx", status);
    ams_received++;
    ucp_request_free(request);
}

static ucs_status_t on_am(void *arg, const void *head, size_t head_length, void *payload, size_t length,
                          const ucp_am_recv_param_t *param)
{
    const ucp_request_param_t receive = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv_am = on_am_data,
    };
    ucs_status_ptr_t request;

    (void)arg;
    (void)head;
    (void)head_length;
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        memcpy(target, payload, length);
        ams_received++;
        return UCS_OK;
    }
    request = ucp_am_recv_data_nbx(here.worker, payload, target, length, &receive);
    cw_side_check("ucp_am_recv_data_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
    return UCS_INPROGRESS;
}

static ucs_status_ptr_t start_send(size_t size)
{
    switch (op) {
    case OP_TAG:
        return ucp_tag_send_nbx(ep, data, size, TAG, &none);
    case OP_AM:
        return ucp_am_send_nbx(ep, AM_ID, NULL, 0, data, size, &none);
    case OP_AM_HEADER:
        return ucp_am_send_nbx(ep, AM_ID, header, sizeof(header), data, size, &none);
    default:
        return ucp_stream_send_nbx(ep, data, size, &none);
    }
}

static void receive(size_t size)
{
    static const ucp_request_param_t whole = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags = UCP_STREAM_RECV_FLAG_WAITALL,
    };
    size_t length;

    if (op == OP_TAG) {
        wait_for("ucp_tag_recv_nbx", ucp_tag_recv_nbx(here.worker, target, size, TAG, UINT64_MAX, &none));
    } else if (op == OP_STREAM) {
        wait_for("ucp_stream_recv_nbx", ucp_stream_recv_nbx(ep, target, size, &length, &whole));
    } else {
        ams_awaited++;
        while (ams_received < ams_awaited) {
            ucp_worker_progress(here.worker);
        }
    }
}

static void round_trip(size_t size, bool first)
{
    if (first) {
        wait_for("send", start_send(size));
    }
    receive(size);
    if (!first) {
        wait_for("send", start_send(size));
    }
}

static void to_itself(size_t size)
{
    ucs_status_ptr_t posted = NULL;

    if (op == OP_TAG) {
        posted = ucp_tag_recv_nbx(here.worker, target, size, TAG, UINT64_MAX, &none);
    } else {
        ams_awaited++;
    }
    wait_for("send", start_send(size));
    wait_for("ucp_tag_recv_nbx", posted);
    while (ams_received < ams_awaited) {
        ucp_worker_progress(here.worker);
    }
}

static int compare(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

/* Microseconds of one round. */
static double run_block(size_t size, unsigned long rounds, bool alone, bool first)
{
    const uint64_t started = cw_clock_ns();

    for (unsigned long i = 0; i < rounds; i++) {
        if (alone) {
            to_itself(size);
        } else {
            round_trip(size, first);
        }
    }
    return (double)(cw_clock_ns() - started) / 1e3 / (double)rounds;
}

/* The first process decides how many rounds a block has and sends the number to the other one. */
static void measure(size_t size, double usec, bool alone, bool first, const int pipe_fds[2])
{
    unsigned long rounds = 1;
    double times[BLOCKS];

    run_block(size, 2, alone, first);
    if (first) {
        times[0] = run_block(size, 8, alone, first);
        rounds = 1 + (unsigned long)(usec / BLOCKS / times[0]);
        if (!alone && write(pipe_fds[1], &rounds, sizeof(rounds)) != sizeof(rounds)) {
            exit(1);
        }
    } else {
        run_block(size, 8, alone, first);
        if (read(pipe_fds[0], &rounds, sizeof(rounds)) != sizeof(rounds)) {
            exit(1);
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        times[i] = run_block(size, rounds, alone, first);
    }
    if (first) {
        qsort(times, BLOCKS, sizeof(times[0]), compare);
        printf("%zu %.4f\n", size, times[BLOCKS / 2] / (alone ? 1 : 2));
    }
}

static int compare_sizes(const void *left, const void *right)
{
    const size_t a = *(const size_t *)left, b = *(const size_t *)right;

    return (a > b) - (a < b);
}

static size_t add_three(size_t *sizes, size_t num, size_t middle)
{
    for (size_t size = middle - 1; size <= middle + 1 && num < MOST_SIZES; size++) {
        sizes[num++] = size;
    }
    return num;
}

/* Ascending, each once; returns how many. */
static size_t list_sizes(size_t *sizes, size_t step, size_t largest)
{
    size_t num = 0, unique = 0;

    for (size_t size = 1; size <= DENSE; size++) {
        sizes[num++] = size;
    }
    for (size_t middle = DENSE; middle < MEDIUM; middle += step) {
        num = add_three(sizes, num, middle);
    }
    for (size_t middle = MEDIUM; middle <= largest; middle *= 2) {
        num = add_three(sizes, num, middle);
    }
    qsort(sizes, num, sizeof(sizes[0]), compare_sizes);
    for (size_t i = 0; i < num; i++) {
        if (unique == 0 || sizes[i] != sizes[unique - 1]) {
            sizes[unique++] = sizes[i];
        }
    }
    return unique;
}

static bool find_op(const char *name)
{
    for (int i = 0; i < NUM_OPS; i++) {
        if (strcmp(name, op_names[i]) == 0) {
            op = (enum op)i;
            return true;
        }
    }
    return false;
}

static void set_am_handler(void)
{
    const ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = AM_ID,
        .cb = on_am,
    };

    cw_side_check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(here.worker, &param));
}

int main(int argc, char **argv)
{
    static size_t sizes[MOST_SIZES];
    size_t largest = 16 << 20, step = 16, memory, num_sizes;
    double usec = 2000;
    bool alone = false, first = true, bad = false;
    int cpus[2] = {-1, -1}, there[2], back[2], rounds[2], letter;
    pid_t pid = 0;

    cw_say_setup("bench_sizes", false);
    while ((letter = getopt(argc, argv, "o:u:l:i:c:1")) != -1) {
        if (letter == '1') {
            alone = true;
        } else if (letter == 'u') {
            usec = strtod(optarg, NULL);
        } else if (letter == 'l') {
            largest = strtoul(optarg, NULL, 10);
        } else if (letter == 'i') {
            step = strtoul(optarg, NULL, 10);
        } else if ((letter != 'o' || !find_op(optarg)) &&
                   (letter != 'c' || sscanf(optarg, "%d,%d", &cpus[0], &cpus[1]) != 2)) {
            bad = true;
        }
    }
    if (bad || optind != argc || usec <= 0 || step < 1 || step > MEDIUM || (alone && op == OP_STREAM)) {
        fprintf(stderr, "Usage: bench_sizes [-o tag|am|am_header|stream] [-u usec] [-l largest] [-i step] "
                        "[-c cpu,cpu] [-1]\n");
        return 2;
    }
    if (pipe(there) != 0 || pipe(back) != 0 || pipe(rounds) != 0) {
        cw_say_error("no pipe");
        return 1;
    }
    num_sizes = list_sizes(sizes, step, largest);
    memory = (sizes[num_sizes - 1] + 4095) / 4096 * 4096;
    data = aligned_alloc(4096, 2 * memory);
    if (data == NULL) {
        cw_say_error("no memory");
        return 1;
    }
    if (!alone) {
        pid = fork();
        if (pid < 0) {
            cw_say_error("no second process");
            return 1;
        }
        first = (pid != 0);
        if (!first) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
        }
    }
    cw_watchdog_start(SECONDS, 1);
    target = alone ? data + memory : data; /* a message that returns is sent on from where it arrived */
    memset(data, 1, 2 * memory);
    cw_side_bind(cpus[!first]);
    cw_side_open(&here, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM);
    if (op == OP_AM || op == OP_AM_HEADER) {
        set_am_handler();
    }
    if (alone) { /* reads the address that it wrote itself */
        ep = cw_side_meet(&here, there[0], there[1]);
    } else {
        ep = first ? cw_side_meet(&here, back[0], there[1]) : cw_side_meet(&here, there[0], back[1]);
    }
    for (size_t i = 0; i < num_sizes; i++) {
        measure(sizes[i], usec, alone, first, rounds);
    }
    fflush(stdout);
    while (!first) { /* what it sent last may be under way */
        ucp_worker_progress(here.worker);
    }
    if (!alone) {
        kill(pid, SIGKILL);
    }
    _exit(0);
}
