/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives a device of RDMA in software habits that drivers of hardware have: LD_PRELOAD=.../rdma_habits.so and
 * CW_HABITS=WORD[,WORD...] of
 *
 *   discard   completions of a queue pair that nobody has polled are removed when it is destroyed (mlx4, mlx5, hns)
 *   late      completions with errors appear 30 ms late
 *   never     completions with errors do not appear
 *   garbage   of a completion with an error only wr_id, status and qp_num are defined (ibv_poll_cq(3))
 *   event     a queue pair with a shared receive queue that fails makes an event, IBV_EVENT_QP_LAST_WQE_REACHED, and
 *             cannot be destroyed before that is acknowledged
 *   unmapped  the end of a registration breaks the queue pairs of its device as an access to it would, and the peers
 *             get no answer: IBV_EVENT_QP_ACCESS_ERR
 *   inline    a queue pair for more than 16 inline bytes is refused; others have no more room than was asked for
 *
 * What the program must not do ends it with 3. The receives of a shared queue that were discarded are counted, and the
 * number is written to the descriptor 2 when the process ends.
 */
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { QPS = 1024, CQS = 64, ENTRIES = 16384, EVENTS = 1024, DEVICES = 16, INLINE = 16, TAKEN = 64 };

enum habit { DISCARD = 1, LATE = 2, NEVER = 4, GARBAGE = 8, EVENT = 16, INLINED = 32, UNMAPPED = 64 };

static const struct {
    const char *word;
    unsigned bit;
} words[] = {{"discard", DISCARD}, {"late", LATE},      {"never", NEVER},      {"garbage", GARBAGE},
             {"event", EVENT},     {"inline", INLINED}, {"unmapped", UNMAPPED}};

/* Completions that the device has given and the program has not taken, the oldest first. */
static struct queue {
    struct ibv_cq *cq;
    int count;
    struct {
        uint64_t at_ns;
        struct ibv_wc wc;
    } entries[ENTRIES];
} *queues[CQS];

static struct device {
    struct ibv_context *context;
    int (*poll)(struct ibv_cq *cq, int most, struct ibv_wc *wc);
    int real_fd, signal_fd; /* of events */
} devices[DEVICES];

static struct event {
    struct ibv_qp *qp; /* NULL: none */
    enum ibv_event_type type;
    int is_read;
} events[EVENTS];

static struct ibv_qp *qps[QPS]; /* with a shared receive queue */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int num_devices;
static unsigned long lost;

static unsigned habits(void)
{
    static _Atomic unsigned known;
    const char *text = getenv("CW_HABITS");
    unsigned found = 0;

    for (size_t i = 0; known == 0 && text != NULL && i < sizeof(words) / sizeof(words[0]); i++) {
        found |= strstr(text, words[i].word) != NULL ? words[i].bit : 0;
    }
    known |= found;
    return known;
}

static void broken(const char *what)
{
    fprintf(stderr, "rdma_habits: %s\n", what);
    _exit(3);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *(*real_dlsym)(void *handle, const char *name);

static void *real(const char *name)
{
    void *library = dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_LAZY);
    void *found = library != NULL ? real_dlsym(library, name) : NULL;

    if (found == NULL) {
        broken("a function of libibverbs is missing");
    }
    return found;
}

#define REAL(name) ((__typeof__(&name))real(#name))

static struct device *device_of(const struct ibv_context *context)
{
    for (int i = 0; i < num_devices; i++) {
        if (devices[i].context == context) {
            return &devices[i];
        }
    }
    broken("a device that was not opened before");
    return NULL;
}

static struct queue *queue_of(struct ibv_cq *cq)
{
    int i;

    for (i = 0; i < CQS && queues[i] != NULL; i++) {
        if (queues[i]->cq == cq) {
            return queues[i];
        }
    }
    for (i = 0; i < CQS && queues[i] != NULL && queues[i]->cq != NULL; i++) {
    }
    if (i < CQS && queues[i] == NULL) {
        queues[i] = calloc(1, sizeof(*queues[i]));
    }
    if (i < CQS && queues[i] != NULL) {
        queues[i]->cq = cq;
        return queues[i];
    }
    broken("more completion queues than it has room for");
    return NULL;
}

/* What the program must not read. */
static void spoil(struct ibv_wc *wc)
{
    struct ibv_wc spoiled;

    memset(&spoiled, 0xa5, sizeof(spoiled));
    spoiled.wr_id = wc->wr_id;
    spoiled.status = wc->status;
    spoiled.qp_num = wc->qp_num;
    *wc = spoiled;
}

/* Takes everything from the device. */
static void fetch(struct queue *queue)
{
    const struct device *device = device_of(queue->cq->context);
    struct ibv_wc wc[TAKEN];
    int num;

    while ((num = device->poll(queue->cq, TAKEN, wc)) > 0) {
        for (int i = 0; i < num; i++) {
            const int failed = wc[i].status != IBV_WC_SUCCESS;

            if (failed && (habits() & NEVER)) {
                continue;
            }
            if (failed && (habits() & GARBAGE)) {
                spoil(&wc[i]);
            }
            if (queue->count == ENTRIES) {
                broken("more completions than it has room for");
            }
            queue->entries[queue->count].wc = wc[i];
            queue->entries[queue->count++].at_ns = now_ns() + (failed && (habits() & LATE) ? 30000000 : 0);
        }
    }
}

/* Completions of one queue pair stay in their order; late ones do not hold others up. */
static int poll_cq(struct ibv_cq *cq, int most, struct ibv_wc *wc)
{
    const uint64_t now = now_ns();
    struct queue *queue;
    int got = 0, left = 0;

    pthread_mutex_lock(&lock);
    queue = queue_of(cq);
    fetch(queue);
    for (int i = 0; i < queue->count; i++) {
        if (got < most && queue->entries[i].at_ns <= now) {
            wc[got++] = queue->entries[i].wc;
        } else {
            queue->entries[left++] = queue->entries[i];
        }
    }
    queue->count = left;
    pthread_mutex_unlock(&lock);
    return got;
}

/* Returns the number of completions that were removed. */
static unsigned discard(struct ibv_cq *cq, uint32_t qp_num)
{
    struct queue *queue = queue_of(cq);
    unsigned gone = 0;
    int left = 0;

    fetch(queue);
    for (int i = 0; i < queue->count; i++) {
        if (queue->entries[i].wc.qp_num == qp_num) {
            gone++;
        } else {
            queue->entries[left++] = queue->entries[i];
        }
    }
    queue->count = left;
    return gone;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *list)
{
    struct ibv_context *context = REAL(ibv_open_device)(list);
    struct epoll_event real_one = {.events = EPOLLIN}, own = {.events = EPOLLIN};
    struct device *device;
    int fd;

    if (context == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    for (device = devices; device < devices + num_devices && device->context != NULL; device++) {
    }
    if (device == devices + DEVICES) {
        broken("more devices than it has room for");
    }
    num_devices += device == devices + num_devices;
    *device = (struct device){.context = context, .poll = context->ops.poll_cq, .real_fd = context->async_fd};
    context->ops.poll_cq = poll_cq;
    if (habits() & (EVENT | UNMAPPED)) {
        fd = epoll_create1(EPOLL_CLOEXEC);
        device->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (epoll_ctl(fd, EPOLL_CTL_ADD, device->real_fd, &real_one) != 0 ||
            epoll_ctl(fd, EPOLL_CTL_ADD, device->signal_fd, &own) != 0) {
            broken("no descriptor for events");
        }
        context->async_fd = fd;
    }
    pthread_mutex_unlock(&lock);
    return context;
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
    struct device *device = device_of(context);

    if (context->async_fd != device->real_fd) {
        close(context->async_fd);
        close(device->signal_fd);
        context->async_fd = device->real_fd;
    }
    device->context = NULL;
    return REAL(ibv_close_device)(context);
}

/* The kernel is given the descriptor of events with each new object, and wants its own. */
#define CREATED(context, call)                                                                                         \
    ({                                                                                                                 \
        const int own_fd    = (context)->async_fd;                                                                     \
        (context)->async_fd = device_of(context)->real_fd;                                                             \
        __typeof__(call) made = call;                                                                                  \
        (context)->async_fd = own_fd;                                                                                  \
        made;                                                                                                          \
    })

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
                                    struct ibv_comp_channel *channel, int vector)
{
    return CREATED(context, REAL(ibv_create_cq)(context, entries, cq_context, channel, vector));
}

EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
    return CREATED(pd->context, REAL(ibv_create_srq)(pd, init));
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    const struct device *device = device_of(context);
    const int fd = context->async_fd;
    struct epoll_event ready[2];
    uint64_t number;
    int result;

    if (!(habits() & (EVENT | UNMAPPED))) {
        return REAL(ibv_get_async_event)(context, event);
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].qp != NULL && !events[i].is_read && events[i].qp->context == context) {
            events[i].is_read = 1;
            *event = (struct ibv_async_event){.event_type = events[i].type, .element.qp = events[i].qp};
            pthread_mutex_unlock(&lock);
            return 0;
        }
    }
    (void)!read(device->signal_fd, &number, sizeof(number));
    pthread_mutex_unlock(&lock);
    if (epoll_wait(fd, ready, 2, 0) <= 0) {
        errno = EAGAIN;
        return -1;
    }
    context->async_fd = device->real_fd;
    result = REAL(ibv_get_async_event)(context, event);
    context->async_fd = fd;
    return result;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].is_read && event->event_type == events[i].type && events[i].qp == event->element.qp) {
            events[i] = (struct event){.qp = NULL};
            pthread_mutex_unlock(&lock);
            return;
        }
    }
    pthread_mutex_unlock(&lock);
    REAL(ibv_ack_async_event)(event);
}

static void make_event(struct ibv_qp *qp, enum ibv_event_type type)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].qp == NULL) {
            events[i] = (struct event){.qp = qp, .type = type};
            (void)!write(device_of(qp->context)->signal_fd, &one, sizeof(one));
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    const int is_new = qp->state != IBV_QPS_ERR;
    const int result = REAL(ibv_modify_qp)(qp, attr, mask);

    if (result == 0 && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR && is_new && qp->srq != NULL &&
        (habits() & EVENT)) {
        make_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
    }
    return result;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct ibv_context *context = mr->context;
    const int result = REAL(ibv_dereg_mr)(mr);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    for (int i = 0; i < QPS && (habits() & UNMAPPED); i++) {
        if (qps[i] != NULL && qps[i]->context == context && qps[i]->state == IBV_QPS_RTS) {
            (void)REAL(ibv_modify_qp)(qps[i], &attr, IBV_QP_STATE);
            make_event(qps[i], IBV_EVENT_QP_ACCESS_ERR);
        }
    }
    return result;
}

/* An event that nobody has read goes with its queue pair; libibverbs waits for the acknowledgement of one that was. */
EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct ibv_cq *recv_cq = qp->recv_cq, *send_cq = qp->send_cq;
    const uint32_t qp_num = qp->qp_num;
    const int is_shared = qp->srq != NULL;
    int result;

    pthread_mutex_lock(&lock);
    for (int i = 0; i < EVENTS; i++) {
        if (events[i].qp == qp && events[i].is_read) {
            broken("a queue pair is destroyed before its event was acknowledged");
        }
        events[i].qp = events[i].qp == qp ? NULL : events[i].qp;
    }
    for (int i = 0; i < QPS; i++) {
        qps[i] = qps[i] == qp ? NULL : qps[i];
    }
    pthread_mutex_unlock(&lock);
    result = REAL(ibv_destroy_qp)(qp);
    pthread_mutex_lock(&lock);
    if (result == 0 && (habits() & DISCARD)) {
        const unsigned gone = discard(recv_cq, qp_num);

        lost += is_shared ? gone : 0;
        if (send_cq != recv_cq) {
            (void)discard(send_cq, qp_num);
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < CQS && queues[i] != NULL; i++) {
        if (queues[i]->cq == cq) {
            queues[i]->cq = NULL;
            queues[i]->count = 0;
        }
    }
    pthread_mutex_unlock(&lock);
    return REAL(ibv_destroy_cq)(cq);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
    const uint32_t asked = init->cap.max_inline_data;
    struct ibv_qp *qp;

    if ((habits() & INLINED) && asked > INLINE) {
        errno = EINVAL;
        return NULL;
    }
    qp = CREATED(pd->context, REAL(ibv_create_qp)(pd, init));
    if (qp != NULL && (habits() & INLINED)) {
        init->cap.max_inline_data = asked;
    }
    for (int i = 0; i < QPS && qp != NULL && qp->srq != NULL; i++) {
        if (qps[i] == NULL) {
            qps[i] = qp;
            break;
        }
    }
    return qp;
}

/* A program that opens libibverbs itself asks for its functions by name. */
EXPORT void *dlsym(void *restrict handle, const char *restrict name)
{
    static const struct {
        const char *name;
        void *function;
    } ours[] = {
        {"ibv_open_device", (void *)ibv_open_device},         {"ibv_close_device", (void *)ibv_close_device},
        {"ibv_get_async_event", (void *)ibv_get_async_event}, {"ibv_ack_async_event", (void *)ibv_ack_async_event},
        {"ibv_modify_qp", (void *)ibv_modify_qp},             {"ibv_destroy_qp", (void *)ibv_destroy_qp},
        {"ibv_destroy_cq", (void *)ibv_destroy_cq},           {"ibv_create_qp", (void *)ibv_create_qp},
        {"ibv_dereg_mr", (void *)ibv_dereg_mr},               {"ibv_create_cq", (void *)ibv_create_cq},
        {"ibv_create_srq", (void *)ibv_create_srq},
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
    if (lost > 0) {
        fprintf(stderr, "rdma_habits: %lu receives were discarded with their queue pairs\n", lost);
    }
}
