/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies into memory that another process reads and that is written again and again: the packets of a ring. Where both
 * processors are far from each other, each line that is written has to be fetched from there first, one by one, while
 * stores past the caches do not wait for anybody (docs/why/shared-memory.md). Near each other such stores are the
 * slower ones. So a copy is timed now and then, and where several in a row are very slow the next ones go past the
 * caches.
 */
#ifndef CW_BASE_FAR_H
#define CW_BASE_FAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/compiler.h"

/* Whether the processor has stores that go past the caches whatever the memory. */
#if defined(__SSE2__)
#define CW_FAR_HELPS 1
#else
#define CW_FAR_HELPS 0
#endif

/* One per ring; zeros at first. Belongs to the producer. */
struct cw_far {
    uint32_t left;          /* bytes of what goes on; 0: copies are timed */
    uint8_t past;           /* copies go past the caches */
    uint8_t skip;           /* copies until the next one that is timed */
    uint8_t timed;          /* so many in a row were timed, and took ... */
    uint16_t spent;         /* ... so much together, in 1/256 ns for a byte of each */
};

/* Shorter ones are always copied as any memory: in the processor's store buffers they tell nothing. */
#define CW_FAR_LEAST 4096u

/* So many bytes are not looked at where copies take time that tells nothing: a lap of a ring. */
#define CW_FAR_LAP (2u << 20)

/* The memory is touched for the first time. */
static inline void cw_far_new_memory(struct cw_far *far)
{
    if (!far->past) {
        far->left  = CW_FAR_LAP;
        far->timed = 0;
    }
}

/* The next long copy goes through the caches and is not timed. */
static inline int cw_far_is_plain(const struct cw_far *far)
{
    return !CW_FAR_HELPS || (!far->past && (far->left > 0 || far->skip > 0));
}

/* Of at least that length. */
void cw_far_copy_long(struct cw_far *far, void *to, const void *from, size_t length);

/* A copy of so many bytes that was timed. */
void cw_far_note(struct cw_far *far, size_t length, uint64_t ns);

/* As memcpy, past the caches if the processor can. What is stored afterwards is seen afterwards. */
void cw_far_copy_past(void *to, const void *from, size_t length);

/* As memcpy; far NULL: into any memory. */
static inline void cw_far_copy(struct cw_far *far, void *to, const void *from, size_t length)
{
    if (CW_FAR_HELPS && cw_unlikely(length >= CW_FAR_LEAST) && far != NULL) {
        cw_far_copy_long(far, to, from, length);
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

#endif
