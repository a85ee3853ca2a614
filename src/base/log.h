/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The log: one record per call, filtered by a process-wide level, written whole to stdout, stderr or a file.
 *
 * Works before the configuration was read: the level, the file and the filter are then taken from UCX_LOG_LEVEL,
 * UCX_LOG_FILE and UCX_LOG_FILE_FILTER; config/global.c corrects them with the setters below. All functions are thread
 * safe, never fail, never abort and keep errno. Not for signal handlers.
 */
#ifndef CW_BASE_LOG_H
#define CW_BASE_LOG_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/compiler.h"

/* The numbers are those of ucs_log_level_t. */
enum cw_log_level {
    CW_LOG_FATAL = 0,
    CW_LOG_ERROR,
    CW_LOG_WARN,
    CW_LOG_DIAG,
    CW_LOG_INFO,
    CW_LOG_DEBUG,
    CW_LOG_TRACE,
    CW_LOG_TRACE_REQ,
    CW_LOG_TRACE_DATA,
    CW_LOG_TRACE_ASYNC,
    CW_LOG_TRACE_FUNC,
    CW_LOG_TRACE_POLL,
    CW_LOG_LAST
};

#define CW_LOG_DEFAULT_LEVEL CW_LOG_WARN

/* The name of a source file without its directories. */
#ifdef __FILE_NAME__
#define CW_LOG_SOURCE __FILE_NAME__
#else
#define CW_LOG_SOURCE __FILE__
#endif

/* Records up to this level pass. CW_LOG_LAST until the first use: everything then enters cw_log_emit, which determines
 * the level. */
extern _Atomic int cw_log_threshold;

#define cw_log_enabled(_level) \
    cw_unlikely((int)(_level) <= atomic_load_explicit(&cw_log_threshold, memory_order_relaxed))

/* The arguments are evaluated only when the level is enabled. No newline at the end of the text; inner ones start
 * further lines. */
#define cw_log(_level, ...)                                                          \
    do {                                                                             \
        if (cw_log_enabled(_level)) {                                                \
            cw_log_emit(_level, CW_LOG_SOURCE, __LINE__, __func__, __VA_ARGS__);     \
        }                                                                            \
    } while (0)

#define cw_fatal(...)       cw_log(CW_LOG_FATAL, __VA_ARGS__) /* goes to stderr; does not end the process */
#define cw_error(...)       cw_log(CW_LOG_ERROR, __VA_ARGS__)
#define cw_warn(...)        cw_log(CW_LOG_WARN, __VA_ARGS__)
#define cw_diag(...)        cw_log(CW_LOG_DIAG, __VA_ARGS__)
#define cw_info(...)        cw_log(CW_LOG_INFO, __VA_ARGS__)
#define cw_debug(...)       cw_log(CW_LOG_DEBUG, __VA_ARGS__)
#define cw_trace(...)       cw_log(CW_LOG_TRACE, __VA_ARGS__)
#define cw_trace_req(...)   cw_log(CW_LOG_TRACE_REQ, __VA_ARGS__)
#define cw_trace_data(...)  cw_log(CW_LOG_TRACE_DATA, __VA_ARGS__)
#define cw_trace_async(...) cw_log(CW_LOG_TRACE_ASYNC, __VA_ARGS__)
#define cw_trace_poll(...)  cw_log(CW_LOG_TRACE_POLL, __VA_ARGS__)

void cw_log_emit(enum cw_log_level level, const char *file, unsigned line, const char *function, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));
void cw_log_emit_args(enum cw_log_level level, const char *file, unsigned line, const char *function,
                      const char *format, va_list args) __attribute__((format(printf, 5, 0)));

/* A record of another component, whose level check passed already, under a level name of its own; file filter and
 * destination are the log's. It bypasses the interceptor. */
void cw_log_print(const char *component, const char *level, int is_fatal, const char *file, unsigned line,
                  const char *format, va_list args) __attribute__((format(printf, 6, 0)));

/* A line that the user requested by a dedicated setting: an INFO record that passes at every level. */
void cw_log_asked(const char *file, unsigned line, const char *text);

/*
 * For lines that a peer or an unauthenticated peer can cause at any rate: at most CW_LOG_LIMIT_PER_SECOND records per
 * second pass one limit; the first one after a pause reports how many were dropped. A limit is a static or embedded
 * variable, zero at the start, shared by any number of threads.
 */
#define CW_LOG_LIMIT_PER_SECOND 10u

struct cw_log_limit {
    _Atomic uint64_t window_us;  /* start of the running second */
    _Atomic unsigned passed;     /* records in it */
    _Atomic unsigned suppressed; /* records dropped and not yet reported */
};

#define cw_log_ratelimited(_limit, _level, ...)                                                  \
    do {                                                                                         \
        if (cw_log_enabled(_level)) {                                                            \
            cw_log_emit_limited(_limit, _level, CW_LOG_SOURCE, __LINE__, __func__, __VA_ARGS__); \
        }                                                                                        \
    } while (0)

void cw_log_emit_limited(struct cw_log_limit *limit, enum cw_log_level level, const char *file, unsigned line,
                         const char *function, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Also disables the lazy reading of the environment, so that the caller's settings stay. */
void cw_log_set_level(enum cw_log_level level);
enum cw_log_level cw_log_get_level(void);

/*
 * Destination of all further records. `pattern`: "" or "stdout", "stderr", "file:<path>" or a path, with %p pid, %h
 * host, %c cpu, %t time, %u user and %e program. A file is appended to; before it grows beyond max_size
 * (UINT64_MAX: no limit) it is renamed to <path>.1, older ones moving up to <path>.<rotate>; with rotate 0 it is
 * started again. A file that cannot be opened: one ERROR line, and stdout.
 */
void cw_log_set_file(const char *pattern, uint64_t max_size, unsigned rotate);

/* Only records of source files whose name matches the glob pass; "" and "*" match all of them. Truncated to 127
 * characters. */
void cw_log_set_filter(const char *glob);

/* WARN, TRACE ..., as printed by the configuration; the level of a name, case-insensitive, or -1. */
const char *cw_log_level_name(enum cw_log_level level);
int cw_log_level_parse(const char *name);

/*
 * Called for each record that passed level and filter before it is written; non-zero suppresses it. NULL removes it.
 * base/log_join.h installs the handlers of libucs there, unless a test has installed another one. May be called from
 * several threads at once; must not log.
 */
typedef int (*cw_log_interceptor_fn)(const char *file, unsigned line, const char *function, enum cw_log_level level,
                                     const char *format, va_list args);
void cw_log_set_interceptor(cw_log_interceptor_fn interceptor);
/* Sets it if there is none. */
void cw_log_offer_interceptor(cw_log_interceptor_fn interceptor);

#endif
