/* SPDX-License-Identifier: BSD-3-Clause */
/* What is logged when a call is refused: a sentence that names the call or the argument, and what to do. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "runner.h"
#include "base/log.h"
#include "ucp/api/ucp.h"

static char said[4096]; /* errors since the last check */

static int note_line(const char *file, unsigned line, const char *function, enum cw_log_level level, const char *format,
                     va_list args)
{
    const size_t length = strlen(said);

    (void)file;
    (void)line;
    (void)function;
    if (level <= CW_LOG_ERROR) {
        (void)vsnprintf(said + length, sizeof(said) - length, format, args);
    }
    return 1;
}

/* All of these words were said, and nothing is left. */
static void expect(const char *const words[])
{
    size_t i;

    for (i = 0; words[i] != NULL; i++) {
        if (strstr(said, words[i]) == NULL) {
            fail_msg("\"%s\" is not in: %s", words[i], said);
        }
    }
    said[0] = '\0';
}

#define EXPECT(...) expect((const char *const[]){__VA_ARGS__, NULL})

static ucp_context_h context;
static ucp_worker_h worker;

static ucp_context_h context_open(uint64_t features)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    ucp_context_h made;

    assert_int_equal(ucp_init(&params, NULL, &made), UCS_OK);
    return made;
}

static int set_up(void **state)
{
    const ucp_worker_params_t params = {.field_mask = 0};

    (void)state;
    context = context_open(UCP_FEATURE_TAG | UCP_FEATURE_AM);
    assert_int_equal(ucp_worker_create(context, &params, &worker), UCS_OK);
    said[0] = '\0';
    cw_log_set_interceptor(note_line);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    cw_log_set_interceptor(NULL);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

/* WAK-3 */
TEST_WITH(an_event_fd_is_a_descriptor, set_up, tear_down)
{
    const int bad[] = {-1, -7, INT_MIN};
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_EVENT_FD};
    ucp_worker_h made = NULL;
    size_t i;

    for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        params.event_fd = bad[i];
        assert_int_equal(ucp_worker_create(context, &params, &made), UCS_ERR_INVALID_PARAM);
        assert_null(made);
        EXPECT("event_fd", "not a descriptor", "UCP_WORKER_PARAM_FIELD_EVENT_FD");
    }
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    return UCS_OK;
}

/* AMR-2 */
TEST_WITH(an_id_of_active_messages_has_16_bits, set_up, tear_down)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .cb = on_message};

    param.id = 65543;
    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_ERR_INVALID_PARAM);
    EXPECT("ucp_worker_set_am_recv_handler", "65543", "65535");
    param.id = 65535;
    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
}

/* WAK-1: each names itself. */
TEST_WITH(calls_of_the_wake_up_feature_name_themselves, set_up, tear_down)
{
    int fd;

    assert_int_equal(ucp_worker_wait(worker), UCS_ERR_INVALID_PARAM);
    EXPECT("ucp_worker_wait needs UCP_FEATURE_WAKEUP");
    assert_int_equal(ucp_worker_arm(worker), UCS_ERR_INVALID_PARAM);
    EXPECT("ucp_worker_arm needs UCP_FEATURE_WAKEUP");
    assert_int_equal(ucp_worker_signal(worker), UCS_ERR_INVALID_PARAM);
    EXPECT("ucp_worker_signal needs UCP_FEATURE_WAKEUP");
    assert_int_equal(ucp_worker_get_efd(worker, &fd), UCS_ERR_INVALID_PARAM);
    EXPECT("ucp_worker_get_efd needs UCP_FEATURE_WAKEUP");
}

#define V1 "UCX, in its address format v1"
#define V2 "UCX, in its address format v2"
#define OTHER_VERSION "another version of this library"
#define NOBODY "not a worker address of this library"

/* Beginnings of addresses; those of UCX as its version 1.13.1 makes them. */
static const struct foreign {
    const char *maker;
    uint8_t bytes[40];
} foreign[] = {
    {V1, {0x20, 0x14, 0x23, 0x80, 0x79, 0x8b, 0x02, 0x11, 0x10, 0x20, 0x00, 0x63, 0x75, 0x77, 0xcc, 0x2b, 0x32, 0x00,
          0xf8, 0xd7, 0x4f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x03, 0x00, 0x88, 0xa1, 0xdb, 0x8d, 0x3e}},
    {V1, {0x20, 0xa3, 0x8a, 0x3c, 0x8f, 0x76, 0xf9, 0xc6, 0xf5, 0x20, 0x12, 0x01, 0x02, 0x3b, 0x3c, 0x28, 0x3b, 0x87,
          0x77, 0x07, 0x95, 0xf9, 0xff, 0xff, 0xef}},
    {V1, {0x20, 0x48, 0xc6, 0x8f, 0xc2, 0x39, 0x0b, 0x61, 0x89, 0xff}}, /* nothing but the worker's uid */
    {V1, {0x30, 0x1e, 0x33, 0x33, 0x01, 0xe8, 0xe2, 0x67, 0x5a, 0x07, 0x76, 0x6d, 0x3a, 0x33, 0x35, 0x37, 0x37, 0x20,
          0x00, 0x63, 0x75, 0x77, 0xcc, 0x2b, 0x32}}, /* with a name */
    {V2, {0x01, 0x02, 0xf0, 0xad, 0x06, 0xd8, 0x05, 0x1f, 0x5f, 0xf0, 0x00, 0x00, 0x63, 0x75, 0x44, 0xa4, 0x00, 0x00,
          0x80, 0x00, 0x1b, 0x00, 0x88, 0xa4, 0xda}},
    {V2, {0x01, 0x02, 0x33, 0xb2, 0x85, 0x90, 0x61, 0xa3, 0x69, 0xfa, 0xff}},
    {V2, {0x01, 0x03, 0xc6, 0x00, 0x43, 0x2d, 0x7e, 0xd4, 0xe7, 0x0e, 0x07, 0x76, 0x6d, 0x3a, 0x35, 0x31, 0x33, 0x33,
          0x00, 0x00, 0x63, 0x75, 0x44, 0xa4}},
    {OTHER_VERSION, {0x43, 0x57, 1, 0, 20, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1}},
    {OTHER_VERSION, {0x20, 8, 7, 6, 5, 4, 3, 2, 1, 0xff, 0x43, 0x57, 3, 0, 20, 0}},
    {NOBODY, {0x77, 0x02, 0x33}},
    {NOBODY, {0}},
};

/* NB-98, ABU-24 */
TEST_WITH(addresses_of_others_are_called_so, set_up, tear_down)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_ep_h ep = NULL;
    ucp_address_t *own;
    char copy[4096];
    size_t length, i;

    for (i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        params.address = (const ucp_address_t *)(const void *)foreign[i].bytes;
        assert_int_equal(ucp_ep_create(worker, &params, &ep), UCS_ERR_UNREACHABLE);
        assert_null(ep);
        EXPECT("cannot create an endpoint", foreign[i].maker);
    }
    assert_int_equal(ucp_worker_get_address(worker, &own, &length), UCS_OK);
    assert_in_range(length, 20, sizeof(copy));
    memcpy(copy, own, length);
    ucp_worker_release_address(worker, own);
    copy[length - 1] = (char)(copy[length - 1] + 1);
    params.address = (const ucp_address_t *)(const void *)copy;
    assert_int_equal(ucp_ep_create(worker, &params, &ep), UCS_ERR_INVALID_PARAM);
    EXPECT("cannot create an endpoint", "truncated or corrupt");
}
