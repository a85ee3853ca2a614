/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failing allocations in the TCP transport: each allocation of a whole life (open, connect, stream both ways, close)
 * fails once in turn, and all of them fail for a while. A call may say so; nothing that was taken is lost, nothing is
 * leaked, nothing crashes.
 */
#include <errno.h>
#include <malloc.h>

#include "test_tcp.h"
#include "test_log_lines.h"

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL 1
#else
#define CAN_FAIL 0
#endif

#define PACKETS 60u
#define TINY    4608u

static long countdown = -1; /* allocations that still succeed; negative: all do */
static int fail_all;
static long allocated;      /* blocks */

#if CAN_FAIL
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static int fails(void)
{
    if (fail_all || countdown == 0) {
        countdown = -1;
        errno = ENOMEM;
        return 1;
    }
    countdown -= countdown > 0;
    return 0;
}

void *malloc(size_t size)
{
    void *memory = fails() ? NULL : __libc_malloc(size);

    allocated += memory != NULL;
    return memory;
}

void *calloc(size_t count, size_t size)
{
    void *memory = fails() ? NULL : __libc_calloc(count, size);

    allocated += memory != NULL;
    return memory;
}

void *realloc(void *memory, size_t size)
{
    void *moved = fails() ? NULL : __libc_realloc(memory, size);

    allocated += memory == NULL && moved != NULL;
    return moved;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    void *memory = fails() ? NULL : __libc_memalign(alignment, size);

    allocated += memory != NULL;
    return memory;
}

void free(void *memory)
{
    allocated -= memory != NULL;
    __libc_free(memory);
}
#endif

struct counter {
    struct cw_completion completion;
    unsigned done;
};

static void counter_done(struct cw_completion *completion, ucs_status_t status)
{
    assert_true(status == UCS_OK || status == UCS_ERR_CANCELED);
    cw_container_of(completion, struct counter, completion)->done++;
}

/* The upcalls of the harness write packets down, which allocates; these only check the order. */
static void on_ordered_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct link *link = conn->user;
    uint64_t first;

    assert_true(length >= sizeof(first));
    memcpy(&first, data, sizeof(first));
    assert_int_equal(first, link->packets);
    assert_int_equal(id, (uint8_t)link->packets);
    link->packets++;
}

static unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    static uint8_t place[60000];

    (void)conn;
    (void)id;
    (void)header;
    assert_int_equal(length, sizeof(place));
    iov[0] = (struct iovec){place, length};
    return 1;
}

static void on_ordered_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    (void)length;
    on_ordered_packet(conn, id, header, CW_PLACE_HEADER);
}

static const struct cw_upcalls ordered_upcalls = {.packet = on_ordered_packet,
                                                  .accept = on_accept,
                                                  .opened = on_opened,
                                                  .place = on_place,
                                                  .placed = on_ordered_placed,
                                                  .space = on_room,
                                                  .closed = on_closed};

static size_t pack_number(void *dest, size_t max, void *arg)
{
    memset(dest, 'p', max);
    memcpy(dest, arg, sizeof(uint64_t));
    return max;
}

static ucs_status_t send_number(struct link *link, uint64_t number, struct counter *counter)
{
    static uint8_t memory[60000];
    const uint64_t header[CW_PLACE_HEADER / sizeof(uint64_t)] = {number};
    struct iovec iov = {memory, sizeof(memory)};

    switch (number % 4) {
    case 0:
        return cw_tcp_transport.packets->send_short(link->conn, (uint8_t)number, number, memory, 2048);
    case 1:
        return cw_tcp_transport.packets->send_bcopy(link->conn, (uint8_t)number, 8192, pack_number, &number);
    case 2:
        return cw_tcp_transport.packets->send_zcopy(link->conn, (uint8_t)number, &number, sizeof(number), &iov, 1,
                                           &counter->completion);
    default:
        return cw_tcp_transport.packets->send_placed(link->conn, (uint8_t)number, header, &iov, 1,
                                                     &counter->completion);
    }
}

static void node_prepare(struct node *node)
{
    node_configure(node);
    node->config.tcp_sndbuf = TINY;
    node->config.tcp_rcvbuf = TINY;
}

/* Streams in both directions at once; `shortage`: in the middle nothing can be allocated for a while. */
static void stream(struct node *left, struct node *right, struct link *dialled, struct link *accepted, int shortage)
{
    struct counter counter = {{counter_done}, 0};
    unsigned sent[2] = {0, 0}, taken = 0, side, turn = 0;
    struct link *ends[2] = {dialled, accepted};
    const uint64_t deadline_ns = cw_clock_ns() + TIMEOUT_NS;
    ucs_status_t status;

    while (dialled->packets < PACKETS || accepted->packets < PACKETS) {
        fail_all = shortage && turn >= 100 && turn < 400;
        turn++;
        for (side = 0; side < 2; side++) {
            status = (sent[side] < PACKETS) ? send_number(ends[side], sent[side], &counter) : CW_AGAIN;
            assert_true(status == UCS_OK || status == UCS_INPROGRESS || status == CW_AGAIN);
            sent[side] += status != CW_AGAIN;
            taken += status == UCS_INPROGRESS;
        }
        step(left);
        step(right);
        assert_true(cw_clock_ns() < deadline_ns);
    }
    fail_all = 0;
    while (counter.done < taken) {
        step(left);
        step(right);
    }
}

/* One life. Returns 0 when an allocation failed in a place that may report it. */
static int life(int shortage)
{
    static struct node nodes[2];
    struct node *left = &nodes[0], *right = &nodes[1];
    struct link *dialled;
    int complete = 0;

    node_prepare(left);
    node_prepare(right);
    if (node_try_open(left, "lo") != UCS_OK) {
        return 0;
    }
    if (node_try_open(right, "lo") != UCS_OK) {
        goto close_left;
    }
    left->iface->upcalls = right->iface->upcalls = &ordered_upcalls;
    dialled = new_link(left);
    if (cw_tcp_transport.connect->dial(left->iface, right->address, right->address_length, "hello", 5, dialled,
                              &dialled->conn) != UCS_OK) {
        goto close_right;
    }
    DRIVE_UNTIL(left, right, dialled->opened);
    if (dialled->opened_status == UCS_OK) {
        stream(left, right, dialled, &right->links[0], shortage);
        complete = 1;
    }
close_right:
    node_close(right);
close_left:
    node_close(left);
    return complete;
}

TEST(test_each_fails_once)
{
    long fail_at, before, complete = 0;

    if (!CAN_FAIL) {
        skip(); /* allocation cannot be intercepted here */
    }
    log_count_begin();
    assert_true(life(0));
    before = allocated;
    for (fail_at = 0;; fail_at++) {
        assert_true(fail_at < 100000);
        countdown = fail_at;
        complete += life(0);
        if (countdown >= 0) {
            break; /* there are no more than that */
        }
        assert_int_equal(allocated, before);
    }
    countdown = -1;
    assert_true(fail_at > 10 && complete > 5);
    log_count_end();
}

TEST(test_shortage)
{
    if (!CAN_FAIL) {
        skip();
    }
    log_count_begin();
    assert_true(life(1));
    log_count_end();
}
