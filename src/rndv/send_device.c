/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sender side of a rendezvous that a device moves (docs/change/long-messages.md): either the receiver's device reads
 * the memory that the announcement names, or the sender's device writes into the memory that the receiver names. The
 * registration ends with the request, or when the receiver asks for packets; the receiver's right to read ends with it.
 */
#include "rndv/send.h"

#include "access/access.h"
#include "access/stripes.h"
#include "core/ep_round.h"
#include "core/lane_copies.h"
#include "core/lanes.h"
#include "msg/op_ep.h"
#include "proto/select.h"
#include "rndv/recv_device.h"

static void ended(struct cw_request *request, ucs_status_t status);

static int begin(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_access *access = cw_access_new(request, ended);

    if (access != NULL) {
        send->access = access;
        send->on_device = 1;
    }
    return access != NULL;
}

void cw_send_device_end(struct cw_send *send)
{
    if (send->on_device) {
        send->on_device = 0;
        cw_access_free(send->access);
        send->access = NULL;
    }
}

/* Whether a receiver with the same settings would have its device read the message. */
static bool is_to_be_read(const struct cw_request *request, const struct cw_send *send)
{
    const struct ucp_ep *ep = request->ep;
    const int is_hosts = send->cursor.class_id == UCP_DATATYPE_CONTIG;
    const uint32_t bits = CW_DATA_CONTIG | (is_hosts ? 0 : CW_CHOICE_REGISTERED);

    /* The peer's CPU must not read GPU memory. */
    return send->cursor.length > 0 && cw_lane_peer_domain(ep->conn) != 0 &&
           (is_hosts || !cw_lane_has_copies(ep->conn)) && cw_choice_is_flat(ep->conn, &send->cursor) &&
           cw_choice_rma(ep, cw_choice_table(CW_PROTO_RNDV, CW_REMOTE_ACCESS), bits, send->cursor.length)->reads;
}

static struct cw_mem_part part_of(const struct cw_send *send)
{
    return (struct cw_mem_part){
        .memory = send->cursor.contig, .length = send->cursor.length, .type = cw_dt_memory_type(&send->cursor)};
}

/* Registers the memory for the device of the message lane, and for those of further lanes. 0: no device reads it. */
static int begin_to_be_read(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *lane = request->ep->conn;
    const unsigned rails = cw_lanes_for_rndv(request->worker);
    struct cw_mem_part part;
    struct cw_mem_use *use;

    if (!is_to_be_read(request, send) || !begin(request)) {
        return 0;
    }
    part = part_of(send);
    use = &send->access->use;
    if (cw_mem_use_begin(request->worker->context, lane->iface->domain, &part, CW_RIGHT_REMOTE_READ, use) != UCS_OK) {
        cw_send_device_end(send);
        return 0;
    }
    if (rails > 1) {
        cw_lanes_expect(request->ep, send->cursor.length, lane->iface->limits.access.max_get_zcopy);
        /* all registrations cover the range that is announced */
        part.memory = (const void *)(uintptr_t)use->range.address;
        part.length = use->range.length;
        cw_stripes_begin(send->access, &part, CW_RIGHT_REMOTE_READ, rails);
    }
    return 1;
}

size_t cw_send_device_name(struct cw_request *request, size_t space, uint8_t bytes[CW_KEY_MEMORY_MAX])
{
    struct cw_send *send = cw_request_state(request);
    uint8_t parts[CW_KEY_PARTS_MAX];
    struct cw_key_memory memory = {.parts.bytes = parts};

    if (!send->on_device && !begin_to_be_read(request)) { /* this is the first attempt */
        return 0;
    }
    if (space < CW_KEY_MEMORY_MAX) { /* the part of the message lane fits */
        cw_stripes_free(send->access->stripes);
        send->access->stripes = NULL;
    }
    memory.address = send->access->use.range.address;
    memory.length = send->access->use.range.length;
    memory.parts.length = cw_stripes_parts(send->access, parts);
    return cw_key_memory_encode(&memory, bytes);
}

/* ---- writing ---- */

/* Reports to the receiver that the bytes are written, or that they will not be. The receiver decides how the transfer
 * continues. */
static void notify_receiver(struct cw_request *request, ucs_status_t status)
{
    struct cw_send *send = cw_request_state(request);
    const struct cw_wire_rndv_copied packet = {.receive_id = htole64(send->access->receive_id),
                                               .status = (int32_t)htole32((uint32_t)status)};

    send->phase = CW_SEND_COPIED;
    cw_send_device_end(send);
    cw_ep_send_control(request->ep, CW_PACKET_RNDV_COPIED, &packet, sizeof(packet));
}

/* All accesses have ended. The request of a failed endpoint ends with the endpoint. */
static void ended(struct cw_request *request, ucs_status_t status)
{
    if (request->ep->state == CW_EP_OPEN) {
        notify_receiver(request, status);
    }
}

/* The attempt of the request (request->send), in the endpoint's queue. */
static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_access *access = send->access;
    ucs_status_t status = UCS_OK;

    if (cw_ep_must_pause(request->ep)) {
        return CW_AGAIN;
    }
    while (send->cursor.offset < send->cursor.length && access->status == UCS_OK) {
        status = cw_stripes_put(access, &send->cursor, access->address);
        if (status == CW_AGAIN || status == CW_BLOCKED) {
            return status;
        }
        if (status != UCS_OK) {
            access->status = status;
        }
    }
    status = cw_access_begun(access);
    if (status != UCS_INPROGRESS) {
        notify_receiver(request, status);
    }
    return UCS_INPROGRESS;
}

/* Decodes the receiver's untrusted keys. Returns 0 if they are unusable. */
static int take_keys(const struct cw_request *request, const struct cw_wire_rndv_ready *ready, const void *bytes,
                     size_t length, struct cw_offer_keys *keys, uint8_t *count_p)
{
    const struct cw_send *send = (const void *)(request + 1);
    const struct cw_key_memory memory = {
        .address = ready->address, .length = send->cursor.length, .parts = {.bytes = bytes, .length = length}};

    return cw_lane_peer_domain(request->ep->conn) != 0 && cw_key_parts_hold(&memory.parts) && memory.length > 0 &&
           memory.address <= UINT64_MAX - memory.length &&
           cw_offer_take_keys(request->ep, &memory, keys, count_p) == UCS_OK && *count_p > 0;
}

ucs_status_t cw_send_device_write(struct cw_request *request, const struct cw_wire_rndv_ready *ready, const void *parts,
                                  size_t length)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_mem_part part;
    struct cw_access *access;
    struct cw_offer_keys keys;
    uint8_t count;

    if (send->phase != CW_SEND_ANNOUNCED || !take_keys(request, ready, parts, length, &keys, &count)) {
        return UCS_ERR_IO_ERROR;
    }
    cw_send_device_end(send); /* ends the registration for reading by the receiver */
    if (!begin(request)) {
        return UCS_ERR_NO_MEMORY;
    }
    access = send->access;
    access->receive_id = le64toh(ready->receive_id);
    access->address = ready->address;
    access->key = keys.key[0];
    part = part_of(send);
    if (cw_choice_is_flat(request->ep->conn, &send->cursor)) {
        cw_access_use(access, &part, 0);
    }
    if (access->use.memh != NULL) {
        cw_offer_share(access, &part, 0, &keys, count);
    }
    cw_send_from_start(request, CW_SEND_WRITING, go_on);
    return UCS_OK;
}
