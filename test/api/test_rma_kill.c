/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of memory dies while operations of every kind are under way: all of them end, the error handler runs once,
 * later ones are refused, keys and endpoint can be given back (ERR-2, ERR-4, ERR-6, ERR-7, ERR-11, ERR-17, ERR-19).
 */
#define _GNU_SOURCE
#include "test_rma_common.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { OPS = 200, LENGTH = 2 << 20, KINDS = 8 };

struct flight {
    struct cw_op ops[OPS];
    uint64_t replies[OPS];
    char *data;
};

static ucs_status_ptr_t start(struct cw_target *target, struct flight *flight, int i)
{
    static const uint64_t one = 1;
    struct cw_op *op = &flight->ops[i];
    ucp_request_param_t param = cw_param_send(op);
    size_t offset = (size_t)i * 8;

    switch (i % KINDS) {
    case 0:
        return ucp_put_nbx(target->ep, flight->data, LENGTH, target->address, target->key, &param);
    case 1:
        return ucp_get_nbx(target->ep, flight->data, LENGTH, target->address, target->key, &param);
    case 2:
        return ucp_put_nbx(target->ep, flight->data, 8, target->address + offset, target->key, &param);
    case 3:
        return ucp_get_nbx(target->ep, flight->data + offset, 8, target->address + offset, target->key, &param);
    case 4:
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        param.datatype = ucp_dt_make_contig(8);
        param.reply_buffer = &flight->replies[i];
        return ucp_atomic_op_nbx(target->ep, UCP_ATOMIC_OP_ADD, &one, 1, target->address + offset, target->key, &param);
    case 5:
        (void)ucp_atomic_post(target->ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target->address + offset, target->key);
        return ucp_ep_flush_nbx(target->ep, &param);
    case 6:
        (void)ucp_worker_fence(target->pair->tx->worker);
        return ucp_tag_send_nbx(target->ep, flight->data, LENGTH, 1, &param);
    default:
        return ucp_am_send_nbx(target->ep, 5, NULL, 0, flight->data, 1000, &param);
    }
}

/* Some of the requests are freed at once; nothing of these may be heard any more. */
static void start_all(struct cw_target *target, struct flight *flight)
{
    memset(flight->ops, 0, sizeof(flight->ops));
    for (int i = 0; i < OPS; i++) {
        cw_op_started(&flight->ops[i], start(target, flight, i));
        if (i % 7 == 3 && UCS_PTR_IS_PTR(flight->ops[i].result)) {
            ucp_request_free(flight->ops[i].result);
            flight->ops[i].result = NULL;
        }
    }
}

static void wait_all(struct cw_pair *pair, struct flight *flight, bool dead)
{
    for (int i = 0; i < OPS; i++) {
        bool freed = flight->ops[i].result == NULL;
        ucs_status_t status = cw_op_wait(pair, &flight->ops[i], "operation on memory of the dead"); /* ERR-2 */

        assert_true(freed || dead || status == UCS_OK);
        if (status != UCS_OK && status != UCS_ERR_CANCELED) {
            assert_int_equal(status, cw_servant_failures > 0 ? cw_servant_failure : status); /* ERR-7 */
        }
    }
}

static void check_later(struct cw_target *target, struct flight *flight)
{
    for (int i = 0; i < KINDS; i++) {
        struct cw_op *op = &flight->ops[i];

        memset(op, 0, sizeof(*op));
        cw_op_started(op, start(target, flight, i));
        assert_int_equal(UCS_PTR_RAW_STATUS(op->result), cw_servant_failure); /* ERR-11, ERR-19 */
    }
    assert_int_equal(ucp_put_nbi(target->ep, flight->data, 8, target->address, target->key), cw_servant_failure);
    assert_int_equal(ucp_get(target->ep, flight->data, 8, target->address, target->key), cw_servant_failure);
    assert_int_equal(ucp_atomic_post(target->ep, UCP_ATOMIC_POST_OP_ADD, 1, 8, target->address, target->key),
                     cw_servant_failure);
}

/* ERR-7: the handler's status, whether the operation ended before the handler or after it. */
static void check_status(const struct cw_op *op)
{
    const ucs_status_t status = UCS_PTR_IS_ERR(op->result) ? UCS_PTR_STATUS(op->result) : op->status;

    if ((op->calls > 0 || UCS_PTR_IS_ERR(op->result)) && status != UCS_OK && status != UCS_ERR_CANCELED) {
        assert_int_equal(status, cw_servant_failure);
    }
}

static void killed(struct cw_pair *pair, enum cw_memory kind, bool silent, bool stopped, int rounds)
{
    struct flight *flight = calloc(1, sizeof(*flight));
    ucp_request_param_t force = cw_param_none();
    struct cw_servant servant;
    struct cw_target target;

    assert_non_null(flight);
    flight->data = calloc(1, LENGTH);
    assert_non_null(flight->data);
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, kind, LENGTH);
    cw_target_try(&target, 0);
    if (silent) {
        cw_target_order(&target, CW_ORDER_SILENT, 0, 0, 0);
    }
    if (stopped) {
        kill(servant.remote.pid, SIGSTOP);
    }
    start_all(&target, flight);
    for (int i = 0; i < rounds; i++) {
        cw_pair_progress(pair);
    }
    cw_servant_kill(&servant);
    wait_all(pair, flight, true);
    cw_pair_wait_count(pair, &cw_servant_failures, 1, "error handler");
    cw_pair_settle(pair);
    assert_int_equal(cw_servant_failures, 1); /* ERR-4 */
    for (int i = 0; i < OPS; i++) {
        assert_true(flight->ops[i].calls <= 1 && (i % 7 != 3 || flight->ops[i].calls == 0));
        check_status(&flight->ops[i]);
    }
    check_later(&target, flight);
    if (rounds % 2 == 0) { /* ERR-17 */
        ucp_rkey_destroy(target.key);
    }
    force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    force.flags = UCP_EP_CLOSE_FLAG_FORCE;
    assert_null(ucp_ep_close_nbx(pair->tx->ep, &force)); /* ERR-12 */
    pair->tx->ep = NULL;
    if (rounds % 2 != 0) {
        ucp_rkey_destroy(target.key);
    }
    cw_side_destroy(&pair->sides[0]);
    free(flight->data);
    free(flight);
}

API_TEST(test_err2_killed)
{
    cw_test_need_two_processes();
    cw_test_skip_reference("over shared memory it does not notice, over tcp it asserts");
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        killed(pair, (enum cw_memory)kind, false, false, 0);
        killed(pair, (enum cw_memory)kind, false, false, 3);
        killed(pair, (enum cw_memory)kind, true, false, 21);
        killed(pair, (enum cw_memory)kind, false, true, 10);
    }
}

/* CLS-3, WRK-26: given up by this side, the owner lives. Every request ends, inside the call or soon after. */
static void given_up(struct cw_pair *pair, enum cw_memory kind, bool destroy, int rounds)
{
    struct flight *flight = calloc(1, sizeof(*flight));
    ucp_request_param_t force = cw_param_none();
    struct cw_servant servant;
    struct cw_target target;
    int ended = 0;

    assert_non_null(flight);
    flight->data = calloc(1, LENGTH);
    assert_non_null(flight->data);
    cw_servant_start(&servant, pair);
    cw_target_open(&target, pair, &servant, kind, LENGTH);
    cw_target_try(&target, 0);
    start_all(&target, flight);
    for (int i = 0; i < rounds; i++) {
        cw_pair_progress(pair);
    }
    if (destroy) {
        ucp_rkey_destroy(target.key);
        cw_side_destroy(&pair->sides[0]);
    } else {
        force.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        force.flags = UCP_EP_CLOSE_FLAG_FORCE;
        assert_false(UCS_PTR_IS_ERR(ucp_ep_close_nbx(pair->tx->ep, &force)));
        pair->tx->ep = NULL;
        wait_all(pair, flight, true);
        ucp_rkey_destroy(target.key);
        assert_int_equal(cw_servant_failures, 0); /* ERR-4: closed by ourselves */
    }
    for (int i = 0; i < OPS; i++) {
        if (destroy && flight->ops[i].result != NULL) {
            assert_int_equal(flight->ops[i].calls, UCS_PTR_IS_PTR(flight->ops[i].result));
        }
        ended += flight->ops[i].calls;
    }
    assert_true(ended > 0);
    cw_servant_dismiss(&servant);
    cw_side_destroy(&pair->sides[0]);
    free(flight->data);
    free(flight);
}

API_TEST(test_cls3_given_up)
{
    cw_test_need_two_processes();
    cw_test_skip_reference("over shared memory it knows no forced close, over tcp it asserts");
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        for (int rounds = 0; rounds < 20; rounds += 7) {
            given_up(pair, (enum cw_memory)kind, false, rounds);
            given_up(pair, (enum cw_memory)kind, true, rounds);
        }
    }
}

/* MEM-16: unmapped while it is used. What becomes of the operations is not said; that they end is, and all survive. */
API_TEST(test_mem16_unmapped_meanwhile)
{
    struct flight *flight = calloc(1, sizeof(*flight));

    cw_test_need_two_processes();
    cw_test_skip_reference("it is undefined there");
    assert_non_null(flight);
    flight->data = calloc(1, LENGTH);
    assert_non_null(flight->data);
    for (int i = 0; i < 3 * CW_MEMORY_KINDS; i++) {
        struct cw_servant servant;
        struct cw_target target;

        cw_servant_start(&servant, pair);
        cw_target_open(&target, pair, &servant, (enum cw_memory)(i / 3), LENGTH);
        cw_target_try(&target, 0);
        start_all(&target, flight);
        for (int k = 0; k < 5 * (i % 3); k++) {
            cw_pair_progress(pair);
        }
        cw_target_order(&target, CW_ORDER_UNMAP, 0, 0, 0);
        for (int k = 0; k < OPS; k++) {
            if (k % KINDS != 6) { /* nobody receives the rendezvous */
                (void)cw_op_wait(pair, &flight->ops[k], "operation on memory that was unmapped");
            }
        }
        ucp_rkey_destroy(target.key);
        cw_servant_dismiss(&servant);
        cw_side_destroy(&pair->sides[0]);
    }
    free(flight->data);
    free(flight);
}

/* The same without a death: everything ends well, in any mixture. */
API_TEST(test_all_kinds_alive)
{
    struct flight *flight = calloc(1, sizeof(*flight));
    struct cw_servant servant;
    struct cw_target target;
    ucp_tag_recv_info_t info;

    cw_test_need_two_processes();
    cw_test_skip_reference("the servant receives no tags");
    assert_non_null(flight);
    flight->data = calloc(1, LENGTH);
    assert_non_null(flight->data);
    for (int kind = 0; kind < CW_MEMORY_KINDS; kind++) {
        cw_servant_start(&servant, pair);
        cw_target_open(&target, pair, &servant, (enum cw_memory)kind, LENGTH);
        cw_target_try(&target, 0);
        for (int i = 0; i < OPS; i++) {
            if (i % KINDS != 6) { /* nobody receives */
                memset(&flight->ops[i], 0, sizeof(flight->ops[i]));
                cw_op_started(&flight->ops[i], start(&target, flight, i));
            }
        }
        wait_all(pair, flight, false);
        assert_int_equal(cw_target_flush(&target), UCS_OK);
        assert_null(ucp_tag_probe_nb(pair->tx->worker, 0, 0, 0, &info));
        cw_target_try(&target, 16);
        assert_int_equal(cw_servant_failures, 0);
        cw_target_close(&target);
        cw_servant_dismiss(&servant);
        cw_side_destroy(&pair->sides[0]);
    }
    free(flight->data);
    free(flight);
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {CW_SERVANT_ROLE};

    return cw_test_main(argc, argv, roles, sizeof(roles) / sizeof(roles[0]));
}
