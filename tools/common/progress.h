/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A line on the terminal that shows how far long work is. It is on stderr and only where stderr is a terminal, so that
 * neither files nor pipes ever hold any of it; it goes away before anything else is said.
 *
 * Callers: the performance tool; say.c. Any thread may call.
 */
#ifndef CW_TOOLS_PROGRESS_H
#define CW_TOOLS_PROGRESS_H

#include <stdbool.h>

/* Switches the line on if it is wanted and stderr is a terminal that can erase a line. */
void cw_progress_setup(bool wanted);

/* Replaces the line. */
void cw_progress_show(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Erases the line. */
void cw_progress_clear(void);

#endif
