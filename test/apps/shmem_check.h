/* SPDX-License-Identifier: BSD-3-Clause */
/* What the OpenSHMEM programs share: the start, which proves that our library is in use, the end, which proves that
 * what was done went through it, and symmetric memory. Each program is one source file and includes this once.
 * Invariant: a failed check ends the whole run with status 1; the last line of a good one is "NAME: passed ...". */
#ifndef CW_APPS_SHMEM_CHECK_H
#define CW_APPS_SHMEM_CHECK_H

#include "app_check.h"
#include "ucp_calls.h"

#include <mpi.h>
#include <shmem.h>
#include <stdint.h>
#include <time.h>

/* What a program must have done by calls of UCP. */
#define SHMEM_PUT    (1 << CALLS_PUT)
#define SHMEM_GET    (1 << CALLS_GET)
#define SHMEM_ATOMIC (1 << CALLS_ATOMIC)

static void end_everything(void)
{
    shmem_global_exit(1);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Symmetric memory that is zero everywhere, at all processes. */
__attribute__((unused)) static void *symmetric(size_t size)
{
    void *memory = shmem_malloc(size);

    CHECK(memory != NULL);
    memset(memory, 0, size);
    shmem_barrier_all();
    return memory;
}

/* Every byte of a range is value. */
__attribute__((unused)) static int all_bytes(const void *memory, size_t length, int value)
{
    const unsigned char *bytes = memory;

    for (size_t at = 0; at < length; at++) {
        if (bytes[at] != value) {
            fprintf(stderr, "rank %d: byte %zu of %zu is 0x%02x instead of 0x%02x\n", rank, at, length, bytes[at],
                    (unsigned)value);
            return 0;
        }
    }
    return 1;
}

__attribute__((unused)) static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Who polls memory of its own makes no progress by that in Open MPI, not even for those whose operations on this
 * process its own processor must carry out; a look for messages of MPI makes some. */
__attribute__((unused)) static void make_progress(void)
{
    int flag;

    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
}

/* Begins with a put around the ring, so that nothing that is loaded late is missed. */
static void shmem_begin(void)
{
    static long token = -1;

    shmem_init();
    started = seconds_now();
    rank = shmem_my_pe();
    ranks = shmem_n_pes();
    shmem_barrier_all();
    shmem_long_p(&token, rank, (rank + 1) % ranks);
    shmem_barrier_all();
    CHECK(token == (rank + ranks - 1) % ranks);
    check_library();
    memset(ucp_calls, 0, sizeof(ucp_calls));
}

static int shmem_end(const char *name, int must)
{
    static const char *const names[] = {"puts", "gets", "atomics"};
    static long mine[CALLS_KINDS + 1], all[CALLS_KINDS + 1], work[CALLS_KINDS + 1 + SHMEM_REDUCE_MIN_WRKDATA_SIZE];
    static long sync[SHMEM_REDUCE_SYNC_SIZE];
    double seconds = seconds_now() - started;

    memcpy(mine, ucp_calls, sizeof(ucp_calls));
    mine[CALLS_KINDS] = checks;
    for (size_t i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) {
        sync[i] = SHMEM_SYNC_VALUE;
    }
    shmem_barrier_all();
    shmem_long_sum_to_all(all, mine, CALLS_KINDS + 1, 0, 0, ranks, work, sync);
    if (rank == 0) {
        printf("calls of UCP: %ld puts, %ld gets, %ld atomics\n", all[CALLS_PUT], all[CALLS_GET], all[CALLS_ATOMIC]);
        for (int kind = 0; kind < CALLS_KINDS; kind++) {
            if ((must & (1 << kind)) != 0 && all[kind] == 0) {
                fprintf(stderr, "no %s went through UCP: another component does them\n", names[kind]);
                CHECK(!"one-sided communication went through UCP");
            }
        }
    }
    shmem_finalize();
    if (rank == 0) {
        printf("%s: passed %ld checks in %d processes, %.2f s\n", name, all[CALLS_KINDS], ranks, seconds);
    }
    return 0;
}

#endif
