/* SPDX-License-Identifier: BSD-3-Clause */
/* Put and get: all sizes and alignments, in the heap and in static memory, towards others and oneself, blocking or not;
 * single values, arrays and strides of every type. */
#include "shmem_check.h"

#define SIZE 300000

static unsigned char in_data[SIZE] = {1}, in_bss[SIZE];

static const size_t sizes[] = {0,  1,  2,   3,    4,    7,    8,    9,    15,    16,    63,
                               64, 65, 255, 1000, 4095, 4096, 4097, 8192, 30000, 65537, 200003};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void bytes(unsigned char *there, int to, int from, int blocking)
{
    unsigned char *mine = allocate(SIZE), *back = allocate(SIZE);

    for (size_t i = 0; i < SIZES; i++) {
        size_t at = 1 + i * 5;

        memset(there, 0xee, SIZE);
        fill(mine, sizes[i], (unsigned)(rank * 100) + (unsigned)i);
        memset(back, 0x11, SIZE);
        shmem_barrier_all();
        if (blocking) {
            shmem_putmem(there + at, mine, sizes[i], to);
            memset(mine, 0, sizes[i]);
        } else {
            shmem_putmem_nbi(there + at, mine, sizes[i], to);
        }
        shmem_barrier_all();
        CHECK(all_bytes(there, at, 0xee) && all_bytes(there + at + sizes[i], SIZE - at - sizes[i], 0xee));
        CHECK(filled(there + at, sizes[i], (unsigned)(from * 100) + (unsigned)i));
        if (blocking) {
            shmem_getmem(back + 1, there + at, sizes[i], to);
        } else {
            shmem_getmem_nbi(back + 1, there + at, sizes[i], to);
            shmem_quiet();
        }
        CHECK(filled(back + 1, sizes[i], (unsigned)(rank * 100) + (unsigned)i));
        CHECK(back[0] == 0x11 && all_bytes(back + 1 + sizes[i], 64, 0x11));
        shmem_barrier_all();
    }
    free(mine);
    free(back);
}

/* Values, arrays, strides of one type, blocking and not. */
#define TYPED(NAME, TYPE)                                                                                              \
    static void typed_##NAME(void *memory)                                                                             \
    {                                                                                                                  \
        enum { COUNT = 40 };                                                                                           \
        TYPE *there = memory, here[COUNT * 3], back[COUNT * 3];                                                        \
        int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;                                             \
                                                                                                                       \
        memset(memory, 0, 8 * COUNT * sizeof(TYPE));                                                                   \
        memset(back, 0, sizeof(back));                                                                                 \
        for (int i = 0; i < COUNT * 3; i++) {                                                                          \
            here[i] = (TYPE)(rank * 11 + i);                                                                           \
        }                                                                                                              \
        shmem_barrier_all();                                                                                           \
        shmem_##NAME##_p(&there[0], (TYPE)(rank + 5), right);                                                          \
        shmem_##NAME##_put(&there[1], here, COUNT, right);                                                             \
        shmem_##NAME##_put_nbi(&there[COUNT + 1], here + COUNT, COUNT, right);                                         \
        shmem_##NAME##_iput(&there[3 * COUNT], here, 2, 3, COUNT, right);                                              \
        shmem_barrier_all();                                                                                           \
        CHECK(there[0] == (TYPE)(left + 5));                                                                           \
        for (int i = 0; i < COUNT; i++) {                                                                              \
            CHECK(there[1 + i] == (TYPE)(left * 11 + i));                                                              \
            CHECK(there[COUNT + 1 + i] == (TYPE)(left * 11 + COUNT + i));                                              \
            CHECK(there[3 * COUNT + 2 * i] == (TYPE)(left * 11 + 3 * i));                                              \
            CHECK(there[3 * COUNT + 2 * i + 1] == 0);                                                                  \
        }                                                                                                              \
        CHECK(shmem_##NAME##_g(&there[0], right) == (TYPE)(rank + 5));                                                 \
        shmem_##NAME##_get(back, &there[1], COUNT, right);                                                             \
        shmem_##NAME##_get_nbi(back + COUNT, &there[COUNT + 1], COUNT, right);                                         \
        shmem_quiet();                                                                                                 \
        for (int i = 0; i < 2 * COUNT; i++) {                                                                          \
            CHECK(back[i] == (TYPE)(rank * 11 + i));                                                                   \
        }                                                                                                              \
        memset(back, 0, sizeof(back));                                                                                 \
        shmem_##NAME##_iget(back, &there[3 * COUNT], 3, 2, COUNT, right);                                              \
        for (int i = 0; i < COUNT; i++) {                                                                              \
            CHECK(back[3 * i] == (TYPE)(rank * 11 + 3 * i) && back[3 * i + 1] == 0 && back[3 * i + 2] == 0);           \
        }                                                                                                              \
        shmem_barrier_all();                                                                                           \
    }

TYPED(char, char)
TYPED(schar, signed char)
TYPED(uchar, unsigned char)
TYPED(short, short)
TYPED(ushort, unsigned short)
TYPED(int, int)
TYPED(uint, unsigned)
TYPED(long, long)
TYPED(ulong, unsigned long)
TYPED(longlong, long long)
TYPED(ulonglong, unsigned long long)
TYPED(float, float)
TYPED(double, double)
TYPED(longdouble, long double)
TYPED(int8, int8_t)
TYPED(int16, int16_t)
TYPED(int32, int32_t)
TYPED(int64, int64_t)
TYPED(uint8, uint8_t)
TYPED(uint16, uint16_t)
TYPED(uint32, uint32_t)
TYPED(uint64, uint64_t)
TYPED(size, size_t)
TYPED(ptrdiff, ptrdiff_t)

static void (*const typed[])(void *) = {
    typed_char,   typed_schar,      typed_uchar,  typed_short,    typed_ushort,    typed_int,
    typed_uint,   typed_long,       typed_ulong,  typed_longlong, typed_ulonglong, typed_float,
    typed_double, typed_longdouble, typed_int8,   typed_int16,    typed_int32,     typed_int64,
    typed_uint8,  typed_uint16,     typed_uint32, typed_uint64,   typed_size,      typed_ptrdiff,
};

int main(void)
{
    unsigned char *heap;
    int right, left;

    shmem_begin();
    right = (rank + 1) % ranks;
    left = (rank + ranks - 1) % ranks;
    heap = symmetric(SIZE);
    for (int blocking = 0; blocking < 2; blocking++) {
        bytes(heap, right, left, blocking);
        bytes(heap, rank, rank, blocking);
    }
    bytes(in_data, right, left, 1);
    bytes(in_bss, left, right, 0);
    for (size_t i = 0; i < sizeof(typed) / sizeof(typed[0]); i++) {
        typed[i](heap);
        typed[i](in_bss);
    }
    shmem_free(heap);
    return shmem_end("shmem_put", SHMEM_PUT | SHMEM_GET);
}
