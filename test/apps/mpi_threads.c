/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_THREAD_MULTIPLE: several threads of each process exchange messages at the same time, each with a tag of its own
 * and all of them with one; then each with a communicator of its own, where they run collectives too. */
#include "mpi_check.h"

#include <pthread.h>
#include <stdint.h>

enum { THREADS = 4, ROUNDS = 60, LARGEST = 50000, SHARED_TAG = 99 };

static MPI_Comm own[THREADS];
static long thread_checks[THREADS];

/* Threads must not count into the common counter. */
#define EXPECT(condition) \
    do { \
        thread_checks[number]++; \
        if (!(condition)) { \
            check_failed(__FILE__, __LINE__, #condition); \
        } \
    } while (0)

static int size_of(int round)
{
    static const int sizes[] = {0, 8, 700, 8100, 9000, LARGEST};

    return sizes[round % 6];
}

static void exchange(int number, int round, MPI_Comm comm, unsigned char *out, unsigned char *in)
{
    int size = size_of(round), peer = rank ^ 1, got;
    MPI_Request requests[2];
    MPI_Status statuses[2];

    fill(out, size, number * 1000 + round);
    memset(in, 0, size);
    MPI_Irecv(in, LARGEST, MPI_BYTE, peer, number, comm, &requests[0]);
    if (round % 5 == 0) {
        MPI_Issend(out, size, MPI_BYTE, peer, number, comm, &requests[1]);
    } else {
        MPI_Isend(out, size, MPI_BYTE, peer, number, comm, &requests[1]);
    }
    MPI_Waitall(2, requests, statuses);
    MPI_Get_count(&statuses[0], MPI_BYTE, &got);
    EXPECT(got == size && statuses[0].MPI_SOURCE == peer && statuses[0].MPI_TAG == number);
    EXPECT(filled(in, size, number * 1000 + round));
}

/* Whoever takes it, every message of the shared tag is whole: its first byte is its seed. */
static void exchange_shared(int number, int round, unsigned char *out, unsigned char *in)
{
    int size = 16 + size_of(round), got;
    MPI_Status status;
    MPI_Request request;

    fill(out, size, number);
    MPI_Isend(out, size, MPI_BYTE, rank ^ 1, SHARED_TAG, MPI_COMM_WORLD, &request);
    MPI_Recv(in, LARGEST + 16, MPI_BYTE, MPI_ANY_SOURCE, SHARED_TAG, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_count(&status, MPI_BYTE, &got);
    for (int seed = 0; seed < THREADS; seed++) {
        if (in[0] == pattern(seed, 0)) {
            EXPECT(filled(in, got, seed));
            return;
        }
    }
    EXPECT(!"a message of nobody");
}

/* A matched probe is how threads receive what they have probed. */
static void exchange_matched(int number, int round, unsigned char *out, unsigned char *in)
{
    int size = size_of(round), got;
    MPI_Message message;
    MPI_Status status;
    MPI_Request request;

    fill(out, size, number + 7);
    MPI_Isend(out, size, MPI_BYTE, rank ^ 1, 200 + number, MPI_COMM_WORLD, &request);
    MPI_Mprobe(rank ^ 1, 200 + number, MPI_COMM_WORLD, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &got);
    EXPECT(got == size);
    MPI_Mrecv(in, got, MPI_BYTE, &message, &status);
    EXPECT(filled(in, size, number + 7));
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void *run(void *argument)
{
    int number = (int)(intptr_t)argument;
    unsigned char *out = malloc(LARGEST + 16), *in = malloc(LARGEST + 16);

    EXPECT(out != NULL && in != NULL);
    for (int round = 0; round < ROUNDS; round++) {
        int sum = 0, one = rank + number;

        exchange(number, round, MPI_COMM_WORLD, out, in);
        exchange_shared(number, round, out, in);
        exchange_matched(number, round, out, in);
        exchange(number, round, own[number], out, in);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, own[number]);
        EXPECT(sum == ranks * (ranks - 1) / 2 + ranks * number);
    }
    free(out);
    free(in);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];

    check_begin(&argc, &argv, MPI_THREAD_MULTIPLE);
    CHECK(ranks % 2 == 0);
    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &own[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        checks += thread_checks[i];
        MPI_Comm_free(&own[i]);
    }
    return check_end("mpi_threads");
}
