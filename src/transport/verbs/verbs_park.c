/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parking: idle connections give up their queue pair (docs/why/parked.md). Beyond a number of live connections, or when
 * the device has no further queue pair, the least recently used one is parked by three control words, and reopened by
 * datagrams when it is used:
 *
 *   OPEN --PARK--> PARKING --PARK_OK came, PARTED--> PARTING --acknowledged--> PARKED    the side that parks
 *   OPEN --PARK came, PARK_OK--> YIELDING --PARTED came--> PARKED                        the peer
 *   PARKED --hello--> REOPENING --reply came, READY--> OPEN                              the side that sends first
 *   PARKED --hello came, reply--> ACCEPTING --READY came--> OPEN                         the peer
 *
 * A side that sends one of these words has no request in flight, and the peer relies on none. PARKING goes back to OPEN
 * by READY at any time, so a peer that does not answer costs nothing; YIELDING waits for READY or PARTED. A queue pair
 * that is no longer needed is destroyed only after a while, as the device may still have to acknowledge a last word.
 */
#include "transport/verbs/verbs_conn.h"

#include <stdlib.h>

#include "os/clock.h"

#define SWEEP_NS      UINT64_C(10000000)
#define PATIENCE_MOST 12u
#define ANSWER_SWEEPS 8u /* sweeps within which an answer to PARK is expected */
#define NUMBER_SHIFT  16u
#define FEW           16u /* with fewer queue pairs in use, the device lacks another resource */
#define REFUSED_NS    UINT64_C(1000000000)

struct cw_verbs_retired {
    struct cw_verbs_retired *next;
    struct ibv_qp *qp;
    uint64_t until_ns;
};

static void sweep_soon(struct cw_verbs_iface *iface, bool wakes)
{
    const bool is_set = cw_alarm_is_set(&iface->sweep);

    iface->sweep_ns = is_set ? iface->sweep_ns : cw_clock_ns() + SWEEP_NS;
    if (wakes) {
        cw_poller_alarm_set(iface->poller, &iface->sweep, iface->sweep_ns);
    } else if (!is_set) {
        cw_poller_alarm_set_lazy(iface->poller, &iface->sweep, iface->sweep_ns);
    }
}

void cw_verbs_live_add(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    cw_list_remove(&conn->live);
    cw_list_add_tail(&iface->live, &conn->live);
    iface->refused_ns = 0;
    conn->idle = 0;
    conn->swept = conn->posted;
    if (++iface->num_live > iface->most_live) {
        sweep_soon(iface, false);
    }
}

bool cw_verbs_dial_begin(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    conn->is_dial = iface->num_dials < iface->most_dials && cw_verbs_conn_make_qp(conn);
    iface->num_dials += conn->is_dial;
    return conn->is_dial;
}

void cw_verbs_dial_end(struct cw_verbs_conn *conn)
{
    cw_verbs_iface_of(&conn->super)->num_dials -= conn->is_dial;
    conn->is_dial = 0;
}

void cw_verbs_live_remove(struct cw_verbs_conn *conn)
{
    cw_verbs_dial_end(conn);
    if (!cw_list_empty(&conn->live)) {
        cw_list_remove(&conn->live);
        cw_verbs_iface_of(&conn->super)->num_live -= conn->qp != NULL;
    }
}

/* A watched peer's end must still be detected while parked. */
static bool may_park(const struct cw_verbs_conn *conn)
{
    return cw_verbs_is_seen(conn) || !cw_verbs_conn_is_wanted(conn);
}

bool cw_verbs_can_wait(const struct cw_verbs_iface *iface)
{
    const struct cw_verbs_conn *conn;

    if (iface->settings.most_live == UINT32_MAX || iface->refused_ns == 0) {
        return iface->refused_ns == 0; /* only the limit of dials was reached */
    }
    if (iface->num_live < FEW || cw_clock_ns() - iface->refused_ns >= REFUSED_NS) {
        return false;
    }
    cw_list_for_each(conn, &iface->live, const struct cw_verbs_conn, live)
    {
        if (conn->state != CW_VERBS_OPEN || may_park(conn)) {
            return true;
        }
    }
    return iface->retired != NULL;
}

bool cw_verbs_make_space(struct cw_verbs_iface *iface)
{
    const unsigned fewer = iface->num_live - iface->num_live / 8;

    iface->refused_ns = (iface->refused_ns == 0) ? cw_clock_ns() : iface->refused_ns;
    if (!cw_verbs_can_wait(iface)) {
        return false;
    }
    iface->most_live = (fewer > 1 && fewer < iface->most_live) ? fewer : iface->most_live;
    iface->is_short = 1;
    sweep_soon(iface, true);
    return true;
}

void cw_verbs_wait(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);

    cw_list_add_tail(&iface->waiting, &conn->live);
    sweep_soon(iface, true);
}

bool cw_verbs_retired_free(struct cw_verbs_iface *iface, bool all)
{
    struct cw_verbs_retired *retired;
    bool any = false;

    while ((retired = iface->retired) != NULL && (all || cw_clock_ns() >= retired->until_ns)) {
        if (!any) {
            cw_verbs_hold_received(iface); /* drivers discard the completions of a destroyed queue pair */
        }
        any = true;
        iface->retired = retired->next;
        if (iface->retired == NULL) {
            iface->retired_end = &iface->retired;
        }
        cw_verbs_qp_destroy(iface, retired->qp);
        free(retired);
    }
    return any;
}

/* A broken queue pair that still has requests could access their memory. */
static void retire(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const bool is_broken = conn->state == CW_VERBS_BROKEN;
    struct cw_verbs_retired *retired = (is_broken && cw_verbs_is_running(conn)) ? NULL : malloc(sizeof(*retired));

    cw_hash_remove(&iface->by_qp, &conn->by_qp);
    cw_verbs_live_remove(conn);
    if (retired != NULL) {
        *retired = (struct cw_verbs_retired){
            .qp = conn->qp, .until_ns = cw_clock_ns() + (is_broken ? CW_VERBS_DRAIN_NS : SWEEP_NS)};
        *iface->retired_end = retired;
        iface->retired_end = &retired->next;
        sweep_soon(iface, false);
    } else {
        cw_verbs_hold_received(iface);
        cw_verbs_qp_destroy(iface, conn->qp);
    }
    conn->qp = NULL;
    if (is_broken) {
        conn->unsent = conn->posted - conn->completed;
    } else {
        cw_verbs_conn_forget_requests(conn);
    }
}

void cw_verbs_park(struct cw_verbs_conn *conn)
{
    if (conn->qp != NULL) {
        retire(conn);
    }
    cw_poller_alarm_cancel(cw_verbs_iface_of(&conn->super)->poller, &conn->alarm);
    if (conn->state != CW_VERBS_BROKEN) {
        conn->lost = NULL;
        free(conn->requests);
        conn->requests = NULL;
    }
    conn->state = CW_VERBS_PARKED;
    conn->epoch = (conn->epoch == UINT32_MAX) ? 1 : conn->epoch + 1;
    conn->is_ready = 0;
    conn->is_asked = 0;
    conn->is_connected = 0;
    conn->is_said = 0;
    conn->num_words = 0;
    cw_debug("%s: the connection %llu %s", cw_verbs_iface_of(&conn->super)->port.name, (unsigned long long)conn->id,
             conn->is_renewing ? "gives up its queue pair, which a refused access broke" : "is parked");
    if (conn->num_flushes > 0 || !cw_list_empty(&conn->blocked)) {
        cw_verbs_conn_due(conn);
    }
}

void cw_verbs_park_settle(struct cw_verbs_conn *conn)
{
    bool wanted = !cw_list_empty(&conn->blocked);

    if (conn->state == CW_VERBS_BROKEN) {
        wanted = cw_verbs_renew_leave(conn, cw_verbs_iface_of(&conn->super)->drained);
    }
    if (conn->state == CW_VERBS_PARTING && (int32_t)(conn->completed - conn->end) > 0) {
        cw_verbs_park(conn);
        wanted = wanted || conn->is_doubtful;
        conn->is_doubtful = 0;
    }
    if (conn->state == CW_VERBS_PARKED && wanted) {
        cw_verbs_reopen(conn);
    }
}

/* The hello is sent once there is a queue pair to name. */
static void begin_hello(struct cw_verbs_conn *conn)
{
    struct cw_verbs_iface *iface = cw_verbs_iface_of(&conn->super);
    const uint64_t now = cw_clock_ns();

    cw_verbs_retry_begin(&conn->retry, now, iface->settings.first_retry_ns,
                         cw_verbs_reopens_for_ever(conn) ? iface->settings.connect_timeout_ns
                                                         : CW_VERBS_STUCK_POLLS * iface->settings.keepalive_ns);
    if (conn->is_renewing && now < conn->paced_ns) {
        cw_poller_alarm_set(iface->poller, &conn->alarm, conn->paced_ns);
    } else {
        (void)cw_verbs_cm_alarm(conn, now);
    }
}

void cw_verbs_reopen(struct cw_verbs_conn *conn)
{
    conn->state = CW_VERBS_REOPENING;
    conn->is_said = 0;
    if (conn->patience < PATIENCE_MOST && !conn->is_renewing) {
        conn->patience++;
    }
    if (cw_verbs_dial_begin(conn)) {
        begin_hello(conn);
    } else {
        cw_verbs_wait(conn);
    }
}

bool cw_verbs_wake(struct cw_verbs_conn *conn)
{
    if (conn->state == CW_VERBS_PARKING) {
        conn->state = CW_VERBS_OPEN;
        cw_verbs_conn_say(conn, CW_VERBS_READY);
    } else if (conn->state == CW_VERBS_PARKED) {
        cw_verbs_reopen(conn);
    }
    return conn->state == CW_VERBS_OPEN || conn->state >= CW_VERBS_FAILING;
}

/* This side has nothing in flight or started. */
static bool is_quiet(const struct cw_verbs_conn *conn)
{
    return conn->posted == conn->completed && conn->ops == NULL && conn->num_flushes == 0 && conn->batches == 0 &&
           cw_list_empty(&conn->blocked);
}

/* Sends a control word if the connection is quiet; otherwise forces signaled completions so that a later call can.
 * Returns whether it sent the word. */
static bool say_if_quiet(struct cw_verbs_conn *conn, uint32_t word, enum cw_verbs_state state)
{
    const bool quiet = is_quiet(conn);

    if (quiet) {
        conn->idle = 0;
        conn->state = state;
        cw_verbs_conn_say(conn, word);
    } else {
        cw_verbs_conn_nudge(conn);
    }
    conn->swept = conn->posted;
    return quiet;
}

static bool take_park(struct cw_verbs_conn *conn, uint16_t number)
{
    if (conn->state == CW_VERBS_PARKING) {
        if (cw_verbs_wins(conn)) {
            return true; /* the peer withdraws its word */
        }
        (void)cw_verbs_wake(conn);
    }
    if (conn->state != CW_VERBS_OPEN || conn->is_asked) {
        return false;
    }
    conn->is_asked = 1;
    conn->peer_asked = number;
    conn->idle = 0;
    conn->swept = conn->posted;
    sweep_soon(cw_verbs_iface_of(&conn->super), true);
    return true;
}

bool cw_verbs_park_word(struct cw_verbs_conn *conn, uint32_t word)
{
    const uint16_t number = (uint16_t)(word >> NUMBER_SHIFT);

    if (conn->state >= CW_VERBS_BROKEN) {
        return true;
    }
    switch (word & 0xffffu) {
    case CW_VERBS_PARK:
        return take_park(conn, number);
    case CW_VERBS_PARK_OK:
        if (conn->state == CW_VERBS_PARKING && number == conn->asked) {
            conn->state = CW_VERBS_PARTING;
            conn->end = conn->posted;
            cw_verbs_conn_say(conn, CW_VERBS_PARTED);
        }
        return true;
    case CW_VERBS_PARTED:
        if (conn->state != CW_VERBS_YIELDING) {
            return false;
        }
        cw_verbs_park(conn);
        return true;
    default:
        return false;
    }
}

/* Moves the connections used since the last sweep to the end of the list. Returns how many are being parked. */
static unsigned check(struct cw_verbs_iface *iface)
{
    struct cw_verbs_conn *conn, *next;
    unsigned left = iface->num_live, pending = 0;

    cw_list_for_each_safe(conn, next, &iface->live, struct cw_verbs_conn, live)
    {
        if (left-- == 0) {
            break;
        }
        if (conn->is_used || conn->posted != conn->swept) {
            conn->idle = 0;
            cw_list_remove(&conn->live);
            cw_list_add_tail(&iface->live, &conn->live);
        } else if (conn->idle < UINT16_MAX) {
            conn->idle++;
        }
        conn->is_used = 0;
        conn->swept = conn->posted;
        pending += conn->state == CW_VERBS_YIELDING || conn->state == CW_VERBS_PARTING ||
                   (conn->state == CW_VERBS_PARKING && conn->idle < ANSWER_SWEEPS);
    }
    return pending;
}

/* Gives queue pairs to waiting connections. If the device keeps refusing, fails the dials, so that the core can try
 * another transport, and the others too if parking cannot help. */
static void serve(struct cw_verbs_iface *iface)
{
    struct cw_verbs_conn *conn, *next;

    cw_list_for_each_safe(conn, next, &iface->waiting, struct cw_verbs_conn, live)
    {
        if (!cw_verbs_dial_begin(conn)) {
            break;
        }
        begin_hello(conn);
    }
    if (iface->refused_ns == 0 || cw_clock_ns() - iface->refused_ns < REFUSED_NS) {
        return;
    }
    cw_list_for_each_safe(conn, next, &iface->waiting, struct cw_verbs_conn, live)
    {
        if (conn->state == CW_VERBS_DIALLING || iface->num_live < FEW) {
            cw_verbs_conn_fail(conn, UCS_ERR_UNREACHABLE, "the device has no queue pair for it");
        }
    }
}

static unsigned on_sweep(struct cw_alarm *alarm)
{
    struct cw_verbs_iface *iface = cw_container_of(alarm, struct cw_verbs_iface, sweep);
    struct cw_verbs_conn *conn, *next;
    const bool is_short = iface->is_short;
    unsigned surplus = (iface->num_live > iface->most_live) ? iface->num_live - iface->most_live : 0;
    unsigned pending = check(iface);
    bool asked = false;

    iface->is_short = 0;
    surplus = (is_short && surplus < iface->num_live / 4 + 1) ? iface->num_live / 4 + 1 : surplus;
    cw_list_for_each_safe(conn, next, &iface->live, struct cw_verbs_conn, live)
    {
        if (conn->state != CW_VERBS_OPEN || !may_park(conn)) {
            continue;
        }
        if (conn->is_asked) {
            if (conn->idle > 0) {
                (void)say_if_quiet(conn, CW_VERBS_PARK_OK | ((uint32_t)conn->peer_asked << NUMBER_SHIFT),
                                   CW_VERBS_YIELDING);
            }
            asked = true;
        } else if (pending < surplus && conn->idle >= (is_short ? 1u : 1u << conn->patience)) {
            pending += say_if_quiet(conn, CW_VERBS_PARK | ((uint32_t)(uint16_t)++conn->asked << NUMBER_SHIFT),
                                    CW_VERBS_PARKING);
        }
    }
    (void)cw_verbs_retired_free(iface, false);
    serve(iface);
    if (asked || iface->is_short || !cw_list_empty(&iface->waiting)) {
        sweep_soon(iface, true);
    } else if (iface->num_live > iface->most_live || iface->retired != NULL) {
        sweep_soon(iface, false);
    }
    return 0;
}

void cw_verbs_sweep_init(struct cw_verbs_iface *iface)
{
    cw_list_init(&iface->live);
    cw_list_init(&iface->waiting);
    iface->retired_end = &iface->retired;
    iface->sweep.fire = on_sweep;
}
