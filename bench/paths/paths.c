/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_paths: one short operation over and over, so that its instructions can be counted (paths.py runs it under
 * callgrind, which counts inside of `measured` alone). Two workers in this process; shared memory or TCP between them.
 * Over `self` there is one worker, which sends to itself.
 * Whatever is sent is taken from the ring or the socket by the next call of progress, so that the count is the same in
 * each run.
 *
 * Usage: bench_paths CASE[_multi] TRANSPORT OPERATIONS
 * _multi: with workers of mode MULTI that nobody else uses.
 * A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

enum { WARM_UP = 600, IDLE = 400, SECONDS = 60, AM_ID = 7, TAG = 0x1234 };

#define FEATURES \
    (UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | \
     UCP_FEATURE_AMO64)

static struct cw_side near, far;
static ucp_ep_h ep;
static ucp_ep_h far_ep; /* for streams */
static ucp_rkey_h rkey;
static ucp_rkey_h user_rkey;
static uint64_t *remote;
static uint64_t user_word; /* memory of the program's own: nobody maps it */
static uint64_t word = 42, got;
static char longer[64], got_longer[64]; /* than a cell */
static size_t tagged = sizeof(word); /* how long tag messages are */
static unsigned arrived;

static void fail(const char *what, ucs_status_t status)
{
    cw_say_error("%s failed: %s", what, ucs_status_string(status));
    exit(1);
}

static ucp_ep_h connect_to(const struct cw_side *from, const struct cw_side *to)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_ep_h made;

    cw_side_check("ucp_worker_query", ucp_worker_query(to->worker, &attr));
    params.address = attr.address;
    cw_side_check("ucp_ep_create", ucp_ep_create(from->worker, &params, &made));
    ucp_worker_release_address(to->worker, attr.address);
    return made;
}

static void await(const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, near.worker, far.worker));
}

static void on_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)user_data;
    if (status != UCS_OK || info->length != tagged) {
        fail("a receive", status);
    }
    arrived++;
    ucp_request_free(request);
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    arrived++;
    return UCS_OK;
}

static void until_arrived(void)
{
    unsigned before = arrived;

    while (arrived == before) {
        ucp_worker_progress(far.worker);
    }
}

static void sent(ucs_status_ptr_t request)
{
    if (request != NULL) {
        await("a send", request);
    }
}

/* A posted receive, a send, its arrival. */
static void tag_step(void)
{
    static const ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv = on_tag};
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    if (!UCS_PTR_IS_PTR(ucp_tag_recv_nbx(far.worker, &got, sizeof(got), TAG, UINT64_MAX, &receive))) {
        fail("ucp_tag_recv_nbx", UCS_OK);
    }
    sent(ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none));
    until_arrived();
}

/* Until all that was sent is kept; then the receive. */
static void tag_late_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none));
    while (ucp_worker_progress(far.worker) == 0) {
    }
    if (ucp_tag_recv_nbx(far.worker, &got, sizeof(got), TAG, UINT64_MAX, &none) != NULL) {
        fail("ucp_tag_recv_nbx", UCS_OK);
    }
}

static void tag_probe_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    sent(ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none));
    while ((message = ucp_tag_probe_nb(far.worker, TAG, UINT64_MAX, 1, &info)) == NULL) {
        ucp_worker_progress(far.worker);
    }
    if (ucp_tag_msg_recv_nbx(far.worker, &got, sizeof(got), message, &none) != NULL) {
        fail("ucp_tag_msg_recv_nbx", UCS_OK);
    }
}

/* Nothing is left to acknowledge. */
static void flush_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_ep_flush_nbx(ep, &none));
    sent(ucp_worker_flush_nbx(near.worker, &none));
    cw_side_check("ucp_worker_fence", ucp_worker_fence(near.worker));
}

static void am_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_am_send_nbx(ep, AM_ID, NULL, 0, &word, sizeof(word), &none));
    until_arrived();
}

static void tag_64_step(void)
{
    static const ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.recv = on_tag};
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    tagged = sizeof(longer);
    if (!UCS_PTR_IS_PTR(ucp_tag_recv_nbx(far.worker, got_longer, sizeof(got_longer), TAG, UINT64_MAX, &receive))) {
        fail("ucp_tag_recv_nbx", UCS_OK);
    }
    sent(ucp_tag_send_nbx(ep, longer, sizeof(longer), TAG, &none));
    until_arrived();
}

static void am_64_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_am_send_nbx(ep, AM_ID, NULL, 0, longer, sizeof(longer), &none));
    until_arrived();
}

/* Of two halves. */
static const ucp_dt_iov_t list[] = {{longer, sizeof(longer) / 2},
                                    {longer + sizeof(longer) / 2, sizeof(longer) / 2}};
static const ucp_dt_iov_t got_list[] = {{got_longer, sizeof(got_longer) / 2},
                                        {got_longer + sizeof(got_longer) / 2, sizeof(got_longer) / 2}};
static const ucp_request_param_t of_lists = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
                                             .datatype = ucp_dt_make_iov()};

static void tag_list_step(void)
{
    static const ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_DATATYPE,
                                         .datatype = ucp_dt_make_iov(),
                                         .cb.recv = on_tag};

    tagged = sizeof(longer);
    if (!UCS_PTR_IS_PTR(ucp_tag_recv_nbx(far.worker, (void *)(uintptr_t)got_list, 2, TAG, UINT64_MAX, &receive))) {
        fail("ucp_tag_recv_nbx", UCS_OK);
    }
    sent(ucp_tag_send_nbx(ep, list, 2, TAG, &of_lists));
    until_arrived();
}

static void am_list_step(void)
{
    sent(ucp_am_send_nbx(ep, AM_ID, NULL, 0, list, 2, &of_lists));
    until_arrived();
}

static void stream_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};
    ucs_status_ptr_t data = NULL;
    size_t received;

    sent(ucp_stream_send_nbx(ep, &word, sizeof(word), &none));
    while (data == NULL) {
        ucp_worker_progress(far.worker);
        data = ucp_stream_recv_data_nb(far_ep, &received);
    }
    ucp_stream_data_release(far_ep, data);
}

static void on_stream(void *request, ucs_status_t status, size_t received, void *user_data)
{
    (void)user_data;
    if (status != UCS_OK || received != sizeof(word)) {
        fail("a receive from a stream", status);
    }
    arrived++;
    ucp_request_free(request);
}

/* With a receive that waits. */
static void stream_recv_step(void)
{
    static const ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
                                         .flags = UCP_STREAM_RECV_FLAG_WAITALL,
                                         .cb.recv_stream = on_stream};
    static const ucp_request_param_t none = {.op_attr_mask = 0};
    size_t received;

    if (!UCS_PTR_IS_PTR(ucp_stream_recv_nbx(far_ep, &got, sizeof(got), &received, &receive))) {
        fail("ucp_stream_recv_nbx", UCS_OK);
    }
    sent(ucp_stream_send_nbx(ep, &word, sizeof(word), &none));
    until_arrived();
}

static void put_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_put_nbx(ep, &word, sizeof(word), (uintptr_t)remote, rkey, &none));
}

static void get_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    sent(ucp_get_nbx(ep, &got, sizeof(got), (uintptr_t)remote, rkey, &none));
}

static void fadd_step(void)
{
    static const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REPLY_BUFFER |
                                                              UCP_OP_ATTR_FIELD_DATATYPE,
                                              .reply_buffer = &got,
                                              .datatype = ucp_dt_make_contig(sizeof(word))};

    sent(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &word, 1, (uintptr_t)remote, rkey, &param));
}

static void fadd_32_step(void)
{
    static const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REPLY_BUFFER |
                                                              UCP_OP_ATTR_FIELD_DATATYPE,
                                              .reply_buffer = &got,
                                              .datatype = ucp_dt_make_contig(sizeof(uint32_t))};

    sent(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &word, 1, (uintptr_t)remote, rkey, &param));
}

/* By the calls of older programs. */
static void fadd_old_step(void)
{
    cw_side_check("ucp_atomic_fadd64", ucp_atomic_fadd64(ep, word, (uintptr_t)remote, rkey, &got));
}

static void add_old_step(void)
{
    cw_side_check("ucp_atomic_add64", ucp_atomic_add64(ep, word, (uintptr_t)remote, rkey));
}

/* Until the owner, and then the origin, have done their part. What ends in the call is no work of the owner. */
static void through(ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        fail("an operation on user memory", UCS_PTR_STATUS(request));
    }
    if (request == NULL) {
        return;
    }
    while (ucp_worker_progress(far.worker) == 0) {
    }
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        ucp_worker_progress(near.worker);
    }
    ucp_request_free(request);
}

/* With the owner's part. */
static void user_put_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    through(ucp_put_nbx(ep, &word, sizeof(word), (uintptr_t)&user_word, user_rkey, &none));
}

static void user_get_step(void)
{
    static const ucp_request_param_t none = {.op_attr_mask = 0};

    through(ucp_get_nbx(ep, &got, sizeof(got), (uintptr_t)&user_word, user_rkey, &none));
}

static void user_fadd_step(void)
{
    static const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_REPLY_BUFFER |
                                                              UCP_OP_ATTR_FIELD_DATATYPE,
                                              .reply_buffer = &got,
                                              .datatype = ucp_dt_make_contig(sizeof(word))};

    through(ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &word, 1, (uintptr_t)&user_word, user_rkey, &param));
}

static void idle_step(void)
{
    ucp_worker_progress(far.worker);
}

static const struct {
    const char *name;
    void (*step)(void);
} cases[] = {
    {"tag_64", tag_64_step}, {"am_64", am_64_step},   {"tag_list", tag_list_step}, {"am_list", am_list_step},
    {"tag_late", tag_late_step}, {"tag_probe", tag_probe_step}, {"flush", flush_step},
    {"tag", tag_step}, {"am", am_step},     {"stream", stream_step}, {"stream_recv", stream_recv_step},
    {"put", put_step}, {"get", get_step},   {"fadd", fadd_step},     {"idle", idle_step},
    {"idle_many", idle_step}, {"fadd_32", fadd_32_step}, {"fadd_old", fadd_old_step}, {"add_old", add_old_step},
    {"user_put", user_put_step}, {"user_get", user_get_step}, {"user_fadd", user_fadd_step},
};

static ucp_rkey_h take_key(ucp_mem_h memh)
{
    ucp_rkey_h made;
    size_t length;
    void *key;

    cw_side_check("ucp_rkey_pack", ucp_rkey_pack(far.context, memh, &key, &length));
    cw_side_check("ucp_ep_rkey_unpack", ucp_ep_rkey_unpack(ep, key, &made));
    ucp_rkey_buffer_release(key);
    return made;
}

static void map_memory(void)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = 4096,
        .flags = UCP_MEM_MAP_ALLOCATE,
    };
    ucp_mem_map_params_t user = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = &user_word,
        .length = sizeof(user_word),
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_mem_h memh;

    cw_side_check("ucp_mem_map", ucp_mem_map(far.context, &params, &memh));
    cw_side_check("ucp_mem_query", ucp_mem_query(memh, &attr));
    remote = attr.address;
    rkey = take_key(memh);
    cw_side_check("ucp_mem_map", ucp_mem_map(far.context, &user, &memh));
    user_rkey = take_key(memh);
}

/* Connections on which nothing moves; what gets cheaper by that has done so at the end. */
static void add_idle(unsigned number)
{
    static const ucp_request_param_t none;
    const uint64_t rest_ns = 300000000u;
    uint64_t start_ns;
    unsigned i;

    for (i = 0; i < number; i++) {
        await("ucp_tag_send_nbx", ucp_tag_send_nbx(connect_to(&near, &far), &word, sizeof(word), TAG, &none));
        await("ucp_tag_recv_nbx", ucp_tag_recv_nbx(far.worker, &got, sizeof(got), TAG, UINT64_MAX, &none));
    }
    for (start_ns = cw_clock_ns(); cw_clock_ns() - start_ns < rest_ns;) {
        ucp_worker_progress(near.worker);
        ucp_worker_progress(far.worker);
    }
}

/* Everything is connected, and every pool has what it needs. */
static void set_up(void)
{
    static const ucp_request_param_t none;
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .id = AM_ID,
        .cb = on_am,
    };

    cw_side_open(&near, FEATURES);
    if (strcmp(getenv("UCX_TLS"), "self") == 0) {
        far = near;
    } else {
        cw_side_open(&far, FEATURES);
    }
    cw_side_check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(far.worker, &handler));
    ep = connect_to(&near, &far);
    far_ep = connect_to(&far, &near);
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(far.worker, &got, sizeof(got), 0, 0, &none);
    await("ucp_tag_send_nbx", ucp_tag_send_nbx(ep, &word, sizeof(word), 0, &none));
    await("ucp_tag_recv_nbx", receive);
    receive = ucp_tag_recv_nbx(near.worker, &got, sizeof(got), 0, 0, &none);
    await("ucp_tag_send_nbx", ucp_tag_send_nbx(far_ep, &word, sizeof(word), 0, &none));
    await("ucp_tag_recv_nbx", receive);
    map_memory();
}

__attribute__((noinline)) static void measured(void (*step)(void))
{
    step();
}

/* The sender's progress between, not counted: small sends over TCP that follow one another without it are collected. */
static void run(void (*step)(void), unsigned long operations)
{
    unsigned long i;

    for (i = 0; i < operations; i++) {
        measured(step);
        ucp_worker_progress(near.worker);
    }
}

/* NULL: there is none. */
static void (*find_step(char *name))(void)
{
    static const char suffix[] = "_multi";
    const size_t length = strlen(name);
    unsigned i;

    if (length >= sizeof(suffix) && strcmp(name + length - (sizeof(suffix) - 1), suffix) == 0) {
        name[length - (sizeof(suffix) - 1)] = '\0';
        near.mode = far.mode = UCS_THREAD_MODE_MULTI;
    }
    for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(name, cases[i].name) == 0) {
            return cases[i].step;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    void (*step)(void);
    unsigned i;

    cw_say_setup("bench_paths", false);
    step = (argc == 4) ? find_step(argv[1]) : NULL;
    if (step == NULL) {
        fprintf(stderr, "Usage: bench_paths tag|tag_64|tag_late|tag_probe|tag_list|am|am_64|am_list|stream|stream_recv|"
                        "put|get|fadd|fadd_32|fadd_old|add_old|flush|idle|idle_many|user_put|user_get|user_fadd "
                        "TRANSPORT OPERATIONS\n"
                        "A case followed by _multi: with workers of mode MULTI.\n");
        return 2;
    }
    cw_watchdog_start(SECONDS, 1);
    setenv("UCX_TLS", argv[2], 1);
    set_up();
    if (strcmp(argv[1], "idle_many") == 0) {
        add_idle(IDLE);
    }
    for (i = 0; i < WARM_UP; i++) {
        step();
        ucp_worker_progress(near.worker);
    }
    run(step, strtoul(argv[3], NULL, 10));
    return 0;
}
