/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_live: one worker with thousands of live endpoints. The client dials one listener of another process with all
 * endpoints at once, then sends active messages of 8 bytes in turn on a few endpoints and on all of them.
 *
 * Usage: bench_live [-n endpoints] [-m messages]
 * Prints "key value" lines: the time until each endpoint has sent its first message, the resident memory of an endpoint
 * where it was dialled and where it was accepted, and the rates; all_ratio is the rate on all endpoints against that on
 * FEW, of the same round. A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, FEW = 10, ROUNDS = 5, MOST_ENDPOINTS = 1000000, WINDOW = 4096, ACKNOWLEDGED = 512, RESERVED = 64 };
enum { AM_FIRST = 1, AM_WORD = 2, AM_ANSWER = 3 };

static struct cw_side here;
static ucp_ep_h *eps;
static unsigned long num_eps;
static unsigned long received; /* server: first messages, then words; client: answers */
static uint64_t answered;      /* the last answer */

static void failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)arg;
    (void)ep;
    cw_side_check("an endpoint", status);
}

static ucp_ep_params_t ep_params(void)
{
    return (ucp_ep_params_t){
        .field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = failed},
    };
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    (void)user_data;
    cw_side_check("ucp_am_send_nbx", status);
    ucp_request_free(request);
}

static void send_word(ucp_ep_h ep, unsigned id, uint64_t word)
{
    static uint64_t words[WINDOW]; /* of sends that are not complete */
    static unsigned next;
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_sent};
    ucs_status_ptr_t request;

    words[next % WINDOW] = word;
    request = ucp_am_send_nbx(ep, id, NULL, 0, &words[next++ % WINDOW], sizeof(word), &param);
    cw_side_check("ucp_am_send_nbx", UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK);
}

static ucs_status_t on_word(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    (void)arg;
    (void)header;
    (void)header_length;
    (void)param;
    if (length == sizeof(answered)) {
        answered = *(const uint64_t *)data;
    }
    received++;
    return UCS_OK;
}

static void open_side(void)
{
    static const unsigned ids[] = {AM_FIRST, AM_WORD, AM_ANSWER};
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
        .cb = on_word,
    };

    cw_side_open(&here, UCP_FEATURE_AM);
    for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        param.id = ids[i];
        cw_side_check("ucp_worker_set_am_recv_handler", ucp_worker_set_am_recv_handler(here.worker, &param));
    }
}

/* ---- the server ---- */

static void on_request(ucp_conn_request_h request, void *arg)
{
    ucp_ep_params_t params = ep_params();

    (void)arg;
    if (num_eps == MOST_ENDPOINTS) {
        return;
    }
    params.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
    params.conn_request = request;
    cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &eps[num_eps++]));
}

static void serve(int out, unsigned long count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
        .conn_handler = {.cb = on_request},
    };
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;
    unsigned long next = 0;
    long before;

    open_side();
    before = cw_side_memory_now().resident_kib;
    cw_side_check("ucp_listener_create", ucp_listener_create(here.worker, &params, &listener));
    cw_side_check("ucp_listener_query", ucp_listener_query(listener, &attr));
    if (write(out, &((struct sockaddr_in *)&attr.sockaddr)->sin_port, sizeof(uint16_t)) != sizeof(uint16_t)) {
        exit(1);
    }
    while (received < count) {
        ucp_worker_progress(here.worker);
    }
    send_word(eps[0], AM_ANSWER, (uint64_t)(cw_side_memory_now().resident_kib - before) * 1024 / count);
    for (received = 0;;) { /* until the client ends */
        ucp_worker_progress(here.worker);
        if (received >= next + ACKNOWLEDGED) {
            next += ACKNOWLEDGED;
            send_word(eps[0], AM_ANSWER, next);
            cw_watchdog_beat();
        }
    }
}

/* ---- the client ---- */

static void dial_all(uint16_t port, unsigned long count)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_ep_params_t params = ep_params();

    params.field_mask |= UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS;
    params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
    params.sockaddr = (ucs_sock_addr_t){(struct sockaddr *)&address, sizeof(address)};
    for (num_eps = 0; num_eps < count; num_eps++) {
        cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &eps[num_eps]));
        send_word(eps[num_eps], AM_FIRST, num_eps);
        ucp_worker_progress(here.worker);
    }
    while (received == 0) {
        ucp_worker_progress(here.worker);
    }
}

/* Messages a second, in turn on the first endpoints. */
static double rate_on(unsigned long count, unsigned long messages)
{
    static uint64_t sent;
    const uint64_t start = cw_clock_ns(), first = sent;
    unsigned long i = 0;

    while (sent < first + messages) {
        send_word(eps[i], AM_WORD, sent++);
        i = (i + 1 < count) ? i + 1 : 0;
        do {
            ucp_worker_progress(here.worker);
        } while (sent >= answered + WINDOW - ACKNOWLEDGED);
    }
    while (answered + ACKNOWLEDGED <= sent) {
        ucp_worker_progress(here.worker);
    }
    cw_watchdog_beat();
    return (double)messages * 1e9 / (double)(cw_clock_ns() - start);
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;

    return (a > b) - (a < b);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void measure(uint16_t port, unsigned long count, unsigned long messages)
{
    double few[ROUNDS], all[ROUNDS], ratios[ROUNDS];
    uint64_t start;
    long before;

    open_side();
    before = cw_side_memory_now().resident_kib;
    start = cw_clock_ns();
    dial_all(port, count);
    printf("endpoints %lu\n", count);
    printf("connect_sec %.3f\n", (double)(cw_clock_ns() - start) / 1e9);
    printf("connect_usec %.2f\n", (double)(cw_clock_ns() - start) / 1e3 / (double)count);
    printf("dialled_bytes %ld\n", (cw_side_memory_now().resident_kib - before) * 1024 / (long)count);
    printf("accepted_bytes %lu\n", (unsigned long)answered);
    answered = 0;
    for (unsigned i = 0; i < ROUNDS; i++) {
        few[i] = rate_on(FEW, messages);
        all[i] = rate_on(count, messages);
        ratios[i] = all[i] / few[i];
    }
    printf("few_rate %.0f\n", median(few));
    printf("all_rate %.0f\n", median(all));
    printf("all_ratio %.3f\n", median(ratios));
}

int main(int argc, char **argv)
{
    unsigned long count = 9000, messages = 100000;
    struct rlimit limit;
    int letter, pipes[2];
    uint16_t port;
    pid_t server;

    cw_say_setup("bench_live", false);
    while ((letter = getopt(argc, argv, "n:m:")) != -1) {
        if (letter == 'n') {
            count = strtoul(optarg, NULL, 10);
        } else if (letter == 'm') {
            messages = strtoul(optarg, NULL, 10);
        } else {
            return 2;
        }
    }
    if (optind != argc || count < FEW || count > MOST_ENDPOINTS || messages < WINDOW) {
        fprintf(stderr, "Usage: bench_live [-n endpoints] [-m messages]\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < count + RESERVED) {
        cw_say_error("%lu endpoints need as many open files", count);
        return 77;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    eps = calloc(MOST_ENDPOINTS, sizeof(*eps));
    if (eps == NULL || pipe(pipes) != 0) {
        cw_say_error("no memory for %d endpoints", MOST_ENDPOINTS);
        return 1;
    }
    cw_watchdog_start(SECONDS, 1);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cw_cpu_bind_nth(0);
        cw_watchdog_start(SECONDS, 1);
        serve(pipes[1], count);
    }
    cw_cpu_bind_nth(1);
    if (server < 0 || read(pipes[0], &port, sizeof(port)) != sizeof(port)) {
        cw_say_error("the server did not start");
        return 1;
    }
    measure(port, count, messages);
    kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    free(eps);
    return 0;
}
