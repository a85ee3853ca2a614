/* SPDX-License-Identifier: BSD-3-Clause */
/* Epochs of post, start, complete and wait: a ring, one target for all, subsets that change, test instead of wait. */
#include "osc_check.h"

#define WINDOW (64 * 1024)
#define ROUNDS 9

static MPI_Group group_of(int count, const int *members)
{
    MPI_Group world, group;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, count, members, &group);
    MPI_Group_free(&world);
    return group;
}

static void wait_for_epoch(MPI_Win window, int by_test)
{
    int done = 0;

    if (!by_test) {
        MPI_Win_wait(window);
        return;
    }
    while (!done) {
        MPI_Win_test(window, &done);
    }
}

/* Everybody puts to the right and gets from there in the same epoch, from another place. */
static void ring(MPI_Win window, unsigned char *base)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Group to = group_of(1, &right), from = group_of(1, &left);
    unsigned char *bytes = allocate(WINDOW), *back = allocate(WINDOW);

    for (int round = 0; round < ROUNDS; round++) {
        int size = 1 + round * round * 8 % (WINDOW / 2);

        fill(bytes, (size_t)size, (unsigned)(rank + 10 * round));
        memset(base, 0xee, WINDOW / 2);
        fill(base + WINDOW / 2, (size_t)size, (unsigned)(rank + 10 * round + 5));
        MPI_Win_post(from, 0, window);
        MPI_Win_start(to, 0, window);
        CHECK(MPI_Put(bytes, size, MPI_BYTE, right, 0, size, MPI_BYTE, window) == MPI_SUCCESS);
        CHECK(MPI_Get(back, size, MPI_BYTE, right, WINDOW / 2, size, MPI_BYTE, window) == MPI_SUCCESS);
        MPI_Win_complete(window);
        CHECK(filled(back, (size_t)size, (unsigned)(right + 10 * round + 5)));
        wait_for_epoch(window, round % 2);
        CHECK(filled(base, (size_t)size, (unsigned)(left + 10 * round)));
        CHECK(all_bytes(base + size, (size_t)(WINDOW / 2 - size), 0xee));
    }
    MPI_Group_free(&to);
    MPI_Group_free(&from);
    free(bytes);
    free(back);
}

/* Round by round another rank is the target of all others, or the origin towards all others. */
static void star(MPI_Win window, int *base, int inwards)
{
    for (int round = 0; round < ROUNDS; round++) {
        int hub = round % ranks, count = 0, *members = allocate(sizeof(int) * (size_t)ranks);
        int exposes = (rank == hub) == (inwards != 0);
        MPI_Group group;

        for (int i = 0; i < ranks; i++) {
            if (i != hub) {
                members[count++] = i;
            }
        }
        group = (rank == hub) ? group_of(count, members) : group_of(1, &hub);
        if (exposes) {
            memset(base, 0, sizeof(int) * (size_t)ranks * 2);
            MPI_Win_post(group, 0, window);
            wait_for_epoch(window, round % 3 == 0);
            for (int i = 0; i < ranks; i++) {
                int came = (rank == hub) ? i != hub : i == hub;

                CHECK(base[2 * i] == (came ? 100 * round + i : 0));
                CHECK(base[2 * i + 1] == (came ? ~i : 0));
            }
        } else {
            int numbers[2] = {100 * round + rank, ~rank};

            MPI_Win_start(group, 0, window);
            for (int i = 0; i < ((rank == hub) ? count : 1); i++) {
                int target = (rank == hub) ? members[i] : hub;

                CHECK(MPI_Put(numbers, 2, MPI_INT, target, 2 * rank * (MPI_Aint)sizeof(int), 2, MPI_INT, window) ==
                      MPI_SUCCESS);
            }
            MPI_Win_complete(window);
        }
        MPI_Group_free(&group);
        free(members);
#ifdef MPICH
        /* MPICH 4.0 counts posts without looking from whom: that of a hub that is a round ahead gets lost. */
        MPI_Barrier(MPI_COMM_WORLD);
#endif
    }
}

/* An epoch may be empty on either side, and a rank may be its own origin. */
static void odd_epochs(MPI_Win window, int *base)
{
    MPI_Group self = group_of(1, &rank);
    int number = 4711 + rank;

    base[0] = 0;
    MPI_Win_post(self, 0, window);
    MPI_Win_start(self, 0, window);
    MPI_Put(&number, 1, MPI_INT, rank, 0, 1, MPI_INT, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    CHECK(base[0] == number);
    MPI_Win_post(self, 0, window);
    MPI_Win_start(self, 0, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    MPI_Win_start(MPI_GROUP_EMPTY, 0, window);
    MPI_Win_complete(window);
    MPI_Win_post(MPI_GROUP_EMPTY, 0, window);
    MPI_Win_wait(window);
    MPI_Group_free(&self);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        unsigned char *base;
        MPI_Win window = window_new(kind, WINDOW, 1, &base);

        ring(window, base);
        star(window, (int *)base, 1);
        star(window, (int *)base, 0);
        odd_epochs(window, (int *)base);
        window_free(kind, &window, base);
    }
    return osc_end("osc_pscw", OSC_PUT | OSC_GET);
}
