/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TAG-15: every transfer has one right result, whatever call the library takes. The cases are layouts of both sides
 * (test_layout.h) x sizes x how message and receive meet x how each call is made x what fits x what is cancelled, drawn
 * so that every pair of two values comes together (test_pairwise.h), once with each threshold and scheme of rendezvous.
 * CW_TEST_SEED draws others; a failure names its case.
 */
#include "test_layout.h"
#include "test_pairwise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- factors ---- */

enum factor { FROM, TO, SIZE, SEND_CALL, RECV_CALL, MEETING, FIT, CANCEL, PACK_LIMIT, FACTORS };

enum send_call {
    S_NBX, S_FAST, S_MULTI, S_NO_IMM, S_USER, S_SYNC, S_SYNC_FAST, S_SYNC_USER, S_SYNC_NO_IMM, S_NB, S_SYNC_NB, S_NBR,
    SEND_CALLS
};
enum recv_call { R_NBX, R_NO_IMM, R_USER, R_NB, R_NBR, RECV_CALLS };
/* RACE: the receive is posted right after the send, in whatever state the message is then. */
enum meeting { EXPECTED, UNEXPECTED, RACE, PROBED, REMOVED, MEETINGS };
enum fit { EXACT, LARGER, SHORT_BY_ONE, HALF, NOTHING, FITS };
/* EARLY: an earlier receive of the same tag is cancelled. LATE: receive or send after the match, to no effect. */
enum cancel { NONE, RECV_EARLY, RECV_LATE, SEND_LATE, CANCELS };

static const size_t sizes[] = {
    0, 1, 8, 40, 64, 257, 4096, 8191, 8192, 8193, 8248, 8256, 65535, 65537, 262143, 262145, (1 << 20) + 3,
};
static const size_t pack_limits[] = {0, 61, 5000};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LIMITS = sizeof(pack_limits) / sizeof(pack_limits[0]) };

static const unsigned levels[FACTORS] = {KINDS, KINDS, SIZES, SEND_CALLS, RECV_CALLS, MEETINGS, FITS, CANCELS, LIMITS};
/* ---- one transfer ---- */

struct transfer {
    unsigned row[FACTORS];
    struct cw_pair *pair;
    struct layout out, in;
    struct cw_user_request send_user, recv_user;
    struct cw_op send, recv;
    ucp_tag_t tag;
    bool immediate;        /* the receive: no handle */
};

/* The old callbacks carry no user data: one transfer at a time. */
static struct transfer *running;

static void note_done(struct cw_op *op, const struct layout *layout, void *request, ucs_status_t status)
{
    op->calls++;
    op->calls_inside += op->inside;
    op->status = status;
    op->request = request;
    op->checked = ucp_request_check_status(request);
    assert_int_equal(layout->counts.starts, layout->counts.finishes); /* DT-9: finish precedes the callback */
}

static void send_done_nb(void *request, ucs_status_t status)
{
    note_done(&running->send, &running->out, request, status);
}

static void send_done(void *request, ucs_status_t status, void *user_data)
{
    assert_ptr_equal(user_data, running);
    send_done_nb(request, status);
}

static void recv_done_nb(void *request, ucs_status_t status, ucp_tag_recv_info_t *info)
{
    running->recv.info = *info;
    note_done(&running->recv, &running->in, request, status);
}

static void recv_done(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    ucp_tag_recv_info_t copy = *info;

    assert_ptr_equal(user_data, running);
    recv_done_nb(request, status, &copy);
}

static bool is_sync(unsigned call)
{
    return call == S_SYNC || call == S_SYNC_FAST || call == S_SYNC_USER || call == S_SYNC_NO_IMM || call == S_SYNC_NB;
}

static ucs_status_ptr_t start_send_nbx(struct transfer *t, unsigned call)
{
    ucp_request_param_t param = cw_param_none();
    void *buffer = t->out.buffer;
    size_t count = t->out.count;

    param.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE;
    param.cb.send = send_done;
    param.user_data = t;
    param.datatype = t->out.datatype;
    if (call == S_FAST || call == S_SYNC_FAST) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_FAST_CMPL;
    } else if (call == S_MULTI) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_MULTI_SEND;
    } else if (call == S_NO_IMM || call == S_SYNC_NO_IMM) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    } else if (call == S_USER || call == S_SYNC_USER) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = t->send_user.handle;
    }
    return is_sync(call) ? ucp_tag_send_sync_nbx(t->pair->tx->ep, buffer, count, t->tag, &param) :
                          ucp_tag_send_nbx(t->pair->tx->ep, buffer, count, t->tag, &param);
}

static void start_send(struct transfer *t)
{
    unsigned call = t->row[SEND_CALL];
    void *buffer = t->out.buffer;
    size_t count = t->out.count;
    ucp_ep_h ep = t->pair->tx->ep;
    ucs_status_ptr_t result;
    ucs_status_t status;

    t->send.inside = true;
    if (call == S_NB) {
        result = ucp_tag_send_nb(ep, buffer, count, t->out.datatype, t->tag, send_done_nb);
    } else if (call == S_SYNC_NB) {
        result = ucp_tag_send_sync_nb(ep, buffer, count, t->out.datatype, t->tag, send_done_nb);
    } else if (call == S_NBR) {
        status = ucp_tag_send_nbr(ep, buffer, count, t->out.datatype, t->tag, t->send_user.handle);
        result = status == UCS_INPROGRESS ? t->send_user.handle : UCS_STATUS_PTR(status);
    } else {
        result = start_send_nbx(t, call);
    }
    cw_op_started(&t->send, result);
    if (UCS_PTR_IS_ERR(result)) {
        fail_msg("The send answers %s", ucs_status_string(UCS_PTR_STATUS(result)));
    }
    if (call == S_NO_IMM || call == S_SYNC_NO_IMM) {
        assert_non_null(result); /* OPA-14 */
    } else {
        assert_int_equal(t->send.calls_inside, 0); /* R1 */
    }
    if (call == S_USER || call == S_SYNC_USER) {
        assert_true(result == NULL || result == t->send_user.handle); /* OPA-6 */
    }
    assert_false(is_sync(call) && result == NULL && t->row[MEETING] != EXPECTED); /* TAG-21 */
}

static ucs_status_ptr_t start_recv_nbx(struct transfer *t, ucp_tag_message_h message, ucp_tag_recv_info_t *info)
{
    ucp_request_param_t param = cw_param_none();
    void *buffer = t->in.buffer;
    size_t count = t->in.count;

    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_DATATYPE |
                         UCP_OP_ATTR_FIELD_RECV_INFO;
    param.cb.recv = recv_done;
    param.user_data = t;
    param.datatype = t->in.datatype;
    param.recv_info.tag_info = info;
    if (t->row[RECV_CALL] == R_USER) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_REQUEST;
        param.request = t->recv_user.handle;
    } else if (t->row[RECV_CALL] == R_NO_IMM) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    return message != NULL ? ucp_tag_msg_recv_nbx(t->pair->rx->worker, buffer, count, message, &param) :
                             ucp_tag_recv_nbx(t->pair->rx->worker, buffer, count, t->tag, CW_TAG_ALL, &param);
}

static void start_recv(struct transfer *t, ucp_tag_message_h message)
{
    ucp_tag_recv_info_t info, untouched;
    void *buffer = t->in.buffer;
    size_t count = t->in.count;
    ucp_worker_h worker = t->pair->rx->worker;
    ucs_status_ptr_t result;

    memset(&info, 0x77, sizeof(info));
    untouched = info;
    t->recv.inside = true;
    if (t->row[RECV_CALL] == R_NB) {
        result = message != NULL ?
                     ucp_tag_msg_recv_nb(worker, buffer, count, t->in.datatype, message, recv_done_nb) :
                     ucp_tag_recv_nb(worker, buffer, count, t->in.datatype, t->tag, CW_TAG_ALL, recv_done_nb);
    } else if (t->row[RECV_CALL] == R_NBR && message == NULL) {
        assert_int_equal(ucp_tag_recv_nbr(worker, buffer, count, t->in.datatype, t->tag, CW_TAG_ALL,
                                          t->recv_user.handle), UCS_OK); /* REQ-45 */
        result = t->recv_user.handle;
    } else {
        result = start_recv_nbx(t, message, &info);
        if (t->row[RECV_CALL] == R_USER) {
            assert_true(!UCS_PTR_IS_PTR(result) || result == t->recv_user.handle);
        }
    }
    cw_op_started(&t->recv, result);
    t->immediate = !UCS_PTR_IS_PTR(result);
    if (t->row[RECV_CALL] == R_NB || t->row[RECV_CALL] == R_NO_IMM) {
        assert_false(t->immediate); /* REQ-42, OPA-14 */
    }
    if (result == NULL) {
        t->recv.info = info; /* REQ-4 */
    } else {
        assert_memory_equal(&info, &untouched, sizeof(info)); /* OPA-12 */
    }
}

/* Waits until the request of an operation has a final status; callbacks are checked by the caller. */
static ucs_status_t wait_status(struct transfer *t, struct cw_op *op, const char *what)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(op->result)) {
        assert_int_equal(op->calls, 0); /* REQ-2 */
        return UCS_PTR_STATUS(op->result);
    }
    while ((status = ucp_request_check_status(op->result)) == UCS_INPROGRESS) {
        if (cw_pair_progress(t->pair) == 0 && cw_time_now_s() > deadline) {
            fail_msg("The %s did not complete within %d s", what, CW_WAIT_S);
        }
    }
    return status;
}

static void check_callback(const struct cw_op *op, bool has_callback, ucs_status_t status)
{
    assert_int_equal(op->calls, has_callback); /* REQ-3 */
    if (has_callback) {
        assert_int_equal(op->status, status);
        assert_int_equal(op->checked, status); /* REQ-7 */
        assert_ptr_equal(op->request, op->result);
    }
}

static void finish_recv(struct transfer *t, bool by_message)
{
    ucs_status_t want = t->out.length > t->in.length ? UCS_ERR_MESSAGE_TRUNCATED : UCS_OK;
    bool nbr = t->row[RECV_CALL] == R_NBR && !by_message;
    ucs_status_t status = wait_status(t, &t->recv, "receive");

    if (status != want) {
        fail_msg("The receive ends with %s", ucs_status_string(status)); /* TAG-32, TAG-33, TAG-35 */
    }
    if (!t->immediate) {
        ucp_tag_recv_info_t info = {0};

        check_callback(&t->recv, !nbr, status);
        assert_int_equal(ucp_tag_recv_request_test(t->recv.result, &info), status); /* REQ-27, REQ-45 */
        if (nbr) {
            t->recv.info = info;
        }
        assert_true(info.length == t->recv.info.length && info.sender_tag == t->recv.info.sender_tag);
    }
    if (!t->immediate || status == UCS_OK) {
        assert_int_equal(t->recv.info.length, t->out.length); /* TAG-31, TAG-34 */
        assert_true(t->recv.info.sender_tag == t->tag);
    }
    if (status == UCS_OK) {
        assert_true(t->in.kind != GENERIC || t->in.counts.moved == t->out.length); /* DT-8, DT-11 */
        layout_check(&t->in, t->out.length, t->tag);
    } else {
        layout_check_bounds(&t->in);
    }
}

static void finish_send(struct transfer *t)
{
    ucs_status_t status = wait_status(t, &t->send, "send");

    if (status != UCS_OK) {
        fail_msg("The send ends with %s", ucs_status_string(status));
    }
    if (UCS_PTR_IS_PTR(t->send.result)) {
        check_callback(&t->send, t->row[SEND_CALL] != S_NBR, status);
    }
    /* DT-7; an announced message that does not fit is not moved at all */
    assert_true(t->out.kind != GENERIC || t->out.counts.moved == t->out.length ||
                (t->out.counts.moved == 0 && t->out.length > t->in.length));
    layout_check(&t->out, t->out.length, t->tag);
}

/* REQ-24: an unmatched receive is cancelled inside the call; the message then goes to the next one. */
static void cancel_early(struct transfer *t)
{
    struct layout layout;
    struct cw_op op = {0};
    ucp_request_param_t param = cw_param_recv(&op);

    layout_open(&layout, t->row[TO], t->in.length, t->tag);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = layout.datatype;
    op.result = ucp_tag_recv_nbx(t->pair->rx->worker, layout.buffer, layout.count, t->tag,
                                 CW_TAG_ALL, &param);
    assert_true(UCS_PTR_IS_PTR(op.result));
    ucp_request_cancel(t->pair->rx->worker, op.result);
    assert_int_equal(op.calls, 1);
    assert_int_equal(op.status, UCS_ERR_CANCELED);
    ucp_request_cancel(t->pair->rx->worker, op.result); /* REQ-26 */
    assert_int_equal(op.calls, 1);
    ucp_request_free(op.result);
    layout_check(&layout, 0, 0);
    layout_close(&layout);
}

static size_t room_for(const struct transfer *t)
{
    size_t length = t->out.length;

    switch (t->row[FIT]) {
    case EXACT:
        return length;
    case LARGER:
        return length + length / 3 + 70;
    case SHORT_BY_ONE:
        return length == 0 ? 0 : length - 1;
    case HALF:
        return length / 2;
    default:
        return 0;
    }
}

/* What happens between send and receive; returns the message to receive, if it was taken out. */
static ucp_tag_message_h meet(struct transfer *t)
{
    ucp_tag_message_h message = NULL;
    ucp_tag_recv_info_t info;

    if (t->row[MEETING] == EXPECTED || t->row[MEETING] == RACE) {
        return NULL;
    }
    cw_pair_wait_probe(t->pair, t->tag, CW_TAG_ALL, &info);
    assert_true(info.sender_tag == t->tag);
    assert_int_equal(info.length, t->out.length); /* TPR-1, TPR-5 */
    cw_pair_progress(t->pair);
    if (is_sync(t->row[SEND_CALL])) {
        assert_int_equal(ucp_request_check_status(t->send.result), UCS_INPROGRESS); /* TAG-21 */
    }
    if (t->row[MEETING] == PROBED || t->row[MEETING] == REMOVED) {
        assert_non_null(ucp_tag_probe_nb(t->pair->rx->worker, 0, 0, 0, &info)); /* TPR-3, TPR-8 */
    }
    if (t->row[MEETING] == REMOVED) {
        message = ucp_tag_probe_nb(t->pair->rx->worker, t->tag, CW_TAG_ALL, 1, &info);
        assert_non_null(message);
        assert_true(info.sender_tag == t->tag && info.length == t->out.length);
        assert_null(ucp_tag_probe_nb(t->pair->rx->worker, 0, 0, 0, &info)); /* TPR-4 */
    }
    return message;
}

static void transfer_open(struct transfer *t)
{
    layout_open(&t->out, t->row[FROM], sizes[t->row[SIZE]], t->tag);
    layout_fill(&t->out, t->tag);
    t->out.counts.limit = pack_limits[t->row[PACK_LIMIT]];
    layout_open(&t->in, t->row[TO], room_for(t), t->tag + 1);
    t->send_user = cw_user_request_new(t->pair->tx->context);
    t->recv_user = cw_user_request_new(t->pair->rx->context);
}

static void transfer_close(struct transfer *t)
{
    if (UCS_PTR_IS_PTR(t->send.result) && t->send.result != t->send_user.handle) {
        ucp_request_free(t->send.result);
    }
    if (UCS_PTR_IS_PTR(t->recv.result) && t->recv.result != t->recv_user.handle) {
        ucp_request_free(t->recv.result);
    }
    layout_close(&t->out);
    layout_close(&t->in);
    cw_user_request_check(&t->send_user); /* OPA-7 */
    cw_user_request_check(&t->recv_user);
    cw_user_request_free(&t->send_user);
    cw_user_request_free(&t->recv_user);
}

static void transfer_run(struct transfer *t)
{
    ucp_tag_message_h message;
    ucp_tag_recv_info_t info;

    running = t;
    transfer_open(t);
    if (t->row[CANCEL] == RECV_EARLY) {
        cancel_early(t);
    }
    if (t->row[MEETING] == EXPECTED) {
        start_recv(t, NULL);
        assert_true(UCS_PTR_IS_PTR(t->recv.result));
    }
    start_send(t);
    message = meet(t);
    if (t->row[MEETING] != EXPECTED) {
        start_recv(t, message);
    }
    if (t->row[CANCEL] == RECV_LATE && t->row[MEETING] >= PROBED && !t->immediate) {
        ucp_request_cancel(t->pair->rx->worker, t->recv.result); /* REQ-24: it is matched */
    }
    finish_recv(t, message != NULL);
    if (t->row[CANCEL] == SEND_LATE && UCS_PTR_IS_PTR(t->send.result)) {
        ucp_request_cancel(t->pair->tx->worker, t->send.result);
    }
    finish_send(t);
    assert_null(ucp_tag_probe_nb(t->pair->rx->worker, 0, 0, 0, &info)); /* TAG-33: consumed */
    transfer_close(t);
    running = NULL;
}

static void describe(const struct transfer *t, char *text, size_t size)
{
    static const char *const kinds[] = {"contig", "iov", "generic"};
    static const char *const sends[] = {"nbx", "fast", "multi", "no-imm", "user", "sync", "sync fast", "sync user",
                                        "sync no-imm", "nb", "sync nb", "nbr"};
    static const char *const recvs[] = {"nbx", "no-imm", "user", "nb", "nbr"};
    static const char *const meetings[] = {"expected", "unexpected", "race", "probed", "removed"};
    static const char *const fits[] = {"exact", "larger", "short by one", "half", "nothing"};
    static const char *const cancels[] = {"", ", receive cancelled before", ", receive cancelled late",
                                          ", send cancelled late"};

    snprintf(text, size, "%s to %s, %zu bytes, send %s, receive %s, %s, room: %s%s, packs of %zu", kinds[t->row[FROM]],
             kinds[t->row[TO]], sizes[t->row[SIZE]], sends[t->row[SEND_CALL]], recvs[t->row[RECV_CALL]],
             meetings[t->row[MEETING]], fits[t->row[FIT]], cancels[t->row[CANCEL]], pack_limits[t->row[PACK_LIMIT]]);
}

/* ---- runs ---- */

static char running_text[300];

static int matrix_teardown(void **state)
{
    int result;

    if (running != NULL) {
        print_error("The case was: %s\n", running_text);
    }
    result = cw_test_teardown(state);
    running = NULL;
    return result;
}

/* Each setting draws other cases, so that all runs together meet more than one of them. */
static void run_matrix(void **state, const char *threshold, const char *scheme, uint64_t salt)
{
    static struct drawing drawing;
    const char *seed = getenv("CW_TEST_SEED");
    static struct transfer t; /* outlives a failure: what is pending still refers to it */
    struct cw_pair *pair = *state;

    if (threshold != NULL) {
        setenv("UCX_RNDV_THRESH", threshold, 1);
    }
    if (scheme != NULL) {
        setenv("UCX_RNDV_SCHEME", scheme, 1);
    }
    cw_pair_open(pair, NULL);
    unsetenv("UCX_RNDV_THRESH");
    unsetenv("UCX_RNDV_SCHEME");
    drawing_init(&drawing, salt * 1000003 + (seed == NULL ? 1 : strtoull(seed, NULL, 0)), levels, FACTORS);
    for (int i = 0; ; i++) {
        memset(&t, 0, sizeof(t));
        if (!drawing_next(&drawing, t.row)) {
            break;
        }
        t.pair = pair;
        t.tag = 0x8000000000000000ull | (salt << 32) | (uint64_t)i;
        describe(&t, running_text, sizeof(running_text));
        transfer_run(&t);
    }
    cw_pair_close(pair);
}

TEST_WITH(test_tag15_by_default, cw_test_setup, matrix_teardown)
{
    run_matrix(state, NULL, NULL, 1);
}

TEST_WITH(test_tag15_by_rendezvous_alone, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "0", NULL, 2);
}

TEST_WITH(test_tag15_eagerly_alone, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "inf", NULL, 3);
}

TEST_WITH(test_tag15_by_get_zcopy, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "0", "get_zcopy", 4);
}

TEST_WITH(test_tag15_by_put_zcopy, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "0", "put_zcopy", 5);
}

TEST_WITH(test_tag15_by_am, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "0", "am", 6);
}

TEST_WITH(test_tag15_by_pipelines, cw_test_setup, matrix_teardown)
{
    run_matrix(state, "8000", cw_test_tls_has("tcp") ? "get_ppln" : "put_ppln", 7);
}
