/* SPDX-License-Identifier: BSD-3-Clause */
/* Edges: truncation reported as an error and not as a crash, messages without data, MPI_PROC_NULL, messages to
 * oneself. */
#include "mpi_check.h"

enum { LARGEST = 3000000 };

static unsigned char *out, *in;

/* The receive is too small: its status is an error, nothing behind its end is written, the next message is whole. */
static void test_truncation(int sent, int room, int posted)
{
    MPI_Request requests[2];
    MPI_Status status, *statuses = &status;
    int class, code;

    fill(out, sent, sent);
    memset(in, 0xc3, LARGEST);
    if (posted) {
        MPI_Irecv(in, room, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out, sent, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
        code = MPI_Wait(&requests[0], statuses);
    } else {
        MPI_Isend(out, sent, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Barrier(MPI_COMM_WORLD);
        code = MPI_Recv(in, room, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, statuses);
    }
    CHECK(code != MPI_SUCCESS);
    MPI_Error_class(code, &class);
    CHECK(class == MPI_ERR_TRUNCATE);
    CHECK(status.MPI_SOURCE == 1 - rank && status.MPI_TAG == 1);
    for (int at = room; at < LARGEST; at++) {
        if (in[at] != 0xc3) {
            CHECK(!"a byte behind the end of the buffer was written");
        }
    }
    CHECK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    CHECK(MPI_Sendrecv(out, sent, MPI_BYTE, 1 - rank, 1, in, sent, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, &status) ==
          MPI_SUCCESS);
    check_status(&status, 1 - rank, 1, sent);
    CHECK(filled(in, sent, sent));
}

static void test_truncations(void)
{
    static const int sent[] = {8, 100, 5000, 9000, 70000, LARGEST};

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    for (int i = 0; i < (int)(sizeof(sent) / sizeof(sent[0])); i++) {
        for (int posted = 0; posted < 2; posted++) {
            test_truncation(sent[i], 0, posted);
            test_truncation(sent[i], sent[i] / 2, posted);
            test_truncation(sent[i], sent[i] - 1, posted);
        }
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void test_empty(void)
{
    MPI_Request request;
    MPI_Status status;

    for (int i = 0; i < 50; i++) {
        MPI_Isend(NULL, 0, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &request);
        in[0] = 0x11;
        MPI_Recv(in, i % 2 ? 0 : 100, MPI_BYTE, 1 - rank, i, MPI_COMM_WORLD, &status);
        check_status(&status, 1 - rank, i, 0);
        CHECK(in[0] == 0x11);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Issend(NULL, 0, MPI_INT, 1 - rank, 100 + i, MPI_COMM_WORLD, &request);
        MPI_Recv(NULL, 0, MPI_INT, 1 - rank, 100 + i, MPI_COMM_WORLD, &status);
        check_status(&status, 1 - rank, 100 + i, 0);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    MPI_Sendrecv(out, 10, MPI_BYTE, MPI_PROC_NULL, 1, in, 10, MPI_BYTE, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status);
    check_status(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
}

static void test_self(void)
{
    static const int sizes[] = {0, 1, 100, 8200, 100000, LARGEST};
    MPI_Request requests[2];
    MPI_Status status;

    for (int i = 0; i < (int)(sizeof(sizes) / sizeof(sizes[0])); i++) {
        for (int turn = 0; turn < 6; turn++) {
            MPI_Comm comm = turn % 2 ? MPI_COMM_SELF : MPI_COMM_WORLD;
            int me = turn % 2 ? 0 : rank;

            fill(out, sizes[i], i * 10 + turn);
            memset(in, 0, sizes[i]);
            if (turn < 4) {
                MPI_Irecv(in, sizes[i], MPI_BYTE, turn < 2 ? me : MPI_ANY_SOURCE, 5, comm, &requests[0]);
                MPI_Isend(out, sizes[i], MPI_BYTE, me, 5, comm, &requests[1]);
            } else {
                MPI_Issend(out, sizes[i], MPI_BYTE, me, 5, comm, &requests[1]);
                MPI_Probe(me, MPI_ANY_TAG, comm, &status);
                check_status(&status, me, 5, sizes[i]);
                MPI_Irecv(in, sizes[i], MPI_BYTE, me, 5, comm, &requests[0]);
            }
            MPI_Wait(&requests[0], &status);
            MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
            check_status(&status, me, 5, sizes[i]);
            CHECK(filled(in, sizes[i], i * 10 + turn));
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks == 2);
    out = allocate(LARGEST);
    in = allocate(LARGEST);
    test_empty();
    test_self();
    test_truncations();
    free(out);
    free(in);
    return check_end("mpi_edge");
}
