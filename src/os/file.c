/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements os/file.h.
 */
#include "os/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

bool cw_file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

bool cw_directory_has_files(const char *path)
{
    DIR *directory = opendir(path);
    const struct dirent *entry;
    bool found = false;

    if (directory == NULL) {
        return false;
    }
    while (!found && (entry = readdir(directory)) != NULL) {
        found = entry->d_name[0] != '.';
    }
    (void)closedir(directory);
    return found;
}

void cw_fd_unblock(int fd)
{
    const int flags = fcntl(fd, F_GETFL);

    if (flags >= 0) {
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    }
}
