/* SPDX-License-Identifier: BSD-3-Clause */
/* Which receive gets which message: TAG-1..7, TAG-10, TAG-13, TAG-27, TAG-37, TAG-38, and a fuzz against a model. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16 };

static void send_value(struct cw_pair *pair, uint64_t *value, ucp_tag_t tag)
{
    ucp_request_param_t param = cw_param_none();
    ucs_status_ptr_t result = ucp_tag_send_nbx(pair->tx->ep, value, sizeof(*value), tag, &param);

    assert_int_equal(cw_pair_wait(pair, result, "tag send"), UCS_OK);
}

/* The value that a fresh receive with this tag and mask takes from the unexpected queue. */
static uint64_t take_value(struct cw_pair *pair, ucp_tag_t tag, ucp_tag_t mask, ucp_tag_t *sender_tag)
{
    struct cw_op recv = {0};
    uint64_t value = 0;

    cw_op_recv(&recv, pair->rx->worker, &value, sizeof(value), tag, mask);
    assert_int_equal(cw_op_wait(pair, &recv, "tag receive"), UCS_OK);
    assert_int_equal(recv.info.length, sizeof(value));
    if (sender_tag != NULL) {
        *sender_tag = recv.info.sender_tag;
    }
    return value;
}

API_TEST(test_tag1_match_rule)
{
    static const struct {
        ucp_tag_t sent, tag, mask;
        bool match;
    } rows[] = {
        {0, 0, CW_TAG_ALL, true},
        {1, 0, CW_TAG_ALL, false},
        {CW_TAG_ALL, CW_TAG_ALL, CW_TAG_ALL, true},
        {CW_TAG_ALL, 0, 0, true},
        {0x1234, 0xffff1234, 0xffff, true},
        {0x1234, 0xffff1235, 0xffff, false},
        {1ull << 63, 0, 1ull << 63, false},
        {1ull << 63, 0, ~(1ull << 63), true},
        {0x8000000000000001ull, 1, CW_TAG_ALL, false},
        {0xabcd000000001111ull, 0xabcd00000000ffffull, 0xffff000000000000ull, true},
        {0xabcd000000001111ull, 0x2bcd00000000ffffull, 0xffff000000000000ull, false},
    };

    cw_pair_open(pair, NULL);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cw_op recv = {0};
        uint64_t sent = 100 + i, got = 0;

        /* The same row with the receive posted first and with the message there first. */
        cw_op_recv(&recv, pair->rx->worker, &got, sizeof(got), rows[i].tag, rows[i].mask);
        send_value(pair, &sent, rows[i].sent);
        if (rows[i].match) {
            assert_int_equal(cw_op_wait(pair, &recv, "posted receive"), UCS_OK);
            assert_int_equal(got, sent);
            assert_true(recv.info.sender_tag == rows[i].sent); /* TAG-31: the full tag of the sender */
            send_value(pair, &sent, rows[i].sent);
            cw_pair_wait_probe(pair, rows[i].tag, rows[i].mask, &recv.info);
            assert_true(recv.info.sender_tag == rows[i].sent);
            assert_int_equal(take_value(pair, rows[i].tag, rows[i].mask, NULL), sent);
        } else {
            ucp_tag_recv_info_t info;

            cw_pair_wait_probe(pair, rows[i].sent, CW_TAG_ALL, &info);
            assert_int_equal(recv.calls, 0);
            assert_null(ucp_tag_probe_nb(pair->rx->worker, rows[i].tag, rows[i].mask, 0, &info));
            ucp_request_cancel(pair->rx->worker, recv.result);
            assert_int_equal(cw_op_wait(pair, &recv, "cancelled receive"), UCS_ERR_CANCELED);
            assert_int_equal(take_value(pair, 0, 0, NULL), sent);
        }
    }
    cw_pair_close(pair);
}

API_TEST(test_tag4_earliest_posted_wins_over_all_masks)
{
    static const ucp_tag_t masks[] = {CW_TAG_ALL, 0, 0xff, CW_TAG_ALL, 0, CW_TAG_ALL, 0xff, 0};
    enum { COUNT = sizeof(masks) / sizeof(masks[0]) };
    struct cw_op recvs[COUNT];
    uint64_t got[COUNT], sent[COUNT];

    cw_pair_open(pair, NULL);
    memset(recvs, 0, sizeof(recvs));
    for (int i = 0; i < COUNT; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &got[i], sizeof(got[i]), 0x77, masks[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        sent[i] = 1000 + (uint64_t)i;
        send_value(pair, &sent[i], 0x77);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &recvs[i], "receive in post order"), UCS_OK);
        assert_int_equal(got[i], sent[i]);
    }
    cw_pair_close(pair);
}

API_TEST(test_tag5_earliest_arrived_is_taken)
{
    uint64_t values[] = {0, 1, 2, 3, 4, 5};
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 6; i++) {
        send_value(pair, &values[i], i % 2 == 0 ? 0xa00 : 0xb00);
    }
    send_value(pair, &values[5], 0xe0d);
    cw_pair_wait_probe(pair, 0xe0d, CW_TAG_ALL, &info);
    assert_int_equal(take_value(pair, 0xb00, CW_TAG_ALL, NULL), 1);
    assert_int_equal(take_value(pair, 0, 0, NULL), 0);
    assert_int_equal(take_value(pair, 0, 0xff, NULL), 2);
    assert_int_equal(take_value(pair, 0, 0, NULL), 3);
    assert_int_equal(take_value(pair, 0xb00, CW_TAG_ALL, NULL), 5);
    assert_int_equal(take_value(pair, 0, 0, NULL), 4);
    take_value(pair, 0, 0, NULL);
    cw_pair_close(pair);
}

API_TEST(test_tag7_posted_before_unexpected)
{
    struct cw_op recv = {0};
    uint64_t first = 1, second = 2, got = 0;
    ucp_tag_recv_info_t info;

    cw_pair_open(pair, NULL);
    cw_op_recv(&recv, pair->rx->worker, &got, sizeof(got), 5, CW_TAG_ALL);
    send_value(pair, &first, 5);
    send_value(pair, &second, 5);
    cw_pair_wait_probe(pair, 5, CW_TAG_ALL, &info); /* TPR-9: sees the second, never the first */
    assert_int_equal(cw_op_wait(pair, &recv, "posted receive"), UCS_OK);
    assert_int_equal(got, first);
    assert_int_equal(take_value(pair, 5, CW_TAG_ALL, NULL), second);
    assert_null(ucp_tag_probe_nb(pair->rx->worker, 0, 0, 0, &info));
    cw_pair_close(pair);
}

/* GEN-8, TPR-2: a probe does not progress. */
API_TEST(test_tag13_no_arrival_without_progress)
{
    uint64_t value = 9;
    ucp_request_param_t param = cw_param_none();
    ucp_tag_recv_info_t info;
    ucs_status_ptr_t send;

    cw_test_need_two_workers(); /* a send to self is a call of the receiving worker */
    cw_pair_open(pair, NULL);
    send_value(pair, &value, 1); /* connects */
    take_value(pair, 1, CW_TAG_ALL, NULL);
    send = ucp_tag_send_nbx(pair->tx->ep, &value, sizeof(value), 2, &param);
    for (int i = 0; i < 1000; i++) {
        ucp_worker_progress(pair->tx->worker);
        assert_null(ucp_tag_probe_nb(pair->rx->worker, 2, CW_TAG_ALL, 0, &info));
    }
    assert_int_equal(cw_pair_wait(pair, send, "send"), UCS_OK);
    assert_int_equal(take_value(pair, 2, CW_TAG_ALL, NULL), value);
    cw_pair_close(pair);
}

/* TAG-10: sizes that take different protocols, one tag; receives are posted before, after or half and half. */
static void order_over_sizes(struct cw_pair *pair, int posted_before)
{
    static const size_t sizes[] = {3000000, 0, 8, 100000, 1, 20000, 8, 9000, 0, 1000000, 7, 300, 70000, 8, 2000000, 1};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    struct cw_op sends[COUNT], recvs[COUNT];
    struct cw_buffer out[COUNT], in[COUNT];

    memset(sends, 0, sizeof(sends));
    memset(recvs, 0, sizeof(recvs));
    for (int i = 0; i < COUNT; i++) {
        out[i] = cw_buffer_new(sizes[i]);
        in[i] = cw_buffer_new(3000000);
        cw_pattern_fill(out[i].data, sizes[i], (uint64_t)i);
    }
    for (int i = 0; i < posted_before; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, in[i].data, in[i].length, 3, i % 3 == 0 ? 0 : CW_TAG_ALL);
    }
    for (int i = 0; i < COUNT; i++) {
        cw_op_send(&sends[i], pair->tx->ep, out[i].data, sizes[i], 3);
    }
    cw_pair_settle(pair);
    for (int i = posted_before; i < COUNT; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, in[i].data, in[i].length, 3, i % 3 == 0 ? 0 : CW_TAG_ALL);
    }
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(cw_op_wait(pair, &sends[i], "send of the sequence"), UCS_OK);
        assert_int_equal(cw_op_wait(pair, &recvs[i], "receive of the sequence"), UCS_OK);
        assert_int_equal(recvs[i].info.length, sizes[i]);
        cw_pattern_check(in[i].data, sizes[i], (uint64_t)i);
        cw_buffer_check(&in[i]);
        cw_buffer_free(&in[i]);
        cw_buffer_free(&out[i]);
    }
}

/* EP-40, R20. */
API_TEST(test_tag10_order_whatever_the_size)
{
    cw_pair_open(pair, NULL);
    order_over_sizes(pair, 16);
    order_over_sizes(pair, 0);
    order_over_sizes(pair, 7);
    cw_pair_close(pair);
}

/* REQ-9: queued, never refused for want of room. */
API_TEST(test_tag27_many_outstanding_sends)
{
    int count = (int)cw_test_scaled(100000);
    uint64_t *out = calloc((size_t)count, sizeof(*out));
    ucs_status_ptr_t *sends = calloc((size_t)count, sizeof(*sends));
    ucp_request_param_t param = cw_param_none();
    int handles = 0;

    assert_true(out != NULL && sends != NULL);
    cw_pair_open(pair, NULL);
    for (int i = 0; i < count; i++) { /* no progress at all in between */
        out[i] = (uint64_t)i;
        sends[i] = ucp_tag_send_nbx(pair->tx->ep, &out[i], sizeof(out[i]), (ucp_tag_t)i, &param);
        if (UCS_PTR_IS_ERR(sends[i])) {
            fail_msg("Send %d of %d: %s", i, count, ucs_status_string(UCS_PTR_STATUS(sends[i])));
        }
        handles += sends[i] != NULL;
    }
    print_message("%d of %d sends had to wait\n", handles, count);
    for (int i = 0; i < count; i++) {
        ucp_tag_t tag;

        assert_int_equal(take_value(pair, 0, 0, &tag), i); /* TAG-5, TAG-10: strictly in order */
        assert_int_equal(tag, i);
    }
    for (int i = 0; i < count; i++) {
        assert_int_equal(cw_pair_wait(pair, sends[i], "outstanding send"), UCS_OK);
    }
    cw_pair_close(pair);
    free(out);
    free(sends);
}

API_TEST(test_tag14_unexpected_queue_grows)
{
    int count = (int)cw_test_scaled(20000);
    uint64_t value;

    cw_pair_open(pair, NULL);
    for (int i = 0; i < count; i++) { /* each completes although nobody ever posts a receive */
        value = (uint64_t)i;
        send_value(pair, &value, (ucp_tag_t)i);
    }
    for (int i = count - 1; i >= 0; i -= count / 100 + 1) {
        assert_int_equal(take_value(pair, (ucp_tag_t)i, CW_TAG_ALL, NULL), i);
    }
    cw_pair_close(pair);
}

/* REQ-25: cancelled, it is still freed by its owner. */
API_TEST(test_tag37_cancel)
{
    struct cw_op recvs[3] = {0};
    uint64_t got[3] = {0}, value = 4;

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 3; i++) {
        cw_op_recv(&recvs[i], pair->rx->worker, &got[i], sizeof(got[i]), 6, CW_TAG_ALL);
    }
    /* REQ-24: completes at once, inside the cancel call; REQ-26: twice is harmless. */
    ucp_request_cancel(pair->rx->worker, recvs[1].result);
    assert_int_equal(recvs[1].calls, 1);
    assert_int_equal(recvs[1].status, UCS_ERR_CANCELED);
    ucp_request_cancel(pair->rx->worker, recvs[1].result);
    assert_int_equal(recvs[1].calls, 1);
    for (int i = 0; i < 2; i++) {
        value = 40 + (uint64_t)i;
        send_value(pair, &value, 6);
    }
    assert_int_equal(cw_op_wait(pair, &recvs[0], "receive before the cancelled one"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recvs[2], "receive behind the cancelled one"), UCS_OK);
    assert_int_equal(cw_op_wait(pair, &recvs[1], "cancelled receive"), UCS_ERR_CANCELED);
    assert_int_equal(got[0], 40);
    assert_int_equal(got[1], 0); /* TAG-36 */
    assert_int_equal(got[2], 41);
    cw_pair_close(pair);
}

API_TEST(test_tag38_freed_receive_stays_posted)
{
    struct cw_op recv = {0};
    uint64_t first = 1, second = 2;
    volatile uint64_t got = 0;

    cw_pair_open(pair, NULL);
    cw_op_recv(&recv, pair->rx->worker, (void *)&got, sizeof(got), 8, CW_TAG_ALL);
    ucp_request_free(recv.result);
    send_value(pair, &first, 8);
    send_value(pair, &second, 8);
    cw_pair_until(pair, got != 0, "message");
    assert_int_equal(got, first);
    assert_int_equal(take_value(pair, 8, CW_TAG_ALL, NULL), second);
    assert_int_equal(recv.calls, 0); /* REQ-20, R4: the callback is dropped */
    cw_pair_close(pair);
}

API_TEST(test_tag3_several_senders_by_tag_only)
{
    ucp_ep_h extra[3];
    ucp_request_param_t param = cw_param_none();
    uint64_t values[3] = {10, 11, 12};

    cw_pair_open(pair, NULL);
    for (int i = 0; i < 3; i++) {
        extra[i] = cw_side_connect(pair->tx, pair->rx->worker, NULL);
    }
    for (int i = 0; i < 3; i++) {
        ucs_status_ptr_t result = ucp_tag_send_nbx(extra[i], &values[i], sizeof(values[i]), (ucp_tag_t)i, &param);

        assert_int_equal(cw_pair_wait(pair, result, "send over a further endpoint"), UCS_OK);
    }
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(take_value(pair, (ucp_tag_t)i, CW_TAG_ALL, NULL), values[i]);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cw_pair_wait(pair, ucp_ep_close_nbx(extra[i], &param), "close"), UCS_OK);
    }
    cw_pair_close(pair);
}

/*
 * The model: two lists in order. It knows nothing of protocols; both sides run in lock-step so that the order of
 * arrival is the order of sending, and each step waits until its effect is visible.
 */
struct model_item {
    ucp_tag_t tag;
    ucp_tag_t mask;
    uint64_t value;
    struct cw_op op;
    uint64_t got;
    bool used;
};

struct model {
    struct model_item *posted[SLOTS * 4];
    int posted_count;
    struct model_item *unexpected[SLOTS * 4];
    int unexpected_count;
};

static bool model_match(ucp_tag_t sent, const struct model_item *recv)
{
    return ((sent ^ recv->tag) & recv->mask) == 0;
}

static void model_remove(struct model_item **list, int *count, int index)
{
    free(list[index]);
    memmove(&list[index], &list[index + 1], (size_t)(*count - index - 1) * sizeof(*list));
    (*count)--;
}

static void model_send(struct cw_pair *pair, struct model *model, ucp_tag_t tag, uint64_t value)
{
    struct model_item *item = calloc(1, sizeof(*item));
    ucp_tag_recv_info_t info;

    assert_non_null(item);
    item->tag = tag;
    item->value = value;
    send_value(pair, &item->value, tag);
    for (int i = 0; i < model->posted_count; i++) {
        struct model_item *recv = model->posted[i];

        if (model_match(tag, recv)) {
            assert_int_equal(cw_op_wait(pair, &recv->op, "receive that the model matched"), UCS_OK);
            assert_int_equal(recv->got, value);
            assert_true(recv->op.info.sender_tag == tag);
            model_remove(model->posted, &model->posted_count, i);
            free(item);
            return;
        }
    }
    model->unexpected[model->unexpected_count++] = item;
    cw_pair_wait_probe(pair, tag, CW_TAG_ALL, &info);
    for (int i = 0; i < 20; i++) { /* a further one of an equal tag may still be on its way */
        cw_pair_progress(pair);
    }
}

static void model_recv(struct cw_pair *pair, struct model *model, ucp_tag_t tag, ucp_tag_t mask, bool by_probe)
{
    struct model_item *recv = calloc(1, sizeof(*recv));
    int hit = 0;

    assert_non_null(recv);
    recv->tag = tag;
    recv->mask = mask;
    while (hit < model->unexpected_count && !model_match(model->unexpected[hit]->tag, recv)) {
        hit++;
    }
    if (by_probe) {
        ucp_tag_recv_info_t info;
        ucp_tag_message_h message = ucp_tag_probe_nb(pair->rx->worker, tag, mask, 1, &info);
        ucp_request_param_t param = cw_param_recv(&recv->op);

        assert_int_equal(message != NULL, hit < model->unexpected_count);
        if (message == NULL) {
            free(recv);
            return;
        }
        assert_true(info.sender_tag == model->unexpected[hit]->tag);
        cw_op_started(&recv->op, ucp_tag_msg_recv_nbx(pair->rx->worker, &recv->got, sizeof(recv->got), message,
                                                      &param));
    } else {
        cw_op_recv(&recv->op, pair->rx->worker, &recv->got, sizeof(recv->got), tag, mask);
        if (hit == model->unexpected_count) {
            assert_true(UCS_PTR_IS_PTR(recv->op.result));
            assert_int_equal(recv->op.calls, 0);
            model->posted[model->posted_count++] = recv;
            return;
        }
    }
    assert_int_equal(cw_op_wait(pair, &recv->op, "receive of an unexpected message"), UCS_OK);
    assert_int_equal(recv->got, model->unexpected[hit]->value);
    model_remove(model->unexpected, &model->unexpected_count, hit);
    free(recv);
}

static void model_cancel(struct cw_pair *pair, struct model *model, int index)
{
    struct model_item *recv = model->posted[index];

    ucp_request_cancel(pair->rx->worker, recv->op.result);
    assert_int_equal(cw_op_wait(pair, &recv->op, "cancelled receive"), UCS_ERR_CANCELED);
    model_remove(model->posted, &model->posted_count, index);
}

API_TEST(test_tag4_7_10_fuzz_against_model)
{
    static const ucp_tag_t masks[] = {CW_TAG_ALL, 0, 1, 2, 4, 3, 6, 0xffffffff00000000ull, 0x0100000000000007ull};
    struct model model = {0};
    uint64_t seed = 20240611, value = 1;
    long steps = cw_test_scaled(20000);

    cw_pair_open(pair, NULL);
    for (long step = 0; step < steps; step++) {
        uint64_t dice = cw_random_next(&seed);
        ucp_tag_t tag = (dice >> 8) % 6 | ((dice >> 16) % 2) << 56;
        ucp_tag_t mask = masks[(dice >> 24) % (sizeof(masks) / sizeof(masks[0]))];

        if (dice % 8 < 3 && model.unexpected_count < SLOTS) {
            model_send(pair, &model, tag, value++);
        } else if (dice % 8 < 6 && model.posted_count < SLOTS) {
            model_recv(pair, &model, tag, mask, false);
        } else if (dice % 8 == 6) {
            model_recv(pair, &model, tag, mask, true);
        } else if (model.posted_count > 0) {
            model_cancel(pair, &model, (int)((dice >> 32) % (uint64_t)model.posted_count));
        }
    }
    while (model.posted_count > 0) {
        model_cancel(pair, &model, model.posted_count - 1);
    }
    while (model.unexpected_count > 0) {
        model_recv(pair, &model, 0, 0, false);
    }
    cw_pair_close(pair);
}
