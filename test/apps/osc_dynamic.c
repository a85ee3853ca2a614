/* SPDX-License-Identifier: BSD-3-Clause */
/* Dynamic windows: memory is attached and detached while the window lives; all operations on it. */
#include "osc_check.h"

#define REGIONS 12

/* How many are attached at a time. Open MPI 4.1's osc ucx loses its way in its table when there are several. */
#ifdef OPEN_MPI
#define AT_ONCE 1
#else
#define AT_ONCE REGIONS
#endif

static MPI_Aint at_of(const void *memory)
{
    MPI_Aint at;

    MPI_Get_address(memory, &at);
    return at;
}

static size_t size_of(int region, int round)
{
    return (size_t)(1 + region * region * 131 + round);
}

/* Regions of different sizes at every rank; everybody writes to and reads from all of its right neighbour's. */
static void regions(MPI_Win window, int round, int first)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *memory[REGIONS], back[20000];
    MPI_Aint mine[REGIONS], theirs[REGIONS];

    for (int i = first; i < first + AT_ONCE; i++) {
        size_t size = size_of(i, round);

        memory[i] = allocate(size + 64);
        memset(memory[i], 0xee, size + 64);
        CHECK(MPI_Win_attach(window, memory[i], (MPI_Aint)size + 64) == MPI_SUCCESS);
        mine[i] = at_of(memory[i]);
    }
    MPI_Sendrecv(mine + first, AT_ONCE, MPI_AINT, left, 1, theirs + first, AT_ONCE, MPI_AINT, right, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Win_lock_all(0, window);
    for (int i = first + AT_ONCE - 1; i >= first; i--) {
        int size = (int)size_of(i, round);

        fill(back, (size_t)size, (unsigned)(rank * 100 + i));
        CHECK(MPI_Put(back, size, MPI_BYTE, right, theirs[i] + 32, size, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_flush(right, window);
        memset(back, 0, (size_t)size);
        CHECK(MPI_Get(back, size, MPI_BYTE, right, theirs[i] + 32, size, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_flush(right, window);
        CHECK(filled(back, (size_t)size, (unsigned)(rank * 100 + i)));
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = first; i < first + AT_ONCE; i++) {
        size_t size = size_of(i, round);

        CHECK(all_bytes(memory[i], 32, 0xee) && all_bytes(memory[i] + 32 + size, 32, 0xee));
        CHECK(filled(memory[i] + 32, size, (unsigned)(left * 100 + i)));
    }
    /* Detached in another order than attached. */
    for (int i = 0; i < AT_ONCE; i++) {
        int which = first + i * 5 % AT_ONCE;

        CHECK(MPI_Win_detach(window, memory[which]) == MPI_SUCCESS);
        free(memory[which]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One page is attached, detached and attached again; what is in it changes behind the same address. */
static void again(MPI_Win window)
{
    int *numbers = allocate(4096), right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Aint mine = at_of(numbers), theirs;

    MPI_Sendrecv(&mine, 1, MPI_AINT, left, 1, &theirs, 1, MPI_AINT, right, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int round = 0; round < 10; round++) {
        int number = -1;

        numbers[5] = rank * 100 + round;
        CHECK(MPI_Win_attach(window, numbers, 4096) == MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
        MPI_Get(&number, 1, MPI_INT, right, theirs + 5 * (MPI_Aint)sizeof(int), 1, MPI_INT, window);
        MPI_Win_unlock(right, window);
        CHECK(number == right * 100 + round);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(MPI_Win_detach(window, numbers) == MPI_SUCCESS);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(numbers);
}

/* A counter and an array in attached memory of rank 0, used by all at once. */
static void atomics(MPI_Win window)
{
    enum { ROUNDS = 20 };
    int64_t *words = allocate(64 * sizeof(*words)), one = 1, got, last = -1, compare, swap;
    int sums[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    MPI_Aint at = at_of(words);

    memset(words, 0, 64 * sizeof(*words));
    CHECK(MPI_Win_attach(window, words, 64 * sizeof(*words)) == MPI_SUCCESS);
    MPI_Bcast(&at, 1, MPI_AINT, 0, MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(MPI_Fetch_and_op(&one, &got, MPI_INT64_T, 0, at, MPI_SUM, window) == MPI_SUCCESS);
        MPI_Win_flush(0, window);
        CHECK(got > last);
        last = got;
        CHECK(MPI_Accumulate(sums, 8, MPI_INT, 0, at + 64, 8, MPI_INT, MPI_SUM, window) == MPI_SUCCESS);
        MPI_Win_flush(0, window);
    }
    compare = rank;
    swap = rank + 1;
    do {
        int flag;

        CHECK(MPI_Compare_and_swap(&swap, &compare, &got, MPI_INT64_T, 0, at + 128, window) == MPI_SUCCESS);
        MPI_Win_flush(0, window);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    } while (got != rank);
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        CHECK(words[0] == (int64_t)ranks * ROUNDS && words[16] == ranks);
        for (int i = 0; i < 8; i++) {
            CHECK(((int *)(words + 8))[i] == ranks * ROUNDS * (i + 1));
        }
    }
    CHECK(MPI_Win_detach(window, words) == MPI_SUCCESS);
    free(words);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    MPI_Win window;
    void *value;
    int found;

    osc_begin(&argc, &argv);
    CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS);
    MPI_Win_get_attr(window, MPI_WIN_CREATE_FLAVOR, &value, &found);
    CHECK(found && *(int *)value == MPI_WIN_FLAVOR_DYNAMIC);
    for (int round = 0; round < 3; round++) {
        for (int first = 0; first < REGIONS; first += AT_ONCE) {
            regions(window, round, first);
        }
    }
    again(window);
    atomics(window);
    CHECK(MPI_Win_free(&window) == MPI_SUCCESS);
#ifdef OPEN_MPI
    return osc_end("osc_dynamic", OSC_PUT | OSC_GET | OSC_ATOMIC);
#else
    return osc_end("osc_dynamic", 0);
#endif
}
