/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protected TCP connections: records with checksums cut at every byte, with every bit flipped, missing, doubled and
 * sent back; and both sides' settings in every combination.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"
#include "test_log_lines.h"
#include "transport/tcp/tcp.h"

enum { STREAM = 700 };

/* A connection of which only the filter and the descriptor are there. */
struct side {
    struct cw_tcp_iface iface;
    struct cw_tcp_security security;
    struct cw_tcp_conn conn;
};

static struct side left, right;

static void side_init(struct side *side, int fd, int dialled)
{
    memset(side, 0, sizeof(*side));
    assert_int_equal(cw_poller_new(0, &side->iface.poller), UCS_OK);
    cw_list_init(&side->iface.unread);
    side->conn.super.iface = &side->iface.super;
    side->iface.security = &side->security;
    side->conn.item.fd = fd;
    side->conn.filter = cw_tcp_filter_crc_new(dialled);
    assert_non_null(side->conn.filter);
    side->conn.filter->conn = &side->conn;
    cw_list_init(&side->conn.filter->unread);
}

static void sides_begin(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    side_init(&left, fds[0], 1);
    side_init(&right, fds[1], 0);
}

static void sides_end(void)
{
    cw_tcp_filter_free(&left.conn);
    cw_tcp_filter_free(&right.conn);
    cw_poller_free(left.iface.poller);
    cw_poller_free(right.iface.poller);
    free(left.security.spare_in);
    free(right.security.spare_in);
    close(left.conn.item.fd);
    close(right.conn.item.fd);
}

static void fill_bytes(uint8_t *bytes, size_t length)
{
    size_t i;

    for (i = 0; i < length; i++) {
        bytes[i] = (uint8_t)(i * 7 + (i >> 8));
    }
}

/* The records of `length` bytes in three sends, as they are on the wire. */
static size_t record_bytes(const uint8_t *bytes, size_t length, uint8_t *wire, size_t max)
{
    const struct iovec iov[3] = {
        {(void *)(uintptr_t)bytes, length / 3}, {NULL, 0}, {(void *)(uintptr_t)(bytes + length / 3), length / 3}};
    ssize_t got;

    assert_int_equal(cw_tcp_filter_sendv(&left.conn, iov, 3), length / 3 * 2);
    assert_int_equal(cw_tcp_filter_send(&left.conn, bytes + length / 3 * 2, length - length / 3 * 2),
                     length - length / 3 * 2);
    got = recv(right.conn.item.fd, wire, max, 0);
    assert_in_range(got, length + 2 * CW_TCP_RECORD_HEAD, max - 1);
    return (size_t)got;
}

static void put_wire(const uint8_t *wire, size_t length)
{
    assert_int_equal(send(left.conn.item.fd, wire, length, MSG_NOSIGNAL), length);
}

TEST(test_cut_at_every_byte)
{
    uint8_t bytes[STREAM], wire[STREAM + 100], in[STREAM];
    size_t length, cut, have;
    ssize_t got;

    fill_bytes(bytes, sizeof(bytes));
    sides_begin();
    length = record_bytes(bytes, sizeof(bytes), wire, sizeof(wire));
    sides_end();
    for (cut = 1; cut < length; cut++) {
        sides_begin();
        put_wire(wire, cut);
        have = 0;
        while ((got = cw_tcp_filter_recv(&right.conn, in + have, (cut % 2) ? 10 : sizeof(in) - have)) > 0) {
            have += (size_t)got;
        }
        assert_int_equal(got, -EAGAIN);
        assert_true(have == 0 || have == sizeof(bytes) / 3 * 2); /* whole records only */
        put_wire(wire + cut, length - cut);
        while ((got = cw_tcp_filter_recv(&right.conn, in + have, sizeof(in) - have)) > 0) {
            have += (size_t)got;
        }
        assert_int_equal(have, sizeof(bytes));
        assert_memory_equal(in, bytes, sizeof(bytes));
        assert_true(cw_list_empty(&right.iface.unread));
        sides_end();
    }
}

/* What comes of these bytes is a beginning of the stream, and then an error. */
static void expect_damage(const uint8_t *wire, size_t length, const uint8_t *bytes)
{
    uint8_t in[STREAM];
    size_t have = 0;
    ssize_t got;

    sides_begin();
    put_wire(wire, length);
    while ((got = cw_tcp_filter_recv(&right.conn, in + have, sizeof(in) - have)) > 0) {
        have += (size_t)got;
    }
    assert_int_equal(got, -EBADMSG);
    assert_non_null(right.conn.filter->why);
    assert_memory_equal(in, bytes, have);
    assert_int_equal(cw_tcp_filter_recv(&right.conn, in, sizeof(in)), -EBADMSG); /* and for good */
    sides_end();
}

TEST(test_every_bit_flipped)
{
    uint8_t bytes[STREAM], wire[STREAM + 100];
    size_t length, bit;

    fill_bytes(bytes, sizeof(bytes));
    sides_begin();
    length = record_bytes(bytes, sizeof(bytes), wire, sizeof(wire));
    sides_end();
    for (bit = 0; bit < 8 * length; bit++) {
        wire[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        expect_damage(wire, length, bytes);
        wire[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
}

TEST(test_missing_doubled_reflected)
{
    uint8_t bytes[STREAM], wire[STREAM + 100], twice[2 * STREAM];
    size_t length, first = CW_TCP_RECORD_HEAD + STREAM / 3 * 2;
    struct side swap;

    fill_bytes(bytes, sizeof(bytes));
    sides_begin();
    length = record_bytes(bytes, sizeof(bytes), wire, sizeof(wire));
    sides_end();
    expect_damage(wire + first, length - first, bytes);
    memcpy(twice, wire, first);
    memcpy(twice + first, wire, length);
    expect_damage(twice, first + length, bytes);
    sides_begin(); /* what the left side sent comes back to it */
    swap = left;
    left = right;
    put_wire(wire, length);
    left = swap;
    assert_int_equal(cw_tcp_filter_recv(&left.conn, twice, sizeof(twice)), -EBADMSG);
    sides_end();
}

/* A sender whose kernel takes little at a time, and a receiver with little room. */
TEST(test_small_buffers)
{
    enum { LENGTH = 1 << 20 };
    uint8_t *bytes = test_malloc(LENGTH), *in = test_malloc(LENGTH);
    size_t sent = 0, have = 0, rounds = 0, part;
    const int size = 4096;
    struct iovec iov[2];
    ssize_t ret;

    fill_bytes(bytes, LENGTH);
    sides_begin();
    assert_int_equal(setsockopt(left.conn.item.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
    while (have < LENGTH) {
        part = (LENGTH - sent) / (1 + rounds % 3);
        iov[0] = (struct iovec){bytes + sent, part / 2};
        iov[1] = (struct iovec){bytes + sent + part / 2, part - part / 2};
        ret = cw_tcp_filter_sendv(&left.conn, iov, 2);
        assert_true(ret >= 0 || ret == -EAGAIN);
        sent += (ret > 0) ? (size_t)ret : 0;
        part = 1 + (rounds++ * 977) % 5000;
        ret = cw_tcp_filter_recv(&right.conn, in + have, (part < LENGTH - have) ? part : LENGTH - have);
        assert_true(ret > 0 || ret == -EAGAIN);
        have += (ret > 0) ? (size_t)ret : 0;
    }
    assert_int_equal(sent, LENGTH);
    assert_memory_equal(in, bytes, LENGTH);
    sides_end();
    test_free(bytes);
    test_free(in);
}

/* Either both have it or nobody gets through, and both say why. */
TEST(test_settings_differ)
{
    struct node dialler, acceptor;
    struct link *link, *accepted;
    int i;

    for (i = 0; i < 4; i++) {
        node_configure(&dialler);
        node_configure(&acceptor);
        dialler.config.tcp_checksum = i & 1;
        acceptor.config.tcp_checksum = i >> 1;
        assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
        assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
        if (i == 0 || i == 3) {
            link = connect_nodes(&dialler, &acceptor, &accepted);
            assert_int_equal(tcp_conn(link)->filter != NULL, i == 3);
            assert_int_equal(tcp_conn(accepted)->filter != NULL, i == 3);
        } else {
            log_count_begin();
            link = dial(&dialler, &acceptor);
            DRIVE_UNTIL(&dialler, &acceptor, link->opened);
            log_count_end();
            assert_int_equal(link->opened_status, UCS_ERR_REJECTED);
            assert_int_equal(acceptor.num_links, 0);
            assert_int_equal(log_lines, 2);
            assert_non_null(strstr(log_text, "protection of connections differs"));
            DRIVE_UNTIL(&dialler, &acceptor, tcp_of(&acceptor)->num_lingering == 0);
        }
        node_close(&dialler);
        node_close(&acceptor);
    }
}

/* Packets behind the reply, in the same record, wait for nobody's descriptor. */
TEST(test_packets_follow_the_reply)
{
    struct node dialler, acceptor;
    struct link *link, *accepted;
    unsigned i;

    node_configure(&dialler);
    node_configure(&acceptor);
    dialler.config.tcp_checksum = acceptor.config.tcp_checksum = 1;
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    link = dial(&dialler, &acceptor);
    while (acceptor.num_links == 0) {
        step(&dialler);
        step(&acceptor);
    }
    accepted = &acceptor.links[0];
    for (i = 0; i < 500; i++) {
        assert_int_equal(cw_tcp_transport.packets->send_short(accepted->conn, 5, i, "packet", 6), UCS_OK);
    }
    DRIVE_UNTIL(&dialler, &acceptor, link->packets == 500);
    assert_int_equal(cw_tcp_transport.arm(dialler.iface), UCS_OK);
    node_close(&dialler);
    node_close(&acceptor);
}

/* Once it is abandoned it goes on with nothing: no hello, no other candidate, no upcall. */
TEST(test_an_abandoned_dial_is_silent)
{
    struct node dialler, acceptor;
    struct link *link;
    int i;

    node_configure(&dialler);
    node_configure(&acceptor);
    dialler.config.tcp_checksum = acceptor.config.tcp_checksum = 1;
    assert_int_equal(node_try_open(&dialler, NULL), UCS_OK);
    assert_int_equal(node_try_open(&acceptor, NULL), UCS_OK);
    for (i = 0; i < 2; i++) {
        link = dial(&dialler, &acceptor);
        while (i == 1 && tcp_conn(link)->state != CW_TCP_HANDSHAKE) {
            step(&dialler);
        }
        drive_for_ms(&acceptor, &acceptor, 5); /* i 1: its answer is there, and not read */
        assert_true(cw_tcp_transport.connect->is_unseen(link->conn));
        cw_tcp_transport.connect->abandon(link->conn);
        drive_for_ms(&dialler, &acceptor, 20);
        assert_false(link->opened);
        assert_int_equal(acceptor.num_links, 0);
    }
    node_close(&dialler);
    node_close(&acceptor);
}
