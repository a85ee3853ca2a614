/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log of libucs as programs take part in it (NB-11 .. NB-14, NB-16, NB-20, NB-27, NB-28), and libucp, which has to
 * log through the same handlers. Every case runs in a child with a log file of its own: the library checks its
 * variables once.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/assert.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

#include "runner.h"

static char log_file[64];
static ucs_log_component_config_t mine = {UCS_LOG_LEVEL_INFO, "mine", "*"};

#define must(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                            \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Runs the case in a child and returns how that ended. The variable is NAME=VALUE or NULL. */
static int status_of(void (*body)(void), const char *variable)
{
    int status;
    pid_t child;

    fflush(NULL);
    snprintf(log_file, sizeof(log_file), "neighbour_log.%d", (int)getpid());
    unlink(log_file);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("UCX_LOG_FILE", log_file, 1);
        if (variable != NULL) {
            putenv(strdup(variable));
        }
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    unlink(log_file);
    return status;
}

#define run(body, variable) assert_int_equal(status_of(body, variable), 0)

/* How many lines of the log have the text. */
static int logged(const char *text)
{
    FILE *file = fopen(log_file, "r");
    char line[1024];
    int count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        count += strstr(line, text) != NULL;
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static int seen, seen_second, order;
static char text_seen[512], component_seen[16], file_seen[64];
static ucs_log_level_t level_seen;

static void take(const char *file, ucs_log_level_t level, const ucs_log_component_config_t *comp_conf,
                 const char *message, va_list ap)
{
    vsnprintf(text_seen, sizeof(text_seen), message, ap);
    snprintf(component_seen, sizeof(component_seen), "%s", comp_conf->name);
    snprintf(file_seen, sizeof(file_seen), "%s", file);
    level_seen = level;
}

static ucs_log_func_rc_t keep(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                              const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    must(line > 0 && function != NULL);
    seen++;
    take(file, level, comp_conf, message, ap);
    return UCS_LOG_FUNC_RC_STOP;
}

static ucs_log_func_rc_t pass(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                              const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    (void)line;
    (void)function;
    seen_second++;
    order = seen;
    take(file, level, comp_conf, message, ap); /* reads the arguments, which the next one reads again */
    return UCS_LOG_FUNC_RC_CONTINUE;
}

#define say(level, ...) ucs_log_dispatch("some/where/file.c", 7, "function", level, &mine, __VA_ARGS__)

static void body_print(void)
{
    say(UCS_LOG_LEVEL_WARN, "number %d", 42);
    say(UCS_LOG_LEVEL_DEBUG, "too much");
    say(UCS_LOG_LEVEL_PRINT, "asked for");
    must(logged("number 42") == 1 && logged("mine WARN ") == 1 && logged("file.c:7") == 2);
    must(logged("too much") == 0); /* compared once more with the component's level */
    must(logged("mine PRINT asked for") == 1);
    must(logged("some/where") == 0);
}

TEST(test_dispatch_prints) /* NB-12, NB-13 */
{
    run(body_print, NULL);
    run(body_print, "UCX_LOG_LEVEL=error"); /* the component's level counts, not the library's */
}

static void body_filter(void)
{
    say(UCS_LOG_LEVEL_WARN, "number %d", 42);
    ucs_log_dispatch("other.c", 7, "function", UCS_LOG_LEVEL_WARN, &mine, "elsewhere");
    must(logged("number 42") == 0 && logged("elsewhere") == 1);
}

TEST(test_file_filter) /* NB-12 */
{
    run(body_filter, "UCX_LOG_FILE_FILTER=other*");
}

static void body_stack(void)
{
    ucs_log_push_handler(keep);
    ucs_log_push_handler(pass);
    say(UCS_LOG_LEVEL_WARN, "%s and %s", "one", "two");
    must(seen == 1 && seen_second == 1 && order == 0); /* the newest first */
    must(strcmp(text_seen, "one and two") == 0 && strcmp(component_seen, "mine") == 0);
    must(strcmp(file_seen, "some/where/file.c") == 0 && level_seen == UCS_LOG_LEVEL_WARN);
    must(logged("one and two") == 0);
    ucs_log_pop_handler();
    ucs_log_pop_handler();
    ucs_log_push_handler(pass);
    say(UCS_LOG_LEVEL_WARN, "third");
    must(seen == 1 && seen_second == 2 && logged("third") == 1);
}

TEST(test_handlers_are_called_newest_first) /* NB-11 */
{
    run(body_stack, NULL);
}

static void body_full(void)
{
    int i;

    for (i = 0; i < 40; i++) {
        ucs_log_push_handler(pass);
    }
    say(UCS_LOG_LEVEL_WARN, "full");
    must(seen_second == 31 && logged("full") == 1);
    for (i = 0; i < 31; i++) {
        ucs_log_pop_handler();
    }
    say(UCS_LOG_LEVEL_WARN, "empty");
    must(seen_second == 31 && logged("empty") == 1);
    for (i = 0; i < 5; i++) {
        ucs_log_pop_handler();
    }
    say(UCS_LOG_LEVEL_WARN, "nobody prints");
    must(logged("nobody prints") == 0);
    ucs_log_push_handler(keep);
    say(UCS_LOG_LEVEL_WARN, "kept");
    must(seen == 1);
}

TEST(test_stack_has_32_entries) /* NB-11; the reference does the same, by calling it */
{
    run(body_full, NULL);
}

static void use_ucp(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;

    must(ucp_init(&params, NULL, &context) == UCS_OK);
    ucp_cleanup(context);
}

static void body_libucp(void)
{
    ucs_log_push_handler(keep);
    use_ucp();
    must(seen > 0 && strcmp(component_seen, "UCX") == 0 && level_seen <= UCS_LOG_LEVEL_INFO);
    must(logged("UCX") == 0);
    ucs_log_pop_handler();
    seen = 0;
    use_ucp();
    must(seen == 0 && logged("UCX") > 0);
}

static void body_libucp_passes(void)
{
    ucs_log_push_handler(pass);
    use_ucp();
    must(seen_second > 0 && logged("UCX") >= seen_second);
}

static void body_libucp_without_printer(void)
{
    ucs_log_pop_handler();
    use_ucp();
    must(logged("UCX") == 0);
}

TEST(test_libucp_logs_through_the_handlers) /* NB-11 */
{
    run(body_libucp, "UCX_LOG_LEVEL=info");
    run(body_libucp_passes, "UCX_LOG_LEVEL=info");
    run(body_libucp_without_printer, "UCX_LOG_LEVEL=info");
}

static void body_one_file(void)
{
    struct stat file;
    int i;

    use_ucp();
    for (i = 0; i < 50; i++) {
        say(UCS_LOG_LEVEL_WARN, "a line that fills the file");
    }
    must(stat(log_file, &file) == 0 && file.st_size > 0 && file.st_size <= 1000);
}

TEST(test_both_keep_to_the_size_of_the_file) /* NB-12 */
{
    run(body_one_file, "UCX_LOG_FILE_SIZE=1000");
}

static void body_level_before(void)
{
    ucs_log_push_handler(keep);
    use_ucp();
    must(seen == 0); /* filtered by level before */
}

static void body_set_level(void)
{
    must(ucs_global_opts_set_value("LOG_LEVEL", "info") == UCS_OK);
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_INFO);
    ucs_log_push_handler(keep);
    use_ucp();
    must(seen > 0);
    seen = 0;
    must(ucs_global_opts_set_value("LOG_LEVEL", "error") == UCS_OK);
    use_ucp();
    must(seen == 0 && ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_ERROR);
}

static void body_modify_level(void)
{
    ucp_config_t *config;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    must(ucp_config_modify(config, "LOG_LEVEL", "trace") == UCS_OK);
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_TRACE);
    ucp_config_release(config);
}

TEST(test_level_is_one_for_both_libraries) /* NB-11, NB-16, NB-28 */
{
    run(body_level_before, NULL);
    run(body_set_level, NULL);
    run(body_modify_level, NULL);
}

static void body_level_debug(void)
{
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_WARN);
    ucs_debug_disable_signals(); /* as JUCX does when it is loaded */
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_DEBUG);
}

static void body_options(void)
{
    const char *const good[][2] = {{"MEM_EVENTS", "n"},          {"LOG_FILE", "elsewhere"}, {"LOG_BUFFER", "2K"},
                                   {"MODULE_LOG_LEVEL", "warn"}, {"HANDLE_ERRORS", "none"}, {"MEM_LOG_LEVEL", "loud"}};
    size_t i;

    for (i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        must(ucs_global_opts_set_value(good[i][0], good[i][1]) == UCS_OK);
    }
    must(ucs_global_opts_set_value("TLS", "tcp") == UCS_ERR_NO_ELEM); /* of a context */
    must(ucs_global_opts_set_value("UCX_LOG_LEVEL", "info") == UCS_ERR_NO_ELEM);
    must(ucs_global_opts_set_value("NO_SUCH", "1") == UCS_ERR_NO_ELEM);
    must(ucs_global_opts_set_value("LOG_LEVEL", "loud") == UCS_ERR_INVALID_PARAM);
    must(ucs_global_opts_set_value("LOG_FILE_SIZE", "much") == UCS_ERR_INVALID_PARAM);
    must(ucs_global_opts_set_value(NULL, "1") == UCS_ERR_INVALID_PARAM);
    must(ucs_global_opts_set_value("LOG_LEVEL", NULL) == UCS_ERR_INVALID_PARAM);
    must(ucs_global_opts.log_component.log_level == UCS_LOG_LEVEL_WARN);
    must(ucs_global_opts_set_value("LOG_FILE_FILTER", "nothing.c") == UCS_OK);
    say(UCS_LOG_LEVEL_WARN, "unwanted");
    must(logged("unwanted") == 0);
    ucs_log_push_handler(keep);
    must(ucs_global_opts_set_value("LOG_LEVEL", "info") == UCS_OK);
    use_ucp();
    must(seen == 0); /* libucp's lines pass the filter before a handler sees them */
    must(ucs_global_opts_set_value("LOG_FILE_FILTER", "*") == UCS_OK);
    use_ucp();
    must(seen > 0);
}

TEST(test_options_of_the_process) /* NB-16, NB-28 */
{
    assert_int_equal(sizeof(ucs_log_component_config_t), 32);
    assert_int_equal(offsetof(ucs_log_component_config_t, name), 4);
    assert_int_equal(offsetof(ucs_log_component_config_t, file_filter), 24);
    assert_int_equal(offsetof(ucs_global_opts_t, log_print_enable), 72);
    assert_string_equal(ucs_global_opts.log_component.name, "UCX");
    run(body_level_debug, "UCX_LOG_LEVEL=debug");
    run(body_options, NULL);
}

static ucs_log_func_rc_t end_with_7(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                    const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    (void)keep(file, line, function, level, comp_conf, message, ap);
    must(level == UCS_LOG_LEVEL_FATAL && line == 3 && strcmp(text_seen, "it is over") == 0);
    _exit(7);
}

static void body_fatal(void)
{
    ucs_fatal_error_format("file.c", 3, "function", "it is %s", "over");
}

static void body_fatal_logged(void)
{
    ucs_log_push_handler(end_with_7);
    body_fatal();
}

TEST(test_fatal_error) /* NB-20 */
{
    int status = status_of(body_fatal, NULL);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    status = status_of(body_fatal_logged, NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7); /* the message was logged before */
}

TEST(test_level_names) /* NB-14, NB-27 */
{
    static const char *const names[] = {"FATAL", "ERROR", "WARN",  "DIAG", "INFO", "DEBUG", "TRACE",
                                        "REQ",   "DATA",  "ASYNC", "FUNC", "POLL", NULL,    "PRINT"};
    static const ucs_log_level_t levels[] = {
        UCS_LOG_LEVEL_FATAL,      UCS_LOG_LEVEL_ERROR,       UCS_LOG_LEVEL_WARN,       UCS_LOG_LEVEL_DIAG,
        UCS_LOG_LEVEL_INFO,       UCS_LOG_LEVEL_DEBUG,       UCS_LOG_LEVEL_TRACE,      UCS_LOG_LEVEL_TRACE_REQ,
        UCS_LOG_LEVEL_TRACE_DATA, UCS_LOG_LEVEL_TRACE_ASYNC, UCS_LOG_LEVEL_TRACE_FUNC, UCS_LOG_LEVEL_TRACE_POLL,
        UCS_LOG_LEVEL_LAST,       UCS_LOG_LEVEL_PRINT};
    int i;

    for (i = 0; i < 14; i++) {
        assert_int_equal(levels[i], i);
    }
    for (i = 0; i < 14; i++) {
        if (names[i] == NULL) {
            assert_null(ucs_log_level_names[i]);
        } else {
            assert_string_equal(ucs_log_level_names[i], names[i]);
        }
    }
}

static atomic_int seen_by_threads;

static ucs_log_func_rc_t count(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                               const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    char text[64];

    (void)file;
    (void)function;
    must(line > 0 && level == UCS_LOG_LEVEL_DEBUG && comp_conf == &mine);
    vsnprintf(text, sizeof(text), message, ap);
    must(strcmp(text, "text") == 0);
    atomic_fetch_add(&seen_by_threads, 1);
    return UCS_LOG_FUNC_RC_CONTINUE;
}

static void *push_and_pop(void *argument)
{
    int i;

    for (i = 0; i < 2000; i++) {
        ucs_log_push_handler(count);
        say(UCS_LOG_LEVEL_DEBUG, "%s", (char *)argument); /* above the component's level: handlers alone see it */
        ucs_log_pop_handler();
    }
    return NULL;
}

static void body_threads(void)
{
    pthread_t threads[4];
    int i;

    for (i = 0; i < 4; i++) {
        must(pthread_create(&threads[i], NULL, push_and_pop, "text") == 0);
    }
    for (i = 0; i < 4; i++) {
        must(pthread_join(threads[i], NULL) == 0);
    }
    say(UCS_LOG_LEVEL_WARN, "in the end");
    must(logged("in the end") == 1 && atomic_load(&seen_by_threads) > 0);
}

TEST(test_threads_push_and_pop) /* NB-11 */
{
    run(body_threads, NULL);
}

int main(void)
{
    unsetenv("UCX_LOG_LEVEL");
    return cw_tests_run(NULL, NULL);
}
