/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Libraries that are loaded while the program runs (os/library.h), and the files that show what the kernel has
 * (os/file.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "os/library.h"

#ifdef __GLIBC__
#define LIBC "libc.so.6"
#else
#define LIBC "libc.so"
#endif

struct table {
    size_t (*length)(const char *text);
    void (*never)(void);
};

static void finds_functions(void **state)
{
    static const struct cw_symbol symbols[] = {{"strlen", offsetof(struct table, length), 0},
                                               {"cw_no_such_function", offsetof(struct table, never), 1}};
    const struct cw_library library = {LIBC, "install it", "install another one", symbols, 2};
    struct table table;
    char why[CW_LIBRARY_WHY] = "";

    (void)state;
    memset(&table, 0xff, sizeof(table));
    assert_non_null(cw_library_open(&library, &table, why));
    assert_string_equal(why, "");
    assert_int_equal(table.length("four"), 4);
    assert_true(table.never == NULL);
}

static void names_the_function_that_is_missing(void **state)
{
    static const struct cw_symbol symbols[] = {{"strlen", offsetof(struct table, length), 0},
                                               {"cw_no_such_function", offsetof(struct table, never), 0}};
    const struct cw_library library = {LIBC, "install it", "install another one", symbols, 2};
    struct table table;
    char why[CW_LIBRARY_WHY];

    (void)state;
    assert_null(cw_library_open(&library, &table, why));
    assert_string_equal(why, LIBC " lacks cw_no_such_function; install another one");
}

static void names_the_file_that_is_missing(void **state)
{
    const struct cw_library library = {"libcw-no-such-file.so.9", "install it", "install another one", NULL, 0};
    static const char begin[] = "libcw-no-such-file.so.9 cannot be opened (";
    static const char end[] = "); install it";
    char why[CW_LIBRARY_WHY];

    (void)state;
    assert_null(cw_library_open(&library, NULL, why));
    assert_memory_equal(why, begin, strlen(begin));
    assert_true(strlen(why) > strlen(begin) + strlen(end));
    assert_string_equal(why + strlen(why) - strlen(end), end);
}

static void finds_what_is_loaded(void **state)
{
    static const char *const names[] = {"libcw-no-such-file.so.9", LIBC, NULL};
    unsigned long long seen = 0;
    unsigned index = 9;

    (void)state;
    assert_non_null(cw_library_loaded(names, &index, &seen));
    assert_int_equal(index, 1);
    assert_null(cw_library_loaded(names, &index, &seen)); /* nothing was loaded since */
}

static void sees_files(void **state)
{
    (void)state;
    assert_true(cw_file_exists("/proc/self/exe"));
    assert_false(cw_file_exists("/proc/self/no-such-file"));
    assert_true(cw_directory_has_files("/proc/self"));
    assert_false(cw_directory_has_files("/proc/self/no-such-file"));
}

static void unblocks_a_descriptor(void **state)
{
    char byte;
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    cw_fd_unblock(fds[0]);
    assert_true((fcntl(fds[0], F_GETFL) & O_NONBLOCK) != 0);
    assert_int_equal(read(fds[0], &byte, 1), -1);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_functions),
        cmocka_unit_test(names_the_function_that_is_missing),
        cmocka_unit_test(names_the_file_that_is_missing),
        cmocka_unit_test(finds_what_is_loaded),
        cmocka_unit_test(sees_files),
        cmocka_unit_test(unblocks_a_descriptor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
