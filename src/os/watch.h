/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections of TCP that carry nothing, by which processes watch each other beside a network that reports neither a
 * process that ended nor a machine that fell silent. The watched side listens, and says its port to those that may
 * watch; the other side connects, and the systems tell each other whether the process lives (SO_KEEPALIVE).
 *
 * Only the end of a connection that was established says something: a firewall may leave no way for it. Nor is each end
 * a death: a system whose queue of connections is full forgets some, and anybody may reset them. So who sees an end
 * connects again, and the process is dead when nobody listens there. Bytes that come end a connection without a
 * consequence. All descriptors are close-on-exec, and lie in the lower half of the numbers that
 * the process may have; those who find none there do not watch, or wait unaccepted. Not thread safe: as the poller.
 */
#ifndef CW_OS_WATCH_H
#define CW_OS_WATCH_H

#include <stdbool.h>

#include "base/list.h"
#include "os/net.h"
#include "os/poll.h"

#define CW_WATCH_ADDRESSES 4u
#define CW_WATCH_UNAUTH 16u /* watchers beyond the connections of this side, since a watcher says nothing */

/* The side that is watched. */
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
    uint8_t has_rx_eof; /* the sockets are not asked at present */
};

void cw_watch_listener_init(struct cw_watch_listener *listener, struct cw_poller *poller, const unsigned *num_conns);
/* Listens at one more address, whose port is ignored; whether that is possible. At most CW_WATCH_ADDRESSES calls. */
bool cw_watch_listen(struct cw_watch_listener *listener, const struct cw_net_address *address);
/* Lets watchers in again after there were too many: *num_conns grew. */
void cw_watch_listener_more(struct cw_watch_listener *listener);
/* Also for one that is all zeros. */
void cw_watch_listener_close(struct cw_watch_listener *listener);

/* The side that watches. */
struct cw_watch {
    struct cw_poll_item item; /* fd -1: there is no connection */
    struct cw_poller *poller;
    uint8_t is_seen; /* the connection is established */
    uint8_t asked;   /* connections that followed one that ended */
    uint8_t is_bound;
    struct cw_net_address from; /* if is_bound */
    struct cw_net_address to;
    uint64_t interval_ns;
    /* The watched process ended (UCS_ERR_CONNECTION_RESET), or its machine is silent (UCS_ERR_ENDPOINT_TIMEOUT), as
     * `why` says. Called from the poller, after cw_watch_end; may free the watch. */
    void (*ended)(struct cw_watch *watch, ucs_status_t status, const char *why);
};

/* `ended` is set by the caller. */
void cw_watch_init(struct cw_watch *watch, struct cw_poller *poller);
/* Connects from that address (NULL: as the system chooses). A silent machine is told within interval_ns. Without an
 * answer, or memory, the watch has no consequence. */
void cw_watch_begin(struct cw_watch *watch, const struct cw_net_address *address, const struct cw_net_address *source,
                    uint64_t interval_ns);
void cw_watch_end(struct cw_watch *watch);

#endif
