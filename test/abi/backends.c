/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The calls that today's programs make of UCP, with their flags, in their order and on their threads, written from the
 * rules that they rely on (R1 to R28, N22-*): a transfer agent (as NIXL: APP-7, N22-142), endpoints of Python programs
 * (as ucxx: APP-6), RPC (as mercury), Java's binding (as JUCX: APP-8). Both sides are workers of this process. Usage:
 * backends NAME. Status 0: each got what it relies on.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "finish.h"
#include "must.h"

static const ucp_request_param_t none;

struct agent {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    pthread_t thread;
    volatile int stop;
};

static void *progress(void *arg)
{
    struct agent *agent = arg;

    while (!agent->stop) {
        ucp_worker_progress(agent->worker);
    }
    return NULL;
}

static void open_agent(struct agent *agent, uint64_t features, const char *const (*settings)[2], size_t request_size)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                                         UCP_PARAM_FIELD_REQUEST_SIZE,
                           .features = features,
                           .mt_workers_shared = 1,
                           .request_size = request_size};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_MULTI};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucp_config_t *config;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    for (; settings != NULL && (*settings)[0] != NULL; settings++) {
        must(ucp_config_modify(config, (*settings)[0], (*settings)[1]) == UCS_OK);
    }
    must(ucp_init(&params, config, &agent->context) == UCS_OK);
    ucp_config_release(config);
    must(ucp_worker_create(agent->context, &worker_params, &agent->worker) == UCS_OK);
    must(ucp_worker_query(agent->worker, &attr) == UCS_OK && attr.thread_mode == UCS_THREAD_MODE_MULTI);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    (void)status;
}

static void connect_to(struct agent *agent, const struct agent *peer, ucp_err_handling_mode_t mode)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_USER_DATA,
                             .err_mode = mode,
                             .err_handler = {.cb = on_error},
                             .user_data = agent};
    ucp_ep_attr_t ep_attr = {.field_mask = UCP_EP_ATTR_FIELD_USER_DATA};

    must(ucp_worker_query(peer->worker, &attr) == UCS_OK && attr.address_length < 1024);
    params.address = attr.address;
    must(ucp_ep_create(agent->worker, &params, &agent->ep) == UCS_OK);
    ucp_worker_release_address(peer->worker, attr.address);
    must(ucp_ep_query(agent->ep, &ep_attr) == UCS_OK && ep_attr.user_data == agent);
}

/* Freed before it is complete; it goes on (R4). */
static void let_go(ucs_status_ptr_t request)
{
    must(!UCS_PTR_IS_ERR(request));
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void close_agent(struct agent *agent)
{
    ucp_worker_destroy(agent->worker);
    ucp_cleanup(agent->context);
}

/* ---- a transfer agent ---- */

static volatile int notices;

static ucs_status_t on_notice(void *arg, const void *header, size_t header_length, void *data, size_t length,
                              const ucp_am_recv_param_t *param)
{
    const uint64_t *words = arg;

    must(header_length == 4 && memcmp(header, "note", 4) == 0 && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV));
    must(length == 5 && memcmp(data, "done!", 5) == 0);
    must(words[0] == 1 && words[1023] == 1); /* what was flushed before is there */
    notices++;
    return UCS_OK;
}

/* All arrays in one block that lives as long as the request (N22-91). */
static ucs_status_ptr_t put_all(struct agent *agent, uint64_t *from, uint64_t to, ucp_rkey_h rkey, ucp_mem_h memh,
                                char *block)
{
    enum { COUNT = 4, LENGTH = 256 * sizeof(uint64_t) };
    void **buffers = (void **)(void *)block;
    size_t *lengths = (size_t *)(void *)(buffers + COUNT);
    ucp_mem_h *memhs = (ucp_mem_h *)(void *)(lengths + COUNT);
    uint64_t *addresses = (uint64_t *)(void *)(memhs + COUNT);
    ucp_rkey_h *rkeys = (ucp_rkey_h *)(void *)(addresses + COUNT);
    ucp_dt_local_sgl_t local = {UCP_DT_LOCAL_SGL_FIELD_BUFFERS | UCP_DT_LOCAL_SGL_FIELD_LENGTHS |
                                UCP_DT_LOCAL_SGL_FIELD_MEMHS, buffers, lengths, memhs, NULL, NULL};
    ucp_dt_remote_sgl_t remote = {UCP_DT_REMOTE_SGL_FIELD_REMOTE_ADDRS | UCP_DT_REMOTE_SGL_FIELD_LENGTHS |
                                  UCP_DT_REMOTE_SGL_FIELD_RKEYS, addresses, lengths, rkeys};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REMOTE_DATATYPE |
                                                 UCP_OP_ATTR_FIELD_REMOTE | UCP_OP_ATTR_FIELD_REMOTE_COUNT,
                                 .datatype = ucp_dt_make_sgl(),
                                 .remote_datatype = ucp_dt_make_sgl(),
                                 .remote = &remote,
                                 .remote_count = COUNT};

    for (int i = 0; i < COUNT; i++) {
        buffers[i] = (char *)from + i * LENGTH;
        lengths[i] = LENGTH;
        memhs[i] = memh;
        addresses[i] = to + (uint64_t)i * LENGTH;
        rkeys[i] = rkey;
    }
    return ucp_put_nbx(agent->ep, &local, COUNT, UCP_REMOTE_ADDR_INVALID, UCP_RKEY_INVALID, &param);
}

static void transfer_agent(void)
{
    static const char *const settings[][2] = {{"RNDV_THRESH", "inf"}, {"MAX_RMA_RAILS", "2"}, {"RC_FENCE", "none"},
                                              {"IB_PCI_RELAXED_ORDERING", "try"}, {"MAX_HCA_PER_GPU", "auto"},
                                              {"RC_GDA_NUM_CHANNELS", "4"}, {"RNDV_PIPELINE_ERROR_HANDLING", "y"},
                                              {"NET_DEVICES", "all"}, {NULL, NULL}};
    static uint64_t from[1024], to[1024];
    struct agent mine = {0}, theirs = {0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                .address = from, .length = sizeof(from)};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = 3, .cb = on_notice, .arg = to};
    ucp_request_param_t note = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    ucp_mem_h memh, their_memh;
    ucp_rkey_h rkey;
    Dl_info info;
    char block[512];
    void *packed;
    size_t size;

    must(dladdr((void *)(uintptr_t)&ucp_get_version_string, &info) != 0 && strstr(info.dli_fname, "backends") == NULL);
    open_agent(&mine, UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64, settings, 0);
    open_agent(&theirs, UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64, settings, 0);
    must(ucp_worker_set_am_recv_handler(theirs.worker, &handler) == UCS_OK);
    must(pthread_create(&theirs.thread, NULL, progress, &theirs) == 0);
    connect_to(&mine, &theirs, UCP_ERR_HANDLING_MODE_NONE);
    must(ucp_mem_map(mine.context, &map, &memh) == UCS_OK);
    map.address = to;
    must(ucp_mem_map(theirs.context, &map, &their_memh) == UCS_OK);
    must(ucp_rkey_pack(theirs.context, their_memh, &packed, &size) == UCS_OK && size <= 64);
    must(ucp_ep_rkey_unpack(mine.ep, packed, &rkey) == UCS_OK);
    ucp_rkey_buffer_release(packed);
    for (size_t i = 0; i < 1024; i++) {
        from[i] = 1;
    }
    must(finish(mine.worker, put_all(&mine, from, (uintptr_t)to, rkey, memh, block)) == UCS_OK);
    must(finish(mine.worker, ucp_ep_flush_nbx(mine.ep, &none)) == UCS_OK);
    must(finish(mine.worker, ucp_am_send_nbx(mine.ep, 3, "note", 4, "done!", 5, &note)) == UCS_OK);
    while (notices == 0) {
        ucp_worker_progress(mine.worker);
    }
    must(finish(mine.worker, ucp_get_nbx(mine.ep, from, sizeof(from), (uintptr_t)to, rkey, &none)) == UCS_OK);
    ucp_rkey_destroy(rkey);
    must(ucp_mem_unmap(mine.context, memh) == UCS_OK);
    must(finish(mine.worker, ucp_ep_close_nbx(mine.ep, &none)) == UCS_OK);
    theirs.stop = 1;
    pthread_join(theirs.thread, NULL);
    must(ucp_mem_unmap(theirs.context, their_memh) == UCS_OK);
    close_agent(&mine);
    close_agent(&theirs);
}

/* ---- endpoints of Python programs ---- */

static void settings_are_pairs(void)
{
    ucp_config_t *config;
    char *text, *line, *rest;
    size_t size;
    FILE *stream;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    stream = open_memstream(&text, &size);
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    fclose(stream);
    must(strstr(text, "UCX_TLS=") != NULL);
    for (line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        must(strncmp(line, "UCX_", 4) == 0 && strchr(line, '=') != NULL && strchr(line, '=') == strrchr(line, '='));
    }
    free(text);
    ucp_config_release(config);
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    (void)request;
    (void)info;
    *(int *)arg = (status == UCS_OK) ? 1 : (int)status;
}

static void python_endpoints(void)
{
    static const char *const settings[][2] = {{"TLS", "all"}, {"RNDV_THRESH", "8192"}, {"RNDV_FRAG_MEM_TYPE", "host"},
                                              {"MAX_RNDV_RAILS", "1"}, {"MEMTYPE_CACHE", "n"}, {NULL, NULL}};
    struct agent one = {0}, other = {0};
    char out[100000], in[100000];
    int done = 0;
    ucp_request_param_t receive = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                   UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                   .cb.recv = on_received, .user_data = &done, .datatype = ucp_dt_make_contig(1)};
    ucs_status_ptr_t request;
    struct pollfd watch = {.events = POLLIN};
    ucs_status_t armed;

    settings_are_pairs();
    open_agent(&one, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP | UCP_FEATURE_AM, settings, 16);
    open_agent(&other, UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP | UCP_FEATURE_AM, settings, 16);
    connect_to(&one, &other, UCP_ERR_HANDLING_MODE_NONE);
    must(pthread_create(&one.thread, NULL, progress, &one) == 0);
    memset(out, 'p', sizeof(out));
    request = ucp_tag_recv_nbx(other.worker, in, sizeof(in), 7, UINT64_MAX, &receive);
    must(UCS_PTR_IS_PTR(request));
    let_go(ucp_tag_send_nbx(one.ep, out, sizeof(out), 7, &none));
    must(ucp_worker_get_efd(other.worker, &watch.fd) == UCS_OK);
    while (!done) { /* progress until nothing happens; arm; sleep */
        while (ucp_worker_progress(other.worker) != 0) {
        }
        armed = ucp_worker_arm(other.worker);
        must(armed == UCS_OK || armed == UCS_ERR_BUSY);
        if (armed == UCS_OK && !done) {
            (void)poll(&watch, 1, 100);
        }
    }
    must(done == 1 && memcmp(in, out, sizeof(in)) == 0);
    ucp_request_free(request);
    done = 0;
    request = ucp_tag_recv_nbx(other.worker, in, sizeof(in), 8, UINT64_MAX, &receive);
    ucp_request_cancel(other.worker, request);
    while (!done) {
        ucp_worker_progress(other.worker);
    }
    must(done == UCS_ERR_CANCELED);
    ucp_request_free(request);
    one.stop = 1;
    pthread_join(one.thread, NULL);
    close_agent(&one); /* with its endpoint open */
    close_agent(&other);
}

/* ---- RPC ---- */

static ucp_conn_request_h asked;
static ucp_ep_h replied_to;
static int answered;

static void on_client(ucp_conn_request_h request, void *arg)
{
    (void)arg;
    asked = request;
}

static ucs_status_t on_call(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    must(header_length == 0 && length == 12 && memcmp(data, "hello server", 12) == 0);
    replied_to = (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) ? param->reply_ep : NULL;
    return UCS_OK;
}

static void on_answer(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *arg)
{
    (void)request;
    must(status == UCS_OK && info->length == 6 && arg == &answered);
    answered = 1;
}

static void progress_both(struct agent *one, struct agent *other)
{
    ucp_worker_progress(one->worker);
    ucp_worker_progress(other->worker);
}

/* The endpoints of a client and of what its server accepted. */
static void meet(struct agent *client, struct agent *server, ucp_listener_h *listener)
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t listen_on = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                     UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                     .sockaddr = {(struct sockaddr *)&place, sizeof(place)},
                                     .conn_handler = {.cb = on_client}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                             .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                             .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                             .err_handler = {.cb = on_error}};

    must(ucp_listener_create(server->worker, &listen_on, listener) == UCS_OK);
    must(ucp_listener_query(*listener, &attr) == UCS_OK);
    params.sockaddr = (ucs_sock_addr_t){(struct sockaddr *)&attr.sockaddr, sizeof(place)};
    must(ucp_ep_create(client->worker, &params, &client->ep) == UCS_OK);
    while (asked == NULL) {
        progress_both(client, server);
    }
    params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.conn_request = asked;
    must(ucp_ep_create(server->worker, &params, &server->ep) == UCS_OK);
}

static void rpc(void)
{
    static const char *const settings[][2] = {{"TLS", "tcp,self"}, {"HANDLE_ERRORS", "none"}, {"LOG_LEVEL", "warn"},
                                              {"CM_REUSEADDR", "y"}, {"NET_DEVICES", "all"}, {NULL, NULL}};
    struct agent client = {0}, server = {0};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE | UCP_ATTR_FIELD_THREAD_MODE};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .cb = on_call};
    ucp_request_param_t call = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY};
    ucp_request_param_t own = {.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK |
                                               UCP_OP_ATTR_FIELD_USER_DATA,
                               .cb.recv = on_answer, .user_data = &answered};
    ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_listener_h listener;
    char *memory, in[64];

    open_agent(&client, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA, settings, 0);
    open_agent(&server, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA, settings, 0);
    must(ucp_context_query(client.context, &attr) == UCS_OK && attr.thread_mode == UCS_THREAD_MODE_MULTI &&
         attr.request_size <= 256);
    must(ucp_worker_set_am_recv_handler(server.worker, &handler) == UCS_OK);
    meet(&client, &server, &listener);
    must((memory = aligned_alloc(16, 512)) != NULL);
    own.request = memory + 256;
    must(!UCS_PTR_IS_ERR(ucp_tag_recv_nbx(client.worker, in, sizeof(in), 5, UINT64_MAX, &own)));
    let_go(ucp_am_send_nbx(client.ep, 0, NULL, 0, "hello server", 12, &call));
    while (replied_to == NULL) {
        progress_both(&client, &server);
    }
    must(replied_to == server.ep); /* the sender is looked up by it */
    let_go(ucp_tag_send_nbx(server.ep, "answer", 6, 5, &none));
    while (!answered) {
        progress_both(&client, &server);
    }
    must(memcmp(in, "answer", 6) == 0);
    free(memory);
    must(finish(client.worker, ucp_ep_close_nbx(client.ep, &force)) == UCS_OK);
    must(finish(server.worker, ucp_ep_close_nbx(server.ep, &force)) == UCS_OK);
    ucp_listener_destroy(listener);
    close_agent(&client);
    close_agent(&server);
}

/* ---- Java's binding ---- */

static void java(void)
{
    struct agent one = {0};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                .length = 8192, .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_memh_pack_params_t pack = {.field_mask = UCP_MEMH_PACK_PARAM_FIELD_FLAGS, .flags = UCP_MEMH_PACK_FLAG_EXPORT};
    ucp_memh_buffer_release_params_t release = {0};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_MEM_TYPE};
    ucp_mem_h memh, imported;
    void *buffer;
    size_t size, length;
    char in[16];

    open_agent(&one, UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_RMA | UCP_FEATURE_EXPORTED_MEMH, NULL, 0);
    connect_to(&one, &one, UCP_ERR_HANDLING_MODE_NONE);
    must(ucp_mem_map(one.context, &map, &memh) == UCS_OK);
    must(ucp_memh_pack(memh, &pack, &buffer, &size) == UCS_OK);
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER;
    map.exported_memh_buffer = buffer;
    must(ucp_mem_map(one.context, &map, &imported) == UCS_OK);
    ucp_memh_buffer_release(buffer, &release);
    must(ucp_mem_query(memh, &attr) == UCS_OK && attr.address != NULL && attr.mem_type == UCS_MEMORY_TYPE_HOST);
    must(ucp_mem_unmap(one.context, imported) == UCS_OK && ucp_mem_unmap(one.context, memh) == UCS_OK);
    let_go(ucp_stream_send_nbx(one.ep, "stream", 6, &none));
    for (size_t got = 0; got < 6;) {
        ucp_request_param_t param = none;
        ucs_status_ptr_t request = ucp_stream_recv_nbx(one.ep, in + got, 6 - got, &length, &param);

        must(!UCS_PTR_IS_ERR(request));
        if (request != NULL) {
            while (ucp_stream_recv_request_test(request, &length) == UCS_INPROGRESS) {
                ucp_worker_progress(one.worker);
            }
            ucp_request_free(request);
        }
        got += length;
    }
    must(memcmp(in, "stream", 6) == 0);
    must(finish(one.worker, ucp_ep_close_nbx(one.ep, &none)) == UCS_OK);
    close_agent(&one);
}

int main(int argc, char **argv)
{
    must(argc == 2);
    if (strcmp(argv[1], "nixl") == 0) {
        transfer_agent();
    } else if (strcmp(argv[1], "ucxx") == 0) {
        python_endpoints();
    } else if (strcmp(argv[1], "mercury") == 0) {
        rpc();
    } else {
        must(strcmp(argv[1], "jucx") == 0);
        java();
    }
    return 0;
}
