/* SPDX-License-Identifier: BSD-3-Clause */
/* Tens of megabytes in one call, both ways at once, from and to odd addresses; many megabytes in pieces of a type. */
#include "osc_check.h"

#define WINDOW (24u * 1024 * 1024)

/* Everybody moves size bytes to its right neighbour and back, all at the same time. */
static void around(MPI_Win window, unsigned char *base, unsigned char *bytes, size_t size, size_t at)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks, count = (int)size;

    fill(bytes, size, (unsigned)(rank + size));
    memset(base, 0xee, WINDOW);
    MPI_Win_fence(0, window);
    MPI_Put(bytes, count, MPI_BYTE, right, (MPI_Aint)at, count, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    CHECK(filled(base + at, size, (unsigned)(left + size)));
    CHECK(all_bytes(base, at, 0xee) && all_bytes(base + at + size, WINDOW - at - size, 0xee));
    memset(bytes, 0, size);
    MPI_Win_fence(0, window);
    MPI_Get(bytes, count, MPI_BYTE, right, (MPI_Aint)at, count, MPI_BYTE, window);
    MPI_Win_fence(0, window);
    CHECK(filled(bytes, size, (unsigned)(rank + size)));
}

/* Every second block of 1000 bytes at the target. */
static void blocks(MPI_Win window, unsigned char *base, unsigned char *bytes)
{
    enum { BLOCK = 1000, BLOCKS = 4000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *expected = allocate(BLOCK * BLOCKS);
    MPI_Datatype type;

    MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    fill(bytes, BLOCK * BLOCKS, (unsigned)rank);
    fill(expected, BLOCK * BLOCKS, (unsigned)left);
    memset(base, 0xee, WINDOW);
    MPI_Win_fence(0, window);
    MPI_Put(bytes, BLOCK * BLOCKS, MPI_BYTE, right, 0, 1, type, window);
    MPI_Win_fence(0, window);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(memcmp(base + 2 * i * BLOCK, expected + i * BLOCK, BLOCK) == 0);
        CHECK(all_bytes(base + (2 * i + 1) * BLOCK, BLOCK, 0xee));
    }
    memset(bytes, 0, BLOCK * BLOCKS);
    MPI_Win_fence(0, window);
    MPI_Get(bytes, BLOCK * BLOCKS, MPI_BYTE, right, 0, 1, type, window);
    MPI_Win_fence(0, window);
    CHECK(filled(bytes, BLOCK * BLOCKS, (unsigned)rank));
    MPI_Type_free(&type);
    free(expected);
}

/* Two million numbers added in one call. */
static void sums(MPI_Win window, int *base, int *numbers)
{
    enum { COUNT = 2 * 1000 * 1000 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    for (int i = 0; i < COUNT; i++) {
        base[i] = i;
        numbers[i] = rank * 7 + i;
    }
    MPI_Win_fence(0, window);
    MPI_Accumulate(numbers, COUNT, MPI_INT, right, 0, COUNT, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) {
        if (base[i] != 2 * i + left * 7) {
            CHECK(!"summed right");
        }
    }
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        unsigned char *base, *bytes = allocate(WINDOW);
        MPI_Win window = window_new(kind, WINDOW, 1, &base);

        around(window, base, bytes, 1024 * 1024, 0);
        around(window, base, bytes, 3 * 1024 * 1024 + 1, 4095);
        around(window, base, bytes, WINDOW - 3, 1);
        if (kind == WINDOW_ALLOCATE) {
            blocks(window, base, bytes);
            sums(window, (int *)base, (int *)bytes);
        }
        window_free(kind, &window, base);
        free(bytes);
    }
    return osc_end("osc_large", OSC_PUT | OSC_GET);
}
