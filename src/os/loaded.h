/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that the program has loaded, and classification of memory by its address.
 */
#ifndef CW_OS_LOADED_H
#define CW_OS_LOADED_H

/* The first library that has one of these names (a NULL-terminated list), with *index_p in the list, if the process has
 * loaded it already; the call loads nothing. The library then stays loaded. NULL: the process has loaded none. *seen, 0
 * at first, belongs to the list: no name is compared if nothing was loaded since the last call. */
void *cw_loaded_library(const char *const *sonames, unsigned *index_p, unsigned long long *seen);
/* A number that changes with each library that the process loads; never 0. */
unsigned long long cw_loaded_number(void);
/* NULL: the library has no such function. */
void *cw_loaded_symbol(void *library, const char *name);

/* Whether the address lies on the stack of the calling thread or in the heap that grows by brk(2): such memory is
 * always host memory. 0: unknown. Only the first call of a thread makes a system call. */
int cw_memory_is_plain(const void *ptr);

#endif
