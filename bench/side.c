/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of side.h.
 */
#define _GNU_SOURCE
#include "side.h"

#include "say.h"

#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MOST_ADDRESS = 4096 };

static long heap_in_use(void)
{
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();

    return (long)(info.uordblks + info.hblkhd);
#endif
#endif
    return -1;
}

struct cw_side_memory cw_side_memory_now(void)
{
    struct cw_side_memory memory = {.malloc_bytes = heap_in_use()};
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    long kib;

    if (file == NULL) {
        cw_say_error("cannot read the process's memory map: %s", strerror(errno));
        exit(1);
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Rss: %ld", &kib) == 1) {
            memory.resident_kib = kib;
        } else if (sscanf(line, "Pss: %ld", &kib) == 1) {
            memory.share_kib = kib;
        } else if (sscanf(line, "Private_Dirty: %ld", &kib) == 1) {
            memory.dirty_kib = kib;
        }
    }
    fclose(file);
    return memory;
}

void cw_side_check(const char *what, ucs_status_t status)
{
    if (status != UCS_OK) {
        cw_say_error("%s failed: %s", what, ucs_status_string(status));
        exit(1);
    }
}

void cw_side_open(struct cw_side *side, uint64_t features)
{
    unsigned major, minor, release;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};

    ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor > UCP_API_MINOR) {
        major = UCP_API_MAJOR;
        minor = UCP_API_MINOR;
    }
    cw_side_check("ucp_init", ucp_init_version(major, minor, &params, NULL, &side->context));
    cw_side_open_worker(side);
}

void cw_side_open_worker(struct cw_side *side)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = side->mode,
    };

    cw_side_check("ucp_worker_create", ucp_worker_create(side->context, &params, &side->worker));
}

void cw_side_bind(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    if (cpu >= 0) {
        CPU_SET(cpu, &set);
        (void)sched_setaffinity(0, sizeof(set), &set);
    }
}

struct cw_side_pair cw_side_fork(const int cpus[2], unsigned seconds)
{
    struct cw_side_pair pair;
    int there[2], back[2];

    if (pipe(there) != 0 || pipe(back) != 0 || (pair.other = fork()) < 0) {
        cw_say_error("no second process");
        exit(1);
    }
    cw_watchdog_start(seconds, 1);
    cw_side_bind(cpus[pair.other == 0]);
    if (pair.other == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    pair.from = (pair.other == 0) ? there[0] : back[0];
    pair.to = (pair.other == 0) ? back[1] : there[1];
    return pair;
}

ucp_ep_h cw_side_meet(const struct cw_side *side, int from, int to)
{
    char address[MOST_ADDRESS];
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (void *)address};
    ucp_ep_h ep;

    cw_side_check("ucp_worker_query", ucp_worker_query(side->worker, &attr));
    if (write(to, attr.address, attr.address_length) != (ssize_t)attr.address_length ||
        read(from, address, sizeof(address)) <= 0) {
        cw_say_error("the other process failed");
        exit(1);
    }
    cw_side_check("ucp_ep_create", ucp_ep_create(side->worker, &params, &ep));
    return ep;
}

ucs_status_t cw_side_await(ucs_status_ptr_t request, ucp_worker_h one, ucp_worker_h other)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        do {
            ucp_worker_progress(one);
            if (other != NULL) {
                ucp_worker_progress(other);
            }
            status = ucp_request_check_status(request);
        } while (status == UCS_INPROGRESS);
        ucp_request_free(request);
    }
    return status;
}

bool cw_side_is_over(const char *what, ucs_status_ptr_t *request)
{
    if (UCS_PTR_IS_PTR(*request)) {
        if (ucp_request_check_status(*request) == UCS_INPROGRESS) {
            return false;
        }
        ucp_request_free(*request);
    }
    cw_side_check(what, UCS_PTR_IS_ERR(*request) ? UCS_PTR_STATUS(*request) : UCS_OK);
    *request = NULL;
    return true;
}
