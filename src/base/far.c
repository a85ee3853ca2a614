/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice and the copies of base/far.h.
 */
#include "base/far.h"

#include "os/clock.h"

#if CW_FAR_HELPS
#include <emmintrin.h>
#endif

/* Copies are measured in the time for a byte, in 1/256 ns. This is that of so many bytes in a nanosecond. */
#define UNIT                256u
#define SPEED(bytes_per_ns) (UNIT / (bytes_per_ns))

/* One of so many copies is timed. */
#define EVERY 32u

/* If it is slower than that, so many of those that follow are timed, too: where processors are far from each other some
 * copies are fast. */
#define SLOW   SPEED(18)
#define ENOUGH 8u

/* Where all together were as slow as that, going past the caches is better. */
#define VERY_SLOW SPEED(4)

/* One that was interrupted counts as that. */
#define SLOWEST SPEED(2)

/* So many bytes go past the caches before it is looked whether that is still better. Lines that were written past them
 * come at another speed, so the first lap is not looked at. */
#define PAST_BYTES (512u << 20)

void cw_far_copy_past(void *to, const void *from, size_t length)
{
    char *dest         = to;
    const char *source = from;

#if CW_FAR_HELPS
    const size_t to_line = (CW_CACHE_LINE - (uintptr_t)dest % CW_CACHE_LINE) % CW_CACHE_LINE;
    const size_t head    = (to_line < length) ? to_line : length;
    const __m128i *vectors;
    __m128i a, b, c, d;
    __m128i *line;

    memcpy(dest, source, head);
    dest   += head;
    source += head;
    length -= head;
    for (; length >= CW_CACHE_LINE; length -= CW_CACHE_LINE) {
        vectors = (const void *)source;
        line    = (void *)dest;
        a       = _mm_loadu_si128(vectors);
        b       = _mm_loadu_si128(vectors + 1);
        c       = _mm_loadu_si128(vectors + 2);
        d       = _mm_loadu_si128(vectors + 3);
        _mm_stream_si128(line, a);
        _mm_stream_si128(line + 1, b);
        _mm_stream_si128(line + 2, c);
        _mm_stream_si128(line + 3, d);
        dest   += CW_CACHE_LINE;
        source += CW_CACHE_LINE;
    }
    _mm_sfence(); /* stores of this kind are not in order with the others */
#endif
    memcpy(dest, source, length);
}

static void go_through(struct cw_far *far)
{
    far->past = 0;
    far->left = CW_FAR_LAP;
}

void cw_far_note(struct cw_far *far, size_t length, uint64_t ns)
{
    const unsigned spent = (ns < length / UNIT * SLOWEST) ? (unsigned)(ns * UNIT / length) : SLOWEST;

    if (far->timed == 0) {
        if (spent <= SLOW) {
            far->skip = EVERY - 1;
            return;
        }
        far->spent = 0; /* this one may have been interrupted */
    } else {
        far->spent = (uint16_t)(far->spent + spent);
    }
    far->timed++;
    if (far->timed <= ENOUGH) {
        return;
    }
    far->timed = 0;
    if (far->spent >= ENOUGH * VERY_SLOW) {
        far->past = 1;
        far->left = PAST_BYTES;
    } else {
        far->skip = EVERY - 1;
    }
}

static inline void copy(const struct cw_far *far, void *to, const void *from, size_t length)
{
    if (far->past) {
        cw_far_copy_past(to, from, length);
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

/* Past the caches, or in the lap behind that: not timed. */
static CW_APART void copy_untimed(struct cw_far *far, void *to, const void *from, size_t length)
{
    copy(far, to, from, length);
    far->left = (length < far->left) ? far->left - (uint32_t)length : 0;
    if (far->left == 0 && far->past) {
        go_through(far);
    }
}

void cw_far_copy_long(struct cw_far *far, void *to, const void *from, size_t length)
{
    uint64_t begin;

    if (far->left > 0) {
        copy_untimed(far, to, from, length);
    } else if (far->skip > 0) {
        far->skip--;
        cw_bytes_copy_any(to, from, length);
    } else {
        begin = cw_clock_ns();
        cw_bytes_copy_any(to, from, length);
        cw_far_note(far, length, cw_clock_ns() - begin);
    }
}
