/* SPDX-License-Identifier: BSD-3-Clause */
/* Every mode of sending (standard, synchronous, buffered, ready) and of waiting, with blocking, non-blocking and
 * persistent calls, between neighbours in pairs. */
#include "mpi_check.h"

static const int sizes[] = {0, 1, 8, 200, 1024, 8000, 8192, 9000, 65536, 100000, 1000003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LARGEST = 1000003, BATCH = 40 };

static int peer;
static unsigned char *out, *in;

static void test_blocking(void)
{
    MPI_Status status;

    for (int i = 0; i < SIZES; i++) {
        for (int turn = 0; turn < 2; turn++) {
            if ((rank & 1) == turn) {
                fill(out, sizes[i], i);
                MPI_Send(out, sizes[i], MPI_BYTE, peer, 100 + i, MPI_COMM_WORLD);
            } else {
                memset(in, 0xee, sizes[i] + 1);
                MPI_Recv(in, LARGEST, MPI_BYTE, peer, 100 + i, MPI_COMM_WORLD, &status);
                check_status(&status, peer, 100 + i, sizes[i]);
                CHECK(filled(in, sizes[i], i));
                CHECK(in[sizes[i]] == 0xee);
            }
        }
    }
}

/* Sent before it is awaited: nothing is posted until the barrier. */
static void test_unexpected(void)
{
    MPI_Request requests[SIZES];
    MPI_Status status;
    unsigned char *parts[SIZES];

    for (int i = 0; i < SIZES; i++) {
        parts[i] = allocate(sizes[i]);
        fill(parts[i], sizes[i], 50 + i);
        MPI_Isend(parts[i], sizes[i], MPI_BYTE, peer, 200 + i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = SIZES - 1; i >= 0; i--) {
        MPI_Recv(in, sizes[i], MPI_BYTE, peer, 200 + i, MPI_COMM_WORLD, &status);
        check_status(&status, peer, 200 + i, sizes[i]);
        CHECK(filled(in, sizes[i], 50 + i));
    }
    MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SIZES; i++) {
        free(parts[i]);
    }
}

static int wait_some(MPI_Request *requests, int count, int *indices, MPI_Status *statuses, int call)
{
    int done = 0, flag;

    switch (call) {
    case 0:
        MPI_Waitsome(count, requests, &done, indices, statuses);
        break;
    case 1:
        while (done == 0) {
            MPI_Testsome(count, requests, &done, indices, statuses);
        }
        break;
    case 2:
        MPI_Waitany(count, requests, indices, statuses);
        done = 1;
        break;
    default:
        do {
            MPI_Testany(count, requests, indices, &flag, statuses);
        } while (!flag);
        done = 1;
        break;
    }
    return done;
}

static void test_some(int call)
{
    MPI_Request requests[2 * BATCH];
    MPI_Status statuses[2 * BATCH];
    unsigned char *parts[2 * BATCH];
    int indices[2 * BATCH], left = 2 * BATCH;

    for (int i = 0; i < BATCH; i++) {
        int size = sizes[i % (SIZES - 1)];

        parts[i] = allocate(size);
        parts[BATCH + i] = allocate(size);
        fill(parts[BATCH + i], size, call * 100 + i);
        MPI_Irecv(parts[i], size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[i]);
        MPI_Isend(parts[BATCH + i], size, MPI_BYTE, peer, i, MPI_COMM_WORLD, &requests[BATCH + i]);
    }
    while (left > 0) {
        int done = wait_some(requests, 2 * BATCH, indices, statuses, call);

        CHECK(done > 0);
        for (int i = 0; i < done; i++) {
            int index = indices[i];

            CHECK(index >= 0 && index < 2 * BATCH && requests[index] == MPI_REQUEST_NULL);
            if (index < BATCH) {
                check_status(&statuses[i], peer, index, sizes[index % (SIZES - 1)]);
                CHECK(filled(parts[index], sizes[index % (SIZES - 1)], call * 100 + index));
            }
            free(parts[index]);
        }
        left -= done;
    }
}

/* A synchronous send must not be over before its reception began. */
static void test_synchronous(void)
{
    MPI_Request request;
    int flag, go = 1;

    for (int i = 0; i < SIZES; i++) {
        if ((rank & 1) == 0) {
            fill(out, sizes[i], 70 + i);
            MPI_Issend(out, sizes[i], MPI_BYTE, peer, 300 + i, MPI_COMM_WORLD, &request);
            for (int turn = 0; turn < 20; turn++) {
                MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
                CHECK(!flag);
            }
            MPI_Send(&go, 1, MPI_INT, peer, 299, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            MPI_Ssend(out, sizes[i], MPI_BYTE, peer, 300 + i, MPI_COMM_WORLD);
        } else {
            MPI_Recv(&go, 1, MPI_INT, peer, 299, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int turn = 0; turn < 2; turn++) {
                memset(in, 0, sizes[i]);
                MPI_Recv(in, sizes[i], MPI_BYTE, peer, 300 + i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(filled(in, sizes[i], 70 + i));
            }
        }
    }
}

/* The memory of a buffered send is free at once: it is overwritten before the peer receives. */
static void test_buffered(void)
{
    int room = SIZES * (LARGEST + MPI_BSEND_OVERHEAD), detached;
    void *pool = allocate(room), *back;
    MPI_Status status;

    MPI_Buffer_attach(pool, room);
    for (int i = 0; i < SIZES; i++) {
        fill(out, sizes[i], 90 + i);
        MPI_Bsend(out, sizes[i], MPI_BYTE, peer, 400 + i, MPI_COMM_WORLD);
        memset(out, 0, sizes[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < SIZES; i++) {
        MPI_Recv(in, sizes[i], MPI_BYTE, peer, 400 + i, MPI_COMM_WORLD, &status);
        check_status(&status, peer, 400 + i, sizes[i]);
        CHECK(filled(in, sizes[i], 90 + i));
    }
    MPI_Buffer_detach(&back, &detached);
    CHECK(back == pool && detached == room);
    free(pool);
}

static void test_ready(void)
{
    MPI_Request request;

    for (int i = 0; i < SIZES; i++) {
        MPI_Irecv(in, sizes[i], MPI_BYTE, peer, 500 + i, MPI_COMM_WORLD, &request);
        MPI_Barrier(MPI_COMM_WORLD);
        fill(out, sizes[i], 110 + i);
        MPI_Rsend(out, sizes[i], MPI_BYTE, peer, 500 + i, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(filled(in, sizes[i], 110 + i));
    }
}

static void test_persistent(void)
{
    MPI_Request requests[3];
    MPI_Status statuses[3];
    int size = 70000, flag;

    MPI_Send_init(out, size, MPI_BYTE, peer, 600, MPI_COMM_WORLD, &requests[0]);
    MPI_Ssend_init(out, 16, MPI_BYTE, peer, 601, MPI_COMM_WORLD, &requests[1]);
    MPI_Recv_init(in, size, MPI_BYTE, peer, 600, MPI_COMM_WORLD, &requests[2]);
    for (int turn = 0; turn < 20; turn++) {
        unsigned char small[16];

        fill(out, size, turn);
        memset(in, 0, size);
        MPI_Startall(3, requests);
        MPI_Recv(small, sizeof(small), MPI_BYTE, peer, 601, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(filled(small, sizeof(small), turn));
        do {
            MPI_Testall(3, requests, &flag, statuses);
        } while (!flag);
        check_status(&statuses[2], peer, 600, size);
        CHECK(filled(in, size, turn));
        CHECK(requests[0] != MPI_REQUEST_NULL);
    }
    for (int i = 0; i < 3; i++) {
        MPI_Request_free(&requests[i]);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks % 2 == 0);
    peer = rank ^ 1;
    out = allocate(LARGEST);
    in = allocate(LARGEST);
    test_blocking();
    test_unexpected();
    for (int call = 0; call < 4; call++) {
        test_some(call);
    }
    test_synchronous();
    test_buffered();
    test_ready();
    test_persistent();
    free(out);
    free(in);
    return check_end("mpi_modes");
}
