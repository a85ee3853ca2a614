/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How many packets an eager message takes where a connection has longer ones for the pieces of messages (max_piece of
 * transport.h): two packets take as long as one that is twice as long, so a message that fits one goes whole.
 */
#include <stdint.h>
#include <stdlib.h>

#include "test_alone.h"
#include "test_under.h"

#include "core/worker.h"
#include "msg/op_ep.h"

enum { PACKET = 8192, PIECE = 2 * PACKET, TAG = 5 };

static const ucp_request_param_t plain;

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucs_status_ptr_t request;

static int set_up(void **state)
{
    (void)state;
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    put_under(ep);
    fake_packets.send_zcopy = NULL;
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_bcopy = PACKET;
    ep->conn->max_whole = ep->conn->max_piece = PIECE;
    request = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    take_away(ep);
    cw_alone_end(worker, ep);
    while (ucp_worker_progress(worker) > 0) {
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    return 0;
}

static void post(size_t length)
{
    static char bytes[2 * PIECE];

    request = ucp_tag_send_nbx(ep, bytes, length, TAG, &plain);
}

static void check_packets(unsigned whole, unsigned first, unsigned next)
{
    assert_int_equal(count_packets(CW_PACKET_TAG_EAGER), whole);
    assert_int_equal(count_packets(CW_PACKET_TAG_FIRST), first);
    assert_int_equal(count_packets(CW_PACKET_NEXT), next);
}

TEST_WITH(test_whole_in_a_long_packet, set_up, tear_down)
{
    post(PIECE - sizeof(struct cw_wire_tag));
    check_packets(1, 0, 0);
}

TEST_WITH(test_one_byte_more, set_up, tear_down)
{
    post(PIECE - sizeof(struct cw_wire_tag) + 1);
    check_packets(0, 1, 1);
}

TEST_WITH(test_no_long_packets, set_up, tear_down)
{
    ep->conn->max_piece = 0;
    post(PACKET);
    check_packets(0, 1, 1);
}

int main(void)
{
    int failed;

    if (!cw_alone_open(UCP_FEATURE_TAG, &context, &worker)) {
        return EXIT_FAILURE;
    }
    failed = cw_tests_run(NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
