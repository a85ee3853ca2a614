/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Empty frames: a watched connection with a filter sends them after its last bytes, so that bytes that are dropped on
 * the way with nothing behind them are missed all the same. The test drops bytes by taking them from the receiver's
 * descriptor; what is to arrive of them it sends again as it was. It waits for no time: checks are made due.
 */
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"
#include "transport/tcp/tcp.h"

enum { CHECKSUM, TLS, PAYLOAD = 1500 };

static const struct cw_transport *const tcp = &cw_tcp_transport;
static struct node left, right;
static struct link *dialled, *accepted;
static char key[] = "/tmp/tcp_empty.XXXXXX";

static int make_key(void **state)
{
    static const char bytes[32] = "0123456789abcdef0123456789abcde";
    int fd = mkstemp(key);

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
    node->config.keepalive_interval_ns = UINT64_C(600000000000); /* no check comes by itself */
    if (filter == CHECKSUM) {
        node->config.tcp_checksum = 1;
    } else {
        node->config.auth_tls = 1;
        node->config.auth_key_file = key;
    }
}

/* The time of the node's next check has come. */
static void check_now(struct node *node)
{
    struct cw_tcp_iface *iface = tcp_of(node);

    if (cw_alarm_is_set(&iface->check)) {
        cw_poller_alarm_set(node->poller, &iface->check, 1);
    }
    step(node);
}

static bool is_quiet(struct node *node)
{
    return !cw_alarm_is_set(&tcp_of(node)->check);
}

static void be_quiet(void)
{
    const uint64_t end = cw_clock_ns() + TIMEOUT_NS;

    while (!is_quiet(&left) || !is_quiet(&right)) {
        check_now(&left);
        check_now(&right);
        assert_true(cw_clock_ns() < end);
    }
    drive_for_ms(&left, &right, 5); /* what is on the way arrives */
}

static void open_nodes(void)
{
    if (node_try_open(&left, NULL) != UCS_OK) {
        print_message("no OpenSSL 3 on this machine\n");
        skip();
    }
    assert_int_equal(node_try_open(&right, NULL), UCS_OK);
    dialled = connect_nodes(&left, &right, &accepted);
    tcp->connect->watch(dialled->conn);
    tcp->connect->watch(accepted->conn);
    be_quiet();
}

static void begin(int filter)
{
    configure(&left, filter);
    configure(&right, filter);
    open_nodes();
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
    static const size_t counts[] = {1, 9, 300, 1400, 2 * PAYLOAD};
    unsigned i;

    for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        begin(filter);
        lose(counts[i]);
        drive_for_ms(&left, &right, 2);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        check_now(&left);
        drive_for_ms(&left, &right, 2);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS); /* the next bytes may be about to come */
        check_now(&left);
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        assert_int_equal(accepted->packets, 0);
        DRIVE_UNTIL(&left, &right, dialled->closed_status != UCS_INPROGRESS);
        assert_true(is_quiet(&left) && is_quiet(&right));
        end();
    }
}

TEST(test_loss_is_noticed)
{
    loss_is_noticed(CHECKSUM);
}

TEST(test_loss_is_noticed_by_tls)
{
    loss_is_noticed(TLS);
}

/* A record as long as they get, of which the receiver has all but the beginning of its payload. */
TEST(test_loss_in_a_long_record)
{
    static uint8_t payload[60000], bytes[70000];
    const struct iovec iov = {payload, sizeof(payload)};
    struct wait wait = WAIT_INIT;
    size_t have = 0;
    ssize_t got;

    begin(CHECKSUM);
    assert_int_equal(tcp->packets->send_zcopy(dialled->conn, 3, "12345678", 8, &iov, 1, &wait.completion), UCS_OK);
    while (have < sizeof(payload)) {
        got = recv(tcp_conn(accepted)->item.fd, bytes + have, sizeof(bytes) - have, MSG_DONTWAIT);
        have += (got > 0) ? (size_t)got : 0;
    }
    assert_int_equal(send(tcp_conn(dialled)->item.fd, bytes, 40, MSG_NOSIGNAL), 40);
    drive_for_ms(&left, &right, 5);
    assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
    check_now(&left);
    check_now(&left);
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
    end();
}

/* Who was followed by empty frames needs no more of them, and no more checks; they bring no packet. What is sent
 * between two looks puts them off. */
TEST(test_quiet_follows)
{
    unsigned i;

    begin(CHECKSUM);
    for (i = 0; i < 4; i++) {
        send_packet();
        check_now(&left);
        assert_false(is_quiet(&left));
        assert_int_not_equal(tcp_conn(dialled)->filter->said, 0);
    }
    be_quiet();
    assert_int_equal(tcp_conn(dialled)->filter->said, 0);
    assert_int_equal(tcp_conn(accepted)->filter->said, 0);
    assert_int_equal(accepted->packets, 4);
    assert_int_equal(dialled->packets, 0);
    end();
}

/* A sleeping program is woken for them, and then sleeps on. */
TEST(test_sleepers)
{
    begin(CHECKSUM);
    send_packet();
    assert_int_equal(tcp->arm(left.iface), UCS_OK);
    assert_true(cw_alarm_is_set(&tcp_of(&left)->check) && !tcp_of(&left)->check.lazy);
    be_quiet();
    assert_int_equal(tcp->arm(left.iface), UCS_OK);
    assert_true(is_quiet(&left));
    end();
}

/* Sends until the receiver's system takes nothing more for a while. Returns the number of packets. */
static unsigned fill_buffers(void)
{
    const uint64_t quiet_ns = 20000000;
    uint64_t since = cw_clock_ns();
    unsigned sent = 0;

    while (cw_clock_ns() - since < quiet_ns) {
        if (tcp_conn(dialled)->tx == NULL) {
            send_packet();
            sent++;
            since = cw_clock_ns();
        }
        step(&left);
    }
    return sent;
}

static void fill_and_go_on(int filter)
{
    unsigned sent, i;
    size_t said;

    configure(&left, filter);
    configure(&right, filter);
    left.config.tcp_sndbuf = right.config.tcp_rcvbuf = 4608;
    open_nodes();
    sent = fill_buffers();
    said = tcp_conn(dialled)->filter->said;
    for (i = 0; i < 5; i++) {
        check_now(&left);
    }
    assert_true(tcp_conn(dialled)->filter->said <= said + PAYLOAD + 100); /* the rest of the packet at most */
    DRIVE_UNTIL(&left, &right, accepted->packets == sent);
    be_quiet();
    assert_int_equal(tcp->packets->send_short(dialled->conn, 4, 1, "behind", 6), UCS_OK);
    DRIVE_UNTIL(&left, &right, accepted->packets == sent + 1);
    assert_int_equal(accepted->last_id, 4);
    assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
    end();
}

/* A peer that does not read gets none on top of what its system does not take. Once it reads, they end. */
TEST(test_full_buffer)
{
    fill_and_go_on(CHECKSUM);
}

TEST(test_full_buffer_of_tls)
{
    fill_and_go_on(TLS);
}

int main(void)
{
    return cw_tests_run(make_key, remove_key);
}
