/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error signals and fatal errors of programs.
 *
 * Invariants: no signal handler is ever installed, so none is removed. The process ends only where a program calls the
 * function whose purpose that is.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucs/debug/assert.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include "compat/ucs/options.h"

void ucs_debug_disable_signals(void)
{
    (void)cw_ucs_log_component(); /* often the first call: from here on ucs_global_opts shows the real level */
}

void ucs_debug_disable_signal(int signum)
{
    (void)signum;
    (void)cw_ucs_log_component();
}

void ucs_fatal_error_format(const char *file, unsigned line, const char *function, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    ucs_log_dispatch(file, line, function, UCS_LOG_LEVEL_FATAL, cw_ucs_log_component(), "%s", text);
    abort();
}
