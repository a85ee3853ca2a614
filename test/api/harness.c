/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts, pairs, operations and patterns of the API conformance programs; see harness.h for the rules. */
#define _GNU_SOURCE
#include "harness.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void hang_report(int signal_number)
{
    static const char text[] = "A call of the library did not return in time: the test program gives up.\n";

    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
        _exit(98);
    }
    abort();
}

int cw_test_setup(void **state)
{
    struct sigaction action = {.sa_handler = hang_report};

    sigaction(SIGALRM, &action, NULL);
    alarm(CW_HANG_S);
    *state = calloc(1, sizeof(struct cw_pair));
    return *state == NULL ? -1 : 0;
}

int cw_test_teardown(void **state)
{
    struct cw_pair *pair = *state;

    for (int i = 0; i < 2; i++) {
        cw_side_destroy(&pair->sides[i]);
    }
    free(pair);
    alarm(0);
    return 0;
}

/* Workers that did not ask for a mode of their own are of mode MULTI: what a program sees is the same. */
static bool cw_test_multi(void)
{
    const char *value = getenv("CW_TEST_MULTI");

    return value != NULL && strcmp(value, "1") == 0;
}

bool cw_test_reference(void)
{
    const char *value = getenv("CW_TEST_REFERENCE");

    return value != NULL && strcmp(value, "1") == 0;
}

void cw_test_skip_reference(const char *why)
{
    if (cw_test_reference()) {
        print_message("Skipped on the reference: %s\n", why);
        skip();
    }
}

bool cw_test_tls_has(const char *text)
{
    const char *value = getenv("UCX_TLS");

    return value != NULL && strstr(value, text) != NULL;
}

void cw_test_skip_over(const char *text, const char *why)
{
    if (cw_test_tls_has(text)) {
        print_message("Skipped over %s: %s\n", text, why);
        skip();
    }
}

void cw_test_skip_over_providers(const char *providers, const char *why)
{
    const char *device = getenv("UCX_NET_DEVICES");
    const size_t length = (device != NULL) ? strcspn(device, ":") + 1 : 0;

    for (const char *at = providers; cw_test_tls_has("ofi") && device != NULL && *at != '\0'; at += *at == ',') {
        if (strlen(device) >= length && strncmp(at, device, length) == 0) {
            print_message("Skipped over %.*s of libfabric: %s\n", (int)length - 1, device, why);
            skip();
        }
        at += strcspn(at, ",");
    }
}

bool cw_test_over_network(void)
{
    return cw_test_tls_has("tcp") || cw_test_tls_has("ofi");
}

bool cw_test_self_only(void)
{
    const char *value = getenv("UCX_TLS");

    return value != NULL && (strcmp(value, "self") == 0 || strcmp(value, "self,cuda") == 0 ||
                             strcmp(value, "self,rocm") == 0);
}

void cw_test_need_two_workers(void)
{
    if (cw_test_self_only()) {
        skip();
    }
}

void cw_test_need_two_processes(void)
{
    if (cw_test_self_only() || cw_test_tls_has("sim")) {
        skip();
    }
}

long cw_test_scaled(long count)
{
    const char *value = getenv("CW_TEST_SCALE");
    long scale = value == NULL ? 1 : strtol(value, NULL, 10);

    if (scale <= 1) {
        return count;
    }
    return count / scale > 0 ? count / scale : 1;
}

double cw_time_now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t cw_random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ull);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

int cw_process_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    if (dir == NULL) {
        return -1;
    }
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count - 3; /* ".", ".." and the directory itself */
}

long cw_process_rss_kb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long pages = -1;

    if (file == NULL) {
        return -1;
    }
    if (fscanf(file, "%*d %ld", &pages) != 1) {
        pages = -1;
    }
    fclose(file);
    return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

void cw_side_open(struct cw_side *side, const struct cw_pair_config *config)
{
    static const struct cw_pair_config defaults;
    ucp_params_t params;
    ucp_worker_params_t worker_params;
    ucs_status_t status;

    config = config == NULL ? &defaults : config;
    memset(side, 0, sizeof(*side));
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = config->features == 0 ? UCP_FEATURE_TAG : config->features;
    if (config->request_size > 0) {
        params.field_mask |= UCP_PARAM_FIELD_REQUEST_SIZE;
        params.request_size = config->request_size;
    }
    if (config->request_init != NULL) {
        params.field_mask |= UCP_PARAM_FIELD_REQUEST_INIT;
        params.request_init = config->request_init;
    }
    if (config->request_cleanup != NULL) {
        params.field_mask |= UCP_PARAM_FIELD_REQUEST_CLEANUP;
        params.request_cleanup = config->request_cleanup;
    }
    status = ucp_init(&params, NULL, &side->context);
    if (status != UCS_OK) {
        side->context = NULL;
        fail_msg("ucp_init: %s", ucs_status_string(status));
    }

    memset(&worker_params, 0xff, sizeof(worker_params));
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = cw_test_multi() ? UCS_THREAD_MODE_MULTI : config->thread_mode;
    if (config->events != 0) {
        worker_params.field_mask |= UCP_WORKER_PARAM_FIELD_EVENTS;
        worker_params.events = config->events;
    }
    status = ucp_worker_create(side->context, &worker_params, &side->worker);
    if (status != UCS_OK) {
        side->worker = NULL;
        fail_msg("ucp_worker_create: %s", ucs_status_string(status));
    }
}

void cw_side_destroy(struct cw_side *side)
{
    if (side->worker != NULL) {
        ucp_worker_destroy(side->worker);
        side->worker = NULL;
    }
    if (side->context != NULL) {
        ucp_cleanup(side->context);
        side->context = NULL;
    }
    side->ep = NULL;
}

void *cw_test_worker_address(ucp_worker_h worker, size_t *length)
{
    ucp_worker_attr_t attr;
    void *copy;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    copy = malloc(attr.address_length);
    assert_non_null(copy);
    memcpy(copy, attr.address, attr.address_length);
    *length = attr.address_length;
    ucp_worker_release_address(worker, attr.address);
    return copy;
}

/* The blob is copied to an odd address and wiped after the call: ADR-1, EP-3. */
static ucp_ep_h ep_from_blob(ucp_worker_h worker, const void *blob, size_t length, const struct cw_pair_config *config)
{
    char *odd = malloc(length + 8);
    ucp_ep_params_t params;
    ucs_status_t status;
    ucp_ep_h ep;

    assert_non_null(odd);
    memcpy(odd + 3, blob, length);
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = (const ucp_address_t *)(odd + 3);
    if (config != NULL && config->peer_mode) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    }
    if (config != NULL && config->on_failure != NULL) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_handler.cb = config->on_failure;
        params.err_handler.arg = NULL;
    }
    status = ucp_ep_create(worker, &params, &ep);
    memset(odd, 0xff, length + 8);
    free(odd);
    if (status != UCS_OK) {
        fail_msg("ucp_ep_create: %s", ucs_status_string(status));
    }
    return ep;
}

ucp_ep_h cw_side_connect(struct cw_side *side, ucp_worker_h target, const struct cw_pair_config *config)
{
    size_t length;
    void *blob = cw_test_worker_address(target, &length);
    ucp_ep_h ep = ep_from_blob(side->worker, blob, length, config);

    free(blob);
    return ep;
}

ucp_ep_h cw_fd_connect(int fd, struct cw_side *side, const struct cw_pair_config *config)
{
    size_t length;
    void *blob = cw_test_worker_address(side->worker, &length);
    uint64_t wire = length;
    ucp_ep_h ep;

    cw_fd_write(fd, &wire, sizeof(wire));
    cw_fd_write(fd, blob, length);
    free(blob);
    cw_fd_read(fd, &wire, sizeof(wire), NULL);
    blob = malloc(wire);
    assert_non_null(blob);
    cw_fd_read(fd, blob, wire, NULL);
    ep = ep_from_blob(side->worker, blob, wire, config);
    free(blob);
    return ep;
}

void cw_pair_open(struct cw_pair *pair, const struct cw_pair_config *config)
{
    pair->count = cw_test_self_only() ? 1 : 2;
    pair->tx = &pair->sides[0];
    pair->rx = &pair->sides[pair->count - 1];
    for (int i = 0; i < pair->count; i++) {
        cw_side_open(&pair->sides[i], config);
    }
    if (config != NULL && config->no_endpoints) {
        return;
    }
    for (int i = 0; i < pair->count; i++) {
        pair->sides[i].ep = cw_side_connect(&pair->sides[i], pair->sides[pair->count - 1 - i].worker, config);
    }
}

static void *visit(void *worker)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};

    return ucp_worker_query(worker, &attr) == UCS_OK ? NULL : worker;
}

/* What was called so far has left the worker: another thread gets in. */
static void check_left(ucp_worker_h worker)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};
    struct timespec until;
    pthread_t visitor = 0;
    void *failed = NULL;

    if (worker == NULL) {
        return;
    }
    assert_int_equal(ucp_worker_query(worker, &attr), UCS_OK);
    if (attr.thread_mode != UCS_THREAD_MODE_MULTI) {
        return;
    }
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += CW_WAIT_S;
    assert_int_equal(pthread_create(&visitor, NULL, visit, worker), 0);
    if (pthread_timedjoin_np(visitor, &failed, &until) != 0) {
        fail_msg("A call has kept the worker's lock: no other thread gets in");
    }
    assert_null(failed);
}

void cw_pair_close(struct cw_pair *pair)
{
    ucs_status_ptr_t closing[2] = {NULL, NULL};
    ucp_request_param_t param = cw_param_none();

    for (int i = 0; i < pair->count; i++) {
        check_left(pair->sides[i].worker);
        if (pair->sides[i].ep != NULL) {
            closing[i] = ucp_ep_close_nbx(pair->sides[i].ep, &param);
            pair->sides[i].ep = NULL;
        }
    }
    for (int i = 0; i < pair->count; i++) {
        assert_int_equal(cw_pair_wait(pair, closing[i], "flush close"), UCS_OK);
    }
    for (int i = 0; i < pair->count; i++) {
        cw_side_destroy(&pair->sides[i]);
    }
}

/* With nothing to do the processor goes to whom the test waits for, if it is another process. */
unsigned cw_pair_progress(struct cw_pair *pair)
{
    unsigned count = 0;

    for (int i = 0; i < pair->count; i++) {
        if (pair->sides[i].worker != NULL) {
            count += ucp_worker_progress(pair->sides[i].worker);
        }
    }
    if (count == 0 && pair->count == 1) {
        sched_yield();
    }
    return count;
}

void cw_pair_settle(struct cw_pair *pair)
{
    for (struct cw_settling settling = cw_settling(); cw_settles(&settling);) {
        cw_pair_progress(pair);
    }
}

void cw_pair_wait_count(struct cw_pair *pair, const volatile int *counter, int target, const char *what)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while (*counter < target) {
        if (cw_pair_progress(pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("%s: %d of %d came within %d s", what, *counter, target, CW_WAIT_S);
        }
    }
}

ucs_status_t cw_pair_wait(struct cw_pair *pair, ucs_status_ptr_t result, const char *what)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(result)) {
        return UCS_PTR_STATUS(result);
    }
    while ((status = ucp_request_check_status(result)) == UCS_INPROGRESS) {
        if (cw_pair_progress(pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("%s did not complete within %d s", what, CW_WAIT_S);
        }
    }
    ucp_request_free(result);
    return status;
}

ucs_status_t cw_worker_wait_request(ucp_worker_h worker, ucs_status_ptr_t result, const char *what)
{
    struct cw_pair lone = {.count = 1};

    lone.sides[0].worker = worker;
    return cw_pair_wait(&lone, result, what);
}

void cw_pair_wait_probe(struct cw_pair *pair, ucp_tag_t tag, ucp_tag_t mask, ucp_tag_recv_info_t *info)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while (ucp_tag_probe_nb(pair->rx->worker, tag, mask, 0, info) == NULL) {
        if (cw_pair_progress(pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("No message with tag %#llx was seen by probe within %d s", (unsigned long long)tag, CW_WAIT_S);
        }
    }
}

static void op_completed(struct cw_op *op, void *request, ucs_status_t status)
{
    op->calls++;
    if (op->inside) {
        op->calls_inside++;
    }
    op->status = status;
    op->request = request;
    op->checked = ucp_request_check_status(request);
    if (op->free_inside) {
        ucp_request_free(request);
    }
}

static void op_send_callback(void *request, ucs_status_t status, void *user_data)
{
    op_completed(user_data, request, status);
}

static void op_recv_callback(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct cw_op *op = user_data;

    op->info = *info;
    op_completed(op, request, status);
}

ucp_request_param_t cw_param_none(void)
{
    ucp_request_param_t param;

    memset(&param, 0xff, sizeof(param));
    param.op_attr_mask = 0;
    return param;
}

static ucp_request_param_t param_for(struct cw_op *op)
{
    ucp_request_param_t param = cw_param_none();

    if (op != NULL) {
        param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
        param.user_data = op;
        op->inside = true;
    }
    return param;
}

ucp_request_param_t cw_param_send(struct cw_op *op)
{
    ucp_request_param_t param = param_for(op);

    if (op != NULL) {
        param.cb.send = op_send_callback;
    }
    return param;
}

ucp_request_param_t cw_param_recv(struct cw_op *op)
{
    ucp_request_param_t param = param_for(op);

    if (op != NULL) {
        param.cb.recv = op_recv_callback;
    }
    return param;
}

void cw_op_started(struct cw_op *op, ucs_status_ptr_t result)
{
    op->result = result;
    op->inside = false;
}

ucs_status_t cw_op_wait(struct cw_pair *pair, struct cw_op *op, const char *what)
{
    if (!UCS_PTR_IS_PTR(op->result)) {
        assert_int_equal(op->calls, 0); /* REQ-2 */
        return UCS_PTR_STATUS(op->result);
    }
    cw_pair_wait_count(pair, &op->calls, 1, what);
    assert_int_equal(op->calls, 1);                 /* REQ-3 */
    assert_int_equal(op->checked, op->status);      /* REQ-7 */
    assert_ptr_equal(op->request, op->result);
    if (!op->free_inside) {
        assert_int_equal(ucp_request_check_status(op->result), op->status);
        ucp_request_free(op->result);
    }
    op->result = NULL;
    return op->status;
}

void cw_op_send(struct cw_op *op, ucp_ep_h ep, const void *data, size_t length, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_send(op);

    cw_op_started(op, ucp_tag_send_nbx(ep, data, length, tag, &param));
}

void cw_op_recv(struct cw_op *op, ucp_worker_h worker, void *data, size_t length, ucp_tag_t tag, ucp_tag_t mask)
{
    ucp_request_param_t param = cw_param_recv(op);

    param.op_attr_mask |= UCP_OP_ATTR_FIELD_RECV_INFO;
    param.recv_info.tag_info = &op->info;
    if (cw_test_reference()) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL; /* 1.13 leaves RECV_INFO alone, whatever it returns */
    }
    cw_op_started(op, ucp_tag_recv_nbx(worker, data, length, tag, mask, &param));
}

/* Byte i of the pattern is byte i % 8 of a word that depends on seed and i / 8 only. */
static uint64_t pattern_word(uint64_t seed, size_t index)
{
    return (seed + index + 1) * 0x9e3779b97f4a7c15ull ^ (seed << 17);
}

void cw_pair_ping_on(struct cw_pair *pair, ucp_ep_h ep, ucp_tag_t tag)
{
    struct cw_op send = {0}, recv = {0};
    uint64_t out = tag + 5, in = 0;

    cw_op_recv(&recv, pair->rx->worker, &in, sizeof(in), tag, CW_TAG_ALL);
    cw_op_send(&send, ep, &out, sizeof(out), tag);
    assert_int_equal(cw_op_wait(pair, &send, "send"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recv, "receive"), UCS_OK);
    assert_int_equal(in, out);
}

void cw_pair_ping(struct cw_pair *pair, ucp_tag_t tag)
{
    cw_pair_ping_on(pair, pair->tx->ep, tag);
}

void cw_pattern_fill(void *data, size_t length, uint64_t seed)
{
    char *bytes = data;

    for (size_t offset = 0; offset < length; offset += 8) {
        uint64_t word = pattern_word(seed, offset / 8);
        size_t part = length - offset < 8 ? length - offset : 8;

        memcpy(bytes + offset, &word, part);
    }
}

ssize_t cw_pattern_find(const void *data, size_t length, uint64_t seed)
{
    const char *bytes = data;

    for (size_t offset = 0; offset < length; offset += 8) {
        uint64_t word = pattern_word(seed, offset / 8);
        size_t part = length - offset < 8 ? length - offset : 8;

        if (memcmp(bytes + offset, &word, part) != 0) {
            const char *want = (const char *)&word;
            size_t i = 0;

            while (bytes[offset + i] == want[i]) {
                i++;
            }
            return (ssize_t)(offset + i);
        }
    }
    return -1;
}

void cw_pattern_check(const void *data, size_t length, uint64_t seed)
{
    ssize_t wrong = cw_pattern_find(data, length, seed);

    if (wrong >= 0) {
        fail_msg("Byte %zd of %zu is wrong", wrong, length);
    }
}

struct cw_buffer cw_buffer_new(size_t length)
{
    struct cw_buffer buffer = {.length = length};

    buffer.base = malloc(length + 2 * CW_GUARD_BYTES);
    assert_non_null(buffer.base);
    memset(buffer.base, CW_GUARD_VALUE, length + 2 * CW_GUARD_BYTES);
    buffer.data = buffer.base + CW_GUARD_BYTES;
    return buffer;
}

void cw_buffer_check(const struct cw_buffer *buffer)
{
    for (int i = 0; i < CW_GUARD_BYTES; i++) {
        if ((unsigned char)buffer->base[i] != CW_GUARD_VALUE) {
            fail_msg("A byte %d below a buffer of %zu was written", CW_GUARD_BYTES - i, buffer->length);
        }
        if ((unsigned char)buffer->data[buffer->length + (size_t)i] != CW_GUARD_VALUE) {
            fail_msg("A byte %d above a buffer of %zu was written", i, buffer->length);
        }
    }
}

void cw_buffer_free(struct cw_buffer *buffer)
{
    free(buffer->base);
    buffer->base = NULL;
}

static void guard_check(const char *bytes, const char *where)
{
    for (int i = 0; i < CW_GUARD_BYTES; i++) {
        if ((unsigned char)bytes[i] != CW_GUARD_VALUE) {
            fail_msg("Guard byte %d %s a user request was written", i, where);
        }
    }
}

struct cw_user_request cw_user_request_new(ucp_context_h context)
{
    struct cw_user_request request;
    ucp_context_attr_t attr;
    size_t below;

    attr.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE;
    assert_int_equal(ucp_context_query(context, &attr), UCS_OK);
    request.size = attr.request_size;
    below = (CW_GUARD_BYTES + request.size + 15) / 16 * 16 + 8;
    request.base = aligned_alloc(16, (below + CW_GUARD_BYTES + 15) / 16 * 16);
    assert_non_null(request.base);
    memset(request.base, CW_GUARD_VALUE, below + CW_GUARD_BYTES);
    request.handle = request.base + below;
    assert_int_equal((uintptr_t)request.handle % 16, 8);
    return request;
}

void cw_user_request_check(const struct cw_user_request *request)
{
    guard_check(request->handle, "above");
    guard_check(request->handle - request->size - CW_GUARD_BYTES, "below");
}

void cw_user_request_free(struct cw_user_request *request)
{
    free(request->base);
    request->base = NULL;
}

const char *cw_transport_of(ucp_ep_h ep)
{
    static ucp_transport_entry_t entry;
    ucp_ep_attr_t attr;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS;
    attr.transports.entries = &entry;
    attr.transports.num_entries = 1;
    attr.transports.entry_size = sizeof(entry);
    assert_int_equal(ucp_ep_query(ep, &attr), UCS_OK);
    return attr.transports.num_entries == 1 ? entry.transport_name : "none";
}
