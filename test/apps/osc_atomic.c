/* SPDX-License-Identifier: BSD-3-Clause */
/* Single elements: a spin lock of compare_and_swap, a counter of fetch_and_op, an MCS queue lock of both, and every
 * type and operation of theirs one after the other. */
#include "osc_check.h"

#include <time.h>

#define WINDOW 4096
#define ROUNDS 30

/* Compare with what is there and what is not; the old value comes back, neighbours stay. */
static void swaps(MPI_Win window, unsigned char *base, MPI_Datatype type, size_t size)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char old[8], mine[8], wrong[8], got[8];

    memset(base, 0xee, 64);
    fill(base + 16, size, (unsigned)rank);
    fill(mine, size, (unsigned)(100 + rank));
    fill(old, size, (unsigned)right);
    memcpy(wrong, old, sizeof(wrong));
    wrong[size - 1] ^= 0x80;
    MPI_Win_fence(0, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
    memset(got, 0, sizeof(got));
    CHECK(MPI_Compare_and_swap(mine, wrong, got, type, right, 16, window) == MPI_SUCCESS);
    MPI_Win_flush(right, window);
    CHECK(memcmp(got, old, size) == 0);
    memset(got, 0, sizeof(got));
    CHECK(MPI_Compare_and_swap(mine, old, got, type, right, 16, window) == MPI_SUCCESS);
    MPI_Win_flush(right, window);
    CHECK(memcmp(got, old, size) == 0);
    memset(got, 0, sizeof(got));
    CHECK(MPI_Compare_and_swap(old, mine, got, type, right, 24, window) == MPI_SUCCESS);
    MPI_Win_flush(right, window);
    CHECK(all_bytes(got, size, 0xee));
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, window);
    CHECK(filled(base + 16, size, (unsigned)(100 + left)));
    CHECK(all_bytes(base, 16, 0xee) && all_bytes(base + 16 + size, 48 - size, 0xee));
    MPI_Win_unlock(rank, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* fetch_and_op of 4 or 8 bytes that are counted in the model as 64 bits. */
static void fetches(MPI_Win window, unsigned char *base, MPI_Datatype type, size_t size)
{
    static const struct {
        int op;
        uint64_t operand;
    } steps[] = {{0, 5}, {1, 1000}, {2, 0}, {3, 0xff}, {4, 0x10000}, {5, 0xf0f}, {6, 700}, {7, 3000}, {0, ~0ull}};
    MPI_Op all[] = {MPI_SUM, MPI_REPLACE, MPI_NO_OP, MPI_BXOR, MPI_BOR, MPI_BAND, MPI_MIN, MPI_MAX};
    uint64_t model = (size == 4) ? 0xfffffffeu : 0xffffffff00000000u + (unsigned)ranks;
    int right = (rank + 1) % ranks;

    memset(base, 0xee, 64);
    memcpy(base + 16, &model, size);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t operand = steps[i].operand, got = 0;

        CHECK(MPI_Fetch_and_op(&operand, &got, type, right, 16, all[steps[i].op], window) == MPI_SUCCESS);
        MPI_Win_flush(right, window);
        CHECK(memcmp(&got, &model, size) == 0);
        switch (steps[i].op) {
        case 0:
            model += operand;
            break;
        case 1:
            model = operand;
            break;
        case 3:
            model ^= operand;
            break;
        case 4:
            model |= operand;
            break;
        case 5:
            model &= operand;
            break;
        case 6:
            model = (operand < model) ? operand : model;
            break;
        case 7:
            model = (operand > model) ? operand : model;
            break;
        }
    }
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(memcmp(base + 16, &model, size) == 0);
    CHECK(all_bytes(base, 16, 0xee) && all_bytes(base + 16 + size, 48 - size, 0xee));
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Every ticket is drawn once. */
static void tickets(MPI_Win window, unsigned char *base, MPI_Datatype type, size_t size, int target)
{
    uint64_t drawn[ROUNDS], *all = allocate(sizeof(drawn) * (size_t)ranks);
    unsigned char *marks = calloc((size_t)ranks * ROUNDS, 1);

    memset(base, 0, WINDOW);
    memset(drawn, 0, sizeof(drawn));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t one = 1;

        MPI_Fetch_and_op(&one, &drawn[i], type, target, 128, MPI_SUM, window);
        MPI_Win_flush(target, window);
        CHECK(i == 0 || drawn[i] > drawn[i - 1]);
    }
    MPI_Win_unlock_all(window);
    MPI_Allgather(drawn, ROUNDS, MPI_UINT64_T, all, ROUNDS, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * ROUNDS; i++) {
        CHECK(all[i] < (uint64_t)ranks * ROUNDS && !marks[all[i]]);
        marks[all[i]] = 1;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == target) {
        uint64_t end = 0;

        memcpy(&end, base + 128, size);
        CHECK(end == (uint64_t)ranks * ROUNDS);
    }
    free(all);
    free(marks);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Who polls a word of its own in Open MPI's osc ucx makes no progress by that, not even for those whose atomics on this
 * rank its own processor must carry out; a look for messages makes some. Who tries again at once keeps the lock that
 * Open MPI itself needs for each of these operations. */
static void wait_a_little(int again)
{
    int flag;

    if (again) {
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000}, NULL);
    }
}

/* The lock lies at one rank, what it guards at another. */
static void spin_lock(MPI_Win window, unsigned char *base, MPI_Datatype type)
{
    int guarded = ranks - 1;
    long number;

    memset(base, 0, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t mine = rank + 1, nobody = 0, holder;

        do {
            holder = -1;
            MPI_Compare_and_swap(&mine, &nobody, &holder, type, 0, 0, window);
            MPI_Win_flush(0, window);
            holder = (type == MPI_INT) ? (int)holder : holder;
            wait_a_little(holder != 0);
        } while (holder != 0);
        MPI_Get(&number, 1, MPI_LONG, guarded, 256, 1, MPI_LONG, window);
        MPI_Win_flush(guarded, window);
        number += rank + 1;
        MPI_Put(&number, 1, MPI_LONG, guarded, 256, 1, MPI_LONG, window);
        MPI_Win_flush(guarded, window);
        holder = 0;
        MPI_Fetch_and_op(&nobody, &holder, type, 0, 0, MPI_REPLACE, window);
        MPI_Win_flush(0, window);
        CHECK(holder == mine);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == guarded) {
        memcpy(&number, base + 256, sizeof(number));
        CHECK(number == (long)ranks * (ranks + 1) / 2 * ROUNDS);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A queue of waiters: who comes puts itself behind the last, who leaves wakes the next. Words of the window: 0 the tail
 * (at rank 0), 8 whether this rank still waits, 16 who is next. Numbers are ranks plus one. */
static void queue_lock(MPI_Win window, int64_t *base)
{
    int64_t me = rank + 1, zero = 0, one = 1, previous, next, waits, number;

    memset(base, 0, WINDOW);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS / 4; i++) {
        MPI_Accumulate(&zero, 1, MPI_INT64_T, rank, 16, 1, MPI_INT64_T, MPI_REPLACE, window);
        MPI_Accumulate(&one, 1, MPI_INT64_T, rank, 8, 1, MPI_INT64_T, MPI_REPLACE, window);
        MPI_Win_flush(rank, window);
        MPI_Fetch_and_op(&me, &previous, MPI_INT64_T, 0, 0, MPI_REPLACE, window);
        MPI_Win_flush(0, window);
        if (previous != 0) {
            MPI_Accumulate(&me, 1, MPI_INT64_T, (int)previous - 1, 16, 1, MPI_INT64_T, MPI_REPLACE, window);
            MPI_Win_flush((int)previous - 1, window);
            do {
                MPI_Fetch_and_op(&zero, &waits, MPI_INT64_T, rank, 8, MPI_NO_OP, window);
                MPI_Win_flush(rank, window);
                wait_a_little(waits != 0);
            } while (waits != 0);
        }
        MPI_Get(&number, 1, MPI_INT64_T, 0, 64, 1, MPI_INT64_T, window);
        MPI_Win_flush(0, window);
        number++;
        MPI_Put(&number, 1, MPI_INT64_T, 0, 64, 1, MPI_INT64_T, window);
        MPI_Win_flush(0, window);
        MPI_Compare_and_swap(&zero, &me, &previous, MPI_INT64_T, 0, 0, window);
        MPI_Win_flush(0, window);
        if (previous == me) {
            continue;
        }
        do {
            MPI_Fetch_and_op(&zero, &next, MPI_INT64_T, rank, 16, MPI_NO_OP, window);
            MPI_Win_flush(rank, window);
            wait_a_little(next == 0);
        } while (next == 0);
        MPI_Accumulate(&zero, 1, MPI_INT64_T, (int)next - 1, 8, 1, MPI_INT64_T, MPI_REPLACE, window);
        MPI_Win_flush((int)next - 1, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(rank != 0 || (base[8] == (int64_t)ranks * (ROUNDS / 4) && base[0] == 0));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        unsigned char *base;
        MPI_Win window = window_new(kind, WINDOW, 1, &base);

        swaps(window, base, MPI_INT, sizeof(int));
        swaps(window, base, MPI_UINT64_T, 8);
#ifndef OPEN_MPI
        /* Open MPI 4.1's osc ucx hands these on to UCP's atomics, which have 4 and 8 bytes, and ignores the refusal. */
        swaps(window, base, MPI_INT8_T, 1);
        swaps(window, base, MPI_INT16_T, 2);
#endif
        fetches(window, base, MPI_UINT32_T, 4);
        fetches(window, base, MPI_UINT64_T, 8);
        tickets(window, base, MPI_UINT32_T, 4, 0);
        tickets(window, base, MPI_UINT64_T, 8, ranks - 1);
        spin_lock(window, base, MPI_INT);
        spin_lock(window, base, MPI_INT64_T);
        queue_lock(window, (int64_t *)base);
        window_free(kind, &window, base);
    }
    return osc_end("osc_atomic", OSC_ATOMIC);
}
