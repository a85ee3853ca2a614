/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening further lanes. The choice is a pure function (connect/choose_lanes.h) of the paths between both workers. A
 * hello names an open endpoint by both uids and its number, a lane of it that does not exist yet, and the token that
 * the acceptor of the message lane sent; it never makes or adopts an endpoint. A hello that lacks one of these is
 * rejected, and the rejection does not disclose which one.
 */
#include "connect/further.h"

#include "base/log.h"
#include "connect/choose_lanes.h"
#include "core/failover/failover.h"
#include "os/clock.h"
#include "wire/hello.h"

#define MAX_PATHS 64u
#define RETRY_NS  UINT64_C(10000000000)

/* What the further lanes of an endpoint carry: placed packets, accesses, or a message lane that may move. */
enum use { PLACES, ACCESSES, MESSAGES };

struct paths {
    struct cw_plan_path plan[MAX_PATHS];
    struct cw_address_entry entries[MAX_PATHS];
    unsigned count;
};

/* Finds the addresses of the peer's interfaces. 0: unknown. */
static int address_of(const struct ucp_ep *ep, struct cw_address *address)
{
    const uint8_t *bytes = (ep->cm != NULL) ? ep->cm->server_address : cw_ep_address(ep);

    return bytes != NULL && cw_address_decode(bytes, address) == UCS_OK;
}

static enum use use_of(const struct ucp_ep *ep)
{
    if (cw_failover_of(ep) != NULL) {
        return MESSAGES;
    }
    return cw_lanes_access(ep) ? ACCESSES : PLACES;
}

static bool suits(const struct cw_iface *iface, enum use use)
{
    return (use == MESSAGES) ? cw_failover_carries(iface) : cw_lanes_suit(iface, use == ACCESSES);
}

static void find_paths(const struct ucp_worker *worker, enum use use, const struct cw_address *address,
                       struct paths *paths)
{
    struct cw_address_entry entry;
    struct cw_iface *iface;
    const char *why;
    unsigned i, j;

    paths->count = 0;
    for (i = 0; i < worker->num_ifaces; i++) {
        iface = worker->ifaces[i];
        for (j = 0; suits(iface, use) && cw_address_get(address, j, &entry); j++) {
            if (paths->count < MAX_PATHS && entry.wire_id == cw_iface_wire_id(iface) &&
                cw_iface_reachable(iface, entry.bytes, entry.length, &why)) {
                paths->entries[paths->count] = entry;
                paths->plan[paths->count++] =
                    (struct cw_plan_path){.bandwidth_bps = iface->limits.bandwidth_bps,
                                          .iface = i,
                                          .entry = j,
                                          .num_paths = cw_iface_paths(iface, entry.bytes, entry.length),
                                          .carries_bulk = 1};
            }
        }
    }
}

/* An endpoint in mode FAILOVER gets a lane for each distinct route, also for slow ones. */
static unsigned plan_failover(const struct ucp_ep *ep, const struct paths *paths, struct cw_plan_lane *planned)
{
    const struct cw_plan_lane_limits limits = {.wanted = cw_lanes_wanted_by(ep), .max_ratio = 1e12, .path_ratio = 0};

    return cw_plan_lanes(paths->plan, paths->count, &limits, planned);
}

static unsigned plan_packets(const struct ucp_worker *worker, const struct paths *paths, struct cw_plan_lane *planned)
{
    const struct cw_config *config = worker->context->config;
    const double path_ratio = config->multi_path_ratio;
    const struct cw_plan_lane_limits limits = {.wanted = cw_lanes_wanted(worker),
                                           .max_ratio = config->multi_lane_max_ratio,
                                           .path_ratio = (path_ratio < 0) ? 1 : path_ratio};

    return cw_plan_lanes(paths->plan, paths->count, &limits, planned);
}

/* A connection uses the whole of a device, so lanes for accesses use different devices, and one of them alone gains
 * nothing over the message lane. */
static unsigned plan_access(const struct ucp_worker *worker, const struct paths *paths, struct cw_plan_lane *planned)
{
    const struct cw_plan_lane_limits limits = {.wanted = cw_lanes_wanted(worker),
                                           .max_ratio = worker->context->config->multi_lane_max_ratio,
                                           .path_ratio = 0};
    const unsigned count = cw_plan_lanes(paths->plan, paths->count, &limits, planned);

    return (count < 2) ? 0 : count;
}

static unsigned plan(const struct ucp_worker *worker, enum use use, const struct paths *paths,
                     struct cw_plan_lane *planned)
{
    return (use == ACCESSES) ? plan_access(worker, paths, planned) : plan_packets(worker, paths, planned);
}

static void dial_lane(struct ucp_ep *ep, struct cw_further_lane *lane, const struct paths *paths,
                      const struct cw_plan_lane *planned)
{
    struct cw_lane_hello hello = {.source_uid = ep->worker->uid,
                                  .target_uid = cw_ep_peer_uid(ep),
                                  .number = ep->number,
                                  .generation = lane->generation,
                                  .lane = (uint8_t)cw_lane_index(ep->lanes, lane)};
    const struct cw_address_entry *entry = &paths->entries[planned->path];
    struct cw_iface *iface = ep->worker->ifaces[paths->plan[planned->path].iface];
    uint8_t bytes[CW_LANE_HELLO_LENGTH];

    if (ep->cm != NULL) {
        /* the number of the connection request identifies the client, and its endpoint is endpoint 1 of the server */
        hello.source_uid = cw_ep_peer_uid(ep);
        hello.target_uid = ep->cm->server_uid;
        hello.number = 1;
    }
    memcpy(hello.token, ep->lanes->token, sizeof(hello.token));
    cw_lane_hello_encode(&hello, bytes);
    if (cw_lane_dial_path(iface, entry->bytes, entry->length, planned->route, bytes, sizeof(bytes), ep, &lane->conn) ==
        UCS_OK) {
        lane->state = CW_FURTHER_DIALING;
        cw_debug("endpoint %p: connecting lane %u over %s/%s: %s", (void *)ep, hello.lane, cw_iface_name(iface),
                 cw_iface_device(iface), planned->why);
    } else {
        lane->conn = NULL;
        lane->retry_ns = cw_clock_ns() + RETRY_NS;
        ep->lanes->next_dial_ns = lane->retry_ns;
    }
}

unsigned cw_further_dial(struct ucp_ep *ep, int dial)
{
    const enum use use = use_of(ep);
    struct cw_plan_lane planned[CW_MAX_LANES];
    struct cw_further_lane *lane;
    struct cw_address address;
    struct paths paths;
    unsigned count, i;

    if (!address_of(ep, &address)) {
        return 0;
    }
    find_paths(ep->worker, use, &address, &paths);
    count = (use == MESSAGES) ? plan_failover(ep, &paths, planned) : plan(ep->worker, use, &paths, planned);
    for (i = 0; dial && i < count && i < ep->lanes->max; i++) {
        lane = &ep->lanes->further[i];
        if (lane->state == CW_FURTHER_NONE && cw_clock_ns() >= lane->retry_ns) {
            dial_lane(ep, lane, &paths, &planned[i]);
        }
    }
    return count;
}

bool cw_further_can_fail_over(const struct ucp_ep *ep, const struct cw_iface *iface)
{
    struct cw_plan_lane planned[CW_MAX_LANES];
    struct cw_address address;
    struct paths paths;

    if (ep->err_mode != UCP_ERR_HANDLING_MODE_FAILOVER || cw_ep_peer_uid(ep) == ep->worker->uid ||
        !cw_failover_suits(ep->worker, iface) || !address_of(ep, &address)) {
        return false;
    }
    find_paths(ep->worker, MESSAGES, &address, &paths);
    return plan_failover(ep, &paths, planned) >= 2;
}

unsigned cw_further_send(const struct ucp_worker *worker, const struct cw_address *address, int by_access,
                         struct cw_further_message messages[CW_MAX_LANES])
{
    const enum use use = by_access ? ACCESSES : PLACES;
    struct cw_plan_lane planned[CW_MAX_LANES];
    struct paths paths;
    unsigned count, i;

    find_paths(worker, use, address, &paths);
    count = plan(worker, use, &paths, planned);
    for (i = 0; i < count; i++) {
        messages[i] = (struct cw_further_message){
            .iface = worker->ifaces[paths.plan[planned[i].path].iface],
            .route = planned[i].route,
            .why = planned[i].why};
    }
    return count;
}

/* NULL, or why such a lane is rejected. */
static const char *check(const struct ucp_ep *ep, const struct cw_conn *conn, const struct cw_lane_hello *hello,
                         int *is_strange)
{
    const struct cw_further_lane *lane;

    *is_strange = 0;
    if (ep == NULL || ep->state != CW_EP_OPEN || ep->lanes == NULL || ep->conn->dialled) {
        return "its endpoint takes no further lanes"; /* it may have been closed just now */
    }
    if (!cw_lane_token_equal(ep->lanes->token, hello->token)) {
        *is_strange = 1;
        return "wrong token";
    }
    lane = &ep->lanes->further[hello->lane - 1];
    if (hello->lane > ep->lanes->max || lane->state != CW_FURTHER_NONE || lane->generation != hello->generation ||
        !suits(conn->iface, use_of(ep))) {
        return "no such lane to open";
    }
    return NULL;
}

ucs_status_t cw_further_accept(struct ucp_worker *worker, struct cw_conn *conn, const void *bytes, size_t length,
                               void *reply, size_t *reply_length)
{
    static struct cw_log_limit limit;
    const char *wrong = "not a handshake of this protocol";
    int is_strange = 1;
    struct cw_lane_hello hello;
    struct ucp_ep *ep = NULL;

    if (cw_lane_hello_decode(bytes, length, &hello) == UCS_OK && hello.target_uid == worker->uid) {
        ep = cw_ep_find(worker, hello.source_uid, hello.number);
        wrong = check(ep, conn, &hello, &is_strange);
    }
    if (wrong != NULL) {
        cw_log_ratelimited(&limit, is_strange ? CW_LOG_WARN : CW_LOG_DIAG,
                           "refused a further lane over %s: %s", cw_lane_name(conn), wrong);
        cw_hello_reply_encode(CW_HELLO_REFUSED, reply);
        *reply_length = CW_HELLO_REPLY_LENGTH;
        return UCS_ERR_REJECTED;
    }
    conn->user = ep;
    cw_lanes_opened(ep, &ep->lanes->further[hello.lane - 1], conn);
    cw_hello_reply_encode(CW_HELLO_ACCEPTED, reply);
    *reply_length = CW_HELLO_REPLY_LENGTH;
    return UCS_OK;
}

void cw_further_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    struct ucp_ep *ep = conn->user;
    struct cw_further_lane *lane = cw_lanes_find(ep, conn);
    enum cw_hello_answer answer;

    if (lane == NULL || lane->state != CW_FURTHER_DIALING) {
        return; /* the endpoint gave the lane up meanwhile */
    }
    if (status == UCS_OK && reply != NULL && cw_hello_reply_decode(reply, reply_length, &answer) == UCS_OK &&
        answer == CW_HELLO_ACCEPTED) {
        cw_lanes_opened(ep, lane, conn);
    } else {
        cw_debug("cannot open lane %u of endpoint %p: %s", cw_lane_index(ep->lanes, lane), (void *)ep,
                 ucs_status_string(status));
        cw_lanes_dial_failed(ep, lane);
    }
}

void cw_further_space(struct cw_conn *conn)
{
    struct ucp_ep *ep = conn->user;
    struct cw_further_lane *lane = cw_lanes_find(ep, conn);

    if (lane != NULL && lane->state == CW_FURTHER_OPEN) {
        lane->full = 0;
        cw_lanes_space(ep);
    }
    cw_failover_space(ep, conn);
}

/* After bytes that are no packet on one lane the bytes of the others cannot be trusted either, so the endpoint fails.
 * Of a device the status reports that it rejected something. */
void cw_further_closed(struct cw_conn *conn, ucs_status_t status)
{
    struct ucp_ep *ep = conn->user;
    struct cw_further_lane *lane = cw_lanes_find(ep, conn);

    if (cw_failover_closed(ep, conn, status)) {
        return;
    }
    if (lane != NULL && status == UCS_ERR_IO_ERROR && conn->iface->domain == NULL) {
        cw_ep_fail(ep, status);
    } else if (lane != NULL) {
        cw_lanes_lane_failed(ep->lanes, lane, (conn->end != NULL) ? conn->end : "its connection ended");
    }
}
