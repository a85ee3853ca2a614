/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations with requests: completion gives the origin's buffer back (put) or fills it (get), one by one, many at
 * once, in any order of waiting. */
#include "osc_check.h"

#define MANY 200
#define SLOT 320
#define WINDOW (MANY * SLOT * 2)

/* Each request is waited for alone; then its buffer is overwritten, and what arrives is what it was. */
static void one_by_one(MPI_Win window, unsigned char *base)
{
    static const int sizes[] = {1, 8, 100, 4096, 8193, 50001};
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *bytes = allocate(WINDOW);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        MPI_Request request;
        MPI_Status status;

        memset(base, 0xee, WINDOW);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_lock_all(0, window);
        fill(bytes, (size_t)sizes[i], (unsigned)rank);
        CHECK(MPI_Rput(bytes, sizes[i], MPI_BYTE, right, 7, sizes[i], MPI_BYTE, window, &request) == MPI_SUCCESS);
        MPI_Wait(&request, &status);
        CHECK(request == MPI_REQUEST_NULL);
        memset(bytes, 0, (size_t)sizes[i]);
        MPI_Win_flush(right, window);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Win_sync(window);
        CHECK(filled(base + 7, (size_t)sizes[i], (unsigned)left));
        CHECK(all_bytes(base, 7, 0xee) && all_bytes(base + 7 + sizes[i], 100, 0xee));
        CHECK(MPI_Rget(bytes, sizes[i], MPI_BYTE, right, 7, sizes[i], MPI_BYTE, window, &request) == MPI_SUCCESS);
        MPI_Wait(&request, &status);
        CHECK(filled(bytes, (size_t)sizes[i], (unsigned)rank));
        MPI_Win_unlock_all(window);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    free(bytes);
}

static int wait_for(MPI_Request *requests, int round, int done)
{
    int at = -1, flag = 0;

    if (round % 3 == 0) {
        MPI_Waitany(MANY, requests, &at, MPI_STATUS_IGNORE);
        return at;
    }
    at = (round % 3 == 1) ? done : MANY - 1 - done;
    while (!flag) {
        MPI_Test(&requests[at], &flag, MPI_STATUS_IGNORE);
    }
    return at;
}

/* Many puts and gets are under way; each get is checked the moment it is done. */
static void many(MPI_Win window, unsigned char *base, int round)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    MPI_Request requests[MANY];
    unsigned char *bytes = allocate(MANY * SLOT), *back = allocate(MANY * SLOT);

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        fill(base + (MANY + i) * SLOT, SLOT, (unsigned)(rank * 31 + i));
        fill(bytes + i * SLOT, SLOT, (unsigned)(rank * 17 + i));
    }
    memset(base, 0xee, MANY * SLOT);
    memset(back, 0, MANY * SLOT);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < MANY; i++) {
        MPI_Rput(bytes + i * SLOT, SLOT, MPI_BYTE, right, i * SLOT, SLOT, MPI_BYTE, window, &requests[i]);
    }
    MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        MPI_Rget(back + i * SLOT, SLOT, MPI_BYTE, right, (MANY + i) * SLOT, SLOT, MPI_BYTE, window, &requests[i]);
    }
    for (int done = 0; done < MANY; done++) {
        int i = wait_for(requests, round, done);

        CHECK(i >= 0 && i < MANY && requests[i] == MPI_REQUEST_NULL);
        CHECK(filled(back + i * SLOT, SLOT, (unsigned)(right * 31 + i)));
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MANY; i++) {
        CHECK(filled(base + i * SLOT, SLOT, (unsigned)(left * 17 + i)));
    }
    free(bytes);
    free(back);
}

static void accumulates(MPI_Win window, int *base)
{
    enum { COUNT = 500, ROUNDS = 10 };
    int ones[COUNT], seen[COUNT], right = (rank + 1) % ranks;
    MPI_Request request;

    memset(base, 0, WINDOW);
    for (int i = 0; i < COUNT; i++) {
        ones[i] = i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(MPI_Raccumulate(ones, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, window, &request) == MPI_SUCCESS);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        CHECK(MPI_Rget_accumulate(ones, COUNT, MPI_INT, seen, COUNT, MPI_INT, right, COUNT * sizeof(int), COUNT,
                                  MPI_INT, MPI_SUM, window, &request) == MPI_SUCCESS);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int k = 0; k < COUNT; k++) {
            CHECK(seen[k] == i * k);
        }
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < COUNT; i++) {
        CHECK(base[i] == ((rank == 0) ? ranks * ROUNDS * i : 0));
        CHECK(base[COUNT + i] == ROUNDS * i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    osc_begin(&argc, &argv);
    for (int kind = 0; kind < WINDOW_KINDS; kind++) {
        unsigned char *base;
        MPI_Win window = window_new(kind, WINDOW, 1, &base);

        one_by_one(window, base);
        for (int round = 0; round < 3; round++) {
            many(window, base, round);
        }
        accumulates(window, (int *)base);
        window_free(kind, &window, base);
    }
    return osc_end("osc_request", OSC_PUT | OSC_GET);
}
