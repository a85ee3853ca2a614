/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a datatype of the program packs straight into a ring, or into a buffer that is then copied there. Between
 * close processors the buffer is one copy too many. Between distant ones the type's stores wait for one line of the
 * ring after the other, which copies of the library avoid. So both ways are timed now and then.
 */
#ifndef CW_BASE_PACK_CHOICE_H
#define CW_BASE_PACK_CHOICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each ring has one, which is zero at first and belongs to the producer. */
struct cw_pack_choice {
    uint32_t ticks[2]; /* recent time of 64 KiB: by a buffer, straight; 0: unknown */
    uint8_t pieces;    /* their number, modulo 256 */
    bool is_faster;    /* to pack straight */
};

/* Two pieces in so many are timed; the second of them goes the other way while the time of that is unknown. */
#define CW_PACK_TIMED 8u

/* One piece in so many goes the slower way. */
#define CW_PACK_TRIED 64u

/* A piece counts if it has at least this number of bytes. */
#define CW_PACK_LEAST ((size_t)32 << 10)

/* Whether the next piece is timed if it has that length. */
static inline bool cw_pack_is_timed(const struct cw_pack_choice *choice, size_t length)
{
    return length >= CW_PACK_LEAST && choice->pieces % CW_PACK_TIMED >= CW_PACK_TIMED - 2;
}

/* The way of the next piece. */
static inline bool cw_pack_goes_straight(const struct cw_pack_choice *choice)
{
    const unsigned every = (choice->ticks[!choice->is_faster] == 0) ? CW_PACK_TIMED : CW_PACK_TRIED;

    return (choice->pieces % every == every - 1) ? !choice->is_faster : choice->is_faster;
}

/* For the time of a piece: what passed since `start`, which is 0 or such a time. Not 0. */
uint64_t cw_pack_ticks(uint64_t start);

/* A piece of that length was packed; `ticks` is 0 if it was not timed. */
void cw_pack_note(struct cw_pack_choice *choice, bool straight, size_t length, uint64_t ticks);

#endif
