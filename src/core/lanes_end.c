/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counting on further lanes, and their end (core/lanes.h). Both sides count the bytes of placed packets that they sent
 * on a lane, and those that arrived complete, which they report at once (TAKEN). The side on which a lane ends closes
 * it and sends both numbers on the message lane (END); the other side closes its end and answers with its own numbers.
 * Incomplete packets are sent again, and the place of a partially received packet is released. Invalid numbers end the
 * endpoint.
 */
#include "core/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "core/failover/failover.h"
#include "os/clock.h"

#define RETRY_NS UINT64_C(10000000000)

struct cw_lane_place {
    struct cw_list link; /* first: core/lanes.c frees places by it */
    size_t length;
    uint8_t id;
    uint8_t header[CW_PLACE_HEADER];
};

int cw_lanes_placing(struct ucp_ep *ep, const struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    struct cw_further_lane *lane = cw_lanes_find(ep, conn);
    struct cw_lane_place *place = (lane == NULL) ? NULL : malloc(sizeof(*place));

    if (place == NULL) {
        return 0;
    }
    place->length = length;
    place->id = id;
    memcpy(place->header, header, sizeof(place->header));
    cw_list_init(&place->link);
    cw_list_add_tail(&lane->places, &place->link);
    return 1;
}

/* ---- confirming ---- */

/* 0: no tx space. The packet is sent before queued requests, because it belongs to none of them. */
static int report(struct cw_lanes *lanes, struct cw_further_lane *lane, enum cw_wire_lane_kind kind)
{
    const struct cw_wire_lane packet = {.kind = (uint8_t)kind,
                                  .lane = (uint8_t)cw_lane_index(lanes, lane),
                                  .generation = htole16(lane->generation),
                                  .sent = (kind == CW_WIRE_LANE_END) ? htole64(lane->sent) : 0,
                                  .taken = htole64(lane->taken)};

    if (!cw_ep_control_passing(lanes->ep, CW_PACKET_LANE, &packet, sizeof(packet))) {
        lanes->unreported = 1;
        return 0;
    }
    lane->reported = lane->taken;
    return 1;
}

static void report_end(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    if (!lane->reported_end && report(lanes, lane, CW_WIRE_LANE_END)) {
        lane->reported_end = 1;
    }
}

/* ---- the end of a lane ---- */

/* Requeues the packets that were sent on the lane and are not in their places at the peer. */
static void lose(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    cw_list_splice_tail(&lanes->resend, &lane->retained);
}

/* Ends the lane once both sides have closed it. 0: the peer's numbers are invalid. */
static int settle(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    struct ucp_ep *ep = lanes->ep;

    if (!lane->reported_end || !lane->heard_end) {
        return 1;
    }
    if (lane->peer_taken < lane->confirmed || lane->peer_taken > lane->sent || lane->taken > lane->peer_sent) {
        return 0;
    }
    cw_diag("lane %u of endpoint %p to worker %016llx ended, the endpoint continues without it (%llu bytes are resent, "
            "%llu received again)",
            cw_lane_index(lanes, lane), (void *)ep, (unsigned long long)cw_ep_peer_uid(ep),
            (unsigned long long)(lane->sent - lane->peer_taken), (unsigned long long)(lane->peer_sent - lane->taken));
    if (lane->peer_taken > lane->confirmed && !cw_lanes_confirmed(lanes, lane, lane->peer_taken)) {
        return 0;
    }
    lose(lanes, lane);
    lane->sent = lane->confirmed = lane->taken = lane->reported = 0;
    lane->window_ns = lane->window_bytes = 0;
    lane->reported_end = lane->heard_end = lane->full = lane->probes = 0;
    lane->state = CW_FURTHER_NONE;
    lane->retry_ns = cw_clock_ns() + RETRY_NS;
    lanes->next_dial_ns = lane->retry_ns;
    lanes->rounds = 0;
    lane->generation++;
    cw_ep_release_blocked_later(ep); /* the next reap sends the lost packets again */
    return 1;
}

/* Stops using the connection of the lane; the next reap closes it. */
static void drop(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    const struct cw_upcalls *upcalls = lanes->ep->worker->handlers->upcalls;
    struct cw_conn *conn = lane->conn;
    struct cw_lane_place *place;
    struct cw_list *link;

    if (lane->state == CW_FURTHER_OPEN) {
        cw_counters_ended(lanes->ep->worker, conn);
    }
    lane->conn = NULL;
    lane->state = CW_FURTHER_ENDED;
    lane->full = 1;
    if (conn != NULL) {
        cw_lane_abandon(conn);
        conn->next_old = lanes->ep->old_conns;
        lanes->ep->old_conns = conn;
        cw_ep_reap_later(lanes->ep);
    }
    while ((link = cw_list_pop_head(&lane->places)) != NULL) {
        place = cw_container_of(link, struct cw_lane_place, link);
        upcalls->unplaced(lanes->ep->conn, place->id, place->header, place->length);
        free(place);
    }
    if (conn != NULL) {
        cw_failover_dropped(lanes->ep, conn, cw_lane_index(lanes, lane) - 1);
    }
}

static void impossible(struct cw_lanes *lanes, const struct cw_further_lane *lane)
{
    static struct cw_log_limit limit;

    cw_log_ratelimited(&limit, CW_LOG_WARN,
                       "closing endpoint %p to worker %016llx: invalid byte counts of lane %u, which ended (%llu of "
                       "%llu bytes arrived there, %llu of %llu here)",
                       (void *)lanes->ep, (unsigned long long)cw_ep_peer_uid(lanes->ep), cw_lane_index(lanes, lane),
                       (unsigned long long)lane->peer_taken, (unsigned long long)lane->sent,
                       (unsigned long long)lane->taken, (unsigned long long)lane->peer_sent);
}

void cw_lanes_lane_failed(struct cw_lanes *lanes, struct cw_further_lane *lane, const char *why)
{
    struct ucp_ep *ep = lanes->ep;

    if (lane->state != CW_FURTHER_OPEN || ep->state != CW_EP_OPEN) {
        return;
    }
    if (ep->closes == 0) {
        cw_diag("lane %u of endpoint %p to worker %016llx over %s/%s failed: %s", cw_lane_index(lanes, lane),
                (void *)ep, (unsigned long long)cw_ep_peer_uid(ep), cw_lane_name(lane->conn),
                cw_iface_device(lane->conn->iface), why);
    }
    drop(lanes, lane);
    cw_ep_release_blocked_later(ep); /* an access that waited for tx space of this lane uses another one */
    report_end(lanes, lane);
    if (!settle(lanes, lane)) {
        impossible(lanes, lane);
        cw_ep_fail(ep, UCS_ERR_IO_ERROR);
    }
}

/* The peer's count is final, so the packets that it received end here: the last lane may end before this side can send
 * its own count. 0: the count is invalid. */
static int confirm_last(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    if (lane->peer_taken <= lane->confirmed) {
        return 1; /* `settle` compares the numbers */
    }
    return lane->peer_taken <= lane->sent && cw_lanes_confirmed(lanes, lane, lane->peer_taken);
}

int cw_lanes_heard_end(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t sent, uint64_t taken)
{
    struct ucp_ep *ep = lanes->ep;

    if (lane->heard_end) {
        return 0;
    }
    lane->heard_end = 1;
    lane->peer_sent = sent;
    lane->peer_taken = taken;
    if (lane->state != CW_FURTHER_ENDED) { /* also a lane that is being opened: the peer has given it up */
        drop(lanes, lane);
    }
    if (!confirm_last(lanes, lane)) {
        impossible(lanes, lane);
        return 0;
    }
    if (ep->lanes != lanes || ep->state != CW_EP_OPEN) {
        return 1; /* a completion has closed the endpoint */
    }
    report_end(lanes, lane);
    if (!settle(lanes, lane)) {
        impossible(lanes, lane);
        return 0;
    }
    return 1;
}

/* ---- counting ---- */

int cw_lanes_confirmed(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t taken)
{
    struct ucp_ep *ep = lanes->ep;
    struct cw_retained *retained;

    if (taken <= lane->confirmed || taken > lane->sent || cw_list_empty(&lane->retained)) {
        return 0;
    }
    cw_lanes_measure(lane, taken - lane->confirmed);
    while (ep->lanes == lanes && lane->confirmed < taken && !cw_list_empty(&lane->retained)) {
        retained = cw_list_head(&lane->retained, struct cw_retained, link);
        if (retained->length > taken - lane->confirmed) {
            return 0; /* the number ends in the middle of a packet */
        }
        lane->confirmed += retained->length;
        cw_list_remove(&retained->link);
        retained->over = 1;
        retained->came = 1;
        if (!retained->busy) {
            cw_lanes_retained_end(retained, UCS_OK);
        }
    }
    return 1;
}

/* The packet is confirmed at once, and so before all packets that follow from it: when the peer requests more, it
 * already has the confirmation of the last one. */
void cw_lanes_placed(struct ucp_ep *ep, const struct cw_conn *conn, const void *header, size_t length)
{
    struct cw_further_lane *lane = cw_lanes_find(ep, conn);
    struct cw_lane_place *place;

    if (lane == NULL) {
        return;
    }
    cw_list_for_each(place, &lane->places, struct cw_lane_place, link)
    {
        if (place->length == length && memcmp(place->header, header, sizeof(place->header)) == 0) {
            cw_list_remove(&place->link);
            free(place);
            break;
        }
    }
    lane->taken += length;
    (void)report(ep->lanes, lane, CW_WIRE_LANE_TAKEN);
}

void cw_lanes_announce(struct cw_lanes *lanes)
{
    struct cw_further_lane *lane;
    unsigned i;

    lanes->unreported = 0;
    for (i = 0; i < CW_MAX_LANES && lanes->ep->state == CW_EP_OPEN; i++) {
        lane = &lanes->further[i];
        if (lane->state == CW_FURTHER_ENDED) {
            report_end(lanes, lane);
            if (!settle(lanes, lane)) {
                impossible(lanes, lane);
                cw_ep_fail(lanes->ep, UCS_ERR_IO_ERROR);
            }
        } else if (lane->taken != lane->reported) {
            (void)report(lanes, lane, CW_WIRE_LANE_TAKEN);
        }
    }
}
