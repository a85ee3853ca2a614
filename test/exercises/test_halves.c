/* SPDX-License-Identifier: BSD-3-Clause */
/* The protocol of the exercise: messages arrive, by it where it offers itself, and the endpoint says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "halves.h"
#include "oneself.h"

enum { LONGEST = 100000 };

static int setup(void **state)
{
    (void)state;
    oneself_open(UCP_FEATURE_TAG);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    oneself_close();
    return 0;
}

static void exchange(size_t length)
{
    static unsigned char sent[LONGEST], received[LONGEST];
    const ucp_request_param_t param = {.op_attr_mask = 0};
    const ucp_request_param_t queued = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_ptr_t send, receive;
    size_t i;

    for (i = 0; i < length; i++) {
        sent[i] = (unsigned char)(i * 7 + length);
    }
    memset(received, 0, length);
    /* with a receive, or without a request, self would copy within the call */
    send = ucp_tag_send_nbx(ep, sent, length, 1, &queued);
    receive = ucp_tag_recv_nbx(worker, received, length, 1, UINT64_MAX, &param);
    finish(send);
    finish(receive);
    assert_memory_equal(sent, received, length);
}

TEST(test_messages_go_in_halves)
{
    static const size_t lengths[] = {HALVES_LEAST, HALVES_LEAST + 1, 5000, 8001};
    unsigned before;
    size_t i;

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

TEST(test_the_endpoint_says_so)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);

    exchange(8);
    ucp_ep_print_info(ep, stream);
    fclose(stream);
    assert_non_null(strstr(text, "eager halves"));
    free(text);
}

int main(void)
{
    return cw_tests_run(setup, teardown);
}
