/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kernel that lists RDMA devices: the library looks for them in a directory before it opens libibverbs.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>

DIR *opendir(const char *path)
{
    DIR *(*real)(const char *) = (DIR * (*)(const char *)) dlsym(RTLD_NEXT, "opendir");

    return real((strcmp(path, "/sys/class/infiniband") == 0) ? "/" : path);
}
