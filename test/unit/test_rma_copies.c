/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts and gets that the system copies between two processes (rma/cma.h): at every length, in the call, without a
 * packet and whatever the owner does; in packets where the system cannot copy; and after what a fence has put before
 * them. RMA-1, RMA-2, RMA-9, FLU-1, FLU-20, FLU-23.
 */
#include "test_rma.h"

static struct cw_transport_copies fake_group;
static unsigned num_writes, num_reads;
static int can_copy;
static int fails;
static size_t longest;

static int fake_ready(struct cw_conn *conn)
{
    (void)conn;
    return can_copy;
}

static size_t bytes_of(const struct iovec *iov, unsigned count)
{
    size_t length = 0;

    for (unsigned i = 0; i < count; i++) {
        length += iov[i].iov_len;
    }
    longest = (length > longest) ? length : longest;
    return length;
}

/* Also leaves part of the bytes behind when it fails, as the system may. */
static ucs_status_t move(const struct iovec *iov, unsigned count, char *there, int writes,
                         const struct cw_validity *validity)
{
    assert_true(validity->value == rkey->key.token && validity->address == rkey->key.validity);
    (void)bytes_of(iov, count);
    for (unsigned i = 0; i < count; i++) {
        memcpy(writes ? there : iov[i].iov_base, writes ? iov[i].iov_base : there, iov[i].iov_len);
        there += iov[i].iov_len;
    }
    return fails ? UCS_ERR_REJECTED : UCS_OK;
}

static ucs_status_t fake_write(struct cw_conn *conn, const struct iovec *from, unsigned count, uint64_t to,
                               const struct cw_validity *validity)
{
    (void)conn;
    num_writes++;
    return move(from, count, (char *)(uintptr_t)to, 1, validity);
}

static ucs_status_t fake_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity)
{
    (void)conn;
    num_reads++;
    return move(to, count, (char *)(uintptr_t)from, 0, validity);
}

static void begin_copies(void)
{
    begin();
    fake_group = (struct cw_transport_copies){.ready = fake_ready, .read = fake_read, .write = fake_write};
    fake_transport.copies = &fake_group;
    rkey->key.validity = 0x1000;
    num_writes = num_reads = 0;
    longest = 0;
    fails = 0;
    can_copy = 1;
}

/* No copies any more, so that the end of a test goes as in other programs. */
static void end_copies(void)
{
    can_copy = 0;
    end(1);
}

static void feed_flushed(void)
{
    const struct cw_wire_flushed packet = {.flush_id = htole64(word_of(sent_packet(CW_PACKET_FLUSH), 0))};

    feed(CW_PACKET_FLUSHED, &packet, sizeof(packet));
}

/* The owner does nothing at all. */
TEST(test_every_length_in_the_call)
{
    static const size_t lengths[] = {1, 8, 4000, ROOM};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        begin_copies();
        assert_null(ucp_get_nbx(ep, local, lengths[i], base(), rkey, &none));
        assert_memory_equal(local, memory + GUARD, lengths[i]);
        memset(local, 0x77, lengths[i]);
        assert_null(ucp_put_nbx(ep, local, lengths[i], base(), rkey, &none));
        assert_memory_equal(memory + GUARD, local, lengths[i]);
        check_rest(0, lengths[i]);
        assert_null(ucp_ep_flush_nbx(ep, &none));
        assert_int_equal(num_records, 0);
        assert_true(num_reads > 0 && num_writes > 0);
        end_copies();
    }
}

/* A long one in parts of at most one MiB, each of which asks the validity word anew. */
TEST(test_long_ones_in_parts)
{
    enum { PART = 1 << 20, LENGTH = 4 * PART };
    char *from = calloc(1, LENGTH), *to = malloc(LENGTH);

    assert_true(from != NULL && to != NULL);
    begin_copies();
    rkey->key.address = (uintptr_t)from;
    rkey->key.length = LENGTH;
    memset(to, 0x31, LENGTH);
    assert_null(ucp_put_nbx(ep, to, LENGTH, (uintptr_t)from, rkey, &none));
    memset(to, 0, LENGTH);
    assert_null(ucp_get_nbx(ep, to, LENGTH, (uintptr_t)from, rkey, &none));
    assert_true(to[0] == 0x31 && to[LENGTH / 2] == 0x31 && to[LENGTH - 1] == 0x31);
    assert_int_equal(num_writes, num_reads);
    assert_in_range(num_writes, LENGTH / PART, 64);
    assert_in_range(longest, 1, PART);
    assert_int_equal(num_records, 0);
    end_copies();
    free(from);
    free(to);
}

TEST(test_lists_and_requests)
{
    ucp_dt_iov_t list[] = {{local, 30}, {local + 100, 0}, {local + 200, 70}};
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .datatype = ucp_dt_make_iov()};

    begin_copies();
    assert_int_equal(finish(ucp_put_nbx(ep, list, 3, base() + 5, rkey, &param)), UCS_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(memory[GUARD + 5 + i], 0x11);
    }
    check_rest(5, 100);
    assert_int_equal(finish(ucp_get_nbx(ep, list, 3, base() + 300, rkey, &param)), UCS_OK);
    assert_memory_equal(local, memory + GUARD + 300, 30);
    assert_memory_equal(local + 200, memory + GUARD + 330, 70);
    assert_int_equal(local[30], 0x11);
    assert_int_equal(num_records, 0);
    end_copies();
}

/* Where the system refuses, even in the middle, the owner is asked for all of it. */
TEST(test_a_copy_that_fails)
{
    ucs_status_ptr_t get;

    begin_copies();
    fails = 1;
    get = ucp_get_nbx(ep, local, 100, base(), rkey, &none);
    assert_true(is_pending(get) && num_reads > 0);
    assert_true(word_of(sent_packet(CW_PACKET_GET), 8) == base());
    feed_data(word_of(sent_packet(CW_PACKET_GET), 24), 0, 100);
    assert_int_equal(finish(get), UCS_OK);
    assert_true(local[0] == 0xee && local[99] == 0xee);
    memset(local, 0x22, 100);
    assert_null(ucp_put_nbx(ep, local, 100, base() + 1000, rkey, &none));
    assert_true(num_writes > 0);
    assert_int_equal(count_packets(CW_PACKET_PUT), 1);
    assert_int_equal(sent_packet(CW_PACKET_PUT)[sizeof(struct cw_wire_put)], 0x22);
    end_copies();
}

/* A copy must not overtake packets that a fence has put before it; without a fence nothing holds it. */
TEST(test_behind_a_fence)
{
    ucs_status_ptr_t put, get, flush;

    begin_copies();
    can_copy = 0;
    assert_null(ucp_put_nbx(ep, local, 100, base(), rkey, &none)); /* a packet, which the owner has not carried out */
    assert_int_equal(count_packets(CW_PACKET_PUT), 1);
    can_copy = 1;
    assert_null(ucp_put_nbx(ep, local, 8, base() + 500, rkey, &none));
    assert_int_equal(num_writes, 1);
    assert_int_equal(ucp_worker_fence(worker), UCS_OK);
    put = ucp_put_nbx(ep, local, 8, base(), rkey, &none);
    get = ucp_get_nbx(ep, local + 100, 8, base(), rkey, &none);
    assert_true(is_pending(put) && is_pending(get));
    flush = ucp_ep_flush_nbx(ep, &none);
    progress();
    assert_true(is_pending(put) && is_pending(get) && is_pending(flush));
    assert_int_equal(num_writes, 1);
    assert_int_equal(count_packets(CW_PACKET_FLUSH), 1);
    feed_flushed();
    assert_int_equal(finish(put), UCS_OK);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(flush), UCS_OK);
    assert_int_equal(num_writes, 2);
    assert_int_equal(num_reads, 1);
    assert_null(ucp_ep_flush_nbx(ep, &none));
    end_copies();
}

/* Only a fence moves the marks that later operations are held by, and a program may never call one: after any number
 * of packets that were confirmed long ago, an operation that needs no packets begins at once. */
TEST(test_no_fence_for_long)
{
    static const uint64_t numbers[] = {1, INT32_MAX, UINT64_C(1) << 31, UINT32_MAX - 1, UINT32_MAX};
    struct cw_rma *rma;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        begin_copies();
        rma = cw_rma_get(ep);
        assert_non_null(rma);
        rma->sent_mark = rma->asked_mark = rma->acked_mark = numbers[i];
        assert_true(cw_rma_is_clear(ep, base(), 8, 1));
        assert_null(ucp_put_nbx(ep, local, 100, base() + 100, rkey, &none));
        assert_null(ucp_ep_flush_nbx(ep, &none));
        assert_int_equal(ucp_worker_fence(worker), UCS_OK);
        assert_null(ucp_put_nbx(ep, local, 100, base() + 100, rkey, &none));
        assert_int_equal(num_writes, 2);
        end_copies();
    }
}

/* A get by packets is still to read bytes: a copy must not change them (R16). */
TEST(test_behind_a_late_get)
{
    ucs_status_ptr_t get, put;

    begin_copies();
    can_copy = 0;
    get = ucp_get_nbx(ep, local, 100, base(), rkey, &none);
    assert_true(is_pending(get));
    can_copy = 1;
    assert_null(ucp_put_nbx(ep, local + 500, 8, base() + 100, rkey, &none));
    put = ucp_put_nbx(ep, local + 500, 8, base() + 99, rkey, &none);
    progress();
    assert_true(is_pending(put));
    assert_int_equal(num_writes, 1);
    feed_data(word_of(sent_packet(CW_PACKET_GET), 24), 0, 100);
    assert_int_equal(finish(get), UCS_OK);
    assert_int_equal(finish(put), UCS_OK);
    assert_int_equal(num_writes, 2);
    end_copies();
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
