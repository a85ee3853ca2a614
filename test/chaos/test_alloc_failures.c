/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every allocation of a lifecycle fails once, with a clear error, nothing leaked, nothing corrupted and nothing that
 * hangs: alone; and together with all that follow until the lifecycle stalls. Each run is a child of its own. The
 * wrapped functions keep a table of what they handed out, so a leak shows in every build; a sanitizer sees the rest.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chaos.h"
#include "lifecycle.h"

enum { TABLE_SIZE = 1 << 16, CHILD_UNTOUCHED = 42 };

static void *table[TABLE_SIZE];
static long live;
static long countdown = -1; /* allocations that still succeed; -1: all */
static int endless;         /* once it failed, it goes on */
static unsigned failures;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **ptr_p, size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t max);
char *__real_realpath(const char *path, char *resolved);
void __real_free(void *ptr);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **ptr_p, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t max);
char *__wrap_realpath(const char *path, char *resolved);
void __wrap_free(void *ptr);

static int fails(void)
{
    if (countdown < 0) {
        return 0;
    }
    if (countdown > 0) {
        countdown--;
        return 0;
    }
    if (!endless) {
        countdown = -1;
    }
    failures++; /* a good place for a breakpoint */
    errno = ENOMEM;
    return 1;
}

static size_t place_of(const void *ptr)
{
    return (size_t)(((uintptr_t)ptr >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48) & (TABLE_SIZE - 1);
}

static void *add(void *ptr)
{
    size_t at = place_of(ptr);

    if (ptr != NULL) {
        cw_check(live < TABLE_SIZE / 2);
        while (table[at] != NULL) {
            at = (at + 1) & (TABLE_SIZE - 1);
        }
        table[at] = ptr;
        live++;
    }
    return ptr;
}

/* Closes the gap, so that a search never stops short. */
static void drop(const void *ptr)
{
    size_t at = place_of(ptr), next;
    void *moved;

    while (ptr == NULL || table[at] != ptr) {
        if (ptr == NULL || table[at] == NULL) {
            return; /* from before, or from a function that is not wrapped */
        }
        at = (at + 1) & (TABLE_SIZE - 1);
    }
    table[at] = NULL;
    live--;
    for (next = (at + 1) & (TABLE_SIZE - 1); table[next] != NULL; next = (next + 1) & (TABLE_SIZE - 1)) {
        moved = table[next];
        table[next] = NULL;
        live--;
        (void)add(moved);
    }
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : add(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : add(__real_calloc(count, size));
}

void *__wrap_realloc(void *old, size_t size)
{
    void *grown = fails() ? NULL : __real_realloc(old, size);

    if (grown != NULL) {
        drop(old);
        (void)add(grown);
    }
    return grown;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return fails() ? NULL : add(__real_aligned_alloc(alignment, size));
}

int __wrap_posix_memalign(void **ptr_p, size_t alignment, size_t size)
{
    int error = fails() ? ENOMEM : __real_posix_memalign(ptr_p, alignment, size);

    if (error == 0) {
        (void)add(*ptr_p);
    }
    return error;
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : add(__real_strdup(text));
}

char *__wrap_strndup(const char *text, size_t max)
{
    return fails() ? NULL : add(__real_strndup(text, max));
}

char *__wrap_realpath(const char *path, char *resolved)
{
    return fails() ? NULL : add(__real_realpath(path, resolved));
}

void __wrap_free(void *ptr)
{
    drop(ptr);
    __real_free(ptr);
}

static void memory_is_back(void)
{
    countdown = -1;
}

struct run {
    long fail_at;
    int endless;
    int cold;            /* nothing of the library ran before */
};

static void body(void *argument)
{
    const struct run *run = argument;
    struct cw_lifecycle lifecycle = {.relief = memory_is_back, .features = UCP_FEATURE_WAKEUP};
    int fds, complete;
    long before;

    if (!run->cold) {
        cw_check(cw_lifecycle_run(&lifecycle)); /* what a process keeps for good is there now */
    }
    before = live;
    fds = cw_open_fds();
    endless = run->endless;
    failures = 0;
    countdown = run->fail_at;
    complete = cw_lifecycle_run(&lifecycle);
    if (failures == 0) {
        cw_check(complete);
        _exit(CHILD_UNTOUCHED); /* there are no more than that */
    }
    countdown = -1;
    cw_check(cw_open_fds() == fds);
    cw_check(run->cold || live == before);
    cw_check(cw_lifecycle_run(&lifecycle)); /* nothing was spoilt for later */
    cw_check(cw_open_fds() == fds);
    cw_check(run->cold || live == before);
}

static void fail_everywhere(int endless_too, int cold)
{
    struct run run = {.endless = endless_too, .cold = cold};
    const char *first = getenv("CHAOS_FIRST"); /* by hand: begin with this one */
    int code = 0;

    cw_log_watch();
    for (run.fail_at = (first == NULL) ? 0 : atol(first); code == 0; run.fail_at++) {
        code = cw_child_run(body, &run);
        if (code != 0 && code != CHILD_UNTOUCHED) {
            fail_msg("allocation %ld of a lifecycle failed%s: %s %d", run.fail_at,
                     endless_too ? " with all after it" : "", (code > 128) ? "ended by signal" : "exit code",
                     (code > 128) ? code - 128 : code);
        }
    }
    print_message("%ld allocations\n", run.fail_at - 1);
    assert_true(first != NULL || run.fail_at > 30);
}

TEST(test_each_fails_once)
{
    fail_everywhere(0, 0);
}

TEST(test_each_fails_in_the_first_life)
{
    fail_everywhere(0, 1);
}

TEST(test_shortage)
{
    fail_everywhere(1, 0);
}
