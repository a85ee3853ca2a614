/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies between memory that several processes see. Callers: one-sided operations.
 */
#ifndef CW_BASE_BYTES_H
#define CW_BASE_BYTES_H

#include <stddef.h>
#include <string.h>

/* The lengths of numbers go by one store, so that whoever waits for a number sees all of it or nothing. */
static inline void cw_bytes_copy(void *to, const void *from, size_t length)
{
    switch (length) {
    case 1:
        memcpy(to, from, 1);
        break;
    case 2:
        memcpy(to, from, 2);
        break;
    case 4:
        memcpy(to, from, 4);
        break;
    case 8:
        memcpy(to, from, 8);
        break;
    default:
        memcpy(to, from, length);
        break;
    }
}

#endif
