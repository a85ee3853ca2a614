/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The signals of the process around calls of libraries that install handlers of their own. Two such periods must not
 * overlap.
 */
#ifndef CW_OS_SIGNALS_H
#define CW_OS_SIGNALS_H

#include <signal.h>

struct cw_signals {
    sigset_t blocked;
    struct sigaction actions[NSIG];
};

/* Notes all dispositions, and holds back the signals that may wait: no such handler runs during the period, and threads
 * that begin in it take no signal from the program. */
void cw_signals_note(struct cw_signals *signals);
/* Puts back the dispositions whose new handler lies in the library of the address `inside` or in one that was loaded
 * after it: a handler of the program that another thread set meanwhile stays. `inside` NULL: none is put back. */
void cw_signals_put_back(const struct cw_signals *signals, const void *inside);

#endif
