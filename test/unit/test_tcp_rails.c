/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further sockets of a TCP connection: who opens them and when, what travels on them, and what happens when one is
 * missing, or comes from somebody who does not know the token. Their ends are test_tcp_rails_end.c.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test_tcp_rails.h"

/* Only large packets bring them, whichever side sends; the dialler opens them; no more than both want. */
static void test_who_joins(void **state)
{
    struct link *dialled, *accepted;
    unsigned i;

    (void)state;
    dialled = open_pair(3, 3, &accepted);
    assert_int_equal(dialled->conn->placed_piece, CW_TCP_RAILS_PLACED);
    assert_int_equal(accepted->conn->placed_piece, CW_TCP_RAILS_PLACED);
    parcel_post(dialled, CW_TCP_RAILS_MIN - 1);
    parcel_post(accepted, CW_TCP_RAILS_MIN - 1);
    DRIVE_UNTIL(&left, &right, num_placed == 2);
    drive_for_ms(&left, &right, 20);
    assert_int_equal(joined(dialled) + joined(accepted), 0);
    parcel_post(accepted, CW_TCP_RAILS_MIN);
    DRIVE_UNTIL(&left, &right, joined(dialled) == 2 && joined(accepted) == 2 && num_placed == 3);
    close_pair();
    dialled = open_joined(2, &accepted);
    close_pair();
    for (i = 0; i < 2; i++) { /* one side wants none */
        dialled = open_pair(1 + i, 2 - i, &accepted);
        assert_true(tcp_conn(dialled)->rails == NULL && tcp_conn(accepted)->rails == NULL);
        assert_int_equal(dialled->conn->placed_piece | accepted->conn->placed_piece, 0);
        parcel_post(dialled, left.iface->limits.max_placed);
        parcel_post(accepted, right.iface->limits.max_placed);
        DRIVE_UNTIL(&left, &right, num_placed == 2);
        close_pair();
    }
    open_one(&left, 2);
    open_one(&right, 2);
    num_parcels = num_placed = 0;
    tcp_of(&left)->settings.joins_on_loopback = 0; /* as the default is */
    dialled                                   = connect_nodes(&left, &right, &accepted);
    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, num_placed == 1);
    assert_true(tcp_conn(dialled)->rails == NULL && tcp_conn(accepted)->rails == NULL);
    close_pair();
    dialled = open_pair(CW_UINT_INF, 2, &accepted);
    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, joined(dialled) == CW_TCP_MAX_JOINED && num_placed == 1);
    close_pair();
}

/* Placed packets of all sizes both ways, and ordinary ones in their order between them. */
static void test_mixed(void **state)
{
    struct link *dialled, *accepted, *ends[2];
    uint64_t sent[2] = {0, 0};
    unsigned i, side;

    (void)state;
    srand(7);
    dialled = open_joined(3, &accepted);
    ends[0] = dialled;
    ends[1] = accepted;
    for (i = 1; i < PARCELS; i++) {
        parcel_post(ends[i & 1], 1 + (size_t)rand() % ((i % 4 == 0) ? 5000 : LARGE));
        for (side = 0; side < 2; side++) {
            while (rand() % 4 != 0 && tcp->packets->send_short(ends[side]->conn, 1, sent[side], "abcd", 4) == UCS_OK) {
                sent[side]++;
            }
        }
    }
    DRIVE_UNTIL(&left, &right,
                num_placed == num_parcels && accepted->packets == sent[0] && dialled->packets == sent[1]);
    for (i = 0; i < num_parcels; i++) {
        DRIVE_UNTIL(&left, &right, parcels[i].wait.status == UCS_OK);
    }
    close_pair();
}

/* Ordinary packets do not wait behind placed ones; flush waits for all sockets; `room` comes when any has room. */
static void test_blocked(void **state)
{
    struct wait flushes[CW_TCP_MAX_FLUSHES + 1] = {WAIT_INIT, WAIT_INIT, WAIT_INIT, WAIT_INIT, WAIT_INIT};
    struct link *dialled, *accepted;
    unsigned i, rooms;

    (void)state;
    dialled = open_joined(2, &accepted);
    block(dialled, 0);
    assert_null(tcp_conn(dialled)->tx);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, "free", 4), UCS_OK);
    assert_int_equal(tcp->packets->flush(dialled->conn, &flushes[0].completion), UCS_INPROGRESS);
    block(dialled, 1);
    assert_non_null(tcp_conn(dialled)->tx);
    for (i = 1; i < CW_TCP_MAX_FLUSHES; i++) {
        assert_int_equal(tcp->packets->flush(dialled->conn, &flushes[i].completion), UCS_INPROGRESS);
    }
    assert_int_equal(tcp->packets->flush(dialled->conn, &flushes[i].completion), CW_AGAIN);
    rooms = dialled->rooms;
    for (i = 0; i < 100; i++) {
        step(&left);
    }
    assert_int_equal(flushes[0].times + flushes[1].times + flushes[2].times + flushes[3].times, 0);
    DRIVE_UNTIL(&left, &right, dialled->rooms > rooms);
    DRIVE_UNTIL(&left, &right, flushes[CW_TCP_MAX_FLUSHES - 1].times == 1);
    for (i = 0; i < CW_TCP_MAX_FLUSHES; i++) {
        assert_int_equal(flushes[i].status, UCS_OK);
    }
    for (i = 0; i < num_parcels; i++) {
        assert_true(!parcels[i].taken || parcels[i].wait.status == UCS_OK);
    }
    DRIVE_UNTIL(&left, &right, num_placed == num_taken() && accepted->packets == 1);
    assert_int_equal(tcp->packets->flush(dialled->conn, &flushes[0].completion), UCS_OK);
    close_pair();
}

/* Who sleeps once progress found nothing must have been told of what it completed. */
static void test_completion_counts(void **state)
{
    const uint64_t end = cw_clock_ns() + TIMEOUT_NS;
    struct link *dialled, *accepted;
    const struct parcel *last;
    unsigned i, times, events;

    (void)state;
    dialled = open_joined(2, &accepted);
    for (i = 0; i < 20; i++) {
        parcel_post(dialled, LARGE);
        last = &parcels[num_parcels - 1];
        while (last->wait.times == 0) {
            times  = last->wait.times;
            events = step(&left);
            assert_true(last->wait.times == times || events > 0);
            step(&right);
            assert_true(cw_clock_ns() < end);
        }
    }
    close_pair();
}

static int raw_join(const struct node *node, uint64_t id, const uint8_t *token)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t bytes[CW_TCP_GREETING_SIZE + CW_TCP_PASS_SIZE];
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct cw_tcp_address address;

    assert_null(cw_tcp_address_decode(node->address, node->address_length, &address));
    name.sin_port = htons(address.port);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    cw_tcp_greeting_encode(bytes, CW_TCP_JOIN, CW_TCP_PASS_SIZE, address.key);
    id = htole64(id);
    memcpy(bytes + CW_TCP_GREETING_SIZE, &id, sizeof(id));
    memcpy(bytes + CW_TCP_GREETING_SIZE + sizeof(id), token, CW_TCP_TOKEN_SIZE);
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    return fd;
}

/* Whether the other side has closed without a word. */
static int shown_out(int fd)
{
    char byte;
    const ssize_t ret = recv(fd, &byte, 1, MSG_PEEK);

    assert_true(ret <= 0);
    return ret == 0 || errno != EAGAIN;
}

/* Strangers who want to join: turned away with a line in the log, and the connection does not notice. */
static void test_wrong_token(void **state)
{
    struct link *dialled, *accepted;
    uint8_t token[CW_TCP_TOKEN_SIZE];
    uint64_t id;
    unsigned i;
    int fd;

    (void)state;
    dialled = open_joined(2, &accepted);
    id      = tcp_conn(accepted)->rails->id;
    cw_log_set_interceptor(count_lines);
    for (i = 0; i < CW_TCP_TOKEN_SIZE; i += 5) {
        memcpy(token, tcp_conn(accepted)->rails->token, sizeof(token));
        token[i] ^= 1;
        log_lines = 0;
        fd        = raw_join(&right, id, token);
        DRIVE_UNTIL(&left, &right, shown_out(fd));
        assert_int_equal(log_lines, 1);
        close(fd);
        token[i] ^= 1;
        fd = raw_join(&right, id + ((i % 2) ? 1 : UINT64_C(1) << 32), token);
        DRIVE_UNTIL(&left, &right, shown_out(fd));
        close(fd);
        fd = raw_join(&left, id, token); /* a dialled connection has no number here */
        DRIVE_UNTIL(&left, &right, shown_out(fd));
        close(fd);
    }
    cw_log_set_interceptor(NULL);
    assert_int_equal(tcp_of(&right)->num_strangers, 0);
    assert_int_equal(joined(accepted), 1);
    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, num_placed == 2);
    assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
    close_pair();
}

/* Who knows the token: more sockets than there is room for are turned away; ordinary packets do not travel on them. */
static void test_peer_breaks_rules(void **state)
{
    int fds[CW_TCP_MAX_JOINED], fd;
    uint8_t frame[CW_TCP_FRAME_HEADER + 12] = {0};
    struct link *dialled, *accepted;
    const struct cw_tcp_rails *rails;
    unsigned i;

    (void)state;
    dialled = open_joined(2, &accepted);
    rails   = tcp_conn(accepted)->rails;
    cw_log_set_interceptor(count_lines);
    for (i = 1; i < CW_TCP_MAX_JOINED; i++) {
        fds[i] = raw_join(&right, rails->id, rails->token);
        DRIVE_UNTIL(&left, &right, joined(accepted) == i + 1);
    }
    fd = raw_join(&right, rails->id, rails->token);
    DRIVE_UNTIL(&left, &right, shown_out(fd));
    close(fd);
    assert_int_equal(joined(accepted), CW_TCP_MAX_JOINED);
    cw_tcp_frame_encode(frame, CW_TCP_PACKET, 1, 12);
    assert_int_equal(send(fds[1], frame, sizeof(frame), MSG_NOSIGNAL), sizeof(frame));
    DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
    assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
    assert_int_equal(accepted->packets, 0);
    DRIVE_UNTIL(&left, &right, dialled->closed_status != UCS_INPROGRESS);
    cw_log_set_interceptor(NULL);
    for (i = 1; i < CW_TCP_MAX_JOINED; i++) {
        close(fds[i]);
    }
    close_pair();
}

/* Without descriptors nothing is joined, nobody notices, and everything travels on the first socket. */
static void test_no_descriptors(void **state)
{
    struct link *dialled, *accepted;
    struct rlimit old, tight;
    int spare;

    (void)state;
    dialled = open_pair(3, 3, &accepted);
    spare   = dup(0);
    close(spare);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight          = old;
    tight.rlim_cur = (rlim_t)spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    cw_log_set_interceptor(count_lines);
    log_lines = 0;
    parcel_post(dialled, LARGE);
    parcel_post(accepted, LARGE);
    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, num_placed == 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    cw_log_set_interceptor(NULL);
    assert_int_equal(log_lines, 0);
    assert_int_equal(joined(dialled) + joined(accepted), 0);
    assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
    close_pair();
}

/* A further socket that is not in use owns no buffers and leaves the hot set. */
static void test_idle(void **state)
{
    struct link *dialled, *accepted;
    const struct cw_tcp_conn *socket;
    unsigned i;

    (void)state;
    dialled = open_joined(2, &accepted);
    socket  = tcp_conn(accepted)->rails->sockets[0];
    for (i = 0; i < CW_TCP_MAX_FRUITLESS + 1; i++) {
        step(&right);
    }
    assert_false(socket->is_hot);
    assert_true(socket->tx == NULL && socket->rx_frame == NULL && socket->place == NULL && socket->greeting == NULL);
    assert_null(tcp_conn(dialled)->rails->sockets[0]->greeting);
    close_pair();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_joins),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_blocked),
        cmocka_unit_test(test_completion_counts),
        cmocka_unit_test(test_wrong_token),
        cmocka_unit_test(test_peer_breaks_rules),
        cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
