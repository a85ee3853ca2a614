/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A set of descriptors with a callback each, on epoll. Each worker has one: transports register here, it dispatches,
 * and its descriptor is what a sleeping program polls. It also manages alarms. Not thread safe: called with the worker
 * entered, except cw_poller_signal.
 */
#ifndef CW_OS_POLL_H
#define CW_OS_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alarm.h"
#include "ucs/type/status.h"

enum cw_poll_events {
    CW_POLL_READ = 1,
    CW_POLL_WRITE = 2,
    CW_POLL_HANGUP = 4 /* always reported, never requested */
};

/* Embedded in its owner; must not move in memory while registered. */
struct cw_poll_item {
    int fd;
    unsigned events; /* the requested events */
    /* Returns the number of events that the program may wait for: communication and its end, not unauthenticated peers
     * that were rejected. It is the worker's count. May remove its own or any other item. */
    unsigned (*ready)(struct cw_poll_item *item, unsigned events);
};

struct cw_poller;

/* With `signal`, for a worker whose program sleeps: an epoll instance, an eventfd for cw_poller_signal and a timer.
 * They are made at once, because alarms matter most when no descriptors are left. Without `signal` the epoll instance
 * is made when the first descriptor is added. All are close-on-exec. */
ucs_status_t cw_poller_new(int signal, struct cw_poller **poller_p);
void cw_poller_free(struct cw_poller *poller);

/* The descriptor that becomes readable when any registered one is ready or a signal is pending; -1: it cannot be
 * made. */
int cw_poller_fd(struct cw_poller *poller);
/* The eventfd behind cw_poller_signal; -1 without `signal`. Never pass it to another process, which could make calls of
 * this one block. */
int cw_poller_signal_fd(const struct cw_poller *poller);

/* Level triggered. The caller sets item->fd and item->ready, item->events is set here. UCS_ERR_NO_MEMORY,
 * UCS_ERR_IO_ERROR. */
ucs_status_t cw_poller_add(struct cw_poller *poller, struct cw_poll_item *item, unsigned events);
void cw_poller_modify(struct cw_poller *poller, struct cw_poll_item *item, unsigned events);
/* Safe inside a dispatch, also for an item still queued in it. Call before the descriptor is closed. */
void cw_poller_remove(struct cw_poller *poller, struct cw_poll_item *item);

/* From at_ns on (by cw_clock_ns) the next dispatch calls alarm->fire, which the caller has set, and the poller's
 * descriptor is readable if there is a timer. Moves an alarm that is set. A system call only if the timer would expire
 * too late. */
void cw_poller_alarm_set(struct cw_poller *poller, struct cw_alarm *alarm, uint64_t at_ns);
/* As cw_poller_alarm_set, but the alarm wakes no sleeper: the first dispatch that runs for another reason fires it. */
void cw_poller_alarm_set_lazy(struct cw_poller *poller, struct cw_alarm *alarm, uint64_t at_ns);
/* A no-op for an alarm that is not set. Makes no system call: a sleeper may be woken once spuriously, unless
 * cw_poller_check was called since. */
void cw_poller_alarm_cancel(struct cw_poller *poller, struct cw_alarm *alarm);

/* Runs callbacks of items that are ready and alarms that are due now, without blocking; returns the sum of their
 * results. After 0 none is left that was ready when the call began, as far as their number is bounded. Consumes no
 * signal. */
unsigned cw_poller_dispatch(struct cw_poller *poller);

/* Whether an item is ready, or an alarm is due and there is a timer. A pending signal counts and is consumed;
 * descriptors stay ready until their callbacks have run. */
int cw_poller_check(struct cw_poller *poller);

/* Whether the descriptor is readable now. Consumes nothing; any thread. */
bool cw_poller_is_ready(const struct cw_poller *poller);

/* Makes the descriptor readable. Any thread, signal handlers included; never blocks. */
ucs_status_t cw_poller_signal(struct cw_poller *poller);

/* The program is about to sleep on the descriptor. */
void cw_poller_sleep(struct cw_poller *poller);

/* Announces work that no descriptor reports: a program that sleeps since cw_poller_sleep is woken, once. A dispatch
 * ends the state that cw_poller_sleep began. */
void cw_poller_wake(struct cw_poller *poller);

/* Sleeps until the descriptor is readable or timeout_ms passed (-1: no limit); EINTR is retried. */
ucs_status_t cw_poller_wait(struct cw_poller *poller, int timeout_ms);

/* Adds the poller to the program's epoll descriptor with this data pointer, or removes it. `edge`: each event
 * is reported once, not as long as the poller is readable. */
ucs_status_t cw_poller_attach(struct cw_poller *poller, int epoll_fd, void *user_data, int edge);
void cw_poller_detach(struct cw_poller *poller, int epoll_fd);

#endif
