/* SPDX-License-Identifier: BSD-3-Clause */
/* Sides, connections and the recording upcalls of the conformance suite; the rules are in rig.h. */
#include "rig.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "os/clock.h"
#include "os/random.h"
#include "stream.h"

static int inside_progress; /* upcalls are legal only then */
static int inside_close;    /* and completions then, too */
static struct cw_config *config;
static int peer_memory = 1;

const struct cw_config *cw_rig_config(void)
{
    return config;
}

int cw_rig_may_complete(void)
{
    return inside_progress || inside_close;
}

/* The rules that hold whatever the upcall is. */
static struct cw_end *upcall_begin(struct cw_conn *conn, const char *name)
{
    struct cw_end *end = conn->user;

    cw_check(inside_progress, "upcall %s came from outside of progress", name);
    if (!cw_check(end != NULL, "upcall %s on a connection without user", name) ||
        !cw_check(end->conn == conn, "upcall %s on a connection that was closed", name)) {
        return NULL;
    }
    cw_check(conn->iface == end->side->iface, "upcall %s on a connection of another interface", name);
    end->side->upcalls++;
    return end;
}

static void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    struct cw_end *end = upcall_begin(conn, "packet");

    if (end == NULL || !cw_check(end->opened && end->opened_status == UCS_OK, "a packet came before `opened`") ||
        !cw_check(!end->closed, "a packet came after `closed`")) {
        return;
    }
    end->packets++;
    if (end->receiving != NULL) {
        cw_stream_receive(end, id, data, length);
    }
    if (end->on_packet != NULL) {
        end->on_packet(end, id, data, length);
    }
}

static struct cw_end *end_new(struct cw_side *side)
{
    struct cw_end *end = calloc(1, sizeof(*end));

    if (end == NULL) {
        abort();
    }
    end->side = side;
    cw_list_add_tail(&side->ends, &end->link);
    return end;
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    struct cw_side *side = owner;
    struct cw_end *end;

    side->upcalls++;
    side->accepted++;
    side->reply_max = *reply_length;
    cw_check(inside_progress, "upcall accept came from outside of progress");
    cw_check(conn->iface == side->iface, "accept on a connection of another interface");
    cw_check(conn->user == NULL, "accept on a connection that has a user already");
    if (!cw_check(hello_length <= CW_HELLO_MAX, "a hello of %zu bytes came", hello_length) ||
        !cw_check(*reply_length >= side->reply.length, "only %zu bytes are left for the reply", *reply_length)) {
        return UCS_ERR_REJECTED;
    }
    memcpy(reply, side->reply.data, side->reply.length);
    *reply_length = side->reply.length;
    end = end_new(side);
    end->is_acceptor = 1;
    end->hello.length = hello_length;
    memcpy(end->hello.data, hello, hello_length);
    side->last_accepted = end;
    if (side->accept_status == UCS_OK) {
        end->conn = conn;
        end->opened = 1;
        end->sending = side->accept_sending;
        end->receiving = side->accept_receiving;
        conn->user = end;
        if (side->on_accept != NULL) {
            side->on_accept(end);
        }
    }
    return side->accept_status;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    struct cw_end *end = upcall_begin(conn, "opened");

    if (end == NULL || !cw_check(!end->opened, "`opened` came twice, or to an acceptor")) {
        return;
    }
    end->opened = 1;
    end->opened_status = status;
    cw_check(status == UCS_OK || UCS_STATUS_IS_ERR(status), "`opened` with status %d", status);
    if (status == UCS_OK || status == UCS_ERR_REJECTED) {
        if (!cw_check(reply_length <= CW_HELLO_MAX, "a reply of %zu bytes came", reply_length)) {
            return;
        }
        end->has_reply = (reply != NULL);
        end->reply.length = reply_length;
        if (reply_length > 0) {
            memcpy(end->reply.data, reply, reply_length);
        }
    } else {
        cw_check(reply == NULL, "a failed dial has a reply");
    }
    if (end->on_opened != NULL) {
        end->on_opened(end);
    }
}

static struct cw_end *placed_begin(struct cw_conn *conn, const char *name)
{
    struct cw_end *end = upcall_begin(conn, name);

    if (end == NULL || !cw_check(end->opened && end->opened_status == UCS_OK, "`%s` came before `opened`", name) ||
        !cw_check(!end->closed, "`%s` came after `closed`", name)) {
        return NULL;
    }
    return end;
}

static unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    struct cw_end *end = placed_begin(conn, "place");

    return (end != NULL && end->on_place != NULL) ? end->on_place(end, id, header, length, iov) : 0;
}

static void on_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    struct cw_end *end = placed_begin(conn, "placed");

    if (end != NULL && cw_check(end->on_placed != NULL, "`placed` came although `place` refuses")) {
        end->on_placed(end, id, header, length);
    }
}

static void on_room(struct cw_conn *conn)
{
    struct cw_end *end = upcall_begin(conn, "room");

    if (end == NULL || !cw_check(end->opened && end->opened_status == UCS_OK, "`room` came before `opened`")) {
        return;
    }
    end->rooms++;
    if (end->sending != NULL) {
        cw_stream_room(end);
    }
    if (end->on_room != NULL) {
        end->on_room(end);
    }
}

static void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    struct cw_end *end = upcall_begin(conn, "closed");

    if (end == NULL || !cw_check(!end->closed, "`closed` came twice") ||
        !cw_check(end->opened && end->opened_status == UCS_OK, "`closed` came on a connection that was not open")) {
        return;
    }
    cw_check(status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_IO_ERROR ||
             (status == UCS_ERR_ENDPOINT_TIMEOUT && (cw_subject.traits & CW_SUBJECT_NEEDS_WATCH)),
             "`closed` with status %d", status);
    end->closed = 1;
    end->closed_status = status;
    if (end->on_closed != NULL) {
        end->on_closed(end);
    }
}

static void on_receives_ran_out(void *owner)
{
    struct cw_side *side = owner;

    cw_check(inside_progress, "the end of receives is reported outside of progress");
    side->receives_ran_out++;
}

static const struct cw_upcalls upcalls = {.packet = on_packet,
                                          .accept = on_accept,
                                          .opened = on_opened,
                                          .place = on_place,
                                          .placed = on_placed,
                                          .space = on_room,
                                          .closed = on_closed,
                                          .receives_ran_out = on_receives_ran_out};

void cw_rig_allow_peer_memory(int allow)
{
    peer_memory = allow;
}

static uint8_t next_domain;

void cw_side_open(struct cw_side *side)
{
    const struct cw_transport *transport = cw_subject.transport;
    struct cw_iface_params params = {
        .config = config, .upcalls = &upcalls, .owner = side, .worker_uid = cw_random_u64(), .wakeup = 1,
        .peer_memory = peer_memory};
    ucs_status_t status;

    *side = (struct cw_side){.accept_status = UCS_OK};
    cw_list_init(&side->ends);
    params.num_devices = cw_transport_devices(transport, config, side->devices, CW_MAX_DEVICES);
    cw_check(params.num_devices > 0, "the transport %s finds no device", transport->name);
    params.num_devices = (params.num_devices < CW_MAX_DEVICES) ? params.num_devices : CW_MAX_DEVICES;
    params.devices = side->devices;
    status = cw_poller_new(1, &side->poller);
    cw_check(status == UCS_OK, "cw_poller_new answers %d", status);
    params.poller = side->poller;
    if (transport->access != NULL) {
        status = transport->access->domain->open(config, side->devices[0].name, &side->domain);
        cw_check(status == UCS_OK, "the domain of %s cannot be opened: %d", side->devices[0].name, status);
        side->domain->number = next_domain++;
        params.domain = side->domain;
    }
    status = cw_iface_open(transport, &params, &side->iface);
    cw_check(status == UCS_OK, "open answers %d", status);
    side->address_length = cw_iface_address(side->iface, side->address, sizeof(side->address));
    cw_check(side->address_length > 0, "the address does not fit %u bytes", CW_ADDRESS_MAX);
}

void cw_side_close(struct cw_side *side)
{
    struct cw_list *link;
    struct cw_end *end;

    if (side->poller == NULL) {
        return;
    }
    cw_list_for_each(end, &side->ends, struct cw_end, link) {
        cw_end_close(end);
    }
    if (side->iface != NULL) {
        cw_iface_close(side->iface);
        side->iface = NULL;
    }
    if (side->domain != NULL) {
        side->domain->kind->close(side->domain);
        side->domain = NULL;
    }
    while ((link = cw_list_pop_head(&side->ends)) != NULL) {
        free(cw_container_of(link, struct cw_end, link));
    }
    cw_poller_free(side->poller);
    side->poller = NULL;
}

unsigned cw_side_progress(struct cw_side *side)
{
    unsigned done;

    if (side->iface == NULL) {
        return 0;
    }
    cw_check_note_begin();
    inside_progress++;
    done = cw_subject.transport->progress(side->iface);
    done += cw_poller_dispatch(side->poller);
    inside_progress--;
    cw_check_note_end();
    return done;
}

ucs_status_t cw_side_arm(struct cw_side *side)
{
    const struct cw_transport *transport = cw_subject.transport;
    ucs_status_t status = side->iface->woken ? UCS_ERR_BUSY : UCS_OK;

    if (transport->arm != NULL) {
        status = transport->arm(side->iface);
    }
    cw_check(status == UCS_OK || status == UCS_ERR_BUSY, "arm answers %d", status);
    if (status == UCS_OK && cw_poller_check(side->poller)) {
        status = UCS_ERR_BUSY;
    }
    return status;
}

void cw_side_fall_asleep(struct cw_side *side, struct cw_side *other)
{
    uint64_t deadline = cw_deadline();

    do {
        while (cw_side_progress(side)) {
            cw_deadline_check(deadline, "a side to fall asleep");
        }
        if (other != NULL) {
            cw_side_progress(other);
        }
        cw_deadline_check(deadline, "arm to answer UCS_OK");
    } while (cw_side_arm(side) != UCS_OK);
}

int cw_side_wakes(struct cw_side *side, int timeout_ms)
{
    struct pollfd fd = {.fd = cw_poller_fd(side->poller), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

unsigned cw_rig_progress(struct cw_rig *rig)
{
    unsigned done = cw_side_progress(rig->a);

    if (rig->b != rig->a) {
        done += cw_side_progress(rig->b);
    }
    return done;
}

void cw_rig_wait(struct cw_rig *rig, const unsigned *counter, unsigned target, const char *what)
{
    uint64_t deadline = cw_deadline();

    while (*counter < target) {
        cw_rig_progress(rig);
        cw_deadline_check(deadline, what);
    }
}

void cw_rig_settle(struct cw_rig *rig)
{
    uint64_t deadline = cw_deadline();
    uint64_t quiet = cw_clock_ns();
    unsigned rounds = 0;

    while (rounds < 200 || cw_clock_ns() - quiet < 5000000u) {
        if (cw_rig_progress(rig) > 0) {
            rounds = 0;
            quiet = cw_clock_ns();
        }
        rounds++;
        cw_deadline_check(deadline, "both sides to become quiet");
    }
}

void cw_rig_need_two(const struct cw_rig *rig)
{
    cw_rig_need(rig->a != rig->b, "two interfaces that reach each other");
}

void cw_rig_need(int possible, const char *what)
{
    if (!possible) {
        print_message("Skipped: this transport lacks %s\n", what);
        skip();
    }
}

struct cw_end *cw_end_dial_raw(struct cw_side *from, const void *address, size_t length, const struct cw_bytes *hello,
                               ucs_status_t *status_p)
{
    struct cw_end *end = end_new(from);
    struct cw_bytes copy = *hello;
    unsigned upcalls_before = from->upcalls;

    *status_p =
        cw_subject.transport->connect->dial(from->iface, address, length, copy.data, copy.length, end, &end->conn);
    memset(copy.data, 0xee, sizeof(copy.data));
    cw_check(from->upcalls == upcalls_before, "dial made an upcall");
    if (*status_p != UCS_OK) {
        cw_list_remove(&end->link);
        free(end);
        return NULL;
    }
    cw_check(end->conn != NULL && end->conn->user == end && end->conn->iface == from->iface,
             "the head of a dialled connection is not filled");
    return end;
}

struct cw_end *cw_end_dial(struct cw_side *from, const struct cw_side *to, const struct cw_bytes *hello)
{
    ucs_status_t status;
    struct cw_end *end = cw_end_dial_raw(from, to->address, to->address_length, hello, &status);

    cw_check(end != NULL, "dial answers %d", status);
    return end;
}

struct cw_end *cw_end_find(struct cw_side *side, const struct cw_bytes *hello)
{
    struct cw_end *end;

    cw_list_for_each(end, &side->ends, struct cw_end, link) {
        if (end->is_acceptor && end->hello.length == hello->length &&
            memcmp(end->hello.data, hello->data, hello->length) == 0) {
            return end;
        }
    }
    return NULL;
}

void cw_rig_connect(struct cw_rig *rig, struct cw_side *from, struct cw_side *to, struct cw_end **dialler_p,
                    struct cw_end **acceptor_p)
{
    struct cw_bytes hello = cw_bytes_unique(16);
    struct cw_end *end = cw_end_dial(from, to, &hello);

    cw_rig_wait(rig, &end->opened, 1, "`opened`");
    cw_check(end->opened_status == UCS_OK, "the connection opens with status %d", end->opened_status);
    *dialler_p = end;
    *acceptor_p = cw_end_find(to, &hello);
    cw_check(*acceptor_p != NULL, "`opened` came but nobody accepted");
}

void cw_end_close(struct cw_end *end)
{
    struct cw_conn *conn = end->conn;

    if (conn != NULL) {
        end->conn = NULL; /* any upcall from now on is one too many */
        cw_check_note_begin();
        inside_close++;
        cw_subject.transport->connect->close_conn(conn);
        inside_close--;
        cw_check_note_end();
    }
}

struct cw_bytes cw_bytes_unique(size_t length)
{
    static uint64_t number;
    struct cw_bytes bytes = {.length = length};

    cw_pattern_fill(bytes.data, length, ++number);
    return bytes;
}

int cw_rig_setup(void **state)
{
    struct cw_rig *rig = calloc(1, sizeof(*rig));

    if (rig == NULL) {
        return -1;
    }
    if (config == NULL && cw_config_read(NULL, NULL, &config) != UCS_OK) {
        free(rig);
        return -1;
    }
    if (cw_subject.setup != NULL) {
        cw_subject.setup();
    }
    *state = rig;
    rig->descriptors = cw_count_descriptors();
    rig->mappings = cw_count_mappings();
    rig->a = &rig->sides[0];
    next_domain = 1;
    cw_side_open(rig->a);
    rig->b = rig->a;
    if (cw_subject.transport->device_class != CW_DEVICE_SELF) {
        rig->b = &rig->sides[1];
        cw_side_open(rig->b);
    }
    return 0;
}

int cw_rig_teardown(void **state)
{
    struct cw_rig *rig = *state;
    int left;

    cw_side_close(&rig->sides[0]);
    cw_side_close(&rig->sides[1]);
    if (cw_subject.teardown != NULL) {
        cw_subject.teardown();
    }
    left = cw_count_descriptors() - rig->descriptors;
    free(rig);
    if (left != 0) {
        print_error("%d descriptors are left open\n", left);
        return -1;
    }
    return 0;
}
