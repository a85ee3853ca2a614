/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice and the copies of base/nt_copy.h.
 */
#include "base/nt_copy.h"

#include "os/clock.h"

#if CW_NT_HELPS
#include <emmintrin.h>
#endif

/* Unit of the time per copied byte: 1/256 ns. SPEED converts from bytes per nanosecond. */
#define UNIT                256u
#define SPEED(bytes_per_ns) (UNIT / (bytes_per_ns))

/* The producer times one of EVERY copies. */
#define EVERY 32u

/* After a copy that is slower than SLOW the next ENOUGH copies are timed, too: between distant processors some copies
 * are fast. */
#define SLOW   SPEED(18)
#define ENOUGH 8u

/* If the mean of these is as slow as VERY_SLOW, non-temporal copies are better. */
#define VERY_SLOW SPEED(4)

/* A slower copy was interrupted and counts as SLOWEST. */
#define SLOWEST SPEED(2)

/* Bytes copied non-temporally before copies are timed again. Lines written non-temporally have another speed, so the
 * first lap afterwards is not timed. */
#define PAST_BYTES (512u << 20)

void cw_nt_store(void *to, const void *from, size_t length)
{
    char *dest = to;
    const char *source = from;

#if CW_NT_HELPS
    const size_t to_line = (CW_CACHE_LINE - (uintptr_t)dest % CW_CACHE_LINE) % CW_CACHE_LINE;
    const size_t head = (to_line < length) ? to_line : length;
    const __m128i *vectors;
    __m128i a, b, c, d;
    __m128i *line;

    memcpy(dest, source, head);
    dest += head;
    source += head;
    length -= head;
    for (; length >= CW_CACHE_LINE; length -= CW_CACHE_LINE) {
        vectors = (const void *)source;
        line = (void *)dest;
        a = _mm_loadu_si128(vectors);
        b = _mm_loadu_si128(vectors + 1);
        c = _mm_loadu_si128(vectors + 2);
        d = _mm_loadu_si128(vectors + 3);
        _mm_stream_si128(line, a);
        _mm_stream_si128(line + 1, b);
        _mm_stream_si128(line + 2, c);
        _mm_stream_si128(line + 3, d);
        dest += CW_CACHE_LINE;
        source += CW_CACHE_LINE;
    }
    _mm_sfence(); /* non-temporal stores are weakly ordered */
#endif
    memcpy(dest, source, length);
}

static void go_through(struct cw_nt_choice *nt)
{
    nt->past = 0;
    nt->left = CW_NT_LAP;
}

void cw_nt_note(struct cw_nt_choice *nt, size_t length, uint64_t ns)
{
    const unsigned spent = (ns < length / UNIT * SLOWEST) ? (unsigned)(ns * UNIT / length) : SLOWEST;

    if (nt->timed == 0) {
        if (spent <= SLOW) {
            nt->skip = EVERY - 1;
            return;
        }
        nt->spent = 0; /* this one may have been interrupted */
    } else {
        nt->spent = (uint16_t)(nt->spent + spent);
    }
    nt->timed++;
    if (nt->timed <= ENOUGH) {
        return;
    }
    nt->timed = 0;
    if (nt->spent >= ENOUGH * VERY_SLOW) {
        nt->past = 1;
        nt->left = PAST_BYTES;
    } else {
        nt->skip = EVERY - 1;
    }
}

static inline void copy(const struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    if (nt->past) {
        cw_nt_store(to, from, length);
    } else {
        cw_bytes_copy_shared(to, from, length);
    }
}

/* Non-temporal, or in the lap after that: not timed. */
static CW_NOINLINE void copy_untimed(struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    copy(nt, to, from, length);
    nt->left = (length < nt->left) ? nt->left - (uint32_t)length : 0;
    if (nt->left == 0 && nt->past) {
        go_through(nt);
    }
}

void cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    uint64_t begin;

    if (nt->off) {
        cw_bytes_copy_shared(to, from, length);
    } else if (nt->left > 0) {
        copy_untimed(nt, to, from, length);
    } else if (nt->skip > 0) {
        nt->skip--;
        cw_bytes_copy_shared(to, from, length);
    } else {
        begin = cw_clock_ns();
        cw_bytes_copy_shared(to, from, length);
        cw_nt_note(nt, length, cw_clock_ns() - begin);
    }
}
