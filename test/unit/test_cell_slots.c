/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that share a cell (transport/fastpath.h), both sides in one process, mixed with those that have one of their
 * own and those in the byte area: all arrive once, in order and intact; and whatever the producer writes, the consumer
 * reads inside of the ring only, and no more than a slot of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "test_random.h"
#include "transport/shm/shm_ring.h"

#define AREA 4096u

struct ring {
    struct shm_ring_control control;
    struct cw_tx producer;
    struct cw_rx consumer;
    uint32_t attention;
    unsigned bells;
    uint64_t sent;
    uint64_t received;
    struct cw_cell *cells;
    char *bytes;
};

static void ring_bell(struct cw_tx *producer)
{
    struct ring *ring = (struct ring *)(void *)((char *)producer - offsetof(struct ring, producer));

    ring->bells++;
}

/* As if so many cells had gone through. */
static struct ring *ring_new(uint32_t shift, uint64_t cells)
{
    struct ring *ring = aligned_alloc(64, (sizeof(*ring) + 63) & ~(size_t)63);

    assert_non_null(ring);
    memset(ring, 0, sizeof(*ring));
    ring->cells = aligned_alloc(64, sizeof(struct cw_cell) << shift);
    ring->bytes = aligned_alloc(64, AREA);
    assert_non_null(ring->cells);
    assert_non_null(ring->bytes);
    memset(ring->cells, 0, sizeof(struct cw_cell) << shift);
    memset(ring->bytes, 0, AREA);
    ring->control.cells_done = cells;
    shm_producer_init(&ring->producer, ring->cells, shift, ring->bytes, AREA, &ring->control, cells, 0);
    shm_consumer_init(&ring->consumer, ring->cells, shift, ring->bytes, AREA, &ring->control, cells, 0);
    ring->producer.attention = &ring->attention;
    ring->producer.bell      = ring_bell;
    return ring;
}

static void ring_free(struct ring *ring)
{
    free(ring->cells);
    free(ring->bytes);
    free(ring);
}

static uint8_t id_of(uint64_t n)
{
    return (uint8_t)(1 + n % 200);
}

static void fill(uint64_t n, char *payload, size_t length)
{
    size_t i;

    for (i = 0; i < length; i++) {
        payload[i] = (char)(n * 7 + i);
    }
}

/* Sends a packet without looking for room; 0: no room is known. */
static int put_now(struct cw_tx *producer, uint8_t id, uint64_t header, const void *payload, size_t length)
{
    if (cw_tx_takes(producer, length)) {
        cw_tx_put(producer, id, header, payload, length);
        return 1;
    }
    if (length <= CW_CELL_FEW || !cw_cell_is_next(producer)) {
        return 0;
    }
    memcpy(producer->cell->data, &header, sizeof(header));
    memcpy(producer->cell->data + sizeof(header), payload, length);
    cw_cell_send(producer, id, sizeof(header) + length);
    return 1;
}

/* Packet number n: n is its header, its payload follows from n. 0: no room is known. */
static int put(struct ring *ring, size_t length)
{
    char payload[CW_CELL_SHORT];

    fill(ring->sent, payload, length);
    if (!put_now(&ring->producer, id_of(ring->sent), ring->sent, payload, length)) {
        return 0;
    }
    ring->sent++;
    return 1;
}

/* As a transport sends it: looks for room, and goes on behind the end of a lap. */
static int push(struct ring *ring, size_t length)
{
    char *data;

    if (!shm_has_room(&ring->producer, sizeof(uint64_t) + length)) {
        return 0;
    }
    data = shm_reserve(&ring->producer, sizeof(uint64_t) + length);
    memcpy(data, &ring->sent, sizeof(uint64_t));
    fill(ring->sent, data + sizeof(uint64_t), length);
    shm_publish(&ring->producer, sizeof(uint64_t) + length, id_of(ring->sent));
    ring->sent++;
    return 1;
}

/* As the core does: what is not possible at once goes by the transport. */
static int send(struct ring *ring, size_t length)
{
    return (length <= CW_CELL_SHORT && put(ring, length)) || push(ring, length);
}

static int is_next(const struct ring *ring, const char *data, uint32_t length)
{
    uint64_t n = ring->received;
    char expected[1024];

    fill(n, expected, length - sizeof(n));
    return memcmp(data, &n, sizeof(n)) == 0 && memcmp(data + sizeof(n), expected, length - sizeof(n)) == 0;
}

/* The length of the payload; -1: there is nothing. -2: it is damaged. */
static long receive(struct ring *ring)
{
    const uint64_t seen   = shm_cell_peek(&ring->consumer);
    const uint32_t length = cw_rx_length(seen);
    int good;

    if (seen == 0) {
        return -1;
    }
    good = cw_rx_id(seen) == id_of(ring->received) && length >= sizeof(uint64_t) && length <= 1024;
    if (good && length <= CW_CELL_DATA) {
        good = is_next(ring, cw_rx_take(&ring->consumer, seen), length);
        cw_rx_passed(&ring->consumer);
    } else if (good) {
        good = is_next(ring, shm_data(&ring->consumer, length), length);
        shm_advance(&ring->consumer, length);
    }
    ring->received++;
    if (cw_rx_should_tell(&ring->consumer)) {
        shm_tell(&ring->consumer);
    }
    return good ? (long)length - (long)sizeof(uint64_t) : -2;
}

static void receive_all(struct ring *ring)
{
    long length;

    while ((length = receive(ring)) != -1) {
        assert_true(length >= 0);
    }
    assert_true(ring->received == ring->sent);
}

static void three_packets_share_a_cell(void **state)
{
    struct ring *ring = ring_new(4, 0);
    size_t length;
    unsigned i;

    (void)state;
    for (i = 1; i <= 15; i++) {
        length = (i % 9 <= 8) ? i % 9 : 8;
        assert_int_equal(put(ring, length), 1);
        assert_int_equal(cw_cell_num_sent(&ring->producer), i / 3);
        assert_int_equal(receive(ring), (long)length);
        assert_int_equal(receive(ring), -1);
        assert_int_equal(cw_cell_num_read(&ring->consumer), i / 3);
        assert_int_equal(cw_cell_sent_mark(&ring->producer), i);
        assert_int_equal(cw_cell_read_mark(&ring->consumer), i);
    }
    for (i = 0; i < 7; i++) {
        assert_int_equal(put(ring, 8), 1);
    }
    receive_all(ring);
    ring_free(ring);
}

/* A number of 8 bytes behind its header is aligned, whichever slot it has. */
static void payload_is_aligned(void **state)
{
    struct ring *ring = ring_new(4, 0);
    const char *data;
    uint64_t seen;
    unsigned i;

    (void)state;
    for (i = 0; i < 6; i++) {
        assert_int_equal(put(ring, 8), 1);
        seen = cw_rx_look(&ring->consumer);
        assert_true(cw_rx_is_short(&ring->consumer, seen));
        data = cw_rx_take(&ring->consumer, seen);
        cw_rx_passed(&ring->consumer);
        assert_true((uintptr_t)data % 8 == 0);
        assert_true(is_next(ring, data, 16));
        ring->received++;
    }
    ring_free(ring);
}

static void what_does_not_fit_a_slot_ends_the_cell(void **state)
{
    static const size_t lengths[] = {9, 16, 48, 49, 500};
    struct ring *ring             = ring_new(6, 0);
    uint64_t cells;
    size_t i, before;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (before = 1; before <= 3; before++) {
            cells = cw_cell_num_sent(&ring->producer);
            while (ring->producer.slot != before % 3 || cw_cell_num_sent(&ring->producer) == cells) {
                assert_int_equal(put(ring, 8), 1);
                if (ring->producer.slot == before) {
                    break;
                }
            }
            assert_int_equal(send(ring, lengths[i]), 1);
            assert_int_equal(ring->producer.slot, 0);
            assert_int_equal(cw_cell_num_sent(&ring->producer), cells + 2);
            assert_int_equal(put(ring, 8), 1);
            receive_all(ring);
            assert_int_equal(send(ring, 20), 1);
            receive_all(ring);
        }
    }
    ring_free(ring);
}

/* An open cell belongs to the producer until it is over; then a full ring refuses, until it is told of room. */
static void a_full_ring_refuses(void **state)
{
    struct ring *ring = ring_new(4, 0);
    unsigned round, i;

    (void)state;
    for (round = 0; round < 70; round++) {
        for (i = 0; send(ring, 8); i++) {
        }
        assert_in_range(i, 40, 48); /* what goes by the transport has a cell of its own */
        assert_int_equal(send(ring, 0), 0);
        assert_int_equal(send(ring, 30), 0);
        receive_all(ring);
        shm_tell(&ring->consumer);
        for (i = 0; i < round % 7; i++) {
            assert_int_equal(send(ring, (i % 2 == 0) ? 8 : 9), 1);
        }
        receive_all(ring);
        shm_tell(&ring->consumer);
    }
    ring_free(ring);
    ring = ring_new(4, 0);
    for (i = 0; i < 48 - 2; i++) { /* full but for two slots, in which a longer one has no room */
        assert_int_equal(put(ring, 8), 1);
    }
    assert_int_equal(send(ring, 30), 0);
    receive_all(ring);
    shm_tell(&ring->consumer);
    assert_int_equal(send(ring, 30), 1);
    receive_all(ring);
    ring_free(ring);
}

/* When a connection ends no cell is free any more: nothing is written, not even that a cell is over. */
static void nothing_is_written_when_no_cell_is_free(void **state)
{
    struct ring *ring = ring_new(4, 0);
    struct cw_cell before;

    (void)state;
    assert_int_equal(put(ring, 8), 1);
    cw_cell_set_limit(&ring->producer, cw_cell_num_sent(&ring->producer));
    before = ring->cells[0];
    assert_int_equal(put(ring, 8), 0);
    assert_int_equal(put(ring, 20), 0);
    assert_int_equal(cw_cell_is_next(&ring->producer), 0);
    assert_memory_equal(&before, &ring->cells[0], sizeof(before));
    ring_free(ring);
}

/* What a longer packet left in a cell is not taken for a word of the next lap, whatever it says. */
static void bytes_of_the_last_lap_are_no_packets(void **state)
{
    static const uint32_t words[] = {(16u << 16) | (7u << 8) | 5, 1, CW_CELL_OVER};
    struct ring *ring             = ring_new(2, 0);
    char data[CW_CELL_SHORT];
    uint64_t seen;
    size_t word, i;

    (void)state;
    for (word = 0; word < sizeof(words) / sizeof(words[0]); word++) {
        for (i = 0; i < sizeof(data); i += sizeof(words[0])) {
            memcpy(data + i, &words[word], sizeof(words[0]));
        }
        for (i = 0; i < 4; i++) {
            assert_true(shm_has_room(&ring->producer, CW_CELL_DATA));
            memcpy(&seen, data, sizeof(seen));
            assert_true(put_now(&ring->producer, 1, seen, data, sizeof(data)));
            seen = shm_cell_peek(&ring->consumer);
            assert_int_equal(cw_rx_length(seen), CW_CELL_DATA);
            (void)cw_rx_take(&ring->consumer, seen);
            cw_rx_passed(&ring->consumer);
            shm_tell(&ring->consumer);
        }
        for (i = 0; i < 12; i++) {
            assert_int_equal(send(ring, 8), 1);
            assert_int_equal(receive(ring), 8);
            assert_int_equal(receive(ring), -1);
            shm_tell(&ring->consumer);
        }
    }
    ring_free(ring);
}

/* The peer that sleeps is told of each packet, in whichever slot it is. */
static void each_packet_rings(void **state)
{
    struct ring *ring = ring_new(4, 0);
    unsigned i;

    (void)state;
    ring->attention = 1;
    for (i = 1; i <= 7; i++) {
        assert_int_equal(put(ring, 8), 1);
        assert_int_equal(ring->bells, i);
    }
    ring_free(ring);
}

static size_t random_length(uint64_t value)
{
    return (value & 7) < 5 ? (value >> 8) % 9 : (value & 7) < 7 ? (value >> 8) % 56 : (value >> 8) % 500;
}

static void play(uint32_t shift, uint64_t cells)
{
    struct ring *ring = ring_new(shift, cells);
    uint64_t burst;
    long got;

    while (ring->sent < 200000) {
        for (burst = next_random() % (5u << shift); burst > 0; burst--) {
            if (!send(ring, random_length(next_random()))) {
                break;
            }
        }
        for (burst = next_random() % (5u << shift); burst > 0 && (got = receive(ring)) != -1; burst--) {
            assert_true(got >= 0);
        }
        if (next_random() % 16 == 0) {
            receive_all(ring);
            shm_tell(&ring->consumer);
        }
    }
    receive_all(ring);
    ring_free(ring);
}

static void random_traffic_arrives(void **state)
{
    (void)state;
    play(0, 0);
    play(1, 0);
    play(4, UINT64_C(65530) << 4); /* laps wrap */
    play(8, 77);
}

/* Noise in the cells, and in the words of slots behind a cell that is open. */
static void a_lying_producer_makes_nobody_read_outside(void **state)
{
    struct ring *ring   = ring_new(4, 0);
    const uint32_t *end = (const uint32_t *)(const void *)(ring->cells + 16);
    unsigned round, behind = 0;
    const char *data;
    uint64_t word, seen;
    uint32_t length, slot, i;

    (void)state;
    for (round = 0; round < 300000; round++) {
        slot = ring->consumer.slot;
        if (slot == 0) {
            word = cw_cell_word(shm_lap(cw_cell_num_read(&ring->consumer), 4), 0, 3);
            word += (next_random() % ((round & 1) ? 20 : 80)) << 16;
            ring->consumer.cell->control = word | ((next_random() & 3) != 0 ? CW_CELL_OPEN : 0);
        } else {
            for (i = 0; i < CW_CELL_SLOTS - 1; i++) {
                word = next_random();
                ring->consumer.cell->more[i] = (uint32_t)((word & 1) != 0 ? word >> 32 : (word >> 32) % (60u << 16));
            }
            ring->consumer.cell->more[0] = (next_random() & 3) ? ring->consumer.cell->more[0] : CW_CELL_OVER;
        }
        seen   = (round & 2) ? cw_rx_look(&ring->consumer) : shm_cell_peek(&ring->consumer);
        length = cw_rx_length(seen);
        if (cw_rx_is_packet(seen) && length <= CW_CELL_DATA) {
            behind += ring->consumer.slot != 0;
            data    = cw_rx_take(&ring->consumer, seen);
            assert_true(data >= (const char *)ring->cells);
            assert_true(data + length <= (const char *)end);
            cw_rx_passed(&ring->consumer);
        } else {
            cw_cell_advance(&ring->consumer);
        }
        assert_true(ring->consumer.slot < CW_CELL_SLOTS);
        assert_true(ring->consumer.cell < ring->consumer.cells_end);
        shm_tell(&ring->consumer);
    }
    assert_true(behind > 10000);
    ring_free(ring);
}

#define RACE 400000u

static void *produce(void *arg)
{
    struct ring *ring = arg;

    while (ring->sent < RACE) {
        if (!send(ring, random_length(mix(ring->sent)))) {
            sched_yield();
        }
    }
    return NULL;
}

static void two_threads_agree(void **state)
{
    struct ring *ring = ring_new(6, 0);
    pthread_t producer;
    long got;

    (void)state;
    assert_int_equal(pthread_create(&producer, NULL, produce, ring), 0);
    while (ring->received < RACE) {
        got = receive(ring);
        if (got == -1) {
            sched_yield();
        } else {
            assert_int_equal(got, (long)random_length(mix(ring->received - 1)));
        }
    }
    assert_int_equal(pthread_join(producer, NULL), 0);
    assert_int_equal(receive(ring), -1);
    ring_free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(three_packets_share_a_cell, random_set_up),
        cmocka_unit_test_setup(payload_is_aligned, random_set_up),
        cmocka_unit_test_setup(what_does_not_fit_a_slot_ends_the_cell, random_set_up),
        cmocka_unit_test_setup(a_full_ring_refuses, random_set_up),
        cmocka_unit_test_setup(nothing_is_written_when_no_cell_is_free, random_set_up),
        cmocka_unit_test_setup(bytes_of_the_last_lap_are_no_packets, random_set_up),
        cmocka_unit_test_setup(each_packet_rings, random_set_up),
        cmocka_unit_test_setup(random_traffic_arrives, random_set_up),
        cmocka_unit_test_setup(a_lying_producer_makes_nobody_read_outside, random_set_up),
        cmocka_unit_test_setup(two_threads_agree, random_set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
