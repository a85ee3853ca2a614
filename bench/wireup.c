/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_wireup: what it costs the processes of a job to meet all to all. Started by mpirun, prterun or srun (PMIx); the
 * addresses of the workers are exchanged through PMIx, as MPI libraries do it. Each process creates an endpoint to each
 * other one, and twice sends 8 bytes to each and receives 8 from each: the first round connects, the second uses what
 * is connected. A message that is lost, doubled or changed ends the job.
 *
 * Usage: bench_wireup [-t seconds without progress]
 * The process of rank 0 prints "key value" lines: of each quantity the median over the processes and the maximum.
 * Phases, in seconds of the clock and of the process's processor time:
 *   init       context and worker
 *   exchange   from the question for the own address until all others are known; it waits for all to have started
 *   endpoints  creation of the endpoints
 *   first      the first round, up to the end of the worker's flush
 *   second     the second
 *   teardown   close of the endpoints, meeting of all, end of the worker and the context
 * Memory and descriptors of an endpoint: growth from before the endpoints to after the second round, divided by their
 * number. A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "pmix_job.h"
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { MOST_ADDRESS = 8192, MOST_REPORT = 1024, DEFAULT_SECONDS = 120, LAST_LOOKS = 100 };

enum value {
    INIT_SEC,
    INIT_CPU_SEC,
    EXCHANGE_SEC,
    EXCHANGE_CPU_SEC,
    ENDPOINTS_SEC,
    ENDPOINTS_CPU_SEC,
    FIRST_SEC,
    FIRST_CPU_SEC,
    SECOND_SEC,
    SECOND_CPU_SEC,
    TEARDOWN_SEC,
    TEARDOWN_CPU_SEC,
    ADDRESS_BYTES,
    ENDPOINT_RSS_BYTES,
    ENDPOINT_PSS_BYTES,
    ENDPOINT_DESCRIPTORS,
    RANK_RSS_KIB,
    RANK_PSS_KIB,
    RANK_DESCRIPTORS,
    NUM_VALUES,
};

static const char *const names[NUM_VALUES] = {
    [INIT_SEC] = "init_sec",
    [INIT_CPU_SEC] = "init_cpu_sec",
    [EXCHANGE_SEC] = "exchange_sec",
    [EXCHANGE_CPU_SEC] = "exchange_cpu_sec",
    [ENDPOINTS_SEC] = "endpoints_sec",
    [ENDPOINTS_CPU_SEC] = "endpoints_cpu_sec",
    [FIRST_SEC] = "first_sec",
    [FIRST_CPU_SEC] = "first_cpu_sec",
    [SECOND_SEC] = "second_sec",
    [SECOND_CPU_SEC] = "second_cpu_sec",
    [TEARDOWN_SEC] = "teardown_sec",
    [TEARDOWN_CPU_SEC] = "teardown_cpu_sec",
    [ADDRESS_BYTES] = "address_bytes",
    [ENDPOINT_RSS_BYTES] = "endpoint_rss_bytes",
    [ENDPOINT_PSS_BYTES] = "endpoint_pss_bytes",
    [ENDPOINT_DESCRIPTORS] = "endpoint_descriptors",
    [RANK_RSS_KIB] = "rank_rss_kib",
    [RANK_PSS_KIB] = "rank_pss_kib",
    [RANK_DESCRIPTORS] = "rank_descriptors",
};

struct peer {
    ucp_ep_h ep;
    uint64_t out;      /* of a send that is not complete */
    uint64_t in;
    unsigned received; /* in this round */
};

struct moment {
    double seconds;
    double cpu_seconds;
};

static struct cw_pmix job;
static struct cw_side here;
static struct peer *peers; /* by rank; that of this process is not used */
static uint8_t *addresses; /* of MOST_ADDRESS bytes each */
static unsigned under_way; /* requests */
static double values[NUM_VALUES];

/* ---- the job ---- */

static void job_check(int result)
{
    if (result < 0) {
        cw_say_error("process %u: %s", job.rank, job.error);
        exit(1);
    }
}

/* More processes than processors: whoever finds nothing lets others run. */
static void progress(void)
{
    if (ucp_worker_progress(here.worker) == 0) {
        sched_yield();
    }
}

/* Waits for all processes; they may need this worker's progress until then. */
static void meet(void)
{
    int over;

    job_check(cw_pmix_fence_begin(&job));
    while ((over = cw_pmix_fence_test(&job)) == 0) {
        progress();
    }
    job_check(over);
    cw_watchdog_beat();
}

/* The rank that is so many steps away: each process begins with another peer. */
static unsigned at_distance(unsigned distance)
{
    return (job.rank + distance) % job.size;
}

/* ---- measuring ---- */

static struct moment now(void)
{
    struct timespec cpu;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct moment){.seconds = (double)cw_clock_ns() / 1e9,
                           .cpu_seconds = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9};
}

/* `value` is that of the seconds; behind it comes that of the processor time. */
static void note_phase(enum value value, struct moment start)
{
    const struct moment end = now();

    values[value] = end.seconds - start.seconds;
    values[value + 1] = end.cpu_seconds - start.cpu_seconds;
}

static unsigned open_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    const struct dirent *entry;
    unsigned count = 0;

    if (directory == NULL) {
        cw_say_error("cannot read /proc/self/fd");
        exit(1);
    }
    while ((entry = readdir(directory)) != NULL) {
        count += entry->d_name[0] != '.';
    }
    closedir(directory);
    return count - 1; /* the directory's own */
}

/* ---- addresses ---- */

static void put_address(void)
{
    static char text[2 * MOST_ADDRESS + 1];
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    cw_side_check("ucp_worker_query", ucp_worker_query(here.worker, &attr));
    if (attr.address_length > MOST_ADDRESS) {
        cw_say_error("the worker's address has %zu bytes", attr.address_length);
        exit(1);
    }
    for (size_t i = 0; i < attr.address_length; i++) {
        snprintf(text + 2 * i, 3, "%02x", ((const uint8_t *)attr.address)[i]);
    }
    values[ADDRESS_BYTES] = (double)attr.address_length;
    ucp_worker_release_address(here.worker, attr.address);
    job_check(cw_pmix_put(&job, "wireup.address", text));
}

static void get_address(unsigned rank)
{
    static char text[2 * MOST_ADDRESS + 1];
    uint8_t *address = addresses + (size_t)rank * MOST_ADDRESS;
    unsigned byte;

    job_check(cw_pmix_get(&job, rank, "wireup.address", text, sizeof(text)));
    for (size_t i = 0; text[2 * i] != '\0'; i++) {
        if (sscanf(text + 2 * i, "%2x", &byte) != 1) {
            cw_say_error("process %u has left no address", rank);
            exit(1);
        }
        address[i] = (uint8_t)byte;
    }
}

static void exchange(void)
{
    put_address();
    job_check(cw_pmix_fence(&job));
    for (unsigned distance = 1; distance < job.size; distance++) {
        get_address(at_distance(distance));
    }
}

/* ---- endpoints ---- */

static void create_endpoints(void)
{
    for (unsigned distance = 1; distance < job.size; distance++) {
        const unsigned rank = at_distance(distance);
        ucp_ep_params_t params = {
            .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
            .address = (const ucp_address_t *)(addresses + (size_t)rank * MOST_ADDRESS),
        };

        cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &peers[rank].ep));
    }
}

static void on_done(void *request, ucs_status_t status, void *user_data)
{
    (void)user_data;
    cw_side_check("a request", status);
    under_way--;
    ucp_request_free(request);
}

static void close_endpoints(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_done};

    for (unsigned distance = 1; distance < job.size; distance++) {
        ucs_status_ptr_t request = ucp_ep_close_nbx(peers[at_distance(distance)].ep, &param);

        cw_side_check("ucp_ep_close_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
        under_way += request != NULL;
    }
    while (under_way > 0) {
        progress();
    }
}

/* ---- messages ---- */

static ucp_tag_t tag_of(unsigned round, unsigned sender)
{
    return (uint64_t)round << 32 | sender;
}

static uint64_t content_of(unsigned round, unsigned sender, unsigned receiver)
{
    return ((uint64_t)round << 48 ^ (uint64_t)sender << 24 ^ receiver) * 0x9e3779b97f4a7c15u;
}

static void on_received(void *request, ucs_status_t status, const ucp_tag_recv_info_t *info, void *user_data)
{
    struct peer *peer = user_data;

    cw_side_check("ucp_tag_recv_nbx", status);
    if (info->length != sizeof(peer->in) || (uint32_t)info->sender_tag != (uint32_t)(peer - peers)) {
        cw_say_error("process %u: %zu bytes with tag %llx instead of 8 of process %u", job.rank, info->length,
                     (unsigned long long)info->sender_tag, (unsigned)(peer - peers));
        exit(1);
    }
    peer->received++;
    under_way--;
    ucp_request_free(request);
}

static void post_receive(unsigned round, unsigned rank)
{
    struct peer *peer = &peers[rank];
    const ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
        .cb.recv = on_received,
        .user_data = peer,
    };
    ucs_status_ptr_t request;

    peer->in = 0;
    peer->received = 0;
    under_way++;
    request = ucp_tag_recv_nbx(here.worker, &peer->in, sizeof(peer->in), tag_of(round, rank), UINT64_MAX, &param);
    cw_side_check("ucp_tag_recv_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
}

static void send_word(unsigned round, unsigned rank)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_done};
    struct peer *peer = &peers[rank];
    ucs_status_ptr_t request;

    peer->out = content_of(round, job.rank, rank);
    request = ucp_tag_send_nbx(peer->ep, &peer->out, sizeof(peer->out), tag_of(round, job.rank), &param);
    cw_side_check("ucp_tag_send_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
    under_way += request != NULL;
}

static void flush(void)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_done};
    ucs_status_ptr_t request = ucp_worker_flush_nbx(here.worker, &param);

    cw_side_check("ucp_worker_flush_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
    under_way += request != NULL;
    while (under_way > 0) {
        progress();
    }
}

static void check_round(unsigned round)
{
    for (unsigned distance = 1; distance < job.size; distance++) {
        const unsigned rank = at_distance(distance);

        if (peers[rank].received != 1 || peers[rank].in != content_of(round, rank, job.rank)) {
            cw_say_error("process %u: of process %u came %u messages in round %u, the last with %016llx", job.rank,
                         rank, peers[rank].received, round, (unsigned long long)peers[rank].in);
            exit(1);
        }
    }
}

/* All to all: each process sends to and receives from each other one. */
static void run_round(unsigned round, enum value value)
{
    const struct moment start = now();

    for (unsigned distance = 1; distance < job.size; distance++) {
        post_receive(round, at_distance(distance));
    }
    for (unsigned distance = 1; distance < job.size; distance++) {
        send_word(round, at_distance(distance));
    }
    while (under_way > 0) {
        progress();
    }
    flush();
    note_phase(value, start);
    check_round(round);
    meet();
}

/* After all have flushed and met: what comes now comes twice. */
static void check_nothing_is_left(void)
{
    ucp_tag_recv_info_t info;

    for (unsigned i = 0; i < LAST_LOOKS; i++) {
        ucp_worker_progress(here.worker);
        if (ucp_tag_probe_nb(here.worker, 0, 0, 0, &info) != NULL) {
            cw_say_error("process %u: a further message with tag %llx", job.rank, (unsigned long long)info.sender_tag);
            exit(1);
        }
    }
}

/* ---- the report ---- */

static void put_report(void)
{
    char text[MOST_REPORT];
    size_t length = 0;

    for (unsigned i = 0; i < NUM_VALUES; i++) {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%.9g ", values[i]);
    }
    job_check(cw_pmix_put(&job, "wireup.report", text));
}

static void read_report(unsigned rank, double *const columns[NUM_VALUES])
{
    char text[MOST_REPORT], *place = text, *end;

    job_check(cw_pmix_get(&job, rank, "wireup.report", text, sizeof(text)));
    for (unsigned i = 0; i < NUM_VALUES; i++, place = end) {
        columns[i][rank] = strtod(place, &end);
        if (end == place) {
            cw_say_error("process %u has left no report", rank);
            exit(1);
        }
    }
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static void print_reports(void)
{
    double *columns[NUM_VALUES];
    const unsigned size = job.size;

    for (unsigned i = 0; i < NUM_VALUES; i++) {
        columns[i] = calloc(size, sizeof(*columns[i]));
        if (columns[i] == NULL) {
            cw_say_error("no memory for the report");
            exit(1);
        }
    }
    for (unsigned rank = 0; rank < size; rank++) {
        read_report(rank, columns);
    }
    printf("version %s\nranks %u\nlocal_ranks %u\n", ucp_get_version_string(), size, job.local_size);
    for (unsigned i = 0; i < NUM_VALUES; i++) {
        qsort(columns[i], size, sizeof(*columns[i]), by_value);
        printf("%s_median %.6g\n%s_max %.6g\n", names[i], columns[i][size / 2], names[i], columns[i][size - 1]);
        free(columns[i]);
    }
    fflush(stdout);
}

/* ---- the run ---- */

static void note_memory(const struct cw_side_memory *before, unsigned descriptors_before)
{
    const double endpoints = job.size - 1.0;
    const unsigned descriptors = open_descriptors();
    const struct cw_side_memory after = cw_side_memory_now();

    values[ENDPOINT_RSS_BYTES] = (double)(after.resident_kib - before->resident_kib) * 1024 / endpoints;
    values[ENDPOINT_PSS_BYTES] = (double)(after.share_kib - before->share_kib) * 1024 / endpoints;
    values[ENDPOINT_DESCRIPTORS] = ((double)descriptors - descriptors_before) / endpoints;
    values[RANK_RSS_KIB] = (double)after.resident_kib;
    values[RANK_PSS_KIB] = (double)after.share_kib;
    values[RANK_DESCRIPTORS] = descriptors;
}

static void open_all(void)
{
    struct moment start = now();

    cw_side_open(&here, UCP_FEATURE_TAG);
    note_phase(INIT_SEC, start);
    start = now();
    exchange();
    note_phase(EXCHANGE_SEC, start);
}

static void connect_all(void)
{
    struct cw_side_memory before;
    struct moment start;
    unsigned descriptors;

    (void)cw_side_memory_now(); /* what reading /proc takes is not the library's */
    meet();
    before = cw_side_memory_now();
    descriptors = open_descriptors();
    meet();
    start = now();
    create_endpoints();
    note_phase(ENDPOINTS_SEC, start);
    meet();
    run_round(1, FIRST_SEC);
    run_round(2, SECOND_SEC);
    check_nothing_is_left();
    note_memory(&before, descriptors);
    meet(); /* nobody gives back pages that others still count */
}

static void close_all(void)
{
    const struct moment start = now();

    close_endpoints();
    meet();
    ucp_worker_destroy(here.worker);
    ucp_cleanup(here.context);
    note_phase(TEARDOWN_SEC, start);
}

static void raise_limit_of_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    unsigned long seconds = DEFAULT_SECONDS;
    int letter;

    cw_say_setup("bench_wireup", false);
    while ((letter = getopt(argc, argv, "t:")) != -1) {
        if (letter != 't') {
            return 2;
        }
        seconds = strtoul(optarg, NULL, 10);
    }
    if (optind != argc || seconds < 1 || seconds > 100000 || !cw_pmix_present()) {
        fprintf(stderr, "Usage: mpirun -n PROCESSES bench_wireup [-t seconds without progress]\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* with its starter */
    raise_limit_of_files();
    cw_watchdog_start((unsigned)seconds, 1);
    job_check(cw_pmix_open(&job));
    if (job.size < 2) {
        cw_say_error("at least two processes are needed");
        return 2;
    }
    peers = calloc(job.size, sizeof(*peers));
    addresses = calloc(job.size, MOST_ADDRESS);
    if (peers == NULL || addresses == NULL) {
        cw_say_error("no memory for %u processes", job.size);
        return 1;
    }
    open_all();
    connect_all();
    close_all();
    put_report();
    job_check(cw_pmix_fence(&job));
    if (job.rank == 0) {
        print_reports();
    }
    cw_pmix_close(&job, true);
    free(addresses);
    free(peers);
    return 0;
}
