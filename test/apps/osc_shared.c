/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of shared memory: every rank finds everybody's part and loads and stores there, beside put, get and atomics;
 * at the same time another window is in use that has nothing shared. */
#include "osc_check.h"

#define PART 4096

static void queries(MPI_Win window, unsigned char *base, int contiguous)
{
    unsigned char *first = NULL;

    for (int i = 0; i < ranks; i++) {
        MPI_Aint size;
        int unit;
        unsigned char *part;

        CHECK(MPI_Win_shared_query(window, i, &size, &unit, &part) == MPI_SUCCESS);
        CHECK(size == PART * (1 + i) && unit == 1);
        CHECK(i != rank || part == base);
        first = (i == 0) ? part : first;
        CHECK(!contiguous || part == first + PART * i * (1 + i) / 2);
        CHECK(MPI_Win_shared_query(window, MPI_PROC_NULL, &size, &unit, &part) == MPI_SUCCESS);
        CHECK(part == first && unit == 1);
    }
}

static unsigned char *part_of(MPI_Win window, int of)
{
    MPI_Aint size;
    int unit;
    unsigned char *part;

    MPI_Win_shared_query(window, of, &size, &unit, &part);
    return part;
}

/* What one stores, all load; then everybody stores into a place of its own in everybody's part. */
static void loads_and_stores(MPI_Win window, unsigned char *base)
{
    MPI_Win_lock_all(0, window);
    fill(base, (size_t)(PART * (1 + rank)), (unsigned)rank);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    for (int i = 0; i < ranks; i++) {
        CHECK(filled(part_of(window, i), (size_t)(PART * (1 + i)), (unsigned)i));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        fill(part_of(window, i) + rank * 512, 512, (unsigned)(100 + rank * 10 + i));
    }
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(window);
    for (int i = 0; i < ranks; i++) {
        CHECK(filled(base + i * 512, 512, (unsigned)(100 + i * 10 + rank)));
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The processors' own atomics on one word of rank 0. */
static void atomics(MPI_Win window)
{
    enum { ROUNDS = 5000 };
    int64_t *word = (int64_t *)part_of(window, 0);

    if (rank == 0) {
        *word = 0;
    }
    MPI_Win_fence(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    }
    MPI_Win_fence(0, window);
    CHECK(*word == (int64_t)ranks * ROUNDS);
    MPI_Win_fence(0, window);
}

static void calls(MPI_Win window, unsigned char *base)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char bytes[2000];

    memset(base, 0xee, PART);
    fill(bytes, sizeof(bytes), (unsigned)rank);
    MPI_Win_fence(0, window);
    MPI_Put(bytes, sizeof(bytes), MPI_BYTE, right, 3, sizeof(bytes), MPI_BYTE, window);
    MPI_Win_fence(0, window);
    CHECK(filled(base + 3, sizeof(bytes), (unsigned)left) && all_bytes(base, 3, 0xee));
    CHECK(all_bytes(base + 3 + sizeof(bytes), PART - 3 - sizeof(bytes), 0xee));
    memset(bytes, 0, sizeof(bytes));
    MPI_Win_fence(0, window);
    MPI_Get(bytes, sizeof(bytes), MPI_BYTE, right, 3, sizeof(bytes), MPI_BYTE, window);
    MPI_Win_fence(0, window);
    CHECK(filled(bytes, sizeof(bytes), (unsigned)rank));
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int contiguous = 1; contiguous >= 0; contiguous--) {
        unsigned char *base, *other_base;
        MPI_Win window, other = window_new(WINDOW_ALLOCATE, 3 * PART, 1, &other_base);
        MPI_Info info;

        MPI_Info_create(&info);
        MPI_Info_set(info, "alloc_shared_noncontig", contiguous ? "false" : "true");
        CHECK(MPI_Win_allocate_shared(PART * (1 + rank), 1, info, MPI_COMM_WORLD, &base, &window) == MPI_SUCCESS);
        MPI_Info_free(&info);
        queries(window, base, contiguous);
        loads_and_stores(window, base);
        atomics(window);
        calls(window, base);
        calls(other, other_base);
        CHECK(MPI_Win_free(&window) == MPI_SUCCESS);
        window_free(WINDOW_ALLOCATE, &other, other_base);
    }
    return osc_end("osc_shared", OSC_PUT | OSC_GET);
}
