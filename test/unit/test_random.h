/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that look random and are the same in each run, and bytes of them.
 */
#ifndef CW_TEST_UNIT_TEST_RANDOM_H
#define CW_TEST_UNIT_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static uint64_t random_state;

static inline uint64_t mix(uint64_t value)
{
    value = (value ^ (value >> 31)) * 0x7fb5d329728ea185u;
    value = (value ^ (value >> 27)) * 0x81dadef4bc2dd44du;
    return value ^ (value >> 33);
}

static inline uint64_t next_random(void)
{
    return mix(random_state++);
}

static inline void random_bytes(void *buffer, size_t length)
{
    uint8_t *bytes = buffer;

    while (length-- > 0) {
        *bytes++ = (uint8_t)next_random();
    }
}

/* A setup of cmocka: each test begins with the same number. */
static inline int random_set_up(void **state)
{
    (void)state;
    random_state = 1;
    return 0;
}

#endif
