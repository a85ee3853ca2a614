/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts what a program asks of a device of RDMA, below whatever library it uses: LD_PRELOAD=.../verbs_count.so and
 * CW_VERBS_COUNT=FILE; when the program ends, FILE.PROCESS holds lines "name number". Programs that are linked with
 * libibverbs are counted, and those that open it later.
 *
 * Posts and polls are no functions of libibverbs but pointers in the opened device, which are replaced in the object
 * that ibv_open_device() returns. What goes by the interface of ibv_wr_start() and ibv_start_poll() is not counted:
 * `extended` says that a queue for it was made.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A macro with that name checks flags when compiling. */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))

enum { DEVICES = 16, TYPES = 3, OPCODES = 8 };

enum count {
    DOORBELLS,
    SENDS,
    SIGNALLED,
    INLINED,
    INLINED_BYTES,
    PIECES,
    GATHERED_BYTES, /* of sends, behind the first piece */
    RECV_CALLS,
    RECVS,
    POLLS,
    POLLS_EMPTY,
    COMPLETIONS,
    COMPLETIONS_SEND,
    COMPLETIONS_BAD,
    ARMS,
    REGISTRATIONS,
    REGISTERED_BYTES,
    DEREGISTRATIONS,
    QPS,
    CQS,
    SRQS,
    QUEUE_SENDS,
    QUEUE_RECVS,
    EXTENDED,
    COUNTS
};

static const char *const names[COUNTS] = {
    "doorbells",
    "sends",
    "signalled",
    "inlined",
    "inlined_bytes",
    "pieces",
    "gathered_bytes",
    "recv_calls",
    "recvs",
    "polls",
    "polls_empty",
    "completions",
    "completions_send",
    "completions_bad",
    "arms",
    "registrations",
    "registered_bytes",
    "deregistrations",
    "qps",
    "cqs",
    "srqs",
    "queue_sends",
    "queue_recvs",
    "extended",
};
static const char *const types[TYPES] = {"rc", "ud", "other"};
static const char *const opcodes[OPCODES] = {"write", "write_imm", "send", "send_imm", "read", "cas", "fadd", "other"};

static _Atomic uint64_t counts[COUNTS];
static _Atomic uint64_t requests[TYPES][OPCODES];
static _Atomic uint64_t bytes[TYPES][OPCODES];

/* The functions of the devices that were opened; one device opened twice may well have them twice. */
static struct {
    struct ibv_context *context;
    struct ibv_context_ops ops;
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *init);
    struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context, struct ibv_cq_init_attr_ex *init);
} devices[DEVICES];
static _Atomic int device_count;

static void add(enum count what, uint64_t number)
{
    atomic_fetch_add_explicit(&counts[what], number, memory_order_relaxed);
}

static int index_of(const struct ibv_context *context)
{
    for (int i = atomic_load(&device_count) - 1; i >= 0; i--) {
        if (devices[i].context == context) {
            return i;
        }
    }
    fprintf(stderr, "verbs_count: a queue of a device that was not opened before\n");
    _exit(1);
}

static const struct ibv_context_ops *ops_of(const struct ibv_context *context)
{
    return &devices[index_of(context)].ops;
}

static unsigned type_of(const struct ibv_qp *qp)
{
    switch (qp->qp_type) {
    case IBV_QPT_RC:
        return 0;
    case IBV_QPT_UD:
        return 1;
    default:
        return 2;
    }
}

static void count_request(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
    const unsigned type = type_of(qp);
    const unsigned opcode = (unsigned)wr->opcode < OPCODES - 1 ? (unsigned)wr->opcode : OPCODES - 1;
    uint64_t length = 0;

    for (int i = 0; i < wr->num_sge; i++) {
        length += wr->sg_list[i].length;
    }
    atomic_fetch_add_explicit(&requests[type][opcode], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&bytes[type][opcode], length, memory_order_relaxed);
    add(SENDS, 1);
    add(PIECES, (uint64_t)wr->num_sge);
    if ((wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_IMM) && wr->num_sge > 1 &&
        !(wr->send_flags & IBV_SEND_INLINE)) {
        add(GATHERED_BYTES, length - wr->sg_list[0].length);
    }
    add(SIGNALLED, (wr->send_flags & IBV_SEND_SIGNALED) != 0);
    if (wr->send_flags & IBV_SEND_INLINE) {
        add(INLINED, 1);
        add(INLINED_BYTES, length);
    }
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct ibv_send_wr *end = NULL;
    const int result = ops_of(qp->context)->post_send(qp, wr, bad);

    if (result != 0) {
        end = *bad;
    }
    add(DOORBELLS, wr != end);
    for (; wr != end; wr = wr->next) {
        count_request(qp, wr);
    }
    return result;
}

static void count_receives(const struct ibv_recv_wr *wr, const struct ibv_recv_wr *end)
{
    add(RECV_CALLS, wr != end);
    for (; wr != end; wr = wr->next) {
        add(RECVS, 1);
    }
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const int result = ops_of(qp->context)->post_recv(qp, wr, bad);

    count_receives(wr, result != 0 ? *bad : NULL);
    return result;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    const int result = ops_of(srq->context)->post_srq_recv(srq, wr, bad);

    count_receives(wr, result != 0 ? *bad : NULL);
    return result;
}

static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    const int got = ops_of(cq->context)->poll_cq(cq, most, wc);

    add(POLLS, 1);
    add(POLLS_EMPTY, got <= 0);
    for (int i = 0; i < got; i++) {
        add(COMPLETIONS, 1);
        add(COMPLETIONS_BAD, wc[i].status != IBV_WC_SUCCESS);
        add(COMPLETIONS_SEND, wc[i].status == IBV_WC_SUCCESS && (wc[i].opcode & IBV_WC_RECV) == 0);
    }
    return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
    add(ARMS, 1);
    return ops_of(cq->context)->req_notify_cq(cq, solicited);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *init)
{
    struct ibv_qp *qp = devices[index_of(context)].create_qp_ex(context, init);

    if (qp != NULL) {
        add(QPS, 1);
        add(QUEUE_SENDS, init->cap.max_send_wr);
        add(QUEUE_RECVS, init->srq == NULL ? init->cap.max_recv_wr : 0);
        add(EXTENDED, (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0);
    }
    return qp;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *init)
{
    add(CQS, 1);
    add(EXTENDED, 1);
    return devices[index_of(context)].create_cq_ex(context, init);
}

static void *(*real_dlsym)(void *handle, const char *name);

/* The function of libibverbs that one of ours stands before. */
static void *real(const char *name)
{
    if (real_dlsym == NULL) {
        real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    void *found = real_dlsym != NULL ? real_dlsym(RTLD_NEXT, name) : NULL;
    if (found == NULL && real_dlsym != NULL) {
        /* It came by dlopen(), out of sight of RTLD_NEXT. */
        void *library = dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_LAZY);
        found = library != NULL ? real_dlsym(library, name) : NULL;
    }
    if (found == NULL) {
        fprintf(stderr, "verbs_count: there is no %s\n", name);
        _exit(1);
    }
    return found;
}

#define REAL(name) ((__typeof__(&name))real(#name))

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *context = REAL(ibv_open_device)(device);
    const int index = atomic_load(&device_count);

    if (context == NULL) {
        return NULL;
    }
    if (index == DEVICES) {
        fprintf(stderr, "verbs_count: more than %d devices opened: this one is not counted\n", DEVICES);
        return context;
    }
    devices[index].context = context;
    devices[index].ops = context->ops;
    struct verbs_context *extended = verbs_get_ctx(context);
    if (extended != NULL) {
        devices[index].create_qp_ex = extended->create_qp_ex;
        devices[index].create_cq_ex = extended->create_cq_ex;
        extended->create_qp_ex = extended->create_qp_ex != NULL ? create_qp_ex : NULL;
        extended->create_cq_ex = extended->create_cq_ex != NULL ? create_cq_ex : NULL;
    }
    atomic_store(&device_count, index + 1);
    context->ops.post_send = post_send;
    context->ops.post_recv = post_recv;
    context->ops.post_srq_recv = post_srq_recv;
    context->ops.poll_cq = poll_cq;
    context->ops.req_notify_cq = req_notify_cq;
    return context;
}

/* libibverbs carries out one of these functions by calling another by its name, which is one of ours again: only the
 * outermost call counts. */
static _Thread_local int depth;

static struct ibv_mr *count_registration(struct ibv_mr *mr, size_t length)
{
    if (--depth == 0 && mr != NULL) {
        add(REGISTRATIONS, 1);
        add(REGISTERED_BYTES, length);
    }
    return mr;
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
    depth++;
    return count_registration(REAL(ibv_reg_mr)(pd, address, length, access), length);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, int access)
{
    depth++;
    return count_registration(REAL(ibv_reg_mr_iova)(pd, address, length, iova, access), length);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova, unsigned access)
{
    depth++;
    return count_registration(REAL(ibv_reg_mr_iova2)(pd, address, length, iova, access), length);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    add(DEREGISTRATIONS, 1);
    return REAL(ibv_dereg_mr)(mr);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    struct ibv_qp *qp = REAL(ibv_create_qp)(pd, init);

    if (qp != NULL) {
        add(QPS, 1);
        add(QUEUE_SENDS, init->cap.max_send_wr);
        add(QUEUE_RECVS, init->srq == NULL ? init->cap.max_recv_wr : 0);
    }
    return qp;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    add(CQS, 1);
    return REAL(ibv_create_cq)(context, entries, cq_context, channel, vector);
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    struct ibv_srq *srq = REAL(ibv_create_srq)(pd, init);

    add(SRQS, 1);
    add(QUEUE_RECVS, srq != NULL ? init->attr.max_wr : 0);
    return srq;
}

/* A program that opens libibverbs itself asks for its functions by name. */
EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    static const struct {
        const char *name;
        void *function;
    } ours[] = {
        {"ibv_open_device", (void *)ibv_open_device}, {"ibv_reg_mr", (void *)ibv_reg_mr},
        {"ibv_reg_mr_iova", (void *)ibv_reg_mr_iova}, {"ibv_reg_mr_iova2", (void *)ibv_reg_mr_iova2},
        {"ibv_dereg_mr", (void *)ibv_dereg_mr},       {"ibv_create_qp", (void *)ibv_create_qp},
        {"ibv_create_cq", (void *)ibv_create_cq},     {"ibv_create_srq", (void *)ibv_create_srq},
    };

    if (real_dlsym == NULL) {
        real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
    }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
        if (strcmp(name, ours[i].name) == 0) {
            return ours[i].function;
        }
    }
    return real_dlsym(handle, name);
}

__attribute__((destructor)) static void print_counts(void)
{
    const char *path = getenv("CW_VERBS_COUNT");
    char own[4096];

    if (path == NULL || atomic_load(&device_count) == 0) {
        return;
    }
    snprintf(own, sizeof(own), "%s.%d", path, (int)getpid());
    FILE *file = fopen(own, "we");
    if (file == NULL) {
        fprintf(stderr, "verbs_count: %s: %s\n", own, strerror(errno));
        return;
    }
    for (int i = 0; i < COUNTS; i++) {
        fprintf(file, "%s %llu\n", names[i], (unsigned long long)atomic_load(&counts[i]));
    }
    for (int type = 0; type < TYPES; type++) {
        for (int opcode = 0; opcode < OPCODES; opcode++) {
            fprintf(file, "%s_%s %llu\n", types[type], opcodes[opcode],
                    (unsigned long long)atomic_load(&requests[type][opcode]));
            fprintf(file, "%s_%s_bytes %llu\n", types[type], opcodes[opcode],
                    (unsigned long long)atomic_load(&bytes[type][opcode]));
        }
    }
    fclose(file);
}
