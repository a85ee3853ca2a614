/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log (LOG-1 .. LOG-4, CFG-64): form, levels, destinations, limits, and what it must not do to its callers.
 */
#include "test_config_child.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/string.h"
#include "os/env.h"

static int evaluated(int *count)
{
    return ++*count;
}

static int matches(const char *text, const char *pattern)
{
    regex_t regex;
    int found;

    assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    found = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return found;
}

static void body_log1(void)
{
    cw_error("number %d", 5);
}

TEST(test_log1_form_of_a_record)
{
    child_run(body_log1);
    assert_true(matches(child_output, "^\\[[0-9]+\\.[0-9]{6}\\] \\[[^ :]+:[0-9]+ *:0\\] +test_log\\.c:[0-9]+ +UCX  "
                                      "ERROR number 5\n$"));
}

static void body_log1_lines(void)
{
    cw_warn("first\nsecond\n\nfourth\n");
    cw_warn("%s", "");
}

TEST(test_log1_each_line_has_the_prefix)
{
    child_run(body_log1_lines);
    assert_int_equal(child_count("UCX  WARN  first\n["), 1);
    assert_int_equal(child_count("UCX  WARN  second\n["), 1);
    assert_int_equal(child_count("UCX  WARN  fourth\n["), 1);
    assert_int_equal(child_count("UCX  WARN  "), 5);
    assert_int_equal(child_count("\n"), 5);
}

static void body_log2(void)
{
    cw_warn("to standard output");
    child_check(dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO);
    child_check(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO);
    cw_warn("to nowhere");
    cw_fatal("to standard error, and the process lives");
    cw_log_set_file("stderr", UINT64_MAX, 0);
    cw_warn("also to standard error");
}

TEST(test_log2_destinations)
{
    child_run(body_log2);
    assert_int_equal(child_count("WARN  to standard output\n"), 1);
    assert_int_equal(child_count("FATAL to standard error, and the process lives\n"), 1);
    assert_int_equal(child_count("WARN  also to standard error\n"), 1);
    assert_int_equal(child_count("nowhere"), 0);
}

static void body_levels(void)
{
    int count = 0;

    child_check(cw_log_get_level() == CW_LOG_WARN); /* VAR-50 */
    cw_diag("not seen %d", evaluated(&count));
    cw_info("not seen %d", evaluated(&count));
    cw_debug("not seen %d", evaluated(&count));
    child_check(count == 0); /* arguments of what is not logged are not evaluated */
    cw_warn("seen %d", evaluated(&count));
    cw_log_set_level(CW_LOG_TRACE_DATA);
    cw_trace("seen %d", evaluated(&count));
    cw_trace_data("seen %d", evaluated(&count));
    cw_trace_poll("not seen %d", evaluated(&count));
    child_check(count == 3);
    cw_log_set_level(CW_LOG_FATAL);
    cw_error("not seen");
}

TEST(test_var50_levels)
{
    int level;

    child_run(body_levels);
    assert_int_equal(child_count(" seen"), 3);
    assert_int_equal(child_count("not seen"), 0);
    for (level = 0; level < CW_LOG_LAST; ++level) {
        assert_int_equal(cw_log_level_parse(cw_log_level_name((enum cw_log_level)level)), level);
    }
    assert_int_equal(cw_log_level_parse("trace"), CW_LOG_TRACE);
    assert_int_equal(cw_log_level_parse("loud"), -1);
    assert_string_equal(cw_log_level_name(CW_LOG_LAST), "?");
}

static void body_environment(void)
{
    child_check(setenv("UCX_LOG_LEVEL", "info", 1) == 0 && setenv("UCX_LOG_FILE", "file:own_%p.log:x", 1) == 0);
    child_check(setenv("UCX_LOG_FILE_FILTER", "*_log.c", 1) == 0);
    cw_info("by the first need");
    cw_log_emit(CW_LOG_WARN, "dir/other.c", 1, "f", "filtered out");
    cw_log_set_filter("other.?");
    cw_log_emit(CW_LOG_WARN, "dir/other.c", 1, "f", "let through");
    cw_warn("filtered out");
}

static void body_environment_check(void)
{
    char name[64];
    char text[4096];
    FILE *file;
    size_t length;

    body_environment();
    (void)snprintf(name, sizeof(name), "own_%d.log", (int)getpid());
    file = fopen(name, "r");
    child_check(file != NULL);
    length = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    child_check(fclose(file) == 0);
    child_check(strstr(text, "INFO  by the first need\n") != NULL && strstr(text, "filtered") == NULL);
    child_check(strstr(text, "other.c:1 ") != NULL && strstr(text, "let through\n") != NULL);
}

TEST(test_var51_file_and_filter_from_the_environment)
{
    child_run(body_environment_check);
    assert_string_equal(child_output, "");
}

static void body_no_file(void)
{
    cw_log_set_file("/nonexistent/directory/x", UINT64_MAX, 0);
    cw_warn("first");
    cw_warn("second");
}

TEST(test_file_that_cannot_be_opened)
{
    child_run(body_no_file);
    assert_int_equal(child_count("ERROR cannot open the log file '/nonexistent/directory/x': No such file"), 1);
    assert_int_equal(child_count("WARN  first\n"), 1);
    assert_int_equal(child_count("WARN  second\n"), 1);
}

static long size_of(const char *path)
{
    struct stat info;

    return (stat(path, &info) == 0) ? (long)info.st_size : -1;
}

static void body_rotate(void)
{
    int i;

    cw_log_set_file("log", 1000, 2);
    for (i = 0; i < 100; ++i) {
        cw_warn("record %d of many that fill the file", i);
    }
    child_check(size_of("log") > 0 && size_of("log") <= 1000);
    child_check(size_of("log.1") > 0 && size_of("log.1") <= 1000);
    child_check(size_of("log.2") > 0 && size_of("log.2") <= 1000);
    child_check(size_of("log.3") == -1);
    cw_log_set_file("single", 1000, 0);
    for (i = 0; i < 100; ++i) {
        cw_warn("record %d of many that fill the file", i);
    }
    child_check(size_of("single") > 0 && size_of("single") <= 1000 && size_of("single.1") == -1);
}

TEST(test_var51_size_and_rotation)
{
    child_run(body_rotate);
    assert_string_equal(child_output, "");
}

/* A log that grows beyond the limit of file sizes ends, the process does not (SIGXFSZ). */
static void body_file_limit(void)
{
    struct rlimit limit;
    sigset_t pending;
    int i;

    signal(SIGXFSZ, SIG_DFL); /* the test framework may have it otherwise */
    child_check(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = 1000;
    child_check(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    cw_log_set_file("limited", 1000000, 0);
    for (i = 0; i < 100; ++i) {
        cw_warn("record %d of many that fill the file", i);
    }
    child_check(size_of("limited") > 500 && size_of("limited") <= 1000);
    child_check(sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 0);
}

TEST(test_the_limit_of_file_sizes_ends_the_log_only)
{
    child_run(body_file_limit);
}

TEST(test_cfg64_patterns)
{
    char text[256];
    char expected[256];
    char host[65];

    cw_env_host(host, sizeof(host));
    cw_string_expand(text, sizeof(text), "a%p-%h-%e%%x%");
    (void)snprintf(expected, sizeof(expected), "a%d-%s-", (int)getpid(), host);
    assert_true(strncmp(text, expected, strlen(expected)) == 0);
    assert_true(strstr(text, program_invocation_short_name) != NULL && strcmp(text + strlen(text) - 4, "%%x%") == 0);
    cw_string_expand(text, sizeof(text), "%t %u %c");
    assert_true(matches(text, "^[0-9]{9,} [^ ]+ [0-9]{2,}$"));
    cw_string_expand(text, 5, "abcdefgh");
    assert_string_equal(text, "abcd");
    cw_string_expand(text, 3, "%p%p%p%p");
    assert_int_equal(strlen(text), 2);
    cw_string_expand(text, 1, "x");
    assert_string_equal(text, "");
}

static void body_errno(void)
{
    errno = ENOTTY;
    cw_warn("%m");
    child_check(errno == ENOTTY);
    errno = EPERM;
    cw_debug("nothing");
    child_check(errno == EPERM);
    cw_log_set_file("/nonexistent/x", UINT64_MAX, 0);
    errno = EBADF;
    cw_warn("to a file that is not there");
    child_check(errno == EBADF);
}

TEST(test_errno_is_kept)
{
    child_run(body_errno);
    assert_int_equal(child_count(strerror(ENOTTY)), 1);
}

static void body_long(void)
{
    char *text = malloc(100001);

    child_check(text != NULL);
    memset(text, 'a', 100000);
    text[100000] = '\0';
    cw_warn("%s|end", text);
    free(text);
    cw_warn("a terminal\x1b[2J\b is not \x7f to be played\rwith, \xc3\xa4 is a letter");
}

TEST(test_long_and_hostile_texts)
{
    child_run(body_long);
    assert_true(strlen(child_output) > 100000);
    assert_int_equal(child_count("a|end\n"), 1);
    assert_int_equal(child_count("a terminal?[2J? is not ? to be played?with, \xc3\xa4 is a letter\n"), 1);
}

static struct cw_log_limit limit;

static void body_limit(void)
{
    int i;

    for (i = 0; i < 1000; ++i) {
        cw_log_ratelimited(&limit, CW_LOG_WARN, "a peer says %d", i);
    }
    (void)usleep(1100000);
    cw_log_ratelimited(&limit, CW_LOG_WARN, "a peer comes again");
    cw_log_ratelimited(&limit, CW_LOG_INFO, "not at this level");
}

TEST(test_rate_limit_counts_what_it_drops)
{
    unsigned passed;

    child_run(body_limit);
    passed = child_count("a peer says");
    /* The loop may fall into two seconds. */
    assert_true(passed == CW_LOG_LIMIT_PER_SECOND || passed == 2 * CW_LOG_LIMIT_PER_SECOND);
    assert_int_equal(child_count("a peer comes again"), 1);
    assert_int_equal(child_count("further records like this one were suppressed"), passed / CW_LOG_LIMIT_PER_SECOND);
    assert_int_equal(child_count("not at this level"), 0);
}

#define THREADS 4
#define RECORDS 250

static void *thread_main(void *arg)
{
    int i;

    for (i = 0; i < RECORDS; ++i) {
        cw_warn("begin %d\nend of %s", i, (const char *)arg);
        if (i % 50 == 0) {
            cw_log_set_filter("*");
            cw_log_set_level(CW_LOG_WARN);
        }
    }
    return NULL;
}

static void body_threads(void)
{
    pthread_t threads[THREADS];
    size_t i;

    for (i = 0; i < THREADS; ++i) {
        child_check(pthread_create(&threads[i], NULL, thread_main, "record") == 0);
    }
    for (i = 0; i < THREADS; ++i) {
        child_check(pthread_join(threads[i], NULL) == 0);
    }
}

TEST(test_records_of_threads_do_not_mix)
{
    const char *line = child_output;
    unsigned begins = 0;

    child_run(body_threads);
    while (*line != '\0') {
        const char *begin = strstr(line, " WARN  begin ");
        const char *next = strchr(line, '\n');

        assert_non_null(next);
        assert_true(begin != NULL && begin < next);
        ++begins;
        line = next + 1; /* the second line of the same record */
        next = strchr(line, '\n');
        assert_non_null(next);
        begin = strstr(line, " WARN  end of record\n");
        assert_true(begin != NULL && begin < next && *line == '[');
        line = next + 1;
    }
    assert_int_equal(begins, THREADS * RECORDS);
}

static int intercepted;

static int interceptor(const char *file, unsigned line, const char *function, enum cw_log_level level,
                       const char *format, va_list args)
{
    char text[64];

    (void)vsnprintf(text, sizeof(text), format, args);
    child_check(line > 0 && strcmp(file, "test_log.c") == 0 && strcmp(function, "body_interceptor") == 0);
    ++intercepted;
    return level == CW_LOG_ERROR && strcmp(text, "keep 1") == 0;
}

static void body_interceptor(void)
{
    cw_log_set_interceptor(interceptor);
    cw_error("keep %d", 1);
    cw_warn("pass %d", 2);
    cw_info("nobody asks");
    child_check(intercepted == 2);
    cw_log_set_interceptor(NULL);
    cw_error("written");
    child_check(intercepted == 2);
}

TEST(test_interceptor)
{
    child_run(body_interceptor);
    assert_int_equal(child_count("keep"), 0);
    assert_int_equal(child_count("pass 2"), 1);
    assert_int_equal(child_count("written"), 1);
}

static void body_abu27(void)
{
    struct sigaction action;
    sigset_t pending;
    int ends[2];
    int i;

    child_check(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    child_check(pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) == STDOUT_FILENO);
    child_check(close(ends[0]) == 0 && close(ends[1]) == 0);
    for (i = 0; i < 3; ++i) {
        cw_warn("nobody listens");
    }
    child_check(sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 0);
    child_check(pthread_sigmask(SIG_SETMASK, NULL, &pending) == 0 && sigismember(&pending, SIGPIPE) == 0);
    clearerr(stdout);
    child_check(dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO) == STDOUT_FILENO);
}

TEST(test_abu27_a_closed_pipe_raises_no_signal)
{
    child_run(body_abu27);
}

TEST(test_files_are_read_whole_or_not_at_all)
{
    char directory[] = "/tmp/test_log_XXXXXX";
    char path[64];
    struct cw_file_id id, other;
    size_t length;
    char *text;
    FILE *file;

    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof(path), "%s/f", directory);
    assert_int_equal(cw_file_read(path, 100, &text, &length), UCS_ERR_NO_ELEM);
    assert_int_equal(cw_file_read(directory, 100, &text, &length), UCS_ERR_NO_ELEM);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite("ab\0cd", 1, 5, file), 5);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(cw_file_read(path, 4, &text, &length), UCS_ERR_EXCEEDS_LIMIT);
    assert_int_equal(cw_file_read(path, 5, &text, &length), UCS_OK);
    assert_int_equal(length, 5);
    assert_memory_equal(text, "ab\0cd", 6);
    free(text);
    assert_true(cw_file_id_get(path, &id) && cw_file_id_get(path, &other));
    assert_true(id.device == other.device && id.number == other.number);
    assert_true(cw_file_id_get(directory, &other));
    assert_true(id.device != other.device || id.number != other.number);
    assert_int_equal(remove(path), 0);
    assert_false(cw_file_id_get(path, &id));
    assert_int_equal(mkfifo(path, 0600), 0); /* must not wait for a writer */
    assert_int_equal(cw_file_read(path, 5, &text, &length), UCS_ERR_NO_ELEM);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(directory), 0);
}
