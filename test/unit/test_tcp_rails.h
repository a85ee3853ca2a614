/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Harness of the tests of further sockets: two nodes and parcels, placed packets that are known by their numbers at
 * both ends. What is placed is compared, and nothing comes twice.
 */
#ifndef CW_TEST_UNIT_TEST_TCP_RAILS_H
#define CW_TEST_UNIT_TEST_TCP_RAILS_H

#include <errno.h>
#include <sys/socket.h>

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
static unsigned num_parcels, num_placed, num_asked, num_unplaced;

static inline int count_lines(const char *file, unsigned line, const char *function, enum cw_log_level level,
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

static inline uint8_t byte_of(unsigned number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + (at >> 8));
}

static inline unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
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

static inline void on_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
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

static inline void on_unplaced(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    const struct link *link = conn->user;
    struct parcel *parcel;
    uint64_t number;

    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    assert_int_equal(id, 10);
    memcpy(&number, header, sizeof(number));
    parcel = &parcels[number];
    assert_int_equal(length, parcel->length);
    assert_int_equal(parcel->asked--, 1);
    assert_int_equal(parcel->placed, 0);
    num_unplaced++;
}

static inline void on_numbered(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
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
                                               .seen   = on_seen,
                                               .place  = on_place,
                                               .placed = on_placed,
                                               .unplaced = on_unplaced,
                                               .room   = on_room,
                                               .closed = on_closed};

static inline void open_one(struct node *node, unsigned rails)
{
    node_configure(node);
    node->config.max_rndv_rails = rails;
    assert_int_equal(node_try_open(node, "lo"), UCS_OK);
    node->iface->upcalls                     = &rail_upcalls;
    tcp_of(node)->settings.joins_on_loopback = 1;
}

static inline struct link *open_pair(unsigned rails, unsigned other_rails, struct link **accepted_p)
{
    num_parcels = num_placed = num_asked = num_unplaced = 0;
    open_one(&left, rails);
    open_one(&right, other_rails);
    return connect_nodes(&left, &right, accepted_p);
}

static inline void close_pair(void)
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

static inline struct parcel *parcel_new(size_t length)
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

static inline ucs_status_t parcel_send(struct link *link, struct parcel *parcel)
{
    const uint64_t header[2] = {(uint64_t)(parcel - parcels), 0};
    struct iovec iov         = {parcel->from, parcel->length};
    const ucs_status_t status = tcp->packets->send_placed(link->conn, 10, header, &iov, 1, &parcel->wait.completion);

    parcel->taken = status == UCS_OK || status == UCS_INPROGRESS;
    if (status == UCS_OK) {
        parcel->wait.status = UCS_OK;
    }
    return status;
}

static inline void parcel_post(struct link *link, size_t length)
{
    struct parcel *parcel = parcel_new(length);
    ucs_status_t status;

    DRIVE_UNTIL(&left, &right, (status = parcel_send(link, parcel)) != CW_AGAIN);
    assert_true(parcel->taken);
}

/* How many further sockets are open at this end. */
static inline unsigned joined(struct link *link)
{
    const struct cw_tcp_rails *rails = tcp_conn(link)->rails;
    unsigned count = 0, i;

    for (i = 0; rails != NULL && i < CW_TCP_MAX_JOINED; i++) {
        count += rails->sockets[i] != NULL && rails->sockets[i]->state == CW_TCP_OPEN;
    }
    return count;
}

static inline struct link *open_joined(unsigned rails, struct link **accepted_p)
{
    struct link *dialled = open_pair(rails, rails, accepted_p);

    parcel_post(dialled, LARGE);
    DRIVE_UNTIL(&left, &right, num_placed == num_parcels && joined(dialled) == rails - 1 &&
                                   joined(*accepted_p) == rails - 1);
    return dialled;
}

/* Fills the further sockets, and the first one as well if asked to, of a peer that does not receive. */
static inline void block(struct link *link, int all)
{
    struct parcel *parcel;
    ucs_status_t status = UCS_OK;

    while (status != CW_AGAIN && (all || cw_tcp_rails_busy(tcp_conn(link)) == 0)) {
        parcel = parcel_new(LARGE);
        status = parcel_send(link, parcel);
        assert_true(parcel->taken || status == CW_AGAIN);
    }
}

static inline unsigned num_taken(void)
{
    unsigned count = 0, i;

    for (i = 0; i < num_parcels; i++) {
        count += (unsigned)parcels[i].taken;
    }
    return count;
}

static inline void kill_socket(const struct cw_tcp_conn *conn, int by_reset)
{
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};

    const int ret = by_reset ? connect(conn->item.fd, &nowhere, sizeof(nowhere)) : shutdown(conn->item.fd, SHUT_RDWR);

    assert_true(ret == 0 || errno == ENOTCONN); /* it may be dead already */
}

static inline struct cw_tcp_conn *any_rail(struct link *link)
{
    unsigned i = 0;

    while (tcp_conn(link)->rails->sockets[i] == NULL) {
        i++;
    }
    return tcp_conn(link)->rails->sockets[i];
}

/* Both ways, large ones, more than there are sockets. */
static inline void exchange(struct link *dialled, struct link *accepted)
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

#endif
