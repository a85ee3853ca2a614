/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_gpu: bare costs of the CUDA driver on the first GPU, and what the library adds to find the type of memory of
 * the host. bench/gpu.sh uses it.
 *
 * Usage: bench_gpu [-s bytes] [-n repetitions]
 * Prints "name value" lines: bandwidths of copies in MB/s (the best of the repetitions), and times in microseconds.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SMALL = 8, CALLS = 2000, MEMORY_TYPE = 2 };

/* Functions of the driver; each answers 0 or an error. */
static struct {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(uint64_t *ptr, size_t length);
    int (*free)(uint64_t ptr);
    int (*host_alloc)(void **ptr, size_t length, unsigned flags);
    int (*copy)(uint64_t to, uint64_t from, size_t length);
    int (*attributes)(unsigned count, int *attributes, void **data, uint64_t ptr);
} cuda;

static void check(const char *what, int result)
{
    if (result != 0) {
        cw_say_error("%s: the CUDA driver answers %d", what, result);
        exit(1);
    }
}

static void find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);

    memcpy(function, &address, sizeof(address));
    if (address == NULL) {
        cw_say_error("the CUDA driver lacks %s", name);
        exit(1);
    }
}

static void load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    void *context;

    if (library == NULL) {
        cw_say_error("there is no CUDA driver: %s", dlerror());
        exit(77);
    }
    find(library, "cuInit", &cuda.init);
    find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(library, "cuCtxSetCurrent", &cuda.set_current);
    find(library, "cuMemAlloc_v2", &cuda.alloc);
    find(library, "cuMemFree_v2", &cuda.free);
    find(library, "cuMemHostAlloc", &cuda.host_alloc);
    find(library, "cuMemcpy", &cuda.copy);
    find(library, "cuPointerGetAttributes", &cuda.attributes);
    check("cuInit", cuda.init(0));
    check("cuDevicePrimaryCtxRetain", cuda.retain(&context, 0));
    check("cuCtxSetCurrent", cuda.set_current(context));
}

/* ---- copies ---- */

/* The best time of a copy, in microseconds. The copy of a few bytes from the device comes behind one within the device,
 * which need not be over when its call returns: only then is it sure to be. */
static double copy_usec(uint64_t to, uint64_t from, size_t length, uint64_t device, unsigned long repetitions)
{
    double best = 1e30;
    char word;

    for (unsigned long i = 0; i < repetitions; i++) {
        uint64_t begin = cw_clock_ns();
        check("cuMemcpy", cuda.copy(to, from, length));
        if (to == device) {
            check("cuMemcpy", cuda.copy((uintptr_t)&word, device, 1));
        }
        double usec = (double)(cw_clock_ns() - begin) / 1e3;
        best = usec < best ? usec : best;
    }
    return best;
}

static void show_copies(size_t length, unsigned long repetitions)
{
    uint64_t from, to, pinned;
    void *host;

    check("cuMemAlloc", cuda.alloc(&from, length));
    check("cuMemAlloc", cuda.alloc(&to, length));
    check("cuMemHostAlloc", cuda.host_alloc(&host, length, 0));
    pinned = (uintptr_t)host;
    printf("d2h_mbps %.0f\n", (double)length / copy_usec(pinned, from, length, 0, repetitions));
    printf("h2d_mbps %.0f\n", (double)length / copy_usec(from, pinned, length, 0, repetitions));
    printf("d2d_mbps %.0f\n", (double)length / copy_usec(to, from, length, to, repetitions));
    printf("d2h_8_usec %.3f\n", copy_usec(pinned, from, SMALL, 0, CALLS));
    printf("h2d_8_usec %.3f\n", copy_usec(from, pinned, SMALL, 0, CALLS));
    check("cuMemFree", cuda.free(from));
    check("cuMemFree", cuda.free(to));
}

/* ---- the type of memory of the host ---- */

static double query_usec(const void *ptr)
{
    int attributes[] = {MEMORY_TYPE};
    unsigned type = 0;
    void *data[] = {&type};
    uint64_t begin = cw_clock_ns();

    for (int i = 0; i < CALLS; i++) {
        check("cuPointerGetAttributes", cuda.attributes(1, attributes, data, (uintptr_t)ptr));
    }
    return (double)(cw_clock_ns() - begin) / 1e3 / CALLS;
}

static ucp_ep_h connect_self(const struct cw_side *side)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    ucp_ep_h ep;

    cw_side_check("ucp_worker_get_address", ucp_worker_get_address(side->worker, &address, &length));
    params.address = address;
    cw_side_check("ucp_ep_create", ucp_ep_create(side->worker, &params, &ep));
    ucp_worker_release_address(side->worker, address);
    return ep;
}

/* The time of a message to the worker itself; `told`: the program says that the memory is the host's. */
static double message_usec(struct cw_side *side, ucp_ep_h ep, char *memory, int told)
{
    ucp_request_param_t param = {0};
    uint64_t begin;

    if (told) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE;
        param.memory_type = UCS_MEMORY_TYPE_HOST;
    }
    begin = cw_clock_ns();
    for (int i = 0; i < CALLS; i++) {
        ucs_status_ptr_t sent = ucp_tag_send_nbx(ep, memory, SMALL, 1, &param);
        cw_side_check("ucp_tag_recv_nbx",
                      cw_side_await(ucp_tag_recv_nbx(side->worker, memory + 64, SMALL, 1, UINT64_MAX, &param),
                                    side->worker, NULL));
        cw_side_check("ucp_tag_send_nbx", cw_side_await(sent, side->worker, NULL));
    }
    return (double)(cw_clock_ns() - begin) / 1e3 / CALLS;
}

/* In turn, the best of each. A message has two pointers. */
static void show_search(unsigned long repetitions)
{
    char *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    double told = 1e30, found = 1e30, query = 1e30, usec;
    struct cw_side side = {0};
    ucp_ep_h ep;

    if (memory == MAP_FAILED) {
        cw_say_error("there is no memory");
        exit(1);
    }
    cw_side_open(&side, UCP_FEATURE_TAG);
    ep = connect_self(&side);
    for (unsigned long i = 0; i <= repetitions; i++) {
        usec = message_usec(&side, ep, memory, 1);
        told = (i > 0 && usec < told) ? usec : told;
        usec = message_usec(&side, ep, memory, 0);
        found = (i > 0 && usec < found) ? usec : found;
        usec = query_usec(memory);
        query = usec < query ? usec : query;
    }
    printf("query_usec %.3f\nsearch_usec %.3f\n", query, (found - told) / 2);
}

int main(int argc, char **argv)
{
    size_t length = (size_t)64 << 20;
    unsigned long repetitions = 20;
    int letter;

    cw_say_setup("bench_gpu", false);
    while ((letter = getopt(argc, argv, "s:n:")) != -1) {
        if (letter == 's') {
            length = strtoul(optarg, NULL, 0);
        } else if (letter == 'n') {
            repetitions = strtoul(optarg, NULL, 0);
        } else {
            return 2;
        }
    }
    if (length < SMALL || repetitions == 0) {
        cw_say_error("usage: bench_gpu [-s bytes] [-n repetitions]");
        return 2;
    }
    load();
    show_copies(length, repetitions);
    show_search(repetitions);
    return 0;
}
