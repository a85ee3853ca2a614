/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/pattern.h on memfd_create(2) and madvise(2).
 */
#include "os/pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "os/memory.h"

/* A write beyond this limit would end the process with SIGXFSZ. */
static bool is_beyond_limit(size_t length)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_FSIZE, &limit) == 0 && length > limit.rlim_cur;
}

/* Extends the file to at least that length. The pages are then allocated, so that no access to a mapping can lack
 * one. */
static int extend(struct cw_pattern *pattern, const void *page, size_t length)
{
    const size_t size = cw_memory_page();

    if (is_beyond_limit(length)) {
        return 0;
    }
    if (pattern->fd < 0) {
        pattern->fd = memfd_create("causeway", MFD_CLOEXEC);
    }
    while (pattern->fd >= 0 && pattern->length < length) {
        if (pwrite(pattern->fd, page, size, (off_t)pattern->length) != (ssize_t)size) {
            cw_debug("cannot return pages of %zu bytes to the kernel: %m", length);
            return 0;
        }
        pattern->length += size;
    }
    return pattern->fd >= 0;
}

void *cw_pages_map(size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return (memory == MAP_FAILED) ? NULL : memory;
}

void *cw_pattern_map(struct cw_pattern *pattern, const void *page, size_t length, int *gives_back_p)
{
    void *memory;

    *gives_back_p = extend(pattern, page, length);
    if (!*gives_back_p) {
        return cw_pages_map(length);
    }
    memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, pattern->fd, 0);
    return (memory == MAP_FAILED) ? NULL : memory;
}

void cw_pattern_give_back(void *page, size_t page_size)
{
    (void)madvise(page, page_size, MADV_DONTNEED); /* fails for locked memory, which then keeps the page */
}

void cw_pattern_unmap(void *memory, size_t length)
{
    (void)munmap(memory, length);
}

void cw_pattern_close(struct cw_pattern *pattern)
{
    if (pattern->fd >= 0) {
        close(pattern->fd);
    }
    cw_pattern_init(pattern);
}
