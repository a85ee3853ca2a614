/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The processes of a job that mpirun, prun or srun has started: who they are, and texts that they leave for each other.
 * PMIx is what such a starter offers; its library is opened when it is needed, so that tools neither need it to be
 * built nor, started by hand, to run.
 *
 * Callers: group.c of the performance tool, bench_wireup. One thread. Functions return 0, or -1 with a sentence in
 * `error`.
 */
#ifndef CW_TOOLS_PMIX_JOB_H
#define CW_TOOLS_PMIX_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cw_pmix {
    uint32_t rank;
    uint32_t size;
    uint32_t local_size; /* processes of the job on this machine, as far as it is known */
    char error[256];
    void *library;
    struct cw_pmix_calls *calls;
};

/* Whether this process belongs to such a job. */
bool cw_pmix_present(void);

/* Joins the job. */
int cw_pmix_open(struct cw_pmix *pmix);

/* Leaves a text under a name; it can be read after the next fence. */
int cw_pmix_put(struct cw_pmix *pmix, const char *name, const char *text);

/* Waits for all processes of the job and exchanges what they have left. */
int cw_pmix_fence(struct cw_pmix *pmix);

/* The same in two parts, for programs that must make progress meanwhile. The test returns 1 when the fence is over,
 * else 0; before that no other may begin, and the job may not be left. */
int cw_pmix_fence_begin(struct cw_pmix *pmix);
int cw_pmix_fence_test(struct cw_pmix *pmix);

/* Reads what a process has left under a name. */
int cw_pmix_get(struct cw_pmix *pmix, uint32_t rank, const char *name, char *text, size_t room);

/* Leaves the job when all went well: a process that ends without that reports to the starter that the job has failed.
 * */
void cw_pmix_close(struct cw_pmix *pmix, bool well);

#endif
