/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unauthenticated peers at the worker's Unix socket: wrong handshakes, memory that is not what they say, descriptors of
 * all sorts; and in the ring itself: impossible lengths, unknown packets, counters that run backwards. Only their own
 * connection is lost.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "hostile.h"
#include "transport/shm/shm.h"
#include "wire/packet.h"

enum { NUM_BYTES = 1 << 16, SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, MAX_FDS = 8 };

struct cw_hostile_conn {
    int fd;
    int memory_fd;
    void *memory;
    struct shm_tx tx;
    struct shm_rx rx;
};

/* -1: the listener's queue is full. */
static int try_dial(void)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t length;
    const char *entry = cw_server_entry(cw_shm_transport.wire_id, &length);
    uint64_t token;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), text;

    cw_check(fd >= 0 && length == 17); /* place, token, version */
    memcpy(&token, entry + 8, sizeof(token));
    text = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "causeway-%016llx", (unsigned long long)token);
    if (connect(fd, (const struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)text)) != 0) {
        cw_check(errno == EAGAIN);
        (void)close(fd);
        return -1;
    }
    return fd;
}

static int dial(void)
{
    const int fd = try_dial();

    cw_check(fd >= 0);
    return fd;
}

static void send_fds(int fd, const void *data, size_t length, const int *fds, unsigned num_fds)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {.bytes = {0}};
    struct iovec iov = {.iov_base = (void *)data, .iov_len = length};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    struct cmsghdr *header;

    if (num_fds > 0) {
        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
        header = CMSG_FIRSTHDR(&msg);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
        memcpy(CMSG_DATA(header), fds, num_fds * sizeof(int));
    }
    cw_check(sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)length);
}

static int new_memory(size_t size, int seals)
{
    int fd = memfd_create("unauthenticated", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cw_check(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    cw_check(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

/* A whole first message: handshake and hello. */
struct first {
    struct shm_handshake handshake;
    uint8_t hello[CW_HELLO_LENGTH];
};

_Static_assert(sizeof(struct first) == sizeof(struct shm_handshake) + CW_HELLO_LENGTH, "as it is sent");

static struct first good_first(void)
{
    struct cw_hello hello = cw_hostile_hello();
    struct first first = {.handshake = {.magic = {'C', 'W', 'S', '1'},
                                .version = SHM_VERSION,
                                .hello_length = CW_HELLO_LENGTH,
                                .first_bytes = NUM_BYTES,
                                .ring_bytes = NUM_BYTES,
                                .memory_size = shm_memory_size(NUM_BYTES)}};

    cw_hello_encode(&hello, first.hello);
    return first;
}

static int fd_ended(void *argument)
{
    char bytes[512];
    ssize_t got;

    while ((got = recv(*(int *)argument, bytes, sizeof(bytes), 0)) > 0) {
    }
    return got == 0 || errno != EAGAIN;
}

static int has_reply(void *argument)
{
    char byte;

    return recv(*(int *)argument, &byte, 1, MSG_PEEK) > 0;
}

static struct cw_hostile_conn *open_conn_with(struct first first)
{
    static struct cw_hostile_conn conn;
    const size_t size = first.handshake.memory_size;
    const int memory = new_memory(size, SEALS);
    struct shm_ring_control *control;
    struct shm_handshake reply;
    struct shm_place out, in;

    conn.fd = dial();
    conn.memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    cw_check(conn.memory != MAP_FAILED);
    send_fds(conn.fd, &first, sizeof(first), &memory, 1);
    conn.memory_fd = memory;
    control = ((struct shm_shared *)conn.memory)->rings;
    control[0].done = control[1].done = shm_position(1, 0);
    out = shm_place(conn.memory, NUM_BYTES, NUM_BYTES, 0);
    in = shm_place(conn.memory, NUM_BYTES, NUM_BYTES, 1);
    cw_shm_tx_init(&conn.tx, &out, 1);
    cw_shm_rx_init(&conn.rx, &in, 1);
    cw_server_until(has_reply, &conn.fd);
    cw_check(recv(conn.fd, &reply, sizeof(reply), 0) == sizeof(reply) && reply.accepted);
    return &conn;
}

static struct cw_hostile_conn *open_conn(void)
{
    return open_conn_with(good_first());
}

static void send_packet(struct cw_hostile_conn *conn, uint8_t id, const void *data, size_t length)
{
    cw_shm_tx_poll(&conn->tx);
    if (shm_has_space_known(&conn->tx, length)) {
        memcpy(shm_reserve(&conn->tx, length), data, length);
        shm_publish(&conn->tx, length, id);
    }
}

static int conn_ended(struct cw_hostile_conn *conn)
{
    return fd_ended(&conn->fd);
}

static void leave(struct cw_hostile_conn *conn)
{
    (void)munmap(conn->memory, shm_memory_size(NUM_BYTES));
    (void)close(conn->memory_fd);
    (void)close(conn->fd);
}

static const struct cw_hostile_ops ops = {
    .open = open_conn, .send = send_packet, .ended = conn_ended, .leave = leave};

/* Sends a first message with these descriptors, closes them, and waits until the server closes. */
static void must_close(const void *data, size_t length, const int *fds, unsigned num_fds)
{
    int fd;
    unsigned i;

    cw_log_mark();
    fd = dial();
    send_fds(fd, data, length, fds, num_fds);
    for (i = 0; i < num_fds; i++) {
        (void)close(fds[i]);
    }
    cw_server_until(fd_ended, &fd);
    (void)close(fd);
    cw_check_served(1);
    cw_sleep_ms(110); /* ten lines a second pass the log; each of these is to be counted */
}

static void shown_out_with_memory(struct first first, size_t size, int seals)
{
    int memory = new_memory(size, seals);

    must_close(&first, sizeof(first), &memory, 1);
}

static void wrong_sizes(void)
{
    static const struct {
        uint32_t first_bytes;
        uint32_t ring_bytes;
    } sizes[] = {{0, NUM_BYTES}, {64, NUM_BYTES}, {NUM_BYTES - 64, NUM_BYTES}, {2 * NUM_BYTES, NUM_BYTES},
                 {0xffffffff, NUM_BYTES}, {NUM_BYTES, 0}, {0, 0}, {NUM_BYTES, 3}, {NUM_BYTES, NUM_BYTES + 1},
                 {NUM_BYTES, 0x80000000}, {NUM_BYTES, 0xffffffff}, {SHM_MIN_BYTES, SHM_MIN_BYTES}};
    struct first first;
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        first = good_first();
        first.handshake.first_bytes = sizes[i].first_bytes;
        first.handshake.ring_bytes = sizes[i].ring_bytes;
        first.handshake.memory_size = shm_memory_size(sizes[i].ring_bytes);
        shown_out_with_memory(first, 4096, SEALS);
    }
    first = good_first();
    first.handshake.memory_size = UINT64_MAX;
    shown_out_with_memory(first, 4096, SEALS);
    first = good_first();
    first.handshake.memory_size = 0;
    shown_out_with_memory(first, 4096, SEALS);
}

static void wrong_memory(void)
{
    struct first first = good_first();
    const size_t size = first.handshake.memory_size;
    int fds[MAX_FDS];
    unsigned count, i;

    shown_out_with_memory(first, size, 0);                            /* could be shrunk later: SIGBUS */
    shown_out_with_memory(first, size, F_SEAL_GROW | F_SEAL_SEAL);
    shown_out_with_memory(first, size - 4096, SEALS);                 /* smaller than it says */
    shown_out_with_memory(first, size + 4096, SEALS);
    shown_out_with_memory(first, size, SEALS | F_SEAL_WRITE);         /* cannot be written */
    fds[0] = open("/dev/null", O_RDWR | O_CLOEXEC);
    must_close(&first, sizeof(first), fds, 1);
    fds[0] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    must_close(&first, sizeof(first), fds, 1);
    must_close(&first, sizeof(first), NULL, 0);
    fds[0] = memfd_create("unauthenticated", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fds[0] >= 0) { /* could be taken back later: SIGBUS */
        must_close(&first, sizeof(first), fds, 1);
    }
    for (count = 2; count <= MAX_FDS; count++) {
        for (i = 0; i < count; i++) {
            fds[i] = new_memory(size, SEALS);
        }
        must_close(&first, sizeof(first), fds, count);
    }
}

/* A connection whose end would take a while: bytes that nobody takes, and the request to wait for them. */
static int slow_to_close(int listener)
{
    const struct linger wait = {.l_onoff = 1, .l_linger = 6};
    struct sockaddr_in name;
    socklen_t length = sizeof(name);
    static char bytes[1 << 16];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    cw_check(getsockname(listener, (struct sockaddr *)&name, &length) == 0);
    cw_check(fd >= 0 && connect(fd, (const struct sockaddr *)&name, length) == 0);
    cw_check(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)) == 0);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
    }
    cw_check(errno == EAGAIN);
    return fd;
}

/* Descriptors that nobody asked for, among them some that the system would not let go of at once. */
static void wrong_descriptors(void)
{
    const struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct first first = good_first();
    const size_t size = first.handshake.memory_size;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int fds[3];
    uint64_t start;

    cw_check(bind(listener, (const struct sockaddr *)&name, sizeof(name)) == 0 && listen(listener, 8) == 0);
    fds[0] = new_memory(size, SEALS);
    fds[1] = eventfd(0, EFD_CLOEXEC);
    must_close(&first, sizeof(first), fds, 2);
    start = cw_now_ns();
    fds[0] = slow_to_close(listener);
    must_close(&first, sizeof(first), fds, 1);
    fds[0] = new_memory(size, SEALS);
    fds[1] = slow_to_close(listener);
    fds[2] = slow_to_close(listener);
    must_close(&first, sizeof(first), fds, 3);
    cw_check(cw_now_ns() - start < UINT64_C(3000000000));
    first.handshake.sleeps = 255;
    shown_out_with_memory(first, size, SEALS);
    (void)close(listener);
}

/* Words of their process for direct copies, of which some are missing or lie across words. */
static void wrong_probes(void)
{
    static const uint64_t offers[][3] = {{4096, 0, 0}, {0, 1, 0}, {0, 0, 4096}, {4096, 1, 0}, {0, 1, 4096},
                                         {4096, 0, 4096}, {4097, 1, 4096}, {4096, 1, 4100}, {UINT64_MAX, 1, 4096}};
    struct first first;
    size_t i;

    for (i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
        first = good_first();
        first.handshake.probe_address = offers[i][0];
        first.handshake.probe = offers[i][1];
        first.handshake.target_address = offers[i][2];
        shown_out_with_memory(first, first.handshake.memory_size, SEALS);
    }
}

static void wrong_words(void)
{
    struct first first = good_first(), wrong;
    const size_t size = first.handshake.memory_size;
    char bytes[1024];
    size_t i;

    memset(bytes, 0xff, sizeof(bytes));
    must_close("GET / HTTP/1.1\r\n\r\n", 18, NULL, 0);
    must_close(bytes, sizeof(bytes), NULL, 0);
    must_close(bytes, sizeof(struct first), NULL, 0);
    for (i = 1; i < sizeof(first); i += 11) {
        must_close(&first, i, NULL, 0);
    }
    for (i = 0; i < 8; i++) { /* magic, version, length */
        wrong = first;
        ((char *)&wrong)[i] ^= 0x41;
        shown_out_with_memory(wrong, size, SEALS);
    }
    memcpy(bytes, &first, sizeof(first)); /* over-long */
    must_close(bytes, 1000, NULL, 0);
    wrong = first;
    wrong.hello[0] ^= 1;
    shown_out_with_memory(wrong, size, SEALS);
    wrong = first;
    wrong.hello[16] ^= 1; /* another worker's uid */
    shown_out_with_memory(wrong, size, SEALS);
}

CHILD_TEST(test_handshakes)
{
    cw_hostile_begin();
    wrong_words();
    wrong_sizes();
    wrong_memory();
    wrong_descriptors();
    wrong_probes();
    cw_hostile_end();
}

CHILD_TEST(test_silent)
{
    int silent[50];
    uint64_t end;
    unsigned i;

    cw_hostile_begin();
    cw_log_mark();
    end = cw_now_ns() + CW_SILENCE_NS;
    for (i = 0; i < 50; i++) {
        silent[i] = dial();
        cw_server_progress();
    }
    for (i = 0; i < 100 && cw_now_ns() < end; i++) {
        (void)close(dial()); /* comes and goes */
        leave(open_conn());
        cw_server_progress();
    }
    cw_check_served(0);
    for (i = 0; i < 50; i++) {
        (void)close(silent[i]);
    }
    cw_hostile_end();
}

/* More than may wait: the oldest are shown out, the youngest may still speak. */
CHILD_TEST(test_yield_policy)
{
    enum { MORE = 3, ALL = SHM_MAX_HANDSHAKES + MORE };
    static int silent[ALL];
    struct first first;
    unsigned i;
    int memory;

    cw_hostile_begin();
    first = good_first();
    memory = new_memory(first.handshake.memory_size, SEALS);
    cw_log_mark();
    for (i = 0; i < ALL; i++) {
        silent[i] = dial();
        cw_server_progress();
    }
    for (i = 0; i < MORE; i++) {
        cw_server_until(fd_ended, &silent[i]);
    }
    cw_check(!fd_ended(&silent[MORE]));
    send_fds(silent[MORE], &first, sizeof(first), &memory, 1);
    cw_server_until(has_reply, &silent[MORE]);
    cw_check_served(MORE);
    for (i = 0; i < ALL; i++) {
        (void)close(silent[i]);
    }
    (void)close(memory);
    cw_hostile_end();
}

/* Bytes that are wrong in each way, among them a hello that only the core can refuse. */
static int attempt(unsigned number)
{
    struct first first = good_first();
    int fd = try_dial(), memory;

    if (fd < 0) {
        return 0;
    }
    memory = new_memory(first.handshake.memory_size, SEALS);
    first.hello[16] ^= 1; /* the worker's uid */
    switch (number % 4) {
    case 0:
        (void)!send(fd, "GET / HTTP/1.1", 14, MSG_NOSIGNAL);
        break;
    case 1:
        break; /* goes without a word */
    case 2:
        first.handshake.version++;
        send_fds(fd, &first, sizeof(first), &memory, 1);
        break;
    default:
        send_fds(fd, &first, sizeof(first), &memory, 1);
        break;
    }
    (void)close(memory);
    if (number % 4 != 1) {
        (void)poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1); /* until it is closed */
    }
    (void)close(fd);
    return 1;
}

CHILD_TEST(test_flood)
{
    cw_hostile_flood(attempt);
}

CHILD_TEST(test_packets)
{
    cw_hostile_packets(&ops);
}

/* ---- the ring ---- */

/* Opens a connection whose next record to the server is the first of a lap in the head, or in the ring. */
static struct cw_hostile_conn *open_conn_in(int ring)
{
    struct cw_hostile_conn *conn = open_conn();

    cw_check(!ring || cw_shm_tx_turn(&conn->tx, 8));
    return conn;
}

CHILD_TEST(test_control_words)
{
    static const uint32_t lengths[] = {NUM_BYTES - 1, NUM_BYTES + 1, 2 * NUM_BYTES, 0x7fffffff, 0x80000000, 0xffffffff};
    struct cw_hostile_conn *conn;
    size_t i, line;
    int ring;

    cw_hostile_begin();
    for (ring = 0; ring < 2; ring++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]) - !ring; i++) { /* the head may end at its beginning */
            cw_log_mark();
            conn = open_conn_in(ring);
            __atomic_store_n(&conn->tx.base->word,
                             conn->tx.fast.stamp + ((uint64_t)lengths[i] << 16) + (CW_PACKET_TAG_EAGER << 8),
                             __ATOMIC_RELEASE);
            cw_server_until(fd_ended, &conn->fd);
            leave(conn);
            cw_check_served(1);
        }
        cw_log_mark(); /* short packets up to the end and beyond */
        conn = open_conn_in(ring);
        for (line = (ring ? NUM_BYTES : SHM_HEAD_BYTES) / SHM_LINE + 1; line > 0; line--) {
            __atomic_store_n(&conn->tx.base[line - 1].word,
                             conn->tx.fast.stamp + (8 << 16) + (CW_PACKET_CREDIT << 8), __ATOMIC_RELEASE);
        }
        cw_server_until(fd_ended, &conn->fd);
        leave(conn);
        cw_check_served(1);
    }
    cw_hostile_end();
}

/* A peer that takes its memory away while the server uses it: it cannot be cut off, and where it has holes there
 * are zeros. */
CHILD_TEST(test_memory_goes)
{
    const off_t size = (off_t)shm_memory_size(NUM_BYTES);
    char packet[100] = {0};
    struct cw_hostile_conn *conn;
    int round, i;

    cw_hostile_begin();
    for (round = 0; round < 20; round++) {
        cw_log_mark();
        conn = open_conn();
        cw_check(ftruncate(conn->memory_fd, 0) < 0 && errno == EPERM);
        for (i = 0; i < round; i++) {
            send_packet(conn, CW_PACKET_CLOSE + 100, packet, sizeof(packet));
        }
        cw_check(fallocate(conn->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (round % 2) ? 4096 : 0,
                           size) == 0);
        for (i = 0; i < 100; i++) {
            cw_server_progress();
        }
        leave(conn);
        for (i = 0; i < 10; i++) {
            cw_server_progress();
        }
        cw_check_served(1);
    }
    cw_hostile_end();
}

/* The server answers synchronous messages into a ring whose consumer publishes nonsense. Memory next to the ring would
 * show a sanitizer, or a crash, when it was written to. */
CHILD_TEST(test_counters)
{
    struct cw_wire_tag_sync header = {.tag = htole64(0x777), .sync_id = htole64(1)};
    ucp_request_param_t param = {.op_attr_mask = 0};
    struct shm_ring_control *back;
    struct cw_hostile_conn *conn;
    uint64_t seed = 99;
    int round, i;

    cw_hostile_begin();
    for (round = 0; round < 30; round++) {
        cw_log_mark();
        conn = open_conn();
        back = (struct shm_ring_control *)conn->memory + 1;
        for (i = 0; i < 300; i++) {
            back->done = (round % 2) ? cw_random(&seed) :
                         shm_position((uint32_t)(i % 3), (uint32_t)cw_random(&seed) % (2 * NUM_BYTES));
            back->consumer_sleeps = (uint32_t)cw_random(&seed);
            back->producer_waits = (uint32_t)cw_random(&seed);
            ((struct shm_ring_control *)conn->memory)->producer_waits = 1;
            header.sync_id = htole64(cw_random(&seed) | 1);
            send_packet(conn, CW_PACKET_TAG_SYNC, &header, sizeof(header));
            cw_server_progress();
            if (ucp_tag_probe_nb(cw_server.worker, 0x777, UINT64_MAX, 0, &(ucp_tag_recv_info_t){0}) != NULL) {
                cw_check(cw_party_wait(&cw_server, &cw_client, ucp_tag_recv_nbx(cw_server.worker, NULL, 0, 0x777,
                                                                                UINT64_MAX, &param)) == UCS_OK);
            }
        }
        leave(conn);
        for (i = 0; i < 10; i++) {
            cw_server_progress();
        }
        cw_check_served(1);
    }
    while (ucp_tag_probe_nb(cw_server.worker, 0x777, UINT64_MAX, 0, &(ucp_tag_recv_info_t){0}) != NULL) {
        (void)cw_party_wait(&cw_server, NULL, ucp_tag_recv_nbx(cw_server.worker, NULL, 0, 0x777, UINT64_MAX, &param));
    }
    cw_hostile_end();
}

/* Wants to be woken before each packet and takes none of the bytes that wake it: there is no room for more of them
 * soon, and the server goes on. */
CHILD_TEST(test_reads_no_wake_up)
{
    enum { ANSWERS = 3000 };
    struct cw_wire_tag_sync header = {.tag = htole64(0x777), .sync_id = htole64(1)};
    ucp_request_param_t param = {.op_attr_mask = 0};
    struct first first;
    struct shm_ring_control *back;
    struct cw_hostile_conn *conn;
    unsigned bytes = 0, i;
    uint64_t end, seen;
    char byte;

    cw_hostile_begin();
    cw_log_mark();
    first = good_first();
    first.handshake.sleeps = 1;
    conn = open_conn_with(first);
    back = (struct shm_ring_control *)conn->memory + 1;
    cw_check(fcntl(conn->fd, F_SETFL, 0) == 0);
    for (i = 1; i <= ANSWERS; i++) {
        back->attention = SHM_ATTENTION_SLEEPS;
        back->consumer_sleeps = 1;
        header.sync_id = htole64(i);
        send_packet(conn, CW_PACKET_TAG_SYNC, &header, sizeof(header));
        cw_check(cw_party_wait(&cw_server, &cw_client, ucp_tag_recv_nbx(cw_server.worker, NULL, 0, 0x777, UINT64_MAX,
                                                                        &param)) == UCS_OK);
        end = cw_now_ns() + UINT64_C(5000000000);
        while (back->consumer_sleeps != 0) {
            cw_server_progress();
            cw_check(cw_now_ns() < end);
        }
        while ((seen = shm_peek(&conn->rx)) != 0) {
            cw_check(cw_rx_length(seen) <= CW_LINE_DATA);
            (void)cw_rx_pop(&conn->rx.fast, seen);
        }
        cw_shm_rx_notify(&conn->rx);
    }
    while (recv(conn->fd, &byte, sizeof(byte), MSG_DONTWAIT) == 1) {
        bytes++;
    }
    cw_check(errno == EAGAIN && bytes > 10 && bytes < ANSWERS); /* it is connected still */
    leave(conn);
    cw_check_served(1);
    cw_hostile_end();
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
