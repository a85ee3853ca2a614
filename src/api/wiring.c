/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Joins the operations, the protocols and connect/ to the core, which depends on none of them (docs/ARCHITECTURE.md).
 */
#include <stdlib.h>

#include "am/am.h"
#include "api/call.h"
#include "api/dispatch.h"
#include "base/counter.h"
#include "connect/cm.h"
#include "connect/connect.h"
#include "connect/further.h"
#include "msg/reassembly.h"
#include "msg/msg.h"
#include "os/random.h"
#include "proto/info.h"
#include "proto/proto.h"
#include "rma/rma.h"
#include "rndv/bounce_table.h"
#include "rndv/ipc.h"
#include "rndv/recv.h"
#include "rndv/send.h"
#include "rndv/shares.h"
#include "stream/stream.h"
#include "tag/tag.h"
#include "wire/packet.h"

static void receives_ran_out(void *owner)
{
    cw_count(owner, CW_COUNT_RECEIVES_DRY, 1);
}

static const struct cw_upcalls upcalls = {
    .packet = cw_op_packet,
    .place = cw_op_place,
    .placed = cw_op_placed,
    .unplaced = cw_op_unplaced,
    .accept = cw_wireup_accept,
    .is_ours = cw_wireup_is_ours,
    .refuses = cw_wireup_refuses,
    .opened = cw_wireup_opened,
    .space = cw_wireup_space,
    .requested = cw_cm_requested,
    .awaits = cw_wireup_awaits,
    .closed = cw_wireup_closed,
    .consume = cw_tag_consume,
    .finish = cw_tag_finish_consumed,
    .receives_ran_out = receives_ran_out,
};

/* The state of all operations in a worker, in one piece of memory. */
struct state {
    struct cw_msg_state msg;
    struct cw_tag_state tag;
    struct cw_am_state am;
    struct cw_stream_state stream;
    struct cw_rma_state rma;
};

static ucs_status_t worker_init(struct ucp_worker *worker)
{
    struct state *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    worker->msg = &state->msg;
    worker->tag = &state->tag;
    worker->am = &state->am;
    worker->stream = &state->stream;
    worker->rma = &state->rma;
    cw_msg_init(worker);
    cw_tag_init(worker);
    cw_am_init(worker->am, cw_random_u64());
    cw_list_init(&worker->stream->ready);
    cw_list_init(&worker->rma->all);
    return UCS_OK;
}

static void worker_cleanup(struct ucp_worker *worker)
{
    cw_am_cleanup(worker->am); /* this may call callbacks of the program */
    cw_tag_cleanup(worker);
    cw_stream_worker_end(worker);
    cw_msg_cleanup(worker);
    free(cw_container_of(worker->msg, struct state, msg));
    worker->msg = NULL;
}

static void ep_init(struct ucp_ep *ep)
{
    struct cw_op_ep *state = cw_op_ep(ep);

    *state = (struct cw_op_ep){.next_message_id = (uint32_t)cw_counter_start,
                               .pair_generation = (uint32_t)cw_counter_start & CW_CLAIM_MAX_GENERATION};
    cw_list_init(&state->reassembly.receiving);
    cw_list_init(&state->reassembly.partial);
    cw_list_init(&state->reassembly.stored);
}

static int ep_expects(const struct ucp_ep *ep)
{
    const struct cw_op_reassembly *reassembly = &cw_op_ep(ep)->reassembly;

    return !cw_list_empty(&reassembly->receiving) || !cw_list_empty(&reassembly->partial);
}

static void ep_ended(struct ucp_ep *ep, ucs_status_t status)
{
    cw_reassembly_ep_ended(ep, status);
    cw_tag_ep_ended(ep);
    cw_stream_ep_ended(ep, status);
    cw_rma_ep_ended(ep, status);
    cw_ipc_ep_ended(ep);
    cw_bounce_ep_ended(ep);
}

const struct cw_worker_handlers cw_call_handlers = {
    .upcalls = &upcalls,
    .worker_init = worker_init,
    .worker_cleanup = worker_cleanup,
    .ep_connect = cw_wireup_connect,
    .lanes_dial = cw_further_dial,
    .ep_state_size = sizeof(struct cw_op_ep),
    .ep_init = ep_init,
    .ep_expects = ep_expects,
    .ep_opened = cw_proto_info_print,
    .ep_quiesce = cw_rndv_recv_quiesce,
    .ep_ended = ep_ended,
    .ep_flush = cw_rma_flush,
    .ep_user_changed = cw_stream_ep_user_changed,
    .send_device_end = cw_send_device_end,
    .protocols = cw_proto_tables,
    .worker_gauges = cw_tag_gauges,
    .worker_queues = cw_tag_show,
};
