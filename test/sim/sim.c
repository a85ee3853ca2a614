/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of the transport "sim", except those that send (sim_send.c), and the handling of events that are due.
 *
 * The simulated network is strict with the core where a real one would tolerate errors: sends beyond the limits or
 * before `opened`, close_conn from inside an upcall, and an interface closed before its connections end the test
 * program.
 */
#include "sim_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "sim_rdma.h"

#define ADDRESS_LENGTH 16
#define ADDRESS_MAGIC  0x316d6973u
#define KEEP_ROOM      136u /* behind the first 8 bytes of a packet its data are aligned to 16 bytes */
#define MOST_RETAINED      32u

struct address {
    uint32_t magic;
    uint32_t number;
    uint64_t seed;
};

_Static_assert(sizeof(struct address) == ADDRESS_LENGTH, "no padding");

static unsigned query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    const struct cw_sim_network *network = cw_sim_network_get();
    unsigned count = (network != NULL && (network->knobs.rdma == 0 || network->knobs.beside)) ? 1 : 0, i;

    (void)config;
    count = (count > 0 && network->knobs.num_devices > 0) ? network->knobs.num_devices : count;
    for (i = 0; i < count && i < max; i++) {
        snprintf(devices[i].name, sizeof(devices[i].name), "sim%u", i);
    }
    return count;
}

static unsigned rdma_query_devices(const struct cw_config *config, struct cw_device *devices, unsigned max)
{
    const unsigned count = (cw_sim_network_get() == NULL) ? 0 : cw_sim_network_get()->knobs.rdma;
    unsigned i;

    (void)config;
    for (i = 0; i < count && i < max; i++) {
        snprintf(devices[i].name, sizeof(devices[i].name), "simrdma%u", i);
    }
    return count;
}

static ucs_status_t open_as(const struct cw_transport *transport, const struct cw_iface_params *params,
                            struct cw_iface **iface_p)
{
    struct cw_sim_network *network = cw_sim_network_get();
    struct cw_sim_iface *iface;

    if (network == NULL) {
        cw_error("cannot open the simulated network: no test has made one in this process");
        return UCS_ERR_NO_DEVICE;
    }
    iface = cw_sim_chance(network, CW_SIM_NO_MEMORY) ? NULL : malloc(sizeof(*iface));
    if (iface == NULL) {
        cw_error("cannot open the simulated network: out of memory");
        return UCS_ERR_NO_MEMORY;
    }
    *iface = (struct cw_sim_iface){
        .iface = {.transport = transport,
                  .upcalls = params->upcalls,
                  .owner = params->owner,
                  .limits = {.max_short = network->knobs.max_short,
                                .max_bcopy = network->knobs.max_bcopy,
                                .max_zcopy = network->knobs.max_zcopy,
                                .zcopy_break_even = 16u << 10,
                                .copies_break_even = 64u << 10,
                                .max_iov = network->knobs.max_iov,
                                .max_placed = network->knobs.max_placed,
                                .latency_ns = (double)network->knobs.delay_min_ns,
                                .bandwidth_bps = 1e9,
                                .overhead_ns = (double)network->knobs.step_ns}},
        .network = network,
        .poller = params->poller,
    };
    if (params->domain != NULL) {
        cw_sim_rdma_limits(network, &iface->iface.limits.access);
        iface->iface.limits.max_registered = network->knobs.max_bcopy;
    }
    if (transport->access != NULL) {
        iface->device = (unsigned)(params->devices->name[strlen("simrdma")] - '0');
        iface->iface.limits.max_placed = 0;
        iface->iface.limits.keep_space = KEEP_ROOM;
        if (iface->device == 0 && network->knobs.ratio > 0) {
            iface->iface.limits.bandwidth_bps *= network->knobs.ratio;
        }
    }
    cw_list_init(&iface->links[0]);
    cw_list_init(&iface->links[1]);
    if (cw_sim_network_add(network, iface) < 0) {
        cw_error("cannot open the simulated network: out of memory");
        free(iface);
        return UCS_ERR_NO_MEMORY;
    }
    *iface_p = &iface->iface;
    return UCS_OK;
}

static ucs_status_t iface_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    return open_as(&cw_sim_transport, params, iface_p);
}

static ucs_status_t rdma_open(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    return open_as(&cw_sim_rdma_transport, params, iface_p);
}

static void iface_close(struct cw_iface *base)
{
    struct cw_sim_iface *iface = cw_sim_iface(base);
    struct cw_list *link;
    unsigned side;

    cw_sim_must(!iface->upcall, "an interface is closed inside its own progress");
    cw_sim_must(iface->num_conns == 0, "an interface is closed before its connections");
    cw_sim_must(iface->retained == 0, "an interface is closed before its packets are given back");
    cw_sim_drop_events(iface, UCS_ERR_UNREACHABLE, cw_sim_delay_ns(iface->network));
    for (side = 0; side < 2; side++) {
        while ((link = cw_list_pop_head(&iface->links[side])) != NULL) {
            cw_container_of(link, struct cw_sim_link, by_iface[side])->ifaces[side] = NULL;
        }
    }
    cw_sim_network_remove(iface);
    free(iface);
}

static size_t iface_address(struct cw_iface *base, void *buffer, size_t max)
{
    const struct cw_sim_iface *iface = cw_sim_iface(base);
    const struct address address = {ADDRESS_MAGIC, iface->number, iface->network->seed};

    if (max < ADDRESS_LENGTH) {
        return 0;
    }
    memcpy(buffer, &address, ADDRESS_LENGTH);
    return ADDRESS_LENGTH;
}

static int reachable(struct cw_iface *base, const void *bytes, size_t length, const char **why)
{
    struct address address;

    if (length != ADDRESS_LENGTH) {
        *why = "the address has a wrong length";
        return 0;
    }
    memcpy(&address, bytes, ADDRESS_LENGTH);
    if (address.magic != ADDRESS_MAGIC || address.seed != cw_sim_iface(base)->network->seed) {
        *why = "the address belongs to another simulated network";
        return 0;
    }
    return 1;
}

static ucs_status_t arm(struct cw_iface *base)
{
    struct cw_sim_iface *iface = cw_sim_iface(base);

    if (iface->heap != NULL) {
        return UCS_ERR_BUSY;
    }
    iface->armed = 1;
    return UCS_OK;
}

static struct cw_sim_conn *conn_new(struct cw_sim_iface *iface, struct cw_sim_link *link, unsigned side)
{
    struct cw_sim_conn *conn = cw_sim_chance(iface->network, CW_SIM_NO_MEMORY) ? NULL : malloc(sizeof(*conn));

    if (conn == NULL) {
        return NULL;
    }
    *conn = (struct cw_sim_conn){
        .conn = {.iface = &iface->iface, .max_whole = side * 2 * iface->network->knobs.max_bcopy,
                 .max_piece = side * 2 * iface->network->knobs.max_bcopy},
        .link = link,
        .side = (uint8_t)side,
        .state = (side == 0) ? CW_SIM_DIALING : CW_SIM_ACCEPTING,
    };
    cw_list_init(&conn->accesses);
    cw_list_init(&conn->flushes);
    conn->no_copies = (uint8_t)cw_sim_peer_chance(iface->network, CW_SIM_NO_COPIES);
    link->ends[side] = conn;
    cw_sim_link_get(link);
    iface->num_conns++;
    return conn;
}

static void conn_free(struct cw_sim_conn *conn)
{
    cw_sim_iface(conn->conn.iface)->num_conns--;
    conn->link->ends[conn->side] = NULL;
    cw_sim_link_put(conn->link);
    free(conn);
}

/* Sends the hello, or makes the dial fail later. */
static void start_dial(struct cw_sim_network *network, struct cw_sim_link *link)
{
    struct cw_sim_iface *listener = link->ifaces[1];

    if (listener == NULL || listener->death == CW_SIM_KILLED || cw_sim_chance(network, CW_SIM_DIAL_REFUSED)) {
        link->opened.status = UCS_ERR_UNREACHABLE;
        cw_sim_schedule(&link->opened, network->now_ns + cw_sim_delay_ns(network));
    } else if (listener->death == CW_SIM_SILENT || cw_sim_chance(network, CW_SIM_DIAL_LOST)) {
        link->opened.status = UCS_ERR_TIMED_OUT;
        cw_sim_schedule(&link->opened, network->now_ns + network->knobs.dial_timeout_ns);
    } else {
        cw_sim_launch(&link->hello);
    }
}

static ucs_status_t dial(struct cw_iface *base, const void *bytes, size_t address_length, const void *hello,
                         size_t hello_length, void *user, struct cw_conn **conn_p)
{
    struct cw_sim_iface *iface = cw_sim_iface(base);
    struct cw_sim_network *network = iface->network;
    struct cw_sim_link *link;
    struct cw_sim_conn *conn;
    struct address address;
    const char *why;

    cw_sim_must(hello_length <= CW_HELLO_MAX, "a hello is too long");
    if (!reachable(base, bytes, address_length, &why)) {
        cw_diag("cannot dial over the simulated network: %s", why);
        return UCS_ERR_INVALID_ADDR;
    }
    memcpy(&address, bytes, ADDRESS_LENGTH);
    link = cw_sim_link_new(network, hello, hello_length);
    if (link == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn = conn_new(iface, link, 0);
    cw_sim_link_put(link);
    if (conn == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    conn->conn.user = user;
    cw_sim_link_join(link, 0, iface);
    cw_sim_link_join(link, 1, cw_sim_network_find(network, address.number));
    start_dial(network, link);
    *conn_p = &conn->conn;
    return UCS_OK;
}

static void close_conn(struct cw_conn *base)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);
    struct cw_sim_iface *iface = cw_sim_iface(base->iface);
    struct cw_sim_link *link = conn->link;
    int leaves = conn->state == CW_SIM_OPEN && !iface->death;

    cw_sim_must(!iface->upcall, "close_conn is called inside an upcall of the interface");
    cw_sim_rdma_end_all(conn, UCS_ERR_CANCELED);
    cw_sim_queue_end(conn, leaves, UCS_ERR_CANCELED);
    if (!iface->death) {
        cw_sim_link_end(link, 1 - conn->side, UCS_ERR_CONNECTION_RESET);
    }
    conn_free(conn);
}

static void abandon(struct cw_conn *base)
{
    struct cw_sim_conn *conn = cw_sim_conn(base);

    conn->state = CW_SIM_BROKEN; /* no access reaches memory here any more */
    conn->status = UCS_ERR_CANCELED;
    cw_sim_rdma_abandon(conn);
}

/* A peer dials: creates this end, asks the core and sends the answer back. */
static unsigned on_hello(struct cw_sim_iface *iface, struct cw_sim_link *link)
{
    struct cw_sim_stats *stats = &iface->network->stats;
    struct cw_sim_conn *conn = conn_new(iface, link, 1);
    size_t reply_length = CW_HELLO_MAX;
    char reply[CW_HELLO_MAX];
    ucs_status_t status;

    if (conn == NULL) {
        link->opened.status = UCS_ERR_CONNECTION_RESET;
        cw_sim_launch(&link->opened);
        return 0;
    }
    status = iface->iface.upcalls->accept(iface->iface.owner, &conn->conn, link->hello_data, link->hello_length,
                                          reply, &reply_length);
    cw_sim_must(reply_length <= CW_HELLO_MAX, "a reply is too long");
    cw_sim_must(cw_sim_link_reply(link, reply, reply_length), "there is no memory for a reply");
    stats->hellos += 2;
    stats->hello_bytes += link->hello_length + reply_length;
    link->opened.status = (status == UCS_OK) ? UCS_OK : UCS_ERR_REJECTED;
    cw_sim_launch(&link->opened);
    if (status != UCS_OK) {
        cw_sim_rdma_end_all(conn, UCS_ERR_CANCELED);
        cw_sim_queue_end(conn, 0, UCS_ERR_CANCELED);
        conn_free(conn);
        return 1;
    }
    conn->state = CW_SIM_OPEN;
    if (!cw_list_empty(&link->channels[1].queue)) {
        cw_sim_schedule(&link->channels[1].pump, iface->network->now_ns);
    }
    return 1;
}

static unsigned on_opened(struct cw_sim_iface *iface, struct cw_sim_conn *conn, ucs_status_t status)
{
    struct cw_sim_link *link = conn->link;
    const int answered = status == UCS_OK || status == UCS_ERR_REJECTED;

    if (conn->state != CW_SIM_DIALING) {
        return 0;
    }
    conn->state = (status == UCS_OK) ? CW_SIM_OPEN : CW_SIM_BROKEN;
    conn->status = status;
    iface->iface.upcalls->opened(&conn->conn, status, answered ? link->reply_data : NULL,
                                 answered ? link->reply_length : 0);
    return 1;
}

/* The packet has arrived or is dropped, so its bytes no longer count in the window. */
static void give_space(struct cw_sim_network *network, const struct cw_sim_event *packet)
{
    struct cw_sim_channel *channel = &packet->link->channels[1 - packet->side];

    channel->taken -= packet->length;
    if (channel->blocked) {
        channel->blocked = 0;
        cw_sim_schedule(&channel->space, network->now_ns + cw_sim_delay_ns(network));
    }
}

/* Hands up a packet that the core may keep: a copy with room before it, in memory of its own. 0: no memory. */
static int hand_up_copy(struct cw_sim_iface *iface, struct cw_sim_conn *conn, const struct cw_sim_event *packet)
{
    char *copy = malloc(KEEP_ROOM + packet->length);

    if (copy == NULL) {
        return 0;
    }
    cw_bytes_copy_any(copy + KEEP_ROOM, packet->data, packet->length);
    iface->handed = copy + KEEP_ROOM;
    iface->iface.upcalls->packet(&conn->conn, packet->id, iface->handed, packet->length);
    if (iface->handed != NULL) {
        free(copy);
        iface->handed = NULL;
    }
    return 1;
}

static void *keep(struct cw_conn *base, const void *data)
{
    struct cw_sim_iface *iface = cw_sim_iface(base->iface);
    char *retained = iface->handed;

    cw_sim_must(iface->upcall, "a packet is kept outside of its upcall");
    if (retained == NULL || data != retained || iface->retained == MOST_RETAINED ||
        cw_sim_chance(iface->network, CW_SIM_NO_MEMORY)) {
        return NULL;
    }
    iface->handed = NULL;
    iface->retained++;
    return retained - KEEP_ROOM;
}

static void give_back(struct cw_iface *base, void *retained)
{
    struct cw_sim_iface *iface = cw_sim_iface(base);

    cw_sim_must(iface->retained > 0, "more packets are given back than were kept");
    iface->retained--;
    free(retained);
}

static unsigned on_packet(struct cw_sim_iface *iface, struct cw_sim_link *link, struct cw_sim_event *packet)
{
    struct cw_sim_network *network = iface->network;
    struct cw_sim_conn *conn = link->ends[packet->side];

    give_space(network, packet);
    cw_sim_rdma_catch_up(link, 1u - packet->side, packet->age);
    if (conn == NULL || conn->state != CW_SIM_OPEN) {
        return 0;
    }
    network->stats.packets++;
    network->stats.bytes += packet->length;
    if (iface->iface.limits.keep_space > 0 && hand_up_copy(iface, conn, packet)) {
        return 1;
    }
    iface->iface.upcalls->packet(&conn->conn, packet->id, packet->data, packet->length);
    return 1;
}

static unsigned on_closed(struct cw_sim_iface *iface, struct cw_sim_conn *conn, ucs_status_t status)
{
    if (conn->state == CW_SIM_DIALING) {
        return on_opened(iface, conn, status);
    }
    if (conn->state != CW_SIM_OPEN) {
        return 0;
    }
    conn->state = CW_SIM_BROKEN;
    conn->status = status;
    cw_sim_rdma_end_all(conn, status);
    cw_sim_queue_end(conn, 0, status);
    iface->iface.upcalls->closed(&conn->conn, status);
    return 1;
}

static unsigned on_placed(struct cw_sim_iface *iface, struct cw_sim_event *packet)
{
    struct cw_sim_conn *conn = packet->link->ends[packet->side];
    unsigned done;
    int over;

    done = cw_sim_placed_step(iface, packet, &over);
    if (over) {
        give_space(iface->network, packet);
    }
    return (over < 0) ? done + on_closed(iface, conn, UCS_ERR_IO_ERROR) : done;
}

static unsigned deliver(struct cw_sim_iface *iface, struct cw_sim_event *event)
{
    struct cw_sim_conn *conn = event->link->ends[event->side];

    switch ((enum cw_sim_event_kind)event->kind) {
    case CW_SIM_EVENT_HELLO:
        return on_hello(iface, event->link);
    case CW_SIM_EVENT_PACKET:
        return on_packet(iface, event->link, event);
    case CW_SIM_EVENT_PLACED:
        return on_placed(iface, event);
    case CW_SIM_EVENT_OPENED:
        return (conn != NULL) ? on_opened(iface, conn, event->status) : 0;
    case CW_SIM_EVENT_CLOSED:
        return (conn != NULL) ? on_closed(iface, conn, event->status) : 0;
    case CW_SIM_EVENT_PUMP:
        return (conn != NULL) ? cw_sim_queue_pump(iface, conn) : 0;
    case CW_SIM_EVENT_ACCESS:
        return cw_sim_rdma_step(iface, event);
    case CW_SIM_EVENT_ROOM:
        if (conn == NULL || conn->state != CW_SIM_OPEN) {
            return 0;
        }
        iface->iface.upcalls->space(&conn->conn);
        return 1;
    }
    return 0;
}

static unsigned progress(struct cw_iface *base)
{
    struct cw_sim_iface *iface = cw_sim_iface(base);
    struct cw_sim_event *event;
    unsigned done = 0;
    uint64_t budget;

    cw_sim_must(!iface->upcall, "progress is called inside progress");
    iface->armed = 0;
    if (iface->death) {
        return 0;
    }
    cw_sim_tick(iface);
    budget = 1 + cw_sim_below(iface->network, iface->network->knobs.budget);
    iface->upcall = 1;
    while (budget-- > 0 && (event = cw_sim_pop_due(iface)) != NULL) {
        done += deliver(iface, event);
        cw_sim_event_put(event);
    }
    iface->upcall = 0;
    return done;
}

static const struct cw_transport_connect sim_connect = {
    .dial = dial,
    .close_conn = close_conn,
    .abandon = abandon,
};

static const struct cw_transport_packets sim_packets = {
    .send_short = cw_sim_send_short,
    .send_bcopy = cw_sim_send_bcopy,
    .send_zcopy = cw_sim_send_zcopy,
    .send_placed = cw_sim_send_placed,
    .send_in_place = cw_sim_send_in_place,
    .flush = cw_sim_flush,
};

/* The device moves placed packets no better than it accesses the peer's memory, so this group has no send_placed. */
static const struct cw_transport_packets rdma_packets = {
    .send_short = cw_sim_send_short,
    .send_bcopy = cw_sim_send_bcopy,
    .send_zcopy = cw_sim_send_zcopy,
    .send_registered = cw_sim_send_registered,
    .flush = cw_sim_flush,
    .keep = keep,
    .give_back = give_back,
};

static const struct cw_transport_copies sim_copies = {
    .ready = cw_sim_peer_ready,
    .read = cw_sim_peer_read,
    .write = cw_sim_peer_write,
    .pair = cw_sim_pair,
};

const struct cw_transport cw_sim_transport = {
    .name = "sim",
    .wire_id = 4,
    .device_class = CW_DEVICE_NET,
    .connect = &sim_connect,
    .packets = &sim_packets,
    .copies = &sim_copies,
    .query_devices = query_devices,
    .open = iface_open,
    .close = iface_close,
    .address = iface_address,
    .reachable = reachable,
    .progress = progress,
    .arm = arm,
};

const struct cw_transport cw_sim_rdma_transport = {
    .name = "simrdma",
    .wire_id = 250,
    .device_class = CW_DEVICE_NET,
    .connect = &sim_connect,
    .packets = &rdma_packets,
    .access = &cw_sim_rdma_access,
    .query_devices = rdma_query_devices,
    .open = rdma_open,
    .close = iface_close,
    .address = iface_address,
    .reachable = reachable,
    .progress = progress,
    .arm = arm,
};
