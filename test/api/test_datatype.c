/* SPDX-License-Identifier: BSD-3-Clause */
/* Tag messages of contiguous, IOV and generic data in all combinations: DT-1..12, DT-17, DT-18, TAG-35, OPA-19, R19. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum kind { CONTIG, IOV, GENERIC, KINDS };
enum { PIECE = 64 << 10, PART = 34 << 10 /* of a long element */ };

static const size_t sizes[] = {0, 1, 8, 48, 49, 100, 1000, 8192, 9000, 70000, 1000003};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), ENTRIES = 300 };

/* A generic type whose byte i lies at buffer[2 * i]; it counts what the library does with it. */
struct striped {
    int starts;
    int finishes;
    int after_finish;
    int moves;
    bool ascending;
    size_t pack_limit;     /* pack produces at most so many bytes at once; 0: all */
    size_t unpack_fail_at; /* unpack of this offset fails; SIZE_MAX: never */
    size_t moved;
    size_t least;          /* the shortest move that was asked for and does not reach the end */
    size_t item;           /* it stops at multiples of this only, as types of MPICH do; 0: anywhere */
    size_t element;        /* not 0: all of the data is one element of this length */
};

struct stripe_state {
    struct striped *type;
    char *buffer;
    size_t length;
    size_t next;
    bool finished;
};

static void *start(void *context, void *buffer, size_t count)
{
    struct stripe_state *state = calloc(1, sizeof(*state));

    *state = (struct stripe_state){.type = context, .buffer = buffer, .length = count};
    if (state->type->element > 0) {
        assert_int_equal(count, 1);
        state->length = state->type->element;
    }
    state->type->starts++;
    return state;
}

static void *start_pack(void *context, const void *buffer, size_t count)
{
    return start(context, (void *)(uintptr_t)buffer, count);
}

static size_t packed_size(void *opaque)
{
    return ((struct stripe_state *)opaque)->length;
}

static void note_least(struct stripe_state *state, size_t offset, size_t length)
{
    if (offset + length < state->length && length < state->type->least) {
        state->type->least = length;
    }
}

static void note_move(struct stripe_state *state, size_t offset, size_t length)
{
    state->type->moves++;
    state->type->moved += length;
    state->type->ascending = state->type->ascending && offset == state->next;
    state->type->after_finish += state->finished || offset + length > state->length;
    state->next = offset + length;
}

static size_t pack(void *opaque, size_t offset, void *to, size_t max)
{
    struct stripe_state *state = opaque;
    size_t length = state->length - offset < max ? state->length - offset : max;

    note_least(state, offset, length);
    if (state->type->item != 0 && offset + length < state->length) {
        length -= length % state->type->item;
    }
    if (state->type->pack_limit != 0 && length > state->type->pack_limit) {
        length = state->type->pack_limit;
    }
    note_move(state, offset, length);
    for (size_t i = 0; i < length; i++) {
        ((char *)to)[i] = state->buffer[2 * (offset + i)];
    }
    return length;
}

static ucs_status_t unpack(void *opaque, size_t offset, const void *from, size_t length)
{
    struct stripe_state *state = opaque;

    note_least(state, offset, length);
    if (state->type->item != 0 && offset + length < state->length && length % state->type->item != 0) {
        return UCS_ERR_MESSAGE_TRUNCATED;
    }
    note_move(state, offset, length);
    if (state->type->unpack_fail_at >= offset && state->type->unpack_fail_at < offset + length) {
        return UCS_ERR_IO_ERROR;
    }
    for (size_t i = 0; i < length; i++) {
        state->buffer[2 * (offset + i)] = ((const char *)from)[i];
    }
    return UCS_OK;
}

static void finish(void *opaque)
{
    struct stripe_state *state = opaque;

    state->type->finishes++;
    state->finished = true;
    free(state);
}

static ucp_datatype_t striped_new(struct striped *type)
{
    ucp_generic_dt_ops_t ops;
    ucp_datatype_t datatype;

    *type = (struct striped){.ascending = true, .unpack_fail_at = SIZE_MAX, .least = SIZE_MAX};
    ops.start_pack = start_pack;
    ops.start_unpack = start;
    ops.packed_size = packed_size;
    ops.pack = pack;
    ops.unpack = unpack;
    ops.finish = finish;
    assert_int_equal(ucp_dt_create_generic(&ops, type, &datatype), UCS_OK);
    memset(&ops, 0xff, sizeof(ops)); /* DT-6: copied */
    return datatype;
}

/* One side's data in the layout of its kind, with what the call wants to know of it. */
struct layout {
    enum kind kind;
    size_t length;
    char *bytes;       /* contiguous, or the stripes */
    ucp_dt_iov_t *iov;
    size_t entries;
    struct striped type;
    ucp_datatype_t datatype;
};

static void layout_iov(struct layout *layout, uint64_t seed)
{
    size_t offset = 0, i;

    layout->iov = calloc(ENTRIES + 2, sizeof(*layout->iov));
    for (i = 0; i < ENTRIES; i++) {
        size_t rest = layout->length - offset;
        size_t part = i == ENTRIES - 1 ? rest : (size_t)(cw_random_next(&seed) % (2 * layout->length / ENTRIES + 2));

        part = part > rest ? rest : part;
        layout->iov[i].length = part;
        layout->iov[i].buffer = part == 0 ? (void *)(uintptr_t)(i % 2) : layout->bytes + offset; /* DT-3: any pointer */
        offset += part;
    }
    layout->entries = ENTRIES;
    layout->datatype = ucp_dt_make_iov();
}

static void layout_new(struct layout *layout, enum kind kind, size_t length, uint64_t seed)
{
    *layout = (struct layout){.kind = kind, .length = length};
    layout->bytes = malloc(2 * length + 1);
    assert_non_null(layout->bytes);
    memset(layout->bytes, 0x5c, 2 * length + 1);
    if (kind == CONTIG) {
        layout->datatype = ucp_dt_make_contig(1);
    } else if (kind == IOV) {
        layout_iov(layout, seed);
    } else {
        layout->datatype = striped_new(&layout->type);
    }
}

static void layout_free(struct layout *layout)
{
    ucp_dt_destroy(layout->datatype); /* a no-op for the others: DT-6 */
    free(layout->bytes);
    free(layout->iov);
}

static void layout_fill(struct layout *layout, uint64_t seed)
{
    char *flat = malloc(layout->length + 1);

    assert_non_null(flat);
    cw_pattern_fill(flat, layout->length, seed);
    for (size_t i = 0; i < layout->length; i++) {
        layout->bytes[layout->kind == GENERIC ? 2 * i : i] = flat[i];
    }
    free(flat);
}

static void layout_check(const struct layout *layout, size_t length, uint64_t seed)
{
    char *flat = malloc(length + 1);

    assert_non_null(flat);
    for (size_t i = 0; i < length; i++) {
        flat[i] = layout->bytes[layout->kind == GENERIC ? 2 * i : i];
    }
    cw_pattern_check(flat, length, seed);
    if (layout->kind == GENERIC) {
        for (size_t i = 0; i < length; i++) {
            assert_int_equal(layout->bytes[2 * i + 1], 0x5c);
        }
    }
    free(flat);
}

static void *layout_buffer(struct layout *layout)
{
    return layout->kind == IOV ? (void *)layout->iov : layout->bytes;
}

static size_t layout_count(const struct layout *layout)
{
    if (layout->kind == IOV) {
        return layout->entries;
    }
    return layout->kind == GENERIC && layout->type.element > 0 ? 1 : layout->length;
}

static void layout_send(struct layout *layout, struct cw_pair *pair, struct cw_op *op, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_send(op);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = layout->datatype;
    cw_op_started(op, ucp_tag_send_nbx(pair->tx->ep, layout_buffer(layout), layout_count(layout), tag, &param));
}

static void layout_recv(struct layout *layout, struct cw_pair *pair, struct cw_op *op, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_recv(op);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.datatype = layout->datatype;
    cw_op_started(op, ucp_tag_recv_nbx(pair->rx->worker, layout_buffer(layout), layout_count(layout), tag, CW_TAG_ALL,
                                       &param));
}

static void check_generic(const struct layout *layout)
{
    assert_int_equal(layout->type.starts, layout->type.finishes); /* DT-9 */
    assert_int_equal(layout->type.after_finish, 0);
}

static void transfer_items(struct cw_pair *pair, enum kind from, enum kind to, size_t length, bool expected,
                           size_t limit, size_t item)
{
    struct layout out, in;
    struct cw_op send = {0}, recv = {0};
    ucp_tag_recv_info_t info;

    layout_new(&out, from, length, length + 1);
    layout_new(&in, to, length, length + 2);
    layout_fill(&out, length);
    out.type.pack_limit = limit;
    out.type.item = item;
    in.type.item = item;
    if (expected) {
        layout_recv(&in, pair, &recv, 1);
    }
    layout_send(&out, pair, &send, 1);
    if (!expected) {
        cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &info);
        assert_int_equal(info.length, length);
        layout_recv(&in, pair, &recv, 1);
    }
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, length);
    layout_check(&in, length, length);
    check_generic(&out);
    check_generic(&in);
    if (to == GENERIC) {
        assert_int_equal(in.type.moved, length); /* DT-8: each byte exactly once */
        assert_true(cw_test_reference() || in.type.ascending);
        assert_true(cw_test_reference() || length > 0 || in.type.moves == 0); /* DT-11 */
    }
    if (from == GENERIC) {
        assert_true(out.type.ascending && out.type.moved == length); /* DT-7 */
        assert_true(cw_test_reference() || limit > 0 || item > 0 || out.type.least >= PIECE);
    }
    if (to == GENERIC) {
        assert_true(cw_test_reference() || item > 0 || in.type.least >= PIECE);
    }
    layout_free(&out);
    layout_free(&in);
}

static void transfer(struct cw_pair *pair, enum kind from, enum kind to, size_t length, bool expected, size_t limit)
{
    transfer_items(pair, from, to, length, expected, limit, 0);
}

API_TEST(test_dt18_all_classes_and_sizes)
{
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        for (int variant = 0; variant < 2 * KINDS * KINDS; variant++) {
            transfer(pair, (enum kind)(variant / 2 / KINDS), (enum kind)(variant / 2 % KINDS), sizes[i], variant % 2,
                     0);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_dt7_short_packs_are_not_the_end)
{
    static const size_t limits[] = {1, 7, 100, 4096};

    cw_test_skip_reference("1.13 takes a short pack for the end of a fragment and needs a full one");
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES - 1; i++) {
        for (int k = 0; k < 4; k++) {
            transfer(pair, GENERIC, CONTIG, sizes[i], k % 2, limits[k]);
        }
    }
    cw_pair_close(pair);
}

/* R19: messages on every path that packets take, whose types see them in pieces of at least 64 KiB, in order. The types
 * of MPICH stop at some bytes only. */
API_TEST(test_dt8_long_messages_in_pieces)
{
    static const size_t lengths[] = {65536, 65537, 262144, (5u << 20) + 1};

    cw_test_skip_reference("its pieces are as long as its fragments");
    cw_pair_open(pair, NULL);
    for (int i = 0; i < 4; i++) {
        for (int variant = 0; variant < 2; variant++) {
            transfer(pair, GENERIC, GENERIC, lengths[i], variant, 0);
            transfer(pair, GENERIC, CONTIG, lengths[i], variant, 0);
            transfer(pair, CONTIG, GENERIC, lengths[i], variant, 0);
            transfer(pair, IOV, GENERIC, lengths[i], variant, 0);
            transfer_items(pair, GENERIC, GENERIC, lengths[i], variant, 0, 21);
            transfer_items(pair, CONTIG, GENERIC, lengths[i], variant, 0, 21);
        }
    }
    cw_pair_close(pair);
}

/* Types whose elements are long: pieces may end inside of them, where the sender's type stops. */
API_TEST(test_dt8_long_elements_in_pieces)
{
    static const size_t lengths[] = {262144, 1000003, (5u << 20) + 1};
    static const size_t items[] = {0, 21, 64};
    struct layout out, in;

    cw_test_skip_reference("its pieces are as long as its fragments");
    cw_pair_open(pair, NULL);
    for (int i = 0; i < 9; i++) {
        layout_new(&out, GENERIC, lengths[i % 3], i);
        layout_new(&in, i < 6 ? GENERIC : CONTIG, lengths[i % 3], i + 1);
        out.type.element = in.type.element = lengths[i % 3];
        out.type.item = in.type.item = items[i % 2 + i % 3 / 2];
        for (int n = 0; n < 10; n++) { /* both ways of a sender */
            struct cw_op send = {0}, recv = {0};

            layout_fill(&out, n);
            in.type.moved = out.type.moved = 0;
            layout_recv(&in, pair, &recv, 1);
            layout_send(&out, pair, &send, 1);
            assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
            assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
            layout_check(&in, lengths[i % 3], n);
            assert_true(out.type.ascending && out.type.moved == lengths[i % 3]);
            assert_true(in.kind != GENERIC || (in.type.ascending && in.type.moved == lengths[i % 3]));
            assert_true(out.type.item > 0 || out.type.least >= PART);
            assert_true(in.kind != GENERIC || in.type.item > 0 || in.type.least >= PART);
        }
        check_generic(&out);
        check_generic(&in);
        layout_free(&out);
        layout_free(&in);
    }
    cw_pair_close(pair);
}

API_TEST(test_dt3_empty_iov)
{
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_recv(&recv);

    cw_test_skip_reference("1.13 asserts on a NULL array");
    cw_pair_open(pair, NULL);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.datatype = ucp_dt_make_iov();
    cw_op_started(&recv, ucp_tag_recv_nbx(pair->rx->worker, NULL, 0, 1, CW_TAG_ALL, &param));
    param = cw_param_send(&send);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, NULL, 0, 1, &param));
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, 0);
    cw_pair_close(pair);
}

API_TEST(test_dt2_elements_of_no_bytes)
{
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param = cw_param_send(&send);

    cw_pair_open(pair, NULL);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(0);
    cw_op_recv(&recv, pair->rx->worker, NULL, 0, 1, CW_TAG_ALL);
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, NULL, 1000, 1, &param));
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(recv.info.length, 0);
    cw_pair_close(pair);
}

API_TEST(test_dt5_strided_is_refused)
{
    ucp_request_param_t param = cw_param_none();
    char data[8] = {0};

    cw_test_skip_reference("1.13 asserts on it");
    cw_pair_open(pair, NULL);
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    for (ucp_datatype_t class = 1; class < 7; class++) {
        if (class == UCP_DATATYPE_IOV) {
            continue;
        }
        param.datatype = 8u << UCP_DATATYPE_SHIFT | class;
        assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_send_nbx(pair->tx->ep, data, 1, 1, &param)),
                         UCS_ERR_INVALID_PARAM);
        assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_recv_nbx(pair->rx->worker, data, 1, 1, CW_TAG_ALL, &param)),
                         UCS_ERR_INVALID_PARAM);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag35_truncation_of_all_classes)
{
    cw_pair_open(pair, NULL);
    for (int i = 2; i < SIZES; i++) {
        for (int variant = 0; variant < 2 * KINDS; variant++) {
            struct layout out, in;
            struct cw_op send = {0}, recv = {0};

            layout_new(&out, (enum kind)((variant / 2 + 1) % KINDS), sizes[i], 5);
            layout_new(&in, (enum kind)(variant / 2), sizes[i] / 2, 6);
            layout_fill(&out, 1);
            if (variant % 2) {
                layout_recv(&in, pair, &recv, 1);
            }
            layout_send(&out, pair, &send, 1);
            if (!(variant % 2)) {
                cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &recv.info);
                layout_recv(&in, pair, &recv, 1);
            }
            assert_int_equal(cw_op_wait(pair, &recv, "truncated receive"), UCS_ERR_MESSAGE_TRUNCATED);
            assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
            check_generic(&in);
            check_generic(&out);
            layout_free(&in);
            layout_free(&out);
        }
    }
    cw_pair_close(pair);
}

/* DT-15: pieces that a program packs have no memory handle. */
API_TEST(test_dt15_generic_with_a_memory_handle)
{
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH};
    struct layout out;
    ucp_request_param_t param;
    char area[256];
    ucp_mem_h memh;

    cw_test_skip_reference("1.13 may be built without the check");
    cw_pair_open(pair, NULL);
    map.address = area;
    map.length = sizeof(area);
    assert_int_equal(ucp_mem_map(pair->tx->context, &map, &memh), UCS_OK);
    layout_new(&out, GENERIC, 64, 0);
    param = cw_param_none();
    param.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMH;
    param.datatype = out.datatype;
    param.memh = memh;
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_send_nbx(pair->tx->ep, area, 64, 1, &param)), UCS_ERR_INVALID_PARAM);
    assert_int_equal(UCS_PTR_RAW_STATUS(ucp_tag_recv_nbx(pair->rx->worker, area, 64, 1, CW_TAG_ALL, &param)),
                     UCS_ERR_INVALID_PARAM);
    assert_int_equal(ucp_mem_unmap(pair->tx->context, memh), UCS_OK);
    layout_free(&out);
    cw_pair_close(pair);
}

/* DT-4: many entries, at odd addresses, that overlap where they are only read. */
API_TEST(test_dt4_many_overlapping_entries)
{
    enum { MANY = 700, PART = 37 };
    static char bytes[MANY + PART], got[MANY * PART];
    static ucp_dt_iov_t iov[MANY];
    struct cw_op send = {0}, recv = {0};
    ucp_request_param_t param;

    cw_pair_open(pair, NULL);
    cw_pattern_fill(bytes, sizeof(bytes), 4);
    for (size_t i = 0; i < MANY; i++) {
        iov[i].buffer = bytes + i;
        iov[i].length = PART;
    }
    cw_op_recv(&recv, pair->rx->worker, got, sizeof(got), 1, CW_TAG_ALL);
    param = cw_param_send(&send);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    cw_op_started(&send, ucp_tag_send_nbx(pair->tx->ep, iov, MANY, 1, &param));
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    for (size_t i = 0; i < MANY; i++) {
        assert_memory_equal(got + i * PART, bytes + i, PART);
    }
    cw_pair_close(pair);
}

API_TEST(test_dt9_cancel_finishes_once)
{
    struct layout in;
    struct cw_op recv = {0};

    cw_test_skip_reference("1.13 does not finish a generic receive that is cancelled");
    cw_pair_open(pair, NULL);
    layout_new(&in, GENERIC, 100, 0);
    layout_recv(&in, pair, &recv, 1);
    ucp_request_cancel(pair->rx->worker, recv.result);
    assert_int_equal(cw_op_wait(pair, &recv, "cancelled receive"), UCS_ERR_CANCELED);
    check_generic(&in);
    assert_int_equal(in.type.moves, 0);
    layout_free(&in);
    cw_pair_close(pair);
}

static void close_in_the_middle(struct cw_pair *pair, bool at_sender, bool expected)
{
    enum { LENGTH = 20 << 20 };
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    struct cw_side *end;
    struct cw_op send = {0}, recv = {0};
    struct layout out, in;
    ucs_status_t status;

    cw_pair_open(pair, &(struct cw_pair_config){.peer_mode = true});
    end = at_sender ? pair->tx : pair->rx;
    layout_new(&out, GENERIC, LENGTH, 0);
    layout_new(&in, GENERIC, LENGTH, 0);
    if (expected) {
        layout_recv(&in, pair, &recv, 1);
    }
    layout_send(&out, pair, &send, 1);
    if (!expected) {
        cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &recv.info);
        layout_recv(&in, pair, &recv, 1);
    }
    cw_pair_until(pair, in.type.moves > 0, "the first piece");
    assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(end->ep, &param), "close"), UCS_OK);
    end->ep = NULL;
    status = cw_op_wait(pair, &send, "send");
    assert_true(status <= UCS_OK);
    status = cw_op_wait(pair, &recv, "receive");
    assert_true(status < UCS_OK || in.type.moved == LENGTH);
    if (pair->count > 1) {
        end = at_sender ? pair->rx : pair->tx;
        (void)cw_pair_wait(pair, ucp_ep_close_nbx(end->ep, &param), "close of the other end");
        end->ep = NULL;
    }
    check_generic(&out);
    check_generic(&in);
    assert_true(out.type.ascending && in.type.ascending);
    layout_free(&out);
    layout_free(&in);
    cw_pair_close(pair);
}

API_TEST(test_dt9_close_in_the_middle_finishes_once)
{
    cw_test_skip_reference("it may leave requests of a lost endpoint without an end");
    for (int variant = 0; variant < 4; variant++) {
        close_in_the_middle(pair, variant % 2, variant / 2);
    }
}

API_TEST(test_dt12_unpack_error_is_the_status)
{
    cw_pair_open(pair, NULL);
    for (int i = 1; i < SIZES; i++) {
        for (int variant = 0; variant < 4; variant++) {
            struct layout out, in;
            struct cw_op send = {0}, recv = {0};

            layout_new(&out, CONTIG, sizes[i], 0);
            layout_new(&in, GENERIC, sizes[i], 0);
            in.type.unpack_fail_at = variant / 2 ? sizes[i] / 2 : 0;
            if (variant % 2) {
                layout_recv(&in, pair, &recv, 1);
            }
            layout_send(&out, pair, &send, 1);
            if (!(variant % 2)) {
                cw_pair_wait_probe(pair, 1, CW_TAG_ALL, &recv.info);
                layout_recv(&in, pair, &recv, 1);
            }
            assert_int_equal(cw_op_wait(pair, &recv, "receive whose unpack fails"), UCS_ERR_IO_ERROR);
            assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
            check_generic(&in);
            layout_free(&in);
            layout_free(&out);
            transfer(pair, CONTIG, GENERIC, sizes[i], true, 0); /* the rest was swallowed */
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_opa19_iov_array_may_go_after_return)
{
    cw_test_skip_reference("it refers to the array until completion");
    cw_pair_open(pair, NULL);
    for (int i = 0; i < SIZES; i++) {
        struct layout out, in;
        struct cw_op send = {0}, recv = {0};

        layout_new(&out, IOV, sizes[i], 1);
        layout_new(&in, IOV, sizes[i], 2);
        layout_fill(&out, 4);
        layout_recv(&in, pair, &recv, 1);
        memset(in.iov, 0xff, ENTRIES * sizeof(*in.iov));
        layout_send(&out, pair, &send, 1);
        memset(out.iov, 0xff, ENTRIES * sizeof(*out.iov));
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
        layout_check(&in, sizes[i], 4);
        layout_free(&in);
        layout_free(&out);
    }
    cw_pair_close(pair);
}

/* TAG-14, TAG-27: short lists that nobody waits for, more than a window of them; then all are received in order. */
API_TEST(test_tag14_unexpected_lists)
{
    enum { LISTS = 6000, HALF = 1500 };
    ucp_request_param_t param = cw_param_none();
    static ucs_status_ptr_t sends[LISTS];
    char out[2 * HALF], in[2 * HALF];
    ucp_dt_iov_t list[] = {{out, HALF}, {NULL, 0}, {out + HALF, HALF}};

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_iov();
    cw_pattern_fill(out, sizeof(out), 7);
    cw_pair_open(pair, NULL);
    for (int i = 0; i < LISTS; i++) {
        sends[i] = ucp_tag_send_nbx(pair->tx->ep, list, 3, (ucp_tag_t)i, &param);
        assert_false(UCS_PTR_IS_ERR(sends[i]));
        cw_pair_progress(pair);
    }
    for (int i = 0; i < LISTS; i++) {
        struct cw_op recv = {0};

        cw_op_recv(&recv, pair->rx->worker, in, sizeof(in), 0, 0);
        assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
        assert_int_equal(recv.info.sender_tag, i);
        assert_int_equal(recv.info.length, sizeof(in));
        cw_pattern_check(in, sizeof(in), 7);
        assert_int_equal(cw_pair_wait(pair, sends[i], "send"), UCS_OK);
    }
    cw_pair_close(pair);
}

#if UCP_API_VERSION >= UCP_VERSION(1, 16)
static ucs_status_t ask(ucp_datatype_t datatype, uint64_t mask, const void *buffer, size_t count, size_t *size)
{
    ucp_datatype_attr_t attr;
    ucs_status_t status;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = mask;
    attr.buffer = buffer;
    attr.count = count;
    status = ucp_dt_query(datatype, &attr);
    *size = attr.packed_size;
    return status;
}

API_TEST(test_dt17_query)
{
    const uint64_t size_bit = UCP_DATATYPE_ATTR_FIELD_PACKED_SIZE, buffer_bit = UCP_DATATYPE_ATTR_FIELD_BUFFER;
    const uint64_t count_bit = UCP_DATATYPE_ATTR_FIELD_COUNT;
    char bytes[10];
    ucp_dt_iov_t iov[3] = {{bytes, 3}, {NULL, 0}, {bytes, 7}};
    struct striped type;
    ucp_datatype_t generic = striped_new(&type);
    size_t size = 0;

    assert_int_equal(ask(ucp_dt_make_contig(24), size_bit | count_bit, NULL, 10, &size), UCS_OK);
    assert_int_equal(size, 240);
    assert_int_equal(ask(ucp_dt_make_contig(24), size_bit, NULL, 10, &size), UCS_OK);
    assert_int_equal(size, 24); /* count defaults to 1 */
    assert_int_equal(ask(ucp_dt_make_iov(), size_bit | buffer_bit | count_bit, iov, 3, &size), UCS_OK);
    assert_int_equal(size, 10);
    assert_int_equal(ask(ucp_dt_make_iov(), size_bit | count_bit, iov, 3, &size), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ask(generic, size_bit | buffer_bit | count_bit, bytes, 5, &size), UCS_OK);
    assert_int_equal(size, 5);
    assert_int_equal(type.starts, 1);
    assert_int_equal(type.finishes, 1);
    assert_int_equal(ask(generic, size_bit | buffer_bit | count_bit, NULL, 5, &size), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ask(UCP_DATATYPE_STRIDED, size_bit | count_bit, bytes, 5, &size), UCS_ERR_INVALID_PARAM);
    assert_int_equal(ask(ucp_dt_make_contig(1), count_bit, bytes, 5, &size), UCS_OK);
    assert_true(size == SIZE_MAX); /* nothing asked, nothing written */
    ucp_dt_destroy(generic);
}
#endif
