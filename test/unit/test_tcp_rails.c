/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Further sockets of a TCP connection: who opens them and when, what travels on them, and what happens when one is
 * missing, dies, or comes from somebody who does not know the token. Each placed packet is a parcel known by its number
 * at both ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_tcp.h"
#include "transport/tcp/tcp_rails.h"

#define PARCELS 64u
#define LARGE   CW_TCP_RAILS_PLACED

static const struct cw_transport *const tcp = &cw_tcp_transport;
static struct node left, right;
static unsigned log_lines;

struct parcel {
    struct wait wait;
    uint8_t *from;
    uint8_t *to;
    size_t length;
    int taken;
    int asked;
    int placed;
};

static struct parcel parcels[PARCELS];
static unsigned num_parcels, num_placed, num_asked;

static int count_lines(const char *file, unsigned line, const char *function, enum cw_log_level level,
                       const char *format, va_list args)
{
    (void)file;
    (void)line;
    (void)function;
    (void)format;
    (void)args;
    log_lines += level <= CW_LOG_WARN;
    return 1;
}

static uint8_t byte_of(unsigned number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    struct parcel *parcel;
    uint64_t number;

    assert_non_null(conn->user); /* the first socket's connection */
    assert_int_equal(id, 10);
    memcpy(&number, header, sizeof(number));
    assert_true(number < num_parcels);
    parcel = &parcels[number];
    assert_int_equal(length, parcel->length);
    assert_int_equal(parcel->asked++, 0);
    num_asked++;
    iov[0] = (struct iovec){parcel->to, length / 3};
    iov[1] = (struct iovec){parcel->to + length / 3, length - length / 3};
    return 2;
}

static void on_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    struct link *link = conn->user;
    struct parcel *parcel;
    uint64_t number;

    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    assert_int_equal(id, 10);
    memcpy(&number, header, sizeof(number));
    parcel = &parcels[number];
    assert_int_equal(parcel->placed++, 0);
    assert_memory_equal(parcel->from, parcel->to, length);
    num_placed++;
}

static void on_numbered(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct link *link = conn->user;
    uint64_t number;

    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    assert_true(id == 1 && length >= sizeof(number));
    memcpy(&number, data, sizeof(number));
    assert_int_equal(number, link->packets);
    link->packets++;
}

static const struct cw_upcalls rail_upcalls = {.packet = on_numbered,
                                               .accept = on_accept,
                                               .opened = on_opened,
                                               .place  = on_place,
                                               .placed = on_placed,
                                               .room   = on_room,
                                               .closed = on_closed};

static void open_one(struct node *node, unsigned rails)
{
    node_configure(node);
    node->config.max_rndv_rails = rails;
    assert_int_equal(node_try_open(node, "lo"), UCS_OK);
    node->iface->upcalls                     = &rail_upcalls;
    tcp_of(node)->settings.joins_on_loopback = 1;
}

static struct link *open_pair(unsigned rails, unsigned other_rails, struct link **accepted_p)
{
    num_parcels = num_placed = num_asked = 0;
    open_one(&left, rails);
    open_one(&right, other_rails);
    return connect_nodes(&left, &right, accepted_p);
}

static void close_pair(void)
{
    unsigned i;

    node_close(&left);
    node_close(&right);
    for (i = 0; i < num_parcels; i++) {
        assert_true(parcels[i].wait.times <= 1);
        test_free(parcels[i].from);
        test_free(parcels[i].to);
    }
}

static struct parcel *parcel_new(size_t length)
{
    struct parcel *parcel = &parcels[num_parcels];
    size_t i;

    assert_true(num_parcels < PARCELS);
    *parcel = (struct parcel){.wait = WAIT_INIT, .length = length};
    parcel->from = test_malloc(length);
    parcel->to   = test_calloc(1, length);
    for (i = 0; i < length; i++) {
        parcel->from[i] = byte_of(num_parcels, i);
    }
    num_parcels++;
    return parcel;
}

static ucs_status_t parcel_send(struct link *link, struct parcel *parcel)
{
    const uint64_t header[2] = {(uint64_t)(parcel - parcels), 0};
    struct iovec iov         = {parcel->from, parcel->length};
    const ucs_status_t status = tcp->send_placed(link->conn, 10, header, &iov, 1, &parcel->wait.completion);

    parcel->taken = status == UCS_OK || status == UCS_INPROGRESS;
    if (status == UCS_OK) {
        parcel->wait.status = UCS_OK;
    }
    return status;
}

static void parcel_post(struct link *link, size_t length)
{
    struct parcel *parcel = parcel_new(length);
    ucs_status_t status;

    DRIVE_UNTIL(&left, &right, (status = parcel_send(link, parcel)) != CW_AGAIN);
    assert_true(parcel->taken);
}

/* How many further sockets are open at this end. */
static unsigned joined(struct link *link)
{
    const struct cw_tcp_rails *rails = tcp_conn(link)->rails;
    unsigned count = 0, i;

    for (i = 0; rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        count += rails->sockets[i] != NULL && rails->sockets[i]->state == CW_TCP_OPEN;
    }
    return count;
}

static struct link *open_joined(unsigned rails, struct link **accepted_p)
{
    struct link *dialled = open_pair(rails, rails, accepted_p);

    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, num_placed == num_parcels && joined(dialled) == rails - 1 &&
                                   joined(*accepted_p) == rails - 1);
    return dialled;
}

/* Only large packets bring them, whichever side sends; the dialler opens them; no more than both want. */
static void test_who_joins(void **state)
{
    struct link *dialled, *accepted;
    unsigned i;

    (void)state;
    dialled = open_pair(3, 3, &accepted);
    assert_int_equal(left.iface->limits.max_placed, CW_TCP_RAILS_PLACED);
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
            while (rand() % 4 != 0 && tcp->send_short(ends[side]->conn, 1, sent[side], "abcd", 4) == UCS_OK) {
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

/* Fills the further sockets, and the first one as well if asked to, of a peer that does not receive. */
static void block(struct link *link, int all)
{
    struct parcel *parcel;
    ucs_status_t status = UCS_OK;

    while (status != CW_AGAIN && (all || cw_tcp_rails_busy(tcp_conn(link)) == 0)) {
        parcel = parcel_new(LARGE);
        status = parcel_send(link, parcel);
        assert_true(parcel->taken || status == CW_AGAIN);
    }
}

static unsigned num_taken(void)
{
    unsigned count = 0, i;

    for (i = 0; i < num_parcels; i++) {
        count += (unsigned)parcels[i].taken;
    }
    return count;
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
    assert_int_equal(tcp->send_short(dialled->conn, 1, 0, "free", 4), UCS_OK);
    assert_int_equal(tcp->flush(dialled->conn, &flushes[0].completion), UCS_INPROGRESS);
    block(dialled, 1);
    assert_non_null(tcp_conn(dialled)->tx);
    for (i = 1; i < CW_TCP_MAX_FLUSHES; i++) {
        assert_int_equal(tcp->flush(dialled->conn, &flushes[i].completion), UCS_INPROGRESS);
    }
    assert_int_equal(tcp->flush(dialled->conn, &flushes[i].completion), CW_AGAIN);
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
    assert_int_equal(tcp->flush(dialled->conn, &flushes[0].completion), UCS_OK);
    close_pair();
}

static void kill_socket(const struct cw_tcp_conn *conn, int by_reset)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    if (by_reset) {
        assert_int_equal(connect(conn->item.fd, &nowhere, sizeof(nowhere)), 0);
    } else {
        assert_int_equal(shutdown(conn->item.fd, SHUT_RDWR), 0);
    }
}

static struct cw_tcp_conn *any_rail(struct link *link)
{
    unsigned i = 0;

    while (tcp_conn(link)->rails->sockets[i] == NULL) {
        i++;
    }
    return tcp_conn(link)->rails->sockets[i];
}

/* Both ways, large ones, more than there are sockets. */
static void exchange(struct link *dialled, struct link *accepted)
{
    unsigned i;

    for (i = 0; i < 8; i++) {
        parcel_post((i & 1) ? dialled : accepted, LARGE - i);
    }
    DRIVE_UNTIL(&left, &right, num_placed == num_parcels);
    for (i = 0; i < num_parcels; i++) {
        DRIVE_UNTIL(&left, &right, parcels[i].wait.status == UCS_OK);
    }
}

/* A further socket on which nothing was under way is done without, and so is the last of them. */
static void test_one_dies_idle(void **state)
{
    struct link *dialled, *accepted, *killer;
    unsigned round, left_over;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(3, &accepted);
        for (left_over = 2; left_over-- > 0;) {
            exchange(dialled, accepted);
            killer = (round & 1) ? dialled : accepted;
            kill_socket(any_rail(killer), round & 2);
            if (round & 4) { /* nobody knows yet: these may meet the dead socket, which takes none of them */
                parcel_post(killer, LARGE);
                parcel_post((round & 2) ? ((round & 1) ? accepted : dialled) : killer, LARGE);
            }
            DRIVE_UNTIL(&left, &right, joined(dialled) == left_over && joined(accepted) == left_over);
            exchange(dialled, accepted);
            assert_int_equal(tcp->send_short(accepted->conn, 1, dialled->packets, "more", 4), UCS_OK);
            DRIVE_UNTIL(&left, &right, dialled->packets == 2 - left_over);
        }
        assert_int_equal(dialled->closed_status, UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_INPROGRESS);
        close_pair();
    }
}

/* Both sides see that numbers differ, and end the connection. */
static void test_one_dies_with_something(void **state)
{
    struct link *dialled, *accepted;
    struct cw_tcp_conn *rail;
    unsigned round;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(2, &accepted);
        rail    = any_rail((round & 1) ? dialled : accepted);
        if (round & 2) {
            rail->first->rails->counts[rail->slot].sent++;
        } else {
            rail->first->rails->counts[rail->slot].taken--;
        }
        kill_socket(any_rail((round & 4) ? dialled : accepted), round & 1);
        DRIVE_UNTIL(&left, &right,
                    dialled->closed_status != UCS_INPROGRESS && accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
        close_pair();
    }
}

/* At any moment: either both sides go on, and then everything arrives, or both end, and every send is told. */
static void test_one_dies_any_time(void **state)
{
    unsigned round, step_no, when, posted, lived = 0, i;
    struct link *dialled, *accepted;

    (void)state;
    srand(11);
    for (round = 0; round < 60; round++) {
        dialled = open_joined(4, &accepted);
        when    = (unsigned)rand() % 60;
        for (step_no = posted = 0; step_no <= 60 || posted < 12; step_no++) {
            if (step_no == when && any_rail(dialled)->state == CW_TCP_OPEN) {
                kill_socket(any_rail((round & 1) ? dialled : accepted), round & 2);
            }
            if (rand() % 4 == 0 && posted < 12) {
                (void)parcel_send((posted & 1) ? dialled : accepted, parcel_new(1 + (size_t)rand() % LARGE));
                posted++;
            }
            step((rand() % 2) ? &left : &right);
        }
        DRIVE_UNTIL(&left, &right,
                    (num_placed == num_taken() && joined(dialled) == 2 && joined(accepted) == 2) ||
                        (dialled->closed_status != UCS_INPROGRESS && accepted->closed_status != UCS_INPROGRESS));
        for (i = 0; i < num_parcels; i++) {
            DRIVE_UNTIL(&left, &right, !parcels[i].taken || parcels[i].wait.status != UCS_INPROGRESS);
        }
        lived += dialled->closed_status == UCS_INPROGRESS;
        close_pair();
    }
    print_message("%u of %u connections went on\n", lived, round);
    assert_true(lived > 0);
}

/* What a peer may tell of further sockets: once for each, of slots that there are, of the right length, on the first
 * socket. */
static void test_peer_tells_wrong(void **state)
{
    static const struct {
        size_t length;
        uint8_t slot;
        uint8_t reserved;
        uint8_t times;
    } rows[] = {{24, CW_TCP_MAX_JOINED, 0, 1}, {24, 255, 0, 1}, {24, 0, 1, 1}, {24, 3, 0, 2}, {23, 0, 0, 1}};
    uint8_t frame[CW_TCP_FRAME_HEADER + 24];
    struct link *dialled, *accepted;
    struct cw_tcp_rail_body body;
    unsigned row, i;

    (void)state;
    cw_log_set_interceptor(count_lines);
    for (row = 0; row <= sizeof(rows) / sizeof(rows[0]); row++) {
        dialled = (row == sizeof(rows) / sizeof(rows[0])) ? open_pair(1, 1, &accepted) : open_joined(2, &accepted);
        i       = row % (sizeof(rows) / sizeof(rows[0]));
        body    = (struct cw_tcp_rail_body){.slot = rows[i].slot, .reserved = {rows[i].reserved}};
        cw_tcp_frame_encode(frame, CW_TCP_RAIL, 0, rows[i].length);
        memcpy(frame + CW_TCP_FRAME_HEADER, &body, sizeof(body));
        for (i = rows[i].times; i > 0; i--) {
            assert_int_equal(send(tcp_conn(dialled)->item.fd, frame, CW_TCP_FRAME_HEADER + sizeof(body), MSG_NOSIGNAL),
                             sizeof(frame));
        }
        DRIVE_UNTIL(&left, &right, accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(accepted->closed_status, UCS_ERR_IO_ERROR);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
}

/* One socket ends with something on it, or the first: the connection as a whole does, once, at both ends, and no place
 * is written to afterwards. */
static void test_one_dies(void **state)
{
    struct link *dialled, *accepted, *ends[2];
    static uint8_t copy[LARGE];
    struct cw_tcp_conn *victim;
    unsigned round, i;

    (void)state;
    for (round = 0; round < 8; round++) {
        dialled = open_joined(3, &accepted);
        ends[0] = dialled;
        ends[1] = accepted;
        block(dialled, 1);
        DRIVE_UNTIL(&left, &right, num_asked >= 2);
        victim = tcp_conn(ends[round & 1]);
        victim = (round & 2) ? victim->rails->sockets[1] : victim;
        kill_socket(victim, round & 4);
        DRIVE_UNTIL(&left, &right,
                    dialled->closed_status != UCS_INPROGRESS && accepted->closed_status != UCS_INPROGRESS);
        assert_int_equal(dialled->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(accepted->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(joined(dialled) + joined(accepted), 0);
        assert_int_equal(tcp->send_short(dialled->conn, 1, 0, NULL, 0), UCS_ERR_CONNECTION_RESET);
        for (i = 0; i < num_parcels; i++) {
            assert_true(!parcels[i].taken || parcels[i].wait.status != UCS_INPROGRESS);
            memset(parcels[i].to, 0x5a, parcels[i].length);
        }
        drive_for_ms(&left, &right, 5);
        memset(copy, 0x5a, sizeof(copy));
        for (i = 0; i < num_parcels; i++) {
            assert_memory_equal(parcels[i].to, copy, parcels[i].length);
        }
        close_pair();
    }
}

/* What was taken and completed before close_conn arrives, on whichever socket it is, before `closed`. */
static void test_close(void **state)
{
    struct link *dialled, *accepted, *from, *to;
    unsigned round, i, sent;

    (void)state;
    for (round = 0; round < 20; round++) {
        dialled = open_joined(2 + round % 3, &accepted);
        from    = (round & 1) ? dialled : accepted;
        to      = (round & 1) ? accepted : dialled;
        for (i = 0; i < 6; i++) {
            (void)parcel_send(from, parcel_new(1 + (round * 7919u + i * 65537u) % LARGE));
        }
        if (round & 2) {
            (void)parcel_send(to, parcel_new(LARGE)); /* on its way to who closes */
            (void)parcel_send(to, parcel_new(LARGE));
        }
        for (sent = 0; sent < 50 && tcp->send_short(from->conn, 1, sent, "last", 4) == UCS_OK; sent++) {
        }
        for (i = 0; i < round / 4; i++) {
            step(&left);
            step(&right);
        }
        if (to->closed_status == UCS_INPROGRESS) {
            link_close(from);
        }
        DRIVE_UNTIL(&left, &right, to->closed_status != UCS_INPROGRESS);
        assert_int_equal(to->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(to->packets, sent);
        for (i = 1; i < 7; i++) {
            assert_true(!parcels[i].taken || parcels[i].wait.status != UCS_OK || parcels[i].placed);
        }
        link_close(to);
        DRIVE_UNTIL(&left, &right, tcp_of(&left)->num_lingering + tcp_of(&right)->num_lingering == 0);
        close_pair();
    }
}

/* A dialler that closes while its further sockets are being opened. */
static void test_close_early(void **state)
{
    struct link *dialled, *accepted;
    unsigned round, i;

    (void)state;
    cw_log_set_interceptor(count_lines);
    log_lines = 0;
    for (round = 0; round < 12; round++) {
        dialled = open_pair(4, 4, &accepted);
        (void)parcel_send(dialled, parcel_new(LARGE));
        for (i = 0; i < round / 2; i++) {
            step(&left);
            step(&right);
        }
        link_close((round & 1) ? dialled : accepted);
        dialled = (round & 1) ? accepted : dialled;
        DRIVE_UNTIL(&left, &right, dialled->closed_status != UCS_INPROGRESS);
        drive_for_ms(&left, &right, 2);
        assert_int_equal(tcp_of(&right)->num_strangers, 0);
        close_pair();
    }
    cw_log_set_interceptor(NULL);
    assert_int_equal(log_lines, 0);
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
        cmocka_unit_test(test_who_joins),      cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_blocked),        cmocka_unit_test(test_one_dies),
        cmocka_unit_test(test_close),          cmocka_unit_test(test_close_early),
        cmocka_unit_test(test_wrong_token),    cmocka_unit_test(test_peer_breaks_rules),
        cmocka_unit_test(test_no_descriptors), cmocka_unit_test(test_idle),
        cmocka_unit_test(test_one_dies_idle),  cmocka_unit_test(test_one_dies_with_something),
        cmocka_unit_test(test_one_dies_any_time), cmocka_unit_test(test_peer_tells_wrong),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
