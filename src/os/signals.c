/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/signals.h by sigaction(2), and by the list of loaded libraries, which is in load order.
 */
#define _GNU_SOURCE
#include "os/signals.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

/* A search through the loaded libraries. */
struct search {
    uintptr_t inside;
    uintptr_t handler;
    int is_there; /* the library of `inside` was passed */
    int is_found; /* the handler lies in it, or behind it */
};

static bool holds(const struct dl_phdr_info *library, uintptr_t address)
{
    size_t i;

    for (i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && address - (library->dlpi_addr + part->p_vaddr) < part->p_memsz) {
            return true;
        }
    }
    return false;
}

static int scan_library(struct dl_phdr_info *library, size_t size, void *arg)
{
    struct search *search = arg;

    (void)size;
    search->is_there = search->is_there || holds(library, search->inside);
    search->is_found = search->is_there && holds(library, search->handler);
    return search->is_found;
}

/* The address of a handler of either form. */
static uintptr_t handler_of(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) ? (uintptr_t)action->sa_sigaction : (uintptr_t)action->sa_handler;
}

static bool is_theirs(const struct sigaction *action, const void *inside)
{
    struct search search = {.inside = (uintptr_t)inside, .handler = handler_of(action)};

    (void)dl_iterate_phdr(scan_library, &search);
    return search.is_found;
}

void cw_signals_note(struct cw_signals *signals)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t waiting;
    size_t i;
    int number;

    sigfillset(&waiting);
    for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        sigdelset(&waiting, faults[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &waiting, &signals->blocked);
    memset(signals->actions, 0, sizeof(signals->actions));
    for (number = 1; number < NSIG; number++) {
        (void)sigaction(number, NULL, &signals->actions[number]);
    }
}

void cw_signals_put_back(const struct cw_signals *signals, const void *inside)
{
    struct sigaction now;
    int number;

    for (number = 1; number < NSIG && inside != NULL; number++) {
        if (sigaction(number, NULL, &now) == 0 && handler_of(&now) != handler_of(&signals->actions[number]) &&
            is_theirs(&now, inside)) {
            (void)sigaction(number, &signals->actions[number], NULL);
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &signals->blocked, NULL);
}

void cw_signals_hold_pipe(struct cw_signals_pipe *held)
{
    sigset_t pipe, pending;

    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    held->was_pending = sigismember(&pending, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &held->before);
}

void cw_signals_release_pipe(const struct cw_signals_pipe *held, int raised)
{
    const struct timespec now = {0, 0};
    const int error = errno;
    sigset_t pipe;

    if (raised && !held->was_pending) {
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        (void)sigtimedwait(&pipe, NULL, &now);
    }
    (void)pthread_sigmask(SIG_SETMASK, &held->before, NULL);
    errno = error;
}
