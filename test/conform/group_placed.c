/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placed packets: payloads that go straight to memory which the receiver names. Each is a parcel, known to both ends by
 * the number in its header, with memory of its own on either side that is poisoned the moment the contract allows it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rig.h"
#include "stream.h"

enum { PARCELS_MAX = 400, MARGIN = 64, POISON = 0xee };

struct parcel {
    struct cw_completion completion;
    uint64_t number;
    size_t length;
    uint8_t id;
    unsigned from_count;       /* entries of the sender's iov */
    unsigned to_count;         /* and of the receiver's */
    char *from;
    char *to;                  /* between margins, which stay poisoned; NULL before `place` */
    unsigned taken;
    unsigned asked;
    unsigned placed;
    unsigned done;
    ucs_status_t done_status;
};

static struct parcel parcels[PARCELS_MAX];
static unsigned num_parcels;
static unsigned num_asked, num_placed, num_done;
static int refuse_all;

static uint64_t chance(uint64_t number, unsigned what)
{
    return cw_hash_mix(number * 64 + what);
}

static void parcels_begin(void)
{
    memset(parcels, 0, sizeof(parcels));
    num_parcels = num_asked = num_placed = num_done = 0;
    refuse_all = 0;
}

static void parcels_end(void)
{
    unsigned i;

    for (i = 0; i < num_parcels; i++) {
        free(parcels[i].from);
        free(parcels[i].to);
    }
    num_parcels = 0;
}

/* Cuts memory into entries by chance; some are empty. */
static void cut(struct iovec *iov, unsigned count, char *memory, size_t length, uint64_t seed)
{
    size_t part;
    unsigned i;

    for (i = 0; i < count; i++) {
        part = (i + 1 == count) ? length : chance(seed, i) % (length + 1);
        iov[i].iov_base = memory;
        iov[i].iov_len = part;
        memory += part;
        length -= part;
    }
}

static void write_header(uint8_t *header, const struct parcel *parcel)
{
    const uint64_t check = cw_hash_mix(parcel->number);

    memcpy(header, &parcel->number, 8);
    memcpy(header + 8, &check, 8);
}

static struct parcel *find(const void *header, uint8_t id, size_t length)
{
    uint8_t expected[CW_PLACE_HEADER];
    uint64_t number;

    memcpy(&number, header, sizeof(number));
    if (!cw_check(number < num_parcels, "the header of a placed packet is damaged")) {
        return NULL;
    }
    write_header(expected, &parcels[number]);
    if (!cw_check(memcmp(header, expected, CW_PLACE_HEADER) == 0, "the header of a placed packet is damaged") ||
        !cw_check(parcels[number].length == length, "a placed packet of %zu bytes is announced as %zu",
                  parcels[number].length, length) ||
        !cw_check(parcels[number].id == id, "a placed packet comes with id %u instead of %u", id, parcels[number].id)) {
        return NULL;
    }
    return &parcels[number];
}

static unsigned on_place(struct cw_end *end, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    struct parcel *parcel = find(header, id, length);

    (void)end;
    num_asked++;
    if (parcel == NULL || refuse_all || !cw_check(parcel->asked++ == 0, "`place` came twice for one packet")) {
        return 0;
    }
    parcel->to = malloc(length + 2 * MARGIN);
    memset(parcel->to, POISON, length + 2 * MARGIN);
    cut(iov, parcel->to_count, parcel->to + MARGIN, length, parcel->number + 1000);
    return parcel->to_count;
}

static int is_poison(const char *bytes, size_t length)
{
    size_t i;

    for (i = 0; i < length && (uint8_t)bytes[i] == POISON; i++) {
    }
    return i == length;
}

static void on_placed(struct cw_end *end, uint8_t id, const void *header, size_t length)
{
    struct parcel *parcel = find(header, id, length);
    char *expected = malloc(length);

    (void)end;
    num_placed++;
    if (parcel != NULL && cw_check(parcel->asked == 1, "`placed` came without `place`") &&
        cw_check(parcel->placed++ == 0, "`placed` came twice for one packet")) {
        cw_pattern_fill(expected, length, parcel->number + 1);
        cw_check(memcmp(parcel->to + MARGIN, expected, length) == 0, "the payload of a placed packet is damaged");
        cw_check(is_poison(parcel->to, MARGIN) && is_poison(parcel->to + MARGIN + length, MARGIN),
                 "a placed packet was written beside its place");
        free(parcel->to);
        parcel->to = NULL;
    }
    free(expected);
}

/* The sender's memory is ours again. */
static void give_back(struct parcel *parcel)
{
    char *expected = malloc(parcel->length);

    cw_pattern_fill(expected, parcel->length, parcel->number + 1);
    cw_check(memcmp(parcel->from, expected, parcel->length) == 0, "a placed send changed its payload");
    free(expected);
    memset(parcel->from, POISON, parcel->length);
    free(parcel->from);
    parcel->from = NULL;
    num_done++;
}

static void on_done(struct cw_completion *completion, ucs_status_t status)
{
    struct parcel *parcel = cw_container_of(completion, struct parcel, completion);

    cw_check(cw_rig_may_complete(), "the completion of a placed send was called from inside another call");
    cw_check(status != UCS_INPROGRESS, "the completion of a placed send got UCS_INPROGRESS");
    if (cw_check(parcel->done++ == 0, "the completion of a placed send was called twice")) {
        parcel->done_status = status;
        give_back(parcel);
    }
}

static struct parcel *parcel_new(const struct cw_side *sender, size_t length)
{
    const struct cw_limits *limits = &sender->iface->limits;
    struct parcel *parcel = &parcels[num_parcels];

    cw_check(num_parcels < PARCELS_MAX, "too many parcels");
    parcel->number = num_parcels++;
    parcel->completion.done = on_done;
    parcel->length = length;
    parcel->id = (uint8_t)(1 + chance(parcel->number, 60) % 255);
    parcel->from_count = 1 + (unsigned)(chance(parcel->number, 61) % limits->max_iov);
    parcel->to_count = 1 + (unsigned)(chance(parcel->number, 62) % CW_PLACE_MAX_IOV);
    parcel->from = malloc(length);
    cw_pattern_fill(parcel->from, length, parcel->number + 1);
    return parcel;
}

static ucs_status_t parcel_send(struct cw_end *end, struct parcel *parcel)
{
    struct iovec iov[64];
    uint8_t header[CW_PLACE_HEADER];
    ucs_status_t status;

    cw_check(parcel->from_count <= 64, "max_iov is %u", parcel->from_count);
    write_header(header, parcel);
    cut(iov, parcel->from_count, parcel->from, parcel->length, parcel->number + 2000);
    status = cw_subject.transport->packets->send_placed(end->conn, parcel->id, header, iov, parcel->from_count,
                                               &parcel->completion);
    memset(header, POISON, sizeof(header));
    memset(iov, POISON, sizeof(iov));
    cw_check(parcel->done == 0, "the completion of a placed send was called from inside the send");
    parcel->taken = status == UCS_OK || status == UCS_INPROGRESS;
    if (status == UCS_OK) {
        parcel->done_status = UCS_OK;
        give_back(parcel);
    }
    return status;
}

/* Until it is taken. */
static void parcel_post(struct cw_rig *rig, struct cw_end *end, struct parcel *parcel)
{
    uint64_t deadline = cw_deadline();
    ucs_status_t status;

    while ((status = parcel_send(end, parcel)) == CW_AGAIN) {
        cw_rig_progress(rig);
        cw_deadline_check(deadline, "a placed packet to be taken");
    }
    cw_check(parcel->taken, "a placed packet of %zu bytes is answered by %d", parcel->length, status);
}

/* Mostly below `typical`, sometimes anything that is possible. */
static size_t some_length(uint64_t seed, size_t typical, size_t max)
{
    return 1 + chance(seed, 63) % ((seed % 16 == 0 || typical > max) ? max : typical);
}

static void receive_parcels(struct cw_end *end)
{
    end->on_place = on_place;
    end->on_placed = on_placed;
}

static size_t begin(struct cw_rig *rig, struct cw_end **one, struct cw_end **other)
{
    const size_t max = rig->a->iface->limits.max_placed;

    cw_rig_need(cw_subject.transport->packets->send_placed != NULL && max > 0, "send_placed");
    parcels_begin();
    cw_rig_connect(rig, rig->a, rig->b, one, other);
    receive_parcels(*one);
    receive_parcels(*other);
    return max;
}

static void exchange(struct cw_rig *rig, struct cw_end *from, size_t length)
{
    if (num_parcels == PARCELS_MAX) {
        parcels_begin();
    }
    parcel_post(rig, from, parcel_new(from->side, length));
    cw_rig_wait(rig, &num_placed, num_parcels, "a placed packet");
    cw_rig_wait(rig, &num_done, num_parcels, "the completion of a placed send");
    cw_check(parcels[num_parcels - 1].done_status == UCS_OK, "a placed send ends with status %d",
             parcels[num_parcels - 1].done_status);
}

RIG_TEST(test_sizes)
{
    static const size_t sizes[] = {1,    2,    7,    8,    9,     15,    16,    17,    31,    63,    64,    65,
                                   1023, 1024, 4095, 8192, 65511, 65512, 65513, 65519, 65520, 65535, 65536, 65537};
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    size_t i;

    for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        exchange(rig, one, (sizes[i] < max) ? sizes[i] : max);
        exchange(rig, other, (sizes[i] < max) ? sizes[i] : max);
    }
    for (i = 0; i < 8; i++) {
        exchange(rig, (i & 1) ? one : other, max - i / 2);
    }
    for (i = 0; i < cw_scaled(100); i++) {
        exchange(rig, (i & 1) ? one : other, some_length(i + i / 16, 200000, max));
    }
    parcels_end();
}

/* Back to back, so that the end of one and the header of the next come together. */
RIG_TEST(test_many_under_way)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    unsigned i;

    for (i = 0; i < cw_scaled(PARCELS_MAX); i++) {
        parcel_post(rig, one, parcel_new(rig->a, some_length(i, 30000, max)));
    }
    cw_rig_wait(rig, &num_placed, num_parcels, "placed packets");
    cw_rig_wait(rig, &num_done, num_parcels, "the completions of placed sends");
    parcels_end();
}

/* Between ordinary packets, which keep their order, in both directions. */
RIG_TEST(test_mixed)
{
    static struct cw_stream streams[4];
    struct cw_end *one, *other, *ends[2];
    const size_t max = begin(rig, &one, &other);
    uint64_t deadline = cw_deadline();
    unsigned i;

    ends[0] = one;
    ends[1] = other;
    for (i = 0; i < 4; i++) {
        cw_stream_init(&streams[i], 51 + i / 2, (i < 2) ? rig->a : rig->b, cw_scaled(4000));
    }
    one->sending = &streams[0];
    other->receiving = &streams[1];
    other->sending = &streams[2];
    one->receiving = &streams[3];
    for (i = 0; i < 200; i++) {
        cw_stream_push(one, (unsigned)(chance(i, 1) % 40));
        cw_stream_push(other, (unsigned)(chance(i, 2) % 40));
        parcel_post(rig, ends[i & 1], parcel_new(ends[i & 1]->side, some_length(i + i / 16, 50000, max)));
    }
    while (num_placed < num_parcels || num_done < num_parcels || !streams[1].done || !streams[3].done ||
           streams[0].outstanding + streams[2].outstanding > 0) {
        cw_stream_push(one, 100);
        cw_stream_push(other, 100);
        cw_rig_progress(rig);
        cw_deadline_check(deadline, "placed packets between others");
    }
    parcels_end();
}

/* Sends until CW_AGAIN with a receiver that does nothing. */
RIG_TEST(test_blocked_sender_gets_room)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    struct parcel *parcel = NULL;
    ucs_status_t status = UCS_OK;

    while (num_parcels < PARCELS_MAX / 8 && status != CW_AGAIN) {
        parcel = parcel_new(rig->a, max);
        status = parcel_send(one, parcel);
        cw_check(parcel->taken || status == CW_AGAIN, "a placed packet is answered by %d", status);
    }
    if (status == CW_AGAIN) {
        one->rooms = 0;
        cw_rig_wait(rig, &one->rooms, 1, "`room` after CW_AGAIN");
        parcel_post(rig, one, parcel);
    }
    cw_rig_wait(rig, &num_placed, num_parcels, "placed packets");
    cw_rig_wait(rig, &num_done, num_parcels, "the completions of placed sends");
    parcels_end();
}

struct flush {
    struct cw_completion completion;
    unsigned done;
    unsigned sends_done;
};

static void flush_done(struct cw_completion *completion, ucs_status_t status)
{
    struct flush *flush = cw_container_of(completion, struct flush, completion);

    cw_check(status == UCS_OK, "a flush ends with status %d", status);
    flush->done++;
    flush->sends_done = num_done;
}

RIG_TEST(test_flush_waits_for_placed)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    struct flush flush = {.completion = {.done = flush_done}};
    ucs_status_t status;
    unsigned i;

    cw_rig_need(cw_subject.transport->packets->flush != NULL, "flush");
    for (i = 0; i < 3; i++) {
        parcel_post(rig, one, parcel_new(rig->a, max));
    }
    while ((status = cw_subject.transport->packets->flush(one->conn, &flush.completion)) == CW_AGAIN) {
        cw_rig_progress(rig);
    }
    cw_check(status == UCS_OK || status == UCS_INPROGRESS, "flush answers %d", status);
    if (status == UCS_OK) {
        flush.sends_done = num_done;
    } else {
        cw_rig_wait(rig, &flush.done, 1, "the flush behind placed sends");
    }
    assert_int_equal(flush.sends_done, 3);
    cw_rig_wait(rig, &num_placed, 3, "placed packets");
    parcels_end();
}

RIG_TEST(test_refused)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    unsigned i;

    for (i = 0; i < 2; i++) {
        if (i > 0) {
            (void)begin(rig, &one, &other);
        }
        exchange(rig, one, 100);
        refuse_all = 1;
        parcel_post(rig, one, parcel_new(rig->a, (i == 0) ? 100 : max));
        cw_rig_wait(rig, &other->closed, 1, "`closed` after `place` answered 0");
        assert_int_equal(other->closed_status, UCS_ERR_IO_ERROR);
        cw_end_close(other);
        cw_rig_wait(rig, &one->closed, 1, "`closed` at the sender");
        cw_end_close(one);
        assert_int_equal(num_asked, 2);
        assert_int_equal(num_placed, 1);
        assert_int_equal(num_done, 2);
        parcels_end();
    }
}

/* The bytes of what was asked for and not placed stay as they are from now on. */
static void check_untouched(struct cw_rig *rig)
{
    char *copies[PARCELS_MAX] = {0};
    unsigned i;

    for (i = 0; i < num_parcels; i++) {
        if (parcels[i].to != NULL) {
            memset(parcels[i].to, POISON, parcels[i].length + 2 * MARGIN);
            copies[i] = parcels[i].to;
        }
    }
    cw_rig_settle(rig);
    for (i = 0; i < num_parcels; i++) {
        cw_check(copies[i] == parcels[i].to, "`placed` came after the end");
        cw_check(copies[i] == NULL || is_poison(copies[i], parcels[i].length + 2 * MARGIN),
                 "a place was written to after the end of its connection");
    }
}

RIG_TEST(test_sender_closes_in_the_middle)
{
    struct cw_end *one, *other;
    unsigned round, i, steps;
    size_t max;

    for (round = 0; round < cw_scaled(20); round++) {
        max = begin(rig, &one, &other);
        for (i = 0; i < 4; i++) {
            (void)parcel_send(one, parcel_new(rig->a, max));
        }
        for (steps = 0; steps < round / 4; steps++) {
            cw_rig_progress(rig);
        }
        cw_end_close(one);
        for (i = 0; i < num_parcels; i++) {
            cw_check(!parcels[i].taken || parcels[i].from == NULL, "a completion did not come with close_conn");
        }
        cw_rig_wait(rig, &other->closed, 1, "`closed`");
        assert_int_equal(other->closed_status, UCS_ERR_CONNECTION_RESET);
        for (i = 0; i < 4; i++) {
            cw_check(!parcels[i].taken || parcels[i].done_status != UCS_OK || parcels[i].placed,
                     "a placed packet is lost that was sent before close_conn");
        }
        check_untouched(rig);
        cw_end_close(other);
        parcels_end();
    }
}

RIG_TEST(test_receiver_closes_in_the_middle)
{
    struct cw_end *one, *other;
    unsigned round, i;
    size_t max;

    for (round = 0; round < cw_scaled(20); round++) {
        max = begin(rig, &one, &other);
        for (i = 0; i < round % 3; i++) {
            exchange(rig, one, some_length(round, 30000, max));
        }
        parcel_post(rig, one, parcel_new(rig->a, max));
        for (i = 1; i < 4; i++) {
            (void)parcel_send(one, parcel_new(rig->a, max));
        }
        cw_rig_wait(rig, &num_asked, 1 + round % 3, "`place`");
        cw_end_close(other);
        check_untouched(rig);
        cw_rig_wait(rig, &one->closed, 1, "`closed` at the sender");
        cw_end_close(one);
        for (i = 0; i < num_parcels; i++) {
            cw_check(!parcels[i].taken || parcels[i].from == NULL, "a completion did not come with close_conn");
        }
        parcels_end();
    }
}

static void fill(const struct parcel *parcel)
{
    cw_pattern_fill(parcel->from, parcel->length, parcel->number + 1);
}

/* The sender's memory is something else from then on, and none of that arrives. */
RIG_TEST(test_sender_abandons)
{
    struct cw_end *one, *other;
    unsigned round, i, steps;
    size_t max;

    for (round = 0; round < cw_scaled(20); round++) {
        max = begin(rig, &one, &other);
        cw_rig_need(cw_subject.transport->connect->abandon != NULL, "abandon");
        exchange(rig, one, max);
        for (i = 0; i < 4; i++) {
            (void)parcel_send(one, parcel_new(rig->a, max));
        }
        for (steps = 0; steps < round / 4; steps++) {
            cw_rig_progress(rig);
        }
        cw_subject.transport->connect->abandon(one->conn);
        steps = num_done;
        for (i = 0; i < num_parcels; i++) {
            if (parcels[i].taken && parcels[i].from != NULL) {
                memset(parcels[i].from, POISON, parcels[i].length);
            }
        }
        cw_rig_settle(rig);
        assert_int_equal(num_done, steps);
        assert_int_equal(one->closed, 0);
        cw_check(parcel_send(one, parcel_new(rig->a, max)) < 0, "a send on an abandoned connection is taken");
        for (i = 0; i < num_parcels; i++) {
            if (parcels[i].from != NULL) {
                fill(&parcels[i]);
            }
        }
        cw_end_close(one);
        for (i = 0; i < num_parcels; i++) {
            cw_check(!parcels[i].taken || parcels[i].from == NULL, "a completion did not come with close_conn");
        }
        cw_rig_wait(rig, &other->closed, 1, "`closed` at the peer");
        cw_end_close(other);
        parcels_end();
    }
}

static struct cw_end *to_abandon;

static void on_placed_abandon(struct cw_end *end, uint8_t id, const void *header, size_t length)
{
    on_placed(end, id, header, length);
    cw_subject.transport->connect->abandon(to_abandon->conn);
}

/* The receiver's places as well; from outside, or inside an upcall. */
RIG_TEST(test_receiver_abandons)
{
    struct cw_end *one, *other;
    unsigned round, i;
    size_t max;

    for (round = 0; round < cw_scaled(20); round++) {
        max = begin(rig, &one, &other);
        cw_rig_need(cw_subject.transport->connect->abandon != NULL, "abandon");
        to_abandon = other;
        for (i = 0; i < round % 3; i++) {
            exchange(rig, one, some_length(round, 30000, max));
        }
        other->on_placed = (round & 1) ? on_placed_abandon : on_placed;
        parcel_post(rig, one, parcel_new(rig->a, 100)); /* one at least is on its way, whatever chance says */
        for (i = 1; i < 4; i++) {
            (void)parcel_send(one, parcel_new(rig->a, max));
        }
        cw_rig_wait(rig, (round & 1) ? &num_placed : &num_asked, 1 + round % 3, "a placed packet");
        if (!(round & 1)) {
            cw_subject.transport->connect->abandon(other->conn);
        }
        check_untouched(rig);
        assert_int_equal(other->closed, 0);
        cw_end_close(other);
        cw_rig_wait(rig, &one->closed, 1, "`closed` at the sender");
        cw_end_close(one);
        for (i = 0; i < num_parcels; i++) {
            cw_check(!parcels[i].taken || parcels[i].from == NULL, "a completion did not come with close_conn");
        }
        parcels_end();
    }
}

static unsigned on_place_abandon(struct cw_end *end, uint8_t id, const void *header, size_t length, struct iovec *iov)
{
    (void)id;
    (void)header;
    (void)length;
    (void)iov;
    num_asked++;
    cw_subject.transport->connect->abandon(end->conn);
    return 0;
}

/* Instead of a place: no fault of the peer, hence no `closed` here. */
RIG_TEST(test_receiver_abandons_when_asked)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    unsigned i;

    cw_rig_need(cw_subject.transport->connect->abandon != NULL, "abandon");
    other->on_place = on_place_abandon;
    parcel_post(rig, one, parcel_new(rig->a, 100));
    for (i = 1; i < 4; i++) {
        (void)parcel_send(one, parcel_new(rig->a, max));
    }
    cw_rig_wait(rig, &num_asked, 1, "`place`");
    check_untouched(rig);
    assert_int_equal(num_asked, 1);
    assert_int_equal(other->closed, 0);
    cw_end_close(other);
    cw_rig_wait(rig, &one->closed, 1, "`closed` at the sender");
    cw_end_close(one);
    assert_int_equal(num_placed, 0);
    parcels_end();
}

RIG_TEST(test_peer_dies_in_the_middle)
{
    struct cw_end *one, *other;
    const size_t max = begin(rig, &one, &other);
    unsigned i;

    cw_rig_need_two(rig);
    parcel_post(rig, one, parcel_new(rig->a, max));
    for (i = 1; i < 4; i++) {
        (void)parcel_send(one, parcel_new(rig->a, max));
    }
    cw_rig_wait(rig, &num_asked, 1, "`place`");
    cw_side_close(rig->a);
    cw_rig_wait(rig, &other->closed, 1, "`closed`");
    check_untouched(rig);
    parcels_end();
}
