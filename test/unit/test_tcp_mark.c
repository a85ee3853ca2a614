/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Marks of protected TCP connections: bytes that are dropped on the way with nothing behind them are missed all the
 * same, and afterwards both sides are silent. The test drops bytes by taking them from the receiver's descriptor; what
 * is to arrive of them it sends again as it was. It waits for no time: marks are made due.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"
#include "transport/tcp/tcp_filter.h"

enum { CHECKSUM, TLS, PAYLOAD = 1500, NOTICED = 2 };

static const struct cw_transport *const tcp = &cw_tcp_transport;
static struct node left, right;
static struct link *dialled, *accepted;
static char key[] = "/tmp/tcp_mark.XXXXXX";

static int make_key(void **state)
{
    static const char bytes[32] = "0123456789abcdef0123456789abcde";
    int fd                      = mkstemp(key);

    (void)state;
    if (fd < 0 || write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes)) {
        return -1;
    }
    return close(fd);
}

static int remove_key(void **state)
{
    (void)state;
    return unlink(key);
}

static void configure(struct node *node, int filter)
{
    node_configure(node);
    if (filter == CHECKSUM) {
        node->config.tcp_checksum = 1;
    } else {
        node->config.auth_tls      = 1;
        node->config.auth_key_file = key;
    }
}

/* The time of all marks of the node has come. */
static void make_due(struct node *node)
{
    struct cw_tcp_iface *iface = tcp_of(node);
    struct cw_tcp_mark *mark;

    cw_list_for_each(mark, &iface->spoke, struct cw_tcp_mark, link) {
        mark->due_ns = 1;
    }
    if (!cw_list_empty(&iface->spoke)) {
        cw_poller_alarm_set(node->poller, &iface->mark_due, 1);
    }
    step(node);
}

static int is_silent(struct node *node)
{
    return cw_list_empty(&tcp_of(node)->spoke) && !cw_alarm_is_set(&tcp_of(node)->mark_due);
}

static void be_silent(void)
{
    unsigned i;

    for (i = 0; i < 4 && !(is_silent(&left) && is_silent(&right)); i++) {
        make_due(&left);
        make_due(&right);
        drive_for_ms(&left, &right, 5);
    }
    assert_true(is_silent(&left) && is_silent(&right));
}

static void begin(int filter)
{
    configure(&left, filter);
    configure(&right, filter);
    if (node_try_open(&left, NULL) != UCS_OK) {
        print_message("no OpenSSL 3 on this machine\n");
        skip();
    }
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    be_silent();
}

static void end(void)
{
    node_close(&left);
    node_close(&right);
}

static void send_packet(void)
{
    static const uint8_t payload[PAYLOAD];

    assert_int_equal(tcp->packets->send_short(dialled->conn, 3, 1, payload, PAYLOAD), UCS_OK);
}

/* The last bytes of a packet, or all of it, get lost on the way, and nothing follows. */
static void lose(size_t count)
{
    const int to = tcp_conn(accepted)->item.fd, from = tcp_conn(dialled)->item.fd;
    uint8_t bytes[2 * PAYLOAD];
    ssize_t got;

    send_packet();
    do {
        got = recv(to, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    } while (got < PAYLOAD);
    assert_int_equal(recv(to, bytes, sizeof(bytes), 0), got);
    count = (count < (size_t)got) ? count : (size_t)got;
    assert_int_equal(send(from, bytes, (size_t)got - count, MSG_NOSIGNAL), (size_t)got - count);
}

static void loss_is_noticed(int filter)
{
    static const size_t counts[] = {1, 9, 300, 2 * PAYLOAD};
    unsigned i, k;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        begin(filter);
        lose(counts[i]);
        drive_for_ms(&left, &right, 2);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        for (k = 0; k < NOTICED && accepted->closed_status == UCS_INPROGRESS; k++) {
            make_due(&left);
            drive_for_ms(&left, &right, 20);
        }
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        assert_int_equal(accepted->packets, 0);
        DRIVE_UNTIL(&left, &right, dialled->closed_status != UCS_INPROGRESS);
        assert_true(is_silent(&left) && is_silent(&right));
        end();
    }
}

static void test_loss_is_noticed(void **state)
{
    (void)state;
    loss_is_noticed(CHECKSUM);
}

static void test_loss_is_noticed_by_tls(void **state)
{
    (void)state;
    loss_is_noticed(TLS);
}

/* One question, one answer, and no alarm is left. What is said meanwhile asks for another question. */
static void test_silence_follows(void **state)
{
    (void)state;
    begin(CHECKSUM);
    send_packet();
    assert_false(is_silent(&left));
    make_due(&left);
    assert_true(cw_list_head(&tcp_of(&left)->spoke, struct cw_tcp_mark, link)->asks);
    DRIVE_UNTIL(&left, &right, is_silent(&left));
    send_packet();
    make_due(&left);
    send_packet();
    DRIVE_UNTIL(&left, &right, accepted->packets == 3 && !tcp_conn(dialled)->filter->mark.asks);
    assert_false(is_silent(&left));
    make_due(&left);
    DRIVE_UNTIL(&left, &right, is_silent(&left));
    assert_true(is_silent(&right));
    assert_int_equal(accepted->packets, 3);
    assert_int_equal(dialled->packets, 0);
    end();
}

/* A peer that is busy is asked twice, and then no more. */
static void test_busy_peer(void **state)
{
    (void)state;
    begin(CHECKSUM);
    send_packet();
    make_due(&left);
    assert_false(is_silent(&left));
    make_due(&left);
    assert_true(is_silent(&left));
    DRIVE_UNTIL(&left, &right, accepted->packets == 1);
    drive_for_ms(&left, &right, 20);
    assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
    assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
    assert_true(is_silent(&left) && is_silent(&right));
    end();
}

/* Nothing is asked on top of what the system does not take; the long mark may have to wait itself. */
static void test_full_buffer(void **state)
{
    unsigned sent = 0;

    (void)state;
    configure(&left, CHECKSUM);
    configure(&right, CHECKSUM);
    left.config.tcp_sndbuf = right.config.tcp_rcvbuf = 4608;
    assert_int_equal(node_try_open(&left, NULL), UCS_OK);
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    be_silent();
    while (tcp_conn(dialled)->tx == NULL) {
        send_packet();
        sent++;
    }
    make_due(&left);
    assert_true(is_silent(&left));
    DRIVE_UNTIL(&left, &right, accepted->packets == sent);
    DRIVE_UNTIL(&left, &right, tcp_conn(dialled)->tx == NULL);
    assert_false(is_silent(&left));
    make_due(&left);
    make_due(&left);
    assert_non_null(tcp_conn(dialled)->tx);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 4, 1, "behind", 6), CW_AGAIN);
    DRIVE_UNTIL(&left, &right, dialled->rooms > 0);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 4, 1, "behind", 6), UCS_OK);
    DRIVE_UNTIL(&left, &right, accepted->packets == sent + 1);
    assert_int_equal(accepted->last_id, 4);
    end();
}

/* What is no mark, and a mark where there is no filter. */
static void test_wrong_marks(void **state)
{
    uint8_t frame[CW_TCP_FRAME_HEADER + 8] = {0};
    unsigned i;

    (void)state;
    for (i = 0; i < 3; i++) {
        configure(&left, CHECKSUM);
        configure(&right, CHECKSUM);
        left.config.tcp_checksum = right.config.tcp_checksum = i < 2;
        assert_int_equal(node_try_open(&left, NULL), UCS_OK);
        assert_int_equal(node_try_open(&right, NULL), UCS_OK);
        dialled = connect_nodes(&left, &right, &accepted);
        cw_tcp_frame_encode(frame, CW_TCP_MARK, 0, (i == 1) ? 7 : 8);
        frame[CW_TCP_FRAME_HEADER + 4] = (i == 0) ? 3 : CW_TCP_MARK_ASKS;
        assert_int_equal(cw_tcp_filter_send(tcp_conn(dialled), frame, sizeof(frame)), sizeof(frame));
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_is_noticed), cmocka_unit_test(test_loss_is_noticed_by_tls),
        cmocka_unit_test(test_silence_follows), cmocka_unit_test(test_busy_peer),
        cmocka_unit_test(test_full_buffer),     cmocka_unit_test(test_wrong_marks),
    };

    return cmocka_run_group_tests_name("unit.tcp_mark", tests, make_key, remove_key);
}
