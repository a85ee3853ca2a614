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

/* If it is slower than that, so many of those that follow are timed, too. Processors of Zen 4 that are near each other
 * move 26 to 40 bytes in a nanosecond; in between 8 to 16, while going past the caches has 10 to 20; and far from each
 * other 2 to 3, or anything from 2 to 12. */
#define SLOW   SPEED(18)
#define ENOUGH 8u

/* Where all together were as slow as that, going past the caches is better, and else it is tried. */
#define VERY_SLOW SPEED(4)

/* One that was interrupted counts as that. */
#define SLOWEST SPEED(2)

/* Where so many waited before them for longer than they took, the program waits for answers: there is nothing to be won
 * by trying, which costs the time of some answers. */
#define ALONE (ENOUGH / 2)

/* In a trial everything counts from the end of a copy to the end of the next one, for either side may be what bounds
 * both. Where that takes so long the program is busy with something else, or does not run: that is no trial. */
#define MOST_NS 200000u

/* Going past the caches has to be faster by one part in so many. */
#define BETTER 16u

/* The more trials failed, the fewer are made. */
#define MOST_PATIENCE 128u

/* So many bytes go past the caches, some 40 ms, before it is looked whether that is still better; this costs 1 %. Lines
 * that were written past them come at another speed, so the first lap is not looked at. */
#define PAST_BYTES (512u << 20)

/* So many after a first trial, which may have been wrong; then twice as many. */
#define FIRST_BYTES (32u << 20)

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

static void go_past(struct cw_far *far, uint32_t bytes)
{
    far->trial    = CW_FAR_NO_TRIAL;
    far->past     = 1;
    far->left     = bytes;
    far->skip     = 0;
    far->patience = 0;
}

static void go_through(struct cw_far *far)
{
    far->trial = CW_FAR_NO_TRIAL;
    far->past  = 0;
    far->left  = CW_FAR_LAP;
}

static void try(struct cw_far *far, enum cw_far_trial trial)
{
    far->trial    = (uint8_t)trial;
    far->past     = trial == CW_FAR_SETTLES || trial == CW_FAR_PAST;
    far->left     = (trial == CW_FAR_SETTLES) ? 2 * CW_FAR_LAP : CW_FAR_LAP;
    far->trial_ns = 0;
}

/* Enough copies were timed in a row. */
static void judge(struct cw_far *far)
{
    const unsigned spent = far->spent;

    far->timed = 0;
    far->skip  = EVERY - 1;
    if (spent >= ENOUGH * VERY_SLOW) {
        go_past(far, PAST_BYTES);
    } else if (spent > ENOUGH * SLOW && far->alone < ALONE) {
        if (far->refused > 0) {
            far->refused--;
        } else {
            try(far, CW_FAR_WARMS);
        }
    }
}

static void sample(struct cw_far *far, size_t length, uint64_t begin_ns, uint64_t end_ns)
{
    const uint64_t ns    = end_ns - begin_ns;
    const unsigned spent = (ns < length / UNIT * SLOWEST) ? (unsigned)(ns * UNIT / length) : SLOWEST;

    if (far->timed == 0) {
        if (spent <= SLOW) {
            far->skip = EVERY - 1;
            return;
        }
        far->spent = 0; /* this one may have been interrupted */
        far->alone = 0;
    } else {
        far->spent  = (uint16_t)(far->spent + spent);
        far->alone += (begin_ns - far->end_ns > ns);
    }
    far->end_ns = end_ns;
    far->timed++;
    if (far->timed > ENOUGH) {
        judge(far);
    }
}

static void pass(struct cw_far *far, size_t length)
{
    far->left = (length < far->left) ? far->left - (uint32_t)length : 0;
}

static void decide(struct cw_far *far)
{
    if (far->trial_ns < far->through_ns - far->through_ns / BETTER) {
        far->most = (far->most < FIRST_BYTES) ? FIRST_BYTES : (far->most < PAST_BYTES) ? 2 * far->most : PAST_BYTES;
        go_past(far, far->most);
        return;
    }
    go_through(far);
    far->most     = 0;
    far->patience = (uint16_t)((far->patience < MOST_PATIENCE / 2) ? 2 * far->patience + 1 : (int)MOST_PATIENCE);
    far->refused  = far->patience;
}

static void note_trial(struct cw_far *far, size_t length, uint64_t begin_ns, uint64_t end_ns)
{
    const uint64_t ns = end_ns - ((far->trial_ns == 0) ? begin_ns : far->end_ns);

    if (ns >= MOST_NS) {
        go_through(far);
        return;
    }
    far->trial_ns += (uint32_t)ns;
    far->end_ns    = end_ns;
    pass(far, length);
    if (far->left > 0) {
        return;
    }
    if (far->trial == CW_FAR_THROUGH) {
        far->through_ns = far->trial_ns;
        try(far, CW_FAR_SETTLES);
    } else {
        decide(far);
    }
}

void cw_far_note(struct cw_far *far, size_t length, uint64_t begin_ns, uint64_t end_ns)
{
    if (far->trial == CW_FAR_NO_TRIAL) {
        sample(far, length, begin_ns, end_ns);
    } else {
        note_trial(far, length, begin_ns, end_ns);
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

/* Not looked at: past the caches, the lap behind that, or the first ones of a trial. */
static CW_APART void copy_blindly(struct cw_far *far, void *to, const void *from, size_t length)
{
    copy(far, to, from, length);
    pass(far, length);
    if (far->left > 0) {
        return;
    }
    if (far->trial != CW_FAR_NO_TRIAL) {
        try(far, (far->trial == CW_FAR_WARMS) ? CW_FAR_THROUGH : CW_FAR_PAST);
    } else if (far->past) {
        go_through(far);
    }
}

static int is_timed_trial(const struct cw_far *far)
{
    return far->trial == CW_FAR_THROUGH || far->trial == CW_FAR_PAST;
}

void cw_far_copy_long(struct cw_far *far, void *to, const void *from, size_t length)
{
    uint64_t begin;

    if (far->left > 0 && !is_timed_trial(far)) {
        copy_blindly(far, to, from, length);
    } else if (far->left == 0 && far->skip > 0) {
        far->skip--;
        cw_bytes_copy_any(to, from, length);
    } else {
        begin = cw_clock_ns();
        copy(far, to, from, length);
        cw_far_note(far, length, begin, cw_clock_ns());
    }
}
