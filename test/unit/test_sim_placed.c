/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placed packets of the simulated network: everything arrives once and whole, some of it overtaken and overtaking; a
 * close loses nothing; memory is not touched any more once the connection is over; a packet without a place ends it.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "base/hash.h"
#include "config/config.h"
#include "os/poll.h"
#include "sim.h"
#include "sim_transport.h"

enum { PACKETS = 60, LENGTH = 3000, SEEDS = 60 };

struct side {
    struct cw_poller *poller;
    struct cw_iface *iface;
    struct cw_conn *conn;
    unsigned opened, closed;
    ucs_status_t closed_status;
};

static struct side sides[2];
static uint8_t source[PACKETS][LENGTH], dest[PACKETS][LENGTH];
static unsigned place_calls[PACKETS], placed_calls[PACKETS], num_placed, overtaken, plain_came, outstanding;
static unsigned refuse_at;      /* `place` answers 0 for this number */

static size_t length_of(unsigned number)
{
    return 1 + cw_hash_mix(number + 1) % (LENGTH - 1);
}

static unsigned number_in(const void *header)
{
    uint64_t number;

    memcpy(&number, header, sizeof(number));
    assert_true(number < PACKETS);
    return (unsigned)number;
}

static unsigned on_place(struct cw_conn *conn, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    const unsigned number = number_in(header);
    const size_t half = length / 2;

    assert_ptr_equal(conn->user, &sides[1]);
    assert_int_equal(id, 10 + number);
    assert_int_equal(length, length_of(number));
    assert_int_equal(place_calls[number]++, 0);
    overtaken += (number > 0 && place_calls[number - 1] == 0) || plain_came > number;
    iov[0] = (struct iovec){dest[number], half};
    iov[1] = (struct iovec){dest[number] + half, length - half};
    return (number == refuse_at) ? 0 : 2;
}

static void on_placed(struct cw_conn *conn, uint8_t id, const void *header, size_t length)
{
    const unsigned number = number_in(header);

    assert_ptr_equal(conn->user, &sides[1]);
    assert_int_equal(id, 10 + number);
    assert_int_equal(place_calls[number], 1);
    assert_int_equal(placed_calls[number]++, 0);
    assert_memory_equal(dest[number], source[number], length);
    num_placed++;
}

static void on_packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    (void)conn;
    (void)data;
    assert_int_equal(length, 8);
    assert_int_equal(id, 200);
    plain_came++;
}

static ucs_status_t on_accept(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    struct side *side = owner;

    (void)hello;
    (void)hello_length;
    (void)reply;
    side->conn = conn;
    conn->user = side;
    *reply_length = 0;
    return UCS_OK;
}

static void on_opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    struct side *side = conn->user;

    (void)reply;
    (void)reply_length;
    assert_int_equal(status, UCS_OK);
    side->opened = 1;
}

static void on_room(struct cw_conn *conn)
{
    (void)conn;
}

static void on_closed(struct cw_conn *conn, ucs_status_t status)
{
    struct side *side = conn->user;

    side->closed++;
    side->closed_status = status;
}

static const struct cw_upcalls upcalls = {
    .packet = on_packet, .accept = on_accept, .opened = on_opened, .place = on_place, .placed = on_placed,
    .space = on_room, .closed = on_closed};

static void progress(void)
{
    if (sides[0].iface != NULL) {
        cw_sim_transport.progress(sides[0].iface);
    }
    cw_sim_transport.progress(sides[1].iface);
}

static struct cw_sim_world *begin(uint64_t seed)
{
    static const struct cw_device device = {.name = "sim0"};
    struct cw_iface_params params = {.upcalls = &upcalls, .devices = &device, .num_devices = 1};
    struct cw_sim_world *world;
    struct cw_sim_knobs knobs;
    char address[64];
    size_t length, i;

    cw_sim_knobs_random(&knobs, seed);
    knobs.max_placed = LENGTH;
    world = cw_sim_world_new(seed, &knobs);
    memset(sides, 0, sizeof(sides));
    memset(place_calls, 0, sizeof(place_calls));
    memset(placed_calls, 0, sizeof(placed_calls));
    memset(dest, 0, sizeof(dest));
    num_placed = overtaken = plain_came = outstanding = 0;
    refuse_at = PACKETS;
    for (i = 0; i < sizeof(source); i++) {
        ((uint8_t *)source)[i] = (uint8_t)cw_hash_mix(seed + i);
    }
    for (i = 0; i < 2; i++) {
        assert_int_equal(cw_poller_new(0, &sides[i].poller), UCS_OK);
        params.owner = &sides[i];
        params.poller = sides[i].poller;
        assert_int_equal(cw_sim_transport.open(&params, &sides[i].iface), UCS_OK);
    }
    length = cw_sim_transport.address(sides[1].iface, address, sizeof(address));
    assert_int_equal(cw_sim_transport.connect->dial(sides[0].iface, address, length, "", 0, &sides[0], &sides[0].conn),
                     UCS_OK);
    while (!sides[0].opened) {
        progress();
    }
    return world;
}

static void end_side(struct side *side)
{
    if (side->conn != NULL) {
        cw_sim_transport.connect->close_conn(side->conn);
        side->conn = NULL;
    }
    if (side->iface != NULL) {
        cw_sim_transport.close(side->iface);
        cw_poller_free(side->poller);
        side->iface = NULL;
    }
}

static void end(struct cw_sim_world *world)
{
    end_side(&sides[0]);
    end_side(&sides[1]);
    cw_sim_world_free(world);
}

static void on_done(struct cw_completion *completion, ucs_status_t status)
{
    (void)completion;
    (void)status;
    outstanding--;
}

/* One placed packet, and now and then a plain one behind it. 0: the connection is over. */
static int send_one(unsigned number)
{
    static struct cw_completion completions[PACKETS];
    const size_t length = length_of(number);
    struct iovec iov = {source[number], length};
    uint64_t header[2] = {number, 0};
    ucs_status_t status;

    completions[number].done = on_done;
    outstanding++;
    while ((status = cw_sim_transport.packets->send_placed(sides[0].conn, (uint8_t)(10 + number), header, &iov, 1,
                                                  &completions[number])) == CW_AGAIN) {
        progress();
    }
    outstanding -= (status != UCS_INPROGRESS);
    if (status < 0) {
        return 0;
    }
    while ((status = cw_sim_transport.packets->send_short(sides[0].conn, 200, 1, NULL, 0)) == CW_AGAIN) {
        progress();
    }
    return status == UCS_OK;
}

TEST(all_arrive_in_no_order)
{
    unsigned some_overtaken = 0, number;
    struct cw_sim_world *world;
    uint64_t seed;

    for (seed = 1; seed <= SEEDS; seed++) {
        world = begin(seed);
        for (number = 0; number < PACKETS; number++) {
            assert_true(send_one(number));
        }
        while (num_placed < PACKETS || plain_came < PACKETS || outstanding > 0) {
            progress();
        }
        some_overtaken += (overtaken > 0);
        end(world);
    }
    assert_true(some_overtaken > SEEDS / 4);
}

TEST(a_close_loses_nothing)
{
    struct cw_sim_world *world;
    unsigned number;
    uint64_t seed;

    for (seed = 1; seed <= SEEDS; seed++) {
        world = begin(seed);
        for (number = 0; number < 20; number++) {
            assert_true(send_one(number));
        }
        end_side(&sides[0]);
        assert_int_equal(outstanding, 0);
        while (!sides[1].closed) {
            progress();
        }
        assert_int_equal(sides[1].closed_status, UCS_ERR_CONNECTION_RESET);
        assert_int_equal(num_placed, 20);
        assert_int_equal(plain_came, 20);
        end(world);
    }
}

/* The receiver's memory is its own again from close_conn on. */
TEST(nothing_is_written_after_the_end)
{
    struct cw_sim_world *world;
    unsigned number, rounds;
    uint64_t seed;

    for (seed = 1; seed <= SEEDS; seed++) {
        world = begin(seed);
        for (number = 0; number < 10; number++) {
            assert_true(send_one(number));
        }
        cw_sim_transport.connect->close_conn(sides[1].conn);
        sides[1].conn = NULL;
        memset(dest, 0x11, sizeof(dest));
        num_placed = 0;
        for (rounds = 0; rounds < 2000; rounds++) {
            progress();
        }
        for (number = 0; number < sizeof(dest); number++) {
            assert_int_equal(((uint8_t *)dest)[number], 0x11);
        }
        assert_int_equal(num_placed, 0);
        end(world);
    }
}

TEST(no_place_ends_the_connection)
{
    struct cw_sim_world *world;
    unsigned number;
    uint64_t seed;

    for (seed = 1; seed <= SEEDS; seed++) {
        world = begin(seed);
        refuse_at = 7;
        for (number = 0; number < 20 && send_one(number); number++) {
        }
        while (!sides[1].closed) {
            progress();
        }
        assert_int_equal(sides[1].closed_status, UCS_ERR_IO_ERROR);
        assert_int_equal(placed_calls[7], 0);
        end(world);
    }
}
