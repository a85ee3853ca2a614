/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes from the peer of an open TCP connection, in pieces of any size: raw ones, packets, and packets whose payload
 * goes to a place. The input is a row of kind (and KINDS times the padding), id, length, bytes. A first word of 1 in a
 * packet becomes the id of the last receive that asked for bytes, so that some of them have a place.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/ep.h"
#include "transport/tcp/tcp.h"
#include "wire/packet.h"

enum { MAX_ROUNDS = 1000000, LENGTH = 300, RAW = 0, PACKET = 1, PLACED = 2, KINDS = 3 };

static ucp_worker_h worker;
static uint64_t receive_id;
static int ended;

/* What the library answers: only what it asks for is of interest. */
static void hear(int fd)
{
    uint8_t bytes[8192];
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        for (size_t at = 0; at + CW_TCP_FRAME_HEADER + sizeof(struct cw_wire_rndv_ready) <= (size_t)got; at++) {
            if (bytes[at] == sizeof(struct cw_wire_rndv_ready) && bytes[at + 4] == CW_PACKET_RNDV_READY) {
                memcpy(&receive_id,
                       bytes + at + CW_TCP_FRAME_HEADER + offsetof(struct cw_wire_rndv_ready, receive_id),
                       sizeof(receive_id));
            }
        }
    }
}

static void say(int fd, struct cw_tcp_conn *conn, const uint8_t *bytes, size_t length)
{
    size_t part = (length > 3 && bytes[length / 2] % 2 == 1) ? length / 2 : length;
    unsigned events = 0;

    while (length > 0 && !ended) {
        fuzz_check(send(fd, bytes, part, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)part);
        ended = cw_tcp_recv(conn, 2, &events) == CW_TCP_RECV_ENDED;
        hear(fd);
        bytes += part;
        length -= part;
        part = length;
    }
}

static void feed(int fd, struct cw_tcp_conn *conn, const uint8_t *data, size_t size)
{
    uint8_t bytes[CW_TCP_FRAME_HEADER + 255 / KINDS + 255] = {0};
    size_t length, header, before;
    unsigned padding;

    while (size >= 3 && !ended) {
        length = (data[2] < size - 3) ? data[2] : size - 3;
        header = (data[0] % KINDS == RAW) ? 0 : CW_TCP_FRAME_HEADER;
        padding = (header == 0) ? 0 : data[0] / KINDS;
        before = (data[0] % KINDS == PLACED && length > CW_PLACE_HEADER) ? CW_PLACE_HEADER : 0;
        if (header > 0) {
            cw_tcp_frame_encode(bytes, (data[0] % KINDS == PLACED) ? CW_TCP_PLACED : CW_TCP_PACKET, data[1], length);
            bytes[offsetof(struct cw_tcp_frame_header, padding)] = (uint8_t)padding;
        }
        memcpy(bytes + header, data + 3, before);
        memset(bytes + header + before, 0xee, padding);
        memcpy(bytes + header + before + padding, data + 3 + before, length - before);
        if (header > 0 && length >= sizeof(receive_id) && data[3] == 1) {
            memcpy(bytes + header + ((before > 0) ? 0 : padding), &receive_id, sizeof(receive_id));
        }
        say(fd, conn, bytes, header + padding + length);
        data += 3 + length;
        size -= 3 + length;
    }
}

/* The connection's socket is another one for a while. */
static void feed_instead(struct cw_tcp_conn *conn, const uint8_t *data, size_t size)
{
    int fd = conn->item.fd, saved = fcntl(fd, F_DUPFD_CLOEXEC, 0), fds[2];

    fuzz_check(saved >= 0);
    fuzz_check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    fuzz_check(dup3(fds[0], fd, O_CLOEXEC) == fd);
    close(fds[0]);
    ended = 0;
    feed(fds[1], conn, data, size);
    if (conn->item.fd == fd) {
        fuzz_check(dup3(saved, fd, O_CLOEXEC) == fd);
    }
    close(saved);
    close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char in[4][LENGTH];
    ucp_request_param_t plain = {.op_attr_mask = 0};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t receives[4];
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;
    ucp_ep_h ep;

    worker = fuzz_worker("tcp");
    ep = fuzz_connected(worker, MAX_ROUNDS);
    for (int i = 0; i < 4; i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in[i], LENGTH, 0, 0, &plain);
    }
    feed_instead(cw_tcp_conn_of(ep->conn), data, size);
    fuzz_wait(worker, ucp_ep_close_nbx(ep, &force), MAX_ROUNDS);
    for (int i = 0; i < 4; i++) {
        if (UCS_PTR_IS_PTR(receives[i])) {
            ucp_request_cancel(worker, receives[i]);
            fuzz_wait(worker, receives[i], MAX_ROUNDS);
        }
    }
    for (int i = 0; i < 20; i++) {
        (void)ucp_worker_progress(worker);
    }
    while ((message = ucp_tag_probe_nb(worker, 0, 0, 1, &info)) != NULL) {
        fuzz_wait(worker, ucp_tag_msg_recv_nbx(worker, NULL, 0, message, &plain), MAX_ROUNDS);
    }
    return 0;
}
