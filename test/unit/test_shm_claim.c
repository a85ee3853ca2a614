/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lines of a ring that the next packet is likely to take are claimed in idle rounds (base/byte_ring.h): those and no
 * others, a few in each round, by whichever way a worker comes to be idle. That no packet suffers is tested with the
 * ring.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ucp/api/ucp.h>

#include "core/ep.h"
#include "transport/shm/shm.h"

enum { AREA = 16384, LONG = 1000, ROUNDS = 200000, PAINT = 0x5a };

/* The area as transports have it: a header of 8 bytes, and whole lines behind it. */
struct ring {
    struct shm_ring_control control;
    struct cw_cell cells[16];
    _Alignas(CW_CACHE_LINE) char lead[CW_CACHE_LINE - 8];
    char bytes[AREA + 8];
    struct cw_producer producer;
};

static struct ring ring;

static int set_up(void **state)
{
    (void)state;
    memset(&ring, 0, sizeof(ring));
    memset(ring.bytes, PAINT, sizeof(ring.bytes));
    shm_producer_init(&ring.producer, ring.cells, 4, ring.bytes, AREA, &ring.control, 0, 0);
    return 0;
}

static void send_packet(size_t length)
{
    assert_true(shm_has_room(&ring.producer, length));
    memset(shm_reserve(&ring.producer, length), PAINT, length);
    shm_publish(&ring.producer, length, 1);
    cw_byte_ring_fetch_ahead(&ring.producer, length);
}

/* Bytes of the area that are not as they were. */
static size_t num_claimed(void)
{
    size_t count = 0, i;

    for (i = 0; i < sizeof(ring.bytes); i++) {
        count += ring.bytes[i] != PAINT;
    }
    return count;
}

static void a_byte_of_each_line_of_the_next_packet_is_written(void **state)
{
    static const size_t lengths[] = {193, 256, 257, LONG, 2176, 4104, 8000};
    size_t i, lines, at;

    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        set_up(state);
        cw_byte_ring_note(&ring.producer, 8000, 8000);
        lines = (lengths[i] + CW_CACHE_LINE - 1) / CW_CACHE_LINE;
        send_packet(lengths[i]);
        assert_int_equal(num_claimed(), 0);
        cw_byte_ring_claim(&ring.producer);
        assert_in_range(num_claimed(), 1, 8); /* whoever waits looks for packets in between */
        for (at = 0; at < lines; at++) {
            cw_byte_ring_claim(&ring.producer);
        }
        assert_int_equal(num_claimed(), lines);
        for (at = 0; at < lines; at++) {
            assert_int_equal(ring.bytes[(lines + at) * CW_CACHE_LINE], 0);
        }
    }
}

static void claim_all(void)
{
    unsigned i;

    for (i = 0; i < AREA / CW_CACHE_LINE; i++) {
        cw_byte_ring_claim(&ring.producer);
    }
}

/* The reader of a cell, or of a packet of a few lines, asks for what follows while it waits. */
static void short_packets_claim_nothing(void **state)
{
    (void)state;
    send_packet(8);
    claim_all();
    send_packet(192);
    claim_all();
    assert_int_equal(num_claimed(), 0);
}

static void what_may_be_unread_is_not_claimed(void **state)
{
    (void)state;
    send_packet(4096 * 3);
    claim_all();
    assert_int_equal(num_claimed(), 0);
}

/* Between its reservation and its end, and afterwards. */
static void a_packet_of_another_length_is_left_alone(void **state)
{
    char *place;

    (void)state;
    send_packet(2000);
    cw_byte_ring_claim(&ring.producer);
    place = shm_reserve(&ring.producer, LONG);
    memset(place, PAINT, LONG);
    claim_all();
    assert_int_equal(num_claimed(), 0);
    shm_publish(&ring.producer, LONG, 1);
    claim_all();
    assert_int_equal(num_claimed(), 0);
}

static void a_packet_of_the_core_is_left_alone(void **state)
{
    static char payload[LONG];
    uint32_t attention = 0;

    (void)state;
    ring.producer.attention = &attention;
    memset(payload, PAINT, sizeof(payload));
    send_packet(LONG);
    claim_all();
    assert_true(num_claimed() > 0);
    assert_int_equal(cw_byte_ring_put(&ring.producer, 1, UINT64_C(0x0101010101010101) * PAINT, payload, LONG - 8), 1);
    assert_int_equal(num_claimed(), 0);
    assert_true(ring.producer.claim != ring.producer.claim_end);
    assert_int_equal(cw_byte_ring_put(&ring.producer, 1, UINT64_C(0x0101010101010101) * PAINT, payload, 100), 1);
    claim_all();
    assert_int_equal(num_claimed(), 0); /* what follows a short packet is not known to be long */
}

static void nothing_is_claimed_in_an_area_that_was_left(void **state)
{
    static char other[AREA];

    (void)state;
    send_packet(LONG);
    shm_producer_use(&ring.producer, other, AREA, SHM_WIDE);
    claim_all();
    assert_int_equal(num_claimed(), 0);
}

/* Long ones only where copies are slow without; for that, some are copied without. */
static void long_packets_claim_where_copies_wait(void **state)
{
    unsigned i;

    (void)state;
    ring.producer.claims_long = 0;
    ring.producer.until_timed = 9;
    send_packet(4104); /* as long as nothing is known, and where copies are fast */
    claim_all();
    assert_int_equal(num_claimed(), 0);
    cw_byte_ring_note(&ring.producer, 8192, 190);
    send_packet(2177);
    claim_all();
    assert_int_equal(num_claimed(), 0);
    send_packet(2176);
    claim_all();
    assert_int_equal(num_claimed(), 34);
    set_up(state);
    cw_byte_ring_note(&ring.producer, 8192, 800);
    for (i = 0; ring.producer.until_timed > 0; i++) {
        assert_true(cw_byte_ring_copy_begins(&ring.producer, 4096) == 0);
        cw_byte_ring_copy_ends(&ring.producer, 4096, 0);
    }
    assert_in_range(i, 16, 100);
    send_packet(4104);
    claim_all();
    assert_int_equal(num_claimed(), 0);
    assert_true(cw_byte_ring_copy_begins(&ring.producer, 2176) == 0);
    assert_true(cw_byte_ring_copy_begins(&ring.producer, 2177) != 0);
    cw_byte_ring_copy_ends(&ring.producer, 4096, 1); /* very long ago */
    assert_true(ring.producer.claims_long && ring.producer.until_timed > 0);
    send_packet(4104);
    claim_all();
    assert_int_equal(num_claimed(), 65);
}

/* UCX_TUNING: long packets are neither timed nor claimed, others are as ever. */
static void long_packets_can_be_left_out(void **state)
{
    set_up(state);
    ring.producer.no_claims = 1;
    assert_true(cw_byte_ring_copy_begins(&ring.producer, 4096) == 0);
    cw_byte_ring_copy_ends(&ring.producer, 4096, 0);
    send_packet(4104);
    claim_all();
    assert_int_equal(num_claimed(), 0);
    send_packet(1000);
    claim_all();
    assert_true(num_claimed() > 0);
}

/* A line that was claimed would make the time of a copy tell nothing of the peer; past the caches it is lost work. */
static void nothing_is_claimed_for_a_copy_that_far_looks_at(void **state)
{
    static const struct {
        struct cw_nt_choice nt;
        int claims;
    } cases[] = {{{.left = 1}, 1}, {{.skip = 1}, 1}, {{0}, 0}, {{.timed = 2}, 0}, {{.past = 1, .left = 1}, 0}};
    size_t i;

    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        set_up(state);
        cw_byte_ring_note(&ring.producer, 8000, 8000);
        ring.producer.nt = cases[i].nt;
        send_packet(4104);
        claim_all();
        assert_int_equal(num_claimed() > 0, cases[i].claims || !CW_NT_HELPS);
    }
}

/* Two workers of this process, or three. */
struct net {
    ucp_context_h context;
    ucp_worker_h workers[3];
    ucp_ep_h eps[2];            /* of the first to the others */
    unsigned count;
};

static void wait_for(struct net *net, ucs_status_ptr_t request)
{
    unsigned i, rounds;

    if (request == NULL) {
        return;
    }
    assert_false(UCS_PTR_IS_ERR(request));
    for (rounds = 0; ucp_request_check_status(request) == UCS_INPROGRESS; rounds++) {
        assert_true(rounds < ROUNDS);
        for (i = 0; i < net->count; i++) {
            ucp_worker_progress(net->workers[i]);
        }
    }
    assert_int_equal(ucp_request_check_status(request), UCS_OK);
    ucp_request_free(request);
}

static void pass_message(struct net *net, unsigned to, size_t length)
{
    ucp_request_param_t none = {.op_attr_mask = 0};
    static char from[LONG], into[LONG];
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(net->workers[to], into, length, 0, 0, &none);

    wait_for(net, ucp_tag_send_nbx(net->eps[to - 1], from, length, 0, &none));
    wait_for(net, receive);
}

static void net_new(struct net *net, unsigned count, ucs_thread_mode_t mode)
{
    ucp_params_t params        = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
    ucp_worker_attr_t attr     = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t ep         = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    unsigned i;

    *net = (struct net){.count = count};
    assert_int_equal(ucp_init(&params, NULL, &net->context), UCS_OK);
    for (i = 0; i < count; i++) {
        assert_int_equal(ucp_worker_create(net->context, &worker, &net->workers[i]), UCS_OK);
    }
    for (i = 1; i < count; i++) {
        assert_int_equal(ucp_worker_query(net->workers[i], &attr), UCS_OK);
        ep.address = attr.address;
        assert_int_equal(ucp_ep_create(net->workers[0], &ep, &net->eps[i - 1]), UCS_OK);
        ucp_worker_release_address(net->workers[i], attr.address);
        pass_message(net, i, 8); /* connected */
    }
}

static void net_free(struct net *net)
{
    unsigned i;

    for (i = 0; i < net->count; i++) {
        ucp_worker_destroy(net->workers[i]);
    }
    ucp_cleanup(net->context);
}

static int has_claims(ucp_ep_h ep)
{
    const struct cw_producer *producer = ep->conn->iface->transport->fastpath->cells(ep->conn);

    return producer->claim != producer->claim_end;
}

static void idle_rounds_claim(unsigned count, ucs_thread_mode_t mode)
{
    ucp_request_param_t none = {.op_attr_mask = 0};
    static char message[LONG];
    struct net net;
    unsigned i;

    net_new(&net, count, mode);
    for (i = 1; i < count; i++) {
        wait_for(&net, ucp_tag_send_nbx(net.eps[i - 1], message, sizeof(message), 0, &none));
        assert_true(has_claims(net.eps[i - 1]));
    }
    for (i = 0; i < 20; i++) {
        ucp_worker_progress(net.workers[0]);
    }
    for (i = 1; i < count; i++) {
        assert_false(has_claims(net.eps[i - 1]));
        pass_message(&net, i, sizeof(message));
        pass_message(&net, i, sizeof(message)); /* the other one was unexpected */
    }
    net_free(&net);
}

static void a_worker_with_one_peer_claims(void **state)
{
    (void)state;
    idle_rounds_claim(2, UCS_THREAD_MODE_SINGLE);
}

static void a_worker_with_two_peers_claims(void **state)
{
    (void)state;
    idle_rounds_claim(3, UCS_THREAD_MODE_SINGLE);
}

static void a_worker_of_several_threads_claims(void **state)
{
    (void)state;
    idle_rounds_claim(2, UCS_THREAD_MODE_MULTI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_byte_of_each_line_of_the_next_packet_is_written),
        cmocka_unit_test_setup(short_packets_claim_nothing, set_up),
        cmocka_unit_test_setup(what_may_be_unread_is_not_claimed, set_up),
        cmocka_unit_test_setup(a_packet_of_another_length_is_left_alone, set_up),
        cmocka_unit_test_setup(a_packet_of_the_core_is_left_alone, set_up),
        cmocka_unit_test_setup(long_packets_claim_where_copies_wait, set_up),
        cmocka_unit_test_setup(long_packets_can_be_left_out, set_up),
        cmocka_unit_test_setup(nothing_is_claimed_for_a_copy_that_far_looks_at, set_up),
        cmocka_unit_test_setup(nothing_is_claimed_in_an_area_that_was_left, set_up),
        cmocka_unit_test(a_worker_with_one_peer_claims),
        cmocka_unit_test(a_worker_with_two_peers_claims),
        cmocka_unit_test(a_worker_of_several_threads_claims),
    };

    setenv("UCX_TLS", "shm", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
