/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libibverbs with devices that reach each other within one process: InfiniBand, one port each, queue
 * pairs for datagrams and of type RC with shared receive queues, remote access and atomic operations. A program that is
 * linked with it finds it by its SONAME when the library opens libibverbs.so.1. Work moves when a completion queue is
 * polled. failing.h says which calls fail; each is a step of that name, without "ibv_".
 */
#include <infiniband/verbs.h>

#include <endian.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "failing.h"
#include "verbs_stand_in.h"

#undef ibv_query_port
#undef ibv_reg_mr

enum { QPS = 64, MRS = 4096, ENTRIES = 8192, RECEIVES = 8192, SENDS = 8192, EVENTS = 16, GRH = 40, FIRST_QP = 16 };

struct device {
    struct ibv_device device;
    unsigned lid;
    int is_dead;
};

struct context {
    struct ibv_context context;
    enum ibv_event_type events[EVENTS];
    unsigned num_events;
};

struct cq {
    struct ibv_cq cq;
    struct ibv_wc entries[ENTRIES];
    unsigned first, count;
    int is_armed;
};

struct receive {
    uint64_t id;
    struct ibv_sge sge;
};

struct receives {
    struct receive entries[RECEIVES];
    unsigned first, count;
};

struct srq {
    struct ibv_srq srq;
    struct receives receives;
};

struct send {
    struct send *next;
    struct ibv_send_wr wr;
    struct ibv_sge sges[4];
    unsigned lid; /* of a datagram's target */
    char *bytes;  /* of an inline request */
};

struct qp {
    struct ibv_qp qp;
    struct receives receives; /* without a shared queue */
    uint32_t peer;
    int signals_all;
    struct send *sends, **end;
};

struct ah {
    struct ibv_ah ah;
    unsigned lid;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[] = {{.device = {.name = "stand0"}, .lid = 1}, {.device = {.name = "stand1"}, .lid = 2}};
static struct qp *qps[QPS];
static struct ibv_mr *mrs[MRS];
static uint32_t next_mr;

static const struct device *device_of(const struct ibv_context *context)
{
    return (const struct device *)context->device;
}

static int fails(const char *step)
{
    errno = failing(step);
    return errno;
}

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *num)
{
    const int count = sizeof(devices) / sizeof(devices[0]);
    struct ibv_device **list = fails("get_device_list") ? NULL : calloc((size_t)count + 1, sizeof(*list));

    *num = 0;
    for (int i = 0; list != NULL && i < count; i++) {
        list[(*num)++] = &devices[i].device;
    }
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

int ibv_fork_init(void)
{
    return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    *attr = (struct ibv_device_attr){.max_qp = QPS,
                             .max_qp_wr = SENDS,
                             .max_cqe = 1 << 16,
                             .max_sge = 4,
                             .max_qp_rd_atom = 16,
                             .atomic_cap = IBV_ATOMIC_HCA,
                             .max_srq = 64,
                             .max_srq_wr = RECEIVES,
                             .phys_port_cnt = 1};
    return fails("query_device");
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *compat)
{
    struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

    (void)number;
    attr->state = IBV_PORT_ACTIVE;
    attr->max_mtu = IBV_MTU_4096;
    attr->active_mtu = IBV_MTU_4096;
    attr->gid_tbl_len = 1;
    attr->pkey_tbl_len = 1;
    attr->max_msg_sz = 1u << 30;
    attr->lid = (uint16_t)device_of(context)->lid;
    attr->active_width = 2;
    attr->active_speed = 32;
    attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
    return fails("query_port");
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size)
{
    (void)port;
    (void)flags;
    memset(entry, 0, size);
    entry->gid.raw[0] = 0xfd;
    entry->gid.raw[15] = (uint8_t)device_of(context)->lid;
    entry->gid_index = index;
    return fails("query_gid");
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    (void)port;
    (void)index;
    *pkey = htobe16(0xffff);
    return fails("query_pkey") ? -1 : 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *cq, int solicited);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

static struct context *contexts[64];

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct context *context = fails("open_device") ? NULL : calloc(1, sizeof(*context));

    if (context == NULL) {
        return NULL;
    }
    context->context.device = device;
    context->context.async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    context->context.ops.poll_cq = poll_cq;
    context->context.ops.req_notify_cq = req_notify_cq;
    context->context.ops.post_send = post_send;
    context->context.ops.post_recv = post_recv;
    context->context.ops.post_srq_recv = post_srq_recv;
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        if (contexts[i] == NULL) {
            contexts[i] = context;
            break;
        }
    }
    return &context->context;
}

int ibv_close_device(struct ibv_context *context)
{
    for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        contexts[i] = (contexts[i] == (struct context *)context) ? NULL : contexts[i];
    }
    close(context->async_fd);
    free(context);
    return 0;
}

/* ---- events ---- */

void stand_in_dies(const char *name)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        devices[i].is_dead |= name != NULL && strcmp(devices[i].device.name, name) == 0;
        devices[i].is_dead &= name != NULL;
    }
    for (size_t i = 0; name != NULL && i < sizeof(contexts) / sizeof(contexts[0]); i++) {
        if (contexts[i] != NULL && strcmp(contexts[i]->context.device->name, name) == 0) {
            contexts[i]->events[contexts[i]->num_events++] = IBV_EVENT_DEVICE_FATAL;
            (void)!write(contexts[i]->context.async_fd, &one, sizeof(one));
        }
    }
    pthread_mutex_unlock(&lock);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct context *of = (struct context *)context;
    uint64_t number;

    if (read(context->async_fd, &number, sizeof(number)) < 0) {
        return -1;
    }
    *event = (struct ibv_async_event){.event_type = of->events[--of->num_events]};
    return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
    (void)event;
}

const char *ibv_event_type_str(enum ibv_event_type type)
{
    return (type == IBV_EVENT_DEVICE_FATAL) ? "the device is broken" : "an event";
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
    (void)status;
    return "a completion with an error";
}

/* ---- memory ---- */

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct ibv_pd *pd = fails("alloc_pd") ? NULL : calloc(1, sizeof(*pd));

    if (pd != NULL) {
        pd->context = context;
    }
    return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
    free(pd);
    return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    struct ibv_mr *mr = fails("reg_mr") ? NULL : calloc(1, sizeof(*mr));

    (void)access;
    if (mr == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    while (mrs[next_mr % MRS] != NULL) {
        next_mr++;
    }
    *mr = (struct ibv_mr){
        .context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = next_mr, .rkey = next_mr};
    mrs[next_mr++ % MRS] = mr;
    pthread_mutex_unlock(&lock);
    return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    mrs[mr->lkey % MRS] = NULL;
    pthread_mutex_unlock(&lock);
    free(mr);
    return 0;
}

/* The bytes; NULL: the key does not open them. */
static char *reach(const struct ibv_context *context, uint64_t address, size_t length, uint32_t key)
{
    const struct ibv_mr *mr = mrs[key % MRS];

    if (mr == NULL || mr->lkey != key || mr->context->device != context->device || address < (uintptr_t)mr->addr ||
        address + length > (uintptr_t)mr->addr + mr->length) {
        return NULL;
    }
    return (char *)mr->addr + (address - (uintptr_t)mr->addr);
}

/* ---- completion queues ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct ibv_comp_channel *channel = fails("create_comp_channel") ? NULL : calloc(1, sizeof(*channel));

    if (channel != NULL) {
        *channel = (struct ibv_comp_channel){.context = context, .fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)};
    }
    return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    free(channel);
    return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    struct cq *cq = fails("create_cq") ? NULL : calloc(1, sizeof(*cq));

    (void)vector;
    if (cq == NULL) {
        return NULL;
    }
    cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int entries)
{
    const int error = fails("resize_cq");

    cq->cqe = (error == 0) ? entries : cq->cqe;
    return error;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(cq);
    return 0;
}

/* The library does not ask which queue it was. */
int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    uint64_t number;

    *cq = NULL;
    *cq_context = NULL;
    return (read(channel->fd, &number, sizeof(number)) < 0) ? -1 : 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned count)
{
    (void)cq;
    (void)count;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    (void)solicited;
    ((struct cq *)cq)->is_armed = 1;
    return 0;
}

static void complete(struct ibv_cq *super, struct ibv_wc wc)
{
    struct cq *cq = (struct cq *)super;
    const uint64_t one = 1;

    if (cq->count == ENTRIES) {
        abort();
    }
    cq->entries[(cq->first + cq->count++) % ENTRIES] = wc;
    if (cq->is_armed && super->channel != NULL) {
        cq->is_armed = 0;
        (void)!write(super->channel->fd, &one, sizeof(one));
    }
}

/* ---- queue pairs ---- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct srq *srq = fails("create_srq") ? NULL : calloc(1, sizeof(*srq));

    if (srq == NULL) {
        return NULL;
    }
    srq->srq = (struct ibv_srq){.context = pd->context, .pd = pd, .srq_context = init->srq_context};
    return &srq->srq;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    (void)srq;
    (void)attr;
    (void)mask;
    return fails("modify_srq");
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
    free(srq);
    return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    static uint32_t next = FIRST_QP;
    struct qp *qp = fails("create_qp") ? NULL : calloc(1, sizeof(*qp));

    if (qp == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    while (qps[next % QPS] != NULL) {
        next++;
    }
    qp->qp = (struct ibv_qp){.context = pd->context,
                             .pd = pd,
                             .send_cq = init->send_cq,
                             .recv_cq = init->recv_cq,
                             .srq = init->srq,
                             .qp_num = next,
                             .qp_type = init->qp_type};
    qp->signals_all = init->sq_sig_all;
    qp->end = &qp->sends;
    qps[next++ % QPS] = qp;
    pthread_mutex_unlock(&lock);
    return &qp->qp;
}

static void drop_send(struct qp *qp)
{
    struct send *send = qp->sends;

    qp->sends = send->next;
    qp->end = (qp->sends == NULL) ? &qp->sends : qp->end;
    free(send->bytes);
    free(send);
}

int ibv_destroy_qp(struct ibv_qp *super)
{
    struct qp *qp = (struct qp *)super;

    pthread_mutex_lock(&lock);
    while (qp->sends != NULL) {
        drop_send(qp);
    }
    qps[super->qp_num % QPS] = NULL;
    pthread_mutex_unlock(&lock);
    free(qp);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const int error = fails("modify_qp");

    if (error == 0) {
        pthread_mutex_lock(&lock);
        qp->state = (mask & IBV_QP_STATE) ? attr->qp_state : qp->state;
        ((struct qp *)qp)->peer = (mask & IBV_QP_DEST_QPN) ? attr->dest_qp_num : ((struct qp *)qp)->peer;
        pthread_mutex_unlock(&lock);
    }
    return error;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
    (void)mask;
    (void)init;
    *attr = (struct ibv_qp_attr){.qp_state = qp->state};
    return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ah *ah = fails("create_ah") ? NULL : calloc(1, sizeof(*ah));

    if (ah == NULL) {
        return NULL;
    }
    *ah = (struct ah){.ah = {.context = pd->context, .pd = pd}, .lid = attr->dlid};
    return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    return 0;
}

/* ---- requests ---- */

static int add_receives(struct receives *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, const char *step)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    for (; wr != NULL && error == 0; wr = (error == 0) ? wr->next : wr) {
        error = fails(step);
        error = (error == 0 && to->count == RECEIVES) ? ENOMEM : error;
        if (error == 0) {
            to->entries[(to->first + to->count++) % RECEIVES] = (struct receive){.id = wr->wr_id, .sge = *wr->sg_list};
        } else {
            *bad = wr;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return add_receives(&((struct qp *)qp)->receives, wr, bad, "post_recv");
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return add_receives(&((struct srq *)srq)->receives, wr, bad, "post_srq_recv");
}

static int add_send(struct qp *qp, const struct ibv_send_wr *wr)
{
    struct send *send = calloc(1, sizeof(*send));
    size_t length = 0;

    if (send == NULL || wr->num_sge > 4) {
        free(send);
        return ENOMEM;
    }
    send->wr = *wr;
    if (wr->num_sge > 0) {
        memcpy(send->sges, wr->sg_list, (size_t)wr->num_sge * sizeof(send->sges[0]));
    }
    send->lid = (qp->qp.qp_type == IBV_QPT_UD) ? ((const struct ah *)wr->wr.ud.ah)->lid : 0;
    if (wr->send_flags & IBV_SEND_INLINE) {
        for (int i = 0; i < wr->num_sge; i++) {
            length += send->sges[i].length;
        }
        send->bytes = malloc(length + 1);
        length = 0;
        for (int i = 0; i < wr->num_sge; i++) {
            memcpy(send->bytes + length, (void *)(uintptr_t)send->sges[i].addr, send->sges[i].length); /* NOLINT */
            length += send->sges[i].length;
        }
        send->sges[0] = (struct ibv_sge){.addr = (uintptr_t)send->bytes, .length = (uint32_t)length};
        send->wr.num_sge = 1;
    }
    *qp->end = send;
    qp->end = &send->next;
    return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    for (; wr != NULL; wr = wr->next) {
        error = fails("post_send");
        error = (error == 0) ? add_send((struct qp *)qp, wr) : error;
        if (error != 0) {
            *bad = wr;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* Copies the request's bytes to or from `there`. -1: a local key is wrong. */
static int move(const struct qp *qp, const struct send *send, char *there, int is_read)
{
    char *here;

    for (int i = 0; i < send->wr.num_sge; i++) {
        here = (send->bytes != NULL)
                   ? send->bytes
                   : reach(qp->qp.context, send->sges[i].addr, send->sges[i].length, send->sges[i].lkey);
        if (here == NULL) {
            return -1;
        }
        memcpy(is_read ? here : there, is_read ? there : here, send->sges[i].length);
        there += send->sges[i].length;
    }
    return 0;
}

static size_t length_of(const struct send *send)
{
    size_t length = 0;

    for (int i = 0; i < send->wr.num_sge; i++) {
        length += send->sges[i].length;
    }
    return length;
}

/* 0: the peer has no receive. */
static int deliver(const struct qp *qp, const struct send *send, struct qp *to, enum ibv_wc_status *status)
{
    struct receives *receives = (to->qp.srq != NULL) ? &((struct srq *)to->qp.srq)->receives : &to->receives;
    const size_t head = (qp->qp.qp_type == IBV_QPT_UD) ? GRH : 0;
    const size_t length = length_of(send) + head;
    struct receive *receive = &receives->entries[receives->first];
    struct ibv_wc wc = {.opcode = IBV_WC_RECV,
                      .qp_num = to->qp.qp_num,
                      .src_qp = qp->qp.qp_num,
                      .slid = (uint16_t)device_of(qp->qp.context)->lid,
                      .byte_len = (uint32_t)length};
    char *there;

    if (receives->count == 0) {
        return 0;
    }
    there = reach(to->qp.context, receive->sge.addr, length, receive->sge.lkey);
    if (there == NULL || length > receive->sge.length || move(qp, send, there + head, 0) != 0) {
        *status = IBV_WC_REM_INV_REQ_ERR;
        return 1;
    }
    wc.wr_id = receive->id;
    if (send->wr.opcode == IBV_WR_SEND_WITH_IMM) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = send->wr.imm_data;
    }
    receives->first = (receives->first + 1) % RECEIVES;
    receives->count--;
    complete(to->qp.recv_cq, wc);
    return 1;
}

static enum ibv_wc_status access_peer(const struct qp *qp, const struct send *send, const struct qp *to)
{
    const int is_add = send->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const int is_atomic = is_add || send->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const size_t length = length_of(send);
    uint64_t old, new;
    char *there;

    if (length == 0) {
        return IBV_WC_SUCCESS;
    }
    there = is_atomic ? reach(to->qp.context, send->wr.wr.atomic.remote_addr, length, send->wr.wr.atomic.rkey)
                      : reach(to->qp.context, send->wr.wr.rdma.remote_addr, length, send->wr.wr.rdma.rkey);
    if (there == NULL) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!is_atomic) {
        return (move(qp, send, there, send->wr.opcode == IBV_WR_RDMA_READ) == 0) ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR;
    }
    memcpy(&old, there, sizeof(old));
    new = old;
    if (is_add) {
        new += send->wr.wr.atomic.compare_add;
    } else if (old == send->wr.wr.atomic.compare_add) {
        new = send->wr.wr.atomic.swap;
    }
    if (move(qp, send, there, 1) != 0) {
        return IBV_WC_LOC_PROT_ERR;
    }
    memcpy(there, &new, sizeof(new));
    return IBV_WC_SUCCESS;
}

/* 0: it waits for a receive. */
static int carry_one(struct qp *qp)
{
    struct send *send = qp->sends;
    const int is_datagram = qp->qp.qp_type == IBV_QPT_UD;
    const uint32_t number = is_datagram ? send->wr.wr.ud.remote_qpn : qp->peer;
    struct qp *to = qps[number % QPS];
    enum ibv_wc_status status = IBV_WC_SUCCESS;

    to = (to != NULL && to->qp.qp_num == number && to->qp.state >= IBV_QPS_RTR && to->qp.state <= IBV_QPS_RTS &&
          !device_of(to->qp.context)->is_dead)
             ? to
             : NULL;
    if (qp->qp.state == IBV_QPS_ERR) {
        status = IBV_WC_WR_FLUSH_ERR;
    } else if (is_datagram) {
        if (to != NULL && device_of(to->qp.context)->lid == send->lid) {
            (void)deliver(qp, send, to, &status);
        }
        status = IBV_WC_SUCCESS;
    } else if (to == NULL) {
        status = IBV_WC_RETRY_EXC_ERR;
    } else if (send->wr.opcode == IBV_WR_SEND || send->wr.opcode == IBV_WR_SEND_WITH_IMM) {
        if (!deliver(qp, send, to, &status)) {
            return 0;
        }
    } else {
        status = access_peer(qp, send, to);
    }
    if (status != IBV_WC_SUCCESS || qp->signals_all || (send->wr.send_flags & IBV_SEND_SIGNALED)) {
        complete(qp->qp.send_cq,
                 (struct ibv_wc){.wr_id = send->wr.wr_id, .status = status, .qp_num = qp->qp.qp_num});
    }
    qp->qp.state = (status != IBV_WC_SUCCESS) ? IBV_QPS_ERR : qp->qp.state;
    drop_send(qp);
    return 1;
}

/* A dead device moves nothing and completes nothing. */
static void carry(void)
{
    for (int i = 0; i < QPS; i++) {
        while (qps[i] != NULL && qps[i]->sends != NULL && !device_of(qps[i]->qp.context)->is_dead &&
               carry_one(qps[i])) {
        }
    }
}

static int poll_cq(struct ibv_cq *super, int most, struct ibv_wc *wc)
{
    struct cq *cq = (struct cq *)super;
    int count = 0;

    if (fails("poll_cq")) {
        return -1;
    }
    pthread_mutex_lock(&lock);
    carry();
    while (count < most && cq->count > 0) {
        wc[count++] = cq->entries[cq->first];
        cq->first = (cq->first + 1) % ENTRIES;
        cq->count--;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
