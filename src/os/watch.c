/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * os/watch.h.
 */
#include "os/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/compiler.h"
#include "base/log.h"
#include "os/clock.h"

#define NS_PER_S     UINT64_C(1000000000)
#define NS_PER_MS    UINT64_C(1000000)
#define MOST_S       32767u
#define MOST_ASKED   16u
#define DOUBTS       4u
#define DOUBT_NS     (10 * NS_PER_MS) /* before the first reconnect; then twice as long each time */
#define SHORT_NS     (5 * NS_PER_S)   /* shorter intervals are not left to the kernel */
#define PARTS        10u              /* of a short interval, after each of which the connection is checked */
#define SILENT_PARTS 6u               /* without an answer: the machine is silent */
#define ANEW_PARTS   2u               /* after each of which a new connection is tried */
#define LATE_PARTS   3u               /* by which a check is late: the silence was not seen by two of them */
#define READ_BYTES   1024u            /* of a watcher are read together */
#define MOST_BYTES   4096u            /* that a watcher sends while the process does not read */

#define SILENT "its machine stopped responding"

/* A connection that a peer made here. */
struct accepted {
    struct cw_list link; /* listener->accepted */
    struct cw_watch_listener *listener;
    struct cw_poll_item item;
};

static unsigned seconds(uint64_t ns)
{
    const uint64_t whole = ns / NS_PER_S;

    if (whole == 0) {
        return 1;
    }
    return (whole < MOST_S) ? (unsigned)whole : MOST_S;
}

/* Half of the interval passes before the kernel's first probe, and the last one ends before the interval. */
static struct cw_net_keepalive questions(uint64_t interval_ns)
{
    struct cw_net_keepalive keepalive = {
        .idle_s = seconds(interval_ns / 2), .interval_s = seconds(interval_ns / 10), .count = 2};
    const unsigned last_s = seconds(interval_ns) - 1;

    if (last_s > keepalive.idle_s && (last_s - keepalive.idle_s) / keepalive.interval_s > keepalive.count) {
        keepalive.count = (last_s - keepalive.idle_s) / keepalive.interval_s;
    }
    return keepalive;
}

/* Watching leaves the upper half of the process's descriptors to the program, which did not request these. */
static bool is_too_high(int fd)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd >= limit.rlim_cur / 2;
}

/* ---- the side that is watched ----
 * Nothing here is work done, so a program's drain loop ends while unauthenticated peers keep coming. */

static bool is_full(const struct cw_watch_listener *listener)
{
    return listener->count >= *listener->num_conns + CW_WATCH_UNAUTH;
}

/* Checked before accepting, because those whose connection is closed reconnect. */
static bool would_be_too_high(int listening)
{
    const int next = fcntl(listening, F_DUPFD_CLOEXEC, 0);
    const bool too_high = next < 0 || is_too_high(next);

    if (next >= 0) {
        cw_net_close(next);
    }
    return too_high;
}

/* Connections that are not accepted live in the kernel as well, so a shortage ends none: the listener does not poll its
 * sockets for a while. */
static void stop_accepting(struct cw_watch_listener *listener)
{
    unsigned i;

    for (i = 0; i < listener->num_sockets; i++) {
        cw_poller_modify(listener->poller, &listener->sockets[i].item, 0);
    }
    listener->has_rx_eof = 1;
}

void cw_watch_listener_more(struct cw_watch_listener *listener)
{
    unsigned i;

    if (cw_unlikely(listener->has_rx_eof) && !is_full(listener)) {
        for (i = 0; i < listener->num_sockets; i++) {
            cw_poller_modify(listener->poller, &listener->sockets[i].item, CW_POLL_READ);
        }
        listener->has_rx_eof = 0;
    }
}

static void drop(struct accepted *accepted)
{
    struct cw_watch_listener *listener = accepted->listener;

    cw_list_remove(&accepted->link);
    cw_poller_remove(listener->poller, &accepted->item);
    cw_net_close(accepted->item.fd);
    listener->count--;
    free(accepted);
    cw_watch_listener_more(listener);
}

static unsigned accepted_ready(struct cw_poll_item *item, unsigned events)
{
    char bytes[MOST_BYTES];
    const ssize_t result = cw_net_recv(item->fd, bytes, sizeof(bytes));

    (void)events;
    if (result != -EAGAIN && (result <= 0 || result == sizeof(bytes))) {
        drop(cw_container_of(item, struct accepted, item));
    }
    return 0;
}

static unsigned listener_ready(struct cw_poll_item *item, unsigned events)
{
    struct cw_watch_listener *listener = cw_container_of(item, struct cw_watch_socket, item)->listener;
    struct accepted *accepted;
    int fd;

    (void)events;
    accepted = (is_full(listener) || would_be_too_high(item->fd)) ? NULL : calloc(1, sizeof(*accepted));
    if (accepted == NULL) {
        stop_accepting(listener);
        return 0;
    }
    fd = cw_net_accept(item->fd);
    if (fd < 0) {
        free(accepted);
        if (fd != -EAGAIN) {
            stop_accepting(listener);
        }
        return 0;
    }
    cw_net_readable_at(fd, READ_BYTES);
    accepted->listener = listener;
    accepted->item = (struct cw_poll_item){.fd = fd, .ready = accepted_ready};
    if (cw_poller_add(listener->poller, &accepted->item, CW_POLL_READ) != UCS_OK) {
        cw_net_close(fd);
        free(accepted);
        return 0;
    }
    listener->count++;
    cw_list_add_tail(&listener->accepted, &accepted->link);
    return 0;
}

void cw_watch_listener_init(struct cw_watch_listener *listener, struct cw_poller *poller, const unsigned *num_conns)
{
    *listener = (struct cw_watch_listener){.poller = poller, .num_conns = num_conns};
    cw_list_init(&listener->accepted);
}

bool cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address)
{
    const struct cw_net_options options = {.backlog = 0};
    struct cw_poll_item *item = &listener->sockets[listener->num_sockets].item;
    struct cw_net_address at = *address;
    uint16_t port = 0;
    int fd;

    at.port = listener->port;
    fd = cw_net_listen(&at, 1, &options, &port);
    if (fd < 0) {
        return false;
    }
    *item = (struct cw_poll_item){.fd = fd, .ready = listener_ready};
    if (cw_poller_add(listener->poller, item, CW_POLL_READ) != UCS_OK) {
        cw_net_close(fd);
        return false;
    }
    listener->sockets[listener->num_sockets++].listener = listener;
    listener->port = port;
    return true;
}

void cw_watch_listener_close(struct cw_watch_listener *listener)
{
    unsigned i;

    if (listener->num_sockets == 0) {
        return;
    }
    listener->has_rx_eof = 0;
    while (!cw_list_empty(&listener->accepted)) {
        drop(cw_list_head(&listener->accepted, struct accepted, link));
    }
    for (i = 0; i < listener->num_sockets; i++) {
        cw_poller_remove(listener->poller, &listener->sockets[i].item);
        cw_net_close(listener->sockets[i].item.fd);
    }
    listener->num_sockets = 0;
    listener->port = 0;
}

/* ---- the side that watches ---- */

static void disconnect(struct cw_watch *watch)
{
    if (watch->item.fd >= 0) {
        cw_poller_remove(watch->poller, &watch->item);
        cw_net_close(watch->item.fd);
        watch->item.fd = -1;
    }
    watch->is_seen = 0;
    cw_poller_alarm_cancel(watch->poller, &watch->alarm);
}

void cw_watch_end(struct cw_watch *watch)
{
    disconnect(watch);
    watch->doubts = 0;
    watch->until_ns = 0;
}

static void notify(struct cw_watch *watch, ucs_status_t status, const char *why)
{
    cw_watch_end(watch);
    watch->ended(watch, status, why);
}

static void set_alarm(struct cw_watch *watch)
{
    const uint64_t part_ns = watch->interval_ns / PARTS, now_ns = cw_clock_ns();

    if (watch->doubts > 0) {
        watch->due_ns = now_ns + (DOUBT_NS << (DOUBTS - watch->doubts));
        cw_poller_alarm_set(watch->poller, &watch->alarm, watch->due_ns);
        return;
    }
    if (watch->interval_ns >= SHORT_NS) {
        return;
    }
    watch->due_ns = now_ns + ((watch->until_ns != 0) ? ANEW_PARTS * part_ns : part_ns);
    if (watch->wakes) {
        cw_poller_alarm_set(watch->poller, &watch->alarm, watch->due_ns);
    } else {
        cw_poller_alarm_set_lazy(watch->poller, &watch->alarm, watch->due_ns);
    }
}

static void established(struct cw_watch *watch)
{
    watch->is_seen = 1;
    watch->until_ns = 0;
}

/* 0, or why there is no connection. */
static int start(struct cw_watch *watch)
{
    const struct cw_net_options options = {
        .syn_retries = 2, .keepalive = questions(watch->interval_ns), .source = watch->is_bound ? &watch->from : NULL};
    int is_connected = 0;
    const int fd = cw_net_connect(&watch->to, &options, &is_connected);

    if (fd < 0) {
        return fd;
    }
    watch->item.fd = fd;
    if (is_connected) {
        established(watch);
    }
    if (is_too_high(fd) ||
        cw_poller_add(watch->poller, &watch->item, is_connected ? CW_POLL_READ : CW_POLL_WRITE) != UCS_OK) {
        cw_net_close(fd);
        watch->item.fd = -1;
        watch->is_seen = 0;
        return -EMFILE;
    }
    set_alarm(watch);
    return 0;
}

static bool is_silence(int error)
{
    return error == -ETIMEDOUT || error == -EHOSTUNREACH || error == -ENETUNREACH || error == -ENETDOWN ||
           error == -EADDRNOTAVAIL; /* the own interface has lost its address */
}

static void not_there(struct cw_watch *watch, int error)
{
    if (error == -ECONNREFUSED && (watch->asked > 0 || watch->until_ns != 0)) {
        notify(watch, UCS_ERR_CONNECTION_RESET, "the process ended");
    } else if (is_silence(error) && watch->until_ns != 0 && cw_clock_ns() < watch->until_ns) {
        disconnect(watch);
        set_alarm(watch);
    } else if (is_silence(error) && watch->until_ns != 0) {
        notify(watch, UCS_ERR_ENDPOINT_TIMEOUT, SILENT);
    } else {
        cw_debug("cannot watch a peer's process by TCP: %s", strerror(-error));
        cw_watch_end(watch);
    }
}

static void reconnect(struct cw_watch *watch)
{
    int error;

    disconnect(watch);
    error = start(watch);
    if (error != 0) {
        not_there(watch, error);
    }
}

/* The connection ended. */
static void ask(struct cw_watch *watch)
{
    if (watch->asked == MOST_ASKED) {
        cw_debug("connections that watch a peer's process keep ending");
        cw_watch_end(watch);
        return;
    }
    watch->asked++;
    watch->doubts = DOUBTS;
    watch->until_ns = 0;
    reconnect(watch);
}

/* Bytes are repeated at ever longer intervals, so after an outage a new connection is answered sooner. */
static void ask_anew(struct cw_watch *watch)
{
    watch->until_ns = cw_clock_ns() + watch->interval_ns / PARTS * SILENT_PARTS;
    reconnect(watch);
}

/* A new connection was tried, and is not established yet. */
static unsigned await_answer(struct cw_watch *watch)
{
    if (watch->item.fd >= 0 && cw_net_connect_result(watch->item.fd) == 0) {
        set_alarm(watch); /* the poller reports it next */
        return 0;
    }
    if (cw_clock_ns() < watch->until_ns) {
        reconnect(watch);
        return 0;
    }
    notify(watch, UCS_ERR_ENDPOINT_TIMEOUT, SILENT);
    return 1;
}

/* The next byte is sent when the last one was acknowledged. */
static unsigned probe(struct cw_watch *watch)
{
    const uint64_t part_ns = watch->interval_ns / PARTS;
    const bool is_late = cw_clock_ns() >= watch->due_ns + LATE_PARTS * part_ns;

    if (watch->until_ns != 0) {
        return await_answer(watch);
    }
    if (watch->is_seen && cw_net_unacknowledged(watch->item.fd) == 0) {
        (void)cw_net_send(watch->item.fd, "", 1);
    } else if (watch->is_seen && cw_net_is_unanswered(watch->item.fd, part_ns * SILENT_PARTS / NS_PER_MS)) {
        if (!is_late) {
            notify(watch, UCS_ERR_ENDPOINT_TIMEOUT, SILENT);
            return 1;
        }
        ask_anew(watch); /* this process made no progress and cannot know what the machine did meanwhile */
        return 0;
    }
    set_alarm(watch);
    return 0;
}

void cw_watch_heard(struct cw_watch *watch)
{
    if (watch->is_seen &&
        (cw_net_is_unanswered(watch->item.fd, 0) || cw_net_connect_result(watch->item.fd) != 0)) {
        ask_anew(watch);
    }
}

static unsigned on_alarm(struct cw_alarm *alarm)
{
    struct cw_watch *watch = cw_container_of(alarm, struct cw_watch, alarm);

    if (watch->doubts == 0) {
        return probe(watch);
    }
    watch->doubts--;
    reconnect(watch);
    return 1;
}

static unsigned watch_ready(struct cw_poll_item *item, unsigned events)
{
    struct cw_watch *watch = cw_container_of(item, struct cw_watch, item);
    ssize_t result;
    char byte;

    (void)events;
    if (!watch->is_seen) {
        result = cw_net_connect_result(item->fd);
        if (result == 0) {
            established(watch);
            cw_poller_modify(watch->poller, item, CW_POLL_READ);
        } else if (result == -ECONNRESET) { /* it was established, or the peer's kernel would have refused it */
            ask(watch);
        } else if (result != -EINPROGRESS) {
            not_there(watch, (int)result);
        }
        return 1;
    }
    result = cw_net_recv(item->fd, &byte, sizeof(byte));
    if (result == -EAGAIN) {
        return 0;
    }
    if (is_silence((int)result)) {
        notify(watch, UCS_ERR_ENDPOINT_TIMEOUT, SILENT);
    } else if (result <= 0) {
        ask(watch);
    } else {
        cw_watch_end(watch);
    }
    return 1;
}

void cw_watch_init(struct cw_watch *watch, struct cw_poller *poller)
{
    watch->poller = poller;
    watch->item = (struct cw_poll_item){.fd = -1, .ready = watch_ready};
    watch->alarm = (struct cw_alarm){.fire = on_alarm};
    watch->is_seen = 0;
    watch->doubts = 0;
    watch->until_ns = 0;
}

void cw_watch_begin(struct cw_watch *watch, const struct cw_net_address *address, const struct cw_net_address *source,
                    uint64_t interval_ns)
{
    watch->asked = 0;
    watch->to = *address;
    watch->is_bound = source != NULL;
    watch->interval_ns = interval_ns;
    if (source != NULL) {
        watch->from = *source;
    }
    (void)start(watch);
}
