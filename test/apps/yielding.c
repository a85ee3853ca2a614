/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded before a program that spins, by suites.py --yield: once nothing has happened for a while, every further
 * look into the worker gives the processor to others. A collective of four processes on two processors is then bounded
 * by its messages and not by the scheduler's slices, over any libucp.so.0. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>

enum { PATIENCE = 20 };

unsigned ucp_worker_progress(void *worker);

/* A plugin brings its library without telling others, so that the next one of the loader's may not be it. */
static void *behind(void)
{
    void *found = dlsym(RTLD_NEXT, "ucp_worker_progress");

    return found != 0 ? found : dlsym(dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD), "ucp_worker_progress");
}

unsigned ucp_worker_progress(void *worker)
{
    static unsigned (*progress)(void *);
    static _Thread_local int idle;
    unsigned count;

    if (progress == 0) {
        progress = (unsigned (*)(void *))behind();
    }
    count = progress(worker);
    idle = count == 0 ? idle + 1 : 0;
    if (idle > PATIENCE) {
        idle = PATIENCE;
        sched_yield();
    }
    return count;
}
