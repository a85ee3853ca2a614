/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files by which the kernel shows what it has, and descriptors that a library made.
 */
#ifndef CW_OS_FILE_H
#define CW_OS_FILE_H

#include <stdbool.h>

bool cw_file_exists(const char *path);

/* Whether the directory exists and is not empty. Names that begin with a dot do not count. */
bool cw_directory_has_files(const char *path);

/* Sets O_NONBLOCK. */
void cw_fd_unblock(int fd);

#endif
