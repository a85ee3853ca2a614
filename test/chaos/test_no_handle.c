/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * NULL where a handle belongs (GEN-1): each call says so in one sentence that names it, and does nothing else. Calls on
 * the fast paths of sends, receives, flushes and fences are left out: they check no pointer. And a context that is
 * cleaned up before its workers (CTX-33): a warning, and the workers go on.
 */
#define _GNU_SOURCE
#include <string.h>

#include "chaos.h"

#define REFUSED UCS_ERR_INVALID_PARAM

/* One line in the log, which has this in it. */
#define SAYS(call, text)                                                          \
    do {                                                                          \
        unsigned lines_ = cw_log_lines();                                         \
        call;                                                                     \
        cw_check(cw_log_lines() == lines_ + 1);                                   \
        cw_check(strstr(cw_log_last(), text) != NULL);                            \
    } while (0)

/* A call that returns a status, or a pointer that carries one. */
#define REFUSES(function, ...) SAYS(cw_check(function(__VA_ARGS__) == REFUSED), #function)
#define REFUSES_PTR(function, ...) SAYS(cw_check(UCS_PTR_RAW_STATUS(function(__VA_ARGS__)) == REFUSED), #function)
#define IGNORES(function, ...) SAYS(function(__VA_ARGS__), #function)
/* The sentence names the current form of the call. */
#define REFUSES_PTR_AS(name, function, ...) SAYS(cw_check(UCS_PTR_RAW_STATUS(function(__VA_ARGS__)) == REFUSED), name)

CHILD_TEST(test_ends)
{
    struct cw_party party;

    cw_party_open(&party, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_STREAM | UCP_FEATURE_RMA);
    IGNORES(ucp_cleanup, NULL);
    IGNORES(ucp_worker_destroy, NULL);
    IGNORES(ucp_listener_destroy, NULL);
    IGNORES(ucp_ep_destroy, NULL);
    IGNORES(ucp_rkey_destroy, NULL);
    IGNORES(ucp_request_cancel, party.worker, NULL);
    IGNORES(ucp_request_free, NULL); /* what an operation returned that was complete */
    IGNORES(ucp_request_release, NULL);
    IGNORES(ucp_stream_data_release, party.ep, NULL);
    SAYS(ucp_am_data_release(party.worker, NULL), "active message data is NULL");
    SAYS(cw_check(ucp_mem_unmap(party.context, NULL) == REFUSED), "cannot unmap");
    ucp_config_release(NULL); /* as free(NULL), in these */
    ucp_worker_release_address(party.worker, NULL);
    ucp_rkey_buffer_release(NULL);
    ucp_memh_buffer_release(NULL, NULL);
    REFUSES_PTR(ucp_ep_close_nbx, NULL, &(ucp_request_param_t){.op_attr_mask = 0});
    REFUSES_PTR_AS("ucp_ep_close_nbx", ucp_ep_close_nb, NULL, UCP_EP_CLOSE_MODE_FLUSH);
    REFUSES_PTR_AS("ucp_ep_close_nbx", ucp_disconnect_nb, NULL);
    REFUSES(ucp_listener_reject, NULL, NULL);
    cw_party_close(&party);
}

CHILD_TEST(test_queries)
{
    ucp_ep_evaluate_perf_param_t perf_param = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE};
    ucp_ep_evaluate_perf_attr_t perf = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
    ucp_conn_request_attr_t request_attr = {.field_mask = UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID};
    ucp_worker_address_attr_t address_attr = {.field_mask = UCP_WORKER_ADDRESS_ATTR_FIELD_UID};
    ucp_listener_attr_t listener_attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_context_attr_t context_attr = {.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE};
    ucp_request_attr_t req_attr = {.field_mask = UCP_REQUEST_ATTR_FIELD_STATUS};
    ucp_worker_attr_t worker_attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    ucp_mem_attr_t mem_attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucp_ep_attr_t ep_attr = {.field_mask = UCP_EP_ATTR_FIELD_NAME};
    ucp_address_t *address;
    size_t length;

    REFUSES(ucp_context_query, NULL, &context_attr);
    REFUSES(ucp_worker_query, NULL, &worker_attr);
    SAYS(cw_check(ucp_worker_get_address(NULL, &address, &length) == REFUSED), "ucp_worker_query");
    REFUSES(ucp_worker_address_query, NULL, &address_attr);
    REFUSES(ucp_ep_query, NULL, &ep_attr);
    REFUSES(ucp_ep_evaluate_perf, NULL, &perf_param, &perf);
    REFUSES(ucp_listener_query, NULL, &listener_attr);
    REFUSES(ucp_conn_request_query, NULL, &request_attr);
    REFUSES(ucp_request_query, NULL, &req_attr);
    REFUSES(ucp_mem_query, NULL, &mem_attr);
    IGNORES(ucp_context_print_info, NULL, stderr);
    IGNORES(ucp_worker_print_info, NULL, stderr);
    IGNORES(ucp_ep_print_info, NULL, stderr);
    IGNORES(ucp_mem_print_info, "1M", NULL, stderr);
}

CHILD_TEST(test_calls)
{
    ucp_am_handler_param_t handler = {.field_mask = 0};
    ucp_listener_params_t listener_params = {.field_mask = 0};
    ucp_mem_advise_params_t advise = {.field_mask = 0};
    ucp_memh_pack_params_t pack = {.field_mask = 0};
    ucp_rkey_compare_params_t compare = {.field_mask = 0};
    ucp_worker_params_t params = {.field_mask = 0};
    ucp_mem_map_params_t map = {.field_mask = 0};
    ucp_ep_params_t ep_params = {.field_mask = 0};
    ucp_listener_h listener;
    ucp_worker_h worker;
    ucp_rkey_h rkey;
    ucp_mem_h memh;
    int fd, result;
    void *buffer;
    size_t size;
    ucp_ep_h ep;

    REFUSES(ucp_worker_create, NULL, &params, &worker);
    REFUSES(ucp_worker_get_efd, NULL, &fd);
    REFUSES(ucp_worker_arm, NULL);
    REFUSES(ucp_worker_wait, NULL);
    REFUSES(ucp_worker_signal, NULL);
    REFUSES(ucp_worker_flush, NULL);
    REFUSES(ucp_worker_set_am_recv_handler, NULL, &handler);
    REFUSES(ucp_worker_set_am_handler, NULL, 1, NULL, NULL, 0);
    REFUSES(ucp_listener_create, NULL, &listener_params, &listener);
    REFUSES(ucp_ep_create, NULL, &ep_params, &ep);
    REFUSES_PTR(ucp_ep_modify_nb, NULL, &ep_params);
    REFUSES(ucp_ep_flush, NULL);
    REFUSES(ucp_ep_rkey_unpack, NULL, "key", &rkey);
    REFUSES(ucp_mem_map, NULL, &map, &memh);
    REFUSES(ucp_mem_advise, NULL, NULL, &advise);
    REFUSES(ucp_memh_pack, NULL, &pack, &buffer, &size);
    SAYS(cw_check(ucp_rkey_pack(NULL, NULL, &buffer, &size) == REFUSED), "ucp_memh_pack");
    REFUSES(ucp_rkey_ptr, NULL, 0, &buffer);
    REFUSES(ucp_rkey_compare, NULL, NULL, NULL, &compare, &result);
}

/* Twice: with two workers, one of which ends first, and then as it should be. */
CHILD_TEST(test_cleanup_first)
{
    ucp_worker_params_t params = {.field_mask = 0};
    struct cw_party one, other;
    int fds;

    cw_party_open(&one, UCP_FEATURE_TAG);
    cw_party_close(&one);
    fds = cw_open_fds();
    cw_party_open(&one, UCP_FEATURE_TAG);
    other = one;
    other.ep = NULL;
    cw_check(ucp_worker_create(one.context, &params, &other.worker) == UCS_OK);
    SAYS(ucp_cleanup(one.context), "2 of its workers");
    cw_party_connect(&one, &other);
    cw_party_connect(&other, &one);
    cw_party_talk(&one, &other, 100000);
    cw_check(cw_party_wait(&one, &other, ucp_disconnect_nb(one.ep)) == UCS_OK);
    cw_check(cw_party_wait(&other, &one, ucp_disconnect_nb(other.ep)) == UCS_OK);
    ucp_worker_destroy(one.worker);
    cw_party_connect(&other, &other);
    cw_party_talk(&other, &other, 1000);
    ucp_worker_destroy(other.worker);
    cw_check(cw_open_fds() == fds);
    cw_party_open(&one, UCP_FEATURE_TAG);
    fds = (int)cw_log_lines();
    cw_party_close(&one);
    cw_check((int)cw_log_lines() == fds);
}

int main(void)
{
    cw_log_watch();
    return cw_tests_run(NULL, NULL);
}
