/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The line that shows how far long work is.
 *
 * Callers: the performance tool; say.c.
 */
#define _GNU_SOURCE
#include "progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool wanted_here;
static bool shown; /* under the lock of stderr */

void cw_progress_setup(bool wanted)
{
    const char *terminal = getenv("TERM");

    wanted_here = wanted && isatty(STDERR_FILENO) && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void cw_progress_show(const char *format, ...)
{
    va_list arguments;

    if (!wanted_here) {
        return;
    }
    fflush(stdout);
    flockfile(stderr);
    fputs("\r", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs("\033[K", stderr);
    fflush(stderr);
    shown = true;
    funlockfile(stderr);
}

void cw_progress_clear(void)
{
    if (!wanted_here) {
        return;
    }
    flockfile(stderr);
    if (shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    shown = false;
    funlockfile(stderr);
}
