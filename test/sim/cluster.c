/* SPDX-License-Identifier: BSD-3-Clause */
/* See cluster.h. */
#include "cluster.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include <ucm/api/ucm.h>

#include "base/counter.h"
#include "base/hash.h"
#include "core/failover/failover.h"
#include "core/worker.h"
#include "os/random.h"

static struct cw_cluster the_cluster;
static uint64_t library_random;
static struct cw_sim_stats totals;
static uint64_t total_cuts;
static uint64_t library_clock_ns;

/* With CW_SIM_RDMA the simulated network is one of RDMA devices, which run out of all that they can run out of. */
static int has_devices(void)
{
    return getenv("CW_SIM_RDMA") != NULL;
}

/* What UCX_TLS is to be: the simulated networks, or those of the system with the same programs on it. */
static const char *transports(void)
{
    const char *names = getenv("CW_SIM_TLS");

    if (names != NULL) {
        return names;
    }
    return has_devices() ? "simrdma" : "sim";
}

/* CW_SIM_RDMA with CW_SIM_TLS=simrdma,sim: one device of each. */
static int has_both(void)
{
    return has_devices() && strcmp(transports(), "simrdma,sim") == 0;
}

int cw_cluster_is_simulated(void)
{
    return strncmp(transports(), "sim", 3) == 0;
}

/* CW_SIM_LANES: long messages go in pieces over further lanes, between one and three devices of each worker, and these
 * lanes are cut all the time, with and without a word. Nothing may be seen of that. */
static int has_lanes(void)
{
    return getenv("CW_SIM_LANES") != NULL && cw_cluster_is_simulated();
}

static void add_devices(struct cw_sim_knobs *knobs, uint64_t seed)
{
    knobs->rdma = (has_lanes() && !has_both()) ? 2 + (unsigned)(seed % 2) : 1;
    knobs->beside = has_both();
    knobs->ratio = 1 + (unsigned)(seed % 4);
    knobs->max_access = 300 + seed * 7919 % 70000;
    knobs->all_atomics = seed % 3 == 0;
    knobs->max_mrs = (seed % 5 == 0) ? 9 : 0;
    knobs->alignment = (seed % 4 == 1) ? (size_t)8 << seed % 2 : 0;
    knobs->on_demand = seed % 5 == 2 && seed % 7 != 0;
    knobs->chance[CW_SIM_NO_RECEIVES] = (seed % 4) * 10000;
    knobs->chance[CW_SIM_NO_REGISTER] = (seed % 7 == 0) ? 300000 : 0;
}

/* In place of the system's: what the library draws follows from the seed, too. */
uint64_t cw_random_u64(void)
{
    library_random += 0x9e3779b97f4a7c15u;
    return cw_hash_mix(library_random);
}

/* In place of the system's: time passes with every reading of the clock, so that what the library does once in a while
 * is done after some thousand rounds, the same in each replay. */
uint64_t cw_clock_ns(void)
{
    struct timespec now;

    if (!cw_cluster_is_simulated()) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
    library_clock_ns += 100000;
    return library_clock_ns;
}

/* CW_SIM_FAILOVER, beside CW_SIM_LANES: all endpoints are in mode FAILOVER, and any lane is cut, also the one that
 * carries messages, as long as another one to the same peer lives (N22-70). */
static int has_failover(void)
{
    return getenv("CW_SIM_FAILOVER") != NULL && has_lanes();
}

static struct cw_sim_knobs with_lanes(const struct cw_sim_knobs *knobs, uint64_t seed)
{
    struct cw_sim_knobs changed = *knobs;

    if (has_both()) {
        changed.num_devices = 1;
    } else {
        changed.num_devices = has_failover() ? 2 + (unsigned)(seed % 2) : 1 + (unsigned)(seed % 3);
    }
    changed.max_placed = 300 + cw_hash_mix(seed) % 5000;
    changed.chance[CW_SIM_NO_COPIES] = CW_SIM_ALWAYS;
    if (has_failover() && changed.max_bcopy < 144) {
        changed.max_bcopy = 144; /* for RNDV_DATA with the least piece */
    }
    return changed;
}

int cw_cluster_fails_over(void)
{
    return has_failover();
}

const char *cw_cluster_device(unsigned number)
{
    static const char *const names[][2] = {{"sim0", "sim1"}, {"simrdma0", "simrdma1"}, {"simrdma0", "sim0"}};

    return names[has_devices() + has_both()][number];
}

/* Whether messages have as many lanes to move to as they can have. */
static int has_all_lanes(const struct ucp_worker *worker)
{
    const struct ucp_ep *ep;
    unsigned i;

    cw_list_for_each(ep, &worker->eps, struct ucp_ep, link)
    {
        if (cw_failover_of(ep) == NULL) {
            continue;
        }
        for (i = 0; i < CW_LANES_FAILOVER; i++) {
            if (ep->lanes == NULL || ep->lanes->further[i].state != CW_FURTHER_OPEN) {
                return 0;
            }
        }
    }
    return 1;
}

void cw_cluster_await_lanes(struct cw_cluster *cluster)
{
    unsigned rounds = 0, i = 0;

    while (i < cluster->num_workers) {
        if (!cw_sim_has_cut(cluster->network) && has_all_lanes(cluster->nodes[i].worker)) {
            i++;
            continue;
        }
        library_clock_ns += 2000000; /* lanes are opened again after seconds */
        cw_cluster_step(cluster);
        if (++rounds == CW_MAX_ROUNDS) {
            cw_cluster_fail(cluster, "a lane is not opened again");
        }
        i = 0;
    }
}

static void cut_lanes(struct cw_cluster *cluster)
{
    const char *spare = NULL, *cut = "CWL1";

    if (cluster->cut_by_test) {
        return;
    }
    if (has_failover()) {
        spare = "CWL1";
        cut = (cw_cluster_random(cluster, 2) == 0) ? "CWY1" : "CWL1";
    }
    if (has_lanes() && cw_cluster_random(cluster, 64) == 0) {
        cluster->num_cuts += (unsigned)cw_sim_cut(cluster->network, cut, 4, spare, (int)cw_cluster_random(cluster, 2));
    }
}

/* CW_SIM_WRAP: the library's counters pass the end of their type during the run. */
static int counters_wrap(void)
{
    return getenv("CW_SIM_WRAP") != NULL;
}

/* After so many steps: a few, as many as a run has operations, or as many as it has bytes. */
static uint64_t wrap_after(uint64_t seed)
{
    const uint64_t draw = cw_hash_mix(seed + 77);

    return 2 * (1 + (draw >> 8) % (UINT64_C(1) << draw % 14));
}

/* Lanes that were cut, if that was asked for, in all clusters. */
static void report_cuts(void)
{
    if (has_lanes()) {
        print_message("%llu lanes were cut\n", (unsigned long long)total_cuts);
        if (total_cuts == 0) {
            _exit(1); /* nothing was tried */
        }
    }
}

void cw_cluster_fail(const struct cw_cluster *cluster, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    print_error("%s\nReplay: CW_SIM_SEED=%llu CW_SIM_SEEDS=1\n", text, (unsigned long long)cluster->seed);
    fail();
    abort();
}

uint64_t cw_cluster_random(struct cw_cluster *cluster, uint64_t limit)
{
    cluster->random += 0x9e3779b97f4a7c15u;
    return cw_hash_mix(cluster->random) % limit;
}

static void must(struct cw_cluster *cluster, ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        cw_cluster_fail(cluster, "%s answers %s", what, ucs_status_string(status));
    }
}

struct failure_place {
    unsigned from;
    unsigned to;
};

static struct failure_place places[CW_MAX_WORKERS][CW_MAX_WORKERS];

static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct failure_place *place = arg;

    if (status == UCS_OK || ep != the_cluster.nodes[place->from].eps[place->to]) {
        cw_cluster_fail(&the_cluster, "the error handler is called with status %d, or for a wrong endpoint", status);
    }
    if (++the_cluster.nodes[place->from].failures[place->to] > 1) {
        cw_cluster_fail(&the_cluster, "the error handler is called twice for one endpoint"); /* ERR-4 */
    }
}

/* Many messages are announced, and devices move them by each of the schemes: as the costs say, or as is set. */
static void announce_to_devices(struct cw_cluster *cluster, ucp_config_t *config)
{
    static const char *const schemes[] = {"auto", "get_zcopy", "put_zcopy", "get_zcopy"};

    if (cluster->seed % 3 != 0) {
        must(cluster, ucp_config_modify(config, "RNDV_THRESH", "700"), "ucp_config_modify");
        must(cluster, ucp_config_modify(config, "RNDV_SCHEME", schemes[cluster->seed % 4]), "ucp_config_modify");
    }
}

/* With some seeds the program reports what it unmaps, so registrations are kept from one message to the next. */
static void report_unmapped(const struct cw_cluster *cluster)
{
    ucm_unset_external_event(UCM_EVENT_VM_UNMAPPED);
    if (has_devices() && cluster->seed % 5 != 0 && cluster->seed % 7 != 0) { /* else it would not replay */
        ucm_set_external_event(UCM_EVENT_VM_UNMAPPED);
    }
}

/* Memory that the program uses no more is gone: no registration of it may be used again. */
static void forget_memory(void *memory, size_t length)
{
    if (has_devices() && memory != NULL) {
        ucm_vm_munmap(memory, length);
        cw_sim_rdma_unmapped(memory, length);
    }
    free(memory);
}

static void open_worker(struct cw_cluster *cluster, struct cw_cluster_node *node)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
                                         UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;

    if (cluster->sleepers) {
        params.features |= UCP_FEATURE_WAKEUP;
    }
    must(cluster, ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    must(cluster, ucp_config_modify(config, "TLS", transports()), "ucp_config_modify");
    if (has_lanes()) {
        must(cluster, ucp_config_modify(config, "MAX_RNDV_RAILS", "4"), "ucp_config_modify");
        must(cluster, ucp_config_modify(config, "MAX_RMA_RAILS", "3"), "ucp_config_modify");
        must(cluster, ucp_config_modify(config, "RNDV_THRESH", "1000"), "ucp_config_modify");
    }
    if (has_devices()) {
        announce_to_devices(cluster, config);
    }
    if (has_devices() && has_lanes()) { /* an atomic operation of a device needs a lane that leads to that device */
        must(cluster, ucp_config_modify(config, "ATOMIC_MODE", "cpu"), "ucp_config_modify");
    }
    must(cluster, ucp_init(&params, config, &node->context), "ucp_init");
    ucp_config_release(config);
    must(cluster, ucp_worker_create(node->context, &worker_params, &node->worker), "ucp_worker_create");
    must(cluster, ucp_worker_get_address(node->worker, &node->address, &node->address_length),
         "ucp_worker_get_address");
    if (cluster->sleepers) {
        must(cluster, ucp_worker_get_efd(node->worker, &node->fd), "ucp_worker_get_efd");
    }
}

static void open_ep(struct cw_cluster *cluster, unsigned from, unsigned to)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .address = cluster->nodes[to].address,
                              .err_mode = cluster->mode,
                              .err_handler.cb = ep_failed,
                              .err_handler.arg = &places[from][to]};

    places[from][to] = (struct failure_place){.from = from, .to = to};
    must(cluster, ucp_ep_create(cluster->nodes[from].worker, &params, &cluster->nodes[from].eps[to]),
         "ucp_ep_create");
}

struct cw_cluster *cw_cluster_new(uint64_t seed, const struct cw_sim_knobs *knobs, ucp_err_handling_mode_t mode,
                                  int sleepers)
{
    struct cw_cluster *cluster = &the_cluster;
    struct cw_sim_knobs changed = *knobs;
    unsigned i, j;

    static int reported;

    if (!reported) {
        reported = 1;
        atexit(report_cuts);
    }
    memset(cluster, 0, sizeof(*cluster));
    cluster->seed = seed;
    cluster->random = seed * 3;
    cw_counter_start = counters_wrap() ? -wrap_after(seed) : 0;
    cluster->mode = has_failover() ? UCP_ERR_HANDLING_MODE_FAILOVER : mode;
    cluster->sleepers = sleepers;
    library_random = seed * 5 + (cw_cluster_is_simulated() ? 0 : (uint64_t)getpid() << 32); /* workers are named by it
                                                                                               */
    library_clock_ns = 0;
    if (has_lanes()) {
        changed = with_lanes(knobs, seed);
    }
    if (has_devices()) {
        add_devices(&changed, seed);
    }
    cluster->network = cw_sim_network_new(seed, &changed);
    if (cluster->network == NULL) {
        cw_cluster_fail(cluster, "no memory");
    }
    report_unmapped(cluster);
    cluster->num_workers = 2 + (unsigned)cw_cluster_random(cluster, CW_MAX_WORKERS - 1);
    for (i = 0; i < cluster->num_workers; i++) {
        open_worker(cluster, &cluster->nodes[i]);
    }
    for (i = 0; i < cluster->num_workers; i++) {
        for (j = 0; j < cluster->num_workers; j++) {
            open_ep(cluster, i, j); /* to itself, too */
        }
    }
    return cluster;
}

uint64_t cw_cluster_free(struct cw_cluster *cluster)
{
    struct cw_sim_stats stats;
    unsigned i;

    for (i = 0; i < cluster->num_workers; i++) {
        ucp_worker_release_address(cluster->nodes[i].worker, cluster->nodes[i].address);
        ucp_worker_destroy(cluster->nodes[i].worker);
        ucp_cleanup(cluster->nodes[i].context);
    }
    cw_sim_get_stats(cluster->network, &stats);
    total_cuts += cluster->num_cuts;
    totals.packets += stats.packets;
    totals.again += stats.again;
    totals.pieces += stats.pieces;
    totals.accesses += stats.accesses;
    totals.registered += stats.registered;
    totals.no_register += stats.no_register;
    totals.gets += stats.gets;
    totals.puts += stats.puts;
    totals.from_registered += stats.from_registered;
    cw_sim_network_free(cluster->network);
    return cw_hash_mix(stats.digest ^ library_clock_ns);
}

void cw_cluster_get_totals(struct cw_sim_stats *result)
{
    *result = totals;
}

enum cw_sim_fault cw_cluster_breaking(uint64_t seed)
{
    if (has_devices() && seed % 3 == 0) {
        return CW_SIM_ACCESS;
    }
    return (seed % 2 == 0) ? CW_SIM_RESET : CW_SIM_GARBAGE;
}

void cw_cluster_check_devices(uint64_t count)
{
    if (!has_devices() || has_failover()) { /* which sends packets */
        return;
    }
    if (totals.accesses <= 10 * count || (count >= 7 && (totals.registered == 0 || totals.no_register == 0))) {
        cw_cluster_fail(&the_cluster, "%llu accesses, %llu registrations and %llu refused ones are too few",
                        (unsigned long long)totals.accesses, (unsigned long long)totals.registered,
                        (unsigned long long)totals.no_register);
    }
}

void cw_cluster_check_rendezvous(uint64_t count)
{
    if (has_failover()) {
        return;
    }
    if (has_devices() && (totals.gets <= count || totals.puts <= count || totals.no_register == 0)) {
        cw_cluster_fail(&the_cluster, "%llu gets, %llu puts and %llu refused registrations are too few for %llu seeds",
                        (unsigned long long)totals.gets, (unsigned long long)totals.puts,
                        (unsigned long long)totals.no_register, (unsigned long long)count);
    }
    /* With several lanes most messages of that length are shared by devices. */
    if (has_devices() && 4 * totals.from_registered <= count) {
        cw_cluster_fail(&the_cluster, "%llu packets out of registered memory are too few for %llu seeds",
                        (unsigned long long)totals.from_registered, (unsigned long long)count);
    }
}

static int is_awake(struct cw_cluster_node *node)
{
    struct pollfd fd = {.fd = node->fd, .events = POLLIN};

    if (node->asleep && poll(&fd, 1, 0) == 1) {
        node->asleep = 0;
    }
    return !node->asleep;
}

/* The worker goes on where it stands in the loop "progress to 0, arm, sleep". */
static void step_sleeper(struct cw_cluster *cluster, struct cw_cluster_node *node)
{
    unsigned i, awake = 0;
    ucs_status_t status;

    if (is_awake(node)) {
        if (ucp_worker_progress(node->worker) == 0) {
            status = ucp_worker_arm(node->worker);
            if (status != UCS_OK && status != UCS_ERR_BUSY) {
                must(cluster, status, "ucp_worker_arm");
            }
            node->asleep = status == UCS_OK;
        }
        return;
    }
    for (i = 0; i < cluster->num_workers; i++) {
        awake += is_awake(&cluster->nodes[i]) != 0;
    }
    if (awake == 0 && cluster->waiting) {
        cw_cluster_fail(cluster, "all workers sleep, and %u of %u operations are not done: a wake-up was lost",
                        cluster->num_ops - cluster->num_done, cluster->num_ops);
    }
}

/* In place of the system's counter of ticks: the seed decides which idle rounds check descriptors and alarms, between
 * each one and one of 16. */
static void pace(struct cw_cluster *cluster, struct ucp_worker *worker)
{
    const uint64_t chance = cw_hash_mix((cluster->seed << 32) ^ ++cluster->num_steps);

    if (cw_cluster_is_simulated()) {
        worker->polling.next = 0;
        worker->polling.rounds_to_clock = chance % (UINT64_C(1) << cluster->seed % 5) != 0;
    }
}

void cw_cluster_step_one(struct cw_cluster *cluster, unsigned worker)
{
    struct cw_cluster_node *node = &cluster->nodes[worker];

    cut_lanes(cluster);
    pace(cluster, node->worker);
    if (cluster->sleepers) {
        step_sleeper(cluster, node);
    } else if (!node->dead) {
        ucp_worker_progress(node->worker);
    }
}

void cw_cluster_step(struct cw_cluster *cluster)
{
    cw_cluster_step_one(cluster, (unsigned)cw_cluster_random(cluster, cluster->num_workers));
}

unsigned cw_cluster_rest(void)
{
    return has_failover() ? 300000 : 3000; /* a lane that was cut without a word is noticed by the clock */
}

unsigned cw_cluster_rounds(void)
{
    return cw_cluster_is_simulated() ? CW_MAX_ROUNDS : 100 * CW_MAX_ROUNDS; /* the system does not wait for our calls */
}

void cw_cluster_finish(struct cw_cluster *cluster)
{
    unsigned rounds;

    cluster->waiting = 1;
    for (rounds = 0; cluster->num_done < cluster->num_ops; rounds++) {
        cw_cluster_step(cluster);
        if (rounds == cw_cluster_rounds()) {
            cw_cluster_fail(cluster, "%u of %u operations are not done after %u calls of progress",
                            cluster->num_ops - cluster->num_done, cluster->num_ops, rounds);
        }
    }
    cluster->waiting = 0;
}

size_t cw_message_length(const struct cw_cluster *cluster, unsigned from, unsigned to, uint64_t number)
{
    uint64_t chance = cw_hash_mix(cluster->seed ^ (number << 8) ^ (from << 4) ^ to);

    switch (chance % 8) {
    case 0:
        return 0;
    case 1:
        return (chance >> 8) % 60000;
    case 2:
    case 3:
        return (chance >> 8) % 3000;
    default:
        return (chance >> 8) % 200;
    }
}

static void fill(uint8_t *buffer, size_t length, unsigned from, unsigned to, uint64_t number)
{
    uint64_t word = cw_hash_mix((number << 8) ^ (from << 4) ^ to ^ 0x746f776eu);
    size_t i;

    for (i = 0; i < length; i++) {
        buffer[i] = (uint8_t)(word >> (i % 8 * 8)) ^ (uint8_t)(i >> 3);
    }
}

/* `worker`: the one of the two who posts it. */
static struct cw_op *op_new(struct cw_cluster *cluster, unsigned worker, unsigned from, unsigned to, size_t length)
{
    struct cw_op *op;

    cluster->nodes[worker].asleep = 0; /* whoever posts something goes through the loop again */
    if (cluster->num_ops == CW_MAX_OPS) {
        cw_cluster_fail(cluster, "the test posts too many operations");
    }
    op = &cluster->ops[cluster->num_ops++];
    *op = (struct cw_op){.from = from, .to = to, .length = length, .buffer = malloc(length + 1)};
    return op;
}

static void op_done(struct cw_op *op, ucs_status_t status)
{
    if (op->done) {
        cw_cluster_fail(&the_cluster, "an operation completes twice");
    }
    op->done = 1;
    op->status = status;
    the_cluster.num_done++;
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    struct cw_op *op = user_data;

    (void)request;
    op->calls++;
    op_done(op, status);
}

static void received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct cw_op *op = user_data;

    (void)request;
    op->calls++;
    op->info = *info;
    op_done(op, status);
}

/* What the call returned: nothing to wait for, a request, or an error. */
static struct cw_op *started(struct cw_op *op, ucs_status_ptr_t result)
{
    if (result == NULL) {
        if (op->calls > 0) {
            cw_cluster_fail(&the_cluster, "NULL was returned and the callback called, too");
        }
        op_done(op, UCS_OK);
    } else if (UCS_PTR_IS_ERR(result)) {
        if (op->calls > 0) {
            cw_cluster_fail(&the_cluster, "an error was returned and the callback called, too");
        }
        op_done(op, UCS_PTR_STATUS(result));
    } else {
        op->request = result;
    }
    return op;
}

static uint64_t tag_of(unsigned from, unsigned to)
{
    return 0x1000u + from * 16u + to;
}

/* Some messages are sent with a handle of their memory. */
static void map_some(const struct cw_cluster *cluster, struct cw_op *op, ucp_request_param_t *param)
{
    const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = op->buffer,
                                         .length = op->length};

    if (!has_devices() || op->number % 3 != 0 || op->length == 0) {
        return;
    }
    if (ucp_mem_map(cluster->nodes[op->from].context, &params, &op->memh) != UCS_OK) {
        cw_cluster_fail(cluster, "memory cannot be mapped");
    }
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    param->memh = op->memh;
}

struct cw_op *cw_cluster_send(struct cw_cluster *cluster, unsigned from, unsigned to)
{
    uint64_t number = cluster->sent[from][to]++;
    size_t length = cw_message_length(cluster, from, to, number);
    struct cw_op *op = op_new(cluster, from, from, to, length);
    ucp_ep_h ep = cluster->nodes[from].eps[to];
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = sent, .user_data = op};

    op->number = number;
    fill(op->buffer, length, from, to, number);
    map_some(cluster, op, &param);
    if (cw_cluster_random(cluster, 4) == 0) {
        param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    }
    if (cw_cluster_random(cluster, 5) == 0) {
        return started(op, ucp_tag_send_sync_nbx(ep, op->buffer, length, tag_of(from, to), &param));
    }
    return started(op, ucp_tag_send_nbx(ep, op->buffer, length, tag_of(from, to), &param));
}

struct cw_op *cw_cluster_recv(struct cw_cluster *cluster, unsigned from, unsigned to)
{
    uint64_t number = cluster->received[from][to]++;
    size_t length = cw_message_length(cluster, from, to, number) + cw_cluster_random(cluster, 3) * 100;
    struct cw_op *op = op_new(cluster, to, from, to, length);
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                 UCP_OP_ATTR_FIELD_RECV_INFO,
                                 .cb.recv = received,
                                 .user_data = op,
                                 .recv_info.tag_info = &op->info};

    op->is_recv = 1;
    op->number = number;
    memset(op->buffer, 0xcc, length + 1);
    return started(
        op, ucp_tag_recv_nbx(cluster->nodes[to].worker, op->buffer, length, tag_of(from, to), UINT64_MAX, &param));
}

/* Whether the buffer of a receive holds exactly that message. */
static int holds(const struct cw_cluster *cluster, const struct cw_op *op, uint64_t number)
{
    const size_t length = cw_message_length(cluster, op->from, op->to, number);
    uint8_t *expected;
    int equal;

    if (op->info.length != length || length > op->length) {
        return 0;
    }
    expected = malloc(length + 1);
    fill(expected, length, op->from, op->to, number);
    expected[length] = 0xcc;
    equal = memcmp(expected, op->buffer, length + 1) == 0;
    free(expected);
    return equal;
}

/* Where connections break, announced messages are lost with them, and later ones that came whole are not: then it is
 * one behind the last that was received. */
static uint64_t number_of(struct cw_cluster *cluster, const struct cw_op *op)
{
    uint64_t number = op->number;

    if (!cluster->gaps) {
        return number;
    }
    number = (number < cluster->taken[op->from][op->to]) ? cluster->taken[op->from][op->to] : number;
    while (number + 1 < cluster->sent[op->from][op->to] && !holds(cluster, op, number)) {
        number++;
    }
    cluster->taken[op->from][op->to] = number + 1;
    return number;
}

void cw_op_check(struct cw_cluster *cluster, struct cw_op *op)
{
    size_t length;
    uint8_t *expected;

    if (op->is_recv && op->status == UCS_OK) {
        op->number = number_of(cluster, op);
    }
    length = cw_message_length(cluster, op->from, op->to, op->number);
    if (op->request != NULL && op->calls != 1) {
        cw_cluster_fail(cluster, "the callback of an operation came %u times", op->calls);
    }
    if (op->is_recv && op->status == UCS_OK) {
        if (op->info.length != length || op->info.sender_tag != tag_of(op->from, op->to)) {
            cw_cluster_fail(cluster, "message %llu from %u to %u came with %zu bytes instead of %zu and tag %llx",
                            (unsigned long long)op->number, op->from, op->to, op->info.length, length,
                            (unsigned long long)op->info.sender_tag);
        }
        expected = malloc(length + 1);
        fill(expected, length, op->from, op->to, op->number);
        expected[length] = 0xcc;
        if (memcmp(expected, op->buffer, length + 1) != 0) {
            cw_cluster_fail(cluster, "message %llu from %u to %u (%zu bytes) is damaged or out of order",
                            (unsigned long long)op->number, op->from, op->to, length);
        }
        free(expected);
    }
    if (op->request != NULL) {
        ucp_request_free(op->request);
        op->request = NULL;
    }
    if (op->memh != NULL) {
        (void)ucp_mem_unmap(cluster->nodes[op->from].context, op->memh);
        op->memh = NULL;
    }
    forget_memory(op->buffer, op->length + 1);
    op->buffer = NULL;
}

struct cw_op *cw_cluster_close_ep(struct cw_cluster *cluster, unsigned from, unsigned to, uint32_t flags)
{
    struct cw_op *op = op_new(cluster, from, from, to, 0);
    ucp_request_param_t param = {.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS,
                                 .cb.send = sent,
                                 .user_data = op,
                                 .flags = flags};
    ucp_ep_h ep = cluster->nodes[from].eps[to];

    cluster->nodes[from].eps[to] = NULL; /* an error handler that comes now comes too late (ERR-4) */
    return started(op, ucp_ep_close_nbx(ep, &param));
}
