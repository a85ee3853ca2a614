/* SPDX-License-Identifier: BSD-3-Clause */
/* Tens of megabytes in one call, both ways at once, blocking and not, from and to odd addresses, between heaps and from
 * private memory. */
#include "shmem_check.h"

#define SIZE ((size_t)20 * 1024 * 1024)

static void around(unsigned char *there, unsigned char *mine, size_t size, size_t at, int blocking)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    memset(there, 0xee, SIZE);
    fill(mine, size, (unsigned)(rank + size));
    shmem_barrier_all();
    if (blocking) {
        shmem_putmem(there + at, mine, size, right);
        memset(mine, 0, size);
    } else {
        shmem_putmem_nbi(there + at, mine, size, right);
    }
    shmem_barrier_all();
    CHECK(filled(there + at, size, (unsigned)(left + size)));
    CHECK(all_bytes(there, at, 0xee) && all_bytes(there + at + size, SIZE - at - size, 0xee));
    memset(mine, 0, size);
    if (blocking) {
        shmem_getmem(mine, there + at, size, right);
    } else {
        shmem_getmem_nbi(mine, there + at, size, right);
        shmem_quiet();
    }
    CHECK(filled(mine, size, (unsigned)(rank + size)));
    shmem_barrier_all();
}

int main(void)
{
    unsigned char *there, *mine, *other;

    shmem_begin();
    there = symmetric(SIZE);
    other = symmetric(SIZE);
    mine = allocate(SIZE);
    around(there, mine, SIZE - 5, 3, 0);
    around(there, other, SIZE - 5, 3, 1);
    around(there, mine + 1, 1024 * 1024, 4096, 1);
    around(there, mine, 2 * 1024 * 1024 + 1, 1, 0);
    free(mine);
    return shmem_end("shmem_large", SHMEM_PUT | SHMEM_GET);
}
