/* SPDX-License-Identifier: BSD-3-Clause */
/* What the MPI programs share: the start, which proves that our library is in use, and the end. Each program is one
 * source file and includes this once.
 * Invariant: a failed check ends the whole run with status 1; the last line of a good one is "NAME: passed ...". */
#ifndef CW_APPS_MPI_CHECK_H
#define CW_APPS_MPI_CHECK_H

#include "app_check.h"

#include <mpi.h>

static void end_everything(void)
{
    MPI_Abort(MPI_COMM_WORLD, 1);
}

__attribute__((unused)) static void check_status(const MPI_Status *status, int source, int tag, int count)
{
    int got = -1;

    MPI_Get_count(status, MPI_BYTE, &got);
    CHECK(status->MPI_SOURCE == source);
    CHECK(status->MPI_TAG == tag);
    CHECK(got == count);
}

/* Begins with a message around the ring, so that nothing that is loaded late is missed. */
static void check_begin(int *argc, char ***argv, int threads)
{
    int token = -1, provided;

    MPI_Init_thread(argc, argv, threads, &provided);
    started = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided >= threads);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 1, &token, 1, MPI_INT, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(token == (rank + ranks - 1) % ranks);
    check_library();
}

__attribute__((unused)) static int check_end(const char *name)
{
    long all = 0;
    double seconds = MPI_Wtime() - started;

    MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) {
        printf("%s: passed %ld checks in %d processes, %.2f s\n", name, all, ranks, seconds);
    }
    return 0;
}

#endif
