/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose pages, once they are returned to the kernel, read as a pattern that is the same for all of them. The
 * pattern lies in an unnamed file, of which the memory is a private mapping: a page that was never written, or was
 * returned, costs nothing. If the kernel has no such files, pages keep what was written to them.
 */
#ifndef CW_OS_PATTERN_H
#define CW_OS_PATTERN_H

#include <stddef.h>

struct cw_pattern {
    int fd;        /* close-on-exec; -1: none yet, or not available */
    size_t length; /* of the file: the longest mapping whose pages can be returned */
};

static inline void cw_pattern_init(struct cw_pattern *pattern)
{
    *pattern = (struct cw_pattern){.fd = -1};
}

/* Maps zeroed memory without a pattern. NULL: out of memory. */
void *cw_pages_map(size_t length);
/* Maps `length` bytes, whole pages, with any contents; `page` is a page of the pattern. NULL: out of memory.
 * *gives_back_p: whether pages can be returned. */
void *cw_pattern_map(struct cw_pattern *pattern, const void *page, size_t length, int *gives_back_p);
/* Returns the page, which must equal the pattern and reads as before. */
void cw_pattern_give_back(void *page, size_t page_size);
void cw_pattern_unmap(void *memory, size_t length);
/* The mappings stay. */
void cw_pattern_close(struct cw_pattern *pattern);

#endif
