/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loaded before the programs of the tests over libfabric (LD_PRELOAD): the first call of libfabric reads the symbols
 * of the whole kernel, to see whether devices of InfiniBand can reach memory of a GPU, and no test checks that.
 * These are ten megabytes for each process, and some tests start hundreds.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);

    *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return next(strcmp(path, "/proc/kallsyms") == 0 ? "/dev/null" : path, mode);
}
