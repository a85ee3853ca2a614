/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Short gets of memory that the system could copy, and long ones in parts, with an owner that answers, comes late,
 * never, or tells nonsense (docs/change/one-sided.md): RMA-9, FLU-1.
 */
#include "test_rma_counted.h"

static ucs_status_ptr_t get(void)
{
    return ucp_get_nbx(ep, local, 100, base(), rkey, &none);
}

/* A get that nobody answers is copied, and so are the next ones; but not for ever, though the program never waits. */
static void test_get_asks_again(void **state)
{
    ucs_status_ptr_t gets[3];
    unsigned copied, asked = 3;

    (void)state;
    begin_counted();
    for (int i = 0; i < 3; i++) {
        gets[i] = get();
        assert_true(is_pending(gets[i]));
    }
    assert_int_equal(num_reads, 0);
    wait_long();
    for (int i = 0; i < 3; i++) {
        assert_int_equal(finish(gets[i]), UCS_OK);
    }
    assert_int_equal(num_reads, 3);
    assert_int_equal(local[99], 0xdd);
    for (copied = 0; asked < 8; asked++, copied = 0) {
        while ((gets[0] = get()) == NULL) {
            copied++;
        }
        assert_int_equal(count_packets(CW_PACKET_GET), asked + 1);
        assert_int_equal(copied, (asked == 3) ? 7 : (asked == 4) ? 15 : (asked == 5) ? 31 : (asked == 6) ? 63 : 127);
        wait_long();
        assert_int_equal(finish(gets[0]), UCS_OK);
    }
    memset(local, 0x11, sizeof(local));
    feed_data(word_of(records[0].bytes, 24), 0, 100); /* late: nobody wants it, and the owner is there again */
    assert_int_equal(local[0], 0x11);
    gets[0] = get();
    assert_true(is_pending(gets[0]));
    feed_data(word_of(sent_packet(CW_PACKET_GET), 24), 0, 100);
    assert_int_equal(finish(gets[0]), UCS_OK);
    assert_int_equal(local[99], 0xee);
    for (unsigned i = 1; i < 8; i++) {
        feed_data(word_of(records[i].bytes, 24), 0, 100);
    }
    assert_int_equal(cw_op_ep(ep)->rma->replies + cw_op_ep(ep)->rma->num_orphans, 0);
    end_counted(1);
}

static void feed_refused(uint64_t id, int32_t status)
{
    const struct cw_wire_get_refused packet = {.receive_id = htole64(id),
                                               .status     = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_GET_REFUSED, &packet, sizeof(packet));
}

/* The answer may come in packets of any order and size, or be no. */
static void test_get_answered(void **state)
{
    ucs_status_ptr_t request;
    uint64_t id;

    (void)state;
    begin_counted();
    request = get();
    id      = word_of(sent_packet(CW_PACKET_GET), 24);
    feed_data(id, 60, 40);
    assert_true(is_pending(request));
    assert_int_equal(local[59], 0x11);
    feed_data(id, 0, 60);
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(local[0], 0xee);
    assert_int_equal(local[99], 0xee);
    assert_int_equal(local[100], 0x11);
    memset(local, 0x11, 100);
    request = get();
    feed_whole(word_of(sent_packet(CW_PACKET_GET), 24), 100);
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(local[0], 0xee);
    assert_int_equal(local[99], 0xee);
    assert_int_equal(local[100], 0x11);
    request = get();
    feed_refused(word_of(sent_packet(CW_PACKET_GET), 24), UCS_ERR_INVALID_ADDR);
    assert_int_equal(finish(request), UCS_ERR_INVALID_ADDR);
    assert_int_equal(num_reads, 0);
    assert_int_equal(cw_op_ep(ep)->rma->replies + cw_op_ep(ep)->rma->num_late + cw_op_ep(ep)->rma->num_quick, 0);
    end_counted(1);
}

/* A long get is asked for part by part, and over when all of them are, with the first that failed. */
static void test_get_in_parts(void **state)
{
    static const ucs_status_t answers[] = {UCS_OK, UCS_ERR_INVALID_ADDR};
    ucs_status_ptr_t request;
    uint64_t id;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_counted();
        request = ucp_get_nbx(ep, local, ROOM, base(), rkey, &none);
        assert_int_equal(count_packets(CW_PACKET_GET), 1);
        assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 16), CW_RMA_QUICK);
        id = word_of(sent_packet(CW_PACKET_GET), 24);
        (answers[i] == UCS_OK) ? feed_data(id, 0, CW_RMA_QUICK) : feed_refused(id, answers[i]);
        progress();
        assert_true(is_pending(request));
        assert_int_equal(count_packets(CW_PACKET_GET), 2);
        assert_true(word_of(sent_packet(CW_PACKET_GET), 8) == base() + CW_RMA_QUICK);
        assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 16), ROOM - CW_RMA_QUICK);
        assert_int_equal(local[ROOM - 1], 0x11);
        feed_data(word_of(sent_packet(CW_PACKET_GET), 24), 0, ROOM - CW_RMA_QUICK);
        assert_int_equal(finish(request), answers[i]);
        assert_int_equal(local[0], (answers[i] == UCS_OK) ? 0xee : 0x11);
        assert_int_equal(local[ROOM - 1], 0xee);
        assert_int_equal(num_reads, 0);
        assert_int_equal(cw_op_ep(ep)->rma->replies + cw_op_ep(ep)->rma->num_late + cw_op_ep(ep)->rma->num_quick, 0);
        end_counted(1);
    }
}

/* Parts that nobody answers are copied. */
static void test_get_in_parts_from_nobody(void **state)
{
    ucs_status_ptr_t request;

    (void)state;
    begin_counted();
    request = ucp_get_nbx(ep, local, ROOM, base(), rkey, &none);
    wait_long();
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(num_reads, 2);
    assert_int_equal(local[0] + local[ROOM - 1], 2 * 0xdd);
    request = ucp_get_nbx(ep, local, ROOM, base(), rkey, &none); /* all of it by the system, until the peer is there */
    assert_int_equal(count_packets(CW_PACKET_GET), 1);
    assert_int_equal(num_reads, 3);
    assert_int_equal(finish(request), UCS_OK);
    feed_data(word_of(sent_packet(CW_PACKET_GET), 24), 0, CW_RMA_QUICK);
    assert_int_equal(local[0], 0xdd);
    end_counted(1);
}

/* What was not asked for costs the connection, also once the system has copied, and no byte beside is touched. */
static void test_get_answered_wrongly(void **state)
{
    ucs_status_ptr_t request;
    uint64_t id;

    (void)state;
    for (int copied = 0; copied < 2; copied++) {
        for (int i = 0; i < 10; i++) {
            begin_counted();
            request = get();
            id      = word_of(sent_packet(CW_PACKET_GET), 24);
            if (copied) {
                wait_long();
                assert_int_equal(finish(request), UCS_OK);
            }
            if (i == 0) {
                feed_data(id, 0, 101);
            } else if (i == 1) {
                feed_data(id, 1, 100);
            } else if (i == 2) {
                feed_data(id, UINT64_MAX - 4, 8);
            } else if (i == 3) {
                feed_data(id, 0, 60);
                feed_data(id, 0, 60);
            } else if (i == 4) {
                feed_data(id, 0, 10);
                feed_refused(id, UCS_ERR_INVALID_ADDR);
            } else if (i == 5) {
                feed_data(id + (UINT64_C(1) << 32), 0, 100);
            } else if (i == 6) {
                feed_data(id ^ (UINT64_C(1) << 31), 0, 100); /* of those that others ask for */
            } else if (i == 7) {
                feed_refused(id + 1, UCS_ERR_INVALID_ADDR);
            } else if (i == 9) {
                feed_whole(id, 101);
            } else {
                feed_data(id, 0, 100);
                feed_data(id, 0, 100);
            }
            end_counted(0);
            if (!copied) {
                assert_int_equal(finish(request), (i == 8) ? UCS_OK : UCS_ERR_IO_ERROR);
            }
            assert_int_equal(local[100], 0x11);
        }
    }
}

/* Another peer has nothing to say about it. */
static void test_get_answered_by_others(void **state)
{
    uint8_t packet[sizeof(struct cw_wire_rndv_data) + 100] = {0};
    struct cw_wire_rndv_data header                        = {0};
    ucs_status_ptr_t request;
    ucp_ep_h other;
    uint64_t id;

    (void)state;
    other = connected();
    begin_counted();
    request           = get();
    id                = word_of(sent_packet(CW_PACKET_GET), 24);
    header.receive_id = htole64(id);
    memcpy(packet, &header, sizeof(header));
    cw_op_packet(other->conn, CW_PACKET_RNDV_DATA, packet, sizeof(packet));
    assert_int_equal(other->status, UCS_ERR_IO_ERROR);
    assert_true(is_pending(request));
    assert_int_equal(local[0], 0x11);
    feed_data(id, 0, 100);
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(local[99], 0xee);
    end_counted(1);
    cw_alone_wait(worker, ucp_ep_close_nb(other, UCP_EP_CLOSE_MODE_FORCE));
}

/* The program asks for more, and waits for what it has put, in the callback of a get that was copied. */
static void copied_then(void *request, ucs_status_t status, void *user_data)
{
    ucs_status_ptr_t *flush = user_data;

    assert_int_equal(status, UCS_OK);
    put(200, 1);
    *flush = ucp_ep_flush_nbx(ep, &none);
    ucp_request_free(request);
}

static void test_flush_in_callback_of_copied(void **state)
{
    ucs_status_ptr_t flush    = NULL;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send      = copied_then,
                                 .user_data    = &flush};

    (void)state;
    begin_counted();
    assert_true(is_pending(ucp_get_nbx(ep, local, 100, base(), rkey, &param)));
    assert_true(is_pending(ucp_get_nbx(ep, local, 100, base(), rkey, &param)));
    wait_long();
    wait_long();
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(num_reads, 2);
    assert_int_equal(num_writes, 2);
    feed_data(word_of(records[0].bytes, 24), 0, 100);
    feed_data(word_of(records[1].bytes, 24), 0, 100);
    end_counted(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_asks_again),
        cmocka_unit_test(test_get_answered),
        cmocka_unit_test(test_get_in_parts),
        cmocka_unit_test(test_get_in_parts_from_nobody),
        cmocka_unit_test(test_get_answered_wrongly),
        cmocka_unit_test(test_get_answered_by_others),
        cmocka_unit_test(test_flush_in_callback_of_copied),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
