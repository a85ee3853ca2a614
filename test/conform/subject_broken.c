/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Does the suite find anything? A transport that breaks the contract in one way, named by CW_FLAW, around the simulated
 * network. Each flaw is one CTest entry that succeeds when some test of the suite fails.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "sim.h"
#include "sim_transport.h"

enum { EVERY = 97, HELD_MAX = 4096 };

static struct cw_transport broken;
static struct cw_transport_connect broken_connect;
static struct cw_transport_packets broken_packets;
static struct cw_upcalls altered;
static const struct cw_upcalls *real;
static struct cw_sim_network *network;
static unsigned count;
static cw_pack_fn real_pack;
static int in_batch;
static void **leaked; /* each names the one before */

static struct {
    struct cw_conn *conn;
    uint8_t id;
    size_t length;
    char data[HELD_MAX];
} held;

static int flaw(const char *name)
{
    return strcmp(getenv("CW_FLAW"), name) == 0;
}

static void packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    char copy[HELD_MAX];
    int now = ++count % EVERY == 0 && length > 0 && length <= HELD_MAX && held.conn == NULL;

    if (now && flaw("drop")) {
        return;
    }
    if (now && flaw("corrupt")) {
        memcpy(copy, data, length);
        copy[length - 1] ^= 1;
        real->packet(conn, id, copy, length);
        return;
    }
    if (now && flaw("wrong_id")) {
        id++;
    }
    if (now && flaw("cut")) {
        length--;
    }
    if (now && flaw("reorder")) {
        held.conn = conn;
        held.id = id;
        held.length = length;
        memcpy(held.data, data, length);
        return;
    }
    real->packet(conn, id, data, length);
    if (now && flaw("duplicate")) {
        real->packet(conn, id, data, length);
    }
    if (held.conn == conn) {
        held.conn = NULL;
        real->packet(conn, held.id, held.data, held.length);
    }
}

static ucs_status_t accept_dial(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                                size_t *reply_length)
{
    ucs_status_t status = real->accept(owner, conn, hello, hello_length, reply, reply_length);

    if (flaw("cut_reply") && *reply_length > 0) {
        --*reply_length;
    }
    return status;
}

static void space(struct cw_conn *conn)
{
    if (!flaw("no_room")) {
        real->space(conn);
    }
}

static void closed(struct cw_conn *conn, ucs_status_t status)
{
    if (flaw("no_closed")) {
        return;
    }
    real->closed(conn, status);
    if (flaw("closed_twice")) {
        real->closed(conn, status);
    }
}

static ucs_status_t open_iface(const struct cw_iface_params *params, struct cw_iface **iface_p)
{
    struct cw_iface_params mine = *params;
    ucs_status_t status;
    void **next;

    real = params->upcalls;
    altered = *real;
    altered.packet = packet;
    altered.accept = accept_dial;
    altered.space = space;
    altered.closed = closed;
    mine.upcalls = &altered;
    status = cw_sim_transport.open(&mine, iface_p);
    if (status == UCS_OK) {
        (*iface_p)->transport = &broken;
    }
    if (flaw("leak_memory")) {
        next = malloc(sizeof(*next));
        cw_check(next != NULL, "no memory");
        *next = (void *)leaked;
        leaked = next;
    }
    if (flaw("leak_descriptor") && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) {
        return UCS_ERR_IO_ERROR;
    }
    return status;
}

static ucs_status_t arm(struct cw_iface *iface)
{
    return flaw("never_busy") ? UCS_OK : cw_sim_transport.arm(iface);
}

static void close_conn(struct cw_conn *conn)
{
    cw_sim_set_fault(network, CW_SIM_RESET, flaw("lose_tail") ? CW_SIM_ALWAYS : 0);
    cw_sim_transport.connect->close_conn(conn);
    cw_sim_set_fault(network, CW_SIM_RESET, 0);
}

static size_t pack_twice(void *dest, size_t max, void *arg)
{
    real_pack(dest, max, arg);
    return real_pack(dest, max, arg);
}

static void batch(struct cw_conn *conn, enum cw_batch what)
{
    (void)conn;
    in_batch = what != CW_BATCH_END;
}

static ucs_status_t send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    return flaw("overtake") ? cw_sim_transport.packets->send_placed(conn, id, header, iov, iov_count, completion) :
           cw_sim_transport.packets->send_in_place(conn, id, header, iov, iov_count, completion);
}

static ucs_status_t send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    if (in_batch && ++count % EVERY == 0) {
        return UCS_OK;
    }
    real_pack = pack;
    return cw_sim_transport.packets->send_bcopy(conn, id, max, flaw("pack_twice") ? pack_twice : pack, arg);
}

static ucs_status_t flush(struct cw_conn *conn, struct cw_completion *completion)
{
    return (flaw("flush_lies") && completion != NULL) ? UCS_OK : cw_sim_transport.packets->flush(conn, completion);
}

static void setup(void)
{
    struct cw_sim_knobs knobs;

    cw_sim_knobs_default(&knobs);
    knobs.chance[CW_SIM_SHORT] = CW_SIM_ALWAYS / 4;
    network = cw_sim_network_new(1, &knobs);
    held.conn = NULL;
    broken = cw_sim_transport;
    broken_connect = *cw_sim_transport.connect;
    broken_packets = *cw_sim_transport.packets;
    broken.open = open_iface;
    broken.arm = arm;
    broken.connect = &broken_connect;
    broken.packets = &broken_packets;
    broken_connect.close_conn = close_conn;
    broken_packets.send_bcopy = send_bcopy;
    broken_packets.flush = flush;
    broken_packets.send_in_place = send_in_place;
    broken_packets.batch = flaw("batch_loses") ? batch : NULL;
}

static void teardown(void)
{
    cw_sim_network_free(network);
}

const struct cw_subject cw_subject = {.transport = &broken, .setup = setup, .teardown = teardown};
