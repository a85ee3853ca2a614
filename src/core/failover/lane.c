/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a message lane that outlives its connection: accepting packets, passing them to the carrier, and freeing
 * those that the peer has confirmed.
 */
#include "core/failover/failover.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "core/domain.h"
#include "os/clock.h"
#include "proto/protocol.h"

#define MAX_BYTES  (UINT64_C(1) << 20) /* of packets that the peer has not confirmed; beyond it the lane has no tx
                                          space */
#define MAX_PLACED (512u << 10)
#define MAX_UNREPORTED 64u /* packets handled before the peer is notified within a round of progress */

/* The interface of such lanes whose carrier belongs to one interface of the worker. */
struct cw_failover_iface {
    struct cw_iface iface;
    struct cw_protocol_plan plan;
};

struct failover_flush {
    struct cw_completion own; /* of the carrier's flush */
    struct cw_list link;
    struct cw_failover *failover;
    struct cw_completion *completion; /* NULL: it was completed, and only `own` is missing */
};

/* ---- packets ---- */

static struct cw_failover *failover_of(struct cw_conn *conn)
{
    return cw_container_of(conn, struct cw_failover, conn);
}

/* 0: the carrier has no tx space, or has ended. */
static int send_copy(const struct cw_failover *failover, const struct cw_failover_packet *packet)
{
    return cw_lane_send_packet(failover->carrier, packet->id, packet->bytes, packet->length) == UCS_OK;
}

static struct cw_failover_packet *next_of(struct cw_failover *failover, struct cw_failover_packet *packet)
{
    return (packet->link.next == &failover->packets)
               ? NULL
               : cw_container_of(packet->link.next, struct cw_failover_packet, link);
}

static void send_unsent(struct cw_failover *failover)
{
    while (failover->unsent != NULL && failover->carrier != NULL && !failover->here_pending &&
           send_copy(failover, failover->unsent)) {
        if (failover->unsent->number >= failover->sent) {
            failover->sent = failover->unsent->number + 1;
        }
        failover->unsent = next_of(failover, failover->unsent);
    }
}

static bool has_space(const struct cw_failover *failover)
{
    return failover->carrier != NULL && failover->unsent == NULL && failover->bytes < MAX_BYTES;
}

static struct cw_failover_packet *packet_new(const struct cw_failover *failover, uint8_t id, size_t length)
{
    struct cw_failover_packet *packet = malloc(sizeof(*packet) + length);

    if (packet != NULL) {
        packet->number = failover->taken;
        packet->length = length;
        packet->id = id;
        cw_list_init(&packet->link);
    }
    return packet;
}

static void take(struct cw_failover *failover, struct cw_failover_packet *packet)
{
    if (cw_list_empty(&failover->packets)) {
        failover->moved_ns = cw_clock_ns();
        if (!cw_alarm_is_set(&failover->watch)) {
            cw_poller_alarm_set(failover->ep->worker->poller, &failover->watch,
                                failover->moved_ns + CW_FAILOVER_POLL_NS);
        }
    }
    cw_list_add_tail(&failover->packets, &packet->link);
    failover->taken++;
    failover->bytes += sizeof(*packet) + packet->length;
    if (failover->unsent == NULL) {
        failover->unsent = packet;
        send_unsent(failover);
        if (failover->unsent != NULL) {
            cw_ep_add_flush(failover->ep);
        }
    }
}

void cw_failover_confirm(struct cw_failover *failover, uint64_t handled)
{
    struct cw_failover_packet *packet;
    struct cw_list *link;

    if (handled > failover->acked) {
        failover->moved_ns = cw_clock_ns();
        failover->answers = 0;
        failover->probed = 0;
    }
    for (; failover->acked < handled; failover->acked++) {
        link = cw_list_pop_head(&failover->packets);
        packet = cw_container_of(link, struct cw_failover_packet, link);
        failover->bytes -= sizeof(*packet) + packet->length;
        free(packet);
    }
    if (cw_list_empty(&failover->packets)) {
        cw_ep_unused(failover->ep); /* a closed endpoint waits for this */
    }
}

void cw_failover_rewind(struct cw_failover *failover)
{
    failover->unsent =
        cw_list_empty(&failover->packets) ? NULL : cw_list_head(&failover->packets, struct cw_failover_packet, link);
}

/* ---- the slots of packets ---- */

static ucs_status_t failover_send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload,
                                        size_t length)
{
    struct cw_failover *failover = failover_of(conn);
    struct cw_failover_packet *packet;

    if (!has_space(failover)) {
        return CW_AGAIN;
    }
    packet = packet_new(failover, id, sizeof(header) + length);
    if (packet == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(packet->bytes, &header, sizeof(header));
    if (length > 0) {
        memcpy(packet->bytes + sizeof(header), payload, length);
    }
    take(failover, packet);
    return UCS_OK;
}

static ucs_status_t failover_send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    struct cw_failover *failover = failover_of(conn);
    struct cw_failover_packet *packet;

    if (!has_space(failover)) {
        return CW_AGAIN;
    }
    packet = packet_new(failover, id, max);
    if (packet == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    packet->length = pack(packet->bytes, max, arg);
    take(failover, packet);
    return UCS_OK;
}

/* Copies the payload into packets of RNDV_DATA, which are in order with the others. */
static ucs_status_t failover_send_placed(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                         unsigned iov_count, struct cw_completion *completion CW_UNUSED)
{
    struct cw_failover *failover = failover_of(conn);
    const size_t most = conn->iface->limits.max_bcopy - CW_PLACE_HEADER;
    const size_t total = cw_bytes_in_iov(iov, iov_count);
    struct cw_wire_rndv_data data;
    struct cw_failover_packet *packet;
    size_t at = 0, length, done, part, skip = 0;
    unsigned i = 0;

    if (id != CW_PACKET_RNDV_DATA) {
        return UCS_ERR_IO_ERROR;
    }
    if (!has_space(failover)) {
        return CW_AGAIN;
    }
    memcpy(&data, header, sizeof(data));
    while (at < total) {
        length = (total - at < most) ? total - at : most;
        packet = packet_new(failover, id, sizeof(data) + length);
        if (packet == NULL) {
            return UCS_ERR_NO_MEMORY;
        }
        memcpy(packet->bytes, &data, sizeof(data));
        for (done = 0; done < length; done += part) {
            while (skip == iov[i].iov_len) {
                skip = 0;
                i++;
            }
            part = iov[i].iov_len - skip;
            part = (part < length - done) ? part : length - done;
            memcpy(packet->bytes + sizeof(data) + done, (const char *)iov[i].iov_base + skip, part);
            skip += part;
        }
        at += length;
        data.offset = htole64(le64toh(data.offset) + length);
        take(failover, packet);
    }
    return UCS_OK;
}

/* ---- flush ---- */

static void flush_done(struct cw_completion *own, ucs_status_t status)
{
    struct failover_flush *flush = cw_container_of(own, struct failover_flush, own);
    struct cw_completion *completion = flush->completion;

    cw_list_remove(&flush->link);
    if (completion == NULL) {
        free(flush);
    } else if (status == UCS_OK) {
        free(flush);
        completion->done(completion, UCS_OK);
    } else {
        cw_list_add_tail(&flush->failover->flushes, &flush->link); /* the next carrier runs it */
    }
}

/* As the slot `flush`, of the carrier. */
static ucs_status_t flush_start(struct cw_failover *failover, struct failover_flush *flush)
{
    const ucs_status_t status = cw_lane_flush(failover->carrier, &flush->own);

    if (status == UCS_INPROGRESS) {
        cw_list_add_tail(&failover->running, &flush->link);
    }
    return status;
}

static ucs_status_t failover_flush(struct cw_conn *conn, struct cw_completion *completion)
{
    struct cw_failover *failover = failover_of(conn);
    const int is_sent = failover->carrier != NULL && failover->unsent == NULL;
    struct failover_flush *flush;
    ucs_status_t status;

    if (completion == NULL) {
        return is_sent ? cw_lane_flush(failover->carrier, NULL) : UCS_INPROGRESS;
    }
    flush = malloc(sizeof(*flush));
    if (flush == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *flush = (struct failover_flush){.own = {flush_done}, .failover = failover, .completion = completion};
    cw_list_init(&flush->link);
    if (!is_sent) {
        cw_list_add_tail(&failover->flushes, &flush->link);
        return UCS_INPROGRESS;
    }
    status = flush_start(failover, flush);
    if (status == UCS_OK || status == CW_AGAIN) {
        free(flush);
        return status;
    }
    if (status != UCS_INPROGRESS) { /* the carrier has ended */
        cw_list_add_tail(&failover->flushes, &flush->link);
    }
    return UCS_INPROGRESS;
}

static void run_flushes(struct cw_failover *failover)
{
    struct failover_flush *flush;
    ucs_status_t status;

    while (failover->carrier != NULL && failover->unsent == NULL && !cw_list_empty(&failover->flushes)) {
        flush = cw_list_head(&failover->flushes, struct failover_flush, link);
        cw_list_remove(&flush->link);
        status = flush_start(failover, flush);
        if (status == UCS_OK) {
            flush_done(&flush->own, UCS_OK);
        } else if (status != UCS_INPROGRESS) { /* no tx space, or the carrier has ended */
            cw_list_add_head(&failover->flushes, &flush->link);
            return;
        }
    }
}

void cw_failover_pump(struct cw_failover *failover)
{
    struct ucp_ep *ep = failover->ep;

    send_unsent(failover);
    run_flushes(failover);
    if (ep->state == CW_EP_OPEN && has_space(failover)) {
        ep->worker->handlers->upcalls->space(&failover->conn);
    }
}

static void end_flushes(struct cw_list *list, int is_running, ucs_status_t status)
{
    struct cw_completion *completion;
    struct failover_flush *flush;
    struct cw_list *link;

    while ((link = cw_list_pop_head(list)) != NULL) {
        flush = cw_container_of(link, struct failover_flush, link);
        completion = flush->completion;
        flush->completion = NULL;
        if (!is_running) {
            free(flush);
        }
        if (completion != NULL) { /* otherwise only the carrier's own flush was missing */
            completion->done(completion, status);
        }
    }
}

void cw_failover_flushed(struct cw_failover *failover)
{
    end_flushes(&failover->flushes, 0, UCS_OK);
    end_flushes(&failover->running, 1, UCS_OK);
}

/* ---- the slots of connections ---- */

static void failover_close_conn(struct cw_conn *conn)
{
    struct cw_failover *failover = failover_of(conn);
    struct cw_list *link;

    cw_poller_alarm_cancel(failover->ep->worker->poller, &failover->watch);
    failover->carrier = NULL;
    end_flushes(&failover->flushes, 0, UCS_ERR_CANCELED);
    end_flushes(&failover->running, 1, UCS_ERR_CANCELED);
    if (failover->first != NULL) {
        cw_lane_close(failover->first);
    }
    while ((link = cw_list_pop_head(&failover->packets)) != NULL) {
        free(cw_container_of(link, struct cw_failover_packet, link));
    }
    free(conn->end);
    free(failover);
}

static int failover_stopping(struct cw_conn *conn)
{
    return failover_of(conn)->first != NULL && cw_lane_stopping(failover_of(conn)->first);
}

static void failover_watch(struct cw_conn *conn)
{
    if (failover_of(conn)->first != NULL) {
        cw_lane_watch(failover_of(conn)->first);
    }
}

static void failover_abandon(struct cw_conn *conn)
{
    if (failover_of(conn)->first != NULL) {
        cw_lane_abandon(failover_of(conn)->first);
    }
}

static const struct cw_transport_packets packet_slots = {
    .send_short = failover_send_short,
    .send_bcopy = failover_send_bcopy,
    .send_placed = failover_send_placed,
    .flush = failover_flush,
};

static const struct cw_transport_connect connect_slots = {
    .close_conn = failover_close_conn,
    .stopping = failover_stopping,
    .watch = failover_watch,
    .abandon = failover_abandon,
};

/* No worker lists such an interface, so nobody dials with it, and it makes no progress. */
const struct cw_transport cw_failover_transport = {
    .name = "failover",
    .device_class = CW_DEVICE_NET,
    .connect = &connect_slots,
    .packets = &packet_slots,
};

/* ---- interfaces ---- */

/* Any network may carry the lane later, so its packets must fit all of them. */
static struct cw_limits limits_of(const struct ucp_worker *worker, const struct cw_iface *iface)
{
    size_t max_short = iface->limits.max_short, max_bcopy = iface->limits.max_bcopy;
    struct cw_limits limits;
    unsigned i;

    for (i = 0; i < worker->num_ifaces; i++) {
        if (cw_failover_carries(worker->ifaces[i])) {
            max_short = cw_smaller(max_short, worker->ifaces[i]->limits.max_short);
            max_bcopy = cw_smaller(max_bcopy, worker->ifaces[i]->limits.max_bcopy);
        }
    }
    limits = iface->limits;
    limits.max_short = max_short;
    limits.max_bcopy = max_bcopy;
    limits.max_zcopy = 0;
    limits.max_registered = 0;
    limits.max_placed = MAX_PLACED; /* copied into packets */
    limits.max_iov = CW_PLACE_MAX_IOV;
    limits.keep_space = 0;
    limits.access = (struct cw_access_limits){0};
    return limits;
}

/* Packets reach memory by the processor, whose atomic operations are not atomic to those of a device. */
static bool needs_device(const struct ucp_worker *worker, const struct cw_iface *iface)
{
    return iface->domain != NULL && cw_worker_has(worker, UCP_FEATURE_AMO64) && cw_domains_do_atomics(worker->context);
}

int cw_failover_suits(const struct ucp_worker *worker, const struct cw_iface *iface)
{
    return cw_failover_carries(iface) && !needs_device(worker, iface) &&
           limits_of(worker, iface).max_bcopy >= CW_WIRE_LEAST_PIECE + sizeof(struct cw_wire_rndv_data);
}

static struct cw_failover_iface *iface_new(const struct ucp_worker *worker, const struct cw_iface *real)
{
    struct cw_failover_iface *made = calloc(1, sizeof(*made));
    struct cw_protocol_input input;

    if (made == NULL) {
        return NULL;
    }
    made->iface = (struct cw_iface){.transport = &cw_failover_transport,
                                    .name = real->name,
                                    .device = real->device,
                                    .packets = &packet_slots,
                                    .limits = limits_of(worker, real),
                                    .plan = &made->plan,
                                    .counted = real->counted};
    input = cw_worker_protocol_input(worker, &made->iface);
    cw_protocol_choose(&input, &made->plan);
    return made;
}

/* NULL: out of memory. */
static struct cw_iface *iface_for(struct ucp_worker *worker, const struct cw_iface *real)
{
    unsigned i;

    if (worker->failover == NULL) {
        worker->failover = calloc(worker->num_ifaces, sizeof(*worker->failover));
    }
    for (i = 0; worker->failover != NULL && i < worker->num_ifaces; i++) {
        if (worker->ifaces[i] == real) {
            if (worker->failover[i] == NULL) {
                worker->failover[i] = iface_new(worker, real);
            }
            return (worker->failover[i] == NULL) ? NULL : &worker->failover[i]->iface;
        }
    }
    return NULL;
}

void cw_failover_cleanup(struct ucp_worker *worker, unsigned num_ifaces)
{
    unsigned i;

    for (i = 0; worker->failover != NULL && i < num_ifaces; i++) {
        free(worker->failover[i]);
    }
    free(worker->failover);
    worker->failover = NULL;
}

void cw_failover_name(struct cw_failover *failover)
{
    struct cw_iface *iface = iface_for(failover->ep->worker, failover->carrier->iface);

    if (iface != NULL && iface != failover->conn.iface) {
        cw_counters_ended(failover->ep->worker, &failover->conn);
        failover->conn.iface = iface;
        cw_counters_opened(failover->ep->worker, &failover->conn);
    }
}

struct cw_conn *cw_failover_new(struct ucp_ep *ep, struct cw_conn *conn)
{
    struct cw_iface *iface = iface_for(ep->worker, conn->iface);
    struct cw_failover *failover = (iface == NULL) ? NULL : calloc(1, sizeof(*failover));

    if (failover == NULL) {
        return NULL;
    }
    failover->conn = (struct cw_conn){.iface = iface, .user = ep, .dialled = conn->dialled};
    failover->ep = ep;
    failover->first = conn;
    failover->carrier = conn;
    failover->watch = (struct cw_alarm){.fire = cw_failover_poll};
    cw_list_init(&failover->packets);
    cw_list_init(&failover->flushes);
    cw_list_init(&failover->running);
    return &failover->conn;
}

/* ---- confirming ---- */

int cw_failover_notify(struct cw_failover *failover, struct cw_conn *conn, enum cw_wire_move_kind kind)
{
    struct cw_wire_move move = {
        .kind = (uint8_t)kind, .generation = htole32(failover->generation), .handled = htole64(failover->handled)};

    return cw_lane_send_packet(conn, CW_PACKET_MOVE, &move, sizeof(move)) != CW_AGAIN;
}

/* 0: no tx space. */
static int confirm(struct cw_failover *failover)
{
    if (failover->carrier != NULL && !failover->here_pending && failover->reported != failover->handled) {
        if (!cw_failover_notify(failover, failover->carrier, CW_WIRE_MOVE_HANDLED)) {
            return 0;
        }
        failover->reported = failover->handled;
    }
    return 1;
}

ucs_status_t cw_failover_on_counted(struct cw_failover *failover, const struct cw_conn *conn, uint8_t id,
                                    const void *data, size_t length)
{
    struct ucp_ep *ep = failover->ep;

    if (conn != failover->carrier) {
        return UCS_OK; /* the next carrier delivers it again */
    }
    failover->handled++;
    if (failover->handled - failover->reported >= MAX_UNREPORTED) {
        (void)confirm(failover);
    } else if (failover->handled - failover->reported == 1) {
        cw_ep_reap_later(ep);
    }
    ep->worker->handlers->upcalls->packet(&failover->conn, id, data, length);
    return UCS_OK;
}

void cw_failover_space(struct ucp_ep *ep, const struct cw_conn *conn)
{
    struct cw_failover *failover = cw_failover_of(ep);

    if (failover == NULL || ep->state != CW_EP_OPEN) {
        return;
    }
    if (failover->here_pending && conn == failover->candidate) {
        failover->here_pending = !cw_failover_notify(failover, failover->candidate,
                                                     failover->conn.dialled ? CW_WIRE_MOVE_HERE : CW_WIRE_MOVE_TAKEN);
    }
    if (conn == failover->carrier && !failover->here_pending && confirm(failover)) {
        cw_failover_pump(failover);
    }
}

void cw_failover_reap(struct ucp_ep *ep)
{
    struct cw_failover *failover = cw_failover_of(ep);

    if (ep->state != CW_EP_OPEN) {
        return;
    }
    (void)confirm(failover);
    send_unsent(failover);
    run_flushes(failover); /* those of a closed carrier */
    if (ep->lanes == NULL && !ep->conn->lanes_asked && !ep->conn->dialled) {
        cw_lanes_want(ep);
    }
}
