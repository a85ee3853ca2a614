/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stack of log handlers, and what programs log through this library. Programs may call it from the start of the
 * process on; libucp uses compat/ucs/share.h.
 *
 * Invariants: the entry at the bottom is the library's own printer, until it is popped, too. A handler runs without any
 * lock held, so that it may push, pop and log; a popped handler may still run once in another thread.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <ucs/debug/log_def.h>

#include "base/log.h"
#include "compat/ucs/options.h"
#include "compat/ucs/share.h"

#define MAX_HANDLERS 32u /* the printer is one of the entries */

static ucs_log_func_rc_t print(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                               const ucs_log_component_config_t *comp_conf, const char *message, va_list ap);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* held while the stack changes */
static _Atomic(ucs_log_func_t) handlers[MAX_HANDLERS] = {print};
static _Atomic unsigned num_handlers = 1;

/* The program compared the level with its own component's, which may have changed since, or did not compare. */
static ucs_log_func_rc_t print(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                               const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    const char *name = (level == UCS_LOG_LEVEL_PRINT) ? "PRINT" : cw_log_level_name((enum cw_log_level)level);

    (void)function;
    if (level == UCS_LOG_LEVEL_PRINT || level <= comp_conf->log_level) {
        cw_log_print(comp_conf->name, name, level == UCS_LOG_LEVEL_FATAL, file, line, message, ap);
    }
    return UCS_LOG_FUNC_RC_STOP;
}

/* Calls the handlers, the newest first. Returns whether the caller must print the line. */
static int offer(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                 const ucs_log_component_config_t *comp_conf, const char *message, va_list ap)
{
    unsigned index = atomic_load_explicit(&num_handlers, memory_order_acquire);
    ucs_log_func_t handler;
    ucs_log_func_rc_t rc;
    va_list copy;

    while (index-- > 0) {
        handler = atomic_load_explicit(&handlers[index], memory_order_relaxed);
        if (handler == print) {
            return 1;
        }
        va_copy(copy, ap);
        rc = handler(file, line, function, level, comp_conf, message, copy);
        va_end(copy);
        if (rc == UCS_LOG_FUNC_RC_STOP) {
            return 0;
        }
    }
    return 0;
}

void ucs_log_push_handler(ucs_log_func_t handler)
{
    unsigned number;

    (void)pthread_mutex_lock(&lock);
    number = atomic_load_explicit(&num_handlers, memory_order_relaxed);
    if (handler != NULL && number < MAX_HANDLERS) {
        atomic_store_explicit(&handlers[number], handler, memory_order_relaxed);
        atomic_store_explicit(&num_handlers, number + 1, memory_order_release); /* pairs with the load in offer() */
    }
    (void)pthread_mutex_unlock(&lock);
}

void ucs_log_pop_handler(void)
{
    unsigned number;

    (void)pthread_mutex_lock(&lock);
    number = atomic_load_explicit(&num_handlers, memory_order_relaxed);
    if (number > 0) {
        atomic_store_explicit(&num_handlers, number - 1, memory_order_release);
    }
    (void)pthread_mutex_unlock(&lock);
}

void ucs_log_dispatch(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                      ucs_log_component_config_t *comp_conf, const char *format, ...)
{
    const ucs_log_component_config_t *own = cw_ucs_log_component();
    int saved_errno = errno;
    va_list args;

    if (comp_conf == NULL) {
        comp_conf = (ucs_log_component_config_t *)(uintptr_t)own;
    }
    va_start(args, format);
    if (offer(file, line, function, level, comp_conf, format, args)) {
        errno = saved_errno; /* for %m */
        (void)print(file, line, function, level, comp_conf, format, args);
    }
    va_end(args);
    errno = saved_errno;
}

int ucs_cw_log_offer(const char *file, unsigned line, const char *function, int level, const char *format,
                     va_list args)
{
    return !offer(file, line, function, (ucs_log_level_t)level, cw_ucs_log_component(), format, args);
}
