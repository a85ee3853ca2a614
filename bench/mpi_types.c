/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long messages of derived datatypes take between two processes of MPI: prints "key value" lines in rank 0, the
 * median time one way, or of an exchange, in microseconds.
 *
 * Built with the compiler wrapper of an MPI where there is one; run.py starts two processes of it.
 */
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 100, WARM_UP = 10, BYTES = 8 << 20, BLOCKS = 65536, RECORDS = 50000, PICKED = 20000 };
enum { FACES = 16, FACE_BLOCKS = 8192 };

struct record {
    char kind;
    double value;
    int n[3];
};

static int rank;

static int by_size(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

static void median(const char *key, double *times)
{
    qsort(times, ROUNDS, sizeof(times[0]), by_size);
    if (rank == 0) {
        printf("%s_us %.1f\n", key, times[ROUNDS / 2]);
    }
}

static void ping_pong(const char *key, MPI_Datatype type, int count, char *buffer)
{
    static double times[ROUNDS];
    double begin;
    int i;

    for (i = -WARM_UP; i < ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        if (rank == 0) {
            MPI_Send(buffer, count, type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(buffer, count, type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(buffer, count, type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(buffer, count, type, 0, 1, MPI_COMM_WORLD);
        }
        if (i >= 0) {
            times[i] = (MPI_Wtime() - begin) / 2 * 1e6;
        }
    }
    median(key, times);
}

/* Both send all faces of a block to each other at once, as a stencil code does after each step. */
static void exchange(const char *key, MPI_Datatype face, char *buffer)
{
    static double times[ROUNDS];
    MPI_Request requests[2 * FACES];
    double begin;
    int i, j;

    for (i = -WARM_UP; i < ROUNDS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        for (j = 0; j < FACES; j++) {
            MPI_Irecv(buffer + BYTES / 2 + j * 8, 1, face, 1 - rank, j, MPI_COMM_WORLD, &requests[j]);
        }
        for (j = 0; j < FACES; j++) {
            MPI_Isend(buffer + j * 8, 1, face, 1 - rank, j, MPI_COMM_WORLD, &requests[FACES + j]);
        }
        MPI_Waitall(2 * FACES, requests, MPI_STATUSES_IGNORE);
        if (i >= 0) {
            times[i] = (MPI_Wtime() - begin) * 1e6;
        }
    }
    median(key, times);
}

int main(int argc, char **argv)
{
    int lengths[] = {1, 1, 3};
    MPI_Aint places[] = {offsetof(struct record, kind), offsetof(struct record, value), offsetof(struct record, n)};
    MPI_Datatype parts[] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, vector, packed, record, picked, face;
    char *buffer = malloc(BYTES);
    int *places_of_picked = malloc(PICKED * sizeof(int));
    int i;

    if (buffer == NULL || places_of_picked == NULL || MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        return 1;
    }
    memset(buffer, 1, BYTES);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Type_vector(BLOCKS, 4, 8, MPI_INT, &vector); /* 1 MiB of 2 MiB */
    MPI_Type_create_struct(3, lengths, places, parts, &packed);
    MPI_Type_create_resized(packed, 0, sizeof(struct record), &record);
    for (i = 0; i < PICKED; i++) {
        places_of_picked[i] = 2 * i;
    }
    MPI_Type_create_indexed_block(PICKED, 1, places_of_picked, record, &picked);
    MPI_Type_vector(FACE_BLOCKS, 1, FACES * 4, MPI_DOUBLE, &face); /* 64 KiB of 4 MiB */
    MPI_Type_commit(&vector);
    MPI_Type_commit(&record);
    MPI_Type_commit(&picked);
    MPI_Type_commit(&face);
    ping_pong("vector", vector, 1, buffer);
    ping_pong("struct", record, RECORDS, buffer);
    ping_pong("indexed", picked, 2, buffer);
    exchange("faces", face, buffer);
    MPI_Type_free(&vector);
    MPI_Type_free(&packed);
    MPI_Type_free(&record);
    MPI_Type_free(&picked);
    MPI_Type_free(&face);
    MPI_Finalize();
    free(places_of_picked);
    free(buffer);
    return 0;
}
