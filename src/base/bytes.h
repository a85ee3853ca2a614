/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies of a few bytes. Callers: one-sided operations, between memory that several processes see; short messages.
 */
#ifndef CW_BASE_BYTES_H
#define CW_BASE_BYTES_H

#include <stddef.h>
#include <string.h>

/* The lengths of numbers go by one store, so that whoever waits for a number sees all of it or nothing. */
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
        memcpy(to, from, length);
    }
}

/* The commonest short length goes without a call. `from` may be anything when the length is 0. */
static inline void cw_bytes_copy_short(void *to, const void *from, size_t length)
{
    if (length == 8) {
        memcpy(to, from, 8);
    } else if (length > 0) {
        memcpy(to, from, length);
    }
}

#endif
