/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two interfaces of the shared memory transport whose packets have different sizes.
 */
#include "test_shm.h"

/* An interface with one connection, dialled or accepted. */
struct node {
    struct side side;
    struct cw_conn *conn;
    ucs_status_t opened;        /* UCS_INPROGRESS until the upcall */
    size_t length;              /* of the last packet */
    uint64_t bad;               /* bytes of packets that are not as they were sent */
};

static size_t pack_pattern(void *dest, size_t max, void *arg)
{
    (void)arg;
    memset(dest, (int)(max & 0x7f), max);
    return max;
}

static void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    struct node *node = conn->user;
    size_t i;

    (void)id;
    node->length = length;
    for (i = 0; i < length; i++) {
        node->bad += bytes[i] != (length & 0x7f);
    }
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    struct node *node = owner;

    assert_true(hello_length == 5 && memcmp(hello, "hello", 5) == 0 && reply != NULL);
    node->conn = conn;
    node->opened = UCS_OK;
    conn->user = node;
    *reply_length = 0;
    return UCS_OK;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)reply;
    (void)reply_length;
    ((struct node *)conn->user)->opened = status;
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

static void node_new(struct node *node, size_t segment)
{
    *node = (struct node){.opened = UCS_INPROGRESS};
    side_open(&node->side, segment, 64, 0, &upcalls, node);
}

static void node_free(struct node *node)
{
    if (node->conn != NULL) {
        cw_shm_transport.connect->close_conn(node->conn);
    }
    side_close(&node->side);
}

static void both_progress(struct node *a, struct node *b)
{
    side_progress(&a->side);
    side_progress(&b->side);
}

/* What `from` calls its greatest packets arrive, again and again. */
static void send_greatest(struct node *from, struct node *to)
{
    size_t max = from->side.iface->limits.max_bcopy, length;
    unsigned i, rounds;

    for (i = 0; i < 40; i++) {
        length = max - i;
        for (rounds = 0; cw_shm_transport.packets->send_bcopy(from->conn, 1, length, pack_pattern, NULL) != UCS_OK;
             rounds++) {
            assert_true(rounds < 100);
            both_progress(from, to);
        }
        both_progress(from, to);
    }
    assert_int_equal(to->length, max - 39);
    assert_true(to->bad == 0);
}

static void dial(struct node *from, struct node *to)
{
    unsigned i;

    side_dial(&from->side, &to->side, from, &from->conn);
    for (i = 0; i < 1000 && from->opened == UCS_INPROGRESS; i++) {
        both_progress(from, to);
    }
    assert_int_not_equal(from->opened, UCS_INPROGRESS);
}

/* The ring is the dialler's. Where the acceptor's packets have room, all arrive in both directions, whoever's are
 * greater; where they have not, there is no connection rather than one that hangs or leaves the ring. */
TEST(sides_with_different_packet_sizes_agree_or_part)
{
    static const size_t sizes[] = {256, 1300, 1400, 8256, 20000, 1000000};
    struct node *dialler = calloc(1, sizeof(*dialler)), *acceptor = calloc(1, sizeof(*acceptor));
    unsigned opened = 0, i, j;

    for (i = 0; i < 6; i++) {
        for (j = 0; j < 6; j++) {
            node_new(dialler, sizes[i]);
            node_new(acceptor, sizes[j]);
            dial(dialler, acceptor);
            assert_true(dialler->opened == UCS_OK || j > i);
            if (dialler->opened == UCS_OK) {
                opened++;
                send_greatest(dialler, acceptor);
                send_greatest(acceptor, dialler);
            }
            node_free(dialler);
            node_free(acceptor);
        }
    }
    assert_in_range(opened, 21, 35);
    free(dialler);
    free(acceptor);
}
