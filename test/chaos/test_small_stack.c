/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of user-level threads, whose stacks have 8 to 16 KiB, calls the library: everything from ucp_init to
 * ucp_cleanup runs on a stack that is painted, and takes the paint off 7 KiB of it at most, which are 12 KiB with the
 * descriptor of a thread and its variables. What the C library's loader and printf need is in that.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "chaos.h"

#define STACK_SIZE ((size_t)256 * 1024)
#define PAINT      0x5a
#define BOUND      ((size_t)7 * 1024)
#define LONGEST    ((size_t)1 << 20)

static size_t used; /* by the last run */

/* Runs the body on a stack of its own, and counts the bytes below which none was written. */
static void *on_painted_stack(void *(*body)(void *), void *argument)
{
    uint8_t *stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    size_t untouched;
    void *result;

    cw_check(stack != MAP_FAILED);
    memset(stack, PAINT, STACK_SIZE);
    cw_check(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK_SIZE) == 0);
    cw_check(pthread_create(&thread, &attributes, body, argument) == 0 && pthread_join(thread, &result) == 0);
    (void)pthread_attr_destroy(&attributes);
    for (untouched = 0; untouched < STACK_SIZE && stack[untouched] == PAINT; untouched++) {
    }
    used = STACK_SIZE - untouched;
    (void)munmap(stack, STACK_SIZE);
    return result;
}

static void *nothing(void *argument)
{
    return argument;
}

struct exchange {
    struct cw_party *party;
    char *out, *in;
    size_t length;
    unsigned messages; /* that arrived */
};

static const ucp_request_param_t none = {0};

static void wait_for(struct exchange *exchange, void *request)
{
    cw_check(!UCS_PTR_IS_ERR(request));
    while (request != NULL && ucp_request_check_status(request) == UCS_INPROGRESS) {
        (void)ucp_worker_progress(exchange->party->worker);
    }
    if (request != NULL) {
        cw_check(ucp_request_check_status(request) == UCS_OK);
        ucp_request_free(request);
    }
}

static ucs_status_t take(void *arg, const void *header, size_t header_length, void *data, size_t length,
                         const ucp_am_recv_param_t *param)
{
    struct exchange *exchange = arg;

    (void)header, (void)header_length, (void)data, (void)length, (void)param;
    exchange->messages++; /* what was announced is refused by taking no data */
    return UCS_OK;
}

static void exchange_by_messages(struct exchange *exchange)
{
    ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    const unsigned before = exchange->messages;
    void *request;
    size_t length;

    request = ucp_tag_recv_nbx(exchange->party->worker, exchange->in, exchange->length, 1, ~0ul, &none);
    wait_for(exchange, ucp_tag_send_nbx(exchange->party->ep, exchange->out, exchange->length, 1, &none));
    wait_for(exchange, request);
    wait_for(exchange, ucp_am_send_nbx(exchange->party->ep, 1, "head", 4, exchange->out, exchange->length, &none));
    while (exchange->messages == before) {
        (void)ucp_worker_progress(exchange->party->worker);
    }
    request = ucp_stream_recv_nbx(exchange->party->ep, exchange->in, exchange->length, &length, &all);
    wait_for(exchange, ucp_stream_send_nbx(exchange->party->ep, exchange->out, exchange->length, &none));
    wait_for(exchange, request);
}

static void exchange_by_memory(struct exchange *exchange, ucp_rkey_h rkey)
{
    const uint64_t address = (uint64_t)(uintptr_t)exchange->in;

    wait_for(exchange, ucp_put_nbx(exchange->party->ep, exchange->out, exchange->length, address, rkey, &none));
    wait_for(exchange, ucp_get_nbx(exchange->party->ep, exchange->out, exchange->length, address, rkey, &none));
    wait_for(exchange, ucp_ep_flush_nbx(exchange->party->ep, &none));
}

static void register_memory(struct exchange *exchange, ucp_mem_h *memory, ucp_rkey_h *rkey)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = exchange->in, .length = LONGEST};
    void *packed;
    size_t length;

    cw_check(ucp_mem_map(exchange->party->context, &params, memory) == UCS_OK);
    cw_check(ucp_rkey_pack(exchange->party->context, *memory, &packed, &length) == UCS_OK);
    cw_check(ucp_ep_rkey_unpack(exchange->party->ep, packed, rkey) == UCS_OK);
    ucp_rkey_buffer_release(packed);
}

static void *live(void *argument)
{
    static const size_t lengths[] = {8, 2000, 20000, LONGEST};
    ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id = 1, .cb = take};
    struct cw_party party = {0};
    struct exchange exchange = {.party = &party, .out = calloc(1, LONGEST), .in = calloc(1, LONGEST)};
    ucp_rkey_h rkey;
    ucp_mem_h memory;
    size_t i;

    cw_check(exchange.out != NULL && exchange.in != NULL);
    cw_party_open(&party, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA);
    cw_party_connect(&party, &party);
    handler.arg = &exchange;
    cw_check(ucp_worker_set_am_recv_handler(party.worker, &handler) == UCS_OK);
    register_memory(&exchange, &memory, &rkey);
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        exchange.length = lengths[i];
        exchange_by_messages(&exchange);
        exchange_by_memory(&exchange, rkey);
    }
    ucp_rkey_destroy(rkey);
    cw_check(ucp_mem_unmap(party.context, memory) == UCS_OK);
    cw_party_close(&party);
    free(exchange.out);
    free(exchange.in);
    return argument;
}

static void body(void *argument)
{
    size_t least;

    (void)on_painted_stack(nothing, NULL);
    least = used; /* the thread's own descriptor lies on its stack */
    (void)on_painted_stack(live, argument);
    cw_check(used > least);
    (void)fprintf(stderr, "%zu bytes of stack are used, %zu of them by a thread that does nothing\n", used, least);
    cw_check(used - least <= BOUND);
}

TEST(test_calls_need_little_stack)
{
    cw_child_must_pass(body, NULL, "all calls on a painted stack");
}
