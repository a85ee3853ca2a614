/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/process.h on pidfd_open(2), which Linux has since 5.3.
 */
#include "os/process.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int cw_process_watch(uint32_t process)
{
#ifdef SYS_pidfd_open
    long fd = syscall(SYS_pidfd_open, (pid_t)process, 0);

    return (fd >= 0) ? (int)fd : -errno;
#else
    (void)process;
    return -ENOSYS;
#endif
}

void cw_process_unwatch(int fd)
{
    (void)close(fd);
}
