/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The statements of the specification on matching, one test each, and the promises of tag_match.h on memory and cost.
 * Allocations go through --wrap so that they can be counted and refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "op/tag_match.h"
#include "test_tag_check.h"

#define EXACT UINT64_MAX
#define MANY  3000

static struct {
    size_t live;
    size_t calls;
    bool   refuse;
} memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void  __real_free(void *ptr);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void  __wrap_free(void *ptr);

void *__wrap_malloc(size_t size)
{
    memory.calls++;
    if (memory.refuse) {
        return NULL;
    }
    memory.live++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    memory.calls++;
    if (memory.refuse) {
        return NULL;
    }
    memory.live++;
    return __real_calloc(count, size);
}

void __wrap_free(void *ptr)
{
    memory.live -= (ptr != NULL);
    __real_free(ptr);
}

static struct cw_tag_matcher matcher;
static struct cw_tag_recv    recvs[MANY];
static struct cw_tag_message messages[MANY];

static int set_up(void **state)
{
    (void)state;
    memset(&memory, 0, sizeof(memory));
    memset(recvs, 0, sizeof(recvs));
    memset(messages, 0xa5, sizeof(messages));
    cw_tag_matcher_init(&matcher, 42);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    memory.refuse = false;
    cw_tag_matcher_cleanup(&matcher);
    return (memory.live == 0) ? 0 : -1;
}

static void check(void)
{
    const char *wrong = cw_tag_matcher_check(&matcher);

    if (wrong != NULL) {
        fail_msg("%s", wrong);
    }
}

/* The receive stays posted. */
static void post(unsigned i, uint64_t tag, uint64_t mask)
{
    assert_null(cw_tag_matcher_post(&matcher, &recvs[i], tag, mask));
    assert_true(cw_tag_matcher_is_posted(&matcher, &recvs[i]));
}

/* The message stays unexpected. */
static void arrive(unsigned i, uint64_t tag)
{
    assert_null(cw_tag_matcher_arrive(&matcher, tag));
    cw_tag_matcher_add_unexpected(&matcher, &messages[i], tag);
}

static void assert_arrive_takes(uint64_t tag, unsigned i)
{
    assert_ptr_equal(cw_tag_matcher_arrive(&matcher, tag), &recvs[i]);
    assert_false(cw_tag_matcher_is_posted(&matcher, &recvs[i]));
}

/* TAG-1 */
static void test_match_rule(void **state)
{
    static const struct {
        uint64_t message;
        uint64_t tag;
        uint64_t mask;
        bool     matches;
    } rows[] = {
        {0, 0, EXACT, true},
        {0, 0, 0, true},
        {1, 0, EXACT, false},
        {0x1234, 0xffffffffffffffff, 0, true},
        {0x1234, 0x5634, 0xff, true},
        {0x1234, 0x5634, 0xfff, false},
        {0x8000000000000000, 0, EXACT, false},
        {0x8000000000000000, 0, EXACT >> 1, true},
        {0x8000000000000001, 0x8000000000000000, (uint64_t)1 << 63, true},
        {0xffffffffffffffff, 0xffffffffffffffff, EXACT, true},
    };
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cw_tag_recv *recv = &recvs[i];

        assert_int_equal(cw_tag_matches(rows[i].message, rows[i].tag, rows[i].mask), rows[i].matches);

        assert_null(cw_tag_matcher_post(&matcher, recv, rows[i].tag, rows[i].mask));
        assert_ptr_equal(cw_tag_matcher_arrive(&matcher, rows[i].message), rows[i].matches ? recv : NULL);
        assert_int_equal(cw_tag_matcher_cancel(&matcher, recv), !rows[i].matches);

        cw_tag_matcher_add_unexpected(&matcher, &messages[i], rows[i].message);
        assert_ptr_equal(cw_tag_matcher_post(&matcher, recv, rows[i].tag, rows[i].mask),
                         rows[i].matches ? &messages[i] : NULL);
        assert_int_equal(cw_tag_matcher_cancel(&matcher, recv), !rows[i].matches);
        if (!rows[i].matches) {
            cw_tag_matcher_remove_message(&matcher, &messages[i]);
        }
        check();
        assert_int_equal(cw_tag_matcher_num_posted(&matcher) + matcher.num_unexpected, 0);
    }
}

/* TAG-2: each of the 64 bits decides. */
static void test_all_bits_count(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 64; i++) {
        post(i, (uint64_t)1 << i, EXACT);
    }
    check();
    assert_null(cw_tag_matcher_arrive(&matcher, 0));
    for (i = 64; i-- > 0;) {
        assert_arrive_takes((uint64_t)1 << i, i);
    }
    for (i = 0; i < 64; i++) {
        arrive(i, (uint64_t)1 << i);
    }
    assert_null(cw_tag_matcher_probe(&matcher, 0, EXACT, true));
    for (i = 64; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, (uint64_t)1 << i, (uint64_t)1 << i, true), &messages[i]);
    }
}

/* TAG-4: a wildcard posted before a specific receive wins and vice versa; equal ones in post order. */
static void test_earliest_posted_wins(void **state)
{
    (void)state;
    post(0, 7, EXACT);
    post(1, 0, 0);
    post(2, 7, EXACT);
    post(3, 7, 0xf);
    post(4, 0x17, 0xf);
    post(5, 7, EXACT);
    post(6, 0, 0);
    check();
    assert_arrive_takes(0x107, 1);
    assert_arrive_takes(7, 0);
    assert_arrive_takes(7, 2);
    assert_arrive_takes(0x27, 3);
    assert_arrive_takes(7, 4);
    assert_arrive_takes(7, 5);
    check();
    assert_arrive_takes(7, 6);
    assert_null(cw_tag_matcher_arrive(&matcher, 7));
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
}

/* TAG-5, TAG-6, TPR-3, TPR-8: the earliest arrived of those that match; without remove it stays. */
static void test_earliest_arrived_wins(void **state)
{
    (void)state;
    arrive(0, 0x17);
    arrive(1, 0x27);
    arrive(2, 0x18);
    arrive(3, 0x17);
    check();
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0x27, EXACT, false), &messages[1]);
    assert_int_equal(matcher.num_unexpected, 4);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 7, 0xf, true), &messages[0]);
    assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 7, 0xf), &messages[1]);
    assert_false(cw_tag_matcher_is_posted(&matcher, &recvs[0]));
    assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 0x10, 0xf0), &messages[2]);
    assert_null(cw_tag_matcher_probe(&matcher, 0x27, EXACT, false));
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, true), &messages[3]);
    assert_null(cw_tag_matcher_probe(&matcher, 0, 0, true));
    assert_int_equal(matcher.num_unexpected, 0);
    check();
}

/* TAG-7, TPR-9: what a posted receive takes is never seen by a probe. */
static void test_posted_before_stored(void **state)
{
    (void)state;
    post(0, 5, EXACT);
    assert_arrive_takes(5, 0);
    assert_null(cw_tag_matcher_probe(&matcher, 0, 0, false));
    arrive(0, 5);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[0]);
    check();
}

/* REQ-24, REQ-26: cancel takes out any posted receive, first, middle or last of its key; twice is harmless. */
static void test_cancel(void **state)
{
    static const unsigned order[] = {2, 0, 4, 1, 3};
    unsigned              i;

    (void)state;
    for (i = 0; i < 5; i++) {
        post(i, 9, EXACT);
    }
    post(5, 9, 0xff);
    for (i = 0; i < 5; i++) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[order[i]]));
        assert_false(cw_tag_matcher_cancel(&matcher, &recvs[order[i]]));
        assert_int_equal(cw_tag_matcher_num_posted(&matcher), 5 - i);
        check();
    }
    assert_arrive_takes(9, 5);
    assert_false(cw_tag_matcher_cancel(&matcher, &recvs[5]));
    assert_null(cw_tag_matcher_arrive(&matcher, 9));
    assert_false(cw_tag_matcher_cancel(&matcher, &recvs[6]));
    check();
}

/* A message may be taken out of any place, in particular out of all indexes. */
static void test_remove_message(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 300; i++) {
        arrive(i, i % 10);
    }
    for (i = 0; i < 20; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 77, EXACT, false));
        assert_null(cw_tag_matcher_probe(&matcher, 15, 0xf, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 2);
    for (i = 0; i < 300; i += 3) {
        cw_tag_matcher_remove_message(&matcher, &messages[i]);
    }
    check();
    for (i = 0; i < 300; i++) {
        if ((i % 3) != 0) {
            assert_ptr_equal(cw_tag_matcher_probe(&matcher, 0, 0, false), &messages[i]);
            assert_ptr_equal(cw_tag_matcher_first_message(&matcher), &messages[i]);
            cw_tag_matcher_remove_message(&matcher, &messages[i]);
        }
    }
    assert_null(cw_tag_matcher_first_message(&matcher));
    check();
}

/* Order inside of one key survives growing, indexing and shrinking of the tables. */
static void test_order_in_large_queues(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < MANY; i++) {
        post(i, i % 1000, EXACT);
    }
    check();
    for (i = 0; i < MANY; i++) {
        assert_arrive_takes(i % 1000, i);
    }
    for (i = 0; i < MANY; i++) {
        arrive(i, i % 1000);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 1000, EXACT, false));
    }
    assert_int_not_equal(matcher.indexed, 0);
    check();
    for (i = 0; i < MANY; i++) {
        unsigned n = (i * 7) % 1000 + (i / 1000) * 1000;

        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], n % 1000, EXACT), &messages[n]);
    }
    assert_int_equal(matcher.num_unexpected, 0);
    check();
}

/* A worker that never uses tags costs only the structure; a few receives or messages cost a few hundred bytes. */
static void test_small_memory(void **state)
{
    unsigned i;

    (void)state;
    assert_null(cw_tag_matcher_arrive(&matcher, 1));
    assert_null(cw_tag_matcher_probe(&matcher, 1, EXACT, true));
    for (i = 0; i < MANY; i++) {
        arrive(i, i);
    }
    assert_int_equal(memory.calls, 0);
    assert_int_equal(cw_tag_matcher_memory(&matcher), 0);
    while (matcher.num_unexpected > 0) {
        cw_tag_matcher_remove_message(&matcher, cw_tag_matcher_first_message(&matcher));
    }
    for (i = 0; i < 8; i++) {
        post(i, i, EXACT);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 0, 800);
    memory.calls = 0;
    for (i = 0; i < 1000; i++) {
        assert_arrive_takes(i % 8, i % 8);
        post(i % 8, i % 8, EXACT);
    }
    assert_int_equal(memory.calls, 0);
}

/* Memory follows use: it is given back when queues get short, even if they never become empty. */
static void test_memory_is_given_back(void **state)
{
    size_t   small;
    unsigned i;

    (void)state;
    for (i = 0; i < 64; i++) {
        post(i, i, EXACT);
    }
    for (i = 63; matcher.busy == 0; i--) { /* until they are hashed */
        assert_arrive_takes(i, i);
    }
    while (i > 0) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i--]));
    }
    small = cw_tag_matcher_memory(&matcher);
    assert_in_range(small, 0, 800);
    for (i = 1; i < MANY; i++) {
        post(i, i, EXACT);
    }
    assert_true(cw_tag_matcher_memory(&matcher) > MANY * sizeof(void *));
    for (i = MANY - 1; i > 0; i--) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
    }
    assert_int_equal(cw_tag_matcher_memory(&matcher), small);
    assert_arrive_takes(0, 0);

    for (i = 0; i < MANY; i++) {
        arrive(i, i);
    }
    for (i = 0; i < 3; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_true(cw_tag_matcher_memory(&matcher) > MANY * sizeof(void *));
    for (i = MANY - 1; i > 0; i--) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, EXACT, true), &messages[i]);
    }
    check();
    assert_in_range(cw_tag_matcher_memory(&matcher), small, small + 16384);
    cw_tag_matcher_remove_message(&matcher, &messages[0]);
    assert_int_equal(cw_tag_matcher_memory(&matcher), small);
}

/* A list of few that messages pass again and again is hashed, and the order over all masks stays. */
static void test_passed_list(void **state)
{
    static const uint64_t masks[] = {EXACT, 0xff, EXACT, 0xffff};
    unsigned hashed               = 0;
    unsigned i;

    (void)state;
    for (i = 0; i < 200; i++) {
        post(i, i % 100, masks[i % 4]);
    }
    assert_int_equal(matcher.busy, 0);
    for (i = 100; i-- > 0;) {
        assert_arrive_takes(i, i);
        hashed += (matcher.busy != 0);
        check();
        post(200 + i, i, 0xffffff);
    }
    assert_in_range(hashed, 50, 99);
    for (i = 0; i < 100; i++) {
        assert_arrive_takes(i, 100 + i);
        assert_arrive_takes(i, 200 + i);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    check();
    post(0, 0, EXACT);
    assert_int_equal(matcher.busy, 0);
}

/* Any number of masks: memory stays bounded, order holds over classes and the leftover receives. */
static void test_hostile_masks(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < MANY; i++) {
        post(i, 0, ((uint64_t)i << 8) | 1);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 1, 65536);
    check();
    for (i = 0; i < MANY / 2; i++) {
        assert_arrive_takes(0, i);
    }
    for (; i < MANY; i += 2) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
    }
    check();
    for (i = MANY / 2 + 1; i < MANY; i += 2) {
        assert_arrive_takes(0, i);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    for (i = 0; i < 200; i++) {
        arrive(i, 0);
    }
    for (i = 0; i < MANY; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 1, ((uint64_t)(i % 20) << 8) | 1, false));
        assert_true(__builtin_popcountll(matcher.indexed) <= CW_TAG_MAX_INDEXES);
    }
    assert_in_range(cw_tag_matcher_memory(&matcher), 1, 300000);
    check();
    for (i = 0; i < 200; i++) {
        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], 0, ((uint64_t)i << 8) | 1), &messages[i]);
    }
}

/* Without any memory everything still works, and the tables come back with it. */
static void test_no_memory(void **state)
{
    unsigned i;

    (void)state;
    memory.refuse = true;
    for (i = 0; i < 100; i++) {
        post(i, i / 2, (i & 1) ? EXACT : 0xff);
    }
    check();
    assert_int_equal(cw_tag_matcher_memory(&matcher), 0);
    for (i = 0; i < 100; i++) {
        assert_arrive_takes(i / 2, i);
    }
    for (i = 0; i < 100; i++) {
        arrive(i, i);
    }
    for (i = 100; i-- > 0;) {
        assert_ptr_equal(cw_tag_matcher_post(&matcher, &recvs[0], i, EXACT), &messages[i]);
    }
    for (i = 0; i < 100; i++) {
        post(i, i, EXACT);
    }
    memory.refuse = false;
    for (; i < 200; i++) {
        post(i, i % 100, EXACT);
    }
    check();
    for (i = 0; i < 200; i++) {
        assert_arrive_takes(i % 100, i);
    }
}

/* An attempt to allocate that fails is not repeated with every operation. */
static void test_no_memory_no_storm(void **state)
{
    unsigned i;

    (void)state;
    post(0, 0, EXACT);
    memory.refuse = true;
    memory.calls  = 0;
    for (i = 1; i < MANY; i++) {
        post(i, i, EXACT);
    }
    assert_in_range(memory.calls, 1, 20);
    check();
    memory.refuse = false;
    while (cw_tag_matcher_num_posted(&matcher) > 0) {
        assert_non_null(cw_tag_matcher_take_recv(&matcher));
    }
    arrive(0, 0);
    assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false)); /* the mask is known, its index is not there */
    for (i = 1; i < MANY; i++) {
        arrive(i, i);
    }
    memory.refuse = true;
    memory.calls  = 0;
    for (i = 0; i < 100; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_in_range(memory.calls, 1, 50);
    check();
}

/* An index that cannot grow any more is given up, no message is lost. */
static void test_index_without_memory(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 100; i++) {
        arrive(i, i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
        assert_null(cw_tag_matcher_probe(&matcher, MANY, 0xffffff, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 2);
    memory.refuse = true;
    for (i = 100; i < 400; i++) {
        arrive(i, i);
        check();
    }
    assert_int_equal(matcher.indexed, 0);
    for (i = 5; i < 400; i++) {
        assert_ptr_equal(cw_tag_matcher_probe(&matcher, i, EXACT, true), &messages[i]);
    }
    check();
}

static void count_recv(const struct cw_tag_recv *recv, void *arg)
{
    unsigned *seen = arg;

    seen[recv - recvs]++;
}

/* Clean-up of a worker: everything that is queued can be found and taken out. */
static void test_take_everything(void **state)
{
    static unsigned        seen[MANY];
    struct cw_tag_message *message;
    struct cw_tag_recv    *recv;
    unsigned               i;

    (void)state;
    for (i = 0; i < MANY; i++) {
        post(i, i / 3, (i & 1) ? EXACT : ((uint64_t)(i % 200) << 12) | 0xfff);
    }
    memset(seen, 0, sizeof(seen));
    cw_tag_matcher_visit_recvs(&matcher, count_recv, seen);
    for (i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 1);
    }
    while ((recv = cw_tag_matcher_take_recv(&matcher)) != NULL) {
        assert_false(cw_tag_matcher_is_posted(&matcher, recv));
        seen[recv - recvs]++;
    }
    for (i = 0; i < MANY; i++) {
        assert_int_equal(seen[i], 2);
    }
    assert_int_equal(cw_tag_matcher_num_posted(&matcher), 0);
    check();
    for (i = 0; i < 10; i++) {
        arrive(i, 100 - i);
    }
    message = cw_tag_matcher_first_message(&matcher);
    for (i = 0; i < 10; i++) {
        assert_ptr_equal(message, &messages[i]);
        message = cw_tag_matcher_next_message(&matcher, message);
    }
    assert_null(message);
}

/* Taking out may be interrupted by new receives. */
static void test_take_and_post(void **state)
{
    unsigned taken = 0;
    unsigned i;

    (void)state;
    for (i = 0; i < 1000; i++) {
        post(i, i, EXACT);
        if ((i % 2) == 1) {
            assert_non_null(cw_tag_matcher_take_recv(&matcher));
            taken++;
        }
    }
    while (cw_tag_matcher_take_recv(&matcher) != NULL) {
        taken++;
        check();
    }
    assert_int_equal(taken, 1000);
}

/* A class with an index keeps it when another class is given back. */
static void test_index_survives_other_classes(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 40; i++) {
        post(i, 1, ((uint64_t)i << 8) | 1);
    }
    for (i = 0; i < 50; i++) {
        arrive(i, 2 * i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, 98 * 2, EXACT, false));
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 1);
    for (i = 0; i < 40; i++) {
        assert_true(cw_tag_matcher_cancel(&matcher, &recvs[i]));
        check();
    }
    assert_int_equal(__builtin_popcountll(matcher.indexed), 1);
    assert_ptr_equal(cw_tag_matcher_probe(&matcher, 98, EXACT, true), &messages[49]);
}

/* Clean-up with everything still queued and indexed leaves no memory (checked by the tear-down). */
static void test_cleanup_of_full_queues(void **state)
{
    unsigned i;

    (void)state;
    for (i = 0; i < 100; i++) {
        post(i, 2 * i + 1, (i & 1) ? EXACT : 0xffff);
        arrive(i, 2 * i);
    }
    for (i = 0; i < 5; i++) {
        assert_null(cw_tag_matcher_probe(&matcher, MANY, EXACT, false));
    }
    assert_int_not_equal(matcher.indexed, 0);
    check();
}

/* Number of keys that share a bucket with an earlier one, of 4096 keys in 4096 buckets; about 1507 if all is random. */
static unsigned count_collisions(uint64_t seed, uint64_t (*key)(unsigned i))
{
    static uint8_t used[4096];
    unsigned       collisions = 0;
    unsigned       i;

    memset(used, 0, sizeof(used));
    for (i = 0; i < 4096; i++) {
        size_t bucket = cw_tag_table_bucket(seed, key(i), 4096);

        collisions  += used[bucket];
        used[bucket] = 1;
    }
    return collisions;
}

static uint64_t key_small(unsigned i)
{
    return i;
}

static uint64_t key_high(unsigned i)
{
    return (uint64_t)i << 52;
}

static uint64_t key_page(unsigned i)
{
    return 0x7f0000000000 + (uint64_t)i * 4096;
}

static uint64_t key_mpi(unsigned i)
{
    return ((uint64_t)(i % 64) << 40) | ((uint64_t)(i / 64) << 20) | 3;
}

static uint64_t key_rank(unsigned i)
{
    return ((uint64_t)i << 32) | 0x80000001;
}

/* Tags as programs make them spread as random ones would, for any seed. */
static void test_hash_spreads(void **state)
{
    static uint64_t (*const keys[])(unsigned i) = {key_small, key_high, key_page, key_mpi, key_rank};
    uint64_t seed;
    size_t   i;

    (void)state;
    for (seed = 0; seed < 500; seed++) {
        cw_tag_matcher_init(&matcher, seed);
        for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            unsigned collisions = count_collisions(matcher.seed, keys[i]);

            if (collisions > 1700) {
                fail_msg("pattern %zu with seed %u: %u collisions", i, (unsigned)seed, collisions);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_match_rule, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_all_bits_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_earliest_posted_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_earliest_arrived_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_posted_before_stored, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cancel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_remove_message, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_order_in_large_queues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_small_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_memory_is_given_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_passed_list, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hostile_masks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_memory_no_storm, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_index_without_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_take_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_take_and_post, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_index_survives_other_classes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_cleanup_of_full_queues, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hash_spreads, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("tag_match", tests, NULL, NULL);
}
