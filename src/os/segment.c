/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/segment.h on memfd_create(2) and file seals.
 */
#include "os/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/log.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static ucs_status_t map(int fd, size_t size, void **ptr_p)
{
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (ptr == MAP_FAILED) {
        return UCS_ERR_NO_MEMORY;
    }
    *ptr_p = ptr;
    return UCS_OK;
}

/* Without this check the kernel would kill the process with SIGXFSZ. */
static bool is_beyond_limit(size_t size)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size > limit.rlim_cur;
}

/* Read once; concurrent threads find equal values. */
bool cw_segment_is_strict(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    char mode = '2';
    int fd;

    if (answer == 0) {
        fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            mode = (read(fd, &mode, 1) == 1) ? mode : '2';
            close(fd);
        }
        answer = (mode == '0' || mode == '1') ? 1 : 2;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* 0 or an error number. */
static int reserve(int fd, size_t size, size_t now)
{
    return (ftruncate(fd, (off_t)size) < 0) ? errno : posix_fallocate(fd, 0, (off_t)now);
}

static ucs_status_t not_created(void)
{
    switch (errno) {
    case EMFILE:
    case ENFILE:
        cw_error("cannot create shared memory: memfd_create: %m; raise the limit of open files (ulimit -n)");
        return UCS_ERR_NO_RESOURCE;
    case ENOMEM:
        cw_error("cannot create shared memory: memfd_create: %m");
        return UCS_ERR_NO_MEMORY;
    default:
        cw_error("cannot create shared memory: memfd_create: %m; allow this system call, or exclude shared memory by "
                 "UCX_TLS");
        return UCS_ERR_UNSUPPORTED;
    }
}

ucs_status_t cw_segment_create(size_t size, size_t now, int *fd_p, void **ptr_p)
{
    int fd = memfd_create("causeway", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ucs_status_t status = UCS_ERR_NO_MEMORY;
    int error;

    if (fd < 0) {
        return not_created();
    }
    if (is_beyond_limit(size)) {
        cw_error("cannot reserve %zu bytes of shared memory: the limit of file sizes is lower (ulimit -f)", size);
        status = UCS_ERR_EXCEEDS_LIMIT;
        goto fail;
    }
    error = reserve(fd, size, cw_segment_is_strict() ? size : now);
    if (error != 0) {
        errno = error;
        cw_error("cannot reserve %zu bytes of shared memory: %m; free some memory or lower UCX_POSIX_FIFO_SIZE and "
                 "UCX_POSIX_SEG_SIZE", size);
        goto fail;
    }
    if (fcntl(fd, F_ADD_SEALS, SEALS) < 0) {
        cw_error("cannot seal shared memory: %m");
        status = UCS_ERR_UNSUPPORTED;
        goto fail;
    }
    if (map(fd, size, ptr_p) != UCS_OK) {
        cw_error("cannot map %zu bytes of shared memory: %m", size);
        goto fail;
    }
    *fd_p = fd;
    return UCS_OK;

fail:
    close(fd);
    return status;
}

ucs_status_t cw_segment_show(const char *name, size_t size, int *fd_p, void **ptr_p)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int error = (fd < 0) ? errno : 0;

    if (error == 0) {
        error = is_beyond_limit(size) ? EFBIG : reserve(fd, size, size);
    }
    if (error == 0 && (fchmod(fd, S_IRUSR) < 0 || map(fd, size, ptr_p) != UCS_OK)) {
        error = errno;
    }
    if (error != 0) {
        if (fd >= 0) {
            close(fd);
        }
        errno = error;
        cw_debug("cannot create memory that other processes can read: %m");
        return UCS_ERR_NO_MEMORY;
    }
    /* not every kernel knows the last seal; without it the mode of the file protects the memory */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE) < 0) {
        (void)fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    }
    *fd_p = fd;
    return UCS_OK;
}

bool cw_segment_is_locked(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

void cw_segment_hide(int fd, void *ptr, size_t size)
{
    cw_segment_unmap(ptr, size);
    close(fd);
}

ucs_status_t cw_segment_attach(int fd, size_t size, size_t now, void **ptr_p)
{
    /* The seals are read first, because that queries no file system: one that the peer itself provides could delay the
     * calls below without limit. */
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs system;
    struct stat st;

    if (seals < 0 || (seals & SEALS) != SEALS || fstatfs(fd, &system) < 0 || system.f_type == HUGETLBFS_MAGIC) {
        return UCS_ERR_INVALID_PARAM; /* a huge page that a peer returns may not be available again: SIGBUS */
    }
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (size_t)st.st_size != size) {
        return UCS_ERR_INVALID_PARAM;
    }
    /* holes punched by a peer must not end this process if the kernel may have no page for them */
    now = cw_segment_is_strict() ? size : now;
    return (posix_fallocate(fd, 0, (off_t)now) == 0) ? map(fd, size, ptr_p) : UCS_ERR_NO_MEMORY;
}

void cw_segment_give_back(void *ptr, size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t from = ((uintptr_t)ptr + page - 1) & ~(page - 1);
    const uintptr_t to = ((uintptr_t)ptr + size) & ~(page - 1);

    if (from < to && !cw_segment_is_strict()) {
        (void)madvise((void *)from, to - from, MADV_REMOVE);
    }
}

void cw_segment_populate(void *ptr, size_t size)
{
#ifdef MADV_POPULATE_WRITE
    const int error = errno;

    if (madvise(ptr, size, MADV_POPULATE_WRITE) != 0) {
        errno = error; /* an older kernel */
    }
#else
    (void)ptr;
    (void)size;
#endif
}

void cw_segment_unmap(void *ptr, size_t size)
{
    (void)munmap(ptr, size);
}
