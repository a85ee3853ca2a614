/* SPDX-License-Identifier: BSD-3-Clause */
/* Every kind of collective operation, blocking and non-blocking, with lengths around the limits at which libraries
 * change their algorithms; each result is computed here too. */
#include "mpi_check.h"

static const int lengths[] = {1, 7, 500, 3000, 40000};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), LONGEST = 40000 };

static int *out, *in;

/* Element i of what rank from has for rank to. */
static int value(int from, int to, int i)
{
    return from * 100003 + to * 1009 + i;
}

static void test_barrier_bcast(int length)
{
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < length; i++) {
            in[i] = rank == root ? value(root, 0, i) : -1;
        }
        MPI_Bcast(in, length, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < length; i++) {
            CHECK(in[i] == value(root, 0, i));
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static long sum_below(int end, int i)
{
    long sum = 0;

    for (int from = 0; from < end; from++) {
        sum += value(from, 0, i);
    }
    return sum;
}

static void test_reductions(int length)
{
    for (int i = 0; i < length; i++) {
        out[i] = value(rank, 0, i);
    }
    MPI_Reduce(out, in, length, MPI_INT, MPI_SUM, ranks - 1, MPI_COMM_WORLD);
    for (int i = 0; i < length && rank == ranks - 1; i++) {
        CHECK(in[i] == sum_below(ranks, i));
    }
    MPI_Allreduce(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < length; i++) {
        CHECK(in[i] == sum_below(ranks, i));
    }
    MPI_Allreduce(MPI_IN_PLACE, out, length, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    for (int i = 0; i < length; i++) {
        CHECK(out[i] == value(ranks - 1, 0, i));
        out[i] = value(rank, 0, i);
    }
    MPI_Scan(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < length; i++) {
        CHECK(in[i] == sum_below(rank + 1, i));
    }
    MPI_Exscan(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < length && rank > 0; i++) {
        CHECK(in[i] == sum_below(rank, i));
    }
}

static void test_reduce_scatter(int length)
{
    for (int to = 0; to < ranks; to++) {
        for (int i = 0; i < length; i++) {
            out[to * length + i] = value(rank, to, i);
        }
    }
    MPI_Reduce_scatter_block(out, in, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < length; i++) {
        CHECK(in[i] == sum_below(ranks, i) + ranks * (value(0, rank, i) - value(0, 0, i)));
    }
}

static void test_gather_scatter(int length)
{
    for (int root = 0; root < ranks; root++) {
        for (int i = 0; i < length; i++) {
            out[i] = value(rank, root, i);
        }
        MPI_Gather(out, length, MPI_INT, in, length, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < ranks * length && rank == root; i++) {
            CHECK(in[i] == value(i / length, root, i % length));
        }
        for (int i = 0; i < ranks * length; i++) {
            out[i] = value(root, i / length, i % length);
        }
        MPI_Scatter(out, length, MPI_INT, in, length, MPI_INT, root, MPI_COMM_WORLD);
        for (int i = 0; i < length; i++) {
            CHECK(in[i] == value(root, rank, i));
        }
    }
    for (int i = 0; i < length; i++) {
        out[i] = value(rank, 0, i);
    }
    MPI_Allgather(out, length, MPI_INT, in, length, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * length; i++) {
        CHECK(in[i] == value(i / length, 0, i % length));
    }
}

static void test_alltoall(int length)
{
    for (int i = 0; i < ranks * length; i++) {
        out[i] = value(rank, i / length, i % length);
        in[i] = -1;
    }
    MPI_Alltoall(out, length, MPI_INT, in, length, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < ranks * length; i++) {
        CHECK(in[i] == value(i / length, rank, i % length));
    }
}

/* Rank from has (from + to) % 3 * length / 2 elements for rank to: some have none. */
static void test_varying(int length)
{
    int counts[16], places[16], sent = 0, sizes[16], starts[16], received = 0;

    for (int other = 0; other < ranks; other++) {
        counts[other] = (rank + other) % 3 * length / 2;
        places[other] = sent;
        for (int i = 0; i < counts[other]; i++) {
            out[sent++] = value(rank, other, i);
        }
        sizes[other] = counts[other];
        starts[other] = received;
        received += sizes[other];
    }
    MPI_Alltoallv(out, counts, places, MPI_INT, in, sizes, starts, MPI_INT, MPI_COMM_WORLD);
    for (int other = 0; other < ranks; other++) {
        for (int i = 0; i < sizes[other]; i++) {
            CHECK(in[starts[other] + i] == value(other, rank, i));
        }
    }
    MPI_Gatherv(out + places[1], counts[1], MPI_INT, in, sizes, starts, MPI_INT, 1, MPI_COMM_WORLD);
    for (int other = 0; other < ranks && rank == 1; other++) {
        for (int i = 0; i < sizes[other]; i++) {
            CHECK(in[starts[other] + i] == value(other, 1, i));
        }
    }
    memset(in, 0, LONGEST * sizeof(int));
    MPI_Scatterv(out, counts, places, MPI_INT, in, (rank + 1) % 3 * length / 2, MPI_INT, 1, MPI_COMM_WORLD);
    for (int i = 0; i < (rank + 1) % 3 * length / 2; i++) {
        CHECK(in[i] == value(1, rank, i));
    }
    for (int other = 0; other < ranks; other++) {
        sizes[other] = other % 3 * length / 2;
        starts[other] = other * length;
    }
    MPI_Allgatherv(out + places[0], counts[0], MPI_INT, in, sizes, starts, MPI_INT, MPI_COMM_WORLD);
    for (int other = 0; other < ranks; other++) {
        for (int i = 0; i < sizes[other]; i++) {
            CHECK(in[starts[other] + i] == value(other, 0, i));
        }
    }
}

static void test_neighbours(int length)
{
    int before = (rank + ranks - 1) % ranks, after = (rank + 1) % ranks, periodic = 1, size = ranks;
    MPI_Comm ring;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    for (int i = 0; i < length; i++) {
        out[i] = value(rank, 10, i);
        out[length + i] = value(rank, 11, i);
    }
    MPI_Neighbor_allgather(out, length, MPI_INT, in, length, MPI_INT, ring);
    for (int i = 0; i < length; i++) {
        CHECK(in[i] == value(before, 10, i) && in[length + i] == value(after, 10, i));
    }
    if (ranks > 2) {
        MPI_Neighbor_alltoall(out, length, MPI_INT, in, length, MPI_INT, ring);
        for (int i = 0; i < length; i++) {
            CHECK(in[i] == value(before, 11, i) && in[length + i] == value(after, 10, i));
        }
    }
    MPI_Comm_free(&ring);
}

/* Several at once, while messages of the same communicator are on their way. */
static void test_nonblocking(int length)
{
    int *sums = allocate(length * sizeof(int)), *all = allocate((size_t)ranks * length * sizeof(int)), token = -1;
    MPI_Request requests[6];

    for (int i = 0; i < length; i++) {
        out[i] = value(rank, 0, i);
        in[i] = rank == 0 ? value(5, 5, i) : -1;
    }
    MPI_Irecv(&token, 1, MPI_INT, (rank + 1) % ranks, 3, MPI_COMM_WORLD, &requests[4]);
    MPI_Iallreduce(out, sums, length, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
    MPI_Ibcast(in, length, MPI_INT, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Iallgather(out, length, MPI_INT, all, length, MPI_INT, MPI_COMM_WORLD, &requests[2]);
    MPI_Ibarrier(MPI_COMM_WORLD, &requests[3]);
    MPI_Isend(&rank, 1, MPI_INT, (rank + ranks - 1) % ranks, 3, MPI_COMM_WORLD, &requests[5]);
    MPI_Waitall(6, requests, MPI_STATUSES_IGNORE);
    CHECK(token == (rank + 1) % ranks);
    for (int i = 0; i < length; i++) {
        CHECK(sums[i] == sum_below(ranks, i) && in[i] == value(5, 5, i));
    }
    for (int i = 0; i < ranks * length; i++) {
        CHECK(all[i] == value(i / length, 0, i % length));
    }
    free(sums);
    free(all);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks >= 2 && ranks <= 16);
    out = allocate((size_t)LONGEST * ranks * sizeof(int));
    in = allocate((size_t)LONGEST * ranks * sizeof(int));
    for (int i = 0; i < LENGTHS; i++) {
        test_barrier_bcast(lengths[i]);
        test_reductions(lengths[i]);
        test_reduce_scatter(lengths[i]);
        test_gather_scatter(lengths[i]);
        test_alltoall(lengths[i]);
        test_varying(lengths[i]);
        test_neighbours(lengths[i] / 2 + 1);
        test_nonblocking(lengths[i]);
    }
    free(out);
    free(in);
    return check_end("mpi_collective");
}
