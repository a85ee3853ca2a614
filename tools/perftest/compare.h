/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --compare LIB: the same test in turn (A B A B) with the library that this process has loaded and with another one,
 * each time in fresh processes of this machine.
 *
 * Callers: main.c.
 */
#ifndef CW_PERF_COMPARE_H
#define CW_PERF_COMPARE_H

#include "options.h"

/* Runs the comparison of the command line and prints it. 0, or -1 after an error line. */
int cw_compare_run(const struct cw_perf_options *options, char **argv);

#endif
