/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits on the memory that peers can occupy here, and the failure of endpoints whose peers break the protocol.
 */
#include "msg/msg.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/ep_retained.h"

void cw_msg_init(struct ucp_worker *worker)
{
    cw_idmap_init(&worker->msg->receives);
}

void cw_msg_cleanup(struct ucp_worker *worker)
{
    cw_idmap_cleanup(&worker->msg->receives);
    free(worker->msg->choices);
    free(worker->msg->choices_rma);
}

int cw_op_leave(struct ucp_worker *worker, uint64_t bytes)
{
    static struct cw_log_limit limit;
    struct cw_msg_state *state = worker->msg;

    if (state->left + bytes > cw_retained_limit(worker)) {
        cw_log_ratelimited(&limit, CW_LOG_WARN, "worker %s: unreceived messages of closed peers exceed "
                                                "UCX_PEER_MEMORY; further ones are dropped", worker->name);
        return 0;
    }
    state->left += bytes;
    return 1;
}

CW_COLD void cw_op_refused(struct ucp_ep *ep, uint8_t id, size_t length, ucs_status_t status)
{
    static struct cw_log_limit limit;
    const char *why = "protocol violation";

    if (status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT) {
        cw_ep_fail(ep, status); /* the packet is valid; the peer is gone or not progressing */
        return;
    }
    if (status == UCS_ERR_NO_MEMORY || status == UCS_ERR_EXCEEDS_LIMIT) {
        why = (status == UCS_ERR_NO_MEMORY) ? "out of memory" : "the peer exceeds UCX_PEER_MEMORY";
    }
    cw_log_ratelimited(&limit, CW_LOG_ERROR,
                       "cannot handle a packet (id %u, %zu bytes) of worker %016llx: %s; its connection is closed",
                       id, length, (unsigned long long)cw_ep_peer_uid(ep),
                       why);
    cw_count(ep->worker, CW_COUNT_BAD_PACKETS, 1);
    cw_ep_fail(ep, status);
}
