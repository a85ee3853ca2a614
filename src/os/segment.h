/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared with another process through a descriptor. Nothing of it has a name, so nothing remains when a process
 * is killed. Its size is sealed, so that an access cannot run past the end (SIGBUS). If the kernel does not overcommit
 * memory (vm.overcommit_memory 2), an access to a page that it cannot allocate would be a SIGBUS, too: on such a system
 * all pages are reserved when the memory is made. Elsewhere a page is allocated when it is touched, as with malloc.
 */
#ifndef CW_OS_SEGMENT_H
#define CW_OS_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "ucs/type/status.h"

/* Zeroed memory of `size` bytes (a multiple of the page size), of which `now` are always reserved, and a close-on-exec
 * descriptor for it. UCS_ERR_NO_MEMORY, UCS_ERR_NO_RESOURCE (no descriptors), UCS_ERR_EXCEEDS_LIMIT (of file sizes),
 * UCS_ERR_UNSUPPORTED (the kernel or a sandbox has no such memory), with the reason in the log. */
ucs_status_t cw_segment_create(size_t size, size_t now, int *fd_p, void **ptr_p);

/* Zeroed memory, all of it reserved, and sealed, that other processes of this user may read and that only this
 * mapping writes: the readers find it by `name` among the descriptors of this process. UCS_ERR_NO_MEMORY; logs at
 * level debug. */
ucs_status_t cw_segment_show(const char *name, size_t size, int *fd_p, void **ptr_p);

/* Whether another process has a lock on such memory; one that can only read it can take a read lock. */
bool cw_segment_is_locked(int fd);

/* Maps what a peer sent, reserved as by cw_segment_create. UCS_ERR_INVALID_PARAM when the descriptor is no sealed
 * memory of exactly that size, UCS_ERR_NO_MEMORY; logs nothing. The descriptor stays the caller's. */
ucs_status_t cw_segment_attach(int fd, size_t size, size_t now, void **ptr_p);

/* Whether the pages of such memory are all reserved at once, because the kernel may have no page when one is
 * touched. */
bool cw_segment_is_strict(void);

/* Returns the whole pages of the range to the kernel, for all processes that map them: a page is zeros when it is
 * touched again. A no-op if all pages have to be reserved. */
void cw_segment_give_back(void *ptr, size_t size);

/* Allocates the pages of the range now, all at once, if the kernel can do that; else when they are touched. */
void cw_segment_populate(void *ptr, size_t size);

void cw_segment_unmap(void *ptr, size_t size);

/* Ends what cw_segment_show began: unmaps the memory and closes its descriptor. */
void cw_segment_hide(int fd, void *ptr, size_t size);

#endif
