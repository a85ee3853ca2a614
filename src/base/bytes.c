/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The long copies of base/bytes.h. `rep movsb` writes lines that another processor has without fetching them first, so
 * it is not left to libc, which has other reasons to avoid it (docs/why/shared-memory.md).
 */
#include "base/bytes.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <stdbool.h>
#endif

#define BLOCK 64u

#if defined(__x86_64__)

/* For shorter copies the start of `rep movsb` costs more than it saves: if another processor has the lines of the
 * destination, and otherwise. */
#define REP_LEAST_SHARED 2112u
#define REP_LEAST        8192u

#define LEAF_FEATURES 7u
#define EBX_ERMS      (1u << 9) /* enhanced rep movsb */

enum rep { REP_UNKNOWN, REP_SLOW, REP_FAST };

/* Threads may ask at the same time: they find the same answer. */
static enum rep rep_state;

static CW_NOINLINE enum rep find_rep(void)
{
    unsigned eax, ebx, ecx, edx;
    enum rep found = REP_SLOW;

    if (__get_cpuid_count(LEAF_FEATURES, 0, &eax, &ebx, &ecx, &edx) && (ebx & EBX_ERMS) != 0) {
        found = REP_FAST;
    }
    __atomic_store_n(&rep_state, found, __ATOMIC_RELAXED);
    return found;
}

static bool rep_is_fast(void)
{
    enum rep state = __atomic_load_n(&rep_state, __ATOMIC_RELAXED);

    if (cw_unlikely(state == REP_UNKNOWN)) {
        state = find_rep();
    }
    return state == REP_FAST;
}

#endif

static inline void copy(void *to, const void *from, size_t length, size_t rep_least)
{
#if defined(__x86_64__)
    if (length >= rep_least && rep_is_fast()) {
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
        return;
    }
#else
    (void)rep_least;
#endif
    memcpy(to, from, length);
}

void cw_bytes_copy_long(void *to, const void *from, size_t length)
{
    copy(to, from, length, REP_LEAST);
}

void cw_bytes_copy_shared(void *to, const void *from, size_t length)
{
    if (cw_bytes_are_near((uintptr_t)to, (uintptr_t)from)) {
        cw_bytes_copy_near(to, from, length);
    } else {
        copy(to, from, length, REP_LEAST_SHARED);
    }
}

typedef uint64_t vector __attribute__((vector_size(16), aligned(1), may_alias));

/* Never compiled to `rep movsb`, nor to a call of memcpy. */
void cw_bytes_copy_near(void *to, const void *from, size_t length)
{
    char *dest = to;
    const char *source = from;
    vector a, b, c, d;

    for (; length >= BLOCK; length -= BLOCK, dest += BLOCK, source += BLOCK) {
        a = ((const vector *)source)[0];
        b = ((const vector *)source)[1];
        c = ((const vector *)source)[2];
        d = ((const vector *)source)[3];
        __asm__ volatile("" ::: "memory"); /* else the compiler makes a memcpy of the loop */
        ((vector *)dest)[0] = a;
        ((vector *)dest)[1] = b;
        ((vector *)dest)[2] = c;
        ((vector *)dest)[3] = d;
    }
    memcpy(dest, source, length);
}
