/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads and peers that die and return. This process has THREADS threads, half of them on one worker of mode MULTI,
 * the others on workers of their own. They connect, unpack keys, put, get, send active messages and close, against
 * peers that are killed, end and start again at once, with a new process or a new worker. Held to: every request ends,
 * the handler of an endpoint runs once at most and not after its close, what is read is right, and descriptors,
 * mappings and memory are constant from round to round. -t: seconds, -n: rounds of ROUND_S each.
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    THREADS = 16,
    PEERS = 5,
    LINKS = 4, /* endpoints of a thread */
    OPS = 12,  /* requests of a thread under way */
    BLOB = 4096,
    SAFE = 4096, /* bytes of a region that nobody writes */
    REGION = 512 << 10,
    AM_ASK = 1,
    AM_ANSWER = 2,
    WARM_UP = 3,
    MEMORY_SLACK = 16384,
    MAPS_SLACK = 4
};

#define ROUND_S 1.5

/* What a peer says of itself; the bytes are the worker's address and the key. */
struct place {
    uint64_t address;
    uint32_t address_length;
    uint32_t key_length;
    unsigned char pattern;
    char bytes[BLOB];
};

static double now_s(void)
{
    return (double)cw_now_ns() * 1e-9; /* cw_now_s is for one thread */
}

static ucp_context_h new_context(bool shared)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                    .features = UCP_FEATURE_AM | UCP_FEATURE_RMA,
                    .mt_workers_shared = shared};
    ucp_context_h context;

    cw_check(ucp_init(&params, NULL, &context) == UCS_OK);
    return context;
}

static ucp_worker_h new_worker(ucp_context_h context, ucs_thread_mode_t mode)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = mode};
    ucp_worker_h worker;

    cw_check(ucp_worker_create(context, &params, &worker) == UCS_OK);
    return worker;
}

static void set_handler(ucp_worker_h worker, unsigned id, ucp_am_recv_callback_t cb, void *arg)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                  UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                    .id = id,
                                    .cb = cb,
                                    .arg = arg};

    cw_check(ucp_worker_set_am_recv_handler(worker, &param) == UCS_OK);
}

/* ---- the peer ---- */

static char peer_region[REGION];

static void answer_ended(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    (void)arg;
    ucp_request_free(request);
}

static void fetched(void *request, ucs_status_t status, size_t length, void *arg)
{
    (void)status;
    (void)length;
    free(arg);
    ucp_request_free(request);
}

static ucs_status_t asked(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    ucp_worker_h worker = arg;
    ucp_request_param_t answer = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS,
                                  .flags = UCP_AM_SEND_FLAG_COPY_HEADER,
                                  .cb = {.send = answer_ended}};
    ucp_request_param_t fetch = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                 .cb = {.recv_am = fetched}};

    if (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) {
        (void)ucp_am_send_nbx(param->reply_ep, AM_ANSWER, header, header_length, "answer", 6, &answer);
    }
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) && length % 2 == 0) {
        fetch.user_data = malloc(length);
        if (!UCS_PTR_IS_PTR(ucp_am_recv_data_nbx(worker, data, fetch.user_data, length, &fetch))) {
            free(fetch.user_data);
        }
        return UCS_INPROGRESS;
    }
    return UCS_OK;
}

/* Serves until it is ordered to go, or killed. false: the parent is gone. */
static bool serve(int fd, ucp_context_h context, unsigned char pattern)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .address = peer_region,
                                   .length = REGION};
    ucp_worker_h worker = new_worker(context, UCS_THREAD_MODE_SINGLE);
    struct place place = {.address = (uintptr_t)peer_region, .pattern = pattern};
    struct pollfd item = {.fd = fd, .events = POLLIN};
    ucp_address_t *address;
    size_t length, key_length;
    unsigned idle = 0;
    ucp_mem_h memory;
    void *key;
    char word;

    memset(peer_region, pattern, SAFE);
    set_handler(worker, AM_ASK, asked, worker);
    cw_check(ucp_mem_map(context, &params, &memory) == UCS_OK);
    cw_check(ucp_rkey_pack(context, memory, &key, &key_length) == UCS_OK);
    cw_check(ucp_worker_get_address(worker, &address, &length) == UCS_OK);
    cw_check(length + key_length <= BLOB);
    place.address_length = (uint32_t)length;
    place.key_length = (uint32_t)key_length;
    memcpy(place.bytes, address, length);
    memcpy(place.bytes + length, key, key_length);
    ucp_worker_release_address(worker, address);
    ucp_rkey_buffer_release(key);
    if (!cw_fd_write(fd, &place, sizeof(place))) {
        return false;
    }
    while (poll(&item, 1, (idle > 100) ? 1 : 0) == 0) {
        idle = (ucp_worker_progress(worker) > 0) ? 0 : idle + 1;
    }
    ucp_worker_destroy(worker);
    cw_check(ucp_mem_unmap(context, memory) == UCS_OK);
    return cw_fd_read(fd, &word, 1, NULL);
}

static int peer_run(int fd, const char *argument)
{
    ucp_context_h context = new_context(false);
    unsigned char pattern = (unsigned char)atoi(argument);

    cw_run.name = "peer";
    while (serve(fd, context, pattern)) {
        pattern++;
    }
    ucp_cleanup(context);
    return 0;
}

/* ---- the threads ---- */

/* Lives until the round ends, for a handler that is called too late. */
struct link {
    struct link *next;
    ucp_ep_h ep;
    ucp_rkey_h key;
    struct place place;
    atomic_int failures;
    atomic_bool is_closed;
};

enum kind { PUT, GET, SEND, FLUSH, CLOSE, KINDS };

struct op {
    enum kind kind;
    ucs_status_ptr_t request; /* NULL: the place is free */
    double end;
    struct link *link;
    size_t length;
    char *bytes; /* of a get */
};

struct thread {
    pthread_t id;
    ucp_worker_h worker;
    uint64_t random;
    struct link *links[LINKS], *closed;
    struct op ops[OPS];
    unsigned long counts[KINDS], errors;
};

static const char *const kind_names[KINDS] = {"put", "get", "send", "flush", "close"};
static pthread_mutex_t places_lock = PTHREAD_MUTEX_INITIALIZER;
static struct place places[PEERS];
static atomic_bool stopping;
static char source[REGION];
static atomic_ulong answers, failed_links;

static ucs_status_t answered(void *arg, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)param;
    cw_check(header_length == 8 && memcmp(header, "question", 8) == 0);
    cw_check(length == 6 && memcmp(data, "answer", 6) == 0);
    atomic_fetch_add(&answers, 1);
    return UCS_OK;
}

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct link *link = arg;

    (void)ep;
    cw_check(status != UCS_OK);
    if (atomic_fetch_add(&link->failures, 1) != 0) {
        cw_fail("the handler of an endpoint was called twice");
    }
    if (atomic_load(&link->is_closed)) {
        cw_fail("the handler of an endpoint was called after its close");
    }
    atomic_fetch_add(&failed_links, 1);
}

static struct link *link_new(struct thread *thread)
{
    struct link *link = calloc(1, sizeof(*link));
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {on_failure, link}};

    cw_check(link != NULL);
    pthread_mutex_lock(&places_lock);
    link->place = places[cw_random_below(&thread->random, PEERS)];
    pthread_mutex_unlock(&places_lock);
    params.address = (const ucp_address_t *)link->place.bytes;
    if (ucp_ep_create(thread->worker, &params, &link->ep) != UCS_OK) { /* the peer's rings may be gone already */
        free(link);
        return NULL;
    }
    return link;
}

static void op_ended(struct thread *thread, struct op *op, ucs_status_t status)
{
    struct link *link = op->link;

    thread->errors += status != UCS_OK;
    for (size_t i = 0; op->kind == GET && status == UCS_OK && i < op->length; i++) {
        if ((unsigned char)op->bytes[i] != link->place.pattern) {
            cw_fail("byte %zu of %zu that were read is %d, not %d", i, op->length, op->bytes[i],
                       link->place.pattern);
        }
    }
    free(op->bytes);
    op->bytes = NULL;
    op->request = NULL;
    if (op->kind == CLOSE) {
        atomic_store(&link->is_closed, true);
        link->next = thread->closed;
        thread->closed = link;
    }
}

static void collect(struct thread *thread)
{
    ucs_status_t status;

    for (int i = 0; i < OPS; i++) {
        struct op *op = &thread->ops[i];

        if (op->request == NULL) {
            continue;
        }
        status = ucp_request_check_status(op->request);
        if (status != UCS_INPROGRESS) {
            ucp_request_free(op->request);
            op_ended(thread, op, status);
        } else if (now_s() > op->end) {
            cw_fail("a %s has not ended after %d s; the handler was called %d times", kind_names[op->kind],
                       CW_BOUND_S, atomic_load(&op->link->failures));
        }
    }
}

static void begin(struct thread *thread, struct op *op, struct link *link, enum kind kind)
{
    ucp_request_param_t param = {.op_attr_mask = 0};

    op->kind = kind;
    op->link = link;
    op->length = (size_t)1 << cw_random_below(&thread->random, 19);
    op->end = now_s() + CW_BOUND_S;
    thread->counts[kind]++;
    switch (kind) {
    case PUT:
        op->length = (op->length > REGION - SAFE) ? REGION - SAFE : op->length;
        op->request = ucp_put_nbx(link->ep, source, op->length, link->place.address + SAFE, link->key, &param);
        break;
    case GET:
        op->length = (op->length > SAFE) ? SAFE : op->length;
        op->bytes = malloc(op->length);
        op->request = ucp_get_nbx(link->ep, op->bytes, op->length, link->place.address, link->key, &param);
        break;
    case SEND:
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER;
        op->length += cw_random_below(&thread->random, 2);
        op->request = ucp_am_send_nbx(link->ep, AM_ASK, "question", 8, source, op->length - 1, &param);
        break;
    case FLUSH:
        op->request = ucp_ep_flush_nbx(link->ep, &param);
        break;
    default:
        param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
        param.flags = cw_one_in(&thread->random, 2) ? UCP_EP_CLOSE_FLAG_FORCE : 0;
        op->request = ucp_ep_close_nbx(link->ep, &param);
        break;
    }
    if (!UCS_PTR_IS_PTR(op->request)) {
        op_ended(thread, op, UCS_PTR_STATUS(op->request));
    } else if (kind != GET && kind != CLOSE && cw_one_in(&thread->random, 6)) {
        ucp_request_free(op->request); /* it goes on, and a later flush covers it */
        op->request = NULL;
    }
}

static struct op *free_op(struct thread *thread)
{
    for (int i = 0; i < OPS; i++) {
        if (thread->ops[i].request == NULL) {
            return &thread->ops[i];
        }
    }
    return NULL;
}

/* Closes a link, with requests under way or without. */
static void leave(struct thread *thread, int index)
{
    struct link *link = thread->links[index];
    struct op *op = free_op(thread);

    if (op != NULL) {
        thread->links[index] = NULL;
        if (link->key != NULL) {
            ucp_rkey_destroy(link->key);
        }
        begin(thread, op, link, CLOSE);
    }
}

static void act(struct thread *thread)
{
    const int index = (int)cw_random_below(&thread->random, LINKS);
    struct link *link = thread->links[index];
    struct op *op = free_op(thread);

    if (op == NULL) {
        return;
    }
    if (link == NULL) {
        thread->links[index] = link_new(thread);
        return;
    }
    if (cw_one_in(&thread->random, (atomic_load(&link->failures) > 0) ? 3 : 60)) {
        leave(thread, index);
        return;
    }
    if (link->key == NULL || cw_one_in(&thread->random, 20)) {
        ucp_rkey_h key = NULL;

        if (ucp_ep_rkey_unpack(link->ep, link->place.bytes + link->place.address_length, &key) != UCS_OK) {
            return;
        }
        if (link->key != NULL) {
            ucp_rkey_destroy(link->key); /* requests under way may use it */
        }
        link->key = key;
    }
    begin(thread, op, link, (enum kind)cw_random_below(&thread->random, CLOSE));
}

static void *thread_run(void *arg)
{
    struct thread *thread = arg;
    double end;
    bool any;

    while (!atomic_load(&stopping)) {
        act(thread);
        for (size_t i = cw_random_below(&thread->random, 8); i > 0; i--) {
            (void)ucp_worker_progress(thread->worker);
        }
        collect(thread);
    }
    end = now_s() + 2 * CW_BOUND_S;
    do {
        any = false;
        for (int i = 0; i < LINKS; i++) {
            if (thread->links[i] != NULL) {
                leave(thread, i);
                any = true;
            }
        }
        (void)ucp_worker_progress(thread->worker);
        collect(thread);
        for (int i = 0; i < OPS; i++) {
            any = any || thread->ops[i].request != NULL;
        }
        cw_check(now_s() < end);
    } while (any);
    return NULL;
}

/* ---- the round ---- */

static struct cw_process children[PEERS];
static unsigned char next_pattern = 1;
static unsigned long deaths, renewals;

static void learn(int index)
{
    struct place place;

    if (!cw_fd_read(children[index].fd, &place, sizeof(place), NULL)) {
        cw_fail("peer %d says nothing of itself", index);
    }
    pthread_mutex_lock(&places_lock);
    places[index] = place;
    pthread_mutex_unlock(&places_lock);
}

static void start_peer(int index)
{
    char argument[8];

    snprintf(argument, sizeof(argument), "%d", next_pattern);
    next_pattern += 16;
    cw_process_start(&children[index], "peer", argument);
    learn(index);
}

static void end_peer(int index)
{
    int status;

    kill(children[index].pid, SIGKILL);
    cw_check(waitpid(children[index].pid, &status, 0) == children[index].pid);
    cw_check(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    close(children[index].fd);
    deaths++;
}

static void harm(uint64_t *random)
{
    const int index = (int)cw_random_below(random, PEERS);

    if (cw_one_in(random, 3)) {
        cw_check(cw_fd_write(children[index].fd, "x", 1));
        learn(index);
        renewals++;
    } else {
        end_peer(index);
        start_peer(index);
    }
}

static void one_round(ucp_context_h context, uint64_t *random, struct thread *totals)
{
    static struct thread threads[THREADS];
    ucp_worker_h shared = new_worker(context, UCS_THREAD_MODE_MULTI);
    const double end = now_s() + ROUND_S;

    atomic_store(&stopping, false);
    set_handler(shared, AM_ANSWER, answered, NULL);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.random = cw_random(random)};
        threads[i].worker = (i % 2 == 0) ? shared : new_worker(context, UCS_THREAD_MODE_SERIALIZED);
        if (i % 2 != 0) {
            set_handler(threads[i].worker, AM_ANSWER, answered, NULL);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        cw_check(pthread_create(&threads[i].id, NULL, thread_run, &threads[i]) == 0);
    }
    while (now_s() < end) {
        usleep((useconds_t)cw_random_below(random, 20000));
        harm(random);
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < THREADS; i++) {
        cw_check(pthread_join(threads[i].id, NULL) == 0);
        for (int kind = 0; kind < KINDS; kind++) {
            totals->counts[kind] += threads[i].counts[kind];
        }
        totals->errors += threads[i].errors;
        if (i % 2 != 0) {
            ucp_worker_destroy(threads[i].worker);
        }
    }
    ucp_worker_destroy(shared);
    for (int i = 0; i < THREADS; i++) {
        struct link *link, *next;

        for (link = threads[i].closed; link != NULL; link = next) {
            next = link->next;
            free(link);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"peer", peer_run}};
    struct cw_options options = {.seed = 1, .rounds = 1000000, .seconds = 8};
    struct cw_holds first = {0}, now;
    static struct thread totals;
    ucp_context_h context;
    double end;
    int code;

    if (cw_process_role(argc, argv, roles, 1, &code)) {
        return code;
    }
    cw_exact_memory(argv);
    mallopt(M_ARENA_MAX, 1);
    cw_run.name = "chaos.threads";
    cw_options(argc, argv, &options);
    end = now_s() + options.seconds;
    context = new_context(true);
    for (int i = 0; i < PEERS; i++) {
        start_peer(i);
    }
    while (cw_run.round < options.rounds && (cw_run.round <= WARM_UP || now_s() < end)) {
        cw_run.round++;
        one_round(context, &options.seed, &totals);
        now = cw_holds();
        if (options.verbose) {
            printf("round %ld: %d descriptors, %d mappings, %zu bytes\n", cw_run.round, now.fds, now.maps,
                   now.allocated);
        }
        if (cw_run.round == WARM_UP) {
            first = now;
        } else if (cw_run.round > WARM_UP) {
            cw_check_holds(&first, &now, MAPS_SLACK, MEMORY_SLACK);
        }
    }
    for (int i = 0; i < PEERS; i++) {
        end_peer(i);
    }
    ucp_cleanup(context);
    printf("%ld rounds, %lu peers killed, %lu with a new worker; %lu puts, %lu gets, %lu messages, %lu answers, "
           "%lu flushes, %lu closes; %lu requests failed, %lu endpoints\n",
           cw_run.round, deaths, renewals, totals.counts[PUT], totals.counts[GET], totals.counts[SEND],
           atomic_load(&answers), totals.counts[FLUSH], totals.counts[CLOSE], totals.errors,
           atomic_load(&failed_links));
    return 0;
}
