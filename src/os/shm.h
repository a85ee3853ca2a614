/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared with another process through a descriptor. Nothing of it has a name, so nothing stays behind when a
 * process is killed. Its size is sealed, so that touching it cannot run past the end (SIGBUS). Where the system
 * promises no more memory than it has (vm.overcommit_memory 2), a page that it cannot give would be a SIGBUS, too:
 * there all pages are reserved when the memory is made; elsewhere a page comes when it is touched, as with malloc.
 */
#ifndef CW_OS_SHM_H
#define CW_OS_SHM_H

#include <stddef.h>

#include "ucs/type/status.h"

/* Zeroed memory of `size` bytes (a multiple of the page size), of which `now` are reserved in any case, and a
 * close-on-exec descriptor for it. UCS_ERR_NO_MEMORY, with the reason in the log. */
ucs_status_t cw_shm_create(size_t size, size_t now, int *fd_p, void **ptr_p);

/* Zeroed memory, all of it reserved, and sealed, that other processes of this user may read, and nobody but this
 * mapping writes: they find it by `name` among the descriptors of this process. UCS_ERR_NO_MEMORY; logs at level
 * debug. */
ucs_status_t cw_shm_show(const char *name, size_t size, int *fd_p, void **ptr_p);

/* Maps what a peer sent, reserved as by cw_shm_create. UCS_ERR_INVALID_PARAM when the descriptor is no sealed memory of
 * exactly that size, UCS_ERR_NO_MEMORY; logs nothing. The descriptor stays the caller's. */
ucs_status_t cw_shm_attach(int fd, size_t size, size_t now, void **ptr_p);

/* Whether all of such memory is reserved at once, because the system may have no page when one is touched. */
int cw_shm_is_strict(void);

/* Gives the whole pages in there back to the system, for all who have them mapped: they are zeros when they are touched
 * again. Does nothing where all pages are to be reserved. */
void cw_shm_give_back(void *ptr, size_t size);

void cw_shm_unmap(void *ptr, size_t size);

/* What cw_shm_show gave. */
void cw_shm_hide(int fd, void *ptr, size_t size);

#endif
