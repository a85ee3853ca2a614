/* SPDX-License-Identifier: BSD-3-Clause */
/* Passive targets: exclusive locks exclude, shared ones do not, unlock and every flush complete what they promise. */
#include "osc_check.h"

#define WINDOW (64 * 1024)
#define ROUNDS 40

/* Two non-atomic counters that everybody increments under an exclusive lock; they are always equal. */
static void exclusive(MPI_Win window, long *base, int target)
{
    long sum = 0;

    memset(base, 0, 64);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ROUNDS; i++) {
        long first = -1, second = -2;

        CHECK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window) == MPI_SUCCESS);
        MPI_Get(&first, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
        MPI_Get(&second, 1, MPI_LONG, target, 32, 1, MPI_LONG, window);
        MPI_Win_flush(target, window);
        CHECK(first == second);
        first += rank + 1;
        second += rank + 1;
        MPI_Put(&first, 1, MPI_LONG, target, 0, 1, MPI_LONG, window);
        if (i % 2 == 0) {
            MPI_Win_flush_local(target, window);
        }
        MPI_Put(&second, 1, MPI_LONG, target, 32, 1, MPI_LONG, window);
        CHECK(MPI_Win_unlock(target, window) == MPI_SUCCESS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        sum += (i + 1) * ROUNDS;
    }
    if (rank == target) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
        CHECK(base[0] == sum && base[4] == sum);
        MPI_Win_unlock(target, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* All hold the shared lock of one target at once, or this never ends. */
static void shared(MPI_Win window, unsigned char *base, int target)
{
    enum { SLOT = 1024 };
    unsigned char bytes[SLOT], back[SLOT];

    memset(base, 0xee, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    fill(bytes, SLOT, (unsigned)rank);
    MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
    MPI_Put(bytes, SLOT, MPI_BYTE, target, rank * SLOT, SLOT, MPI_BYTE, window);
    MPI_Win_flush(target, window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) {
        MPI_Get(back, SLOT, MPI_BYTE, target, from * SLOT, SLOT, MPI_BYTE, window);
        MPI_Win_flush(target, window);
        CHECK(filled(back, SLOT, (unsigned)from));
    }
    MPI_Win_unlock(target, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Rank 0 writes under an exclusive lock what readers under shared ones never see half. */
static void readers(MPI_Win window, unsigned char *base, int target)
{
    enum { NUMBERS = 256 };
    int numbers[NUMBERS];

    memset(base, 0, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);

    for (int round = 1; round <= ROUNDS; round++) {
        if (rank == 0) {
            for (int i = 0; i < NUMBERS; i++) {
                numbers[i] = round;
            }
            MPI_Win_lock(MPI_LOCK_EXCLUSIVE, target, 0, window);
            MPI_Put(numbers, NUMBERS / 2, MPI_INT, target, 0, NUMBERS / 2, MPI_INT, window);
            MPI_Win_flush(target, window);
            MPI_Put(numbers + NUMBERS / 2, NUMBERS / 2, MPI_INT, target, WINDOW / 2, NUMBERS / 2, MPI_INT, window);
            MPI_Win_unlock(target, window);
        } else {
            MPI_Win_lock(MPI_LOCK_SHARED, target, 0, window);
            MPI_Get(numbers + NUMBERS / 2, NUMBERS / 2, MPI_INT, target, WINDOW / 2, NUMBERS / 2, MPI_INT, window);
            MPI_Win_flush(target, window);
            MPI_Get(numbers, NUMBERS / 2, MPI_INT, target, 0, NUMBERS / 2, MPI_INT, window);
            MPI_Win_unlock(target, window);
            for (int i = 1; i < NUMBERS; i++) {
                CHECK(numbers[i] == numbers[0]);
            }
        }
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void one_flush(MPI_Win window, int target, int which)
{
    if (which == 0) {
        MPI_Win_flush(target, window);
    } else if (which == 1) {
        MPI_Win_flush_all(window);
    } else if (which == 2) {
        MPI_Win_flush_local(target, window);
        MPI_Win_flush(target, window);
    } else {
        MPI_Win_flush_local_all(window);
        MPI_Win_flush_all(window);
    }
}

/* After a flush a message asks the target to read, with lock_all held by everybody all the time. */
static void flushes(MPI_Win window, unsigned char *base)
{
    enum { LENGTH = 3000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char bytes[LENGTH], back[LENGTH];

    memset(base, 0xee, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_Win_lock_all(0, window) == MPI_SUCCESS);
    for (int round = 0; round < ROUNDS; round++) {
        int token = -1;
        int at = round * 131 % (WINDOW - LENGTH);

        fill(bytes, LENGTH, (unsigned)(rank * 1000 + round));
        MPI_Put(bytes, LENGTH, MPI_BYTE, right, at, LENGTH, MPI_BYTE, window);
        if (round % 4 >= 2) {
            /* Local completion gives the buffer back. */
            one_flush(window, right, round % 4);
            memset(bytes, 0, LENGTH);
        } else {
            one_flush(window, right, round % 4);
        }
        MPI_Sendrecv(&round, 1, MPI_INT, right, 5, &token, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(token == round);
        MPI_Win_sync(window);
        CHECK(filled(base + at, LENGTH, (unsigned)(left * 1000 + round)));
        MPI_Get(back, LENGTH, MPI_BYTE, right, at, LENGTH, MPI_BYTE, window);
        one_flush(window, right, round % 4);
        CHECK(filled(back, LENGTH, (unsigned)(rank * 1000 + round)));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    CHECK(MPI_Win_unlock_all(window) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The buffer may be reused once the local flush is over: what arrives is what it held then. */
static void local_flush_only(MPI_Win window, unsigned char *base)
{
    enum { LENGTH = 20000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *bytes = allocate(LENGTH);

    memset(base, 0xee, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    for (int i = 0; i < 3; i++) {
        fill(bytes, LENGTH, (unsigned)(rank * 10 + i));
        MPI_Put(bytes, LENGTH, MPI_BYTE, right, i * LENGTH, LENGTH, MPI_BYTE, window);
        MPI_Win_flush_local(right, window);
    }
    memset(bytes, 0, LENGTH);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    for (int i = 0; i < 3; i++) {
        CHECK(filled(base + i * LENGTH, LENGTH, (unsigned)(left * 10 + i)));
    }
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
    free(bytes);
}

/* Locks of several targets at once, taken in rank order so that nobody waits in a circle. */
static void several(MPI_Win window, int *base)
{
    base[8] = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int round = 0; round < ROUNDS / 4; round++) {
        int numbers[2] = {-1, -1};
        int first = rank % 2, second = ranks - 1;

        if (first >= second) {
            break;
        }
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, first, 0, window);
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, second, 0, window);
        MPI_Get(&numbers[0], 1, MPI_INT, first, 32, 1, MPI_INT, window);
        MPI_Get(&numbers[1], 1, MPI_INT, second, 32, 1, MPI_INT, window);
        MPI_Win_flush_all(window);
        numbers[0]++;
        numbers[1]++;
        MPI_Put(&numbers[0], 1, MPI_INT, first, 32, 1, MPI_INT, window);
        MPI_Put(&numbers[1], 1, MPI_INT, second, 32, 1, MPI_INT, window);
        MPI_Win_unlock(first, window);
        MPI_Win_unlock(second, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (ranks > 2 && rank == ranks - 1) {
        CHECK(base[8] == ranks * (ROUNDS / 4));
    }
    if (ranks > 2 && rank < 2) {
        CHECK(base[8] == (ranks + 1 - rank) / 2 * (ROUNDS / 4));
    }
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        unsigned char *base;
        MPI_Win window = window_new(kind, WINDOW, 1, &base);

        exclusive(window, (long *)base, 0);
        exclusive(window, (long *)base, ranks - 1);
        shared(window, base, ranks - 1);
        readers(window, base, ranks - 1);
        flushes(window, base);
        local_flush_only(window, base);
        several(window, (int *)base);
        window_free(kind, &window, base);
    }
    return osc_end("osc_lock", OSC_PUT | OSC_GET | OSC_ATOMIC);
}
