/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of the further lanes of an endpoint (core/lanes.h): negotiation, flush, the end of the endpoint, and silent
 * lanes. If nothing is confirmed on a lane for a while, this side probes it on the message lane. A peer that answers
 * twice, and has received nothing more on the lane in between, shows that the lane is cut.
 */
#include "core/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/counter.h"
#include "base/log.h"
#include "core/failover/failover.h"
#include "os/clock.h"
#include "os/random.h"

#define POLL_NS    UINT64_C(100000000)
#define SILENT_NS  UINT64_C(300000000)
#define MAX_PROBES 2u
#define RETRY_NS   UINT64_C(10000000000)

/* A flush that waits for the packets that were retained when it began, then for the message lane. */
struct cw_lanes_flush {
    struct cw_list link;
    struct cw_completion *completion;
    uint64_t before; /* it waits for the packets with smaller numbers */
    uint64_t left;
};

static unsigned check(struct cw_alarm *alarm);

unsigned cw_lanes_wanted(const struct ucp_worker *worker)
{
    const unsigned rndv = cw_lanes_for_rndv(worker), rma = cw_lanes_for_rma(worker);
    const unsigned most = (rndv > rma) ? rndv : rma;

    if (most < 2) {
        return 0;
    }
    return (most < CW_MAX_LANES) ? most : CW_MAX_LANES;
}

unsigned cw_lanes_wanted_by(const struct ucp_ep *ep)
{
    const unsigned wanted = cw_lanes_wanted(ep->worker);
    const int fails_over = (ep->state == CW_EP_OPEN) ? cw_failover_of(ep) != NULL
                                                     : ep->err_mode == UCP_ERR_HANDLING_MODE_FAILOVER;

    return (fails_over && wanted < CW_LANES_FAILOVER) ? CW_LANES_FAILOVER : wanted;
}

struct cw_lanes *cw_lanes_new(struct ucp_ep *ep, unsigned max)
{
    struct cw_lanes *lanes = calloc(1, sizeof(*lanes));
    unsigned i;

    if (lanes == NULL) {
        return NULL;
    }
    lanes->ep = ep;
    lanes->max = (uint8_t)((max < CW_MAX_LANES) ? max : CW_MAX_LANES);
    lanes->watch = (struct cw_alarm){.fire = check};
    cw_list_init(&lanes->resend);
    cw_list_init(&lanes->flushes);
    for (i = 0; i < CW_MAX_LANES; i++) {
        cw_list_init(&lanes->further[i].retained);
        cw_list_init(&lanes->further[i].places);
        lanes->further[i].generation = (uint16_t)cw_counter_start;
    }
    ep->lanes = lanes;
    return lanes;
}

struct cw_further_lane *cw_lanes_find(const struct ucp_ep *ep, const struct cw_conn *conn)
{
    unsigned i;

    for (i = 0; ep->lanes != NULL && i < CW_MAX_LANES; i++) {
        if (ep->lanes->further[i].conn == conn) {
            return &ep->lanes->further[i];
        }
    }
    return NULL;
}

/* The packet passes queued operations: these may be long messages, which further lanes are needed for. 0: no tx
 * space. */
static int send_packet(struct ucp_ep *ep, const struct cw_wire_lane *packet)
{
    return cw_ep_control_passing(ep, CW_PACKET_LANE, packet, sizeof(*packet));
}

/* Sends the offer, as the acceptor of the message lane, which makes the token. */
static void offer(struct ucp_ep *ep)
{
    struct cw_lanes *lanes = cw_lanes_new(ep, cw_lanes_wanted_by(ep));
    const uint64_t random[2] = {cw_random_u64(), cw_random_u64()};
    struct cw_wire_lane packet = {.kind = CW_WIRE_LANE_OFFER};

    if (lanes == NULL) {
        return; /* all packets then use the message lane */
    }
    memcpy(lanes->token, random, sizeof(random));
    memcpy(&packet.sent, random, sizeof(random));
    packet.lane = lanes->max;
    if (!send_packet(ep, &packet)) {
        cw_ep_send_control(ep, CW_PACKET_LANE, &packet, sizeof(packet));
    }
}

/* Whether the endpoint may use further lanes for long messages at all. */
static bool may_have_lanes(const struct ucp_ep *ep)
{
    const int is_own =
        cw_ep_peer_uid(ep) == ep->worker->uid || (ep->cm != NULL && ep->cm->server_uid == ep->worker->uid);

    return ep->state == CW_EP_OPEN && ep->loop_conn == NULL && !is_own &&
           (cw_lanes_access(ep) || ep->conn->iface->limits.max_placed > 0); /* also a lane of core/failover */
}

void cw_lanes_want(struct ucp_ep *ep)
{
    const unsigned wanted = cw_lanes_wanted_by(ep);
    const struct cw_wire_lane ask = {.kind = CW_WIRE_LANE_ASK, .lane = (uint8_t)wanted};

    ep->conn->lanes_asked = 1;
    if (wanted == 0 || !may_have_lanes(ep)) {
        return;
    }
    if (!ep->conn->dialled) {
        offer(ep);
    } else if (ep->worker->handlers->lanes_dial(ep, 0) > 0) {
        ep->conn->lanes_asked = send_packet(ep, &ask) != 0; /* or on the next long message */
    }
}

void cw_lanes_opened(struct ucp_ep *ep, struct cw_further_lane *lane, struct cw_conn *conn)
{
    lane->conn = conn;
    lane->state = CW_FURTHER_OPEN;
    lane->full = 0;
    cw_counters_opened(ep->worker, conn);
    cw_ep_watch(ep, conn);
    cw_debug("endpoint %p to worker %016llx opened lane %u over "
             "%s/%s", (void *)ep, (unsigned long long)cw_ep_peer_uid(ep),
             cw_lane_index(ep->lanes, lane), cw_lane_name(conn), cw_iface_device(conn->iface));
    cw_ep_release_blocked_later(ep);
}

void cw_lanes_dial_failed(struct ucp_ep *ep, struct cw_further_lane *lane)
{
    struct cw_conn *conn = lane->conn;

    lane->conn = NULL;
    lane->state = CW_FURTHER_NONE;
    lane->retry_ns = cw_clock_ns() + RETRY_NS;
    ep->lanes->next_dial_ns = lane->retry_ns;
    conn->next_old = ep->old_conns;
    ep->old_conns = conn;
    cw_ep_reap_later(ep);
}

/* Sends that waited for the lane that was best may choose again, because another lane may be better now. */
static void choose_again(struct ucp_ep *ep)
{
    if (!cw_list_empty(&ep->blocked)) {
        cw_ep_release_blocked_later(ep);
    }
}

/* ---- packets ---- */

static ucs_status_t on_ask(struct ucp_ep *ep)
{
    if (ep->conn->dialled) {
        return UCS_ERR_IO_ERROR;
    }
    if (ep->lanes == NULL && !ep->conn->lanes_asked) {
        cw_lanes_want(ep);
    }
    return UCS_OK;
}

static ucs_status_t on_offer(struct ucp_ep *ep, const struct cw_wire_lane *packet)
{
    const unsigned wanted = cw_lanes_wanted_by(ep);
    struct cw_lanes *lanes;

    if (!ep->conn->dialled) {
        return UCS_ERR_IO_ERROR;
    }
    ep->conn->lanes_asked = 1;
    if (ep->lanes != NULL || packet->lane == 0 || wanted == 0 || !may_have_lanes(ep)) {
        return UCS_OK;
    }
    lanes = cw_lanes_new(ep, (packet->lane < wanted) ? packet->lane : wanted);
    if (lanes != NULL) {
        memcpy(lanes->token, &packet->sent, sizeof(lanes->token));
        (void)ep->worker->handlers->lanes_dial(ep, 1);
    }
    return UCS_OK;
}

/* Ends a lane on which nothing was confirmed since the probe, although the peer has answered it. */
static void is_silent(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    if (lane->state == CW_FURTHER_OPEN && !cw_list_empty(&lane->retained) && lane->probes > 0 &&
        ++lane->probes >= 2 * MAX_PROBES) {
        cw_lanes_lane_failed(lanes, lane, "no packets arrive");
    }
}

/* The answer contains the received count, too, so a TAKEN that waits for tx space must not repeat it. */
static void on_probe(struct cw_lanes *lanes, struct cw_further_lane *lane)
{
    const struct cw_wire_lane answer = {.kind = CW_WIRE_LANE_ALIVE,
                                  .lane = (uint8_t)cw_lane_index(lanes, lane),
                                  .generation = htole16(lane->generation),
                                  .taken = htole64(lane->taken)};

    lane->reported = lane->taken;
    cw_ep_send_control(lanes->ep, CW_PACKET_LANE, &answer, sizeof(answer));
}

ucs_status_t cw_lanes_on_packet(struct ucp_ep *ep, const void *data, size_t length)
{
    struct cw_further_lane *lane;
    struct cw_wire_lane packet;
    uint64_t taken;
    int right = 1;

    if (length != sizeof(packet)) {
        return UCS_ERR_IO_ERROR;
    }
    memcpy(&packet, data, sizeof(packet));
    if (packet.reserved != 0 || packet.kind >= CW_WIRE_LANE_KINDS || packet.lane > CW_MAX_LANES) {
        return UCS_ERR_IO_ERROR;
    }
    if (packet.kind == CW_WIRE_LANE_ASK) {
        return on_ask(ep);
    }
    if (packet.kind == CW_WIRE_LANE_OFFER) {
        return on_offer(ep, &packet);
    }
    if (ep->lanes == NULL || packet.lane == 0) {
        return UCS_ERR_IO_ERROR;
    }
    lane = &ep->lanes->further[packet.lane - 1];
    taken = le64toh(packet.taken);
    if (le16toh(packet.generation) != lane->generation) {
        return UCS_OK; /* the packet refers to a lane that both sides have closed */
    }
    switch ((enum cw_wire_lane_kind)packet.kind) {
    case CW_WIRE_LANE_TAKEN:
        right = cw_lanes_confirmed(ep->lanes, lane, taken);
        choose_again(ep);
        break;
    case CW_WIRE_LANE_END:
        right = cw_lanes_heard_end(ep->lanes, lane, le64toh(packet.sent), taken);
        break;
    case CW_WIRE_LANE_PROBE:
        on_probe(ep->lanes, lane);
        break;
    case CW_WIRE_LANE_ALIVE:
        if (taken > lane->confirmed) {
            right = cw_lanes_confirmed(ep->lanes, lane, taken);
        } else {
            is_silent(ep->lanes, lane);
        }
        break;
    default:
        return UCS_ERR_IO_ERROR;
    }
    return right ? UCS_OK : UCS_ERR_IO_ERROR;
}

/* ---- silence ---- */

static void probe(struct cw_lanes *lanes, struct cw_further_lane *lane, uint64_t now_ns)
{
    const struct cw_retained *head =
        cw_list_empty(&lane->retained) ? NULL : cw_list_head(&lane->retained, struct cw_retained, link);
    const struct cw_wire_lane packet = {.kind = CW_WIRE_LANE_PROBE,
                                  .lane = (uint8_t)cw_lane_index(lanes, lane),
                                  .generation = htole16(lane->generation)};

    if (lane->state != CW_FURTHER_OPEN || head == NULL || now_ns - head->since_ns < SILENT_NS ||
        now_ns - lane->moved_ns < SILENT_NS || (lane->probes & 1)) {
        return;
    }
    lane->probes++; /* odd: an answer is missing */
    cw_ep_send_control(lanes->ep, CW_PACKET_LANE, &packet, sizeof(packet));
}

static unsigned check(struct cw_alarm *alarm)
{
    struct cw_lanes *lanes = cw_container_of(alarm, struct cw_lanes, watch);
    const uint64_t now_ns = cw_clock_ns();
    unsigned i;

    if (lanes->ep->state != CW_EP_OPEN || lanes->num_retained == 0) {
        return 0;
    }
    for (i = 0; i < lanes->max; i++) {
        probe(lanes, &lanes->further[i], now_ns);
    }
    choose_again(lanes->ep);
    cw_poller_alarm_set(lanes->ep->worker->poller, &lanes->watch, now_ns + POLL_NS);
    return 0;
}

/* ---- flush ---- */

/* 1: the flush of the message lane is complete. */
static int flush_message_lane(struct ucp_ep *ep, struct cw_completion *completion)
{
    const ucs_status_t status = cw_lane_flush(ep->conn, completion);

    if (status == CW_AGAIN) {
        return 0;
    }
    if (status != UCS_INPROGRESS) {
        completion->done(completion, status);
    }
    return 1;
}

static void run_flushes(struct ucp_ep *ep)
{
    struct cw_completion *completion;
    struct cw_lanes_flush *flush;

    while (ep->lanes != NULL && !cw_list_empty(&ep->lanes->flushes) && ep->state == CW_EP_OPEN) {
        flush = cw_list_head(&ep->lanes->flushes, struct cw_lanes_flush, link);
        completion = flush->completion;
        if (flush->left > 0) {
            return;
        }
        cw_list_remove(&flush->link);
        if (!flush_message_lane(ep, completion)) {
            cw_list_add_head(&ep->lanes->flushes, &flush->link);
            return;
        }
        free(flush);
    }
}

ucs_status_t cw_lanes_flush(struct ucp_ep *ep, struct cw_completion *completion)
{
    struct cw_lanes *lanes = ep->lanes;
    struct cw_lanes_flush *flush;

    if (lanes == NULL || (lanes->num_retained == 0 && cw_list_empty(&lanes->flushes))) {
        return cw_lane_flush(ep->conn, completion);
    }
    if (completion == NULL) {
        return UCS_INPROGRESS;
    }
    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *flush =
        (struct cw_lanes_flush){.completion = completion, .before = lanes->next_number, .left = lanes->num_retained};
    cw_list_init(&flush->link);
    cw_list_add_tail(&lanes->flushes, &flush->link);
    return UCS_INPROGRESS;
}

void cw_lanes_retained_end(struct cw_retained *retained, ucs_status_t status)
{
    struct cw_lanes *lanes = retained->lanes;
    struct ucp_ep *ep = lanes->ep;
    struct cw_completion *completion = retained->completion;
    struct cw_lanes_flush *flush;

    lanes->num_retained--;
    cw_list_for_each(flush, &lanes->flushes, struct cw_lanes_flush, link)
    {
        flush->left -= retained->number < flush->before;
    }
    free(retained);
    completion->done(completion, status);
    run_flushes(ep);
}

/* ---- tx space, end ---- */

void cw_lanes_space(struct ucp_ep *ep)
{
    struct cw_lanes *lanes = ep->lanes;

    if (lanes->unreported) {
        cw_lanes_announce(lanes);
        if (!lanes->unreported) {
            cw_ep_reap_later(ep); /* a closed endpoint was waiting for that */
        }
    }
    cw_lanes_resend(lanes);
    run_flushes(ep);
    if (ep->state == CW_EP_OPEN && !cw_list_empty(&ep->blocked)) {
        cw_ep_release_blocked(ep);
    }
}

static void end_retained(struct cw_list *list, ucs_status_t status)
{
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        cw_lanes_retained_end(cw_container_of(link, struct cw_retained, link), status);
    }
}

bool cw_lanes_stopping(const struct ucp_ep *ep)
{
    const struct cw_lanes *lanes = ep->lanes;
    bool any = false;

    for (unsigned i = 0; lanes != NULL && i < CW_MAX_LANES; i++) {
        any |= lanes->further[i].conn != NULL && cw_lane_stopping(lanes->further[i].conn);
    }
    return any;
}

void cw_lanes_end(struct ucp_ep *ep, ucs_status_t status)
{
    struct cw_lanes *lanes = ep->lanes;
    struct cw_completion *completion;
    struct cw_lanes_flush *flush;
    struct cw_further_lane *lane;
    struct cw_list *link;
    unsigned i;

    if (lanes == NULL) {
        return;
    }
    cw_poller_alarm_cancel(ep->worker->poller, &lanes->watch);
    for (i = 0; i < CW_MAX_LANES; i++) {
        lane = &lanes->further[i];
        if (lane->conn != NULL) {
            if (lane->state == CW_FURTHER_OPEN) {
                cw_counters_ended(ep->worker, lane->conn);
            }
            cw_lane_close(lane->conn);
            lane->conn = NULL;
        }
        while ((link = cw_list_pop_head(&lane->places)) != NULL) {
            free(link);
        }
    }
    for (i = 0; i < CW_MAX_LANES; i++) {
        end_retained(&lanes->further[i].retained, status);
    }
    end_retained(&lanes->resend, status);
    while ((link = cw_list_pop_head(&lanes->flushes)) != NULL) {
        flush = cw_container_of(link, struct cw_lanes_flush, link);
        completion = flush->completion;
        free(flush);
        completion->done(completion, status);
    }
    ep->lanes = NULL;
    free(lanes);
}
