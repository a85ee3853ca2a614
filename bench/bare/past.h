/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A copy whose stores go past the caches (x86; elsewhere memcpy()), for bare programs.
 */
#ifndef CW_BENCH_PAST_H
#define CW_BENCH_PAST_H

#include <stddef.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { CW_PAST_LINE = 64 };

/* `to` begins with a cache line. */
static inline void cw_copy_past(char *to, const char *from, size_t length)
{
#if defined(__SSE2__)
    for (; length >= CW_PAST_LINE; to += CW_PAST_LINE, from += CW_PAST_LINE, length -= CW_PAST_LINE) {
        for (unsigned i = 0; i < CW_PAST_LINE; i += sizeof(__m128i)) {
            _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        }
    }
    _mm_sfence();
#endif
    memcpy(to, from, length);
}

#endif
