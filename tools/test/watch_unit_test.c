/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tools believe of the memory that a process shows (common/watch.h).
 */
#include "watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct cw_counters_page sound_page(void)
{
    struct cw_counters_page page = {.magic = CW_COUNTERS_MAGIC,
                           .version = CW_COUNTERS_VERSION,
                           .uid = 17,
                           .num_transports = 1,
                           .num_values = CW_COUNT_LAST,
                           .name = "w",
                           .transports = {{.name = "self", .open = 2, .opened = 3}}};

    page.values[CW_COUNT_LAST - 1] = 99;
    return page;
}

static void sound_page_is_read(void **state)
{
    struct cw_counters_page page = sound_page();
    struct cw_watch_worker worker;

    (void)state;
    assert_null(cw_watch_decode(&page, sizeof(page), &worker));
    assert_int_equal(worker.uid, 17);
    assert_int_equal(worker.values[CW_COUNT_LAST - 1], 99);
    assert_int_equal(worker.num_transports, 1);
    assert_string_equal(worker.transports[0].name, "self");
    assert_int_equal(worker.transports[0].opened, 3);
}

static void short_memory_is_refused(void **state)
{
    struct cw_counters_page page = sound_page();
    struct cw_watch_worker worker;

    (void)state;
    for (size_t length = 0; length < sizeof(page); length++) {
        void *bytes = malloc(length + 1); /* so that a sanitizer sees what is read behind it */
        assert_non_null(bytes);
        memcpy(bytes, &page, length);
        assert_non_null(cw_watch_decode(bytes, length, &worker));
        free(bytes);
    }
}

static void unfinished_memory_is_no_error(void **state)
{
    struct cw_counters_page page = sound_page();
    struct cw_watch_worker worker;

    (void)state;
    page.magic = 0;
    assert_string_equal(cw_watch_decode(&page, sizeof(page), &worker), "");
}

static void lies_are_refused(void **state)
{
    struct cw_counters_page page = sound_page();
    struct cw_watch_worker worker;

    (void)state;
    page.magic++;
    assert_non_null(strstr(cw_watch_decode(&page, sizeof(page), &worker), "header"));
    page = sound_page();
    page.version++;
    assert_non_null(strstr(cw_watch_decode(&page, sizeof(page), &worker), "version"));
    page = sound_page();
    page.num_transports = CW_COUNTERS_TRANSPORTS + 1;
    assert_non_null(strstr(cw_watch_decode(&page, sizeof(page), &worker), "more than it can"));
    page = sound_page();
    page.num_values = CW_COUNT_LAST + 1;
    assert_non_null(strstr(cw_watch_decode(&page, sizeof(page), &worker), "more than it can"));
    page.num_values = UINT64_MAX;
    assert_non_null(strstr(cw_watch_decode(&page, sizeof(page), &worker), "more than it can"));
}

/* Libraries with fewer counters, and with more. */
static void other_versions_are_read(void **state)
{
    struct {
        struct cw_counters_page page;
        uint64_t more[8];
    } newer = {.page = sound_page()};
    struct cw_watch_worker worker;

    (void)state;
    newer.page.num_values = CW_COUNT_LAST + 8;
    assert_null(cw_watch_decode(&newer, sizeof(newer), &worker));
    assert_int_equal(worker.values[CW_COUNT_LAST - 1], 99);
    newer.page.num_values = CW_COUNT_LAST - 1;
    assert_null(cw_watch_decode(&newer.page, sizeof(newer.page) - sizeof(uint64_t), &worker));
    assert_int_equal(worker.values[CW_COUNT_LAST - 1], 0);
}

/* No name ends late, and none sends commands to a terminal. */
static void names_are_cleaned(void **state)
{
    struct cw_counters_page page = sound_page();
    struct cw_watch_worker worker;

    (void)state;
    memcpy(page.name, "\033[2J\n\x9b", 7);
    memset(page.transports[0].name, 'x', sizeof(page.transports[0].name));
    assert_null(cw_watch_decode(&page, sizeof(page), &worker));
    assert_string_equal(worker.name, "?[2J??");
    assert_string_equal(worker.transports[0].name, "xxxxxxxxxxxxxxx");
}

static union {
    struct cw_queues head;
    char room[sizeof(struct cw_queues) + 2 * CW_QUEUES_MOST * sizeof(struct cw_queues_item)];
} answer;

static void make_answer(uint64_t receives, uint64_t messages)
{
    memset(&answer, 0, sizeof(answer));
    answer.head.magic = CW_QUEUES_MAGIC;
    answer.head.version = CW_QUEUES_VERSION;
    answer.head.uid = 17;
    answer.head.num_posted = 5000;
    answer.head.listed_posted = receives;
    answer.head.listed_unexpected = messages;
    answer.head.items[0].tag = 1;
    answer.head.items[1999].tag = 2;
}

static void sound_answer_is_read(void **state)
{
    static struct cw_watch_queues queues;

    (void)state;
    make_answer(CW_QUEUES_MOST, CW_QUEUES_MOST);
    assert_null(cw_watch_decode_queues(&answer, sizeof(answer), &queues));
    assert_int_equal(queues.uid, 17);
    assert_int_equal(queues.num_posted, 5000);
    assert_int_equal(queues.listed_posted, CW_QUEUES_MOST);
    assert_int_equal(queues.items[0].tag, 1);
    assert_int_equal(queues.items[1999].tag, 2);
    answer.head.magic = 0;
    assert_string_equal(cw_watch_decode_queues(&answer, sizeof(answer), &queues), "");
}

/* A length that the memory does not have, or that no answer has. */
static void false_answers_are_refused(void **state)
{
    static const uint64_t lies[][2] = {{3, 0}, {0, 3}, {2, 1}, {CW_QUEUES_MOST + 1, 0}, {0, UINT64_MAX},
                                       {UINT64_MAX, 1}, {UINT64_C(1) << 63, UINT64_C(1) << 63}};
    static struct cw_watch_queues queues;
    const size_t two = sizeof(answer.head) + 2 * sizeof(answer.head.items[0]);
    size_t length, i;
    void *bytes;

    (void)state;
    for (i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        make_answer(lies[i][0], lies[i][1]);
        assert_non_null(strstr(cw_watch_decode_queues(&answer, two, &queues), "more than it can"));
    }
    make_answer(1, 1);
    for (length = 0; length <= two; length++) {
        bytes = malloc(length + 1); /* so that a sanitizer sees what is read behind it */
        assert_non_null(bytes);
        memcpy(bytes, &answer, length);
        assert_int_equal(cw_watch_decode_queues(bytes, length, &queues) == NULL, length == two);
        free(bytes);
    }
    answer.head.version++;
    assert_non_null(strstr(cw_watch_decode_queues(&answer, two, &queues), "version"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_answer_is_read),
        cmocka_unit_test(false_answers_are_refused),
        cmocka_unit_test(sound_page_is_read),
        cmocka_unit_test(short_memory_is_refused),
        cmocka_unit_test(unfinished_memory_is_no_error),
        cmocka_unit_test(lies_are_refused),
        cmocka_unit_test(other_versions_are_read),
        cmocka_unit_test(names_are_cleaned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
