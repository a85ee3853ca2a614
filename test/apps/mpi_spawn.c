/* SPDX-License-Identifier: BSD-3-Clause */
/* MPI_Comm_spawn: processes that start later talk with those that were there, and leave before them. */
#include "mpi_check.h"

static void talk(MPI_Comm other, int peers, int parent)
{
    enum { SIZE = 100000 };
    unsigned char *out = allocate(SIZE), *in = allocate(SIZE);
    int one = 1, sum = 0;

    for (int peer = 0; peer < peers; peer++) {
        MPI_Status status;

        fill(out, SIZE, rank + 10 * parent);
        MPI_Sendrecv(out, SIZE, MPI_BYTE, peer, 1, in, SIZE, MPI_BYTE, peer, 1, other, &status);
        check_status(&status, peer, 1, SIZE);
        CHECK(filled(in, SIZE, peer + 10 * !parent));
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, other);
    CHECK(sum == peers);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    int peers, codes[2];

    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_remote_size(parent, &peers);
        talk(parent, peers, 0);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS);
    talk(children, 2, 1);
    MPI_Comm_disconnect(&children);
    return check_end("mpi_spawn");
}
