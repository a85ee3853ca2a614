/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/random.h on getrandom(2).
 */
#include "os/random.h"

#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "os/clock.h"

uint64_t cw_random_u64(void)
{
    static uint64_t counter;
    uint64_t value;

    if (getrandom(&value, sizeof(value), GRND_NONBLOCK) == (ssize_t)sizeof(value)) {
        return value;
    }
    value = cw_clock_ns() ^ ((uint64_t)getpid() << 32) ^ (uint64_t)(uintptr_t)&value ^
            (__atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED) << 48);
    return cw_hash_mix(value);
}
