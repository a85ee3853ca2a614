/* SPDX-License-Identifier: BSD-3-Clause */
/* The shortest program: MPI_Init, a message to the next process, MPI_Finalize. Prints what both calls took; run again
 * and again, it is the measure of what starting and ending costs. */
#include "mpi_check.h"

#include <time.h>

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

int main(int argc, char **argv)
{
    double begin = now(), ready, end, over;

    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    ready = now();
    MPI_Barrier(MPI_COMM_WORLD);
    end = now();
    MPI_Finalize();
    over = now();
    CHECK(ready >= begin && over >= end);
    if (rank == 0) {
        printf("mpi_cycle: passed in %d processes, MPI_Init and a message %.1f ms, MPI_Finalize %.1f ms\n", ranks,
               ready - begin, over - end);
    }
    return 0;
}
