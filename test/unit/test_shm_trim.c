/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rings in shared memory take pages when they are used and give them back when they rest (shm_trim.c). The clock is the
 * test's, so nobody waits.
 */
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test_shm.h"

#define SECOND     UINT64_C(1000000000)
#define LARGE_PAGES (SHM_LARGE_BYTES / 4096)

struct node {
    struct side side;
    struct cw_conn *conn;
    int opened;
    uint64_t sent;
    uint64_t received;
    uint64_t wrong;             /* packets that came out of turn or damaged */
};

static uint64_t now_ns = SECOND;

uint64_t cw_clock_ns(void)
{
    return now_ns;
}

static void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct node *node = conn->user;
    uint64_t number;

    (void)id;
    memcpy(&number, data, sizeof(number));
    node->wrong += number != node->received || ((const char *)data)[length - 1] != (char)(length > 8 ? length : 0);
    node->received++;
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    struct node *node = owner;

    (void)hello;
    (void)hello_length;
    (void)reply;
    node->conn = conn;
    conn->user = node;
    *reply_length = 0;
    return UCS_OK;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)reply;
    (void)reply_length;
    assert_int_equal(status, UCS_OK);
    ((struct node *)conn->user)->opened = 1;
}

static void on_room(struct cw_conn *conn)
{
    (void)conn;
}

static void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    fail_msg("connection %p ended: %d", (void *)conn, status);
}

static const struct cw_upcalls upcalls = {
    .packet = on_packet, .accept = on_accept, .opened = on_opened, .space = on_room, .closed = on_closed};

static int wakeup;              /* of nodes that are made */

static void node_new(struct node *node)
{
    memset(node, 0, sizeof(*node));
    side_open(&node->side, 8256, 256, wakeup, &upcalls, node);
}

static void node_free(struct node *node)
{
    cw_shm_transport.connect->close_conn(node->conn);
    side_close(&node->side);
}

static void both_progress(struct node *a, struct node *b)
{
    side_progress(&a->side);
    side_progress(&b->side);
}

static size_t pack(void *dest, size_t max, void *arg)
{
    memset(dest, 0, max);
    memcpy(dest, arg, sizeof(uint64_t));
    ((char *)dest)[max - 1] = (char)((max > 8) ? max : 0);
    return max;
}

/* Packets of 8 bytes to the greatest, each in its turn; the last one has arrived in the end. */
static void talk(struct node *from, struct node *to, unsigned count)
{
    const size_t most = from->side.iface->limits.max_bcopy;
    unsigned i, rounds;
    size_t length;

    for (i = 0; i < count; i++) {
        length = (from->sent % 3 == 0) ? 8 : 9 + (size_t)(from->sent * 7919 % (most - 9));
        for (rounds = 0; cw_shm_transport.packets->send_bcopy(from->conn, 1, length, pack, &from->sent) != UCS_OK;
             rounds++) {
            assert_true(rounds < 100);
            both_progress(from, to);
        }
        from->sent++;
    }
    for (rounds = 0; rounds < 1000 && to->received < from->sent; rounds++) {
        both_progress(from, to);
    }
    assert_int_equal(to->received, from->sent);
    assert_int_equal(to->wrong, 0);
}

static unsigned pages_of(const struct node *node)
{
    const struct shm_conn *conn = cw_container_of(node->conn, struct shm_conn, super);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t num = conn->memory_size / page;
    unsigned char *present = calloc(num, 1);
    unsigned count = 0;
    size_t i;

    assert_int_equal(mincore(conn->memory, conn->memory_size, present), 0);
    for (i = 0; i < num; i++) {
        count += present[i] & 1;
    }
    free(present);
    return count;
}

static void rest(struct node *a, struct node *b)
{
    unsigned i;

    for (i = 0; i < 8; i++) {
        now_ns += 10 * SECOND;
        both_progress(a, b);
    }
}

static int is_strict(void)
{
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = '2';

    if (file != NULL) {
        mode = fgetc(file);
        fclose(file);
    }
    return mode == '2' || sysconf(_SC_PAGESIZE) != 4096;
}

static void connect_both(struct node *a, struct node *b)
{
    unsigned i;

    node_new(a);
    node_new(b);
    side_dial(&a->side, &b->side, a, &a->conn);
    for (i = 0; i < 1000 && !a->opened; i++) {
        both_progress(a, b);
    }
    assert_true(a->opened);
}

TEST(an_idle_connection_has_four_pages)
{
    struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

    if (is_strict()) {
        print_message("here all memory is reserved at once, or pages are large: skipped\n");
        skip();
    }
    connect_both(a, b);
    talk(a, b, 1);
    talk(b, a, 1);
    assert_in_range(pages_of(a), 1, 4);
    talk(a, b, 200);
    talk(b, a, 200);
    assert_in_range(pages_of(a), 40, 72); /* two small laps */
    rest(a, b);
    assert_in_range(pages_of(a), 1, 4);
    talk(a, b, 2000); /* a lap grows */
    assert_in_range(pages_of(a), 30, LARGE_PAGES + 44);
    talk(b, a, 2000);
    assert_in_range(pages_of(a), 60, 2 * LARGE_PAGES + 88);
    rest(a, b);
    assert_in_range(pages_of(a), 1, 4);
    node_free(a);
    node_free(b);
    free(a);
    free(b);
}

/* Whether the program would be woken. Timers run by the system's clock, by which this test's alarms are long due. */
static int is_woken(const struct node *node)
{
    struct pollfd fd = {.fd = cw_poller_fd(node->side.poller), .events = POLLIN};

    return poll(&fd, 1, 50);
}

/* Workers that may sleep give pages back as well, and are not woken for that. */
TEST(sleepers_give_pages_back_when_they_are_awake)
{
    struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));

    if (is_strict()) {
        print_message("here all memory is reserved at once, or pages are large: skipped\n");
        skip();
    }
    wakeup = 1;
    connect_both(a, b);
    wakeup = 0;
    talk(a, b, 200);
    talk(b, a, 200);
    assert_in_range(pages_of(a), 40, 72); /* two small laps */
    (void)cw_poller_check(a->side.poller); /* takes doorbells */
    assert_int_equal(cw_shm_transport.arm(a->side.iface), UCS_OK);
    assert_int_equal(is_woken(a), 0);
    rest(a, b);
    assert_in_range(pages_of(a), 1, 4);
    node_free(a);
    node_free(b);
    free(a);
    free(b);
}

static const struct shm_conn *conn_of(const struct node *node)
{
    return cw_container_of(node->conn, struct shm_conn, super);
}

/* A ring becomes large by use and small by rest or with the connection, and a worker has a few of them only. */
TEST(large_rings_are_few)
{
    struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
    struct shm_iface *iface;

    connect_both(a, b);
    iface = cw_container_of(a->side.iface, struct shm_iface, super);
    if (conn_of(a)->tx.most < SHM_LARGE_BYTES) {
        print_message("here all memory is reserved at once: skipped\n");
        skip();
    }
    talk(a, b, 100);
    assert_false(conn_of(a)->is_large);
    iface->num_large = 16; /* others have them */
    talk(a, b, 2000);
    assert_false(conn_of(a)->is_large);
    iface->num_large = 15;
    talk(a, b, 100);
    assert_true(conn_of(a)->is_large);
    assert_false(conn_of(b)->is_large);
    assert_int_equal(iface->num_large, 16);
    rest(a, b);
    assert_false(conn_of(a)->is_large);
    assert_int_equal(iface->num_large, 15);
    talk(a, b, 100); /* anew it has to be earned */
    assert_false(conn_of(a)->is_large);
    talk(a, b, 2000);
    assert_true(conn_of(a)->is_large);
    cw_shm_transport.connect->close_conn(a->conn);
    assert_int_equal(iface->num_large, 15);
    side_close(&a->side);
    node_free(b);
    free(a);
    free(b);
}

/* Also a ring that gave its pages back in the middle of a lap, and more than once. */
TEST(nothing_is_lost_by_it)
{
    struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
    unsigned i;

    connect_both(a, b);
    for (i = 0; i < 60; i++) {
        talk(a, b, 1 + i * 37 % 300 + (i % 10 == 4) * 1500);
        if (i % 3 == 0) {
            talk(b, a, 1 + i * 53 % 300);
        }
        if (i % 2 == 0) {
            rest(a, b);
        }
    }
    node_free(a);
    node_free(b);
    free(a);
    free(b);
}

/* Of a ring that the other side has not read nothing is taken away. */
TEST(unread_packets_stay)
{
    struct node *a = calloc(1, sizeof(*a)), *b = calloc(1, sizeof(*b));
    uint64_t number;
    unsigned i;

    connect_both(a, b);
    talk(a, b, 500);
    for (i = 0; i < 20; i++) {
        number = a->sent++;
        assert_int_equal(cw_shm_transport.packets->send_bcopy(a->conn, 1, 1000, pack, &number), UCS_OK);
    }
    for (i = 0; i < 10; i++) {
        now_ns += 10 * SECOND;
        side_progress(&a->side); /* the peer is stopped */
    }
    for (i = 0; i < 1000 && b->received < a->sent; i++) {
        both_progress(a, b);
    }
    assert_int_equal(b->received, a->sent);
    assert_int_equal(b->wrong, 0);
    talk(a, b, 500);
    node_free(a);
    node_free(b);
    free(a);
    free(b);
}
