/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: MPI_Probe, MPI_Iprobe, MPI_Mprobe, MPI_Improbe, and the reception of what was matched by them. */
#include "mpi_check.h"

static const int sizes[] = {0, 1, 300, 8192, 60000, 2000000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LARGEST = 2000000 };

static unsigned char *buffer;

/* Without waiting for one before the next is sent: the receiver does not take them in this order. */
static void send_all(int tag)
{
    MPI_Request requests[SIZES];
    unsigned char *parts[SIZES];

    for (int i = 0; i < SIZES; i++) {
        parts[i] = allocate(sizes[i]);
        fill(parts[i], sizes[i], tag + i);
        MPI_Isend(parts[i], sizes[i], MPI_BYTE, 1, tag + i, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(SIZES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < SIZES; i++) {
        free(parts[i]);
    }
}

static void check_message(const MPI_Status *status, int tag, int i)
{
    check_status(status, 0, tag + i, sizes[i]);
    CHECK(filled(buffer, sizes[i], tag + i));
}

/* A probe returns the size and leaves the message where it is. */
static void receive_probed(int tag, int blocking, int any)
{
    MPI_Status status;

    for (int i = 0; i < SIZES; i++) {
        int flag = 0;

        for (int turn = 0; turn < 2; turn++) {
            if (blocking) {
                MPI_Probe(any ? MPI_ANY_SOURCE : 0, any ? MPI_ANY_TAG : tag + i, MPI_COMM_WORLD, &status);
            } else {
                for (flag = 0; !flag;) {
                    MPI_Iprobe(any ? MPI_ANY_SOURCE : 0, any ? MPI_ANY_TAG : tag + i, MPI_COMM_WORLD, &flag, &status);
                }
            }
            check_status(&status, 0, tag + i, sizes[i]);
        }
        MPI_Recv(buffer, sizes[i], MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD, &status);
        check_message(&status, tag, i);
    }
}

static void receive_matched(int tag, int blocking)
{
    for (int i = 0; i < SIZES; i++) {
        MPI_Message message = MPI_MESSAGE_NULL;
        MPI_Request request;
        MPI_Status status;
        int flag = 0;

        if (blocking) {
            MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
            check_status(&status, 0, tag + i, sizes[i]);
            MPI_Mrecv(buffer, sizes[i], MPI_BYTE, &message, &status);
        } else {
            while (!flag) {
                MPI_Improbe(MPI_ANY_SOURCE, tag + i, MPI_COMM_WORLD, &flag, &message, &status);
            }
            check_status(&status, 0, tag + i, sizes[i]);
            MPI_Imrecv(buffer, sizes[i], MPI_BYTE, &message, &request);
            MPI_Wait(&request, &status);
        }
        CHECK(message == MPI_MESSAGE_NULL);
        check_message(&status, tag, i);
    }
}

/* A matched message is out of the reach of receives that come later; the others keep their order. */
static void receive_around_matched(int tag)
{
    MPI_Message message;
    MPI_Status status;

    MPI_Mprobe(0, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    for (int i = 1; i < SIZES; i++) {
        MPI_Recv(buffer, sizes[i], MPI_BYTE, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        check_message(&status, tag, i);
    }
    MPI_Mrecv(buffer, sizes[0], MPI_BYTE, &message, &status);
    check_message(&status, tag, 0);
}

static void nothing_there(void)
{
    MPI_Message message;
    MPI_Status status;
    int flag = 1;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
    CHECK(!flag);
    MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    CHECK(!flag);
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(buffer, 1, MPI_BYTE, &message, &status);
    CHECK(message == MPI_MESSAGE_NULL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks == 2);
    buffer = allocate(LARGEST);
    nothing_there();
    for (int tag = 100; tag <= 700; tag += 100) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) {
            send_all(tag);
        } else if (tag <= 400) {
            receive_probed(tag, tag % 200 == 0, tag > 200);
        } else if (tag <= 600) {
            receive_matched(tag, tag == 500);
        } else {
            receive_around_matched(tag);
        }
    }
    free(buffer);
    return check_end("mpi_probe");
}
