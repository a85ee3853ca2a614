/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program whose calls docs/FLOW.md shows: two workers in one process that talk over one transport. Usage: subject
 * TRANSPORT STEP. It goes as far as the step, calls flow_begin, where flow.py sets a breakpoint, and then does the
 * step. Linked with the library's objects without optimization, so that every function has a frame.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "core/rkey.h"

static ucp_worker_h worker_a, worker_b;
static ucp_ep_h ep;
static ucp_rkey_h rkey;
static uint64_t remote;
static int num_received;

void flow_begin(void);
void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data);
ucs_status_t called(void *arg, const void *header, size_t header_length, void *data, size_t length,
                    const ucp_am_recv_param_t *param);

static const ucp_request_param_t plain;

void flow_begin(void)
{
}

void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info;
    (void)user_data;
    num_received += (status == UCS_OK);
    ucp_request_free(request);
}

ucs_status_t called(void *arg, const void *header, size_t header_length, void *data, size_t length,
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

static void must(int condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "subject: %s\n", what);
        exit(1);
    }
}

static ucp_worker_h new_worker(ucp_context_h context)
{
    const ucp_worker_params_t params = {0};
    ucp_worker_h worker;

    must(ucp_worker_create(context, &params, &worker) == UCS_OK, "no worker");
    return worker;
}

static ucp_ep_h new_ep(ucp_worker_h from, ucp_worker_h to)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    ucp_ep_h result;

    must(ucp_worker_get_address(to, &address, &length) == UCS_OK, "no address");
    params.address = address;
    must(ucp_ep_create(from, &params, &result) == UCS_OK, "no endpoint");
    ucp_worker_release_address(to, address);
    return result;
}

static void progress_both(void)
{
    ucp_worker_progress(worker_a);
    ucp_worker_progress(worker_b);
}

static void wait_for(ucs_status_ptr_t request)
{
    if (request == NULL) {
        return;
    }
    must(!UCS_PTR_IS_ERR(request), "an operation failed");
    while (ucp_request_check_status(request) == UCS_INPROGRESS) {
        progress_both();
    }
    ucp_request_free(request);
}

static ucs_status_ptr_t send_8_bytes(void)
{
    static const uint64_t value = 42;

    return ucp_tag_send_nbx(ep, &value, sizeof(value), 1, &plain);
}

static ucs_status_ptr_t call_handler(void)
{
    static const uint64_t value = 42;

    return ucp_am_send_nbx(ep, 1, NULL, 0, &value, sizeof(value), &plain);
}

static void set_handler(void)
{
    const ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                          .id         = 1,
                                          .cb         = called};

    must(ucp_worker_set_am_recv_handler(worker_b, &param) == UCS_OK, "no handler");
}

/* Memory of the library's own, which shared memory reaches directly. */
static void map_memory(ucp_context_h context)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length     = 4096,
                                         .flags      = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attr               = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    size_t length;
    ucp_mem_h memh;
    void *bytes;

    must(ucp_mem_map(context, &params, &memh) == UCS_OK, "no memory");
    must(ucp_mem_query(memh, &attr) == UCS_OK, "no address of memory");
    must(ucp_rkey_pack(context, memh, &bytes, &length) == UCS_OK, "no key");
    must(ucp_ep_rkey_unpack(ep, bytes, &rkey) == UCS_OK, "a key that cannot be read");
    remote = (uint64_t)(uintptr_t)attr.address;
}

static ucs_status_ptr_t access_memory(const char *step)
{
    static uint64_t value = 42;

    return (strcmp(step, "put") == 0) ? ucp_put_nbx(ep, &value, sizeof(value), remote, rkey, &plain) :
           ucp_get_nbx(ep, &value, sizeof(value), remote, rkey, &plain);
}

static void post_receive(void)
{
    static uint64_t value;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                       .cb.recv      = received};

    must(!UCS_PTR_IS_ERR(ucp_tag_recv_nbx(worker_b, &value, sizeof(value), 1, UINT64_MAX, &param)), "no receive");
}

static void exchange(void)
{
    const int before = num_received;

    post_receive();
    wait_for(send_8_bytes());
    while (num_received == before) {
        progress_both();
    }
}

static void arm(ucp_worker_h worker)
{
    while (ucp_worker_arm(worker) == UCS_ERR_BUSY) {
        progress_both();
    }
}

/* What this process reaches by itself is reached like memory of another one that only the system can copy to. */
static void hide_memory(void)
{
    cw_rkey_set_local(rkey, NULL);
}

/* Everything before the step; 0 when the step is not known. */
static int prepare(const char *step)
{
    if (strcmp(step, "dial") == 0) {
        return 1;
    }
    if (strcmp(step, "accept") == 0 || strcmp(step, "opened") == 0) {
        must(UCS_PTR_IS_PTR(send_8_bytes()), "connected at once");
        return 1;
    }
    exchange();
    set_handler();
    if (strcmp(step, "called") == 0) {
        wait_for(call_handler());
    } else if (strcmp(step, "receive") == 0) {
        post_receive();
        wait_for(send_8_bytes());
    } else if (strcmp(step, "counted") == 0 || strcmp(step, "carried") == 0) {
        hide_memory();
        if (strcmp(step, "carried") == 0) {
            wait_for(access_memory("put"));
        }
    } else if (strcmp(step, "wake") == 0) {
        post_receive();
        arm(worker_b);
    }
    return strcmp(step, "send") == 0 || strcmp(step, "receive") == 0 || strcmp(step, "close") == 0 ||
           strcmp(step, "arm") == 0 || strcmp(step, "wake") == 0 || strcmp(step, "call") == 0 ||
           strcmp(step, "called") == 0 || strcmp(step, "put") == 0 || strcmp(step, "get") == 0 ||
           strcmp(step, "counted") == 0 || strcmp(step, "carried") == 0;
}

static void run(const char *step)
{
    if (strcmp(step, "receive") == 0 || strcmp(step, "called") == 0 || strcmp(step, "carried") == 0) {
        for (;;) { /* until the breakpoint is met, or the time given is over */
            ucp_worker_progress(worker_b);
        }
    } else if (strcmp(step, "accept") == 0 || strcmp(step, "opened") == 0) {
        for (;;) {
            progress_both();
        }
    } else if (strcmp(step, "close") == 0) {
        wait_for(ucp_ep_close_nbx(ep, &plain));
    } else if (strcmp(step, "arm") == 0) {
        arm(worker_b);
    } else if (strcmp(step, "call") == 0) {
        wait_for(call_handler());
    } else if (strcmp(step, "put") == 0 || strcmp(step, "get") == 0 || strcmp(step, "counted") == 0) {
        wait_for(access_memory((strcmp(step, "get") == 0) ? "get" : "put"));
    } else {
        wait_for(send_8_bytes());
    }
}

int main(int argc, char **argv)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features   = UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA |
                                               UCP_FEATURE_WAKEUP};
    ucp_context_h context;

    must(argc == 3, "usage: subject TRANSPORT STEP");
    alarm(60); /* should the debugger be gone, nobody else would end it */
    setenv("UCX_TLS", argv[1], 1);
    must(ucp_init(&params, NULL, &context) == UCS_OK, "no context");
    worker_a = new_worker(context);
    worker_b = new_worker(context);
    ep       = new_ep(worker_a, worker_b);
    map_memory(context);
    must(prepare(argv[2]), "no such step");
    flow_begin();
    run(argv[2]);
    return 0;
}
