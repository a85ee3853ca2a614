/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of runner.h. */
#include "runner.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 256 };

static const struct cw_test_entry *entries[MOST];
static size_t count;

void cw_test_add(const struct cw_test_entry *entry)
{
    if (count == MOST) {
        (void)fprintf(stderr, "more than %d tests\n", MOST);
        exit(1);
    }
    entries[count++] = entry;
}

static int by_line(const void *one, const void *other)
{
    const struct cw_test_entry *const *a = one, *const *b = other;

    return (*a)->line - (*b)->line;
}

static int run(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest tests[MOST];
    size_t chosen = 0;

    qsort(entries, count, sizeof(entries[0]), by_line);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(entries[i]->file), end = strlen(file);

        if (length >= end && strcmp(entries[i]->file + length - end, file) == 0) {
            tests[chosen++] = entries[i]->test;
        }
    }
    if (chosen == 0) {
        (void)fprintf(stderr, "there are no tests%s%s\n", *file == '\0' ? "" : " in ", file);
        return 1;
    }
    return _cmocka_run_group_tests(*file == '\0' ? "tests" : file, tests, chosen, setup, teardown);
}

int cw_tests_run(CMFixtureFunction setup, CMFixtureFunction teardown)
{
    return run("", setup, teardown);
}

int cw_tests_run_file(const char *name)
{
    return run(name, NULL, NULL);
}

int cw_tests_main(int argc, char **argv)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (argc < 2 || fnmatch(argv[1], entries[i]->test.name, 0) == 0) {
            entries[kept++] = entries[i];
        }
    }
    count = kept;
    if (kept == 0) {
        (void)fprintf(stderr, "no test matches %s\n", argc < 2 ? "" : argv[1]);
        return 2;
    }
    return cw_tests_run(NULL, NULL);
}
