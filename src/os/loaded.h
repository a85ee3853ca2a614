/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that the program has loaded, and memory whose use can be told from its address.
 */
#ifndef CW_OS_LOADED_H
#define CW_OS_LOADED_H

/* The library of that name, if the process has loaded it already; the call loads nothing. The library then stays
 * loaded. NULL: the process has not loaded it. */
void *cw_loaded_library(const char *soname);
/* NULL: the library has no such function. */
void *cw_loaded_symbol(void *library, const char *name);

/* Whether the address lies on the stack of the calling thread or in the heap that grows by brk(2): such memory is
 * always memory of the host. 0: not known. Only the first call of a thread makes a system call. */
int cw_memory_is_plain(const void *ptr);

#endif
