/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of puts and gets (docs/WIRE.md, rows 20 to 23) from an origin that keeps to no rules. What breaks the
 * protocol costs the connection, what asks for memory that is not to be had is refused, and no byte is touched beside
 * what was allowed: RMA-5, RMA-12, RMA-14, MEM-16.
 */
#include "core/lanes.h"
#include "test_rma.h"

static void feed_put(uint64_t token, uint64_t address, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_put) + 2 * ROOM];
    const struct cw_wire_put header = {.token = htole64(token), .address = htole64(address)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_PUT, packet, sizeof(header) + length);
}

static void feed_put_rts(uint64_t token, uint64_t address, uint64_t length)
{
    const struct cw_wire_put_rts packet = {.token = htole64(token),
                                         .address = htole64(address),
                                         .rts = {.length = htole64(length), .send_id = htole64(SEND_ID)}};

    feed(CW_PACKET_PUT_RTS, &packet, sizeof(packet));
}

static void feed_get(uint64_t token, uint64_t address, uint64_t length, uint32_t piece)
{
    const struct cw_wire_get packet = {.token = htole64(token),
                                  .address = htole64(address),
                                  .length = htole64(length),
                                  .receive_id = htole64(SEND_ID),
                                  .piece = htole32(piece)};

    feed(CW_PACKET_GET, &packet, sizeof(packet));
}

static ucs_status_t ask_what_was_refused(void)
{
    const uint64_t id = htole64(99);

    feed(CW_PACKET_FLUSH, &id, sizeof(id));
    assert_int_equal(word_of(sent_packet(CW_PACKET_FLUSHED), 0), 99);
    return (ucs_status_t)status_of(CW_PACKET_FLUSHED);
}

struct range {
    uint64_t before; /* the region */
    uint64_t offset;
    uint64_t length;
};

/* Beside the region, at both ends, and around. */
static const struct range outside[] = {{1, 0, 1},    {1, 0, 8},        {0, ROOM, 1}, {0, ROOM - 7, 8}, {0, 0, ROOM + 1},
                                       {0, ROOM + 1000, 4}, {1, 0, ROOM + 1}, {0, ROOM, 8}, {4096, 0, 100}};
enum { OUTSIDE = sizeof(outside) / sizeof(outside[0]) };

static uint64_t address_of(const struct range *range)
{
    return base() - range->before + range->offset;
}

TEST(test_put)
{
    static const size_t lengths[] = {1, 2, 3, 4, 7, 8, 9, 255, 1000, ROOM};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        begin();
        feed_put(rkey->key.token, base() + ROOM - lengths[i], lengths[i]);
        check_rest(ROOM - lengths[i], lengths[i]);
        assert_int_equal(memory[GUARD + ROOM - 1], 0xee);
        assert_int_equal(memory[GUARD + ROOM - lengths[i]], 0xee);
        assert_int_equal(ask_what_was_refused(), UCS_OK);
        end(1);
    }
}

TEST(test_put_refused)
{
    for (int i = 0; i < OUTSIDE + 3; i++) {
        begin_with((i == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_READ :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        if (i < OUTSIDE) {
            feed_put(rkey->key.token, address_of(&outside[i]), (size_t)outside[i].length);
        } else if (i == OUTSIDE) {
            feed_put(rkey->key.token, base(), 8);
        } else {
            feed_put((i == OUTSIDE + 1) ? 0 : rkey->key.token ^ 1, base(), 8);
        }
        check_rest(0, 0);
        assert_int_equal(ask_what_was_refused(), (i == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        assert_int_equal(ask_what_was_refused(), UCS_OK); /* once */
        end(1);
    }
}

/* RMA-12, MEM-16: whatever asks for memory that was unmapped ends the connection. */
TEST(test_unmapped)
{
    for (int i = 0; i < 3; i++) {
        begin();
        unmap();
        if (i == 0) {
            feed_put(rkey->key.token, base(), 8);
        } else if (i == 1) {
            feed_put_rts(rkey->key.token, base(), 100);
        } else {
            feed_get(rkey->key.token, base(), 100, UINT32_MAX);
        }
        check_rest(0, 0);
        assert_int_equal(num_records, 0);
        assert_int_equal(ep->status, UCS_ERR_CONNECTION_RESET);
        end(0);
    }
}

/* KEY-5: token 0, from a process that could reach this memory by itself: what is registered, and its rights. */
TEST(test_without_a_token)
{
    for (int i = 0; i < OUTSIDE + 2; i++) {
        const int is_right = i == OUTSIDE;

        begin_with(is_right ? UCP_MEM_MAP_PROT_REMOTE_READ :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        fake_transport.device_class = CW_DEVICE_SHM;
        if (i < OUTSIDE) {
            feed_put(0, address_of(&outside[i]), (size_t)outside[i].length);
        } else {
            feed_put(0, base() + 100, 8);
        }
        check_rest(100, (i <= OUTSIDE) ? 0 : 8);
        assert_int_equal(memory[GUARD + 100], (i <= OUTSIDE) ? 100 * 7 & 0xff : 0xee);
        assert_int_equal(ask_what_was_refused(), (i <= OUTSIDE) ? UCS_ERR_INVALID_ADDR : UCS_OK);
        end(1);
    }
    begin();
    fake_transport.device_class = CW_DEVICE_SHM;
    unmap();
    feed_put(0, base(), 8);
    check_rest(0, 0);
    assert_int_equal(ask_what_was_refused(), UCS_ERR_INVALID_ADDR);
    end(1);
}

TEST(test_cut_short)
{
    static const struct {
        uint8_t id;
        size_t length;
    } kinds[] = {{CW_PACKET_PUT, sizeof(struct cw_wire_put) + 1},
                 {CW_PACKET_PUT_RTS, sizeof(struct cw_wire_put_rts)},
                 {CW_PACKET_GET, sizeof(struct cw_wire_get)},
                 {CW_PACKET_GET_DATA, sizeof(struct cw_wire_get_data) + 1},
                 {CW_PACKET_GET_REFUSED, sizeof(struct cw_wire_get_refused)}};
    uint8_t bytes[100];

    memset(bytes, 0xff, sizeof(bytes));
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        for (size_t length = 0; length < kinds[k].length; length++) {
            begin();
            feed(kinds[k].id, bytes, length);
            end(0);
        }
        if (kinds[k].id != CW_PACKET_PUT) {
            begin();
            feed(kinds[k].id, bytes, kinds[k].length + 1);
            end(0);
        }
    }
    begin();
    feed_put_rts(rkey->key.token, base(), 0);
    end(0);
    begin();
    feed_get(rkey->key.token, base(), 0, UINT32_MAX);
    end(0);
    for (uint32_t piece = 0; piece < CW_WIRE_LEAST_PIECE; piece++) {
        begin();
        feed_get(rkey->key.token, base(), 100, piece);
        end(0);
    }
}

static uint64_t accept_put(size_t offset, size_t length)
{
    feed_put_rts(rkey->key.token, base() + offset, length);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_READY), 0), SEND_ID);
    return word_of(sent_packet(CW_PACKET_RNDV_READY), offsetof(struct cw_wire_rndv_ready, receive_id));
}

TEST(test_announced_put)
{
    uint64_t id;

    begin();
    id = accept_put(100, 900);
    feed_data(id, 400, 500);
    assert_int_equal(count_packets(CW_PACKET_RNDV_DONE), 0);
    feed_data(id, 0, 400);
    assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), SEND_ID);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_OK);
    check_rest(100, 900);
    assert_int_equal(memory[GUARD + 100], 0xee);
    assert_int_equal(memory[GUARD + 999], 0xee);
    assert_int_equal(cw_op_ep(ep)->rma->serving.answers, 0);
    feed_data(id, 0, 1);
    check_rest(100, 900);
    end(0);
}

/* The owner may read the target at any time: a transport that checks bytes has to do it before they stand there. */
TEST(test_target_of_a_put_is_shown)
{
    struct cw_wire_rndv_data header = {0};
    struct iovec iov[CW_PLACE_MAX_IOV];

    begin();
    header.receive_id = htole64(accept_put(100, 900));
    assert_int_equal(cw_op_place(ep->conn, CW_PACKET_RNDV_DATA, &header, 900, iov), 1);
    assert_ptr_equal(iov[0].iov_base, memory + GUARD + 100);
    memset(iov[0].iov_base, 0xee, iov[0].iov_len);
    cw_op_placed(ep->conn, CW_PACKET_RNDV_DATA, &header, 900);
    assert_int_equal(status_of(CW_PACKET_RNDV_DONE), UCS_OK);
    check_rest(100, 900);
    end(1);
}

TEST(test_announced_put_out_of_bounds)
{
    static const uint64_t wrong[][2] = {{0, 0}, {0, 901}, {900, 1}, {899, 2}, {UINT64_MAX, 1}, {UINT64_MAX - 3, 8}};
    struct cw_wire_rndv_copied copied = {0};
    uint64_t id;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        begin();
        id = accept_put(100, 900);
        feed_data(id, wrong[i][0], (size_t)wrong[i][1]);
        check_rest(0, 0);
        end(0);
    }
    begin(); /* it was not asked to copy */
    id = accept_put(100, 900);
    copied.receive_id = htole64(id);
    feed(CW_PACKET_RNDV_COPIED, &copied, sizeof(copied));
    end(0);
}

TEST(test_announced_put_refused)
{
    for (int i = 0; i < OUTSIDE + 2; i++) {
        begin_with((i == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_READ :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 0);
        if (i < OUTSIDE) {
            feed_put_rts(rkey->key.token, address_of(&outside[i]), outside[i].length);
        } else {
            feed_put_rts(rkey->key.token, (i == OUTSIDE) ? base() : UINT64_MAX - 2, 100);
        }
        assert_int_equal(count_packets(CW_PACKET_RNDV_READY), 0);
        assert_int_equal(word_of(sent_packet(CW_PACKET_RNDV_DONE), 0), SEND_ID);
        assert_int_equal(status_of(CW_PACKET_RNDV_DONE), (i == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        assert_int_equal(cw_op_ep(ep)->rma->serving.answers, 0);
        end(1);
    }
}

TEST(test_get)
{
    static const size_t lengths[] = {1, 8, 9, 300, 384, 385, 1000, ROOM};
    int whole;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int small = 0; small < 2; small++) {
            begin();
            feed_get(rkey->key.token, base(), lengths[i], small ? 128 : UINT32_MAX);
            progress();
            whole = lengths[i] <= (small ? 128 : 384);
            assert_int_equal(count_packets(CW_PACKET_GET_DATA), whole);
            for (unsigned k = 0; k < num_records; k++) {
                assert_int_equal(records[k].id, whole ? CW_PACKET_GET_DATA : CW_PACKET_RNDV_DATA);
                assert_int_equal(word_of(records[k].bytes, 0), SEND_ID);
                assert_in_range(records[k].length, whole ? 9 : 17, small ? 144 : 400);
            }
            assert_memory_equal(sent, memory + GUARD, lengths[i]);
            assert_true(cw_op_ep(ep)->rma == NULL || cw_op_ep(ep)->rma->serving.answers == 0);
            end(1);
        }
    }
}

TEST(test_get_refused)
{
    for (int i = 0; i < 2 * (OUTSIDE + 2); i++) {
        int k = i % (OUTSIDE + 2), placed = i >= OUTSIDE + 2;

        begin_with((k == OUTSIDE) ? UCP_MEM_MAP_PROT_REMOTE_WRITE :
                   UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, placed);
        if (k < OUTSIDE) {
            feed_get(rkey->key.token, address_of(&outside[k]), outside[k].length, UINT32_MAX);
        } else {
            feed_get(rkey->key.token, (k == OUTSIDE) ? base() : UINT64_MAX - 2, 1000, UINT32_MAX);
        }
        progress();
        assert_int_equal(count_packets(CW_PACKET_RNDV_DATA), 0);
        assert_int_equal(word_of(sent_packet(CW_PACKET_GET_REFUSED), 0), SEND_ID);
        assert_int_equal(status_of(CW_PACKET_GET_REFUSED),
                         (k == OUTSIDE) ? UCS_ERR_INVALID_PARAM : UCS_ERR_INVALID_ADDR);
        end(1);
    }
}

/* A peer that asks and does not listen. */
TEST(test_too_many_answers)
{
    for (int kind = 0; kind < 4; kind++) {
        for (unsigned more = 0; more < 2; more++) {
            begin();
            blocked = 1;
            for (unsigned i = 0; i < CW_RMA_WINDOW + more; i++) {
                assert_int_equal(ep->state, CW_EP_OPEN);
                if (kind == 0) {
                    feed_get(rkey->key.token, base(), 8, 128);
                } else if (kind == 1) {
                    feed_get(rkey->key.token ^ 1, base(), 8, 128);
                } else if (kind == 2) {
                    feed_put_rts(rkey->key.token, base(), 800);
                } else {
                    feed_put_rts(rkey->key.token ^ 1, base(), 800);
                }
            }
            assert_int_equal(ep->state, more ? CW_EP_FAILED : CW_EP_OPEN);
            blocked = 0;
            cw_ep_drain(ep);
            assert_int_equal(num_records, more ? 0 : CW_RMA_WINDOW);
            end(!more);
        }
    }
}

/* MEM-16: the memory is the program's again, whatever the peer does. */
TEST(test_unmapped_in_the_middle)
{
    uint64_t id;

    begin();
    id = accept_put(100, 900);
    unmap();
    assert_int_equal(ep->state, CW_EP_FAILED);
    feed_data(id, 0, 900);
    check_rest(0, 0);
    end(0);
    for (uint64_t length = 64u << 10; length <= (64u << 10) + 1; length++) {
        begin();
        blocked = 1;
        feed_get(rkey->key.token, base(), length, UINT32_MAX);
        unmap();
        assert_int_equal(ep->state, CW_EP_FAILED);
        blocked = 0;
        end(0);
        assert_int_equal(num_records, 0);
    }
}

/* Further lanes keep the bytes beyond the end of the get at the origin: a short answer does not use them, also if they
 * open while it waits. */
TEST(test_unmapped_after_a_short_answer)
{
    struct cw_conn lane;

    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ, 1);
    fake_packets.send_in_place = fake_placed;
    fake_iface.limits.max_placed = 64u << 10;
    blocked = 1;
    feed_get(rkey->key.token, base(), 64u << 10, UINT32_MAX);
    assert_non_null(cw_lanes_new(ep, 1));
    lane = (struct cw_conn){.iface = &fake_iface, .user = ep};
    ep->lanes->further[0].conn = &lane;
    ep->lanes->further[0].state = CW_FURTHER_OPEN;
    blocked = 0;
    cw_ep_drain(ep);
    assert_true(count_packets(CW_PACKET_RNDV_DATA) > 0);
    assert_int_equal(ep->lanes->num_retained, 0);
    unmap();
    assert_int_equal(ep->state, CW_EP_OPEN);
    ep->lanes->further[0].conn = NULL;
    ep->lanes->further[0].state = CW_FURTHER_NONE;
    end(1);
}

/* What was announced to us is not refused this way. */
TEST(test_refused_what_was_announced)
{
    struct cw_wire_get_refused packet = {.status = (int32_t)htole32((uint32_t)UCS_ERR_INVALID_ADDR)};

    begin();
    packet.receive_id = htole64(accept_put(0, 900));
    feed(CW_PACKET_GET_REFUSED, &packet, sizeof(packet));
    check_rest(0, 0);
    end(0);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
