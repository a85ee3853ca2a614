/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Error signals. Causeway installs no signal handler, so there is none to remove and the calls do
 * nothing. Any thread may make them at any time, also several times.
 */
#ifndef UCS_DEBUG_H
#define UCS_DEBUG_H

#include <ucs/sys/compiler_def.h>

BEGIN_C_DECLS
#pragma GCC visibility push(default)

/** Removes the library's handlers of all signals. */
void ucs_debug_disable_signals(void);

/**
 * Removes the library's handler of one signal.
 *
 * @param signum  Number of the signal; any number is accepted.
 */
void ucs_debug_disable_signal(int signum);

#pragma GCC visibility pop
END_C_DECLS

#endif
