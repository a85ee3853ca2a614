/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small packets that the library sends by itself. They keep their position in the endpoint's queue.
 */
#include "core/ep_retained.h"

#include <assert.h>
#include <string.h>

#include "base/log.h"

struct control_state {
    uint64_t packet[CW_CONTROL_MAX / sizeof(uint64_t)];
    uint8_t length;
    uint8_t id;
};

_Static_assert(sizeof(struct control_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

struct flat {
    const void *bytes;
    size_t length;
};

static size_t pack_flat(void *dest, size_t max CW_UNUSED, void *arg)
{
    const struct flat *flat = arg;

    memcpy(dest, flat->bytes, flat->length);
    return flat->length;
}

ucs_status_t cw_lane_send_packet(struct cw_conn *lane, uint8_t id, const void *packet, size_t length)
{
    const size_t payload = length - sizeof(uint64_t);
    struct flat flat = {packet, length};
    uint64_t header;

    if (payload <= lane->iface->limits.max_short && lane->iface->packets->send_short != NULL) {
        memcpy(&header, packet, sizeof(header));
        return cw_lane_send_short(lane, id, header, (payload == 0) ? NULL : (const char *)packet + sizeof(header),
                                  payload);
    }
    return cw_lane_send_bcopy(lane, id, length, pack_flat, &flat);
}

static ucs_status_t control_send(struct cw_request *request)
{
    const struct control_state *state = cw_request_state(request);

    return cw_lane_send_packet(request->ep->conn, state->id, state->packet, state->length);
}

int cw_ep_control_now(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    return ep->state == CW_EP_FAILED ||
           (cw_ep_ready(ep) && cw_lane_send_packet(ep->conn, id, packet, length) != CW_AGAIN);
}

int cw_ep_control_passing(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    return ep->state != CW_EP_OPEN || cw_lane_send_packet(ep->conn, id, packet, length) != CW_AGAIN;
}

ucs_status_t cw_ep_control_later(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length,
                                 void (*release)(struct cw_request *request))
{
    struct cw_request *request = cw_request_get(ep->worker, NULL, CW_REQUEST_SEND);
    struct control_state *state;

    assert(length >= sizeof(uint64_t) && length <= CW_CONTROL_MAX);
    if (request == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    state = cw_request_state(request);
    *state = (struct control_state){.length = (uint8_t)length, .id = id};
    memcpy(state->packet, packet, length);
    request->ep = ep;
    request->send = control_send;
    request->release = release;
    cw_request_release(request, 0);
    cw_ep_queue(ep, request);
    return UCS_OK;
}

static void let_go(struct cw_request *request)
{
    cw_ep_let_go(request->ep, CW_RETAINED_ONE);
}

/* Queues the packet, because the transport does not accept it now. */
static void send_later(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    static struct cw_log_limit limit;

    if (!cw_ep_keep(ep, CW_RETAINED_ONE)) {
        cw_log_ratelimited(&limit, CW_LOG_ERROR, "closing the connection to worker %016llx: it does not read its "
                                                 "replies, which exceed "
                                                 "UCX_PEER_MEMORY", (unsigned long long)cw_ep_peer_uid(ep));
        cw_ep_fail(ep, UCS_ERR_EXCEEDS_LIMIT);
    } else if (cw_ep_control_later(ep, id, packet, length, let_go) != UCS_OK) {
        cw_ep_let_go(ep, CW_RETAINED_ONE);
        cw_error("out of memory for a reply to the peer of endpoint %p, which fails", (void *)ep);
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
    }
}

void cw_ep_send_control(struct ucp_ep *ep, uint8_t id, const void *packet, size_t length)
{
    if (!cw_ep_control_now(ep, id, packet, length)) {
        send_later(ep, id, packet, length);
    }
}
