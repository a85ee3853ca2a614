/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many warnings and errors the library would have logged, and the last one's text; nothing is printed meanwhile.
 */
#ifndef CW_TEST_UNIT_TEST_LOG_LINES_H
#define CW_TEST_UNIT_TEST_LOG_LINES_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

static unsigned log_lines;
static char log_text[1024];

static inline int log_count(const char *file, unsigned line, const char *function, enum cw_log_level level,
                            const char *format, va_list args)
{
    char text[sizeof(log_text)];

    (void)file, (void)line, (void)function;
    (void)vsnprintf(text, sizeof(text), format, args);
    if (level <= CW_LOG_WARN) {
        log_lines++;
        strcpy(log_text, text);
    }
    return 1;
}

static inline void log_count_begin(void)
{
    log_lines = 0;
    cw_log_set_interceptor(log_count);
}

static inline void log_count_end(void)
{
    cw_log_set_interceptor(NULL);
}

#endif
