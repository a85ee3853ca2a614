/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Announced messages, puts and gets that several devices share (access/stripes.h): how much each of them moves, what
 * happens where one fails, and announcements with several parts that lie.
 */
#include "test_rndv_device.h"

#include "test_log_lines.h"

enum { LENGTH = 100000, LONG = 4 << 20 };

static char long_out[LONG], long_in[LONG + 1];

/* The two schemes of an announced message that devices move, by the packet that names the memory. */
static const struct {
    const char *scheme;
    uint8_t naming;
    size_t head; /* bytes before the parts */
} kinds[] = {
    {"get_zcopy", CW_PACKET_TAG_RTS, sizeof(struct cw_wire_tag_rts) + CW_KEY_MEMORY_HEAD},
    {"put_zcopy", CW_PACKET_RNDV_READY, sizeof(struct cw_wire_rndv_ready)},
};
enum { READ, WRITTEN, KINDS };

static void open_many(int kind, unsigned devices, unsigned ratio, const char *rails)
{
    device.rdma = devices;
    device.ratio = ratio;
    setenv("UCX_MAX_RNDV_RAILS", rails, 1);
    begin(kinds[kind].scheme);
}

static void end_many(void)
{
    end();
    unsetenv("UCX_MAX_RNDV_RAILS");
    device.rdma = 0;
    device.ratio = 0;
}

static void send_long(size_t length, ucs_status_t *sent_p, ucs_status_t *received_p)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t send, receive;

    for (size_t i = 0; i < length; i++) {
        long_out[i] = (char)(i * 7 + i / 251);
    }
    memset(long_in, 0x55, length + 1);
    receive = ucp_tag_recv_nbx(sides[1].worker, long_in, LONG, TAG, UINT64_MAX, &param);
    send = ucp_tag_send_nbx(sides[0].ep, long_out, length, TAG, &param);
    *sent_p = wait_for(send);
    *received_p = wait_for(receive);
}

static void send_long_well(size_t length)
{
    ucs_status_t sent, received;

    send_long(length, &sent, &received);
    assert_int_equal(sent, UCS_OK);
    assert_int_equal(received, UCS_OK);
    assert_memory_equal(long_in, long_out, length);
    assert_int_equal(long_in[length], 0x55);
    assert_int_equal(failures, 0);
}

/* The first long message opens the lanes; all are open after it. */
static void warm_up(void)
{
    send_long_well(LONG);
    for (int i = 0; i < 1000; i++) {
        progress();
    }
}

static void check_shared_by_bandwidth(int kind)
{
    static const struct {
        unsigned devices, ratio, named;
        const char *rails;
        double share; /* of the first device */
    } cases[] = {{2, 1, 2, "2", 0.5}, {2, 3, 2, "2", 0.75}, {3, 2, 3, "3", 0.5},
                 {3, 1, 2, "2", 0.5}, {2, 3, 1, "1", 1},    {1, 1, 1, "2", 1}};
    uint64_t first, all;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        open_many(kind, cases[i].devices, cases[i].ratio, cases[i].rails);
        warm_up();
        counts[CW_PACKET_RNDV_READY] = 0;
        first = stats().bytes_of[0];
        all = first + stats().bytes_of[1] + stats().bytes_of[2];
        send_long_well(LONG);
        first = stats().bytes_of[0] - first;
        all = stats().bytes_of[0] + stats().bytes_of[1] + stats().bytes_of[2] - all;
        assert_int_equal(all, LONG); /* each byte once */
        assert_true((double)first > (cases[i].share - 0.13) * LONG && (double)first < (cases[i].share + 0.13) * LONG);
        assert_int_equal(counts[CW_PACKET_RNDV_DATA], 0);
        assert_int_equal(counts[CW_PACKET_RNDV_READY], kind == WRITTEN);
        assert_int_equal(lengths[kinds[kind].naming], kinds[kind].head + cases[i].named * 5);
        end_many();
    }
}

/* Devices share a message by their bandwidths (UCX_MAX_RNDV_RAILS), and nobody sends packets of it. */
TEST(test_shared_by_bandwidth)
{
    check_shared_by_bandwidth(READ);
    check_shared_by_bandwidth(WRITTEN);
}

static size_t accesses_fail(uint8_t *bytes, size_t length)
{
    (void)bytes;
    cw_sim_set_fault(network, CW_SIM_ACCESS, device.max_access != 0 ? CW_SIM_ALWAYS : 300000);
    return length;
}

/* A stripe that fails costs its lane and no other one: the message comes in packets, whole and once, and the next one
 * goes by what is left, until the lane is there again. */
TEST(test_a_stripe_fails)
{
    unsigned in_packets[KINDS] = {0};

    for (int i = 0; i < 8 * KINDS; i++) {
        device.max_access = (i / KINDS % 2 == 0); /* all of them fail, or some */
        open_many(i % KINDS, 2, 1, "2");
        warm_up();
        change_id = kinds[i % KINDS].naming;
        change = accesses_fail;
        send_long_well(LENGTH + LENGTH / KINDS * (size_t)i);
        in_packets[i % KINDS] += counts[CW_PACKET_RNDV_DATA] > 0;
        change = NULL;
        cw_sim_set_fault(network, CW_SIM_ACCESS, 0);
        send_long_well(LONG);
        send_long_well(LONG / 2);
        end_many();
    }
    device.max_access = 0;
    assert_true(in_packets[READ] >= 4 && in_packets[WRITTEN] >= 4);
}

static size_t second_part_gone(uint8_t *bytes, size_t length)
{
    (void)bytes;
    return length - 5;
}

static size_t second_key_lies(uint8_t *bytes, size_t length)
{
    bytes[length - 1] ^= 0x80;
    return length;
}

static size_t second_of_no_lane(uint8_t *bytes, size_t length)
{
    bytes[length - 5] = 0x93; /* domain 9 */
    return length;
}

/* Parts that are missing, for no lane, or wrong: the message comes by one device or in packets, once. */
TEST(test_parts_that_do_not_help)
{
    static const change_fn changes[] = {second_part_gone, second_key_lies, second_of_no_lane};

    for (size_t i = 0; i < KINDS * sizeof(changes) / sizeof(changes[0]); i++) {
        open_many(i % KINDS, 2, 1, "2");
        warm_up();
        change_id = kinds[i % KINDS].naming;
        change = changes[i / KINDS];
        send_long_well(LONG);
        assert_int_equal(counts[CW_PACKET_RNDV_DATA] > 0, change == second_key_lies);
        end_many();
    }
}

static size_t second_is_first(uint8_t *bytes, size_t length)
{
    memcpy(bytes + length - 5, bytes + length - 10, 5);
    return length;
}

static size_t second_comes_first(uint8_t *bytes, size_t length)
{
    uint8_t first[5];

    memcpy(first, bytes + length - 10, 5);
    memcpy(bytes + length - 10, bytes + length - 5, 5);
    memcpy(bytes + length - 5, first, 5);
    return length;
}

static size_t second_cut(uint8_t *bytes, size_t length)
{
    (void)bytes;
    return length - 2;
}

static size_t second_too_long(uint8_t *bytes, size_t length)
{
    bytes[length - 5] |= 0x0f;
    return length;
}

static size_t second_of_another_length(uint8_t *bytes, size_t length)
{
    bytes[length - 5]++; /* a part that no domain of this kind writes */
    bytes[length] = 0;
    return length + 1;
}

static size_t more_behind(uint8_t *bytes, size_t length)
{
    bytes[length] = 0x30; /* a part of domain 3 without its byte */
    return length + 1;
}

/* Two parts that contradict themselves cost the connection, and nothing of the receive is touched. */
TEST(test_two_parts_that_lie)
{
    static const change_fn changes[] = {second_is_first, second_comes_first,       second_cut,
                                        second_too_long, second_of_another_length, more_behind};
    ucs_status_ptr_t send, receive;
    const ucp_request_param_t param = {0};

    for (size_t i = 0; i < KINDS * sizeof(changes) / sizeof(changes[0]); i++) {
        open_many(i % KINDS, 2, 1, "2");
        warm_up();
        memset(long_in, 0x55, sizeof(long_in));
        receive = ucp_tag_recv_nbx(sides[1].worker, long_in, LONG, TAG, UINT64_MAX, &param);
        change_id = kinds[i % KINDS].naming;
        change = changes[i / KINDS];
        send = ucp_tag_send_nbx(sides[0].ep, long_out, LONG, TAG, &param);
        assert_true(wait_for(send) < 0);
        assert_int_equal(long_in[0], 0x55);
        assert_int_equal(sides[(i % KINDS == READ) ? 1 : 0].ep->state, CW_EP_FAILED);
        if (i % KINDS == READ) { /* the receive is not matched yet */
            assert_int_equal(ucp_request_check_status(receive), UCS_INPROGRESS);
            ucp_request_cancel(sides[1].worker, receive);
        }
        assert_true(wait_for(receive) < 0);
        end_many();
    }
}

/* ---- puts and gets ---- */

static ucp_mem_h mapped;
static ucp_rkey_h key;

/* The second side gives the first one its memory. */
static void open_memory(unsigned ratio, const char *rails)
{
    const ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                      .address = long_in,
                                      .length = sizeof(long_in)};
    const ucp_request_param_t param = {0};
    void *packed;
    size_t length;

    setenv("UCX_MAX_RMA_RAILS", rails, 1);
    open_many(READ, 2, ratio, "1");
    assert_int_equal(ucp_mem_map(sides[1].context, &map, &mapped), UCS_OK);
    assert_int_equal(ucp_rkey_pack(sides[1].context, mapped, &packed, &length), UCS_OK);
    assert_int_equal(wait_for(ucp_ep_flush_nbx(sides[0].ep, &param)), UCS_OK);
    assert_int_equal(ucp_ep_rkey_unpack(sides[0].ep, packed, &key), UCS_OK);
    ucp_rkey_buffer_release(packed);
}

static void end_memory(void)
{
    ucp_rkey_destroy(key);
    assert_int_equal(ucp_mem_unmap(sides[1].context, mapped), UCS_OK);
    end_many();
    unsetenv("UCX_MAX_RMA_RAILS");
}

static void access_well(int is_put, size_t length)
{
    const ucp_request_param_t param = {0};
    char *from = is_put ? long_out : long_in, *to = is_put ? long_in : long_out;
    ucs_status_ptr_t request;

    for (size_t i = 0; i < length; i++) {
        from[i] = (char)(i * 11 + i / 251 + (size_t)is_put);
    }
    memset(to, 0x55, length);
    request = is_put ? ucp_put_nbx(sides[0].ep, from, length, (uint64_t)(uintptr_t)to, key, &param)
                     : ucp_get_nbx(sides[0].ep, to, length, (uint64_t)(uintptr_t)from, key, &param);
    assert_int_equal(wait_for(request), UCS_OK);
    assert_int_equal(wait_for(ucp_ep_flush_nbx(sides[0].ep, &param)), UCS_OK);
    assert_memory_equal(to, from, length);
    assert_int_equal(failures, 0);
}

/* UCX_MAX_RMA_RAILS: two devices divide a put or a get by their bandwidths; with 1 there is one. */
TEST(test_puts_and_gets_are_shared)
{
    static const struct {
        const char *rails;
        unsigned ratio;
        double share;
    } cases[] = {{"2", 1, 0.5}, {"2", 3, 0.75}, {"1", 3, 1}};
    uint64_t first, all;

    for (int i = 0; i < 6; i++) {
        open_memory(cases[i / 2].ratio, cases[i / 2].rails);
        access_well(i % 2, LONG);
        for (int round = 0; round < 1000; round++) {
            progress();
        }
        first = stats().bytes_of[0];
        all = first + stats().bytes_of[1];
        access_well(i % 2, LONG);
        first = stats().bytes_of[0] - first;
        all = stats().bytes_of[0] + stats().bytes_of[1] - all;
        assert_int_equal(all, LONG); /* each byte once */
        assert_true((double)first > (cases[i / 2].share - 0.13) * LONG &&
                    (double)first < (cases[i / 2].share + 0.13) * LONG);
        assert_int_equal(counts[CW_PACKET_PUT] + counts[CW_PACKET_GET], 0);
        end_memory();
    }
}

/* After a failed access all is moved again by the message lane, once the peer has closed the lane that failed, so that
 * nothing lands late. A put that follows at once is not overwritten. */
TEST(test_a_put_or_get_fails)
{
    const ucp_request_param_t param = {0};
    ucs_status_ptr_t request;
    unsigned repeated = 0;
    uint64_t all;

    for (int i = 0; i < 24; i++) {
        open_memory(1, "2");
        access_well(i % 2, LONG);
        for (int round = 0; round < 1000; round++) {
            progress();
        }
        all = stats().bytes_of[0] + stats().bytes_of[1];
        request = (i % 2) ? ucp_put_nbx(sides[0].ep, long_out, LONG, (uint64_t)(uintptr_t)long_in, key, &param)
                          : ucp_get_nbx(sides[0].ep, long_out, LONG, (uint64_t)(uintptr_t)long_in, key, &param);
        cw_sim_set_fault(network, CW_SIM_ACCESS, (i < 12) ? CW_SIM_ALWAYS : 50000);
        for (int round = 0; round < 40 && stats().faults[CW_SIM_ACCESS] == 0; round++) {
            progress();
        }
        cw_sim_set_fault(network, CW_SIM_ACCESS, 0);
        assert_int_equal(wait_for(request), UCS_OK);
        repeated += stats().bytes_of[0] + stats().bytes_of[1] - all > LONG;
        assert_memory_equal(long_in, long_out, LONG);
        access_well(1, LONG);
        access_well(0, LENGTH);
        end_memory();
    }
    assert_true(repeated >= 12);
}

static int setup(void **state)
{
    (void)state;
    log_count_begin();
    return 0;
}

int main(void)
{
    return cw_tests_run(setup, NULL);
}
