/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that the program has loaded, and memory whose use the addresses tell.
 */
#ifndef CW_OS_LOADED_H
#define CW_OS_LOADED_H

/* The library of that name if the process has it already; nothing is loaded. It stays then. NULL: it has not. */
void *cw_loaded_library(const char *soname);
/* NULL: it lacks that function. */
void *cw_loaded_symbol(void *library, const char *name);

/* Whether the address lies on the stack of the calling thread or in the heap that grows by brk(2): memory of the host,
 * whatever libraries do. 0: not known. No system call but for the first question of a thread. */
int cw_memory_is_plain(const void *ptr);

#endif
