/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Harness of the TCP transport's unit tests: nodes (an iface with its own poller) and links (a connection with what
 * arrived on it), driven from one thread. The upcalls check what the contract promises in any case: nothing before
 * open, nothing after closed.
 */
#ifndef CW_TEST_UNIT_TEST_TCP_H
#define CW_TEST_UNIT_TEST_TCP_H

#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/log.h"
#include "config/config.h"
#include "os/clock.h"
#include "test_tcp_bytes.h"
#include "transport/tcp/tcp_transport.h"
#include "transport/tcp/tcp.h"

#define TIMEOUT_NS  UINT64_C(20000000000)
#define MAX_LINKS   32

struct node;

struct link {
    struct node *node;
    struct cw_conn *conn;
    int opened;                 /* upcalls */
    ucs_status_t opened_status;
    ucs_status_t closed_status; /* UCS_INPROGRESS while open */
    unsigned rooms;
    unsigned packets;
    uint8_t last_id;
    uint8_t hello[CW_HELLO_MAX]; /* or reply */
    size_t hello_length;
    uint8_t *bytes;             /* all payloads behind each other, each preceded by its id and length, see put_packet */
    size_t length;
    int send_in_accept;         /* try to send from inside the upcalls */
    int echo;                   /* answer each packet by a short one from inside the upcall */
};

struct node {
    struct cw_config config;
    struct cw_poller *poller;
    struct cw_iface *iface;
    struct link links[MAX_LINKS]; /* accepted and dialled */
    unsigned num_links;
    ucs_status_t answer;        /* of accept */
    size_t answer_length;       /* of its reply, filled with 'r' */
    int try_send_in_accept;
    uint8_t address[CW_TCP_ADDRESS_MAX];
    size_t address_length;
};

struct wait {
    struct cw_completion completion;
    ucs_status_t status; /* UCS_INPROGRESS until done */
    unsigned times;
};

static inline void wait_done(struct cw_completion *completion, ucs_status_t status)
{
    struct wait *wait = cw_container_of(completion, struct wait, completion);

    wait->status = status;
    wait->times++;
}

#define WAIT_INIT {{wait_done}, UCS_INPROGRESS, 0}

static inline struct cw_tcp_iface *tcp_of(struct node *node)
{
    return cw_container_of(node->iface, struct cw_tcp_iface, super);
}

static inline struct cw_tcp_conn *tcp_conn(struct link *link)
{
    return cw_container_of(link->conn, struct cw_tcp_conn, super);
}

static inline void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct link *link = conn->user;
    ucs_status_t status;

    assert_non_null(link);
    assert_true(link->opened && link->opened_status == UCS_OK);
    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    link->packets++;
    link->last_id = id;
    put_packet(&link->bytes, &link->length, id, data, length);
    if (link->echo) {
        status = cw_tcp_transport.packets->send_short(conn, (uint8_t)(id + 1), link->packets, "echo", 4);
        assert_true(status == UCS_OK || status == CW_AGAIN || status == UCS_ERR_CONNECTION_RESET);
    }
}

static inline struct link *new_link(struct node *node)
{
    struct link *link = &node->links[node->num_links++];

    assert_true(node->num_links <= MAX_LINKS);
    memset(link, 0, sizeof(*link));
    link->node = node;
    link->closed_status = UCS_INPROGRESS;
    return link;
}

static inline ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length,
                                     void *reply, size_t *reply_length)
{
    struct node *node = owner;
    struct link *link;

    assert_null(conn->user);
    assert_true(*reply_length == CW_HELLO_MAX && node->answer_length <= CW_HELLO_MAX);
    memset(reply, 'r', node->answer_length);
    *reply_length = node->answer_length;
    if (node->answer != UCS_OK) {
        return node->answer;
    }
    link = new_link(node);
    memcpy(link->hello, hello, hello_length);
    link->hello_length = hello_length;
    link->conn = conn;
    link->opened = 1;
    conn->user = link;
    if (node->try_send_in_accept) {
        assert_int_equal(cw_tcp_transport.packets->send_short(conn, 9, 0, "x", 1), CW_AGAIN);
    }
    return UCS_OK;
}

static inline void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    struct link *link = conn->user;

    assert_false(link->opened);
    link->opened = 1;
    link->opened_status = status;
    link->hello_length = reply_length;
    if (reply_length > 0) {
        memcpy(link->hello, reply, reply_length);
    }
}

static inline void on_room(struct cw_conn *conn)
{
    struct link *link = conn->user;

    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    link->rooms++;
}

static inline void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    struct link *link = conn->user;

    assert_true(link->opened && link->opened_status == UCS_OK);
    assert_int_equal(link->closed_status, UCS_INPROGRESS);
    link->closed_status = status;
}

static const struct cw_upcalls upcalls = {.packet = on_packet, .accept = on_accept, .opened = on_opened,
                                          .space = on_room, .closed = on_closed};

/* The settings as read once. Nodes borrow the lists and texts in it. */
static inline const struct cw_config *default_config(void)
{
    static struct cw_config *config;

    if (config == NULL) {
        assert_int_equal(cw_config_read(NULL, NULL, &config), UCS_OK);
    }
    return config;
}

static inline void node_configure(struct node *node)
{
    memset(node, 0, sizeof(*node));
    node->config = *default_config();
    node->answer = UCS_OK;
    node->answer_length = 5;
}

static inline ucs_status_t node_try_open(struct node *node, const char *device)
{
    struct cw_device devices[16];
    struct cw_iface_params params = {
        .config = &node->config, .upcalls = &upcalls, .owner = node, .devices = devices, .wakeup = 1};
    static uint64_t uid = 0x1234567800000000u;
    ucs_status_t status;

    params.worker_uid = ++uid;
    if (device != NULL) {
        strcpy(devices[0].name, device);
        params.num_devices = 1;
    } else {
        params.num_devices = cw_tcp_transport.query_devices(&node->config, devices, 16);
        assert_in_range(params.num_devices, 1, 16);
    }
    status = cw_poller_new(1, &node->poller);
    if (status != UCS_OK) {
        return status;
    }
    params.poller = node->poller;
    status = cw_tcp_transport.open(&params, &node->iface);
    if (status != UCS_OK) {
        cw_poller_free(node->poller);
        return status;
    }
    node->address_length = cw_tcp_transport.address(node->iface, node->address, sizeof(node->address));
    assert_in_range(node->address_length, CW_TCP_ADDRESS_HEAD, CW_TCP_ADDRESS_MAX);
    return UCS_OK;
}

static inline void node_open(struct node *node)
{
    node_configure(node);
    assert_int_equal(node_try_open(node, NULL), UCS_OK);
}

static inline void link_close(struct link *link)
{
    if (link->conn != NULL) {
        cw_tcp_transport.connect->close_conn(link->conn);
        link->conn = NULL;
    }
}

static inline void node_close(struct node *node)
{
    unsigned i;

    for (i = 0; i < node->num_links; i++) {
        link_close(&node->links[i]);
        test_free(node->links[i].bytes);
    }
    cw_tcp_transport.close(node->iface);
    cw_poller_free(node->poller);
}

static inline unsigned step(struct node *node)
{
    return cw_tcp_transport.progress(node->iface) + cw_poller_dispatch(node->poller);
}

/* Drives two nodes (or one twice) until the condition holds. */
#define DRIVE_UNTIL(left, right, condition)                             \
    do {                                                                \
        const uint64_t drive_end = cw_clock_ns() + TIMEOUT_NS;          \
        while (!(condition)) {                                          \
            step(left);                                                 \
            step(right);                                                \
            assert_true(cw_clock_ns() < drive_end);                     \
        }                                                               \
    } while (0)

static inline void drive_for_ms(struct node *left, struct node *right, unsigned ms)
{
    const uint64_t end = cw_clock_ns() + ms * UINT64_C(1000000);

    while (cw_clock_ns() < end) {
        step(left);
        step(right);
    }
}

static inline struct link *dial(struct node *from, struct node *to)
{
    struct link *link = new_link(from);
    ucs_status_t status = cw_tcp_transport.connect->dial(from->iface, to->address, to->address_length, "hello", 5, link,
                                                         &link->conn);
    assert_int_equal(status, UCS_OK);
    return link;
}

/* A connection between two nodes; *accepted_p is the other end. */
static inline struct link *connect_nodes(struct node *from, struct node *to, struct link **accepted_p)
{
    const unsigned before = to->num_links + (from == to);
    struct link *link = dial(from, to);

    DRIVE_UNTIL(from, to, link->opened);
    assert_int_equal(link->opened_status, UCS_OK);
    assert_int_equal(to->num_links, before + 1);
    *accepted_p = &to->links[before];
    return link;
}

#endif
