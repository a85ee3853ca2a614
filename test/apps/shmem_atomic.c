/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics of 4 and 8 bytes: every type and operation with its result, then all processes on the same words at once,
 * the owner of the words among them. */
#include "shmem_check.h"

#define ROUNDS 300

/* Arithmetic and swaps of a type, one after the other, against a model. */
#define ARITHMETIC(NAME, TYPE, SWAPS) \
    static void arithmetic_##NAME(void *memory) \
    { \
        TYPE *word = memory, model = (TYPE)(-3), old; \
        int right = (rank + 1) % ranks; \
\
        memset(memory, 0xee, 64); \
        word[1] = model; \
        shmem_barrier_all(); \
        CHECK(shmem_##NAME##_atomic_fetch(&word[1], right) == model); \
        shmem_##NAME##_atomic_add(&word[1], 10, right); \
        model += 10; \
        old = shmem_##NAME##_atomic_fetch_add(&word[1], (TYPE)(-100), right); \
        CHECK(old == model); \
        model += (TYPE)(-100); \
        shmem_##NAME##_atomic_inc(&word[1], right); \
        model++; \
        old = shmem_##NAME##_atomic_fetch_inc(&word[1], right); \
        CHECK(old == model); \
        model++; \
        old = shmem_##NAME##_atomic_swap(&word[1], (TYPE)77, right); \
        CHECK(old == model); \
        if (SWAPS) { \
            CHECK(shmem_##NAME##_atomic_compare_swap(&word[1], (TYPE)76, (TYPE)1, right) == 77); \
            CHECK(shmem_##NAME##_atomic_compare_swap(&word[1], (TYPE)77, (TYPE)(-2), right) == 77); \
            CHECK(shmem_##NAME##_atomic_fetch(&word[1], right) == (TYPE)(-2)); \
        } \
        shmem_##NAME##_atomic_set(&word[1], (TYPE)(rank + 500), right); \
        CHECK(shmem_##NAME##_atomic_fetch(&word[1], right) == (TYPE)(rank + 500)); \
        shmem_barrier_all(); \
        CHECK(word[1] == (TYPE)((rank + ranks - 1) % ranks + 500)); \
        CHECK(all_bytes(word, sizeof(TYPE), 0xee) && all_bytes(word + 2, 64 - 2 * sizeof(TYPE), 0xee)); \
        shmem_barrier_all(); \
    }

#define BITWISE(NAME, TYPE) \
    static void bitwise_##NAME(void *memory) \
    { \
        TYPE *word = memory, model = (TYPE)0x5a5a5a5a5a5a5a5aull; \
        int right = (rank + 1) % ranks; \
\
        memset(memory, 0xee, 64); \
        word[1] = model; \
        shmem_barrier_all(); \
        CHECK(shmem_##NAME##_atomic_fetch_or(&word[1], 0xf, right) == model); \
        model |= 0xf; \
        CHECK(shmem_##NAME##_atomic_fetch_and(&word[1], (TYPE)~(TYPE)0xf00, right) == model); \
        model &= (TYPE)~(TYPE)0xf00; \
        CHECK(shmem_##NAME##_atomic_fetch_xor(&word[1], (TYPE)(-1), right) == model); \
        model ^= (TYPE)(-1); \
        shmem_##NAME##_atomic_or(&word[1], 0x70, right); \
        shmem_##NAME##_atomic_and(&word[1], (TYPE)~(TYPE)0x7, right); \
        shmem_##NAME##_atomic_xor(&word[1], 0x123, right); \
        model = ((model | 0x70) & (TYPE)~(TYPE)0x7) ^ 0x123; \
        shmem_barrier_all(); \
        CHECK(word[1] == model); \
        CHECK(all_bytes(word, sizeof(TYPE), 0xee) && all_bytes(word + 2, 64 - 2 * sizeof(TYPE), 0xee)); \
        shmem_barrier_all(); \
    }

#define FLOATING(NAME, TYPE) \
    static void floating_##NAME(void *memory) \
    { \
        TYPE *word = memory; \
        int right = (rank + 1) % ranks; \
\
        word[0] = (TYPE)1.25; \
        shmem_barrier_all(); \
        CHECK(shmem_##NAME##_atomic_swap(word, (TYPE)-7.5, right) == (TYPE)1.25); \
        CHECK(shmem_##NAME##_atomic_fetch(word, right) == (TYPE)-7.5); \
        shmem_##NAME##_atomic_set(word, (TYPE)3, right); \
        shmem_barrier_all(); \
        CHECK(word[0] == (TYPE)3); \
        shmem_barrier_all(); \
    }

/* Open MPI 4.1 writes 8 bytes over the variable for the old value of a compare_swap of 4, which ends the program. */
ARITHMETIC(int, int, 0)
ARITHMETIC(uint, unsigned, 0)
ARITHMETIC(long, long, 1)
ARITHMETIC(ulong, unsigned long, 1)
ARITHMETIC(longlong, long long, 1)
ARITHMETIC(ulonglong, unsigned long long, 1)
BITWISE(int, int)
BITWISE(uint, unsigned)
BITWISE(long, long)
BITWISE(ulong, unsigned long)
BITWISE(longlong, long long)
BITWISE(ulonglong, unsigned long long)
BITWISE(int32, int32_t)
BITWISE(int64, int64_t)
BITWISE(uint32, uint32_t)
BITWISE(uint64, uint64_t)
FLOATING(float, float)
FLOATING(double, double)

/* All at once on the words of one process: nothing is lost, and each value that a fetch sees is seen once. */
#define TOGETHER(NAME, TYPE, SWAPS) \
    static void together_##NAME(void *memory, int owner) \
    { \
        TYPE *word = memory, *seen = allocate(ROUNDS * sizeof(TYPE)); \
        unsigned char *marks = (unsigned char *)memory + 256; \
\
        memset(memory, 0, 256 + (size_t)ranks * ROUNDS); \
        shmem_barrier_all(); \
        for (int i = 0; i < ROUNDS; i++) { \
            TYPE at; \
\
            seen[i] = shmem_##NAME##_atomic_fetch_inc(&word[0], owner); \
            CHECK(i == 0 || seen[i] > seen[i - 1]); \
            shmem_##NAME##_atomic_add(&word[1], (TYPE)(rank + 1), owner); \
            shmem_##NAME##_atomic_xor(&word[2], (TYPE)1 << (rank % 8), owner); \
            do { \
                at = shmem_##NAME##_atomic_fetch(&word[3], owner); \
            } while (SWAPS && shmem_##NAME##_atomic_compare_swap(&word[3], at, at + 3, owner) != at); \
        } \
        shmem_##NAME##_atomic_or(&word[4], (TYPE)1 << rank, owner); \
        for (int i = 0; i < ROUNDS; i++) { \
            CHECK(seen[i] < (TYPE)(ranks * ROUNDS)); \
            shmem_uchar_p(&marks[seen[i]], (unsigned char)(rank + 1), owner); \
        } \
        shmem_barrier_all(); \
        if (rank == owner) { \
            CHECK(word[0] == (TYPE)(ranks * ROUNDS)); \
            CHECK(word[1] == (TYPE)(ranks * (ranks + 1) / 2 * ROUNDS)); \
            CHECK(word[2] == (TYPE)((ROUNDS % 2 == 0) ? 0 : (1 << ranks) - 1)); \
            CHECK(word[3] == (TYPE)(SWAPS ? 3 * ranks * ROUNDS : 0)); \
            CHECK(word[4] == (TYPE)((1 << ranks) - 1)); \
            for (int i = 0; i < ranks * ROUNDS; i++) { \
                CHECK(marks[i] != 0); \
            } \
        } \
        shmem_barrier_all(); \
        free(seen); \
    }

TOGETHER(uint, unsigned, 0)
TOGETHER(ulong, unsigned long, 1)

static char in_bss[16384];

int main(void)
{
    void *memories[] = {NULL, in_bss};

    shmem_begin();
    memories[0] = symmetric(16384);
    for (int i = 0; i < 2; i++) {
        arithmetic_int(memories[i]);
        arithmetic_uint(memories[i]);
        arithmetic_long(memories[i]);
        arithmetic_ulong(memories[i]);
        arithmetic_longlong(memories[i]);
        arithmetic_ulonglong(memories[i]);
        bitwise_int(memories[i]);
        bitwise_uint(memories[i]);
        bitwise_long(memories[i]);
        bitwise_ulong(memories[i]);
        bitwise_longlong(memories[i]);
        bitwise_ulonglong(memories[i]);
        bitwise_int32(memories[i]);
        bitwise_int64(memories[i]);
        bitwise_uint32(memories[i]);
        bitwise_uint64(memories[i]);
        floating_float(memories[i]);
        floating_double(memories[i]);
        together_uint(memories[i], 0);
        together_ulong(memories[i], ranks - 1);
    }
    return shmem_end("shmem_atomic", SHMEM_ATOMIC);
}
