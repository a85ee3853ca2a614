/* SPDX-License-Identifier: BSD-3-Clause */
/* Locks: what is guarded is never seen half changed, trying does not wait, several locks are independent. */
#include "shmem_check.h"

#define ROUNDS 40

static long locks[2];
static long guarded[2][2];

static void change(int which)
{
    int owner = (which == 0) ? ranks - 1 : 0;
    long a = shmem_long_g(&guarded[which][0], owner);
    long b = shmem_long_g(&guarded[which][1], owner);

    CHECK(a == b);
    shmem_long_p(&guarded[which][0], a + 1, owner);
    shmem_long_p(&guarded[which][1], b + 1, owner);
    shmem_quiet();
}

int main(void)
{
    shmem_begin();
    for (int i = 0; i < ROUNDS; i++) {
        int which = (i + rank) % 2;

        shmem_set_lock(&locks[which]);
        change(which);
        shmem_clear_lock(&locks[which]);
    }
    shmem_barrier_all();
    CHECK(rank != ranks - 1 || (guarded[0][0] == ranks * ROUNDS / 2 && guarded[0][1] == guarded[0][0]));
    CHECK(rank != 0 || (guarded[1][0] == ranks * ROUNDS / 2 && guarded[1][1] == guarded[1][0]));
    shmem_barrier_all();
    for (int i = 0; i < ROUNDS / 4; i++) {
        while (shmem_test_lock(&locks[0]) != 0) {
            make_progress();
        }
        change(0);
        shmem_clear_lock(&locks[0]);
    }
    shmem_barrier_all();
    CHECK(rank != ranks - 1 || guarded[0][0] == ranks * ROUNDS / 2 + ranks * (ROUNDS / 4));
    /* One holds it: all others are refused at once. */
    if (rank == 0) {
        shmem_set_lock(&locks[1]);
    }
    shmem_barrier_all();
    if (rank != 0) {
        CHECK(shmem_test_lock(&locks[1]) == 1);
    }
    shmem_barrier_all();
    if (rank == 0) {
        shmem_clear_lock(&locks[1]);
    }
    shmem_barrier_all();
    return shmem_end("shmem_lock", SHMEM_PUT | SHMEM_GET | SHMEM_ATOMIC);
}
