/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that register themselves with cmocka. TEST(name) { ... } defines one; the body may use `state`. They run in the
 * order of the file. A program without a main of its own gets cw_tests_main.
 */
#ifndef CW_TEST_RUNNER_H
#define CW_TEST_RUNNER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Not for use but by the macros below. */
struct cw_test_entry {
    struct CMUnitTest test;
    const char *file;
    int line;
};

void cw_test_add(const struct cw_test_entry *entry);

/* With functions that run before and behind it, either of which may be NULL. */
#define TEST_WITH(name, setup, teardown)                                                                \
    static void name(void **state);                                                                     \
    __attribute__((constructor)) static void name##_add(void)                                           \
    {                                                                                                   \
        static const struct cw_test_entry entry = {{#name, name, setup, teardown, NULL}, __FILE__,       \
                                                    __LINE__};                                          \
                                                                                                        \
        cw_test_add(&entry);                                                                            \
    }                                                                                                   \
    static void name(void **state __attribute__((unused)))

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Runs all tests of the program, with functions before the first and behind the last, either of which may be NULL.
 * Returns how many failed. */
int cw_tests_run(CMFixtureFunction setup, CMFixtureFunction teardown);
/* The same with the tests of one file, whose name ends so, and no other functions. */
int cw_tests_run_file(const char *name);
/* The main of a program: runs all tests, or those whose names match argv[1], of which there must be one. */
int cw_tests_main(int argc, char **argv);

#endif
