/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log (base/log.h). A mutex guards destination and filter; the level is a relaxed atomic because a record that
 * passes while the level changes does no harm. A record is built in memory and written in one call. The file is opened
 * at the first record, so that a program that logs nothing leaves no empty file behind.
 */
#include "base/log.h"

#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/string.h"
#include "os/env.h"

#define PATH_SIZE   1024
#define PREFIX_SIZE 384
#define STACK_SIZE  640 /* of a text, and of a record with its prefix; longer ones are allocated */
#define COMPONENT   "UCX"

enum sink_kind { SINK_STDOUT, SINK_STDERR, SINK_FILE };

static struct {
    pthread_mutex_t lock;
    enum sink_kind kind;
    char pattern[PATH_SIZE];
    char path[PATH_SIZE]; /* the pattern expanded when the file was opened */
    uint64_t max_size;
    unsigned rotate;
    int fd; /* -1: not open yet */
    uint64_t size;
    char filter[128];
} sink = {.lock = PTHREAD_MUTEX_INITIALIZER, .max_size = UINT64_MAX, .fd = -1, .filter = "*"};

static const char *const level_names[CW_LOG_LAST] = {"FATAL", "ERROR", "WARN", "DIAG",  "INFO", "DEBUG",
                                                     "TRACE", "REQ",   "DATA", "ASYNC", "FUNC", "POLL"};

_Atomic int cw_log_threshold = CW_LOG_LAST;

static pthread_once_t init_once = PTHREAD_ONCE_INIT;
static _Atomic(cw_log_interceptor_fn) log_interceptor;

const char *cw_log_level_name(enum cw_log_level level)
{
    return ((unsigned)level < CW_LOG_LAST) ? level_names[level] : "?";
}

int cw_log_level_parse(const char *name)
{
    int level;

    for (level = 0; level < CW_LOG_LAST; ++level) {
        if (cw_string_equal_nocase(name, level_names[level])) {
            return level;
        }
    }
    return -1;
}

/* Called with the lock held. */
static void sink_close(void)
{
    if (sink.fd >= 0) {
        cw_file_close(sink.fd);
        sink.fd = -1;
    }
}

static void sink_set(const char *pattern, uint64_t max_size, unsigned rotate)
{
    const char *path = pattern;
    char *options;

    sink_close();
    sink.max_size = max_size;
    sink.rotate = rotate;
    sink.kind = SINK_FILE;
    if (pattern[0] == '\0' || strcmp(pattern, "stdout") == 0) {
        sink.kind = SINK_STDOUT;
    } else if (strcmp(pattern, "stderr") == 0) {
        sink.kind = SINK_STDERR;
    } else if (cw_string_starts(pattern, "file:")) {
        path = pattern + strlen("file:");
    }
    cw_string_copy(sink.pattern, sizeof(sink.pattern), path);
    options = (path == pattern) ? NULL : strchr(sink.pattern, ':');
    if (options != NULL) {
        *options = '\0';
    }
}

static void log_init(void)
{
    const char *level = cw_env_get("UCX_LOG_LEVEL");
    const char *pattern = cw_env_get("UCX_LOG_FILE");
    const char *filter = cw_env_get("UCX_LOG_FILE_FILTER");
    int number = (level == NULL) ? -1 : cw_log_level_parse(level);

    if (pattern != NULL) {
        sink_set(pattern, UINT64_MAX, 0);
    }
    if (filter != NULL && filter[0] != '\0') {
        cw_string_copy(sink.filter, sizeof(sink.filter), filter);
    }
    atomic_store_explicit(&cw_log_threshold, (number < 0) ? CW_LOG_DEFAULT_LEVEL : number, memory_order_relaxed);
}

static void log_init_once(void)
{
    (void)pthread_once(&init_once, log_init);
}

void cw_log_set_level(enum cw_log_level level)
{
    log_init_once();
    atomic_store_explicit(&cw_log_threshold, (int)level, memory_order_relaxed);
}

enum cw_log_level cw_log_get_level(void)
{
    log_init_once();
    return (enum cw_log_level)atomic_load_explicit(&cw_log_threshold, memory_order_relaxed);
}

void cw_log_set_file(const char *pattern, uint64_t max_size, unsigned rotate)
{
    log_init_once();
    (void)pthread_mutex_lock(&sink.lock);
    sink_set(pattern, max_size, rotate);
    (void)pthread_mutex_unlock(&sink.lock);
}

void cw_log_set_filter(const char *glob)
{
    log_init_once();
    (void)pthread_mutex_lock(&sink.lock);
    cw_string_copy(sink.filter, sizeof(sink.filter), (glob[0] == '\0') ? "*" : glob);
    (void)pthread_mutex_unlock(&sink.lock);
}

void cw_log_set_interceptor(cw_log_interceptor_fn interceptor)
{
    /* Pairs with the load in is_intercepted. */
    atomic_store_explicit(&log_interceptor, interceptor, memory_order_release);
}

void cw_log_offer_interceptor(cw_log_interceptor_fn interceptor)
{
    cw_log_interceptor_fn none = NULL;

    (void)atomic_compare_exchange_strong_explicit(&log_interceptor, &none, interceptor, memory_order_release,
                                                  memory_order_relaxed);
}

/* Prefix of each line of a record. */
struct head {
    const char *component;
    const char *level;
    const char *file;
    unsigned line;
};

static int make_prefix(char *prefix, const struct head *head)
{
    const char *name = strrchr(head->file, '/');
    uint64_t now_us = cw_env_wall_time_us();
    char host[65];
    int length;

    cw_env_host(host, sizeof(host));
    length = snprintf(prefix, PREFIX_SIZE, "[%llu.%06u] [%s:%-5d:%u] %24.128s:%-4u %-4.15s %-5s ",
                      (unsigned long long)(now_us / 1000000u), (unsigned)(now_us % 1000000u), host, cw_env_pid(),
                      cw_env_thread_number(), (name == NULL) ? head->file : name + 1, head->line, head->component,
                      head->level);
    return (length < 0) ? 0 : length;
}

/*
 * Copies the text line by line, each behind the prefix and ended by a newline, until `size` is used up, and returns
 * the length; with out NULL only counts. Control characters may come from peers and must not reach a terminal.
 */
static size_t lay_out(char *out, size_t size, const char *prefix, size_t prefix_length, const char *text)
{
    size_t length = 0;
    size_t i;

    do {
        size_t line_length = strcspn(text, "\n");

        if (out != NULL && length + prefix_length + line_length + 1 > size) {
            if (length + prefix_length + 1 > size) {
                break;
            }
            line_length = size - length - prefix_length - 1;
        }
        if (out != NULL) {
            memcpy(out + length, prefix, prefix_length);
            for (i = 0; i < line_length; ++i) {
                char letter = text[i];

                out[length + prefix_length + i] =
                    (((unsigned char)letter < ' ' && letter != '\t') || letter == 0x7f) ? '?' : letter;
            }
            out[length + prefix_length + line_length] = '\n';
        }
        length += prefix_length + line_length + 1;
        text += strcspn(text, "\n");
        text += (*text == '\n');
    } while (*text != '\0');
    return length;
}

static void write_stream(FILE *stream, const char *data, size_t length)
{
    (void)fwrite(data, 1, length, stream);
    (void)fflush(stream);
}

/* The last file within the number is deleted, each other moves up by one; with rotate 0 the file starts again.
 * noinline: its names would take stack space of each record. */
static CW_COLD void sink_rotate(void)
{
    char from[PATH_SIZE + 16];
    char to[PATH_SIZE + 16];
    unsigned number;

    if (sink.rotate == 0) {
        if (cw_file_truncate(sink.fd) == 0) {
            sink.size = 0;
        }
        return;
    }
    for (number = sink.rotate; number > 1; --number) {
        (void)snprintf(from, sizeof(from), "%s.%u", sink.path, number - 1);
        (void)snprintf(to, sizeof(to), "%s.%u", sink.path, number);
        (void)cw_file_rename(from, to);
    }
    (void)snprintf(to, sizeof(to), "%s.1", sink.path);
    (void)cw_file_rename(sink.path, to);
    sink_close();
    sink.fd = cw_file_open_append(sink.path, &sink.size);
}

/* Called with the lock held; leaves sink.kind at SINK_STDOUT if the file cannot be opened. */
static CW_COLD void sink_open(void)
{
    char prefix[PREFIX_SIZE];
    char line[PATH_SIZE + PREFIX_SIZE + 256];
    char text[PATH_SIZE + 256];
    size_t prefix_length;
    size_t length;

    cw_string_expand(sink.path, sizeof(sink.path), sink.pattern);
    sink.fd = cw_file_open_append(sink.path, &sink.size);
    if (sink.fd < 0) {
        sink.kind = SINK_STDOUT;
        (void)snprintf(text, sizeof(text),
                       "cannot open the log file '%s': %s; the log goes to standard output, check UCX_LOG_FILE",
                       sink.path, strerror(errno));
        prefix_length = (size_t)make_prefix(
            prefix, &(struct head){COMPONENT, cw_log_level_name(CW_LOG_ERROR), CW_LOG_SOURCE, __LINE__});
        length = lay_out(line, sizeof(line), prefix, prefix_length, text);
        write_stream(cw_env_stdout(), line, length);
    }
}

static void sink_write(int is_fatal, const char *data, size_t length)
{
    FILE *const errors = cw_env_stderr(); /* before the lock: the loader may be queried */
    FILE *const output = cw_env_stdout();
    struct cw_write_signals signals;

    cw_write_signals_hold(&signals);
    (void)pthread_mutex_lock(&sink.lock);
    if (sink.kind == SINK_FILE && sink.fd < 0) {
        sink_open();
    }
    if (sink.kind == SINK_FILE && sink.size > 0 && (sink.size > sink.max_size || length > sink.max_size - sink.size)) {
        sink_rotate();
    }
    if (sink.kind == SINK_STDERR || is_fatal) {
        write_stream(errors, data, length);
    } else if (sink.kind == SINK_STDOUT) {
        write_stream(output, data, length);
    }
    if (sink.kind == SINK_FILE && cw_file_write_all(sink.fd, data, length) == 0) {
        sink.size += length;
    }
    (void)pthread_mutex_unlock(&sink.lock);
    cw_write_signals_release(&signals);
}

static int filter_passes(const char *file)
{
    const char *name = strrchr(file, '/');
    int passes = 1;

    (void)pthread_mutex_lock(&sink.lock);
    if (strcmp(sink.filter, "*") != 0) {
        passes = fnmatch(sink.filter, (name == NULL) ? file : name + 1, 0) == 0;
    }
    (void)pthread_mutex_unlock(&sink.lock);
    return passes;
}

static void record_write(const struct head *head, int is_fatal, const char *text)
{
    char prefix[PREFIX_SIZE];
    char stack[STACK_SIZE];
    size_t prefix_length;
    size_t length;
    char *out = stack;

    prefix_length = (size_t)make_prefix(prefix, head);
    length = lay_out(NULL, 0, prefix, prefix_length, text);
    if (length > sizeof(stack)) {
        out = malloc(length);
    }
    if (out == NULL) {
        out = stack;
        length = sizeof(stack);
    }
    length = lay_out(out, length, prefix, prefix_length, text);
    sink_write(is_fatal, out, length);
    if (out != stack) {
        free(out);
    }
}

/* The text of a record, of any length, and then the record. */
static void record_format(const struct head *head, int is_fatal, const char *format, va_list args)
{
    int saved_errno = errno; /* for %m */
    char stack[STACK_SIZE];
    char *text = stack;
    va_list copy;
    int length;

    va_copy(copy, args);
    length = vsnprintf(stack, sizeof(stack), format, copy);
    va_end(copy);
    if (length >= (int)sizeof(stack)) {
        text = malloc((size_t)length + 1);
        if (text == NULL) {
            text = stack; /* out of memory: the beginning of the text is written */
        } else {
            errno = saved_errno;
            (void)vsnprintf(text, (size_t)length + 1, format, args);
        }
    }
    record_write(head, is_fatal, (length < 0) ? format : text);
    if (text != stack) {
        free(text);
    }
}

/* Whether the record is suppressed. */
static bool is_intercepted(enum cw_log_level level, const char *file, unsigned line, const char *function,
                           const char *format, va_list args)
{
    /* Pairs with the stores in cw_log_set_interceptor and cw_log_offer_interceptor. */
    cw_log_interceptor_fn interceptor = atomic_load_explicit(&log_interceptor, memory_order_acquire);
    int consumed = 0;
    va_list copy;

    if (interceptor != NULL) {
        va_copy(copy, args);
        consumed = interceptor(file, line, function, level, format, copy);
        va_end(copy);
    }
    return consumed;
}

void cw_log_emit_args(enum cw_log_level level, const char *file, unsigned line, const char *function,
                      const char *format, va_list args)
{
    int saved_errno = errno;

    log_init_once();
    if ((int)level > atomic_load_explicit(&cw_log_threshold, memory_order_relaxed) || !filter_passes(file)) {
        goto out;
    }
    errno = saved_errno;
    if (is_intercepted(level, file, line, function, format, args)) {
        goto out;
    }
    errno = saved_errno;
    record_format(&(struct head){COMPONENT, cw_log_level_name(level), file, line}, level == CW_LOG_FATAL, format, args);
out:
    errno = saved_errno;
}

void cw_log_print(const char *component, const char *level, int is_fatal, const char *file, unsigned line,
                  const char *format, va_list args)
{
    int saved_errno = errno;

    log_init_once();
    if (filter_passes(file)) {
        errno = saved_errno;
        record_format(&(struct head){component, level, file, line}, is_fatal, format, args);
    }
    errno = saved_errno;
}

void cw_log_emit(enum cw_log_level level, const char *file, unsigned line, const char *function, const char *format,
                 ...)
{
    va_list args;

    va_start(args, format);
    cw_log_emit_args(level, file, line, function, format, args);
    va_end(args);
}

static void emit_asked(const char *file, unsigned line, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void emit_asked(const char *file, unsigned line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (!is_intercepted(CW_LOG_INFO, file, line, "", format, args)) {
        record_format(&(struct head){COMPONENT, cw_log_level_name(CW_LOG_INFO), file, line}, 0, format, args);
    }
    va_end(args);
}

void cw_log_asked(const char *file, unsigned line, const char *text)
{
    int saved_errno = errno;

    log_init_once();
    emit_asked(file, line, "%s", text);
    errno = saved_errno;
}

/* Counts a record; 0 when it is above the limit of this second. A race between threads passes at most one window's
 * worth too many. */
static int limit_passes(struct cw_log_limit *limit)
{
    uint64_t now_us = cw_env_wall_time_us();
    uint64_t start_us = atomic_load_explicit(&limit->window_us, memory_order_relaxed);

    if (now_us < start_us || now_us - start_us >= 1000000u) {
        if (atomic_compare_exchange_strong_explicit(&limit->window_us, &start_us, now_us, memory_order_relaxed,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&limit->passed, 0, memory_order_relaxed);
        }
    }
    if (atomic_fetch_add_explicit(&limit->passed, 1, memory_order_relaxed) < CW_LOG_LIMIT_PER_SECOND) {
        return 1;
    }
    atomic_fetch_add_explicit(&limit->suppressed, 1, memory_order_relaxed);
    return 0;
}

void cw_log_emit_limited(struct cw_log_limit *limit, enum cw_log_level level, const char *file, unsigned line,
                         const char *function, const char *format, ...)
{
    unsigned suppressed;
    va_list args;

    log_init_once();
    if ((int)level > atomic_load_explicit(&cw_log_threshold, memory_order_relaxed) || !limit_passes(limit)) {
        return;
    }
    va_start(args, format);
    cw_log_emit_args(level, file, line, function, format, args);
    va_end(args);
    suppressed = atomic_exchange_explicit(&limit->suppressed, 0, memory_order_relaxed);
    if (suppressed > 0) {
        cw_log_emit(level, file, line, function, "%u further records like this one were suppressed", suppressed);
    }
}
