/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tag packets that arrive, seen from outside: what is counted, what is answered, and which credit is given. The short
 * paths of receiving (tag/recv.c, tag/arrive.c) must not leave out what the general one does.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>

#include "test_alone.h"
#include "test_under.h"

#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/credit.h"
#include "msg/op_ep.h"
#include "rndv/recv.h"
#include "tag/desc.h"

enum { LONG = 20000 };

static const ucp_request_param_t plain;

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static unsigned calls;

static int set_up(void **state)
{
    (void)state;
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = 0});
    put_under(ep);
    calls = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    take_away(ep);
    return 0;
}

static void arrive(uint64_t tag, size_t length)
{
    static char packet[sizeof(tag) + LONG];
    const uint64_t header = htole64(tag);

    memcpy(packet, &header, sizeof(header));
    memset(packet + sizeof(header), (int)tag, length);
    cw_op_packet(ep->conn, CW_PACKET_TAG_EAGER, packet, sizeof(header) + length);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)user_data;
    assert_int_equal(status, UCS_OK);
    assert_int_equal(info->length, LONG);
    calls++;
    ucp_request_free(request);
}

/* One that waits and is received in the call is counted like any other, and counts as waiting no more. */
TEST_WITH(test_counts_of_unexpected, set_up, tear_down)
{
    const uint64_t *values = worker->counts.values;
    const uint64_t before = values[CW_COUNT_TAG_RECEIVED];
    char in[48] = "";

    assert_int_equal(values[CW_COUNT_UNEXPECTED_BYTES], 0);
    arrive(3, sizeof(in));
    assert_int_equal(values[CW_COUNT_UNEXPECTED_BYTES], sizeof(in));
    assert_int_equal(values[CW_COUNT_TAG_RECEIVED], before);
    assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), 3, UINT64_MAX, &plain));
    assert_int_equal(in[47], 3);
    assert_int_equal(values[CW_COUNT_UNEXPECTED_BYTES], 0);
    assert_int_equal(values[CW_COUNT_TAG_RECEIVED], before + 1);
}

/* The sender of an announced message may cancel it: what the table needs for this lies behind its keys. */
TEST(test_keys_of_an_announcement)
{
    struct ucp_recv_desc *desc = cw_tag_desc_alloc(worker, sizeof(struct cw_offer_keys) + CW_TAG_REVOCABLE);
    struct ucp_ep self = {.worker = worker};
    struct cw_offer_keys keys;

    assert_non_null(desc);
    memset(&keys, 0xab, sizeof(keys));
    memcpy(desc->data, &keys, sizeof(keys));
    desc->announced = true;
    desc->num_keys = 2;
    desc->id = 5;
    desc->is_lent = 0;
    desc->revocable = 0;
    desc->in.ep = &self;
    assert_true(cw_tag_desc_revocable(&self, desc));
    assert_ptr_equal(cw_tag_desc_find(&self, 5), desc);
    cw_tag_desc_keep(worker, desc);
    assert_memory_equal(desc->data, &keys, sizeof(keys));
    cw_tag_desc_free(worker, desc);
}

/* An announcement of nothing is here as a whole, but its sender waits for the answer. */
TEST_WITH(test_announcement_of_nothing, set_up, tear_down)
{
    const struct cw_wire_tag_rts rts = {.tag = htole64(4), .rts = {.send_id = htole64(77)}};
    char in[8];

    cw_op_packet(ep->conn, CW_PACKET_TAG_RTS, &rts, sizeof(rts));
    assert_int_equal(num_records, 0);
    assert_null(ucp_tag_recv_nbx(worker, in, sizeof(in), 4, UINT64_MAX, &plain));
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), 1);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), 77);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_OK);
}

/* A synchronous message that nobody received can be taken back, like one that was announced. */
TEST_WITH(test_synchronous_is_taken_back, set_up, tear_down)
{
    const struct cw_wire_tag_sync sync = {.tag = htole64(5), .sync_id = htole64(78)};
    const struct cw_wire_tag_cancel cancel = {.send_id = htole64(78)};
    ucp_tag_recv_info_t info;

    cw_op_packet(ep->conn, CW_PACKET_TAG_SYNC, &sync, sizeof(sync));
    assert_non_null(ucp_tag_probe_nb(worker, 5, UINT64_MAX, 0, &info));
    cw_op_packet(ep->conn, CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_null(ucp_tag_probe_nb(worker, 5, UINT64_MAX, 0, &info));
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_ERR_CANCELED);
}

/* Messages that a receive waits for give credit, or their sender announces all that comes after the first window. */
TEST_WITH(test_credit_of_longer_messages, set_up, tear_down)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv = received};
    const unsigned count = CW_CREDIT_WINDOW / (LONG + CW_CREDIT_MESSAGE);
    static char in[LONG];
    unsigned i;

    for (i = 0; i < count; i++) {
        assert_true(UCS_PTR_IS_PTR(ucp_tag_recv_nbx(worker, in, LONG, 6, UINT64_MAX, &param)));
        arrive(6, LONG);
    }
    assert_int_equal(calls, count);
    assert_in_range(count_packets(CW_PACKET_CREDIT), 3, 4);
    assert_true(word_of(sent_packet(CW_PACKET_CREDIT), 0) > CW_CREDIT_WINDOW / 2);
    assert_int_equal(cw_op_ep(ep)->credit.unread, 0);
}

/* ---- packets that are kept ---- */

enum { ROOM = 136, RETAINED = 4000 };

static _Alignas(16) char packet_memory[ROOM + sizeof(uint64_t) + RETAINED];
static unsigned num_retained, num_given_back;
static int may_keep;

static void *keep(struct cw_conn *conn, const void *data)
{
    assert_ptr_equal(conn, ep->conn);
    assert_ptr_equal(data, packet_memory + ROOM);
    num_retained += may_keep;
    return may_keep ? packet_memory : NULL;
}

static void give_back(struct cw_iface *iface, void *retained)
{
    assert_ptr_equal(iface, &fake_iface);
    assert_ptr_equal(retained, packet_memory);
    num_given_back++;
    memset(packet_memory, 0xee, sizeof(packet_memory));
}

static void arrive_in_packet(uint64_t tag, size_t length)
{
    const uint64_t header = htole64(tag);

    memcpy(packet_memory + ROOM, &header, sizeof(header));
    memset(packet_memory + ROOM + sizeof(header), (int)tag, length);
    cw_op_packet(ep->conn, CW_PACKET_TAG_EAGER, packet_memory + ROOM, sizeof(header) + length);
}

static void expect_retained(unsigned count, unsigned given_back)
{
    assert_int_equal(num_retained, count);
    assert_int_equal(num_given_back, given_back);
    assert_int_equal(worker->counts.values[CW_COUNT_UNEXPECTED_BYTES] > 0, count > given_back);
}

/* A long message that nobody waits for stays in its packet until it is received; others are copied. */
TEST_WITH(test_retained_in_its_packet, set_up, tear_down)
{
    static const size_t lengths[] = {RETAINED, 2048, 2047, RETAINED};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h message;
    static char in[RETAINED];

    fake_packets.keep = keep;
    fake_packets.give_back = give_back;
    fake_iface.limits.keep_space = ROOM;
    num_retained = num_given_back = 0;
    for (unsigned i = 0; i < 4; i++) {
        may_keep = i < 3; /* the transport has none to spare for the last one */
        arrive_in_packet(21 + i, lengths[i]);
        assert_int_equal(num_retained, i < 2 ? i + 1 : 2);
        message = ucp_tag_probe_nb(worker, 21 + i, UINT64_MAX, i == 1, &info);
        assert_non_null(message);
        assert_int_equal(info.length, lengths[i]);
        memset(in, 0, sizeof(in));
        if (i == 1) {
            assert_int_equal(cw_alone_wait(worker, ucp_tag_msg_recv_nbx(worker, in, RETAINED, message, &plain)),
                             UCS_OK);
        } else {
            assert_null(ucp_tag_recv_nbx(worker, in, RETAINED, 21 + i, UINT64_MAX, &plain));
        }
        assert_true(in[0] == (char)(21 + i) && in[lengths[i] - 1] == (char)(21 + i));
        expect_retained(i < 2 ? i + 1 : 2, i < 2 ? i + 1 : 2);
    }
    may_keep = 1;
    arrive_in_packet(30, RETAINED);
    expect_retained(3, 2);
    ep->worker->handlers->ep_ended(ep, UCS_ERR_CONNECTION_RESET); /* the message was whole */
    expect_retained(3, 2);
    assert_null(ucp_tag_recv_nbx(worker, in, RETAINED, 30, UINT64_MAX, &plain));
    assert_true(in[0] == 30 && in[RETAINED - 1] == 30);
    expect_retained(3, 3);
}

/* Where bytes are being received in place no other ones come, neither of that message nor of another. */
TEST_WITH(test_pieces_beside_a_placed_one, set_up, tear_down)
{
    uint8_t first[sizeof(struct cw_wire_tag_first) + 1] = {0}, next[sizeof(struct cw_wire_next) + 5] = {0};
    struct cw_wire_tag_first begin = {.tag = htole64(9), .total = htole64(11)};
    struct cw_wire_next header = {.offset = htole64(1)};
    struct iovec iov;

    for (uint32_t number = 1; number <= 2; number++) {
        begin.message = htole32(number);
        memcpy(first, &begin, sizeof(begin));
        cw_op_packet(ep->conn, CW_PACKET_TAG_FIRST, first, sizeof(first));
    }
    header.message = htole32(1);
    assert_int_equal(cw_op_place(ep->conn, CW_PACKET_NEXT, &header, 5, &iov), 1);
    header.message = htole32(2);
    assert_int_equal(cw_op_place(ep->conn, CW_PACKET_NEXT, &header, 5, &iov), 0);
    header.message = htole32(1);
    memcpy(next, &header, sizeof(header));
    assert_int_equal(ep->state, CW_EP_OPEN);
    cw_op_packet(ep->conn, CW_PACKET_NEXT, next, sizeof(next));
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
}

int main(void)
{
    int failed;

    if (!cw_alone_open(UCP_FEATURE_TAG, &context, &worker)) {
        return 1;
    }
    failed = cw_tests_run(NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
