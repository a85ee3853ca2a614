/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * osc_last_byte SIZE: the last byte of the only region of a dynamic window. Open MPI 4.1 looks one entry before the
 * first one of its table for it, and unpacks what stands there: zeros, unless there was a window before.
 */
#include "osc_check.h"

static MPI_Aint at_of(const void *memory)
{
    MPI_Aint at;

    MPI_Get_address(memory, &at);
    return at;
}

/* Rank 0 writes, adds and reads one byte of the region of rank 1, which is alone in the window. */
static void one_byte(size_t size, size_t offset)
{
    unsigned char *memory = NULL, in = 0, out = 4;
    MPI_Aint mine, theirs;
    MPI_Win window;

    CHECK(posix_memalign((void **)&memory, 4096, size) == 0);
    memset(memory, 3, size);
    CHECK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS);
    CHECK(MPI_Win_attach(window, memory, (MPI_Aint)size) == MPI_SUCCESS);
    mine = at_of(memory + offset);
    MPI_Sendrecv(&mine, 1, MPI_AINT, 1 - rank, 1, &theirs, 1, MPI_AINT, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, window);
        CHECK(MPI_Put(&out, 1, MPI_BYTE, 1, theirs, 1, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_flush(1, window);
        CHECK(MPI_Get(&in, 1, MPI_BYTE, 1, theirs, 1, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_unlock(1, window);
        CHECK(in == 4);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (size_t i = 0; i < size; i++) {
        CHECK(memory[i] == (rank == 1 && i == offset ? 4 : 3));
    }
    CHECK(MPI_Win_detach(window, memory) == MPI_SUCCESS);
    MPI_Win_free(&window);
    free(memory);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    CHECK(argc == 2);
    one_byte((size_t)atol(argv[1]), (size_t)atol(argv[1]) - 1);
    return osc_end("osc_last_byte", OSC_PUT | OSC_GET);
}
