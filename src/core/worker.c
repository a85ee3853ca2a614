/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The worker: creation and destruction in a fixed order, progress, and the sleep protocol.
 */
#include "core/lane_copies.h"
#include "core/worker.h"

#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/log.h"
#include "core/ep.h"
#include "core/ep_slots.h"
#include "core/failover/failover.h"
#include "mem/md.h"
#include "os/library.h"
#include "os/memory.h"
#include "os/random.h"
#include "transport/registry.h"
#include "wire/packet.h"

/* Whether a poll of the descriptors is due is decided in idle rounds, and in one of this many busy ones: a system call
 * in each round would add to the latency of shared memory (docs/why/progress.md). */
#define BUSY_ROUNDS_PER_POLL 128u
/* Packets taken from an inbox in one round, and the rounds with packets after which the other interfaces are polled. */
#define TAKES_PER_ROUND   15u /* and the first one */
#define ROUNDS_PER_IFACES 16u
_Static_assert(BUSY_ROUNDS_PER_POLL % ROUNDS_PER_IFACES == 0, "one of the latter is one of the former");
/* While idle rounds are short, one in this many reads the clock. SHORT_ROUND bounds them so that the time between two
 * readings does not look as if another thread had the processor. */
#define ROUNDS_PER_CLOCK  8u
#define OTHERS_RAN        (CW_CLOCK_TICKS_SHORT / 2)
#define SHORT_ROUND       (OTHERS_RAN / ROUNDS_PER_CLOCK)
/* The interval after which a worker polls its descriptors again: one part in QUIET_SHARE of the time since the last
 * event of a descriptor. While packets arrive on other paths, polling takes at most one part in BUSY_SHARE of its time.
 * LATEST_POLL bounds both: where a system call is slow, a poll before each answer of a device would delay all of them.
 * LATEST_BUSY bounds them while packets arrive on other paths. */
#define BUSY_SHARE        16u
#define QUIET_SHARE       8u
#define LATEST_POLL       (4 * (uint64_t)CW_CLOCK_TICKS_SHORT)
#define LATEST_BUSY       (16 * (uint64_t)CW_CLOCK_TICKS_SHORT)
/* While the worker is idle, one in this many polls publishes the counters. */
#define IDLE_POLLS_PER_PAGE 4u

#define EVENTS_DEFAULT                                                                                               \
    (UCP_WAKEUP_RMA | UCP_WAKEUP_AMO | UCP_WAKEUP_TAG_SEND | UCP_WAKEUP_TAG_RECV | UCP_WAKEUP_TX | UCP_WAKEUP_RX)

/* A processor needs no alignment beyond a page, and each message of a peer would need memory for it. */
static bool is_alignment(size_t bytes)
{
    if (bytes == 0 || (bytes & (bytes - 1)) != 0 || bytes > cw_memory_page()) {
        cw_error("cannot create a worker: am_alignment %zu is not a power of two up to the page size, "
                 "%zu", bytes, cw_memory_page());
        return false;
    }
    return true;
}

/* A program that passes its own event descriptor would wait there for events that never come. */
static bool is_event_fd(const ucp_worker_params_t *params)
{
    if ((params->field_mask & UCP_WORKER_PARAM_FIELD_EVENT_FD) && params->event_fd < 0) {
        cw_error("cannot create a worker: event_fd %d is not a descriptor; pass one of epoll_create, or omit "
                 "UCP_WORKER_PARAM_FIELD_EVENT_FD and call ucp_worker_get_efd", params->event_fd);
        return false;
    }
    return true;
}

static ucs_status_t set_params(struct ucp_worker *worker, const ucp_worker_params_t *params)
{
    uint64_t mask = params->field_mask;

    worker->thread_mode = (mask & UCP_WORKER_PARAM_FIELD_THREAD_MODE) ? params->thread_mode : UCS_THREAD_MODE_SINGLE;
    if ((unsigned)worker->thread_mode >= UCS_THREAD_MODE_LAST) {
        cw_error("unknown thread mode %d", (int)worker->thread_mode);
        return UCS_ERR_INVALID_PARAM;
    }
    worker->mt = (worker->thread_mode == UCS_THREAD_MODE_MULTI);
    worker->flags = (mask & UCP_WORKER_PARAM_FIELD_FLAGS) ? (unsigned)params->flags : 0;
    worker->client_id = (mask & UCP_WORKER_PARAM_FIELD_CLIENT_ID) ? params->client_id : 0;
    worker->am_alignment = (mask & UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT) ? params->am_alignment : 1;
    worker->user_epoll_fd = (mask & UCP_WORKER_PARAM_FIELD_EVENT_FD) ? params->event_fd : -1;
    if (!is_alignment(worker->am_alignment) || !is_event_fd(params)) {
        return UCS_ERR_INVALID_PARAM;
    }
    cw_name_set(worker->name, (mask & UCP_WORKER_PARAM_FIELD_NAME) ? params->name : NULL, worker);
    return UCS_OK;
}

static void make_plan(struct ucp_worker *worker, struct cw_iface *iface, struct cw_protocol_plan *plan)
{
    const struct cw_protocol_input input = cw_worker_protocol_input(worker, iface);

    cw_protocol_choose(&input, plan);
    iface->plan = plan;
}

/* Opens the next interface of the worker. `devices` is borrowed. */
static ucs_status_t open_next(struct ucp_worker *worker, const struct cw_transport *transport,
                              const struct cw_device *devices, unsigned count, struct cw_domain *domain)
{
    struct cw_iface_params params = {.config = worker->context->config,
                                .upcalls = (worker->trace != NULL) ? cw_trace_upcalls(worker) :
                                               worker->handlers->upcalls,
                                .owner = worker,
                                .poller = worker->poller,
                                .devices = devices,
                                .num_devices = count,
                                .domain = domain,
                                .worker_uid = worker->uid,
                                .wakeup = cw_worker_has(worker, UCP_FEATURE_WAKEUP),
                                .peer_memory = cw_context_allows(worker->context, "cma")};
    struct cw_iface *iface;
    ucs_status_t status = cw_iface_open(transport, &params, &iface);

    if (status == UCS_OK) {
        make_plan(worker, iface, &worker->plans[worker->num_progressed]);
        worker->ifaces[worker->num_progressed++] = iface;
        if (worker->trace != NULL) {
            cw_trace_iface(worker, iface);
        }
    }
    return status;
}

static ucs_status_t open_iface(struct ucp_worker *worker, const struct cw_resource *resources, unsigned count)
{
    struct cw_device *devices = malloc(count * sizeof(*devices));
    ucs_status_t status;
    unsigned i;

    if (devices == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = 0; i < count; i++) {
        devices[i] = resources[i].device;
    }
    status = open_next(worker, resources[0].transport, devices, count, resources[0].domain);
    if (status == UCS_OK) {
        worker->num_ifaces = worker->num_progressed;
        worker->ifaces[worker->num_progressed - 1]->device = &resources[0].device;
    } else {
        cw_diag("%s/%s is left out by worker %s: %s", resources[0].transport->name, resources[0].device.name,
                worker->name, ucs_status_string(status)); /* the transport has logged the reason */
    }
    free(devices);
    return status;
}

struct cw_iface *cw_worker_cm_iface(struct ucp_worker *worker)
{
    static const struct cw_device any = {.name = "any"};
    unsigned i;

    for (i = 0; i < worker->num_progressed; i++) {
        if (worker->ifaces[i]->transport->cm != NULL) {
            return worker->ifaces[i];
        }
    }
    for (i = 0; i < cw_num_transports; i++) {
        if (cw_transports[i]->cm != NULL && open_next(worker, cw_transports[i], NULL, 0, NULL) == UCS_OK) {
            worker->ifaces[worker->num_progressed - 1]->device = &any;
            worker->ifaces[worker->num_progressed - 1]->counted = CW_COUNTERS_TRANSPORTS;
            return worker->ifaces[worker->num_progressed - 1];
        }
    }
    return NULL;
}

/* The number of devices from `first` on that one interface serves. */
static unsigned num_served(const struct ucp_context *context, unsigned first)
{
    const struct cw_transport *transport = context->resources[first].transport;
    unsigned next = first + 1;

    while (transport->spans_devices && next < context->num_resources &&
           context->resources[next].transport == transport) {
        next++;
    }
    return next - first;
}

/* Opens the interfaces. An interface that cannot be opened is omitted, as long as another one works. But if an
 * interface lacks a protection that the settings require, creation fails. */
static ucs_status_t open_ifaces(struct ucp_worker *worker)
{
    const struct ucp_context *context = worker->context;
    ucs_status_t status = UCS_OK, last = UCS_ERR_NO_DEVICE;
    unsigned first, count;

    worker->ifaces = calloc(context->num_resources + 1, sizeof(*worker->ifaces));
    worker->plans = calloc(context->num_resources + 1, sizeof(*worker->plans));
    if (worker->ifaces == NULL || worker->plans == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (first = 0; first < context->num_resources; first += count) {
        count = num_served(context, first);
        status = open_iface(worker, &context->resources[first], count);
        last = (status == UCS_OK) ? last : status;
        if (status == UCS_ERR_INVALID_PARAM || status == UCS_ERR_UNSUPPORTED) {
            return status;
        }
    }
    if (worker->num_ifaces == 0) {
        cw_error("worker %s has no transport: none of the devices that UCX_TLS and UCX_NET_DEVICES allow can be opened",
                 worker->name);
    }
    return (worker->num_ifaces > 0) ? UCS_OK : last;
}

static ucs_status_t attach_user_epoll(struct ucp_worker *worker, const ucp_worker_params_t *params)
{
    void *user_data = (params->field_mask & UCP_WORKER_PARAM_FIELD_USER_DATA) ? params->user_data : NULL;
    unsigned events = (params->field_mask & UCP_WORKER_PARAM_FIELD_EVENTS) ? params->events : EVENTS_DEFAULT;
    ucs_status_t status;

    if (worker->user_epoll_fd < 0) {
        return UCS_OK;
    }
    status = cw_poller_attach(worker->poller, worker->user_epoll_fd, user_data, (events & UCP_WAKEUP_EDGE) != 0);
    if (status != UCS_OK) {
        worker->user_epoll_fd = -1;
    }
    return status;
}

static void free_peers(struct ucp_worker *worker)
{
    struct cw_hash_link *link;
    size_t i;

    for (i = 0; worker->peers.count > 0 && i <= worker->peers.mask; i++) {
        while ((link = (worker->peers.buckets == NULL) ? worker->peers.first : worker->peers.buckets[i]) != NULL) {
            cw_hash_remove(&worker->peers, link);
            cw_peer_free(cw_container_of(link, struct cw_peer, link));
        }
    }
}

/* Releases everything that creation has allocated, in reverse order; also for a partially created worker. */
static void release(struct ucp_worker *worker)
{
    struct ucp_context *context = worker->context;
    const unsigned num_ifaces = worker->num_ifaces;

    if (worker->user_epoll_fd >= 0) {
        cw_poller_detach(worker->poller, worker->user_epoll_fd);
    }
    worker->num_ifaces = 0;
    while (worker->num_progressed > 0) {
        worker->num_progressed--;
        cw_iface_close(worker->ifaces[worker->num_progressed]);
    }
    cw_failover_cleanup(worker, num_ifaces);
    free(worker->ifaces);
    free(worker->plans);
    if (worker->msg != NULL) {
        worker->handlers->worker_cleanup(worker);
    }
    cw_ep_slots_free(worker);
    free_peers(worker);
    cw_hash_cleanup(&worker->peers);
    cw_hash_cleanup(&worker->ep_index);
    cw_idmap_cleanup(&worker->ids);
    cw_request_pool_cleanup(&worker->requests, worker->context);
    cw_poller_free(worker->poller);
    cw_counters_close(worker);
    free(worker);
    cw_context_drop(context);
}

/* Chooses the inbox. Traced packets use the transport instead. */
static void find_inbox(struct ucp_worker *worker)
{
    unsigned i;

    worker->packet = worker->handlers->upcalls->packet;
    worker->no_inbox = &cw_no_rx;
    worker->inbox = &worker->no_inbox;
    for (i = 0; i < worker->num_ifaces && worker->trace == NULL; i++) {
        if (cw_iface_has_fastpath(worker->ifaces[i])) {
            worker->inbox = &worker->ifaces[i]->inbox;
        }
    }
    worker->outer_inbox = worker->mt ? &worker->no_inbox : worker->inbox;
}

ucs_status_t cw_worker_new(struct ucp_context *context, const ucp_worker_params_t *params,
                           const struct cw_worker_handlers *handlers, struct ucp_worker **worker_p)
{
    struct ucp_worker *worker;
    ucs_status_t status;

    worker = aligned_alloc(CW_CACHE_LINE, (sizeof(*worker) + CW_CACHE_LINE - 1) & ~(size_t)(CW_CACHE_LINE - 1));
    if (worker == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memset(worker, 0, sizeof(*worker));
    worker->context = context;
    worker->features = context->features;
    worker->handlers = handlers;
    status = set_params(worker, params);
    cw_lock_init(&worker->lock);
    if (status != UCS_OK) {
        free(worker);
        return status;
    }
    cw_context_hold(context);
    worker->uid = cw_random_u64();
    worker->redial.fire = cw_ep_redial_waiting;
    worker->round = (uint32_t)cw_counter_start + UINT64_C(1);
    worker->idle_rounds = (uint32_t)cw_counter_start;
    cw_list_init(&worker->eps);
    cw_list_init(&worker->flush_list);
    cw_list_init(&worker->reap);
    cw_list_init(&worker->jobs);
    cw_hash_init(&worker->peers, cw_random_u64());
    cw_hash_init(&worker->ep_index, cw_random_u64());
    cw_idmap_init(&worker->ids);
    cw_request_pool_init(&worker->requests, context->request_size);
    status = cw_poller_new(cw_worker_has(worker, UCP_FEATURE_WAKEUP), &worker->poller);
    if (status == UCS_OK) {
        status = handlers->worker_init(worker);
    }
    if (status == UCS_OK) {
        cw_counters_open(worker);
        status = open_ifaces(worker);
    }
    if (status == UCS_OK) {
        status = attach_user_epoll(worker, params);
    } else {
        worker->user_epoll_fd = -1;
    }
    if (status != UCS_OK) {
        release(worker);
        return status;
    }
    cw_counters_ready(worker);
    find_inbox(worker);
    worker->fast_features = (worker->mt || worker->trace != NULL) ? 0 : worker->features;
    worker->fast_features_locked = (worker->mt && worker->trace == NULL) ? worker->features : 0;
    (void)cw_worker_check_loaded(worker);
    cw_config_warn_unused(context->config);
    *worker_p = worker;
    return UCS_OK;
}

bool cw_worker_check_loaded(struct ucp_worker *worker)
{
    const uint64_t loaded = cw_library_number();

    if (worker->checked_attr != 0) {
        return false;
    }
    if (loaded != __atomic_load_n(&worker->loaded, __ATOMIC_RELAXED)) {
        if (cw_context_memory_types(worker->context) != CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST)) {
            __atomic_store_n(&worker->checked_attr, UCP_OP_ATTR_FIELD_MEMORY_TYPE, __ATOMIC_RELAXED);
            __atomic_store_n(&worker->fast_features, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&worker->fast_features_locked, 0, __ATOMIC_RELAXED);
            return false;
        }
        __atomic_store_n(&worker->loaded, loaded, __ATOMIC_RELAXED);
    }
    return true;
}

/* Sends the small sends that were collected, unless operations are still in progress: the keys of one-sided ones may be
 * invalid by now. */
static void say_goodbye(struct ucp_ep *ep)
{
    if (!ep->busy) {
        cw_ep_drain_all(ep);
    }
    if (ep->state == CW_EP_OPEN) {
        (void)cw_lane_send_header(ep->conn, CW_PACKET_END, 0);
    }
}

void cw_worker_free(struct ucp_worker *worker)
{
    size_t leaked;

    worker->progress_depth++; /* callbacks that call progress must not find a partially destroyed worker */
    while (!cw_list_empty(&worker->eps)) {
        say_goodbye(cw_list_head(&worker->eps, struct ucp_ep, link));
        cw_ep_destroy(cw_list_head(&worker->eps, struct ucp_ep, link));
    }
    worker->handlers->worker_cleanup(worker);
    leaked = cw_request_pool_in_use(&worker->requests);
    if (leaked > 0 && !(worker->flags & UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK)) {
        cw_warn("worker %s is destroyed while %zu of its requests were never freed (each was not returned to mpool)",
                worker->name, leaked);
    }
    release(worker);
}

void cw_worker_wake(const struct ucp_worker *worker)
{
    if (worker->progress_depth == 0) { /* otherwise the thread in progress is awake */
        cw_poller_wake(worker->poller);
    }
}

void cw_worker_add_job(struct ucp_worker *worker, struct cw_job *job)
{
    worker->todo = 1;
    cw_list_add_tail(&worker->jobs, &job->link);
    cw_worker_wake(worker);
}

static unsigned poll_descriptors(struct ucp_worker *worker, unsigned count)
{
    if (++worker->counts.values[CW_COUNT_POLLS] % IDLE_POLLS_PER_PAGE == 0 || count > 0) {
        cw_counters_publish(worker);
    }
    return count + cw_poller_dispatch(worker->poller);
}

/* Detects whether another thread needs this processor; called in an idle round that reads the clock. */
static CW_INLINE void search_others(struct ucp_worker *worker, uint64_t ticks)
{
    const uint64_t busy = worker->round - worker->idle_rounds;

    if (cw_unlikely(ticks < worker->yield_policy.rest_until)) {
        return;
    }
    if (busy != worker->yield_policy.busy_rounds) {
        worker->yield_policy.busy_rounds = busy;
        worker->yield_policy.idle_since = ticks;
    } else if (cw_unlikely(ticks - worker->polling.clock > OTHERS_RAN ||
                           worker->yield_policy.yields > 0)) {
        cw_worker_try_yield(worker, ticks);
    }
}

/* Polls descriptors at the time `now`, in a round with `received` events, and sets the time of the next poll. */
static CW_NOINLINE unsigned poll_and_pace(struct ucp_worker *worker, uint64_t now, unsigned received)
{
    const uint64_t busy = worker->round - worker->idle_rounds;
    const unsigned count = poll_descriptors(worker, received);
    const uint64_t end = cw_clock_ticks();
    uint64_t gap = 0, cost = end - now, latest = LATEST_POLL;

    if (count > received) {
        worker->polling.found = end;
        cost = 0; /* the time went to the events */
    } else {
        gap = (end - worker->polling.found) / QUIET_SHARE;
        gap = (gap > cost) ? gap : cost;
    }
    if (busy != worker->polling.busy_rounds) {
        gap = (gap > CW_CLOCK_TICKS_SHORT) ? gap : CW_CLOCK_TICKS_SHORT;
        gap = (gap > BUSY_SHARE * cost) ? gap : BUSY_SHARE * cost;
        latest = LATEST_BUSY;
    }
    worker->polling.busy_rounds = busy;
    worker->polling.next = end + ((gap < latest) ? gap : latest);
    return count;
}

static inline bool is_poll_due(const struct cw_polling *polling, uint64_t now)
{
    return polling->next - now - 1 >= LATEST_BUSY; /* whatever the counter did */
}

/* Ends a round without packets. Reading the clock takes longer than the rest of such a round, so while rounds are short
 * only some of them do it. */
static CW_INLINE unsigned poll_idle(struct ucp_worker *worker)
{
    struct cw_polling *polling = &worker->polling;
    uint64_t now;

    if (polling->rounds_to_clock > 0) {
        polling->rounds_to_clock--;
        return 0;
    }
    if (cw_likely(!polling->always && worker->num_connecting == 0)) {
        now = cw_clock_ticks();
        polling->rounds_to_clock = (now - polling->clock < SHORT_ROUND) ? ROUNDS_PER_CLOCK - 1 : 0;
        search_others(worker, now);
        polling->clock = now;
        return is_poll_due(polling, now) ? poll_and_pace(worker, now, 0) : 0;
    }
    return poll_descriptors(worker, 0);
}

static unsigned run_jobs(struct ucp_worker *worker)
{
    struct cw_list todo, *link;
    unsigned count = 0;

    cw_list_init(&todo);
    cw_list_splice_tail(&todo, &worker->jobs);
    while ((link = cw_list_pop_head(&todo)) != NULL) {
        struct cw_job *job = cw_container_of(link, struct cw_job, link);

        count += job->run(job);
    }
    return count;
}

/* Does the work that must wait until no transport is on the stack. */
static CW_NOINLINE unsigned end_round(struct ucp_worker *worker, unsigned count)
{
    worker->todo = 0;
    if (!cw_list_empty(&worker->jobs)) {
        count += run_jobs(worker);
    }
    if (!cw_list_empty(&worker->reap)) {
        count += cw_ep_reap_all(worker);
    }
    worker->progress_depth = 0;
    return count;
}

/* Called in some of the rounds with packets. */
static CW_NOINLINE unsigned busy(struct ucp_worker *worker, unsigned count)
{
    uint64_t now;

    if (worker->round % BUSY_ROUNDS_PER_POLL != 0) {
        return count;
    }
    now = cw_clock_ticks();
    if (worker->polling.always || worker->num_connecting > 0 || is_poll_due(&worker->polling, now)) {
        return poll_and_pace(worker, now, count);
    }
    return count;
}

unsigned cw_worker_progress(struct ucp_worker *worker)
{
    struct cw_rx *inbox = *worker->inbox;
    const struct cw_iface *idle;
    unsigned count = 0, i;

    if (cw_unlikely(worker->progress_depth > 0)) {
        return 0;
    }
    worker->progress_depth = 1;
    worker->round++;
    /* A packet that arrived since the caller polled is received in the next round. */
    idle = cw_rx_should_notify(inbox) ? NULL : inbox->conn->iface;
    for (i = 0; i < worker->num_progressed; i++) {
        if (worker->ifaces[i] != idle) {
            count += cw_iface_progress(worker->ifaces[i]);
        }
    }
    if (count == 0) {
        cw_rx_fetch(*worker->inbox);
        worker->idle_rounds++;
        count = poll_idle(worker);
    } else if (worker->round % ROUNDS_PER_IFACES == 0) {
        count = busy(worker, count);
    }
    if (cw_unlikely(worker->todo)) {
        return end_round(worker, count);
    }
    worker->progress_depth = 0;
    return count;
}

/* Delivers one packet. Its bytes stay unchanged until the producer is notified. Must be followed by cw_rx_next. */
static CW_INLINE void take_packet(const struct ucp_worker *worker, struct cw_rx *inbox, uint64_t seen)
{
    const void *data = cw_rx_pop(inbox, seen);

    worker->packet(inbox->conn, cw_rx_id(seen), data, seen >> 16);
}

/* Takes the packets behind the first one. */
static CW_NOINLINE unsigned take_more(const struct ucp_worker *worker, struct cw_rx *inbox, uint64_t seen)
{
    unsigned count = 0;

    do {
        take_packet(worker, inbox, seen);
        seen = cw_rx_next(inbox);
    } while (++count < TAKES_PER_ROUND && cw_rx_is_short(inbox, seen));
    return count;
}

/* Called in some rounds while the inbox has packets: polls the other interfaces. */
static CW_NOINLINE unsigned scan_around(struct ucp_worker *worker, unsigned count)
{
    unsigned i;

    for (i = 0; i < worker->num_progressed; i++) {
        count += cw_iface_progress(worker->ifaces[i]);
    }
    return busy(worker, count);
}

static CW_INLINE unsigned taken(struct ucp_worker *worker, unsigned count)
{
    if (cw_unlikely(worker->round % ROUNDS_PER_IFACES == 0)) {
        count = scan_around(worker, count);
    }
    if (cw_unlikely(worker->todo)) {
        return end_round(worker, count);
    }
    worker->progress_depth = 0;
    return count;
}

unsigned cw_worker_receive(struct ucp_worker *worker, struct cw_rx *inbox, uint64_t seen)
{
    unsigned count = 1;

    if (cw_unlikely(worker->progress_depth > 0)) {
        return 0;
    }
    worker->progress_depth = 1;
    worker->round++;
    cw_tx_answers(inbox->answers);
    take_packet(worker, inbox, seen);
    seen = cw_rx_next(inbox);
    if (cw_rx_is_short(inbox, seen)) {
        count += take_more(worker, inbox, seen);
    }
    return taken(worker, count);
}

/* The transport takes this packet and those behind it. */
unsigned cw_worker_receive_long(struct ucp_worker *worker, struct cw_rx *inbox)
{
    struct cw_iface *iface = inbox->conn->iface;

    if (cw_unlikely(worker->progress_depth > 0)) {
        return 0;
    }
    worker->progress_depth = 1;
    worker->round++;
    return taken(worker, cw_iface_progress(iface));
}

struct cw_protocol_input cw_worker_protocol_input(const struct ucp_worker *worker, const struct cw_iface *iface)
{
    const struct cw_config *config = worker->context->config;
    const struct cw_domain *domain = iface->domain;
    const size_t thresh = (iface->transport->device_class == CW_DEVICE_NET) ? config->rndv_thresh.inter
                                                                            : config->rndv_thresh.intra;

    return (struct cw_protocol_input){.max_short = iface->limits.max_short,
                               .lacks_short = iface->packets->send_short == NULL,
                               .max_bcopy = iface->limits.max_bcopy,
                               .max_zcopy = iface->limits.max_zcopy,
                               .zcopy_break_even = iface->limits.zcopy_break_even,
                               .max_registered = iface->limits.max_registered,
                               .max_placed = iface->limits.max_placed,
                               .places_in_order = iface->packets->send_in_place != NULL && iface->limits.max_placed > 0,
                               .rma_rails = config->max_rma_rails,
                               .memory = cw_iface_copies(iface),
                               .copies_break_even = iface->limits.copies_break_even,
                               .in_process = iface->transport->device_class == CW_DEVICE_SELF,
                               .latency_ns = iface->limits.latency_ns,
                               .bandwidth_bps = iface->limits.bandwidth_bps,
                               .overhead_ns = iface->limits.overhead_ns,
                               .rndv_thresh = thresh,
                               .rndv_setting = "RNDV_THRESH",
                               .rndv_fast_thresh = config->rndv_send_nbr_thresh,
                               .rndv_scheme = (uint8_t)config->rndv_scheme,
                               .access = domain != NULL,
                               .register_ns = (domain != NULL) ? domain->attr.register_ns : 0,
                               .register_byte_ns = (domain != NULL) ? domain->attr.register_byte_ns : 0,
                               .zcopy_thresh = config->zcopy_thresh};
}

struct cw_protocol_lane cw_worker_protocol_lane(const struct ucp_worker *worker, const struct cw_iface *iface,
                                                const struct cw_conn *conn)
{
    return (struct cw_protocol_lane){.input = cw_worker_protocol_input(worker, iface),
                                 .plan = iface->plan,
                                 .max_piece = (conn != NULL) ? cw_conn_max_piece(conn) : iface->limits.max_bcopy,
                                 .max_whole = (conn != NULL) ? conn->max_whole : 0};
}

void cw_worker_print(const struct ucp_worker *worker, FILE *stream, size_t address_length)
{
    unsigned i;

    fprintf(stream, "#\n# UCP worker '%s'\n#\n#                 address: %zu bytes\n", worker->name, address_length);
    for (i = 0; i < worker->num_ifaces; i++) {
        fprintf(stream, "#               transport: %s\n", cw_iface_name(worker->ifaces[i]));
    }
    if (cw_worker_has(worker, UCP_FEATURE_AMO32) || cw_worker_has(worker, UCP_FEATURE_AMO64)) { /* the target's
                                                                                                 * processor does */
        fprintf(stream, "#                 atomics: all of them\n");
    }
    fprintf(stream, "#\n");
}
