/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_sgl: what putting or getting many pieces with one request (UCP_DATATYPE_SGL) saves beside one call for each.
 *
 * Usage: bench_sgl [-n pieces] [-s bytes] [-r rounds] [-g] [-l] [-b]
 *   -g: get instead of put; -l: memory of the owner that the library allocated, which peers on this machine may map;
 *   -b: bare limits as well (sgl_bare.h).
 * Prints "key value" lines: medians of the time until a flush is complete, of single calls, of one call for all, and
 * the ratio. The owner is a process of its own, in progress. UCX_TLS chooses the transport. Every round measures all
 * kinds in turn, each time beginning with another one, because each finds caches as the one before has left them.
 */
#define _GNU_SOURCE
#include "say.h"
#include "sgl_bare.h"
#include "side.h"
#include "stream.h"
#include "ticks.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, MOST_ROUNDS = 1000, MOST_KEY = 256, STEP = 7919 };
enum { SINGLE, TOGETHER, BARE, KINDS = BARE + CW_BARE_COUNT };

static struct cw_side side;
static size_t pieces = 1000, bytes = 4096;
static int gets, allocated, bare;

struct memory {
    uint64_t address;
    size_t key_length;
    char key[MOST_KEY];
};

static void *allocate(size_t length)
{
    void *ptr = calloc(1, length);

    if (ptr == NULL) {
        cw_say_error("no memory for %zu bytes", length);
        exit(1);
    }
    return ptr;
}

static void transfer(int out, int fd, void *data, size_t length)
{
    ssize_t part;

    for (size_t done = 0; done < length; done += (size_t)part) {
        part = out ? write(fd, (char *)data + done, length - done) : read(fd, (char *)data + done, length - done);
        if (part <= 0) {
            exit(1); /* the other one is gone */
        }
    }
}

/* Registers memory, sends its key, and makes progress for as long as the parent lives. */
static void own(int from, int to)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                                 UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                   .length = pieces * bytes,
                                   .flags = allocated ? UCP_MEM_MAP_ALLOCATE : 0};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    struct memory memory = {0};
    ucp_mem_h memh;
    void *key;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    cw_side_open(&side, UCP_FEATURE_RMA);
    params.address = allocated ? NULL : cw_stream_memory(pieces * bytes);
    cw_side_check("ucp_mem_map", ucp_mem_map(side.context, &params, &memh));
    cw_side_check("ucp_mem_query", ucp_mem_query(memh, &attr));
    memory.address = (uintptr_t)attr.address;
    cw_side_check("ucp_rkey_pack", ucp_rkey_pack(side.context, memh, &key, &memory.key_length));
    if (memory.key_length > sizeof(memory.key)) {
        cw_say_error("a key of %zu bytes", memory.key_length);
        exit(1);
    }
    memcpy(memory.key, key, memory.key_length);
    ucp_rkey_buffer_release(key);
    transfer(1, to, &memory, sizeof(memory)); /* before they meet, for that may read ahead */
    (void)cw_side_meet(&side, from, to);
    if (bare) {
        cw_bare_join(false, attr.address);
    }
    for (;;) {
        ucp_worker_progress(side.worker);
        if (bare) {
            cw_bare_serve();
        }
    }
}

struct lists {
    void **buffers;
    size_t *lengths;
    uint64_t *addresses;
    ucp_rkey_h *rkeys;
};

static void await(const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, side.worker, NULL));
}

/* Freed at once: the flush covers them. */
static void post_each(ucp_ep_h ep, const struct lists *lists)
{
    static const ucp_request_param_t none;
    ucs_status_ptr_t request;

    for (size_t i = 0; i < pieces; i++) {
        request = gets ? ucp_get_nbx(ep, lists->buffers[i], bytes, lists->addresses[i], lists->rkeys[i], &none)
                       : ucp_put_nbx(ep, lists->buffers[i], bytes, lists->addresses[i], lists->rkeys[i], &none);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        } else {
            cw_side_check("a single piece", UCS_PTR_STATUS(request));
        }
    }
}

static void post_all(ucp_ep_h ep, const struct lists *lists)
{
    const ucp_dt_local_sgl_t local = {.field_mask = UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS,
                                      .buffers = lists->buffers,
                                      .lengths = lists->lengths};
    const ucp_dt_remote_sgl_t remote = {.field_mask = UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                                                      UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS,
                                        .remote_addrs = lists->addresses,
                                        .lengths = lists->lengths,
                                        .rkeys = lists->rkeys};
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                                                       UCP_OP_ATTR_FIELD_REMOTE,
                                       .datatype = ucp_dt_make_sgl(),
                                       .remote_datatype = ucp_dt_make_sgl(),
                                       .remote = &remote};

    const uint64_t nowhere = UCP_REMOTE_ADDR_INVALID;

    await("all pieces", gets ? ucp_get_nbx(ep, (void *)(uintptr_t)&local, pieces, nowhere, UCP_RKEY_INVALID, &param)
                             : ucp_put_nbx(ep, &local, pieces, nowhere, UCP_RKEY_INVALID, &param));
}

/* What is measured is chosen by `kind`; the others say where the owner is. */
struct target {
    ucp_ep_h ep;
    pid_t owner;
    char *there;
};

static uint64_t measure(const struct target *target, const struct lists *lists, unsigned kind)
{
    static const ucp_request_param_t none;
    const uint64_t start = cw_ticks_now();

    if (kind >= BARE) {
        cw_bare_put((enum cw_bare_method)(kind - BARE), target->owner, target->there);
    } else {
        (kind == SINGLE ? post_each : post_all)(target->ep, lists);
        await("ucp_ep_flush_nbx", ucp_ep_flush_nbx(target->ep, &none));
    }
    cw_watchdog_beat();
    return cw_ticks_now() - start;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static double median_us(uint64_t *times, unsigned rounds)
{
    const unsigned middle = rounds / 2;

    qsort(times, rounds, sizeof(times[0]), by_value);
    return (double)times[middle] * cw_ticks_ns() / 1e3;
}

static void run(int from, int to, pid_t owner, unsigned rounds)
{
    static uint64_t times[KINDS][MOST_ROUNDS];
    const unsigned kinds = bare ? KINDS : BARE;
    struct lists lists = {.buffers = allocate(pieces * sizeof(*lists.buffers)),
                        .lengths = allocate(pieces * sizeof(*lists.lengths)),
                        .addresses = allocate(pieces * sizeof(*lists.addresses)),
                        .rkeys = allocate(pieces * sizeof(*lists.rkeys))};
    char *local = cw_stream_memory(pieces * bytes);
    struct target target;
    struct memory memory;
    ucp_rkey_h rkey;

    cw_side_open(&side, UCP_FEATURE_RMA);
    transfer(0, from, &memory, sizeof(memory));
    target = (struct target){cw_side_meet(&side, from, to), owner, (char *)(uintptr_t)memory.address};
    cw_side_check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(target.ep, memory.key, &rkey));
    if (bare) {
        cw_bare_join(true, local);
    }
    for (size_t i = 0; i < pieces; i++) {
        const size_t j = (i * STEP) % pieces; /* not in the order of addresses */

        lists.buffers[i] = local + i * bytes;
        lists.lengths[i] = bytes;
        lists.addresses[i] = memory.address + j * bytes;
        lists.rkeys[i] = rkey;
    }
    for (unsigned i = 0; i < rounds + 3; i++) { /* the first ones warm up */
        for (unsigned k = 0; k < kinds; k++) {
            times[(i + k) % kinds][i % rounds] = measure(&target, &lists, (i + k) % kinds);
        }
    }
    const double single = median_us(times[SINGLE], rounds), together = median_us(times[TOGETHER], rounds);

    printf("pieces %zu\nbytes %zu\nsingle_us %.1f\ntogether_us %.1f\nratio %.2f\n", pieces, bytes, single, together,
           single / together);
    for (unsigned k = BARE; k < kinds; k++) {
        printf("%s_us %.1f\n", cw_bare_names[k - BARE], median_us(times[k], rounds));
    }
}

static int usage(void)
{
    fprintf(stderr, "Usage: bench_sgl [-n pieces] [-s bytes] [-r rounds] [-g] [-l] [-b]\n");
    return 2;
}

int main(int argc, char **argv)
{
    unsigned long rounds = 101;
    int down[2], up[2], letter;
    pid_t owner;

    cw_say_setup("bench_sgl", false);
    while ((letter = getopt(argc, argv, "n:s:r:glb")) != -1) {
        switch (letter) {
        case 'n':
            pieces = strtoul(optarg, NULL, 10);
            break;
        case 's':
            bytes = strtoul(optarg, NULL, 10);
            break;
        case 'r':
            rounds = strtoul(optarg, NULL, 10);
            break;
        case 'g':
            gets = 1;
            break;
        case 'l':
            allocated = 1;
            break;
        case 'b':
            bare = 1;
            break;
        default:
            return usage();
        }
    }
    if (optind != argc || pieces < 1 || pieces > 1000000 || bytes < 1 || bytes > (1u << 20) || rounds < 1 ||
        rounds > MOST_ROUNDS) {
        return usage();
    }
    if (bare) {
        cw_bare_open(pieces, bytes, STEP);
    }
    if (pipe(down) != 0 || pipe(up) != 0 || (owner = fork()) < 0) {
        cw_say_error("no second process");
        return 1;
    }
    if (owner == 0) {
        close(down[1]);
        close(up[0]);
        own(down[0], up[1]);
    }
    close(down[0]);
    close(up[1]);
    cw_watchdog_start(SECONDS, 1);
    cw_ticks_start();
    run(up[0], down[1], owner, (unsigned)rounds);
    fflush(stdout);
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    _exit(0);
}
