/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number table of base/idmap.h: only the number that was given out last for a slot finds its object.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/idmap.h"
#include "test_random.h"

#define OBJECTS 500u

static char objects[OBJECTS];
static uint64_t ids[OBJECTS];       /* 0: not in the map */
static int refuse;

void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

void *__wrap_realloc(void *ptr, size_t size)
{
    return refuse ? NULL : __real_realloc(ptr, size);
}

static int set_up(void **state)
{
    memset(ids, 0, sizeof(ids));
    refuse = 0;
    return random_set_up(state);
}

static uint64_t add(struct cw_idmap *map, void *object)
{
    uint64_t id = 0;

    assert_int_equal(cw_idmap_add(map, object, &id), UCS_OK);
    assert_true(id != 0);
    assert_ptr_equal(cw_idmap_get(map, id), object);
    return id;
}

TEST_WITH(empty_map_finds_nothing, set_up, NULL)
{
    struct cw_idmap map;

    cw_idmap_init(&map);
    assert_null(cw_idmap_get(&map, 0));
    assert_null(cw_idmap_get(&map, UINT64_C(1) << 32));
    assert_null(cw_idmap_get(&map, UINT64_MAX));
    cw_idmap_remove(&map, 0);
    cw_idmap_remove(&map, UINT64_C(1) << 32);
    cw_idmap_cleanup(&map);
}

TEST_WITH(random_operations_agree_with_the_model, set_up, NULL)
{
    struct cw_idmap map;
    unsigned step, at, i;

    cw_idmap_init(&map);
    for (step = 0; step < 40000; step++) {
        at = (unsigned)(next_random() % OBJECTS);
        if (ids[at] != 0) {
            cw_idmap_remove(&map, ids[at]);
            assert_null(cw_idmap_get(&map, ids[at]));
            ids[at] = 0;
        } else {
            ids[at] = add(&map, &objects[at]);
        }
        if (step % 100 == 0) {
            for (i = 0; i < OBJECTS; i++) {
                assert_true(ids[i] == 0 || cw_idmap_get(&map, ids[i]) == &objects[i]);
            }
        }
    }
    assert_true(map.size <= 2 * OBJECTS);
    cw_idmap_cleanup(&map);
}

/* A number that was taken back finds nothing, also when its slot serves another object, and takes nothing out. */
TEST_WITH(stale_numbers_find_nothing, set_up, NULL)
{
    uint64_t stale[300], id;
    struct cw_idmap map;
    unsigned i, j;

    cw_idmap_init(&map);
    for (i = 0; i < 300; i++) {
        id = add(&map, &objects[0]);
        for (j = 0; j < i; j++) {
            assert_true(stale[j] != id);
            assert_null(cw_idmap_get(&map, stale[j]));
            cw_idmap_remove(&map, stale[j]);
        }
        assert_ptr_equal(cw_idmap_get(&map, id), &objects[0]);
        cw_idmap_remove(&map, id);
        cw_idmap_remove(&map, id);
        stale[i] = id;
    }
    assert_int_equal(map.size, 16);
    cw_idmap_cleanup(&map);
}

/* Removing one number twice must not put its slot on the free list twice. */
TEST_WITH(double_removal_gives_no_slot_twice, set_up, NULL)
{
    struct cw_idmap map;
    uint64_t first, second;

    cw_idmap_init(&map);
    first = add(&map, &objects[0]);
    cw_idmap_remove(&map, first);
    cw_idmap_remove(&map, first);
    first = add(&map, &objects[1]);
    second = add(&map, &objects[2]);
    assert_true((uint32_t)first != (uint32_t)second);
    assert_ptr_equal(cw_idmap_get(&map, first), &objects[1]);
    cw_idmap_cleanup(&map);
}

TEST_WITH(forged_numbers_find_nothing, set_up, NULL)
{
    struct cw_idmap map;
    uint64_t id, forged;
    unsigned i, bit;

    cw_idmap_init(&map);
    for (i = 0; i < 20; i++) {
        ids[i] = add(&map, &objects[i]);
    }
    for (i = 0; i < 20; i++) {
        for (bit = 32; bit < 64; bit++) {
            id = ids[i] ^ (UINT64_C(1) << bit);
            assert_null(cw_idmap_get(&map, id));
            cw_idmap_remove(&map, id);
        }
        for (bit = 5; bit < 32; bit++) {
            assert_null(cw_idmap_get(&map, ids[i] ^ (UINT64_C(1) << bit)));
        }
    }
    for (i = 0; i < 100000; i++) {
        forged = next_random();
        if ((forged >> 32) != 1) {
            assert_null(cw_idmap_get(&map, forged));
            assert_null(cw_idmap_get(&map, (forged & ~UINT64_C(0xffffffff)) | (forged & 15)));
        }
    }
    for (i = 20; i < 32; i++) { /* slots that exist and were never given out */
        assert_null(cw_idmap_get(&map, (UINT64_C(1) << 32) | i));
        assert_null(cw_idmap_get(&map, i));
    }
    for (i = 0; i < 20; i++) {
        assert_ptr_equal(cw_idmap_get(&map, ids[i]), &objects[i]);
    }
    cw_idmap_cleanup(&map);
}

/* After the last generation comes 1, so that no number is ever 0. */
TEST_WITH(generation_wraps_past_zero, set_up, NULL)
{
    struct cw_idmap map;
    uint64_t last, id;

    cw_idmap_init(&map);
    id = add(&map, &objects[0]);
    assert_int_equal((uint32_t)id, 0);
    cw_idmap_remove(&map, id);
    map.slots[0].generation = UINT32_MAX;
    last = add(&map, &objects[1]);
    assert_true(last == (uint64_t)UINT32_MAX << 32);
    cw_idmap_remove(&map, last);
    assert_null(cw_idmap_get(&map, last));
    assert_null(cw_idmap_get(&map, 0));
    id = add(&map, &objects[2]);
    assert_true(id == UINT64_C(1) << 32);
    assert_null(cw_idmap_get(&map, last));
    assert_null(cw_idmap_get(&map, 0));
    cw_idmap_cleanup(&map);
}

TEST_WITH(without_memory_nothing_changes, set_up, NULL)
{
    struct cw_idmap map;
    uint64_t id = 77;
    unsigned i;

    cw_idmap_init(&map);
    refuse = 1;
    assert_int_equal(cw_idmap_add(&map, &objects[0], &id), UCS_ERR_NO_MEMORY);
    assert_true(id == 77);
    refuse = 0;
    for (i = 0; i < 16; i++) {
        ids[i] = add(&map, &objects[i]);
    }
    refuse = 1;
    assert_int_equal(cw_idmap_add(&map, &objects[16], &id), UCS_ERR_NO_MEMORY);
    assert_true(id == 77);
    for (i = 0; i < 16; i++) {
        assert_ptr_equal(cw_idmap_get(&map, ids[i]), &objects[i]);
    }
    cw_idmap_remove(&map, ids[5]);
    assert_int_equal((uint32_t)add(&map, &objects[16]), (uint32_t)ids[5]);
    refuse = 0;
    (void)add(&map, &objects[17]);
    cw_idmap_cleanup(&map);
}
