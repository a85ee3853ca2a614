/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loads libibverbs by dlopen(3).
 */
#include "transport/verbs/libibverbs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/env.h"

#define DEVICES       "/sys/class/infiniband"
#define FORK_UNNEEDED 2 /* IBV_FORK_UNNEEDED, which older headers lack */

struct symbol {
    const char *name;
    size_t offset;
};

#define SYMBOL(member, symbol) {#symbol, offsetof(struct cw_verbs_library, member)},
static const struct symbol symbols[] = {CW_VERBS_SYMBOLS(SYMBOL)};
#undef SYMBOL

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cw_verbs_library table;
static int opened; /* 1: open; -1: failed */
static char why[256];

/* Checked first: loading the library reads its configuration and loads the drivers named there, for nothing on most
 * machines. */
static int has_device(void)
{
    DIR *directory = opendir(DEVICES);
    const struct dirent *entry;
    int found = 0;

    if (directory == NULL) {
        return 0;
    }
    while (!found && (entry = readdir(directory)) != NULL) {
        found = entry->d_name[0] != '.';
    }
    (void)closedir(directory);
    return found;
}

/* Called before any registration. A kernel that does not copy pinned pages on fork leaves them with the parent, and the
 * child lacks them. ibv_fork_init() has that effect on all kernels, so it is not called on one that copies
 * (IBV_FORK_UNNEEDED). It fails if another library of the process registered memory before, which has then decided
 * this. */
static void begin_fork(void *library)
{
    void *address = dlsym(library, "ibv_is_fork_initialized"); /* since rdma-core 36 */
    int (*state)(void);

    memcpy(&state, &address, sizeof(state));
    if (address == NULL || state() != FORK_UNNEEDED) {
        (void)table.fork_init();
    }
}

/* Call with the lock held. */
static int open_library(void)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    const char *error;
    void *address;
    size_t i;

    if (library == NULL) {
        error = dlerror();
        snprintf(why, sizeof(why),
                 "libibverbs.so.1 cannot be opened (%s); install rdma-core (package libibverbs1 or libibverbs).",
                 (error != NULL) ? error : "no reason given");
        return -1;
    }
    for (i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            snprintf(why, sizeof(why), "libibverbs.so.1 lacks %s; install rdma-core 32 or later.", symbols[i].name);
            return -1;
        }
        memcpy((char *)&table + symbols[i].offset, &address, sizeof(address));
    }
    address = dlsym(library, "ibv_reg_dmabuf_mr");
    memcpy(&table.reg_dmabuf_mr, &address, sizeof(address));
    begin_fork(library);
    return 1;
}

const struct cw_verbs_library *cw_verbs_library(const char **why_p)
{
    const struct cw_verbs_library *library = NULL;

    *why_p = why;
    if (!has_device()) {
        *why_p = "The kernel lists no RDMA device in " DEVICES ".";
        return NULL;
    }
    if (cw_env_is_secure()) { /* its drivers load files that environment variables name */
        *why_p = "libibverbs obeys its user's environment, which does not suit a program that has more rights than "
                 "its user (set-user-id, set-group-id or file capabilities).";
        return NULL;
    }
    pthread_mutex_lock(&lock);
    opened = (opened == 0) ? open_library() : opened;
    library = (opened > 0) ? &table : NULL;
    pthread_mutex_unlock(&lock);
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
        modules |= (access(paths[i].path, F_OK) == 0) ? paths[i].module : 0;
    }
    return modules;
}

void cw_verbs_unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}
