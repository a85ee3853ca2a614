/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be seen when: after a fence what was put before it is there, after a quiet everything is; waiting for a word
 * that another puts or changes by an atomic, in every comparison and type. */
#include "shmem_check.h"

#define ROUNDS 100
#define LENGTH 5000

static unsigned char data[2][LENGTH];
static long flag, echo;

/* Data, fence, flag: who sees the flag sees the data. The answer lets the next round begin. */
static void fences(int blocking)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *bytes = allocate(LENGTH);

    flag = echo = 0;
    shmem_barrier_all();
    for (long round = 1; round <= ROUNDS; round++) {
        fill(bytes, LENGTH, (unsigned)(rank + 10 * round));
        if (blocking) {
            shmem_putmem(data[round % 2], bytes, LENGTH, right);
            shmem_fence();
            shmem_long_p(&flag, round, right);
        } else {
            shmem_putmem_nbi(data[round % 2], bytes, LENGTH, right);
            shmem_fence();
            shmem_long_put_nbi(&flag, &round, 1, right);
            shmem_quiet();
        }
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round);
        CHECK(filled(data[round % 2], LENGTH, (unsigned)(left + 10 * round)));
        shmem_long_p(&echo, round, left);
        shmem_long_wait_until(&echo, SHMEM_CMP_GE, round);
    }
    shmem_barrier_all();
    free(bytes);
}

/* After quiet a third one is asked to read the second. */
static void quiets(void)
{
    int next = (rank + 1) % ranks, after = (rank + 2) % ranks, before = (rank + ranks - 2) % ranks;
    unsigned char *bytes = allocate(LENGTH), *back = allocate(LENGTH);

    flag = echo = 0;
    shmem_barrier_all();
    for (long round = 1; round <= ROUNDS / 2; round++) {
        fill(bytes, LENGTH, (unsigned)(rank + 10 * round));
        for (int at = 0; at < LENGTH; at += 500) {
            shmem_putmem_nbi(data[0] + at, bytes + at, 500, next);
        }
        shmem_quiet();
        shmem_long_p(&flag, round, after);
        shmem_long_wait_until(&flag, SHMEM_CMP_EQ, round);
        shmem_getmem(back, data[0], LENGTH, (before + 1) % ranks);
        CHECK(filled(back, LENGTH, (unsigned)(before + 10 * round)));
        shmem_barrier_all();
    }
    free(bytes);
    free(back);
}

/* The right neighbour waits for a word that takes several values one after the other. */
#define WAITING(NAME, TYPE) \
    static void waiting_##NAME(void) \
    { \
        static TYPE word, answer; \
        static const int ops[] = {SHMEM_CMP_EQ, SHMEM_CMP_NE, SHMEM_CMP_GT, SHMEM_CMP_GE, SHMEM_CMP_LT, SHMEM_CMP_LE}; \
        static const int begin[] = {1, 7, 7, 6, 7, 8}, put[] = {7, 8, 8, 7, 6, 7}; \
        int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks; \
\
        for (int i = 0; i < 6; i++) { \
            word   = (TYPE)begin[i]; \
            answer = 0; \
            shmem_barrier_all(); \
            CHECK(!shmem_##NAME##_test(&answer, SHMEM_CMP_EQ, 1)); \
            shmem_##NAME##_p(&word, (TYPE)put[i], right); \
            shmem_##NAME##_wait_until(&word, ops[i], 7); \
            CHECK(word == (TYPE)put[i]); \
            shmem_##NAME##_p(&answer, 1, left); \
            while (!shmem_##NAME##_test(&answer, SHMEM_CMP_EQ, 1)) { \
                make_progress(); \
            } \
            shmem_barrier_all(); \
        } \
    }

WAITING(short, short)
WAITING(ushort, unsigned short)
WAITING(int, int)
WAITING(uint, unsigned)
WAITING(long, long)
WAITING(ulong, unsigned long)
WAITING(longlong, long long)
WAITING(ulonglong, unsigned long long)
WAITING(int32, int32_t)
WAITING(int64, int64_t)
WAITING(uint32, uint32_t)
WAITING(uint64, uint64_t)
WAITING(size, size_t)
WAITING(ptrdiff, ptrdiff_t)

/* Everybody adds to everybody's word; all wait until all have. */
static void by_atomics(void)
{
    static long counter;

    counter = 0;
    shmem_barrier_all();
    for (int round = 1; round <= ROUNDS / 4; round++) {
        for (int to = 0; to < ranks; to++) {
            shmem_long_atomic_add(&counter, 1, to);
        }
        shmem_long_wait_until(&counter, SHMEM_CMP_GE, (long)round * ranks);
    }
    shmem_barrier_all();
    CHECK(counter == (long)(ROUNDS / 4) * ranks);
}

int main(void)
{
    shmem_begin();
    fences(0);
    fences(1);
    quiets();
    waiting_short();
    waiting_ushort();
    waiting_int();
    waiting_uint();
    waiting_long();
    waiting_ulong();
    waiting_longlong();
    waiting_ulonglong();
    waiting_int32();
    waiting_int64();
    waiting_uint32();
    waiting_uint64();
    waiting_size();
    waiting_ptrdiff();
    by_atomics();
    return shmem_end("shmem_order", SHMEM_PUT | SHMEM_GET | SHMEM_ATOMIC);
}
