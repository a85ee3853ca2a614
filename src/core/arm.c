/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The step before a program sleeps (docs/why/wakeup.md). Sleep and wakeup cost ten microseconds and more, and several
 * times that if the processor has to leave a halt. If the last sleeps of a program were all short, the worker first
 * polls for as long as such a sleep takes, and often finds the answer without a sleep. After a poll that found nothing,
 * the next sleeps begin without one; their number grows with each such poll. A worker whose program sleeps long never
 * polls here.
 */
#include "core/worker.h"

#include "core/lane.h"

#define SHORT_NS     UINT64_C(200000) /* from one sleep to the next, with the sleep of a peer in between */
#define SPIN_MOST_NS UINT64_C(1000000)

/* Number of short sleeps in a row from which on the worker polls before it sleeps. */
#define HABIT 4u

/* Sleeps without a poll after a poll that found nothing. */
#define REST_LEAST 16u
#define REST_MOST  4096u

/* Polls of memory between two polls of descriptors and clock, which are system calls. */
#define SPINS 64u

/* `except`: an interface that is not to be armed, or NULL. */
static ucs_status_t prepare(struct ucp_worker *worker, const struct cw_iface *except)
{
    struct cw_iface *iface;
    unsigned i;

    worker->polling.always = 1;
    worker->polling.rounds_to_clock = 0;
    if (!cw_list_empty(&worker->reap) || !cw_list_empty(&worker->jobs)) {
        return UCS_ERR_BUSY;
    }
    for (i = 0; i < worker->num_progressed; i++) {
        iface = worker->ifaces[i];
        if (iface != except && cw_iface_arm(iface) != UCS_OK) {
            return UCS_ERR_BUSY;
        }
    }
    return cw_poller_check(worker->poller) ? UCS_ERR_BUSY : UCS_OK;
}

static bool is_short(const struct cw_sleeps *sleeps, uint64_t now_ns)
{
    return now_ns - sleeps->armed_ns < SHORT_NS;
}

static bool poll_pays(const struct cw_sleeps *sleeps, uint64_t now_ns)
{
    return sleeps->num_short == HABIT && sleeps->rest == 0 && is_short(sleeps, now_ns);
}

/* Counts a sleep: the program is about to sleep, or need not. */
static void note(struct cw_sleeps *sleeps, uint64_t now_ns)
{
    if (!is_short(sleeps, now_ns)) {
        sleeps->num_short = 0;
    } else if (sleeps->num_short < HABIT) {
        sleeps->num_short++;
    }
    sleeps->armed_ns = now_ns;
    sleeps->rest -= sleeps->rest > 0;
}

static void note_spin(struct cw_sleeps *sleeps, bool found)
{
    if (found) {
        sleeps->next_rest = REST_LEAST;
    } else {
        sleeps->rest = (sleeps->next_rest < REST_LEAST) ? REST_LEAST : sleeps->next_rest;
        sleeps->next_rest = (sleeps->rest < REST_MOST) ? 2 * sleeps->rest : REST_MOST;
    }
}

static bool spin_memory(struct cw_rx *inbox)
{
    const unsigned spins = (inbox != NULL && cw_rx_has_ring(inbox)) ? SPINS : 0;

    for (unsigned i = 0; i < spins; i++) {
        if (cw_rx_is_packet(cw_rx_poll(inbox))) {
            return true;
        }
        cw_cpu_relax();
    }
    return false;
}

/* Whether a packet arrived, or the descriptor became readable. */
static bool spin(const struct cw_poller *poller, struct cw_rx *inbox, uint64_t end_ns)
{
    do {
        if (cw_poller_is_ready(poller) || spin_memory(inbox)) {
            return true;
        }
    } while (cw_clock_ns() < end_ns);
    return false;
}

/* Polls memory, and descriptors after that, then arms. The core itself sees packets that arrive in its inbox, so their
 * sender need not wake the program meanwhile, and that interface is armed after the poll. A worker with a lock releases
 * it while it polls. */
static ucs_status_t poll_first(struct ucp_worker *worker, uint64_t now_ns)
{
    const uint64_t spin_ns = worker->context->config->wakeup_spin_ns;
    struct cw_rx *inbox = (*worker->outer_inbox == worker->no_inbox) ? NULL : *worker->outer_inbox;
    ucs_status_t status;
    bool found;

    found = spin_memory(inbox);
    if (!found) {
        status = prepare(worker, (inbox == NULL) ? NULL : inbox->conn->iface);
        if (status != UCS_OK) {
            return status;
        }
        cw_worker_leave(worker);
        found = spin(worker->poller, inbox, now_ns + ((spin_ns < SPIN_MOST_NS) ? spin_ns : SPIN_MOST_NS));
        cw_worker_enter(worker);
    }
    note(&worker->sleeps, now_ns);
    note_spin(&worker->sleeps, found);
    if (found && ((inbox != NULL && cw_rx_is_packet(cw_rx_poll(inbox))) || cw_poller_check(worker->poller))) {
        return UCS_ERR_BUSY; /* cw_poller_check consumed a signal */
    }
    return prepare(worker, NULL);
}

static ucs_status_t arm(struct ucp_worker *worker)
{
    const uint64_t now_ns = cw_clock_ns();
    ucs_status_t status;

    if (worker->context->config->wakeup_spin_ns > 0 && poll_pays(&worker->sleeps, now_ns)) {
        return poll_first(worker, now_ns);
    }
    status = prepare(worker, NULL);
    if (status == UCS_OK) {
        note(&worker->sleeps, now_ns);
    }
    return status;
}

ucs_status_t cw_worker_arm(struct ucp_worker *worker)
{
    const ucs_status_t status = arm(worker);

    if (status == UCS_OK) {
        cw_poller_sleep(worker->poller); /* work that other threads leave to progress from now on must wake the
                                            program */
    }
    /* The counters are published before the program may sleep, as nobody publishes them during the sleep. */
    cw_count(worker, (status == UCS_OK) ? CW_COUNT_ARMS : CW_COUNT_ARMS_BUSY, 1);
    cw_counters_publish(worker);
    if (cw_unlikely(worker->trace != NULL)) {
        cw_trace_sleep(worker, status);
    }
    return status;
}
