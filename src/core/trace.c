/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of events (core/trace.h), and the tables of functions that record packets between a transport and the core:
 * each calls the transport's own function or upcall.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/log.h"
#include "core/ep.h"
#include "core/worker.h"

/* The groups of functions of a traced transport, and pointers to those of the interface itself. */
struct traced {
    struct traced *next;
    struct cw_transport transport;
    struct cw_transport_packets packets;
    const struct cw_transport *real_transport;
    const struct cw_transport_packets *real;
};

struct cw_trace {
    struct cw_trace_ring *ring;
    struct cw_upcalls upcalls;
    int sleeps;
    struct traced *ifaces;  /* a list */
};

static void note(struct ucp_worker *worker, const struct cw_trace_event *event)
{
    struct cw_trace_ring *ring = worker->trace->ring;
    const uint64_t next = ring->next;
    struct cw_trace_event *to = &ring->events[next & (ring->num_events - 1)];

    __atomic_store_n(&to->number, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* pairs with the fence of the reader, which reads the number before and
                                              * after */
    *to = *event;
    to->time_ns = cw_clock_ns();
    __atomic_store_n(&to->number, next + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->next, next + 1, __ATOMIC_RELEASE);
}

void cw_trace_request(const struct cw_request *request, enum cw_trace_kind kind, unsigned id, uint64_t tag,
                      uint64_t length, ucs_status_t status)
{
    const struct ucp_ep *ep = request->ep;
    const struct cw_trace_event event = {.request = (uint64_t)(uintptr_t)request,
                                        .peer = (ep != NULL) ? cw_ep_peer_uid(ep) : 0,
                                        .endpoint = (ep != NULL) ? ep->number : 0,
                                        .tag = tag,
                                        .length = length,
                                        .status = status,
                                        .kind = (uint16_t)kind,
                                        .id = (uint16_t)id};

    note(request->worker, &event);
}

void cw_trace_ep(const struct ucp_ep *ep, enum cw_trace_kind kind, unsigned id, ucs_status_t status)
{
    const struct cw_trace_event event = {.peer = cw_ep_peer_uid(ep),
                                     .endpoint = ep->number,
                                     .status = status,
                                     .kind = (uint16_t)kind,
                                     .id = (uint16_t)id};

    note(ep->worker, &event);
}

void cw_trace_sleep(struct ucp_worker *worker, ucs_status_t status)
{
    const struct cw_trace_event event = {.status = status, .kind = CW_TRACE_SLEEP};

    worker->trace->sleeps = (status == UCS_OK);
    note(worker, &event);
}

/* ---- packets ---- */

static void note_packet(const struct cw_conn *conn, enum cw_trace_kind kind, uint8_t id, uint64_t tag, size_t length,
                        ucs_status_t status)
{
    const struct ucp_ep *ep = conn->user;
    const struct cw_trace_event event = {.peer = cw_ep_peer_uid(ep),
                                     .endpoint = ep->number,
                                     .tag = tag,
                                     .length = length,
                                     .status = status,
                                     .kind = (uint16_t)kind,
                                     .id = id};

    note(ep->worker, &event);
}

static const struct traced *traced_of(const struct cw_iface *iface)
{
    return cw_container_of(iface->packets, const struct traced, packets);
}

static const struct cw_transport_packets *real_of(const struct cw_iface *iface)
{
    return traced_of(iface)->real;
}

static ucs_status_t trace_send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload,
                                     size_t length)
{
    ucs_status_t status = real_of(conn->iface)->send_short(conn, id, header, payload, length);

    note_packet(conn, CW_TRACE_OUT, id, header, length + sizeof(header), status);
    return status;
}

static ucs_status_t trace_send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    ucs_status_t status = real_of(conn->iface)->send_bcopy(conn, id, max, pack, arg);

    note_packet(conn, CW_TRACE_OUT, id, 0, max, status);
    return status;
}

static ucs_status_t trace_send_zcopy(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                                     const struct iovec *iov, unsigned iov_count, struct cw_completion *completion)
{
    const size_t length = header_length + cw_bytes_in_iov(iov, iov_count);
    ucs_status_t status = real_of(conn->iface)->send_zcopy(conn, id, header, header_length, iov, iov_count, completion);

    note_packet(conn, CW_TRACE_OUT, id, 0, length, status);
    return status;
}

static ucs_status_t trace_send_registered(struct cw_conn *conn, uint8_t id, const void *header, size_t header_length,
                                          const struct cw_access_iov *payload, struct cw_completion *completion)
{
    ucs_status_t status = real_of(conn->iface)->send_registered(conn, id, header, header_length, payload, completion);

    note_packet(conn, CW_TRACE_OUT, id, 0, header_length + payload->length, status);
    return status;
}

static ucs_status_t trace_send_placed(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                      unsigned iov_count, struct cw_completion *completion)
{
    const size_t length = CW_PLACE_HEADER + cw_bytes_in_iov(iov, iov_count);
    ucs_status_t status = real_of(conn->iface)->send_placed(conn, id, header, iov, iov_count, completion);

    note_packet(conn, CW_TRACE_OUT, id, 0, length, status);
    return status;
}

static ucs_status_t trace_send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                        unsigned iov_count, struct cw_completion *completion)
{
    const size_t length = CW_PLACE_HEADER + cw_bytes_in_iov(iov, iov_count);
    ucs_status_t status = real_of(conn->iface)->send_in_place(conn, id, header, iov, iov_count, completion);

    note_packet(conn, CW_TRACE_OUT, id, 0, length, status);
    return status;
}

static unsigned trace_progress(struct cw_iface *iface)
{
    static const struct cw_trace_event event = {.kind = CW_TRACE_WAKE};
    struct ucp_worker *worker = iface->owner;

    if (worker->trace->sleeps) {
        worker->trace->sleeps = 0;
        note(worker, &event);
    }
    return traced_of(iface)->real_transport->progress(iface);
}

static void trace_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const struct ucp_ep *ep = conn->user;

    note_packet(conn, CW_TRACE_IN, id, 0, length, UCS_OK);
    ep->worker->handlers->upcalls->packet(conn, id, data, length);
}

static void trace_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    const struct ucp_ep *ep = conn->user;

    note_packet(conn, CW_TRACE_IN, id, 0, length + CW_PLACE_HEADER, UCS_OK);
    ep->worker->handlers->upcalls->placed(conn, id, header, length);
}

/* ---- on and off ---- */

uint64_t cw_trace_num_events(const struct ucp_worker *worker)
{
    const struct cw_config *config = worker->context->config;
    const uint64_t wanted = (config->trace == 0 && config->trace_file[0] != '\0') ? 4096 : config->trace;
    uint64_t events = 64;

    while (events < wanted && events < CW_TRACE_MAX_EVENTS) {
        events *= 2;
    }
    return (wanted == 0) ? 0 : events;
}

void cw_trace_open(struct ucp_worker *worker, void *memory, uint64_t num_events)
{
    struct cw_trace *trace = calloc(1, sizeof(*trace));

    if (trace == NULL) {
        cw_warn("out of memory for the trace of worker %s (UCX_TRACE)", worker->name);
        return;
    }
    trace->ring = memory;
    trace->ring->num_events = num_events;
    trace->ring->magic = CW_TRACE_MAGIC;
    trace->upcalls = *worker->handlers->upcalls;
    trace->upcalls.packet = trace_packet;
    trace->upcalls.placed = trace_placed;
    worker->trace = trace;
}

void cw_trace_close(struct ucp_worker *worker)
{
    struct traced *traced;

    while (worker->trace != NULL && (traced = worker->trace->ifaces) != NULL) {
        worker->trace->ifaces = traced->next;
        free(traced);
    }
    free(worker->trace);
    worker->trace = NULL;
}

const struct cw_upcalls *cw_trace_upcalls(const struct ucp_worker *worker)
{
    return &worker->trace->upcalls;
}

void cw_trace_iface(struct ucp_worker *worker, struct cw_iface *iface)
{
    struct traced *traced = calloc(1, sizeof(*traced));

    if (traced == NULL) {
        cw_warn("out of memory for the packet trace of %s in worker %s "
                "(UCX_TRACE)", cw_iface_name(iface), worker->name);
        return;
    }
    traced->next = worker->trace->ifaces;
    worker->trace->ifaces = traced;
    traced->real = iface->packets;
    traced->packets = *iface->packets;
    traced->packets.send_short = trace_send_short;
    traced->packets.send_joined = NULL; /* the caller uses send_short */
    traced->packets.send_bcopy = trace_send_bcopy;
    if (traced->packets.send_zcopy != NULL) {
        traced->packets.send_zcopy = trace_send_zcopy;
    }
    if (traced->packets.send_registered != NULL) {
        traced->packets.send_registered = trace_send_registered;
    }
    if (traced->packets.send_placed != NULL) {
        traced->packets.send_placed = trace_send_placed;
    }
    if (traced->packets.send_in_place != NULL) {
        traced->packets.send_in_place = trace_send_in_place;
    }
    traced->real_transport = iface->transport;
    traced->transport = *iface->transport;
    traced->transport.progress = trace_progress;
    iface->packets = &traced->packets;
    iface->transport = &traced->transport;
}
