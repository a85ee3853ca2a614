/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle TCP connections by which processes monitor each other beside a network that reports neither the end of a process
 * nor a silent machine. The watched side listens, and announces its port to those that may watch; the other side
 * connects, and the kernels probe the connection (SO_KEEPALIVE). They do that by whole seconds; for shorter intervals
 * the watcher sends a byte now and then, which the other side's kernel acknowledges and the process discards.
 *
 * Only the end of an established connection is significant: a firewall may block it from the start. Nor is each end a
 * death: a kernel whose connection table is full drops some, and anybody may reset them. So a watcher whose connection
 * ends reconnects, and the process is dead when nobody listens there. The listener of a process that is ending may
 * take the new connection, or drop it, and vanish without a word: the watcher reconnects a few times more. Bytes that
 * a watcher receives end its connection without a consequence. All descriptors are close-on-exec, and lie in the lower
 * half of the numbers that the process may have; if none is free there, a watcher does not watch, and a listener leaves
 * connections unaccepted. Not thread safe: as the poller.
 */
#ifndef CW_OS_WATCH_H
#define CW_OS_WATCH_H

#include <stdbool.h>

#include "base/list.h"
#include "os/net.h"
#include "os/poll.h"

#define CW_WATCH_ADDRESSES 4u
#define CW_WATCH_UNAUTH 16u /* watchers beyond the connections of this side, since a watcher does not identify itself */

/* The watched side. */
struct cw_watch_listener {
    struct cw_poller *poller;
    const unsigned *num_conns; /* connections of this side, which the owner counts */
    struct cw_watch_socket {
        struct cw_poll_item item;
        struct cw_watch_listener *listener;
    } sockets[CW_WATCH_ADDRESSES];
    unsigned num_sockets; /* 0: nobody can watch this process */
    struct cw_list accepted;
    unsigned count;
    uint16_t port;   /* of all sockets; 0: none */
    uint8_t has_rx_eof; /* the sockets are not polled at present */
};

void cw_watch_listener_init(struct cw_watch_listener *listener, struct cw_poller *poller, const unsigned *num_conns);
/* Listens at one more address, whose port is ignored; returns whether that worked. At most CW_WATCH_ADDRESSES calls. */
bool cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address);
/* Accepts watchers again after there were too many: *num_conns grew. */
void cw_watch_listener_more(struct cw_watch_listener *listener);
/* Also for one that is all zeros. */
void cw_watch_listener_close(struct cw_watch_listener *listener);

/* The watching side. */
struct cw_watch {
    struct cw_poll_item item; /* fd -1: no connection */
    struct cw_poller *poller;
    struct cw_alarm alarm;
    uint8_t is_seen; /* the connection is established */
    uint8_t asked;   /* ends after which it reconnected */
    uint8_t doubts;  /* reconnects that are due since the last end */
    uint8_t is_bound;
    uint8_t wakes;   /* the checks within short intervals wake a sleeper; set by the caller */
    struct cw_net_address from; /* if is_bound */
    struct cw_net_address to;
    uint64_t interval_ns;
    uint64_t due_ns;   /* of the alarm */
    uint64_t until_ns; /* not 0: until then the machine may answer a new connection, although it seems silent */
    /* The watched process ended (UCS_ERR_CONNECTION_RESET), or its machine is silent (UCS_ERR_ENDPOINT_TIMEOUT), as
     * `why` says. Called from the poller, after cw_watch_end; may free the watch. */
    void (*ended)(struct cw_watch *watch, ucs_status_t status, const char *why);
};

/* The caller sets `ended` and `wakes`. */
void cw_watch_init(struct cw_watch *watch, struct cw_poller *poller);
/* Connects from that address (NULL: the kernel's choice). A silent machine is reported within interval_ns; if that is
 * short, only while checks are made: a program that made none meanwhile gets a further half of the interval. Without an
 * answer, or out of memory, the watch has no consequence. */
void cw_watch_begin(struct cw_watch *watch, const struct cw_net_address *address, const struct cw_net_address *source,
                    uint64_t interval_ns);
/* The process has just answered in another way: if the watch's connection seems silent, that was before. */
void cw_watch_heard(struct cw_watch *watch);
void cw_watch_end(struct cw_watch *watch);

#endif
