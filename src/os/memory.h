/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes of this machine may map: pages without a name in any file system, behind them one more
 * page, the trailer, mapped apart so that the data can be given any address. Size sealed, so that nobody who mapped it
 * runs past the end. Pages come into being when they are touched, but for the trailer's. After a fork the child has
 * the same pages, not a copy, as it has of any shared mapping.
 * Callers: mem/host.c for what ucp_mem_map allocates and for what others allocated.
 */
#ifndef CW_OS_MEMORY_H
#define CW_OS_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/memory/memory_type.h"
#include "ucs/type/status.h"

enum cw_memory_huge {
    CW_MEMORY_SMALL,        /* ordinary pages */
    CW_MEMORY_TRANSPARENT,  /* the system may join pages behind our back */
    CW_MEMORY_RESERVED      /* pages from the system's pool of huge pages, or nothing */
};

struct cw_memory_wish {
    void *address;          /* NULL: anywhere */
    int fixed;              /* exactly there, a whole page, instead of what is mapped there; else a hint */
    size_t length;          /* > 0; rounded up to whole pages */
    int shareable;          /* 0: private to this process, without trailer and descriptor */
    enum cw_memory_huge huge;
    ucs_memory_type_t type; /* of those that a memory domain allocates */
};

struct cw_memory {
    char *ptr;
    size_t length;          /* whole pages */
    size_t page;
    uint64_t *trailer;      /* a page of words, zero at first; NULL: private */
    int fd;                 /* close-on-exec; -1: none */
};

/* Zeroed memory. UCS_ERR_NO_MEMORY: the system does not give it (also at a fixed address); logs at level debug only,
 * since there may be another way. A fixed address may have lost what was there. */
ucs_status_t cw_memory_allocate(const struct cw_memory_wish *wish, struct cw_memory *memory);

/*
 * Maps shareable memory of a process (also of this one), whose data has `length` bytes, by number of process and
 * descriptor. These may be any numbers: nothing is opened, read or written that is not sealed memory made by
 * cw_memory_allocate. UCS_ERR_UNREACHABLE when it is not there, not ours to open, or not of that length; logs at level
 * debug. The result has no descriptor.
 */
ucs_status_t cw_memory_open(uint32_t pid, uint32_t fd, uint64_t length, struct cw_memory *memory);

/* Addresses that nothing may touch: a processor that does ends the program. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_memory_reserve(size_t length, struct cw_memory *memory);

/* For all three. */
void cw_memory_release(struct cw_memory *memory);

/* Has the pages of that range there when it returns, as far as the system does it; never touches them itself. */
void cw_memory_populate(void *ptr, size_t length);

/* The system is told that these bytes, of any mapping, will soon be in use. */
void cw_memory_will_need(void *ptr, size_t length);

size_t cw_memory_page(void);

/* This process, as others of its name space of process ids know it. */
uint32_t cw_memory_process(void);

#endif
