/* SPDX-License-Identifier: BSD-3-Clause */
/* The symmetric heap: blocks of all sizes come and go in random order, aligned, cleared, grown and shrunk; none
 * overlaps another, all can be reached by the neighbour, and they keep what is in them. */
#include "shmem_check.h"

#define BLOCKS 40
#define ROUNDS 300

static struct {
    unsigned char *memory;
    size_t size;
    unsigned seed;
} blocks[BLOCKS];

/* All processes draw the same numbers, so all allocate the same. */
static uint32_t numbers = 7;

static void check_block(int i)
{
    CHECK(filled(blocks[i].memory, blocks[i].size, blocks[i].seed + (unsigned)((rank + ranks - 1) % ranks)));
}

/* The left neighbour fills it. */
static void write_block(int i)
{
    unsigned char *bytes = allocate(blocks[i].size);

    blocks[i].seed = next_random(&numbers) % 1000;
    fill(bytes, blocks[i].size, blocks[i].seed + (unsigned)rank);
    shmem_barrier_all();
    shmem_putmem(blocks[i].memory, bytes, blocks[i].size, (rank + 1) % ranks);
    shmem_barrier_all();
    free(bytes);
}

static void new_block(int i)
{
    size_t alignment = (size_t)1 << (3 + next_random(&numbers) % 13);
    int how = (int)(next_random(&numbers) % 3);
    size_t size = 1 + next_random(&numbers) % ((next_random(&numbers) % 8 == 0) ? 1000000 : 3000);

    blocks[i].size = size;
    if (how == 0) {
        blocks[i].memory = shmem_malloc(size);
    } else if (how == 1) {
        blocks[i].memory = shmem_align(alignment, size);
        CHECK((uintptr_t)blocks[i].memory % alignment == 0);
    } else {
        blocks[i].memory = shmem_calloc(size, 1);
        CHECK(blocks[i].memory != NULL && all_bytes(blocks[i].memory, size, 0));
    }
    CHECK(blocks[i].memory != NULL);
    write_block(i);
}

static void resize_block(int i)
{
    size_t size = 1 + next_random(&numbers) % 20000;
    size_t kept = (size < blocks[i].size) ? size : blocks[i].size;

    blocks[i].memory = shmem_realloc(blocks[i].memory, size);
    CHECK(blocks[i].memory != NULL);
    CHECK(filled(blocks[i].memory, kept, blocks[i].seed + (unsigned)((rank + ranks - 1) % ranks)));
    blocks[i].size = size;
    write_block(i);
}

int main(void)
{
    shmem_begin();
    for (int round = 0; round < ROUNDS; round++) {
        int i = (int)(next_random(&numbers) % BLOCKS);

        if (blocks[i].memory == NULL) {
            new_block(i);
        } else if (next_random(&numbers) % 3 == 0) {
            check_block(i);
            resize_block(i);
        } else {
            check_block(i);
            shmem_free(blocks[i].memory);
            blocks[i].memory = NULL;
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].memory != NULL) {
            check_block(i);
            shmem_free(blocks[i].memory);
        }
    }
    return shmem_end("shmem_heap", SHMEM_PUT);
}
