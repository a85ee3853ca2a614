/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Accesses by the device (transport/access.h, mem/domain.h): what was put is there, what was got is right, nothing is
 * written beside it, completions come once, order holds as far as it is promised, wrong keys are refused, and nothing
 * lands after close_conn or dereg.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "rig.h"

enum { BYTES = 1 << 17, MARGIN = 64, POISON = 0xee, MANY = 64 };

/* One access: its completion, and what it asks for. */
struct access {
    struct cw_completion completion;
    unsigned done;
    ucs_status_t status;
    char *unpacked; /* where a get_bcopy goes */
};

/* Both ends of a connection, and memory of each side that the other one may use. */
struct bench {
    struct cw_rig *rig;
    struct cw_end *ends[2]; /* of a, of b */
    char *memory[2];        /* BYTES between margins */
    struct cw_memh *memh[2];
    struct cw_access_target target[2]; /* where the memory of that side begins */
};

static struct access accesses[MANY];

static const struct cw_transport_access *group(void)
{
    return cw_subject.transport->access;
}

static const struct cw_access_limits *limits(const struct bench *bench)
{
    return &bench->ends[0]->conn->iface->limits.access;
}

static struct cw_side *side_of(const struct bench *bench, unsigned side)
{
    return bench->ends[side]->side;
}

static void done(struct cw_completion *self, ucs_status_t status)
{
    struct access *access = cw_container_of(self, struct access, completion);

    cw_check(cw_rig_may_complete(), "the completion of an access runs outside of progress and close_conn");
    cw_check(access->done == 0, "the completion of an access runs twice");
    access->done++;
    access->status = status;
}

static void unpack(const void *data, size_t length, void *arg)
{
    struct access *access = arg;

    cw_check(access->done == 0, "bytes of a get come after its completion");
    memcpy(access->unpacked, data, length);
}

static struct access *begin(unsigned index)
{
    accesses[index] = (struct access){.completion = {.done = done}};
    return &accesses[index];
}

static struct cw_access_target read_key(const struct bench *bench, unsigned side, const struct cw_memh *memh)
{
    const struct cw_domain *own = side_of(bench, 1 - side)->iface->domain;
    const struct cw_domain_range range = {.address = (uintptr_t)bench->memory[side], .length = BYTES};
    struct cw_access_target target = {.address = range.address};
    uint8_t part[CW_DOMAIN_PART_MAX];

    cw_check(own->attr.part_length > 0 && own->attr.part_length <= CW_DOMAIN_PART_MAX, "a part has %u bytes",
             own->attr.part_length);
    group()->domain->write_part(memh, part);
    cw_check(group()->domain->read_part(own, part, own->attr.part_length, &range, &target.key) == UCS_OK,
             "a domain does not read what it wrote");
    return target;
}

static struct cw_memh *reg(const struct bench *bench, unsigned side, unsigned rights)
{
    struct cw_memh *memh = NULL;
    ucs_status_t status;

    if (limits(bench)->fetching == 0 && limits(bench)->posted == 0) {
        rights &= ~(unsigned)CW_RIGHT_REMOTE_ATOMIC; /* the device carries out none */
    }
    status = group()->domain->reg(side_of(bench, side)->iface->domain, bench->memory[side], BYTES, rights, &memh);
    cw_check(status == UCS_OK, "memory cannot be registered: %d", status);
    cw_check((memh->rights & rights) == rights, "memory of the heap gets the rights %u instead of %u", memh->rights,
             rights);
    return memh;
}

static void bench_begin(struct bench *bench, struct cw_rig *rig)
{
    cw_rig_need(group() != NULL, "access to the memory of the peer");
    cw_rig_need_two(rig);
    bench->rig = rig;
    cw_rig_connect(rig, rig->a, rig->b, &bench->ends[0], &bench->ends[1]);
    cw_check(group()->peer_domain(bench->ends[0]->conn) == 2 && group()->peer_domain(bench->ends[1]->conn) == 1,
             "the ends do not know the number of the other's domain");
    for (unsigned side = 0; side < 2; side++) {
        bench->memory[side] = (char *)malloc(BYTES + 2 * MARGIN) + MARGIN;
        memset(bench->memory[side] - MARGIN, POISON, BYTES + 2 * MARGIN);
    }
    for (unsigned side = 0; side < 2; side++) {
        bench->memh[side] = reg(bench, side, CW_RIGHT_ALL);
        bench->target[side] = read_key(bench, side, bench->memh[side]);
    }
}

static void bench_end(struct bench *bench)
{
    for (unsigned side = 0; side < 2; side++) {
        for (unsigned i = 0; i < MARGIN; i++) {
            cw_check((unsigned char)bench->memory[side][(int)i - MARGIN] == POISON &&
                         (unsigned char)bench->memory[side][BYTES + i] == POISON,
                     "something was written beside the memory");
        }
        if (bench->memh[side] != NULL) {
            group()->domain->dereg(bench->memh[side]);
        }
        free(bench->memory[side] - MARGIN);
    }
}

/* Repeats a call as long as it answers CW_AGAIN, until `room` comes. */
#define TAKE(bench, end, call)                                                                                         \
    do {                                                                                                               \
        const unsigned rooms_      = (end)->rooms;                                                                     \
        const ucs_status_t status_ = (call);                                                                           \
                                                                                                                       \
        if (status_ == UCS_INPROGRESS) {                                                                               \
            break;                                                                                                     \
        }                                                                                                              \
        cw_check(status_ == CW_AGAIN, "an access answers %d", status_);                                                \
        cw_rig_wait((bench)->rig, &(end)->rooms, rooms_ + 1, "`room` after CW_AGAIN of an access");                    \
    } while (1)

static void expect(struct bench *bench, struct access *access)
{
    cw_rig_wait(bench->rig, &access->done, 1, "the completion of an access");
    cw_check(access->status == UCS_OK, "an access ends with %d", access->status);
}

static void fill(char *memory, size_t length, uint64_t seed)
{
    for (size_t i = 0; i < length; i++) {
        memory[i] = (char)cw_hash_mix(seed + i);
    }
}

enum shape { PUT_SHORT, PUT_BCOPY, PUT_ZCOPY, GET_BCOPY, GET_ZCOPY, SHAPES };

static size_t max_of(const struct cw_access_limits *limits, enum shape shape)
{
    const size_t max[SHAPES] = {limits->max_put_short, limits->max_put_bcopy, limits->max_put_zcopy,
                                limits->max_get_bcopy, limits->max_get_zcopy};

    return (max[shape] < BYTES) ? max[shape] : BYTES;
}

struct source {
    const char *from;
    size_t length;
};

static size_t pack(void *dest, size_t max, void *arg)
{
    const struct source *source = arg;

    cw_check(max >= source->length, "pack is asked for %zu bytes of %zu", max, source->length);
    memcpy(dest, source->from, source->length);
    return source->length;
}

static ucs_status_t start(struct bench *bench, unsigned side, enum shape shape, char *ours, size_t length,
                          const struct cw_access_target *target, unsigned flags, struct access *access)
{
    struct cw_conn *conn = bench->ends[side]->conn;
    struct source source = {.from = ours, .length = length};
    const size_t first = (limits(bench)->max_iov > 1 && limits(bench)->alignment <= 1) ? length / 3 : 0;
    const unsigned skip = first == 0;
    const struct cw_access_iov iov[2] = {{ours, first, bench->memh[side]},
                                         {ours + first, length - first, bench->memh[side]}};

    access->unpacked = ours;
    switch (shape) {
    case PUT_SHORT:
        return group()->put_short(conn, ours, length, target, flags, &access->completion);
    case PUT_BCOPY:
        return group()->put_bcopy(conn, length, pack, &source, target, flags, &access->completion);
    case PUT_ZCOPY:
        return group()->put_zcopy(conn, iov + skip, 2 - skip, target, flags, &access->completion);
    case GET_BCOPY:
        return group()->get_bcopy(conn, length, unpack, access, target, flags, &access->completion);
    default:
        return group()->get_zcopy(conn, iov + skip, 2 - skip, target, flags, &access->completion);
    }
}

/* Every shape, some lengths, in both directions. */
RIG_TEST(test_shapes)
{
    struct bench bench;
    uint64_t seed = 1;

    bench_begin(&bench, rig);
    for (unsigned shape = 0; shape < SHAPES; shape++) {
        const size_t max = max_of(limits(&bench), shape);
        const size_t lengths[] = {1, 8, max / 3, max - 1, max};

        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && max > 8; i++) {
            const unsigned side = i % 2;
            const size_t align = (limits(&bench)->alignment > 1) ? limits(&bench)->alignment : 1;
            const size_t length = (lengths[i] + align - 1) / align * align;
            const size_t offset = (BYTES - length) / 2 / align * align;
            char *ours = bench.memory[side], *theirs = bench.memory[1 - side] + offset;
            struct cw_access_target target = bench.target[1 - side];
            struct access *access = begin(0);

            memset(bench.memory[0], 0, BYTES);
            memset(bench.memory[1], 0, BYTES);
            fill((shape <= PUT_ZCOPY) ? ours : theirs, length, seed += BYTES);
            target.address += offset;
            TAKE(&bench, bench.ends[side], start(&bench, side, shape, ours, length, &target, 0, access));
            expect(&bench, access);
            cw_check(memcmp(ours, theirs, length) == 0, "shape %u brings wrong bytes of %zu", shape, length);
            cw_check((offset == 0 || theirs[-1] == 0) && (offset + length == BYTES || theirs[length] == 0) &&
                         (length == BYTES || ours[length] == 0),
                     "shape %u writes beside %zu bytes", shape, length);
        }
    }
    bench_end(&bench);
}

static uint64_t result_of(enum cw_access_op op, uint64_t before, uint64_t operand, uint64_t compare)
{
    const uint64_t results[CW_ACCESS_OPS] = {
        [CW_ACCESS_ADD] = before + operand, [CW_ACCESS_AND] = before & operand,
        [CW_ACCESS_OR] = before | operand,  [CW_ACCESS_XOR] = before ^ operand,
        [CW_ACCESS_SWAP] = operand,         [CW_ACCESS_CSWAP] = (before == compare) ? operand : before};

    return results[op];
}

RIG_TEST(test_atomics)
{
    uint64_t before, fetched, now;
    struct bench bench;

    bench_begin(&bench, rig);
    for (unsigned i = 0; i < 4 * CW_ACCESS_OPS; i++) {
        const enum cw_access_op op = i % CW_ACCESS_OPS;
        const int fetches = i / CW_ACCESS_OPS % 2;
        const uint64_t operand = cw_hash_mix(i), compare = cw_hash_mix(1000 + (i < 2 * CW_ACCESS_OPS));
        struct cw_access_target target = bench.target[1];
        struct access *access = begin(0);

        if (!((fetches ? limits(&bench)->fetching : limits(&bench)->posted) & (1u << op))) {
            continue;
        }
        before = cw_hash_mix(1000);
        target.address += 8;
        memcpy(bench.memory[1] + 8, &before, 8);
        TAKE(&bench, bench.ends[0],
             group()->atomic(bench.ends[0]->conn, op, operand, compare, fetches ? &fetched : NULL, &target, 0,
                             &access->completion));
        expect(&bench, access);
        memcpy(&now, bench.memory[1] + 8, 8);
        cw_check(now == result_of(op, before, operand, compare), "atomic operation %d gives a wrong result", op);
        cw_check(!fetches || fetched == before, "atomic operation %d fetches a wrong value", op);
    }
    bench_end(&bench);
}

/* Puts without a notification are there when a flush ends. */
RIG_TEST(test_flush)
{
    struct bench bench;
    struct access *flush;
    ucs_status_t status;
    unsigned count = 0;

    bench_begin(&bench, rig);
    while (limits(&bench)->max_put_short >= 8 && count < 100) {
        struct cw_access_target target = bench.target[1];
        const uint64_t value = cw_hash_mix(count);

        target.address += 8 * (uint64_t)count++;
        TAKE(&bench, bench.ends[0], group()->put_short(bench.ends[0]->conn, &value, 8, &target, 0, NULL));
    }
    do {
        flush = begin(0);
        status = group()->flush(bench.ends[0]->conn, &flush->completion);
        cw_rig_progress(bench.rig);
    } while (status == CW_AGAIN);
    cw_check(status == UCS_OK || status == UCS_INPROGRESS, "flush answers %d", status);
    if (status == UCS_INPROGRESS) {
        expect(&bench, flush);
    }
    while (count-- > 0) {
        const uint64_t value = cw_hash_mix(count);

        cw_check(memcmp(bench.memory[1] + 8 * (size_t)count, &value, 8) == 0, "a put is not there after the flush");
    }
    cw_check(group()->flush(bench.ends[0]->conn, NULL) == UCS_OK, "a flush behind everything has something to do");
    bench_end(&bench);
}

enum { THIRD = BYTES / 3 };

/* What test_registered sent last, three packets at a time: each is a number of 8 bytes and a part of the memory. */
static size_t sent_lengths[3];
static uint64_t num_came;

static void on_registered(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    const unsigned third = num_came % 3;
    uint64_t number;

    if (cw_check(id == 7 && length == sizeof(number) + sent_lengths[third],
                 "a packet of registered memory has id %u "
                 "and %zu bytes",
                 id, length)) {
        memcpy(&number, data, sizeof(number));
        cw_check(number == num_came && memcmp((const char *)data + sizeof(number), (char *)end->arg + third * THIRD,
                                              sent_lengths[third]) == 0,
                 "packet %u of registered memory brings wrong bytes", (unsigned)num_came);
    }
    num_came++;
}

/* `access` NULL: a packet without a completion of its own. A packet may be done within the call. */
static ucs_status_t send_registered(const struct bench *bench, uint64_t number, const struct cw_access_iov *payload,
                                    struct access *access)
{
    struct cw_conn *conn = bench->ends[0]->conn;
    const ucs_status_t status = cw_subject.transport->packets->send_registered(
        conn, 7, &number, sizeof(number), payload, (access != NULL) ? &access->completion : NULL);

    cw_check(status != UCS_INPROGRESS || access != NULL, "a packet without a completion is in progress");
    if (status == UCS_OK && access != NULL) {
        access->done = 1;
    }
    return (status == UCS_OK) ? UCS_INPROGRESS : status;
}

/* The completion of the last of three packets says that the device has read the memory of all. */
RIG_TEST(test_registered)
{
    struct bench bench;

    cw_rig_need(cw_subject.transport->packets->send_registered != NULL, "packets out of registered memory");
    bench_begin(&bench, rig);
    const size_t max = bench.ends[0]->conn->iface->limits.max_registered - sizeof(uint64_t);
    const size_t lengths[] = {1, (max < THIRD) ? max : THIRD, 100, (max < 3000) ? max : 3000};
    struct access *access = NULL;
    struct cw_access_iov payload = {.memh = bench.memh[0]};

    num_came = 0;
    bench.ends[1]->on_packet = on_registered;
    bench.ends[1]->arg = bench.memory[0];
    for (uint64_t i = 0; i < 3 * 40; i++) {
        if (i % 3 == 0) {
            fill(bench.memory[0], BYTES, i);
            access = begin(0);
        }
        payload.address = bench.memory[0] + i % 3 * THIRD;
        payload.length = lengths[i % 4];
        sent_lengths[i % 3] = payload.length;
        TAKE(&bench, bench.ends[0], send_registered(&bench, i, &payload, (i % 3 == 2) ? access : NULL));
        if (i % 3 == 2) {
            expect(&bench, access);
            cw_rig_wait(bench.rig, &bench.ends[1]->packets, (unsigned)i + 1, "packets out of registered memory");
        }
    }
    bench_end(&bench);
}

/* After a close the device does not read the memory any more, not even for packets that nobody waits for. */
RIG_TEST(test_registered_close)
{
    static char copy[BYTES];
    struct cw_access_iov payload;
    struct bench bench;

    cw_rig_need(cw_subject.transport->packets->send_registered != NULL, "packets out of registered memory");
    bench_begin(&bench, rig);
    fill(bench.memory[0], BYTES, 1);
    memcpy(copy, bench.memory[0], BYTES);
    num_came = 0;
    bench.ends[1]->on_packet = on_registered;
    bench.ends[1]->arg = copy;
    for (uint64_t i = 0; i < 3; i++) {
        payload = (struct cw_access_iov){bench.memory[0] + i * THIRD, 100, bench.memh[0]};
        sent_lengths[i] = payload.length;
        TAKE(&bench, bench.ends[0], send_registered(&bench, i, &payload, NULL));
    }
    cw_end_close(bench.ends[0]);
    memset(bench.memory[0], POISON, BYTES);
    group()->domain->dereg(bench.memh[0]);
    bench.memh[0] = NULL;
    cw_rig_wait(bench.rig, &bench.ends[1]->closed, 1, "`closed` after packets out of registered memory");
    bench_end(&bench);
}

static uint64_t seen_value;
static unsigned seen;

static void on_packet(struct cw_end *end, uint8_t id, const void *data, size_t length)
{
    (void)id, (void)data, (void)length;
    memcpy(&seen_value, end->arg, 8);
    seen++;
}

/* A packet is handed up when the put before it is there; a put after fetches does not change what they bring. */
RIG_TEST(test_order)
{
    const struct cw_access_limits *ours = &((const struct cw_rig *)rig)->a->iface->limits.access;
    struct bench bench;
    ucs_status_t status;

    cw_rig_need(group() != NULL, "access to the memory of the peer");
    cw_rig_need(ours->in_order && max_of(ours, PUT_BCOPY) >= 8 && max_of(ours, GET_BCOPY) >= 8, "accesses in order");
    bench_begin(&bench, rig);
    seen = 0;
    bench.ends[1]->on_packet = on_packet;
    bench.ends[1]->arg = bench.memory[1];
    for (uint64_t i = 1; i <= cw_scaled(50); i++) {
        struct access *put = begin(0), *get = begin(1);
        uint64_t got = 0, next = i;

        TAKE(&bench, bench.ends[0], start(&bench, 0, GET_BCOPY, (char *)&got, 8, &bench.target[1], 0, get));
        TAKE(&bench, bench.ends[0],
             start(&bench, 0, PUT_BCOPY, (char *)&next, 8, &bench.target[1], CW_ACCESS_AFTER_FETCHES, put));
        do {
            status = cw_subject.transport->packets->send_bcopy(bench.ends[0]->conn, 7, 8, pack,
                                                               &(struct source){.from = (char *)&next, .length = 8});
            cw_rig_progress(bench.rig);
        } while (status == CW_AGAIN);
        cw_check(status == UCS_OK, "a packet answers %d", status);
        cw_rig_wait(bench.rig, &seen, (unsigned)i, "a packet behind a put");
        expect(&bench, put);
        expect(&bench, get);
        cw_check(seen_value == i, "a packet comes before the put in front of it");
        cw_check(i == 1 || got == i - 1, "a get brings %llu instead of %llu: a later put passed it",
                 (unsigned long long)got, (unsigned long long)(i - 1));
    }
    bench_end(&bench);
}

/* What must not be possible: each on a connection of its own, which may break. */
static void refused(struct bench *bench, enum shape shape, const struct cw_access_target *target, size_t length,
                    const char *what)
{
    struct access *access = begin(0);
    char before[256];

    fill(bench->memory[1], sizeof(before), 77);
    memcpy(before, bench->memory[1], sizeof(before));
    TAKE(bench, bench->ends[0], start(bench, 0, shape, bench->memory[0], length, target, 0, access));
    cw_rig_wait(bench->rig, &access->done, 1, "the completion of a refused access");
    cw_check(access->status != UCS_OK, "%s is not refused", what);
    cw_check(memcmp(before, bench->memory[1], sizeof(before)) == 0, "%s changes memory", what);
    cw_rig_settle(bench->rig);
    cw_end_close(bench->ends[0]);
    cw_end_close(bench->ends[1]);
    cw_rig_connect(bench->rig, bench->rig->a, bench->rig->b, &bench->ends[0], &bench->ends[1]);
}

RIG_TEST(test_refused)
{
    struct cw_access_target target;
    struct cw_memh *narrow;
    struct bench bench;

    cw_rig_need(group() != NULL, "access to the memory of the peer");
    cw_rig_need(((const struct cw_rig *)rig)->a->iface->limits.access.max_put_bcopy > 0, "puts");
    bench_begin(&bench, rig);
    memset(bench.memory[0], 0x11, BYTES);
    target = bench.target[1];
    target.key.word[0] ^= 0x5a5a;
    refused(&bench, PUT_BCOPY, &target, 8, "a wrong key");
    target = bench.target[1];
    target.address -= 8;
    refused(&bench, PUT_BCOPY, &target, 16, "an access that begins before the memory");
    target = bench.target[1];
    target.address += BYTES - 8;
    refused(&bench, PUT_BCOPY, &target, 16, "an access that ends behind the memory");
    refused(&bench, GET_BCOPY, &target, 16, "a get that ends behind the memory");
    target.address = UINT64_MAX - 7;
    refused(&bench, PUT_BCOPY, &target, 16, "an address that wraps around");
    narrow = reg(&bench, 1, CW_RIGHT_REMOTE_READ);
    target = read_key(&bench, 1, narrow);
    refused(&bench, PUT_BCOPY, &target, 8, "a put to what may be read");
    group()->domain->dereg(narrow);
    refused(&bench, GET_BCOPY, &target, 8, "the key of memory that was deregistered");
    bench_end(&bench);
}

/* Puts under way, as many as are taken without waiting. */
static unsigned start_many(struct bench *bench, enum shape shape)
{
    unsigned count = (max_of(limits(bench), shape) >= 32) ? 0 : MANY; /* a device without puts has none under way */

    memset(bench->memory[0], 0x33, BYTES);
    if (count == MANY) {
        return 0;
    }
    while (count < MANY) {
        struct access *access = begin(count);

        if (start(bench, 0, shape, bench->memory[0], 32, &bench->target[1], 0, access) != UCS_INPROGRESS) {
            break;
        }
        count++;
    }
    return count;
}

static void nothing_lands(struct bench *bench, const char *what)
{
    char expected[64];

    memset(expected, 0x44, sizeof(expected));
    memcpy(bench->memory[1], expected, sizeof(expected));
    cw_rig_settle(bench->rig);
    cw_check(memcmp(expected, bench->memory[1], sizeof(expected)) == 0, "a write lands after %s", what);
}

/* The peer hears of it, whether the device reads memory of the core for these puts (PUT_ZCOPY) or not. */
RIG_TEST(test_close)
{
    struct bench bench;
    unsigned count;

    bench_begin(&bench, rig);
    for (unsigned round = 0; round < 2 * cw_scaled(20); round++) {
        count = start_many(&bench, (round % 2 == 0) ? PUT_BCOPY : PUT_ZCOPY);
        for (unsigned i = 0; i < round / 2 % 4; i++) {
            cw_rig_progress(bench.rig);
        }
        cw_end_close(bench.ends[0]);
        for (unsigned i = 0; i < count; i++) {
            cw_check(accesses[i].done == 1, "close_conn leaves an access without its completion");
        }
        cw_rig_wait(bench.rig, &bench.ends[1]->closed, 1, "`closed` behind the accesses of a peer that closed");
        cw_end_close(bench.ends[1]);
        nothing_lands(&bench, "the target closed");
        cw_rig_connect(bench.rig, bench.rig->a, bench.rig->b, &bench.ends[0], &bench.ends[1]);
    }
    bench_end(&bench);
}

/* Fetches under way into the first half of the memory, as many as are taken without waiting, at most `most`. */
static unsigned start_fetches(struct bench *bench, enum shape shape, unsigned most)
{
    const size_t max = max_of(limits(bench), shape);
    const size_t length = (max < BYTES / 2) ? max : BYTES / 2;
    unsigned count = 0;

    while (length >= 64 && count < most &&
           start(bench, 0, shape, bench->memory[0], length, &bench->target[1], 0, begin(count)) == UCS_INPROGRESS) {
        count++;
    }
    return count;
}

enum end { CLOSE, ABANDON, STOP };

/* The memory is not used any more; an end other than CLOSE leaves close_conn to be called. */
static void end_fetches(struct bench *bench, enum end how)
{
    const struct cw_transport_connect *connect = cw_subject.transport->connect;

    if (how == CLOSE) {
        cw_end_close(bench->ends[0]);
        return;
    }
    if (how == ABANDON && connect->watch != NULL) { /* nobody notifies the peer */
        connect->watch(bench->ends[1]->conn);
    }
    if (how == ABANDON) {
        connect->abandon(bench->ends[0]->conn);
    }
    while (how == STOP && connect->stopping(bench->ends[0]->conn)) {
        cw_rig_progress(bench->rig);
    }
}

/* After close_conn, after `abandon`, and once `stopping` says so, nothing is written to the memory of a fetch; fetches
 * of another connection, into the second half of the memory, end as they would. */
RIG_TEST(test_close_fetches)
{
    struct bench bench, other;
    struct access *fetch;
    unsigned count;

    bench_begin(&bench, rig);
    other = bench;
    cw_rig_connect(bench.rig, bench.rig->a, bench.rig->b, &other.ends[0], &other.ends[1]);
    for (unsigned round = 0; round < 6 * cw_scaled(20) && max_of(limits(&bench), GET_BCOPY) >= 64; round++) {
        const enum shape shape = (round % 2 == 0) ? GET_BCOPY : GET_ZCOPY;
        const size_t length = max_of(limits(&bench), shape) / 2 / 64 * 64;
        enum end how = (enum end)(round / 2 % 3);
        struct cw_access_target target = bench.target[1];

        memset(bench.memory[0], 0, BYTES);
        fill(bench.memory[1], BYTES, round);
        if ((how == ABANDON && cw_subject.transport->connect->abandon == NULL) ||
            (how == STOP && cw_subject.transport->connect->stopping == NULL)) {
            how = CLOSE;
        }
        target.address += BYTES / 2;
        count = start_fetches(&bench, shape, 8);
        fetch = begin(8);
        if (length > 0) {
            TAKE(&other, other.ends[0],
                 start(&other, 0, shape, bench.memory[0] + BYTES / 2, length, &target, 0, fetch));
        }
        for (unsigned i = 0; i < round / 6 % 8; i++) {
            cw_rig_progress(bench.rig);
        }
        end_fetches(&bench, how);
        for (unsigned i = 0; i < count && how == CLOSE; i++) {
            cw_check(accesses[i].done == 1, "close_conn leaves a fetch without its completion");
        }
        memset(bench.memory[0], POISON, BYTES / 2);
        if (length > 0) {
            expect(&other, fetch);
            cw_check(memcmp(bench.memory[0] + BYTES / 2, bench.memory[1] + BYTES / 2, length) == 0,
                     "a fetch brings wrong bytes when another connection ends");
        }
        cw_rig_settle(bench.rig);
        for (unsigned i = 0; i < BYTES / 2; i++) {
            cw_check((unsigned char)bench.memory[0][i] == POISON, "a fetch writes after the end of its connection");
        }
        if (how != CLOSE) {
            cw_end_close(bench.ends[0]);
        }
        cw_rig_wait(bench.rig, &bench.ends[1]->closed, 1, "`closed` behind the fetches of a peer that closed");
        cw_end_close(bench.ends[1]);
        cw_rig_connect(bench.rig, bench.rig->a, bench.rig->b, &bench.ends[0], &bench.ends[1]);
    }
    bench_end(&bench);
}

/* The core gives memory back to the program after this alone, whatever a writer still has under way. */
RIG_TEST(test_dereg)
{
    struct bench bench;

    bench_begin(&bench, rig);
    (void)start_many(&bench, PUT_BCOPY);
    group()->domain->dereg(bench.memh[1]);
    bench.memh[1] = NULL;
    nothing_lands(&bench, "dereg");
    bench_end(&bench);
}
