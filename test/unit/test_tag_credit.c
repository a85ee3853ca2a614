/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credit for eager messages that nobody has received: without it messages are announced, a peer that gives what it
 * cannot have or sends more than it may loses its connection, and neither empty messages nor promises are free.
 */
#include "test_peer_lies.h"

#include "msg/credit.h"

enum { LENGTH = 400 };

/* A message without credit is to be announced. When the connection has no room for that and credit comes first, it goes
 * eagerly, and must not ask for an acknowledgement: nobody waits for one, so it would cost the connection. */
TEST(test_a_message_goes_eagerly_when_credit_comes_first)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    static char text[LENGTH];
    ucs_status_ptr_t request;

    begin();
    fake_iface.limits.max_bcopy = LENGTH / 2;
    cw_op_ep(ep)->credit.flying = CW_CREDIT_WINDOW;
    blocked = 1;
    request = ucp_tag_send_nbx(ep, text, LENGTH, 5, &none);
    assert_true(UCS_PTR_IS_PTR(request));
    assert_int_equal(num_records, 0);
    cw_op_ep(ep)->credit.flying = 0;
    blocked = 0;
    cw_ep_drain(ep);
    assert_int_equal(count_packets(CW_PACKET_TAG_RTS), 0);
    assert_int_equal(word_of(sent_packet(CW_PACKET_TAG_FIRST), offsetof(struct cw_wire_tag_first, sync_id)), 0);
    assert_int_equal(cw_alone_wait(worker, request), UCS_OK);
    end(1);
}

TEST(test_credit_that_cannot_be_costs_the_connection)
{
    static const uint64_t wrong[] = {UINT64_MAX, UINT64_C(1) << 32, 2000};
    struct cw_wire_credit credit;
    ucs_status_ptr_t request;

    for (int i = 0; i < 3; i++) { /* more than was sent: one byte went with the handshake, 100 with this */
        begin();
        request = start_send(100, 0);
        assert_int_equal(finish(request), UCS_OK);
        credit.consumed = htole64(wrong[i]);
        feed(CW_PACKET_CREDIT, &credit, sizeof(credit));
        end(0);
    }
    begin(); /* backwards */
    assert_int_equal(finish(start_send(100, 0)), UCS_OK);
    credit.consumed = htole64(200);
    feed(CW_PACKET_CREDIT, &credit, sizeof(credit));
    feed(CW_PACKET_CREDIT, &credit, sizeof(credit)); /* the same again says nothing */
    assert_int_equal(failures + (ep->state == CW_EP_FAILED), 0);
    credit.consumed = htole64(199);
    feed(CW_PACKET_CREDIT, &credit, sizeof(credit));
    end(0);
}

/* No credits: short messages are announced, too. Credits come: they are not any more. */
TEST(test_without_credit_short_messages_are_announced)
{
    enum { WINDOW = 16 << 20 };
    struct cw_wire_credit credit = {.consumed = htole64(WINDOW / 2)};
    unsigned eager = 0;

    begin();
    while (records[(num_records + MAX_RECORDS - 1) % MAX_RECORDS].id != CW_PACKET_TAG_RTS && eager < WINDOW / 100) {
        ucs_status_ptr_t request = start_send(LENGTH, 0);

        ucp_request_free(request);
        eager++;
    }
    assert_in_range(eager, WINDOW / (LENGTH + 200), WINDOW / LENGTH);
    feed(CW_PACKET_CREDIT, &credit, sizeof(credit));
    assert_int_equal(finish(start_send(LENGTH, 0)), UCS_OK);
    end(1);
}

static void feed_eager(size_t length, uint64_t tag)
{
    static uint8_t packet[sizeof(struct cw_wire_tag) + MAX_BYTES];
    struct cw_wire_tag header = {.tag = htole64(tag)};

    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_TAG_EAGER, packet, sizeof(header) + length);
}

static void drop_unexpected(void)
{
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_tag_recv_info_t info;
    ucp_tag_message_h taken;

    while ((taken = ucp_tag_probe_nb(worker, 0, 0, 1, &info)) != NULL) {
        (void)finish(ucp_tag_msg_recv_nbx(worker, memory, 0, taken, &none));
    }
}

TEST(test_more_than_the_window_costs_the_connection)
{
    struct cw_wire_tag_first first = {.tag = htole64(9), .total = htole64(UINT64_C(17) << 20), .message = htole32(1)};
    uint8_t packet[sizeof(first) + 100];
    unsigned count = 0;

    begin();
    while (ep->state != CW_EP_FAILED && count < 2000) {
        feed_eager(60000, 9);
        count++;
    }
    assert_in_range(count, 270, 281);
    end(0);
    drop_unexpected();
    begin(); /* empty messages are not free either */
    for (count = 0; ep->state != CW_EP_FAILED && count < 200000; count++) {
        feed_eager(0, 9);
    }
    assert_in_range(count, 100000, 140000);
    end(0);
    drop_unexpected();
    begin(); /* nor promises */
    memset(packet, 0, sizeof(packet));
    memcpy(packet, &first, sizeof(first));
    feed(CW_PACKET_TAG_FIRST, packet, sizeof(packet));
    end(0);
    drop_unexpected();
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
