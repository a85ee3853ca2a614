/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logging of the library as programs take part in it: handlers that see every line, and logging through it.
 * Every function here may be called by any thread at any time, before the first call of UCP too, and from a
 * constructor or destructor of the program's own; none fails.
 */
#ifndef UCS_LOG_DEF_H
#define UCS_LOG_DEF_H

#include <stdarg.h>
#include <ucs/config/types.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Fate of a line after a handler has seen it. */
typedef enum {
    UCS_LOG_FUNC_RC_STOP,    /**< Nothing: the handler kept it. */
    UCS_LOG_FUNC_RC_CONTINUE /**< The handler pushed before this one sees it, and at last the library prints it. */
} ucs_log_func_rc_t;

/**
 * A handler. It is called by the thread that logs, while the library may hold locks of its own: it must not call UCP.
 *
 * @param file       Source file, for a message of the library without directories.
 * @param line       Line in it.
 * @param function   Function that logs; may be empty.
 * @param level      Level of the line.
 * @param comp_conf  The part that logs: its name, for one, is "UCX" for the library. Valid during the call.
 * @param message    A format as of printf().
 * @param ap         Its arguments. The handler may read them once.
 * @return Whether the line goes on to the next handler.
 */
typedef ucs_log_func_rc_t (*ucs_log_func_t)(const char *file, unsigned line, const char *function,
                                            ucs_log_level_t level, const ucs_log_component_config_t *comp_conf,
                                            const char *message, va_list ap);

/**
 * Puts a handler in front of those that are there. The first entry is the library's printer; beyond 32 entries in all a
 * handler is dropped silently. The library logs through it lines of every UCP context of the process that pass
 * UCX_LOG_LEVEL and UCX_LOG_FILE_FILTER.
 *
 * @param handler  The handler; it stays the program's and must stay loaded until it was popped.
 */
void ucs_log_push_handler(ucs_log_func_t handler);

/**
 * Takes out the newest entry, at last the library's printer: nothing is printed then. With none left it does nothing.
 * The handler may still be in a call of another thread.
 */
void ucs_log_pop_handler(void);

/**
 * Logs a line of the program's: shows it to the handlers and prints it where the library prints.
 *
 * @param file       Source file; directories are left out in print.
 * @param line       Line in it.
 * @param function   Function that logs.
 * @param level      Level. The program has compared it with its own; the library prints the line only if the level is
 *                   not above that of comp_conf, or is UCS_LOG_LEVEL_PRINT.
 * @param comp_conf  The part of the program that logs; borrowed for the call. NULL: as if the library itself did.
 * @param format     A format as of printf(), and its arguments behind it. No line feed at the end.
 */
void ucs_log_dispatch(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                      ucs_log_component_config_t *comp_conf, const char *format, ...) UCS_F_PRINTF(6, 7);

#pragma GCC visibility pop
END_C_DECLS

#endif
