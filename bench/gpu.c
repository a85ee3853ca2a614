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
    int (*stream_create)(void **stream, unsigned flags);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*copy_async)(uint64_t to, uint64_t from, size_t length, void *stream);
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
    find(library, "cuStreamCreate", &cuda.stream_create);
    find(library, "cuEventCreate", &cuda.event_create);
    find(library, "cuEventRecord", &cuda.event_record);
    find(library, "cuEventQuery", &cuda.event_query);
    find(library, "cuMemcpyAsync", &cuda.copy_async);
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

/* ---- the pipeline ---- */

enum { SLOTS = 4, WITHOUT_TIMING = 2, NON_BLOCKING = 1, NOT_READY = 600 };
static const size_t chunk = (size_t)4 << 20;

struct stage {
    void *stream;
    void *events[SLOTS]; /* recorded behind the last copy of each slot */
    size_t begun, ended; /* chunks */
};

static void stage_open(struct stage *stage)
{
    *stage = (struct stage){0};
    check("cuStreamCreate", cuda.stream_create(&stage->stream, NON_BLOCKING));
    for (int i = 0; i < SLOTS; i++) {
        check("cuEventCreate", cuda.event_create(&stage->events[i], WITHOUT_TIMING));
    }
}

static void stage_begin(struct stage *stage, uint64_t to, uint64_t from, size_t length)
{
    check("cuMemcpyAsync", cuda.copy_async(to, from, length, stage->stream));
    check("cuEventRecord", cuda.event_record(stage->events[stage->begun++ % SLOTS], stage->stream));
}

static void stage_poll(struct stage *stage)
{
    if (stage->ended < stage->begun) {
        int result = cuda.event_query(stage->events[stage->ended % SLOTS]);
        if (result != NOT_READY) {
            check("cuEventQuery", result);
            stage->ended++;
        }
    }
}

/* From the device to pinned memory and from there to the device, both at once, in chunks: the bare cost of a transfer
 * by way of memory of the host that nobody copies there. */
static double pipeline_usec(uint64_t to, uint64_t from, uint64_t pinned, size_t length)
{
    struct stage out, in;
    size_t chunks = (length + chunk - 1) / chunk;
    uint64_t begin;

    stage_open(&out);
    stage_open(&in);
    begin = cw_clock_ns();
    while (in.ended < chunks) {
        if (out.begun < chunks && out.begun < in.ended + SLOTS) {
            size_t at = out.begun * chunk, part = length - at < chunk ? length - at : chunk;
            stage_begin(&out, pinned + out.begun % SLOTS * chunk, from + at, part);
        }
        stage_poll(&out);
        if (in.begun < out.ended) {
            size_t at = in.begun * chunk, part = length - at < chunk ? length - at : chunk;
            stage_begin(&in, to + at, pinned + in.begun % SLOTS * chunk, part);
        }
        stage_poll(&in);
    }
    return (double)(cw_clock_ns() - begin) / 1e3;
}

static void show_pipeline(uint64_t to, uint64_t from, size_t length, unsigned long repetitions)
{
    double best = 1e30;
    void *pinned;

    check("cuMemHostAlloc", cuda.host_alloc(&pinned, SLOTS * chunk, 0));
    for (unsigned long i = 0; i < repetitions; i++) {
        double usec = pipeline_usec(to, from, (uintptr_t)pinned, length);
        best = usec < best ? usec : best;
    }
    printf("pipeline_mbps %.0f\n", (double)length / best);
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
    show_pipeline(to, from, length, repetitions);
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

/* The time of a message to the worker itself; `given`: the program says that the memory is the host's. */
static double message_usec(struct cw_side *side, ucp_ep_h ep, char *memory, int given)
{
    ucp_request_param_t param = {0};
    uint64_t begin;

    if (given) {
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
    double given = 1e30, found = 1e30, query = 1e30, usec;
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
        given = (i > 0 && usec < given) ? usec : given;
        usec = message_usec(&side, ep, memory, 0);
        found = (i > 0 && usec < found) ? usec : found;
        usec = query_usec(memory);
        query = usec < query ? usec : query;
    }
    printf("query_usec %.3f\nsearch_usec %.3f\n", query, (found - given) / 2);
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
