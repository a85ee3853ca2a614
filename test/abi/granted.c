/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Structures whose mask grants only their first members (GEN-2, GEN-4, GEN-5). Each ends behind the last member that
 * the mask names, where a page begins that may not be touched, so that a read or write of a later member ends the
 * program.
 * Members before it that the mask does not name are ones. Lists of pieces end there with their last entry.
 * Usage: granted [listen], the word where TCP is there. Status 0: each call got its status.
 */
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <ucp/api/device/ucp_host.h>
#include <ucp/api/ucp.h>

#include "finish.h"
#include "must.h"

/* A structure of which the program has only the members up to `member`, with that mask. */
#define GRANTED(type, member, mask) \
    granted(sizeof(uint64_t), offsetof(type, member) + sizeof(((type *)0)->member), (mask))
#define OPERATION(member, mask) \
    granted(sizeof(uint32_t), offsetof(ucp_request_param_t, member) + sizeof((ucp_request_param_t){0}.member), (mask))

enum { PAGE = 4096, PLACES = 4, PIECES = 3, PIECE = 64 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static char *fences[PLACES]; /* each the first address of a page that may not be touched */
static unsigned place;
static char memory[PIECES * PIECE], other[PIECES * PIECE];

/* A few places in turn: the last ones stay as they are. */
static void *at_fence(size_t size)
{
    char *fence = fences[place++ % PLACES];

    memset(fence - PAGE, 0xff, PAGE);
    return fence - (size + 7) / 8 * 8;
}

static void *granted(size_t mask_size, size_t size, uint64_t mask)
{
    const uint32_t half = (uint32_t)mask;
    void *structure = at_fence(size);

    memcpy(structure, mask_size == sizeof(half) ? (const void *)&half : &mask, mask_size);
    return structure;
}

static void begin(void)
{
    ucp_params_t *params = GRANTED(ucp_params_t, features, UCP_PARAM_FIELD_FEATURES);
    ucp_lib_attr_t *library = GRANTED(ucp_lib_attr_t, field_mask, 0);
    ucp_context_attr_t *attributes;
    ucp_worker_params_t *parameters;
    ucp_worker_attr_t *attr;
    ucp_ep_params_t *to;

    must(ucp_lib_query(library) == UCS_OK);
    params->features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AMO64 | UCP_FEATURE_AM | UCP_FEATURE_STREAM;
    must(ucp_init(params, NULL, &context) == UCS_OK);
    attributes = GRANTED(ucp_context_attr_t, field_mask, 0);
    must(ucp_context_query(context, attributes) == UCS_OK);
    attributes = GRANTED(ucp_context_attr_t, request_size, UCP_ATTR_FIELD_REQUEST_SIZE);
    must(ucp_context_query(context, attributes) == UCS_OK && attributes->request_size < PAGE);
    parameters = GRANTED(ucp_worker_params_t, field_mask, 0);
    must(ucp_worker_create(context, parameters, &worker) == UCS_OK);
    ucp_worker_destroy(worker);
    parameters = GRANTED(ucp_worker_params_t, thread_mode, UCP_WORKER_PARAM_FIELD_THREAD_MODE);
    parameters->thread_mode = UCS_THREAD_MODE_SINGLE;
    must(ucp_worker_create(context, parameters, &worker) == UCS_OK);
    attr = GRANTED(ucp_worker_attr_t, field_mask, 0);
    must(ucp_worker_query(worker, attr) == UCS_OK);
    attr = GRANTED(ucp_worker_attr_t, address_length, UCP_WORKER_ATTR_FIELD_ADDRESS);
    must(ucp_worker_query(worker, attr) == UCS_OK);
    to = GRANTED(ucp_ep_params_t, address, UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
    to->address = attr->address;
    must(ucp_ep_create(worker, to, &ep) == UCS_OK);
    must(ucp_worker_address_query(attr->address, GRANTED(ucp_worker_address_attr_t, field_mask, 0)) == UCS_OK);
    ucp_worker_release_address(worker, attr->address);
    must(ucp_ep_query(ep, GRANTED(ucp_ep_attr_t, field_mask, 0)) == UCS_OK);
    must(ucp_ep_query(ep, GRANTED(ucp_ep_attr_t, name, UCP_EP_ATTR_FIELD_NAME)) == UCS_OK);
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    *(int *)arg = 1;
    return UCS_OK;
}

static void exchange(void)
{
    static int called;
    ucp_am_handler_param_t *handler;
    ucs_status_ptr_t receive;
    size_t length;

    receive = ucp_tag_recv_nbx(worker, other, PIECE, 1, UINT64_MAX, OPERATION(op_attr_mask, 0));
    must(finish(worker, ucp_tag_send_nbx(ep, memory, PIECE, 1, OPERATION(op_attr_mask, 0))) == UCS_OK);
    must(finish(worker, receive) == UCS_OK);
    receive = ucp_stream_recv_nbx(ep, other, PIECE, &length, OPERATION(flags, 0));
    must(finish(worker, ucp_stream_send_nbx(ep, memory, PIECE, OPERATION(flags, 0))) == UCS_OK);
    must(finish(worker, receive) == UCS_OK);
    handler = GRANTED(ucp_am_handler_param_t, arg, UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG);
    handler->id = 3;
    handler->cb = on_message;
    handler->arg = &called;
    must(ucp_worker_set_am_recv_handler(worker, handler) == UCS_OK);
    must(finish(worker, ucp_am_send_nbx(ep, 3, NULL, 0, memory, PIECE, OPERATION(op_attr_mask, 0))) == UCS_OK);
    while (!called) {
        ucp_worker_progress(worker);
    }
    must(finish(worker, ucp_ep_flush_nbx(ep, OPERATION(op_attr_mask, 0))) == UCS_OK);
    must(finish(worker, ucp_worker_flush_nbx(worker, OPERATION(op_attr_mask, 0))) == UCS_OK);
}

static void estimate(void)
{
    ucp_ep_evaluate_perf_param_t *param =
        GRANTED(ucp_ep_evaluate_perf_param_t, message_size, UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE);
    ucp_ep_evaluate_perf_attr_t *attr =
        GRANTED(ucp_ep_evaluate_perf_attr_t, estimated_time, UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME);

    param->message_size = 8;
    must(ucp_ep_evaluate_perf(ep, param, attr) == UCS_OK);
    attr = GRANTED(ucp_ep_evaluate_perf_attr_t, field_mask, 0);
    must(ucp_ep_evaluate_perf(ep, param, attr) == UCS_ERR_INVALID_PARAM);
    param = GRANTED(ucp_ep_evaluate_perf_param_t, field_mask, 0);
    must(ucp_ep_evaluate_perf(ep, param, attr) == UCS_ERR_INVALID_PARAM);
}

/* Arrays that end at the fence with their last entry. */
static void put_pieces(ucp_rkey_h rkey)
{
    void **buffers = malloc(PIECES * sizeof(*buffers));
    uint64_t *addresses = malloc(PIECES * sizeof(*addresses));
    ucp_dt_local_sgl_t *local;
    ucp_dt_remote_sgl_t *remote;
    ucp_request_param_t *param;
    size_t *lengths = at_fence(PIECES * sizeof(*lengths));
    ucp_rkey_h *keys = malloc(PIECES * sizeof(*keys));

    must(buffers != NULL && addresses != NULL && keys != NULL);
    for (int i = 0; i < PIECES; i++) {
        buffers[i] = other + i * PIECE;
        lengths[i] = PIECE;
        addresses[i] = (uintptr_t)memory + (size_t)i * PIECE;
        keys[i] = rkey;
    }
    memset(other, 7, sizeof(other));
    local = GRANTED(ucp_dt_local_sgl_t, lengths, UCP_DT_LOCAL_SGL_FIELD_BUFFERS |
                    UCP_DT_LOCAL_SGL_FIELD_LENGTHS);
    local->buffers = buffers;
    local->lengths = lengths;
    remote = GRANTED(ucp_dt_remote_sgl_t, rkeys, UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS |
                     UCP_DT_REMOTE_SGL_FIELD_LENGTHS | UCP_DT_REMOTE_SGL_FIELD_RKEYS);
    remote->remote_addrs = addresses;
    remote->lengths = lengths;
    remote->rkeys = keys;
    param = OPERATION(remote, UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                      UCP_OP_ATTR_FIELD_REMOTE);
    param->datatype = ucp_dt_make_sgl();
    param->remote_datatype = ucp_dt_make_sgl();
    param->remote = remote;
    must(finish(worker, ucp_put_nbx(ep, local, PIECES, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, param)) == UCS_OK);
    must(finish(worker, ucp_ep_flush_nbx(ep, &(const ucp_request_param_t){.op_attr_mask = 0})) == UCS_OK);
    must(memcmp(memory, other, sizeof(other)) == 0);
    local = granted(sizeof(uint64_t), sizeof(uint64_t), 0);
    must(finish(worker, ucp_put_nbx(ep, local, PIECES, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, param)) ==
         UCS_ERR_INVALID_PARAM); /* N22-94: nothing of it is granted */
    free(buffers);
    free(addresses);
    free(keys);
}

static void access_memory(void)
{
    ucp_mem_map_params_t *params = GRANTED(ucp_mem_map_params_t, length,
                                           UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH);
    ucp_mem_advise_params_t *advice;
    uint64_t sum = 1;
    ucp_request_param_t *param;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    size_t length;
    void *packed;
    int result;

    params->address = memory;
    params->length = sizeof(memory);
    must(ucp_mem_map(context, params, &memh) == UCS_OK);
    must(ucp_mem_query(memh, GRANTED(ucp_mem_attr_t, field_mask, 0)) == UCS_OK);
    must(ucp_mem_query(memh, GRANTED(ucp_mem_attr_t, address, UCP_MEM_ATTR_FIELD_ADDRESS)) == UCS_OK);
    advice = GRANTED(ucp_mem_advise_params_t, advice, UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS |
                     UCP_MEM_ADVISE_PARAM_FIELD_LENGTH | UCP_MEM_ADVISE_PARAM_FIELD_ADVICE);
    advice->address = memory;
    advice->length = sizeof(memory);
    advice->advice = UCP_MADV_NORMAL;
    must(ucp_mem_advise(context, memh, advice) == UCS_OK);
    must(ucp_memh_pack(memh, GRANTED(ucp_memh_pack_params_t, field_mask, 0), &packed, &length) == UCS_OK);
    ucp_memh_buffer_release(packed, GRANTED(ucp_memh_buffer_release_params_t, field_mask, 0));
    must(ucp_rkey_pack(context, memh, &packed, &length) == UCS_OK);
    must(ucp_ep_rkey_unpack(ep, packed, &rkey) == UCS_OK);
    ucp_rkey_buffer_release(packed);
    must(ucp_rkey_compare(worker, rkey, rkey, GRANTED(ucp_rkey_compare_params_t, field_mask, 0), &result) == UCS_OK);
    must(result == 0);
    must(finish(worker, ucp_put_nbx(ep, other, PIECE, (uintptr_t)memory, rkey, OPERATION(op_attr_mask, 0))) == UCS_OK);
    must(finish(worker, ucp_get_nbx(ep, other, PIECE, (uintptr_t)memory, rkey, OPERATION(op_attr_mask, 0))) == UCS_OK);
    param = OPERATION(datatype, UCP_OP_ATTR_FIELD_DATATYPE);
    param->datatype = ucp_dt_make_contig(sizeof(sum));
    must(finish(worker, ucp_atomic_op_nbx(ep, UCP_ATOMIC_OP_ADD, &sum, 1, (uintptr_t)memory, rkey, param)) == UCS_OK);
    put_pieces(rkey);
    ucp_rkey_destroy(rkey);
    must(ucp_mem_unmap(context, memh) == UCS_OK);
}

/* N22-122, N22-123, N22-127: entries shorter than the header's, the last of which ends there; and counters. */
static void devices(void)
{
    enum { SHORT = offsetof(ucp_device_mem_list_elem_t, local_addr) };
    char *entries = at_fence(PIECES * (size_t)SHORT);
    ucp_mem_map_params_t *params = GRANTED(ucp_mem_map_params_t, length,
                                           UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH);
    ucp_device_mem_list_params_t *list;
    ucp_device_counter_params_t *about;
    ucp_device_remote_mem_list_h remote;
    ucp_device_local_mem_list_h local;
    uint64_t counter = 5, mask;
    ucp_mem_h memh;

    params->address = memory;
    params->length = sizeof(memory);
    must(ucp_mem_map(context, params, &memh) == UCS_OK);
    for (size_t i = 0; i < PIECES; i++) {
        mask = UCP_DEVICE_MEM_LIST_ELEM_FIELD_MEMH;
        memcpy(entries + i * SHORT, &mask, sizeof(mask));
        memcpy(entries + i * SHORT + offsetof(ucp_device_mem_list_elem_t, memh), &memh, sizeof(memh));
    }
    list = GRANTED(ucp_device_mem_list_params_t, elements,
                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENTS | UCP_DEVICE_MEM_LIST_PARAMS_FIELD_ELEMENT_SIZE |
                   UCP_DEVICE_MEM_LIST_PARAMS_FIELD_NUM_ELEMENTS | UCP_DEVICE_MEM_LIST_PARAMS_FIELD_WORKER);
    list->element_size = SHORT;
    list->num_elements = PIECES;
    list->worker = worker;
    list->elements = (const void *)entries;
    must(ucp_device_local_mem_list_create(list, &local) == UCS_ERR_UNSUPPORTED);
    mask = UCP_DEVICE_MEM_LIST_ELEM_FIELD_RKEY | UCP_DEVICE_MEM_LIST_ELEM_FIELD_EP; /* where no entry has room */
    memcpy(entries + (PIECES - 1) * SHORT, &mask, sizeof(mask));
    must(ucp_device_remote_mem_list_create(list, &remote) == UCS_ERR_INVALID_PARAM);
    must(ucp_device_local_mem_list_create(list, &local) == UCS_ERR_INVALID_PARAM);
    list = GRANTED(ucp_device_mem_list_params_t, field_mask, 0);
    must(ucp_device_local_mem_list_create(list, &local) == UCS_ERR_INVALID_PARAM);
    must(ucp_device_remote_mem_list_create(list, &remote) == UCS_ERR_INVALID_PARAM);
    about = GRANTED(ucp_device_counter_params_t, field_mask, 0);
    must(ucp_device_counter_init(worker, about, &counter) == UCS_OK && counter == 0);
    about = GRANTED(ucp_device_counter_params_t, mem_type, UCP_DEVICE_COUNTER_PARAMS_FIELD_MEM_TYPE);
    about->mem_type = UCS_MEMORY_TYPE_HOST;
    must(ucp_device_counter_init(worker, about, &counter) == UCS_OK);
    must(ucp_device_counter_read(worker, about, &counter) == 0);
    must(ucp_mem_unmap(context, memh) == UCS_OK);
}

static void on_connection(ucp_conn_request_h request, void *arg)
{
    (void)request;
    (void)arg;
}

static void listen_for_peers(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t *params = GRANTED(ucp_listener_params_t, conn_handler,
                                            UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                            UCP_LISTENER_PARAM_FIELD_CONN_HANDLER);
    ucp_listener_h listener;

    params->sockaddr = (ucs_sock_addr_t){.addr = (struct sockaddr *)&address, .addrlen = sizeof(address)};
    params->conn_handler = (ucp_listener_conn_handler_t){.cb = on_connection};
    must(ucp_listener_create(worker, params, &listener) == UCS_OK);
    must(ucp_listener_query(listener, GRANTED(ucp_listener_attr_t, field_mask, 0)) == UCS_OK);
    ucp_listener_destroy(listener);
    params = GRANTED(ucp_listener_params_t, field_mask, 0);
    must(ucp_listener_create(worker, params, &listener) == UCS_ERR_INVALID_PARAM);
}

int main(int argc, char **argv)
{
    for (int i = 0; i < PLACES; i++) {
        fences[i] = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(fences[i] != MAP_FAILED);
        fences[i] += PAGE;
        must(mprotect(fences[i], PAGE, PROT_NONE) == 0);
    }
    begin();
    exchange();
    estimate();
    access_memory();
    devices();
    if (argc > 1) {
        must(strcmp(argv[1], "listen") == 0);
        listen_for_peers();
    }
    must(finish(worker, ucp_ep_close_nbx(ep, OPERATION(op_attr_mask, 0))) == UCS_OK);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
