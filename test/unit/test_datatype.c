/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datatype cursors of msg/datatype.h: data of every class, read and written in pieces of any size, against flat
 * memory (DT-1 to DT-12, DT-17).
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runner.h"
#include "msg/datatype.h"
#include "test_random.h"

#define MAX_BYTES   3000u
#define MAX_ENTRIES 300u
#define GUARD       16u

static int refuse;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return refuse ? NULL : __real_malloc(size);
}

static size_t below(size_t bound)
{
    return (size_t)(next_random() % bound);
}

/* A generic type over flat memory that is stored backwards, and counts what is done to it. */
struct backwards {
    char *memory;               /* the buffer of the message */
    size_t length;
    size_t expected_offset;
    unsigned starts, finishes, packs, unpacks;
    size_t pack_most;           /* a pack produces at most so many bytes; 0: all */
    size_t pack_stops_at;       /* from this offset on it produces nothing */
    int pack_lies;              /* reports more than it was allowed */
    size_t unpack_fails_at;
    int started_for_unpack;
    size_t count;
    size_t item;                /* it stops at multiples of this only; 0: anywhere */
    size_t least_pack, least_unpack; /* the shortest calls that do not reach the end */
    unsigned refusals;          /* unpacks of bytes at whose end it cannot stop */
    unsigned slow_whole, slow_inside; /* milliseconds that a call takes for all of the data, and for less */
};

static struct backwards type_state;

static void *begin(void *context, const void *buffer, size_t count, int unpack)
{
    struct backwards *type = context;

    type->starts++;
    type->memory = (char *)buffer;
    type->count = count;
    type->expected_offset = 0;
    type->started_for_unpack = unpack;
    return type;
}

static void *start_pack(void *context, const void *buffer, size_t count)
{
    return begin(context, buffer, count, 0);
}

static void *start_unpack(void *context, void *buffer, size_t count)
{
    return begin(context, buffer, count, 1);
}

static size_t type_packed_size(void *state)
{
    return ((struct backwards *)state)->length;
}

static void take_time(const struct backwards *type, size_t length)
{
    const unsigned ms = (length == type->length) ? type->slow_whole : type->slow_inside;
    const struct timespec time = {.tv_nsec = (long)ms * 1000000};

    if (ms > 0) {
        (void)nanosleep(&time, NULL);
    }
}

static size_t type_pack(void *state, size_t offset, void *dest, size_t max)
{
    struct backwards *type = state;
    char *to = dest;
    size_t i;

    type->packs++;
    take_time(type, max);
    assert_int_equal(offset, type->expected_offset);
    assert_true(max > 0 && offset + max <= type->length);
    if (offset + max < type->length && max < type->least_pack) {
        type->least_pack = max;
    }
    if (type->item > 0 && offset + max < type->length) {
        max -= max % type->item;
    }
    if (offset >= type->pack_stops_at) {
        return 0;
    }
    if (type->pack_lies) {
        return max + 1;
    }
    if (type->pack_most > 0 && max > type->pack_most) {
        max = 1 + below(type->pack_most);
    }
    for (i = 0; i < max; i++) {
        to[i] = type->memory[type->length - 1 - offset - i];
    }
    type->expected_offset += max;
    return max;
}

static ucs_status_t type_unpack(void *state, size_t offset, const void *src, size_t length)
{
    struct backwards *type = state;
    const char *from = src;
    size_t i;

    type->unpacks++;
    take_time(type, length);
    assert_int_equal(offset, type->expected_offset);
    assert_true(length > 0 && offset + length <= type->length);
    if (offset + length < type->length && length < type->least_unpack) {
        type->least_unpack = length;
    }
    if (type->item > 0 && offset + length < type->length && length % type->item > 0) {
        type->refusals++;
        return UCS_ERR_MESSAGE_TRUNCATED;
    }
    type->expected_offset += length;
    if (offset + length > type->unpack_fails_at) {
        return UCS_ERR_IO_ERROR;
    }
    for (i = 0; i < length; i++) {
        type->memory[type->length - 1 - offset - i] = from[i];
    }
    return UCS_OK;
}

static void type_finish(void *state)
{
    ((struct backwards *)state)->finishes++;
}

static const ucp_generic_dt_ops_t ops = {.start_pack = start_pack,
                                       .start_unpack = start_unpack,
                                       .packed_size = type_packed_size,
                                       .pack = type_pack,
                                       .unpack = type_unpack,
                                       .finish = type_finish};

static ucp_datatype_t generic;

static int set_up(void **state)
{
    ucp_generic_dt_ops_t copied = ops;

    (void)random_set_up(state);
    refuse = 0;
    type_state = (struct backwards){.pack_stops_at = SIZE_MAX, .unpack_fails_at = SIZE_MAX};
    if (cw_dt_create_generic(&copied, &type_state, &generic) != UCS_OK) {
        return -1;
    }
    memset(&copied, 0, sizeof(copied)); /* DT-6: the table was copied */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cw_dt_destroy(generic);
    return 0;
}

/* Memory of a message in any layout, and the flat bytes that it stands for. */
struct message {
    ucp_datatype_t datatype;
    const void *buffer;
    size_t count;
    size_t length;
    char *blocks[MAX_ENTRIES];  /* of an iov, each with its own allocation */
    ucp_dt_iov_t iov[MAX_ENTRIES];
    char memory[MAX_BYTES];
};

enum layout { LAYOUT_BYTES, LAYOUT_ELEMENTS, LAYOUT_IOV, LAYOUT_GENERIC, LAYOUTS };

static void message_new(struct message *message, enum layout layout, size_t length)
{
    static const size_t sizes[] = {0, 0, 0, 1, 2, 3, 7, 8, 64, 100};
    size_t part, left = length, i;

    memset(message, 0, sizeof(*message));
    message->length = length;
    message->buffer = message->memory;
    message->count = length;
    random_bytes(message->memory, MAX_BYTES);
    if (layout == LAYOUT_BYTES) {
        message->datatype = ucp_dt_make_contig(1);
    } else if (layout == LAYOUT_ELEMENTS) {
        message->datatype = ucp_dt_make_contig(12);
        message->count = length / 12;
        message->length = message->count * 12;
    } else if (layout == LAYOUT_GENERIC) {
        message->datatype = generic;
        type_state.length = length;
    } else {
        message->datatype = UCP_DATATYPE_IOV;
        message->buffer = message->iov;
        for (i = 0; i < MAX_ENTRIES && (left > 0 || below(4) != 0); i++) {
            part = sizes[below(sizeof(sizes) / sizeof(sizes[0]))];
            part = (part > left || i == MAX_ENTRIES - 1) ? left : part;
            left -= part;
            message->iov[i].length = part;
            message->iov[i].buffer = (void *)(uintptr_t)1; /* DT-3: any pointer */
            if (part > 0) {
                message->blocks[i] = malloc(part);
                message->iov[i].buffer = message->blocks[i];
                random_bytes(message->blocks[i], part);
            }
        }
        message->count = i;
    }
}

static void message_free(struct message *message)
{
    size_t i;

    for (i = 0; i < MAX_ENTRIES; i++) {
        free(message->blocks[i]);
    }
}

/* The bytes that go over the wire. */
static void flatten(const struct message *message, char *flat)
{
    size_t i;

    if (message->datatype == UCP_DATATYPE_IOV) {
        for (i = 0; i < message->count; i++) {
            if (message->iov[i].length > 0) {
                memcpy(flat, message->iov[i].buffer, message->iov[i].length);
            }
            flat += message->iov[i].length;
        }
    } else if (message->datatype == generic) {
        for (i = 0; i < message->length; i++) {
            flat[i] = message->memory[message->length - 1 - i];
        }
    } else {
        memcpy(flat, message->memory, message->length);
    }
}

/* The request outlives the call: from now on the user's array is gone. */
static void keep(struct cw_dt_cursor *cursor, struct message *message)
{
    assert_int_equal(cw_dt_keep(cursor), UCS_OK);
    if (message->datatype == UCP_DATATYPE_IOV && cursor->offset < cursor->length) {
        assert_ptr_not_equal(cursor->vec.iov, message->iov);
        memset(message->iov, 0xa5, sizeof(message->iov));
    }
}

static size_t piece(size_t left)
{
    static const size_t limits[] = {1, 2, 9, 64, 500, MAX_BYTES};
    size_t limit = limits[below(sizeof(limits) / sizeof(limits[0]))];

    return 1 + below((left < limit) ? left : limit);
}

static void pack_all(struct message *message, const char *expected)
{
    size_t keep_at = below(message->length + 1), offset = 0, max, done;
    struct cw_dt_cursor cursor;
    char *piece_memory;
    int retained = below(3) == 0;

    assert_int_equal(cw_dt_start(&cursor, message->datatype, message->buffer, message->count, CW_DT_SEND), UCS_OK);
    assert_int_equal(cursor.length, message->length);
    assert_int_equal(cursor.offset, 0);
    while (offset < message->length) {
        if (!retained && offset >= keep_at) {
            keep(&cursor, message);
            retained = 1;
        }
        max = piece(message->length - offset) + (below(8) == 0 ? MAX_BYTES : 0);
        piece_memory = malloc(max);
        memset(piece_memory, 0x5a, max);
        done = cw_dt_pack(&cursor, piece_memory, max);
        assert_int_equal(done, (max < message->length - offset) ? max : message->length - offset);
        assert_memory_equal(piece_memory, expected + offset, done);
        while (max > done) {
            assert_int_equal(piece_memory[--max], 0x5a);
        }
        free(piece_memory);
        offset += done;
        assert_int_equal(cursor.offset, offset);
    }
    assert_int_equal(cw_dt_pack(&cursor, &max, sizeof(max)), 0);
    if (!retained) {
        keep(&cursor, message);
    }
    cw_dt_finish(&cursor);
    cw_dt_finish(&cursor);
}

TEST_WITH(random_pieces_are_packed, set_up, tear_down)
{
    struct message *message = malloc(sizeof(*message));
    char flat[MAX_BYTES];
    unsigned round;

    for (round = 0; round < 3000; round++) {
        message_new(message, (enum layout)(round % LAYOUTS), below((round & 64) ? MAX_BYTES : 40));
        type_state.pack_most = (round & 128) ? 1 + below(60) : 0; /* DT-7: short counts */
        flatten(message, flat);
        pack_all(message, flat);
        message_free(message);
        assert_int_equal(type_state.starts, type_state.finishes);
    }
    assert_true(type_state.packs > 1000);
    free(message);
}

/* A shorter message, as far as it goes, into what has room for more. */
static void unpack_all(struct message *message, const char *flat, size_t total)
{
    size_t keep_at = below(total + 1), offset = 0, length;
    struct cw_dt_cursor cursor;
    char *piece_memory;
    int retained = below(3) == 0;

    assert_int_equal(cw_dt_start(&cursor, message->datatype, message->buffer, message->count, CW_DT_RECV), UCS_OK);
    assert_int_equal(cursor.length, message->length);
    while (offset < total) {
        if (!retained && offset >= keep_at) {
            assert_int_equal(cw_dt_keep(&cursor), UCS_OK);
            retained = 1;
        }
        length = piece(total - offset);
        piece_memory = malloc(length);
        memcpy(piece_memory, flat + offset, length);
        assert_int_equal(cw_dt_unpack(&cursor, piece_memory, length), UCS_OK);
        free(piece_memory);
        offset += length;
        assert_int_equal(cursor.offset, offset);
    }
    assert_int_equal(cw_dt_unpack(&cursor, NULL, 0), UCS_OK);
    cw_dt_finish(&cursor);
    cw_dt_finish(&cursor);
}

TEST_WITH(random_pieces_are_unpacked, set_up, tear_down)
{
    struct message *message = malloc(sizeof(*message));
    char flat[MAX_BYTES], before[MAX_BYTES], after[MAX_BYTES];
    unsigned round;
    size_t total;

    random_bytes(flat, sizeof(flat));
    for (round = 0; round < 3000; round++) {
        message_new(message, (enum layout)(round % LAYOUTS), below((round & 64) ? MAX_BYTES : 40));
        total = (round & 128) ? message->length : below(message->length + 1);
        flatten(message, before);
        unpack_all(message, flat, total);
        flatten(message, after);
        assert_memory_equal(after, flat, total);
        assert_memory_equal(after + total, before + total, message->length - total);
        message_free(message);
        assert_int_equal(type_state.starts, type_state.finishes);
    }
    assert_true(type_state.unpacks > 1000);
    free(message);
}

/* DT-3: entries of no length anywhere, an empty array, no array at all. */
TEST_WITH(entries_without_length_count_for_nothing, set_up, tear_down)
{
    char a[3] = "abc", b[2] = "de", out[8];
    ucp_dt_iov_t iov[] = {{NULL, 0}, {NULL, 0}, {a, 3}, {(void *)(uintptr_t)8, 0}, {b, 2}, {NULL, 0}, {NULL, 0}};
    struct cw_dt_cursor cursor;
    size_t max, done;

    for (max = 1; max <= 6; max++) {
        assert_int_equal(cw_dt_start(&cursor, UCP_DATATYPE_IOV, iov, 7, CW_DT_SEND), UCS_OK);
        assert_int_equal(cursor.length, 5);
        for (done = 0; done < 5;) {
            done += cw_dt_pack(&cursor, out + done, (max < sizeof(out) - done) ? max : sizeof(out) - done);
            assert_int_equal(cw_dt_keep(&cursor), UCS_OK);
        }
        assert_int_equal(done, 5);
        assert_memory_equal(out, "abcde", 5);
        cw_dt_finish(&cursor);
    }
    for (done = 0; done < 3; done++) {
        assert_int_equal(cw_dt_start(&cursor, UCP_DATATYPE_IOV, (done == 0) ? NULL : iov, done, CW_DT_RECV), UCS_OK);
        assert_int_equal(cursor.length, 0);
        assert_int_equal(cw_dt_keep(&cursor), UCS_OK);
        assert_int_equal(cw_dt_pack(&cursor, out, sizeof(out)), 0);
        cw_dt_finish(&cursor);
    }
}

/* OPA-19: only what is still needed is kept, whatever was done before, and without memory nothing is lost. */
TEST_WITH(keeping_goes_on_where_it_was, set_up, tear_down)
{
    char blocks[10][7], flat[70], out[70];
    ucp_dt_iov_t iov[10];
    struct cw_dt_cursor cursor;
    size_t at, i;

    random_bytes(blocks, sizeof(blocks));
    memcpy(flat, blocks, sizeof(flat));
    for (at = 0; at <= 70; at++) {
        for (i = 0; i < 10; i++) {
            iov[i] = (ucp_dt_iov_t){.buffer = blocks[i], .length = 7};
        }
        assert_int_equal(cw_dt_start(&cursor, UCP_DATATYPE_IOV, iov, 10, CW_DT_SEND), UCS_OK);
        assert_int_equal(cw_dt_pack(&cursor, out, at), at);
        refuse = 1;
        assert_int_equal(cw_dt_keep(&cursor), (at < 70) ? UCS_ERR_NO_MEMORY : UCS_OK);
        refuse = 0;
        assert_int_equal(cw_dt_keep(&cursor), UCS_OK);
        refuse = 1;
        assert_int_equal(cw_dt_keep(&cursor), UCS_OK); /* is ours already */
        refuse = 0;
        memset(iov, 0xa5, sizeof(iov));
        assert_int_equal(cw_dt_pack(&cursor, out + at, sizeof(out)), 70 - at);
        assert_memory_equal(out, flat, sizeof(flat));
        cw_dt_finish(&cursor);
        cw_dt_finish(&cursor);
    }
}

/* DT-7, DT-8, DT-9, DT-11 */
TEST_WITH(generic_types_are_started_and_finished_once, set_up, tear_down)
{
    struct cw_dt_cursor cursor;
    char memory[10], out[10];
    unsigned direction;

    for (direction = 0; direction < 4; direction++) {
        type_state.length = (direction & 2) ? sizeof(memory) : 0;
        type_state.starts = type_state.finishes = type_state.packs = type_state.unpacks = 0;
        assert_int_equal(cw_dt_start(&cursor, generic, memory, 5, (direction & 1) ? CW_DT_RECV : CW_DT_SEND), UCS_OK);
        assert_int_equal(type_state.starts, 1);
        assert_int_equal(type_state.started_for_unpack, direction & 1);
        assert_ptr_equal(type_state.memory, memory);
        assert_int_equal(type_state.count, 5);
        assert_int_equal(cursor.length, type_state.length);
        assert_int_equal(cw_dt_keep(&cursor), UCS_OK);
        if (type_state.length == 0) {
            assert_int_equal(cw_dt_pack(&cursor, out, sizeof(out)), 0);
            assert_int_equal(cw_dt_unpack(&cursor, out, 0), UCS_OK);
        }
        assert_int_equal(type_state.packs + type_state.unpacks, 0);
        assert_int_equal(type_state.finishes, 0);
        cw_dt_finish(&cursor);
        cw_dt_finish(&cursor);
        assert_int_equal(type_state.starts, 1);
        assert_int_equal(type_state.finishes, 1);
    }
}

/* A type that breaks its word: the message keeps its length, nothing loops, nothing is written out of bounds. */
TEST_WITH(a_type_that_gives_nothing_or_too_much_is_cut_off, set_up, tear_down)
{
    char memory[10], out[10 + GUARD];
    struct cw_dt_cursor cursor;
    size_t i;

    type_state.length = sizeof(memory);
    type_state.pack_stops_at = 4;
    type_state.pack_most = 2;
    memset(memory, 'm', sizeof(memory));
    memset(out, 0x5a, sizeof(out));
    assert_int_equal(cw_dt_start(&cursor, generic, memory, 1, CW_DT_SEND), UCS_OK);
    assert_int_equal(cw_dt_pack(&cursor, out, 10), 10);
    assert_memory_equal(out, "mmmm\0\0\0\0\0\0", 10);
    cw_dt_finish(&cursor);

    type_state.pack_lies = 1;
    assert_int_equal(cw_dt_start(&cursor, generic, memory, 1, CW_DT_SEND), UCS_OK);
    memset(out, 'x', 10);
    assert_int_equal(cw_dt_pack(&cursor, out, 10), 10);
    assert_memory_equal(out, "\0\0\0\0\0\0\0\0\0\0", 10);
    cw_dt_finish(&cursor);
    for (i = 10; i < sizeof(out); i++) {
        assert_int_equal(out[i], 0x5a);
    }
}

/* What travels: packets of one length, or, with 0, as long as the type's pieces, as a ring has them. */
static void send_packets(char *from, char *wire, size_t length, size_t packet)
{
    struct cw_dt_cursor cursor;
    size_t part;

    assert_int_equal(cw_dt_start(&cursor, generic, from, length, CW_DT_SEND), UCS_OK);
    while (cursor.offset < length) {
        part = (packet > 0) ? packet : cw_dt_to_piece_end(&cursor);
        assert_true(part > 0);
        part = cw_dt_pack(&cursor, wire + cursor.offset, part);
        assert_true(part > 0);
    }
    assert_int_equal(cursor.offset, length);
    cw_dt_finish(&cursor);
}

static ucs_status_t receive_packets(char *to, const char *wire, size_t length, size_t packet)
{
    ucs_status_t status = UCS_OK;
    struct cw_dt_cursor cursor;
    size_t part, first = 1000;

    assert_int_equal(cw_dt_start(&cursor, generic, to, length, CW_DT_RECV), UCS_OK);
    cw_dt_gather(&cursor, length);
    while (cursor.offset < length && status == UCS_OK) {
        part = (cursor.offset == 0) ? first : packet;
        part = (part < length - cursor.offset) ? part : length - cursor.offset;
        status = cw_dt_unpack(&cursor, wire + cursor.offset, part);
    }
    cw_dt_finish(&cursor);
    return status;
}

/* DT-7, DT-8: a type is entered at pieces of at least 64 KiB, one after the other, whatever packets there are, unless
 * there is no memory. A type that cannot stop everywhere gets the pieces that it can take. */
TEST_WITH(long_messages_move_in_pieces, set_up, tear_down)
{
    static const size_t packets[] = {0, 1000, 8192, 16400, CW_DT_PIECE, 70000, 200000, 500000};
    static const size_t items[] = {0, 1, 21, 4096, 70001};
    const size_t length = 300007;
    char *from = malloc(length), *wire = malloc(length), *to = malloc(length);
    unsigned i, k, without;
    size_t byte;

    for (byte = 0; byte < length; byte++) {
        from[byte] = (char)next_random();
    }
    for (i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
        for (k = 0; k < sizeof(items) / sizeof(items[0]); k++) {
            for (without = 0; without < (items[k] > 1 ? 1u : 2u); without++) {
                type_state = (struct backwards){.pack_stops_at = SIZE_MAX,
                                              .unpack_fails_at = SIZE_MAX,
                                              .length = length,
                                              .item = items[k] < CW_DT_PIECE ? items[k] : 0,
                                              .least_pack = SIZE_MAX,
                                              .least_unpack = SIZE_MAX};
                if (without) { /* nor pieces that the type has kept */
                    cw_dt_destroy(generic);
                    assert_int_equal(cw_dt_create_generic(&ops, &type_state, &generic), UCS_OK);
                }
                refuse = (int)without;
                memset(wire, 0, length);
                send_packets(from, wire, length, packets[i]);
                type_state.item = items[k];
                assert_int_equal(receive_packets(to, wire, length, packets[i] > 0 ? packets[i] : CW_DT_PIECE), UCS_OK);
                refuse = 0;
                for (byte = 0; byte < length; byte++) {
                    assert_int_equal(wire[byte], from[length - 1 - byte]);
                }
                assert_memory_equal(to, from, length);
                assert_int_equal(type_state.finishes, 2);
                if (!without && items[k] <= 1) {
                    assert_in_range(type_state.least_pack, CW_DT_PIECE, SIZE_MAX);
                    assert_in_range(type_state.least_unpack, CW_DT_PIECE, SIZE_MAX);
                }
            }
        }
    }
    free(from);
    free(wire);
    free(to);
}

#define SHORT_PACKET 8192u

/* Receives the next packet of zeros of a message of `length` bytes, as a type of many elements has them. */
static void receive_next(struct cw_dt_cursor *cursor, const char *zeros, size_t length)
{
    const size_t left = length - cursor->offset;

    assert_int_equal(cw_dt_unpack(cursor, zeros, left < SHORT_PACKET ? left : SHORT_PACKET), UCS_OK);
}

/* A message whose received bytes are all unpacked has no buffer. */
TEST_WITH(messages_between_pieces_have_no_buffer, set_up, tear_down)
{
    enum { MESSAGES = 7 };
    const size_t length = 2 * CW_DT_PIECE;
    struct cw_dt_cursor cursors[MESSAGES];
    struct backwards states[MESSAGES];
    char *wire = calloc(1, length), *to = malloc(length);
    unsigned i;
    bool between;

    type_state.length = length;
    for (i = 0; i < MESSAGES; i++) {
        assert_int_equal(cw_dt_start(&cursors[i], generic, to, length, CW_DT_RECV), UCS_OK);
        states[i] = type_state;
        cursors[i].generic.state = &states[i];
        cw_dt_gather(&cursors[i], length);
    }
    while (cursors[MESSAGES - 1].offset < length) {
        for (i = 0; i < MESSAGES; i++) {
            receive_next(&cursors[i], wire, length);
            between = cursors[i].offset % CW_DT_PIECE == 0;
            assert_int_equal(cursors[i].generic.piece == NULL, between);
        }
    }
    for (i = 0; i < MESSAGES; i++) {
        assert_int_equal(states[i].unpacks, type_state.unpacks + 2);
        cw_dt_finish(&cursors[i]);
    }
    free(wire);
    free(to);
}

/* Sends one element in packets as the library does, with no more than `packet` bytes in each unless one takes a whole
 * piece (0). Returns their number. */
static unsigned send_element(char *from, char *wire, size_t length, size_t packet, size_t *lengths)
{
    struct cw_dt_cursor cursor;
    unsigned count = 0;
    size_t part;

    assert_int_equal(cw_dt_start(&cursor, generic, from, 1, CW_DT_SEND), UCS_OK);
    while (cursor.offset < length) {
        part = cw_dt_to_piece_end(&cursor);
        part = (packet > 0 && packet < part) ? packet : part;
        lengths[count] = cw_dt_pack_next(&cursor, NULL, wire + cursor.offset, part);
        assert_in_range(lengths[count], 1, part);
        count++;
    }
    assert_int_equal(cursor.offset, length);
    cw_dt_finish(&cursor);
    return count;
}

static void receive_element(char *to, const char *wire, size_t length, const size_t *lengths, unsigned count)
{
    struct cw_dt_cursor cursor;
    unsigned i;

    assert_int_equal(cw_dt_start(&cursor, generic, to, 1, CW_DT_RECV), UCS_OK);
    cw_dt_gather(&cursor, length);
    for (i = 0; i < count; i++) {
        assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, lengths[i]), UCS_OK);
    }
    assert_int_equal(cursor.offset, length);
    cw_dt_finish(&cursor);
}

/* Sends an element; whether it was packed as a whole. It is unpacked as it was packed, and never where it cannot
 * stop. */
static bool is_sent_whole(char *from, char *to, size_t length, size_t packet)
{
    char *wire = calloc(1, length);
    size_t *lengths = calloc(length / 500 + 1, sizeof(*lengths)), byte;
    unsigned count, packs;

    type_state.packs = type_state.unpacks = type_state.refusals = 0;
    type_state.least_pack = type_state.least_unpack = SIZE_MAX;
    for (byte = 0; byte < length; byte += 97) {
        from[byte] = (char)next_random();
    }
    count = send_element(from, wire, length, packet, lengths);
    packs = type_state.packs;
    receive_element(to, wire, length, lengths, count);
    assert_memory_equal(to, from, length);
    assert_int_equal(type_state.refusals, 0);
    assert_int_equal(type_state.unpacks == 1, packs == 1);
    assert_true(type_state.item > 1 || type_state.least_pack >= CW_DT_LEAST_INSIDE);
    assert_true(type_state.least_unpack >= CW_DT_LEAST_INSIDE);
    free(lengths);
    free(wire);
    return packs == 1;
}

static void begin_elements(size_t length, size_t item)
{
    cw_dt_destroy(generic);
    type_state = (struct backwards){
        .pack_stops_at = SIZE_MAX, .unpack_fails_at = SIZE_MAX, .length = length, .item = item};
    assert_int_equal(cw_dt_create_generic(&ops, &type_state, &generic), UCS_OK);
}

/* A long element goes as a whole, or in pieces that end where its type can stop. Both are tried, then the better one is
 * used, and the other one again now and then. */
TEST_WITH(long_elements_go_the_better_way, set_up, tear_down)
{
    static const size_t packets[] = {0, 1000, 8240, 16400, CW_DT_PIECE / 2};
    static const size_t items[] = {0, 8, 21, 64};
    const size_t lengths[] = {300007, 1 << 20, 5000003};
    char *from = malloc(lengths[2]), *to = malloc(lengths[2]);
    unsigned i, k, n;

    for (i = 0; i < 5; i++) {
        for (k = 0; k < 4; k++) {
            begin_elements(lengths[k % 3], items[k]);
            for (n = 0; n < 8; n++) {
                assert_int_equal(is_sent_whole(from, to, lengths[k % 3], packets[i]), n % 2 == 0);
            }
        }
    }
    begin_elements(lengths[0], 21);
    type_state.slow_inside = 4;
    for (n = 0; n < 100; n++) {
        assert_true(is_sent_whole(from, to, lengths[0], 8240) == (n < 8 ? n % 2 == 0 : n % 32 != 0));
    }
    begin_elements(lengths[0], 21);
    type_state.slow_whole = 8;
    for (n = 0; n < 100; n++) {
        assert_true(is_sent_whole(from, to, lengths[0], 8240) == (n < 8 ? n % 2 == 0 : n % 32 == 0));
    }
    free(from);
    free(to);
}

/* Packets of a sender with other pieces: the element is unpacked as a whole, or after a refusal. */
TEST_WITH(long_elements_arrive_in_any_packets, set_up, tear_down)
{
    static const size_t packets[] = {1000, 4096, 8192, 16384, CW_DT_PIECE, CW_DT_LEAST_INSIDE, 200000};
    const size_t length = 500003;
    char *wire = malloc(length), *to = malloc(length);
    size_t lengths[501], left, i;
    unsigned count;

    for (i = 0; i < length; i++) {
        wire[i] = (char)next_random();
    }
    for (i = 0; i < sizeof(packets) / sizeof(packets[0]); i++) {
        begin_elements(length, 21);
        for (count = 0, left = length; left > 0; left -= lengths[count++]) {
            lengths[count] = (left < packets[i]) ? left : packets[i];
        }
        receive_element(to, wire, length, lengths, count);
        assert_int_equal(type_state.refusals, packets[i] == CW_DT_LEAST_INSIDE);
        assert_int_equal(type_state.unpacks, 1 + type_state.refusals);
        for (left = 0; left < length; left++) {
            assert_int_equal(to[length - 1 - left], wire[left]);
        }
    }
    free(wire);
    free(to);
}

/* No packet ends where the receiver would take that for the end of a piece, also where pieces are hardly longer than a
 * number of packets. */
TEST_WITH(packets_end_apart_from_ends_of_pieces, set_up, tear_down)
{
    const size_t packet = 16432, most = 32 * (3 * packet + 64);
    char *from = malloc(most), *to = malloc(most);
    size_t beyond;

    for (beyond = 1; beyond < 70; beyond += 4) {
        begin_elements(32 * (3 * packet + beyond - CW_DT_ITEM), 21);
        assert_true(!is_sent_whole(from, to, type_state.length, packet) ||
                    !is_sent_whole(from, to, type_state.length, packet));
    }
    free(from);
    free(to);
}

/* A message of fewer bytes than the receive ends inside an element, and a packet of another length than the pieces ends
 * late in the one before. */
TEST_WITH(messages_end_inside_elements, set_up, tear_down)
{
    const size_t element = 1 << 20, length = element / 10 * 14;
    char *wire = malloc(length), *to = malloc(2 * element);
    struct cw_dt_cursor cursor;
    size_t piece, part, i;

    for (i = 0; i < length; i++) {
        wire[i] = (char)next_random();
    }
    begin_elements(2 * element, 1);
    assert_int_equal(cw_dt_start(&cursor, generic, to, 2, CW_DT_RECV), UCS_OK);
    cw_dt_gather(&cursor, length);
    piece = cursor.piece_length;
    while (cursor.offset + piece < element / 10 * 9) {
        assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, piece), UCS_OK);
    }
    assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, 100), UCS_OK);
    assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, piece), UCS_OK);
    while (cursor.offset < length) {
        part = (length - cursor.offset < 8000) ? length - cursor.offset : 8000;
        assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, part), UCS_OK);
    }
    cw_dt_finish(&cursor);
    for (i = 0; i < length; i++) {
        assert_int_equal(to[2 * element - 1 - i], wire[i]);
    }
    free(wire);
    free(to);
}

/* A message of `count` elements, in packets of `packet` bytes, or of any lengths (0), for a type that stops between its
 * items only. */
static void receive_elements(size_t element, size_t count, size_t packet, char *wire, char *to)
{
    const size_t length = element * count;
    struct cw_dt_cursor cursor;
    size_t part, i;

    begin_elements(length, 21);
    for (i = 0; i < length; i += 4099) {
        wire[i] = (char)next_random();
    }
    assert_int_equal(cw_dt_start(&cursor, generic, to, count, CW_DT_RECV), UCS_OK);
    cw_dt_gather(&cursor, length);
    while (cursor.offset < length) {
        part = packet;
        if (part == 0) {
            part = 1 + below(below(5) > 0 ? 40000 : 2 * element);
        }
        part = (length - cursor.offset < part) ? length - cursor.offset : part;
        assert_int_equal(cw_dt_unpack(&cursor, wire + cursor.offset, part), UCS_OK);
    }
    cw_dt_finish(&cursor);
    assert_int_equal(type_state.finishes, 1);
    for (i = 0; i < length; i += 4099) {
        assert_int_equal(to[length - 1 - i], wire[i]);
    }
}

/* Of a sender with other pieces, each element is unpacked as a whole: the message may be longer than the limit of what
 * is gathered. */
TEST_WITH(many_long_elements_arrive_in_any_packets, set_up, tear_down)
{
    static const size_t packets[] = {327680, 8240, CW_DT_PIECE, 4000000};
    const size_t element = 21 * 450000, count = 8; /* 72 MiB */
    char *wire = calloc(count, element), *to = malloc(count * element);
    unsigned i;

    for (i = 0; i < 4; i++) {
        receive_elements(element, count, packets[i], wire, to);
        assert_in_range(type_state.unpacks, count, count + 2);
    }
    for (i = 0; i < 300; i++) {
        receive_elements(21 * (4000 + below(30000)), 1 + below(9), 0, wire, to);
    }
    free(wire);
    free(to);
}

/* Who asks for the size of a message sends nothing. */
TEST_WITH(sizes_are_no_messages, set_up, tear_down)
{
    const size_t length = 300007;
    char *from = malloc(length), *to = malloc(length);
    size_t size;
    unsigned n;

    begin_elements(length, 21);
    for (n = 0; n < 8; n++) {
        assert_int_equal(cw_dt_packed_size(generic, from, 1, &size), UCS_OK);
        assert_int_equal(size, length);
        assert_int_equal(is_sent_whole(from, to, length, 8240), n % 2 == 0);
    }
    free(from);
    free(to);
}

/* The error of a piece in the middle is handed on, and so is one that only looks as if the type could not stop. */
TEST_WITH(an_error_in_the_middle_ends_the_pieces, set_up, tear_down)
{
    const size_t length = 200000;
    char *wire = calloc(1, length), *to = malloc(length);

    type_state.length = length;
    type_state.least_unpack = SIZE_MAX;
    type_state.unpack_fails_at = 100000;
    assert_int_equal(receive_packets(to, wire, length, 8192), UCS_ERR_IO_ERROR);
    assert_int_equal(type_state.unpacks, 2);

    type_state.unpacks = 0;
    type_state.item = 21;
    refuse = 1;
    assert_int_equal(receive_packets(to, wire, length, 8192), UCS_ERR_MESSAGE_TRUNCATED);
    assert_int_equal(type_state.unpacks, 1);
    refuse = 0;
    assert_int_equal(type_state.finishes, 2);
    free(wire);
    free(to);
}

/* DT-12: the error is handed on, and the offset goes on so that the rest can be swallowed. */
TEST_WITH(an_error_of_unpack_is_handed_on, set_up, tear_down)
{
    char memory[12] = "", from[12] = "abcdefghijk";
    struct cw_dt_cursor cursor;

    type_state.length = sizeof(memory);
    type_state.unpack_fails_at = 6;
    assert_int_equal(cw_dt_start(&cursor, generic, memory, 1, CW_DT_RECV), UCS_OK);
    assert_int_equal(cw_dt_unpack(&cursor, from, 4), UCS_OK);
    assert_int_equal(cw_dt_unpack(&cursor, from + 4, 4), UCS_ERR_IO_ERROR);
    assert_int_equal(cursor.offset, 8);
    cw_dt_finish(&cursor);
    assert_int_equal(type_state.finishes, 1);
}

/* DT-5 */
TEST_WITH(classes_that_do_not_exist_are_refused, set_up, tear_down)
{
    static const ucp_datatype_t unknown[] = {UCP_DATATYPE_STRIDED, 3, 4, 5, 6, ((ucp_datatype_t)8 << 3) | 1};
    struct cw_dt_cursor cursor;
    char memory[16];
    size_t size = 77, i;

    for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        assert_int_equal(cw_dt_start(&cursor, unknown[i], memory, 1, CW_DT_SEND), UCS_ERR_INVALID_PARAM);
        assert_int_equal(cw_dt_packed_size(unknown[i], memory, 1, &size), UCS_ERR_INVALID_PARAM);
        assert_int_equal(size, 77);
        assert_false(cw_dt_is_contig(unknown[i]));
        cw_dt_destroy(unknown[i]); /* does nothing */
    }
}

/* DT-2, DT-17 */
TEST_WITH(packed_sizes_are_reported, set_up, tear_down)
{
    ucp_dt_iov_t iov[] = {{NULL, 0}, {NULL, 5}, {NULL, 0}, {NULL, 4096}};
    char memory[1];
    size_t size = 77;

    assert_int_equal(cw_dt_packed_size(ucp_dt_make_contig(12), NULL, 3, &size), UCS_OK);
    assert_int_equal(size, 36);
    assert_int_equal(cw_dt_packed_size(ucp_dt_make_contig(0), memory, 3, &size), UCS_OK);
    assert_int_equal(size, 0);
    assert_int_equal(cw_dt_packed_size(ucp_dt_make_contig((size_t)1 << 40), NULL, 1 << 10, &size), UCS_OK);
    assert_true(size == (size_t)1 << 50);
    assert_int_equal(cw_dt_packed_size(UCP_DATATYPE_IOV, iov, 4, &size), UCS_OK);
    assert_int_equal(size, 4101);
    assert_int_equal(cw_dt_packed_size(UCP_DATATYPE_IOV, iov, 0, &size), UCS_OK);
    assert_int_equal(size, 0);
    type_state.length = 123;
    assert_int_equal(cw_dt_packed_size(generic, memory, 1, &size), UCS_OK);
    assert_int_equal(size, 123);
    assert_int_equal(type_state.starts, 1);
    assert_int_equal(type_state.finishes, 1);
    assert_int_equal(type_state.packs, 0);
    size = 77;
    assert_int_equal(cw_dt_packed_size(UCP_DATATYPE_IOV, NULL, 1, &size), UCS_ERR_INVALID_PARAM);
    assert_int_equal(cw_dt_packed_size(generic, NULL, 1, &size), UCS_ERR_INVALID_PARAM);
    assert_int_equal(size, 77);
    assert_int_equal(type_state.starts, 1);
}

/* DT-1, DT-6 */
TEST_WITH(handles_of_generic_types_carry_their_class, set_up, tear_down)
{
    ucp_datatype_t none = 77;

    assert_int_equal(generic & UCP_DATATYPE_CLASS_MASK, UCP_DATATYPE_GENERIC);
    assert_false(cw_dt_is_contig(generic));
    assert_true(cw_dt_is_contig(ucp_dt_make_contig(1)));
    refuse = 1;
    assert_int_equal(cw_dt_create_generic(&ops, NULL, &none), UCS_ERR_NO_MEMORY);
    refuse = 0;
    assert_int_equal(none, 77);
    cw_dt_destroy(ucp_dt_make_contig(9));
    cw_dt_destroy(UCP_DATATYPE_IOV);
}

/* Any part of a list, wherever the cursor is. */
TEST_WITH(parts_are_named, set_up, tear_down)
{
    struct message *message = malloc(sizeof(*message));
    struct cw_dt_cursor cursor;
    struct iovec iov[MAX_ENTRIES];
    char flat[MAX_BYTES];
    unsigned round, count, i;
    size_t offset, length;

    for (round = 0; round < 3000; round++) {
        message_new(message, (round % 2 == 0) ? LAYOUT_IOV : LAYOUT_BYTES, 1 + below(MAX_BYTES - 1));
        flatten(message, flat);
        assert_int_equal(cw_dt_start(&cursor, message->datatype, message->buffer, message->count, CW_DT_RECV), UCS_OK);
        cw_dt_skip(&cursor, below(message->length));
        offset = below(message->length);
        length = 1 + below(message->length - offset);
        count = cw_dt_part(&cursor, offset, length, iov, MAX_ENTRIES);
        for (i = 0; i < count; i++) {
            assert_in_range(iov[i].iov_len, 1, length);
            assert_memory_equal(iov[i].iov_base, flat + offset, iov[i].iov_len);
            offset += iov[i].iov_len;
            length -= iov[i].iov_len;
        }
        assert_int_equal(length, 0);
        cw_dt_finish(&cursor);
        message_free(message);
    }
    free(message);
}
