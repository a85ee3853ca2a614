/* SPDX-License-Identifier: BSD-3-Clause */
/* Collective operations over all processes and over every second one. */
#include "shmem_check.h"

#define COUNT 1000

static long sync_of[12][SHMEM_SYNC_SIZE];
static int turn;
static long *longs_in, *longs_out;
static int32_t *ints_in, *ints_out;

/* A field of synchronisation that nobody uses any more: eight others came since. */
static long *fresh(void)
{
    return sync_of[turn++ % 12];
}

static void broadcasts(int start, int stride, int size, int me)
{
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < COUNT; i++) {
            longs_in[i] = (long)root * 1000 + i + rank * 100000;
            ints_in[i] = root * 1000 + i + rank * 100000;
            longs_out[i] = ints_out[i] = -1;
        }
        shmem_barrier(start, stride, size, fresh());
        shmem_broadcast64(longs_out, longs_in, COUNT, root, start, stride, size, fresh());
        shmem_broadcast32(ints_out, ints_in, COUNT, root, start, stride, size, fresh());
        shmem_barrier(start, stride, size, fresh());
        for (int i = 0; i < COUNT; i++) {
            int from = start + (root << stride);

            CHECK(longs_out[i] == ((me == root) ? -1 : (long)root * 1000 + i + from * 100000));
            CHECK(ints_out[i] == ((me == root) ? -1 : root * 1000 + i + from * 100000));
        }
        shmem_barrier(start, stride, size, fresh());
    }
}

static void collects(int start, int stride, int size, int me)
{
    size_t at = 0;

    for (int i = 0; i < COUNT; i++) {
        longs_in[i] = rank * 10000 + i;
        ints_in[i] = -rank * 10000 - i;
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_fcollect64(longs_out, longs_in, COUNT, start, stride, size, fresh());
    shmem_collect32(ints_out, ints_in, 10 + (size_t)me * 3, start, stride, size, fresh());
    for (int k = 0; k < size; k++) {
        int from = start + (k << stride);

        for (int i = 0; i < COUNT; i++) {
            CHECK(longs_out[k * COUNT + i] == from * 10000 + i);
        }
        for (int i = 0; i < 10 + k * 3; i++) {
            CHECK(ints_out[at++] == -from * 10000 - i);
        }
    }
    shmem_barrier(start, stride, size, fresh());
}

static void reductions(int start, int stride, int size)
{
    static long work[COUNT / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    static int more_work[COUNT / 2 + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    int last = start + ((size - 1) << stride);

    for (int i = 0; i < COUNT; i++) {
        longs_in[i] = rank * 3 + i;
        ints_in[i] = 1 << rank;
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_long_sum_to_all(longs_out, longs_in, COUNT, start, stride, size, work, fresh());
    shmem_int_or_to_all(ints_out, ints_in, COUNT, start, stride, size, more_work, fresh());
    for (int i = 0; i < COUNT; i++) {
        long sum = 0;
        int bits = 0;

        for (int k = 0; k < size; k++) {
            sum += (start + (k << stride)) * 3 + i;
            bits |= 1 << (start + (k << stride));
        }
        CHECK(longs_out[i] == sum && ints_out[i] == bits);
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_long_max_to_all(longs_out, longs_in, COUNT, start, stride, size, work, fresh());
    shmem_int_xor_to_all(ints_in, ints_in, COUNT, start, stride, size, more_work, fresh());
    for (int i = 0; i < COUNT; i++) {
        int bits = 0;

        for (int k = 0; k < size; k++) {
            bits ^= 1 << (start + (k << stride));
        }
        CHECK(longs_out[i] == last * 3 + i && ints_in[i] == bits);
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_long_min_to_all(longs_out, longs_in, COUNT, start, stride, size, work, fresh());
    CHECK(longs_out[COUNT - 1] == start * 3 + COUNT - 1);
    shmem_barrier(start, stride, size, fresh());
}

static void exchanges(int start, int stride, int size, int me)
{
    enum { EACH = 50 };

    for (int k = 0; k < size; k++) {
        for (int i = 0; i < EACH; i++) {
            longs_in[k * EACH + i] = rank * 100000 + k * 1000 + i;
        }
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_alltoall64(longs_out, longs_in, EACH, start, stride, size, fresh());
    for (int k = 0; k < size; k++) {
        for (int i = 0; i < EACH; i++) {
            CHECK(longs_out[k * EACH + i] == (start + (k << stride)) * 100000 + me * 1000 + i);
        }
    }
    for (int i = 0; i < size * EACH * 2; i++) {
        longs_out[i] = -1;
    }
    shmem_barrier(start, stride, size, fresh());
    shmem_alltoalls64(longs_out, longs_in, 2, 1, EACH, start, stride, size, fresh());
    for (int k = 0; k < size; k++) {
        for (int i = 0; i < EACH; i++) {
            CHECK(longs_out[2 * (k * EACH + i)] == (start + (k << stride)) * 100000 + me * 1000 + i);
            CHECK(longs_out[2 * (k * EACH + i) + 1] == -1);
        }
    }
    shmem_barrier(start, stride, size, fresh());
}

/* Nobody leaves a barrier before the last one has come. */
static void barriers(void)
{
    static long arrived;

    for (int round = 1; round <= 30; round++) {
        shmem_long_atomic_inc(&arrived, 0);
        if (round % 2 == 0) {
            shmem_barrier_all();
        } else {
            shmem_quiet();
            shmem_sync_all();
        }
        CHECK(shmem_long_g(&arrived, 0) == (long)round * ranks);
        shmem_barrier_all();
    }
}

static void all_of(int start, int stride, int size)
{
    int me = (rank - start) >> stride;

    if (rank >= start && (rank - start) % (1 << stride) == 0 && me < size) {
        broadcasts(start, stride, size, me);
        collects(start, stride, size, me);
        reductions(start, stride, size);
        exchanges(start, stride, size, me);
    }
    shmem_barrier_all();
}

int main(void)
{
    shmem_begin();
    for (int i = 0; i < 12; i++) {
        for (size_t k = 0; k < SHMEM_SYNC_SIZE; k++) {
            sync_of[i][k] = SHMEM_SYNC_VALUE;
        }
    }
    longs_in = symmetric(COUNT * 8 * sizeof(long));
    longs_out = symmetric(COUNT * 8 * sizeof(long));
    ints_in = symmetric(COUNT * 8 * sizeof(int32_t));
    ints_out = symmetric(COUNT * 8 * sizeof(int32_t));
    CHECK(ranks <= 8);
    barriers();
    all_of(0, 0, ranks);
    if (ranks > 2) {
        all_of(0, 1, (ranks + 1) / 2);
        all_of(1, 0, ranks - 1);
    }
    return shmem_end("shmem_collective", SHMEM_PUT);
}
