/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory whose pages, once they are given back to the system, read as a pattern that is the same for all of them. The
 * pattern lies in a file without a name, of which the memory is a private mapping: a page that was never written, or
 * was given back, costs nothing. Where the system has no such files, pages keep what was written to them.
 */
#ifndef CW_OS_PATTERN_H
#define CW_OS_PATTERN_H

#include <stddef.h>

struct cw_pattern {
    int fd;        /* close-on-exec; -1: none yet, or none can be had */
    size_t length; /* of the file: the longest mapping that pages can be given back of */
};

static inline void cw_pattern_init(struct cw_pattern *pattern)
{
    *pattern = (struct cw_pattern){.fd = -1};
}

/* Maps zeroed memory without a pattern. NULL: no memory. */
void *cw_pages_map(size_t length);
/* Maps `length` bytes, whole pages, with any contents; `page` is a page of the pattern. NULL: no memory. *gives_back_p:
 * whether pages can be given back. */
void *cw_pattern_map(struct cw_pattern *pattern, const void *page, size_t length, int *gives_back_p);
/* The page, which is equal to the pattern, reads as before. */
void cw_pattern_give_back(void *page, size_t page_size);
void cw_pattern_unmap(void *memory, size_t length);
/* The mappings stay. */
void cw_pattern_close(struct cw_pattern *pattern);

#endif
