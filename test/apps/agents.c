/* SPDX-License-Identifier: BSD-3-Clause */
/* What programs that move caches between inference servers do, in one run: agents (processes) register memory of their
 * own, exchange addresses and keys out of band, and one of them puts and gets 1,008 descriptors a round at two others,
 * by several threads that share both endpoints; then it flushes and notifies by active messages. Each agent has one
 * worker of mode MULTI whose progress is a thread that sleeps on the descriptor; posting threads never progress.
 * In the middle one agent is killed: what goes to it ends with an error, nothing that goes to the other does, and one
 * that was started later takes its place. Argument: a seed. */
#include <ucp/api/ucp.h>

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    REGIONS = 5, /* four with small slots, one with large ones */
    SMALL_SLOTS = 250,
    SMALL = 16384,
    LARGE_SLOTS = 8,
    LARGE = 1 << 20,
    DESCRIPTORS = 4 * SMALL_SLOTS + LARGE_SLOTS,
    THREADS = 3,
    TARGETS = 2,
    AGENTS = 3, /* that are served: two, and one that comes for the one that dies */
    ROUNDS = 3,
    SECONDS = 150,
    ADDRESS_LIMIT = 4096
};

enum { NOTE, VERIFIED, LAST_WORDS, END };

struct blob {
    size_t address_length, key_length[REGIONS];
    uint64_t base[REGIONS];
    unsigned char address[ADDRESS_LIMIT], key[REGIONS][256];
};

struct note {
    int round, thread;
};

struct memory {
    unsigned char *base[REGIONS];
    ucp_mem_h handle[REGIONS];
};

struct target {
    ucp_ep_h ep;
    ucp_rkey_h key[REGIONS];
    uint64_t base[REGIONS];
    struct memory local;
    int agent;           /* whose bytes these are */
    atomic_int failures; /* calls of the error handler */
};

/* The requests of one thread at one target. */
struct batch {
    atomic_int pending, failed;
    sem_t over;
};

static ucp_context_h context;
static ucp_worker_h worker;
static pthread_t progress_thread;
static atomic_int stop, ended, verified, sleeps;
static int notes[ROUNDS + 2];
static ucp_ep_h notes_from;
static pthread_mutex_t notes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t notes_came = PTHREAD_COND_INITIALIZER;
static struct target targets[TARGETS];
static unsigned seed = 1;

static void check_failed(int line, const char *what, const char *more)
{
    fprintf(stderr, "agents.c:%d: failed: %s %s\n", line, what, more);
    exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : check_failed(__LINE__, #condition, ""))
#define CHECK_OK(status) \
    do { \
        ucs_status_t status_ = (status); \
        if (status_ != UCS_OK) { \
            check_failed(__LINE__, #status, ucs_status_string(status_)); \
        } \
    } while (0)

/* Slots */

static size_t region_size(int region)
{
    return region < 4 ? (size_t)SMALL_SLOTS * SMALL : (size_t)LARGE_SLOTS * LARGE;
}

static int region_of(int slot)
{
    return slot / SMALL_SLOTS;
}

static size_t offset_of(int slot)
{
    return (size_t)(slot % SMALL_SLOTS) * (region_of(slot) < 4 ? SMALL : LARGE);
}

static size_t length_of(int slot)
{
    unsigned draw = (unsigned)slot * 2654435761u + seed * 40503u;

    draw ^= draw >> 15;
    if (region_of(slot) == 4) {
        return LARGE - draw % 5000;
    }
    return 1 + draw % (draw % 3 == 0 ? SMALL : 500);
}

static unsigned char byte_of(int agent, int slot, int round, size_t at)
{
    return (unsigned char)((unsigned)agent * 59 + (unsigned)slot * 7 + (unsigned)round * 101 + at * 3 + (at >> 9));
}

static void fill_slot(const struct memory *memory, int agent, int slot, int round)
{
    for (size_t at = 0; at < length_of(slot); at++) {
        memory->base[region_of(slot)][offset_of(slot) + at] = byte_of(agent, slot, round, at);
    }
}

static void check_slot(const struct memory *memory, int agent, int slot, int round)
{
    for (size_t at = 0; at < length_of(slot); at++) {
        unsigned char got = memory->base[region_of(slot)][offset_of(slot) + at];

        if (got != byte_of(agent, slot, round, at)) {
            fprintf(stderr, "agent %d, slot %d, round %d, byte %zu of %zu: 0x%02x not 0x%02x\n", agent, slot, round,
                    at, length_of(slot), got, byte_of(agent, slot, round, at));
            check_failed(__LINE__, "the bytes are there", "");
        }
    }
}

static void map_memory(struct memory *memory)
{
    for (int region = 0; region < REGIONS; region++) {
        ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                       .length = region_size(region)};

        params.address = memory->base[region] = malloc(region_size(region));
        CHECK(params.address != NULL);
        memset(params.address, 0, params.length);
        CHECK_OK(ucp_mem_map(context, &params, &memory->handle[region]));
    }
}

static void unmap_memory(struct memory *memory)
{
    for (int region = 0; region < REGIONS; region++) {
        CHECK_OK(ucp_mem_unmap(context, memory->handle[region]));
        free(memory->base[region]);
    }
}

/* The worker and its thread */

static void *progress(void *argument)
{
    struct pollfd file = {.events = POLLIN};

    (void)argument;
    CHECK_OK(ucp_worker_get_efd(worker, &file.fd));
    while (!atomic_load(&stop)) {
        ucs_status_t status;

        while (ucp_worker_progress(worker) > 0) {
        }
        status = ucp_worker_arm(worker);
        if (status == UCS_ERR_BUSY) {
            continue;
        }
        CHECK_OK(status);
        atomic_fetch_add(&sleeps, 1);
        (void)poll(&file, 1, -1);
    }
    return NULL;
}

static ucs_status_t received(void *argument, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    struct note note;

    (void)header;
    (void)header_length;
    switch ((int)(intptr_t)argument) {
    case NOTE:
        CHECK(length == sizeof(note) && (param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0);
        memcpy(&note, data, sizeof(note));
        CHECK(note.round >= 0 && note.round < ROUNDS + 2 && note.thread >= 0 && note.thread < THREADS);
        pthread_mutex_lock(&notes_lock);
        notes[note.round] |= 1 << note.thread;
        notes_from = param->reply_ep;
        pthread_cond_signal(&notes_came);
        pthread_mutex_unlock(&notes_lock);
        break;
    case VERIFIED:
        atomic_fetch_add(&verified, 1);
        break;
    case LAST_WORDS:
        kill(getpid(), SIGKILL);
        break;
    default:
        pthread_mutex_lock(&notes_lock);
        atomic_store(&ended, 1);
        pthread_cond_signal(&notes_came);
        pthread_mutex_unlock(&notes_lock);
        break;
    }
    return UCS_OK;
}

static void start_agent(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                    .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                    .mt_workers_shared = 1};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_MULTI};
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE};

    alarm(SECONDS);
    CHECK_OK(ucp_init(&params, NULL, &context));
    CHECK_OK(ucp_worker_create(context, &worker_params, &worker));
    CHECK_OK(ucp_worker_query(worker, &attr));
    CHECK(attr.thread_mode == UCS_THREAD_MODE_MULTI);
    for (int id = NOTE; id <= END; id++) {
        ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                        UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                          .id = (unsigned)id,
                                          .cb = received,
                                          .arg = (void *)(intptr_t)id};

        CHECK_OK(ucp_worker_set_am_recv_handler(worker, &handler));
    }
    CHECK(pthread_create(&progress_thread, NULL, progress, NULL) == 0);
}

static void end_agent(void)
{
    atomic_store(&stop, 1);
    CHECK_OK(ucp_worker_signal(worker));
    pthread_join(progress_thread, NULL);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
}

/* Requests: the thread that progresses ends them, whoever posted them waits for a semaphore. */

static void one_less(struct batch *batch)
{
    if (atomic_fetch_sub(&batch->pending, 1) == 1) {
        sem_post(&batch->over);
    }
}

static void completed(void *request, ucs_status_t status, void *argument)
{
    struct batch *batch = argument;

    atomic_fetch_add(&batch->failed, status != UCS_OK);
    ucp_request_free(request);
    one_less(batch);
}

static void begin(struct batch *batch)
{
    atomic_init(&batch->pending, 1);
    atomic_init(&batch->failed, 0);
    CHECK(sem_init(&batch->over, 0, 0) == 0);
}

static ucp_request_param_t one_more(struct batch *batch)
{
    atomic_fetch_add(&batch->pending, 1);
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = completed,
                                 .user_data = batch};
}

static void posted(struct batch *batch, ucs_status_ptr_t request)
{
    if (!UCS_PTR_IS_PTR(request)) {
        atomic_fetch_add(&batch->failed, request != NULL);
        one_less(batch);
    }
}

/* How many of the requests failed. */
static int finish(struct batch *batch)
{
    one_less(batch);
    while (sem_wait(&batch->over) != 0) {
    }
    sem_destroy(&batch->over);
    return atomic_load(&batch->failed);
}

static int send_message(ucp_ep_h ep, unsigned id, const void *data, size_t length)
{
    struct batch batch;
    ucp_request_param_t param;

    begin(&batch);
    param = one_more(&batch);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_REPLY;
    posted(&batch, ucp_am_send_nbx(ep, id, NULL, 0, data, length, &param));
    return finish(&batch);
}

static int flush(ucp_ep_h ep)
{
    struct batch batch;
    ucp_request_param_t param;

    begin(&batch);
    param = one_more(&batch);
    posted(&batch, ucp_ep_flush_nbx(ep, &param));
    return finish(&batch);
}

static void close_endpoint(ucp_ep_h ep, unsigned flags)
{
    struct batch batch;
    ucp_request_param_t param;

    begin(&batch);
    param = one_more(&batch);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    posted(&batch, ucp_ep_close_nbx(ep, &param));
    (void)finish(&batch);
}

/* Metadata */

static void write_all(int fd, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t now = write(fd, (const char *)data + done, length - done);

        CHECK(now > 0);
        done += (size_t)now;
    }
}

static void read_all(int fd, void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t now = read(fd, (char *)data + done, length - done);

        CHECK(now > 0);
        done += (size_t)now;
    }
}

static void publish(int fd, const struct memory *memory)
{
    static struct blob blob;
    ucp_address_t *address;
    void *key;

    CHECK_OK(ucp_worker_get_address(worker, &address, &blob.address_length));
    CHECK(blob.address_length <= sizeof(blob.address));
    memcpy(blob.address, address, blob.address_length);
    ucp_worker_release_address(worker, address);
    for (int region = 0; region < REGIONS; region++) {
        CHECK_OK(ucp_rkey_pack(context, memory->handle[region], &key, &blob.key_length[region]));
        CHECK(blob.key_length[region] <= sizeof(blob.key[region]));
        memcpy(blob.key[region], key, blob.key_length[region]);
        ucp_rkey_buffer_release(key);
        blob.base[region] = (uintptr_t)memory->base[region];
    }
    write_all(fd, &blob, sizeof(blob));
}

static void failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct target *target = argument;

    CHECK(ep == target->ep && status != UCS_OK);
    atomic_fetch_add(&target->failures, 1);
}

static void meet(int fd, struct target *target, int agent)
{
    static struct blob blob;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER,
                              .address = (ucp_address_t *)blob.address,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .err_handler = {failed, target}};

    read_all(fd, &blob, sizeof(blob));
    target->agent = agent;
    atomic_store(&target->failures, 0);
    CHECK_OK(ucp_ep_create(worker, &params, &target->ep));
    for (int region = 0; region < REGIONS; region++) {
        CHECK_OK(ucp_ep_rkey_unpack(target->ep, blob.key[region], &target->key[region]));
        target->base[region] = blob.base[region];
    }
}

static void leave(struct target *target, unsigned flags)
{
    for (int region = 0; region < REGIONS; region++) {
        ucp_rkey_destroy(target->key[region]);
    }
    close_endpoint(target->ep, flags);
}

/* The agents that are served: even slots are put here, odd ones are got from here. */
static int serve(int fd, int agent)
{
    struct memory memory;

    start_agent();
    map_memory(&memory);
    for (int slot = 1; slot < DESCRIPTORS; slot += 2) {
        fill_slot(&memory, agent, slot, 0);
    }
    publish(fd, &memory);
    for (int round = 0; !atomic_load(&ended);) {
        ucp_ep_h reply = NULL;

        pthread_mutex_lock(&notes_lock);
        while (notes[round] != (1 << THREADS) - 1 && !atomic_load(&ended)) {
            pthread_cond_wait(&notes_came, &notes_lock);
        }
        if (!atomic_load(&ended)) {
            reply = notes_from;
            notes[round] = 0;
        }
        pthread_mutex_unlock(&notes_lock);
        if (reply != NULL) {
            for (int slot = 0; slot < DESCRIPTORS; slot += 2) {
                check_slot(&memory, agent, slot, round);
            }
            CHECK(send_message(reply, VERIFIED, &round, sizeof(round)) == 0);
            round = (round + 1) % (ROUNDS + 2);
        }
    }
    unmap_memory(&memory);
    end_agent();
    return 0;
}

/* The one that moves */

struct work {
    int thread, round[TARGETS], until_failure, failures[TARGETS];
    pthread_t id;
};

static void post(struct batch *batch, struct target *target, int slot)
{
    ucp_request_param_t param = one_more(batch);
    int region = region_of(slot);
    unsigned char *mine = target->local.base[region] + offset_of(slot);
    uint64_t theirs = target->base[region] + offset_of(slot);

    if (slot % 4 < 2) {
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param.memh = target->local.handle[region];
    }
    if (slot % 2 == 0) {
        posted(batch, ucp_put_nbx(target->ep, mine, length_of(slot), theirs, target->key[region], &param));
    } else {
        posted(batch, ucp_get_nbx(target->ep, mine, length_of(slot), theirs, target->key[region], &param));
    }
}

static int move_once(struct work *work, const struct target *only)
{
    struct batch batches[TARGETS];

    for (int i = 0; i < TARGETS; i++) {
        begin(&batches[i]);
    }
    for (int slot = work->thread; slot < DESCRIPTORS; slot += THREADS) {
        for (int i = 0; i < TARGETS; i++) {
            if (only == NULL || only == &targets[i]) {
                post(&batches[i], &targets[i], slot);
            }
        }
    }
    for (int i = 0; i < TARGETS; i++) {
        work->failures[i] += finish(&batches[i]);
    }
    return work->failures[1];
}

static void *move(void *argument)
{
    struct work *work = argument;

    (void)move_once(work, NULL);
    if (work->until_failure) {
        if (work->thread == 0) {
            (void)send_message(targets[1].ep, LAST_WORDS, NULL, 0);
        }
        while (move_once(work, &targets[1]) == 0) {
        }
    }
    for (int i = 0; i < TARGETS - work->until_failure; i++) {
        struct note note = {.round = work->round[i], .thread = work->thread};

        CHECK(flush(targets[i].ep) == 0);
        CHECK(send_message(targets[i].ep, NOTE, &note, sizeof(note)) == 0);
    }
    return NULL;
}

/* Who of the targets is served in its which round. */
static void run_round(const int *rounds, int until_failure)
{
    struct work works[THREADS];
    int expected = atomic_load(&verified) + TARGETS - until_failure;

    for (int i = 0; i < TARGETS; i++) {
        for (int slot = 0; slot < DESCRIPTORS; slot++) {
            memset(targets[i].local.base[region_of(slot)] + offset_of(slot), 0xaa, length_of(slot));
            if (slot % 2 == 0) {
                fill_slot(&targets[i].local, targets[i].agent, slot, rounds[i]);
            }
        }
    }
    for (int thread = 0; thread < THREADS; thread++) {
        works[thread] = (struct work){.thread = thread, .until_failure = until_failure};
        memcpy(works[thread].round, rounds, sizeof(works[thread].round));
        CHECK(pthread_create(&works[thread].id, NULL, move, &works[thread]) == 0);
    }
    for (int thread = 0; thread < THREADS; thread++) {
        pthread_join(works[thread].id, NULL);
        CHECK(works[thread].failures[0] == 0);
        CHECK((works[thread].failures[1] != 0) == until_failure);
    }
    for (int i = 0; i < TARGETS - until_failure; i++) {
        for (int slot = 1; slot < DESCRIPTORS; slot += 2) {
            check_slot(&targets[i].local, targets[i].agent, slot, 0);
        }
    }
    while (atomic_load(&verified) < expected) {
        usleep(200);
    }
}

static void drive(const int *fds, const pid_t *pids)
{
    int status, rounds[TARGETS] = {0, 0};

    start_agent();
    for (int i = 0; i < TARGETS; i++) {
        map_memory(&targets[i].local);
        meet(fds[i], &targets[i], i);
    }
    for (; rounds[0] < ROUNDS; rounds[0]++, rounds[1]++) {
        run_round(rounds, 0);
    }
    run_round(rounds, 1);
    CHECK(waitpid(pids[1], &status, 0) == pids[1] && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    while (atomic_load(&targets[1].failures) == 0) {
        usleep(200);
    }
    leave(&targets[1], UCP_EP_CLOSE_FLAG_FORCE);
    CHECK(atomic_load(&targets[1].failures) == 1 && atomic_load(&targets[0].failures) == 0);
    /* The next one takes its place, the other goes on. */
    write_all(fds[2], "", 1);
    meet(fds[2], &targets[1], 2);
    rounds[0]++;
    rounds[1] = 0;
    run_round(rounds, 0);
    for (int i = 0; i < TARGETS; i++) {
        CHECK(atomic_load(&targets[i].failures) == 0);
        CHECK(send_message(targets[i].ep, END, NULL, 0) == 0);
        CHECK(waitpid(pids[2 * i], &status, 0) == pids[2 * i] && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        leave(&targets[i], 0);
        unmap_memory(&targets[i].local);
    }
    end_agent();
}

int main(int argc, char **argv)
{
    int pairs[AGENTS][2], fds[AGENTS];
    pid_t pids[AGENTS];
    char start;

    seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : seed;
    for (int agent = 0; agent < AGENTS; agent++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[agent]) == 0);
        pids[agent] = fork();
        CHECK(pids[agent] >= 0);
        if (pids[agent] == 0) {
            close(pairs[agent][0]);
            if (agent == 2) {
                read_all(pairs[agent][1], &start, 1);
            }
            return serve(pairs[agent][1], agent);
        }
        close(pairs[agent][1]);
        fds[agent] = pairs[agent][0];
    }
    drive(fds, pids);
    printf("agents: passed, the thread that progresses slept %d times\n", atomic_load(&sleeps));
    return 0;
}
