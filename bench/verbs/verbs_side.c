/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * See verbs_side.h.
 */
#define _GNU_SOURCE
#include "verbs_side.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ALL_REMOTE = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

void cw_verbs_die(const char *what)
{
    fprintf(stderr, "%s: %s failed: %s\n", program_invocation_short_name, what, strerror(errno));
    _exit(1);
}

static struct ibv_context *open_device(const char *wanted)
{
    struct ibv_context *context = NULL;
    int count = 0;

    struct ibv_device **list = ibv_get_device_list(&count);
    for (int i = 0; i < count && context == NULL; i++) {
        if (wanted == NULL || strcmp(ibv_get_device_name(list[i]), wanted) == 0) {
            context = ibv_open_device(list[i]);
        }
    }
    if (list != NULL) {
        ibv_free_device_list(list);
    }
    if (context == NULL) {
        errno = errno != 0 ? errno : ENODEV;
        cw_verbs_die(wanted != NULL ? wanted : "opening a device");
    }
    return context;
}

/* An address of IPv4 where there is one: a link-local one says nothing about the path. */
static void choose_gid(struct cw_verbs_side *side, int entries)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    union ibv_gid gid;

    for (int i = 0; i < entries; i++) {
        if (ibv_query_gid(side->context, 1, i, &gid) != 0) {
            break;
        }
        if (i == 0 || memcmp(gid.raw, mapped, sizeof(mapped)) == 0) {
            side->gid = gid;
            side->gid_index = i;
        }
        if (memcmp(gid.raw, mapped, sizeof(mapped)) == 0) {
            break;
        }
    }
}

struct ibv_qp *cw_verbs_new_qp(struct cw_verbs_side *side)
{
    struct ibv_qp_init_attr init = {
        .send_cq = side->send_cq,
        .recv_cq = side->recv_cq,
        .srq = side->srq,
        .qp_type = side->options.type,
        .cap = {.max_send_wr = side->options.sends,
            .max_recv_wr = side->srq != NULL ? 0 : side->options.receives,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .max_inline_data = side->options.inlined},
    };

    return ibv_create_qp(side->pd, &init);
}

static void fill_options(struct cw_verbs_options *options)
{
    options->type = options->type != 0 ? options->type : IBV_QPT_RC;
    options->sends = options->sends != 0 ? options->sends : 128;
    options->receives = options->receives != 0 ? options->receives : 128;
    options->inlined = options->inlined != 0 ? options->inlined : 64;
    options->timeout = options->timeout != 0 ? options->timeout : 14;
    options->retries = options->retries != 0 ? options->retries : 7;
    options->min_rnr = options->min_rnr != 0 ? options->min_rnr : 12;
    options->access = options->access != 0 ? options->access : ALL_REMOTE | IBV_ACCESS_LOCAL_WRITE;
    options->qp_access = options->qp_access != 0 ? options->qp_access : ALL_REMOTE;
}

void cw_verbs_open(struct cw_verbs_side *side, const char *device, size_t length,
                   const struct cw_verbs_options *options)
{
    struct ibv_port_attr port;

    memset(side, 0, sizeof(*side));
    if (options != NULL) {
        side->options = *options;
    }
    fill_options(&side->options);
    options = &side->options;
    side->context = open_device(device);
    if (ibv_query_port(side->context, 1, &port) != 0) {
        cw_verbs_die("asking for port 1");
    }
    side->mtu = port.active_mtu;
    side->lid = port.lid;
    choose_gid(side, port.gid_tbl_len);
    side->pd = ibv_alloc_pd(side->context);
    side->length = length;
    side->memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (side->pd == NULL || side->memory == MAP_FAILED) {
        cw_verbs_die("a protection domain, or memory,");
    }
    side->mr = ibv_reg_mr(side->pd, side->memory, length, options->access);
    if (side->mr == NULL) {
        cw_verbs_die("registering memory");
    }
    side->channel = options->events ? ibv_create_comp_channel(side->context) : NULL;
    side->send_cq = ibv_create_cq(side->context, (int)options->sends * 2, NULL, side->channel, 0);
    const uint32_t receives = options->srq > options->receives ? options->srq : options->receives;
    side->recv_cq = ibv_create_cq(side->context, (int)receives * 2, NULL, side->channel, 0);
    if (side->send_cq == NULL || side->recv_cq == NULL || (options->events && side->channel == NULL)) {
        cw_verbs_die("making completion queues");
    }
    if (options->srq != 0) {
        struct ibv_srq_init_attr srq = {.attr = {.max_wr = options->srq, .max_sge = 1}};
        side->srq = ibv_create_srq(side->pd, &srq);
        if (side->srq == NULL) {
            cw_verbs_die("making a shared receive queue");
        }
    }
    side->qp = cw_verbs_new_qp(side);
    if (side->qp == NULL || cw_verbs_to_init(side) != 0) {
        cw_verbs_die("making a queue pair");
    }
}

void cw_verbs_close(struct cw_verbs_side *side)
{
    if ((side->qp != NULL && ibv_destroy_qp(side->qp) != 0) || (side->srq != NULL && ibv_destroy_srq(side->srq) != 0) ||
        ibv_destroy_cq(side->send_cq) != 0 || ibv_destroy_cq(side->recv_cq) != 0 ||
        (side->channel != NULL && ibv_destroy_comp_channel(side->channel) != 0) ||
        (side->mr != NULL && ibv_dereg_mr(side->mr) != 0) || ibv_dealloc_pd(side->pd) != 0 ||
        ibv_close_device(side->context) != 0) {
        cw_verbs_die("closing");
    }
    munmap(side->memory, side->length);
}

void cw_verbs_get_name(const struct cw_verbs_side *side, struct cw_verbs_name *name)
{
    memset(name, 0, sizeof(*name));
    name->gid = side->gid;
    name->address = (uintptr_t)side->memory;
    name->qp = side->qp->qp_num;
    name->key = side->mr->rkey;
    name->lid = side->lid;
}

int cw_verbs_to_init(struct cw_verbs_side *side)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

    if (side->options.type == IBV_QPT_UD) {
        attr.qkey = CW_VERBS_QKEY;
        return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    }
    attr.qp_access_flags = (unsigned)side->options.qp_access;
    return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int cw_verbs_to_rtr(struct cw_verbs_side *side, const struct cw_verbs_name *other)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};

    if (side->options.type == IBV_QPT_UD) {
        return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE);
    }
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = side->mtu,
        .dest_qp_num = other->qp,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = side->options.min_rnr,
        .ah_attr = {.is_global = 1, .port_num = 1, .dlid = other->lid},
    };
    attr.ah_attr.grh.dgid = other->gid;
    attr.ah_attr.grh.sgid_index = (uint8_t)side->gid_index;
    attr.ah_attr.grh.hop_limit = 64;
    return ibv_modify_qp(side->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

int cw_verbs_to_rts(struct cw_verbs_side *side)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = side->options.timeout,
        .retry_cnt = side->options.retries,
        .rnr_retry = side->options.rnr_retries,
        .max_rd_atomic = 16,
    };

    if (side->options.type == IBV_QPT_UD) {
        return ibv_modify_qp(side->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
    return ibv_modify_qp(side->qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

int cw_verbs_to_error(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void cw_verbs_connect(struct cw_verbs_side *side, const struct cw_verbs_name *other)
{
    if (cw_verbs_to_rtr(side, other) != 0 || cw_verbs_to_rts(side) != 0) {
        cw_verbs_die("connecting a queue pair");
    }
}

void cw_verbs_receive(struct cw_verbs_side *side, uint64_t id, size_t offset, size_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)side->memory + offset, .length = (uint32_t)length, .lkey = side->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

    errno = side->srq != NULL ? ibv_post_srq_recv(side->srq, &wr, &bad) : ibv_post_recv(side->qp, &wr, &bad);
    if (errno != 0) {
        cw_verbs_die("posting a receive");
    }
}

bool cw_verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc, int ms)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
    for (;;) {
        const int got = ibv_poll_cq(cq, 1, wc);
        if (got < 0) {
            cw_verbs_die("polling a completion queue");
        }
        if (got > 0) {
            return true;
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec * 1000 + now.tv_nsec / 1000000 > end) {
            return false;
        }
    }
}
