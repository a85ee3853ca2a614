/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accumulates that fetch, of many elements and in both directions at once, in windows of all kinds. For a dynamic
 * window Open MPI 4.1 destroys the key right after each access that it posts.
 */
#include "osc_check.h"

enum { MOST = 70000, ROUNDS = 5, DYNAMIC = WINDOW_KINDS };

static long numbers[MOST], results[MOST], ones[MOST];

static void in_a_window(int kind, int count)
{
    MPI_Aint mine = 0, theirs = 0;
    long *memory = numbers;
    MPI_Win window;

    if (kind == DYNAMIC) {
        CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS);
        CHECK(MPI_Win_attach(window, numbers, sizeof(numbers)) == MPI_SUCCESS);
        MPI_Get_address(numbers, &mine);
    } else {
        window = window_new(kind, sizeof(numbers), 1, &memory);
    }
    MPI_Sendrecv(&mine, 1, MPI_AINT, 1 - rank, 1, &theirs, 1, MPI_AINT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; i++) {
        memory[i] = i + 1;
        ones[i] = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        memset(results, 0, sizeof(results));
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, 1 - rank, 0, window);
        CHECK(MPI_Get_accumulate(ones, count, MPI_LONG, results, count, MPI_LONG, 1 - rank, theirs, count, MPI_LONG,
                                 MPI_SUM, window) == MPI_SUCCESS);
        MPI_Win_unlock(1 - rank, window);
        for (int i = 0; i < count; i++) {
            CHECK(results[i] == i + 1 + round);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
        for (int i = 0; i < count; i++) {
            CHECK(memory[i] == i + 2 + round);
        }
        MPI_Win_unlock(rank, window);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (kind == DYNAMIC) {
        CHECK(MPI_Win_detach(window, numbers) == MPI_SUCCESS);
        MPI_Win_free(&window);
    } else {
        window_free(kind, &window, memory);
    }
}

int main(int argc, char **argv)
{
    static const int counts[] = {1, 100, 4161, 17000, MOST};

    osc_begin(&argc, &argv);
    for (int kind = 0; kind <= DYNAMIC; kind++) {
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            in_a_window(kind, counts[i]);
        }
    }
    return osc_end("osc_get_accumulate", 0);
}
