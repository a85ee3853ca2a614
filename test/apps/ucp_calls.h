/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the one-sided calls that reach UCP, which proves more than the name of the component that a runtime chose. The
 * program is linked with -rdynamic, so the runtime's plugins find these functions before the library's, to which they
 * pass everything on. With CW_APPS_TRACE set each call is printed.
 * Invariant: all arguments are integers or pointers, at most eight; what a call does not have is passed on unread. */
#ifndef CW_APPS_UCP_CALLS_H
#define CW_APPS_UCP_CALLS_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uintptr_t ucp_word;
typedef ucp_word (*ucp_function)(ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word);

enum {
    CALLS_PUT,
    CALLS_GET,
    CALLS_ATOMIC,
    CALLS_KINDS
};

static long ucp_calls[CALLS_KINDS];

/* The library's own function behind a counted one. */
static ucp_function ucp_behind(const char *name)
{
    void *library = dlopen("libucp.so.0", RTLD_LAZY | RTLD_NOLOAD);
    ucp_function function = (library != NULL) ? (ucp_function)dlsym(library, name) : NULL;

    if (function == NULL) {
        fprintf(stderr, "%s is called, but there is none in libucp.so.0: %s\n", name, dlerror());
        abort();
    }
    /* The runtime keeps it loaded as long as it calls, and unloads it with what needs it in the right order. */
    dlclose(library);
    return function;
}

static void ucp_count(const char *name, int kind, ucp_word size)
{
    static int trace = -1;

    if (trace < 0) {
        trace = getenv("CW_APPS_TRACE") != NULL;
    }
    if (trace) {
        fprintf(stderr, "%s(..., %zu, ...)\n", name, (size_t)size);
    }
    __atomic_fetch_add(&ucp_calls[kind], 1, __ATOMIC_RELAXED);
}

#define COUNTED(name, kind) \
    ucp_word name(ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word, ucp_word); \
    ucp_word name(ucp_word a, ucp_word b, ucp_word c, ucp_word d, ucp_word e, ucp_word f, ucp_word g, ucp_word h) \
    { \
        static ucp_function behind; \
\
        if (behind == NULL) { \
            behind = ucp_behind(#name); \
        } \
        ucp_count(#name, kind, c); \
        return behind(a, b, c, d, e, f, g, h); \
    }

COUNTED(ucp_put, CALLS_PUT)
COUNTED(ucp_put_nb, CALLS_PUT)
COUNTED(ucp_put_nbi, CALLS_PUT)
COUNTED(ucp_put_nbx, CALLS_PUT)
COUNTED(ucp_get, CALLS_GET)
COUNTED(ucp_get_nb, CALLS_GET)
COUNTED(ucp_get_nbi, CALLS_GET)
COUNTED(ucp_get_nbx, CALLS_GET)
COUNTED(ucp_atomic_post, CALLS_ATOMIC)
COUNTED(ucp_atomic_fetch_nb, CALLS_ATOMIC)
COUNTED(ucp_atomic_op_nbx, CALLS_ATOMIC)

#endif
