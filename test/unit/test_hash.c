/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hash table of base/hash.h against a model, with several elements per key, and with a table that cannot grow.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/hash.h"
#include "test_random.h"

#define ELEMENTS 600u
#define KEYS     97u

struct element {
    struct cw_hash_link link;
    int in;                 /* the model: is in the table */
    uint64_t key;
    unsigned seen;
};

static struct element elements[ELEMENTS];

static struct {
    long left;              /* table allocations that still succeed; negative: all do */
    long live;
    unsigned refused;
} memory;

void *__real_calloc(size_t count, size_t size);
void __real_free(void *ptr);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *ptr);

void *__wrap_calloc(size_t count, size_t size)
{
    if (memory.left == 0) {
        memory.refused++;
        return NULL;
    }
    memory.left -= memory.left > 0;
    memory.live++;
    return __real_calloc(count, size);
}

void __wrap_free(void *ptr)
{
    memory.live -= ptr != NULL;
    __real_free(ptr);
}

static int set_up(void **state)
{
    memset(elements, 0, sizeof(elements));
    memory.left = -1;
    memory.live = 0;
    memory.refused = 0;
    return random_set_up(state);
}

/* Keys that resemble each other in the low and in the high half, as uids and sequence numbers do. */
static uint64_t key_of(unsigned index)
{
    return (index & 1) ? (uint64_t)index << 32 : index;
}

/* The chain of a key holds exactly the elements that the model has, each once. */
static void check_key(const struct cw_hash *hash, uint64_t key)
{
    static unsigned round;
    struct cw_hash_link *link;
    struct element *element;
    unsigned found = 0, expected = 0, i;

    round++;
    for (link = cw_hash_find(hash, key); link != NULL; link = cw_hash_next(link)) {
        element = (struct element *)link;
        assert_true(element >= elements && element < elements + ELEMENTS);
        assert_true(element->in && element->key == key && link->key == key);
        assert_true(element->seen != round);
        element->seen = round;
        found++;
    }
    for (i = 0; i < ELEMENTS; i++) {
        expected += elements[i].in && elements[i].key == key;
    }
    assert_int_equal(found, expected);
}

static void check_all(const struct cw_hash *hash)
{
    size_t in = 0;
    unsigned i;

    for (i = 0; i < KEYS; i++) {
        check_key(hash, key_of(i));
    }
    for (i = 0; i < ELEMENTS; i++) {
        in += (size_t)elements[i].in;
    }
    assert_int_equal(hash->count, in);
    assert_null(cw_hash_find(hash, key_of(KEYS)));
    assert_null(cw_hash_find(hash, UINT64_MAX));
}

static void toggle(struct cw_hash *hash, struct element *element, uint64_t key)
{
    if (element->in) {
        cw_hash_remove(hash, &element->link);
        element->in = 0;
    } else {
        cw_hash_add(hash, &element->link, key);
        element->in = 1;
        element->key = key;
    }
}

static void play(struct cw_hash *hash, unsigned steps, unsigned check_every)
{
    uint64_t pick, key;
    unsigned i;

    for (i = 0; i < steps; i++) {
        pick = next_random();
        key = key_of((unsigned)(next_random() % KEYS));
        toggle(hash, &elements[pick % ELEMENTS], key);
        if (i % check_every == 0) {
            check_key(hash, key);
        }
    }
    check_all(hash);
}

TEST_WITH(empty_table_finds_nothing_and_owns_nothing, set_up, NULL)
{
    struct cw_hash hash;

    cw_hash_init(&hash, 1);
    assert_null(cw_hash_find(&hash, 0));
    assert_null(cw_hash_find(&hash, 5));
    assert_int_equal(hash.count, 0);
    assert_int_equal(memory.live, 0);
    cw_hash_cleanup(&hash);
    cw_hash_cleanup(&hash);
    assert_int_equal(memory.live, 0);
}

TEST_WITH(random_operations_agree_with_the_model, set_up, NULL)
{
    struct cw_hash hash;

    cw_hash_init(&hash, next_random());
    play(&hash, 60000, 8);
    assert_int_equal(memory.live, 1);
    cw_hash_cleanup(&hash);
    assert_int_equal(memory.live, 0);
}

/* Whatever growth fails, first or later, nothing is lost and the next chance is taken. */
TEST_WITH(growth_that_fails_only_lengthens_chains, set_up, NULL)
{
    struct cw_hash hash;
    long allowed;

    for (allowed = 0; allowed < 6; allowed++) {
        memset(elements, 0, sizeof(elements));
        cw_hash_init(&hash, 7);
        memory.left = allowed;
        memory.refused = 0;
        play(&hash, 4000, 4);
        assert_true(memory.refused > 0);
        assert_int_equal(memory.live, allowed > 0);
        assert_true((hash.buckets == NULL) == (allowed == 0));
        memory.left = -1;
        play(&hash, 4000, 4);
        assert_int_equal(memory.live, 1);
        assert_true(hash.mask + 1 >= hash.count / 2);
        cw_hash_cleanup(&hash);
        assert_int_equal(memory.live, 0);
    }
}

TEST_WITH(one_key_holds_many_elements, set_up, NULL)
{
    struct cw_hash hash;
    unsigned i;

    cw_hash_init(&hash, 3);
    for (i = 0; i < ELEMENTS; i++) {
        toggle(&hash, &elements[i], 42);
    }
    check_key(&hash, 42);
    for (i = 1; i < ELEMENTS; i += 2) {
        toggle(&hash, &elements[i], 42);
    }
    check_key(&hash, 42);
    for (i = 0; i < ELEMENTS; i += 2) {
        toggle(&hash, &elements[i], 42);
    }
    assert_null(cw_hash_find(&hash, 42));
    assert_int_equal(hash.count, 0);
    cw_hash_cleanup(&hash);
}

TEST_WITH(removing_an_absent_link_changes_nothing, set_up, NULL)
{
    struct cw_hash_link absent = {.key = 2};
    struct cw_hash hash;
    unsigned i;

    cw_hash_init(&hash, 3);
    for (i = 0; i < 20; i++) {
        toggle(&hash, &elements[i], key_of(i % 4));
    }
    cw_hash_remove(&hash, &absent);
    toggle(&hash, &elements[2], 0);
    cw_hash_remove(&hash, &elements[2].link);
    check_all(&hash);
    cw_hash_cleanup(&hash);
}

static unsigned longest_chain(const struct cw_hash *hash)
{
    const struct cw_hash_link *link;
    unsigned longest = 0, length;
    size_t i;

    for (i = 0; i <= hash->mask; i++) {
        for (length = 0, link = hash->buckets[i]; link != NULL; link = link->next) {
            length++;
        }
        longest = (length > longest) ? length : longest;
    }
    return longest;
}

/* Regular keys spread, and keys that fall into one chain under one seed do not under another. */
TEST_WITH(keys_spread_and_the_seed_matters, set_up, NULL)
{
    struct cw_hash plain, seeded;
    unsigned count = 0;
    uint64_t key;

    cw_hash_init(&plain, 0);
    for (key = 0; key < ELEMENTS; key++) {
        cw_hash_add(&plain, &elements[key].link, key << 20);
    }
    assert_true(plain.mask + 1 >= ELEMENTS / 2);
    assert_true(longest_chain(&plain) <= 12);
    cw_hash_cleanup(&plain);

    cw_hash_init(&plain, 0);
    cw_hash_init(&seeded, 0x0123456789abcdefu);
    for (key = 0; count < 256; key++) {
        if ((cw_hash_mix(key) & 0x1ff) == 0) {
            cw_hash_add(&plain, &elements[count].link, key);
            cw_hash_add(&seeded, &elements[count + 256].link, key);
            count++;
        }
    }
    assert_int_equal(longest_chain(&plain), 256);
    assert_true(longest_chain(&seeded) <= 12);
    cw_hash_cleanup(&plain);
    cw_hash_cleanup(&seeded);
}
