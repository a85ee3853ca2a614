/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Many connections by shared memory: those on which nothing comes are not polled any more, and nothing is lost by
 * that (shm_idle.c). The clock is the test's, so nobody waits.
 */
#include <poll.h>
#include <sys/socket.h>

#include "os/segment.h"
#include "os/unix_socket.h"
#include "test_shm.h"

#define SECOND UINT64_C(1000000000)
#define MANY   20u

/* One end of all connections; entry i of each is the other end of entry i. */
struct node {
    struct side side;
    struct cw_conn *conns[MANY];
    unsigned num_conns;
    unsigned num_opened;
    unsigned num_closed;
    unsigned num_room;
    uint64_t sent[MANY];
    uint64_t received[MANY];
};

static uint64_t now_ns = SECOND;

uint64_t cw_clock_ns(void)
{
    return now_ns;
}

static struct node *node_of(struct cw_conn *conn)
{
    return conn->iface->owner;
}

static unsigned number_of(struct cw_conn *conn)
{
    return (unsigned)(uintptr_t)conn->user;
}

static void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct node *node = node_of(conn);
    uint64_t number;

    (void)id;
    assert_true(length >= sizeof(number));
    memcpy(&number, data, sizeof(number));
    assert_int_equal(number, node->received[number_of(conn)]++); /* each once and in its turn */
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    struct node *node = owner;

    (void)hello;
    (void)hello_length;
    (void)reply;
    node->conns[node->num_conns] = conn;
    conn->user = (void *)(uintptr_t)node->num_conns++;
    *reply_length = 0;
    return UCS_OK;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)reply;
    (void)reply_length;
    assert_int_equal(status, UCS_OK);
    node_of(conn)->num_opened++;
}

static void on_room(struct cw_conn *conn)
{
    node_of(conn)->num_room++;
}

static void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    assert_int_equal(status, UCS_ERR_CONNECTION_RESET);
    node_of(conn)->num_closed++;
}

static const struct cw_upcalls upcalls = {
    .packet = on_packet, .accept = on_accept, .opened = on_opened, .space = on_room, .closed = on_closed};

static struct node hub, far;

static void node_new(struct node *node, int wakeup)
{
    memset(node, 0, sizeof(*node));
    side_open(&node->side, 1024, 16, wakeup, &upcalls, node);
}

static void progress(struct node *node)
{
    cw_shm_transport.progress(node->side.iface);
    side_progress(&node->side);
}

static void both_progress(void)
{
    progress(&hub);
    progress(&far);
}

/* Connections 0 to count - 1, dialled by `far` one after the other. */
static void meet(unsigned count, int wakeup)
{
    unsigned i;

    node_new(&hub, wakeup);
    node_new(&far, 0);
    while (far.num_conns < count) {
        side_dial(&far.side, &hub.side, (void *)(uintptr_t)far.num_conns, &far.conns[far.num_conns]);
        far.num_conns++;
        for (i = 0; i < 1000 && far.num_opened < far.num_conns; i++) {
            both_progress();
        }
    }
    assert_int_equal(hub.num_conns, count);
}

static void node_free(struct node *node)
{
    unsigned i;

    for (i = 0; i < node->num_conns; i++) {
        cw_shm_transport.connect->close_conn(node->conns[i]);
    }
    side_close(&node->side);
}

static int part(void **state)
{
    (void)state;
    node_free(&far);
    node_free(&hub);
    return 0;
}

static struct shm_conn *conn_of(struct node *node, unsigned i)
{
    return cw_container_of(node->conns[i], struct shm_conn, super);
}

static unsigned num_hot(const struct node *node)
{
    return cw_container_of(node->side.iface, struct shm_iface, super)->num_hot;
}

static ucs_status_t say(struct node *from, unsigned i)
{
    const uint64_t zeros[64] = {0};
    ucs_status_t status;

    status = cw_shm_transport.packets->send_short(from->conns[i], 1, from->sent[i], zeros, (from->sent[i] % 3) * 8);
    from->sent[i] += status == UCS_OK;
    return status;
}

static void rest(void)
{
    unsigned i;

    for (i = 0; i < 6; i++) {
        now_ns += SECOND / 10;
        both_progress();
    }
}

TEST_WITH(few_are_always_polled, NULL, part)
{
    meet(8, 0);
    rest();
    assert_int_equal(num_hot(&hub), 8);
    assert_int_equal(say(&far, 3), UCS_OK);
    cw_shm_transport.progress(hub.side.iface);
    assert_int_equal(hub.received[3], 1);
}

TEST_WITH(idle_ones_are_not_polled_until_a_packet_comes, NULL, part)
{
    unsigned i;

    meet(MANY, 0);
    assert_int_equal(num_hot(&hub), MANY);
    rest();
    assert_int_equal(num_hot(&hub), 0);
    for (i = 0; i < MANY; i++) {
        assert_int_equal(say(&far, i), UCS_OK);
        assert_int_equal(say(&far, i), UCS_OK);
        cw_shm_transport.progress(hub.side.iface); /* without a check of the sockets */
        assert_int_equal(hub.received[i], 2);
        assert_int_equal(num_hot(&hub), i + 1);
    }
    rest();
    assert_int_equal(num_hot(&hub), 0);
    for (i = 0; i < 100; i++) {         /* and again, in another order */
        assert_int_equal(say(&far, i * 7 % MANY), UCS_OK);
        assert_int_equal(say(&hub, i * 3 % MANY), UCS_OK);
        now_ns += SECOND / 40;
        both_progress();
    }
    both_progress();
    assert_memory_equal(hub.received, far.sent, sizeof(far.sent));
    assert_memory_equal(far.received, hub.sent, sizeof(hub.sent));
}

TEST_WITH(busy_ones_are_always_polled, NULL, part)
{
    unsigned i;

    meet(MANY, 0);
    for (i = 0; i < 40; i++) {
        assert_int_equal(say(&far, 5), UCS_OK);
        cw_shm_transport.progress(hub.side.iface);
        assert_int_equal(hub.received[5], i + 1);
        now_ns += SECOND / 20;
        both_progress();
    }
    assert_int_equal(num_hot(&hub), 1);
}

/* The flag is set, but the peer checked it just before its packet was to be seen. */
TEST_WITH(a_packet_that_crosses_the_flag_is_found, NULL, part)
{
    struct shm_conn *conn;

    meet(MANY, 0);
    conn = conn_of(&far, 4);
    rest();
    assert_int_equal(say(&far, 4), UCS_OK);
    both_progress();
    while (conn_of(&hub, 4)->heat != SHM_COOLING) {
        now_ns += SECOND / 20;
        both_progress();
    }
    assert_int_equal(__atomic_exchange_n(&conn->tx.control->attention, 0, __ATOMIC_RELAXED), SHM_ATTENTION_COLD);
    assert_int_equal(say(&far, 4), UCS_OK); /* without a byte on the socket */
    cw_shm_transport.progress(hub.side.iface);
    assert_int_equal(hub.received[4], 2);
}

TEST_WITH(the_end_of_an_idle_one_is_noticed, NULL, part)
{
    meet(MANY, 0);
    rest();
    assert_int_equal(say(&far, MANY - 1), UCS_OK);
    cw_shm_transport.connect->close_conn(far.conns[--far.num_conns]);
    both_progress();
    both_progress();
    assert_int_equal(hub.received[MANY - 1], 1); /* what it had to say came before */
    assert_int_equal(hub.num_closed, 1);
    cw_shm_transport.connect->close_conn(hub.conns[--hub.num_conns]);
    rest();
    assert_int_equal(say(&far, 0), UCS_OK);
    both_progress();
    assert_int_equal(hub.received[0], 1);
}

TEST_WITH(an_idle_one_without_space_is_woken_when_there_is_some, NULL, part)
{
    meet(MANY, 0);
    rest();
    while (say(&hub, 2) == UCS_OK) {
    }
    assert_int_equal(num_hot(&hub), 1);
    rest();
    both_progress();
    assert_int_equal(far.received[2], hub.sent[2]);
    assert_true(hub.num_room > 0);
}

static struct shm_iface *iface_of_hub(void)
{
    return cw_container_of(hub.side.iface, struct shm_iface, super);
}

TEST_WITH(who_sleeps_is_woken_by_an_idle_one, NULL, part)
{
    struct pollfd fd;

    meet(MANY, 1);
    rest();
    assert_int_equal(num_hot(&hub), 0);
    assert_null(iface_of_hub()->arrivals);
    (void)cw_poller_check(hub.side.poller);
    fd = (struct pollfd){.fd = cw_poller_fd(hub.side.poller), .events = POLLIN};
    assert_int_equal(cw_shm_transport.arm(hub.side.iface), UCS_OK);
    assert_int_equal(poll(&fd, 1, 0), 0);
    now_ns += 100 * SECOND;
    assert_int_equal(poll(&fd, 1, 100), 0); /* no alarm of ours wakes it */
    assert_int_equal(say(&far, 6), UCS_OK);
    assert_int_equal(poll(&fd, 1, 10000), 1);
    progress(&hub);
    assert_int_equal(hub.received[6], 1);
}

/* Some peer has cleared the doorbells of the others. */
TEST_WITH(a_doorbell_that_was_cleared_costs_time_only, NULL, part)
{
    meet(MANY, 0);
    rest();
    assert_int_equal(num_hot(&hub), 0);
    assert_int_equal(say(&far, 9), UCS_OK);
    memset(iface_of_hub()->arrivals, 0, SHM_PAGE);
    cw_shm_transport.progress(hub.side.iface);
    assert_int_equal(hub.received[9], 0);
    now_ns += SECOND / 10;
    both_progress();
    both_progress();
    assert_int_equal(hub.received[9], 1);
}

/* Some peer sets all doorbells, also those of connections that have ended, and of none. */
TEST_WITH(a_doorbell_that_is_nobodys_is_passed_over, NULL, part)
{
    unsigned i;

    meet(MANY, 0);
    rest();
    cw_shm_transport.connect->close_conn(far.conns[--far.num_conns]);
    both_progress();
    cw_shm_transport.connect->close_conn(hub.conns[--hub.num_conns]);
    for (i = 0; i < 10; i++) {
        memset(iface_of_hub()->arrivals, 0xff, SHM_PAGE);
        assert_int_equal(say(&far, i), UCS_OK);
        cw_shm_transport.progress(hub.side.iface);
        assert_int_equal(hub.received[i], 1);
        rest();
    }
}

static bool takes(struct shm_conn *conn, uint32_t bell, int fd)
{
    return cw_shm_bell_take(conn, &bell, sizeof(bell), fd);
}

TEST_WITH(offers_that_cannot_be_are_not_taken, NULL, part)
{
    struct shm_conn *conn;
    void *page;
    int fd = -1;

    meet(1, 0); /* so few need no doorbells */
    conn = conn_of(&far, 0);
    assert_int_equal(cw_segment_create(2 * SHM_PAGE, SHM_PAGE, &fd, &page), UCS_OK);
    assert_true(takes(conn, 1, fd)); /* of another size */
    assert_null(conn->peer_arrivals);
    cw_segment_unmap(page, 2 * SHM_PAGE);
    cw_fd_close(fd);
    assert_int_equal(cw_segment_create(SHM_PAGE, SHM_PAGE, &fd, &page), UCS_OK);
    assert_false(takes(conn, 1, -1));
    assert_true(takes(conn, 0, fd));
    assert_true(takes(conn, 61 * 64, fd));
    assert_true(takes(conn, UINT32_MAX, fd));
    assert_null(conn->peer_arrivals);
    assert_true(takes(conn, 61 * 64 - 1, fd));
    assert_non_null(conn->peer_arrivals);
    assert_true(takes(conn, 5, fd)); /* the first one holds */
    assert_int_equal(conn->peer_bell, 61 * 64 - 1);
    assert_true(cw_shm_bell_set(conn));
    assert_int_equal(((unsigned char *)page)[SHM_PAGE - 1], 1);
    cw_segment_unmap(page, SHM_PAGE);
    cw_fd_close(fd);
}

/* A peer that sets what it likes and rings all the time. */
TEST_WITH(a_bad_peer_harms_itself_only, NULL, part)
{
    unsigned i, j;

    meet(MANY, 0);
    for (i = 0; i < 200; i++) {
        for (j = 0; j < MANY / 2; j++) {
            conn_of(&far, j)->tx.control->attention = i * 2654435761u;
            conn_of(&far, j)->rx.control->attention = i * 2246822519u;
            (void)send(conn_of(&far, j)->item.fd, "nonsense", i % 9, MSG_DONTWAIT | MSG_NOSIGNAL);
            (void)say(&hub, j);
        }
        assert_int_equal(say(&far, MANY - 1), UCS_OK);
        now_ns += SECOND / 30;
        both_progress();
        both_progress();
        assert_int_equal(hub.received[MANY - 1], i + 1);
    }
}
