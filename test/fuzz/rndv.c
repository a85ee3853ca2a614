/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of rendezvous, cancels and credits, with the true ids of what is under way, which a fuzzer could not guess:
 * the input is a row of id, length, bytes, and a first word of 1 to 4 becomes the id of a send or of a receive. The
 * connection only notes what is sent. The first byte says what is under way at the beginning.
 */
#include "fuzz.h"

#include <endian.h>

#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/op_ep.h"
#include "msg/send.h"
#include "transport/transport.h"
#include "wire/packet.h"

enum { MAX_ROUNDS = 100000, LENGTH = 200, MAX_BYTES = 70000 };

static ucp_worker_h worker;
static struct cw_transport transport;
static struct cw_transport_connect connecting;
static struct cw_transport_packets packets;
static struct cw_iface iface, *real;
static uint64_t ids[4];         /* announced send, synchronous send, the last two receives that asked for bytes */
static struct cw_claim_pair pairs[CW_CLAIM_PAIRS];
static char peer_memory[LENGTH];
static int copies_work;

static void note(uint8_t id, const uint8_t *bytes)
{
    if (id == CW_PACKET_RNDV_READY) {
        ids[3] = ids[2];
        memcpy(&ids[2], bytes + offsetof(struct cw_wire_rndv_ready, receive_id), sizeof(ids[2]));
    }
}

static ucs_status_t send_short(struct cw_conn *conn, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    uint8_t bytes[64] = {0};

    (void)conn;
    memcpy(bytes, &header, sizeof(header));
    if (length > 0) {
        memcpy(bytes + sizeof(header), payload, length < 48 ? length : 48);
    }
    note(id, bytes);
    return UCS_OK;
}

static ucs_status_t send_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    static uint8_t bytes[MAX_BYTES];

    (void)conn;
    fuzz_check(max <= sizeof(bytes));
    (void)pack(bytes, max, arg);
    note(id, bytes);
    return UCS_OK;
}

static int peer_ready(struct cw_conn *conn)
{
    (void)conn;
    return copies_work;
}

static ucs_status_t peer_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity)
{
    (void)conn;
    (void)validity;
    for (unsigned i = 0; i < count; i++) {
        memset(to[i].iov_base, 1, to[i].iov_len);
    }
    return from % 3 == 0 ? UCS_ERR_IO_ERROR : UCS_OK;
}

static ucs_status_t peer_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity)
{
    (void)conn;
    (void)validity;
    for (unsigned i = 0; i < count; i++) {
        fuzz_check(from[i].iov_len <= sizeof(peer_memory));
        memcpy(peer_memory, from[i].iov_base, from[i].iov_len);
    }
    return to % 3 == 0 ? UCS_ERR_IO_ERROR : UCS_OK;
}

static struct cw_claim_pair *pair_of(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn;
    (void)ours;
    fuzz_check(index < CW_CLAIM_PAIRS);
    return &pairs[index];
}

static void close_conn(struct cw_conn *conn)
{
    conn->iface = real;
    real->transport->connect->close_conn(conn);
}

static const struct cw_transport_copies copies = {
    .ready = peer_ready, .read = peer_read, .write = peer_write, .pair = pair_of};

static void divert(ucp_ep_h ep)
{
    real = ep->conn->iface;
    iface = *real;
    transport = *real->transport;
    connecting = *transport.connect;
    connecting.close_conn = close_conn;
    packets = *transport.packets;
    packets.send_short = send_short;
    packets.send_bcopy = send_bcopy;
    packets.send_zcopy = NULL;
    packets.send_placed = NULL;
    transport.connect = &connecting;
    transport.packets = &packets;
    transport.copies = &copies;
    iface.limits.max_zcopy = 0;
    iface.limits.max_placed = 0;
    iface.transport = &transport;
    iface.packets = &packets;
    ep->conn->iface = &iface;
    memset(ids, 0, sizeof(ids));
    memset(pairs, 0, sizeof(pairs));
}

static uint64_t id_of(ucs_status_ptr_t request)
{
    const struct cw_send *send;

    if (!UCS_PTR_IS_PTR(request)) {
        return 0;
    }
    send = cw_request_state((struct cw_request *)(void *)((char *)request - CW_REQUEST_SIZE));
    return htole64(send->id);
}

static void feed(ucp_ep_h ep, const uint8_t *data, size_t size)
{
    uint8_t *packet;
    uint64_t word;
    size_t length;

    while (size >= 2 && ep->conn != NULL) {
        length = (data[1] < size - 2) ? data[1] : size - 2;
        packet = malloc(length + (length == 0));
        fuzz_check(packet != NULL);
        memcpy(packet, data + 2, length);
        if (length >= sizeof(word)) {
            memcpy(&word, packet, sizeof(word));
            word = le64toh(word);
            if (word >= 1 && word <= 4) {
                memcpy(packet, &ids[word - 1], sizeof(word));
            }
        }
        if (data[0] == 0xff) { /* time passes */
            (void)ucp_worker_progress(worker);
        } else {
            cw_op_packet(ep->conn, data[0], packet, length);
        }
        free(packet);
        data += 2 + length;
        size -= 2 + length;
    }
}

static void take_out_all(void)
{
    ucp_request_param_t plain = {.op_attr_mask = 0};
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    while ((message = ucp_tag_probe_nb(worker, 0, 0, 1, &info)) != NULL) {
        fuzz_wait(worker, ucp_tag_msg_recv_nbx(worker, NULL, 0, message, &plain), MAX_ROUNDS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char out[LENGTH] = "message";
    static char in[3][LENGTH];
    ucp_request_param_t plain = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t receives[3] = {NULL}, sends[2] = {NULL};
    ucp_ep_h ep;

    if (size < 1) {
        return 0;
    }
    fuzz_check(setenv("UCX_RNDV_THRESH", "100", 1) == 0);
    worker = fuzz_worker("self");
    ep = fuzz_connected(worker, MAX_ROUNDS);
    copies_work = (data[0] & 1) != 0;
    divert(ep);
    if (data[0] & 2) {
        sends[0] = ucp_tag_send_nbx(ep, out, sizeof(out), 1, &plain);
        ids[0] = id_of(sends[0]);
    }
    if (data[0] & 4) {
        sends[1] = ucp_tag_send_sync_nbx(ep, out, 10, 1, &plain);
        ids[1] = id_of(sends[1]);
    }
    for (int i = 0; i < 3 && (data[0] & 8); i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in[i], sizeof(in[i]), 0, 0, &plain);
    }
    feed(ep, data + 1, size - 1);
    if ((data[0] & 16) && UCS_PTR_IS_PTR(sends[0])) {
        ucp_request_cancel(worker, sends[0]);
    }
    if (ep->conn != NULL) {
        ep->conn->iface = real;
    }
    fuzz_wait(worker, ucp_ep_close_nbx(ep, &force), MAX_ROUNDS);
    fuzz_wait(worker, sends[0], MAX_ROUNDS);
    fuzz_wait(worker, sends[1], MAX_ROUNDS);
    for (int i = 0; i < 3; i++) {
        if (UCS_PTR_IS_PTR(receives[i])) {
            ucp_request_cancel(worker, receives[i]);
            fuzz_wait(worker, receives[i], MAX_ROUNDS);
        }
    }
    for (int i = 0; i < 20; i++) {
        (void)ucp_worker_progress(worker);
    }
    take_out_all();
    return 0;
}
