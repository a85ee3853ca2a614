/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job, through PMIx.
 *
 * Callers: group.c of the performance tool, bench_wireup.
 * The few types of PMIx that are used are written down here. They belong to its binary interface, which libpmix.so.2
 * has kept from release 2 to 5: of pmix_value_t the beginning, behind which there is room for whatever a release adds.
 * A test compares them with the header where that is installed.
 */
#define _GNU_SOURCE
#include "pmix_job.h"

#include "pmix_types.h"
#include "say.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct fence {
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool over;
    int status;
};

struct cw_pmix_calls {
    int (*init)(struct pmix_proc *self, void *info, size_t count);
    int (*finalize)(void *info, size_t count);
    int (*put)(uint8_t scope, const char *key, struct pmix_value *value);
    int (*commit)(void);
    int (*fence_nb)(const struct pmix_proc *procs, size_t count, const struct pmix_info *info, size_t infos,
                    void (*done)(int status, void *arg), void *arg);
    int (*get)(const struct pmix_proc *proc, const char *key, const void *info, size_t count,
               struct pmix_value **value);
    const char *(*error_string)(int status);
    struct pmix_proc self;
    struct fence fence; /* the one that was begun last */
};

static int fail(struct cw_pmix *pmix, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int fail(struct cw_pmix *pmix, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(pmix->error, sizeof(pmix->error), format, arguments);
    va_end(arguments);
    return -1;
}

static int fail_call(struct cw_pmix *pmix, const char *call, int status)
{
    return fail(pmix, "%s failed: %s", call, pmix->calls->error_string(status));
}

bool cw_pmix_present(void)
{
    return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

static int load(struct cw_pmix *pmix)
{
    struct cw_pmix_calls *calls = pmix->calls;
    const struct {
        const char *name;
        void *place;
    } wanted[] = {
        {"PMIx_Init", &calls->init},         {"PMIx_Finalize", &calls->finalize},
        {"PMIx_Put", &calls->put},           {"PMIx_Commit", &calls->commit},
        {"PMIx_Fence_nb", &calls->fence_nb}, {"PMIx_Get", &calls->get},
        {"PMIx_Error_string", &calls->error_string},
    };

    pmix->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (pmix->library == NULL) {
        return fail(pmix, "this process was started by mpirun or its like, but the library of PMIx is not there (%s): "
                          "install libpmix2, or start both sides by hand",
                    dlerror());
    }
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        void *found = dlsym(pmix->library, wanted[i].name);
        if (found == NULL) {
            return fail(pmix, "libpmix.so.2 has no %s", wanted[i].name);
        }
        memcpy(wanted[i].place, &found, sizeof(found));
    }
    return 0;
}

static int get_value(struct cw_pmix *pmix, uint32_t rank, const char *key, struct pmix_value **value)
{
    struct pmix_proc proc = pmix->calls->self;

    proc.rank = rank;
    int status = pmix->calls->get(&proc, key, NULL, 0, value);
    return status == 0 && *value != NULL ? 0 : fail_call(pmix, "PMIx_Get", status);
}

static int get_number(struct cw_pmix *pmix, const char *key, uint32_t *number)
{
    struct pmix_value *value = NULL;

    if (get_value(pmix, PMIX_RANK_ALL, key, &value) != 0) {
        return -1;
    }
    bool sound = value->type == PMIX_TYPE_UINT32;
    *number = sound ? value->data.number : 0;
    free(value);
    return sound ? 0 : fail(pmix, "PMIx reports no number of processes (%s)", key);
}

int cw_pmix_open(struct cw_pmix *pmix)
{
    *pmix = (struct cw_pmix){.calls = calloc(1, sizeof(*pmix->calls))};
    if (pmix->calls == NULL) {
        return fail(pmix, "out of memory");
    }
    pthread_mutex_init(&pmix->calls->fence.lock, NULL);
    pthread_cond_init(&pmix->calls->fence.done, NULL);
    if (load(pmix) != 0) {
        return -1;
    }
    int status = pmix->calls->init(&pmix->calls->self, NULL, 0);
    if (status != 0) {
        return fail(pmix, "PMIx_Init failed: %s; the processes of a job are started by mpirun, prun or srun",
                    pmix->calls->error_string(status));
    }
    pmix->rank = pmix->calls->self.rank;
    if (get_number(pmix, "pmix.job.size", &pmix->size) != 0) {
        return -1;
    }
    if (get_number(pmix, "pmix.local.size", &pmix->local_size) != 0) {
        pmix->local_size = 1;
    }
    return 0;
}

int cw_pmix_put(struct cw_pmix *pmix, const char *name, const char *text)
{
    struct pmix_value value = {.type = PMIX_TYPE_STRING, .data.text = (char *)(uintptr_t)text};
    int status = pmix->calls->put(PMIX_SCOPE_GLOBAL, name, &value);

    return status == 0 ? 0 : fail_call(pmix, "PMIx_Put", status);
}

/* Called by a thread of PMIx. */
static void on_fence(int status, void *arg)
{
    struct fence *fence = arg;

    pthread_mutex_lock(&fence->lock);
    fence->status = status;
    fence->over = true;
    pthread_cond_signal(&fence->done);
    pthread_mutex_unlock(&fence->lock);
}

int cw_pmix_fence_begin(struct cw_pmix *pmix)
{
    struct fence *fence = &pmix->calls->fence;
    struct pmix_info collect = {.key = "pmix.collect", .value = {.type = PMIX_TYPE_BOOL, .data.flag = true}};
    int status = pmix->calls->commit();

    if (status != 0) {
        return fail_call(pmix, "PMIx_Commit", status);
    }
    pthread_mutex_lock(&fence->lock); /* the thread that ended the fence before may still be letting it go */
    fence->over = false;
    fence->status = 0;
    pthread_mutex_unlock(&fence->lock);
    status = pmix->calls->fence_nb(NULL, 0, &collect, 1, on_fence, fence);
    if (status == PMIX_DONE_AT_ONCE) {
        fence->over = true;
        return 0;
    }
    return status == 0 ? 0 : fail_call(pmix, "PMIx_Fence", status);
}

/* Waits for at most so long. */
static int wait_for_fence(struct cw_pmix *pmix, unsigned seconds)
{
    struct fence *fence = &pmix->calls->fence;
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    pthread_mutex_lock(&fence->lock);
    if (!fence->over && seconds > 0) {
        pthread_cond_timedwait(&fence->done, &fence->lock, &until);
    }
    bool over = fence->over;
    pthread_mutex_unlock(&fence->lock);
    if (over && fence->status != 0) {
        return fail_call(pmix, "PMIx_Fence", fence->status);
    }
    return over;
}

int cw_pmix_fence_test(struct cw_pmix *pmix)
{
    return wait_for_fence(pmix, 0);
}

/* Others may be at work for long: each has its own time limits, and the starter ends all when one fails. */
int cw_pmix_fence(struct cw_pmix *pmix)
{
    int over = cw_pmix_fence_begin(pmix);

    while (over == 0) {
        over = wait_for_fence(pmix, 1);
        cw_watchdog_beat();
    }
    return over < 0 ? -1 : 0;
}

int cw_pmix_get(struct cw_pmix *pmix, uint32_t rank, const char *name, char *text, size_t room)
{
    struct pmix_value *value = NULL;

    if (get_value(pmix, rank, name, &value) != 0) {
        return -1;
    }
    bool sound = value->type == PMIX_TYPE_STRING && value->data.text != NULL;
    bool fits = sound && (size_t)snprintf(text, room, "%s", value->data.text) < room;
    if (sound) {
        free(value->data.text);
    }
    free(value);
    return fits ? 0 : fail(pmix, "process %u has left no text of its own (%s)", rank, name);
}

void cw_pmix_close(struct cw_pmix *pmix, bool well)
{
    if (well) {
        pmix->calls->finalize(NULL, 0);
    }
    free(pmix->calls);
    pmix->calls = NULL;
    /* The library stays: it may have left threads. */
}
