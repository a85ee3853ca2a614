/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A tag message without credit is to be announced. When the connection has no room for that and credit comes first, it
 * goes eagerly, and must not ask for an acknowledgement: nobody waits for one, so it would cost the connection.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>

#include "test_alone.h"
#include "test_under.h"

#include "core/ep.h"
#include "op/credit.h"
#include "op/op.h"

enum { LENGTH = 400 };

static ucp_context_h context;
static ucp_worker_h worker;

static void test_credit_before_room(void **state)
{
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_ep_h ep              = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = 0});
    static char message[LENGTH];
    ucs_status_ptr_t request;

    (void)state;
    put_under(ep);
    fake_iface.limits.max_zcopy = 0;
    fake_iface.limits.max_bcopy = LENGTH / 2;
    cw_op_ep(ep)->credit.flying            = CW_CREDIT_WINDOW;
    blocked                     = 1;
    request                     = ucp_tag_send_nbx(ep, message, LENGTH, 5, &none);
    assert_true(UCS_PTR_IS_PTR(request));
    assert_int_equal(num_records, 0);
    cw_op_ep(ep)->credit.flying = 0;
    blocked          = 0;
    cw_ep_drain(ep);
    assert_int_equal(count_packets(CW_PACKET_TAG_RTS), 0);
    assert_int_equal(word_of(sent_packet(CW_PACKET_TAG_FIRST), offsetof(struct cw_wire_tag_first, sync_id)), 0);
    assert_int_equal(cw_alone_wait(worker, request), UCS_OK);
    take_away(ep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_credit_before_room)};
    int failed;

    if (!cw_alone_open(UCP_FEATURE_TAG, &context, &worker)) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    cw_alone_close(context, worker);
    return failed;
}
