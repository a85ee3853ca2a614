/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory in which packets of the transport self wait: that of long ones is used again instead of being asked for
 * anew, what is kept is bounded, and nothing of it is left in the end. And the packets that do not wait, because the
 * other end consumes them.
 */
#include <stdlib.h>
#include <string.h>

#include "runner.h"
#include "core/lane.h"
#include "os/poll.h"
#include "transport/self/self_transport.h"

enum { KIB = 1024, LONG = 130, MOST_BLOCKS = 20000, PACKET_ID = 255 };

static struct {
    void *at;
    size_t size;
} blocks[MOST_BLOCKS];          /* those of more than LONG bytes that are in use */
static size_t num_blocks, live_bytes;
static unsigned asked;          /* how often for one of them */
static unsigned arrived, bytes_wrong;
static uintptr_t last_packet;
static char order[8];           /* of upcalls: c of consume, f of finish, p of packet */
static unsigned num_order;
static bool consumes, stores;
static unsigned sends_from_finish;
static struct cw_conn *dialled, *accepted;
static struct cw_iface *iface;
static struct cw_poller *poller;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

static void note_block(void *memory, size_t size)
{
    if (memory != NULL && size > LONG && num_blocks < MOST_BLOCKS) {
        asked++;
        live_bytes += size;
        blocks[num_blocks].at = memory;
        blocks[num_blocks++].size = size;
    }
}

void *__wrap_malloc(size_t size)
{
    void *memory = __real_malloc(size);

    note_block(memory, size);
    return memory;
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    void *memory = __real_aligned_alloc(alignment, size);

    note_block(memory, size);
    return memory;
}

void __wrap_free(void *memory)
{
    size_t i;

    for (i = 0; i < num_blocks && memory != NULL; i++) {
        if (blocks[i].at == memory) {
            live_bytes -= blocks[i].size;
            blocks[i] = blocks[--num_blocks];
        }
    }
    __real_free(memory);
}

static uint8_t byte_of(unsigned number, size_t at)
{
    return (uint8_t)(number * 31 + at * 7 + at / 256);
}

static void note(char upcall)
{
    if (num_order < sizeof(order)) {
        order[num_order++] = upcall;
    }
}

static void assert_order(const char *expected)
{
    assert_int_equal(num_order, strlen(expected));
    assert_memory_equal(order, expected, num_order);
    num_order = 0;
}

static void packet(struct cw_conn *conn, uint8_t id, const void *data, size_t length)
{
    const uint8_t *bytes = data;
    size_t i;

    (void)conn;
    if (length == sizeof(uint64_t) + 3) {
        note('p');
        return;
    }
    for (i = 0; i < length; i++) {
        bytes_wrong += bytes[i] != byte_of(id, i);
    }
    last_packet = (uintptr_t)data;
    arrived++;
}

static ucs_status_t accept_it(void *owner, struct cw_conn *conn, const void *hello, size_t hello_length, void *reply,
                              size_t *reply_length)
{
    (void)owner, (void)hello, (void)hello_length, (void)reply;
    *reply_length = 0;
    accepted = conn;
    return UCS_OK;
}

static void opened(struct cw_conn *conn, ucs_status_t status, const void *reply, size_t reply_length)
{
    (void)conn, (void)reply, (void)reply_length;
    assert_int_equal(status, UCS_OK);
}

static void nothing(struct cw_conn *conn)
{
    (void)conn;
}

static void closed(struct cw_conn *conn, ucs_status_t status)
{
    (void)conn, (void)status;
}

static bool consume(struct cw_conn *conn, uint64_t header, const void *payload, size_t length, bool may_store)
{
    assert_ptr_equal(conn, accepted);
    assert_int_equal(header, 5);
    assert_int_equal(length, 3);
    assert_memory_equal(payload, "abc", 3);
    note('c');
    stores = may_store;
    return consumes;
}

static bool offer_three(bool may_store)
{
    return cw_lane_hand_over(dialled, 5, "abc", 3, may_store);
}

static unsigned finish(void *owner)
{
    (void)owner;
    note('f');
    for (; sends_from_finish > 0; sends_from_finish--) {
        assert_true(offer_three(true));
    }
    return 1;
}

static const struct cw_upcalls upcalls = {
    .consume = consume, .finish = finish, .packet = packet,
    .accept = accept_it, .opened = opened, .space = nothing, .closed = closed};

static int connect_both(void **state)
{
    struct cw_iface_params params = {.upcalls = &upcalls, .worker_uid = 7};
    uint8_t address[8];

    (void)state;
    num_blocks = live_bytes = 0;
    arrived = bytes_wrong = 0;
    num_order = 0;
    sends_from_finish = 0;
    consumes = true;
    assert_int_equal(cw_poller_new(0, &poller), UCS_OK);
    params.poller = poller;
    assert_int_equal(cw_iface_open(&cw_self_transport, &params, &iface), UCS_OK);
    assert_int_equal(cw_iface_address(iface, address, sizeof(address)), sizeof(address));
    assert_int_equal(cw_self_transport.connect->dial(iface, address, sizeof(address), "", 0, NULL, &dialled), UCS_OK);
    cw_self_transport.progress(iface);
    assert_non_null(accepted);
    return 0;
}

static int end(void **state)
{
    (void)state;
    cw_self_transport.connect->close_conn(dialled);
    cw_self_transport.connect->close_conn(accepted);
    cw_self_transport.close(iface);
    cw_poller_free(poller);
    return live_bytes != 0;
}

struct filling {
    unsigned number;
    size_t length;
};

static size_t fill(void *dest, size_t max, void *arg)
{
    const struct filling *filling = arg;
    uint8_t *bytes = dest;
    size_t i;

    assert_true(filling->length <= max);
    for (i = 0; i < filling->length; i++) {
        bytes[i] = byte_of(filling->number, i);
    }
    return filling->length;
}

/* So many packets before a progress; as many as find room. Returns how often memory was asked for. */
static unsigned burst(unsigned count, size_t length)
{
    const unsigned asked_before = asked, arrived_before = arrived;
    unsigned sent;

    for (sent = 0; sent < count; sent++) {
        struct filling filling = {.number = (uint8_t)sent, .length = length};
        ucs_status_t status = cw_self_transport.packets->send_bcopy(dialled, (uint8_t)sent, length, fill, &filling);

        if (status != UCS_OK) {
            assert_int_equal(status, CW_AGAIN);
            break;
        }
    }
    cw_self_transport.progress(iface);
    assert_int_equal(arrived - arrived_before, sent);
    assert_int_equal(bytes_wrong, 0);
    return asked - asked_before;
}

TEST_WITH(long_packets_lie_in_memory_that_was_used_before, connect_both, end)
{
    static const size_t lengths[] = {100, 1000, 4 * KIB, 16 * KIB, 32 * KIB};
    size_t i;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        burst(32, lengths[i]);
        assert_int_equal(burst(32, lengths[i]), 0);
        assert_int_equal(burst(31, lengths[i] - 1), 0);
    }
    assert_int_equal(burst(32, 2 * KIB), 0); /* what is longer than necessary serves, too */
}

/* Short ones that fill what may be kept make room for long ones. */
TEST_WITH(what_is_kept_follows_the_lengths, connect_both, end)
{
    unsigned i;

    for (i = 0; i < 3; i++) {
        burst(10000, 128);
    }
    for (i = 0; i < 1000 && burst(16, 32 * KIB) > 0; i++) {
    }
    assert_true(i < 1000);
    for (i = 0; i < 1000 && burst(1, 384 * KIB) > 0; i++) {
    }
    assert_true(i < 1000);
}

/* A queue has 1 MiB and what is added last, at most 384 KiB; as much may be kept. */
TEST_WITH(what_is_kept_is_bounded, connect_both, end)
{
    const size_t before = live_bytes, bound = (1024 + 384) * KIB;
    unsigned i;

    for (i = 0; i < 40; i++) {
        burst(10000, 128u << i % 12);
        assert_true(live_bytes - before <= bound + bound / 2); /* heads of 64 bytes on packets of 128 */
    }
    burst(4, 384 * KIB);
    assert_true(live_bytes > before);
}

/* The packet is the header of 8 bytes, the front part and the payload, all of them byte_of(number). */
static ucs_status_t send_joined(uint8_t number, size_t front_length, size_t length)
{
    static uint8_t bytes[33 * KIB];
    uint64_t header;
    size_t i;

    for (i = 0; i < sizeof(header) + front_length + length; i++) {
        bytes[i] = byte_of(number, i);
    }
    memcpy(&header, bytes, sizeof(header));
    return cw_lane_send_joined(dialled, number, header, bytes + sizeof(header), front_length,
                               bytes + sizeof(header) + front_length, length);
}

TEST_WITH(payloads_begin_cache_lines_behind_any_front, connect_both, end)
{
    static const size_t lengths[] = {0, 1, 8, 63, 64, 65, 2048, 17 * KIB};
    size_t front_length, i;

    assert_true(cw_lane_joins(dialled));
    for (front_length = 0; front_length <= 130; front_length++) {
        for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            assert_int_equal(send_joined((uint8_t)(3 * front_length + i), front_length, lengths[i]), UCS_OK);
            assert_int_equal(cw_iface_progress(iface), 1);
            assert_int_equal(last_packet % 8, 0);
            assert_true(front_length % 8 != 0 || (last_packet + sizeof(uint64_t) + front_length) % CW_CACHE_LINE == 0);
        }
    }
    assert_int_equal(bytes_wrong, 0);
}

TEST_WITH(packets_of_all_kinds_are_queued_together, connect_both, end)
{
    unsigned round, i, sent;

    for (round = 0; round < 3; round++) {
        arrived = 0;
        for (i = 0, sent = 0; i < 200; i++) {
            struct filling filling = {.number = (uint8_t)(i + 1), .length = 8 + i * 5};

            sent += send_joined((uint8_t)i, i % 70, i * 9 % 1500) == UCS_OK;
            sent += cw_self_transport.packets->send_bcopy(dialled, (uint8_t)(i + 1), 1200, fill, &filling) == UCS_OK;
        }
        assert_int_equal(sent, 400);
        assert_int_equal(cw_iface_progress(iface), sent);
        assert_int_equal(arrived, sent);
    }
    assert_int_equal(bytes_wrong, 0);
}

TEST_WITH(joined_packets_find_the_queue_full, connect_both, end)
{
    unsigned sent = 0;
    ucs_status_t status;

    while ((status = send_joined((uint8_t)sent, 16, 32 * KIB)) == UCS_OK) {
        assert_true(++sent < 40);
    }
    assert_int_equal(status, CW_AGAIN);
    assert_int_equal(sent, 32); /* 1 MiB */
    assert_int_equal(cw_iface_progress(iface), sent + 1); /* and the connection may send again */
    assert_int_equal(send_joined(1, 16, 32 * KIB), UCS_OK);
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_int_equal(bytes_wrong, 0);
}

static void send_three(void)
{
    assert_int_equal(cw_lane_send_short(dialled, PACKET_ID, 5, "abc", 3), UCS_OK);
}

TEST_WITH(what_is_consumed_ends_in_progress, connect_both, end)
{
    assert_int_equal(cw_iface_arm(iface), UCS_OK);
    assert_true(offer_three(true));
    assert_true(stores);
    assert_true(offer_three(false));
    assert_false(stores);
    assert_order("cc");
    assert_int_equal(cw_iface_arm(iface), UCS_ERR_BUSY);
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_order("f");
    assert_int_equal(cw_iface_progress(iface), 0);
    assert_int_equal(cw_iface_arm(iface), UCS_OK);
    assert_order("");
}

TEST_WITH(what_is_not_consumed_leaves_nothing, connect_both, end)
{
    consumes = false;
    assert_false(offer_three(true));
    assert_order("c");
    assert_int_equal(cw_iface_arm(iface), UCS_OK);
    assert_int_equal(cw_iface_progress(iface), 0);
    assert_order("");
}

TEST_WITH(packets_are_not_offered, connect_both, end)
{
    send_three();
    assert_int_equal(cw_iface_arm(iface), UCS_ERR_BUSY);
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_order("p");
}

/* No message overtakes another one: what was consumed ends before what was queued behind it, and what is sent behind
 * that is not offered. */
TEST_WITH(messages_keep_their_order, connect_both, end)
{
    assert_true(offer_three(true));
    send_three();
    assert_false(offer_three(true));
    send_three();
    assert_order("c");
    assert_int_equal(cw_iface_progress(iface), 3);
    assert_order("fpp");
    assert_int_equal(cw_iface_progress(iface), 0);
}

/* They are the next progress' work. */
TEST_WITH(messages_are_sent_while_others_end, connect_both, end)
{
    assert_true(offer_three(true));
    sends_from_finish = 2;
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_order("cfcc");
    assert_int_equal(cw_iface_arm(iface), UCS_ERR_BUSY);
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_order("f");
    send_three();
    assert_int_equal(cw_iface_progress(iface), 1);
    assert_int_equal(cw_iface_arm(iface), UCS_OK);
    assert_order("p");
}
