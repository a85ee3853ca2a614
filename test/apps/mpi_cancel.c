/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Cancel: a receive that nothing matched is cancelled and takes no message later; one that is over stays as it is;
 * a send may be cancelled or not, but then the message must arrive. */
#include "mpi_check.h"

enum { MANY = 200, SIZE = 50000 };

static unsigned char *in, *out;

static void cancel_receives(void)
{
    MPI_Request requests[MANY];
    MPI_Status status;
    int flag;

    memset(in, 0x77, SIZE);
    for (int i = 0; i < MANY; i++) {
        MPI_Irecv(in, SIZE, MPI_BYTE, i % 2 ? 1 - rank : MPI_ANY_SOURCE, i % 3 ? 10 : MPI_ANY_TAG, MPI_COMM_WORLD,
                  &requests[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        MPI_Cancel(&requests[i]);
        MPI_Wait(&requests[i], &status);
        MPI_Test_cancelled(&status, &flag);
        CHECK(flag);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    fill(out, SIZE, 1);
    MPI_Sendrecv(out, SIZE, MPI_BYTE, 1 - rank, 10, in, SIZE, MPI_BYTE, 1 - rank, 10, MPI_COMM_WORLD, &status);
    check_status(&status, 1 - rank, 10, SIZE);
    CHECK(filled(in, SIZE, 1));
}

/* Of several equal receives one is cancelled: the others match in their order. */
static void cancel_in_the_middle(void)
{
    MPI_Request requests[3];
    MPI_Status status;
    int got[3] = {-1, -1, -1}, flag;

    for (int i = 0; i < 3; i++) {
        MPI_Irecv(&got[i], 1, MPI_INT, 1 - rank, 20, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Cancel(&requests[1]);
    MPI_Wait(&requests[1], &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2; i++) {
        MPI_Send(&i, 1, MPI_INT, 1 - rank, 20, MPI_COMM_WORLD);
    }
    MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
    CHECK(got[0] == 0 && got[1] == -1 && got[2] == 1);
}

static void cancel_what_is_over(void)
{
    MPI_Request request, again;
    MPI_Status status;
    int got = -1, value = 5, flag;

    MPI_Irecv(&got, 1, MPI_INT, 1 - rank, 30, MPI_COMM_WORLD, &request);
    MPI_Isend(&value, 1, MPI_INT, 1 - rank, 30, MPI_COMM_WORLD, &again);
    MPI_Wait(&again, MPI_STATUS_IGNORE);
    while (*(volatile int *)&got != 5) {
        MPI_Iprobe(MPI_ANY_SOURCE, 31, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(!flag);
    check_status(&status, 1 - rank, 30, sizeof(int));
}

static void cancel_send(int size, int tag)
{
    MPI_Request request;
    MPI_Status status;
    int flag, cancelled = 0;

    if (rank == 0) {
        fill(out, size, tag);
        MPI_Isend(out, size, MPI_BYTE, 1, tag, MPI_COMM_WORLD, &request);
        MPI_Cancel(&request);
        MPI_Send(&tag, 1, MPI_INT, 1, 41, MPI_COMM_WORLD);
        /* If it is not cancelled, the peer has to receive it before this must be over. */
        for (flag = 0; !flag;) {
            int asked;

            MPI_Test(&request, &flag, &status);
            MPI_Iprobe(1, 42, MPI_COMM_WORLD, &asked, MPI_STATUS_IGNORE);
            if (!flag && asked) {
                break;
            }
        }
        if (flag) {
            MPI_Test_cancelled(&status, &cancelled);
        }
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 42, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(&cancelled, 1, MPI_INT, 1, 43, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(&flag, 1, MPI_INT, 0, 41, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 42, MPI_COMM_WORLD);
        MPI_Recv(&cancelled, 1, MPI_INT, 0, 43, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (!cancelled) {
            MPI_Recv(in, size, MPI_BYTE, 0, tag, MPI_COMM_WORLD, &status);
            check_status(&status, 0, tag, size);
            CHECK(filled(in, size, tag));
        }
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks == 2);
    in = allocate(SIZE);
    out = allocate(SIZE);
    for (int turn = 0; turn < 5; turn++) {
        cancel_receives();
        cancel_in_the_middle();
        cancel_what_is_over();
        cancel_send(8, 50 + turn);
        cancel_send(SIZE, 60 + turn);
    }
    free(in);
    free(out);
    return check_end("mpi_cancel");
}
