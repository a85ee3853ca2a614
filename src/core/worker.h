/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: interfaces, endpoints and requests that make progress together. Calls of the program come through
 * src/api, which enters the worker; functions here and in the layers between require it entered. The core calls the
 * layers above through a table of handlers that is passed at creation, so it does not depend on them.
 */
#ifndef CW_CORE_WORKER_H
#define CW_CORE_WORKER_H

#include <assert.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/hash.h"
#include "base/idmap.h"
#include "base/list.h"
#include "core/context.h"
#include "core/counters.h"
#include "core/request.h"
#include "core/trace.h"
#include "core/yield_policy.h"
#include "os/clock.h"
#include "os/lock.h"
#include "proto/protocol.h"
#include "transport/transport.h"

/* The wait of a flush for the layers above the core; embedded in its request. */
struct cw_flush_wait {
    struct cw_list link;            /* initialised; removing it ends the wait */
    uint32_t generation;            /* rma/rma.h */
    uint32_t count;
    void (*done)(struct cw_flush_wait *wait, ucs_status_t status);
};

struct cw_queues;
struct cw_send;

/* Functions of the layers above that the core calls. */
struct cw_worker_handlers {
    const struct cw_upcalls *upcalls;
    /* Makes and frees the worker's state of the operations; UCS_ERR_NO_MEMORY. */
    ucs_status_t (*worker_init)(struct ucp_worker *worker);
    void (*worker_cleanup)(struct ucp_worker *worker);
    /* Starts to connect an idle endpoint; upcalls report the result. */
    ucs_status_t (*ep_connect)(struct ucp_ep *ep);
    /* The number of further lanes that our settings allow the endpoint; `dial`: dials the missing ones of its table.
     * Only on the side that dialled the message lane. */
    unsigned (*lanes_dial)(struct ucp_ep *ep, int dial);
    /* The state of the operations that lies behind each endpoint: its length, and its initialiser. */
    size_t ep_state_size;
    void (*ep_init)(struct ucp_ep *ep);
    /* Whether an operation still waits for the peer. */
    int (*ep_expects)(const struct ucp_ep *ep);
    /* The endpoint is connected. NULL: no-op. */
    void (*ep_opened)(const struct ucp_ep *ep);
    /* The endpoint is about to lose its connection `ep->conn`: before this returns, the peer's own accesses to our
     * memory must have ended. */
    void (*ep_quiesce)(struct ucp_ep *ep);
    /* The endpoint failed or is freed: everything that operations wait for from it ends with this status. The core ends
     * the requests on the endpoint's own lists. */
    void (*ep_ended)(struct ucp_ep *ep, ucs_status_t status);
    /* A flush begins. UCS_INPROGRESS: `done` is called from progress, when the one-sided operations posted before are
     * complete; with `confirm` also at the peer, which may have to make progress for that. UCS_OK: nothing to wait for.
     * An error: of an operation that the peer rejected, or UCS_ERR_NO_MEMORY. */
    ucs_status_t (*ep_flush)(struct ucp_ep *ep, struct cw_flush_wait *wait, int confirm);
    /* The program received the handle of an endpoint that the peer had opened, or closed a handle: see
     * cw_ep_has_user. */
    void (*ep_user_changed)(struct ucp_ep *ep);
    /* Ends the accesses of a device to the memory of a send (rndv/send.h). */
    void (*send_device_end)(struct cw_send *send);
    /* For each enum cw_proto_operation the table of its protocols, NULL-terminated (src/proto). */
    const struct cw_protocol *const *const *protocols;
    /* Sets the gauges of the queues of messages in worker->counts. */
    void (*worker_gauges)(struct ucp_worker *worker);
    /* Writes the oldest receives and messages, as many as `listed_posted` and `listed_unexpected` say; lowers these if
     * it has fewer. The gauges were set just before. */
    void (*worker_queues)(const struct ucp_worker *worker, struct cw_queues *queues);
};

/* Work that progress does in steps. Owned by the caller that adds it; on no list while it runs. */
struct cw_job {
    struct cw_list link;
    /* Makes one step; adds the job again if more remains. False: it only polled, which does not count as work. */
    bool (*run)(struct cw_job *job);
};

/* History of past sleeps (core/arm.c). */
struct cw_sleeps {
    uint64_t armed_ns;              /* when the program was last about to sleep */
    unsigned num_short;             /* short sleeps in a row, saturating */
    unsigned rest;                  /* sleeps to begin without a poll ... */
    unsigned next_rest;             /* ... and the number granted after the next poll that finds nothing */
};

/* When an idle worker polls its descriptors (core/worker.c); times in ticks. */
struct cw_polling {
    uint64_t next;                  /* when it polls next */
    uint64_t found;                 /* when a poll last found something */
    uint64_t busy_rounds;           /* rounds with packets up to the last poll */
    uint64_t clock;                 /* when an idle round last read the clock ... */
    unsigned rounds_to_clock;       /* ... and how many of the next idle rounds do not read it */
    int always;                     /* the program sleeps between messages: poll whenever idle */
};

/* Memory in which other processes read the worker. */
struct cw_observed {
    struct cw_counters_page *page;  /* core/counters.h: `counts`; NULL: none */
    size_t page_length;
    int page_fd;
    int queues_fd;
    struct cw_queues *queues;       /* core/queues.h; NULL: no process requests them */
    size_t queues_length;
    uint32_t queues_polled;         /* the moment when the worker last checked for such a process */
};

/* GPU drivers map device memory in granules of this size. */
#define CW_WORKER_GRANULE_SHIFT 21
#define CW_WORKER_GRANULES      64u

/* A moment is the monotonic clock in units of 2^20 ns, about a millisecond. */
#define CW_MOMENT_SHIFT 20

struct ucp_worker {
    struct ucp_context *context;
    uint64_t features;                  /* of the context */
    uint64_t fast_features;             /* Features eligible for the fast path; 0 if calls take a lock, are traced, or
                                           may name device memory. */
    struct cw_iface **ifaces;           /* one for each transport and device, or for all devices (spans_devices) */
    struct cw_protocol_plan *plans;     /* of each interface */
    unsigned num_ifaces;
    unsigned num_progressed;            /* num_ifaces, and 1 more for an interface behind these that only connects by
                                           socket address (cw_worker_cm_iface) */
    struct cw_rx **inbox;         /* of the interface that may have one (transport.h), or `no_inbox`; also `no_inbox`
                                     where packets are traced */
    struct cw_rx **outer_inbox;   /* `inbox`, for a caller outside the worker; `no_inbox` if calls take a lock */
    struct cw_rx *no_inbox;
    void (*packet)(struct cw_conn *conn, uint8_t id, const void *data, size_t length); /* the upcall */
    unsigned progress_depth;            /* > 0 inside ucp_worker_progress: recursion returns 0 */
    uint32_t moment;                    /* when the counters were last published, in units of CW_MOMENT_SHIFT: the
                                           reference for the age of receives and messages */
    uint64_t round;                     /* of progress */
    struct cw_polling polling;
    uint64_t idle_rounds;
    unsigned num_connecting;            /* endpoints DIALING or WAITING: each idle round polls descriptors */
    unsigned num_waiting;               /* endpoints WAITING: `redial` is armed */
    struct cw_alarm redial;
    struct cw_poller *poller;
    struct cw_request_pool requests;
    struct cw_list reap;                /* endpoints whose connections are to be closed or that are to be freed, from
                                         * progress */
    struct cw_ep_slots *slots;          /* core/ep_slots.h; NULL: no peer has opened an endpoint */
    struct cw_list jobs;
    unsigned todo;                      /* not 0 while any of these lists has work for progress */
    uint64_t fast_features_locked;      /* features eligible for the fast path once the lock is taken; 0: none */
    int mt;                             /* API calls take the lock */
    uint32_t checked_attr;              /* attributes that API calls assume for each call: 0, or the memory type's once
                                           device memory may come (cw_worker_check_loaded) */
    _Alignas(CW_CACHE_LINE) struct cw_lock lock; /* in its own cache line, because other threads read it */

    _Alignas(CW_CACHE_LINE) const struct cw_worker_handlers *handlers;
    struct cw_msg_state *msg;           /* state of the operations, owned by worker_init and worker_cleanup */
    struct cw_tag_state *tag;
    struct cw_am_state *am;
    struct cw_stream_state *stream;
    struct cw_rma_state *rma;
    uint64_t uid;                       /* random: names the worker in addresses and hellos */
    struct cw_list eps;                 /* all endpoints, also those without a handle */
    uint64_t retained;                  /* core/ep_retained.h: bytes that this process retains on behalf of all peers */
    struct cw_list flush_list;          /* endpoints for which a flush may have to wait; core/ep.h */
    struct cw_hash peers;               /* struct cw_peer by uid */
    struct cw_hash ep_index;            /* struct ucp_ep by the peer's uid and the number */
    struct cw_idmap ids;                /* requests that a peer will name in an answer */
    ucs_thread_mode_t thread_mode;
    unsigned flags;
    size_t am_alignment;
    uint64_t client_id;
    int user_epoll_fd;                  /* -1: none */
    char name[CW_NAME_MAX];
    struct cw_observed observed;
    struct cw_trace *trace;             /* NULL: off */
    struct cw_sleeps sleeps;
    struct cw_yield_policy yield_policy;
    struct cw_failover_iface **failover; /* core/failover/lane.c: an entry for each of `ifaces`; NULL: not needed */
    uint64_t loaded;                    /* atomic: what the process had loaded when `checked_attr` was set */
    uintptr_t host[CW_WORKER_GRANULES]; /* atomic: granules of the host's memory; cw_call_is_host */
    struct cw_counters counts;
};

/* The interface with which a worker listens and dials socket addresses. If the settings leave none, one is opened that
 * serves nothing else. NULL: it cannot be opened. */
struct cw_iface *cw_worker_cm_iface(struct ucp_worker *worker);

ucs_status_t cw_worker_new(struct ucp_context *context, const ucp_worker_params_t *params,
                           const struct cw_worker_handlers *handlers, struct ucp_worker **worker_p);
/* Ends every endpoint as by a forced close without notification; callbacks run inside. */
void cw_worker_free(struct ucp_worker *worker);

/* Never blocks; returns the number of events handled, 0 when idle. The caller has found no packet in the inbox. */
unsigned cw_worker_progress(struct ucp_worker *worker);

/* core/yield_policy.c. Called in an idle round when another thread may need this processor: yields if that pays, or has
 * the caller of progress yield. */
void cw_worker_try_yield(struct ucp_worker *worker, uint64_t ticks);
/* For the caller of progress, when worker->yield_policy.due is set; the worker is not entered. */
void cw_worker_yield(struct ucp_worker *worker);

/* A round of progress for this packet, which is short (cw_rx_is_short), and those behind it. */
unsigned cw_worker_receive(struct ucp_worker *worker, struct cw_rx *inbox, uint64_t seen);
/* As cw_worker_receive, for a packet that is not short. */
unsigned cw_worker_receive_long(struct ucp_worker *worker, struct cw_rx *inbox);

/* Prepares for sleep on the poller's descriptor. UCS_ERR_BUSY: call progress. Releases the lock while it polls for
 * packets before the sleep (core/arm.c). */
ucs_status_t cw_worker_arm(struct ucp_worker *worker);

/* The input from which the plan of an interface is computed. */
struct cw_protocol_input cw_worker_protocol_input(const struct ucp_worker *worker, const struct cw_iface *iface);
/* The input of protocols: a lane over that interface, with the connection in its present state, or a new one (NULL). */
struct cw_protocol_lane cw_worker_protocol_lane(const struct ucp_worker *worker, const struct cw_iface *iface,
                                                const struct cw_conn *conn);

void cw_worker_print(const struct ucp_worker *worker, FILE *stream, size_t address_length);

/* Work was left to progress: wakes the program if it sleeps, or is about to (`cw_poller_sleep`). */
void cw_worker_wake(const struct ucp_worker *worker);

void cw_worker_add_job(struct ucp_worker *worker, struct cw_job *job);

static inline bool cw_worker_has(const struct ucp_worker *worker, uint64_t feature)
{
    return (worker->features & feature) != 0;
}

/* If the process has loaded something since the last call, decides anew whether device memory may come. False: it may.
 * Any thread. */
bool cw_worker_check_loaded(struct ucp_worker *worker);

/* Counts a message of one kind and its bytes. Two additions to memory, because this is on the critical path. */
static inline void cw_count_message(struct ucp_worker *worker, enum cw_counter messages, uint64_t length)
{
    worker->counts.values[messages]++;
    worker->counts.values[messages + CW_COUNT_BYTES] += length;
}

static inline void cw_count(struct ucp_worker *worker, enum cw_counter counter, uint64_t number)
{
    worker->counts.values[counter] += number;
}

/* core/counters.c */
void cw_counters_open(struct ucp_worker *worker);
void cw_counters_ready(struct ucp_worker *worker);
void cw_counters_close(struct ucp_worker *worker);
void cw_counters_write(struct ucp_worker *worker);
void cw_counters_opened(struct ucp_worker *worker, const struct cw_conn *conn);
void cw_counters_ended(struct ucp_worker *worker, const struct cw_conn *conn);

/* core/trace.c. The first three only while worker->trace is not NULL. */
struct ucp_ep;
void cw_trace_request(const struct cw_request *request, enum cw_trace_kind kind, unsigned id, uint64_t tag,
                      uint64_t length, ucs_status_t status);
void cw_trace_ep(const struct ucp_ep *ep, enum cw_trace_kind kind, unsigned id, ucs_status_t status);
void cw_trace_sleep(struct ucp_worker *worker, ucs_status_t status);
/* For the creation of a worker: the number of events for which it needs `memory`; then its upcalls, and each of its
 * interfaces, are traced. */
uint64_t cw_trace_num_events(const struct ucp_worker *worker);
void cw_trace_open(struct ucp_worker *worker, void *memory, uint64_t num_events);
void cw_trace_close(struct ucp_worker *worker);
const struct cw_upcalls *cw_trace_upcalls(const struct ucp_worker *worker);
void cw_trace_iface(struct ucp_worker *worker, struct cw_iface *iface);

/* Writes an event of a request, if the worker has a trace. */
static inline void cw_trace_note(const struct cw_request *request, enum cw_trace_kind kind, unsigned id, uint64_t tag,
                                 uint64_t length)
{
    if (cw_unlikely(request->worker->trace != NULL)) {
        cw_trace_request(request, kind, id, tag, length, UCS_OK);
    }
}

/* Publishes the counts so far to readers. */
static inline void cw_counters_publish(struct ucp_worker *worker)
{
    if (worker->observed.page != NULL) {
        cw_counters_write(worker);
    }
}

/* Takes the next request of a pool that is not empty. */
static inline struct cw_request *cw_request_pool_take(struct ucp_worker *worker)
{
    assert(!cw_request_pool_is_empty(&worker->requests));
    return *--worker->requests.top;
}

/* Fills the head of a request in the state that the pool requires; `flags`: beside those that the mask asks for. */
static CW_INLINE void cw_request_start(struct cw_request *request, const ucp_request_param_t *param, uint32_t mask,
                                       enum cw_request_kind kind, unsigned flags)
{
    _Static_assert((unsigned)UCP_OP_ATTR_FIELD_CALLBACK == CW_REQUEST_CALLBACK, "one is made of the other");
    request->flags = (uint16_t)(flags | (mask & UCP_OP_ATTR_FIELD_CALLBACK));
    request->status = UCS_INPROGRESS;
    request->kind = (uint8_t)kind;
    request->user_data = (mask & UCP_OP_ATTR_FIELD_USER_DATA) ? param->user_data : NULL;
    if (mask & UCP_OP_ATTR_FIELD_CALLBACK) {
        request->cb.send = param->cb.send; /* not read without CALLBACK */
    }
}

/* cw_request_get inline, for the critical path. */
static CW_INLINE struct cw_request *cw_request_get_inline(struct ucp_worker *worker, const ucp_request_param_t *param,
                                                          enum cw_request_kind kind)
{
    static const ucp_request_param_t none;
    struct cw_request *request;
    unsigned flags = 0;

    param = (param == NULL) ? &none : param;
    if (cw_likely(!(param->op_attr_mask & UCP_OP_ATTR_FIELD_REQUEST) && !cw_request_pool_is_empty(&worker->requests))) {
        request = cw_request_pool_take(worker);
    } else {
        request = cw_request_get_other(worker, param);
        if (request == NULL) {
            return NULL;
        }
        flags = request->flags & CW_REQUEST_USER_MEMORY;
    }
    cw_request_start(request, param, param->op_attr_mask, kind, flags);
    return request;
}

static inline void cw_worker_enter(struct ucp_worker *worker)
{
    if (cw_unlikely(worker->mt)) {
        cw_lock_enter(&worker->lock);
    }
}

static inline void cw_worker_leave(struct ucp_worker *worker)
{
    if (cw_unlikely(worker->mt)) {
        cw_lock_leave(&worker->lock);
    }
}

#endif
