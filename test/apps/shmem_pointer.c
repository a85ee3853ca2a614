/* SPDX-License-Identifier: BSD-3-Clause */
/* shmem_ptr: where it gives a pointer, loads and stores through it are the neighbour's memory, together with puts, gets
 * and atomics. Argument "heap": there must be pointers into the heaps of all. */
#include "shmem_check.h"

#define SIZE (256 * 1024)

static unsigned char in_bss[4096];

/* Writes by stores what the owner and a get of a third one see, reads by loads what a put of the owner's wrote. */
static void stores_and_loads(unsigned char *there, size_t size)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    unsigned char *direct = shmem_ptr(there, right), *back = allocate(size);

    memset(there, 0xee, size);
    shmem_barrier_all();
    if (direct != NULL) {
        fill(direct, size / 2, (unsigned)rank);
    } else {
        fill(back, size / 2, (unsigned)rank);
        shmem_putmem(there, back, size / 2, right);
    }
    shmem_barrier_all();
    CHECK(filled(there, size / 2, (unsigned)left));
    shmem_getmem(back, there, size / 2, (rank + 2) % ranks);
    CHECK(filled(back, size / 2, (unsigned)right));
    fill(back, size / 2, (unsigned)(50 + rank));
    shmem_putmem(there + size / 2, back, size / 2, (rank + 2) % ranks);
    shmem_barrier_all();
    if (direct != NULL) {
        CHECK(filled(direct + size / 2, size / 2, (unsigned)(50 + left)));
        CHECK(filled(direct, size / 2, (unsigned)rank));
    }
    shmem_barrier_all();
    free(back);
}

/* The processor's own atomics through the pointer and those of the runtime, on the same words at once. */
static void atomics(long *words)
{
    enum { ROUNDS = 500 };
    long *direct = shmem_ptr(words, 0);

    words[0] = words[1] = 0;
    shmem_barrier_all();
    for (int i = 0; i < ROUNDS; i++) {
        if (direct != NULL && i % 2 == 0) {
            __atomic_fetch_add(&direct[0], 1, __ATOMIC_SEQ_CST);
        } else {
            shmem_long_atomic_inc(&words[0], 0);
        }
        shmem_long_atomic_fetch_add(&words[1], 2, 0);
    }
    shmem_barrier_all();
    CHECK(shmem_long_g(&words[0], 0) == (long)ROUNDS * ranks);
    CHECK(shmem_long_g(&words[1], 0) == 2L * ROUNDS * ranks);
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    unsigned char *heap;

    shmem_begin();
    heap = symmetric(SIZE);
    CHECK(shmem_ptr(heap, rank) == heap);
    for (int pe = 0; pe < ranks; pe++) {
        int there = shmem_ptr(heap, pe) != NULL;

        CHECK(there || argc < 2 || strcmp(argv[1], "heap") != 0);
        if (there) {
            /* The distance of two addresses is the same as here. */
            CHECK((unsigned char *)shmem_ptr(heap + 1000, pe) == (unsigned char *)shmem_ptr(heap, pe) + 1000);
        }
    }
    if (rank == 0) {
        printf("pointers into the heap: %s\n", (shmem_ptr(heap, ranks - 1) != NULL) ? "yes" : "no");
    }
    stores_and_loads(heap, SIZE);
    stores_and_loads(in_bss, sizeof(in_bss));
    atomics((long *)heap);
    atomics((long *)in_bss);
    return shmem_end("shmem_pointer", SHMEM_PUT | SHMEM_GET | SHMEM_ATOMIC);
}
