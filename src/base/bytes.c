/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy of base/bytes.h for addresses at which `rep movsb` is slow (docs/why/shared-memory.md). Invariant: never
 * compiled to `rep movsb`, nor to a call of memcpy.
 */
#include "base/bytes.h"

#define BLOCK 64u

typedef uint64_t vector __attribute__((vector_size(16), aligned(1), may_alias));

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
