/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See pair.h.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "pair.h"

void pair_skip_without_devices(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);

    if (list != NULL) {
        ibv_free_device_list(list);
    }
    if (count < 2) {
        skip();
    }
}

void pair_open(struct pair *pair, size_t length, const struct cw_verbs_options *options)
{
    pair_skip_without_devices();
    cw_verbs_open(&pair->a, "rxe0", length, options);
    cw_verbs_open(&pair->b, "rxe1", length, options);
    cw_verbs_get_name(&pair->a, &pair->name_a);
    cw_verbs_get_name(&pair->b, &pair->name_b);
    cw_verbs_connect(&pair->a, &pair->name_b);
    cw_verbs_connect(&pair->b, &pair->name_a);
}

void pair_close(struct pair *pair)
{
    cw_verbs_close(&pair->a);
    cw_verbs_close(&pair->b);
}

int pair_post(struct pair *pair, uint64_t id, enum ibv_wr_opcode opcode, size_t offset, size_t length, unsigned flags)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)pair->a.memory + offset, .length = (uint32_t)length, .lkey = pair->a.mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = id, .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = flags};

    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = pair->name_b.address + offset;
        wr.wr.atomic.rkey = pair->name_b.key;
        wr.wr.atomic.compare_add = 1;
    } else {
        wr.wr.rdma.remote_addr = pair->name_b.address + offset;
        wr.wr.rdma.rkey = pair->name_b.key;
    }
    return ibv_post_send(pair->a.qp, &wr, &bad);
}

enum ibv_wc_status pair_await(struct ibv_cq *cq, struct ibv_wc *wc)
{
    assert_true(cw_verbs_wait(cq, wc, PAIR_LONG_MS));
    return wc->status;
}

enum ibv_qp_state pair_state(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

void pair_wire(const char *words)
{
    const char *script = getenv("CW_WIRE");
    char command[512];

    if (script == NULL) {
        skip();
    }
    snprintf(command, sizeof(command), "sh '%s' %s", script, words);
    assert_int_equal(system(command), 0);
}

double pair_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
