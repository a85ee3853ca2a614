/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The move of a message lane to another carrier, and its silence: if nothing is confirmed for a while, or the carrier
 * does not answer, this side probes the further lanes. A peer that answers twice, and has handled nothing in between,
 * shows that the carrier is cut. Invalid numbers end the endpoint.
 */
#include "core/failover/failover.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "os/clock.h"

#define SILENT_NS   UINT64_C(300000000)
#define ANSWER_NS   UINT64_C(300000000)  /* after this time without TAKEN the next further lane is tried */
#define REPAIR_NS   UINT64_C(1000000000) /* interval between checks for lanes to be reopened */
#define MAX_ANSWERS 2u
#define MAX_STRIKES 3u

static struct cw_further_lane *lane_at(const struct ucp_ep *ep, unsigned index)
{
    return (ep->lanes != NULL && ep->lanes->further[index].state == CW_FURTHER_OPEN) ? &ep->lanes->further[index]
                                                                                     : NULL;
}

/* The alarm is set no later than then. */
static void poll_at(struct cw_failover *failover, uint64_t at_ns)
{
    if (!cw_alarm_is_set(&failover->watch) || failover->watch.at_ns > at_ns) {
        cw_poller_alarm_set(failover->ep->worker->poller, &failover->watch, at_ns);
    }
}

static void suspect(struct cw_failover *failover, const struct cw_further_lane *lane)
{
    const unsigned index = (unsigned)(lane - failover->ep->lanes->further);

    if (!(failover->doubtful & 1u << index)) {
        failover->doubtful |= (uint8_t)(1u << index);
        failover->strikes[index] = 0;
    }
}

/* Sends a report or a probe on a further lane that may be cut. 0: the lane has no tx space. */
static int notify_on(struct cw_failover *failover, const struct cw_further_lane *lane, enum cw_wire_move_kind kind)
{
    suspect(failover, lane);
    return cw_failover_notify(failover, lane->conn, kind);
}

void cw_failover_full(struct ucp_ep *ep, const struct cw_further_lane *lane)
{
    struct cw_failover *failover = cw_failover_of(ep);

    if (failover != NULL && cw_list_empty(&lane->retained)) {
        if (lane->conn == failover->carrier && cw_list_empty(&failover->packets)) {
            failover->moved_ns = cw_clock_ns(); /* from now on only tx space is missing */
        }
        suspect(failover, lane);
        poll_at(failover, cw_clock_ns() + CW_FAILOVER_POLL_NS);
    }
}

/* ---- moving ---- */

/* A peer that has closed its endpoint retains its lanes until it has handled our CLOSE, and so everything before
 * that. */
static void no_lane(struct cw_failover *failover)
{
    if (failover->ep->closes == (CW_CLOSE_SENT | CW_CLOSE_CAME)) {
        cw_failover_flushed(failover);
    }
    cw_ep_fail(failover->ep, failover->status);
}

/* Offers the next further lane to the peer, starting with the one on which the peer was last received. */
static void try_next(struct cw_failover *failover)
{
    struct ucp_ep *ep = failover->ep;
    struct cw_further_lane *lane, *next = NULL;
    unsigned i, index;

    for (i = 1; i <= CW_MAX_LANES; i++) {
        index = (failover->last + i) % CW_MAX_LANES;
        lane = lane_at(ep, index);
        if (lane != NULL && (next == NULL || lane->conn == failover->heard)) {
            next = lane;
        }
    }
    failover->heard = NULL;
    if (next == NULL) {
        no_lane(failover);
        return;
    }
    failover->last = (uint8_t)(next - ep->lanes->further);
    failover->candidate = next->conn;
    failover->generation++;
    failover->here_pending = !notify_on(failover, next, CW_WIRE_MOVE_HERE);
}

/* Has the dialler choose another carrier. */
static void log_lost(struct cw_failover *failover)
{
    struct cw_further_lane *lane;
    unsigned i, count = 0;

    for (i = 0; i < CW_MAX_LANES; i++) {
        lane = lane_at(failover->ep, i);
        if (lane != NULL) {
            (void)notify_on(failover, lane, CW_WIRE_MOVE_LOST);
            count++;
        }
    }
    if (count == 0) {
        no_lane(failover);
    }
}

static void seek(struct cw_failover *failover)
{
    failover->asked_ns = cw_clock_ns();
    if (failover->conn.dialled) {
        try_next(failover);
    } else {
        log_lost(failover);
    }
    poll_at(failover, failover->asked_ns + CW_FAILOVER_POLL_NS);
}

/* The carrier is left; packets that still arrive on it are ignored. */
static void begin(struct cw_failover *failover, ucs_status_t status)
{
    failover->carrier = NULL;
    failover->candidate = NULL;
    failover->here_pending = 0;
    failover->status = status;
    failover->moved_ns = cw_clock_ns();
    failover->answers = 0;
    failover->probed = 0;
    failover->unanswered = 0;
    cw_ep_add_flush(failover->ep);
    if (failover->ep->peer_ended) {
        cw_ep_fail(failover->ep, status); /* its worker is being destroyed: no lane survives */
        return;
    }
    seek(failover);
}

/* Closes the first connection in the next reap. */
static void leave_first(struct cw_failover *failover, const char *why)
{
    struct ucp_ep *ep = failover->ep;
    struct cw_conn *first = failover->first;

    if (ep->closes == 0) {
        cw_diag("first lane of endpoint %p to worker %016llx over %s/%s failed: %s", (void *)ep,
                (unsigned long long)cw_ep_peer_uid(ep), cw_lane_name(first), cw_iface_device(first->iface), why);
    }
    if (first->end != NULL) { /* the reason to give if no lane survives */
        free(failover->conn.end);
        failover->conn.end = first->end;
        first->end = NULL;
    }
    failover->first = NULL;
    cw_lane_abandon(first);
    first->next_old = ep->old_conns;
    ep->old_conns = first;
    cw_ep_reap_later(ep);
}

static void is_carried(struct cw_failover *failover, struct cw_conn *conn)
{
    struct ucp_ep *ep = failover->ep;
    const uint64_t resent = failover->sent - failover->acked;
    struct cw_further_lane *to = cw_lanes_find(ep, conn);

    failover->carrier = conn;
    failover->moved_ns = cw_clock_ns();
    free(failover->conn.end);
    failover->conn.end = NULL;
    cw_failover_name(failover);
    cw_failover_rewind(failover);
    cw_diag("messages of endpoint %p to worker %016llx move to lane %u, %s/%s; %llu packets are resent",
            (void *)ep, (unsigned long long)cw_ep_peer_uid(ep), (to == NULL) ? 0 : cw_lane_index(ep->lanes, to),
            cw_lane_name(conn), cw_iface_device(conn->iface), (unsigned long long)resent);
}

int cw_failover_closed(struct ucp_ep *ep, struct cw_conn *conn, ucs_status_t status)
{
    struct cw_failover *failover = cw_failover_of(ep);
    const int was_carrier = failover != NULL && failover->carrier == conn;

    if (failover == NULL || conn != failover->first) {
        return 0;
    }
    if (ep->state != CW_EP_OPEN) {
        return 1;
    }
    leave_first(failover, (conn->end != NULL) ? conn->end : "its connection ended");
    if (status == UCS_ERR_IO_ERROR && conn->iface->domain == NULL) { /* bytes that are no packets: the other lanes
                                                                      * cannot be trusted either */
        cw_ep_fail(ep, status);
    } else if (was_carrier) {
        begin(failover, status);
    }
    return 1;
}

void cw_failover_dropped(struct ucp_ep *ep, struct cw_conn *conn, unsigned index)
{
    struct cw_failover *failover = cw_failover_of(ep);

    if (failover == NULL || ep->state != CW_EP_OPEN) {
        return;
    }
    failover->missing |= (uint8_t)(1u << index);
    poll_at(failover, cw_clock_ns() + REPAIR_NS);
    if (conn->end != NULL && failover->conn.end == NULL) {
        failover->conn.end = conn->end;
        conn->end = NULL;
    }
    if (failover->carrier == conn) {
        begin(failover, UCS_ERR_CONNECTION_RESET);
    } else if (failover->carrier == NULL && (failover->candidate == conn || !failover->conn.dialled)) {
        seek(failover);
    }
}

/* ---- packets ---- */

/* 0: no packet beyond those that were sent can have been handled. */
static int take_count(struct cw_failover *failover, uint64_t handled, int is_moving)
{
    const uint64_t unsent = (failover->unsent == NULL || is_moving) ? failover->sent : failover->unsent->number;

    if (handled < failover->acked || handled > unsent) {
        return 0;
    }
    cw_failover_confirm(failover, handled);
    return 1;
}

static ucs_status_t on_here(struct cw_failover *failover, struct cw_conn *conn, const struct cw_wire_move *move)
{
    if (failover->conn.dialled || cw_lanes_find(failover->ep, conn) == NULL) {
        return UCS_ERR_IO_ERROR;
    }
    if (move->generation <= failover->generation) {
        return UCS_OK;
    }
    if (!take_count(failover, move->handled, 1)) {
        return UCS_ERR_IO_ERROR;
    }
    if (failover->first != NULL && failover->carrier == failover->first) {
        leave_first(failover, "the peer abandoned it");
    }
    failover->generation = move->generation;
    failover->reported = failover->handled;
    failover->candidate = conn;
    failover->here_pending = !cw_failover_notify(failover, conn, CW_WIRE_MOVE_TAKEN);
    is_carried(failover, conn);
    cw_failover_pump(failover);
    return UCS_OK;
}

static ucs_status_t on_taken(struct cw_failover *failover, struct cw_conn *conn, const struct cw_wire_move *move)
{
    if (!failover->conn.dialled) {
        return UCS_ERR_IO_ERROR;
    }
    if (move->generation != failover->generation || failover->carrier != NULL || conn != failover->candidate) {
        return UCS_OK;
    }
    if (failover->here_pending || !take_count(failover, move->handled, 1)) {
        return UCS_ERR_IO_ERROR;
    }
    failover->reported = failover->handled; /* HERE contained it */
    is_carried(failover, conn);
    cw_failover_pump(failover);
    return UCS_OK;
}

/* Leaves a carrier that delivers nothing. */
static void is_silent(struct cw_failover *failover)
{
    static const char why[] = "no packets arrive";
    struct ucp_ep *ep = failover->ep;
    struct cw_further_lane *lane = cw_lanes_find(ep, failover->carrier);

    if (lane != NULL) {
        cw_lanes_lane_failed(ep->lanes, lane, why);
    } else if (failover->carrier == failover->first) {
        leave_first(failover, why);
        begin(failover, UCS_ERR_ENDPOINT_TIMEOUT);
    }
}

static ucs_status_t on_lost(struct cw_failover *failover, const struct cw_conn *conn, const struct cw_wire_move *move)
{
    if (!failover->conn.dialled) {
        return UCS_ERR_IO_ERROR;
    }
    if (move->generation == failover->generation && failover->carrier != NULL) {
        failover->heard = conn;
        is_silent(failover);
    }
    return UCS_OK;
}

/* The peer has answered on the carrier: a lane on which it does not answer meanwhile is cut. */
static void on_alive_carrier(struct cw_failover *failover)
{
    struct cw_further_lane *lane;
    unsigned i;

    failover->unanswered = 0;
    if (cw_list_empty(&failover->packets)) {
        failover->answers = 0;
    }
    for (i = 0; i < CW_MAX_LANES; i++) {
        lane = lane_at(failover->ep, i);
        if (lane != NULL && (failover->doubtful & 1u << i) && ++failover->strikes[i] > MAX_STRIKES) {
            cw_lanes_lane_failed(failover->ep->lanes, lane, "no packets arrive");
        }
    }
}

/* A cut lane gets no tx space, even if an answer from before the cut has cleared it of doubt. */
static bool is_stuck(const struct cw_further_lane *lane)
{
    return lane->full && cw_list_empty(&lane->retained);
}

static bool carrier_is_stuck(const struct cw_failover *failover)
{
    const struct cw_further_lane *lane = cw_lanes_find(failover->ep, failover->carrier);

    return lane != NULL && is_stuck(lane);
}

/* Whether the carrier may be cut: a confirmation, an answer, or tx space is missing. */
static bool has_pending(const struct cw_failover *failover)
{
    return !cw_list_empty(&failover->packets) || failover->unanswered == MAX_STRIKES || carrier_is_stuck(failover);
}

static ucs_status_t on_alive(struct cw_failover *failover, const struct cw_conn *conn, const struct cw_wire_move *move)
{
    const uint64_t before = failover->acked;

    if (move->generation != failover->generation || failover->carrier == NULL || move->handled < before) {
        return UCS_OK; /* it is older than what the carrier reported */
    }
    if (!take_count(failover, move->handled, 0)) {
        return UCS_ERR_IO_ERROR;
    }
    if (move->handled > before) {
        cw_failover_pump(failover);
    }
    if (conn == failover->carrier) {
        on_alive_carrier(failover);
    }
    if (move->handled > before || conn == failover->carrier) {
        return UCS_OK;
    }
    failover->heard = conn;
    if (failover->probed && has_pending(failover)) {
        failover->probed = 0;
        if (++failover->answers >= MAX_ANSWERS) {
            is_silent(failover);
        }
    }
    return UCS_OK;
}

static ucs_status_t on_handled(struct cw_failover *failover, const struct cw_conn *conn,
                               const struct cw_wire_move *move)
{
    if (conn != failover->carrier || move->generation != failover->generation) {
        return UCS_OK;
    }
    if (move->handled < failover->acked) {
        return UCS_OK; /* an answer to a probe has reported more already */
    }
    if (!take_count(failover, move->handled, 0)) {
        return UCS_ERR_IO_ERROR;
    }
    cw_failover_pump(failover);
    return UCS_OK;
}

static ucs_status_t on_move(struct cw_failover *failover, struct cw_conn *conn, const void *data, size_t length)
{
    struct cw_wire_move move;

    if (length != sizeof(move)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&move, data, sizeof(move));
    if (move.reserved[0] != 0 || move.reserved[1] != 0 || move.reserved[2] != 0) {
        return UCS_ERR_IO_ERROR;
    }
    move.generation = le32toh(move.generation);
    move.handled = le64toh(move.handled);
    switch (move.kind) {
    case CW_WIRE_MOVE_HANDLED:
        return on_handled(failover, conn, &move);
    case CW_WIRE_MOVE_LOST:
        return on_lost(failover, conn, &move);
    case CW_WIRE_MOVE_HERE:
        return on_here(failover, conn, &move);
    case CW_WIRE_MOVE_TAKEN:
        return on_taken(failover, conn, &move);
    case CW_WIRE_MOVE_PROBE:
        (void)cw_failover_notify(failover, conn, CW_WIRE_MOVE_ALIVE);
        return UCS_OK;
    case CW_WIRE_MOVE_ALIVE:
        return on_alive(failover, conn, &move);
    default:
        return UCS_ERR_IO_ERROR;
    }
}

ucs_status_t cw_failover_on_packet(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct cw_failover *failover = cw_failover_of(ep);
    struct cw_further_lane *lane;

    if (failover == NULL) {
        return (cw_lanes_find(ep, conn) == NULL) ? UCS_OK : UCS_ERR_IO_ERROR;
    }
    lane = cw_lanes_find(ep, conn);
    if (conn != failover->first && lane == NULL) {
        return UCS_OK; /* this endpoint has given the connection up */
    }
    if (lane != NULL) {
        failover->doubtful &= (uint8_t) ~(1u << (cw_lane_index(ep->lanes, lane) - 1));
    }
    return (id == CW_PACKET_MOVE) ? on_move(failover, conn, data, length)
                                  : cw_failover_on_counted(failover, conn, id, data, length);
}

/* ---- silence ---- */

static void probe(struct cw_failover *failover, uint64_t now_ns)
{
    struct cw_further_lane *lane;
    unsigned i;

    if (!has_pending(failover) || now_ns - failover->moved_ns < SILENT_NS) {
        return;
    }
    for (i = 0; i < CW_MAX_LANES; i++) {
        lane = lane_at(failover->ep, i);
        if (lane != NULL && lane->conn != failover->carrier) {
            failover->probed = 1;
            (void)notify_on(failover, lane, CW_WIRE_MOVE_PROBE);
        }
    }
}

/* Compares the doubtful lanes with the carrier. */
static void doubt(struct cw_failover *failover)
{
    struct cw_further_lane *lane;
    unsigned i;

    for (i = 0; i < CW_MAX_LANES; i++) {
        lane = lane_at(failover->ep, i);
        if (lane == NULL || lane->conn == failover->carrier) {
            failover->doubtful &= (uint8_t) ~(1u << i);
            continue;
        }
        if (is_stuck(lane)) {
            suspect(failover, lane);
        }
        if (failover->doubtful & 1u << i) {
            (void)cw_failover_notify(failover, lane->conn, CW_WIRE_MOVE_PROBE);
        }
    }
    if (failover->doubtful != 0) {
        (void)cw_failover_notify(failover, failover->carrier, CW_WIRE_MOVE_PROBE);
        failover->unanswered += failover->unanswered < MAX_STRIKES;
    }
}

/* Has lost lanes reopened. */
static void repair(struct cw_failover *failover)
{
    struct ucp_ep *ep = failover->ep;
    unsigned i;

    for (i = 0; i < CW_MAX_LANES; i++) {
        if (lane_at(ep, i) != NULL) {
            failover->missing &= (uint8_t) ~(1u << i);
        }
    }
    if (failover->missing != 0 && failover->conn.dialled) {
        cw_lanes_search(ep->lanes);
    }
}

unsigned cw_failover_poll(struct cw_alarm *alarm)
{
    struct cw_failover *failover = cw_container_of(alarm, struct cw_failover, watch);
    const uint64_t now_ns = cw_clock_ns();

    if (failover->ep->state != CW_EP_OPEN) {
        return 0;
    }
    if (failover->carrier == NULL && now_ns - failover->asked_ns >= ANSWER_NS) {
        seek(failover);
    } else if (failover->carrier != NULL) {
        doubt(failover);
        probe(failover, now_ns);
    }
    if (failover->ep->lanes != NULL && failover->ep->state == CW_EP_OPEN) {
        repair(failover);
    }
    if (failover->carrier == NULL || failover->doubtful != 0 || !cw_list_empty(&failover->packets) ||
        carrier_is_stuck(failover)) {
        poll_at(failover, now_ns + CW_FAILOVER_POLL_NS);
    } else if (failover->missing != 0 && failover->conn.dialled) {
        poll_at(failover, now_ns + REPAIR_NS);
    }
    return 0;
}
