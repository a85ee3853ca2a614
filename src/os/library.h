/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that are used if they are there: loaded by this library, or found among those that the program has loaded.
 * Either way they stay loaded. Thread safe.
 */
#ifndef CW_OS_LIBRARY_H
#define CW_OS_LIBRARY_H

#include <stddef.h>

/* A function, and the offset of its pointer in a table of the caller. */
struct cw_symbol {
    const char *name;
    size_t offset;
    int optional; /* the pointer is NULL if the library lacks it */
};

/* Writes the pointers. NULL, or the name of a function that the library lacks. */
const char *cw_library_find(void *library, const struct cw_symbol *symbols, size_t count, void *table);

/* A library to load, and what a user without it can do. */
struct cw_library {
    const char *file;
    const char *absent;  /* "install ..." where the file is missing */
    const char *old;     /* "install ..." where it lacks a function */
    const struct cw_symbol *symbols;
    size_t num_symbols;
};

#define CW_LIBRARY_WHY 256u

/* Loads it and writes the pointers to `table`. NULL: `why` is reason and remedy, without a full stop. */
void *cw_library_open(const struct cw_library *library, void *table, char why[CW_LIBRARY_WHY]);

/* The first library that has one of these names (a NULL-terminated list), with *index_p in the list, if the process has
 * loaded it already. NULL: the process has loaded none. *seen, 0 at first, belongs to the list: no name is compared if
 * nothing was loaded since the last call. */
void *cw_library_loaded(const char *const *sonames, unsigned *index_p, unsigned long long *seen);

/* A number that changes with each library that the process loads; never 0. */
unsigned long long cw_library_number(void);

#endif
