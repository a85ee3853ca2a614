/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long MPI_Init and MPI_Finalize take: prints "key value" lines in rank 0. Nothing is sent in between.
 *
 * Built with the compiler wrapper of an MPI where there is one; run.py starts two processes of it.
 */
#define _POSIX_C_SOURCE 199309L
#include <mpi.h>
#include <stdio.h>
#include <time.h>

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

int main(int argc, char **argv)
{
    double start = now_us(), ready, end;
    int rank = 1;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return 1;
    }
    ready = now_us();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    end = now_us();
    MPI_Finalize();
    if (rank == 0) {
        printf("init_us %.1f\nfinalize_us %.1f\ntotal_us %.1f\n", ready - start, now_us() - end, now_us() - start);
    }
    return 0;
}
