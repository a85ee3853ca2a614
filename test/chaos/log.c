/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of chaos.h that look into the library's log. */
#include "chaos.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/log.h"

static unsigned log_lines;
static char log_last[512];

static int watch(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                 va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    if (level <= CW_LOG_WARN) {
        log_lines++;
        (void)vsnprintf(log_last, sizeof(log_last), format, args);
    }
    return getenv("CHAOS_SHOW_LOG") == NULL;
}

void cw_log_watch(void)
{
    cw_log_set_interceptor(watch);
}

unsigned cw_log_lines(void)
{
    return log_lines;
}

const char *cw_log_last(void)
{
    return log_last;
}
