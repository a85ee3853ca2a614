/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_startup: time and resident memory of ucp_init + ucp_worker_create in this fresh process, and memory and time
 * of endpoints that were made from addresses and have not talked yet.
 *
 * Usage: bench_startup [-e endpoints [-p peers]]
 * Prints "key value" lines. A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 * The endpoints go to the workers of another process in turn, so that nothing is shared that real peers do not share.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define MOST_PEERS 64

static void die(const char *what, ucs_status_t status)
{
    cw_say_error("%s failed: %s", what, ucs_status_string(status));
    exit(1);
}

static ucp_context_h make_context(void)
{
    unsigned major, minor, release;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;

    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor > UCP_API_MINOR) {
        major = UCP_API_MAJOR;
        minor = UCP_API_MINOR;
    }
    ucs_status_t status = ucp_init_version(major, minor, &params, NULL, &context);
    if (status != UCS_OK) {
        die("ucp_init", status);
    }
    return context;
}

static ucp_worker_h make_worker(ucp_context_h context)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };
    ucp_worker_h worker;
    ucs_status_t status = ucp_worker_create(context, &params, &worker);

    if (status != UCS_OK) {
        die("ucp_worker_create", status);
    }
    return worker;
}

/* ---- peers ---- */

static void write_all(int fd, const void *data, size_t length)
{
    if (write(fd, data, length) != (ssize_t)length) {
        _exit(1);
    }
}

/* The process of the peers: writes the addresses of its workers, then waits to be ended. */
static void be_peers(int fd, unsigned peers)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ucp_context_h context = make_context();
    for (unsigned i = 0; i < peers; i++) {
        ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
        ucs_status_t status = ucp_worker_query(make_worker(context), &attr);
        if (status != UCS_OK) {
            die("ucp_worker_query", status);
        }
        write_all(fd, &attr.address_length, sizeof(attr.address_length));
        write_all(fd, attr.address, attr.address_length);
    }
    for (;;) {
        pause();
    }
}

static void read_all(int fd, void *data, size_t length)
{
    char *at = data;

    while (length > 0) {
        ssize_t got = read(fd, at, length);
        if (got <= 0) {
            cw_say_error("the peers did not start");
            exit(1);
        }
        at += got;
        length -= (size_t)got;
    }
}

static pid_t start_peers(unsigned peers, void **addresses)
{
    int pipes[2];

    if (pipe(pipes) != 0) {
        cw_say_error("no pipe: %s", strerror(errno));
        exit(1);
    }
    pid_t pid = fork();
    if (pid < 0) {
        cw_say_error("no process: %s", strerror(errno));
        exit(1);
    }
    if (pid == 0) {
        close(pipes[0]);
        be_peers(pipes[1], peers);
    }
    close(pipes[1]);
    for (unsigned i = 0; i < peers; i++) {
        size_t length;
        read_all(pipes[0], &length, sizeof(length));
        addresses[i] = malloc(length);
        if (length > 1 << 20 || addresses[i] == NULL) {
            cw_say_error("no memory for an address of %zu bytes", length);
            exit(1);
        }
        read_all(pipes[0], addresses[i], length);
    }
    close(pipes[0]);
    return pid;
}

/* ---- measurements ---- */

static void measure_endpoints(ucp_worker_h worker, unsigned endpoints, unsigned peers, void **addresses)
{
    ucp_ep_h *handles = calloc(endpoints, sizeof(ucp_ep_h));

    if (handles == NULL) {
        cw_say_error("no memory for %u handles", endpoints);
        exit(1);
    }
    /* The array's pages are this program's, not the library's: made resident before the first sample. */
    memset(handles, 1, endpoints * sizeof(ucp_ep_h));
    struct cw_side_memory before = cw_side_memory_now();
    uint64_t start_ns = cw_clock_ns();
    for (unsigned i = 0; i < endpoints; i++) {
        ucp_ep_params_t params = {
            .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
            .address = addresses[i % peers],
        };
        ucs_status_t status = ucp_ep_create(worker, &params, &handles[i]);
        if (status != UCS_OK) {
            die("ucp_ep_create", status);
        }
    }
    uint64_t end_ns = cw_clock_ns();
    struct cw_side_memory after = cw_side_memory_now();

    printf("endpoints %u\n", endpoints);
    printf("endpoint_ns %.1f\n", (double)(end_ns - start_ns) / endpoints);
    printf("endpoint_resident_bytes %.1f\n",
           (double)(after.resident_kib - before.resident_kib) * 1024 / (double)endpoints);
    if (before.malloc_bytes >= 0) {
        printf("endpoint_malloc_bytes %.1f\n", (double)(after.malloc_bytes - before.malloc_bytes) / endpoints);
    }
    free(handles);
}

int main(int argc, char **argv)
{
    void *addresses[MOST_PEERS];
    unsigned long endpoints = 0, peers = 8;
    pid_t peer_process = -1;
    int letter;

    cw_say_setup("bench_startup", false);
    while ((letter = getopt(argc, argv, "e:p:")) != -1) {
        if (letter == 'e') {
            endpoints = strtoul(optarg, NULL, 10);
        } else if (letter == 'p') {
            peers = strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    if (optind != argc || peers < 1 || peers > MOST_PEERS || endpoints > 10000000) {
        fprintf(stderr, "Usage: bench_startup [-e endpoints [-p peers (at most %d)]]\n", MOST_PEERS);
        return 2;
    }
    cw_watchdog_start(60, 1);
    if (endpoints > 0) {
        peer_process = start_peers((unsigned)peers, addresses);
    }

    /* The first sample takes memory of its own for reading the map; the second one counts. */
    cw_side_memory_now();
    struct cw_side_memory before = cw_side_memory_now();
    uint64_t start_ns = cw_clock_ns();
    ucp_context_h context = make_context();
    uint64_t context_ns = cw_clock_ns();
    ucp_worker_h worker = make_worker(context);
    uint64_t worker_ns = cw_clock_ns();
    struct cw_side_memory after = cw_side_memory_now();

    printf("version %s\n", ucp_get_version_string());
    printf("init_us %.1f\n", (double)(context_ns - start_ns) / 1e3);
    printf("worker_us %.1f\n", (double)(worker_ns - context_ns) / 1e3);
    printf("total_us %.1f\n", (double)(worker_ns - start_ns) / 1e3);
    printf("resident_kib %ld\n", after.resident_kib - before.resident_kib);
    printf("dirty_kib %ld\n", after.dirty_kib - before.dirty_kib);
    if (endpoints > 0) {
        measure_endpoints(worker, (unsigned)endpoints, (unsigned)peers, addresses);
        kill(peer_process, SIGKILL);
        waitpid(peer_process, NULL, 0);
        /* Taking down untalked endpoints is not measured here: the process just ends. */
        fflush(stdout);
        _exit(0);
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
