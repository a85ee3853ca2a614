/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The poller of os/poll.h on epoll, eventfd and timerfd. The eventfd is registered with a NULL pointer so that a
 * dispatch can distinguish it from items. A poller without a signal makes the epoll instance for its first descriptor:
 * a worker whose transports have no descriptor has no epoll instance. An item that is removed during a dispatch is also
 * removed from the batch of events in progress. The timer is set to the earliest alarm, or earlier if that alarm was
 * cancelled since. A dispatch fires alarms by the clock, so a program that spins needs no timer.
 */
#include "os/poll.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/log.h"
#include "os/clock.h"

#define BATCH               64
#define ALARMS_PER_DISPATCH 64
#define EMPTY_BATCHES       128 /* more than unauthenticated peers and lingering connections can fill */

struct cw_poller {
    int epoll_fd;
    int signal_fd;
    struct cw_poll_item timer;      /* fd -1: none */
    uint64_t timer_ns;              /* when it expires; 0: never */
    int sleeping;                   /* cw_poller_sleep */
    struct cw_alarm_heap alarms;
    struct cw_alarm_heap lazy;      /* alarms that do not arm the timer */
    int batch_next;                 /* the first entry of batch whose callback has not run; batch_count outside of a
                                     * dispatch */
    int batch_count;
    struct epoll_event batch[BATCH];
};

static uint32_t to_epoll(unsigned events)
{
    return ((events & CW_POLL_READ) ? (uint32_t)EPOLLIN : 0u) | ((events & CW_POLL_WRITE) ? (uint32_t)EPOLLOUT : 0u);
}

static unsigned from_epoll(uint32_t events)
{
    return ((events & EPOLLIN) ? CW_POLL_READ : 0u) | ((events & EPOLLOUT) ? CW_POLL_WRITE : 0u) |
           ((events & (EPOLLERR | EPOLLHUP)) ? CW_POLL_HANGUP : 0u);
}

/* The dispatch rearms the timer after its alarms have fired; that makes the timer's descriptor unreadable. */
static unsigned timer_ready(struct cw_poll_item *item CW_UNUSED, unsigned events CW_UNUSED)
{
    return 0;
}

static int make_set(struct cw_poller *poller)
{
    if (poller->epoll_fd < 0) {
        poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    }
    return poller->epoll_fd;
}

static const char *remedy(int error)
{
    if (error == EMFILE || error == ENFILE) {
        return "; raise the limit of open files (ulimit -n)";
    }
    return (error == ENOSPC) ? "; raise fs.epoll.max_user_watches" : "";
}

ucs_status_t cw_poller_new(int signal, struct cw_poller **poller_p)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    struct cw_poller *poller = calloc(1, sizeof(*poller));

    if (poller == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    poller->signal_fd = -1;
    poller->timer.fd = -1;
    poller->epoll_fd = -1;
    if (signal) {
        poller->signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (make_set(poller) < 0 || poller->signal_fd < 0 ||
            epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, poller->signal_fd, &event) < 0) {
            goto fail;
        }
        poller->timer.ready = timer_ready;
        poller->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
        if (poller->timer.fd < 0 || cw_poller_add(poller, &poller->timer, CW_POLL_READ) != UCS_OK) {
            goto fail;
        }
    }
    *poller_p = poller;
    return UCS_OK;

fail:
    cw_error("cannot create the descriptors of a worker's event set: %m%s", remedy(errno));
    cw_poller_free(poller);
    return UCS_ERR_IO_ERROR;
}

void cw_poller_free(struct cw_poller *poller)
{
    if (poller == NULL) {
        return;
    }
    if (poller->timer.fd >= 0) {
        close(poller->timer.fd);
    }
    if (poller->signal_fd >= 0) {
        close(poller->signal_fd);
    }
    if (poller->epoll_fd >= 0) {
        close(poller->epoll_fd);
    }
    free(poller);
}

int cw_poller_fd(struct cw_poller *poller)
{
    return make_set(poller);
}

int cw_poller_signal_fd(const struct cw_poller *poller)
{
    return poller->signal_fd;
}

ucs_status_t cw_poller_add(struct cw_poller *poller, struct cw_poll_item *item, unsigned events)
{
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = item};
    static struct cw_log_limit limit;

    item->events = events;
    if (make_set(poller) < 0 || epoll_ctl(poller->epoll_fd, EPOLL_CTL_ADD, item->fd, &event) < 0) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "cannot watch descriptor %d: %m%s", item->fd, remedy(errno));
        return (errno == ENOMEM || errno == ENOSPC) ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

void cw_poller_modify(struct cw_poller *poller, struct cw_poll_item *item, unsigned events)
{
    struct epoll_event event = {.events = to_epoll(events), .data.ptr = item};

    if (item->events == events) {
        return;
    }
    item->events = events;
    if (epoll_ctl(poller->epoll_fd, EPOLL_CTL_MOD, item->fd, &event) < 0) {
        cw_error("cannot change the events of descriptor %d: %m", item->fd);
    }
}

void cw_poller_remove(struct cw_poller *poller, struct cw_poll_item *item)
{
    int i;

    (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, item->fd, NULL);
    for (i = poller->batch_next; i < poller->batch_count; i++) {
        if (poller->batch[i].data.ptr == item) {
            poller->batch[i].data.ptr = NULL;
        }
    }
}

/* Arms the timer for the earliest alarm. */
static void set_timer(struct cw_poller *poller)
{
    const uint64_t at_ns = (poller->alarms.first == NULL) ? 0 : poller->alarms.first->at_ns;
    const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
                                                .tv_nsec = (long)(at_ns % 1000000000u)}};

    if (at_ns != poller->timer_ns && poller->timer.fd >= 0) {
        (void)timerfd_settime(poller->timer.fd, TFD_TIMER_ABSTIME, &when, NULL);
        poller->timer_ns = at_ns;
    }
}

void cw_poller_alarm_set_lazy(struct cw_poller *poller, struct cw_alarm *alarm, uint64_t at_ns)
{
    cw_poller_alarm_cancel(poller, alarm);
    alarm->lazy = 1;
    cw_alarm_insert(&poller->lazy, alarm, (at_ns == 0) ? 1 : at_ns);
}

void cw_poller_alarm_set(struct cw_poller *poller, struct cw_alarm *alarm, uint64_t at_ns)
{
    cw_poller_alarm_cancel(poller, alarm);
    alarm->lazy = 0;
    cw_alarm_insert(&poller->alarms, alarm, (at_ns == 0) ? 1 : at_ns);
    if (poller->timer_ns == 0 || at_ns < poller->timer_ns) {
        set_timer(poller);
    }
}

void cw_poller_alarm_cancel(struct cw_poller *poller, struct cw_alarm *alarm)
{
    if (cw_alarm_is_set(alarm)) {
        cw_alarm_remove(alarm->lazy ? &poller->lazy : &poller->alarms, alarm);
    }
}

static unsigned fire_due(struct cw_alarm_heap *heap, uint64_t now_ns)
{
    struct cw_alarm *alarm;
    unsigned done = 0, fired;

    for (fired = 0; fired < ALARMS_PER_DISPATCH; fired++) {
        alarm = heap->first;
        if (alarm == NULL || alarm->at_ns > now_ns) {
            break;
        }
        cw_alarm_remove(heap, alarm);
        done += alarm->fire(alarm);
    }
    return done;
}

static unsigned fire_alarms(struct cw_poller *poller)
{
    const uint64_t now_ns = cw_clock_ns();
    const unsigned done = fire_due(&poller->alarms, now_ns) + fire_due(&poller->lazy, now_ns);

    if (poller->timer_ns != 0 && poller->timer_ns <= now_ns) {
        set_timer(poller);
    }
    return done;
}

unsigned cw_poller_dispatch(struct cw_poller *poller)
{
    struct cw_poll_item *item;
    unsigned done = 0, batches = 0;
    uint32_t events;
    int count;

    poller->sleeping = 0;
    do { /* behind a batch without work, which unauthenticated peers can fill, work may be ready */
        count = (poller->epoll_fd < 0) ? 0 : epoll_wait(poller->epoll_fd, poller->batch, BATCH, 0);
        poller->batch_count = (count < 0) ? 0 : count;
        poller->batch_next = 0;
        while (poller->batch_next < poller->batch_count) {
            item = poller->batch[poller->batch_next].data.ptr;
            events = poller->batch[poller->batch_next].events;
            poller->batch_next++;
            if (item != NULL) {
                done += item->ready(item, from_epoll(events));
            }
        }
    } while (done == 0 && count == BATCH && ++batches < EMPTY_BATCHES);
    if (cw_unlikely(poller->alarms.first != NULL || poller->lazy.first != NULL || poller->timer_ns != 0)) {
        done += fire_alarms(poller);
    }
    return done;
}

int cw_poller_check(struct cw_poller *poller)
{
    struct epoll_event events[BATCH];
    int count, i, signalled;
    uint64_t value;

    set_timer(poller);
    count = (poller->epoll_fd < 0) ? 0 : epoll_wait(poller->epoll_fd, events, BATCH, 0);
    signalled = count == BATCH && poller->signal_fd >= 0; /* with a full batch the signal may be among the events that
                                                             did not fit */
    for (i = 0; i < count; i++) {
        signalled |= events[i].data.ptr == NULL;
    }
    if (signalled) {
        (void)!read(poller->signal_fd, &value, sizeof(value));
    }
    return count > 0;
}

bool cw_poller_is_ready(const struct cw_poller *poller)
{
    struct epoll_event event;

    return poller->epoll_fd >= 0 && epoll_wait(poller->epoll_fd, &event, 1, 0) > 0;
}

ucs_status_t cw_poller_signal(struct cw_poller *poller)
{
    const uint64_t one = 1;
    int saved = errno;
    ssize_t ret;

    do {
        ret = write(poller->signal_fd, &one, sizeof(one));
    } while (ret < 0 && errno == EINTR);
    /* EAGAIN: the counter is at its end, so the descriptor is readable already */
    ret = (ret < 0 && errno != EAGAIN) ? -1 : 0;
    errno = saved;
    return (ret < 0) ? UCS_ERR_IO_ERROR : UCS_OK;
}

void cw_poller_sleep(struct cw_poller *poller)
{
    poller->sleeping = 1;
}

void cw_poller_wake(struct cw_poller *poller)
{
    if (cw_unlikely(poller->sleeping)) {
        poller->sleeping = 0;
        (void)cw_poller_signal(poller);
    }
}

ucs_status_t cw_poller_wait(struct cw_poller *poller, int timeout_ms)
{
    struct pollfd fd = {.fd = poller->epoll_fd, .events = POLLIN};
    uint64_t end_ns = cw_clock_ns() + (uint64_t)((timeout_ms < 0) ? 0 : timeout_ms) * 1000000u, now_ns;
    int ret;

    while ((ret = poll(&fd, 1, timeout_ms)) < 0 && errno == EINTR) {
        if (timeout_ms > 0) {
            now_ns = cw_clock_ns();
            timeout_ms = (now_ns < end_ns) ? (int)((end_ns - now_ns + 999999u) / 1000000u) : 0;
        }
    }
    if (ret < 0) {
        cw_error("cannot wait for events of a worker: %m");
        return UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

/* An edge is reported for each descriptor of the set that becomes ready, also while another one is ready already. So no
 * event is lost after cw_poller_check found nothing. */
ucs_status_t cw_poller_attach(struct cw_poller *poller, int epoll_fd, void *user_data, int edge)
{
    struct epoll_event event = {.events = EPOLLIN | (edge ? (uint32_t)EPOLLET : 0u),
                              .data.ptr = user_data};

    if (make_set(poller) < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, poller->epoll_fd, &event) < 0) {
        cw_error("cannot add the worker's events to the program's descriptor %d: %m; event_fd must be an epoll "
                 "descriptor", epoll_fd);
        return (errno == ENOMEM || errno == ENOSPC) ? UCS_ERR_NO_MEMORY : UCS_ERR_IO_ERROR;
    }
    return UCS_OK;
}

void cw_poller_detach(struct cw_poller *poller, int epoll_fd)
{
    (void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, poller->epoll_fd, NULL);
}
