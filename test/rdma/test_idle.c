/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What connections of several processes cost that nobody uses: CW_IDLE_PROCESSES processes (8), half of them at each
 * end of the wire, with CW_IDLE_EPS endpoints each (500), dealt out to the processes of the other end. Messages by each
 * endpoint arrive once. Then nothing is sent any more, and the memory is counted that was added since each process had
 * FIRST connections to each of its peers, and the receives that all share: that of the processes, the queues that the
 * driver of the device maps into them, and all of the machine. An endpoint here and one there make one connection. At
 * most LIMIT of a process's own memory may be spent for its end of one, with what the driver allocates there.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "runner.h"

enum { MOST_PROCESSES = 64, MOST_EPS = 20000, HANG_S = 400, IDLE_S = 2, FIRST = 4, ADDRESS = 500, LIMIT = 16 << 10 };

enum phase { OPENED, BEGUN, COUNTED, CONNECTED, IDLE, PHASES };

struct memory {
    long own, mapped; /* bytes of the process: its own pages, and queues of the device */
};

/* Shared by all processes. */
struct board {
    _Atomic unsigned reached[PHASES];
    _Atomic unsigned ended;   /* processes that will not come any further */
    _Atomic unsigned counted; /* how often the parent has counted the memory of the machine */
    struct {
        size_t length;
        char address[ADDRESS];
        struct memory opened, before, after;
        unsigned arrived;
    } of[MOST_PROCESSES];
};

static struct board *board;
static unsigned num_processes = 8, num_eps = 500, me;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h eps[MOST_EPS];
static uint32_t sent[MOST_EPS], got[MOST_EPS];
static ucs_status_ptr_t sends[MOST_EPS], receives[MOST_EPS];

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* What is not as it should be ends the process, which its parent sees. */
static void must(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "process %u: %s\n", me, what);
        board->ended++;
        _exit(1);
    }
}

/* Waits with progress, as the others may need it. */
static void await_number(_Atomic unsigned *number, unsigned least)
{
    const double end = seconds() + HANG_S;

    while (*number < least) {
        ucp_worker_progress(worker);
        must(seconds() < end && board->ended == 0, "another process does not come");
    }
}

static void meet(enum phase phase)
{
    board->reached[phase]++;
    await_number(&board->reached[phase], num_processes);
}

static struct memory count_memory(void)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    struct memory memory = {0, 0};
    char line[400];
    int is_device = 0;
    long size = 0;

    must(file != NULL, "there is no /proc/self/smaps");
    (void)malloc_trim(0); /* what was freed is no cost of a connection */
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strchr("0123456789abcdef", line[0]) != NULL) { /* the line of a mapping, before those about it */
            is_device = strstr(line, "/uverbs") != NULL;
        } else if (is_device && sscanf(line, "Size: %ld", &size) == 1) {
            memory.mapped += size << 10;
        } else if (!is_device && sscanf(line, "Anonymous: %ld", &size) == 1) {
            memory.own += size << 10;
        }
    }
    (void)fclose(file);
    return memory;
}

static long available(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    long size = 0;

    while (file != NULL && size == 0 && fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "MemAvailable: %ld", &size);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return size << 10;
}

static void open_worker(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    ucp_address_t *address;
    ucp_config_t *config;
    size_t length;

    must(ucp_config_read(NULL, NULL, &config) == UCS_OK, "no settings");
    must(ucp_config_modify(config, "NET_DEVICES", (me % 2 == 0) ? "rxe0:1" : "rxe1:1") == UCS_OK, "no such setting");
    must(ucp_init(&params, config, &context) == UCS_OK, "no context");
    ucp_config_release(config);
    must(ucp_worker_create(context, &worker_params, &worker) == UCS_OK, "no worker");
    must(ucp_worker_get_address(worker, &address, &length) == UCS_OK && length <= ADDRESS, "no address");
    memcpy(board->of[me].address, address, length);
    board->of[me].length = length;
    ucp_worker_release_address(worker, address);
}

/* The process to which the endpoint of that number leads: the same number there leads back. */
static unsigned peer_of(unsigned ep)
{
    const unsigned half = num_processes / 2;

    return 2 * ((ep + half - me / 2) % half) + (me + 1) % 2;
}

static void end_request(ucs_status_ptr_t request, const char *what)
{
    const double end = seconds() + HANG_S;
    ucs_status_t status;

    if (!UCS_PTR_IS_PTR(request)) {
        must(UCS_PTR_STATUS(request) == UCS_OK, what);
        return;
    }
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
        must(seconds() < end && board->ended == 0, what);
    }
    must(status == UCS_OK, what);
    ucp_request_free(request);
}

/* A message in each direction of those connections; the tag has the sender and the number of its endpoint. */
static void exchange(unsigned first, unsigned end, uint32_t word)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    unsigned i;

    for (i = first; i < end; i++) {
        sent[i] = word + i;
        got[i] = 0;
        receives[i] = ucp_tag_recv_nbx(worker, &got[i], sizeof(got[i]), ((ucp_tag_t)peer_of(i) << 32) | i, UINT64_MAX,
                                       &param);
        sends[i] = ucp_tag_send_nbx(eps[i], &sent[i], sizeof(sent[i]), ((ucp_tag_t)me << 32) | i, &param);
    }
    for (i = first; i < end; i++) {
        end_request(sends[i], "a message is not sent");
        end_request(receives[i], "a message does not arrive");
        must(got[i] == word + i, "a message is another one");
        board->of[me].arrived++;
    }
    end_request(ucp_worker_flush_nbx(worker, &param), "the flush fails");
}

static void connect_eps(unsigned first, unsigned end)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};

    for (unsigned i = first; i < end; i++) {
        params.address = (const ucp_address_t *)board->of[peer_of(i)].address;
        must(ucp_ep_create(worker, &params, &eps[i]) == UCS_OK, "no endpoint");
    }
    exchange(first, end, 1000);
}

static void rest(enum phase phase)
{
    double end;

    meet(phase);
    for (end = seconds() + IDLE_S; seconds() < end;) {
        ucp_worker_progress(worker);
    }
}

static void run_process(void)
{
    const unsigned first = FIRST * num_processes / 2;

    open_worker();
    board->of[me].opened = count_memory();
    meet(OPENED);
    connect_eps(0, first);
    rest(BEGUN);
    board->of[me].before = count_memory();
    meet(COUNTED);
    await_number(&board->counted, 1);
    connect_eps(first, num_eps);
    exchange(0, num_eps, 1u << 31);
    rest(CONNECTED);
    board->of[me].after = count_memory();
    meet(IDLE);
    await_number(&board->counted, 2);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    _exit(0);
}

static unsigned setting(const char *name, unsigned standard, unsigned least, unsigned most)
{
    const char *text = getenv(name);
    const unsigned long number = (text != NULL) ? strtoul(text, NULL, 10) : standard;

    assert_in_range(number, least, most);
    return (unsigned)number;
}

/* Waits until all processes have come so far. */
static void await(enum phase phase)
{
    const double end = seconds() + 2 * HANG_S;

    while (board->reached[phase] < num_processes) {
        assert_int_equal(board->ended, 0);
        assert_true(seconds() < end);
        usleep(1000);
    }
}

static double kib(long bytes, double ends)
{
    return (double)bytes / ends / 1024;
}

TEST(test_idle_connections)
{
    long machine, own = 0, most = 0, mapped = 0, begun = 0;
    pid_t children[MOST_PROCESSES];
    unsigned first, arrived = 0;
    double ends;
    int status;

    num_processes = setting("CW_IDLE_PROCESSES", num_processes, 2, MOST_PROCESSES) & ~1u;
    first = FIRST * num_processes / 2;
    num_eps = setting("CW_IDLE_EPS", num_eps, first + 1, MOST_EPS);
    ends = (double)num_processes * (num_eps - first);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(board, MAP_FAILED);
    for (me = 0; me < num_processes; me++) {
        children[me] = fork();
        assert_true(children[me] >= 0);
        if (children[me] == 0) {
            run_process();
        }
    }
    await(COUNTED);
    machine = available();
    board->counted = 1;
    await(IDLE);
    machine -= available();
    board->counted = 2;
    for (unsigned i = 0; i < num_processes; i++) {
        const long of_one = board->of[i].after.own - board->of[i].before.own;

        own += of_one;
        most = (of_one > most) ? of_one : most;
        mapped += board->of[i].after.mapped - board->of[i].before.mapped;
        begun += board->of[i].before.own - board->of[i].opened.own;
        arrived += board->of[i].arrived;
    }
    print_message("%u processes with %u endpoints each: %u connections\n", num_processes, num_eps,
                  num_processes * num_eps / 2);
    print_message("a worker with %u connections, and its receives: %.1f KiB of the process\n", first,
                  kib(begun, num_processes));
    print_message("an end of a further one, idle: %.1f KiB of the process (%.1f where it is most), %.1f KiB of queues "
                  "that the driver maps, %.1f KiB of the machine in all\n",
                  kib(own, ends), kib(most, num_eps - first), kib(mapped, ends), kib(machine, ends));
    for (unsigned i = 0; i < num_processes; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(arrived, 2 * num_processes * num_eps);
    assert_true((double)own < ends * LIMIT);
}
