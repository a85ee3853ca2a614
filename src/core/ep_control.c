/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small packets that the library sends on its own account: an id and 8 bytes. They keep their place in the endpoint's
 * queue.
 */
#include "core/ep.h"

#include "base/log.h"

struct control_state {
    uint64_t header;
    uint8_t id;
};

_Static_assert(sizeof(struct control_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static ucs_status_t control_send(struct cw_request *request)
{
    const struct control_state *state = cw_request_state(request);
    struct cw_conn *conn              = request->ep->conn;

    return conn->iface->transport->send_short(conn, state->id, state->header, NULL, 0);
}

void cw_ep_send_control(struct ucp_ep *ep, uint8_t id, uint64_t header)
{
    struct cw_request *request;
    struct control_state *state;

    if (ep->state == CW_EP_FAILED ||
        (cw_ep_ready(ep) && ep->conn->iface->transport->send_short(ep->conn, id, header, NULL, 0) != CW_AGAIN)) {
        return; /* sent, or the connection broke and `closed` follows */
    }
    request = cw_request_get(ep->worker, NULL, CW_REQUEST_SEND);
    if (request == NULL) {
        cw_error("no memory to answer the peer of endpoint %p; the endpoint is given up", (void *)ep);
        cw_ep_fail(ep, UCS_ERR_NO_MEMORY);
        return;
    }
    state         = cw_request_state(request);
    state->header = header;
    state->id     = id;
    request->ep   = ep;
    request->send = control_send;
    cw_request_release(request, 0);
    cw_ep_queue(ep, request);
}
