/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What others may do to a TCP iface: connect and send anything, or nothing, or a valid handshake and then broken
 * frames, in pieces of any size; use up its descriptors. A raw socket plays the other side.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test_log_lines.h"
#include "test_random.h"
#include "test_tcp.h"

static const struct cw_transport *const tcp = &cw_tcp_transport;
/* Sleeps on the poller as a program does, and progresses only when it was woken. */
#define sleep_until(node, condition)                                                        \
    do {                                                                                    \
        const uint64_t sleep_end = cw_clock_ns() + TIMEOUT_NS;                              \
        while (!(condition)) {                                                              \
            if (cw_tcp_transport.arm((node)->iface) == UCS_OK && !cw_poller_check((node)->poller)) { \
                assert_int_equal(cw_poller_wait((node)->poller, 5000), UCS_OK);             \
            }                                                                               \
            step(node);                                                                     \
            assert_true(cw_clock_ns() < sleep_end);                                         \
        }                                                                                   \
    } while (0)

static int raw_connect(const struct node *node)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct cw_tcp_address address;
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_null(cw_tcp_address_decode(node->address, node->address_length, &address));
    name.sin_port = htons(address.port);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void raw_send(int fd, const void *bytes, size_t length)
{
    assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* Whether the other side has closed. */
static int raw_ended(int fd)
{
    char byte;
    const ssize_t ret = recv(fd, &byte, 1, MSG_PEEK);

    return ret == 0 || (ret < 0 && errno != EAGAIN);
}

/* Says hello as a dialler would and takes the answer. */
static int raw_open(struct node *node, struct link **link_p)
{
    uint8_t bytes[CW_TCP_HANDSHAKE_SIZE + 5];
    const unsigned before = node->num_links;
    const int fd = raw_connect(node);
    size_t have = 0;
    ssize_t ret;

    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, 5, tcp_of(node)->key);
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, "hello", 5);
    raw_send(fd, bytes, sizeof(bytes));
    while (have < CW_TCP_HANDSHAKE_SIZE + node->answer_length) {
        step(node);
        ret = recv(fd, bytes, sizeof(bytes), 0);
        assert_true(ret > 0 || (ret < 0 && errno == EAGAIN));
        have += (ret > 0) ? (size_t)ret : 0;
    }
    assert_int_equal(have, CW_TCP_HANDSHAKE_SIZE + node->answer_length);
    assert_int_equal(node->num_links, before + 1);
    *link_p = &node->links[before];
    return fd;
}

static void handshake(uint8_t *to, uint32_t magic, uint8_t version, uint8_t kind, uint16_t length, uint32_t key,
                      uint32_t reserved)
{
    const struct cw_tcp_handshake_header header = {htole32(magic),  version,      kind,
                                                   htole16(length), htole32(key), htole32(reserved)};

    memcpy(to, &header, sizeof(header));
}

/* Each wrong handshake costs its sender the connection, us one line, and changes nothing for others. */
static void test_wrong_handshakes(void **state)
{
    uint8_t wrong[8][CW_TCP_HANDSHAKE_SIZE];
    struct link *link, *dialled, *accepted;
    struct node node, other;
    unsigned i, links;
    int fd, good;

    (void)state;
    node_open(&node);
    node_open(&other);
    good = raw_open(&node, &link);
    dialled = connect_nodes(&other, &node, &accepted);
    links = node.num_links;
    memcpy(wrong[0], "GET / HTTP/1.1\r\n", 16);
    memset(wrong[1], 0xff, 16);
    handshake(wrong[2], CW_TCP_MAGIC, CW_TCP_VERSION + 1, CW_TCP_HELLO, 0, tcp_of(&node)->key, 0);
    handshake(wrong[3], CW_TCP_MAGIC, CW_TCP_VERSION, CW_TCP_ACCEPTED, 0, tcp_of(&node)->key, 0);
    handshake(wrong[4], CW_TCP_MAGIC, CW_TCP_VERSION, CW_TCP_HELLO, CW_HELLO_MAX + 1, tcp_of(&node)->key, 0);
    handshake(wrong[5], CW_TCP_MAGIC, CW_TCP_VERSION, CW_TCP_HELLO, 0, tcp_of(&node)->key + 1, 0);
    handshake(wrong[6], CW_TCP_MAGIC, CW_TCP_VERSION, CW_TCP_HELLO, 0, tcp_of(&node)->key, 1);
    memset(wrong[7], 0, 16);
    log_count_begin();
    for (i = 0; i < 8; i++) {
        log_lines = 0;
        fd = raw_connect(&node);
        raw_send(fd, wrong[i], 16);
        DRIVE_UNTIL(&node, &other, raw_ended(fd));
        assert_int_equal(log_lines, 1);
        close(fd);
    }
    fd = raw_connect(&node); /* found out at once, without waiting for a whole handshake */
    raw_send(fd, "SSH", 3);
    DRIVE_UNTIL(&node, &other, raw_ended(fd));
    close(fd);
    log_count_end();
    assert_int_equal(tcp_of(&node)->num_unauth, 0);
    assert_int_equal(node.num_links, links);
    assert_int_equal(tcp->packets->send_short(dialled->conn, 1, 0, NULL, 0), UCS_OK);
    DRIVE_UNTIL(&node, &other, accepted->packets == 1);
    assert_false(raw_ended(good) && link->closed_status == UCS_INPROGRESS);
    close(good);
    node_close(&node);
    node_close(&other);
}

static void test_random_bytes(void **state)
{
    uint8_t bytes[600];
    struct node node;
    unsigned round, i;
    size_t length;
    int fd;

    (void)state;
    random_state = 2;
    node_open(&node);
    log_count_begin();
    for (round = 0; round < 400; round++) {
        length = 1 + next_random() % sizeof(bytes);
        random_bytes(bytes, length);
        if (round % 2) {
            cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, next_random() % CW_HELLO_MAX, tcp_of(&node)->key);
            i = (unsigned)next_random() % (CW_TCP_HANDSHAKE_SIZE - 2); /* one bit beside a valid one, the length apart
                                                                          */
            bytes[(i < 6) ? i : i + 2] ^= (uint8_t)(1 << next_random() % 8);
        }
        fd = raw_connect(&node);
        raw_send(fd, bytes, length);
        shutdown(fd, SHUT_WR);
        DRIVE_UNTIL(&node, &node, raw_ended(fd));
        close(fd);
    }
    assert_true(log_lines <= 10 * (CW_LOG_LIMIT_PER_SECOND + 1)); /* they took less than 10 s */
    log_count_end();
    assert_int_equal(node.num_links, 0);
    node_close(&node);
}

/* A hello that comes byte by byte is as good as one in one piece; one that stops is dropped when its time is over. */
static void test_slow_and_silent(void **state)
{
    uint8_t bytes[CW_TCP_HANDSHAKE_SIZE + 5];
    struct cw_tcp_conn *unauth;
    struct node node;
    int slow, silent, early;
    unsigned i;

    (void)state;
    node_open(&node);
    cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, 5, tcp_of(&node)->key);
    memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, "hello", 5);
    silent = raw_connect(&node);
    slow = raw_connect(&node);
    early = raw_connect(&node);
    for (i = 0; i < sizeof(bytes); i++) {
        assert_int_equal(node.num_links, 0);
        raw_send(slow, bytes + i, 1);
        drive_for_ms(&node, &node, 1);
    }
    DRIVE_UNTIL(&node, &node, node.num_links == 1);
    assert_int_equal(tcp_of(&node)->num_unauth, 2);
    raw_send(early, bytes, 17);
    close(early);
    DRIVE_UNTIL(&node, &node, tcp_of(&node)->num_unauth == 1);
    log_count_begin();
    unauth = cw_list_head(&tcp_of(&node)->unauth, struct cw_tcp_conn, link);
    assert_in_range(unauth->handshake->deadline_ns, cw_clock_ns(), cw_clock_ns() + CW_TCP_HELLO_TIMEOUT_NS);
    assert_in_range(tcp_of(&node)->hello_deadline.at_ns, cw_clock_ns(), unauth->handshake->deadline_ns);
    cw_poller_alarm_set(node.poller, &tcp_of(&node)->hello_deadline, cw_clock_ns()); /* too early for this one */
    sleep_until(&node, tcp_of(&node)->hello_deadline.at_ns == unauth->handshake->deadline_ns);
    assert_false(raw_ended(silent));
    unauth->handshake->deadline_ns = cw_clock_ns(); /* ten seconds later */
    cw_poller_alarm_set(node.poller, &tcp_of(&node)->hello_deadline, unauth->handshake->deadline_ns);
    sleep_until(&node, raw_ended(silent));
    assert_false(cw_alarm_is_set(&tcp_of(&node)->hello_deadline));
    assert_int_equal(log_lines, 1);
    log_count_end();
    close(silent);
    close(slow);
    node_close(&node);
}


/* Frames arrive whole wherever the stream is cut. */
static void test_split_everywhere(void **state)
{
    uint8_t bytes[200], *expected = NULL;
    size_t length = 0, expected_length = 0, cut;
    static const size_t sizes[] = {0, 1, 8, 40, 3};
    struct node node;
    struct link *link;
    unsigned i;
    int fd;

    (void)state;
    for (i = 0; i < 5; i++) {
        cw_tcp_frame_encode(bytes + length, CW_TCP_PACKET, (uint8_t)(i + 1), sizes[i]);
        memset(bytes + length + CW_TCP_FRAME_HEADER, (int)('a' + i), sizes[i]);
        put_packet(&expected, &expected_length, (uint8_t)(i + 1), bytes + length + CW_TCP_FRAME_HEADER, sizes[i]);
        length += CW_TCP_FRAME_HEADER + sizes[i];
    }
    node_open(&node);
    fd = raw_open(&node, &link);
    for (cut = 0; cut <= length; cut++) {
        link->length = link->packets = 0;
        if (cut > 0) {
            raw_send(fd, bytes, cut);
            drive_for_ms(&node, &node, 1);
        }
        if (cut < length) {
            assert_true(link->packets < 5);
            raw_send(fd, bytes + cut, length - cut);
        }
        DRIVE_UNTIL(&node, &node, link->packets == 5);
        assert_int_equal(link->length, expected_length);
        assert_memory_equal(link->bytes, expected, expected_length);
        assert_null(tcp_conn(link)->rx_frame);
    }
    link->length = link->packets = 0;
    for (cut = 0; cut < length; cut++) { /* and one by one */
        raw_send(fd, bytes + cut, 1);
        drive_for_ms(&node, &node, 1);
    }
    DRIVE_UNTIL(&node, &node, link->packets == 5);
    assert_memory_equal(link->bytes, expected, expected_length);
    test_free(expected);
    close(fd);
    node_close(&node);
}

static void test_broken_frames(void **state)
{
    static const uint8_t broken[][CW_TCP_FRAME_HEADER] = {
        {1, 0, 1, 0, 1, 0, 0, 0},             /* one byte over the bound */
        {0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0}, /* far over it */
        {0, 0, 0, 0x80, 1, 0, 0, 0},          /* negative to whoever takes it for signed */
        {4, 0, 0, 0, 1, 1, 0, 0},             /* reserved bytes */
        {4, 0, 0, 0, 1, 0, 0, 0x80},
        {24, 0, 0, 0, 0, 3, 0, 0},            /* one of versions before */
        {16, 0, 0, 0, 1, 1, 32, 0},           /* placed, without payload: padding is none */
        {17, 0, 0x40, 0, 1, 1, 0, 0},         /* placed, one byte over the bound */
        {17, 0, 0, 0, 1, 1, 0, 1},
        {9, 0, 1, 0, 0, 2, 0, 0},             /* empty, one byte over the bound */
    };
    static const uint8_t empty[CW_TCP_FRAME_HEADER] = {8, 0, 0, 0, 0, 2};
    uint8_t padded[CW_TCP_FRAME_HEADER];
    struct cw_tcp_frame_header header;
    uint8_t good[CW_TCP_FRAME_HEADER + 4];
    struct node node;
    struct link *link;
    unsigned i;
    int fd;

    (void)state;
    node_open(&node);
    log_count_begin();
    memcpy(padded, empty, sizeof(padded)); /* it has no padding */
    assert_true(cw_tcp_frame_decode(padded, &header));
    padded[6] = 1;
    assert_false(cw_tcp_frame_decode(padded, &header));
    cw_tcp_frame_encode(good, CW_TCP_PACKET, 7, 4);
    memcpy(good + CW_TCP_FRAME_HEADER, "good", 4);
    for (i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
        log_lines = 0;
        fd = raw_open(&node, &link);
        raw_send(fd, good, sizeof(good));
        raw_send(fd, broken[i], CW_TCP_FRAME_HEADER);
        DRIVE_UNTIL(&node, &node, link->closed_status != UCS_INPROGRESS);
        assert_int_equal(link->closed_status, UCS_ERR_IO_ERROR);
        assert_int_equal(link->packets, 1); /* what came before counts */
        assert_int_equal(log_lines, 1);
        assert_int_equal(tcp->packets->send_short(link->conn, 1, 0, NULL, 0), UCS_ERR_IO_ERROR);
        assert_true(raw_ended(fd));
        close(fd);
    }
    log_count_end();
    node_close(&node);
}

/* Empty frames, as releases up to 1.0 send them at any time for their own ends, and as they may become. Returns their
 * length. */
static size_t put_empty_frames(uint8_t *bytes)
{
    static const size_t sizes[] = {16, 8, 0, 1, 300, 16};
    size_t length = 0, i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        cw_tcp_frame_encode(bytes + length, CW_TCP_EMPTY, 0, sizes[i]);
        memset(bytes + length + CW_TCP_FRAME_HEADER, (int)(0xff - i), sizes[i]);
        length += CW_TCP_FRAME_HEADER + sizes[i];
    }
    return length;
}

/* Empty frames are dropped: before the handshake is answered, and between and within packets wherever they are cut. */
static void test_empty_frames(void **state)
{
    static uint8_t longest[CW_TCP_FRAME_HEADER + CW_TCP_EMPTY_MAX];
    uint8_t bytes[1000];
    struct node node;
    struct link *link;
    size_t length, i;
    unsigned packets;
    int fd;

    (void)state;
    node_open(&node);
    for (i = 0; i < 2; i++) {
        fd = raw_connect(&node);
        cw_tcp_handshake_encode(bytes, CW_TCP_HELLO, 5, tcp_of(&node)->key);
        memcpy(bytes + CW_TCP_HANDSHAKE_SIZE, "hello", 5);
        length = CW_TCP_HANDSHAKE_SIZE + 5;
        length += put_empty_frames(bytes + length);
        cw_tcp_frame_encode(bytes + length, CW_TCP_PACKET, 7, 4);
        memcpy(bytes + length + CW_TCP_FRAME_HEADER, "good", 4);
        length += CW_TCP_FRAME_HEADER + 4;
        if (i == 0) {
            raw_send(fd, bytes, length);
        }
        for (packets = 0; i > 0 && packets < length; packets++) { /* one by one */
            raw_send(fd, bytes + packets, 1);
            step(&node);
        }
        DRIVE_UNTIL(&node, &node, node.num_links == i + 1 && node.links[i].packets == 1);
        link = &node.links[i];
        assert_int_equal(link->last_id, 7);
        cw_tcp_frame_encode(longest, CW_TCP_EMPTY, 0, CW_TCP_EMPTY_MAX);
        raw_send(fd, longest, sizeof(longest) / 2);
        drive_for_ms(&node, &node, 2);
        raw_send(fd, longest + sizeof(longest) / 2, sizeof(longest) - sizeof(longest) / 2);
        length = put_empty_frames(bytes);
        raw_send(fd, bytes, length);
        cw_tcp_frame_encode(bytes, CW_TCP_PACKET, 8, 4);
        raw_send(fd, bytes, CW_TCP_FRAME_HEADER + 4);
        DRIVE_UNTIL(&node, &node, link->packets == 2);
        assert_int_equal(link->last_id, 8);
        assert_null(tcp_conn(link)->rx_frame);
        assert_int_equal(link->closed_status, UCS_INPROGRESS);
        assert_true(recv(fd, bytes, sizeof(bytes), 0) == (ssize_t)(CW_TCP_HANDSHAKE_SIZE + node.answer_length));
        assert_true(recv(fd, bytes, 1, 0) < 0 && errno == EAGAIN); /* they have no answer */
        close(fd);
        DRIVE_UNTIL(&node, &node, link->closed_status != UCS_INPROGRESS);
    }
    node_close(&node);
}

/* The stream ends in the middle of a frame. */
static void test_cut_off(void **state)
{
    uint8_t frame[CW_TCP_FRAME_HEADER + 100] = {0};
    struct node node;
    struct link *link;
    size_t length;
    int fd;

    (void)state;
    node_open(&node);
    cw_tcp_frame_encode(frame, CW_TCP_PACKET, 7, 100);
    for (length = 1; length < sizeof(frame); length += 7) {
        fd = raw_open(&node, &link);
        raw_send(fd, frame, length);
        close(fd);
        DRIVE_UNTIL(&node, &node, link->closed_status != UCS_INPROGRESS);
        assert_int_equal(link->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(link->packets, 0);
        link_close(link);
        node.num_links = 0;
    }
    node_close(&node);
}

static uint8_t place[100];
static unsigned places;

static unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    (void)conn;
    (void)id;
    (void)header;
    assert_in_range(length, 1, sizeof(place));
    places++;
    memset(place, 0, sizeof(place));
    iov[0] = (struct iovec){place, length / 3};
    iov[1] = (struct iovec){place + length / 3, 0};
    iov[2] = (struct iovec){place + length / 3, length - length / 3};
    return 3;
}

static void on_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    struct link *link = conn->user;

    link->packets++;
    put_packet(&link->bytes, &link->length, id, header, CW_PLACE_HEADER);
    put_packet(&link->bytes, &link->length, id, place, length);
}

static const struct cw_upcalls placing_upcalls = {.packet = on_packet,
                                                  .accept = on_accept,
                                                  .opened = on_opened,
                                                  .place = on_place,
                                                  .placed = on_placed,
                                                  .space = on_room,
                                                  .closed = on_closed};

/* Writes one frame and how its arrival is written down. Returns its length. */
static size_t put_frame(uint8_t *to, int placed, uint8_t id, size_t payload, unsigned padding, uint8_t **expected,
                        size_t *expected_length)
{
    const size_t header = placed ? CW_PLACE_HEADER : 0;

    cw_tcp_frame_encode(to, placed ? CW_TCP_PLACED : CW_TCP_PACKET, id, header + payload);
    to[offsetof(struct cw_tcp_frame_header, padding)] = (uint8_t)padding;
    to += CW_TCP_FRAME_HEADER;
    memset(to, 'h', header);
    memset(to + header, 0xee, padding);
    memset(to + header + padding, 'a' + id, payload);
    if (placed) {
        put_packet(expected, expected_length, id, to, header);
    }
    put_packet(expected, expected_length, id, to + header + padding, payload);
    return CW_TCP_FRAME_HEADER + header + padding + payload;
}

/* Placed packets arrive whole wherever the stream is cut, and nothing of the padding does, which a peer of release 1.0
 * sends. */
static void test_placed_split_everywhere(void **state)
{
    static const size_t sizes[] = {5, 50, 1, 0, 70};
    static const unsigned padding[] = {9, CW_TCP_PADDING_MAX, 0, 3, 1};
    uint8_t bytes[600], *expected = NULL;
    size_t length = 0, expected_length = 0, cut;
    struct node node;
    struct link *link;
    unsigned i;
    int fd;

    (void)state;
    for (i = 0; i < 5; i++) {
        length += put_frame(bytes + length, i != 0 && i != 3, (uint8_t)(i + 1), sizes[i], padding[i], &expected,
                            &expected_length);
    }
    node_open(&node);
    node.iface->upcalls = &placing_upcalls;
    fd = raw_open(&node, &link);
    for (cut = 0; cut < length; cut++) {
        link->length = link->packets = 0;
        if (cut > 0) {
            raw_send(fd, bytes, cut);
            drive_for_ms(&node, &node, 1);
        }
        assert_true(link->packets < 5);
        raw_send(fd, bytes + cut, length - cut);
        DRIVE_UNTIL(&node, &node, link->packets == 5);
        assert_int_equal(link->length, expected_length);
        assert_memory_equal(link->bytes, expected, expected_length);
        assert_null(tcp_conn(link)->place);
    }
    link->length = link->packets = 0;
    for (cut = 0; cut < length; cut++) { /* and one by one */
        raw_send(fd, bytes + cut, 1);
        drive_for_ms(&node, &node, 1);
    }
    DRIVE_UNTIL(&node, &node, link->packets == 5);
    assert_memory_equal(link->bytes, expected, expected_length);
    test_free(expected);
    close(fd);
    node_close(&node);
}

/* A core without the upcalls takes no placed packets; a packet that is cut off is never reported. */
static void test_placed_in_vain(void **state)
{
    uint8_t frame[CW_TCP_PLACED_HEADER + 90], *expected = NULL;
    size_t expected_length = 0, length;
    struct node node;
    struct link *link;
    int fd;

    (void)state;
    (void)put_frame(frame, 1, 7, 70, 20, &expected, &expected_length);
    test_free(expected);
    node_open(&node);
    log_count_begin();
    fd = raw_open(&node, &link);
    raw_send(fd, frame, sizeof(frame));
    DRIVE_UNTIL(&node, &node, link->closed_status != UCS_INPROGRESS);
    assert_int_equal(link->closed_status, UCS_ERR_IO_ERROR);
    close(fd);
    log_count_end();
    node.iface->upcalls = &placing_upcalls;
    for (length = 1; length < sizeof(frame); length += 7) {
        places = 0;
        fd = raw_open(&node, &link);
        raw_send(fd, frame, length);
        close(fd);
        DRIVE_UNTIL(&node, &node, link->closed_status != UCS_INPROGRESS);
        assert_int_equal(link->closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(places, length >= CW_TCP_PLACED_HEADER);
        assert_int_equal(link->packets, 0);
        assert_null(tcp_conn(link)->place);
        link_close(link);
        node.num_links = 1;
    }
    node_close(&node);
}

/* Idle unauthenticated peers use up the descriptors: accepting pauses without spinning or flooding the log, and goes on
 * when one closes. */
static void test_no_descriptors(void **state)
{
    struct rlimit old, tight;
    struct node node, other;
    struct link *dialled;
    int fds[40], spare, i, opened = 0;
    unsigned work = 0;

    (void)state;
    node_open(&node);
    node_open(&other);
    for (i = 0; i < 40; i++) {
        fds[i] = raw_connect(&node); /* in the backlog of the kernel */
    }
    dialled = dial(&other, &node);
    spare = dup(0);
    close(spare);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    tight = old;
    tight.rlim_cur = (rlim_t)spare + 10;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    log_count_begin();
    drive_for_ms(&node, &node, 50);
    opened = (int)tcp_of(&node)->num_unauth;
    assert_in_range(opened, 5, 10);
    assert_true(tcp_of(&node)->paused);
    assert_true(cw_alarm_is_set(&tcp_of(&node)->accept_again));
    assert_int_equal(log_lines, 1);
    for (i = 0; i < 100; i++) {
        work += cw_poller_dispatch(node.poller);
    }
    assert_int_equal(work, 0);
    assert_false(cw_poller_check(node.poller)); /* a sleeping worker sleeps */
    assert_false(dialled->opened);
    for (i = 0; i < 40; i++) {
        close(fds[i]);
    }
    DRIVE_UNTIL(&node, &other, dialled->opened);
    assert_int_equal(dialled->opened_status, UCS_OK);
    log_count_end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    node_close(&node);
    node_close(&other);
}

/* Unauthenticated peers old enough make room for others. */
static void test_unauth_bounded(void **state)
{
    struct rlimit limit;
    struct node node;
    int *fds;
    unsigned i;
    const unsigned count = CW_TCP_MAX_UNAUTH + 10;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (limit.rlim_max < 4096) ? limit.rlim_max : 4096;
    if (limit.rlim_cur < 2 * count + 100 || setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        skip(); /* this machine does not grant that many descriptors */
    }
    node_open(&node);
    fds = test_calloc(count, sizeof(*fds));
    log_count_begin();
    for (i = 0; i < count; i++) {
        fds[i] = raw_connect(&node);
        step(&node);
    }
    DRIVE_UNTIL(&node, &node, raw_ended(fds[9]));
    for (i = 0; i < 10; i++) {
        assert_true(raw_ended(fds[i])); /* the oldest */
    }
    assert_false(raw_ended(fds[10]));
    assert_int_equal(tcp_of(&node)->num_unauth, CW_TCP_MAX_UNAUTH);
    log_count_end();
    for (i = 0; i < count; i++) {
        close(fds[i]);
    }
    test_free(fds);
    node_close(&node);
}

/* Somebody accepts our connection but is no worker. */
static void test_wrong_listener(void **state)
{
    static const char *const answers[] = {"HTTP/1.1 400 Bad Request\r\n", "", "CWTP\003\001\0\0................"};
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t name_length = sizeof(name);
    struct cw_tcp_address address;
    const int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct node node;
    struct link *link;
    unsigned i;
    int fd;

    (void)state;
    assert_int_equal(bind(server, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(listen(server, 10), 0);
    assert_int_equal(getsockname(server, (struct sockaddr *)&name, &name_length), 0);
    node_configure(&node);
    assert_int_equal(node_try_open(&node, "lo"), UCS_OK);
    assert_null(cw_tcp_address_decode(node.address, node.address_length, &address));
    address.port = ntohs(name.sin_port);
    address.listens = CW_TCP_LISTENS_IPV4;
    cw_tcp_address_encode(&address, node.address);
    for (i = 0; i < 3; i++) {
        link = dial(&node, &node);
        fd = accept(server, NULL, NULL);
        assert_true(fd >= 0);
        drive_for_ms(&node, &node, 5);
        assert_false(link->opened);
        raw_send(fd, answers[i], (i == 2) ? 24 : strlen(answers[i]));
        if (i == 1) {
            close(fd);
        }
        DRIVE_UNTIL(&node, &node, link->opened);
        assert_int_equal(link->opened_status, (i == 1) ? UCS_ERR_CONNECTION_RESET : UCS_ERR_UNREACHABLE);
        if (i != 1) {
            close(fd);
        }
    }
    close(server);
    node_close(&node);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_handshakes),   cmocka_unit_test(test_slow_and_silent),
        cmocka_unit_test(test_split_everywhere),  cmocka_unit_test(test_broken_frames),
        cmocka_unit_test(test_placed_split_everywhere), cmocka_unit_test(test_placed_in_vain),
        cmocka_unit_test(test_cut_off),           cmocka_unit_test(test_no_descriptors),
        cmocka_unit_test(test_empty_frames),
        cmocka_unit_test(test_unauth_bounded), cmocka_unit_test(test_wrong_listener),
        cmocka_unit_test(test_random_bytes), /* the last: it uses up the lines that the log allows */
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
