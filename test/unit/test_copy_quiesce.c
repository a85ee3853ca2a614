/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A sender that takes shares of messages for us and never ends them (rndv/recv.h): when the endpoint is lost, the
 * receiver waits for all of them together, once, some milliseconds. ERR-9.
 */
#include "test_rma.h"

#include "rndv/shares.h"

enum { LENGTH = 8 << 20, COPIES = CW_CLAIM_PAIRS, MS = 1000000 };

static struct cw_claim_pair pairs[CW_CLAIM_PAIRS];
static uint64_t now_ns, step_ns = 100;

uint64_t cw_clock_ns(void)
{
    now_ns += step_ns;
    return now_ns;
}

/* Shares that nobody else has taken. */
static void take_shares(void)
{
    for (unsigned i = 0; i < COPIES; i++) {
        pairs[i].claim |= 1000;
    }
}

static int fake_ready(struct cw_conn *conn)
{
    (void)conn;
    return 1;
}

/* Before this side has taken one. */
static ucs_status_t fake_read(struct cw_conn *conn, const struct iovec *to, unsigned count, uint64_t from,
                              const struct cw_validity *validity)
{
    (void)conn, (void)to, (void)count, (void)from, (void)validity;
    return UCS_OK;
}

static struct cw_claim_pair *fake_pair(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn, (void)ours;
    assert_true(index < CW_CLAIM_PAIRS);
    return &pairs[index];
}

static const struct cw_transport_copies fake_group = {.ready = fake_ready, .read = fake_read, .pair = fake_pair};

static void really_close(struct cw_conn *conn)
{
    conn->iface = real_iface;
    real_iface->transport->connect->close_conn(conn);
}

static void announce(uint64_t number)
{
    const struct cw_wire_tag_rts rts = {
        .tag = htole64(number),
        .rts = {.length = htole64(LENGTH), .send_id = htole64(number), .address = htole64(4096)}};

    feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
}

TEST(test_shares_that_never_end)
{
    ucs_status_ptr_t receives[COPIES];
    char *in = malloc(LENGTH);
    uint64_t begun_ns;

    assert_non_null(in);
    begin();
    fake_transport.copies = &fake_group;
    for (unsigned i = 0; i < COPIES; i++) {
        receives[i] = ucp_tag_recv_nbx(worker, in, LENGTH, 1 + i, UINT64_MAX, &none);
        announce(1 + i);
        assert_true(is_pending(receives[i]));
    }
    assert_int_equal(count_packets(CW_PACKET_RNDV_READY), COPIES);
    take_shares();
    fake_connect.close_conn = really_close;
    begun_ns = now_ns;
    step_ns = 1000;
    cw_ep_fail(ep, UCS_ERR_IO_ERROR);
    progress();
    assert_in_range(now_ns - begun_ns, 15 * MS, 40 * MS);
    end(0);
    for (unsigned i = 0; i < COPIES; i++) {
        assert_int_equal(finish(receives[i]), UCS_ERR_IO_ERROR);
    }
    free(in);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
