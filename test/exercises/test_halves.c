/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of the exercise: messages arrive, by it where it offers itself, and the endpoint says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "halves.h"
#include "ucp/api/ucp.h"

enum { LONGEST = 100000 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;

static int setup(void **state)
{
    ucp_params_t params               = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_ep_params_t ep_params         = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;

    (void)state;
    assert_int_equal(ucp_init(&params, NULL, &context), UCS_OK);
    assert_int_equal(ucp_worker_create(context, &worker_params, &worker), UCS_OK);
    assert_int_equal(ucp_worker_get_address(worker, &address, &length), UCS_OK);
    ep_params.address = address;
    assert_int_equal(ucp_ep_create(worker, &ep_params, &ep), UCS_OK);
    ucp_worker_release_address(worker, address);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

static void finish(ucs_status_ptr_t request)
{
    assert_false(UCS_PTR_IS_ERR(request));
    if (request != NULL) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        assert_int_equal(ucp_request_check_status(request), UCS_OK);
        ucp_request_free(request);
    }
}

static void exchange(size_t length)
{
    static unsigned char sent[LONGEST], received[LONGEST];
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t receive;
    size_t i;

    for (i = 0; i < length; i++) {
        sent[i] = (unsigned char)(i * 7 + length);
    }
    memset(received, 0, length);
    receive = ucp_tag_recv_nbx(worker, received, length, 1, UINT64_MAX, &param);
    finish(ucp_tag_send_nbx(ep, sent, length, 1, &param));
    finish(receive);
    assert_memory_equal(sent, received, length);
}

static void test_messages_go_in_halves(void **state)
{
    static const size_t lengths[] = {HALVES_LEAST, HALVES_LEAST + 1, 5000, 8001};
    unsigned before;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        before = halves_sent;
        exchange(lengths[i]);
        assert_int_equal(halves_sent, before + 1);
    }
    before = halves_sent;
    exchange(HALVES_LEAST - 1);
    exchange(LONGEST);
    assert_int_equal(halves_sent, before);
}

static void test_the_endpoint_says_so(void **state)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    (void)state;
    exchange(8);
    ucp_ep_print_info(ep, stream);
    fclose(stream);
    assert_non_null(strstr(text, "eager halves"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_messages_go_in_halves),
                                       cmocka_unit_test(test_the_endpoint_says_so)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
