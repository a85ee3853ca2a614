/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of transport/shm/shm_ring.h, both sides in one process: packets of every length arrive once, in order and
 * intact, up to three of a few bytes in a line; a producer is never stuck; bytes of older laps are never taken for
 * packets; and whatever the other side writes into the shared memory, nobody leaves it. The memory lies between guard
 * zones.
 */
#include <stdlib.h>
#include <string.h>

#include <pthread.h>
#include <sched.h>

#include "runner.h"
#include "test_random.h"
#include "transport/shm/shm.h"

#define GUARD      4096u
#define GUARD_BYTE 0xc3
#define HEADER     ((uint32_t)sizeof(uint64_t))

struct ring {
    struct shm_ring_control control;
    struct shm_tx tx;
    struct shm_rx rx;
    uint32_t attention;
    unsigned bells;
    char *memory;
    uint32_t most;
    uint32_t limit;             /* a lap may grow to this */
    int words;                  /* payload is words of laps to come, such as a ring itself has */
    uint64_t sent;
    uint64_t received;
    uint64_t seed;
};

static void ring_bell(struct cw_tx *tx)
{
    struct ring *ring = (struct ring *)(void *)((char *)tx - offsetof(struct ring, tx.fast));

    ring->bells++;
}

static char *head_of(const struct ring *ring)
{
    return ring->memory + GUARD + ring->most + SHM_LINE + GUARD;
}

static struct shm_place place_of(struct ring *ring, uint32_t first, int with_head)
{
    return (struct shm_place){.ring = ring->memory + GUARD,
                              .head = with_head ? head_of(ring) : NULL,
                              .control = &ring->control,
                              .first = first,
                              .most = ring->most};
}

/* guard | ring | a line | guard | head | a line | guard */
static struct ring *ring_new_with(uint32_t first, uint32_t most, uint32_t lap, int with_head)
{
    struct ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) & ~(size_t)63);
    const size_t size = 3 * GUARD + most + SHM_HEAD_BYTES + 2 * SHM_LINE;
    struct shm_place place;

    assert_non_null(ring);
    *ring = (struct ring){.most = most, .limit = first, .seed = next_random()};
    ring->memory = aligned_alloc(GUARD, (size + GUARD - 1) & ~(size_t)(GUARD - 1));
    assert_non_null(ring->memory);
    memset(ring->memory, GUARD_BYTE, size);
    memset(ring->memory + GUARD, 0, most + SHM_LINE);
    memset(head_of(ring), 0, SHM_HEAD_BYTES + SHM_LINE);
    ring->control.done = shm_position(lap, 0);
    place = place_of(ring, first, with_head);
    cw_shm_tx_init(&ring->tx, &place, lap);
    cw_shm_rx_init(&ring->rx, &place, lap);
    ring->tx.fast.attention = &ring->attention;
    ring->tx.fast.bell = ring_bell;
    return ring;
}

static struct ring *ring_new(uint32_t first, uint32_t most, uint32_t lap)
{
    return ring_new_with(first, most, lap, 0);
}

/* Whether the bytes lie in the ring or in the head. */
static int is_inside(const struct ring *ring, const char *bytes, size_t length)
{
    const char *begin = ring->memory + GUARD, *head = head_of(ring);

    return (bytes >= begin && bytes + length <= begin + ring->most) ||
           (bytes >= head && bytes + length <= head + SHM_HEAD_BYTES);
}

static void check_guards(const struct ring *ring)
{
    size_t i;

    for (i = 0; i < GUARD; i++) {
        assert_int_equal((unsigned char)ring->memory[i], GUARD_BYTE);
        assert_int_equal((unsigned char)ring->memory[GUARD + ring->most + SHM_LINE + i], GUARD_BYTE);
        assert_int_equal((unsigned char)head_of(ring)[SHM_HEAD_BYTES + SHM_LINE + i], GUARD_BYTE);
    }
}

static void ring_free(struct ring *ring)
{
    check_guards(ring);
    free(ring->memory);
    free(ring);
}

static uint32_t sent_at(const struct ring *ring)
{
    return shm_offset(ring->tx.base, ring->tx.fast.line);
}

static uint32_t read_at(const struct ring *ring)
{
    return shm_offset(ring->rx.base, ring->rx.fast.line);
}

/* Packet number n of a ring: its id follows from n, its length is given, its bytes from both. */
static uint8_t id_of(const struct ring *ring, uint64_t n)
{
    return (uint8_t)mix(ring->seed + n);
}

static uint64_t word_of(const struct ring *ring, uint64_t n, size_t length, size_t i)
{
    static const uint64_t lengths[] = {8, 300, UINT32_MAX};
    const uint32_t lap = (uint32_t)(n / 16 + i);

    if (ring->words) { /* of some lap to come, as a short, a long, a last or an open packet has it */
        return shm_stamp(lap) + (lengths[i % 3] << 16) + 0x105;
    }
    return mix(ring->seed ^ (n << 20) ^ length) + i * 0x9e3779b97f4a7c15u;
}

static void fill(const struct ring *ring, uint64_t n, char *data, size_t length)
{
    uint64_t word;
    size_t i;

    for (i = 0; i < length; i += sizeof(word)) {
        word = word_of(ring, n, length, i / sizeof(word));
        memcpy(data + i, &word, (length - i < sizeof(word)) ? length - i : sizeof(word));
    }
}

static int is_packet(const struct ring *ring, uint64_t n, const char *data, size_t length)
{
    uint64_t word;
    size_t i;

    for (i = 0; i < length; i += sizeof(word)) {
        word = word_of(ring, n, length, i / sizeof(word));
        if (memcmp(data + i, &word, (length - i < sizeof(word)) ? length - i : sizeof(word)) != 0) {
            return 0;
        }
    }
    return 1;
}

static int has_space(struct ring *ring, size_t length)
{
    if (shm_has_space_here(&ring->tx, length)) {
        return 1;
    }
    cw_shm_tx_poll(&ring->tx);
    if (!shm_has_space_here(&ring->tx, length) && ring->tx.wants_more) {
        (void)cw_shm_tx_grow(&ring->tx, length, ring->limit);
    }
    return shm_has_space_known(&ring->tx, length) ||
           (cw_shm_tx_grow(&ring->tx, length, ring->limit) && shm_has_space_known(&ring->tx, length));
}

/* As a transport sends: reserves `max`, writes `length`, which may mean another place. */
static int push(struct ring *ring, size_t length, size_t max)
{
    char *data, *place;

    if (!has_space(ring, max)) {
        return 0;
    }
    data = shm_reserve(&ring->tx, max);
    fill(ring, ring->sent, data, length);
    place = shm_reserve(&ring->tx, length);
    if (place != data) {
        memmove(place, data, length);
    }
    shm_publish(&ring->tx, length, id_of(ring, ring->sent));
    cw_shm_tx_fetch_ahead(&ring->tx, length, true);
    ring->sent++;
    return 1;
}

/* As the core does: a packet of a few bytes, where room is known. */
static int put(struct ring *ring, size_t length)
{
    char data[2 * HEADER];
    uint64_t header;

    if (length < HEADER || !cw_tx_can_send(&ring->tx.fast, length - HEADER)) {
        return 0;
    }
    fill(ring, ring->sent, data, length);
    memcpy(&header, data, HEADER);
    cw_tx_send(&ring->tx.fast, id_of(ring, ring->sent), header, data + HEADER, length - HEADER);
    ring->sent++;
    return 1;
}

static int send(struct ring *ring, size_t length)
{
    return put(ring, length) || push(ring, length, length);
}

static void publish_if_due(struct ring *ring)
{
    if (cw_rx_should_notify(&ring->rx.fast)) {
        cw_shm_rx_notify(&ring->rx);
    }
}

/* The length of the packet; -1: there is none; -2: it is not as it was sent. */
static long receive(struct ring *ring)
{
    const uint64_t seen = shm_peek(&ring->rx);
    const uint32_t length = cw_rx_length(seen);
    int good;

    if (seen == 0) {
        publish_if_due(ring);
        return -1;
    }
    if (cw_rx_id(seen) != id_of(ring, ring->received) || !shm_is_inside(&ring->rx, length)) {
        return -2;
    }
    if (length <= CW_LINE_DATA) {
        good = is_packet(ring, ring->received, cw_rx_pop(&ring->rx.fast, seen), length);
        cw_rx_passed(&ring->rx.fast);
    } else {
        good = is_packet(ring, ring->received, shm_data(&ring->rx, length), length);
        shm_advance(&ring->rx, length);
    }
    ring->received++;
    publish_if_due(ring);
    return good ? (long)length : -2;
}

static void receive_all(struct ring *ring)
{
    long length;

    while ((length = receive(ring)) != -1) {
        assert_true(length >= 0);
    }
    assert_true(ring->received == ring->sent);
}

/* Mostly small ones, many about the border between one line and two, some up to the limit. */
static size_t random_length(uint64_t value, size_t max)
{
    size_t length;

    switch (value & 15) {
    case 0:
    case 1:
        length = 48 + (value >> 8) % 24;
        break;
    case 2:
        length = (value >> 8) % (max + 1);
        break;
    case 3:
        length = max - (value >> 8) % 64;
        break;
    case 4:
        length = SHM_LEAD_FROM - 20 + (value >> 8) % 40;
        break;
    case 5:
    case 6:
    case 7:
        length = (value >> 8) % 57;
        break;
    default:
        length = (value >> 8) % 17;
    }
    return (length > max) ? max : length;
}

TEST_WITH(an_empty_ring_has_nothing, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);

    assert_true(shm_peek(&ring->rx) == 0);
    assert_int_equal(receive(ring), -1);
    assert_false(cw_rx_is_packet(cw_rx_poll(&ring->rx.fast)));
    assert_true(has_space(ring, 0));
    assert_true(has_space(ring, 4096 / 2));
    assert_false(has_space(ring, 4096));
    assert_false(cw_rx_should_notify(&ring->rx.fast));
    ring_free(ring);
}

/* Every length, on its own and behind each other, from every place in turn. */
TEST_WITH(every_length_arrives, random_set_up, NULL)
{
    static const uint32_t firsts[] = {4096, 16384, 65536};
    struct ring *ring;
    size_t length, i;

    for (i = 0; i < 3; i++) {
        ring = ring_new(firsts[i], 65536, 1);
        ring->limit = 65536;
        for (length = 0; length <= 65536 / 8 * 3 - 384; length += 1 + (length > 6000) * 7) {
            assert_int_equal(push(ring, length, length), 1);
            assert_int_equal(receive(ring), (long)length);
            assert_int_equal(receive(ring), -1);
        }
        ring_free(ring);
    }
}

/* 56 bytes lie in one line. Longer ones end at an even line, and long ones have their payload in whole lines. */
TEST_WITH(records_have_their_places, random_set_up, NULL)
{
    struct ring *ring = ring_new(65536, 65536, 1);
    size_t length;
    uint32_t at;

    for (length = 0; length < 1500; length++) {
        at = sent_at(ring);
        if (has_space(ring, length) && at != 0 && sent_at(ring) == at) {
            assert_int_equal(push(ring, length, length), 1);
            assert_true(length > 56 || sent_at(ring) == at + 64);
            assert_true(length <= 56 || sent_at(ring) % 128 == 0);
            assert_true(sent_at(ring) - at <= 64 + 128 + length);
            assert_true(length <= 512 || ((uintptr_t)shm_data(&ring->rx, (uint32_t)length) + 8) % 64 == 0);
        } else {
            assert_int_equal(push(ring, length, length), 1);
        }
        receive_all(ring);
        assert_int_equal(read_at(ring), sent_at(ring));
    }
    ring_free(ring);
}

TEST_WITH(three_packets_share_a_line, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);
    const char *data;
    size_t length;
    uint64_t seen;
    unsigned i;

    for (i = 1; i <= 15; i++) {
        length = 8 + i % 9;
        assert_int_equal(put(ring, length), 1);
        assert_int_equal(sent_at(ring), i / 3 * 64);
        assert_int_equal(receive(ring), (long)length);
        assert_int_equal(receive(ring), -1);
        assert_int_equal(read_at(ring), i / 3 * 64);
        assert_true(shm_sent_mark(&ring->tx) == shm_read_mark(&ring->rx));
    }
    for (i = 0; i < 7; i++) { /* a number of 8 bytes behind its header is aligned, whichever slot it has */
        assert_int_equal(put(ring, 16), 1);
        seen = cw_rx_poll(&ring->rx.fast);
        assert_true(cw_rx_is_short(&ring->rx.fast, seen));
        data = cw_rx_pop(&ring->rx.fast, seen);
        assert_true((uintptr_t)data % 8 == 0);
        assert_true(is_packet(ring, ring->received++, data, 16));
        (void)cw_rx_next(&ring->rx.fast);
    }
    ring_free(ring);
}

TEST_WITH(what_does_not_fit_a_slot_ends_the_line, random_set_up, NULL)
{
    static const size_t lengths[] = {17, 24, 56, 57, 500};
    struct ring *ring = ring_new(65536, 65536, 1);
    uint32_t at;
    size_t i, before, j;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (before = 1; before <= 2; before++) {
            at = sent_at(ring);
            for (j = 0; j < before; j++) {
                assert_int_equal(put(ring, 16), 1);
            }
            assert_int_equal(sent_at(ring), at);
            assert_int_equal(send(ring, lengths[i]), 1);
            assert_int_equal(ring->tx.fast.slot, 0);
            assert_int_equal(sent_at(ring), shm_behind(at + 64, lengths[i]));
            receive_all(ring);
        }
    }
    ring_free(ring);
}

/* A full ring refuses, and everything in it is intact: no unread byte was given out twice. */
TEST_WITH(a_full_ring_refuses, random_set_up, NULL)
{
    struct ring *ring;
    size_t length;
    unsigned count, i;

    for (length = 0; length <= 1024; length += 8) {
        ring = ring_new(4096, 4096, 1);
        for (i = (unsigned)(next_random() % 100); i > 0; i--) {
            assert_int_equal(send(ring, next_random() % 200), 1);
            receive_all(ring);
        }
        for (count = 0; push(ring, length, length); count++) {
        }
        assert_in_range(count, 1, 63);
        assert_true(length <= 256 || count <= 4096 / length);
        assert_false(has_space(ring, length));
        receive_all(ring);
        cw_shm_rx_notify(&ring->rx);
        assert_true(has_space(ring, 4096 / 8 * 3 - 384));
        ring_free(ring);
    }
    ring = ring_new(4096, 4096, 1);
    for (count = 0; send(ring, 16); count++) {
    }
    assert_in_range(count, 3 * 63 - 3, 3 * 63);
    receive_all(ring);
    ring_free(ring);
}

/* When a connection ends nothing is written any more. */
TEST_WITH(nothing_is_put_where_no_room_is_known, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);
    struct cw_line before;

    assert_int_equal(put(ring, 16), 1);
    shm_tx_stop(&ring->tx, 0);
    before = ring->tx.base[0];
    assert_int_equal(put(ring, 16), 0);
    assert_memory_equal(&before, ring->tx.base, sizeof(before));
    ring_free(ring);
}

static void play_with(uint32_t first, uint32_t most, size_t max, uint64_t packets, uint32_t lap, int words,
                      int with_head)
{
    struct ring *ring = ring_new_with(first, most, lap, with_head);
    uint64_t burst, refused = 0, i;
    size_t length, promised;
    long got;

    ring->words = words;
    while (ring->sent < packets) {
        burst = next_random();
        burst = 1 + burst % ((burst & 256) ? 6 : first / 32);
        for (i = 0; i < burst; i++) {
            length = random_length(next_random(), max);
            promised = (i % 4 == 0) ? length + next_random() % (max - length + 1) : length;
            if (!(promised == length ? send(ring, length) : push(ring, length, promised))) {
                refused++;
                break;
            }
        }
        burst = next_random();
        burst = burst % ((burst & 256) ? 6 : first / 32);
        for (i = 0; i < burst && (got = receive(ring)) != -1; i++) {
            assert_true(got >= 0);
        }
        if ((next_random() & 15) == 0) {
            receive_all(ring);
            /* everything was read: what is unpublished is less than a quarter, so even the greatest packet has room */
            assert_true(has_space(ring, max));
        }
        if ((next_random() & 63) == 0) { /* as at rest */
            ring->limit = (ring->limit == most) ? first : most;
            if (ring->sent == ring->received) {
                cw_shm_rx_notify(&ring->rx);
                cw_shm_tx_poll(&ring->tx);
                cw_shm_tx_shrink(&ring->tx, first);
            }
        }
    }
    receive_all(ring);
    assert_true(refused > 0);
    ring_free(ring);
}

static void play(uint32_t first, uint32_t most, size_t max, uint64_t packets, uint32_t lap, int words)
{
    play_with(first, most, max, packets, lap, words, 0);
    play_with(first, most, max, packets, lap, words, 1);
}

TEST_WITH(random_traffic_arrives, random_set_up, NULL)
{
    play(4096, 4096, 4096 / 8, 400000, 1, 0);
    play(4096, 4096, 4096 / 8 * 3 - 384, 200000, 1, 0);
    play(2048, 2048, 300, 200000, 65530, 0); /* numbers of laps come again */
    play(4096, 65536, 1300, 300000, 0xffffff00u, 0);
    play(65536, 65536, 8256, 100000, 77, 0);
    play(65536, 1 << 20, 8256, 100000, 1, 0);
}

/* Payload that is words of laps to come, wherever a line begins. */
TEST_WITH(old_bytes_are_no_packets, random_set_up, NULL)
{
    play(2048, 2048, 300, 400000, 1, 1);
    play(4096, 4096, 1300, 400000, 1, 1);
    play(4096, 65536, 1300, 400000, 1, 1);
}

/* The same, with one record of several lines in the last lap, and single lines in this one: each of them must be
 * refused as the next packet until it is sent. */
TEST_WITH(each_line_of_an_old_record_is_cleared, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);
    uint64_t word = shm_stamp(2) + (UINT64_C(8) << 16) + 0x101;
    unsigned i;
    char *data;

    assert_true(has_space(ring, 1000));
    data = shm_reserve(&ring->tx, 1000);
    for (i = 0; i < 125; i++) {
        memcpy(data + 8 * i, &word, sizeof(word));
    }
    shm_publish(&ring->tx, 1000, 1);
    shm_advance(&ring->rx, 1000);
    while (ring->tx.lap == 1) {
        assert_int_equal(push(ring, 40, 40), 1);
        assert_int_equal(receive(ring), 40);
    }
    for (i = 0; i < 14; i++) {
        assert_int_equal(receive(ring), -1);
        assert_int_equal(i % 2 == 0 ? push(ring, 40, 40) : put(ring, 16) && push(ring, 40, 40), 1);
        receive_all(ring);
    }
    ring_free(ring);
}

/* A lap grows when the ring is full, once nothing of the lap before is unread; and never beyond its bounds. */
TEST_WITH(a_lap_grows_when_it_is_full, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 65536, 1);
    unsigned count;

    for (count = 0; push(ring, 500, 500); count++) {
    }
    assert_in_range(count, 6, 7);
    assert_int_equal(ring->tx.bytes, 4096);
    receive_all(ring);
    cw_shm_rx_notify(&ring->rx);
    ring->limit = 1 << 30;
    for (count = 0; push(ring, 500, 500); count++) {
    }
    assert_int_equal(ring->tx.bytes, 4096); /* it is full of two laps */
    assert_true(ring->tx.wants_more);
    receive_all(ring);
    for (count = 0; push(ring, 500, 500); count++) {
    }
    assert_int_equal(ring->tx.bytes, 8192);
    assert_in_range(count, 8192 / 640, 2 * 8192 / 500);
    for (count = 0; count < 10; count++) {
        receive_all(ring);
        while (push(ring, 500, 500)) {
        }
    }
    assert_int_equal(ring->tx.bytes, 65536);
    receive_all(ring);
    cw_shm_rx_notify(&ring->rx);
    cw_shm_tx_poll(&ring->tx);
    ring->limit = 4096;
    cw_shm_tx_shrink(&ring->tx, 4096);
    for (count = 0; count < 30; count++) {
        assert_int_equal(push(ring, 500, 500), 1);
        receive_all(ring);
    }
    assert_true(sent_at(ring) <= 4096);
    assert_int_equal(ring->tx.bytes, 4096);
    ring_free(ring);
}

/* The first packets lie in the head; the ring is not touched before it is full. */
TEST_WITH(little_traffic_needs_no_ring, random_set_up, NULL)
{
    struct ring *ring = ring_new_with(4096, 65536, 65535, 1);
    char *zeros = calloc(1, 65536 + SHM_LINE);
    unsigned count;

    for (count = 0; put(ring, 16); count++) {
        if (count % 5 == 0) {
            receive_all(ring);
        }
    }
    assert_int_equal(count, 3 * 27);
    assert_memory_equal(ring->memory + GUARD, zeros, 65536 + SHM_LINE);
    assert_true(shm_tx_is_in_head(&ring->tx));
    for (count = 0; push(ring, 40, 40); count++) { /* nothing is read, and a whole lap fits */
        assert_false(shm_tx_is_in_head(&ring->tx));
    }
    assert_int_equal(count, 4096 / 64 - 1);
    receive_all(ring);
    assert_int_equal(push(ring, 300, 300), 1);
    receive_all(ring);
    free(zeros);
    ring_free(ring);
}

/* What does not fit the head goes to the ring at once, which grows even if the head is unread. */
TEST_WITH(long_packets_leave_the_head, random_set_up, NULL)
{
    static const size_t lengths[] = {1600, 1700, 1800, 4000, 20000};
    struct ring *ring;
    unsigned i, first;

    for (i = 0; i < 5; i++) {
        for (first = 0; first < 2; first++) {
            ring = ring_new_with(4096, 65536, 1, 1);
            ring->limit = 65536;
            assert_int_equal(first || put(ring, 16), 1);
            assert_int_equal(push(ring, lengths[i], lengths[i]), 1);
            assert_int_equal(shm_tx_is_in_head(&ring->tx), first && i == 0);
            assert_int_equal(push(ring, 100, 100), 1);
            receive_all(ring);
            ring_free(ring);
        }
    }
}

TEST_WITH(each_packet_rings, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);
    unsigned i;

    ring->attention = 1;
    for (i = 1; i <= 7; i++) {
        assert_int_equal(put(ring, 16), 1);
        assert_int_equal(ring->bells, i);
    }
    ring_free(ring);
}

/* Positions that a hostile consumer may publish: near the truth, in a lap beside it, anything. */
static uint64_t lie(const struct ring *ring)
{
    const uint64_t value = next_random(), truth = shm_position(ring->tx.lap, sent_at(ring));

    switch (value & 7) {
    case 0:
        return truth;
    case 1:
        return truth - (value >> 8) % 8192;
    case 2:
        return truth + (value >> 8) % 8192;
    case 3:
        return truth - (UINT64_C(1) << 32) + (value >> 8) % 8192;
    case 4:
        return shm_position(ring->tx.lap - 1, (uint32_t)(value >> 8));
    case 5:
        return shm_position(ring->tx.lap + (uint32_t)(value >> 8) % 3 - 1, (uint32_t)(value >> 16) % 5000);
    case 6:
        return UINT64_MAX - (value >> 8) % 64;
    default:
        return value;
    }
}

static void believe_nothing(int with_head)
{
    struct ring *ring = ring_new_with(4096, 16384, 1, with_head);
    unsigned round, sent = 0;
    size_t length;
    char *place;

    for (round = 0; round < 400000; round++) {
        ring->control.done = lie(ring);
        ring->limit = (round % 1000 < 10) ? 16384 : 4096;
        if (round % 1000 == 500) {
            cw_shm_tx_shrink(&ring->tx, 4096);
        }
        length = (round & 1) ? random_length(next_random(), 585) : next_random() % 20000;
        if (has_space(ring, length)) {
            place = shm_reserve(&ring->tx, length);
            assert_true(is_inside(ring, place, length));
            memset(place, (int)round, length);
            shm_publish(&ring->tx, length, 1);
            cw_shm_tx_fetch_ahead(&ring->tx, length, true);
            sent++;
        }
        assert_true(sent_at(ring) < ring->most);
        (void)put(ring, 16);
        if (round % 1000 == 0) {
            check_guards(ring);
        }
    }
    assert_true(sent > 1000);
    ring_free(ring);
}

TEST_WITH(a_lying_consumer_makes_nobody_write_outside, random_set_up, NULL)
{
    believe_nothing(0);
    believe_nothing(1);
}

/* Positions that cannot be are no room, and the truth makes up for all. */
TEST_WITH(impossible_positions_are_no_room, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 5);
    const uint64_t truth = ring->control.done;
    size_t i;

    while (push(ring, 300, 300)) {
    }
    while (push(ring, 8, 8)) {
    }
    const uint64_t ahead[] = {shm_position(6, 0), shm_position(5, 4096), shm_position(5, sent_at(ring) + 64),
                              UINT64_MAX, shm_position(3, 0), 0, shm_position(4, sent_at(ring)),
                              shm_position(4, 1 << 20)};
    for (i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        ring->control.done = ahead[i];
        assert_false(has_space(ring, 8));
        assert_false(has_space(ring, 300));
    }
    ring->control.done = truth;
    assert_false(has_space(ring, 8));
    receive_all(ring);
    cw_shm_rx_notify(&ring->rx);
    assert_int_equal(push(ring, 300, 300), 1);
    receive_all(ring);
    ring_free(ring);
}

/* Noise in place of words: a consumer that checks as the transport does reads inside of the ring only, and no more than
 * a slot of an open line. */
static void read_noise(int with_head)
{
    struct ring *ring = ring_new_with(4096, 4096, 1, with_head);
    const struct shm_place place = place_of(ring, 4096, with_head);
    unsigned round, seen_count = 0, behind = 0, wraps = 0;
    volatile char sum = 0;
    const char *data;
    uint64_t word, seen;
    uint32_t length, lap, i;

    for (round = 0; round < 400000; round++) {
        if (ring->rx.fast.line >= ring->rx.end) { /* here a transport ends the connection */
            cw_shm_rx_init(&ring->rx, &place, ring->rx.lap);
        }
        lap = ring->rx.lap;
        word = next_random();
        if (ring->rx.fast.slot == 0) {
            if (round & 1) {
                word = shm_stamp(lap) + ((word % ((word & 256) ? 80 : 5000)) << 16) + (word & 0xff01) + (word & 4);
            }
            if ((round & 15) == 5) {
                word = shm_stamp(lap) + SHM_WRAP + 1;
            }
            ring->rx.fast.line->word = word;
        } else {
            for (i = 0; i < CW_LINE_SLOTS - 1; i++) {
                word = next_random();
                ring->rx.fast.line->more[i] = (uint32_t)((word & 1) != 0 ? word >> 32 : (word >> 32) % (60u << 16));
            }
            if ((next_random() & 3) == 0) {
                ring->rx.fast.line->more[ring->rx.fast.slot - 1] = CW_LINE_OVER;
            }
        }
        seen = (round & 2) ? cw_rx_poll(&ring->rx.fast) : shm_peek(&ring->rx);
        length = cw_rx_length(seen);
        wraps += ring->rx.lap != lap;
        if (!cw_rx_is_packet(seen)) {
            continue;
        }
        if (length <= CW_LINE_DATA && ring->rx.fast.line < ring->rx.end) {
            behind += ring->rx.fast.slot != 0;
            data = cw_rx_pop(&ring->rx.fast, seen);
            assert_true(is_inside(ring, data, length));
            cw_rx_passed(&ring->rx.fast);
        } else if (length > CW_LINE_DATA && shm_is_inside(&ring->rx, length)) {
            data = shm_data(&ring->rx, length);
            assert_true(is_inside(ring, data, length));
            for (i = 0; i < length; i += 61) {
                sum = (char)(sum + data[i]);
            }
            shm_advance(&ring->rx, length);
            seen_count++;
        }
        assert_true(ring->rx.fast.slot < CW_LINE_SLOTS);
        assert_true(ring->rx.fast.line <= ring->rx.end);
        publish_if_due(ring);
    }
    assert_true(seen_count > 1000);
    assert_true(behind > 1000);
    assert_true(wraps > 100);
    ring_free(ring);
}

TEST_WITH(a_lying_producer_makes_nobody_read_outside, random_set_up, NULL)
{
    read_noise(0);
    read_noise(1);
}

/* The core takes short packets without a check of the end of the ring: it stops there. */
TEST_WITH(short_packets_end_at_the_end, random_set_up, NULL)
{
    struct ring *ring = ring_new(4096, 4096, 1);
    uint64_t seen;
    unsigned i;

    for (i = 0; i < 4096 / 64 + 1; i++) {
        ring->rx.base[i].word = shm_stamp(1) + (UINT64_C(20) << 16) + 1;
    }
    for (i = 0; i < 4096 / 64; i++) {
        seen = cw_rx_poll(&ring->rx.fast);
        if (!cw_rx_is_short(&ring->rx.fast, seen)) {
            cw_shm_rx_notify(&ring->rx);
            assert_true(cw_rx_is_short(&ring->rx.fast, seen));
        }
        (void)cw_rx_pop(&ring->rx.fast, seen);
        (void)cw_rx_next(&ring->rx.fast);
    }
    cw_shm_rx_notify(&ring->rx);
    assert_false(cw_rx_is_short(&ring->rx.fast, cw_rx_poll(&ring->rx.fast)));
    assert_false(shm_is_inside(&ring->rx, 20));
    ring_free(ring);
}

struct race {
    struct ring *ring;
    uint64_t packets;
    size_t max;
    int damaged;
};

/* Lengths follow from the number, so that the consumer knows them, too. */
static size_t race_length(const struct race *race, uint64_t n)
{
    return random_length(mix(race->ring->seed * 3 + n), race->max);
}

static void *race_produce(void *arg)
{
    struct race *race = arg;
    uint64_t n;

    for (n = 0; n < race->packets; n++) {
        while (!send(race->ring, race_length(race, n))) {
            sched_yield();
        }
    }
    return NULL;
}

TEST_WITH(two_threads_agree, random_set_up, NULL)
{
    static const struct {
        uint32_t first, most;
        size_t max;
        uint64_t packets;
        int words;
    } kinds[] = {{4096, 4096, 585, 200000, 0}, {65536, 65536, 8256, 60000, 0}, {1024, 65536, 200, 200000, 1},
                 {4096, 1 << 20, 3000, 100000, 1}};
    pthread_t producer;
    struct race race;
    uint64_t n;
    size_t i;
    long got;

    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        race = (struct race){.ring = ring_new_with(kinds[i].first, kinds[i].most, 65000, i % 2 == 0),
                             .packets = kinds[i].packets,
                             .max = kinds[i].max};
        race.ring->words = kinds[i].words;
        race.ring->limit = kinds[i].most;
        assert_int_equal(pthread_create(&producer, NULL, race_produce, &race), 0);
        for (n = 0; n < race.packets; n++) {
            while ((got = receive(race.ring)) == -1) {
                sched_yield();
            }
            if (got != (long)race_length(&race, n)) {
                fail_msg("packet %llu: %ld bytes", (unsigned long long)n, got);
            }
        }
        assert_int_equal(pthread_join(producer, NULL), 0);
        assert_int_equal(receive(race.ring), -1);
        ring_free(race.ring);
    }
}
