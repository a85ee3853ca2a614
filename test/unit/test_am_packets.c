/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active message packets of a peer that follows no rules, handed to an open endpoint as a transport would: what breaks
 * the protocol costs the connection, what does not reaches the handler whole, or nobody.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner.h"
#include "am/am.h"
#include "am/desc.h"
#include "api/dispatch.h"
#include "core/ep.h"
#include "core/worker.h"
#include "msg/reassembly.h"
#include "msg/op_ep.h"
#include "test_alone.h"
#include "wire/packet.h"

enum { ID = 7, KEEPER = 8, UNKNOWN = 9 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static unsigned calls;
static size_t last_length, last_header_length;
static void *retained;
static ucs_status_t answer;     /* of handlers that keep */
static int no_memory;           /* allocations fail from now on */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* Reads every byte, so that a sanitizer sees what does not belong to the message. */
static ucs_status_t handler(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    const char *bytes = data, *head = header;

    for (size_t i = 0; i < header_length; i++) {
        assert_int_equal(head[i], 0x68);
    }
    for (size_t i = 0; i < length && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV); i++) {
        assert_int_equal(bytes[i], 0x64);
    }
    calls++;
    last_length = length;
    last_header_length = header_length;
    retained = data;
    return (arg != NULL) ? answer : UCS_OK;
}

static void set(unsigned id, void *arg, uint32_t flags)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS,
                                    .id = id,
                                    .cb = handler,
                                    .arg = arg,
                                    .flags = flags};

    assert_int_equal(ucp_worker_set_am_recv_handler(worker, &param), UCS_OK);
}

static int setup(void **state)
{
    (void)state;
    answer = UCS_INPROGRESS;
    no_memory = 0;
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    assert_true(cw_alone_open(UCP_FEATURE_TAG | UCP_FEATURE_AM, &context, &worker));
    ep = cw_alone_connect(worker, (ucp_ep_params_t){.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                                    .err_mode = UCP_ERR_HANDLING_MODE_PEER});
    set(ID, NULL, 0);
    set(KEEPER, &worker, UCP_AM_FLAG_PERSISTENT_DATA);
    assert_int_equal(ep->state, CW_EP_OPEN);
    calls = 0;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cw_alone_close(context, worker);
    return 0;
}

/* A packet of exactly its size: the first `fixed` bytes of what `packet` says, then 'h' and 'd'. */
static void feed(uint8_t id, const void *packet, size_t fixed, size_t header_length, size_t length)
{
    uint8_t *bytes = malloc(fixed + header_length + length + (fixed + header_length + length == 0));

    assert_non_null(bytes);
    memcpy(bytes, packet, fixed);
    memset(bytes + fixed, 0x68, header_length);
    memset(bytes + fixed + header_length, 0x64, length);
    cw_op_packet(ep->conn, id, bytes, fixed + header_length + length);
    free(bytes);
}

static void is_lost(void)
{
    assert_int_equal(ep->state, CW_EP_FAILED);
    assert_int_equal(calls, 0);
    while (ucp_worker_progress(worker) != 0) {
    }
}

static struct cw_wire_am am_of(unsigned id, unsigned flags, uint32_t header_length)
{
    return (struct cw_wire_am){.handler = htole16((uint16_t)id), .flags = (uint8_t)flags,
                               .header_length = htole32(header_length)};
}

static void feed_eager(struct cw_wire_am am, size_t fixed, size_t header_length, size_t length)
{
    feed(CW_PACKET_AM_EAGER, &am, fixed, header_length, length);
}

static void feed_first(unsigned id, uint32_t announced, uint64_t total, uint32_t message, size_t header_length,
                       size_t length)
{
    struct cw_wire_am_first first = {
        .am = am_of(id, 0, announced), .total = htole64(total), .message = htole32(message)};

    feed(CW_PACKET_AM_FIRST, &first, sizeof(first), header_length, length);
}

static void feed_next(uint32_t message, uint64_t offset, size_t length)
{
    struct cw_wire_next next = {.message = htole32(message), .offset = htole64(offset)};

    feed(CW_PACKET_NEXT, &next, sizeof(next), 0, length);
}

static void feed_rts(unsigned id, unsigned flags, uint32_t announced, uint64_t send_id, size_t header_length,
                     size_t length)
{
    struct cw_wire_am_rts rts = {.am = am_of(id, flags, announced),
                                 .rts = {.length = htole64(100), .send_id = send_id}};

    feed(CW_PACKET_AM_RTS, &rts, sizeof(rts), header_length, length);
}

TEST_WITH(test_eager_headers, setup, teardown)
{
    struct {
        struct cw_wire_am am;
        size_t fixed, header_length;
    } bad[] = {
        {am_of(ID, 0, 0), 0, 0},          {am_of(ID, 0, 0), 7, 0},    {am_of(ID, 0, 1), 8, 0},
        {am_of(ID, 0, 101), 8, 100},      {am_of(ID, 2, 0), 8, 0},    {am_of(ID, 0x80, 0), 8, 50},
        {am_of(ID, 0, UINT32_MAX), 8, 3}, {am_of(ID, 0xff, 3), 8, 3}, {am_of(UNKNOWN, 0, 4), 8, 3},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        feed_eager(bad[i].am, bad[i].fixed, bad[i].header_length, 0);
        is_lost();
        assert_int_equal(ep->status, UCS_ERR_IO_ERROR);
        teardown(state);
        setup(state);
    }
    feed_eager(am_of(ID, 0, 3), 8, 3, 10);
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(calls, 1);
    assert_int_equal(last_length, 10);
    assert_int_equal(last_header_length, 3);
    feed_eager(am_of(UNKNOWN, 0, 3), 8, 3, 10);
    assert_int_equal(ep->state, CW_EP_OPEN);
    assert_int_equal(calls, 1);
}

TEST_WITH(test_first_headers, setup, teardown)
{
    static const struct {
        uint32_t announced;
        uint64_t total;
        size_t header_length, length;
        ucs_status_t status;
    } bad[] = {
        {0, 0, 0, 0, UCS_ERR_IO_ERROR},
        {0, 100, 0, 100, UCS_ERR_IO_ERROR},                     /* all of it */
        {0, 99, 0, 100, UCS_ERR_IO_ERROR},
        {5, 100, 4, 0, UCS_ERR_IO_ERROR},
        {UINT32_MAX, 100, 4, 0, UCS_ERR_IO_ERROR},
        {4, UINT64_MAX, 4, 10, UCS_ERR_IO_ERROR},               /* nobody sends that much */
        {4, UINT64_MAX - 200, 4, 10, UCS_ERR_IO_ERROR},
        {4, UINT64_C(1) << 62, 4, 10, UCS_ERR_IO_ERROR},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        feed_first(ID, bad[i].announced, bad[i].total, 1, bad[i].header_length, bad[i].length);
        is_lost();
        assert_int_equal(ep->status, bad[i].status);
        teardown(state);
        setup(state);
    }
    for (size_t fixed = 0; fixed < sizeof(struct cw_wire_am_first); fixed++) {
        struct cw_wire_am_first first = {.am = am_of(ID, 0, 0), .total = htole64(100)};

        feed(CW_PACKET_AM_FIRST, &first, fixed, 0, 0);
        is_lost();
        teardown(state);
        setup(state);
    }
}

TEST_WITH(test_pieces, setup, teardown)
{
    feed_first(ID, 5, 100, 1, 5, 0); /* nothing but the header */
    feed_first(KEEPER, 0, 100, 2, 0, 60);
    feed_next(1, 0, 50);
    feed_next(2, 60, 40);
    assert_int_equal(calls, 1);
    assert_int_equal(last_length, 100);
    ucp_am_data_release(worker, retained);
    feed_next(1, 50, 50);
    assert_int_equal(calls, 2);
    assert_int_equal(last_header_length, 5);
    assert_int_equal(ep->state, CW_EP_OPEN);
    calls = 0;
    feed_next(1, 100, 1); /* of a message that is complete */
    is_lost();
}

static size_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    size_t pages;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Longer than what is given on the peer's word, with any alignment: whole, where it was kept, its header behind it. */
TEST_WITH(test_long_message, setup, teardown)
{
    static const size_t alignments[] = {0, 64, 65536};
    const size_t total = 5000000, part = 60000;
    size_t at;

    for (size_t i = 0; i < sizeof(alignments) / sizeof(alignments[0]); i++) {
        worker->am_alignment = alignments[i];
        calls = 0;
        feed_first(KEEPER, 5, total, 1, 5, (i == 1) ? 0 : part);
        for (at = (i == 1) ? 0 : part; at < total; at += part) {
            assert_int_equal(calls, 0);
            feed_next(1, at, (part < total - at) ? part : total - at);
        }
        assert_int_equal(calls, 1);
        assert_int_equal(last_length, total);
        assert_int_equal(last_header_length, 5);
        assert_int_equal((uintptr_t)retained % (alignments[i] + (alignments[i] == 0)), 0);
        for (at = 0; at < total; at++) {
            if (((const char *)retained)[at] != 0x64) {
                fail();
            }
        }
        assert_memory_equal((const char *)retained + total, "hhhhh", 5);
        ucp_am_data_release(worker, retained);
    }
    feed_first(KEEPER, 5, total, 1, 5, part); /* the rest never comes */
}

/* What a peer says it will send is given no memory before it comes. */
TEST_WITH(test_made_up_lengths, setup, teardown)
{
    const size_t before = address_space();

    for (uint32_t i = 0; i < CW_MAX_UNFINISHED; i++) {
        feed_first(ID, 0, UINT64_C(1) << 38, i, 0, 10);
        assert_int_equal(ep->state, CW_EP_OPEN);
    }
    assert_in_range(address_space() - before, 0, 4 * CW_MAX_UNFINISHED * CW_AM_AT_ONCE);
    feed_next(0, 10, 60000);
    assert_int_equal(ep->state, CW_EP_OPEN);
}

TEST_WITH(test_wrong_pieces, setup, teardown)
{
    static const struct {
        uint32_t message;
        uint64_t offset;
        size_t length;
    } bad[] = {{2, 10, 10}, {1, 9, 10}, {1, 11, 10}, {1, 10, 91}, {1, UINT64_MAX, 10}, {1, 10, 0}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        feed_first(ID, 0, 100, 1, 0, 10);
        assert_int_equal(ep->state, CW_EP_OPEN);
        feed_next(bad[i].message, bad[i].offset, bad[i].length);
        is_lost();
        teardown(state);
        setup(state);
    }
    feed_first(ID, 0, 100, 1, 0, 10);
    feed_first(ID, 0, 100, 1, 0, 10); /* the number is in use */
    is_lost();
}

TEST_WITH(test_too_many_unfinished, setup, teardown)
{
    for (uint32_t i = 0; i < CW_MAX_UNFINISHED; i++) {
        feed_first(ID, 0, 100, i, 0, 10);
        assert_int_equal(ep->state, CW_EP_OPEN);
    }
    feed_first(ID, 0, 100, CW_MAX_UNFINISHED, 0, 10);
    is_lost();
}

TEST_WITH(test_rts_headers, setup, teardown)
{
    static const struct {
        unsigned flags;
        uint32_t announced;
        uint64_t send_id;
        size_t header_length, length;
    } bad[] = {{0, 4, 1, 3, 0}, {0, 3, 1, 3, 1}, {2, 0, 1, 0, 0}, {0, 0, 0, 0, 0}, {0, UINT32_MAX, 1, 10, 0}};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        feed_rts(ID, bad[i].flags, bad[i].announced, bad[i].send_id, bad[i].header_length, bad[i].length);
        is_lost();
        teardown(state);
        setup(state);
    }
    for (size_t fixed = 0; fixed < sizeof(struct cw_wire_am_rts); fixed++) {
        struct cw_wire_am_rts rts = {.am = am_of(ID, 0, 0), .rts = {.send_id = 1}};

        feed(CW_PACKET_AM_RTS, &rts, fixed, 0, 0);
        is_lost();
        teardown(state);
        setup(state);
    }
}

/* The announcement of nothing: who fetches it learns that it never comes. */
TEST_WITH(test_made_up_announcement, setup, teardown)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    ucs_status_ptr_t fetch;
    char in[100];

    feed_rts(KEEPER, 0, 0, htole64(UINT64_C(12345) << 32), 0, 0);
    assert_int_equal(calls, 1);
    assert_int_equal(ep->state, CW_EP_OPEN);
    fetch = ucp_am_recv_data_nbx(worker, retained, in, sizeof(in), &param);
    assert_true(UCS_PTR_IS_PTR(fetch));
    while (ucp_request_check_status(fetch) == UCS_INPROGRESS) {
        ucp_worker_progress(worker); /* it asks itself, who knows of no such message */
    }
    assert_true(ucp_request_check_status(fetch) < 0);
    ucp_request_free(fetch);
    assert_int_equal(ep->state, CW_EP_FAILED);
}

/* What the program kept and never gave back ends with the worker. */
TEST_WITH(test_retained_for_good, setup, teardown)
{
    feed_eager(am_of(KEEPER, CW_WIRE_AM_REPLY, 3), 8, 3, 10);
    feed_rts(KEEPER, 0, 3, htole64(77), 3, 0);
    feed_first(KEEPER, 3, 100, 1, 3, 10);
    feed_next(1, 10, 90);
    feed_first(KEEPER, 3, 100, 2, 3, 10);
    assert_int_equal(calls, 3);
}

/* AMR-16: what a handler refuses is not kept. */
TEST_WITH(test_refused_is_not_retained, setup, teardown)
{
    const struct cw_list *retained_list = &worker->am->retained;

    for (unsigned i = 0; i < 3; i++) {
        static const ucs_status_t answers[] = {UCS_INPROGRESS, UCS_ERR_NO_MEMORY, UCS_OK};

        answer = answers[i];
        feed_eager(am_of(KEEPER, 0, 3), 8, 3, 10);
        assert_int_equal(cw_list_empty(retained_list), i != 0);
        if (i == 0) {
            ucp_am_data_release(worker, retained);
        }
        feed_first(KEEPER, 3, 100, 1, 3, 10);
        feed_next(1, 10, 90);
        assert_int_equal(cw_list_empty(retained_list), i != 0);
        if (i == 0) {
            ucp_am_data_release(worker, retained);
        }
        assert_true(cw_list_empty(retained_list));
    }
    assert_int_equal(calls, 6);
}

/* AMR-23: pieces for an endpoint that the program has closed take no memory. */
TEST_WITH(test_pieces_for_a_closed_endpoint, setup, teardown)
{
    const struct cw_am_desc *desc;

    ep->handle = CW_HANDLE_CLOSED;
    feed_first(KEEPER, 3, CW_AM_AT_ONCE, 1, 3, 10);
    desc = cw_container_of(cw_op_ep(ep)->reassembly.partial.next, struct cw_am_desc, in.link);
    assert_int_equal(desc->state, CW_AM_DESC_DISCARDED);
    for (size_t at = 10; at < CW_AM_AT_ONCE; at += 65531) {
        feed_next(1, at, (CW_AM_AT_ONCE - at < 65531) ? CW_AM_AT_ONCE - at : 65531);
    }
    assert_true(cw_list_empty(&cw_op_ep(ep)->reassembly.partial));
    assert_int_equal(calls, 0);
    assert_int_equal(ep->state, CW_EP_OPEN);
    ep->handle = CW_HANDLE_NONE;
}

/* AMR-31: a receive for which there is no memory has the message all the same. */
TEST_WITH(test_receive_without_memory, setup, teardown)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_iov()};
    char in[100] = {0};
    ucp_dt_iov_t iov[3] = {{in, 30}, {in + 30, 30}, {in + 60, 40}};
    ucs_status_ptr_t sent, result;

    sent = ucp_am_send_nbx(ep, KEEPER, NULL, 0, in, sizeof(in),
                           &(ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                                  .flags = UCP_AM_SEND_FLAG_RNDV});
    assert_true(UCS_PTR_IS_PTR(sent));
    while (calls == 0) {
        ucp_worker_progress(worker);
    }
    no_memory = 1;
    result = ucp_am_recv_data_nbx(worker, retained, iov, 3, &param);
    no_memory = 0;
    assert_int_equal(UCS_PTR_RAW_STATUS(result), UCS_ERR_NO_MEMORY);
    while (ucp_request_check_status(sent) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
    }
    assert_int_equal(ucp_request_check_status(sent), UCS_ERR_NO_MEMORY);
    ucp_request_free(sent);
    assert_true(cw_list_empty(&cw_op_ep(ep)->reassembly.receiving));
}

#ifdef NDEBUG
#define ASSERTS 0
#else
#define ASSERTS 1
#endif

/* What a child that runs this says before it dies. */
static void says(void (*run)(void *data), void *data, char *text, size_t space)
{
    size_t length = 0;
    ssize_t part;
    int pipes[2], status;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL); /* not the test's */
        dup2(pipes[1], STDERR_FILENO);
        run(data);
        _exit(0);
    }
    close(pipes[1]);
    while ((part = read(pipes[0], text + length, space - 1 - length)) > 0) {
        length += (size_t)part;
    }
    text[length] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void release_twice(void *data)
{
    ucp_am_data_release(worker, data);
    ucp_am_data_release(worker, data);
}

/* Builds with assertions end a program that gives data back twice, and say where; with a sanitizer, that does. Where
 * memory that was freed cannot be read any more, it ends, but without a word. */
static int is_logged(const char *text)
{
#if defined(__GLIBC__)
    return strstr(text, "CW_AM_DESC_MAGIC") != NULL || strstr(text, "heap-use-after-free") != NULL;
#else
    (void)text;
    return 1;
#endif
}

TEST_WITH(test_released_twice, setup, teardown)
{
    char text[4096];

    if (!ASSERTS) {
        skip();
    }
    feed_eager(am_of(KEEPER, 0, 3), 8, 3, 10);
    says(release_twice, retained, text, sizeof(text));
    assert_true(is_logged(text));
    feed_rts(KEEPER, 0, 3, htole64(77), 3, 0);
    says(release_twice, retained, text, sizeof(text));
    assert_true(is_logged(text));
}
