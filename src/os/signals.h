/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protects the signals of the process around calls of libraries that install handlers of their own. Two such periods
 * must not overlap. Also for one signal of one write.
 */
#ifndef CW_OS_SIGNALS_H
#define CW_OS_SIGNALS_H

#include <signal.h>

struct cw_signals {
    sigset_t blocked;
    struct sigaction actions[NSIG];
};

/* Saves all dispositions, and blocks the signals that may wait: no such handler runs during the period, and threads
 * that start in it receive no signal for the program. */
void cw_signals_note(struct cw_signals *signals);
/* Restores the dispositions whose new handler lies in the library of the address `inside` or in one that was loaded
 * after it: a handler of the program that another thread set meanwhile stays. `inside` NULL: none is restored. */
void cw_signals_put_back(const struct cw_signals *signals, const void *inside);

/* SIGPIPE held back in this thread, around a write that a library makes. `raised`: the write failed with EPIPE, so its
 * signal is discarded, unless one was pending before. Both preserve errno. */
struct cw_signals_pipe {
    sigset_t before;
    int was_pending;
};

void cw_signals_hold_pipe(struct cw_signals_pipe *held);
void cw_signals_release_pipe(const struct cw_signals_pipe *held, int raised);

#endif
