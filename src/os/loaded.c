/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/loaded.h by dlopen(3). The stack of the main thread grows downwards, and a fiber has a stack of its own. So an
 * address counts as one of the thread's stack only if it lies between the frame of the caller and the end of that
 * stack.
 */
#include "os/loaded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAP_FIELD 47 /* start_brk in /proc/self/stat, proc(5) */

static __thread uintptr_t stack_end; /* 0: not queried; 1: unknown */
static __thread uintptr_t stack_start;
static uintptr_t heap_start; /* atomic; 0: not queried; UINTPTR_MAX: unknown */

/* Whether the file of a loaded object has that name, whatever its version. */
static int has_name(const char *path, const char *soname)
{
    const char *end = strstr(soname, ".so");
    const char *base = strrchr(path, '/');
    const size_t length = (end == NULL) ? strlen(soname) : (size_t)(end - soname) + 3;

    base = (base == NULL) ? path : base + 1;
    return strlen(base) >= length && memcmp(base, soname, length) == 0;
}

struct look {
    const char *const *sonames;
    unsigned long long seen; /* how many objects had been loaded at the previous check */
    unsigned long long now;
};

/* 1: one of the names matches. */
static int look_at(struct dl_phdr_info *info, size_t size, void *argument)
{
    struct look *look = argument;
    unsigned i;

    (void)size;
    look->now = info->dlpi_adds;
    for (i = 0; look->now != look->seen && look->sonames[i] != NULL; i++) {
        if (has_name(info->dlpi_name, look->sonames[i])) {
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

unsigned long long cw_loaded_number(void)
{
    unsigned long long number = 0;

    (void)dl_iterate_phdr(check_number, &number);
    return number + 1;
}

/* dlopen searches all directories for a library that is not loaded, which takes longer than the rest of ucp_init. */
void *cw_loaded_library(const char *const *sonames, unsigned *index_p, unsigned long long *seen)
{
    struct look look = {.sonames = sonames, .seen = *seen};
    void *library = NULL;
    unsigned i;

    if (dl_iterate_phdr(look_at, &look) != 0) {
        for (i = 0; library == NULL && sonames[i] != NULL; i++) {
            library = dlopen(sonames[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
            *index_p = i;
            (void)dlerror();
        }
    }
    *seen = look.now;
    return library;
}

void *cw_loaded_symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);

    (void)dlerror();
    return address;
}

static void find_stack(void)
{
    pthread_attr_t attr;
    void *start = NULL;
    size_t length = 0;

    stack_end = 1;
    if (pthread_getattr_np(pthread_self(), &attr) == 0) {
        if (pthread_attr_getstack(&attr, &start, &length) == 0) {
            stack_start = (uintptr_t)start;
            stack_end = stack_start + length;
        }
        (void)pthread_attr_destroy(&attr);
    }
}

/* The name of the program is in parentheses and may contain any characters, so it ends at the last parenthesis. */
static uintptr_t find_heap(void)
{
    char text[1024];
    const char *place;
    ssize_t length;
    unsigned field;
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return UINTPTR_MAX;
    }
    length = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    text[(length > 0) ? length : 0] = '\0';
    place = strrchr(text, ')');
    for (field = 2; place != NULL && field < HEAP_FIELD; field++) {
        place = strchr(place + 1, ' ');
    }
    return (place != NULL && strtoull(place, NULL, 10) > 0) ? (uintptr_t)strtoull(place, NULL, 10) : UINTPTR_MAX;
}

int cw_memory_is_plain(const void *ptr)
{
    const uintptr_t address = (uintptr_t)ptr, here = (uintptr_t)__builtin_frame_address(0);
    uintptr_t start = __atomic_load_n(&heap_start, __ATOMIC_RELAXED);

    if (stack_end == 0) {
        find_stack();
    }
    if (address >= here && address < stack_end && here >= stack_start) {
        return 1;
    }
    if (start == 0) {
        start = find_heap();
        __atomic_store_n(&heap_start, start, __ATOMIC_RELAXED);
    }
    return address >= start && address < (uintptr_t)sbrk(0);
}
