/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What long files and environments cost: comparisons of texts are counted, for twice the lines about twice as many.
 */
#include "test_config_child.h"

#include <fnmatch.h>

#include "base/string.h"
#include "config/file.h"
#include "config/global.h"

static unsigned long compared;

int __wrap_strcmp(const char *left, const char *right);
int __real_strcmp(const char *left, const char *right);
int __wrap_fnmatch(const char *pattern, const char *text, int flags);
int __real_fnmatch(const char *pattern, const char *text, int flags);
unsigned __wrap_cw_string_distance(const char *left, const char *right, unsigned limit);
unsigned __real_cw_string_distance(const char *left, const char *right, unsigned limit);

int __wrap_strcmp(const char *left, const char *right)
{
    ++compared;
    return __real_strcmp(left, right);
}

int __wrap_fnmatch(const char *pattern, const char *text, int flags)
{
    ++compared;
    return __real_fnmatch(pattern, text, flags);
}

/* It compares each letter of one with each of the other. */
unsigned __wrap_cw_string_distance(const char *left, const char *right, unsigned limit)
{
    compared += 100;
    return __real_cw_string_distance(left, right, limit);
}

static unsigned lines;
static const char *form; /* of a name, with its number */

static void write_lines(void)
{
    FILE *file = fopen("ucx.conf", "w");
    unsigned i;

    child_check(file != NULL);
    for (i = 0; i < lines; ++i) {
        child_check(fprintf(file, form, i) > 0 && fputs("=1\n", file) >= 0);
    }
    child_check(fprintf(file, "UCX_POSIX_SEG_SIZE=1k\n") > 0 && fclose(file) == 0);
}

static void set_variables(void)
{
    char name[64];
    unsigned i;

    for (i = 0; i < lines; ++i) {
        (void)snprintf(name, sizeof(name), form, i);
        child_check(setenv(name, "1", 1) == 0);
    }
    child_check(setenv("UCX_POSIX_SEG_SIZE", "1k", 1) == 0);
}

static void read_it_all(void)
{
    struct cw_config *config;

    compared = 0;
    child_check(cw_config_read("MPI", NULL, &config) == UCS_OK && config->posix_seg_size == 1024);
    cw_config_warn_unused(config);
    cw_config_free(config);
    (void)printf("compared: %lu\n", compared);
}

static void body_file(void)
{
    write_lines();
    read_it_all();
}

static void body_environment(void)
{
    set_variables();
    read_it_all();
}

static unsigned long count_for(void (*body)(void), unsigned number)
{
    const char *count;

    lines = number;
    child_run(body);
    count = strstr(child_output, "compared: ");
    assert_non_null(count);
    return strtoul(count + strlen("compared: "), NULL, 10);
}

static void require_linear(void (*body)(void), const char *name)
{
    unsigned long few, many;

    form = name;
    few = count_for(body, 1000);
    many = count_for(body, 4000);
    if (many > 5 * few) {
        fail_msg("%s: %lu comparisons for 1000, %lu for 4000", name, few, many);
    }
}

TEST(test_cost_grows_with_the_lines)
{
    require_linear(body_file, "UCX_NOTHING_%u");
    require_linear(body_file, "MPI_UCX_NOTHING_%u");
    require_linear(body_file, "UCX_CUDA_%u"); /* known */
    require_linear(body_file, "UCX_CUDA_ALIKE"); /* all the same */
    require_linear(body_environment, "UCX_NOTHING_%u");
}

/* Each pattern is matched with every setting, so their number is bounded. */
TEST(test_patterns_are_bounded)
{
    unsigned long few, many;

    form = "UCX_*_%u";
    few = count_for(body_file, CW_CONFIG_PATTERNS_MAX);
    assert_int_equal(child_count("at line "), 20); /* those that nothing reads */
    many = count_for(body_file, 20 * CW_CONFIG_PATTERNS_MAX);
    assert_int_equal(child_count("configuration file './ucx.conf' at line 257: only the first 256 names with"), 1);
    if (many > few + 20 * CW_CONFIG_PATTERNS_MAX) {
        fail_msg("%lu comparisons for %u patterns, %lu for 20 times as many", few, CW_CONFIG_PATTERNS_MAX, many);
    }
}

/* So that the file of 40,000 lines is read at once, and the line about them can be. */
TEST(test_cost_of_a_line)
{
    form = "UCX_NOTHING_%u";
    assert_true(count_for(body_file, 40000) < 40000ul * 2000);
    assert_int_equal(child_count("UCX_NOTHING_0 in "), 1);
    assert_int_equal(child_count("UCX_NOTHING_19 in "), 1);
    assert_int_equal(child_count("UCX_NOTHING_20 in "), 0);
    assert_int_equal(child_count("; and 39980 more\n"), 1);
}
