/* SPDX-License-Identifier: BSD-3-Clause */
/* What all programs here share, whatever runtime they belong to: a check that says where it failed, patterns, and the
 * proof that our library is in use. Included once, by mpi_check.h or shmem_check.h.
 * Invariant: a failed check ends the whole run with status 1. */
#ifndef CW_APPS_APP_CHECK_H
#define CW_APPS_APP_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, ranks;
static long checks;
static double started;

/* Ends all processes with status 1; by the runtime whose program this is. */
static void end_everything(void);

static void check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: rank %d: failed: %s\n", file, line, rank, what);
    fflush(stderr);
    end_everything();
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

__attribute__((unused)) static void *allocate(size_t size)
{
    void *memory = malloc(size + 1);

    CHECK(memory != NULL);
    return memory;
}

/* Every mapped library of the family must lie in the directory CW_APPS_LIB, or libucp alone if that has no libucs. */
static void check_library(void)
{
    const char *directory = getenv("CW_APPS_LIB");
    FILE *maps = fopen("/proc/self/maps", "r");
    int found = 0, whole;
    char line[4096];

    CHECK(directory != NULL);
    CHECK(maps != NULL);
    snprintf(line, sizeof(line), "%s/libucs.so.0", directory);
    whole = access(line, F_OK) == 0;
    while (fgets(line, sizeof(line), maps) != NULL) {
        const char *path = strchr(line, '/');
        const char *name = strrchr(line, '/');

        if (path == NULL ||
            (strncmp(name, "/libucp.so", 10) != 0 && !(whole && strncmp(name, "/libucs.so", 10) == 0))) {
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

#endif
