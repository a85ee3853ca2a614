/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: messages of one never match receives of another, whatever their tags; split halves, an
 * intercommunicator between them and their union. */
#include "mpi_check.h"

static void test_dup(void)
{
    enum { COPIES = 8 };
    MPI_Comm copies[COPIES];
    MPI_Request requests[2 * COPIES];
    int out[COPIES], in[COPIES], next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;

    for (int i = 0; i < COPIES; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &copies[i]);
    }
    for (int i = 0; i < COPIES; i++) {
        out[i] = rank * 100 + i;
        MPI_Isend(&out[i], 1, MPI_INT, next, 1, copies[i], &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COPIES; i++) {
        int copy = (i * 3) % COPIES;

        MPI_Irecv(&in[copy], 1, MPI_INT, i % 2 ? before : MPI_ANY_SOURCE, i % 2 ? 1 : MPI_ANY_TAG, copies[copy],
                  &requests[COPIES + copy]);
    }
    MPI_Waitall(2 * COPIES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < COPIES; i++) {
        CHECK(in[i] == before * 100 + i);
        MPI_Comm_free(&copies[i]);
    }
}

static void test_halves(void)
{
    int half = rank % 2, place, size, sum = 0, value = rank + 1, peers, got = -1, expected = 0;
    MPI_Comm own, between, both;
    MPI_Status status;

    MPI_Comm_split(MPI_COMM_WORLD, half, -rank, &own);
    MPI_Comm_rank(own, &place);
    MPI_Comm_size(own, &size);
    CHECK(size == ranks / 2 && place == size - 1 - rank / 2);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, own);
    for (int other = half; other < ranks; other += 2) {
        expected += other + 1;
    }
    CHECK(sum == expected);

    /* The leaders of both halves are the last two of the world. */
    MPI_Intercomm_create(own, 0, MPI_COMM_WORLD, ranks - 2 + (1 - half), 77, &between);
    MPI_Comm_remote_size(between, &peers);
    CHECK(peers == ranks / 2);
    MPI_Sendrecv(&rank, 1, MPI_INT, place, 5, &got, 1, MPI_INT, MPI_ANY_SOURCE, 5, between, &status);
    CHECK(got == (rank ^ 1) && status.MPI_SOURCE == place);
    MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, between);
    CHECK(sum == ranks * (ranks + 1) / 2 - expected);

    MPI_Intercomm_merge(between, half, &both);
    MPI_Comm_size(both, &size);
    MPI_Comm_rank(both, &place);
    CHECK(size == ranks && (place >= ranks / 2) == half);
    got = place == 0 ? 4711 : 0;
    MPI_Bcast(&got, 1, MPI_INT, 0, both);
    CHECK(got == 4711);
    MPI_Comm_free(&both);
    MPI_Comm_free(&between);
    MPI_Comm_free(&own);
}

static void test_many(void)
{
    for (int i = 0; i < 60; i++) {
        MPI_Comm comm;
        int token = rank, place, size;

        MPI_Comm_split(MPI_COMM_WORLD, rank == i % ranks ? MPI_UNDEFINED : 0, 0, &comm);
        CHECK((comm == MPI_COMM_NULL) == (rank == i % ranks));
        if (comm == MPI_COMM_NULL) {
            continue;
        }
        MPI_Comm_rank(comm, &place);
        MPI_Comm_size(comm, &size);
        MPI_Sendrecv_replace(&token, 1, MPI_INT, (place + 1) % size, i, (place + size - 1) % size, i, comm,
                             MPI_STATUS_IGNORE);
        CHECK(token != rank || size == 1);
        MPI_Comm_free(&comm);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks >= 4 && ranks % 2 == 0);
    test_dup();
    test_halves();
    test_many();
    return check_end("mpi_comm");
}
