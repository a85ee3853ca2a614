/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets by packets at their origin, with an owner that keeps to no rules: what it may answer, and when. What
 * breaks the protocol costs the connection, and no byte is touched beside the buffer: RMA-1, RMA-2, RMA-8, RMA-14,
 * FLU-1, R16.
 */
#include "test_rma.h"

static void feed_done(uint64_t id, int32_t status)
{
    const struct cw_wire_rndv_done done = {.send_id = htole64(id), .status = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_RNDV_DONE, &done, sizeof(done));
}

static void feed_ready(uint64_t id, uint32_t piece)
{
    const struct cw_wire_rndv_ready ready = {.send_id = htole64(id),
                                          .receive_id = htole64(77),
                                          .mode = htole32(CW_WIRE_RNDV_SEND),
                                          .piece = htole32(piece)};

    feed(CW_PACKET_RNDV_READY, &ready, sizeof(ready));
}

static void feed_refused(uint64_t id, int32_t status)
{
    const struct cw_wire_get_refused packet = {.receive_id = htole64(id),
                                               .status = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_GET_REFUSED, &packet, sizeof(packet));
}

static ucs_status_ptr_t start_flush(void)
{
    return ucp_ep_flush_nbx(ep, &none);
}

static void feed_flushed(int32_t status)
{
    const struct cw_wire_flushed packet = {.flush_id = htole64(word_of(sent_packet(CW_PACKET_FLUSH), 0)),
                                           .status = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_FLUSHED, &packet, sizeof(packet));
}

/* Local completion is not the end: the flush waits for the owner, who may say that something was refused. */
TEST(test_sent_puts)
{
    ucs_status_ptr_t flush;

    for (int i = 0; i < 2; i++) {
        begin();
        assert_int_equal(finish(ucp_put_nbx(ep, local, 1000, base() + 50, rkey, &none)), UCS_OK);
        assert_int_equal(num_records, 3);
        assert_int_equal(records[0].id, CW_PACKET_PUT);
        assert_int_equal(word_of(records[0].bytes, 0), rkey->key.token);
        assert_true(word_of(records[1].bytes, 8) == base() + 50 + records[0].length - 16);
        assert_int_equal(records[0].length + records[1].length + records[2].length, 1000 + 3 * 16);
        flush = start_flush();
        progress();
        assert_true(is_pending(flush));
        feed_flushed((i == 0) ? UCS_OK : UCS_ERR_INVALID_ADDR);
        assert_int_equal(finish(flush), (i == 0) ? UCS_OK : UCS_ERR_INVALID_ADDR);
        assert_null(start_flush());
        end(1);
    }
}

static uint64_t announce(ucs_status_ptr_t *put)
{
    begin_with(UCP_MEM_MAP_PROT_REMOTE_READ | UCP_MEM_MAP_PROT_REMOTE_WRITE, 1);
    *put = ucp_put_nbx(ep, local, 2000, base(), rkey, &none);
    assert_true(is_pending(*put));
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 0), rkey->key.token);
    assert_true(word_of(sent_packet(CW_PACKET_PUT_RTS), 8) == base());
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 16), 2000);
    assert_int_equal(word_of(sent_packet(CW_PACKET_PUT_RTS), 32), 0); /* no address of ours */
    return word_of(sent_packet(CW_PACKET_PUT_RTS), 24);
}

TEST(test_announced_put_ends)
{
    ucs_status_ptr_t put, flush;
    uint64_t id;

    id = announce(&put); /* refused */
    feed_done(id, UCS_ERR_INVALID_ADDR);
    assert_int_equal(finish(put), UCS_ERR_INVALID_ADDR);
    assert_null(start_flush());
    end(1);
    for (int late = 0; late < 2; late++) { /* the transport gives the memory back before, or after */
        id = announce(&put);
        keeps = late;
        feed_ready(id, UINT32_MAX);
        flush = start_flush();
        progress();
        assert_int_equal(count_packets(CW_PACKET_RNDV_DATA), 2);
        assert_memory_equal(sent, local, 2000);
        assert_true(is_pending(put) && is_pending(flush));
        feed_done(id, UCS_OK);
        progress();
        assert_int_equal(is_pending(put), late);
        if (late) { /* both pieces have this one */
            retained->done(retained, UCS_OK);
            retained->done(retained, UCS_OK);
        }
        assert_int_equal(finish(put), UCS_OK);
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(cw_op_ep(ep)->rma->replies + cw_op_ep(ep)->rma->async_puts, 0);
        feed_done(id, UCS_OK); /* twice */
        end(0);
    }
}

TEST(test_announced_put_answered_wrongly)
{
    ucs_status_ptr_t put;
    uint64_t id;

    for (int i = 0; i < 5; i++) {
        id = announce(&put);
        if (i == 0) { /* before anything is sent */
            feed_ready(id, UINT32_MAX);
            feed_done(id, UCS_OK);
        } else if (i == 1) { /* not a status */
            feed_done(id, 1);
        } else if (i == 2) { /* after all was taken */
            feed_ready(id, UINT32_MAX);
            progress();
            feed_done(id, UCS_ERR_INVALID_ADDR);
        } else if (i == 3) {
            feed_ready(id, UINT32_MAX);
            progress();
            feed_ready(id, UINT32_MAX);
        } else {
            feed_ready(id, 0);
        }
        end(0);
        assert_true(finish(put) < 0);
    }
}

static uint64_t ask(ucs_status_ptr_t *get, size_t length)
{
    *get = ucp_get_nbx(ep, local, length, base() + 10, rkey, &none);
    assert_true(is_pending(*get));
    assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 0), rkey->key.token);
    assert_true(word_of(sent_packet(CW_PACKET_GET), 8) == base() + 10);
    assert_int_equal(word_of(sent_packet(CW_PACKET_GET), 16), length);
    return word_of(sent_packet(CW_PACKET_GET), 24);
}

static void check_local(size_t length)
{
    for (size_t i = 0; i < ROOM; i++) {
        assert_int_equal(local[i], (i < length) ? 0xee : 0x11);
    }
}

TEST(test_get_answers)
{
    static const int32_t wrong[] = {0, 1, INT32_MAX, INT32_MIN, -100000};
    ucs_status_ptr_t get;
    uint64_t id;

    begin();
    id = ask(&get, 1000);
    feed_data(id, 600, 400);
    assert_true(is_pending(get));
    feed_data(id, 0, 600);
    assert_int_equal(finish(get), UCS_OK);
    check_local(1000);
    assert_null(start_flush());
    feed_refused(id, UCS_ERR_INVALID_ADDR); /* too late */
    end(0);
    begin();
    id = ask(&get, 1000);
    feed_refused(id, UCS_ERR_INVALID_PARAM);
    assert_int_equal(finish(get), UCS_ERR_INVALID_PARAM);
    assert_int_equal(cw_op_ep(ep)->rma->replies + cw_op_ep(ep)->rma->late.count, 0);
    check_local(0);
    end(1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]) + 3; i++) {
        begin();
        id = ask(&get, 1000);
        if (i < sizeof(wrong) / sizeof(wrong[0])) {
            feed_refused(id, wrong[i]);
        } else if (i == sizeof(wrong) / sizeof(wrong[0])) {
            feed_data(id, 0, 10);
            feed_refused(id, UCS_ERR_INVALID_ADDR);
        } else if (i == sizeof(wrong) / sizeof(wrong[0]) + 1) {
            feed_data(id, 1, 1000);
        } else {
            feed_refused(id + 1, UCS_ERR_INVALID_ADDR);
        }
        end(0);
        assert_true(finish(get) < 0);
        assert_int_equal(local[1000], 0x11);
    }
}

static int open_batches;

static void batch(struct cw_conn *conn, enum cw_batch what)
{
    (void)conn;
    open_batches += (what == CW_BATCH_BEGIN || what == CW_BATCH_LONG) - (what == CW_BATCH_END);
}

/* Where the transport hands several to the system together, gets behind a first one wait for progress, unless they are
 * to be over soon; a put is given to it at once, and may leave with the next one. */
TEST(test_operations_that_are_collected)
{
    const ucp_request_param_t soon = {.op_attr_mask = UCP_OP_ATTR_FLAG_FAST_CMPL};
    ucs_status_ptr_t gets[3];

    begin();
    open_batches = 0;
    fake_packets.batch = batch;
    progress();
    for (int i = 0; i < 2; i++) {
        gets[i] = ucp_get_nbx(ep, local, 8, base(), rkey, &none);
        assert_int_equal(count_packets(CW_PACKET_GET), 1);
    }
    progress();
    assert_int_equal(count_packets(CW_PACKET_GET), 2);
    gets[2] = ucp_get_nbx(ep, local, 8, base(), rkey, &soon);
    assert_int_equal(count_packets(CW_PACKET_GET), 3);
    for (unsigned i = 0, k = 0; i < 3; k++) {
        if (records[k].id == CW_PACKET_GET) {
            feed_data(word_of(records[k].bytes, 24), 0, 8);
            assert_int_equal(finish(gets[i++]), UCS_OK);
        }
    }
    progress();
    gets[0] = ucp_get_nbx(ep, local, 8, base(), rkey, &none);
    gets[1] = ucp_get_nbx(ep, local, 8, base(), rkey, &soon);
    assert_int_equal(count_packets(CW_PACKET_GET), 5);
    progress();
    assert_int_equal(open_batches, 0);
    end(1);
    assert_true(finish(gets[0]) < 0 && finish(gets[1]) < 0);
}

/* Another peer has nothing to say about it. */
TEST(test_get_answered_by_others)
{
    uint8_t packet[sizeof(struct cw_wire_rndv_data) + 100] = {0};
    struct cw_wire_rndv_data header = {0};
    ucs_status_ptr_t get;
    ucp_ep_h other;
    uint64_t id;

    other = connected();
    begin();
    id = ask(&get, 100);
    header.receive_id = htole64(id);
    memcpy(packet, &header, sizeof(header));
    cw_op_packet(other->conn, CW_PACKET_RNDV_DATA, packet, sizeof(packet));
    assert_int_equal(other->status, UCS_ERR_IO_ERROR);
    assert_true(is_pending(get));
    check_local(0);
    feed_data(id, 0, 100);
    assert_int_equal(finish(get), UCS_OK);
    check_local(100);
    end(1);
    cw_alone_wait(worker, ucp_ep_close_nb(other, UCP_EP_CLOSE_MODE_FORCE));
}

/* While its bytes are being placed a get is not to be refused: the transport writes to its memory. */
TEST(test_get_refused_while_placed)
{
    struct cw_wire_rndv_data header = {0};
    struct iovec iov[CW_PLACE_MAX_IOV];
    ucs_status_ptr_t get;
    uint64_t id;

    begin();
    id = ask(&get, 1000);
    header.receive_id = htole64(id);
    assert_int_equal(cw_op_place(ep->conn, CW_PACKET_RNDV_DATA, &header, 400, iov), 1);
    feed_refused(id, UCS_ERR_INVALID_ADDR);
    end(0);
    assert_int_equal(finish(get), UCS_ERR_IO_ERROR);
}

/* RMA-14: never more than the owner has to bear, and never an error. */
TEST(test_window)
{
    ucs_status_ptr_t gets[CW_RMA_WINDOW + 2];
    unsigned i;

    begin();
    for (i = 0; i < CW_RMA_WINDOW + 2; i++) {
        gets[i] = ucp_get_nbx(ep, local, 8, base(), rkey, &none);
        assert_true(is_pending(gets[i]));
    }
    progress();
    assert_int_equal(count_packets(CW_PACKET_GET), CW_RMA_WINDOW);
    for (i = 0; i < CW_RMA_WINDOW + 2; i++) {
        feed_data(word_of(records[i].bytes, 24), 0, 8);
        progress();
        assert_int_equal(count_packets(CW_PACKET_GET), (i == 0) ? CW_RMA_WINDOW + 1 : CW_RMA_WINDOW + 2);
        assert_int_equal(finish(gets[i]), UCS_OK);
    }
    end(1);
}

/* R16 */
TEST(test_put_behind_get)
{
    ucs_status_ptr_t get, over, beside;
    uint64_t id;

    begin();
    id = ask(&get, 100);
    beside = ucp_put_nbx(ep, local + 200, 8, base() + 110, rkey, &none);
    assert_int_equal(finish(beside), UCS_OK);
    over = ucp_put_nbx(ep, local + 200, 8, base() + 109, rkey, &none);
    progress();
    assert_int_equal(count_packets(CW_PACKET_PUT), 1);
    assert_true(is_pending(over));
    feed_whole(id, 100);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(over), UCS_OK);
    assert_int_equal(count_packets(CW_PACKET_PUT), 2);
    end(1);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
