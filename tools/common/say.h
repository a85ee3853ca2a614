/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of a tool for its user: error sentences on stderr, so that stdout holds results alone; processor
 * binding; and a watchdog that ends a program stuck inside one library call.
 *
 * Callers: all tools.
 */
#ifndef CW_TOOLS_SAY_H
#define CW_TOOLS_SAY_H

#include <stdbool.h>
#include <stddef.h>

/* Sets the name that starts each line, and whether errors are kept quiet. */
void cw_say_setup(const char *program, bool quiet);

/* One line "program: ERROR sentence" on stderr, flushed after what stdout holds. */
void cw_say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * One error line about an option that getopt_long() has refused with ':' (its letters begin with ':', perhaps behind
 * '+'; opterr is 0) or '?'.
 */
void cw_say_option(int letter, char *const *argv);

/* What later errors begin with, such as "file:3: "; it must outlive them. NULL: nothing. */
void cw_say_place(const char *text);

/* One line "program: sentence" on stderr. */
void cw_say_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Binds the process to the processors of a list such as "0,2-3". NULL on success, else what is wrong (a static
 * text or strerror()).
 */
const char *cw_cpu_bind(const char *list);

/* Binds the process to the index-th processor it may use now; false when it may use fewer. */
bool cw_cpu_bind_nth(unsigned index);

/* How many processors this process may use. */
unsigned cw_cpu_count(void);

/*
 * Ends the process with `exit_status` and one sentence when cw_watchdog_beat() is not called for `seconds`
 * (up to twice that). 0 switches the watchdog off. Uses SIGALRM.
 */
void cw_watchdog_start(unsigned seconds, int exit_status);
void cw_watchdog_beat(void);

#endif
