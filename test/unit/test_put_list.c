/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts in placed packets (docs/WIRE.md, row 35): those that this release sends, and what a target does with lists of
 * any origin, one of release 1.0 or one that keeps to no rules. What breaks the protocol costs the connection, what
 * asks for memory that is not to be had is refused, and no byte is touched beside.
 */
#include <limits.h>

#include "base/bytes.h"
#include "test_rma.h"

enum { MOST = CW_WIRE_PUT_LIST_MAX };

static uint8_t list_bytes[CW_WIRE_PUT_LIST_BYTES(MOST + 1)];

static void put_element(unsigned i, uint64_t address, uint64_t length)
{
    const struct cw_wire_put_list_element element = {.address = htole64(address), .length = htole64(length)};

    memcpy(list_bytes + CW_WIRE_PUT_LIST_BYTES(i), &element, sizeof(element));
}

static void feed_list_of(uint64_t token, uint32_t count, size_t length)
{
    const struct cw_wire_put_list header = {.token = htole64(token), .count = htole32(count)};

    memcpy(list_bytes, &header, sizeof(header));
    feed(CW_PACKET_PUT_LIST, list_bytes, length);
}

static void feed_list(uint64_t token, uint32_t count)
{
    feed_list_of(token, count, CW_WIRE_PUT_LIST_BYTES(count));
}

/* The placed packet, all bytes 0xee. Entries of its place; 0: it is refused, and the connection ends. */
static unsigned place(uint64_t token, size_t length)
{
    const struct cw_wire_put_list_data header = {.token = htole64(token)};
    struct iovec iov[CW_PLACE_MAX_IOV];
    unsigned count;
    size_t space = 0;

    if (ep->conn == NULL) {
        return 0;
    }
    count = cw_op_place(ep->conn, CW_PACKET_PUT_LIST, &header, length, iov);
    for (unsigned i = 0; i < count; i++) {
        memset(iov[i].iov_base, 0xee, iov[i].iov_len);
        space += iov[i].iov_len;
    }
    if (count > 0) {
        assert_int_equal(space, length);
        cw_op_placed(ep->conn, CW_PACKET_PUT_LIST, &header, length);
    } else {
        cw_ep_fail(ep, UCS_ERR_IO_ERROR); /* as the transport says by `closed` */
    }
    return count;
}

static ucs_status_t ask_what_was_refused(void)
{
    const uint64_t id = htole64(99);

    feed(CW_PACKET_FLUSH, &id, sizeof(id));
    return (ucs_status_t)status_of(CW_PACKET_FLUSHED);
}

TEST(test_places)
{
    begin();
    put_element(0, base() + 10, 100);
    put_element(1, base() + 300, 1);
    put_element(2, base() + 110, 90); /* behind the first one */
    feed_list(rkey->key.token, 3);
    check_rest(0, 0);
    assert_int_equal(place(rkey->key.token, 191), 3);
    for (size_t i = 0; i < ROOM; i++) {
        const int is_there = (i >= 10 && i < 200) || i == 300;

        assert_int_equal(memory[GUARD + i], is_there ? 0xee : (uint8_t)(i * 7 + (i >> 8)));
    }
    check_rest(10, 291);
    assert_int_equal(ask_what_was_refused(), UCS_OK);
    put_element(0, base(), ROOM); /* once more, to the last byte */
    feed_list(rkey->key.token, 1);
    assert_int_equal(place(rkey->key.token, ROOM), 1);
    check_rest(0, ROOM);
    end(1);
}

/* One piece that is not to be had costs all of its list, and nothing else. */
TEST(test_refused)
{
    const struct {
        uint64_t address, length;
    } outside[] = {{base() - 1, 1}, {base() + ROOM, 1}, {base() + ROOM - 7, 8}, {base() - 1, ROOM + 2},
                   {0, 8},          {UINT64_MAX - 7, 8}};

    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]) + 3; i++) {
        const int is_outside = i < sizeof(outside) / sizeof(outside[0]);
        const int is_right = i == sizeof(outside) / sizeof(outside[0]);
        size_t length = 8;
        uint64_t token;

        begin_with(
            is_right ? UCP_MEM_MAP_PROT_REMOTE_READ : UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        token = rkey->key.token;
        if (!is_outside && !is_right) {
            token ^= i % 2 == 0 ? 1 : rkey->key.token;
        }
        put_element(0, base() + 20, 8);
        if (is_outside) {
            put_element(1, outside[i].address, outside[i].length);
            length += outside[i].length;
        }
        feed_list(token, is_outside ? 2 : 1);
        assert_int_equal(place(token, length), 1); /* to nowhere */
        check_rest(0, 0);
        assert_int_equal(ask_what_was_refused(), is_right ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        assert_int_equal(ask_what_was_refused(), UCS_OK); /* once */
        end(1);
    }
    begin();
    put_element(0, base(), 8);
    feed_list(rkey->key.token, 1);
    unmap(); /* RMA-12 */
    assert_int_equal(place(rkey->key.token, 8), 1);
    check_rest(0, 0);
    assert_int_equal(ep->status, UCS_ERR_CONNECTION_RESET);
    end(0);
}

TEST(test_lists_that_lie)
{
    const uint64_t wrong[][2] = {{8, 0}, {UINT64_MAX, 2}, {8, UINT64_MAX}, {8, CW_WIRE_PUT_LIST_TOTAL - 7}};
    uint64_t token;

    for (size_t length = 0; length < CW_WIRE_PUT_LIST_BYTES(2); length++) { /* cut short */
        begin();
        put_element(0, base(), 8);
        put_element(1, base() + 8, 8);
        feed_list_of(rkey->key.token, 2, length);
        end(0);
    }
    for (size_t i = 0; i < 3; i++) { /* none, more than there are, more than there may be */
        static const uint32_t counts[] = {0, UINT32_MAX, MOST + 1};

        begin();
        feed_list_of(rkey->key.token, counts[i], CW_WIRE_PUT_LIST_BYTES(i < 2 ? 0 : MOST + 1));
        end(0);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        begin();
        put_element(0, base(), 8);
        put_element(1, wrong[i][0], wrong[i][1]);
        feed_list(rkey->key.token, 2);
        end(0);
    }
    for (int i = 0; i < 4; i++) { /* bytes that the list does not speak of, or without a list */
        static const size_t lengths[] = {8, 7, 9, 8};

        begin();
        token = rkey->key.token;
        put_element(0, base(), 8);
        if (i > 0) {
            feed_list(token, 1);
        }
        assert_int_equal(place(token ^ (i == 3), lengths[i]), 0);
        check_rest(0, 0);
        end(0);
    }
    begin(); /* a second list before the bytes of the first */
    put_element(0, base(), 8);
    feed_list(rkey->key.token, 1);
    feed_list(rkey->key.token, 1);
    end(0);
}

/* The endpoint ends in the middle: nothing stays pinned, and nothing of it is left (the sanitizers check). */
TEST(test_lost_while_placing)
{
    const struct cw_wire_put_list_data wrong = {.token = 0};
    struct cw_wire_put_list_data header;
    struct iovec iov[CW_PLACE_MAX_IOV];

    for (int refused = 0; refused < 2; refused++) {
        begin();
        header = (struct cw_wire_put_list_data){.token = htole64(refused ? 1 : rkey->key.token)};
        put_element(0, base(), 8);
        feed_list(le64toh(header.token), 1);
        assert_true(cw_op_place(ep->conn, CW_PACKET_PUT_LIST, &header, 8, iov) > 0);
        assert_int_equal(cw_op_place(ep->conn, CW_PACKET_PUT_LIST, &header, 8, iov), 0); /* twice */
        cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
        end(0);
    }
    begin();
    assert_int_equal(cw_op_place(ep->conn, CW_PACKET_PUT_LIST, &wrong, 0, iov), 0);
    end(1);
}

/* ---- the origin ---- */

static unsigned room; /* for placed packets */
static size_t placed_bytes;

static ucs_status_t send_in_place(struct cw_conn *conn, uint8_t id, const void *header, const struct iovec *iov,
                                  unsigned iov_count, struct cw_completion *completion)
{
    if (room == 0) {
        return CW_AGAIN;
    }
    room--;
    placed_bytes += cw_bytes_in_iov(iov, iov_count);
    return fake_placed(conn, id, header, iov, iov_count, completion);
}

/* Packets of 400 bytes, placed ones of 1000. */
static void begin_in_order(void)
{
    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 1);
    fake_packets.send_in_place = send_in_place;
    rkey->key.validity = 1; /* not memory of a device, which is announced */
    room = UINT_MAX;
    placed_bytes = 0;
}

/* Record `i` and the next one are a list of one element and its bytes. */
static void check_piece(unsigned i, uint64_t address, size_t length)
{
    assert_int_equal(records[i].id, CW_PACKET_PUT_LIST);
    assert_int_equal(records[i].length, CW_WIRE_PUT_LIST_BYTES(1));
    assert_int_equal(word_of(records[i].bytes, 0), rkey->key.token);
    assert_int_equal(word_of(records[i].bytes, 8), 1);
    assert_true(word_of(records[i].bytes, 16) == address);
    assert_int_equal(word_of(records[i].bytes, 24), length);
    assert_int_equal(records[i + 1].id, CW_PACKET_PUT_LIST);
    assert_int_equal(records[i + 1].length, CW_PLACE_HEADER + length);
    assert_int_equal(word_of(records[i + 1].bytes, 0), rkey->key.token);
    assert_int_equal(word_of(records[i + 1].bytes, 8), 0);
}

static void check_put(unsigned i, uint64_t address, size_t length)
{
    assert_int_equal(records[i].id, CW_PACKET_PUT);
    assert_int_equal(records[i].length, sizeof(struct cw_wire_put) + length);
    assert_true(word_of(records[i].bytes, 8) == address);
}

TEST(test_origin_sends_pieces)
{
    const ucp_dt_iov_t entries[] = {{local, 500}, {local + 500, 500}, {local + 1000, 200}};
    const ucp_request_param_t list = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_iov()};

    begin_in_order();
    assert_null(ucp_put_nbx(ep, local, 384, base(), rkey, &none)); /* one packet */
    check_put(0, base(), 384);
    assert_null(ucp_put_nbx(ep, local, 385, base() + 1, rkey, &none));
    check_piece(1, base() + 1, 385);
    assert_null(ucp_put_nbx(ep, local, 2300, base() + 2, rkey, &none));
    check_piece(3, base() + 2, 1000);
    check_piece(5, base() + 1002, 1000);
    check_put(7, base() + 2002, 300);
    assert_null(ucp_put_nbx(ep, entries, 3, base() + 3, rkey, &list));
    check_piece(8, base() + 3, 1000);
    check_put(10, base() + 1003, 200);
    assert_int_equal(num_records, 11);
    end(1);
}

/* The bytes wait for room behind their list: only they follow, and a put that is sent meanwhile takes other packets. */
TEST(test_origin_waits)
{
    ucs_status_ptr_t first, second;

    begin_in_order();
    room = 0;
    first = ucp_put_nbx(ep, local, 1500, base(), rkey, &none);
    second = ucp_put_nbx(ep, local, 700, base() + 2000, rkey, &none);
    assert_true(is_pending(first) && is_pending(second));
    progress();
    assert_int_equal(num_records, 1); /* the list */
    room = UINT_MAX;
    cw_ep_drain(ep);
    assert_int_equal(finish(first), UCS_OK);
    assert_int_equal(finish(second), UCS_OK);
    check_piece(0, base(), 1000);
    check_piece(2, base() + 1000, 500);
    check_piece(4, base() + 2000, 700);
    assert_int_equal(num_records, 6);
    assert_int_equal(placed_bytes, 2200);
    assert_null(cw_op_ep(ep)->rma->placing);
    end(1);

    begin_in_order();
    assert_null(ucp_put_nbx(ep, local, 8, base(), rkey, &none));
    cw_op_ep(ep)->rma->placing = (const struct cw_request *)(const void *)local; /* another put has sent its list */
    assert_null(ucp_put_nbx(ep, local, 700, base(), rkey, &none));
    check_put(1, base(), 384);
    check_put(2, base() + 384, 316);
    assert_int_equal(num_records, 3);
    cw_op_ep(ep)->rma->placing = NULL;
    end(1);
}

TEST(test_origin_lost_while_waiting)
{
    ucs_status_ptr_t put;

    begin_in_order();
    room = 0;
    put = ucp_put_nbx(ep, local, 1500, base(), rkey, &none);
    assert_true(is_pending(put));
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    end(0);
    assert_int_equal(finish(put), UCS_ERR_CONNECTION_RESET);
}

/* No memory to wait: the target expects the bytes of the list, and the transport may still own the piece before, so the
 * endpoint fails, and the put ends with it. */
TEST(test_origin_without_memory)
{
    struct cw_request_pool *pool = &worker->requests;
    const size_t object_size = pool->object_size;
    struct cw_request *held[4096];
    ucs_status_ptr_t put;
    unsigned num_held;

    for (int owned = 0; owned < 2; owned++) {
        begin_in_order();
        assert_null(ucp_put_nbx(ep, local, 8, base(), rkey, &none));
        for (num_held = 0; pool->top > pool->bottom; num_held++) {
            held[num_held] = cw_request_get(worker, NULL, CW_REQUEST_SEND);
        }
        cw_request_put(held[--num_held]); /* of the put */
        pool->object_size = SIZE_MAX;
        keeps = owned;
        room = (unsigned)owned;
        put = ucp_put_nbx(ep, local, 1500, base(), rkey, &none);
        pool->object_size = object_size;
        while (num_held > 0) {
            cw_request_put(held[--num_held]);
        }
        assert_true(is_pending(put));
        if (owned) { /* as a transport does when it closes the connection */
            retained->done(retained, UCS_ERR_CONNECTION_RESET);
        }
        end(0);
        assert_int_equal(finish(put), UCS_ERR_NO_MEMORY);
    }
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
