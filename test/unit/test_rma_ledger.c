/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ledger of counted puts (docs/RMA.md) from both ends, with a peer that comes late, never, or tells nonsense: each
 * put is carried out once, by the owner or by its origin, a flush waits for nobody longer than it must, and no byte is
 * touched beside what was allowed: RMA-5, RMA-9, RMA-12, FLU-1. The clock is the test's, so nobody waits.
 */
#include "test_rma.h"

#include "op/ledger.h"

enum { PATIENCE = 1600 /* rounds that are longer than the origin waits */, MAX_WRITES = 600 };

struct write {
    uint64_t address;
    uint64_t beacon;
    size_t length;
    uint8_t first;
};

static struct cw_board boards[CW_ALL_BOARDS];   /* those that the origin hands out; of the owner's side the same */
static uint8_t slots[MAX_RECORDS][400];         /* the transport's memory */
static struct write writes[MAX_WRITES];
static unsigned num_writes, num_reads;
static unsigned packets_taken;                  /* further ones find no room */
static ucs_status_t write_answer;
static int is_near;                             /* copies are proved to work */
static unsigned looks_until_gone;
static uint64_t now_ns, step_ns;

uint64_t cw_clock_ns(void)
{
    now_ns += step_ns;
    return now_ns;
}

static struct cw_board *fake_board(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn;
    (void)ours;
    assert_true(index < CW_ALL_BOARDS);
    return &boards[index];
}

static int fake_gone(struct cw_conn *conn)
{
    (void)conn;
    assert_true(looks_until_gone > 0);
    return --looks_until_gone == 0;
}

static int fake_ready(struct cw_conn *conn)
{
    (void)conn;
    return is_near;
}

static ucs_status_t fake_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_beacon *beacon)
{
    (void)conn;
    assert_int_equal(count, 1);
    assert_true(beacon->value == rkey->key.token);
    if (write_answer == UCS_OK) {
        assert_true(num_writes < MAX_WRITES);
        writes[num_writes++] =
            (struct write){to, beacon->address, from->iov_len, *(const uint8_t *)from->iov_base};
    }
    return write_answer;
}

static ucs_status_t fake_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_beacon *beacon)
{
    (void)conn;
    (void)from;
    assert_int_equal(count, 1);
    assert_true(beacon->value == rkey->key.token);
    memset(to->iov_base, 0xdd, to->iov_len);
    num_reads++;
    return UCS_OK;
}

/* What was sent stays, as the contract of transports with boards says. */
static ucs_status_t keeping_bcopy(struct cw_conn *conn, uint8_t id, size_t max, cw_pack_fn pack, void *arg)
{
    uint8_t *slot = slots[num_records % MAX_RECORDS];

    (void)conn;
    if (blocked || num_records >= packets_taken) {
        return CW_AGAIN;
    }
    assert_true(max <= sizeof(slots[0]));
    return record(id, slot, pack(slot, max, arg));
}

static struct cw_board *board(void)
{
    return &boards[CW_LEDGER];
}

static void begin_ledger(void)
{
    begin();
    memset(boards, 0, sizeof(boards));
    num_writes    = num_reads = 0;
    packets_taken = MAX_RECORDS;
    write_answer  = UCS_OK;
    is_near       = 1;
    step_ns       = 100;
    rkey->key.beacon          = 0x1000;
    fake_transport.send_bcopy = keeping_bcopy;
    fake_transport.peer_ready = fake_ready;
    fake_transport.peer_read  = fake_read;
    fake_transport.peer_write = fake_write;
    fake_transport.board      = fake_board;
}

/* As owner of memory, with the boards that the origin hands out. */
static void begin_owner(void)
{
    begin_ledger();
    assert_non_null(cw_rma_get(ep));
    ep->rma->owner_board = board();
}

/* No copies any more, so that the end of a test goes as in other programs. */
static void end_ledger(int lives)
{
    is_near = 0;
    end(lives);
}

static void wait_long(void)
{
    for (int i = 0; i < PATIENCE; i++) {
        ucp_worker_progress(worker);
    }
}

static void put(uint64_t offset, uint8_t value)
{
    uint8_t bytes[100];

    memset(bytes, value, sizeof(bytes));
    assert_null(ucp_put_nbx(ep, bytes, sizeof(bytes), base() + offset, rkey, &none));
}

static void feed_flushed(int32_t status)
{
    const struct cw_wire_flushed packet = {.flush_id = htole64(word_of(sent_packet(CW_PACKET_FLUSH), 0)),
                                           .status   = (int32_t)htole32((uint32_t)status)};

    feed(CW_PACKET_FLUSHED, &packet, sizeof(packet));
}

/* ---- the origin ---- */

/* The owner comes by: nothing is copied and nothing asked. */
static void test_owner_in_progress(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_ledger();
    put(0, 1);
    put(100, 2);
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 2);
    flush = ucp_ep_flush_nbx(ep, &none);
    assert_true(is_pending(flush));
    board()->done = 1;
    progress();
    assert_true(is_pending(flush));
    board()->done = 2;
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(num_writes, 0);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 0);
    assert_null(ucp_ep_flush_nbx(ep, &none));
    end_ledger(1);
}

/* The owner never does: the origin carries out what is left, in order and once. Further puts are copied at once, until
 * the owner was there. */
static void test_owner_away(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (uint32_t seen = 0; seen < 3; seen++) { /* so many the owner had done */
        begin_ledger();
        for (uint8_t i = 0; i < 40; i++) {
            put(100 * i, i);
        }
        board()->done = seen;
        flush         = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 40 - seen);
        for (unsigned i = 0; i < num_writes; i++) {
            assert_true(writes[i].address == base() + 100 * (seen + i));
            assert_int_equal(writes[i].first, seen + i);
            assert_int_equal(writes[i].length, 100);
            assert_int_equal(writes[i].beacon, 0x1000);
        }
        assert_true(board()->done == 40);
        assert_true(board()->claim == CW_LEDGER_AWAY);
        assert_int_equal(count_packets(CW_PACKET_FLUSH), 0);
        put(5000, 99);
        assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 40);
        assert_int_equal(num_writes, 41 - seen);
        assert_null(ucp_ep_flush_nbx(ep, &none));
        board()->claim = CW_LEDGER_FREE; /* it was there */
        put(5000, 98);
        assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 41);
        board()->done = 41;
        assert_null(ucp_ep_flush_nbx(ep, &none));
        end_ledger(1);
    }
}

/* The owner is late in the middle of a long put, and comes by when the origin has carried out some of it: the rest is
 * not sent once more, or a put for an owner that comes and goes would never end. */
static void test_owner_comes_and_goes(void **state)
{
    ucs_status_ptr_t request;
    unsigned pieces;

    (void)state;
    begin_ledger();
    packets_taken = 20;
    request       = ucp_put_nbx(ep, local, 24 * cw_ledger_max(ep), base(), rkey, &none);
    assert_true(is_pending(request));
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 20);
    while (num_writes == 0) {
        ucp_worker_progress(worker);
    }
    ucp_worker_progress(worker); /* it is to begin anew, once what is under way is through */
    pieces = num_writes;
    assert_in_range(pieces, 1, 19);
    packets_taken  = MAX_RECORDS;
    board()->done  = 20;
    board()->claim = CW_LEDGER_FREE;
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 20);
    assert_int_equal(num_writes, pieces + 1);
    assert_true(writes[pieces].address == base());
    assert_int_equal(writes[pieces].length, 24 * cw_ledger_max(ep));
    end_ledger(1);
}

/* CLS-4, CLS-19: a close waits for no progress of the owner, and yet what was put is there. */
static void test_close_while_owner_is_away(void **state)
{
    ucs_status_ptr_t closing;

    (void)state;
    begin_ledger();
    for (uint8_t i = 0; i < 3; i++) {
        put(100 * i, i);
    }
    closing = ucp_ep_close_nbx(ep, &none);
    assert_true(is_pending(closing));
    assert_int_equal(num_writes, 0);
    assert_int_equal(count_packets(CW_PACKET_CLOSE), 0);
    wait_long();
    assert_int_equal(finish(closing), UCS_OK);
    assert_int_equal(num_writes, 3);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 0);
    assert_int_equal(count_packets(CW_PACKET_CLOSE), 1);
    ep->conn->iface = real_iface;
    feed(CW_PACKET_CLOSE, "\0\0\0\0\0\0\0", 8);
    progress();
    ucp_rkey_destroy(rkey);
    unmap();
}

/* Somebody has the claim and does not let go: nothing is written behind his back, and what he did counts. */
static void test_claim_stuck(void **state)
{
    static const uint64_t held[] = {CW_LEDGER_OWNER, CW_LEDGER_ORIGIN, 4, 1234567, UINT64_MAX};
    ucs_status_ptr_t flush;

    (void)state;
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        begin_ledger();
        put(0, 1);
        put(100, 2);
        put(200, 3);
        board()->claim = held[i];
        flush          = ucp_ep_flush_nbx(ep, &none);
        wait_long();
        assert_true(is_pending(flush));
        assert_int_equal(num_writes, 0);
        assert_true(board()->claim == held[i]);
        board()->done  = 2;
        board()->claim = CW_LEDGER_FREE;
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 1);
        assert_int_equal(writes[0].first, 3);
        end_ledger(1);
    }
}

/* The owner dies with the claim in its hand. */
static void test_owner_dies(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_ledger();
    put(0, 1);
    board()->claim = CW_LEDGER_OWNER;
    flush          = ucp_ep_flush_nbx(ep, &none);
    wait_long();
    assert_true(is_pending(flush));
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    end_ledger(0);
    assert_int_equal(finish(flush), UCS_ERR_CONNECTION_RESET);
    assert_int_equal(num_writes, 0);
}

/* More than was sent, less than before, anything: waiting ends at worst too early, and later puts still work. */
static void test_forged_counts(void **state)
{
    static const uint32_t forged[] = {3, 4, 300, 0x7fffffff, 0x80000000, UINT32_MAX};
    ucs_status_ptr_t flush;

    (void)state;
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        begin_ledger();
        put(0, 1);
        put(100, 2);
        board()->done = 1;
        flush         = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        progress();
        board()->done = forged[i];
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 0);
        assert_int_equal(ep->rma->counted, 2);
        put(200, 3);
        flush         = ucp_ep_flush_nbx(ep, &none);
        board()->done = 3;
        assert_int_equal(finish(flush), UCS_OK);
        end_ledger(1);
    }
}

/* What the ledger says was refused is asked about, and told by the flush. */
static void test_refused(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_ledger();
    put(0, 1);
    flush         = ucp_ep_flush_nbx(ep, &none);
    board()->done = (UINT64_C(1) << 32) | 1;
    progress();
    assert_true(is_pending(flush));
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
    feed_flushed(UCS_ERR_INVALID_ADDR);
    assert_int_equal(finish(flush), UCS_ERR_INVALID_ADDR);
    assert_null(ucp_ep_flush_nbx(ep, &none));
    end_ledger(1);
}

/* Only the owner can: the system refuses, something else is on its way, or the packet is not there any more. */
static void test_rescue_refused(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (int i = 0; i < 3; i++) {
        begin_ledger();
        put(0, 1);
        put(100, 2);
        write_answer = (i == 0) ? UCS_ERR_REJECTED : UCS_OK;
        if (i == 1) {
            ep->rma->sent_mark++; /* a posted atomic */
        } else if (i == 2) {
            memset(slots[1], 0, sizeof(struct cw_wire_put));
        }
        flush = ucp_ep_flush_nbx(ep, &none);
        wait_long();
        assert_true(is_pending(flush));
        assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
        assert_int_equal(num_writes, (i == 2) ? 1 : 0);
        assert_true(board()->done == num_writes);
        assert_true(board()->claim != CW_LEDGER_ORIGIN);
        feed_flushed(UCS_OK);
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(ep->rma->carried, 2);
        end_ledger(1);
    }
}

/* No more wait than there is room for in the log; the rest is queued, and nothing is lost when the owner is away. */
static void test_full_log(void **state)
{
    enum { MORE = CW_LEDGER_PACKETS + 100 };
    uint8_t byte = 7;
    ucs_status_ptr_t puts[MORE], flush;

    (void)state;
    begin_ledger();
    for (unsigned i = 0; i < MORE; i++) {
        puts[i] = ucp_put_nbx(ep, &byte, 1, base() + i, rkey, &none);
        assert_false(UCS_PTR_IS_ERR(puts[i]));
        assert_int_equal(puts[i] == NULL, i < CW_LEDGER_PACKETS);
    }
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), CW_LEDGER_PACKETS);
    flush = ucp_ep_flush_nbx(ep, &none);
    wait_long();
    assert_int_equal(finish(flush), UCS_OK);
    for (unsigned i = 0; i < MORE; i++) {
        assert_int_equal(finish(puts[i]), UCS_OK);
    }
    assert_int_equal(num_writes, MORE);
    for (unsigned i = 0; i < MORE; i++) {
        assert_true(writes[i].address == base() + i);
    }
    end_ledger(1);
}

/* ---- gets ---- */

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
    begin_ledger();
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
    assert_int_equal(ep->rma->replies + ep->rma->num_orphans, 0);
    end_ledger(1);
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
    begin_ledger();
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
    assert_int_equal(ep->rma->replies + ep->rma->num_late + ep->rma->num_quick, 0);
    end_ledger(1);
}

/* A long get is asked for part by part, and over when all of them are, with the first that failed. */
static void test_get_in_parts(void **state)
{
    static const ucs_status_t answers[] = {UCS_OK, UCS_ERR_INVALID_ADDR};
    ucs_status_ptr_t request;
    uint64_t id;

    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_ledger();
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
        assert_int_equal(ep->rma->replies + ep->rma->num_late + ep->rma->num_quick, 0);
        end_ledger(1);
    }
}

/* Parts that nobody answers are copied. */
static void test_get_in_parts_from_nobody(void **state)
{
    ucs_status_ptr_t request;

    (void)state;
    begin_ledger();
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
    end_ledger(1);
}

/* What was not asked for costs the connection, also once the system has copied, and no byte beside is touched. */
static void test_get_answered_wrongly(void **state)
{
    ucs_status_ptr_t request;
    uint64_t id;

    (void)state;
    for (int copied = 0; copied < 2; copied++) {
        for (int i = 0; i < 10; i++) {
            begin_ledger();
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
            end_ledger(0);
            if (!copied) {
                assert_int_equal(finish(request), (i == 8) ? UCS_OK : UCS_ERR_IO_ERROR);
            }
            assert_int_equal(local[100], 0x11);
        }
    }
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
    begin_ledger();
    assert_true(is_pending(ucp_get_nbx(ep, local, 100, base(), rkey, &param)));
    assert_true(is_pending(ucp_get_nbx(ep, local, 100, base(), rkey, &param)));
    wait_long();
    wait_long();
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(num_reads, 2);
    assert_int_equal(num_writes, 2);
    feed_data(word_of(records[0].bytes, 24), 0, 100);
    feed_data(word_of(records[1].bytes, 24), 0, 100);
    end_ledger(1);
}

/* ---- the owner ---- */

static void feed_counted(uint64_t token, uint64_t address, size_t length)
{
    uint8_t packet[sizeof(struct cw_wire_put) + 2 * ROOM];
    const struct cw_wire_put header = {.token = htole64(token), .address = htole64(address)};

    memset(packet, 0xee, sizeof(packet));
    memcpy(packet, &header, sizeof(header));
    feed(CW_PACKET_PUT_COUNTED, packet, sizeof(header) + length);
}

static void test_owner_carries_out(void **state)
{
    (void)state;
    begin_owner();
    feed_counted(rkey->key.token, base(), 10);
    feed_counted(rkey->key.token, base() + 10, 90);
    check_rest(0, 100);
    assert_int_equal(memory[GUARD], 0xee);
    assert_int_equal(memory[GUARD + 99], 0xee);
    assert_true(board()->done == 2);
    assert_true(board()->claim == CW_LEDGER_FREE);
    feed_counted(rkey->key.token ^ 1, base() + 200, 8);        /* refused, and counted */
    feed_counted(rkey->key.token, base() + ROOM - 7, 8);
    feed_counted(rkey->key.token, base() - 1, 8);
    check_rest(0, 100);
    assert_true(board()->done == ((UINT64_C(3) << 32) | 5));
    assert_int_equal(ep->rma->refused, UCS_ERR_INVALID_ADDR);
    end_ledger(1);
}

/* What the origin has carried out is passed over; that the owner was there is to be seen. */
static void test_owner_passes_over(void **state)
{
    (void)state;
    begin_owner();
    board()->done  = 2;
    board()->claim = CW_LEDGER_AWAY;
    feed_counted(rkey->key.token, base(), 10);
    assert_true(board()->claim == CW_LEDGER_FREE);
    feed_counted(rkey->key.token, base() + 100, 10);
    check_rest(0, 0);
    assert_true(board()->done == 2);
    feed_counted(rkey->key.token, base() + 200, 10);
    check_rest(200, 10);
    assert_int_equal(memory[GUARD + 200], 0xee);
    assert_true(board()->done == 3);
    end_ledger(1);
}

/* A count that is neither: the origin's own packets are passed over, and that is all. */
static void test_owner_with_forged_counts(void **state)
{
    static const uint64_t forged[] = {2, 1000, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63 | 5};

    (void)state;
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        begin_owner();
        board()->done = forged[i];
        feed_counted(rkey->key.token, base(), 10);
        check_rest(0, 0);
        assert_true(board()->done == forged[i]);
        assert_true(board()->claim == CW_LEDGER_FREE);
        end_ledger(1);
    }
}

/* An origin that begins and does not end, or writes nonsense there: the owner does not wait for ever. */
static void test_owner_does_not_wait_for_ever(void **state)
{
    static const uint64_t held[] = {CW_LEDGER_ORIGIN, CW_LEDGER_OWNER, 5, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        begin_owner();
        board()->claim = held[i];
        step_ns        = UINT64_C(100000000);
        feed_counted(rkey->key.token, base(), 10);
        assert_int_equal(ep->status, UCS_ERR_ENDPOINT_TIMEOUT);
        check_rest(0, 0);
        end_ledger(0);
    }
}

/* Nor for one that died in the middle of it, however long it takes to find out (ERR-1). */
static void test_owner_does_not_wait_for_the_dead(void **state)
{
    (void)state;
    begin_owner();
    board()->claim           = CW_LEDGER_ORIGIN;
    step_ns                  = 0; /* no time passes */
    fake_transport.peer_gone = fake_gone;
    looks_until_gone         = 5;
    feed_counted(rkey->key.token, base(), 10);
    assert_int_equal(looks_until_gone, 0);
    assert_int_equal(ep->status, UCS_ERR_CONNECTION_RESET);
    check_rest(0, 0);
    end_ledger(0);
    fake_transport.peer_gone = NULL;
}

static void test_cut_short(void **state)
{
    uint8_t bytes[sizeof(struct cw_wire_put)] = {0};

    (void)state;
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        begin_ledger();
        feed(CW_PACKET_PUT_COUNTED, bytes, length);
        end_ledger(0);
    }
    begin_ledger(); /* over a connection that has no such thing */
    fake_transport.board = NULL;
    feed_counted(rkey->key.token, base(), 10);
    check_rest(0, 0);
    end_ledger(0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner_in_progress),
        cmocka_unit_test(test_owner_away),
        cmocka_unit_test(test_owner_comes_and_goes),
        cmocka_unit_test(test_close_while_owner_is_away),
        cmocka_unit_test(test_claim_stuck),
        cmocka_unit_test(test_owner_dies),
        cmocka_unit_test(test_forged_counts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rescue_refused),
        cmocka_unit_test(test_full_log),
        cmocka_unit_test(test_get_asks_again),
        cmocka_unit_test(test_get_answered),
        cmocka_unit_test(test_get_in_parts),
        cmocka_unit_test(test_get_in_parts_from_nobody),
        cmocka_unit_test(test_get_answered_wrongly),
        cmocka_unit_test(test_flush_in_callback_of_copied),
        cmocka_unit_test(test_owner_carries_out),
        cmocka_unit_test(test_owner_passes_over),
        cmocka_unit_test(test_owner_with_forged_counts),
        cmocka_unit_test(test_owner_does_not_wait_for_ever),
        cmocka_unit_test(test_owner_does_not_wait_for_the_dead),
        cmocka_unit_test(test_cut_short),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
