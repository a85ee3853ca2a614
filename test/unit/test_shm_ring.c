/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ring of transport/shm/shm_ring.h, both sides in one process: packets of every length arrive once, in order and
 * intact; a producer is never stuck; and whatever the other side writes into the shared memory, nobody leaves it. The
 * memory lies between guard zones.
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
#include "transport/shm/shm.h"

#define GUARD      4096u
#define GUARD_BYTE 0xc3

struct ring {
    char *memory;
    size_t cells_size;
    size_t bytes_size;
    struct cw_tx producer;
    struct cw_rx consumer;
    uint64_t sent;
    uint64_t received;
    uint64_t seed;
};

/* guard | control | guard | cells | guard | bytes | guard */
static void ring_new(struct ring *ring, uint32_t cell_shift, uint32_t num_bytes)
{
    struct shm_ring_control *control;
    struct cw_cell *cells;
    char *bytes;

    *ring            = (struct ring){.cells_size = sizeof(struct cw_cell) << cell_shift, .bytes_size = num_bytes};
    ring->seed       = next_random();
    ring->memory     = aligned_alloc(64, 4 * GUARD + sizeof(*control) + ring->cells_size + ring->bytes_size);
    assert_non_null(ring->memory);
    memset(ring->memory, GUARD_BYTE, 4 * GUARD + sizeof(*control) + ring->cells_size + ring->bytes_size);
    control = (struct shm_ring_control *)(void *)(ring->memory + GUARD);
    cells   = (struct cw_cell *)(void *)(ring->memory + 2 * GUARD + sizeof(*control));
    bytes   = (char *)cells + ring->cells_size + GUARD;
    memset(control, 0, sizeof(*control));
    memset(cells, 0, ring->cells_size);
    memset(bytes, 0, ring->bytes_size);
    shm_producer_init(&ring->producer, cells, cell_shift, bytes, num_bytes, control, 0, 0);
    shm_consumer_init(&ring->consumer, cells, cell_shift, bytes, num_bytes, control, 0, 0);
}

static void check_guard(const char *guard)
{
    size_t i;

    for (i = 0; i < GUARD; i++) {
        assert_int_equal((unsigned char)guard[i], GUARD_BYTE);
    }
}

static void check_guards(const struct ring *ring)
{
    check_guard(ring->memory);
    check_guard(ring->memory + GUARD + sizeof(struct shm_ring_control));
    check_guard((char *)ring->consumer.cells + ring->cells_size);
    check_guard(ring->consumer.bytes + ring->bytes_size);
}

static void ring_free(struct ring *ring)
{
    check_guards(ring);
    free(ring->memory);
}

/* Both sides as if so many cells had gone through. */
static void ring_forward(struct ring *ring, uint64_t cells, uint64_t bytes)
{
    const struct cw_tx was    = ring->producer;
    struct shm_ring_control *control = was.control;
    uint64_t i, count                = UINT64_C(1) << was.cell_shift;

    shm_producer_init(&ring->producer, was.cells, was.cell_shift, was.bytes, was.num_bytes, control, cells, bytes);
    shm_consumer_init(&ring->consumer, was.cells, was.cell_shift, was.bytes, was.num_bytes, control, cells, bytes);
    control->cells_done = cells;
    control->bytes_done = bytes;
    for (i = (cells < count) ? 0 : cells - count; i < cells; i++) { /* what the last round left behind */
        shm_cell_at(ring->producer.cells, i, ring->producer.cell_shift)->control =
            cw_cell_word(shm_lap(i, ring->producer.cell_shift), 8, 7);
    }
}

/* Packet number n of a ring: its id follows from n, its length is given, its bytes from both. */
static uint8_t packet_id(const struct ring *ring, uint64_t n)
{
    return (uint8_t)mix(ring->seed + n);
}

static void packet_fill(const struct ring *ring, uint64_t n, char *data, size_t length)
{
    uint64_t word = mix(ring->seed ^ (n << 20) ^ length);
    size_t i;

    for (i = 0; i + 8 <= length; i += 8, word += 0x9e3779b97f4a7c15u) {
        memcpy(data + i, &word, 8);
    }
    memcpy(data + i, &word, length - i);
}

static int packet_is(const struct ring *ring, uint64_t n, const char *data, size_t length)
{
    uint64_t word = mix(ring->seed ^ (n << 20) ^ length);
    size_t i;

    for (i = 0; i + 8 <= length; i += 8, word += 0x9e3779b97f4a7c15u) {
        if (memcmp(data + i, &word, 8) != 0) {
            return 0;
        }
    }
    return memcmp(data + i, &word, length - i) == 0;
}

/* As a transport sends: reserves `max`, writes `length`, which may mean another place. */
static int send_packet(struct ring *ring, size_t length, size_t max)
{
    char *data, *place;

    if (!shm_has_room(&ring->producer, max)) {
        return 0;
    }
    data = shm_reserve(&ring->producer, max);
    packet_fill(ring, ring->sent, data, length);
    place = shm_reserve(&ring->producer, length);
    if (place != data) {
        memmove(place, data, length);
    }
    shm_publish(&ring->producer, length, packet_id(ring, ring->sent));
    cw_byte_ring_fetch_ahead(&ring->producer, length);
    ring->sent++;
    return 1;
}

/* The length of the packet, or -1 when there is none. */
static long receive_packet(struct ring *ring)
{
    uint64_t word = shm_cell_peek(&ring->consumer);
    uint32_t length;

    if (word == 0) {
        return -1;
    }
    length = cw_rx_length(word);
    if (cw_rx_id(word) != packet_id(ring, ring->received) || length > ring->bytes_size ||
        !packet_is(ring, ring->received, shm_data(&ring->consumer, length), length)) {
        fail_msg("packet %llu of %u bytes is damaged", (unsigned long long)ring->received, length);
    }
    ring->received++;
    shm_advance(&ring->consumer, length);
    if (cw_rx_should_tell(&ring->consumer)) {
        shm_tell(&ring->consumer);
    }
    return (long)length;
}

static void receive_all(struct ring *ring)
{
    while (receive_packet(ring) >= 0) {
    }
    assert_true(ring->received == ring->sent);
}

/* Mostly small ones, many about the border between cell and byte area, some up to the limit. */
static size_t random_length(uint64_t value, size_t max)
{
    size_t length;

    switch (value & 7) {
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
    default:
        length = (value >> 8) % 57;
    }
    return (length > max) ? max : length;
}

static void an_empty_ring_has_nothing(void **state)
{
    struct ring ring;

    (void)state;
    ring_new(&ring, 4, 4096);
    assert_true(shm_cell_peek(&ring.consumer) == 0);
    assert_int_equal(receive_packet(&ring), -1);
    assert_true(shm_has_room(&ring.producer, 0));
    assert_true(shm_has_room(&ring.producer, 4096));
    assert_false(shm_has_room(&ring.producer, 4097));
    assert_false(cw_rx_should_tell(&ring.consumer));
    ring_free(&ring);
}

/* Every length, on its own and behind each other, from every place of the byte area in turn. */
static void every_length_arrives(void **state)
{
    static const uint32_t shifts[] = {0, 4, 8};
    struct ring ring;
    size_t length;
    unsigned i;

    (void)state;
    for (i = 0; i < 3; i++) {
        ring_new(&ring, shifts[i], 16384);
        for (length = 0; length <= 16384; length++) {
            if (length > 16384 / 4) { /* may have to wait until more than a quarter was told */
                shm_tell(&ring.consumer);
                ring_forward(&ring, cw_cell_num_read(&ring.consumer), (uint64_t)16384 * length);
            }
            assert_int_equal(send_packet(&ring, length, length), 1);
            assert_int_equal(receive_packet(&ring), (long)length);
            assert_int_equal(receive_packet(&ring), -1);
        }
        ring_free(&ring);
    }
}

/* 56 bytes lie in the cell, 57 in the byte area. */
static void the_border_lies_behind_56_bytes(void **state)
{
    const char *cell;
    struct ring ring;
    size_t length;

    (void)state;
    ring_new(&ring, 4, 4096);
    for (length = 50; length < 64; length++) {
        cell = shm_cell_at(ring.producer.cells, cw_cell_num_sent(&ring.producer), 4)->data;
        assert_int_equal(shm_reserve(&ring.producer, length) == cell, length <= 56);
        assert_int_equal(send_packet(&ring, length, length), 1);
        assert_int_equal(receive_packet(&ring), (long)length);
    }
    assert_true(ring.producer.byte_count == 7 * 64);
    assert_true(ring.consumer.byte_count == 7 * 64);
    ring_free(&ring);
}

/* A full ring refuses, and everything in it is intact: no unread byte was given out twice. */
static void a_full_ring_refuses(void **state)
{
    size_t length;
    struct ring ring;
    unsigned count;

    (void)state;
    for (length = 0; length <= 1024; length += 8) {
        ring_new(&ring, 4, 4096);
        ring_forward(&ring, next_random() % 100, next_random() % 1000 * 64);
        for (count = 0; send_packet(&ring, length, length); count++) {
        }
        assert_in_range(count, 1, 16);
        assert_true(length > 56 || count == 16);
        assert_true(length <= 256 || count <= 4096 / length);
        assert_false(shm_has_room(&ring.producer, length));
        receive_all(&ring);
        assert_int_equal(ring.received, count);
        assert_true(shm_has_room(&ring.producer, (length < 4096 / 7) ? 4096 / 7 : 0));
        ring_free(&ring);
    }
}

static void play(uint32_t cell_shift, uint32_t num_bytes, size_t max, uint64_t packets)
{
    uint64_t burst, refused = 0, i;
    struct ring ring;
    size_t length, promised;

    ring_new(&ring, cell_shift, num_bytes);
    while (ring.sent < packets) {
        burst = next_random();
        burst = 1 + burst % ((burst & 256) ? 6 : (2u << cell_shift));
        for (i = 0; i < burst; i++) {
            length   = random_length(next_random(), max);
            promised = (i % 4 == 0) ? length + next_random() % (max - length + 1) : length;
            if (!send_packet(&ring, length, promised)) {
                refused++;
                break;
            }
        }
        burst = next_random();
        burst = burst % ((burst & 256) ? 6 : (2u << cell_shift));
        for (i = 0; i < burst && receive_packet(&ring) >= 0; i++) {
        }
        if ((next_random() & 15) == 0) {
            receive_all(&ring);
            /* everything was read: what is untold is less than a quarter, so even the greatest packet has room */
            assert_true(shm_has_room(&ring.producer, max));
        }
    }
    receive_all(&ring);
    assert_true(refused > 0);
    ring_free(&ring);
}

/* A ring holds seven of its greatest packets or more in the transport; half of that must still do. */
static void random_traffic_arrives(void **state)
{
    (void)state;
    play(4, 4096, 4096 / 7, 700000);
    play(4, 4096, 4096 / 3, 200000);
    play(0, 4096, 585, 50000);
    play(1, 4096, 585, 50000);
    play(6, 8192, 1000, 300000);
    play(8, 65536, 8256, 200000);
    play(4, 65536, 60, 300000);
    play(10, 4096, 256, 300000);
}

/* The lap number has 16 bits: packets of the round before are not taken for new ones where it wraps. */
static void lap_numbers_wrap(void **state)
{
    uint64_t lap, start, packets;
    struct ring ring;
    uint32_t shift;

    (void)state;
    for (shift = 0; shift <= 8; shift += 4) {
        for (lap = 65533; lap < 3 * UINT64_C(65536); lap += 65536) {
            ring_new(&ring, shift, 4096);
            start = lap << shift;
            ring_forward(&ring, start, 64 * lap);
            assert_int_equal(receive_packet(&ring), -1);
            for (packets = 0; packets < (UINT64_C(6) << shift); packets++) {
                assert_int_equal(send_packet(&ring, packets % 100, packets % 100), 1);
                assert_int_equal(receive_packet(&ring), (long)(packets % 100));
                assert_int_equal(receive_packet(&ring), -1);
            }
            assert_true(shm_lap(cw_cell_num_sent(&ring.producer), shift) < 65533);
            ring_free(&ring);
        }
    }
}

/* All the way from the beginning, with a ring that is as full as can be. */
static void a_tiny_ring_runs_through_all_laps(void **state)
{
    struct ring ring;

    (void)state;
    ring_new(&ring, 4, 4096);
    while (ring.sent < (UINT64_C(65540) << 4)) {
        while (send_packet(&ring, ring.sent % 9, ring.sent % 9)) {
        }
        receive_all(&ring);
    }
    ring_free(&ring);
}

/* Word 0 is what fresh memory holds, and no packet has it. */
static void no_packet_has_the_word_zero(void **state)
{
    uint64_t lap;

    (void)state;
    for (lap = 0; lap < 65536; lap++) {
        assert_true(cw_cell_word(lap, 0, 0) != 0);
        assert_true(cw_cell_word(lap, 0, 0) >> 48 == lap);
    }
    assert_int_equal(cw_rx_length(cw_cell_word(0xffff, UINT32_MAX, 0)), UINT32_MAX);
    assert_int_equal(cw_rx_id(cw_cell_word(0xffff, 0, 0xff)), 0xff);
    assert_int_equal(cw_rx_id(cw_cell_word(0, UINT32_MAX, 0)), 0);
}

/* Numbers that a hostile consumer may tell: near the truth, behind it, far ahead, anything. */
static uint64_t lie(uint64_t truth, uint64_t size)
{
    uint64_t value = next_random();

    switch (value & 7) {
    case 0:
        return truth;
    case 1:
        return truth - (value >> 8) % (2 * size);
    case 2:
        return truth + (value >> 8) % (2 * size);
    case 3:
        return truth + (value >> 8) % 65536 * 64;
    case 4:
        return truth + size - (value >> 8) % 128;
    case 5:
        return 0;
    case 6:
        return UINT64_MAX - (value >> 8) % 64;
    default:
        return value;
    }
}

static void check_inside(const struct ring *ring, const char *place, size_t length)
{
    const char *cells = (const char *)ring->producer.cells, *bytes = ring->producer.bytes;

    assert_true((place >= cells && place + length <= cells + ring->cells_size) ||
                (place >= bytes && place + length <= bytes + ring->bytes_size));
}

static void a_lying_consumer_makes_nobody_write_outside(void **state)
{
    struct ring ring;
    unsigned round, sent = 0;
    size_t length;
    char *place;

    (void)state;
    ring_new(&ring, 4, 4096);
    for (round = 0; round < 400000; round++) {
        ring.producer.control->cells_done = lie(cw_cell_num_sent(&ring.producer), 16);
        ring.producer.control->bytes_done = lie(ring.producer.byte_count, 4096);
        length = (round & 1) ? random_length(next_random(), 585) : next_random() % 20000;
        if (shm_has_room(&ring.producer, length)) {
            assert_true(length <= 4096);
            place = shm_reserve(&ring.producer, length);
            check_inside(&ring, place, length);
            memset(place, (int)round, length);
            shm_publish(&ring.producer, length, 1);
            cw_byte_ring_fetch_ahead(&ring.producer, length);
            sent++;
        }
        if (round % 1000 == 0) {
            check_guards(&ring);
        }
    }
    assert_true(sent > 1000);
    ring_free(&ring);
}

/* Counters ahead of the producer or a whole ring behind it are no room, and the truth makes up for all. */
static void impossible_counters_are_no_room(void **state)
{
    static const uint64_t ahead[] = {1, 15, 17, 64, 4095, 4097, UINT32_MAX, UINT64_C(1) << 63};
    struct ring ring;
    size_t i;

    (void)state;
    ring_new(&ring, 4, 4096);
    while (send_packet(&ring, 300, 300)) {
    }
    while (send_packet(&ring, 8, 8)) {
    }
    for (i = 0; i < sizeof(ahead) / sizeof(ahead[0]); i++) {
        ring.producer.control->cells_done = cw_cell_num_sent(&ring.producer) + ahead[i];
        ring.producer.control->bytes_done = ring.producer.byte_count;
        assert_false(shm_has_room(&ring.producer, 8));
        assert_false(shm_has_room(&ring.producer, 300));
        ring.producer.control->cells_done = cw_cell_num_sent(&ring.producer);
        ring.producer.control->bytes_done = ring.producer.byte_count + ahead[i];
        assert_false(shm_has_room(&ring.producer, 300));
        assert_false(shm_has_room(&ring.producer, 5000));
        ring.producer.control->bytes_done = ring.producer.byte_count - 4096 - ahead[i];
        assert_false(shm_has_room(&ring.producer, 300));
        ring.producer.control->cells_done = 0;
        ring.producer.control->bytes_done = 0;
        assert_false(shm_has_room(&ring.producer, 300));
    }
    receive_all(&ring);
    shm_tell(&ring.consumer);
    assert_int_equal(send_packet(&ring, 300, 300), 1);
    receive_all(&ring);
    ring_free(&ring);
}

/* Noise in place of cells: a consumer that checks the length as the transport does reads inside of the ring only. */
static void a_lying_producer_makes_nobody_read_outside(void **state)
{
    struct ring ring;
    volatile char sum = 0;
    unsigned round, seen = 0;
    struct cw_cell *cell;
    const char *data;
    uint64_t word;
    uint32_t length, i;

    (void)state;
    ring_new(&ring, 4, 4096);
    for (round = 0; round < 200000; round++) {
        cell = shm_cell_at(ring.consumer.cells, cw_cell_num_read(&ring.consumer), 4);
        word = next_random();
        if (round & 1) {
            word = cw_cell_word(shm_lap(cw_cell_num_read(&ring.consumer), 4), (uint32_t)(word % 5000), (uint8_t)word);
        }
        cell->control = word;
        word          = shm_cell_peek(&ring.consumer);
        length        = cw_rx_length(word);
        if (word != 0 && length <= 4096) {
            data = shm_data(&ring.consumer, length);
            check_inside(&ring, data, length);
            for (i = 0; i < length; i += 61) {
                sum = (char)(sum + data[i]);
            }
            shm_advance(&ring.consumer, length);
            seen++;
        }
    }
    assert_true(seen > 50000);
    ring_free(&ring);
}

struct race {
    struct ring ring;
    uint64_t packets;
    size_t max;
    int damaged;
};

/* Lengths follow from the number, so that the consumer knows them, too. */
static size_t race_length(const struct race *race, uint64_t n)
{
    return random_length(mix(race->ring.seed * 3 + n), race->max);
}

static void *race_produce(void *arg)
{
    struct race *race = arg;
    uint64_t n;

    for (n = 0; n < race->packets; n++) {
        while (!send_packet(&race->ring, race_length(race, n), race_length(race, n))) {
            sched_yield();
        }
    }
    return NULL;
}

static void *race_consume(void *arg)
{
    struct race *race             = arg;
    struct cw_rx *consumer = &race->ring.consumer;
    uint32_t length;
    uint64_t word, n;

    for (n = 0; n < race->packets; n++) {
        while ((word = shm_cell_peek(consumer)) == 0) {
            sched_yield();
        }
        length = cw_rx_length(word);
        if (length != race_length(race, n) || cw_rx_id(word) != packet_id(&race->ring, n) ||
            !packet_is(&race->ring, n, shm_data(consumer, length), length)) {
            race->damaged++;
            length = (uint32_t)race_length(race, n); /* goes on in step, so that the producer comes to its end */
        }
        shm_advance(consumer, length);
        if (cw_rx_should_tell(consumer)) {
            shm_tell(consumer);
        }
    }
    return NULL;
}

/* The producer goes from one byte area to another and back whenever it likes; what is unread stays where it is. */
static void areas_change_at_any_packet(void **state)
{
    const uint32_t sizes[2] = {4096, 65536};
    uint64_t word, wide = 0, i;
    char *areas[2];
    struct ring ring;
    int last;

    (void)state;
    ring_new(&ring, 6, sizes[0]);
    areas[0] = ring.producer.bytes;
    areas[1] = malloc(sizes[1]);
    assert_non_null(areas[1]);
    for (last = 0; !last; last = ring.sent > 400000 && wide == 0) {
        if (next_random() % 4 == 0) {
            wide = SHM_WIDE - wide;
            shm_producer_use(&ring.producer, areas[wide != 0], sizes[wide != 0], wide);
        }
        for (i = next_random() % 20; i > 0 && send_packet(&ring, 17 * i + wide, 17 * i + wide); i--) {
        }
        for (i = next_random() % 20; i > 0 && (word = shm_cell_peek(&ring.consumer)) != 0; i--) {
            if (cw_rx_length(word) > CW_CELL_DATA) {
                word &= SHM_WIDE;
                shm_consumer_use(&ring.consumer, areas[word != 0], sizes[word != 0], word);
            }
            (void)receive_packet(&ring);
        }
        if (next_random() % 64 == 0) { /* as a consumer does before the producer leaves a wide area */
            shm_tell(&ring.consumer);
        }
    }
    shm_consumer_use(&ring.consumer, areas[0], sizes[0], 0); /* whose guards are looked at */
    ring_free(&ring);
    free(areas[1]);
}

static void two_threads_agree(void **state)
{
    static const struct {
        uint32_t shift, num_bytes;
        size_t max;
        uint64_t packets;
    } kinds[] = {{4, 4096, 585, 300000}, {8, 65536, 8256, 100000}, {12, 4096, 200, 300000}, {1, 4096, 585, 20000}};
    pthread_t producer, consumer;
    struct race race;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        race = (struct race){.packets = kinds[i].packets, .max = kinds[i].max};
        ring_new(&race.ring, kinds[i].shift, kinds[i].num_bytes);
        assert_int_equal(pthread_create(&producer, NULL, race_produce, &race), 0);
        assert_int_equal(pthread_create(&consumer, NULL, race_consume, &race), 0);
        assert_int_equal(pthread_join(producer, NULL), 0);
        assert_int_equal(pthread_join(consumer, NULL), 0);
        assert_int_equal(race.damaged, 0);
        assert_true(shm_cell_peek(&race.ring.consumer) == 0);
        ring_free(&race.ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_ring_has_nothing, random_set_up),
        cmocka_unit_test_setup(every_length_arrives, random_set_up),
        cmocka_unit_test_setup(the_border_lies_behind_56_bytes, random_set_up),
        cmocka_unit_test_setup(a_full_ring_refuses, random_set_up),
        cmocka_unit_test_setup(random_traffic_arrives, random_set_up),
        cmocka_unit_test_setup(lap_numbers_wrap, random_set_up),
        cmocka_unit_test_setup(a_tiny_ring_runs_through_all_laps, random_set_up),
        cmocka_unit_test_setup(no_packet_has_the_word_zero, random_set_up),
        cmocka_unit_test_setup(a_lying_consumer_makes_nobody_write_outside, random_set_up),
        cmocka_unit_test_setup(impossible_counters_are_no_room, random_set_up),
        cmocka_unit_test_setup(a_lying_producer_makes_nobody_read_outside, random_set_up),
        cmocka_unit_test_setup(areas_change_at_any_packet, random_set_up),
        cmocka_unit_test_setup(two_threads_agree, random_set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
