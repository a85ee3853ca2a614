/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Agents as NIXL makes them: a context with the settings that it changes, workers of mode MULTI that a thread of the
 * agent progresses and sleeps on, metadata (address and packed keys) that travel beside, puts and gets with memory
 * handles, a flush and an active message that announces them, endpoints that are closed by force, and peers that die in
 * the middle and return under their old name.
 */
#define _GNU_SOURCE
#include <ucp/api/ucp.h>

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "must.h"

enum {
    WORKERS = 2,
    PEERS = 3,
    PIECES = 8,
    PIECE = 96 << 10,
    REGION = PIECES * PIECE,
    BLOB = 4096,
    ROUNDS = 24,
    DEADLINE_S = 60,
    AM_NOTIFY = 10,
};

/* What an agent gives to others; in `bytes` the addresses of its workers, then the key. */
struct metadata {
    uint64_t address; /* of its region */
    uint32_t address_length[WORKERS];
    uint32_t key_length;
    char bytes[BLOB];
};

struct agent {
    ucp_context_h context;
    ucp_worker_h workers[WORKERS];
    int efds[WORKERS], control[2];
    pthread_t thread;
    atomic_bool stops;
    char *region;
    ucp_mem_h memory;
    atomic_uint notified; /* the last number that came */
};

struct remote {
    ucp_ep_h eps[WORKERS];
    ucp_rkey_h keys[WORKERS];
    struct metadata data;
    atomic_int failures[WORKERS];
};

struct notice {
    uint32_t number;
    uint32_t fill; /* what the region of the target holds by now */
};

struct area { /* of each request */
    int is_used;
};

static void request_init(void *request)
{
    ((struct area *)request)->is_used = 0;
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void transfer(int fd, void *data, size_t length, bool writes)
{
    ssize_t done;

    for (char *at = data; length > 0; at += done, length -= (size_t)done) {
        done = writes ? send(fd, at, length, MSG_NOSIGNAL) : recv(fd, at, length, 0);
        must(done > 0);
    }
}

/* ---- an agent ---- */

static void *progress(void *arg)
{
    struct agent *agent = arg;
    struct pollfd items[WORKERS + 1];
    bool is_busy;
    char byte;

    for (int i = 0; i < WORKERS; i++) {
        items[i] = (struct pollfd){.fd = agent->efds[i], .events = POLLIN};
    }
    items[WORKERS] = (struct pollfd){.fd = agent->control[0], .events = POLLIN};
    while (!atomic_load(&agent->stops)) {
        is_busy = false;
        for (int i = 0; i < WORKERS; i++) {
            while (ucp_worker_progress(agent->workers[i]) != 0) {
            }
        }
        for (int i = 0; i < WORKERS && !is_busy; i++) {
            is_busy = ucp_worker_arm(agent->workers[i]) == UCS_ERR_BUSY;
        }
        if (!is_busy) {
            must(poll(items, WORKERS + 1, -1) > 0);
            if (items[WORKERS].revents != 0) {
                must(read(agent->control[0], &byte, 1) == 1);
            }
        }
    }
    return NULL;
}

static ucs_status_t on_notice(void *arg, const void *header, size_t header_length, void *data, size_t length,
                              const ucp_am_recv_param_t *param)
{
    struct agent *agent = arg;
    struct notice notice;

    (void)data;
    must(header_length == sizeof(notice) && length == 5 && !(param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV));
    memcpy(&notice, header, sizeof(notice));
    for (size_t i = 0; notice.fill != 0 && i < REGION; i += 512) {
        must((unsigned char)agent->region[i] == (notice.fill & 255));
    }
    atomic_store(&agent->notified, notice.number);
    return UCS_OK;
}

static void set(ucp_config_t *config, const char *name, const char *value)
{
    must(ucp_config_modify(config, name, value) == UCS_OK);
}

static void open_context(struct agent *agent)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED |
                                         UCP_PARAM_FIELD_ESTIMATED_NUM_EPS | UCP_PARAM_FIELD_REQUEST_SIZE |
                                         UCP_PARAM_FIELD_REQUEST_INIT,
                           .features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 |
                              UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                  .mt_workers_shared = 1,
                  .estimated_num_eps = 3,
                  .request_size = sizeof(struct area),
                  .request_init = request_init};
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES | UCP_ATTR_FIELD_THREAD_MODE};
    unsigned major, minor, release;
    ucp_config_t *config;

    ucp_get_version(&major, &minor, &release);
    must(major == 1 && minor >= 19 && ucp_get_version_string() != NULL);
    must(ucp_config_read(NULL, NULL, &config) == UCS_OK);
    set(config, "NET_DEVICES", "all");
    set(config, "ADDRESS_VERSION", "v2");
    set(config, "RNDV_THRESH", "inf");
    set(config, "MAX_RMA_RAILS", "2");
    set(config, "IB_PCI_RELAXED_ORDERING", "try");
    set(config, "RC_FENCE", "none");
    set(config, "MAX_COMPONENT_MDS", "32");
    set(config, "RC_GDA_NUM_CHANNELS", "4");
    set(config, "MAX_HCA_PER_GPU", "auto");
    set(config, "RNDV_PIPELINE_ERROR_HANDLING", "y");
    must(ucp_init(&params, config, &agent->context) == UCS_OK);
    ucp_config_release(config);
    must(ucp_context_query(agent->context, &attr) == UCS_OK);
    must(attr.thread_mode == UCS_THREAD_MODE_MULTI && (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_HOST)));
}

static void agent_open(struct agent *agent, struct metadata *data)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                 .thread_mode = UCS_THREAD_MODE_MULTI};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = AM_NOTIFY,
                                      .cb = on_notice,
                                      .arg = agent};
    ucp_mem_map_params_t map = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                                             UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                               .length = REGION,
                               .memory_type = UCS_MEMORY_TYPE_HOST};
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE};
    ucp_address_t *address;
    size_t length, at = 0;
    void *key;

    *agent = (struct agent){.region = calloc(1, REGION)};
    *data = (struct metadata){.address = (uintptr_t)agent->region};
    open_context(agent);
    must(pipe2(agent->control, O_CLOEXEC) == 0);
    for (int i = 0; i < WORKERS; i++) {
        must(ucp_worker_create(agent->context, &params, &agent->workers[i]) == UCS_OK);
        must(ucp_worker_set_am_recv_handler(agent->workers[i], &handler) == UCS_OK);
        must(ucp_worker_get_efd(agent->workers[i], &agent->efds[i]) == UCS_OK);
        must(ucp_worker_get_address(agent->workers[i], &address, &length) == UCS_OK && at + length <= BLOB);
        memcpy(data->bytes + at, address, length);
        at += data->address_length[i] = (uint32_t)length;
        ucp_worker_release_address(agent->workers[i], address);
    }
    map.address = agent->region;
    must(ucp_mem_map(agent->context, &map, &agent->memory) == UCS_OK);
    must(ucp_mem_query(agent->memory, &attr) == UCS_OK && attr.mem_type == UCS_MEMORY_TYPE_HOST);
    must(ucp_rkey_pack(agent->context, agent->memory, &key, &length) == UCS_OK && at + length <= BLOB);
    memcpy(data->bytes + at, key, length);
    data->key_length = (uint32_t)length;
    ucp_rkey_buffer_release(key);
    must(pthread_create(&agent->thread, NULL, progress, agent) == 0);
}

static void agent_close(struct agent *agent)
{
    atomic_store(&agent->stops, true);
    must(write(agent->control[1], "x", 1) == 1);
    must(pthread_join(agent->thread, NULL) == 0);
    must(ucp_mem_unmap(agent->context, agent->memory) == UCS_OK);
    for (int i = 0; i < WORKERS; i++) {
        ucp_worker_destroy(agent->workers[i]);
    }
    ucp_cleanup(agent->context);
    close(agent->control[0]);
    close(agent->control[1]);
    free(agent->region);
}

/* ---- another agent, seen from here ---- */

static void on_failure(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    must(status != UCS_OK);
    must(atomic_fetch_add((atomic_int *)arg, 1) == 0);
}

static void remote_open(struct agent *agent, struct remote *remote)
{
    ucp_ep_evaluate_perf_param_t asked = {.field_mask = UCP_EP_PERF_PARAM_FIELD_MESSAGE_SIZE,
                                        .message_size = PIECE};
    ucp_ep_evaluate_perf_attr_t cost = {.field_mask = UCP_EP_PERF_ATTR_FIELD_ESTIMATED_TIME};
    const char *at = remote->data.bytes;
    const char *key = at + remote->data.address_length[0] + remote->data.address_length[1];

    for (int i = 0; i < WORKERS; i++) {
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                  .address = (const ucp_address_t *)at,
                                  .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                  .err_handler = {.cb = on_failure, .arg = &remote->failures[i]}};

        atomic_store(&remote->failures[i], 0);
        must(ucp_ep_create(agent->workers[i], &params, &remote->eps[i]) == UCS_OK);
        must(ucp_ep_rkey_unpack(remote->eps[i], key, &remote->keys[i]) == UCS_OK);
        must(ucp_ep_evaluate_perf(remote->eps[i], &asked, &cost) == UCS_OK && cost.estimated_time > 0);
        at += remote->data.address_length[i];
    }
}

/* By force, and the request is given back at once. */
static void remote_close(struct remote *remote)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};

    for (int i = 0; i < WORKERS; i++) {
        ucs_status_ptr_t request;

        ucp_rkey_destroy(remote->keys[i]);
        request = ucp_ep_close_nbx(remote->eps[i], &param);
        if (UCS_PTR_IS_PTR(request)) {
            ucp_request_free(request);
        }
    }
}

/* The thread of the agent progresses. */
static ucs_status_t await(ucs_status_ptr_t request)
{
    const double end = now_s() + DEADLINE_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        return UCS_PTR_STATUS(request);
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        must(now_s() < end);
        usleep(50);
    }
    ucp_request_free(request);
    return status;
}

/* Moves the region in pieces and announces it by a message; returns the first status that is no success. With
 * `victim` that process is killed in the middle. */
static ucs_status_t move(struct agent *agent, struct remote *remote, int index, bool writes,
                         const struct notice *notice, pid_t victim)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMH | UCP_OP_ATTR_FLAG_MULTI_SEND,
                                 .memh = agent->memory};
    ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_request_param_t eager = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_EAGER};
    ucs_status_ptr_t requests[PIECES];
    ucs_status_t status = UCS_OK, one;

    for (size_t i = 0; i < PIECES; i++) {
        char *here = agent->region + i * PIECE;
        const uint64_t there = remote->data.address + i * PIECE;

        requests[i] = writes ? ucp_put_nbx(remote->eps[index], here, PIECE, there, remote->keys[index], &param)
                             : ucp_get_nbx(remote->eps[index], here, PIECE, there, remote->keys[index], &param);
        if (victim > 0 && i == PIECES / 2) {
            kill(victim, SIGKILL);
        }
    }
    for (size_t i = 0; i < PIECES; i++) { /* some of the puts are only known by the flush */
        if (writes && i % 2 == 1 && UCS_PTR_IS_PTR(requests[i])) {
            ucp_request_free(requests[i]);
            continue;
        }
        one = await(requests[i]);
        status = (status == UCS_OK) ? one : status;
    }
    one = await(ucp_ep_flush_nbx(remote->eps[index], &none));
    status = (status == UCS_OK) ? one : status;
    if (status == UCS_OK) {
        status = await(ucp_am_send_nbx(remote->eps[index], AM_NOTIFY, notice, sizeof(*notice), "moved", 5, &eager));
    }
    return status;
}

/* ---- the peers ---- */

static int peer_run(int fd)
{
    struct notice notice = {0};
    struct metadata own;
    struct remote parent;
    struct agent agent;
    unsigned answered = 0;
    char byte;

    agent_open(&agent, &own);
    transfer(fd, &own, sizeof(own), true);
    transfer(fd, &parent.data, sizeof(parent.data), false);
    remote_open(&agent, &parent);
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 0) { /* until the parent closes it */
        notice.number = atomic_load(&agent.notified);
        if (notice.number != answered) {
            answered = notice.number;
            must(await(ucp_am_send_nbx(parent.eps[answered % WORKERS], AM_NOTIFY, &notice, sizeof(notice), "taken", 5,
                                       &(ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                                              .flags = UCP_AM_SEND_FLAG_EAGER |
                                                                UCP_AM_SEND_FLAG_COPY_HEADER})) == UCS_OK);
        }
        usleep(100);
    }
    remote_close(&parent);
    agent_close(&agent);
    return 0;
}

struct peer {
    pid_t pid;
    int fd;
    struct remote remote;
};

static void peer_start(struct peer *peer, struct agent *agent, const struct metadata *own)
{
    struct metadata copy = *own;
    char number[16];
    int fds[2];

    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    peer->pid = fork();
    must(peer->pid >= 0);
    if (peer->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(number, sizeof(number), "%d", dup(fds[1]));
        execl("/proc/self/exe", "agents", number, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    peer->fd = fds[0];
    transfer(peer->fd, &peer->remote.data, sizeof(peer->remote.data), false);
    transfer(peer->fd, &copy, sizeof(copy), true);
    remote_open(agent, &peer->remote);
}

static int peer_end(struct peer *peer)
{
    int status;

    close(peer->fd);
    must(waitpid(peer->pid, &status, 0) == peer->pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void await_flag(const char *what, atomic_uint *word, unsigned value)
{
    const double end = now_s() + DEADLINE_S;

    while (atomic_load(word) != value) {
        if (now_s() > end) {
            fprintf(stderr, "%s did not come\n", what);
            exit(1);
        }
        usleep(50);
    }
}

static void die_and_return(struct agent *agent, struct peer *peer, const struct metadata *own, unsigned round)
{
    const int index = (int)(round % WORKERS);
    const struct notice notice = {.number = round};
    const double end = now_s() + DEADLINE_S;

    (void)move(agent, &peer->remote, index, round % 3 != 0, &notice, peer->pid);
    while (atomic_load(&peer->remote.failures[0]) + atomic_load(&peer->remote.failures[1]) < WORKERS) {
        must(now_s() < end);
        usleep(100);
    }
    must(move(agent, &peer->remote, index, true, &notice, 0) != UCS_OK);
    remote_close(&peer->remote);
    must(peer_end(peer) == 128 + SIGKILL);
    peer_start(peer, agent, own);
}

int main(int argc, char **argv)
{
    static struct peer peers[PEERS];
    struct metadata own;
    struct agent agent;

    if (argc > 1) {
        return peer_run(atoi(argv[1]));
    }
    agent_open(&agent, &own);
    for (int i = 0; i < PEERS; i++) {
        peer_start(&peers[i], &agent, &own);
    }
    for (unsigned round = 1; round <= ROUNDS; round++) {
        struct peer *peer = &peers[round % PEERS];
        struct notice notice = {.number = round, .fill = round};

        memset(agent.region, (int)round, REGION);
        must(move(&agent, &peer->remote, (int)(round % WORKERS), true, &notice, 0) == UCS_OK);
        await_flag("the notification of a peer", &agent.notified, round);
        memset(agent.region, 0, REGION);
        notice.number = 1000 + round;
        must(move(&agent, &peer->remote, (int)(round % WORKERS), false, &notice, 0) == UCS_OK);
        for (size_t i = 0; i < REGION; i++) {
            must((unsigned char)agent.region[i] == round);
        }
        await_flag("the notification of a peer", &agent.notified, 1000 + round);
        if (round % 4 == 0) {
            die_and_return(&agent, peer, &own, round);
        }
    }
    for (int i = 0; i < PEERS; i++) {
        remote_close(&peers[i].remote);
        must(peer_end(&peers[i]) == 0);
    }
    agent_close(&agent);
    return 0;
}
