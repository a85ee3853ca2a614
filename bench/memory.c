/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_memory: resident memory of a process with one worker and one peer, and of each further peer that is connected
 * and idle, of which each is a worker of its own in another process; and the time from the creation of an endpoint to
 * the peer's first reply.
 *
 * Usage: bench_memory [-n peers] [-a] [-i milliseconds]
 * This side dials, with -a the peers dial. Each pair exchanges a message each way; then nothing happens for a while
 * (-i), with progress, before a sample is taken. Prints "key value" lines. A plain program of the public interface:
 * LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SECONDS = 60, TAG = 5, MOST_PEERS = 10000, PERIOD = 4096 };

/* One end of the talk between a worker of the peers' process and the worker here. */
struct talk {
    ucp_worker_h worker;
    ucp_ep_h ep;
    ucs_status_ptr_t receive;
    uint64_t word;
};

static const ucp_request_param_t none;
static int line; /* to the other process: addresses, then numbers of peers that shall dial */
static _Atomic unsigned *current; /* the peer whose turn it is: the others are looked after now and then */

static void quit(const char *what)
{
    cw_say_error("%s", what);
    _exit(1);
}

static void *address_of(ucp_worker_h worker, size_t *length)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    cw_side_check("ucp_worker_query", ucp_worker_query(worker, &attr));
    *length = attr.address_length;
    return attr.address;
}

static void send_address(ucp_worker_h worker)
{
    size_t length;
    void *address = address_of(worker, &length);

    if (write(line, &length, sizeof(length)) != (ssize_t)sizeof(length) ||
        write(line, address, length) != (ssize_t)length) {
        quit("the other process is gone");
    }
    ucp_worker_release_address(worker, address);
}

static void read_all(void *data, size_t length)
{
    for (char *at = data; length > 0;) {
        ssize_t got = read(line, at, length);
        if (got <= 0) {
            quit("the other process is gone");
        }
        at += got;
        length -= (size_t)got;
    }
}

static void *hear_address(void)
{
    size_t length;
    void *address;

    read_all(&length, sizeof(length));
    address = length > 1 << 20 ? NULL : malloc(length);
    if (address == NULL) {
        quit("no memory for an address");
    }
    read_all(address, length);
    return address;
}

static void make_ep(struct talk *talk, const void *address)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = address};

    cw_side_check("ucp_ep_create", ucp_ep_create(talk->worker, &params, &talk->ep));
}

static void start_receive(struct talk *talk)
{
    talk->receive = ucp_tag_recv_nbx(talk->worker, &talk->word, sizeof(talk->word), TAG, UINT64_MAX, &none);
    if (UCS_PTR_IS_ERR(talk->receive)) {
        cw_side_check("ucp_tag_recv_nbx", UCS_PTR_STATUS(talk->receive));
    }
}

static void say(struct talk *talk)
{
    static const uint64_t word = 42;

    cw_side_check("a message",
                  cw_side_await(ucp_tag_send_nbx(talk->ep, &word, sizeof(word), TAG, &none), talk->worker, NULL));
}

/* ---- the peers' process ---- */

static bool has_received(struct talk *talk)
{
    ucs_status_t status;

    ucp_worker_progress(talk->worker);
    if (talk->receive == NULL) {
        return false;
    }
    status = ucp_request_check_status(talk->receive);
    if (status == UCS_INPROGRESS) {
        return false;
    }
    cw_side_check("a receive", status);
    ucp_request_free(talk->receive);
    talk->receive = NULL;
    return true;
}

static void answer(struct talk *talk, const void *address)
{
    if (has_received(talk) && talk->ep == NULL) {
        make_ep(talk, address);
        say(talk);
    }
}

static void be_peers(unsigned count)
{
    struct talk *talks = calloc(count, sizeof(*talks));
    struct cw_side side = {0};
    void *address;
    unsigned next;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (talks == NULL) {
        quit("no memory for the peers");
    }
    for (unsigned i = 0; i < count; i++) {
        if (i == 0) {
            cw_side_open(&side, UCP_FEATURE_TAG);
        } else {
            cw_side_open_worker(&side);
        }
        talks[i].worker = side.worker;
        start_receive(&talks[i]);
        send_address(side.worker);
    }
    address = hear_address();
    fcntl(line, F_SETFL, O_NONBLOCK);
    for (unsigned long round = 0;; round++) {
        answer(&talks[*current], address);
        if (round % PERIOD != 0) {
            continue;
        }
        cw_watchdog_beat(); /* this process ends with the other */
        for (unsigned i = 0; i < count; i++) {
            answer(&talks[i], address);
        }
        if (read(line, &next, sizeof(next)) == (ssize_t)sizeof(next)) {
            make_ep(&talks[next], address);
            say(&talks[next]);
        }
    }
}

/* ---- this process ---- */

static void await_receive(struct talk *talk)
{
    cw_side_check("a receive", cw_side_await(talk->receive, talk->worker, NULL));
    cw_watchdog_beat();
}

/* Nanoseconds that it took. */
static double meet(ucp_worker_h worker, unsigned peer, const void *address, bool peer_dials)
{
    struct talk talk = {.worker = worker};
    uint64_t start;

    *current = peer;
    start_receive(&talk);
    start = cw_clock_ns();
    if (peer_dials) {
        if (write(line, &peer, sizeof(peer)) != (ssize_t)sizeof(peer)) {
            quit("the peers are gone");
        }
        await_receive(&talk);
    }
    make_ep(&talk, address);
    say(&talk);
    if (!peer_dials) {
        await_receive(&talk);
    }
    return (double)(cw_clock_ns() - start);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

static void idle(ucp_worker_h worker, unsigned long milliseconds)
{
    uint64_t end = cw_clock_ns() + milliseconds * 1000000;

    while (cw_clock_ns() < end) {
        ucp_worker_progress(worker);
    }
    cw_watchdog_beat();
}

static void measure(unsigned peers, bool peers_dial, unsigned long milliseconds, void **addresses)
{
    double *times = calloc(peers, sizeof(*times));
    struct cw_side_memory before, one, all;
    struct cw_side side = {0};

    if (times == NULL) {
        quit("no memory for the times");
    }
    memset(times, 1, peers * sizeof(*times)); /* resident before the first sample */
    cw_side_memory_now(); /* the first sample takes memory of its own */
    before = cw_side_memory_now();
    cw_side_open(&side, UCP_FEATURE_TAG);
    send_address(side.worker);
    meet(side.worker, 0, addresses[0], peers_dial);
    idle(side.worker, milliseconds);
    one = cw_side_memory_now();
    for (unsigned i = 1; i < peers; i++) {
        times[i] = meet(side.worker, i, addresses[i], peers_dial);
    }
    idle(side.worker, milliseconds);
    all = cw_side_memory_now();

    printf("version %s\n", ucp_get_version_string());
    printf("one_peer_kib %ld\n", one.resident_kib - before.resident_kib);
    printf("peer_bytes %.0f\n", (double)(all.resident_kib - one.resident_kib) * 1024 / (peers - 1));
    qsort(times + 1, peers - 1, sizeof(*times), by_value);
    printf("first_reply_usec %.2f\n", times[1 + (peers - 1) / 2] / 1e3);
    printf("peer_dirty_bytes %.0f\n", (double)(all.dirty_kib - one.dirty_kib) * 1024 / (peers - 1));
}

/* Workers of some libraries have many descriptors. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    unsigned long peers = 100, milliseconds = 200;
    bool peers_dial = false;
    int letter, lines[2];
    void **addresses;
    pid_t child;

    cw_say_setup("bench_memory", false);
    while ((letter = getopt(argc, argv, "n:ai:")) != -1) {
        if (letter == 'n') {
            peers = strtoul(optarg, NULL, 10);
        } else if (letter == 'i') {
            milliseconds = strtoul(optarg, NULL, 10);
        } else if (letter == 'a') {
            peers_dial = true;
        } else {
            return 2;
        }
    }
    if (optind != argc || peers < 2 || peers > MOST_PEERS || milliseconds > 1000ul * SECONDS / 2) {
        fprintf(stderr, "Usage: bench_memory [-n peers (2 to %d)] [-a] [-i milliseconds]\n", MOST_PEERS);
        return 2;
    }
    cw_watchdog_start(SECONDS, 1);
    raise_limit();
    addresses = calloc(peers, sizeof(*addresses));
    current = mmap(NULL, sizeof(*current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (addresses == NULL || current == MAP_FAILED || socketpair(AF_UNIX, SOCK_STREAM, 0, lines) != 0 ||
        (child = fork()) < 0) {
        quit("no second process");
        return 1;
    }
    line = lines[child == 0];
    close(lines[child != 0]);
    if (child == 0) {
        cw_cpu_bind_nth(0);
        cw_watchdog_start(SECONDS, 1);
        be_peers((unsigned)peers);
    }
    cw_cpu_bind_nth(1);
    for (unsigned i = 0; i < peers; i++) {
        addresses[i] = hear_address();
    }
    measure((unsigned)peers, peers_dial, milliseconds, addresses);
    /* Connections are not taken down: the processes just end. */
    fflush(stdout);
    kill(child, SIGKILL);
    _exit(0);
}
