/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program of an older API level: compiled and linked against an installed reference library (Debian's 1.13),
 * then run unrebuilt on Causeway. Two workers of one process play tag ping-pong with the three generations of calls.
 * Usage: old_client [DIR]   DIR: where the libucp.so.0 in use must come from, else the test fails.
 * Checks REQ-1..7, REQ-20..27, REQ-40..46, TAG-24, TAG-30..34, TAG-37, TPR-1..6, CLS-16, CLS-17, LIB-3, VER-1 and
 * R1, R2, R6, R7.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ucp/api/ucp.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            exit(1); \
        } \
    } while (0)

#define DEADLINE_S  20
#define MAX_LENGTH  (1u << 20)
#define AREA_FRESH  0x600dcafeu
#define MASK_ALL    (~(ucp_tag_t)0)

/* What the program keeps in each library-allocated request, as Open MPI does. */
struct area {
    unsigned state; /* AREA_FRESH whenever the library hands the request out (R6) */
    int calls;      /* callbacks so far */
    ucs_status_t status;
    ucp_tag_recv_info_t info;
};

struct peer {
    ucp_worker_h worker;
    ucp_ep_h ep; /* to the other peer */
};

static ucp_context_h context;
static size_t request_size;
static struct peer peers[2];
static unsigned char source[MAX_LENGTH + 64];
static unsigned char target[MAX_LENGTH + 64];
static int init_calls, cleanup_calls;
static int nbx_calls;
static int fills_recv_info;

static void request_init(void *request)
{
    struct area *area = request;

    memset(area, 0, sizeof(*area));
    area->state = AREA_FRESH;
    ++init_calls;
}

static void request_cleanup(void *request)
{
    (void)request;
    ++cleanup_calls;
}

static void send_done(void *request, ucs_status_t status)
{
    struct area *area = request;

    area->status = status;
    ++area->calls;
}

static void recv_done(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    struct area *area = request;

    area->status = status;
    area->info = *info;
    ++area->calls;
}

static void recv_done_nbx(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct area *area = user_data;

    (void)request;
    area->status = status;
    area->info = *info;
    ++area->calls;
    ++nbx_calls;
}

static void progress(void)
{
    static time_t deadline;

    if (deadline == 0) {
        deadline = time(NULL) + DEADLINE_S;
    }
    ucp_worker_progress(peers[0].worker);
    ucp_worker_progress(peers[1].worker);
    CHECK(time(NULL) < deadline);
}

static void settle(void)
{
    int i;

    for (i = 0; i < 1000; ++i) {
        progress();
    }
}

/* Gives a library request back in the state in which the next user expects it. */
static void give_back(void *request, int old_release)
{
    struct area *area = request;

    area->calls = 0;
    if (old_release) {
        ucp_request_release(request);
    } else {
        ucp_request_free(request);
    }
}

static void wait_send(ucs_status_ptr_t request)
{
    struct area *area = request;

    CHECK(!UCS_PTR_IS_ERR(request));
    if (request == NULL) {
        return;
    }
    while (!ucp_request_is_completed(request)) {
        progress();
    }
    CHECK(ucp_request_check_status(request) == UCS_OK);
    CHECK(ucp_request_test(request, NULL) == UCS_OK);
    CHECK(area->state == AREA_FRESH);
    CHECK(area->calls == 1);
    CHECK(area->status == UCS_OK);
    give_back(request, 1);
}

static void fill(size_t length, unsigned seed)
{
    size_t i;

    for (i = 0; i < length; ++i) {
        source[i] = (unsigned char)((i * 131) ^ (i >> 8) ^ seed);
    }
    memset(target, 0xa5, sizeof(target));
}

static void check_arrival(size_t length)
{
    CHECK(memcmp(source, target, length) == 0);
    CHECK(target[length] == 0xa5);
}

static void wait_recv_nb(ucs_status_ptr_t request, size_t length, ucp_tag_t tag)
{
    struct area *area = request;
    ucp_tag_recv_info_t info;

    while (ucp_request_test(request, &info) == UCS_INPROGRESS) {
        progress();
    }
    CHECK(info.length == length && info.sender_tag == tag);
    CHECK(area->state == AREA_FRESH);
    CHECK(area->calls == 1);
    CHECK(area->status == UCS_OK);
    CHECK(area->info.length == length && area->info.sender_tag == tag);
    give_back(request, 0);
}

/* One message by *_nb calls, the receive posted before or after it has arrived. */
static void round_nb(int from, size_t length, int unexpected)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    const ucp_tag_t tag = 0x1234500000000000ull + length;
    ucs_status_ptr_t sent, received = NULL;

    fill(length, (unsigned)from);
    if (!unexpected) {
        received = ucp_tag_recv_nb(peers[!from].worker, target, length + 8, byte, tag, MASK_ALL, recv_done);
    }
    sent = ucp_tag_send_nb(peers[from].ep, source, length, byte, tag, send_done);
    if (unexpected) {
        settle();
        received = ucp_tag_recv_nb(peers[!from].worker, target, length + 8, byte, tag, MASK_ALL, recv_done);
    }
    CHECK(UCS_PTR_IS_PTR(received)); /* never NULL: REQ-42 */
    wait_send(sent);
    wait_recv_nb(received, length, tag);
    check_arrival(length);
}

/* One message by *_nbr calls: both requests in memory of the caller, the library's part below the pointer (R7). */
static void round_nbr(int from, size_t length, int unexpected)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    const ucp_tag_t tag = 0xbeef0000u + (unsigned)length;
    char *memory[2];
    void *send_request, *recv_request;
    ucp_tag_recv_info_t info;
    ucs_status_t status = UCS_INPROGRESS;
    int i;

    for (i = 0; i < 2; ++i) {
        memory[i] = malloc(request_size + 16);
        CHECK(memory[i] != NULL);
        memset(memory[i], 0x5a, request_size + 16);
    }
    send_request = memory[0] + request_size;
    recv_request = memory[1] + request_size;

    fill(length, 77u + (unsigned)from);
    if (!unexpected) {
        status = ucp_tag_recv_nbr(peers[!from].worker, target, length, byte, 0, 0, recv_request);
        CHECK(status == UCS_OK);
    }
    status = ucp_tag_send_nbr(peers[from].ep, source, length, byte, tag, send_request);
    CHECK(status == UCS_OK || status == UCS_INPROGRESS);
    if (unexpected) {
        settle();
        CHECK(ucp_tag_recv_nbr(peers[!from].worker, target, length, byte, 0, 0, recv_request) == UCS_OK);
    }
    while (ucp_tag_recv_request_test(recv_request, &info) == UCS_INPROGRESS) {
        progress();
    }
    while (status == UCS_INPROGRESS) {
        status = ucp_request_check_status(send_request);
        progress();
    }
    CHECK(status == UCS_OK);
    CHECK(ucp_request_test(recv_request, &info) == UCS_OK);
    CHECK(info.length == length && info.sender_tag == tag);
    check_arrival(length);
    for (i = 0; i < 2; ++i) {
        CHECK(memory[i][request_size] == 0x5a && memory[i][request_size + 15] == 0x5a); /* OPA-7 */
        free(memory[i]);
    }
}

/* One message by nbx calls; a receive that is complete at once fills recv_info and calls nobody (REQ-2, TAG-30). */
static void round_nbx(int from, size_t length, int unexpected)
{
    const ucp_tag_t tag = 99;
    struct area result = {0};
    ucp_tag_recv_info_t info = {0};
    ucp_request_param_t param = {0}, none = {0};
    ucs_status_ptr_t sent, received = NULL;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_RECV_INFO;
    param.cb.recv = recv_done_nbx;
    param.user_data = &result;
    param.recv_info.tag_info = &info;
    nbx_calls = 0;

    fill(length, 7);
    if (!unexpected) {
        received = ucp_tag_recv_nbx(peers[!from].worker, target, length, tag, MASK_ALL, &param);
        CHECK(UCS_PTR_IS_PTR(received));
    }
    sent = ucp_tag_send_nbx(peers[from].ep, source, length, tag, &none);
    if (unexpected) {
        settle();
        received = ucp_tag_recv_nbx(peers[!from].worker, target, length, tag, MASK_ALL, &param);
    }
    CHECK(!UCS_PTR_IS_ERR(sent) && !UCS_PTR_IS_ERR(received));
    while (sent != NULL && ucp_request_check_status(sent) == UCS_INPROGRESS) {
        progress();
    }
    while (received != NULL && ucp_request_check_status(received) == UCS_INPROGRESS) {
        progress();
    }
    if (received != NULL) {
        CHECK(nbx_calls == 1 && result.status == UCS_OK);
        info = result.info;
        ucp_request_free(received);
    }
    CHECK(received != NULL || nbx_calls == 0);
    /* the reference fills recv_info since 1.16 only */
    CHECK((received == NULL && !fills_recv_info) || (info.length == length && info.sender_tag == tag));
    check_arrival(length);
    if (sent != NULL) {
        ucp_request_free(sent);
    }
}

static void truncation_and_cancel(void)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucs_status_ptr_t sent, received;
    struct area *area;

    fill(100, 3);
    received = ucp_tag_recv_nb(peers[1].worker, target, 40, byte, 5, MASK_ALL, recv_done);
    CHECK(UCS_PTR_IS_PTR(received));
    sent = ucp_tag_send_nb(peers[0].ep, source, 100, byte, 5, send_done);
    wait_send(sent);
    while (!ucp_request_is_completed(received)) {
        progress();
    }
    area = received;
    CHECK(area->calls == 1 && area->status == UCS_ERR_MESSAGE_TRUNCATED);
    CHECK(area->info.sender_tag == 5 && area->info.length == 100); /* the sender's length: TAG-34 */
    CHECK(target[40] == 0xa5);
    give_back(received, 0);

    received = ucp_tag_recv_nb(peers[1].worker, target, 40, byte, 6, MASK_ALL, recv_done);
    CHECK(UCS_PTR_IS_PTR(received));
    CHECK(ucp_request_check_status(received) == UCS_INPROGRESS);
    ucp_request_cancel(peers[1].worker, received);
    while (!ucp_request_is_completed(received)) {
        progress();
    }
    area = received;
    CHECK(area->calls == 1 && area->status == UCS_ERR_CANCELED);
    give_back(received, 1);
}

static void probe_and_fetch(size_t length)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    ucp_tag_message_h message = NULL;
    ucp_tag_recv_info_t info = {0};
    ucs_status_ptr_t sent, received;

    fill(length, 11);
    CHECK(ucp_tag_probe_nb(peers[0].worker, 0, 0, 1, &info) == NULL);
    sent = ucp_tag_send_nb(peers[1].ep, source, length, byte, 0xabc, send_done);
    while ((message = ucp_tag_probe_nb(peers[0].worker, 0xa00, 0xf00, 0, &info)) == NULL) {
        progress();
    }
    CHECK(info.length == length && info.sender_tag == 0xabc);
    message = ucp_tag_probe_nb(peers[0].worker, 0xa00, 0xf00, 1, &info);
    CHECK(message != NULL && info.length == length);
    CHECK(ucp_tag_probe_nb(peers[0].worker, 0, 0, 0, &info) == NULL);
    received = ucp_tag_msg_recv_nb(peers[0].worker, target, length, byte, message, recv_done);
    CHECK(UCS_PTR_IS_PTR(received));
    wait_recv_nb(received, length, 0xabc);
    wait_send(sent);
    check_arrival(length);
}

static void set_up(void)
{
    ucp_params_t params = {0};
    ucp_worker_params_t worker = {0};
    ucp_context_attr_t attr = {0};
    ucp_ep_params_t ep = {0};
    ucp_config_t *config;
    ucp_address_t *address;
    size_t length;
    int i;

    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_REQUEST_SIZE | UCP_PARAM_FIELD_REQUEST_INIT |
                        UCP_PARAM_FIELD_REQUEST_CLEANUP;
    params.features = UCP_FEATURE_TAG;
    params.request_size = sizeof(struct area);
    params.request_init = request_init;
    params.request_cleanup = request_cleanup;
    CHECK(ucp_config_read("OLD", NULL, &config) == UCS_OK);
    CHECK(ucp_init(&params, config, &context) == UCS_OK);
    ucp_config_release(config);

    attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    CHECK(ucp_context_query(context, &attr) == UCS_OK);
    CHECK(attr.field_mask == UCP_ATTR_FIELD_REQUEST_SIZE && attr.request_size > 0 && attr.request_size <= 1024);
    request_size = attr.request_size;

    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SINGLE;
    for (i = 0; i < 2; ++i) {
        CHECK(ucp_worker_create(context, &worker, &peers[i].worker) == UCS_OK);
    }
    for (i = 0; i < 2; ++i) {
        CHECK(ucp_worker_get_address(peers[!i].worker, &address, &length) == UCS_OK);
        CHECK(address != NULL && length > 0 && length <= 1024);
        ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        ep.address = address;
        CHECK(ucp_ep_create(peers[i].worker, &ep, &peers[i].ep) == UCS_OK);
        ucp_worker_release_address(peers[!i].worker, address); /* copied by now: EP-3 */
    }
}

static void tear_down(void)
{
    ucs_status_ptr_t request;

    wait_send(ucp_ep_flush_nb(peers[0].ep, 0, send_done));
    wait_send(ucp_worker_flush_nb(peers[1].worker, 0, send_done));
    CHECK(ucp_ep_flush(peers[0].ep) == UCS_OK);
    CHECK(ucp_worker_flush(peers[1].worker) == UCS_OK);

    request = ucp_disconnect_nb(peers[0].ep);
    CHECK(!UCS_PTR_IS_ERR(request));
    while (request != NULL && !ucp_request_is_completed(request)) {
        progress();
    }
    if (request != NULL) {
        ucp_request_release(request);
    }
    ucp_ep_destroy(peers[1].ep); /* progresses its own worker only (R23) */
    ucp_worker_destroy(peers[0].worker);
    ucp_worker_destroy(peers[1].worker);
    ucp_cleanup(context);
    CHECK(init_calls == cleanup_calls); /* CTX-24 */
}

/* The library in use is the one under `directory`: otherwise the run would prove nothing. */
static void check_library(const char *directory)
{
    char wanted[PATH_MAX], used[PATH_MAX];
    Dl_info info;

    CHECK(dladdr((void *)(uintptr_t)&ucp_get_version_string, &info) != 0);
    CHECK(realpath(directory, wanted) != NULL && realpath(info.dli_fname, used) != NULL);
    if (strncmp(used, wanted, strlen(wanted)) != 0) {
        fprintf(stderr, "the library in use is %s, not one of %s\n", used, wanted);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const size_t lengths[] = {0, 1, 8, 63, 1000, 8192, 65536, MAX_LENGTH};
    unsigned major, minor, release;
    size_t i;
    int from, unexpected;

    alarm(2 * DEADLINE_S); /* a blocking call that never ends, ends the test */
    if (argc > 1) {
        check_library(argv[1]);
    }
    ucp_get_version(&major, &minor, &release);
    printf("compiled for %d.%d, running on %s\n", UCP_API_MAJOR, UCP_API_MINOR, ucp_get_version_string());
    CHECK(UCP_VERSION(major, minor) >= UCP_API_VERSION);
    fills_recv_info = UCP_VERSION(major, minor) >= UCP_VERSION(1, 16);
    CHECK(strcmp(ucs_status_string(UCS_ERR_MESSAGE_TRUNCATED), "Message truncated") == 0);

    set_up();
    for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
        for (from = 0; from < 2; ++from) {
            for (unexpected = 0; unexpected < 2; ++unexpected) {
                round_nb(from, lengths[i], unexpected);
                round_nbr(from, lengths[i], unexpected);
                round_nbx(from, lengths[i], unexpected);
            }
        }
        probe_and_fetch(lengths[i]);
    }
    truncation_and_cancel();
    tear_down();
    printf("all checks passed\n");
    return 0;
}
