/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Data of a message in memory: runs of bytes with guard bytes between them, as contiguous, list or generic datatype.
 */
#ifndef CW_API_TEST_LAYOUT_H
#define CW_API_TEST_LAYOUT_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum kind { CONTIG, IOV, GENERIC, KINDS };
enum { RUN = 61, STRIDE = 64, IOV_GAP = 9, ENTRIES = 40, FILL = 0x5c };

/* What the library does with a generic type. */
struct counts {
    int starts;
    int finishes;
    int faults;      /* calls out of order, out of bounds or after finish */
    size_t moved;
    size_t limit;    /* pack produces at most so many bytes at once; 0: all */
};

struct layout {
    enum kind kind;
    size_t length;
    size_t room;               /* bytes of memory */
    struct cw_buffer memory;
    ucp_dt_iov_t iov[ENTRIES];
    void *buffer;              /* as the calls want it, with count and datatype */
    size_t count;
    ucp_datatype_t datatype;
    struct counts counts;
};

struct generic_state {
    struct counts *counts;
    char *memory;
    size_t length;
    size_t next;
};

/* Copies between a flat piece and the runs of a generic layout. */
static inline void runs_copy(char *memory, size_t offset, char *flat, size_t length, bool to_flat)
{
    while (length > 0) {
        size_t within = offset % RUN;
        size_t part = RUN - within < length ? RUN - within : length;
        char *place = memory + offset / RUN * STRIDE + within;

        memcpy(to_flat ? flat : place, to_flat ? place : flat, part);
        flat += part;
        offset += part;
        length -= part;
    }
}

static inline void *generic_start(void *context, void *buffer, size_t count)
{
    struct generic_state *state = malloc(sizeof(*state));

    *state = (struct generic_state){.counts = context, .memory = buffer, .length = count};
    state->counts->starts++;
    return state;
}

static inline void *generic_start_pack(void *context, const void *buffer, size_t count)
{
    return generic_start(context, (void *)(uintptr_t)buffer, count);
}

static inline size_t generic_size(void *opaque)
{
    return ((struct generic_state *)opaque)->length;
}

/* DT-7, DT-8: ascending, gapless, within bounds. */
static inline bool generic_moves(struct generic_state *state, size_t offset, size_t length)
{
    bool right = offset == state->next && length > 0 && length <= state->length - state->next;

    state->counts->faults += !right;
    state->counts->moved += length;
    state->next += length;
    return right;
}

static inline size_t generic_pack(void *opaque, size_t offset, void *to, size_t max)
{
    struct generic_state *state = opaque;
    size_t length = state->length - offset < max ? state->length - offset : max;

    if (state->counts->limit != 0 && length > state->counts->limit) {
        length = state->counts->limit;
    }
    if (generic_moves(state, offset, length)) {
        runs_copy(state->memory, offset, to, length, true);
    }
    return length;
}

static inline ucs_status_t generic_unpack(void *opaque, size_t offset, const void *from, size_t length)
{
    struct generic_state *state = opaque;

    if (generic_moves(state, offset, length)) {
        runs_copy(state->memory, offset, (char *)(uintptr_t)from, length, false);
    }
    return UCS_OK;
}

static inline void generic_finish(void *opaque)
{
    struct generic_state *state = opaque;

    state->counts->finishes++;
    memset(state, 0xff, sizeof(*state));
    free(state);
}

static inline void layout_open(struct layout *layout, enum kind kind, size_t length, uint64_t seed)
{
    static const ucp_generic_dt_ops_t ops = {
        .start_pack = generic_start_pack, .start_unpack = generic_start, .packed_size = generic_size,
        .pack = generic_pack, .unpack = generic_unpack, .finish = generic_finish};
    size_t at = 0, rest = length;

    *layout = (struct layout){.kind = kind, .length = length, .room = length};
    if (kind == IOV) {
        layout->room = length + ENTRIES * IOV_GAP;
    } else if (kind == GENERIC) {
        layout->room = (length / RUN + 1) * STRIDE;
    }
    layout->memory = cw_buffer_new(layout->room);
    memset(layout->memory.data, FILL, layout->room);
    layout->buffer = kind == IOV ? (void *)layout->iov : layout->memory.data;
    layout->count = kind == IOV ? ENTRIES : length;
    layout->datatype = kind == IOV ? ucp_dt_make_iov() : ucp_dt_make_contig(1);
    for (int i = 0; i < ENTRIES && kind == IOV; i++) {
        size_t part = cw_random_next(&seed) % (3 * length / ENTRIES + 2);

        part = part > rest || i == ENTRIES - 1 ? rest : part;
        layout->iov[i] = (ucp_dt_iov_t){.buffer = layout->memory.data + at, .length = part};
        at += part + IOV_GAP;
        rest -= part;
    }
    if (kind == GENERIC) {
        assert_int_equal(ucp_dt_create_generic(&ops, &layout->counts, &layout->datatype), UCS_OK);
    }
}

static inline void layout_close(struct layout *layout)
{
    cw_buffer_check(&layout->memory);
    assert_int_equal(layout->counts.starts, layout->counts.finishes); /* DT-9 */
    assert_int_equal(layout->counts.faults, 0);
    ucp_dt_destroy(layout->datatype);
    cw_buffer_free(&layout->memory);
}

/* Between the layout and `length` flat bytes. */
static inline void layout_copy(struct layout *layout, char *flat, size_t length, bool to_flat)
{
    size_t done = 0;

    if (layout->kind == GENERIC) {
        runs_copy(layout->memory.data, 0, flat, length, to_flat);
        return;
    }
    for (int i = 0; done < length; i++) {
        char *place = layout->kind == IOV ? layout->iov[i].buffer : layout->memory.data;
        size_t part = layout->kind == IOV ? layout->iov[i].length : layout->length;

        part = part > length - done ? length - done : part;
        memcpy(to_flat ? flat + done : place, to_flat ? place : flat + done, part);
        done += part;
    }
}

static inline void layout_fill(struct layout *layout, uint64_t seed)
{
    char *flat = malloc(layout->length + 1);

    assert_non_null(flat);
    cw_pattern_fill(flat, layout->length, seed);
    layout_copy(layout, flat, layout->length, false);
    free(flat);
}

/* The first bytes are the pattern; every other byte of the memory, between the runs and behind them, is FILL. */
static inline void layout_check(struct layout *layout, size_t length, uint64_t seed)
{
    char *flat = malloc(layout->length + 1);

    assert_non_null(flat);
    layout_copy(layout, flat, length, true);
    cw_pattern_check(flat, length, seed);
    memset(flat, FILL, length);
    layout_copy(layout, flat, length, false);
    for (size_t i = 0; i < layout->room; i++) {
        if (layout->memory.data[i] != FILL) {
            fail_msg("A byte beside the data was written: %zu of %zu", i, layout->room);
        }
    }
    free(flat);
}

/* Of a receive that could not take its message: what it may have written is within its bytes. */
static inline void layout_check_bounds(struct layout *layout)
{
    layout_fill(layout, 7);
    layout_check(layout, layout->length, 7);
}

#endif
