/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A stand-in for libibverbs with devices that reach each other within one process: one port each, queue pairs for
 * datagrams and of type RC with shared receive queues, remote access and atomic operations. A program that is linked
 * with it finds it by its SONAME when the library opens libibverbs.so.1. Work moves when a completion queue is polled,
 * a few requests each time, so that requests are under way. verbs_stand_in.h says what the devices are like, failing.h
 * which calls fail; each is a step of that name, without "ibv_". It is strict: a completion queue without room for all
 * that is under way, or a send queue with more requests than it was made for, ends the program, as the one would end
 * all connections of a real device and the other is refused.
 */
#include "verbs_stand_in.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "failing.h"

#undef ibv_query_port
#undef ibv_reg_mr

enum { QPS = 1 << 16, MRS = 1 << 16, CONTEXTS = 64, EVENTS = 16, SGES = 4, GRH = 40, FIRST_QP = 16, STEPS = 8 };

#define must(condition)                                                             \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "verbs_stand_in.c:%d: not so: %s\n", __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

struct device {
    struct ibv_device device;
    unsigned lid;
    int is_dead;
};

struct context {
    struct ibv_context context;
    struct ibv_async_event events[EVENTS];
    unsigned num_events;
};

/* A completion, and the requests of a queue pair whose places are free when it is polled. */
struct done {
    struct ibv_wc wc;
    struct qp *qp; /* NULL: a receive */
    uint64_t places;
};

struct cq {
    struct ibv_cq cq;
    struct done *ring; /* of cqe */
    unsigned first, count, under_way; /* requests of its queue pairs that did not end */
    int qps, is_armed;
};

struct receive {
    uint64_t id;
    struct ibv_sge sge;
};

struct receives {
    struct receive *ring;
    unsigned first, count, most;
};

struct srq {
    struct ibv_srq srq;
    struct receives receives;
};

struct send {
    struct send *next;
    struct ibv_send_wr wr;
    struct ibv_sge sges[SGES];
    int is_inline, is_executed;
    char bytes[];
};

struct qp {
    struct ibv_qp qp;
    struct receives receives; /* without a shared queue */
    uint32_t peer;
    unsigned max_sends, max_inline;
    int signals_all, is_busy;
    struct qp *next_busy;
    struct send *sends, **end;
    uint64_t posted, done, freed;
};

struct mr {
    struct ibv_mr mr;
    int access;
};

struct ah {
    struct ibv_ah ah;
    unsigned lid, gid_index;
};

struct stand_in device_is = {
    .num_devices = 1, .max_cqe = 1 << 22, .resizes = 1, .max_qp = 1 << 20, .max_each = 1 << 20, .repeats = 1};
struct stand_in_seen device_saw;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[] = {{.device = {.name = "stand0"}, .lid = 1}, {.device = {.name = "stand1"}, .lid = 2}};
static struct context *contexts[CONTEXTS];
static struct qp *qps[QPS], *busy, **busy_end = &busy;
static struct mr *mrs[MRS];
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

static int refused(int error)
{
    errno = error;
    return error;
}

static void gid_of(const struct ibv_context *context, uint8_t gid[16])
{
    memset(gid, 0, 16);
    gid[0] = 0xfd;
    gid[7] = device_is.subnets ? (uint8_t)device_of(context)->lid : 0;
    gid[15] = (uint8_t)device_of(context)->lid;
    if (device_is.is_ethernet) {
        memcpy(gid, device_is.gid, 16);
    }
}

/* ---- devices ---- */

struct ibv_device **ibv_get_device_list(int *num)
{
    const size_t most = (size_t)device_is.num_devices + 1;
    struct ibv_device **list = fails("get_device_list") ? NULL : calloc(most, sizeof(*list));

    *num = 0;
    for (int i = 0; list != NULL && i < device_is.num_devices; i++) {
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
    *attr = (struct ibv_device_attr){.vendor_id = device_is.vendor,
                                     .max_qp = device_is.max_each,
                                     .max_qp_wr = (device_is.max_wr > 0) ? device_is.max_wr : 16384,
                                     .max_cqe = device_is.max_cqe,
                                     .max_sge = SGES,
                                     .max_qp_rd_atom = 16,
                                     .atomic_cap = device_is.has_no_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA,
                                     .max_srq = device_is.has_no_srq ? 0 : 1000,
                                     .max_srq_wr = 16384,
                                     .phys_port_cnt = 1};
    return fails("query_device");
}

int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *compat)
{
    const struct ibv_port_attr attr = {
        .state = device_is.is_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE,
        .max_mtu = IBV_MTU_4096,
        .active_mtu = IBV_MTU_4096,
        .gid_tbl_len = (device_is.net_devices[1] != 0) ? 2 : 1,
        .pkey_tbl_len = (device_is.pkeys[0] != 0) ? 4 : 1,
        .max_msg_sz = 1u << 30,
        .lid = (uint16_t)device_of(context)->lid,
        .active_width = 2,
        .active_speed = 32,
        .link_layer = device_is.is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND};

    (void)number;
    memcpy(compat, &attr, sizeof(attr));
    return fails("query_port");
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                      uint32_t flags, size_t size)
{
    (void)port;
    (void)flags;
    memset(entry, 0, size);
    entry->gid_index = index;
    entry->gid_type = device_is.is_ethernet ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_IB;
    if (index == 1 && device_is.is_ethernet) {
        memcpy(entry->gid.raw, device_is.vlan_gid, sizeof(entry->gid.raw));
    } else {
        gid_of(context, entry->gid.raw);
    }
    entry->ndev_ifindex = (index < 2) ? device_is.net_devices[index] : 0;
    return (index == 0 || (index == 1 && device_is.net_devices[1] != 0)) ? fails("query_gid") : refused(EINVAL);
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
    (void)context;
    (void)port;
    *pkey = htobe16((device_is.pkeys[0] == 0 && index == 0) ? 0xffff : device_is.pkeys[index]);
    return fails("query_pkey") ? -1 : 0;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc);
static int req_notify_cq(struct ibv_cq *cq, int solicited);
static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

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
    for (int i = 0; i < CONTEXTS; i++) {
        if (contexts[i] == NULL) {
            contexts[i] = context;
            break;
        }
    }
    return &context->context;
}

int ibv_close_device(struct ibv_context *context)
{
    for (int i = 0; i < CONTEXTS; i++) {
        contexts[i] = (contexts[i] == (struct context *)context) ? NULL : contexts[i];
    }
    close(context->async_fd);
    free(context);
    return 0;
}

/* ---- events ---- */

static void add_event(struct context *context, struct ibv_async_event event)
{
    const uint64_t one = 1;

    if (context->num_events < EVENTS) {
        context->events[context->num_events++] = event;
        (void)!write(context->context.async_fd, &one, sizeof(one));
    }
}

void stand_in_dies(const char *name)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        devices[i].is_dead |= name != NULL && strcmp(devices[i].device.name, name) == 0;
        devices[i].is_dead &= name != NULL;
    }
    for (int i = 0; name != NULL && i < CONTEXTS; i++) {
        if (contexts[i] != NULL && strcmp(contexts[i]->context.device->name, name) == 0) {
            add_event(contexts[i], (struct ibv_async_event){.event_type = IBV_EVENT_DEVICE_FATAL});
        }
    }
    pthread_mutex_unlock(&lock);
}

void stand_in_link(int is_down, int reports)
{
    pthread_mutex_lock(&lock);
    device_is.is_down = is_down;
    device_is.stands = is_down;
    for (int i = 0; reports && i < CONTEXTS; i++) {
        if (contexts[i] != NULL) {
            add_event(contexts[i],
                      (struct ibv_async_event){.event_type = is_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE,
                                               .element.port_num = 1});
        }
    }
    pthread_mutex_unlock(&lock);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct context *of = (struct context *)context;
    uint64_t number;

    if (read(context->async_fd, &number, sizeof(number)) < 0 || of->num_events == 0) {
        return -1;
    }
    *event = of->events[0];
    memmove(of->events, of->events + 1, --of->num_events * sizeof(of->events[0]));
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
    struct mr *mr;

    if (fails("reg_mr") || (device_is.max_mr > 0 && length > device_is.max_mr && refused(ENOMEM))) {
        return NULL;
    }
    mr = calloc(1, sizeof(*mr));
    pthread_mutex_lock(&lock);
    while (mrs[next_mr % MRS] != NULL) {
        next_mr++;
    }
    mr->mr = (struct ibv_mr){
        .context = pd->context, .pd = pd, .addr = address, .length = length, .lkey = next_mr, .rkey = next_mr};
    mr->access = access;
    mrs[next_mr++ % MRS] = mr;
    pthread_mutex_unlock(&lock);
    return &mr->mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
    pthread_mutex_lock(&lock);
    mrs[mr->lkey % MRS] = NULL;
    pthread_mutex_unlock(&lock);
    free(mr);
    return 0;
}

/* The bytes; NULL: the key does not open them for that access. */
static char *reach(const struct ibv_context *context, uint64_t address, size_t length, uint32_t key, int access)
{
    const struct ibv_mr *mr = (mrs[key % MRS] != NULL) ? &mrs[key % MRS]->mr : NULL;

    if (mr == NULL || mr->lkey != key || mr->context->device != context->device || address < (uintptr_t)mr->addr ||
        address > UINT64_MAX - length || address + length > (uintptr_t)mr->addr + mr->length ||
        (mrs[key % MRS]->access & access) != access) {
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
    struct cq *cq;

    (void)vector;
    if (fails("create_cq") || (entries > device_is.max_cqe && refused(EINVAL))) {
        return NULL;
    }
    cq = calloc(1, sizeof(*cq));
    cq->cq = (struct ibv_cq){.context = context, .channel = channel, .cq_context = cq_context, .cqe = entries};
    cq->ring = calloc((size_t)entries, sizeof(*cq->ring));
    return &cq->cq;
}

static struct done *done_at(const struct cq *cq, unsigned place)
{
    return &cq->ring[(cq->first + place) % (unsigned)cq->cq.cqe];
}

int ibv_resize_cq(struct ibv_cq *super, int entries)
{
    struct cq *cq = (struct cq *)super;
    struct done *ring;

    if (fails("resize_cq")) {
        return errno;
    }
    if (!device_is.resizes || entries > device_is.max_cqe) {
        return refused(EINVAL);
    }
    pthread_mutex_lock(&lock);
    must(cq->count <= (unsigned)entries);
    ring = calloc((size_t)entries, sizeof(*ring));
    for (unsigned i = 0; i < cq->count; i++) {
        ring[i] = *done_at(cq, i);
    }
    free(cq->ring);
    cq->ring = ring;
    cq->first = 0;
    super->cqe = entries;
    device_saw.largest_cq = (entries > device_saw.largest_cq) ? entries : device_saw.largest_cq;
    pthread_mutex_unlock(&lock);
    return 0;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
    free(((struct cq *)cq)->ring);
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

static void complete(struct ibv_cq *super, struct done done)
{
    struct cq *cq = (struct cq *)super;
    const uint64_t one = 1;

    must(cq->count < (unsigned)super->cqe);
    *done_at(cq, cq->count++) = done;
    if (cq->is_armed && super->channel != NULL) {
        cq->is_armed = 0;
        (void)!write(super->channel->fd, &one, sizeof(one));
    }
}

/* ---- receives ---- */

static void receives_open(struct receives *receives, unsigned most)
{
    receives->most = most;
    receives->ring = calloc((size_t)most + 1, sizeof(*receives->ring));
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct srq *srq = fails("create_srq") ? NULL : calloc(1, sizeof(*srq));

    if (srq == NULL) {
        return NULL;
    }
    srq->srq = (struct ibv_srq){.context = pd->context, .pd = pd, .srq_context = init->srq_context};
    receives_open(&srq->receives, init->attr.max_wr);
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
    free(((struct srq *)srq)->receives.ring);
    free(srq);
    return 0;
}

static int add_receives(struct receives *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, const char *step)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    for (; wr != NULL && (error = fails(step)) == 0; wr = wr->next) {
        must(to->count < to->most);
        to->ring[(to->first + to->count++) % to->most] = (struct receive){.id = wr->wr_id, .sge = *wr->sg_list};
    }
    *bad = wr;
    pthread_mutex_unlock(&lock);
    return error;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return add_receives(&((struct qp *)qp)->receives, wr, bad, "post_recv");
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    device_saw.receive_calls++;
    return add_receives(&((struct srq *)srq)->receives, wr, bad, "post_srq_recv");
}

/* ---- queue pairs ---- */

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    static uint32_t next = FIRST_QP;
    struct cq *cq = (struct cq *)init->send_cq;
    struct qp *qp;

    if (fails("create_qp")) {
        return NULL;
    }
    if (device_saw.qps >= (unsigned)device_is.max_qp || cq->qps >= device_is.max_each) {
        device_saw.refused_qps++;
        errno = ENOMEM;
        return NULL;
    }
    qp = calloc(1, sizeof(*qp));
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
    qp->max_sends = init->cap.max_send_wr;
    init->cap.max_inline_data += device_is.more_inline;
    qp->max_inline = init->cap.max_inline_data;
    qp->signals_all = init->sq_sig_all;
    qp->end = &qp->sends;
    receives_open(&qp->receives, init->cap.max_recv_wr);
    qps[next++ % QPS] = qp;
    cq->qps++;
    device_saw.qps++;
    device_saw.made_qps++;
    device_saw.most_qps = (device_saw.qps > device_saw.most_qps) ? device_saw.qps : device_saw.most_qps;
    pthread_mutex_unlock(&lock);
    return &qp->qp;
}

/* The queue pair of that number, or NULL. */
static struct qp *find_qp(uint32_t number)
{
    struct qp *qp = qps[number % QPS];

    return (qp != NULL && qp->qp.qp_num == number) ? qp : NULL;
}

static void drop_send(struct qp *qp)
{
    struct send *send = qp->sends;

    qp->sends = send->next;
    qp->end = (qp->sends == NULL) ? &qp->sends : qp->end;
    free(send);
}

/* The oldest request has ended. */
static void end_send(struct qp *qp, enum ibv_wc_status status)
{
    const struct send *send = qp->sends;
    struct cq *cq = (struct cq *)qp->qp.send_cq;

    qp->done++;
    cq->under_way--;
    if (status != IBV_WC_SUCCESS || qp->signals_all || (send->wr.send_flags & IBV_SEND_SIGNALED)) {
        complete(&cq->cq,
                 (struct done){{.wr_id = send->wr.wr_id, .status = status, .qp_num = qp->qp.qp_num}, qp, qp->done});
    }
    drop_send(qp);
}

static void leave_busy(struct qp *qp)
{
    for (struct qp **at = &busy; qp->is_busy && *at != NULL; at = &(*at)->next_busy) {
        if (*at == qp) {
            *at = qp->next_busy;
            busy_end = (*at == NULL) ? at : busy_end;
            break;
        }
    }
    qp->is_busy = 0;
}

static void join_busy(struct qp *qp)
{
    if (!qp->is_busy) {
        qp->is_busy = 1;
        qp->next_busy = NULL;
        *busy_end = qp;
        busy_end = &qp->next_busy;
    }
}

static void become_error(struct qp *qp)
{
    qp->qp.state = IBV_QPS_ERR;
    while (qp->sends != NULL && !device_is.flushes_late) {
        end_send(qp, IBV_WC_WR_FLUSH_ERR);
    }
    if (qp->sends != NULL) {
        join_busy(qp);
    }
}

/* Completions that nobody has polled go with their queue pair. */
static void discard(struct ibv_cq *super, uint32_t number)
{
    struct cq *cq = (struct cq *)super;
    unsigned left = 0;

    for (unsigned i = 0; i < cq->count; i++) {
        if (done_at(cq, i)->wc.qp_num != number) {
            *done_at(cq, left++) = *done_at(cq, i);
        }
    }
    cq->count = left;
}

/* A real device would wait until they are acknowledged. */
static void forget_events(const struct ibv_qp *qp)
{
    struct context *context = (struct context *)qp->context;
    unsigned left = 0;

    for (unsigned i = 0; i < context->num_events; i++) {
        if (context->events[i].element.qp != qp) {
            context->events[left++] = context->events[i];
        }
    }
    context->num_events = left;
}

int ibv_destroy_qp(struct ibv_qp *super)
{
    struct qp *qp = (struct qp *)super;

    pthread_mutex_lock(&lock);
    ((struct cq *)super->send_cq)->qps--;
    ((struct cq *)super->send_cq)->under_way -= (unsigned)(qp->posted - qp->done);
    discard(super->send_cq, super->qp_num);
    discard(super->recv_cq, super->qp_num);
    leave_busy(qp);
    while (qp->sends != NULL) {
        drop_send(qp);
    }
    forget_events(super);
    qps[super->qp_num % QPS] = NULL;
    device_saw.qps--;
    pthread_mutex_unlock(&lock);
    free(qp->receives.ring);
    free(qp);
    return 0;
}

int ibv_modify_qp(struct ibv_qp *super, struct ibv_qp_attr *attr, int mask)
{
    const int error = fails("modify_qp");
    struct qp *qp = (struct qp *)super;

    if (error == 0) {
        pthread_mutex_lock(&lock);
        super->state = (mask & IBV_QP_STATE) ? attr->qp_state : super->state;
        qp->peer = (mask & IBV_QP_DEST_QPN) ? attr->dest_qp_num : qp->peer;
        if (super->state == IBV_QPS_ERR) {
            become_error(qp);
        } else if (super->state == IBV_QPS_RESET) {
            qp->receives.count = 0;
        }
        if ((mask & IBV_QP_PKEY_INDEX) && super->qp_type == IBV_QPT_RC) {
            device_saw.last_pkey_index = attr->pkey_index;
        }
        if ((mask & IBV_QP_AV) && super->qp_type == IBV_QPT_RC) {
            device_saw.connected++;
            device_saw.last_gid_index = attr->ah_attr.grh.sgid_index;
        }
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

struct ibv_qp *stand_in_connected(void)
{
    struct ibv_qp *found = NULL;

    for (int i = 0; i < QPS; i++) {
        found = (qps[i] != NULL && qps[i]->qp.qp_type == IBV_QPT_RC && qps[i]->peer != 0) ? &qps[i]->qp : found;
    }
    return found;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ah *ah = fails("create_ah") ? NULL : calloc(1, sizeof(*ah));

    if (ah == NULL) {
        return NULL;
    }
    *ah = (struct ah){.ah = {.context = pd->context, .pd = pd}, .lid = attr->dlid,
                       .gid_index = attr->grh.sgid_index};
    return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
    free(ah);
    return 0;
}

/* ---- requests ---- */

static uint32_t length_of(const struct ibv_send_wr *wr)
{
    uint32_t length = 0;

    for (int i = 0; i < wr->num_sge; i++) {
        length += wr->sg_list[i].length;
    }
    return length;
}

static void add_send(struct qp *qp, const struct ibv_send_wr *wr)
{
    struct cq *cq = (struct cq *)qp->qp.send_cq;
    struct send *send = calloc(1, sizeof(*send) + qp->max_inline);
    char *at = send->bytes;

    must(qp->posted - qp->freed < qp->max_sends && wr->num_sge <= SGES);
    cq->under_way++;
    must(cq->under_way + cq->count <= (unsigned)cq->cq.cqe);
    device_saw.most_under_way = (cq->under_way > device_saw.most_under_way) ? cq->under_way : device_saw.most_under_way;
    qp->posted++;
    if (wr->opcode == IBV_WR_RDMA_WRITE && length_of(wr) > device_saw.largest_put) {
        device_saw.largest_put = length_of(wr);
    }
    send->wr = *wr;
    send->wr.sg_list = send->sges;
    send->is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;
    must(!send->is_inline || length_of(wr) <= qp->max_inline);
    for (int i = 0; i < wr->num_sge; i++) {
        send->sges[i] = wr->sg_list[i];
        if (send->is_inline) {
            send->sges[i].addr = (uintptr_t)at;
            memcpy(at, (void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length); /* NOLINT */
            at += wr->sg_list[i].length;
        }
    }
    *qp->end = send;
    qp->end = &send->next;
    if (qp->qp.state == IBV_QPS_ERR && !device_is.flushes_late) {
        end_send(qp, IBV_WC_WR_FLUSH_ERR);
    } else {
        join_busy(qp);
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    for (; wr != NULL && (error = fails("post_send")) == 0; wr = wr->next) {
        add_send((struct qp *)qp, wr);
    }
    *bad = wr;
    pthread_mutex_unlock(&lock);
    return error;
}

/* Copies the request's bytes to or from `there`. -1: a local key is wrong. */
static int move(const struct ibv_context *context, const struct ibv_send_wr *wr, int is_inline, char *there,
                int is_read)
{
    char *here;

    for (int i = 0; i < wr->num_sge; i++) {
        here = is_inline ? (char *)(uintptr_t)wr->sg_list[i].addr
                         : reach(context, wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey, 0);
        if (here == NULL) {
            return -1;
        }
        memcpy(is_read ? here : there, is_read ? there : here, wr->sg_list[i].length);
        there += wr->sg_list[i].length;
    }
    return 0;
}

/* 0: the peer has no receive. */
static int deliver(const struct ibv_qp *from, struct qp *to, const struct ibv_send_wr *wr, int is_inline)
{
    struct receives *receives = (to->qp.srq != NULL) ? &((struct srq *)to->qp.srq)->receives : &to->receives;
    const uint32_t head = (to->qp.qp_type == IBV_QPT_UD) ? GRH : 0, length = length_of(wr) + head;
    struct ibv_wc wc = {.opcode = IBV_WC_RECV,
                        .qp_num = to->qp.qp_num,
                        .src_qp = from->qp_num,
                        .slid = (uint16_t)device_of(from->context)->lid,
                        .byte_len = length,
                        .wc_flags = (head > 0) ? IBV_WC_GRH : 0};
    struct receive *receive;
    char *there;

    if (receives->count == 0) {
        return 0;
    }
    receive = &receives->ring[receives->first];
    must(length <= receive->sge.length);
    there = reach(to->qp.context, receive->sge.addr, length, receive->sge.lkey, 0);
    must(there != NULL);
    if (head > 0) {
        const struct ah *ah = (const struct ah *)wr->wr.ud.ah;

        memset(there, 0, GRH);
        gid_of(from->context, (uint8_t *)there + 8); /* as IPv6 has it, */
        if (ah != NULL && ah->gid_index == 1) {
            memcpy(there + 8, device_is.vlan_gid, 16);
        }
        memcpy(there + 32, there + 8 + 12, 4);       /* and as IPv4 has it */
    }
    must(move(from->context, wr, is_inline, there + head, 0) == 0);
    wc.wr_id = receive->id;
    if (wr->opcode == IBV_WR_SEND_WITH_IMM) {
        wc.wc_flags |= IBV_WC_WITH_IMM;
        wc.imm_data = wr->imm_data;
    }
    receives->first = (receives->first + 1) % receives->most;
    receives->count--;
    complete(to->qp.recv_cq, (struct done){wc, NULL, 0});
    return 1;
}

int stand_in_datagram(uint32_t src_qp, struct ibv_qp *to, const void *bytes, uint32_t length)
{
    const struct ibv_qp from = {.context = to->context, .qp_num = src_qp};
    struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = length};
    const struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};

    return deliver(&from, (struct qp *)to, &wr, 1);
}

/* Delivers a datagram, loses it, or delivers one of the last ones before it. */
static void carry_datagram(const struct qp *qp, struct qp *to, const struct send *send)
{
    static struct {
        uint32_t from, to, length;
        char bytes[512];
    } old[16];
    static unsigned next;
    const unsigned at = (unsigned)rand() % 16;

    device_saw.datagrams++;
    if (rand() % 100 < device_is.loses) {
        return;
    }
    if (rand() % 100 < device_is.loses && old[at].length > 0 && find_qp(old[at].from) != NULL &&
        find_qp(old[at].to) != NULL) {
        (void)stand_in_datagram(old[at].from, &find_qp(old[at].to)->qp, old[at].bytes, old[at].length);
    }
    (void)deliver(&qp->qp, to, &send->wr, send->is_inline);
    if (device_is.loses > 0) {
        old[next % 16].from = qp->qp.qp_num;
        old[next % 16].to = to->qp.qp_num;
        old[next % 16].length = length_of(&send->wr);
        (void)move(qp->qp.context, &send->wr, send->is_inline, old[next++ % 16].bytes, 0);
    }
}

static enum ibv_wc_status access_peer(const struct qp *qp, const struct send *send, const struct qp *to)
{
    const struct ibv_send_wr *wr = &send->wr;
    const int is_add = wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const int is_atomic = is_add || wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const uint32_t length = length_of(wr);
    uint64_t old, new;
    char *there;

    if (length == 0) {
        return IBV_WC_SUCCESS;
    }
    if (is_atomic) {
        there = reach(to->qp.context, wr->wr.atomic.remote_addr, length, wr->wr.atomic.rkey, IBV_ACCESS_REMOTE_ATOMIC);
    } else {
        there = reach(to->qp.context, wr->wr.rdma.remote_addr, length, wr->wr.rdma.rkey,
                      (wr->opcode == IBV_WR_RDMA_READ) ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    }
    if (there == NULL) {
        return IBV_WC_REM_ACCESS_ERR;
    }
    if (!is_atomic) {
        return (move(qp->qp.context, wr, send->is_inline, there, wr->opcode == IBV_WR_RDMA_READ) == 0)
                   ? IBV_WC_SUCCESS
                   : IBV_WC_LOC_PROT_ERR;
    }
    memcpy(&old, there, sizeof(old));
    new = old;
    if (is_add) {
        new += wr->wr.atomic.compare_add;
    } else if (old == wr->wr.atomic.compare_add) {
        new = wr->wr.atomic.swap;
    }
    if (move(qp->qp.context, wr, send->is_inline, there, 1) != 0) {
        return IBV_WC_LOC_PROT_ERR;
    }
    memcpy(there, &new, sizeof(new));
    return IBV_WC_SUCCESS;
}

/* The target refuses a request: its queue pair is broken, and so is that of the sender when it learns of it. */
static void refuse(struct qp *qp, struct qp *to)
{
    device_saw.refusals++;
    become_error(to);
    if (!device_is.has_no_access_events) {
        add_event((struct context *)to->qp.context,
                  (struct ibv_async_event){.event_type = IBV_EVENT_QP_ACCESS_ERR, .element.qp = &to->qp});
    }
    if (!device_is.is_mute) {
        end_send(qp, IBV_WC_REM_ACCESS_ERR);
        become_error(qp);
    }
}

static bool is_cut(const struct qp *qp)
{
    return (device_is.cut & (1u << (device_of(qp->qp.context) - devices))) != 0;
}

/* The next request to be carried out; NULL: only the answers to earlier ones are missing. */
static struct send *next_of(const struct qp *qp)
{
    struct send *send = qp->sends;

    while (send != NULL && send->is_executed) {
        send = send->next;
    }
    return send;
}

/* Carries out the next request, if that is possible, or notifies the sender of the oldest one. */
static void carry_one(struct qp *qp)
{
    struct send *send = next_of(qp);
    const int is_datagram = qp->qp.qp_type == IBV_QPT_UD;
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    struct qp *to;

    if (device_of(qp->qp.context)->is_dead) {
        return;
    }
    if (qp->qp.state == IBV_QPS_ERR) {
        if (rand() % 1000 == 0) {
            end_send(qp, IBV_WC_WR_FLUSH_ERR);
        }
        return;
    }
    if (is_cut(qp)) {
        if (is_datagram) {
            end_send(qp, IBV_WC_SUCCESS); /* it was sent */
        } else if (!device_is.repeats) {
            end_send(qp, IBV_WC_RETRY_EXC_ERR);
            become_error(qp);
        }
        return;
    }
    if (send == NULL || (qp->sends->is_executed && rand() % 4 == 0)) {
        end_send(qp, IBV_WC_SUCCESS);
        return;
    }
    to = find_qp(is_datagram ? send->wr.wr.ud.remote_qpn : qp->peer);
    if (to != NULL && (to->qp.state < IBV_QPS_RTR || to->qp.state > IBV_QPS_RTS ||
                       device_of(to->qp.context)->is_dead)) {
        to = NULL;
    }
    if (is_datagram && device_is.breaks > 0) {
        device_is.breaks--;
        status = IBV_WC_LOC_QP_OP_ERR;
    } else if (is_datagram) {
        if (to != NULL) {
            carry_datagram(qp, to, send);
        }
    } else if (to == NULL) {
        if (device_is.repeats) {
            return;
        }
        status = IBV_WC_RETRY_EXC_ERR;
    } else if (send->wr.opcode == IBV_WR_SEND || send->wr.opcode == IBV_WR_SEND_WITH_IMM) {
        if (!deliver(&qp->qp, to, &send->wr, send->is_inline)) {
            return;
        }
    } else {
        status = access_peer(qp, send, to);
    }
    if (status == IBV_WC_SUCCESS && !is_datagram && device_is.acks_late) {
        send->is_executed = 1;
        return;
    }
    while (qp->sends != send) {
        end_send(qp, IBV_WC_SUCCESS);
    }
    if (status == IBV_WC_REM_ACCESS_ERR) {
        refuse(qp, to);
        return;
    }
    end_send(qp, status);
    if (status != IBV_WC_SUCCESS) {
        become_error(qp);
    }
}

static void carry(void)
{
    for (int i = 0; i < STEPS && !device_is.stands && busy != NULL; i++) {
        struct qp *qp = busy;

        leave_busy(qp);
        if (qp->sends != NULL) {
            carry_one(qp);
        }
        if (qp->sends != NULL) {
            join_busy(qp);
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
    for (; count < most && cq->count > 0; cq->count--) {
        const struct done *done = done_at(cq, 0);

        wc[count++] = done->wc;
        if (done->qp != NULL) {
            done->qp->freed = done->places;
        }
        cq->first = (cq->first + 1) % (unsigned)super->cqe;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
