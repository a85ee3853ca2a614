/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counted puts (docs/change/one-sided.md) from both ends, with a peer that comes late, never, or tells nonsense: each
 * put is carried out once, by the owner or by its origin, a flush waits for nobody longer than it must, and no byte is
 * touched beside what was allowed: RMA-5, RMA-9, RMA-12, FLU-1. The clock is the test's, so nobody waits.
 */
#include "test_rma_counted.h"

/* ---- the origin ---- */

/* The owner comes by: nothing is copied and nothing asked. */
static void test_owner_in_progress(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_counted();
    put(0, 1);
    put(100, 2);
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 2);
    flush = ucp_ep_flush_nbx(ep, &none);
    assert_true(is_pending(flush));
    pair()->done = 1;
    progress();
    assert_true(is_pending(flush));
    pair()->done = 2;
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(num_writes, 0);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 0);
    assert_null(ucp_ep_flush_nbx(ep, &none));
    end_counted(1);
}

/* It may be through at any moment, also when the origin was just about to go on without it. */
static void test_owner_is_through_at_last(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (int rounds = 0; rounds < 300; rounds++) {
        begin_counted();
        for (uint8_t i = 0; i < 40; i++) {
            put(100 * i, i);
        }
        flush = ucp_ep_flush_nbx(ep, &none);
        for (int i = 0; i < rounds && num_writes == 0; i++) {
            ucp_worker_progress(worker);
        }
        pair()->done  = 40;
        pair()->claim = CW_COUNTED_FREE;
        assert_int_equal(finish(flush), UCS_OK);
        end_counted(1);
    }
}

/* The owner never does: the origin carries out what is left, in order and once. Further puts are copied at once, until
 * the owner was there. */
static void test_owner_away(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (uint32_t seen = 0; seen < 3; seen++) { /* so many the owner had done */
        begin_counted();
        for (uint8_t i = 0; i < 40; i++) {
            put(100 * i, i);
        }
        pair()->done  = seen;
        flush         = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 40 - seen);
        for (unsigned i = 0; i < num_writes; i++) {
            assert_true(writes[i].address == base() + 100 * (seen + i));
            assert_int_equal(writes[i].first, seen + i);
            assert_int_equal(writes[i].length, 100);
            assert_int_equal(writes[i].validity, 0x1000);
        }
        assert_true(pair()->done == 40);
        assert_true(pair()->claim == CW_COUNTED_AWAY);
        assert_int_equal(count_packets(CW_PACKET_FLUSH), 0);
        put(5000, 99);
        assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 40);
        assert_int_equal(num_writes, 41 - seen);
        assert_null(ucp_ep_flush_nbx(ep, &none));
        pair()->claim = CW_COUNTED_FREE; /* it was there */
        put(5000, 98);
        assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 41);
        pair()->done = 41;
        assert_null(ucp_ep_flush_nbx(ep, &none));
        end_counted(1);
    }
}

/* The owner is late in the middle of a long put, and comes by when the origin has carried out some of it: the rest is
 * not sent once more, or a put for an owner that comes and goes would never end. */
static void test_owner_comes_and_goes(void **state)
{
    ucs_status_ptr_t request;
    unsigned pieces;

    (void)state;
    begin_counted();
    packets_taken = 20;
    request       = ucp_put_nbx(ep, local, 24 * cw_counted_max(ep), base(), rkey, &none);
    assert_true(is_pending(request));
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 20);
    while (num_writes == 0) {
        ucp_worker_progress(worker);
    }
    ucp_worker_progress(worker); /* it is to begin anew, once what is under way is through */
    pieces = num_writes;
    assert_in_range(pieces, 1, 19);
    packets_taken  = MAX_RECORDS;
    pair()->done   = 20;
    pair()->claim  = CW_COUNTED_FREE;
    assert_int_equal(finish(request), UCS_OK);
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 20);
    assert_int_equal(num_writes, pieces + 1);
    assert_true(writes[pieces].address == base());
    assert_int_equal(writes[pieces].length, 24 * cw_counted_max(ep));
    end_counted(1);
}

/* CLS-4, CLS-19: a close waits for no progress of the owner, and yet what was put is there. */
static void test_close_while_owner_is_away(void **state)
{
    ucs_status_ptr_t closing;

    (void)state;
    begin_counted();
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
    static const uint64_t held[] = {CW_COUNTED_OWNER, CW_COUNTED_ORIGIN, CW_COUNTED_SHUT + 1, 1234567, UINT64_MAX};
    ucs_status_ptr_t flush;

    (void)state;
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        begin_counted();
        put(0, 1);
        put(100, 2);
        put(200, 3);
        pair()->claim  = held[i];
        flush          = ucp_ep_flush_nbx(ep, &none);
        wait_long();
        assert_true(is_pending(flush));
        assert_int_equal(num_writes, 0);
        assert_true(pair()->claim == held[i]);
        for (int round = 0; round < PATIENCE; round++) { /* GEN-9: looks in vain are no work */
            assert_int_equal(ucp_worker_progress(worker), 0);
        }
        pair()->done  = 2;
        pair()->claim = CW_COUNTED_FREE;
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 1);
        assert_int_equal(writes[0].first, 3);
        end_counted(1);
    }
}

/* The owner dies with the claim in its hand. */
static void test_owner_dies(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_counted();
    put(0, 1);
    pair()->claim  = CW_COUNTED_OWNER;
    flush          = ucp_ep_flush_nbx(ep, &none);
    wait_long();
    assert_true(is_pending(flush));
    cw_ep_fail(ep, UCS_ERR_CONNECTION_RESET);
    end_counted(0);
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
        begin_counted();
        put(0, 1);
        put(100, 2);
        pair()->done  = 1;
        flush         = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        progress();
        pair()->done = forged[i];
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 0);
        assert_int_equal(cw_op_ep(ep)->rma->counted, 2);
        put(200, 3);
        flush         = ucp_ep_flush_nbx(ep, &none);
        pair()->done  = 3;
        assert_int_equal(finish(flush), UCS_OK);
        end_counted(1);
    }
}

/* What the claim pair says was refused is asked about, and told by the flush. */
static void test_refused(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_counted();
    put(0, 1);
    flush         = ucp_ep_flush_nbx(ep, &none);
    pair()->done  = (UINT64_C(1) << 32) | 1;
    progress();
    assert_true(is_pending(flush));
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
    feed_flushed(UCS_ERR_INVALID_ADDR);
    assert_int_equal(finish(flush), UCS_ERR_INVALID_ADDR);
    assert_null(ucp_ep_flush_nbx(ep, &none));
    end_counted(1);
}

/* Only the owner can: the system refuses, something else is on its way, or the packet is not there any more. */
static void test_rescue_refused(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    for (int i = 0; i < 3; i++) {
        begin_counted();
        put(0, 1);
        put(100, 2);
        write_answer = (i == 0) ? UCS_ERR_REJECTED : UCS_OK;
        if (i == 1) {
            cw_op_ep(ep)->rma->sent_mark++; /* a posted atomic */
        } else if (i == 2) {
            memset(slots[1], 0, sizeof(struct cw_wire_put));
        }
        flush = ucp_ep_flush_nbx(ep, &none);
        wait_long();
        assert_true(is_pending(flush));
        assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
        assert_int_equal(num_writes, (i == 2) ? 1 : 0);
        assert_true(pair()->done == num_writes);
        assert_true(pair()->claim != CW_COUNTED_ORIGIN);
        feed_flushed(UCS_OK);
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(cw_op_ep(ep)->rma->carried, 2);
        end_counted(1);
    }
}

/* An owner of release 1.0 keeps the claim for good once it was kept waiting: only it carries out, and is asked. */
static void test_shut_by_the_owner(void **state)
{
    ucs_status_ptr_t flush;

    (void)state;
    begin_counted();
    put(0, 1);
    pair()->claim = CW_COUNTED_SHUT;
    put(100, 2);
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), 2);
    flush = ucp_ep_flush_nbx(ep, &none);
    wait_long();
    assert_true(is_pending(flush));
    assert_int_equal(num_writes, 0);
    assert_true(pair()->claim == CW_COUNTED_SHUT);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
    feed_flushed(UCS_OK);
    assert_int_equal(finish(flush), UCS_OK);
    put(200, 3);
    flush         = ucp_ep_flush_nbx(ep, &none);
    pair()->done  = 3; /* in progress it is as fast as ever */
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
    end_counted(1);
}

/* No more wait than there is room for in the log; the rest is queued, and nothing is lost when the owner is away. */
static void test_full_log(void **state)
{
    enum { MORE = CW_COUNTED_PACKETS + 100 };
    uint8_t byte = 7;
    ucs_status_ptr_t puts[MORE], flush;

    (void)state;
    begin_counted();
    for (unsigned i = 0; i < MORE; i++) {
        puts[i] = ucp_put_nbx(ep, &byte, 1, base() + i, rkey, &none);
        assert_false(UCS_PTR_IS_ERR(puts[i]));
        assert_int_equal(puts[i] == NULL, i < CW_COUNTED_PACKETS);
    }
    assert_int_equal(count_packets(CW_PACKET_PUT_COUNTED), CW_COUNTED_PACKETS);
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
    end_counted(1);
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
    assert_true(pair()->done == 2);
    assert_true(pair()->claim == CW_COUNTED_FREE);
    feed_counted(rkey->key.token ^ 1, base() + 200, 8);        /* refused, and counted */
    feed_counted(rkey->key.token, base() + ROOM - 7, 8);
    feed_counted(rkey->key.token, base() - 1, 8);
    check_rest(0, 100);
    assert_true(pair()->done == ((UINT64_C(3) << 32) | 5));
    assert_int_equal(cw_op_ep(ep)->rma->refused, UCS_ERR_INVALID_ADDR);
    end_counted(1);
}

/* What the origin has carried out is passed over; that the owner was there is to be seen. */
static void test_owner_passes_over(void **state)
{
    (void)state;
    begin_owner();
    pair()->done  = 2;
    pair()->claim = CW_COUNTED_AWAY;
    feed_counted(rkey->key.token, base(), 10);
    assert_true(pair()->claim == CW_COUNTED_FREE);
    feed_counted(rkey->key.token, base() + 100, 10);
    check_rest(0, 0);
    assert_true(pair()->done == 2);
    feed_counted(rkey->key.token, base() + 200, 10);
    check_rest(200, 10);
    assert_int_equal(memory[GUARD + 200], 0xee);
    assert_true(pair()->done == 3);
    end_counted(1);
}

/* A count that is neither: the origin's own packets are passed over, and that is all. */
static void test_owner_with_forged_counts(void **state)
{
    static const uint64_t forged[] = {2, 1000, UINT32_MAX, UINT64_MAX, UINT64_C(1) << 63 | 5};

    (void)state;
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        begin_owner();
        pair()->done = forged[i];
        feed_counted(rkey->key.token, base(), 10);
        check_rest(0, 0);
        assert_true(pair()->done == forged[i]);
        assert_true(pair()->claim == CW_COUNTED_FREE);
        end_counted(1);
    }
}

/* What no origin writes there costs the connection at once. */
static void test_owner_does_not_wait_for_nonsense(void **state)
{
    static const uint64_t held[] = {CW_COUNTED_OWNER, CW_COUNTED_SHUT, 5, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        begin_owner();
        pair()->claim = held[i];
        feed_counted(rkey->key.token, base(), 10);
        assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
        check_rest(0, 0);
        end_counted(0);
    }
}

static unsigned looks_until_free;

/* The origin holds the claim for so many looks. */
static int frees_the_claim(struct cw_conn *conn)
{
    (void)conn;
    assert_true(looks_until_free > 0);
    if (--looks_until_free == 0) {
        pair()->claim = CW_COUNTED_FREE;
    }
    return 0;
}

/* An origin that was stopped for hours in the middle of a put, or lost its processor again and again: it is no worse a
 * peer afterwards, and one line tells what is waited for. */
static void test_owner_waits_for_the_living(void **state)
{
    static const uint64_t steps[] = {20000, 1000000, UINT64_C(100000000), UINT64_C(10000000000)};
    uint64_t packets;

    (void)state;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        begin_owner();
        fake_copies.gone = frees_the_claim;
        for (packets = 0; packets < 200; packets++) {
            pair()->claim    = CW_COUNTED_ORIGIN;
            looks_until_free = 500;
            step_ns          = steps[i];
            feed_counted(rkey->key.token, base() + packets, 1);
            assert_int_equal(looks_until_free, 0);
            assert_int_equal(ep->state, CW_EP_OPEN);
            assert_true(pair()->claim == CW_COUNTED_FREE); /* the origin may take it again */
            assert_true(pair()->done == packets + 1);
        }
        check_rest(0, packets);
        fake_copies.gone = NULL;
        end_counted(1);
    }
}

/* It does not wait for one that died in the middle of it, however long it takes to find out (ERR-1). */
static void test_owner_does_not_wait_for_the_dead(void **state)
{
    (void)state;
    begin_owner();
    pair()->claim            = CW_COUNTED_ORIGIN;
    step_ns                  = 0; /* no time passes */
    fake_copies.gone = fake_gone;
    looks_until_gone = 5;
    feed_counted(rkey->key.token, base(), 10);
    assert_int_equal(looks_until_gone, 0);
    assert_int_equal(ep->status, UCS_ERR_CONNECTION_RESET);
    check_rest(0, 0);
    end_counted(0);
    fake_copies.gone = NULL;
}

static void test_cut_short(void **state)
{
    uint8_t bytes[sizeof(struct cw_wire_put)] = {0};

    (void)state;
    for (size_t length = 0; length <= sizeof(bytes); length++) {
        begin_counted();
        feed(CW_PACKET_PUT_COUNTED, bytes, length);
        end_counted(0);
    }
    begin_counted(); /* over a connection that has no such thing */
    fake_transport.copies = NULL;
    feed_counted(rkey->key.token, base(), 10);
    check_rest(0, 0);
    end_counted(0);
}

/* ---- many operations ---- */

/* Only a fence moves the marks that later operations are held by, and a program may never call one: after any number
 * of packets that were confirmed long ago, an operation that needs no packets begins at once. */
static void test_no_fence_for_long(void **state)
{
    static const uint64_t numbers[] = {1, INT32_MAX, UINT64_C(1) << 31, UINT32_MAX - 1, UINT32_MAX};
    struct cw_rma *rma;

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        for (int counted = 0; counted < 2; counted++) {
            begin_counted();
            put(0, 1);
            pair()->done = 1;
            assert_null(ucp_ep_flush_nbx(ep, &none));
            rma = cw_op_ep(ep)->rma;
            if (counted) {
                rma->counted = rma->carried = rma->told_carried = numbers[i];
                pair()->done                = numbers[i];
            } else {
                rma->sent_mark = rma->asked_mark = rma->acked_mark = numbers[i];
            }
            assert_true(cw_rma_is_clear(ep, base(), 8, 1));
            pair()->claim = CW_COUNTED_AWAY; /* the system is to copy */
            rma->absent   = 1;
            put(100, 2);
            assert_int_equal(num_writes, 1);
            assert_null(ucp_ep_flush_nbx(ep, &none));
            assert_int_equal(ucp_worker_fence(worker), UCS_OK);
            put(100, 3);
            assert_int_equal(num_writes, 2);
            end_counted(1);
        }
    }
}

/* Counted packets whose number passes that of the claim pair, which has 32 bits: carried out by the owner, then by the
 * origin, then by the owner again. */
static void test_count_wraps(void **state)
{
    ucs_status_ptr_t flush;
    struct cw_rma *rma;

    (void)state;
    for (uint32_t before = 0; before < 50; before++) {
        begin_counted();
        put(0, 1);
        pair()->done = 1;
        assert_null(ucp_ep_flush_nbx(ep, &none));
        rma          = cw_op_ep(ep)->rma;
        rma->counted = rma->carried = rma->told_carried = (uint32_t)-before;
        assert_int_equal(ucp_worker_fence(worker), UCS_OK);
        for (uint8_t i = 0; i < 40; i++) {
            put(100 * i, i);
        }
        pair()->done = (uint32_t)(10 - before);
        flush        = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        wait_long();
        assert_int_equal(finish(flush), UCS_OK);
        assert_int_equal(num_writes, 30);
        assert_true(pair()->done == (uint32_t)(40 - before));
        assert_int_equal(ucp_worker_fence(worker), UCS_OK);
        pair()->claim = CW_COUNTED_FREE;
        put(5000, 98);
        assert_int_equal(num_writes, 30);
        flush = ucp_ep_flush_nbx(ep, &none);
        assert_true(is_pending(flush));
        pair()->done = (uint32_t)(41 - before);
        assert_int_equal(finish(flush), UCS_OK);
        end_counted(1);
    }
    for (uint32_t before = 0; before < 5; before++) { /* as owner */
        begin_owner();
        cw_op_ep(ep)->rma->counted_here = (uint32_t)-before;
        pair()->done                    = (uint32_t)-before;
        for (uint32_t i = 1; i < 10; i++) {
            feed_counted(rkey->key.token, base(), 10);
            assert_true(pair()->done == (uint32_t)(i - before));
        }
        end_counted(1);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_owner_in_progress),
        cmocka_unit_test(test_owner_is_through_at_last),
        cmocka_unit_test(test_owner_away),
        cmocka_unit_test(test_owner_comes_and_goes),
        cmocka_unit_test(test_close_while_owner_is_away),
        cmocka_unit_test(test_claim_stuck),
        cmocka_unit_test(test_owner_dies),
        cmocka_unit_test(test_forged_counts),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rescue_refused),
        cmocka_unit_test(test_shut_by_the_owner),
        cmocka_unit_test(test_full_log),
        cmocka_unit_test(test_owner_carries_out),
        cmocka_unit_test(test_owner_passes_over),
        cmocka_unit_test(test_owner_with_forged_counts),
        cmocka_unit_test(test_owner_does_not_wait_for_nonsense),
        cmocka_unit_test(test_owner_waits_for_the_living),
        cmocka_unit_test(test_owner_does_not_wait_for_the_dead),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_no_fence_for_long),
        cmocka_unit_test(test_count_wraps),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
