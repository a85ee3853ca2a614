/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A device of RDMA in the test's own process, for the verbs transport: the calls of libibverbs, queue pairs of type RC
 * and UD that reach each other by number, one port. It works while completion queues are polled, a few requests each
 * time, so that requests are under way. It is strict: a completion queue without room for all that is under way, or a
 * send queue with more requests than it was made for, ends the test, as the one would end all connections of a real
 * device and the other is refused.
 */
#ifndef CW_TEST_VERBS_DEVICE_H
#define CW_TEST_VERBS_DEVICE_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/list.h"
#include "transport/verbs/libibverbs.h"

#define DEVICE_STEPS 8 /* requests that are carried out by a call of ibv_poll_cq */

/* What the device is; tests set it before it is opened. */
static struct {
    int max_cqe;
    int resizes; /* ibv_resize_cq works */
    int max_qp, max_each; /* queue pairs of all, and of each completion queue */
    int is_ethernet;
    int is_down, has_no_srq, has_no_atomics, max_wr;
    size_t max_mr; /* bytes that are registered at once; 0: any */
    int stands;    /* nothing is carried out */
    int loses;     /* of 100 datagrams; as many come once more, after some that follow them */
    uint8_t gid[16];
} device_is = {.max_cqe = 1 << 22, .resizes = 1, .max_qp = 1 << 20, .max_each = 1 << 20};

static struct {
    unsigned qps, most_qps, most_under_way, refused_qps, made_qps, datagrams;
    int largest_cq;
} device_saw;

struct device_cq {
    struct ibv_cq super;
    struct device_done {
        struct ibv_wc wc;
        struct device_qp *qp; /* whose places are free when this is polled; NULL: none */
        uint64_t places;
    } * ring;
    unsigned first, count, under_way; /* requests of its queue pairs that did not end */
    int qps;
};

struct device_receive {
    uint64_t wr_id;
    char *address;
    uint32_t length;
};

struct device_srq {
    struct ibv_srq super;
    struct device_receive *list; /* a stack */
    unsigned count, most;
};

struct device_send {
    struct cw_list link;
    struct ibv_send_wr wr;
    struct ibv_sge sges[4];
    char bytes[]; /* inline data */
};

struct device_qp {
    struct ibv_qp super;
    struct cw_list busy; /* device_busy */
    struct cw_list sends;
    unsigned max_sends, max_inline;
    int all_signalled;
    uint32_t peer;
    uint64_t posted, done, freed;
    struct device_srq receives; /* of type UD */
};

struct device_ah {
    struct ibv_ah super;
    struct ibv_ah_attr attr;
};

static struct device_qp *device_qps[1 << 16];
static struct cw_list device_busy = {&device_busy, &device_busy};
static uint32_t device_next_qp = 2;

static struct ibv_context device_context;
static struct ibv_device device_itself;

static void device_complete(struct device_cq *cq, const struct ibv_wc *wc, struct device_qp *qp, uint64_t places)
{
    struct device_done *done = &cq->ring[(cq->first + cq->count) % (unsigned)cq->super.cqe];

    assert_true(cq->count < (unsigned)cq->super.cqe);
    cq->count++;
    *done = (struct device_done){.wc = *wc, .qp = qp, .places = places};
}

/* The oldest request has ended. */
static void device_end(struct device_qp *qp, enum ibv_wc_status status)
{
    struct device_send *send = cw_list_head(&qp->sends, struct device_send, link);
    struct device_cq *cq = (struct device_cq *)qp->super.send_cq;
    const struct ibv_wc wc = {.wr_id = send->wr.wr_id, .status = status, .qp_num = qp->super.qp_num};

    qp->done++;
    cq->under_way--;
    if (status != IBV_WC_SUCCESS || qp->all_signalled || (send->wr.send_flags & IBV_SEND_SIGNALED)) {
        device_complete(cq, &wc, qp, qp->done);
    }
    cw_list_remove(&send->link);
    free(send);
}

static void device_gather(const struct ibv_send_wr *wr, char *to)
{
    int i;

    for (i = 0; i < wr->num_sge; i++) {
        memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        to += wr->sg_list[i].length;
    }
}

static void device_scatter(const struct ibv_send_wr *wr, const char *from)
{
    int i;

    for (i = 0; i < wr->num_sge; i++) {
        memcpy((void *)(uintptr_t)wr->sg_list[i].addr, from, wr->sg_list[i].length);
        from += wr->sg_list[i].length;
    }
}

static uint32_t device_length(const struct ibv_send_wr *wr)
{
    uint32_t length = 0;
    int i;

    for (i = 0; i < wr->num_sge; i++) {
        length += wr->sg_list[i].length;
    }
    return length;
}

/* Whether the receiver had room. */
static int device_deliver(struct device_qp *from, struct device_qp *to, const struct ibv_send_wr *wr)
{
    struct device_srq *srq = (to->super.srq != NULL) ? (struct device_srq *)to->super.srq : &to->receives;
    const unsigned grh = (to->super.qp_type == IBV_QPT_UD) ? 40 : 0;
    const uint32_t length = device_length(wr);
    struct ibv_wc wc = {.qp_num = to->super.qp_num,
                      .src_qp = from->super.qp_num,
                      .slid = 1,
                      .byte_len = length + grh,
                      .imm_data = wr->imm_data,
                      .wc_flags = (grh > 0) ? IBV_WC_GRH : IBV_WC_WITH_IMM};
    struct device_receive receive;

    if (srq->count == 0) {
        return 0;
    }
    receive = srq->list[--srq->count];
    assert_true(length + grh <= receive.length);
    if (grh > 0) {
        memset(receive.address, 0, grh);
        memcpy(receive.address + 8, device_is.gid, 16);      /* as IPv6 has it, */
        memcpy(receive.address + 32, device_is.gid + 12, 4); /* and as IPv4 has it */
    }
    device_gather(wr, receive.address + grh);
    wc.wr_id = receive.wr_id;
    device_complete((struct device_cq *)to->super.recv_cq, &wc, NULL, 0);
    return 1;
}

/* Delivers a datagram, loses it, or delivers one of the last ones in its place and itself as well. */
static void device_datagram(struct device_qp *from, struct device_qp *to, const struct ibv_send_wr *wr)
{
    static struct {
        uint32_t from, to, length;
        char bytes[512];
    } old[16];
    static unsigned next;
    const unsigned at = (unsigned)rand() % 16;
    struct ibv_send_wr again = *wr;
    struct ibv_sge sge = {.addr = (uintptr_t)old[at].bytes, .length = old[at].length};

    device_saw.datagrams++;
    if (rand() % 100 < device_is.loses) {
        return;
    }
    if (rand() % 100 < device_is.loses && old[at].length > 0 && device_qps[old[at].from % (1u << 16)] != NULL &&
        device_qps[old[at].to % (1u << 16)] != NULL) {
        again.sg_list = &sge;
        again.num_sge = 1;
        (void)device_deliver(device_qps[old[at].from % (1u << 16)], device_qps[old[at].to % (1u << 16)], &again);
    }
    (void)device_deliver(from, to, wr);
    if (device_is.loses == 0) {
        return;
    }
    old[next % 16].from = from->super.qp_num;
    old[next % 16].to = to->super.qp_num;
    old[next % 16].length = device_length(wr);
    device_gather(wr, old[next++ % 16].bytes);
}

static void device_atomic(const struct ibv_send_wr *wr)
{
    uint64_t *word = (uint64_t *)(uintptr_t)wr->wr.atomic.remote_addr;
    const uint64_t before = *word;

    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        *word = before + wr->wr.atomic.compare_add;
    } else if (before == wr->wr.atomic.compare_add) {
        *word = wr->wr.atomic.swap;
    }
    device_scatter(wr, (const char *)&before);
}

/* Carries out the oldest request, if that is possible. */
static void device_step(struct device_qp *qp)
{
    const struct ibv_send_wr *wr = &cw_list_head(&qp->sends, struct device_send, link)->wr;
    const uint32_t number = (qp->super.qp_type == IBV_QPT_UD) ? wr->wr.ud.remote_qpn : qp->peer;
    struct device_qp *peer = device_qps[number % (1u << 16)];

    if (qp->super.qp_type == IBV_QPT_UD) {
        if (peer != NULL && peer->super.qp_num == number) {
            device_datagram(qp, peer, wr);
        }
        device_end(qp, IBV_WC_SUCCESS);
        return;
    }
    if (peer == NULL || peer->super.qp_num != number || peer->super.state != IBV_QPS_RTS) {
        return; /* as a device that repeats its request for long */
    }
    switch (wr->opcode) {
    case IBV_WR_SEND_WITH_IMM:
        if (!device_deliver(qp, peer, wr)) {
            return;
        }
        break;
    case IBV_WR_RDMA_WRITE:
        device_gather(wr, (char *)(uintptr_t)wr->wr.rdma.remote_addr);
        break;
    case IBV_WR_RDMA_READ:
        device_scatter(wr, (const char *)(uintptr_t)wr->wr.rdma.remote_addr);
        break;
    default:
        device_atomic(wr);
        break;
    }
    device_end(qp, IBV_WC_SUCCESS);
}

static void device_work(void)
{
    struct cw_list *link;
    struct device_qp *qp;
    int i;

    for (i = 0; i < DEVICE_STEPS && !device_is.stands && (link = cw_list_pop_head(&device_busy)) != NULL; i++) {
        qp = cw_container_of(link, struct device_qp, busy);
        device_step(qp);
        if (qp->done != qp->posted) {
            cw_list_add_tail(&device_busy, &qp->busy);
        }
    }
}

static int device_post_send(struct ibv_qp *super, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct device_qp *qp = (struct device_qp *)super;
    struct device_cq *cq = (struct device_cq *)super->send_cq;
    struct device_send *send;

    (void)bad;
    for (; wr != NULL; wr = wr->next) {
        assert_true(qp->posted - qp->freed < qp->max_sends);
        cq->under_way++;
        assert_true(cq->under_way + cq->count <= (unsigned)cq->super.cqe);
        if (cq->under_way > device_saw.most_under_way) {
            device_saw.most_under_way = cq->under_way;
        }
        send = malloc(sizeof(*send) + qp->max_inline);
        assert_non_null(send);
        send->wr = *wr;
        cw_list_add_tail(&qp->sends, &send->link);
        qp->posted++;
        assert_true(wr->num_sge <= 4);
        if (wr->num_sge > 0) {
            memcpy(send->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(send->sges[0]));
        }
        send->wr.sg_list = send->sges;
        if (wr->send_flags & IBV_SEND_INLINE) {
            assert_true(device_length(wr) <= qp->max_inline);
            device_gather(wr, send->bytes);
            send->sges[0] = (struct ibv_sge){.addr = (uintptr_t)send->bytes, .length = device_length(wr)};
            send->wr.num_sge = 1;
        }
        if (super->state == IBV_QPS_ERR) {
            device_end(qp, IBV_WC_WR_FLUSH_ERR);
        } else if (cw_list_empty(&qp->busy)) {
            cw_list_add_tail(&device_busy, &qp->busy);
        }
    }
    return 0;
}

static void device_add_receives(struct device_srq *srq, struct ibv_recv_wr *wr)
{
    for (; wr != NULL; wr = wr->next) {
        assert_true(srq->count < srq->most);
        srq->list[srq->count++] = (struct device_receive){
            .wr_id = wr->wr_id, .address = (char *)(uintptr_t)wr->sg_list[0].addr, .length = wr->sg_list[0].length};
    }
}

static int device_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)bad;
    device_add_receives(&((struct device_qp *)qp)->receives, wr);
    return 0;
}

static int device_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)bad;
    device_add_receives((struct device_srq *)srq, wr);
    return 0;
}

static int device_poll_cq(struct ibv_cq *super, int most, struct ibv_wc *wc)
{
    struct device_cq *cq = (struct device_cq *)super;
    struct device_done *done;
    int num;

    device_work();
    for (num = 0; num < most && cq->count > 0; num++) {
        done = &cq->ring[cq->first];
        wc[num] = done->wc;
        if (done->qp != NULL) {
            done->qp->freed = done->places;
        }
        cq->first = (cq->first + 1) % (unsigned)cq->super.cqe;
        cq->count--;
    }
    return num;
}

static int device_req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)cq, (void)solicited;
    return 0;
}

/* ---- the functions that are no inline functions of the header ---- */

static struct ibv_device **device_get_list(int *num)
{
    static struct ibv_device *list[2] = {&device_itself, NULL};

    *num = 1;
    return list;
}

static void device_free_list(struct ibv_device **list)
{
    (void)list;
}

static const char *device_get_name(struct ibv_device *device)
{
    (void)device;
    return "test0";
}

static struct ibv_context *device_open(struct ibv_device *device)
{
    (void)device;
    if (device_context.ops.poll_cq == NULL) {
        device_context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        device_context.ops.poll_cq = device_poll_cq;
        device_context.ops.req_notify_cq = device_req_notify_cq;
        device_context.ops.post_send = device_post_send;
        device_context.ops.post_recv = device_post_recv;
        device_context.ops.post_srq_recv = device_post_srq_recv;
    }
    return &device_context;
}

static int device_close(struct ibv_context *context)
{
    (void)context;
    return 0;
}

static int device_query(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.max_qp = device_is.max_each,
                             .max_qp_wr = (device_is.max_wr > 0) ? device_is.max_wr : 16384,
                             .max_sge = 4,
                             .max_cqe = device_is.max_cqe,
                             .max_srq = device_is.has_no_srq ? 0 : 1000,
                             .max_srq_wr = 16384,
                             .max_qp_rd_atom = 16,
                             .atomic_cap = device_is.has_no_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA,
                             .phys_port_cnt = 1};
    return 0;
}

static int device_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr attr = {.state = device_is.is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
                          .active_mtu = IBV_MTU_4096,
                          .max_mtu = IBV_MTU_4096,
                          .max_msg_sz = 1u << 30,
                          .gid_tbl_len = 1,
                          .pkey_tbl_len = 1,
                          .active_speed = 32,
                          .active_width = 2,
                          .lid = 1,
                          .link_layer =
                              device_is.is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND};

    (void)context, (void)number;
    memcpy(compat, &attr, sizeof(attr));
    return 0;
}

static int device_query_gid(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                            uint32_t flags, size_t size)
{
    (void)context, (void)port, (void)flags, (void)size;
    *entry = (struct ibv_gid_entry){.gid_index = index,
                                    .gid_type = device_is.is_ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB};
    memcpy(entry->gid.raw, device_is.gid, sizeof(device_is.gid));
    return (index == 0) ? 0 : EINVAL;
}

static int device_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context, (void)port, (void)index;
    *pkey = 0xffff;
    return 0;
}

static struct ibv_pd *device_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = calloc(1, sizeof(*pd));

    pd->context = context;
    return pd;
}

static int device_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

static struct ibv_mr *device_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr = (device_is.max_mr == 0 || length <= device_is.max_mr) ? calloc(1, sizeof(*mr)) : NULL;

    (void)access;
    if (mr == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = 1, .rkey = 2};
    return mr;
}

static int device_dereg_mr(struct ibv_mr *mr)
{
    free(mr);
    return 0;
}

static struct ibv_cq *device_create_cq(struct ibv_context *context, int entries, void *cq_context,
                                       struct ibv_comp_channel *channel, int vector)
{
    struct device_cq *cq = calloc(1, sizeof(*cq));

    (void)vector;
    if (entries > device_is.max_cqe) {
        free(cq);
        errno = EINVAL;
        return NULL;
    }
    cq->super = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    cq->ring = calloc((size_t)entries, sizeof(*cq->ring));
    return &cq->super;
}

static int device_resize_cq(struct ibv_cq *super, int entries)
{
    struct device_cq *cq = (struct device_cq *)super;
    struct device_done *ring =
        (device_is.resizes && entries <= device_is.max_cqe) ? calloc((size_t)entries, sizeof(*ring)) : NULL;
    unsigned i;

    if (ring == NULL) {
        return EINVAL;
    }
    assert_true(cq->count <= (unsigned)entries);
    for (i = 0; i < cq->count; i++) {
        ring[i] = cq->ring[(cq->first + i) % (unsigned)super->cqe];
    }
    free(cq->ring);
    cq->ring = ring;
    cq->first = 0;
    super->cqe = entries;
    if (entries > device_saw.largest_cq) {
        device_saw.largest_cq = entries;
    }
    return 0;
}

static int device_destroy_cq(struct ibv_cq *cq)
{
    free(((struct device_cq *)cq)->ring);
    free(cq);
    return 0;
}

static struct ibv_srq *device_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct device_srq *srq = calloc(1, sizeof(*srq));

    srq->super = (struct ibv_srq){.context = pd->context, .srq_context = init->srq_context, .pd = pd};
    srq->most = init->attr.max_wr;
    srq->list = calloc(srq->most, sizeof(*srq->list));
    return &srq->super;
}

static int device_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    (void)srq, (void)attr, (void)mask;
    return 0;
}

static int device_destroy_srq(struct ibv_srq *srq)
{
    free(((struct device_srq *)srq)->list);
    free(srq);
    return 0;
}

static struct ibv_qp *device_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct device_qp *qp;

    if (device_saw.qps >= (unsigned)device_is.max_qp ||
        ((struct device_cq *)init->send_cq)->qps >= device_is.max_each) {
        device_saw.refused_qps++;
        errno = ENOMEM;
        return NULL;
    }
    while (device_qps[device_next_qp % (1u << 16)] != NULL) {
        device_next_qp++;
    }
    qp = calloc(1, sizeof(*qp));
    qp->super = (struct ibv_qp){.context = pd->context,
                                .pd = pd,
                                .send_cq = init->send_cq,
                                .recv_cq = init->recv_cq,
                                .srq = init->srq,
                                .qp_num = device_next_qp,
                                .state = IBV_QPS_RESET,
                                .qp_type = init->qp_type};
    cw_list_init(&qp->busy);
    cw_list_init(&qp->sends);
    qp->max_sends = init->cap.max_send_wr;
    qp->max_inline = init->cap.max_inline_data;
    qp->all_signalled = init->sq_sig_all;
    qp->receives.most = init->cap.max_recv_wr;
    qp->receives.list = calloc(qp->receives.most + 1, sizeof(*qp->receives.list));
    device_qps[device_next_qp++ % (1u << 16)] = qp;
    device_saw.qps++;
    ((struct device_cq *)init->send_cq)->qps++;
    device_saw.made_qps++;
    device_saw.most_qps = (device_saw.qps > device_saw.most_qps) ? device_saw.qps : device_saw.most_qps;
    return &qp->super;
}

static int device_modify_qp(struct ibv_qp *super, struct ibv_qp_attr *attr, int mask)
{
    struct device_qp *qp = (struct device_qp *)super;

    if (mask & IBV_QP_DEST_QPN) {
        qp->peer = attr->dest_qp_num;
    }
    if (mask & IBV_QP_STATE) {
        super->state = attr->qp_state;
    }
    if (super->state == IBV_QPS_ERR) {
        cw_list_remove(&qp->busy);
        while (qp->done != qp->posted) {
            device_end(qp, IBV_WC_WR_FLUSH_ERR);
        }
    }
    return 0;
}

static int device_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    (void)mask, (void)init;
    attr->qp_state = qp->state;
    return 0;
}

static void device_discard(struct device_cq *cq, const struct device_qp *qp)
{
    unsigned i, left = 0;

    for (i = 0; i < cq->count; i++) {
        const struct device_done done = cq->ring[(cq->first + i) % (unsigned)cq->super.cqe];

        if (done.wc.qp_num != qp->super.qp_num) {
            cq->ring[(cq->first + left++) % (unsigned)cq->super.cqe] = done;
        }
    }
    cq->count = left;
}

/* Completions that nobody has polled go with their queue pair. */
static int device_destroy_qp(struct ibv_qp *super)
{
    struct device_qp *qp = (struct device_qp *)super;
    struct cw_list *link;

    ((struct device_cq *)super->send_cq)->qps--;
    ((struct device_cq *)super->send_cq)->under_way -= (unsigned)(qp->posted - qp->done);
    device_discard((struct device_cq *)super->send_cq, qp);
    device_discard((struct device_cq *)super->recv_cq, qp);
    device_qps[super->qp_num % (1u << 16)] = NULL;
    cw_list_remove(&qp->busy);
    device_saw.qps--;
    free(qp->receives.list);
    while ((link = cw_list_pop_head(&qp->sends)) != NULL) {
        free(cw_container_of(link, struct device_send, link));
    }
    free(qp);
    return 0;
}

static struct ibv_ah *device_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct device_ah *ah = calloc(1, sizeof(*ah));

    ah->super = (struct ibv_ah){.context = pd->context, .pd = pd};
    ah->attr = *attr;
    return &ah->super;
}

static int device_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    return 0;
}

static int device_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    (void)context, (void)event;
    return -1;
}

static void device_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

static const char *device_wc_text(enum ibv_wc_status status)
{
    return (status == IBV_WC_SUCCESS) ? "success" : "failure";
}

static const char *device_event_text(enum ibv_event_type event)
{
    (void)event;
    return "event";
}

static const struct cw_verbs_library device_library = {.get_device_list = device_get_list,
                                                     .free_device_list = device_free_list,
                                                     .get_device_name = device_get_name,
                                                     .open_device = device_open,
                                                     .close_device = device_close,
                                                     .query_device = device_query,
                                                     .query_port_compat = device_query_port,
                                                     .query_gid_ex = device_query_gid,
                                                     .query_pkey = device_query_pkey,
                                                     .alloc_pd = device_alloc_pd,
                                                     .dealloc_pd = device_dealloc_pd,
                                                     .reg_mr = device_reg_mr,
                                                     .dereg_mr = device_dereg_mr,
                                                     .create_cq = device_create_cq,
                                                     .resize_cq = device_resize_cq,
                                                     .destroy_cq = device_destroy_cq,
                                                     .create_srq = device_create_srq,
                                                     .modify_srq = device_modify_srq,
                                                     .destroy_srq = device_destroy_srq,
                                                     .create_qp = device_create_qp,
                                                     .modify_qp = device_modify_qp,
                                                     .query_qp = device_query_qp,
                                                     .destroy_qp = device_destroy_qp,
                                                     .create_ah = device_create_ah,
                                                     .destroy_ah = device_destroy_ah,
                                                     .get_async_event = device_get_async_event,
                                                     .ack_async_event = device_ack_async_event,
                                                     .wc_status_str = device_wc_text,
                                                     .event_type_str = device_event_text};

const struct cw_verbs_library *__wrap_cw_verbs_library(const char **why_p);

const struct cw_verbs_library *__wrap_cw_verbs_library(const char **why_p)
{
    (void)why_p;
    return &device_library;
}

#endif
