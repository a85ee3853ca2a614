/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The choice of the lane that carries the next piece, and sending the piece on it (core/lanes.h). The piece is assigned
 * to the lane on which it would arrive first, by the unconfirmed bytes and the measured bandwidth of each lane. If that
 * lane has no tx space, the sender waits for it as long as it stays the best one. A lane without confirmations counts
 * as slower the longer they are missing.
 */
#include "core/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/failover/failover.h"
#include "os/clock.h"

#define LEAST_PIECE  (64u << 10)
#define WINDOW_BYTES (UINT64_C(8) << 20) /* after this many bytes the older ones count half */
#define WINDOW_NS    UINT64_C(200000000)
#define SURE_BYTES   (UINT64_C(1) << 20) /* from this many bytes on the measured bandwidth is used ... */
#define LEAST_BYTES  (UINT64_C(256) << 10)
#define SURE_NS      UINT64_C(5000000) /* ... or from LEAST_BYTES on, if they took this long */
#define STUCK_NS     UINT64_C(1000000) /* a shorter time without confirmations does not change the bandwidth */
#define POLL_NS      UINT64_C(100000000)

void cw_lanes_measure(struct cw_further_lane *lane, uint64_t bytes)
{
    const struct cw_retained *head = cw_list_head(&lane->retained, struct cw_retained, link);
    const uint64_t now_ns = cw_clock_ns();

    lane->window_ns += now_ns - ((head->since_ns > lane->moved_ns) ? head->since_ns : lane->moved_ns);
    lane->window_bytes += bytes;
    lane->moved_ns = now_ns;
    lane->probes = 0;
    if (lane->window_bytes > WINDOW_BYTES || lane->window_ns > WINDOW_NS) {
        lane->window_bytes /= 2;
        lane->window_ns /= 2;
    }
}

/* Bytes per nanosecond; 0: unknown. */
static double measured(const struct cw_further_lane *lane)
{
    const int is_sure =
        lane->window_bytes >= SURE_BYTES || (lane->window_bytes >= LEAST_BYTES && lane->window_ns >= SURE_NS);

    return (is_sure && lane->window_ns > 0) ? (double)lane->window_bytes / (double)lane->window_ns : 0;
}

/* The upper bound of the bandwidth, as the oldest packet is not confirmed yet. */
static double limited(const struct cw_further_lane *lane, double rate, uint64_t now_ns)
{
    const struct cw_retained *head;
    uint64_t since_ns;

    if (cw_list_empty(&lane->retained)) {
        return rate;
    }
    head = cw_list_head(&lane->retained, struct cw_retained, link);
    since_ns = (head->since_ns > lane->moved_ns) ? head->since_ns : lane->moved_ns;
    if (now_ns - since_ns < STUCK_NS || rate * (double)(now_ns - since_ns) <= (double)head->length) {
        return rate;
    }
    return (double)head->length / (double)(now_ns - since_ns);
}

static size_t piece_of(const struct ucp_ep *ep, const struct cw_further_lane *lane, size_t left, double share)
{
    const size_t chunk = ep->worker->context->config->min_rndv_chunk_size;
    const size_t least = (chunk < LEAST_PIECE) ? LEAST_PIECE : chunk;
    const size_t most = (chunk > CW_LANES_PIECE) ? chunk : CW_LANES_PIECE;
    const size_t there = ep->conn->iface->limits.max_placed; /* if all further lanes end, the piece uses this one */
    const size_t here = lane->conn->iface->limits.max_placed;
    const size_t max = (here < there) ? here : there;
    size_t piece = cw_clamp((size_t)((double)left * share), least, most);

    piece = (left < piece || left - piece < least / 2) ? left : piece;
    return (piece < max) ? piece : max;
}

/* A lane of mode FAILOVER may carry messages only. */
static bool is_open(const struct cw_further_lane *lane)
{
    return lane->state == CW_FURTHER_OPEN && cw_iface_carries_bulk(lane->conn->iface);
}

static struct cw_conn *choose(struct cw_lanes *lanes, size_t left, unsigned rails, size_t *piece_p)
{
    double rates[CW_MAX_LANES], best_rate = 0, sum = 0, ends, first_end = 0;
    const uint64_t now_ns = cw_clock_ns();
    struct cw_further_lane *lane, *best = NULL, *open[CW_MAX_LANES];
    unsigned count = 0, i;
    size_t piece;

    for (i = 0; i < CW_MAX_LANES && count < rails; i++) {
        lane = &lanes->further[i];
        if (is_open(lane)) {
            rates[count] = measured(lane);
            best_rate = (rates[count] > best_rate) ? rates[count] : best_rate;
            open[count++] = lane;
        }
    }
    for (i = 0; i < count; i++) {
        if (rates[i] <= 0) {
            rates[i] = (best_rate > 0) ? best_rate : 1;
        }
        rates[i] = limited(open[i], rates[i], now_ns);
        sum += rates[i];
    }
    for (i = 0; i < count; i++) {
        piece = piece_of(lanes->ep, open[i], left, rates[i] / sum);
        ends = (double)(open[i]->sent - open[i]->confirmed + piece) / rates[i];
        if (best == NULL || ends < first_end) {
            best = open[i];
            first_end = ends;
            *piece_p = piece;
        }
    }
    return (best == NULL || best->full) ? NULL : best->conn;
}

static bool has_open(const struct cw_lanes *lanes)
{
    unsigned i;

    for (i = 0; i < lanes->max; i++) {
        if (is_open(&lanes->further[i])) {
            return true;
        }
    }
    return false;
}

void cw_lanes_search(struct cw_lanes *lanes)
{
    struct ucp_ep *ep = lanes->ep;

    if (lanes->next_dial_ns == 0 || !ep->conn->dialled || cw_clock_ns() < lanes->next_dial_ns) {
        return;
    }
    lanes->next_dial_ns = 0;
    if (lanes->rounds >= ep->worker->context->config->recovery_retries) {
        cw_diag("endpoint %p to worker %016llx stops reopening its failed lanes after %llu rounds "
                "(UCX_RECOVERY_RETRIES)", (void *)ep, (unsigned long long)cw_ep_peer_uid(ep),
                (unsigned long long)lanes->rounds);
        return;
    }
    lanes->rounds++;
    (void)ep->worker->handlers->lanes_dial(ep, 1);
}

static void want(struct ucp_ep *ep, size_t length, size_t max)
{
    if (ep->lanes == NULL && !ep->conn->lanes_asked && length >= ((max < CW_LANES_WORTH) ? max : CW_LANES_WORTH)) {
        cw_lanes_want(ep);
    }
}

void cw_lanes_expect(struct ucp_ep *ep, size_t length, size_t max)
{
    want(ep, length, max);
    if (ep->lanes != NULL) {
        cw_lanes_search(ep->lanes);
    }
}

struct cw_conn *cw_lanes_choose(struct ucp_ep *ep, size_t left, unsigned rails, size_t *piece_p)
{
    const size_t max = ep->conn->iface->limits.max_placed;

    want(ep, left, max);
    *piece_p = max;
    if (ep->lanes == NULL) {
        return ep->conn;
    }
    if (!cw_list_empty(&ep->lanes->resend)) {
        return NULL;
    }
    cw_lanes_search(ep->lanes);
    if (!has_open(ep->lanes)) {
        *piece_p = (max < CW_LANES_PIECE) ? max : CW_LANES_PIECE; /* the next piece may find another lane */
        return ep->conn;
    }
    return choose(ep->lanes, left, (rails == 0) ? 1 : rails, piece_p);
}

/* ---- sending ---- */

static void sent(struct cw_completion *own, ucs_status_t status)
{
    struct cw_retained *retained = cw_container_of(own, struct cw_retained, own);

    retained->busy = 0;
    if (retained->over) {
        cw_lanes_retained_end(retained, retained->came ? UCS_OK : status);
    }
}

static struct cw_retained *retained_new(struct cw_lanes *lanes, uint8_t id, const void *header, const struct iovec *iov,
                                        unsigned count, struct cw_completion *completion)
{
    struct cw_retained *retained = malloc(sizeof(*retained) + count * sizeof(*iov));

    if (retained != NULL) {
        *retained = (struct cw_retained){.own = {sent},
                          .lanes = lanes,
                          .completion = completion,
                          .length = cw_bytes_in_iov(iov, count),
                          .count = count,
                          .id = id};
        memcpy(retained->header, header, sizeof(retained->header));
        memcpy(retained->iov, iov, count * sizeof(*iov));
        cw_list_init(&retained->link);
    }
    return retained;
}

/* UCS_OK, or the transport's error. */
static ucs_status_t send_retained(struct cw_further_lane *lane, struct cw_retained *retained)
{
    const ucs_status_t status = cw_lane_send_in_place(lane->conn, retained->id, retained->header, retained->iov,
                                                      retained->count, &retained->own);

    if (status != UCS_OK && status != UCS_INPROGRESS) {
        lane->full = 1; /* `space` follows, or the end of the lane */
        cw_failover_full(retained->lanes->ep, lane);
        return status;
    }
    retained->busy = status == UCS_INPROGRESS;
    retained->since_ns = cw_clock_ns();
    lane->sent += retained->length;
    cw_list_add_tail(&lane->retained, &retained->link);
    return UCS_OK;
}

ucs_status_t cw_lanes_send(struct ucp_ep *ep, struct cw_conn *conn, uint8_t id, const void *header,
                           const struct iovec *iov, unsigned count, struct cw_completion *completion)
{
    struct cw_lanes *lanes = ep->lanes;
    struct cw_retained *retained;

    if (conn == ep->conn) {
        return cw_lane_send_placed(conn, id, header, iov, count, completion);
    }
    retained = retained_new(lanes, id, header, iov, count, completion);
    if (retained == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    if (send_retained(cw_lanes_find(ep, conn), retained) != UCS_OK) {
        free(retained);
        return CW_BLOCKED;
    }
    retained->number = lanes->next_number++;
    if (lanes->num_retained++ == 0 && !cw_alarm_is_set(&lanes->watch)) {
        cw_poller_alarm_set(ep->worker->poller, &lanes->watch, cw_clock_ns() + POLL_NS);
    }
    cw_ep_add_flush(ep);
    return UCS_INPROGRESS;
}

/* Sends a lost packet on the message lane, whose packets are not retained. 0: retry later. */
static int resend_there(struct cw_lanes *lanes, struct cw_retained *retained)
{
    const ucs_status_t status = cw_lane_send_placed(lanes->ep->conn, retained->id, retained->header, retained->iov,
                                                    retained->count, &retained->own);

    if (status == UCS_INPROGRESS) {
        retained->busy = 1;
        retained->over = 1;
    } else if (status == UCS_OK) {
        cw_lanes_retained_end(retained, UCS_OK);
    } else {
        cw_list_add_head(&lanes->resend, &retained->link);
        return 0;
    }
    return 1;
}

/* Sends a lost packet on a lane that seems to have tx space. 0: it has none. */
static int resend_on(struct cw_lanes *lanes, struct cw_conn *conn, struct cw_retained *retained)
{
    if (conn == lanes->ep->conn) {
        return resend_there(lanes, retained);
    }
    if (send_retained(cw_lanes_find(lanes->ep, conn), retained) != UCS_OK) {
        cw_list_add_head(&lanes->resend, &retained->link);
        return 0;
    }
    return 1;
}

/* A packet that the transport of an ended lane still owns is not sent again before that lane is closed, which calls its
 * completion. */
void cw_lanes_resend(struct cw_lanes *lanes)
{
    struct ucp_ep *ep = lanes->ep;
    struct cw_conn *conn;
    struct cw_retained *retained;
    size_t piece;

    while (ep->lanes == lanes && ep->state == CW_EP_OPEN && !cw_list_empty(&lanes->resend)) {
        retained = cw_list_head(&lanes->resend, struct cw_retained, link);
        conn = has_open(lanes) ? choose(lanes, retained->length, CW_MAX_LANES, &piece) : ep->conn;
        if (retained->busy || conn == NULL || retained->length > conn->iface->limits.max_placed ||
            retained->count > conn->iface->limits.max_iov) {
            return;
        }
        cw_list_remove(&retained->link);
        if (!resend_on(lanes, conn, retained)) {
            return;
        }
    }
}
