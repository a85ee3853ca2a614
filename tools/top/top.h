/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parts of ucx_top. main.c reads the command line and the workers, text.c prints them for programs, table.c for people,
 * queues.c prints receives and messages, screen.c keeps the terminal.
 */
#ifndef CW_TOP_H
#define CW_TOP_H

#include "watch.h"

#include <stdbool.h>
#include <stdio.h>

/* One object with all counters, on one line. */
void cw_top_json(FILE *file, const struct cw_watch_list *list);
/* The text that Prometheus collects. */
void cw_top_prometheus(FILE *file, const struct cw_watch_list *list);

/* By what the lines of the table are sorted: a column, the largest first, or the number of the process. */
enum cw_top_order { CW_TOP_PID, CW_TOP_MESSAGES, CW_TOP_BYTES, CW_TOP_ERRORS };

/*
 * One line per worker under a heading, and one with the sums of several. `before` NULL: what was counted since the
 * worker began; else what came per second since then. At most `height` lines of at most `width` columns; 0: as many as
 * there are.
 */
void cw_top_table(FILE *file, const struct cw_watch_list *list, const struct cw_watch_list *before,
                  enum cw_top_order order, unsigned width, unsigned height);

/* Asks these workers for their posted receives and unexpected messages, and prints them. false: one did not answer,
 * which was said. */
bool cw_top_queues(const struct cw_watch_list *list);

/* Takes the terminal; it is given back by cw_screen_end, also when a signal ends the program. */
void cw_screen_begin(void);
void cw_screen_end(void);
void cw_screen_size(unsigned *width, unsigned *height);
/* Waits; true when the user wants to leave, by a signal or a key. Another key, which goes to *key (else 0), and a
 * resized terminal end the wait early. */
bool cw_screen_wait(unsigned milliseconds, char *key);

#endif
