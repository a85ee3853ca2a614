/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory shared with another process through a descriptor. Nothing of it has a name, so nothing stays behind when a
 * process is killed. Pages are reserved when the memory is made and its size is sealed, so that touching it later can
 * neither run out of memory nor past the end (SIGBUS).
 */
#ifndef CW_OS_SHM_H
#define CW_OS_SHM_H

#include <stddef.h>

#include "ucs/type/status.h"

/* Zeroed memory of `size` bytes (a multiple of the page size) and a close-on-exec descriptor for it. UCS_ERR_NO_MEMORY,
 * with the reason in the log. */
ucs_status_t cw_shm_create(size_t size, int *fd_p, void **ptr_p);

/* Zeroed memory, likewise reserved and sealed, that other processes of this user may read, and nobody but this mapping
 * writes: they find it by `name` among the descriptors of this process. UCS_ERR_NO_MEMORY; logs at level debug. */
ucs_status_t cw_shm_show(const char *name, size_t size, int *fd_p, void **ptr_p);

/* Maps what a peer sent, all of it reserved. UCS_ERR_INVALID_PARAM when the descriptor is no sealed memory of exactly
 * that size, UCS_ERR_NO_MEMORY; logs nothing. The descriptor stays the caller's. */
ucs_status_t cw_shm_attach(int fd, size_t size, void **ptr_p);

void cw_shm_unmap(void *ptr, size_t size);

/* What cw_shm_show gave. */
void cw_shm_hide(int fd, void *ptr, size_t size);

#endif
