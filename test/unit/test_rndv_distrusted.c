/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer whose process kept this one waiting while the system copied is not asked to copy into our memory either
 * (docs/reference/bounds.md). The connection only records what is sent.
 */
#include "test_rma.h"

enum { SIZE = 2 * 4096 };

static struct cw_claim_pair pairs[CW_ALL_CLAIM_PAIRS];
static int excuses;

static struct cw_claim_pair *fake_pair(struct cw_conn *conn, int ours, unsigned index)
{
    (void)conn;
    (void)ours;
    assert_true(index < CW_ALL_CLAIM_PAIRS);
    return &pairs[index];
}

/* The system copies nothing between the processes. */
static int never_ready(struct cw_conn *conn)
{
    (void)conn;
    return 0;
}

static ucs_status_t never(struct cw_conn *conn, const struct iovec *iov, unsigned count, uint64_t address,
                          const struct cw_validity *validity)
{
    (void)conn, (void)iov, (void)count, (void)address, (void)validity;
    fail_msg("the system is asked to copy");
    return UCS_ERR_IO_ERROR;
}

static int fake_excused(struct cw_conn *conn, uint64_t waited_ns)
{
    (void)conn;
    (void)waited_ns;
    return excuses;
}

/* One whose process kept us waiting is not asked to copy into our memory either: packets only. */
static void test_distrusted(void **state)
{
    static uint8_t room[SIZE];
    const struct cw_wire_tag_rts rts = {.tag = htole64(9),
                                        .rts = {.length = htole64(SIZE), .send_id = htole64(SEND_ID)}};
    ucs_status_ptr_t request;

    (void)state;
    for (excuses = 0; excuses < 2; excuses++) {
        begin();
        fake_transport.copies = &fake_copies;
        fake_copies           = (struct cw_transport_copies){
                      .ready = never_ready, .read = never, .write = never, .pair = fake_pair, .excused = fake_excused};
        request = ucp_tag_recv_nbx(worker, room, sizeof(room), 9, UINT64_MAX, &none);
        feed(CW_PACKET_TAG_RTS, &rts, sizeof(rts));
        assert_int_equal((uint32_t)word_of(sent_packet(CW_PACKET_RNDV_READY), 24),
                         excuses ? CW_WIRE_RNDV_COPY : CW_WIRE_RNDV_SEND);
        end(1);
        assert_true(finish(request) < 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distrusted),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
