/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts of every kind: put, get and atomics on each, quiet and fence of one beside the others. */
#include "shmem_check.h"

#define CONTEXTS 4
#define LENGTH   3000

static const long kinds[CONTEXTS] = {0, SHMEM_CTX_SERIALIZED, SHMEM_CTX_PRIVATE, SHMEM_CTX_NOSTORE};

int main(void)
{
    int right, left;
    unsigned char *there, *mine, *back;
    long *words, old;

    shmem_begin();
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    there = symmetric(CONTEXTS * LENGTH);
    words = symmetric(CONTEXTS * sizeof(long));
    mine = allocate(CONTEXTS * LENGTH);
    back = allocate(LENGTH);
    for (int round = 0; round < 20; round++) {
        shmem_ctx_t contexts[CONTEXTS];
        int created = 0;

        memset(words, 0, CONTEXTS * sizeof(long));
        for (int i = 0; i < CONTEXTS; i++) {
            /* What cannot be created is to be done without. */
            if (shmem_ctx_create(kinds[i], &contexts[i]) != 0) {
                contexts[i] = SHMEM_CTX_DEFAULT;
            } else {
                created++;
            }
        }
        CHECK(created > 0);
        shmem_barrier_all();
        for (int i = 0; i < CONTEXTS; i++) {
            fill(mine + i * LENGTH, LENGTH, (unsigned)(rank + 10 * round + i));
            shmem_ctx_putmem_nbi(contexts[i], there + i * LENGTH, mine + i * LENGTH, LENGTH, right);
            shmem_ctx_fence(contexts[i]);
            shmem_ctx_long_atomic_add(contexts[i], &words[i], round + i, right);
            old = shmem_ctx_long_atomic_fetch_inc(contexts[i], &words[i], right);
            CHECK(old == round + i);
        }
        for (int i = CONTEXTS - 1; i >= 0; i--) {
            shmem_ctx_quiet(contexts[i]);
            shmem_ctx_getmem(contexts[i], back, there + i * LENGTH, LENGTH, right);
            CHECK(filled(back, LENGTH, (unsigned)(rank + 10 * round + i)));
            shmem_ctx_long_p(contexts[i], &words[i], 100 + i, right);
            if (contexts[i] != SHMEM_CTX_DEFAULT) {
                shmem_ctx_destroy(contexts[i]);
            }
        }
        shmem_barrier_all();
        for (int i = 0; i < CONTEXTS; i++) {
            CHECK(filled(there + i * LENGTH, LENGTH, (unsigned)(left + 10 * round + i)));
            CHECK(words[i] == 100 + i);
        }
        shmem_barrier_all();
    }
    free(mine);
    free(back);
    return shmem_end("shmem_context", SHMEM_PUT | SHMEM_GET | SHMEM_ATOMIC);
}
