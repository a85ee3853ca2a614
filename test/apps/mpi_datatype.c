/* SPDX-License-Identifier: BSD-3-Clause */
/* Derived datatypes, small and so large that they go by rendezvous: what is in the holes must stay as it was, and the
 * two sides may use different types of the same signature. */
#include "mpi_check.h"

#include <stddef.h>

struct record {
    char kind;
    double value;
    int numbers[3];
};

static unsigned char *out, *in, *packed;
enum { ROOM = 8 << 20 };

/* Exchanges count elements of type; the bytes of the type must be the sender's, all others untouched. */
static void exchange(MPI_Datatype type, int count, size_t span, unsigned seed)
{
    int size, position = 0, elements;
    MPI_Status status;

    CHECK(span <= ROOM);
    MPI_Type_size(type, &size);
    fill(out, span, seed);
    memset(in, 0xa5, span);
    MPI_Sendrecv(out, count, type, 1 - rank, 7, in, count, type, 1 - rank, 7, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, type, &elements);
    CHECK(elements == count);
    /* What it should be: packed here and unpacked into the same background. */
    MPI_Pack(out, count, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(position == size * count);
    memset(out, 0xa5, span);
    position = 0;
    MPI_Unpack(packed, size * count, &position, out, count, type, MPI_COMM_WORLD);
    CHECK(memcmp(in, out, span) == 0);

    /* The same to plain bytes, unexpected, and back. */
    fill(out, span, seed + 1);
    MPI_Request request;
    MPI_Isend(out, count, type, 1 - rank, 8, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(in, size * count, MPI_BYTE, 1 - rank, 8, MPI_COMM_WORLD, &status);
    check_status(&status, 1 - rank, 8, size * count);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    position = 0;
    MPI_Pack(out, count, type, packed, ROOM, &position, MPI_COMM_WORLD);
    CHECK(memcmp(in, packed, position) == 0);
    memset(in, 0x3c, span);
    memset(out, 0x3c, span);
    MPI_Sendrecv(packed, position, MPI_BYTE, 1 - rank, 9, in, count, type, 1 - rank, 9, MPI_COMM_WORLD, &status);
    position = 0;
    MPI_Unpack(packed, size * count, &position, out, count, type, MPI_COMM_WORLD);
    CHECK(memcmp(in, out, span) == 0);
}

static void test_vector(int blocks)
{
    MPI_Datatype type;

    MPI_Type_vector(blocks, 3, 5, MPI_INT, &type);
    MPI_Type_commit(&type);
    exchange(type, 2, (size_t)blocks * 5 * sizeof(int) * 2, blocks);
    MPI_Type_free(&type);
}

static void test_indexed(int blocks)
{
    int *lengths = allocate(blocks * sizeof(int)), *places = allocate(blocks * sizeof(int)), at = 0;
    MPI_Datatype type;

    for (int i = 0; i < blocks; i++) {
        lengths[i] = (i + 1) % 4;
        places[i] = at;
        at += (i + 1) % 4 + i % 3;
    }
    MPI_Type_indexed(blocks, lengths, places, MPI_SHORT, &type);
    MPI_Type_commit(&type);
    exchange(type, 1, (size_t)at * sizeof(short), blocks + 1);
    MPI_Type_free(&type);
    free(lengths);
    free(places);
}

static void test_struct(int count)
{
    int lengths[3] = {1, 1, 3};
    MPI_Aint places[3] = {offsetof(struct record, kind), offsetof(struct record, value),
                          offsetof(struct record, numbers)};
    MPI_Datatype types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT}, bare, type;

    MPI_Type_create_struct(3, lengths, places, types, &bare);
    MPI_Type_create_resized(bare, 0, sizeof(struct record), &type);
    MPI_Type_commit(&type);
    exchange(type, count, count * sizeof(struct record), count);
    MPI_Type_free(&type);
    MPI_Type_free(&bare);
}

/* A column of a matrix: a resized vector, every column one element. */
static void test_columns(int side)
{
    MPI_Datatype column, type;

    MPI_Type_vector(side, 1, side, MPI_INT, &column);
    MPI_Type_create_resized(column, 0, sizeof(int), &type);
    MPI_Type_commit(&type);
    exchange(type, side / 2, (size_t)side * side * sizeof(int), side);

    /* Sent as columns and received as rows: transposed. */
    int *matrix = (int *)out, *result = (int *)in;
    for (int i = 0; i < side * side; i++) {
        matrix[i] = rank * 1000000 + i;
    }
    MPI_Sendrecv(matrix, side, type, 1 - rank, 1, result, side * side, MPI_INT, 1 - rank, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    for (int i = 0; i < side * side; i++) {
        CHECK(result[i] == (1 - rank) * 1000000 + i % side * side + i / side);
    }
    MPI_Type_free(&type);
    MPI_Type_free(&column);
}

static void test_subarray(void)
{
    int whole[3] = {40, 50, 60}, part[3] = {20, 30, 40}, start[3] = {5, 7, 11};
    MPI_Datatype type;

    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    exchange(type, 1, 40 * 50 * 60 * sizeof(double), 3);
    MPI_Type_free(&type);
}

/* Fewer elements arrive than were awaited, and a part of one. */
static void test_partial(void)
{
    MPI_Datatype pair;
    MPI_Status status;
    int elements, count;

    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Sendrecv(out, 7, MPI_INT, 1 - rank, 1, in, 10, pair, 1 - rank, 1, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, pair, &count);
    MPI_Get_elements(&status, pair, &elements);
    CHECK(count == MPI_UNDEFINED && elements == 7);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks == 2);
    out = allocate(ROOM);
    in = allocate(ROOM);
    packed = allocate(ROOM);
    for (int scale = 1; scale <= 100000; scale *= 10) {
        test_vector(scale);
        test_indexed(scale);
        test_struct(scale);
    }
    test_columns(10);
    test_columns(500);
    test_subarray();
    test_partial();
    free(out);
    free(in);
    free(packed);
    return check_end("mpi_datatype");
}
