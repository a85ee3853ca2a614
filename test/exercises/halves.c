/* SPDX-License-Identifier: BSD-3-Clause */
/* Exercise of docs/TRANSPORT.md: a protocol. A message that one packet could carry goes in two, the first of which has
 * half of the bytes. The receiver knows such packets already: they are those of a message in pieces. */
#include "halves.h"

#include "msg/credit.h"
#include "msg/send.h"

unsigned halves_sent;

/* Pure: for which lengths the protocol offers itself. It leaves to others what one packet cannot carry, what is not
 * plain memory, and what somebody wants on another path. */
static int query(const struct cw_protocol_ask *ask, struct cw_protocol_row *row)
{
    if (ask->data != CW_DATA_CONTIG || ask->force == CW_FORCE_RNDV || ask->header >= ask->lanes->max_piece) {
        return 0;
    }
    *row = (struct cw_protocol_row){.first = HALVES_LEAST,
                                    .last = ask->lanes->max_piece - ask->header,
                                    .name = "eager halves",
                                    .why = "an exercise"};
    return row->first <= row->last;
}

static size_t pack_first(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    size_t header = send->kind->header(send, CW_SEND_FIRST, dest);

    return header + cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + header, max - header);
}

static size_t pack_second(void *dest, size_t max, void *arg)
{
    struct cw_send *send = arg;
    const struct cw_wire_next place = {.message = htole32(send->message), .offset = htole64(send->cursor.offset)};

    memcpy(dest, &place, sizeof(place));
    return sizeof(place) +
           cw_dt_pack_nt(&send->cursor, cw_send_nt(send), (char *)dest + sizeof(place), max - sizeof(place));
}

/* Called again from where it stopped, as long as the transport answers CW_AGAIN. */
static ucs_status_t start(struct cw_request *request)
{
    struct cw_send *send = cw_request_state(request);
    struct cw_conn *lane = request->ep->conn;
    const size_t length = send->cursor.length;
    ucs_status_t status;

    if (send->phase == CW_SEND_QUEUED) {
        const size_t header = send->kind->header(send, CW_SEND_FIRST, NULL);

        send->message = cw_op_ep(request->ep)->next_message_id;
        status = cw_lane_send_bcopy(lane, send->kind->ids[CW_SEND_FIRST], header + length / 2, pack_first, send);
        if (status != UCS_OK) {
            return status;
        }
        send->phase = CW_SEND_PIECES;
        request->send = start;
        cw_trace_note(request, CW_TRACE_PATH, CW_TRACE_PIECES, 0, length);
        cw_op_ep(request->ep)->next_message_id++;
        if (send->kind->credited) {
            cw_credit_sent(request->ep, length);
        }
    }
    status = cw_lane_send_bcopy(lane, CW_PACKET_NEXT, sizeof(struct cw_wire_next) + length - send->cursor.offset,
                                pack_second, send);
    if (status != UCS_OK) {
        return status;
    }
    halves_sent++;
    return cw_send_left(request);
}

const struct cw_protocol cw_exercise_halves = {.query = query, .start = start};
