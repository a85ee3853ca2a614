/* SPDX-License-Identifier: BSD-3-Clause */
/* Random operations on the heap and static memory: every process knows from the same numbers what all of them do, keeps
 * a model of all the memories, and compares its own and what it gets byte by byte. Arguments: seed and rounds. */
#include "shmem_check.h"

#define MEMORIES 2
#define SIZE     6000
#define OPS      150
#define RANKS    8

enum {
    FREE,
    READ,
    WRITTEN,
    SUMMED
};

struct op {
    int memory, origin, target, kind, blocking;
    size_t at, length;
    unsigned seed;
};

static unsigned char in_bss[SIZE] __attribute__((aligned(16)));
static unsigned char *base[MEMORIES], *model[MEMORIES][RANKS], *claims[MEMORIES][RANKS];

/* Bytes may be read by many, summed by many, or written by one between barriers. */
static int claim(const struct op *op)
{
    unsigned char *bytes = claims[op->memory][op->target] + op->at;

    for (size_t i = 0; i < op->length; i++) {
        if (bytes[i] != FREE && (bytes[i] != op->kind || op->kind == WRITTEN)) {
            return 0;
        }
    }
    memset(bytes, op->kind, op->length);
    return 1;
}

static int draw(struct op *op, uint32_t *random)
{
    op->memory = (int)(next_random(random) % MEMORIES);
    op->origin = (int)(next_random(random) % (unsigned)ranks);
    op->target = (int)(next_random(random) % (unsigned)ranks);
    op->kind = READ + (int)(next_random(random) % 3);
    op->blocking = (int)(next_random(random) % 2);
    op->length = next_random(random) % ((next_random(random) % 10 == 0) ? 3000 : 100);
    op->at = next_random(random) % (SIZE - op->length);
    op->seed = next_random(random) % 1000;
    if (op->kind == SUMMED) {
        op->length = 8;
        op->at = next_random(random) % (SIZE / 8) * 8;
    }
    return op->length > 0 && claim(op);
}

static void issue(const struct op *op, unsigned char *bytes)
{
    unsigned char *to = base[op->memory] + op->at;

    if (op->kind == READ && op->blocking) {
        shmem_getmem(bytes, to, op->length, op->target);
    } else if (op->kind == READ) {
        shmem_getmem_nbi(bytes, to, op->length, op->target);
    } else if (op->kind == WRITTEN && op->blocking) {
        shmem_putmem(to, bytes, op->length, op->target);
    } else if (op->kind == WRITTEN) {
        shmem_putmem_nbi(to, bytes, op->length, op->target);
    } else if (op->blocking) {
        shmem_long_atomic_fetch_add((long *)(void *)to, op->seed, op->target);
    } else {
        shmem_long_atomic_add((long *)(void *)to, op->seed, op->target);
    }
}

static void apply(const struct op *op, const unsigned char *got)
{
    unsigned char *to = model[op->memory][op->target] + op->at;
    long number;

    if (op->kind == READ) {
        CHECK(op->origin != rank || memcmp(got, to, op->length) == 0);
    } else if (op->kind == WRITTEN) {
        fill(to, op->length, op->seed);
    } else {
        memcpy(&number, to, sizeof(number));
        number += op->seed;
        memcpy(to, &number, sizeof(number));
    }
}

static void compare(int round)
{
    for (int i = 0; i < MEMORIES; i++) {
        for (size_t at = 0; at < SIZE; at++) {
            if (base[i][at] != model[i][rank][at]) {
                fprintf(stderr, "rank %d: round %d, memory %d, byte %zu is 0x%02x instead of 0x%02x (claimed as %d)\n",
                        rank, round, i, at, base[i][at], model[i][rank][at], claims[i][rank][at]);
                CHECK(!"the memory is as its model");
            }
        }
        checks += SIZE;
    }
}

static void run_round(int round, uint32_t *random)
{
    struct op ops[OPS];
    unsigned char *buffers[OPS];
    int count = 0;

    for (int i = 0; i < MEMORIES; i++) {
        for (int k = 0; k < ranks; k++) {
            memset(claims[i][k], FREE, SIZE);
        }
    }
    while (count < OPS) {
        count += draw(&ops[count], random);
    }
    for (int i = 0; i < OPS; i++) {
        buffers[i] = NULL;
        if (ops[i].origin == rank) {
            buffers[i] = allocate(ops[i].length);
            fill(buffers[i], ops[i].length, (ops[i].kind == READ) ? ops[i].seed + 1 : ops[i].seed);
            issue(&ops[i], buffers[i]);
        }
    }
    shmem_barrier_all();
    for (int i = 0; i < OPS; i++) {
        apply(&ops[i], buffers[i]);
        free(buffers[i]);
    }
    compare(round);
    shmem_barrier_all();
}

int main(int argc, char **argv)
{
    uint32_t random = (argc > 1) ? (uint32_t)atoi(argv[1]) : 21;
    int rounds = (argc > 2) ? atoi(argv[2]) : 30;

    shmem_begin();
    CHECK(ranks <= RANKS);
    base[0] = symmetric(SIZE);
    base[1] = in_bss;
    for (int i = 0; i < MEMORIES; i++) {
        for (int k = 0; k < ranks; k++) {
            model[i][k] = calloc(SIZE, 1);
            claims[i][k] = calloc(SIZE, 1);
            CHECK(model[i][k] != NULL && claims[i][k] != NULL);
        }
    }
    for (int round = 0; round < rounds; round++) {
        run_round(round, &random);
    }
    return shmem_end("shmem_random", SHMEM_PUT | SHMEM_GET | SHMEM_ATOMIC);
}
