/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that other processes of this machine may map. Its pages have no name in any file system. A further page, the
 * trailer, follows the data and is mapped separately, so that the data can have any address. The size is sealed, so
 * that no process that maps it can access past its end. The kernel allocates a page when it is touched; the trailer's
 * page exists from the beginning. After a fork the child shares these pages, not a copy, as of any shared mapping.
 */
#ifndef CW_OS_MEMORY_H
#define CW_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ucs/memory/memory_type.h"
#include "ucs/type/status.h"

enum cw_memory_huge {
    CW_MEMORY_SMALL,        /* ordinary pages */
    CW_MEMORY_TRANSPARENT,  /* ordinary pages that the kernel may merge into huge ones */
    CW_MEMORY_RESERVED      /* pages from the kernel's pool of huge pages, or failure */
};

struct cw_memory_spec {
    void *address;          /* NULL: anywhere */
    int fixed;              /* exactly at `address`, which is page-aligned, replacing the mapping there; 0: `address` is
                               a hint */
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
    int fd;                 /* of the memory, close-on-exec; -1: none */
};

/* Zeroed memory. UCS_ERR_NO_MEMORY: the kernel refuses it (also at a fixed address). Errors are logged at level debug
 * only, because the caller may have an alternative. With a fixed address the previous mapping may be lost. */
ucs_status_t cw_memory_allocate(const struct cw_memory_spec *spec, struct cw_memory *memory);

/*
 * Maps shareable memory of a process (also of this one), whose data has `length` bytes. `pid` and `fd` may be any
 * numbers: only sealed memory that cw_memory_allocate made is opened, read or written. UCS_ERR_UNREACHABLE if it does
 * not exist, may not be opened by this process, or has another length; logged at level debug. The result has no
 * descriptor.
 */
ucs_status_t cw_memory_open(uint32_t pid, uint32_t fd, uint64_t length, struct cw_memory *memory);

/* As cw_memory_open, by a descriptor of any file, which stays the caller's. */
ucs_status_t cw_memory_open_fd(int fd, uint64_t length, struct cw_memory *memory);

/* The bytes of memory that this process may lock, also for devices; SIZE_MAX: no limit. */
size_t cw_memory_lock_limit(void);

/* For memory that any of the functions above made or mapped. */
void cw_memory_release(struct cw_memory *memory);

/* Populates the pages of that range before it returns, as far as the kernel can; never touches them itself. */
void cw_memory_populate(void *ptr, size_t length);

/* Whether the program may read that range, and write it if `for_writing` is set; its pages are then present. 1 also if
 * the kernel cannot tell. */
bool cw_memory_is_there(void *ptr, size_t length, int for_writing);

/* Advises the kernel that these bytes, of any mapping, will soon be used. */
void cw_memory_will_need(void *ptr, size_t length);

size_t cw_memory_page(void);

/* Whether the address lies on the stack of the calling thread or in the heap that grows by brk(2): such memory is
 * always host memory. False: unknown. Only the first call of a thread makes a system call. */
bool cw_memory_is_plain(const void *ptr);

/* The id of this process in its pid namespace. */
uint32_t cw_memory_process(void);

#endif
