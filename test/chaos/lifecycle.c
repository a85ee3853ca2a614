/* SPDX-License-Identifier: BSD-3-Clause */
/* The lifecycle of lifecycle.h. Nothing in here allocates, so that a counted failure meets the library. */
#define _GNU_SOURCE
#include "lifecycle.h"

#include <string.h>

#include "chaos.h"

enum { MAX_LENGTH = 200000, IOV_ENTRIES = 3, STALL_MS = 60, END_MS = 15000, SETTLE_ROUNDS = 300 };

enum kind { PLAIN, SYNC, IOV, GENERIC };
enum when { POSTED, UNEXPECTED, PROBED };

struct op {
    ucs_status_ptr_t request;
    int accepted;
    int calls;
    int canceled;
    ucs_status_t status;
    ucp_tag_recv_info_t info;
};

struct message {
    size_t length;
    enum kind kind;
    enum when when;
    int from;          /* which worker sends */
};

static const struct message messages[] = {
    {8, PLAIN, POSTED, 0},        {0, PLAIN, POSTED, 0},           {600, PLAIN, UNEXPECTED, 0},
    {8, SYNC, UNEXPECTED, 0},     {5000, PLAIN, PROBED, 1},        {MAX_LENGTH, PLAIN, POSTED, 0},
    {15000, IOV, POSTED, 0},      {60000, IOV, UNEXPECTED, 0},     {30000, GENERIC, POSTED, 1},
    {100000, SYNC, POSTED, 1},    {100000, GENERIC, UNEXPECTED, 0}, {MAX_LENGTH, PLAIN, UNEXPECTED, 1},
    {8, SYNC, POSTED, 1},
};

enum { NUM_MESSAGES = sizeof(messages) / sizeof(messages[0]) };

/* Active messages, from worker 0: those before the last are kept by their handler, the last is fetched. */
static const struct {
    size_t length;
    uint32_t flags;
} calls[] = {{8, 0}, {5000, 0}, {60000, UCP_AM_SEND_FLAG_EAGER}, {MAX_LENGTH, UCP_AM_SEND_FLAG_RNDV}};

enum { NUM_CALLS = sizeof(calls) / sizeof(calls[0]), PATTERN = 5 };

/* One lifecycle at a time in a process. */
static struct cw_lifecycle *lifecycle;
static ucp_worker_h workers[2];
static ucp_ep_h eps[2];
static struct op sends[NUM_MESSAGES], recvs[NUM_MESSAGES];
static struct op call_sends[NUM_CALLS], call_fetch;
static void *call_data[NUM_CALLS];
static int num_called;
static char out[NUM_MESSAGES][MAX_LENGTH], in[NUM_MESSAGES][MAX_LENGTH];
static int alone;
static uint64_t last_change_ns;
static int lost; /* some message may never come: an error was returned or reported */

static int refused(ucs_status_t status)
{
    if (status == UCS_OK) {
        return 0;
    }
    cw_check(status < 0 && status > UCS_ERR_LAST && strlen(ucs_status_string(status)) > 0);
    lifecycle->refused++;
    lost = 1;
    return 1;
}

/* ---- callbacks ---- */

static void op_done(struct op *op, void *request, ucs_status_t status)
{
    op->calls++;
    cw_check(op->calls == 1 && request != NULL);
    op->status = status;
    last_change_ns = cw_now_ns();
    if (status != UCS_OK && !op->canceled) {
        lifecycle->failed++;
        lost = 1;
    }
}

static void send_done(void *request, ucs_status_t status, void *user_data)
{
    lost |= (status != UCS_OK);
    op_done(user_data, request, status);
}

static void recv_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct op *op = user_data;

    op->info = *info;
    op_done(op, request, status);
}

static void ep_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    (void)argument;
    (void)ep;
    cw_check(status < 0);
    lifecycle->reported++;
    lost = 1;
}

static void *generic_start(void *context, void *buffer, size_t count)
{
    (void)context;
    (void)count;
    return buffer;
}

static void *generic_start_pack(void *context, const void *buffer, size_t count)
{
    return generic_start(context, (void *)buffer, count);
}

static int message_of(const void *buffer)
{
    int i;

    for (i = 0; i < NUM_MESSAGES; i++) {
        if (buffer == out[i] || buffer == in[i]) {
            return i;
        }
    }
    cw_check(0);
    return -1;
}

static size_t generic_size(void *state)
{
    return messages[message_of(state)].length;
}

static size_t generic_pack(void *state, size_t offset, void *dest, size_t max)
{
    memcpy(dest, (char *)state + offset, max);
    return max;
}

static ucs_status_t generic_unpack(void *state, size_t offset, const void *src, size_t length)
{
    memcpy((char *)state + offset, src, length);
    return UCS_OK;
}

static void generic_finish(void *state)
{
    (void)message_of(state);
}

static const ucp_generic_dt_ops_t generic_ops = {
    .start_pack = generic_start_pack, .start_unpack = generic_start, .packed_size = generic_size,
    .pack = generic_pack, .unpack = generic_unpack, .finish = generic_finish};

/* ---- progress ---- */

static void progress(void)
{
    int i;

    for (i = 0; i < 2; i++) {
        if (workers[i] != NULL) {
            (void)ucp_worker_progress(workers[i]);
        }
    }
}

static void settle(void)
{
    int i;

    for (i = 0; i < SETTLE_ROUNDS; i++) {
        progress();
        if (i % 100 == 0) {
            cw_sleep_ms(1);
        }
    }
}

/* Waits while the condition says that something is missing. */
static void wait_while(int (*missing)(void *), void *argument, const char *what)
{
    uint64_t start = cw_now_ns(), now;

    last_change_ns = start;
    while (missing(argument)) {
        progress();
        now = cw_now_ns();
        if (lifecycle->relief != NULL && !lifecycle->relieved && now > last_change_ns + STALL_MS * UINT64_C(1000000)) {
            lifecycle->relieved = 1;
            lifecycle->relief();
            start = now;
        }
        if (now > start + END_MS * UINT64_C(1000000)) {
            (void)fprintf(stderr, "waited in vain for: %s\n", what);
            cw_check(!"everything accepted ends");
        }
    }
}

static int request_missing(void *request)
{
    return ucp_request_check_status(request) == UCS_INPROGRESS;
}

/* A flush or close. */
static void finish(ucs_status_ptr_t result, const char *what)
{
    if (UCS_PTR_IS_PTR(result)) {
        wait_while(request_missing, result, what);
        if (ucp_request_check_status(result) != UCS_OK) {
            lifecycle->failed++;
        }
        ucp_request_free(result);
    } else if (UCS_PTR_IS_ERR(result)) {
        lifecycle->refused++;
    }
}

/* Synchronous messages and those that may go by rendezvous wait for their receive. */
static int waits_for_match(int i)
{
    return messages[i].kind == SYNC || messages[i].length >= 64 << 10;
}

static int sends_missing(void *argument)
{
    int i;

    (void)argument;
    for (i = 0; i < NUM_MESSAGES; i++) {
        if (sends[i].accepted && sends[i].calls == 0 && !(waits_for_match(i) && lost)) {
            return 1;
        }
    }
    return 0;
}

static int recvs_missing(void *argument)
{
    int i;

    (void)argument;
    for (i = 0; i < NUM_MESSAGES && !lost; i++) {
        if (recvs[i].accepted && recvs[i].calls == 0) {
            return 1;
        }
    }
    return 0;
}

static int all_missing(void *argument)
{
    return sends_missing(argument) || recvs_missing(argument);
}

/* ---- messages ---- */

static ucp_request_param_t param_for(struct op *op, int receive)
{
    ucp_request_param_t param;

    memset(&param, 0xff, sizeof(param));
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.user_data = op;
    if (receive) {
        param.cb.recv = recv_done;
    } else {
        param.cb.send = send_done;
    }
    return param;
}

static void note(struct op *op, ucs_status_ptr_t result)
{
    cw_check(result != NULL); /* NO_IMM_CMPL */
    if (UCS_PTR_IS_ERR(result)) {
        cw_check(op->calls == 0);
        (void)refused(UCS_PTR_STATUS(result));
        return;
    }
    op->request = result;
    op->accepted = 1;
}

static int receiver_of(int i)
{
    return alone ? 0 : 1 - messages[i].from;
}

static void describe(int i, ucp_request_param_t *param, char *buffer, ucp_dt_iov_t *iov, ucp_datatype_t generic,
                     void **start, size_t *count)
{
    size_t part = messages[i].length / IOV_ENTRIES;
    int entry;

    *start = buffer;
    *count = messages[i].length;
    if (messages[i].kind == IOV) {
        for (entry = 0; entry < IOV_ENTRIES; entry++) {
            iov[entry] = (ucp_dt_iov_t){.buffer = buffer + (size_t)entry * part, .length = part};
        }
        *start = iov;
        *count = IOV_ENTRIES;
    }
    if (messages[i].kind == IOV || messages[i].kind == GENERIC) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param->datatype = (messages[i].kind == IOV) ? (ucp_datatype_t)UCP_DATATYPE_IOV : generic;
    }
}

static void post_send(int i, ucp_datatype_t generic)
{
    ucp_request_param_t param = param_for(&sends[i], 0);
    ucp_ep_h ep = eps[messages[i].from];
    ucp_dt_iov_t iov[IOV_ENTRIES];
    void *start;
    size_t count;

    describe(i, &param, out[i], iov, generic, &start, &count);
    note(&sends[i], (messages[i].kind == SYNC) ? ucp_tag_send_sync_nbx(ep, start, count, (ucp_tag_t)i, &param) :
                                                 ucp_tag_send_nbx(ep, start, count, (ucp_tag_t)i, &param));
    memset(iov, 0xff, sizeof(iov)); /* OPA-19 */
}

static void post_recv(int i, ucp_datatype_t generic)
{
    ucp_request_param_t param = param_for(&recvs[i], 1);
    ucp_worker_h worker = workers[receiver_of(i)];
    ucp_tag_message_h message = NULL;
    ucp_dt_iov_t iov[IOV_ENTRIES];
    ucp_tag_recv_info_t info;
    void *start;
    size_t count;

    describe(i, &param, in[i], iov, generic, &start, &count);
    if (messages[i].when == PROBED) {
        message = ucp_tag_probe_nb(worker, (ucp_tag_t)i, UINT64_MAX, 1, &info);
    }
    note(&recvs[i], (message != NULL) ? ucp_tag_msg_recv_nbx(worker, start, count, message, &param) :
                                        ucp_tag_recv_nbx(worker, start, count, (ucp_tag_t)i, UINT64_MAX, &param));
    if (message != NULL && !recvs[i].accepted) { /* the message stays the program's: once more */
        note(&recvs[i], ucp_tag_msg_recv_nbx(worker, start, count, message, &param));
        if (!recvs[i].accepted && lifecycle->relief != NULL) {
            lifecycle->relief();
            note(&recvs[i], ucp_tag_msg_recv_nbx(worker, start, count, message, &param));
        }
    }
}

static void fetch_done(void *request, ucs_status_t status, size_t length, void *user_data)
{
    cw_check(status != UCS_OK || length == MAX_LENGTH);
    lost |= (status != UCS_OK);
    op_done(user_data, request, status);
}

static ucs_status_t called(void *arg, const void *header, size_t header_length, void *data, size_t length,
                           const ucp_am_recv_param_t *param)
{
    ucp_request_param_t fetch = param_for(&call_fetch, 1);
    int i;

    cw_check(header_length == sizeof(i));
    memcpy(&i, header, sizeof(i));
    cw_check(i == num_called && i < NUM_CALLS && length == calls[i].length);
    num_called++;
    last_change_ns = cw_now_ns();
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        fetch.cb.recv_am = fetch_done;
        note(&call_fetch, ucp_am_recv_data_nbx(arg, data, in[PATTERN], length, &fetch));
        return UCS_OK;
    }
    cw_check((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) && memcmp(data, out[PATTERN], length) == 0);
    call_data[i] = data;
    return UCS_INPROGRESS;
}

static int calls_missing(void *argument)
{
    int i;

    (void)argument;
    for (i = 0; i < NUM_CALLS; i++) {
        if (call_sends[i].accepted && call_sends[i].calls == 0 && !lost) {
            return 1;
        }
    }
    return !lost && (num_called < NUM_CALLS || call_fetch.calls == 0);
}

/* A message that is not accepted ends it: the handler wants them in order. */
static void call_all(void)
{
    ucp_am_handler_param_t handler;
    ucp_request_param_t param;
    int i;

    memset(&handler, 0xff, sizeof(handler));
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                         UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    handler.id = 1000;
    handler.cb = called;
    handler.arg = workers[alone ? 0 : 1];
    handler.flags = UCP_AM_FLAG_PERSISTENT_DATA;
    memset(in[PATTERN], 0, MAX_LENGTH);
    if (refused(ucp_worker_set_am_recv_handler(handler.arg, &handler))) {
        return;
    }
    for (i = 0; i < NUM_CALLS && (i == 0 || call_sends[i - 1].accepted); i++) {
        param = param_for(&call_sends[i], 0);
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = calls[i].flags | UCP_AM_SEND_FLAG_COPY_HEADER;
        note(&call_sends[i], ucp_am_send_nbx(eps[0], handler.id, &i, sizeof(i), out[PATTERN], calls[i].length, &param));
    }
    wait_while(calls_missing, NULL, "active messages");
    cw_check(call_fetch.calls == 0 || call_fetch.status != UCS_OK ||
             memcmp(in[PATTERN], out[PATTERN], MAX_LENGTH) == 0);
    for (i = 1; i < num_called; i++) { /* the first is left to the worker */
        if (call_data[i] != NULL) {
            ucp_am_data_release(handler.arg, call_data[i]);
        }
    }
}

static void cancel_rest(void)
{
    int i;

    settle();
    for (i = 0; i < NUM_MESSAGES; i++) {
        if (recvs[i].accepted && recvs[i].calls == 0) {
            recvs[i].canceled = 1;
            ucp_request_cancel(workers[receiver_of(i)], recvs[i].request);
        }
    }
}

static void check_data(void)
{
    int i;

    for (i = 0; i < NUM_MESSAGES; i++) {
        if (recvs[i].accepted && recvs[i].calls == 1 && recvs[i].status == UCS_OK) {
            cw_check(recvs[i].info.length == messages[i].length && recvs[i].info.sender_tag == (ucp_tag_t)i);
            cw_check(memcmp(in[i], out[i], messages[i].length) == 0);
        }
    }
}

static void free_requests(void)
{
    int i;

    for (i = 0; i < NUM_MESSAGES; i++) {
        if (sends[i].accepted && sends[i].calls == 1) {
            ucp_request_free(sends[i].request);
        }
        if (recvs[i].accepted && recvs[i].calls == 1) {
            ucp_request_free(recvs[i].request);
        }
    }
    for (i = 0; i < NUM_CALLS; i++) {
        if (call_sends[i].accepted && call_sends[i].calls == 1) {
            ucp_request_free(call_sends[i].request);
        }
    }
    if (call_fetch.accepted && call_fetch.calls == 1) {
        ucp_request_free(call_fetch.request);
    }
}

/* Closes what was opened, while the shortage may last. */
static void close_all(void)
{
    int i;

    for (i = 0; i < 2; i++) {
        if (eps[i] != NULL) {
            finish(ucp_ep_close_nbx(eps[i], &(ucp_request_param_t){.op_attr_mask = 0}), "close");
            eps[i] = NULL;
        }
    }
    settle();
    free_requests();
    for (i = 0; i < 2; i++) {
        if (workers[i] != NULL) {
            ucp_worker_destroy(workers[i]);
            workers[i] = NULL;
        }
    }
}

static void exchange(void)
{
    ucp_datatype_t generic = 0;
    uint64_t seed = 7;
    int i;

    for (i = 0; i < NUM_MESSAGES; i++) {
        memset(in[i], 0, messages[i].length);
        memset(out[i], (int)(cw_random(&seed) & 0xff), messages[i].length);
    }
    if (refused(ucp_dt_create_generic(&generic_ops, NULL, &generic))) {
        return;
    }
    for (i = 0; i < NUM_MESSAGES; i++) {
        if (messages[i].when == POSTED) {
            post_recv(i, generic);
        }
    }
    for (i = 0; i < NUM_MESSAGES; i++) {
        post_send(i, generic);
        if (i == NUM_MESSAGES / 2) {
            settle();
        }
    }
    settle();
    for (i = 0; i < NUM_MESSAGES; i++) {
        if (messages[i].when != POSTED) {
            post_recv(i, generic);
        }
    }
    wait_while(all_missing, NULL, "messages");
    finish(ucp_worker_flush_nbx(workers[0], &(ucp_request_param_t){.op_attr_mask = 0}), "flush");
    cancel_rest();
    check_data();
    call_all();
    close_all();
    for (i = 0; i < NUM_CALLS; i++) {
        cw_check(call_sends[i].calls == call_sends[i].accepted);
    }
    cw_check(call_fetch.calls == call_fetch.accepted);
    for (i = 0; i < NUM_MESSAGES; i++) {
        cw_check(!sends[i].accepted || sends[i].calls == 1);
        cw_check(sends[i].accepted || sends[i].calls == 0);
        cw_check(recvs[i].accepted || recvs[i].calls == 0);
        cw_check(!recvs[i].accepted || recvs[i].calls == 1);
    }
    ucp_dt_destroy(generic);
}

/* ---- set-up ---- */

static int connect_to(int i, ucp_worker_h target)
{
    ucp_worker_attr_t attr;
    ucp_ep_params_t params;
    ucs_status_t status;

    memset(&attr, 0xff, sizeof(attr));
    attr.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
    if (refused(ucp_worker_query(target, &attr))) {
        return 0;
    }
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = attr.address;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = ep_failed;
    params.err_handler.arg = NULL;
    status = ucp_ep_create(workers[alone ? 0 : i], &params, &eps[i]);
    ucp_worker_release_address(target, attr.address);
    if (refused(status)) {
        cw_check(eps[i] == NULL);
        return 0;
    }
    return 1;
}

static int open_workers(ucp_context_h context)
{
    ucp_worker_params_t params;
    int i;

    memset(&params, 0xff, sizeof(params));
    params.field_mask = 0;
    for (i = 0; i < (alone ? 1 : 2); i++) {
        if (refused(ucp_worker_create(context, &params, &workers[i]))) {
            cw_check(workers[i] == NULL);
            return 0;
        }
    }
    return connect_to(0, workers[alone ? 0 : 1]) && connect_to(1, workers[0]);
}

int cw_lifecycle_run(struct cw_lifecycle *run)
{
    ucp_config_t *config = NULL;
    ucp_context_h context = NULL;
    ucp_params_t params;

    lifecycle = run;
    lost = 0;
    alone = !cw_tls_has("shm") && !cw_tls_has("tcp");
    run->refused = run->failed = run->reported = 0;
    run->relieved = 0;
    memset(workers, 0, sizeof(workers));
    memset(eps, 0, sizeof(eps));
    memset(sends, 0, sizeof(sends));
    memset(recvs, 0, sizeof(recvs));
    memset(call_sends, 0, sizeof(call_sends));
    memset(&call_fetch, 0, sizeof(call_fetch));
    memset(call_data, 0, sizeof(call_data));
    num_called = 0;
    if (refused(ucp_config_read(NULL, NULL, &config))) {
        cw_check(config == NULL);
        return 0;
    }
    (void)refused(ucp_config_modify(config, "SELF_DEVICES", "memory"));
    memset(&params, 0xff, sizeof(params));
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_AM | run->features;
    if (refused(ucp_init(&params, config, &context))) {
        cw_check(context == NULL);
        ucp_config_release(config);
        return 0;
    }
    ucp_config_release(config);
    if (open_workers(context)) {
        exchange();
    }
    if (workers[0] != NULL) {
        close_all();
    }
    ucp_cleanup(context);
    return run->refused == 0 && run->failed == 0 && run->reported == 0;
}
