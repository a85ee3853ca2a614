/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When callbacks run, for all operations beside each other: in progress, or inside the call that starts the very
 * operation, and there only if that call has NO_IMM_CMPL (R1, GEN-6, OPA-14); of announced active messages never inside
 * (test_am_rndv.c). Operations of all kinds and lengths are started at random while others are under way.
 */
#include "test_rma_common.h"

#include <stdlib.h>
#include <string.h>

enum kind {
    TAG_SEND, TAG_SYNC, TAG_RECV, STREAM_SEND, STREAM_RECV, AM_SEND, PUT, GET, POST, FETCH, EP_FLUSH, WORKER_FLUSH,
    KINDS,
    AM_FETCH /* by the handler */
};

enum { OPS = 3000, MOST_OPS = 200000, LONGEST = 300000, AM_ID = 7 };

struct op {
    enum kind kind;
    bool no_imm;
    bool announced; /* AM_FETCH */
    int calls;
    uint64_t operand;
    uint64_t reply;
    size_t length; /* STREAM_RECV */
};

static struct {
    struct cw_pair *pair;
    struct cw_region region;
    ucp_rkey_h key;
    struct op *ops;
    int num_ops;
    int pending;    /* callbacks that are to come */
    int wrong;      /* callbacks at a wrong time */
    int refused;    /* results that NO_IMM_CMPL forbids, errors, bad statuses */
    const struct op *starting;
    long tags;      /* sent and not received */
    long streamed;  /* bytes, likewise */
    int reading;    /* receives of the stream that wait: one at most */
    int messages;   /* active ones, likewise */
    char *out;
    char *in;
} play;

/* Callbacks inside their calls, in all runs. */
static int inside[AM_FETCH + 1];

static void completed(struct op *op, void *request, ucs_status_t status)
{
    op->calls++;
    play.pending--;
    play.refused += status != UCS_OK;
    if (play.starting != NULL) {
        play.wrong += play.starting != op || !op->no_imm || op->announced;
        inside[op->kind]++;
    }
    ucp_request_free(request);
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    completed(user_data, request, status);
}

static void on_tag(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    (void)info;
    completed(user_data, request, status);
}

static void on_length(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct op *op = user_data;

    play.streamed -= op->kind == STREAM_RECV ? (long)length : 0;
    play.reading -= op->kind == STREAM_RECV;
    completed(op, request, status);
}

static struct op *op_new(enum kind kind, bool no_imm, ucp_request_param_t *param)
{
    struct op *op = &play.ops[play.num_ops++];

    *op = (struct op){.kind = kind, .no_imm = no_imm};
    *param = cw_param_none();
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param->op_attr_mask |= no_imm ? UCP_OP_ATTR_FLAG_NO_IMM_CMPL : 0;
    param->user_data = op;
    param->cb.send = on_sent;
    if (kind == TAG_RECV) {
        param->cb.recv = on_tag;
    } else if (kind == STREAM_RECV) {
        param->cb.recv_stream = on_length;
    } else if (kind == AM_FETCH) {
        param->cb.recv_am = on_length;
    }
    return op;
}

/* The calls of its callback are counted from here on; what returned in another way has none. */
static void started(struct op *op, ucs_status_ptr_t result, bool may_be_null)
{
    play.starting = NULL;
    play.refused += UCS_PTR_IS_ERR(result) || (op->no_imm && !may_be_null && result == NULL);
    play.pending += UCS_PTR_IS_PTR(result);
    play.wrong += !UCS_PTR_IS_PTR(result) && op->calls > 0; /* REQ-2 */
    if (op->kind == STREAM_RECV && result == NULL) {
        play.streamed -= (long)op->length;
        play.reading--;
    }
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *recv_param)
{
    ucp_request_param_t param;
    struct op *op = op_new(AM_FETCH, play.num_ops % 2 == 0, &param);

    (void)arg;
    (void)header;
    (void)header_length;
    op->announced = (recv_param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    play.messages--;
    play.starting = op;
    started(op, ucp_am_recv_data_nbx(play.pair->rx->worker, data, play.in, length, &param), false);
    return UCS_OK;
}

static ucs_status_ptr_t start(struct op *op, ucp_request_param_t *param, size_t length, bool announce)
{
    struct cw_side *tx = play.pair->tx, *rx = play.pair->rx;
    uint64_t address = (uint64_t)(uintptr_t)play.region.base;

    switch (op->kind) {
    case TAG_SEND:
    case TAG_SYNC:
        play.tags++;
        return op->kind == TAG_SEND ? ucp_tag_send_nbx(tx->ep, play.out, length, 1, param) :
                                      ucp_tag_send_sync_nbx(tx->ep, play.out, length, 1, param);
    case TAG_RECV:
        play.tags--;
        return ucp_tag_recv_nbx(rx->worker, play.in, LONGEST, 1, CW_TAG_ALL, param);
    case STREAM_SEND:
        play.streamed += (long)length;
        return ucp_stream_send_nbx(tx->ep, play.out, length, param);
    case STREAM_RECV:
        play.reading++;
        return ucp_stream_recv_nbx(rx->ep, play.in, length + 1, &op->length, param);
    case AM_SEND:
        play.messages++;
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
        param->flags = announce ? UCP_AM_SEND_FLAG_RNDV : 0;
        return ucp_am_send_nbx(tx->ep, AM_ID, "head", 4, play.out, length, param);
    case PUT:
        return ucp_put_nbx(tx->ep, play.out, length + 1, address, play.key, param);
    case GET:
        return ucp_get_nbx(tx->ep, play.in, length + 1, address, play.key, param);
    case POST:
    case FETCH:
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
        param->op_attr_mask |= op->kind == FETCH ? UCP_OP_ATTR_FIELD_REPLY_BUFFER : 0;
        param->datatype = ucp_dt_make_contig(8);
        param->reply_buffer = &op->reply;
        return ucp_atomic_op_nbx(tx->ep, UCP_ATOMIC_OP_ADD, &op->operand, 1, address + LONGEST + 8, play.key, param);
    case EP_FLUSH:
        return ucp_ep_flush_nbx(tx->ep, param);
    default:
        return ucp_worker_flush_nbx(tx->worker, param);
    }
}

static void one(enum kind kind, bool no_imm, size_t length, bool announce)
{
    ucp_request_param_t param;
    struct op *op = op_new(kind, no_imm, &param);

    play.starting = op;
    started(op, start(op, &param, length, announce), kind == EP_FLUSH || kind == WORKER_FLUSH); /* OPA-14 */
}

static void finish(void)
{
    double deadline = cw_time_now_s() + CW_WAIT_S;

    while ((play.pending > 0 || play.tags > 0 || play.streamed > 0 || play.messages > 0) && play.num_ops < MOST_OPS) {
        if (play.tags > 0) {
            one(TAG_RECV, play.tags % 2 == 0, 0, false);
        } else if (play.streamed > 0 && play.reading == 0) {
            one(STREAM_RECV, play.streamed % 2 == 0, LONGEST - 1, false);
        }
        cw_pair_progress(play.pair);
        if (cw_time_now_s() > deadline) {
            fail_msg("%d callbacks, %ld tag messages, %ld bytes and %d active messages are missing after %d s",
                     play.pending, play.tags, play.streamed, play.messages, CW_WAIT_S);
        }
    }
}

static void run(struct cw_pair *pair, const char *rndv_thresh, uint64_t seed)
{
    static const size_t lengths[] = {0, 1, 8, 100, 1000, 8000, 17000, 60000, LONGEST - 1};
    const struct cw_pair_config config = {.features = CW_RMA_FEATURES | UCP_FEATURE_STREAM};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                      .id = AM_ID, .cb = on_message};
    uint64_t random = seed;

    memset(&play, 0, sizeof(play));
    setenv("UCX_RNDV_THRESH", rndv_thresh, 1);
    cw_pair_open(pair, &config);
    unsetenv("UCX_RNDV_THRESH");
    play.pair = pair;
    play.ops = calloc(MOST_OPS + OPS, sizeof(*play.ops));
    play.out = calloc(1, LONGEST);
    play.in = calloc(1, LONGEST);
    assert_true(play.ops != NULL && play.out != NULL && play.in != NULL);
    cw_region_open(&play.region, pair->rx->context, CW_MEMORY_ALLOCATED, LONGEST + 64);
    play.key = cw_region_key(&play.region, pair->tx->ep);
    assert_int_equal(ucp_worker_set_am_recv_handler(pair->rx->worker, &handler), UCS_OK);
    for (int i = 0; i < OPS; i++) {
        enum kind kind = (enum kind)(cw_random_next(&random) % KINDS);
        size_t length = lengths[cw_random_next(&random) % (i % 16 == 0 ? 9 : 6)];

        if (kind != STREAM_RECV || (play.streamed > 0 && play.reading == 0)) {
            one(kind, cw_random_next(&random) % 2 == 0, kind == STREAM_RECV ? 0 : length, length % 3 == 1);
        }
        for (uint64_t rounds = cw_random_next(&random) % 4; rounds > 0; rounds--) {
            cw_pair_progress(pair);
        }
        while (play.tags < 0) { /* a receive that waits gets one */
            one(TAG_SEND, true, 8, false);
        }
    }
    finish();
    assert_in_range(play.num_ops, OPS / 2, MOST_OPS - 1);
    assert_int_equal(play.wrong, 0);
    assert_int_equal(play.refused, 0);
    ucp_rkey_destroy(play.key);
    cw_region_close(&play.region);
    cw_pair_close(pair);
    free(play.ops);
    free(play.out);
    free(play.in);
}

/* OPA-2, TAG-26. */
API_TEST(test_r1_callbacks_inside)
{
    cw_test_skip_reference("1.13 has another NO_IMM_CMPL for some of these");
    for (uint64_t seed = 1; seed <= 2; seed++) {
        run(pair, "auto", seed);
        run(pair, "1", seed);
        run(pair, "inf", seed);
    }
    for (enum kind kind = TAG_SEND; kind <= AM_FETCH; kind++) { /* these were met */
        assert_true(inside[kind] > 0 || (kind != TAG_SEND && kind != TAG_RECV && kind != STREAM_RECV &&
                                         kind != AM_SEND && kind != AM_FETCH));
    }
}
