/* SPDX-License-Identifier: BSD-3-Clause */
/* Accumulate and its relatives: every predefined operation on every type that it is for, one element and many, all
 * ranks at once, derived types, order from one origin. What must come out is computed by MPI_Reduce_local. */
#include "osc_check.h"

#define WINDOW (512 * 1024)

/* A predefined type: what an element weighs, how many of its bytes are its value (the rest is padding). */
struct type {
    MPI_Datatype type;
    size_t extent, value;
    int integer, pair, floating;
};

static struct type types[16];
static int types_count;

static void add_type(MPI_Datatype type, size_t extent, size_t value, int integer, int floating)
{
    types[types_count++] = (struct type){type, extent, value, integer, !integer && !floating, floating};
}

static void add_types(void)
{
    add_type(MPI_INT8_T, 1, 1, 1, 0);
    add_type(MPI_UINT8_T, 1, 1, 1, 0);
    add_type(MPI_INT16_T, 2, 2, 1, 0);
    add_type(MPI_UINT16_T, 2, 2, 1, 0);
    add_type(MPI_INT, sizeof(int), sizeof(int), 1, 0);
    add_type(MPI_UNSIGNED, sizeof(unsigned), sizeof(unsigned), 1, 0);
    add_type(MPI_LONG, sizeof(long), sizeof(long), 1, 0);
    add_type(MPI_UINT64_T, 8, 8, 1, 0);
    add_type(MPI_FLOAT, sizeof(float), sizeof(float), 0, 1);
    add_type(MPI_DOUBLE, sizeof(double), sizeof(double), 0, 1);
    add_type(MPI_2INT, 2 * sizeof(int), 2 * sizeof(int), 0, 0);
    add_type(MPI_FLOAT_INT, 8, 8, 0, 0);
#ifndef OPEN_MPI
    /* Open MPI 4.1's osc ucx corrupts its heap when it accumulates elements with gaps. */
    add_type(MPI_DOUBLE_INT, 16, 12, 0, 0);
    add_type(MPI_LONG_INT, 16, 12, 0, 0);
    add_type(MPI_SHORT_INT, 8, 8, 0, 0);
#endif
}

static const struct {
    const char *name;
    int arithmetic, bitwise, logical, pair;
} ops[] = {
    {"sum", 1, 0, 0, 0},  {"prod", 1, 0, 0, 0}, {"max", 1, 0, 0, 0},  {"min", 1, 0, 0, 0},    {"band", 0, 1, 0, 0},
    {"bor", 0, 1, 0, 0},  {"bxor", 0, 1, 0, 0}, {"land", 0, 0, 1, 0}, {"lor", 0, 0, 1, 0},    {"lxor", 0, 0, 1, 0},
    {"maxloc", 0, 0, 0, 1}, {"minloc", 0, 0, 0, 1}, {"replace", 1, 1, 1, 1},
};
#define OPS (int)(sizeof(ops) / sizeof(ops[0]))

static MPI_Op operation(int at)
{
    MPI_Op all[] = {MPI_SUM, MPI_PROD, MPI_MAX, MPI_MIN,  MPI_BAND,   MPI_BOR,    MPI_BXOR,
                    MPI_LAND, MPI_LOR, MPI_LXOR, MPI_MAXLOC, MPI_MINLOC, MPI_REPLACE};

    return all[at];
}

static int fits(int op, const struct type *type)
{
    return (type->integer && (ops[op].arithmetic || ops[op].bitwise || ops[op].logical)) ||
           (type->floating && ops[op].arithmetic) || (type->pair && ops[op].pair);
}

/* Small numbers, so that floating ones are exact. */
static void numbers(void *memory, const struct type *type, int count, uint32_t seed)
{
    unsigned char *bytes = memory;

    memset(memory, 0, type->extent * (size_t)count);
    for (int i = 0; i < count; i++) {
        unsigned char *at = bytes + type->extent * (size_t)i;
        uint32_t number = next_random(&seed) % 100;
        int index = (int)(next_random(&seed) % 1000);

        if (type->type == MPI_FLOAT || type->type == MPI_FLOAT_INT) {
            memcpy(at, &(float){(float)number}, sizeof(float));
        } else if (type->type == MPI_DOUBLE || type->type == MPI_DOUBLE_INT) {
            memcpy(at, &(double){(double)number}, sizeof(double));
        } else {
            *at = (unsigned char)number;
        }
        if (type->pair) {
            memcpy(at + type->value - sizeof(int), &index, sizeof(int));
        }
    }
}

/* A short and an int have a gap between them that may come out as anything. */
static void check_numbers(const void *got, const void *expected, const struct type *type, int count, int op)
{
    for (int i = 0; i < count; i++) {
        const unsigned char *a = (const unsigned char *)got + type->extent * (size_t)i;
        const unsigned char *b = (const unsigned char *)expected + type->extent * (size_t)i;

        for (size_t at = 0; at < type->value; at++) {
            if (a[at] != b[at] && !(type->type == MPI_SHORT_INT && (at == 2 || at == 3))) {
                char name[MPI_MAX_OBJECT_NAME];
                int length;

                MPI_Type_get_name(type->type, name, &length);
                fprintf(stderr, "rank %d: %s of %s: byte %zu of element %d of %d is 0x%02x instead of 0x%02x\n", rank,
                        ops[op].name, name, at, i, count, a[at], b[at]);
                CHECK(!"accumulated right");
            }
        }
    }
    checks++;
}

static void apply(int op, const void *in, void *inout, int count, const struct type *type)
{
    if (operation(op) == MPI_REPLACE) {
        memcpy(inout, in, type->extent * (size_t)count);
    } else {
        MPI_Reduce_local((void *)(uintptr_t)in, inout, count, type->type, operation(op));
    }
}

/* One accumulate of an operation: of so many elements of a type, at a place of its own. */
struct piece {
    const struct type *type;
    int count;
    size_t at, size;
    void *mine, *theirs, *expected, *old;
};

#define GAP 48

static int pieces_of(int op, struct piece *pieces)
{
    static const int counts[] = {1, 3, 1500};
    int found = 0;
    size_t at = 0;

    for (int i = 0; i < types_count; i++) {
        for (int c = 0; fits(op, &types[i]) && c < 3; c++) {
            struct piece *piece = &pieces[found++];

            *piece = (struct piece){.type = &types[i], .count = counts[c], .at = at,
                                    .size = types[i].extent * (size_t)counts[c]};
            at += (piece->size + GAP + 15) / 16 * 16;
            CHECK(at <= WINDOW);
            piece->mine = allocate(piece->size);
            piece->theirs = allocate(piece->size);
            piece->expected = allocate(piece->size);
            piece->old = allocate(piece->size);
        }
    }
    return found;
}

/* Each combines into the window of its right neighbour, first plainly, then fetching what was there; every type and
 * count of elements in one epoch. */
static void combine(MPI_Win window, unsigned char *base, int op)
{
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    struct piece pieces[48];
    int count = pieces_of(op, pieces);

    memset(base, 0xee, WINDOW);
    for (struct piece *p = pieces; p < pieces + count; p++) {
        numbers(base + p->at, p->type, p->count, (uint32_t)(1000 + rank));
        numbers(p->expected, p->type, p->count, (uint32_t)(1000 + rank));
        numbers(p->mine, p->type, p->count, (uint32_t)rank);
        numbers(p->theirs, p->type, p->count, (uint32_t)left);
        apply(op, p->theirs, p->expected, p->count, p->type);
    }
    MPI_Win_fence(0, window);
    for (struct piece *p = pieces; p < pieces + count; p++) {
        CHECK(MPI_Accumulate(p->mine, p->count, p->type->type, right, (MPI_Aint)p->at, p->count, p->type->type,
                             operation(op), window) == MPI_SUCCESS);
    }
    MPI_Win_fence(0, window);
    for (struct piece *p = pieces; p < pieces + count; p++) {
        check_numbers(base + p->at, p->expected, p->type, p->count, op);
        CHECK(all_bytes(base + p->at + p->size, GAP, 0xee));
    }
    MPI_Win_fence(0, window);
    for (struct piece *p = pieces; p < pieces + count; p++) {
        memset(p->old, 0, p->size);
        CHECK(MPI_Get_accumulate(p->mine, p->count, p->type->type, p->old, p->count, p->type->type, right,
                                 (MPI_Aint)p->at, p->count, p->type->type, operation(op), window) == MPI_SUCCESS);
    }
    MPI_Win_fence(0, window);
    for (struct piece *p = pieces; p < pieces + count; p++) {
        apply(op, p->theirs, p->expected, p->count, p->type);
        check_numbers(base + p->at, p->expected, p->type, p->count, op);
        CHECK(all_bytes(base + p->at + p->size, GAP, 0xee));
        /* What was there at the neighbour is computed here from its seed. */
        numbers(p->expected, p->type, p->count, (uint32_t)(1000 + right));
        apply(op, p->mine, p->expected, p->count, p->type);
        check_numbers(p->old, p->expected, p->type, p->count, op);
        free(p->mine);
        free(p->theirs);
        free(p->expected);
        free(p->old);
    }
}

/* Reads with NO_OP, whatever the origin buffer is. */
static void no_op(MPI_Win window, unsigned char *base)
{
    int right = (rank + 1) % ranks;
    unsigned char back[3000];

    fill(base, sizeof(back), (unsigned)rank);
    MPI_Win_fence(0, window);
    CHECK(MPI_Get_accumulate(NULL, 0, MPI_BYTE, back, sizeof(back), MPI_BYTE, right, 0, sizeof(back), MPI_BYTE,
                             MPI_NO_OP, window) == MPI_SUCCESS);
    MPI_Win_fence(0, window);
    CHECK(filled(back, sizeof(back), (unsigned)right));
    CHECK(filled(base, sizeof(back), (unsigned)rank));
}

/* All combine into rank 0 at once; nothing gets lost, and each value that a fetch sees is seen once. */
static void at_once(MPI_Win window, int *base)
{
    enum { ROUNDS = 30, COUNT = 50 };
    int ones[COUNT], seen[ROUNDS], *all = allocate(sizeof(int) * ROUNDS * (size_t)ranks);
    unsigned char *marks = calloc((size_t)ranks * ROUNDS, 1);

    memset(base, 0, WINDOW);
    for (int i = 0; i < COUNT; i++) {
        ones[i] = 1 + i;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < ROUNDS; i++) {
        MPI_Accumulate(ones, COUNT, MPI_INT, 0, 0, COUNT, MPI_INT, MPI_SUM, window);
        MPI_Get_accumulate(ones, 1, MPI_INT, &seen[i], 1, MPI_INT, 0, 4096, 1, MPI_INT, MPI_SUM, window);
        MPI_Accumulate(&rank, 1, MPI_INT, 0, 4100, 1, MPI_INT, MPI_MAX, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Gather(seen, ROUNDS, MPI_INT, all, ROUNDS, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
        for (int i = 0; i < COUNT; i++) {
            CHECK(base[i] == ranks * ROUNDS * (1 + i));
        }
        CHECK(base[1024] == ranks * ROUNDS && base[1025] == ranks - 1 && base[1026] == 0);
        MPI_Win_unlock(0, window);
        for (int i = 0; i < ranks * ROUNDS; i++) {
            CHECK(all[i] >= 0 && all[i] < ranks * ROUNDS && !marks[all[i]]);
            marks[all[i]] = 1;
        }
    }
    free(all);
    free(marks);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Accumulates of one origin to one place keep their order, without any flush between them. */
static void ordered(MPI_Win window, int *base)
{
    int right = (rank + 1) % ranks, number, seen[2] = {-1, -1};

    base[0] = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, window);
    for (number = 0; number < 20; number++) {
        MPI_Accumulate(&number, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_REPLACE, window);
        MPI_Get_accumulate(NULL, 0, MPI_INT, &seen[0], 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP, window);
        MPI_Accumulate(&(int){5}, 1, MPI_INT, right, 0, 1, MPI_INT, MPI_SUM, window);
        MPI_Get_accumulate(NULL, 0, MPI_INT, &seen[1], 1, MPI_INT, right, 0, 1, MPI_INT, MPI_NO_OP, window);
        MPI_Win_flush(right, window);
        CHECK(seen[0] == number && seen[1] == number + 5);
    }
    MPI_Win_unlock(right, window);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Every second int of the target, from every third of the origin. */
static void derived(MPI_Win window, int *base)
{
    enum { COUNT = 200 };
    int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
    int third[COUNT * 3];
    MPI_Datatype every_second, every_third;

    MPI_Type_vector(COUNT, 1, 2, MPI_INT, &every_second);
    MPI_Type_vector(COUNT, 1, 3, MPI_INT, &every_third);
    MPI_Type_commit(&every_second);
    MPI_Type_commit(&every_third);
    for (int i = 0; i < COUNT * 3; i++) {
        third[i] = 1000 * rank + i;
    }
    for (int i = 0; i < COUNT * 2; i++) {
        base[i] = i;
    }
    MPI_Win_fence(0, window);
    CHECK(MPI_Accumulate(third, 1, every_third, right, 0, 1, every_second, MPI_SUM, window) == MPI_SUCCESS);
    MPI_Win_fence(0, window);
    for (int i = 0; i < COUNT; i++) {
        CHECK(base[2 * i] == 2 * i + 1000 * left + 3 * i && base[2 * i + 1] == 2 * i + 1);
    }
    MPI_Type_free(&every_second);
    MPI_Type_free(&every_third);
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    unsigned char *base;
    MPI_Win window;

    osc_begin(&argc, &argv);
    add_types();
    window = window_new(WINDOW_ALLOCATE, WINDOW, 1, &base);
    for (int op = 0; op < OPS; op++) {
        combine(window, base, op);
    }
    no_op(window, base);
    at_once(window, (int *)base);
    ordered(window, (int *)base);
    derived(window, (int *)base);
    window_free(WINDOW_ALLOCATE, &window, base);
#ifdef OPEN_MPI
    return osc_end("osc_accumulate", OSC_PUT | OSC_GET | OSC_ATOMIC);
#else
    return osc_end("osc_accumulate", 0);
#endif
}
