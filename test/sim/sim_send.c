/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sending slots of the transport "sim". A packet that is taken becomes an event at the other end: at once, or, when
 * the fault SHORT happens, after it was sent piece by piece, with the payload of a zcopy read in between. sim.c calls
 * the functions that end a queue of a connection or move it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "sim_rdma.h"

/* The packet leaves: it arrives, unless the connection breaks before. */
static void depart(struct cw_sim_conn *conn, struct cw_sim_event *packet)
{
    struct cw_sim_network *network = cw_sim_iface(conn->conn.iface)->network;
    struct cw_sim_link *link = conn->link;

    if (link->channels[conn->side].cut) {
        cw_sim_packet_retire(link, packet);
    } else if (cw_sim_chance(network, CW_SIM_RESET)) {
        cw_sim_packet_retire(link, packet);
        cw_sim_link_end(link, 1 - conn->side, UCS_ERR_CONNECTION_RESET);
        cw_sim_link_end(link, conn->side, UCS_ERR_CONNECTION_RESET);
    } else if (cw_sim_chance(network, CW_SIM_GARBAGE)) {
        cw_sim_packet_retire(link, packet);
        cw_sim_link_end(link, 1 - conn->side, UCS_ERR_IO_ERROR);
    } else if (packet->kind == CW_SIM_EVENT_PLACED) {
        cw_sim_launch_placed(packet);
    } else {
        cw_sim_launch(packet);
    }
}

/* Fills the packet up to `gone` from the sender's memory. */
static void copy_payload(struct cw_sim_send *send)
{
    struct iovec *iov;
    size_t length;

    while (send->copied < send->gone) {
        iov = &send->iov[0];
        length = (iov->iov_len < send->gone - send->copied) ? iov->iov_len : send->gone - send->copied;
        if (length > 0 && iov->iov_base != NULL) {
            cw_bytes_copy_any(send->packet->data + send->copied, iov->iov_base, length);
        }
        send->copied += length;
        iov->iov_base = (char *)iov->iov_base + length;
        iov->iov_len -= length;
        if (iov->iov_len == 0) {
            send->iov_count--;
            memmove(&send->iov[0], &send->iov[1], send->iov_count * sizeof(send->iov[0]));
        }
    }
}

/* A send that was taken from the queue ends. Its completion may send again or free the memory that contains it. */
static void finish_send(struct cw_sim_conn *conn, struct cw_sim_send *send, int leaves, ucs_status_t status)
{
    struct cw_completion *completion = send->completion;

    if (send->packet == NULL) {
        free(send);
    } else if (leaves) {
        depart(conn, send->packet);
    } else {
        cw_sim_packet_retire(conn->link, send->packet);
    }
    if (completion != NULL) {
        completion->done(completion, status);
    }
}

void cw_sim_queue_end(struct cw_sim_conn *conn, int leaves, ucs_status_t status)
{
    struct cw_list *queue = &conn->link->channels[conn->side].queue;
    struct cw_sim_send *send;
    struct cw_list *link;

    while ((link = cw_list_pop_head(queue)) != NULL) {
        send = cw_container_of(link, struct cw_sim_send, link);
        if (leaves && send->packet != NULL) {
            send->gone = send->total;
            copy_payload(send);
        }
        finish_send(conn, send, leaves, status);
    }
}

static ucs_status_t refuse_for_now(struct cw_sim_network *network, struct cw_sim_conn *conn)
{
    cw_sim_schedule(&conn->link->channels[conn->side].space, network->now_ns + cw_sim_delay_ns(network));
    network->stats.again++;
    return CW_AGAIN;
}

/* An empty packet if the channel takes `total` bytes now; otherwise NULL, and *status_p is the answer to the sender. */
static struct cw_sim_event *take(struct cw_sim_conn *conn, enum cw_sim_event_kind kind, uint8_t id, size_t total,
                                 ucs_status_t *status_p)
{
    struct cw_sim_network *network = cw_sim_iface(conn->conn.iface)->network;
    struct cw_sim_link *link = conn->link;
    struct cw_sim_channel *channel = &link->channels[conn->side];
    const size_t target = (kind == CW_SIM_EVENT_PLACED) ? sizeof(struct cw_sim_target) : 0;
    struct cw_sim_event *packet;

    cw_sim_must(conn->state != CW_SIM_DIALING, "a send comes before `opened`");
    if (conn->state == CW_SIM_BROKEN) {
        *status_p = conn->status;
        return NULL;
    }
    if (channel->taken > 0 && channel->taken + total > network->knobs.window) {
        channel->blocked = 1;
        network->stats.again++;
        *status_p = CW_AGAIN;
        return NULL;
    }
    if (cw_sim_chance(network, CW_SIM_AGAIN) || cw_sim_chance(network, CW_SIM_NO_MEMORY)) {
        *status_p = refuse_for_now(network, conn);
        return NULL;
    }
    packet = malloc(sizeof(*packet) + sizeof(struct cw_sim_send) + target + total);
    if (packet == NULL) {
        *status_p = refuse_for_now(network, conn);
        return NULL;
    }
    *packet = (struct cw_sim_event){
        .link = link,
        .side = 1 - conn->side,
        .kind = (uint8_t)kind,
        .id = id,
        .length = total,
        .data = (char *)(packet + 1) + sizeof(struct cw_sim_send) + target,
    };
    if (target > 0) {
        packet->target = (struct cw_sim_target *)((struct cw_sim_send *)(packet + 1) + 1);
        *packet->target = (struct cw_sim_target){.begun = 0};
    }
    return packet;
}

/* Appends a send to the queue. */
static void enqueue(struct cw_sim_conn *conn, struct cw_sim_send *send)
{
    struct cw_sim_network *network = cw_sim_iface(conn->conn.iface)->network;
    struct cw_sim_channel *channel = &conn->link->channels[conn->side];

    cw_list_add_tail(&channel->queue, &send->link);
    if (conn->state == CW_SIM_OPEN) {
        cw_sim_schedule(&channel->pump, network->now_ns + cw_sim_delay_ns(network) / 8);
    }
}

/* Sends a packet of which `copied` bytes are filled; the rest is still in iov. */
static ucs_status_t submit(struct cw_sim_conn *conn, struct cw_sim_event *packet, size_t copied,
                           const struct iovec *iov, unsigned iov_count, struct cw_completion *completion)
{
    struct cw_sim_network *network = cw_sim_iface(conn->conn.iface)->network;
    struct cw_sim_channel *channel = &conn->link->channels[conn->side];
    struct cw_sim_send *send = (struct cw_sim_send *)(packet + 1);
    const size_t total = packet->length;

    *send = (struct cw_sim_send){.packet = packet, .total = total, .copied = copied, .iov_count = iov_count};
    if (iov_count > 0) {
        memcpy(send->iov, iov, iov_count * sizeof(*iov));
    }
    if (conn->state != CW_SIM_OPEN || !cw_list_empty(&channel->queue) || cw_sim_chance(network, CW_SIM_SHORT)) {
        send->completion = completion;
        enqueue(conn, send);
    } else {
        completion = NULL;
        send->gone = total;
        copy_payload(send);
        depart(conn, packet);
    }
    channel->taken += total;
    if (cw_sim_chance(network, CW_SIM_SPURIOUS_ROOM)) {
        cw_sim_schedule(&channel->space, network->now_ns + cw_sim_delay_ns(network));
    }
    return (completion == NULL) ? UCS_OK : UCS_INPROGRESS;
}

ucs_status_t cw_sim_send_short(struct cw_conn *base, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_event *packet;
    ucs_status_t status;

    cw_sim_must(length <= base->iface->limits.max_short, "send_short gets more than max_short");
    packet = take(conn, CW_SIM_EVENT_PACKET, id, sizeof(header) + length, &status);
    if (packet == NULL) {
        return status;
    }
    memcpy(packet->data, &header, sizeof(header));
    if (length > 0) {
        cw_bytes_copy_any(packet->data + sizeof(header), payload, length);
    }
    return submit(conn, packet, packet->length, NULL, 0, NULL);
}

ucs_status_t cw_sim_send_bcopy(struct cw_conn *base, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_event *packet;
    ucs_status_t status;

    cw_sim_must(max <= base->iface->limits.max_bcopy || max <= base->max_whole, "send_bcopy gets more than it takes");
    packet = take(conn, CW_SIM_EVENT_PACKET, id, max, &status);
    if (packet == NULL) {
        return status;
    }
    packet->length = pack(packet->data, max, arg);
    cw_sim_must(packet->length <= max, "pack wrote more than it announced");
    return submit(conn, packet, packet->length, NULL, 0, NULL);
}

ucs_status_t cw_sim_send_zcopy(struct cw_conn *base, uint8_t id, const void *header, size_t header_length,
                               const struct iovec *iov, unsigned iov_count, struct cw_completion *completion)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    size_t total = header_length;
    struct cw_sim_event *packet;
    ucs_status_t status;
    unsigned i;

    cw_sim_must(iov_count <= base->iface->limits.max_iov, "send_zcopy gets more than max_iov entries");
    for (i = 0; i < iov_count; i++) {
        total += iov[i].iov_len;
    }
    cw_sim_must(total <= base->iface->limits.max_zcopy, "send_zcopy gets more than max_zcopy");
    packet = take(conn, CW_SIM_EVENT_PACKET, id, total, &status);
    if (packet == NULL) {
        return status;
    }
    if (header_length > 0) {
        cw_bytes_copy_any(packet->data, header, header_length);
    }
    return submit(conn, packet, header_length, iov, iov_count, completion);
}

ucs_status_t cw_sim_send_registered(struct cw_conn *base, uint8_t id, const void *header, size_t header_length,
                                    const struct cw_access_iov *payload, struct cw_completion *completion)
{
    const struct iovec iov = {payload->address, payload->length};
    struct cw_sim_event *packet;
    ucs_status_t status;

    cw_sim_must(header_length > 0 && payload->length > 0 && payload->memh->domain == base->iface->domain &&
                    header_length + payload->length <= base->iface->limits.max_registered,
                "send_registered gets what it does not take");
    cw_sim_mr_use(payload);
    packet = take(cw_sim_conn(base), CW_SIM_EVENT_PACKET, id, header_length + payload->length, &status);
    if (packet == NULL) {
        return status;
    }
    cw_bytes_copy_any(packet->data, header, header_length);
    cw_sim_iface(base->iface)->network->stats.from_registered++;
    return submit(cw_sim_conn(base), packet, header_length, &iov, 1, completion);
}

/* Sends a packet of send_placed or send_in_place; it leaves in order with the others, piece by piece. */
static ucs_status_t place(struct cw_conn *base, uint8_t id, const void *header, const struct iovec *iov,
                          unsigned iov_count, struct cw_completion *completion, int in_order)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    size_t length = 0;
    struct cw_sim_event *packet;
    ucs_status_t status;
    unsigned i;

    cw_sim_must(iov_count <= base->iface->limits.max_iov, "send_placed gets more than max_iov entries");
    for (i = 0; i < iov_count; i++) {
        length += iov[i].iov_len;
    }
    cw_sim_must(length <= base->iface->limits.max_placed, "send_placed gets more than max_placed");
    packet = take(conn, CW_SIM_EVENT_PLACED, id, CW_PLACE_HEADER + length, &status);
    if (packet == NULL) {
        return status;
    }
    packet->target->in_order = (uint8_t)in_order;
    memcpy(packet->data, header, CW_PLACE_HEADER);
    return submit(conn, packet, CW_PLACE_HEADER, iov, iov_count, completion);
}

/* Packets of send_placed arrive in any order. */
ucs_status_t cw_sim_send_placed(struct cw_conn *base, uint8_t id, const void *header, const struct iovec *iov,
                                unsigned iov_count, struct cw_completion *completion)
{
    return place(base, id, header, iov, iov_count, completion, 0);
}

ucs_status_t cw_sim_send_in_place(struct cw_conn *base, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    return place(base, id, header, iov, iov_count, completion, 1);
}

ucs_status_t cw_sim_flush(struct cw_conn *base, struct cw_completion *completion)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_network *network = cw_sim_iface(base->iface)->network;
    struct cw_sim_send *send;

    if (conn->state == CW_SIM_BROKEN) {
        return conn->status;
    }
    if (cw_list_empty(&conn->link->channels[conn->side].queue)) {
        return UCS_OK;
    }
    if (completion == NULL) {
        return UCS_INPROGRESS;
    }
    if (cw_sim_chance(network, CW_SIM_AGAIN) || cw_sim_chance(network, CW_SIM_NO_MEMORY)) {
        return refuse_for_now(network, conn);
    }
    send = malloc(sizeof(*send));
    if (send == NULL) {
        return refuse_for_now(network, conn);
    }
    *send = (struct cw_sim_send){.completion = completion};
    enqueue(conn, send);
    return UCS_INPROGRESS;
}

unsigned cw_sim_queue_pump(struct cw_sim_iface *iface, struct cw_sim_conn *conn)
{
    struct cw_sim_network *network = iface->network;
    struct cw_sim_channel *channel = &conn->link->channels[conn->side];
    size_t piece = 1 + cw_sim_below(network, network->knobs.max_bcopy * 2);
    struct cw_sim_send *send;
    struct cw_list *link;
    unsigned done = 0;
    size_t length;

    network->stats.pieces++;
    while (conn->state == CW_SIM_OPEN && (link = cw_list_pop_head(&channel->queue)) != NULL) {
        send = cw_container_of(link, struct cw_sim_send, link);
        length = (send->total - send->gone < piece) ? send->total - send->gone : piece;
        send->gone += length;
        piece -= length;
        if (send->packet != NULL) {
            copy_payload(send);
        }
        if (send->gone < send->total) {
            cw_list_add_head(&channel->queue, &send->link);
            cw_sim_schedule(&channel->pump, network->now_ns + 1 + cw_sim_delay_ns(network) / 4);
            break;
        }
        done += send->completion != NULL;
        finish_send(conn, send, 1, UCS_OK);
    }
    return done;
}
