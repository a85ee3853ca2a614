/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into memory that another process reads and that is written again and again: the packets of a ring. Where both
 * processors are far from each other, each line that is written has to be fetched from there first, one by one, while
 * stores past the caches do not wait (docs/why/shared-memory.md). Near each other such stores are the
 * slower ones. So a copy is timed now and then, and where several in a row are very slow the next ones go past the
 * caches.
 */
#ifndef CW_BASE_NT_COPY_H
#define CW_BASE_NT_COPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"

/* Whether the processor has stores that go past the caches whatever the memory. */
#if defined(__SSE2__)
#define CW_NT_HELPS 1
#else
#define CW_NT_HELPS 0
#endif

/* Each ring has one, which is zero at first and belongs to the producer. */
struct cw_nt_choice {
    uint32_t left;  /* bytes of what goes on; 0: copies are timed */
    uint8_t off;    /* UCX_TUNING: copies go through the caches */
    uint8_t past;   /* copies go past the caches */
    uint8_t skip;   /* copies until the next one that is timed */
    uint8_t timed;  /* number of timed copies in a row ... */
    uint16_t spent; /* ... and the sum of their times, in 1/256 ns for a byte */
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

/* Copies at least CW_NT_LEAST bytes, on the way that the choice takes, and times it where it must. */
void cw_nt_copy_long(struct cw_nt_choice *nt, void *to, const void *from, size_t length);

/* Takes note of how long a copy of `length` bytes took. */
void cw_nt_note(struct cw_nt_choice *nt, size_t length, uint64_t ns);

/* As memcpy, past the caches if the processor can. Later stores become visible later. */
void cw_nt_store(void *to, const void *from, size_t length);

/* As memcpy; far NULL: into any memory. */
static inline void cw_nt_copy(struct cw_nt_choice *nt, void *to, const void *from, size_t length)
{
    if (CW_NT_HELPS && cw_unlikely(length >= CW_NT_LEAST) && nt != NULL) {
        cw_nt_copy_long(nt, to, from, length);
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

#endif
