/* SPDX-License-Identifier: BSD-3-Clause */
/* Large messages in both directions at once: 64 MiB of bytes, 32 MiB of strided data; or, with the argument beyond-int,
 * more than 2^31 bytes in one message. */
#include "mpi_check.h"

#include <stdint.h>

static uint64_t word(unsigned seed, size_t at)
{
    return (at + seed) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill_words(uint64_t *words, size_t count, unsigned seed)
{
    for (size_t at = 0; at < count; at++) {
        words[at] = word(seed, at);
    }
}

static int filled_words(const uint64_t *words, size_t count, unsigned seed)
{
    for (size_t at = 0; at < count; at++) {
        if (words[at] != word(seed, at)) {
            fprintf(stderr, "rank %d: word %zu of %zu of message %u is wrong\n", rank, at, count, seed);
            return 0;
        }
    }
    return 1;
}

static void exchange_bytes(size_t bytes)
{
    size_t count = bytes / sizeof(uint64_t);
    uint64_t *out = allocate(bytes), *in = allocate(bytes);
    MPI_Status status;

    fill_words(out, count, rank);
    memset(in, 0, bytes);
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, 1 - rank, 1, in, (int)bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD,
                 &status);
    check_status(&status, 1 - rank, 1, (int)bytes);
    CHECK(filled_words(in, count, 1 - rank));
    free(out);
    free(in);
}

/* Every other word, sent strided and received without holes; the message is there before it is received. */
static void exchange_strided(size_t bytes)
{
    size_t count = bytes / sizeof(uint64_t);
    uint64_t *out = allocate(2 * bytes), *in = allocate(bytes);
    MPI_Datatype type;
    MPI_Request request;

    for (size_t at = 0; at < count; at++) {
        out[2 * at] = word(rank, at);
    }
    MPI_Type_vector((int)count, 1, 2, MPI_UINT64_T, &type);
    MPI_Type_commit(&type);
    MPI_Isend(out, 1, type, 1 - rank, 2, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Recv(in, (int)bytes, MPI_BYTE, 1 - rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(filled_words(in, count, 1 - rank));
    MPI_Type_free(&type);
    free(out);
    free(in);
}

/* The sender repeats one mebibyte, so that only the receiver needs the memory. */
static void send_beyond_int(void)
{
    enum { MEBI = 1 << 20, COUNT = 2049 };
    MPI_Datatype mega, same;
    MPI_Status status;
    MPI_Count elements;
    uint64_t *words;

    MPI_Type_contiguous(MEBI, MPI_BYTE, &mega);
    MPI_Type_create_resized(mega, 0, 0, &same);
    MPI_Type_commit(&mega);
    MPI_Type_commit(&same);
    if (rank == 0) {
        words = allocate(MEBI);
        fill_words(words, MEBI / sizeof(uint64_t), 9);
        MPI_Send(words, COUNT, same, 1, 3, MPI_COMM_WORLD);
    } else {
        words = allocate((size_t)COUNT * MEBI);
        MPI_Recv(words, COUNT, mega, 0, 3, MPI_COMM_WORLD, &status);
        MPI_Get_elements_x(&status, MPI_BYTE, &elements);
        CHECK(elements == (MPI_Count)COUNT * MEBI);
        for (int i = 0; i < COUNT; i++) {
            CHECK(filled_words(words + i * (MEBI / sizeof(uint64_t)), MEBI / sizeof(uint64_t), 9));
        }
    }
    free(words);
    MPI_Type_free(&mega);
    MPI_Type_free(&same);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv, MPI_THREAD_SINGLE);
    CHECK(ranks == 2);
    if (argc > 1 && strcmp(argv[1], "beyond-int") == 0) {
        send_beyond_int();
    } else {
        exchange_bytes((size_t)64 << 20);
        exchange_bytes(((size_t)5 << 20) + 8);
        exchange_strided((size_t)32 << 20);
    }
    return check_end("mpi_large");
}
