/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of bytes: for one-sided operations, between memory that several processes access; for messages, between the
 * program's memory and a transport's.
 */
#ifndef CW_BASE_BYTES_H
#define CW_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/compiler.h"

/* From this length on libc, the kernel and cw_bytes_copy_long() may copy by `rep movsb`. Where the destination begins
 * less than a line behind the source, modulo the page size, some processors (AMD Zen 3 and 4) are then 25 times
 * slower. */
#define CW_BYTES_LONG 1024u

static inline size_t cw_smaller(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

static inline size_t cw_clamp(size_t value, size_t low, size_t high)
{
    return (value < low) ? low : cw_smaller(value, high);
}

static inline bool cw_bytes_are_near(uint64_t to, uint64_t from)
{
    return ((to - from - 1) & 4095) < 63;
}

/* As memcpy, for memory of which that is true. */
void cw_bytes_copy_near(void *to, const void *from, size_t length);

/* As memcpy, for memory of which that is not true and lengths above CW_BYTES_LONG. */
void cw_bytes_copy_long(void *to, const void *from, size_t length);

/* As memcpy, for any alignment. */
static inline void cw_bytes_copy_any(void *to, const void *from, size_t length)
{
    if (cw_likely(length <= CW_BYTES_LONG)) {
        memcpy(to, from, length);
    } else if (cw_bytes_are_near((uintptr_t)to, (uintptr_t)from)) {
        cw_bytes_copy_near(to, from, length);
    } else {
        cw_bytes_copy_long(to, from, length);
    }
}

/* As cw_bytes_copy_any, for more than CW_BYTES_LONG bytes, to memory that another processor read last, as in a ring. */
void cw_bytes_copy_shared(void *to, const void *from, size_t length);

/* As memmove: they may overlap. */
static inline void cw_bytes_move(void *to, const void *from, size_t length)
{
    if (cw_unlikely((uintptr_t)to - (uintptr_t)from < length || (uintptr_t)from - (uintptr_t)to < length)) {
        memmove(to, from, length);
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

/* Lengths of integers are copied by one store, so that a reader that waits for an integer sees all of it or nothing. */
static inline void cw_bytes_copy(void *to, const void *from, size_t length)
{
    if (length == 8) {
        memcpy(to, from, 8);
    } else if (length == 4) {
        memcpy(to, from, 4);
    } else if (length == 2) {
        memcpy(to, from, 2);
    } else if (length == 1) {
        *(char *)to = *(const char *)from;
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

/* The most frequent short length is copied inline. `from` may be anything when the length is 0. */
static inline void cw_bytes_copy_short(void *to, const void *from, size_t length)
{
    if (length == 8) {
        memcpy(to, from, 8);
    } else if (length > 0) {
        cw_bytes_copy_any(to, from, length);
    }
}

#define CW_BYTES_INLINE 48u

/* At most CW_BYTES_INLINE bytes, inline: with vectors that may overlap. */
static CW_INLINE void cw_bytes_copy_inline(void *to, const void *from, size_t length)
{
    char *dest = to;
    const char *source = from;

    if (cw_likely(length == 8)) {
        memcpy(dest, source, 8);
    } else if (length >= 16) {
        if (length > 32) {
            memcpy(dest + 16, source + 16, 16);
        }
        memcpy(dest, source, 16);
        memcpy(dest + length - 16, source + length - 16, 16);
    } else if (length > 8) {
        memcpy(dest, source, 8);
        memcpy(dest + length - 8, source + length - 8, 8);
    } else if (length >= 4) {
        memcpy(dest, source, 4);
        memcpy(dest + length - 4, source + length - 4, 4);
    } else if (length > 0) {
        dest[0] = source[0];
        dest[length / 2] = source[length / 2];
        dest[length - 1] = source[length - 1];
    }
}

/* As cw_bytes_copy_any, where most lengths are at most CW_BYTES_INLINE. */
static CW_INLINE void cw_bytes_copy_part(void *to, const void *from, size_t length)
{
    if (cw_likely(length <= CW_BYTES_INLINE)) {
        cw_bytes_copy_inline(to, from, length);
    } else {
        cw_bytes_copy_any(to, from, length);
    }
}

static inline size_t cw_bytes_in_iov(const struct iovec *iov, unsigned count)
{
    size_t length = 0;

    while (count-- > 0) {
        length += iov[count].iov_len;
    }
    return length;
}

#endif
