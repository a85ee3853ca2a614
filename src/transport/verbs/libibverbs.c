/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libibverbs once per process.
 */
#include "transport/verbs/libibverbs.h"

#include "os/env.h"
#include "os/file.h"
#include "os/library.h"
#include "os/lock.h"

#define DEVICES       "/sys/class/infiniband"
#define FORK_UNNEEDED 2 /* IBV_FORK_UNNEEDED, which older headers lack */

#define SYMBOL(member, symbol) {#symbol, offsetof(struct cw_verbs_library, member), 0},
static const struct cw_symbol symbols[] = {
    CW_VERBS_SYMBOLS(SYMBOL)
    {"ibv_reg_dmabuf_mr", offsetof(struct cw_verbs_library, reg_dmabuf_mr), 1},
    {"ibv_is_fork_initialized", offsetof(struct cw_verbs_library, fork_state), 1},
};
#undef SYMBOL

static const struct cw_library file = {
    .file = "libibverbs.so.1",
    .absent = "install rdma-core (package libibverbs1 or libibverbs).",
    .old = "install rdma-core 32 or later.",
    .symbols = symbols,
    .num_symbols = sizeof(symbols) / sizeof(symbols[0]),
};

static struct cw_lock lock;
static struct cw_verbs_library table;
static int opened; /* 1: open; -1: failed */
static char why[CW_LIBRARY_WHY];

/* Called before any registration. A kernel that does not copy pinned pages on fork leaves them with the parent, and the
 * child lacks them. ibv_fork_init() has that effect on all kernels, so it is not called on one that copies
 * (IBV_FORK_UNNEEDED). It fails if another library of the process registered memory before, which has then decided
 * this. */
static void begin_fork(void)
{
    if (table.fork_state == NULL || table.fork_state() != FORK_UNNEEDED) {
        (void)table.fork_init();
    }
}

/* Call with the lock held. */
static int open_library(void)
{
    if (cw_library_open(&file, &table, why) == NULL) {
        return -1;
    }
    begin_fork();
    return 1;
}

const struct cw_verbs_library *cw_verbs_library(const char **why_p)
{
    const struct cw_verbs_library *library = NULL;

    *why_p = why;
    /* checked first: loading the library reads its configuration and loads the drivers named there, for nothing on most
     * machines */
    if (!cw_directory_has_files(DEVICES)) {
        *why_p = "The kernel lists no RDMA device in " DEVICES ".";
        return NULL;
    }
    if (cw_env_is_secure()) { /* its drivers load files that environment variables name */
        *why_p = "libibverbs trusts the environment of its user, which is unsafe in a privileged program (set-user-id, "
                 "set-group-id or file capabilities).";
        return NULL;
    }
    cw_lock_enter(&lock);
    opened = (opened == 0) ? open_library() : opened;
    library = (opened > 0) ? &table : NULL;
    cw_lock_leave(&lock);
    return library;
}

unsigned cw_verbs_peer_memory(void)
{
    static const struct {
        const char *path;
        unsigned module;
    } paths[] = {{"/sys/module/nvidia_peermem", CW_VERBS_PEER_NVIDIA},
                        {"/sys/kernel/mm/memory_peers/nv_mem", CW_VERBS_PEER_NVIDIA},
                        {"/sys/kernel/mm/memory_peers/amdkfd", CW_VERBS_PEER_AMD}};
    unsigned modules = 0;
    size_t i;

    for (i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        modules |= cw_file_exists(paths[i].path) ? paths[i].module : 0;
    }
    return modules;
}
