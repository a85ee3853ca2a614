/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice and the copies of base/far.h.
 */
#include "base/far.h"

#include "os/clock.h"

#if CW_FAR_HELPS
#include <emmintrin.h>
#endif

/* Bytes per nanosecond: a slower copy through the caches speaks for going past them. Far from each other processors of
 * Zen 4 have 1.6 to 3.5, near each other 7 to 25; going past them has 10 to 16 in both cases. */
#define SLOW 4u

/* So many samples in a row. One alone may have been interrupted. */
#define ENOUGH 4u

/* One of so many copies is timed. */
#define EVERY 32u

/* So many bytes go past the caches, some 40 ms, before it is looked whether that is still better; this costs 1 %. Lines
 * that were written past them come at another speed, so the first lap is not looked at. */
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

void cw_far_note(struct cw_far *far, size_t length, uint64_t ns)
{
    const int slow = ns * SLOW > length;

    far->in_a_row = (uint8_t)(slow ? far->in_a_row + 1 : 0);
    far->skip     = slow ? 0 : EVERY - 1;
    if (far->in_a_row == ENOUGH) {
        far->in_a_row = 0;
        far->past     = 1;
        far->left     = PAST_BYTES;
    }
}

/* Not looked at: past the caches, or the lap behind that. */
static CW_APART void copy_blindly(struct cw_far *far, void *to, const void *from, size_t length)
{
    far->left = (length < far->left) ? far->left - (uint32_t)length : 0;
    if (!far->past) {
        cw_bytes_copy_any(to, from, length);
        return;
    }
    cw_far_copy_past(to, from, length);
    if (far->left == 0) {
        far->past = 0;
        far->left = CW_FAR_LAP;
    }
}

void cw_far_copy_long(struct cw_far *far, void *to, const void *from, size_t length)
{
    uint64_t begin;

    if (far->left > 0) {
        copy_blindly(far, to, from, length);
    } else if (far->skip > 0) {
        far->skip--;
        cw_bytes_copy_any(to, from, length);
    } else {
        begin = cw_clock_ns();
        cw_bytes_copy_any(to, from, length);
        cw_far_note(far, length, cw_clock_ns() - begin);
    }
}
