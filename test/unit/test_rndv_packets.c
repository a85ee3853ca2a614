/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of rendezvous and of cancelled sends from a peer that does not keep to the protocol (docs/WIRE.md,
 * docs/change/long-messages.md "Fields from the wire"): what it may answer to a send, what it may send to a receive.
 * Each breach costs the connection, once; its operations end; no byte beside a message is touched.
 */
#include "test_peer_lies.h"

/* ---- what the peer may answer to a send ---- */

/* Messages of 500 bytes or more are announced (see setup). */
static uint64_t announce(ucs_status_ptr_t *request)
{
    *request = start_send(ROOM, 0);
    return word_of(sent_packet(CW_PACKET_TAG_RTS), offsetof(struct cw_wire_tag_rts, rts.send_id));
}

static struct cw_wire_rndv_ready ready_for(uint64_t id)
{
    return (struct cw_wire_rndv_ready){.send_id = htole64(id), .receive_id = htole64(77),
                                       .mode = htole32(CW_WIRE_RNDV_SEND), .piece = htole32(400)};
}

static void feed_ready(struct cw_wire_rndv_ready ready)
{
    feed(CW_PACKET_RNDV_READY, &ready, sizeof(ready));
}

static void feed_done(uint64_t id, int32_t status)
{
    struct cw_wire_rndv_done done = {.send_id = htole64(id), .status = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_RNDV_DONE, &done, sizeof(done));
}

static const uint64_t strange_ids[] = {0, 1, UINT64_MAX, UINT64_C(1) << 32, UINT64_C(0x100000001), 12345};
enum { STRANGE_IDS = sizeof(strange_ids) / sizeof(strange_ids[0]) };

TEST(test_an_answer_to_nothing_costs_the_connection)
{
    for (int i = 0; i < STRANGE_IDS; i++) {
        for (int k = 0; k < 3; k++) {
            uint64_t word = htole64(strange_ids[i]);

            begin();
            if (k == 0) {
                feed_ready(ready_for(strange_ids[i]));
            } else if (k == 1) {
                feed_done(strange_ids[i], 0);
            } else {
                feed(CW_PACKET_TAG_ACK, &word, sizeof(word));
            }
            end(0);
        }
    }
}

TEST(test_a_wrong_ready_costs_the_connection)
{
    const uint32_t modes[] = {0, 0, htole32(3), UINT32_MAX, htole32(2), htole32(2), htole32(2), htole32(2)};
    const uint32_t pairs[] = {[6] = UINT32_MAX, [7] = htole32(CW_CLAIM_PAIRS)};
    struct cw_wire_rndv_ready ready;
    ucs_status_ptr_t request;

    for (int i = 0; i < 8; i++) {
        begin();
        ready = ready_for(announce(&request));
        ready.piece = i == 0 ? 0 : ready.piece;
        ready.piece = i == 4 ? htole32(1) : ready.piece;
        if (i > 0) {
            ready.mode = modes[i];
        }
        ready.address = i >= 5 ? htole64(4096) : 0; /* copies: there is no such thing on this connection */
        ready.pair = pairs[i];
        feed_ready(ready);
        end(0);
        assert_true(finish(request) < 0);
    }
}

TEST(test_a_second_ready_costs_the_connection)
{
    ucs_status_ptr_t request;
    uint64_t id;

    for (int late = 0; late < 2; late++) {
        begin();
        id = announce(&request);
        feed_ready(ready_for(id));
        for (int i = 0; i < 10 * late; i++) {
            ucp_worker_progress(worker);
        }
        if (late) {
            assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DATA), 0), 77);
            assert_int_equal(finish(request), UCS_OK);
        }
        feed_ready(ready_for(id));
        end(0);
        assert_true(late || finish(request) < 0);
    }
}

TEST(test_a_done_out_of_place_costs_the_connection)
{
    static const int32_t statuses[] = {1, INT32_MAX, INT32_MIN, -100000};
    ucs_status_ptr_t request;
    uint64_t id;

    for (int i = 0; i < 4; i++) { /* not a status */
        begin();
        id = announce(&request);
        feed_done(id, statuses[i]);
        end(0);
        assert_true(finish(request) < 0);
    }
    begin(); /* twice */
    id = announce(&request);
    feed_done(id, UCS_OK);
    assert_int_equal(finish(request), UCS_OK);
    feed_done(id, UCS_OK);
    end(0);
    begin(); /* while it is being sent */
    id = announce(&request);
    feed_ready(ready_for(id));
    feed_done(id, UCS_OK);
    end(0);
    assert_true(finish(request) < 0);
    for (int i = 0; i < 2; i++) { /* for an eager one, which was not taken back */
        begin();
        request = start_send(40, 1);
        id = word_of(sent_packet(CW_PACKET_TAG_SYNC), offsetof(struct cw_wire_tag_sync, sync_id));
        feed_done(id, i == 0 ? UCS_OK : UCS_ERR_CANCELED);
        end(0);
        assert_true(finish(request) < 0);
    }
}

TEST(test_an_acknowledgement_out_of_place_costs_the_connection)
{
    ucs_status_ptr_t request;
    uint64_t word;

    begin(); /* twice */
    request = start_send(40, 1);
    word = htole64(word_of(sent_packet(CW_PACKET_TAG_SYNC), offsetof(struct cw_wire_tag_sync, sync_id)));
    feed(CW_PACKET_TAG_ACK, &word, sizeof(word));
    assert_int_equal(finish(request), UCS_OK);
    feed(CW_PACKET_TAG_ACK, &word, sizeof(word));
    end(0);
    begin(); /* of what was only announced */
    word = htole64(announce(&request));
    feed(CW_PACKET_TAG_ACK, &word, sizeof(word));
    end(0);
    assert_true(finish(request) < 0);
}

/* Another endpoint's send is not theirs to answer. */
TEST(test_an_answer_for_another_endpoint_costs_its_sender_alone)
{
    ucs_status_ptr_t request;
    ucp_ep_h theirs;
    uint64_t id;

    for (int i = 0; i < 2; i++) {
        struct cw_iface *theirs_iface;

        begin();
        id = announce(&request);
        theirs = ep;
        theirs_iface = real_iface;
        begin();
        if (i == 0) {
            feed_ready(ready_for(id));
        } else {
            feed_done(id, UCS_OK);
        }
        end(0);
        assert_int_equal(ucp_request_check_status(request), UCS_INPROGRESS);
        ep = theirs;
        real_iface = theirs_iface;
        feed_done(id, UCS_OK);
        assert_int_equal(finish(request), UCS_OK);
        failures = log_lines = 0;
        end(1);
    }
}

/* ---- what the peer may send to a receive ---- */

enum { MAX_ENTRIES = CW_PLACE_MAX_IOV + 1 };
static unsigned entries = MAX_ENTRIES; /* of lists: too many to be placed */

static void check_guards(size_t length)
{
    for (size_t i = 0; i < sizeof(memory); i++) {
        if (i < GUARD || i >= GUARD + length) {
            assert_int_equal(memory[i], 0x5a);
        }
    }
}

static ucs_status_ptr_t start_receive(ucp_dt_iov_t *iov)
{
    ucp_request_param_t param = {.op_attr_mask = iov == NULL ? 0 : UCP_OP_ATTR_FIELD_DATATYPE,
                                 .datatype = ucp_dt_make_iov()};

    memset(memory, 0x5a, sizeof(memory));
    if (iov != NULL) {
        for (unsigned i = 0; i < entries; i++) {
            iov[i] = (ucp_dt_iov_t){.buffer = memory + GUARD + i * 50, .length = 50};
        }
        iov[entries - 1].length = ROOM - (entries - 1) * 50;
        return ucp_tag_recv_nbx(worker, iov, entries, 9, UINT64_MAX, &param);
    }
    return ucp_tag_recv_nbx(worker, memory + GUARD, ROOM, 9, UINT64_MAX, &param);
}

static void feed_rts(uint64_t length, uint64_t send_id)
{
    struct cw_wire_tag_rts rts = {.tag = htole64(9), .rts = {.length = htole64(length), .send_id = htole64(send_id)}};

    feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
}

/* Announces to a posted receive; returns the id by which it wants the bytes. */
static uint64_t offer(ucs_status_ptr_t *request, ucp_dt_iov_t *iov, uint64_t length)
{
    begin();
    *request = start_receive(iov);
    feed_rts(length, 4711);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_READY), 0), 4711);
    return word_of(sent_packet(CW_PACKET_RNDV_READY), offsetof(struct cw_wire_rndv_ready, receive_id));
}

static void feed_data(uint64_t id, uint64_t offset, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_rndv_data) + 2 * ROOM];
    struct cw_wire_rndv_data header = {.receive_id = htole64(id), .offset = htole64(offset)};

    memset(packet, 0x11, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_RNDV_DATA, packet, sizeof(header) + length);
}

TEST(test_err9_data_out_of_bounds_touches_nothing)
{
    static const struct {
        uint64_t offset;
        size_t length;
    } wrong[] = {{0, 0}, {0, 801}, {800, 1}, {799, 2}, {801, 1}, {UINT64_MAX, 1}, {UINT64_MAX - 3, 8}, {0, 2000},
                 {UINT64_C(1) << 63, 100}};
    ucp_dt_iov_t iov[MAX_ENTRIES];
    ucs_status_ptr_t request;

    for (size_t i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t id = offer(&request, i % 2 == 0 ? NULL : iov, 800);

        feed_data(id, wrong[i / 2].offset, wrong[i / 2].length);
        end(0);
        assert_true(finish(request) < 0); /* ERR-9 */
        check_guards(0);
    }
}

TEST(test_repeated_data_touches_nothing_beside_the_message)
{
    ucp_dt_iov_t iov[MAX_ENTRIES];
    ucs_status_ptr_t request;
    uint64_t id;

    for (int i = 0; i < 2; i++) { /* more than all, though each piece lies within */
        id = offer(&request, i == 0 ? NULL : iov, 800);
        feed_data(id, 0, 500);
        feed_data(id, 0, 500);
        end(0);
        assert_true(finish(request) < 0);
        check_guards(500);
    }
    id = offer(&request, iov, 800); /* others come one after the other */
    feed_data(id, 100, 100);
    end(0);
    assert_true(finish(request) < 0);
    entries = 2; /* so few can be placed: in any order. It was complete */
    id = offer(&request, iov, 800);
    entries = MAX_ENTRIES;
    feed_data(id, 300, 500);
    feed_data(id, 0, 300);
    assert_int_equal(finish(request), UCS_OK);
    memset(memory, 0x5a, sizeof(memory));
    feed_data(id, 0, 100);
    end(0);
    check_guards(0);
    for (int i = 0; i < STRANGE_IDS; i++) {
        (void)offer(&request, NULL, 800);
        feed_data(strange_ids[i] + UINT64_C(0x700000000), 0, 100);
        end(0);
        assert_true(finish(request) < 0);
        check_guards(0);
    }
}

/* Another endpoint's receive is not theirs to fill. */
TEST(test_data_for_another_endpoint_costs_its_sender_alone)
{
    ucs_status_ptr_t request;
    uint64_t id = offer(&request, NULL, 800);
    struct cw_iface *first_iface = real_iface;
    ucp_ep_h first = ep;

    begin();
    feed_data(id, 0, 100);
    end(0);
    check_guards(0);
    ep = first;
    real_iface = first_iface;
    failures = log_lines = 0;
    feed_data(id, 0, 800);
    assert_int_equal(finish(request), UCS_OK);
    end(1);
}

/* Bytes that are being placed count, or the receive could end while the transport writes; what was not, may come. */
TEST(test_data_that_is_being_placed_counts)
{
    struct cw_wire_rndv_data header = {0};
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_ptr_t request;

    for (int unplaced = 0; unplaced < 2; unplaced++) {
        header.receive_id = htole64(offer(&request, NULL, 800));
        assert_int_equal(cw_op_place(ep->conn, CW_PACKET_RNDV_DATA, &header, 500, iov), 1);
        if (unplaced) {
            cw_op_unplaced(ep->conn, CW_PACKET_RNDV_DATA, &header, 500);
        }
        feed_data(le64toh(header.receive_id), 0, unplaced ? 800 : 301);
        end(unplaced);
        assert_int_equal(finish(request), unplaced ? UCS_OK : UCS_ERR_IO_ERROR);
    }
}

TEST(test_copied_unasked_costs_the_connection)
{
    struct cw_wire_rndv_copied copied = {.receive_id = htole64(99)};
    ucs_status_ptr_t request;

    for (int i = 0; i < 2; i++) {
        copied.receive_id = htole64(offer(&request, NULL, 800));
        copied.status = (int32_t)htole32((uint32_t)(i == 0 ? UCS_OK : UCS_ERR_IO_ERROR));
        feed(CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
        end(0);
        assert_true(finish(request) < 0); /* above all not OK: nothing came */
        check_guards(0);
    }
    begin(); /* of a transfer that is over: late, but no harm */
    copied.receive_id = htole64(UINT64_C(0x500000000));
    feed(CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
    end(1);
}

TEST(test_tag33_huge_announcements_are_truncated)
{
    static const uint64_t lengths[] = {ROOM + 1, UINT64_C(1) << 40, UINT64_MAX};
    ucp_tag_recv_info_t info;
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucs_status_ptr_t request;

    for (int i = 0; i < 6; i++) {
        begin();
        request = i % 2 == 0 ? start_receive(NULL) : NULL;
        feed_rts(lengths[i / 2], 4711);
        if (request == NULL) {
            assert_non_null(ucp_tag_probe_nb(worker, 9, UINT64_MAX, 0, &info));
            assert_true(info.length == lengths[i / 2]);
            request = ucp_tag_recv_nbx(worker, memory + GUARD, ROOM, 9, UINT64_MAX, &none);
        }
        assert_int_equal(finish(request), UCS_ERR_MESSAGE_TRUNCATED); /* TAG-33 */
        assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), 4711);
        check_guards(0);
        end(1);
    }
}

/* Announced, and the connection ends for another reason: a receive that comes later must not wait. */
TEST(test_no_receive_waits_for_a_lost_announcement)
{
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucs_status_ptr_t request;

    begin();
    feed_rts(800, 4711);
    feed_done(1, 0);
    end(0);
    request = ucp_tag_recv_nbx(worker, memory + GUARD, ROOM, 9, UINT64_MAX, &none);
    if (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_request_cancel(worker, request); /* it was forgotten: the receive is unmatched, which is as well */
        assert_int_equal(finish(request), UCS_ERR_CANCELED);
    } else {
        assert_true(finish(request) < 0);
    }
}

TEST(test_a_packet_of_another_length_costs_the_connection)
{
    static const struct {
        uint8_t id;
        size_t length;
    } kinds[] = {{CW_PACKET_TAG_RTS, sizeof(struct cw_wire_tag_rts)},
                 {CW_PACKET_RNDV_READY, sizeof(struct cw_wire_rndv_ready)},
                 {CW_PACKET_RNDV_DATA, sizeof(struct cw_wire_rndv_data) + 1},
                 {CW_PACKET_RNDV_DONE, sizeof(struct cw_wire_rndv_done)},
                 {CW_PACKET_RNDV_COPIED, sizeof(struct cw_wire_rndv_copied)},
                 {CW_PACKET_TAG_CANCEL, sizeof(struct cw_wire_tag_cancel)},
                 {CW_PACKET_CREDIT, sizeof(struct cw_wire_credit)}};
    uint8_t bytes[100];

    memset(bytes, 1, sizeof(bytes));
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (size_t length = 0; length < kinds[k].length; length++) {
            begin();
            feed(kinds[k].id, bytes, length);
            end(0);
        }
        begin();
        feed(kinds[k].id, bytes, kinds[k].id == CW_PACKET_RNDV_DATA ? 50 : kinds[k].length + 1);
        end(0);
    }
}

TEST(test_a_cancel_takes_back_what_is_unmatched_alone)
{
    struct cw_wire_tag_cancel cancel = {.send_id = htole64(4711)};
    ucs_status_ptr_t request;
    ucp_tag_recv_info_t info;
    uint64_t id;

    begin(); /* of nothing */
    feed(CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    cancel.send_id = 0;
    feed(CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_int_equal(num_records, 0);
    cancel.send_id = htole64(4711);
    feed_rts(800, 4711); /* of what lies here, and again */
    feed(CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_int_equal((int32_t)word_of(sent_packet(CW_PACKET_RNDV_DONE), 8), UCS_ERR_CANCELED);
    assert_null(ucp_tag_probe_nb(worker, 0, 0, 0, &info));
    feed(CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_int_equal(num_records, 1);
    end(1);
    id = offer(&request, NULL, 800); /* of what is matched */
    num_records = 0;
    feed(CW_PACKET_TAG_CANCEL, &cancel, sizeof(cancel));
    assert_int_equal(num_records, 0);
    feed_data(id, 0, 800);
    assert_int_equal(finish(request), UCS_OK);
    end(1);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
