/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Cancel of synchronous sends to the process itself. One thread sends, probes, cancels, checks the status without
 * waiting, and receives what it does not find cancelled: the fate of the message must be known when MPI_Cancel returns,
 * or that receive waits for a message that is taken back meanwhile. */
#include "mpi_check.h"

#include <string.h>

enum { SIZES = 5, LARGEST = 300000 };

enum how { CANCEL_AT_ONCE, IPROBE, PROBE, PROBE_ANY };

static const int sizes[SIZES] = {0, 8, 3000, 30000, LARGEST};

static unsigned char *in, *out;

static void probe(enum how how, int tag, int size)
{
    MPI_Status status;
    int flag = 0;

    if (how == PROBE) {
        MPI_Probe(rank, tag, MPI_COMM_WORLD, &status);
    } else if (how == PROBE_ANY) {
        MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
    } else {
        while (!flag) {
            MPI_Iprobe(rank, tag, MPI_COMM_WORLD, &flag, &status);
        }
    }
    check_status(&status, rank, tag, size);
}

static int is_cancelled(MPI_Request request)
{
    MPI_Status status;
    int flag, cancelled = 0;

    MPI_Request_get_status(request, &flag, &status);
    if (flag) {
        MPI_Test_cancelled(&status, &cancelled);
    }
    return cancelled;
}

static void receive(int tag, int size)
{
    MPI_Status status;

    memset(in, 0, (size_t)size);
    MPI_Recv(in, size, MPI_BYTE, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
    check_status(&status, rank, tag, size);
    CHECK(filled(in, (size_t)size, (unsigned)tag));
}

/* `checks`: the program reads the status at once; else it waits, which has to end whatever others do, and then reads
 * it. Answers whether the send was cancelled. */
static int cancel(enum how how, int size, int tag, int checks)
{
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0, flag;

    fill(out, (size_t)size, (unsigned)tag);
    MPI_Issend(out, size, MPI_BYTE, rank, tag, MPI_COMM_WORLD, &request);
    if (how != CANCEL_AT_ONCE) {
        probe(how, tag, size);
    }
    MPI_Cancel(&request);
    if (checks) {
        cancelled = is_cancelled(request);
        if (!cancelled) {
            receive(tag, size);
        }
    }
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    if (checks) {
        CHECK(flag == cancelled);
    } else if (!flag) {
        receive(tag, size);
    }
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &cancelled, MPI_STATUS_IGNORE);
    CHECK(!cancelled);
    return flag;
}

int main(int argc, char **argv)
{
    int cancelled = 0, all = 0;

    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    in = allocate(LARGEST);
    out = allocate(LARGEST);
    for (int turn = 0; turn < 5; turn++) {
        for (int how = CANCEL_AT_ONCE; how <= PROBE_ANY; how++) {
            for (int size = 0; size < SIZES; size++) {
                for (int checks = 0; checks < 2; checks++) {
                    cancelled += cancel((enum how)how, sizes[size], 100 + all, checks);
                    all++;
                }
            }
        }
    }
    CHECK(cancelled == all); /* MPI leaves it open; this library promises it */
    free(in);
    free(out);
    return check_end("mpi_own_cancel");
}
