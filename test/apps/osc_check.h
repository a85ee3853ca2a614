/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs about one-sided MPI share, on top of what all MPI programs do: the proof that windows go through
 * UCP, windows of every kind, and signals between ranks. */
#ifndef CW_APPS_OSC_CHECK_H
#define CW_APPS_OSC_CHECK_H

#include "mpi_check.h"
#include "ucp_calls.h"

#include <stdint.h>

/* What a program must have done by calls of UCP. MPICH does accumulate and everything with derived types by messages,
 * so of these programs only those that put and get plainly can be held to it. */
#define OSC_PUT    (1 << CALLS_PUT)
#define OSC_GET    (1 << CALLS_GET)
#ifdef OPEN_MPI
#define OSC_ATOMIC (1 << CALLS_ATOMIC)
#else
#define OSC_ATOMIC 0
#endif

enum {
    WINDOW_CREATE,
    WINDOW_ALLOCATE,
    WINDOW_KINDS
};

/* A window of a kind on memory that is zero everywhere. */
__attribute__((unused)) static MPI_Win window_new(int kind, size_t size, int unit, void *memory_p)
{
    void *memory = NULL;
    MPI_Win window;

    if (kind == WINDOW_CREATE) {
        memory = calloc(size + 1, 1);
        CHECK(memory != NULL);
        CHECK(MPI_Win_create(memory, (MPI_Aint)size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &window) == MPI_SUCCESS);
    } else {
        CHECK(MPI_Win_allocate((MPI_Aint)size, unit, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window) == MPI_SUCCESS);
        memset(memory, 0, size);
    }
    memcpy(memory_p, &memory, sizeof(memory));
    MPI_Barrier(MPI_COMM_WORLD);
    return window;
}

__attribute__((unused)) static void window_free(int kind, MPI_Win *window, void *memory)
{
    CHECK(MPI_Win_free(window) == MPI_SUCCESS);
    CHECK(*window == MPI_WIN_NULL);
    if (kind == WINDOW_CREATE) {
        free(memory);
    }
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

/* Windows are there and work before the program begins; what is used before is not counted. */
static void osc_begin(int *argc, char ***argv)
{
    check_begin(argc, argv, MPI_THREAD_SINGLE);
    memset(ucp_calls, 0, sizeof(ucp_calls));
}

static int osc_end(const char *name, int must)
{
    static const char *const names[] = {"puts", "gets", "atomics"};
    long all[CALLS_KINDS];

    MPI_Allreduce(ucp_calls, all, CALLS_KINDS, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("calls of UCP: %ld puts, %ld gets, %ld atomics\n", all[CALLS_PUT], all[CALLS_GET], all[CALLS_ATOMIC]);
        for (int kind = 0; kind < CALLS_KINDS; kind++) {
            if ((must & (1 << kind)) != 0 && all[kind] == 0) {
                fprintf(stderr, "no %s went through UCP: another component does them\n", names[kind]);
                CHECK(!"one-sided communication went through UCP");
            }
        }
    }
    return check_end(name);
}

#endif
