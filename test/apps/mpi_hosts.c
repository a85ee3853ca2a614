/* SPDX-License-Identifier: BSD-3-Clause */
/* Several hosts: the processes run on as many different ones as the argument says, each rank reaches each other one
 * with messages of several sizes, and all of them meet in collective calls. */
#include "mpi_check.h"

enum { LONGEST = 1 << 20, TAG = 7 };

static unsigned char sent[LONGEST], received[LONGEST];

static void count_hosts(int expected)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", (*names)[MPI_MAX_PROCESSOR_NAME];
    int length, different = 0;

    MPI_Get_processor_name(name, &length);
    names = calloc((size_t)ranks, sizeof(*names));
    CHECK(names != NULL);
    MPI_Allgather(name, sizeof(name), MPI_CHAR, names, sizeof(name), MPI_CHAR, MPI_COMM_WORLD);
    for (int i = 0; i < ranks; i++) {
        int before = 0;

        while (strcmp(names[before], names[i]) != 0) {
            before++;
        }
        different += before == i;
    }
    free(names);
    CHECK(different == expected);
}

static void everybody_with_everybody(int size)
{
    for (int distance = 0; distance < ranks; distance++) {
        const int to = (rank + distance) % ranks;
        const int from = (rank + ranks - distance) % ranks;

        memset(sent, rank + 1, (size_t)size);
        memset(received, 0, (size_t)size);
        MPI_Sendrecv(sent, size, MPI_BYTE, to, TAG, received, size, MPI_BYTE, from, TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        memset(sent, from + 1, (size_t)size);
        CHECK(memcmp(sent, received, (size_t)size) == 0);
    }
}

int main(int argc, char **argv)
{
    static const int sizes[] = {0, 8, 5000, 70000, LONGEST};
    long mine, sum = 0;

    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    count_hosts((argc > 1) ? atoi(argv[1]) : 1);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        everybody_with_everybody(sizes[i]);
    }
    mine = rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == (long)ranks * (ranks - 1) / 2);
    return check_end("mpi_hosts");
}
