/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/library.h by dlopen(3).
 */
#include "os/library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Whether the file of a loaded object has that name, whatever its version. */
static bool has_name(const char *path, const char *soname)
{
    const char *end = strstr(soname, ".so");
    const char *base = strrchr(path, '/');
    const size_t length = (end == NULL) ? strlen(soname) : (size_t)(end - soname) + 3;

    base = (base == NULL) ? path : base + 1;
    return strlen(base) >= length && memcmp(base, soname, length) == 0;
}

struct search {
    const char *const *sonames;
    unsigned long long seen; /* how many objects had been loaded at the previous check */
    unsigned long long now;
};

/* 1: one of the names matches. */
static int is_sought(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct search *search = argument;
    unsigned i;

    (void)size;
    search->now = info->dlpi_adds;
    for (i = 0; search->now != search->seen && search->sonames[i] != NULL; i++) {
        if (has_name(info->dlpi_name, search->sonames[i])) {
            return 1;
        }
    }
    return 0;
}

static int check_number(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    *(unsigned long long *)argument = info->dlpi_adds;
    return 1; /* the number is that of the process, not of this object */
}

unsigned long long cw_library_number(void)
{
    unsigned long long number = 0;

    (void)dl_iterate_phdr(check_number, &number);
    return number + 1;
}

/* dlopen searches all directories for a library that is not loaded, which takes longer than the rest of ucp_init. */
void *cw_library_loaded(const char *const *sonames, unsigned *index_p, unsigned long long *seen)
{
    struct search search = {.sonames = sonames, .seen = *seen};
    void *library = NULL;
    unsigned i;

    if (dl_iterate_phdr(is_sought, &search) != 0) {
        for (i = 0; library == NULL && sonames[i] != NULL; i++) {
            library = dlopen(sonames[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
            *index_p = i;
            (void)dlerror();
        }
    }
    *seen = search.now;
    return library;
}

const char *cw_library_find(void *library, const struct cw_symbol *symbols, size_t count, void *table)
{
    void *address;
    size_t i;

    for (i = 0; i < count; i++) {
        address = dlsym(library, symbols[i].name);
        (void)dlerror();
        if (address == NULL && !symbols[i].optional) {
            return symbols[i].name;
        }
        memcpy((char *)table + symbols[i].offset, &address, sizeof(address));
    }
    return NULL;
}

void *cw_library_open(const struct cw_library *library, void *table, char why[CW_LIBRARY_WHY])
{
    void *handle = dlopen(library->file, RTLD_NOW | RTLD_LOCAL);
    const char *error, *missing;

    if (handle == NULL) {
        error = dlerror();
        snprintf(why, CW_LIBRARY_WHY, "%s cannot be opened (%s); %s", library->file,
                 (error != NULL) ? error : "no reason given", library->absent);
        return NULL;
    }
    missing = cw_library_find(handle, library->symbols, library->num_symbols, table);
    if (missing != NULL) {
        snprintf(why, CW_LIBRARY_WHY, "%s lacks %s; %s", library->file, missing, library->old);
        return NULL;
    }
    return handle;
}
