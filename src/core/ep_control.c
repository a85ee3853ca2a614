/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small packets that the library sends by itself. They keep their place in the endpoint's queue.
 */
#include "core/ep_kept.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"

struct control_state {
    uint64_t packet[CW_CONTROL_MAX / sizeof(uint64_t)];
    uint8_t length;
    uint8_t id;
};

_Static_assert(sizeof(struct control_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static size_t pack_header(void *dest, size_t max, void *header)
{
    (void)max;
    memcpy(dest, header, sizeof(uint64_t));
    return sizeof(uint64_t);
}

ucs_status_t cw_lane_pack_header(struct cw_conn *lane, uint8_t id, uint64_t header)
{
    return cw_lane_send_bcopy(lane, id, sizeof(header), pack_header, &header);
}

static size_t pack_control(void *dest, size_t max, void *arg)
{
    const struct control_state *state = arg;

    (void)max;
    memcpy(dest, state->packet, state->length);
    return state->length;
}

static ucs_status_t send_on(struct cw_conn *conn, struct control_state *state)
{
    size_t payload = state->length - sizeof(uint64_t);

    if (payload == 0) {
        return cw_lane_send_header(conn, state->id, state->packet[0]);
    }
    if (payload <= conn->iface->limits.max_short) {
        return cw_lane_send_short(conn, state->id, state->packet[0], &state->packet[1], payload);
    }
    return cw_lane_send_bcopy(conn, state->id, state->length, pack_control, state);
}

static ucs_status_t send_now(struct ucp_ep *ep, struct control_state *state)
{
    return send_on(ep->conn, state);
}

ucs_status_t cw_control_send_on(struct cw_conn *conn, uint8_t id, const void *packet, size_t length)
{
    struct control_state now = {.length = (uint8_t)length, .id = id};

    assert(length >= sizeof(uint64_t) && length <= CW_CONTROL_MAX);
    memcpy(now.packet, packet, length);
    return send_on(conn, &now);
}

static ucs_status_t control_send(struct cw_request *request)
{
    return send_now(request->ep, cw_request_state(request));
}

int cw_ep_control_now(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    struct control_state now = {.length = (uint8_t)length, .id = id};

    assert(length >= sizeof(uint64_t) && length <= CW_CONTROL_MAX);
    memcpy(now.packet, packet, length);
    return ep->state == CW_EP_FAILED || (cw_ep_ready(ep) && send_now(ep, &now) != CW_AGAIN);
}

int cw_ep_control_passing(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    struct control_state now = {.length = (uint8_t)length, .id = id};

    assert(length >= sizeof(uint64_t) && length <= CW_CONTROL_MAX);
    memcpy(now.packet, packet, length);
    return ep->state != CW_EP_OPEN || send_now(ep, &now) != CW_AGAIN;
}

ucs_status_t cw_ep_control_later(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length,
                                 void (*release)(struct cw_request *request))
{
    struct cw_request *request = cw_request_get(ep->worker, NULL, CW_REQUEST_SEND);
    struct control_state *state;

    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    state  = cw_request_state(request);
    *state = (struct control_state){.length = (uint8_t)length, .id = id};
    memcpy(state->packet, packet, length);
    request->ep      = ep;
    request->send    = control_send;
    request->release = release;
    cw_request_release(request, 0);
    cw_ep_queue(ep, request);
    return UCS_OK;
}

static void let_go(struct cw_request *request)
{
    cw_ep_let_go(request->ep, CW_KEPT_ONE);
}

/* Queues the packet, because the transport does not take it now. */
static void send_later(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    static struct cw_log_limit limit;

    if (!cw_ep_keep(ep, CW_KEPT_ONE)) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "worker %016llx does not read what it is answered: UCX_PEER_MEMORY is "
                           "used up, and its connection is closed", (unsigned long long)cw_ep_peer_uid(ep));
        cw_ep_fail(ep, UCS_ERR_EXCEEDS_LIMIT);
    } else if (cw_ep_control_later(ep, id, packet, length, let_go) != UCS_OK) {
        cw_ep_let_go(ep, CW_KEPT_ONE);
        cw_error("no memory to answer the peer of endpoint %p; the endpoint is given up", (void *)ep);
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
    }
}

void cw_ep_send_control(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    if (!cw_ep_control_now(ep, id, packet, length)) {
        send_later(ep, id, packet, length);
    }
}
