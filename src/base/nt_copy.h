/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into memory that another process reads and that is written again and again: the packets of a ring. If both
 * processors are distant, each written line has to be fetched from the other one first, one by one, while non-temporal
 * stores do not wait (docs/why/shared-memory.md). Between close processors non-temporal stores are slower. So a sample
 * of the copies is timed, and after several very slow ones in a row the next ones are non-temporal.
 */
#ifndef CW_BASE_NT_COPY_H
#define CW_BASE_NT_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"
#include "base/pack_choice.h"

/* Whether the processor has non-temporal stores for memory of any type. */
#if defined(__SSE2__)
#define CW_NT_HELPS 1
#else
#define CW_NT_HELPS 0
#endif

/* Each ring has one, which is zero at first and belongs to the producer. */
struct cw_nt_choice {
    uint32_t left;  /* bytes until the mode ends; 0: copies are timed */
    uint8_t off;    /* UCX_TUNING: copies always use the caches */
    uint8_t past;   /* copies are non-temporal */
    uint8_t skip;   /* copies until the next timed one */
    uint8_t timed;  /* number of timed copies in a row ... */
    uint16_t spent; /* ... and the sum of their times, in 1/256 ns per byte */
    uint16_t fetched; /* bytes of the next packet whose lines are in this processor's cache */
    struct cw_pack_choice pack;
};

/* Shorter copies are never timed: the store buffers of the processor hide their cost. */
#define CW_NT_LEAST 4096u

/* Bytes of a lap of a ring, during which the times of copies are not representative. */
#define CW_NT_LAP (2u << 20)

/* The memory is touched for the first time. */
static inline void cw_nt_new_memory(struct cw_nt_choice *nt)
{
    if (!nt->past) {
        nt->left = CW_NT_LAP;
        nt->timed = 0;
    }
}

/* Copies at least CW_NT_LEAST bytes in the current mode, and times the copy if due. */
void cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length);

/* Records the duration of a copy of `length` bytes. */
void cw_nt_note(struct cw_nt_choice *nt, size_t length, uint64_t ns);

/* As memcpy, with non-temporal stores if the processor has them. Later stores become visible later. */
void cw_nt_store(void *to, const void *from, size_t length);

/* As memcpy; `nt` NULL: into any memory. */
static inline void cw_nt_copy(struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    if (nt == NULL || length <= CW_BYTES_LONG || length <= nt->fetched) {
        cw_bytes_copy_any(to, from, length);
    } else if (CW_NT_HELPS && cw_unlikely(length >= CW_NT_LEAST)) {
        cw_nt_copy_long(nt, to, from, length);
    } else {
        cw_bytes_copy_shared(to, from, length);
    }
}

#endif
