/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Endpoints. An endpoint is one end of a connection between two workers; the n-th endpoint that A makes to B and the
 * n-th that B makes to A are the two ends of one connection. It connects on the first operation; with error handling in
 * the next progress, so that a pure receiver detects its peer's death as well.
 *
 *      IDLE --first operation--> DIALING --accepted--> OPEN --peer gone, protocol error--> FAILED
 *        |                         | peer's own dial wins: WAITING for it --hello--> OPEN
 *        +--peer's hello--------------------------------------------------------> OPEN
 *
 * A peer whose own dial won may still fail to connect, or die: an endpoint in WAITING redials periodically, and fails
 * when no peer answers or the peer has given up.
 *
 * Independent of that state: `handle` records whether the program holds a handle. Without one the endpoint was made by
 * a peer's hello and waits to be adopted, or was closed while the peer may still send.
 */
#ifndef CW_CORE_EP_H
#define CW_CORE_EP_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/list.h"
#include "core/lane.h"
#include "core/worker.h"
#include "os/net.h"

/* Whether and how the program holds the endpoint's handle. */
enum cw_ep_handle {
    CW_HANDLE_NONE,    /* not at all: the peer opened it */
    CW_HANDLE_LENT,    /* as the reply_ep of a handler only */
    CW_HANDLE_HELD,    /* by its handle */
    CW_HANDLE_CLOSED,  /* the program has closed the handle */
    CW_HANDLE_RETIRED  /* it was lent and has ended: core/ep_slots.h */
};

/* The two halves of closing: our side closed its end and notified the peer; the peer closed its end. */
#define CW_CLOSE_SENT 1u
#define CW_CLOSE_CAME 2u

enum cw_ep_state { CW_EP_IDLE, CW_EP_DIALING, CW_EP_WAITING, CW_EP_OPEN, CW_EP_FAILED };

#define CW_PEER_OTHERS_MAX 63u /* as ucp_ep::address counts */

/* A worker address beside peer->address. */
struct cw_peer_address {
    uint16_t length;
    uint8_t bytes[];
};

/* Another worker, identified by its address. Shared by all endpoints to it. */
struct cw_peer {
    struct cw_hash_link link;           /* worker->peers, key: uid */
    uint32_t references;                /* endpoints */
    uint32_t next_number;               /* number of the next endpoint that our program creates to it */
    uint16_t address_length;            /* 0: the worker is known from its hello only */
    struct cw_peer_address **others;    /* addresses that contain other parts of it; NULL: none */
    uint8_t num_others;
    uint8_t direct;                     /* its memory was reached without a connection, or can be: by load and store */
    uint8_t address[];
};

/* State of an endpoint created at a listener (docs/change/client-server.md). */
struct cw_ep_cm {
    uint64_t server_uid;                /* at the client: the worker that accepted */
    uint8_t *server_address;            /* at the client: the address for further lanes; NULL: unknown */
    struct cw_net_address local;
    struct cw_net_address remote;
    uint8_t is_server;
    uint8_t carries;                    /* data may use the connection on which client and server met */
    uint8_t moves;                      /* the client dials a faster transport; ep->loop_conn is the first connection */
    ucs_status_t ended;                 /* the server has closed the first connection, with this status */
};

struct ucp_ep {
    struct ucp_worker *worker;
    struct cw_conn *conn;               /* the message lane; NULL unless DIALING or OPEN */
    struct cw_lanes *lanes;             /* further lanes (core/lanes.h); NULL: not needed so far */
    struct cw_tx *tx;                  /* accepts short packets while OPEN, if the transport has a fast path */
    struct cw_list pending;             /* requests that wait for the connection or for tx space, in order */
    struct cw_list inflight;            /* requests accepted by the transport or waiting for the peer's answer */
    struct cw_list blocked;             /* requests blocked on the peer's credit, and what must not overtake these; all
                                           of them are older than those on pending */
    uint8_t state;
    uint8_t handle;                     /* enum cw_ep_handle */
    uint8_t unread;                     /* a stream retains data that only a program with a handle can read */
    uint8_t err_mode;
    uint8_t closes;                     /* CW_CLOSE_* */
    uint8_t peer_ended;                 /* the peer's worker is being destroyed by its program */
    uint8_t error_reported;
    uint8_t busy;                       /* operations that are on no list here are in progress, or may be */
    uint8_t tries_blocked;              /* the next progress retries the requests on `blocked` */
    uint8_t has_user_data;              /* `user_data` is the program's USER_DATA */
    uint8_t lent    : 1;                /* a handler received it as its reply_ep */
    uint8_t in_slot : 1;                /* the peer opened it: core/ep_slots.h */
    uint8_t address : 6;                /* address it was created with; 0: peer->address, n: peer->others[n - 1] */
    ucs_status_t status;                /* why FAILED */
    uint32_t number;                    /* sequence number among the endpoints of this pair of workers */
    uint32_t flags;                     /* UCP_EP_PARAMS_FLAGS_* */
    uint32_t tried_path;                /* the last path dialled (connect/path.h); 0: none */
    uint32_t turn;                      /* bytes of user memory sent since the queue was last empty */
    uint32_t spent;                     /* cw_ep_spend, in the round of progress that is ... */
    uint64_t spent_round;
    struct cw_conn *loop_conn;          /* the accepting end when the endpoint is connected to itself; while a client
                                           changes its transport, the connection on which it met the server */
    struct cw_ep_cm *cm;                /* NULL: created by worker address */
    struct cw_conn *old_conns;          /* dials that failed or yielded to the peer's; closed by the next reap */
    struct cw_peer *peer;
    ucp_err_handler_cb_t err_cb;
    void *user_data;                    /* USER_DATA or err_handler.arg */
    struct cw_list link;                /* worker->eps */
    struct cw_list reap_link;           /* worker->reap */
    struct cw_list flush_link;          /* worker->flush_list */
    struct cw_hash_link index_link;     /* worker->ep_index */
    uint64_t retained;                  /* core/ep_retained.h: bytes that this process retains on behalf of the peer */
    char *end;                          /* how the last connection ended, for the log; NULL: unknown */
    /* the state of the operations follows (struct cw_worker_handlers) */
};

static inline bool cw_ep_has_user(const struct ucp_ep *ep)
{
    return ep->handle == CW_HANDLE_HELD;
}

static inline bool cw_ep_was_closed(const struct ucp_ep *ep)
{
    return ep->handle == CW_HANDLE_CLOSED;
}

static inline uint64_t cw_ep_peer_uid(const struct ucp_ep *ep)
{
    return ep->peer->link.key;
}

/* The worker address by which the peer is dialled; NULL: unknown. */
static inline const uint8_t *cw_ep_address(const struct ucp_ep *ep)
{
    if (ep->address != 0) {
        return ep->peer->others[ep->address - 1]->bytes;
    }
    return (ep->peer->address_length > 0) ? ep->peer->address : NULL;
}

/* Finds or creates the record of another worker; the address is copied if the record has none. NULL: out of memory. */
struct cw_peer *cw_peer_get(struct ucp_worker *worker, uint64_t uid, const void *address, size_t address_length);

/* It is in no table any more. */
void cw_peer_free(struct cw_peer *peer);

/* The endpoint with that number to that peer, or NULL. */
struct ucp_ep *cw_ep_find(struct ucp_worker *worker, uint64_t peer_uid, uint32_t number);

/* Makes an endpoint; sends nothing. Takes a reference on the peer. NULL: out of memory. cw_ep_new_of_peer: the peer
 * opened it, so handlers may receive it as their reply_ep before the program holds its handle. */
struct ucp_ep *cw_ep_new(struct ucp_worker *worker, struct cw_peer *peer, uint32_t number);
struct ucp_ep *cw_ep_new_of_peer(struct ucp_worker *worker, struct cw_peer *peer, uint32_t number);

/* ucp_ep_create for a decoded worker address: adopts an endpoint that the peer opened, or makes an idle one. The caller
 * gives it to the program. */
ucs_status_t cw_ep_create(struct ucp_worker *worker, uint64_t peer_uid, const void *address, size_t address_length,
                          uint8_t err_mode, struct ucp_ep **ep_p);

/* Whether an endpoint of that mode monitors its peer and reports its end. FAILOVER does all that PEER does. The end of
 * the message lane ends the endpoint, and that of a further lane ends none, whatever the mode. */
static inline bool cw_ep_mode_watches(uint8_t err_mode)
{
    return err_mode != UCP_ERR_HANDLING_MODE_NONE;
}

/* Gives the handle to the program. Sets flags, error callback and user data, as far as the mask selects them. */
void cw_ep_give(struct ucp_ep *ep, const ucp_ep_params_t *params);
/* Sets error callback and user data, as far as the mask selects them. */
void cw_ep_set_handlers(struct ucp_ep *ep, const ucp_ep_params_t *params);

/* Result of an attempt of a queued request that has sent many bytes: it yields to others. */
#define CW_LATER UCS_ERR_BUSY

/* Result of an attempt when the peer's credit is exhausted, or an older request waits for credit: the request goes to
 * ep->blocked and others may pass it. */
#define CW_BLOCKED UCS_ERR_NO_PROGRESS

/* Adds the endpoint to the worker's flush list, because a request waits or the peer has to answer. The flush removes
 * endpoints that it finds idle. */
static inline void cw_ep_add_flush(struct ucp_ep *ep)
{
    if (cw_list_empty(&ep->flush_link)) {
        cw_list_add_tail(&ep->worker->flush_list, &ep->flush_link);
    }
}

/* As cw_ep_add_flush, for one-sided operations. */
static inline void cw_ep_add_flush_rma(struct ucp_ep *ep)
{
    ep->busy = 1;
    cw_ep_add_flush(ep);
}

/* Puts a request on the list where it waits: ep->pending or ep->blocked. It must not be on a list. */
static inline void cw_ep_wait(struct ucp_ep *ep, struct cw_list *list, struct cw_request *request)
{
    cw_list_add_tail(list, &request->link);
    cw_ep_add_flush(ep);
    request->flags |= CW_REQUEST_WAITING;
    cw_count(ep->worker, CW_COUNT_WAITING, 1);
    cw_count(ep->worker, CW_COUNT_WAITED, 1);
}

/* Removes a request from these lists; it may be on neither. */
static inline void cw_ep_waited(struct cw_request *request)
{
    if (request->flags & CW_REQUEST_WAITING) {
        request->flags &= (uint16_t)~(CW_REQUEST_WAITING | CW_REQUEST_HANDED_OVER);
        cw_count(request->worker, CW_COUNT_WAITING, (uint64_t)-1);
    }
}

/* Starts to connect an idle endpoint. The endpoint fails if that is impossible. */
void cw_ep_dial(struct ucp_ep *ep);
/* Queues a request behind all that were posted before. Starts to connect if necessary, or lets the next progress do it
 * when many endpoints are connecting already. */
void cw_ep_queue(struct ucp_ep *ep, struct cw_request *request);

/* Completes a call after an attempt with that status: the request is done, or goes to ep->inflight. */
ucs_status_ptr_t cw_ep_answered(struct cw_request *request, ucs_status_t status, uint32_t attr_mask);

/* Whether a send may go to the transport at once. */
static inline bool cw_ep_ready(const struct ucp_ep *ep)
{
    return ep->state == CW_EP_OPEN && cw_list_empty(&ep->pending);
}

/* Queues the endpoint for the reap by progress. */
void cw_ep_reap_later(struct ucp_ep *ep);

/* Bytes that may be sent before packets from the peer are polled. */
uint64_t cw_ep_turn(const struct ucp_ep *ep);

/* Sends pending requests as far as the transport accepts them, or until the budget is used up: then progress
 * continues. */
void cw_ep_drain(struct ucp_ep *ep);
/* Sends pending requests as far as the transport accepts them. */
void cw_ep_drain_all(struct ucp_ep *ep);
/* Retries blocked requests, before all others, because the peer's credit may have arrived. */
void cw_ep_release_blocked(struct ucp_ep *ep);
/* Schedules one cw_ep_release_blocked in progress, however often this is called. */
void cw_ep_release_blocked_later(struct ucp_ep *ep);
/* The only function that changes the state, so that the worker can count connecting endpoints. */
void cw_ep_set_state(struct ucp_ep *ep, enum cw_ep_state state);
/* Redials for endpoints in WAITING: `fire` of worker->redial. */
unsigned cw_ep_redial_waiting(struct cw_alarm *alarm);
/* Whether a request, or a partially received message, waits for the peer. */
bool cw_ep_awaits(const struct ucp_ep *ep);
/* Enables the transport's keepalive for the peer, if the endpoint has error handling. */
void cw_ep_watch(struct ucp_ep *ep, struct cw_conn *conn);

/* The connection is established. Queued requests are sent in the reap of this progress, after the transport's reply. */
void cw_ep_opened(struct ucp_ep *ep, struct cw_conn *conn);
/* Fails the endpoint: all its requests complete, and it is reported once, at the end of this or the next progress.
 * Safe in upcalls. */
void cw_ep_fail(struct ucp_ep *ep, ucs_status_t status);
/* Writes why a failed endpoint failed, as one line: its status, how its connection ended, and what to do. */
void cw_ep_explain(const struct ucp_ep *ep, char *text, size_t size);

/* Ends the current connection attempt: its connection is closed by the next reap. Safe in upcalls. */
void cw_ep_drop_conn(struct ucp_ep *ep);

/* Does the work of cw_ep_reap_later when no transport is on the stack. Called by progress. Returns the number of
 * events. */
unsigned cw_ep_reap_all(struct ucp_worker *worker);
/* At worker destroy: ends everything with UCS_ERR_CANCELED and frees. */
void cw_ep_destroy(struct ucp_ep *ep);

#define CW_CONTROL_MAX 64u

/* Sends an answer of 8 to CW_CONTROL_MAX bytes that the protocol requires, behind queued requests; on failure the
 * endpoint fails. */
void cw_ep_send_control(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length);
/* The first half of cw_ep_send_control. Whether the packet was sent (or the connection broke, and `closed` follows)
 * ... */
int cw_ep_control_now(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length);
/* As cw_ep_control_now, but before queued requests. */
int cw_ep_control_passing(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length);
/* ... and the second half: queues the packet; `release` (may be NULL) is called when it has left the queue.
 * UCS_ERR_NO_MEMORY. */
ucs_status_t cw_ep_control_later(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length,
                                 void (*release)(struct cw_request *request));

/* The peer closed its end, or its worker is being destroyed; ep_close.c. */
void cw_ep_peer_closed(struct ucp_ep *ep);
void cw_ep_peer_ended(struct ucp_ep *ep);
/* An object that retained an endpoint without handle has ended. */
static inline void cw_ep_unused(struct ucp_ep *ep)
{
    if (!cw_ep_has_user(ep)) {
        cw_ep_reap_later(ep);
    }
}

/* Flush and close, core/ep_close.c. NULL, request handle or error pointer. */
ucs_status_ptr_t cw_ep_flush(struct ucp_ep *ep, const ucp_request_param_t *param);
ucs_status_ptr_t cw_ep_close(struct ucp_ep *ep, const ucp_request_param_t *param, int force);
/* The status of a close whose connection has ended with `status`. An end after both sides have sent CLOSE is no error;
 * an orderly end of a peer in mode NONE is not reported, hence no error either. */
ucs_status_t cw_ep_close_status(const struct ucp_ep *ep, ucs_status_t status);
bool cw_ep_is_close(const struct cw_request *request);
ucs_status_ptr_t cw_worker_flush(struct ucp_worker *worker, const ucp_request_param_t *param);

#endif
