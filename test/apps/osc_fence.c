/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get in epochs between fences: windows of both kinds, all sizes and alignments, every target, derived types,
 * assertions, windows without memory. */
#include "osc_check.h"

#define WINDOW (512 * 1024)
#define MANY   300

static const int sizes[] = {0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 63, 64, 65, 255, 1000, 4095, 4096, 4097, 8192, 30000, 65537,
                            200003};
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

/* Each puts to its right and gets from there what its own right neighbour's left one (itself) put. */
static void contiguous(MPI_Win window, unsigned char *base, int unit)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;

    for (int i = 0; i < SIZES; i++) {
        int size = sizes[i];
        int at = unit * (1 + i % 7);
        unsigned char *bytes = allocate((size_t)size), *back = allocate((size_t)size);

        fill(bytes, (size_t)size, (unsigned)(rank * 100 + i));
        memset(base, 0xee, WINDOW);
        MPI_Win_fence(0, window);
        CHECK(MPI_Put(bytes, size, MPI_BYTE, right, at / unit, size, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_fence(0, window);
        CHECK(all_bytes(base, (size_t)at, 0xee));
        CHECK(filled(base + at, (size_t)size, (unsigned)(left * 100 + i)));
        CHECK(all_bytes(base + at + size, (size_t)(WINDOW - at - size), 0xee));
        memset(back, 0x11, (size_t)size + 1);
        MPI_Win_fence(0, window);
        CHECK(MPI_Get(back, size, MPI_BYTE, right, at / unit, size, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_fence(0, window);
        CHECK(filled(back, (size_t)size, (unsigned)(rank * 100 + i)));
        CHECK(back[size] == 0x11);
        free(bytes);
        free(back);
    }
}

/* Many puts to everybody in one epoch, each to a place of its own; then everybody gets everything of everybody. */
static void everybody(MPI_Win window, unsigned char *base, int unit)
{
    enum { SLOT = 64 };
    unsigned char *bytes = allocate(MANY * SLOT), *all = allocate((size_t)ranks * MANY * SLOT);

    memset(base, 0xee, WINDOW);
    fill(bytes, MANY * SLOT, (unsigned)rank);
    MPI_Win_fence(MPI_MODE_NOPRECEDE, window);
    for (int i = 0; i < MANY; i++) {
        for (int to = 0; to < ranks; to++) {
            MPI_Put(bytes + i * SLOT, SLOT, MPI_BYTE, to, (rank * MANY + i) * SLOT / unit, SLOT, MPI_BYTE, window);
        }
    }
    MPI_Win_fence(MPI_MODE_NOSTORE, window);
    for (int from = 0; from < ranks; from++) {
        CHECK(filled(base + from * MANY * SLOT, MANY * SLOT, (unsigned)from));
    }
    CHECK(all_bytes(base + ranks * MANY * SLOT, (size_t)(WINDOW - ranks * MANY * SLOT), 0xee));
    for (int from = 0; from < ranks; from++) {
        for (int i = 0; i < ranks * MANY; i += MANY / 2) {
            MPI_Get(all + i * SLOT, MANY / 2 * SLOT, MPI_BYTE, from, i * SLOT / unit, MANY / 2 * SLOT, MPI_BYTE,
                    window);
        }
        MPI_Win_fence(MPI_MODE_NOSTORE | MPI_MODE_NOPUT, window);
        for (int i = 0; i < ranks; i++) {
            CHECK(filled(all + i * MANY * SLOT, MANY * SLOT, (unsigned)i));
        }
    }
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    free(bytes);
    free(all);
}

/* Strided there, contiguous here; the other way round; both strided, differently; what lies between stays. */
static void derived(MPI_Win window, unsigned char *base, int unit)
{
    enum { COUNT = 300 };
    MPI_Datatype every_second, every_third;
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    int *ints = (int *)base, plain[COUNT], second[COUNT * 2], third[COUNT * 3];

    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &every_second);
    MPI_Type_vector(COUNT, 1, 3, MPI_INT, &every_third);
    MPI_Type_commit(&every_second);
    MPI_Type_commit(&every_third);
    memset(base, 0xee, WINDOW);
    for (int i = 0; i < COUNT * 3; i++) {
        third[i] = rank * 10000 + i;
    }
    for (int i = 0; i < COUNT; i++) {
        plain[i] = rank * 10000 + 5000 + i;
    }
    MPI_Win_fence(0, window);
    MPI_Put(plain, COUNT, MPI_INT, right, 0, 1, every_second, window);
    MPI_Put(third, 1, every_third, right, 4096 / unit, COUNT, MPI_INT, window);
    MPI_Put(third, 1, every_third, right, 8192 / unit, 1, every_second, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) {
        CHECK(ints[2 * i] == left * 10000 + 5000 + i && (unsigned)ints[2 * i + 1] == 0xeeeeeeeeu);
        CHECK(ints[1024 + i] == left * 10000 + 3 * i);
        CHECK(ints[2048 + 2 * i] == left * 10000 + 3 * i && (unsigned)ints[2048 + 2 * i + 1] == 0xeeeeeeeeu);
    }
    CHECK(all_bytes(base + 8192 + COUNT * 8, WINDOW - 8192 - COUNT * 8, 0xee));
    memset(plain, 0, sizeof(plain));
    memset(second, 0xdd, sizeof(second));
    memset(third, 0xdd, sizeof(third));
    MPI_Win_fence(0, window);
    MPI_Get(plain, COUNT, MPI_INT, right, 0, 1, every_second, window);
    MPI_Get(second, 1, every_second, right, 4096 / unit, COUNT, MPI_INT, window);
    MPI_Get(third, 1, every_third, right, 8192 / unit, 1, every_second, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) {
        CHECK(plain[i] == rank * 10000 + 5000 + i);
        CHECK(second[2 * i] == rank * 10000 + 3 * i && (unsigned)second[2 * i + 1] == 0xddddddddu);
        CHECK(third[3 * i] == rank * 10000 + 3 * i && (unsigned)third[3 * i + 1] == 0xddddddddu);
        CHECK((unsigned)third[3 * i + 2] == 0xddddddddu);
    }
    MPI_Type_free(&every_second);
    MPI_Type_free(&every_third);
}

static void attributes(MPI_Win window, void *base, int unit, int kind)
{
    void *value;
    int found;

    MPI_Win_get_attr(window, MPI_WIN_BASE, &value, &found);
    CHECK(found && value == base);
    MPI_Win_get_attr(window, MPI_WIN_SIZE, &value, &found);
    CHECK(found && *(MPI_Aint *)value == WINDOW);
    MPI_Win_get_attr(window, MPI_WIN_DISP_UNIT, &value, &found);
    CHECK(found && *(int *)value == unit);
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &value, &found);
    CHECK(found && *(int *)value == ((kind == WINDOW_CREATE) ? MPI_WIN_FLAVOR_CREATE : MPI_WIN_FLAVOR_ALLOCATE));
}

/* Only even ranks have memory (all: nobody has any); the others take part with NULL. */
static void without_memory(int nobody)
{
    int with = !nobody && rank % 2 == 0, number = -1;
    int memory[4] = {1000 + rank, 0, 0, 0};
    MPI_Win window;

    CHECK(MPI_Win_create(with ? memory : NULL, with ? (MPI_Aint)sizeof(memory) : 0, sizeof(int), MPI_INFO_NULL,
                         MPI_COMM_WORLD, &window) == MPI_SUCCESS);
    MPI_Win_fence(0, window);
    if (!nobody) {
        MPI_Get(&number, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
        MPI_Put(&rank, 1, MPI_INT, 0, 1 + rank % 3, (rank < 3) ? 1 : 0, MPI_INT, window);
    }
    MPI_Put(&rank, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
    MPI_Get(&number, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    if (!nobody) {
        CHECK(number == 1000);
        CHECK(rank != 0 || (memory[1] == 0 && memory[2] == ((ranks > 1) ? 1 : 0)));
    }
    CHECK(MPI_Win_free(&window) == MPI_SUCCESS);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        for (int unit = 1; unit <= 8; unit *= 8) {
            unsigned char *base;
            MPI_Win window = window_new(kind, WINDOW, unit, &base);

            attributes(window, base, unit, kind);
            contiguous(window, base, unit);
            everybody(window, base, unit);
            derived(window, base, unit);
            window_free(kind, &window, base);
        }
    }
    without_memory(0);
    without_memory(1);
    return osc_end("osc_fence", OSC_PUT | OSC_GET);
}
