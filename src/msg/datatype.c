/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datatype cursors of msg/datatype.h. A datatype handle has its class in the low three bits. The handle of a
 * generic type is the address of a struct cw_dt_generic, which malloc aligns well enough to leave these bits free; the
 * handle of device memory is the address of a struct cw_dt_device likewise. If a read of device memory fails,
 * the cursor yields zeros and logs the error.
 */
#include "msg/datatype.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/completion.h"
#include "base/list.h"

#define CLASS_DONE        0xff /* finished cursor */
#define CLASS_DONE_DEVICE 0xfe /* finished cursor of device memory */

/* Limit of the bytes that are buffered for a type that cannot stop at the end of a piece. */
#define MAX_RETAINED ((size_t)64 << 20)

/* The number of pieces of a message that end inside its elements, unless they would be longer than MOST_INSIDE. */
#define MAX_PIECES  32u
#define MOST_INSIDE ((size_t)4 << 20)

/* Messages of a type with long elements that try both ways to choose pieces. */
#define FIRST_TRIALS 8u
#define TRIAL_EVERY  32u

/* Packed bytes of a generic type: not sent yet, or received and not unpacked yet. Some may be lent to a transport for
 * longer than the lifetime of the cursor. */
struct cw_dt_piece {
    struct cw_completion completion; /* of lent bytes */
    struct cw_completion *sender;
    uint64_t spent;                  /* ticks of packing it and copying it to packets; 0: not timed */
    unsigned lent;                   /* number of loans */
    uint8_t orphaned;                /* no cursor refers to it */
    size_t begin, end; /* range of these bytes */
    size_t capacity;
    size_t space;      /* allocated; at least `capacity` */
    size_t element;    /* of a receiver whose pieces end inside elements: their length; 0: unknown, or too long */
    char bytes[];
};

static struct cw_dt_generic *generic_of(ucp_datatype_t datatype)
{
    return (struct cw_dt_generic *)(uintptr_t)(datatype & ~(ucp_datatype_t)UCP_DATATYPE_CLASS_MASK);
}

static void release_generic(struct cw_dt_generic *type)
{
    if (__atomic_sub_fetch(&type->holds, 1, __ATOMIC_ACQ_REL) == 0) {
        free(type);
    }
}

/* The cursor drops its piece. */
static CW_NOINLINE void leave_piece(struct cw_dt_cursor *cursor)
{
    struct cw_dt_piece *piece = cursor->generic.piece;

    cursor->generic.piece = NULL;
    if (piece->lent > 0) {
        piece->orphaned = 1;
    } else {
        free(piece);
    }
}

/* The transport has completed one loan. */
static void returned(struct cw_completion *completion, ucs_status_t status)
{
    struct cw_dt_piece *piece = cw_container_of(completion, struct cw_dt_piece, completion);
    struct cw_completion *sender = piece->sender;

    if (--piece->lent == 0 && piece->orphaned) {
        free(piece);
    }
    sender->done(sender, status);
}

static struct cw_dt_piece *piece_new(size_t capacity)
{
    const size_t space = (capacity < CW_DT_PIECE) ? CW_DT_PIECE : capacity;
    struct cw_dt_piece *piece = malloc(sizeof(*piece) + space);

    if (piece != NULL) {
        piece->space = space;
        piece->completion.done = returned;
        piece->spent = 0;
        piece->lent = 0;
        piece->orphaned = 0;
        piece->begin = 0;
        piece->end = 0;
        piece->capacity = capacity;
        piece->element = 0;
    }
    return piece;
}

static const struct cw_dt_device *device_of(ucp_datatype_t datatype)
{
    return (const struct cw_dt_device *)(uintptr_t)(datatype & ~(ucp_datatype_t)UCP_DATATYPE_CLASS_MASK);
}

ucp_datatype_t cw_dt_of_program(ucp_datatype_t datatype)
{
    return ((datatype & UCP_DATATYPE_CLASS_MASK) == CW_DT_DEVICE) ? device_of(datatype)->datatype : datatype;
}

ucs_memory_type_t cw_dt_memory_type(const struct cw_dt_cursor *cursor)
{
    return (cursor->class_id == CW_DT_DEVICE || cursor->class_id == CW_DT_STAGED ||
            cursor->class_id == CLASS_DONE_DEVICE) ? (ucs_memory_type_t)cursor->memory_type : UCS_MEMORY_TYPE_HOST;
}

static bool has_entries(const struct cw_dt_cursor *cursor)
{
    return cursor->class_id == UCP_DATATYPE_IOV ||
           (cursor->class_id == CW_DT_DEVICE && cursor->layout == UCP_DATATYPE_IOV);
}

static size_t iov_length(const ucp_dt_iov_t *iov, size_t count)
{
    size_t length = 0, i;

    for (i = 0; i < count; i++) {
        length += iov[i].length;
    }
    return length;
}

static ucs_status_t start_device(struct cw_dt_cursor *cursor, const struct cw_dt_device *device, const void *buffer,
                                 size_t count)
{
    if (device == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    cursor->memory_type = (uint8_t)device->memory_type;
    cursor->owns_iov = CW_DT_NOTES;
    cursor->layout = (uint8_t)(device->datatype & UCP_DATATYPE_CLASS_MASK);
    if (cursor->layout == UCP_DATATYPE_CONTIG) {
        cursor->length = cw_dt_contig_length(device->datatype, count);
        cursor->contig = (char *)buffer;
        return UCS_OK;
    }
    cursor->vec.iov = buffer;
    cursor->length = iov_length(buffer, count);
    return (cursor->layout == UCP_DATATYPE_IOV) ? UCS_OK : UCS_ERR_INVALID_PARAM;
}

/* The least length of a piece that may end inside an element. A type may have to pass over all that is before a
 * position, so the number of pieces of a message is bounded. */
static size_t least_inside(size_t length)
{
    const size_t part = length / MAX_PIECES;

    if (part <= CW_DT_LEAST_INSIDE) {
        return CW_DT_LEAST_INSIDE;
    }
    return (part < MOST_INSIDE) ? part : MOST_INSIDE;
}

/* Sender and receiver of a message of `total` bytes compute the same length. */
static void end_inside(struct cw_dt_cursor *cursor, size_t total)
{
    cursor->pieces = CW_DT_INSIDE;
    cursor->piece_length = (uint32_t)(least_inside(total) + CW_DT_ITEM);
}

/* Whether pieces of the next message of long elements end inside them, so that the peer unpacks one while the next one
 * is packed. Some types pack whole elements several times as fast: both ways are tried, the worse one again now and
 * then. Without pieces, unpacking follows packing, and is often faster. */
static bool should_end_inside(struct cw_dt_generic *type)
{
    const uint32_t number = __atomic_fetch_add(&type->long_messages, 1, __ATOMIC_RELAXED);
    const uint64_t whole = cw_cost_of(&type->cost[CW_DT_LONG]), inside = cw_cost_of(&type->cost[CW_DT_INSIDE]);
    const bool better = inside + inside / MAX_PIECES < whole + whole / 2;

    if (number < FIRST_TRIALS) {
        return number % 2 != 0;
    }
    return better != (number % TRIAL_EVERY == 0);
}

/* Chooses the pieces of `count` elements. */
static void choose_pieces(struct cw_dt_cursor *cursor, size_t count, enum cw_dt_direction direction)
{
    const size_t length = cursor->length, element = (count > 0 && length % count == 0) ? length / count : 0;
    size_t whole = CW_DT_PIECE;

    if (element > 0) {
        whole = (element < CW_DT_PIECE) ? (CW_DT_PIECE + element - 1) / element * element : element;
    }
    cursor->piece_length = (uint32_t)whole;
    if (whole <= 2 * least_inside(length)) {
        return;
    }
    if (direction == CW_DT_RECV) { /* cw_dt_gather chooses the length */
        cursor->pieces = CW_DT_INSIDE;
        cursor->piece_length = (whole > MAX_RETAINED / 2) ? 0 : (uint32_t)whole;
    } else if (whole > MAX_RETAINED / 2 || should_end_inside(cursor->generic.type)) {
        end_inside(cursor, length);
    } else {
        cursor->pieces = CW_DT_LONG;
    }
}

ucs_status_t cw_dt_start(struct cw_dt_cursor *cursor, ucp_datatype_t datatype, const void *buffer, size_t count,
                         enum cw_dt_direction direction)
{
    struct cw_dt_generic *type;

    *cursor = (struct cw_dt_cursor){.class_id = (uint8_t)(datatype & UCP_DATATYPE_CLASS_MASK)};
    switch (cursor->class_id) {
    case UCP_DATATYPE_CONTIG:
        cursor->length = cw_dt_contig_length(datatype, count);
        cursor->contig = (char *)buffer;
        return UCS_OK;
    case UCP_DATATYPE_IOV:
        cursor->vec.iov = buffer;
        cursor->length = iov_length(buffer, count);
        return UCS_OK;
    case UCP_DATATYPE_GENERIC:
        type = generic_of(datatype);
        __atomic_add_fetch(&type->holds, 1, __ATOMIC_RELAXED);
        cursor->generic.type = type;
        cursor->generic.piece = NULL;
        cursor->generic.state = (direction == CW_DT_SEND) ?
                                type->ops.start_pack(type->context, buffer, count) :
                                type->ops.start_unpack(type->context, (void *)buffer, count);
        cursor->length = type->ops.packed_size(cursor->generic.state);
        choose_pieces(cursor, count, direction);
        return UCS_OK;
    case CW_DT_DEVICE:
        return start_device(cursor, device_of(datatype), buffer, count);
    default:
        return UCS_ERR_INVALID_PARAM;
    }
}

static CW_NOINLINE ucs_status_t keep_entries(struct cw_dt_cursor *cursor)
{
    size_t left = cursor->length - cursor->offset, bytes = 0, count = 0;
    const ucp_dt_iov_t *from;
    ucp_dt_iov_t *copy;

    from = cursor->vec.iov + cursor->vec.entry;
    while (bytes < left + cursor->vec.entry_offset) {
        bytes += from[count++].length;
    }
    assert(count > 0);
    copy = malloc(count * sizeof(*copy));
    if (copy == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memcpy(copy, from, count * sizeof(*copy));
    cursor->vec.iov = copy;
    cursor->vec.entry = 0;
    cursor->owns_iov |= CW_DT_OWNS;
    return UCS_OK;
}

ucs_status_t cw_dt_keep(struct cw_dt_cursor *cursor)
{
    return (!has_entries(cursor) || (cursor->owns_iov & CW_DT_OWNS) || cursor->offset == cursor->length) ? UCS_OK :
           keep_entries(cursor);
}

static void finish_owned(struct cw_dt_cursor *cursor)
{
    if (cursor->class_id == CW_DT_STAGED) {
        cursor->by_staging->end(cursor->staging);
    } else if (cursor->owns_iov & CW_DT_OWNS) {
        free((void *)cursor->vec.iov);
    }
    cursor->class_id = (cursor->owns_iov & CW_DT_NOTES) ? CLASS_DONE_DEVICE : CLASS_DONE;
    cursor->owns_iov &= CW_DT_NOTES;
}

void cw_dt_finish(struct cw_dt_cursor *cursor)
{
    if (cursor->class_id == UCP_DATATYPE_GENERIC) {
        cursor->generic.type->ops.finish(cursor->generic.state);
        if (cursor->generic.piece != NULL) {
            leave_piece(cursor);
        }
        release_generic(cursor->generic.type);
    } else if (cursor->owns_iov) {
        finish_owned(cursor);
        return;
    }
    cursor->class_id = CLASS_DONE;
    cursor->owns_iov = 0;
}

/* Advances the cursor's position in the iov array. */
static void skip_entries(struct cw_dt_cursor *cursor, size_t length)
{
    size_t part;

    do {
        part = cursor->vec.iov[cursor->vec.entry].length - cursor->vec.entry_offset;
        if (length < part) {
            cursor->vec.entry_offset += length;
            return;
        }
        length -= part;
        cursor->vec.entry_offset = 0;
        cursor->vec.entry++;
    } while (length > 0);
}

/* Copies from the iov to flat memory, or back if `to_iov` is set. Advances the cursor's position in the iov array. */
static void copy_iov(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, char *flat, size_t length, int to_iov)
{
    const ucp_dt_iov_t *iov;
    size_t part;
    char *place;

    while (length > 0) {
        iov = &cursor->vec.iov[cursor->vec.entry];
        part = iov->length - cursor->vec.entry_offset;
        part = (part < length) ? part : length;
        if (part > 0) {
            place = (char *)iov->buffer + cursor->vec.entry_offset;
            cw_nt_copy(nt, to_iov ? place : flat, to_iov ? flat : place, part);
        }
        flat += part;
        length -= part;
        cursor->vec.entry_offset += part;
        if (cursor->vec.entry_offset == iov->length) {
            cursor->vec.entry++;
            cursor->vec.entry_offset = 0;
        }
    }
}

/* Copies from device memory to flat host memory, or back if `to_device` is set. Advances the cursor's position in the
 * iov array, but not its offset. */
static ucs_status_t copy_device(struct cw_dt_cursor *cursor, char *flat, size_t length, int to_device)
{
    const ucs_memory_type_t type = (ucs_memory_type_t)cursor->memory_type;
    ucs_status_t result = UCS_OK, status;
    size_t done, part;
    char *place;

    for (done = 0; done < length; done += part) {
        place = cursor->contig + cursor->offset + done;
        part = length - done;
        if (cursor->layout == UCP_DATATYPE_IOV) {
            place = (char *)cursor->vec.iov[cursor->vec.entry].buffer + cursor->vec.entry_offset;
            part = cursor->vec.iov[cursor->vec.entry].length - cursor->vec.entry_offset;
            part = (part < length - done) ? part : length - done;
        }
        status = UCS_OK;
        if (part > 0) {
            status = to_device ? cw_mem_copy(place, type, flat + done, UCS_MEMORY_TYPE_HOST, part) :
                                 cw_mem_copy(flat + done, UCS_MEMORY_TYPE_HOST, place, type, part);
        }
        if (status != UCS_OK && !to_device) {
            memset(flat + done, 0, part); /* zeros, so that no stale bytes leak to the peer */
        }
        result = (result == UCS_OK) ? status : result;
        if (cursor->layout == UCP_DATATYPE_IOV) {
            skip_entries(cursor, part);
        }
    }
    return result;
}

/* The start of a piece whose cost is recorded: of long elements. 0: of others. */
static uint64_t cost_start(const struct cw_dt_cursor *cursor)
{
    return (cursor->pieces == CW_DT_ELEMENTS) ? 0 : cw_cost_start();
}

static void note_cost(const struct cw_dt_cursor *cursor, uint64_t start, size_t length)
{
    if (start != 0 && length >= CW_DT_LEAST_INSIDE) {
        cw_cost_note(&cursor->generic.type->cost[cursor->pieces], start, length);
    }
}

/* Packs bytes from `offset` on by the type's pack function. A short count is not the end of the data: a type may stop
 * where an item of its data does not fit the rest of `max`. Returns the number of bytes. */
static size_t pack_from(const struct cw_dt_cursor *cursor, size_t offset, char *dest, size_t max)
{
    size_t done = 0, part;

    while (done < max) {
        part = cursor->generic.type->ops.pack(cursor->generic.state, offset + done, dest + done, max - done);
        if (part == 0) {
            break;
        }
        if (part > max - done) {
            memset(dest + done, 0, max - done);
            return max;
        }
        done += part;
    }
    return done;
}

/* As pack_from, for a piece. */
static size_t pack_timed(const struct cw_dt_cursor *cursor, size_t offset, char *dest, size_t max)
{
    const uint64_t start = cost_start(cursor);
    const size_t length = pack_from(cursor, offset, dest, max);

    note_cost(cursor, start, length);
    return length;
}

/* Packs the next piece of the data, which begins at `offset`. 0: no memory. */
static size_t fill_piece(struct cw_dt_cursor *cursor, size_t offset)
{
    const size_t left = cursor->length - offset;
    const size_t length = (left < cursor->piece_length) ? left : cursor->piece_length;
    struct cw_dt_piece *piece = piece_new(length);

    assert(cursor->generic.piece == NULL);
    cursor->generic.piece = piece;
    if (piece == NULL) {
        return 0;
    }
    piece->end = pack_timed(cursor, offset, piece->bytes, length);
    if (piece->end == 0) { /* the type makes no progress */
        memset(piece->bytes, 0, length);
        piece->end = length;
    }
    return piece->end;
}

static size_t packed(const struct cw_dt_cursor *cursor)
{
    const struct cw_dt_piece *piece = cursor->generic.piece;

    return (piece != NULL) ? piece->end - piece->begin : 0;
}

/* How many of the next bytes of the sender's piece go into a packet of at most `max`. In a message of long elements
 * only the last packet of a piece may end where the receiver expects the end of a piece inside an element. */
static size_t packet_part(const struct cw_dt_cursor *cursor, size_t max)
{
    const struct cw_dt_piece *piece = cursor->generic.piece;
    const size_t expected = (cursor->pieces == CW_DT_ELEMENTS) ? SIZE_MAX : least_inside(cursor->length);
    const size_t ready = packed(cursor);

    if (ready <= max) {
        return ready;
    }
    return (piece->begin + max >= expected && piece->begin + max <= expected + CW_DT_ITEM &&
            piece->begin + 1 < expected) ?
           expected - 1 - piece->begin : max;
}

size_t cw_dt_to_piece_end(const struct cw_dt_cursor *cursor)
{
    const size_t left = cursor->length - cursor->offset;
    const size_t ready = packed(cursor);

    if (ready > 0) {
        return ready;
    }
    return (left < cursor->piece_length) ? left : cursor->piece_length;
}

struct cw_completion *cw_dt_pack_piece(struct cw_dt_cursor *cursor, size_t max, struct iovec *iov,
                                       struct cw_completion *completion)
{
    if (packed(cursor) == 0 && fill_piece(cursor, cursor->offset) == 0) {
        return NULL;
    }
    *iov = (struct iovec){.iov_base = cursor->generic.piece->bytes + cursor->generic.piece->begin,
                          .iov_len = packet_part(cursor, max)};
    cursor->generic.piece->sender = completion;
    return &cursor->generic.piece->completion;
}

/* Bytes of the sender's piece were sent. Between pieces the cursor has none, so that messages in turn share one. */
static void sent_part(struct cw_dt_cursor *cursor, size_t length)
{
    struct cw_dt_piece *piece = cursor->generic.piece;

    piece->begin += length;
    if (piece->begin == piece->end) {
        leave_piece(cursor);
    }
}

void cw_dt_sent_piece(struct cw_dt_cursor *cursor, size_t length, int lent)
{
    cursor->generic.piece->lent += (lent != 0);
    cursor->offset += length;
    sent_part(cursor, length);
}

/* Lets the type pack directly to `dest` if the bytes are whole pieces. Otherwise returns 0. */
static size_t pack_straight(const struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, size_t offset, char *dest,
                            size_t max)
{
    const bool is_piece = max % cursor->piece_length == 0 || max == cursor->length - offset;
    const bool is_timed = nt != NULL && cw_pack_is_timed(&nt->pack, max);
    uint64_t start;
    size_t length;

    if (!is_piece) {
        return 0;
    }
    start = is_timed ? cw_pack_ticks(0) : 0;
    length = pack_timed(cursor, offset, dest, max);
    if (nt != NULL) {
        cw_pack_note(&nt->pack, true, length, is_timed ? cw_pack_ticks(start) : 0);
    }
    return length;
}

/* Packs the next piece into a buffer. 0: no memory. */
static size_t fill_for(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, size_t offset)
{
    const size_t left = cursor->length - offset;
    const bool is_timed = nt != NULL && cw_pack_is_timed(&nt->pack, left);
    const uint64_t start = is_timed ? cw_pack_ticks(0) : 0;
    const size_t length = fill_piece(cursor, offset);

    if (is_timed && length > 0) {
        cursor->generic.piece->spent = cw_pack_ticks(start);
    }
    return length;
}

/* Copies bytes of the piece to a packet. */
static void copy_part(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, char *dest, size_t length)
{
    struct cw_dt_piece *piece = cursor->generic.piece;
    const uint64_t start = (piece->spent > 0) ? cw_pack_ticks(0) : 0;

    cw_bytes_copy_any(dest, piece->bytes + piece->begin, length);
    if (start > 0) {
        piece->spent += cw_pack_ticks(start);
    }
    if (nt != NULL && piece->begin + length == piece->end) {
        cw_pack_note(&nt->pack, false, piece->end, piece->spent);
    }
    sent_part(cursor, length);
}

/* Packs at most `max` bytes, which must remain, up to the end of a piece. Returns their number: never 0, because zeros
 * replace what a type does not pack. */
static size_t pack_part(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, size_t offset, char *dest, size_t max)
{
    size_t part = packed(cursor);

    if (part == 0) {
        part = pack_straight(cursor, nt, offset, dest, max);
        if (part > 0) {
            return part;
        }
        part = fill_for(cursor, nt, offset);
    }
    if (part == 0) {
        part = pack_from(cursor, offset, dest, max);
        memset(dest + part, 0, max - part);
        return max;
    }
    part = packet_part(cursor, max);
    copy_part(cursor, nt, dest, part);
    return part;
}

static void pack_generic(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, char *dest, size_t max)
{
    size_t done = 0;

    while (done < max) {
        done += pack_part(cursor, nt, cursor->offset + done, dest + done, max - done);
    }
}

size_t cw_dt_pack_nt(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, void *dest, size_t max)
{
    size_t left = cursor->length - cursor->offset;

    max = (max < left) ? max : left;
    if (max == 0) {
        return 0;
    }
    if (cursor->class_id == UCP_DATATYPE_CONTIG) {
        cw_nt_copy(nt, dest, cursor->contig + cursor->offset, max);
    } else if (cursor->class_id == UCP_DATATYPE_IOV) {
        copy_iov(cursor, nt, dest, max, 0);
    } else if (cursor->class_id == CW_DT_DEVICE) {
        (void)copy_device(cursor, dest, max, 0);
    } else if (cursor->class_id == CW_DT_STAGED) {
        cursor->by_staging->pack(cursor->staging, nt, cursor->offset, dest, max);
    } else {
        pack_generic(cursor, nt, dest, max);
    }
    cursor->offset += max;
    return max;
}

size_t cw_dt_pack(struct cw_dt_cursor *cursor, void *dest, size_t max)
{
    return cw_dt_pack_nt(cursor, NULL, dest, max);
}

size_t cw_dt_pack_next(struct cw_dt_cursor *cursor, struct cw_nt_choice *nt, void *dest, size_t max)
{
    const size_t left = cursor->length - cursor->offset;
    size_t part;

    if (cursor->class_id != UCP_DATATYPE_GENERIC || left == 0) {
        return cw_dt_pack_nt(cursor, nt, dest, max);
    }
    part = pack_part(cursor, nt, cursor->offset, dest, (max < left) ? max : left);
    cursor->offset += part;
    return part;
}

/* The receiver's piece, for bytes from `offset` on. NULL: none, or no memory. */
static struct cw_dt_piece *gathering(struct cw_dt_cursor *cursor, size_t offset)
{
    const size_t left = cursor->length - offset;

    if (cursor->generic.piece == NULL && cursor->gathers) {
        cursor->generic.piece = piece_new((left < cursor->piece_length) ? left : cursor->piece_length);
    }
    return cursor->generic.piece;
}

/* All gathered bytes are unpacked. Between pieces the cursor has none, unless it has to retain what the piece says
 * about elements. */
static void emptied(struct cw_dt_cursor *cursor)
{
    const struct cw_dt_piece *piece = cursor->generic.piece;

    if (piece->end == 0 && piece->element == 0 && cursor->pieces != CW_DT_INSIDE) {
        leave_piece(cursor);
    }
}

void cw_dt_gather(struct cw_dt_cursor *cursor, size_t total)
{
    size_t element = 0;

    if (cursor->class_id != UCP_DATATYPE_GENERIC || total == 0 || total > cursor->length) {
        return;
    }
    cursor->length = total;
    cursor->gathers = true;
    if (cursor->pieces == CW_DT_INSIDE) { /* the element is known only here */
        element = cursor->piece_length;
        end_inside(cursor, total);
        if (gathering(cursor, 0) == NULL) {
            cursor->gathers = false;
            return;
        }
        cursor->generic.piece->element = element;
    }
}

char *cw_dt_piece_place(struct cw_dt_cursor *cursor, size_t length)
{
    struct cw_dt_piece *piece = gathering(cursor, cursor->offset);

    return (piece != NULL && length <= piece->capacity - piece->end) ? piece->bytes + piece->end : NULL;
}

/* Gathers more bytes from `offset` on, of which `length` arrived, before they are unpacked: this cannot stop where the
 * sender's pieces end. At first up to the end of an element, and then element by element; if it cannot stop there
 * either, the rest of the message. */
static CW_COLD bool gather_more(struct cw_dt_cursor *cursor, size_t offset, const char *src, size_t length)
{
    struct cw_dt_piece *piece = cursor->generic.piece;
    const size_t element = (piece != NULL && cursor->pieces == CW_DT_INSIDE) ? piece->element : 0;
    const size_t left = cursor->length - offset;
    struct cw_dt_piece *longer = NULL;
    size_t capacity = left, behind;

    if (element > 0) {
        capacity = (offset + length) / element * element + element - offset;
        capacity = (capacity < left) ? capacity : left;
    }
    behind = (left - capacity < element) ? left - capacity : element; /* of the next element, in the same memory */
    if (capacity <= MAX_RETAINED) {
        longer = piece_new((capacity < behind) ? behind : capacity);
    }
    if (longer == NULL) {
        return false;
    }
    cw_bytes_copy_any(longer->bytes, src, length);
    longer->end = length;
    longer->capacity = capacity;
    longer->element = element;
    if (piece != NULL) {
        free(piece);
    }
    cursor->generic.piece = longer;
    cursor->pieces = (offset == 0) ? CW_DT_LONG : CW_DT_ELEMENTS;
    cursor->piece_length = (element > 0) ? (uint32_t)element : cursor->piece_length;
    return true;
}

static ucs_status_t unpack_at(struct cw_dt_cursor *cursor, size_t offset, const char *src, size_t length)
{
    const ucp_generic_dt_ops_t *ops = &cursor->generic.type->ops;
    const uint64_t start = cost_start(cursor);
    const ucs_status_t status = ops->unpack(cursor->generic.state, offset, src, length);

    if (status == UCS_OK) {
        note_cost(cursor, start, length);
    }
    if (cw_unlikely(status == UCS_ERR_MESSAGE_TRUNCATED) && cursor->gathers &&
        offset + length < cursor->length && gather_more(cursor, offset, src, length)) {
        return UCS_OK; /* the type cannot stop there, and gets the same bytes again */
    }
    return status;
}

/* Whether the first `length` bytes of a piece, with which a packet ends, are a piece that ends inside an element. */
static bool ends_inside(const struct cw_dt_cursor *cursor, size_t length)
{
    return cursor->pieces == CW_DT_INSIDE && length <= cursor->piece_length &&
           length >= cursor->piece_length - CW_DT_ITEM;
}

/* After gather_more, all up to `offset` is unpacked: it is the end of an element. */
static void go_on_by_elements(const struct cw_dt_cursor *cursor, size_t offset)
{
    struct cw_dt_piece *piece = cursor->generic.piece;
    const size_t left = cursor->length - offset;

    if (cursor->pieces != CW_DT_INSIDE && piece->element > 0 && piece->end == 0) {
        piece->capacity = (piece->element < left) ? piece->element : left;
        assert(piece->capacity <= piece->space);
    }
}

static ucs_status_t unpack_generic(struct cw_dt_cursor *cursor, const char *src, size_t length)
{
    struct cw_dt_piece *piece = cursor->generic.piece;
    const size_t begin = cursor->offset, end = begin + length, gathered = (piece != NULL) ? piece->end : 0;
    ucs_status_t status = UCS_OK;
    size_t part;

    if (!cursor->gathers ||
        (gathered == 0 &&
         (length % cursor->piece_length == 0 || end == cursor->length || ends_inside(cursor, length)))) {
        return unpack_at(cursor, begin, src, length);
    }
    piece = gathering(cursor, begin - gathered);
    if (piece == NULL) {
        return unpack_at(cursor, begin, src, length);
    }
    if (cursor->pieces == CW_DT_INSIDE && length > piece->capacity - piece->end) { /* the sender's end elsewhere */
        (void)gather_more(cursor, begin - piece->end, piece->bytes, piece->end);
    }
    for (; length > 0 && status == UCS_OK; src += part, length -= part) {
        piece = gathering(cursor, end - length);
        if (piece == NULL) {
            return unpack_at(cursor, end - length, src, length);
        }
        part = piece->capacity - piece->end;
        part = (part < length) ? part : length;
        if (src != piece->bytes + piece->end) {
            cw_bytes_copy_any(piece->bytes + piece->end, src, part);
        }
        piece->end += part;
        if (piece->end == piece->capacity || end - length + part == cursor->length ||
            (part == length && ends_inside(cursor, piece->end))) {
            const size_t whole = piece->end;

            piece->end = 0;
            status = unpack_at(cursor, end - length + part - whole, piece->bytes, whole);
            go_on_by_elements(cursor, end - length + part);
            emptied(cursor);
        }
    }
    return status;
}

unsigned cw_dt_window(const struct cw_dt_cursor *cursor, size_t max, struct iovec *iov, unsigned max_entries,
                      size_t *length_p)
{
    size_t left = cursor->length - cursor->offset, length = 0, skip = cursor->vec.entry_offset, part;
    const ucp_dt_iov_t *entry;
    unsigned count = 0;

    max = (max < left) ? max : left;
    if (cursor->class_id == UCP_DATATYPE_CONTIG) {
        *iov = (struct iovec){.iov_base = cursor->contig + cursor->offset, .iov_len = max};
        *length_p = max;
        return 1;
    }
    for (entry = cursor->vec.iov + cursor->vec.entry; length < max && count < max_entries; entry++, skip = 0) {
        part = entry->length - skip;
        part = (part < max - length) ? part : max - length;
        if (part > 0) {
            iov[count++] = (struct iovec){.iov_base = (char *)entry->buffer + skip, .iov_len = part};
            length += part;
        }
    }
    *length_p = length;
    return count;
}

unsigned cw_dt_part(const struct cw_dt_cursor *cursor, size_t offset, size_t length, struct iovec *iov,
                    unsigned max_entries)
{
    struct cw_dt_cursor there = *cursor;

    if (cursor->class_id == UCP_DATATYPE_CONTIG) {
        *iov = (struct iovec){.iov_base = cursor->contig + offset, .iov_len = length};
        return 1;
    }
    cw_dt_rewind(&there);
    cw_dt_skip(&there, offset);
    return cw_dt_window(&there, length, iov, max_entries, &length);
}

int cw_dt_fits_iov(const struct cw_dt_cursor *cursor, unsigned max_entries)
{
    size_t left = cursor->length - cursor->offset, bytes = 0, part;
    const ucp_dt_iov_t *entry;
    unsigned count = 0;

    if (cursor->class_id == UCP_DATATYPE_CONTIG) {
        return max_entries > 0;
    }
    left += cursor->vec.entry_offset;
    for (entry = cursor->vec.iov + cursor->vec.entry; bytes < left; entry++) {
        part = entry->length;
        bytes += part;
        count += (part > 0);
        if (count > max_entries) {
            return 0;
        }
    }
    return 1;
}

void cw_dt_skip(struct cw_dt_cursor *cursor, size_t length)
{
    cursor->offset += length;
    if (has_entries(cursor) && length > 0) {
        skip_entries(cursor, length);
    }
}

void cw_dt_rewind(struct cw_dt_cursor *cursor)
{
    cursor->offset = 0;
    if (has_entries(cursor)) {
        cursor->vec.entry = 0;
        cursor->vec.entry_offset = 0;
    }
}

ucs_status_t cw_dt_unpack(struct cw_dt_cursor *cursor, const void *src, size_t length)
{
    ucs_status_t status = UCS_OK;

    if (length == 0) {
        return UCS_OK;
    }
    if (cursor->class_id == UCP_DATATYPE_CONTIG) {
        cw_bytes_copy_any(cursor->contig + cursor->offset, src, length);
    } else if (cursor->class_id == UCP_DATATYPE_IOV) {
        copy_iov(cursor, NULL, (char *)src, length, 1);
    } else if (cursor->class_id == CW_DT_DEVICE) {
        status = copy_device(cursor, (char *)src, length, 1);
    } else if (cursor->class_id == CW_DT_STAGED) {
        status = cursor->by_staging->unpack(cursor->staging, cursor->offset, src, length);
    } else {
        status = unpack_generic(cursor, src, length);
    }
    cursor->offset += length;
    return status;
}

ucs_status_t cw_dt_create_generic(const ucp_generic_dt_ops_t *ops, void *context, ucp_datatype_t *datatype_p)
{
    struct cw_dt_generic *type = malloc(sizeof(*type));

    if (type == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *type = (struct cw_dt_generic){.ops = *ops,
                                   .context = context,
                                   .holds = 1,
                                   .cost = {[CW_DT_LONG].ns = CW_COST_UNKNOWN, [CW_DT_INSIDE].ns = CW_COST_UNKNOWN}};
    *datatype_p = (ucp_datatype_t)(uintptr_t)type | UCP_DATATYPE_GENERIC;
    return UCS_OK; /* cppcheck-suppress memleak ; the pointer leaves inside the datatype's bits */
}

void cw_dt_destroy(ucp_datatype_t datatype)
{
    if ((datatype & UCP_DATATYPE_CLASS_MASK) == UCP_DATATYPE_GENERIC) {
        release_generic(generic_of(datatype));
    }
}

/* Not by a cursor: a message that is only measured must not choose pieces, which counts the messages sent. */
static size_t generic_size(const struct cw_dt_generic *type, const void *buffer, size_t count)
{
    void *state = type->ops.start_pack(type->context, buffer, count);
    const size_t size = type->ops.packed_size(state);

    type->ops.finish(state);
    return size;
}

ucs_status_t cw_dt_packed_size(ucp_datatype_t datatype, const void *buffer, size_t count, size_t *size_p)
{
    if (cw_dt_is_contig(datatype)) {
        *size_p = cw_dt_contig_length(datatype, count);
        return UCS_OK;
    }
    if (buffer == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    switch (datatype & UCP_DATATYPE_CLASS_MASK) {
    case UCP_DATATYPE_IOV:
        *size_p = iov_length(buffer, count);
        return UCS_OK;
    case UCP_DATATYPE_GENERIC:
        *size_p = generic_size(generic_of(datatype), buffer, count);
        return UCS_OK;
    default:
        return UCS_ERR_INVALID_PARAM;
    }
}
