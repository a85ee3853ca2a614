/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs mpi_*.c share: a check that says where it failed, patterns, the start (which proves that our
 * library is in use) and the end. Each program is one source file and includes this once.
 * Invariant: a failed check ends the whole run with status 1; the last line of a good one is "NAME: passed ...". */
#ifndef CW_APPS_MPI_CHECK_H
#define CW_APPS_MPI_CHECK_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long checks;
static double started;

static void check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: rank %d: failed: %s\n", file, line, rank, what);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

#define CHECK(condition) \
    do { \
        checks++; \
        if (!(condition)) { \
            check_failed(__FILE__, __LINE__, #condition); \
        } \
    } while (0)

/* Byte number at of message seed. */
__attribute__((unused)) static inline unsigned char pattern(unsigned seed, size_t at)
{
    return (unsigned char)(seed * 131 + at * 7 + (at >> 8) * 13 + (at >> 16));
}

__attribute__((unused)) static void fill(void *buffer, size_t length, unsigned seed)
{
    unsigned char *bytes = buffer;

    for (size_t at = 0; at < length; at++) {
        bytes[at] = pattern(seed, at);
    }
}

__attribute__((unused)) static int filled(const void *buffer, size_t length, unsigned seed)
{
    const unsigned char *bytes = buffer;

    for (size_t at = 0; at < length; at++) {
        if (bytes[at] != pattern(seed, at)) {
            fprintf(stderr, "rank %d: byte %zu of %zu of message %u is 0x%02x instead of 0x%02x\n", rank, at, length,
                    seed, bytes[at], pattern(seed, at));
            return 0;
        }
    }
    return 1;
}

__attribute__((unused)) static void check_status(const MPI_Status *status, int source, int tag, int count)
{
    int got = -1;

    MPI_Get_count(status, MPI_BYTE, &got);
    CHECK(status->MPI_SOURCE == source);
    CHECK(status->MPI_TAG == tag);
    CHECK(got == count);
}

__attribute__((unused)) static void *allocate(size_t size)
{
    void *memory = malloc(size + 1);

    CHECK(memory != NULL);
    return memory;
}

/* Every mapped library of the family must lie in the directory CW_APPS_LIB. */
static void check_library(void)
{
    const char *directory = getenv("CW_APPS_LIB");
    FILE *maps            = fopen("/proc/self/maps", "r");
    int found             = 0;
    char line[4096];

    CHECK(directory != NULL);
    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *path = strchr(line, '/');
        const char *name = strrchr(line, '/');

        if (path == NULL || (strncmp(name, "/libucp.so", 10) != 0 && strncmp(name, "/libucs.so", 10) != 0)) {
            continue;
        }
        if ((size_t)(name - path) != strlen(directory) || strncmp(path, directory, strlen(directory)) != 0) {
            fprintf(stderr, "rank %d runs with %s", rank, path);
        }
        CHECK((size_t)(name - path) == strlen(directory) && strncmp(path, directory, strlen(directory)) == 0);
        found += strncmp(name, "/libucp.so", 10) == 0;
    }
    fclose(maps);
    CHECK(found > 0);
}

/* Begins with a message around the ring, so that nothing that is loaded late is missed. */
static void check_begin(int *argc, char ***argv, int threads)
{
    int token = -1, provided;

    MPI_Init_thread(argc, argv, threads, &provided);
    started = MPI_Wtime();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(provided >= threads);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % ranks, 1, &token, 1, MPI_INT, (rank + ranks - 1) % ranks, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(token == (rank + ranks - 1) % ranks);
    check_library();
}

__attribute__((unused)) static int check_end(const char *name)
{
    long all       = 0;
    double seconds = MPI_Wtime() - started;

    MPI_Reduce(&checks, &all, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) {
        printf("%s: passed %ld checks in %d processes, %.2f s\n", name, all, ranks, seconds);
    }
    return 0;
}

#endif
