/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_scale: what it costs many workers to meet, in the simulated network of one process: traffic of the wire-up,
 * memory, time. One pattern and one number of workers per run, because memory that was once taken is not given back.
 *
 * Usage: bench_scale [-p all-to-all|ring|many-to-one|tree] [-n workers] [-k partners] [-s seed]
 * Prints one JSON object. Linked with the archive of objects that the tests in test/sim are linked with. Clock and
 * random numbers follow the simulation, so that traffic and virtual time depend on the arguments alone; processor time
 * and memory are real. The workers are driven in the order of the network's events.
 */
#include "base/hash.h"
#include "os/clock.h"
#include "os/random.h"
#include "sim.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { AM_ID = 1, TREE_CHILDREN = 8, DEFAULT_PARTNERS = 8 };

struct person {
    ucp_worker_h worker;
    ucp_ep_h *eps;
    unsigned num_eps;
    unsigned received;
    unsigned expected;  /* before it answers in its turn; tree: messages of its children */
    uint8_t answered;
};

struct snapshot {
    double cpu_us;
    size_t library;     /* bytes allocated, without the network's and this program's own */
    size_t network;
    long resident_kib;
    unsigned descriptors;
};

struct pattern {
    const char *name;
    /* Makes the endpoints of a worker and sends what it has to say at the beginning. */
    void (*begin)(unsigned number);
};

static struct cw_sim_network *network;
static ucp_context_h context;
static struct person *people;
static uint8_t *addresses;
static size_t address_length, own_memory;
static unsigned num_workers = 100, num_partners = DEFAULT_PARTNERS;
static unsigned long endpoints, sent, received;
static uint64_t random_state = 1;

/* ---- in place of the system's ---- */

uint64_t cw_random_u64(void)
{
    random_state += 0x9e3779b97f4a7c15u;
    return cw_hash_mix(random_state);
}

uint64_t cw_clock_ns(void)
{
    return (network == NULL) ? 1 : cw_sim_now_ns(network) + 1;
}

/* ---- helpers ---- */

static void must(const char *what, ucs_status_t status)
{
    if (status != UCS_OK) {
        fprintf(stderr, "bench_scale: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void *own(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (memory == NULL) {
        must("memory", UCS_ERR_NO_MEMORY);
    }
    own_memory += malloc_usable_size(memory) + sizeof(size_t);
    return memory;
}

static unsigned open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return (count > 3) ? count - 3 : 0; /* two of them are no names, one is the directory's */
}

static long resident_kib(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (file != NULL) {
        if (fscanf(file, "%*d %ld", &pages) != 1) {
            pages = 0;
        }
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct snapshot take_snapshot(void)
{
    const struct mallinfo2 info = mallinfo2();
    struct snapshot now = {.resident_kib = resident_kib(), .descriptors = open_descriptors(),
                           .network = cw_sim_memory(network)};
    struct timespec cpu;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    now.cpu_us = (double)cpu.tv_sec * 1e6 + (double)cpu.tv_nsec / 1e3;
    now.library = info.uordblks + info.hblkhd - now.network - own_memory;
    return now;
}

/* ---- workers ---- */

static ucs_status_t on_message(void *arg, const void *header, size_t header_length, void *data, size_t length,
                               const ucp_am_recv_param_t *param)
{
    (void)header;
    (void)header_length;
    (void)data;
    (void)length;
    (void)param;
    ((struct person *)arg)->received++;
    received++;
    return UCS_OK;
}

static void open_context(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
    ucp_config_t *config;

    must("ucp_config_read", ucp_config_read(NULL, NULL, &config));
    must("ucp_config_modify", ucp_config_modify(config, "TLS", "sim"));
    must("ucp_config_modify", ucp_config_modify(config, "COUNTERS", "n")); /* a descriptor and a page of each worker */
    must("ucp_init", ucp_init(&params, config, &context));
    ucp_config_release(config);
}

static void open_worker(unsigned number)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                 .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = AM_ID,
                                      .cb = on_message,
                                      .arg = &people[number]};

    must("ucp_worker_create", ucp_worker_create(context, &params, &people[number].worker));
    must("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(people[number].worker, &handler));
}

static void note_address(unsigned number)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    must("ucp_worker_query", ucp_worker_query(people[number].worker, &attr));
    if (addresses == NULL) {
        address_length = attr.address_length;
        addresses = own(num_workers, address_length);
    }
    memcpy(addresses + number * address_length, attr.address, address_length);
    ucp_worker_release_address(people[number].worker, attr.address);
}

static void meet(unsigned from, unsigned to)
{
    struct person *person = &people[from];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = (const ucp_address_t *)(addresses + to * address_length)};

    must("ucp_ep_create", ucp_ep_create(person->worker, &params, &person->eps[person->num_eps++]));
    endpoints++;
}

static void say(unsigned from, unsigned ep)
{
    static const ucp_request_param_t none;
    uint64_t word = from;
    ucs_status_ptr_t request;

    request = ucp_am_send_nbx(people[from].eps[ep], AM_ID, &word, sizeof(word), NULL, 0, &none);
    if (UCS_PTR_IS_ERR(request)) {
        must("ucp_am_send_nbx", UCS_PTR_STATUS(request));
    }
    if (request != NULL) {
        ucp_request_free(request);
    }
    sent++;
}

static void meet_and_say(unsigned from, unsigned to)
{
    meet(from, to);
    say(from, people[from].num_eps - 1);
}

/* ---- patterns ---- */

/* Everybody would talk to everybody, but meets only a bounded number of others, as collective operations do: those at
 * distance 1, 2, 4 ... on both sides. Both ends of each pair dial at once. */
static void begin_all_to_all(unsigned number)
{
    unsigned distance = 1, i;

    people[number].eps = own(num_partners, sizeof(ucp_ep_h));
    for (i = 0; i + 2 <= num_partners && 2 * distance < num_workers; i += 2, distance *= 2) {
        meet_and_say(number, (number + distance) % num_workers);
        meet_and_say(number, (number + num_workers - distance) % num_workers);
    }
}

static void begin_ring(unsigned number)
{
    people[number].eps = own(1, sizeof(ucp_ep_h));
    meet_and_say(number, (number + 1) % num_workers);
}

static void begin_many_to_one(unsigned number)
{
    if (number > 0) {
        people[number].eps = own(1, sizeof(ucp_ep_h));
        meet_and_say(number, 0);
    }
}

static unsigned num_children(unsigned number)
{
    const uint64_t first = (uint64_t)number * TREE_CHILDREN + 1;

    if (first >= num_workers) {
        return 0;
    }
    return (first + TREE_CHILDREN <= num_workers) ? TREE_CHILDREN : (unsigned)(num_workers - first);
}

/* Leaves notify their parents; whoever has heard all its children notifies its own; the root's answer goes down again.
 * */
static void begin_tree(unsigned number)
{
    const unsigned children = num_children(number);
    unsigned i;

    people[number].eps = own(children + 1u, sizeof(ucp_ep_h));
    people[number].expected = children;
    if (number > 0) {
        meet(number, (number - 1) / TREE_CHILDREN);
    }
    for (i = 0; i < children; i++) {
        meet(number, number * TREE_CHILDREN + 1 + i);
    }
}

static void answer_in_tree(unsigned number)
{
    struct person *person = &people[number];
    unsigned i;

    if (!person->answered && person->received >= person->expected) {
        person->answered = 1;
        if (number > 0) {
            say(number, 0);
            person->expected++;
            return;
        }
    }
    if (person->answered == 1 && person->received >= person->expected) {
        person->answered = 2;
        for (i = (number > 0); i < person->num_eps; i++) {
            say(number, i);
        }
    }
}

static const struct pattern patterns[] = {
    {"all-to-all", begin_all_to_all},
    {"ring", begin_ring},
    {"many-to-one", begin_many_to_one},
    {"tree", begin_tree},
};

/* ---- the run ---- */

static void run(const struct pattern *pattern)
{
    const int is_tree = pattern->begin == begin_tree;
    unsigned i;
    int64_t next;

    for (i = 0; i < num_workers; i++) {
        pattern->begin(i);
    }
    for (i = 0; is_tree && i < num_workers; i++) {
        answer_in_tree(i);
    }
    while ((next = cw_sim_next(network)) >= 0) {
        ucp_worker_progress(people[next].worker);
        if (is_tree) {
            answer_in_tree((unsigned)next);
        }
    }
    if (received != sent) {
        fprintf(stderr, "bench_scale: %lu of %lu messages arrived\n", received, sent);
        exit(1);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec cpu;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

/* Nanoseconds of a call of progress that finds nothing: the least of some rounds. */
static double idle_ns(unsigned number)
{
    uint64_t least = UINT64_MAX, start_ns, took_ns;
    unsigned round, i;

    for (round = 0; round < 20; round++) {
        start_ns = cpu_ns();
        for (i = 0; i < 200; i++) {
            ucp_worker_progress(people[number].worker);
        }
        took_ns = cpu_ns() - start_ns;
        least = (took_ns < least) ? took_ns : least;
    }
    return (double)least / 200;
}

static void report(const struct pattern *pattern, const struct snapshot snapshots[4], double virtual_us,
                   const double idle[2])
{
    const double workers = (double)num_workers, eps = (double)endpoints;
    struct cw_sim_stats stats;

    cw_sim_get_stats(network, &stats);
    printf("{\"pattern\": \"%s\", \"workers\": %u, \"endpoints\": %lu, \"messages\": %lu, \"hellos\": %llu, "
           "\"hello_bytes\": %llu, \"packets\": %llu, \"packet_bytes\": %llu, \"virtual_us\": %.3f, ",
           pattern->name, num_workers, endpoints, sent, (unsigned long long)stats.hellos,
           (unsigned long long)stats.hello_bytes, (unsigned long long)stats.packets, (unsigned long long)stats.bytes,
           virtual_us);
    printf("\"create_us_per_worker\": %.3f, \"meet_us_per_endpoint\": %.3f, \"destroy_us_per_worker\": %.3f, ",
           (snapshots[1].cpu_us - snapshots[0].cpu_us) / workers, (snapshots[2].cpu_us - snapshots[1].cpu_us) / eps,
           (snapshots[3].cpu_us - snapshots[2].cpu_us) / workers);
    printf("\"worker_bytes\": %.1f, \"endpoint_bytes\": %.1f, \"network_bytes\": %zu, \"resident_kib\": %ld, "
           "\"descriptors\": %u, \"idle_ns_first\": %.1f, \"idle_ns_last\": %.1f}\n",
           (double)(snapshots[1].library - snapshots[0].library) / workers,
           (double)(snapshots[2].library - snapshots[1].library) / eps, snapshots[2].network, snapshots[2].resident_kib,
           snapshots[2].descriptors - snapshots[0].descriptors, idle[0], idle[1]);
}

static const struct pattern *find_pattern(const char *name)
{
    for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
        if (strcmp(patterns[i].name, name) == 0) {
            return &patterns[i];
        }
    }
    return NULL;
}

static void measure(const struct pattern *pattern, uint64_t seed)
{
    struct snapshot snapshots[4];
    struct cw_sim_knobs knobs;
    double virtual_us, idle[2];
    unsigned i;

    cw_sim_knobs_default(&knobs);
    knobs.step_ns = 0; /* virtual time is what the network takes: workers compute side by side */
    network = cw_sim_network_new(seed, &knobs);
    if (network == NULL) {
        must("the simulated network", UCS_ERR_NO_MEMORY);
    }
    open_context();
    people = own(num_workers, sizeof(*people));
    (void)take_snapshot(); /* what reading /proc takes is not the library's */
    snapshots[0] = take_snapshot();
    for (i = 0; i < num_workers; i++) {
        open_worker(i);
        note_address(i);
    }
    snapshots[1] = take_snapshot();
    run(pattern);
    virtual_us = (double)cw_sim_now_ns(network) / 1e3;
    snapshots[2] = take_snapshot();
    idle[0] = idle_ns(0);
    idle[1] = idle_ns(num_workers - 1);
    for (i = 0; i < num_workers; i++) {
        ucp_worker_destroy(people[i].worker);
    }
    snapshots[3] = take_snapshot();
    report(pattern, snapshots, virtual_us, idle);
    ucp_cleanup(context);
}

int main(int argc, char **argv)
{
    const struct pattern *pattern = &patterns[0];
    uint64_t seed = 1;
    int letter;

    while ((letter = getopt(argc, argv, "p:n:k:s:")) != -1) {
        if (letter == 'p') {
            pattern = find_pattern(optarg);
        } else if (letter == 'n') {
            num_workers = (unsigned)strtoul(optarg, NULL, 10);
        } else if (letter == 'k') {
            num_partners = (unsigned)strtoul(optarg, NULL, 10);
        } else if (letter == 's') {
            seed = strtoull(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    if (optind != argc || pattern == NULL || num_workers < 4 || num_workers > 1000000 || num_partners < 2 ||
        num_partners > 64) {
        fprintf(stderr, "Usage: bench_scale [-p all-to-all|ring|many-to-one|tree] [-n workers (4 to 1000000)]\n"
                        "                   [-k partners (2 to 64)] [-s seed]\n");
        return 2;
    }
    random_state = seed * 5;
    measure(pattern, seed);
    return 0;
}
