/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announced messages (rendezvous): the protocol that announces a message, then those that move its bytes.
 */
#include "access/stripes.h"
#include "config/config.h"
#include "proto/proto.h"
#include "rndv/recv_device.h"
#include "rndv/send.h"
#include "rndv/staging.h"

/*
 * An announced message; the receiver chooses how its bytes are moved (docs/change/long-messages.md, rndv/send.c).
 */

static bool is_forced(const struct cw_protocol_ask *ask)
{
    return ask->lanes->plan->rndv_forced ||
           (ask->fast && ask->lanes->plan->rndv_fast_min != ask->lanes->plan->rndv_min);
}

/* Whether messages of CW_STAGING_LEAST bytes are announced because memory of a GPU is copied at both ends. */
static bool is_staged(const struct cw_protocol_ask *ask)
{
    return ask->on_device && ask->force == CW_FORCE_NONE && !ask->lanes->plan->rndv_forced;
}

/* The least length of such a message, with the program's own header. */
static size_t least(const struct cw_protocol_ask *ask)
{
    const struct cw_protocol_plan *plan = ask->lanes->plan;
    const size_t min = ask->fast ? plan->rndv_fast_min : plan->rndv_min;
    const int is_list = ask->data == CW_DATA_LIST || ask->data == CW_DATA_SCATTERED;

    return (is_list && min < plan->rndv_late_min) ? plan->rndv_late_min : min;
}

static const char *why(const struct cw_protocol_ask *ask)
{
    if (ask->force == CW_FORCE_RNDV) {
        return "requested by the program or the receiver's window";
    }
    if (is_forced(ask)) {
        return ask->lanes->plan->rndv_forced ? ask->lanes->input.rndv_setting : "RNDV_SEND_NBR_THRESH";
    }
    return "a round trip costs less than copies from here";
}

static int announce_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const size_t min = (ask->force == CW_FORCE_RNDV) ? 0 : least(ask);
    const int is_long = min == CW_PLAN_NEVER;

    if (ask->force == CW_FORCE_EAGER || (is_long && !is_staged(ask))) {
        return 0;
    }
    row->first = (min > ask->extra) ? min - ask->extra : 0;
    if (is_long) {
        row->first = CW_PLAN_NEVER;
    }
    row->cost = cw_protocol_cost(ask->lanes, 3);
    row->fixed = 1;
    row->name = (input->max_placed > 0) ? "rendezvous, received in place" : "rendezvous, in fragments";
    if (input->memory) {
        row->name = "rendezvous, copied from memory to memory by both sides";
    }
    row->why = why(ask);
    if (is_staged(ask) && row->first >= CW_STAGING_LEAST) {
        row->first = CW_STAGING_LEAST;
        row->name = "rendezvous, copied from and to the devices";
        row->why = "both ends copy while packets are in flight";
    }
    return 1;
}

const struct cw_protocol cw_proto_rendezvous = {.query = announce_query, .start = cw_send_announce, .announces = 1};

/*
 * An announced message that the receiver's device reads from the sender's memory, which the announcement names, without
 * the sender's CPU. Takes two one-way trips for the bytes and one to notify the sender.
 */

static int read_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set = input->rndv_scheme == CW_RNDV_GET_ZCOPY;

    row->first = 1;
    row->cost = cw_protocol_cost(ask->lanes, 3);
    row->fixed = is_set;
    row->name = "read by the receiver's device";
    row->why = is_set ? "RNDV_SCHEME" : "no CPU copy";
    if (!ask->registered) {
        row->cost.fixed_ns += input->register_ns;
        row->cost.byte_ns += input->register_byte_ns;
    }
    return (ask->remote & CW_REMOTE_ACCESS) && ask->data == CW_DATA_CONTIG && input->access &&
           (is_set || input->rndv_scheme == CW_RNDV_AUTO || input->rndv_scheme == CW_RNDV_RKEY_PTR);
}

static ucs_status_t read_on(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    struct cw_access *access = receive->access;
    size_t length = 0;
    ucs_status_t status;

    while (receive->offset < receive->length && access->status == UCS_OK) {
        status = cw_stripes_get(access, receive->memory + receive->offset, receive->address + receive->offset,
                                receive->length - receive->offset, &length);
        if (status == CW_AGAIN || status == CW_BLOCKED) {
            return status;
        }
        if (status == UCS_OK) {
            receive->offset += length;
        } else {
            access->status = status;
        }
    }
    return cw_access_begun(access);
}

static ucs_status_t read_start(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    const struct cw_mem_part part = cw_rndv_recv_device_part(receive);
    ucs_status_t status = cw_rndv_recv_device_register(request, CW_RIGHT_LOCAL_WRITE);

    if (status != UCS_OK) {
        return status;
    }
    cw_offer_share(receive->access, &part, CW_RIGHT_LOCAL_WRITE, receive->keys, receive->num_keys);
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, receive->length);
    request->send = read_on;
    return read_on(request);
}

const struct cw_protocol cw_proto_rndv_read = {.query = read_query, .start = read_start, .reads = 1};

/*
 * An announced message that devices of the sender write into the receiver's memory. The receiver registers this memory
 * for this message alone and names it to the sender. The sender waits for its devices and notifies the receiver
 * (rndv/send_device.c). The right to write ends before the program gets its memory back, so a late write cannot reach
 * it.
 */

static int write_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    const struct cw_protocol_input *input = &ask->lanes->input;
    const int is_set = input->rndv_scheme == CW_RNDV_PUT_ZCOPY;

    row->first = 1;
    row->cost = cw_protocol_cost(ask->lanes, 5);
    row->fixed = is_set;
    row->name = "written by the sender's device";
    row->why = is_set ? "RNDV_SCHEME" : "no CPU copy";
    row->cost.fixed_ns += 2 * input->register_ns; /* on each side */
    row->cost.byte_ns += 2 * input->register_byte_ns;
    return ask->data == CW_DATA_CONTIG && input->access &&
           (is_set || input->rndv_scheme == CW_RNDV_AUTO || input->rndv_scheme == CW_RNDV_RKEY_PTR);
}

/* cw_rndv_recv_device_written ends what this function starts. */
static ucs_status_t write_start(struct cw_request *request)
{
    struct cw_rndv_recv_device *receive = cw_request_state(request);
    ucs_status_t status = cw_rndv_recv_device_register(request, CW_RIGHT_LOCAL_WRITE | CW_RIGHT_REMOTE_WRITE);

    if (status != UCS_OK) {
        return status;
    }
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, receive->length);
    receive->is_written = 1;
    return cw_rndv_recv_device_offer(request);
}

const struct cw_protocol cw_proto_rndv_write = {.query = write_query, .start = write_start};

/*
 * An announced message sent in packets, over a lane whose device could move it: for memory that the device cannot use,
 * or a message too short for the cost of the device. Both sides copy each byte.
 */

static int packets_query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    row->cost = cw_protocol_cost(ask->lanes, 2);
    row->name = "in packets";
    row->why = "copies cost less than registration, or no device can register the memory";
    row->cost.byte_ns += 2 * CW_COST_COPY_BYTE_NS;
    return 1;
}

const struct cw_protocol cw_proto_rndv_packets = {.query = packets_query};
