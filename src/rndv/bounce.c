/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implementation of rndv/bounce.h. The sender's copies use open staging (rndv/staging.h). The receiver's copies end in
 * the order of the bounce buffers; an alarm polls the first one, so that a sleeping program wakes up for it. Invariant:
 * a bounce buffer is acknowledged (TAKEN) only after the copy from it has ended, and the sender's device reuses it only
 * then.
 */
#include "rndv/bounce.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "core/ep_round.h"
#include "mem/registry.h"
#include "os/clock.h"
#include "rndv/bounce_table.h"
#include "rndv/send.h"
#include "rndv/staging.h"

bool cw_bounce_is_possible(struct ucp_ep *ep, const struct cw_dt_cursor *cursor, size_t length)
{
    const struct cw_md *md;

    if (!cw_staging_is_worth(cursor, length) || ep->state != CW_EP_OPEN ||
        ep->worker->context->config->rndv_scheme == CW_RNDV_AM) {
        return false;
    }
    md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type);
    return md != NULL && md->share != NULL && cw_bounce_has_path(ep);
}

/* ---- the receiver ---- */

struct part {
    struct cw_bounce *bounce;
    struct cw_md_copy copy;
    uint64_t offset;
    int is_busy; /* the copy is in flight */
};

struct cw_bounce_recv {
    struct cw_alarm alarm;
    struct ucp_ep *ep;
    const struct cw_md *md;
    uint64_t send_id;
    char *device;
    uint64_t length;
    uint64_t begun; /* bytes whose copies have begun */
    struct part parts[CW_WIRE_CHUNKS_OUT];
    unsigned first, count; /* of the parts not yet acknowledged to the sender */
    ucs_status_t status;
    void (*ended)(void *arg, ucs_status_t status);
    void *arg;
};

void cw_bounce_decode(const void *data, struct cw_wire_rndv_chunk *packet)
{
    memcpy(packet, data, sizeof(*packet));
    packet->receive_id = le64toh(packet->receive_id);
    packet->send_id = le64toh(packet->send_id);
    packet->offset = le64toh(packet->offset);
    packet->chunk = le64toh(packet->chunk);
    packet->passed = le64toh(packet->passed);
    packet->length = le32toh(packet->length);
    packet->size = le32toh(packet->size);
}

static void poll_at(struct cw_bounce_recv *recv, uint64_t at_ns)
{
    cw_poller_alarm_set(recv->ep->worker->poller, &recv->alarm, at_ns);
}

/* The copy from the first part has ended. */
static void take_first(struct cw_bounce_recv *recv, ucs_status_t status)
{
    struct part *part = &recv->parts[recv->first];
    const int keeps = cw_bounce_close(part->bounce);
    struct cw_wire_rndv_taken packet = {
        .send_id = htole64(recv->send_id), .offset = htole64(part->offset), .keeps = htole32((uint32_t)keeps)};

    part->is_busy = 0;
    recv->first = (recv->first + 1) % CW_WIRE_CHUNKS_OUT;
    recv->count--;
    recv->status = (recv->status == UCS_OK) ? status : recv->status;
    if (recv->status == UCS_OK && recv->ep->state == CW_EP_OPEN) {
        cw_ep_send_control(recv->ep, CW_PACKET_RNDV_TAKEN, &packet, sizeof(packet));
    }
}

static bool is_over(const struct cw_bounce_recv *recv)
{
    return recv->count == 0 && (recv->status != UCS_OK || recv->begun == recv->length);
}

static unsigned fire(struct cw_alarm *alarm)
{
    struct cw_bounce_recv *recv = cw_container_of(alarm, struct cw_bounce_recv, alarm);
    unsigned done = 0;
    ucs_status_t status = UCS_OK;
    struct part *part;

    while (recv->count > 0 && status != UCS_INPROGRESS) {
        part = &recv->parts[recv->first];
        status = part->is_busy ? recv->md->poll(recv->md, &part->copy) : UCS_OK;
        if (status != UCS_INPROGRESS) {
            take_first(recv, status);
            done++;
        }
    }
    if (is_over(recv)) {
        recv->ended(recv->arg, recv->status);
        return 1;
    }
    if (recv->count > 0) {
        poll_at(recv, cw_clock_ns() + cw_bounce_poll_ns(recv->ep->worker));
    }
    return done;
}

struct cw_bounce_recv *cw_bounce_recv_begin(struct ucp_ep *ep, uint64_t send_id, const struct cw_dt_cursor *cursor,
                                            size_t length, void (*ended)(void *arg, ucs_status_t status), void *arg)
{
    struct cw_bounce_recv *recv = calloc(1, sizeof(*recv));

    if (recv != NULL) {
        *recv = (struct cw_bounce_recv){.alarm = {.fire = fire},
                                        .ep = ep,
                                        .md = cw_md_of_type((ucs_memory_type_t)cursor->memory_type),
                                        .send_id = send_id,
                                        .device = cursor->contig,
                                        .length = length,
                                        .status = UCS_OK,
                                        .ended = ended,
                                        .arg = arg};
    }
    return recv;
}

/* Begins no further copy; the alarm reports the failure once none is in flight. */
static void give_up(struct cw_bounce_recv *recv, ucs_status_t status)
{
    recv->status = (recv->status == UCS_OK) ? status : recv->status;
    poll_at(recv, cw_clock_ns());
}

static void begin_copy(struct cw_bounce_recv *recv, struct cw_bounce *bounce, const struct cw_wire_rndv_chunk *packet)
{
    struct part *part = &recv->parts[(recv->first + recv->count) % CW_WIRE_CHUNKS_OUT];
    ucs_status_t status;

    *part = (struct part){.bounce = bounce, .offset = packet->offset};
    status = recv->md->start(recv->md, recv->device + packet->offset, bounce->memory.ptr, packet->length, &part->copy);
    recv->count++;
    recv->begun += packet->length;
    part->is_busy = status == UCS_INPROGRESS;
    if (status != UCS_OK && status != UCS_INPROGRESS) {
        give_up(recv, status);
    } else if (recv->count == 1) {
        poll_at(recv, cw_clock_ns() + cw_bounce_poll_ns(recv->ep->worker));
    }
}

ucs_status_t cw_bounce_recv_take(struct cw_bounce_recv *recv, const struct cw_wire_rndv_chunk *packet)
{
    struct cw_bounce *bounce;
    ucs_status_t status;

    if (packet->send_id != recv->send_id || packet->length == 0) {
        return UCS_ERR_IO_ERROR;
    }
    if (recv->status != UCS_OK) {
        cw_bounce_discard(recv->ep, packet);
        return UCS_OK;
    }
    if (packet->offset != recv->begun || packet->length > recv->length - recv->begun ||
        recv->count == CW_WIRE_CHUNKS_OUT) {
        return UCS_ERR_IO_ERROR;
    }
    status = cw_bounce_open(recv->ep, packet, recv->md, recv->device, &bounce);
    if (status == UCS_OK) {
        begin_copy(recv, bounce, packet);
    } else if (status != UCS_ERR_IO_ERROR) {
        give_up(recv, status);
        status = UCS_OK;
    }
    return status;
}

ucs_status_t cw_bounce_recv_wait(struct cw_bounce_recv *recv)
{
    struct part *part;

    while (recv->count > 0) {
        part = &recv->parts[recv->first];
        take_first(recv, part->is_busy ? recv->md->wait(recv->md, &part->copy) : UCS_OK);
    }
    return (recv->status == UCS_OK && recv->begun < recv->length) ? UCS_ERR_CONNECTION_RESET : recv->status;
}

void cw_bounce_recv_end(struct cw_bounce_recv *recv)
{
    cw_poller_alarm_cancel(recv->ep->worker->poller, &recv->alarm);
    (void)cw_bounce_recv_wait(recv);
    free(recv);
}

/* ---- the sender ---- */

/* Announces the next bounce buffer to the receiver. */
static ucs_status_t show(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_staging *staging = send->cursor.staging;
    const size_t offset = send->cursor.offset;
    size_t length;
    const struct cw_bounce *bounce = cw_staging_bounce(staging, offset, &length);
    struct cw_wire_rndv_chunk packet;
    ucs_status_t status;

    packet =
        (struct cw_wire_rndv_chunk){.receive_id = htole64(send->receive_id),
                                    .send_id = htole64(send->id),
                                    .offset = htole64(offset),
                                    .chunk = htole64(cw_bounce_is_here(request->ep) ? bounce->number : bounce->slot),
                                    .passed = htole64(bounce->passed),
                                    .length = htole32((uint32_t)length),
                                    .size = htole32((uint32_t)bounce->memory.length)};
    status = cw_lane_send_packet(request->ep->conn, CW_PACKET_RNDV_CHUNK, &packet, sizeof(packet));
    if (status == UCS_OK) {
        cw_staging_shown(staging, offset);
        cw_dt_skip(&send->cursor, length);
    }
    return status;
}

/* TAKEN also wakes the request, so a program that only waits for its peer needs no alarm. */
static void await(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if (!cw_staging_waits_for_peer(send->cursor.staging)) {
        cw_staging_await(send->cursor.staging, cw_send_go_on, request);
    }
}

/* An attempt in the phase CHUNKS. If the device fails, the endpoint fails, because the peer waits for these bytes. */
static ucs_status_t go_on(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status;
    size_t ready;

    if (cw_ep_must_pause(request->ep)) {
        return CW_AGAIN;
    }
    while (send->cursor.offset < send->cursor.length) {
        ready = cw_staging_ready(send->cursor.staging, &status);
        if (status != UCS_OK) {
            cw_ep_fail(request->ep, status);
            return CW_AGAIN;
        }
        if (ready <= send->cursor.offset) {
            await(request);
            return UCS_INPROGRESS;
        }
        status = show(request);
        if (status != UCS_OK) {
            return status;
        }
    }
    return UCS_INPROGRESS; /* DONE ends it */
}

static ucs_status_t in_pieces(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    send->phase = CW_SEND_DATA;
    request->send = cw_send_data;
    return cw_send_data(request);
}

/* Earlier messages may use all bounce buffers. If no bounce buffer can become available, nothing has been sent yet, so
 * packets take over. */
static ucs_status_t begin(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    ucs_status_t status;

    (void)cw_staging_ready(send->cursor.staging, &status);
    if (status == UCS_OK && cw_staging_is_barren(send->cursor.staging)) {
        cw_staging_undo(&send->cursor);
        return in_pieces(request);
    }
    return go_on(request);
}

ucs_status_t cw_bounce_or_data(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if (cw_ep_must_pause(request->ep)) {
        return CW_AGAIN;
    }
    if (!send->accepts_bounce || !cw_bounce_is_possible(request->ep, &send->cursor, send->cursor.length) ||
        !cw_staging_open(&send->cursor, request->ep, send->cursor.length)) {
        return in_pieces(request);
    }
    send->phase = CW_SEND_BOUNCE;
    request->send = begin;
    cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_DEVICE, 0, send->cursor.length);
    return begin(request);
}

ucs_status_t cw_bounce_withdraw(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);

    if (!cw_staging_is_quiet(send->cursor.staging)) {
        cw_staging_await(send->cursor.staging, cw_send_go_on, request);
        return UCS_INPROGRESS;
    }
    cw_staging_undo(&send->cursor);
    return in_pieces(request);
}

ucs_status_t cw_bounce_on_taken(struct ucp_ep *ep, const void *data, size_t length CW_UNUSED)
{
    struct cw_wire_rndv_taken packet;
    struct cw_request *request;
    struct cw_send *send;
    ucs_status_t status;

    memcpy(&packet, data, sizeof(packet));
    request = cw_send_find(ep, le64toh(packet.send_id));
    if (request == NULL || le32toh(packet.keeps) > 1) {
        return UCS_ERR_IO_ERROR;
    }
    send = cw_request_state(request);
    if (send->phase != CW_SEND_BOUNCE ||
        !cw_staging_taken(send->cursor.staging, le64toh(packet.offset), packet.keeps != 0)) {
        return UCS_ERR_IO_ERROR;
    }
    if (send->cursor.offset < send->cursor.length) { /* the next copy begins at once */
        (void)cw_staging_ready(send->cursor.staging, &status);
        cw_staging_await(send->cursor.staging, cw_send_go_on, request);
    }
    return UCS_OK;
}
