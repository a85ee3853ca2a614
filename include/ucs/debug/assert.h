/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ending the process with a message, for the assertions of programs. The library itself never calls it.
 */
#ifndef UCS_ASSERT_H
#define UCS_ASSERT_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/**
 * Prints a line at level FATAL, through the log handlers as well, and aborts the process. Any thread may call it.
 *
 * @param file      Source file.
 * @param line      Line in it.
 * @param function  Function that failed.
 * @param format    A format as of printf(), and its arguments behind it.
 */
void ucs_fatal_error_format(const char *file, unsigned line, const char *function, const char *format, ...)
    UCS_F_NORETURN UCS_F_PRINTF(4, 5);

#pragma GCC visibility pop
END_C_DECLS

#endif
