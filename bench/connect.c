/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_connect: from the creation of an endpoint by socket address to the first reply, one client after the other,
 * and how many connections a second are accepted and closed. Two processes, both spin.
 *
 * Usage: bench_connect [-n connections]
 * Prints "key value" lines: the median of the time to the first reply, and the rate of whole lives (made, asked,
 * answered, closed by both sides). A plain program of the public interface: LD_LIBRARY_PATH chooses the library.
 */
#define _GNU_SOURCE
#include "say.h"
#include "side.h"
#include "ticks.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { SECONDS = 60, TAG = 5, WARM_UP = 20 };

static struct cw_side here;

static void await(const char *what, ucs_status_ptr_t request)
{
    cw_side_check(what, cw_side_await(request, here.worker, NULL));
}

/* That the other side has gone by then is no failure. */
static void close_ep(ucp_ep_h ep, unsigned flags)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};

    (void)cw_side_await(ucp_ep_close_nbx(ep, &param), here.worker, NULL);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    (void)status;
    *(volatile int *)arg = 1;
}

/* ---- the server ---- */

static ucp_conn_request_h requested;

static void on_request(ucp_conn_request_h request, void *arg)
{
    (void)arg;
    requested = request;
}

static uint16_t port_of(ucp_listener_h listener)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    cw_side_check("ucp_listener_query", ucp_listener_query(listener, &attr));
    return ((struct sockaddr_in *)&attr.sockaddr)->sin_port;
}

static void serve_one(void)
{
    static const ucp_request_param_t none;
    volatile int failed = 0;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .conn_request = requested,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = (void *)&failed},
    };
    uint64_t word;
    ucp_ep_h ep;

    requested = NULL;
    cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &ep));
    await("a request", ucp_tag_recv_nbx(here.worker, &word, sizeof(word), TAG, UINT64_MAX, &none));
    await("a reply", ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none));
    while (!failed) { /* the client closes */
        ucp_worker_progress(here.worker);
    }
    close_ep(ep, UCP_EP_CLOSE_FLAG_FORCE);
}

static void serve(int out, unsigned long count)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
        .conn_handler = {.cb = on_request},
    };
    ucp_listener_h listener;
    uint16_t port;

    cw_side_open(&here, UCP_FEATURE_TAG);
    cw_side_check("ucp_listener_create", ucp_listener_create(here.worker, &params, &listener));
    port = port_of(listener);
    if (write(out, &port, sizeof(port)) != sizeof(port)) {
        exit(1);
    }
    while (count > 0) {
        ucp_worker_progress(here.worker);
        if (requested != NULL) {
            serve_one();
            count--;
            cw_watchdog_beat();
        }
    }
    ucp_listener_destroy(listener);
    ucp_worker_destroy(here.worker);
    ucp_cleanup(here.context);
    exit(0);
}

/* ---- the client ---- */

static uint64_t visit(uint16_t port)
{
    static const ucp_request_param_t none;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    volatile int failed = 0;
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
        .sockaddr = {(struct sockaddr *)&address, sizeof(address)},
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = (void *)&failed},
    };
    uint64_t word = 42, start = cw_ticks_now(), took;
    ucp_ep_h ep;

    cw_side_check("ucp_ep_create", ucp_ep_create(here.worker, &params, &ep));
    await("a request", ucp_tag_send_nbx(ep, &word, sizeof(word), TAG, &none));
    await("a reply", ucp_tag_recv_nbx(here.worker, &word, sizeof(word), TAG, UINT64_MAX, &none));
    took = cw_ticks_now() - start;
    close_ep(ep, 0);
    return took;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static void measure(uint16_t port, unsigned long count)
{
    uint64_t *samples = calloc(count, sizeof(*samples));
    uint64_t start, median;

    if (samples == NULL) {
        cw_say_error("no memory for %lu samples", count);
        exit(1);
    }
    cw_side_open(&here, UCP_FEATURE_TAG);
    for (unsigned i = 0; i < WARM_UP; i++) {
        visit(port);
    }
    start = cw_clock_ns();
    for (unsigned long i = 0; i < count; i++) {
        samples[i] = visit(port);
        cw_watchdog_beat();
    }
    printf("connections %lu\n", count);
    printf("rate %.0f\n", (double)count * 1e9 / (double)(cw_clock_ns() - start));
    qsort(samples, count, sizeof(*samples), by_value);
    median = samples[count / 2];
    printf("first_reply_usec %.2f\n", (double)median * cw_ticks_ns() / 1e3);
    ucp_worker_destroy(here.worker);
    ucp_cleanup(here.context);
    free(samples);
}

int main(int argc, char **argv)
{
    unsigned long count = 500;
    int letter, status, pipes[2];
    uint16_t port;
    pid_t server;

    cw_say_setup("bench_connect", false);
    while ((letter = getopt(argc, argv, "n:")) != -1) {
        if (letter != 'n') {
            return 2;
        }
        count = strtoul(optarg, NULL, 10);
    }
    if (optind != argc || count < 1 || count > 1000000 || pipe(pipes) != 0) {
        fprintf(stderr, "Usage: bench_connect [-n connections]\n");
        return 2;
    }
    cw_watchdog_start(SECONDS, 1);
    server = fork();
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        cw_cpu_bind_nth(0);
        cw_watchdog_start(SECONDS, 1);
        serve(pipes[1], count + WARM_UP);
    }
    cw_cpu_bind_nth(1);
    cw_ticks_start();
    if (server < 0 || read(pipes[0], &port, sizeof(port)) != sizeof(port)) {
        cw_say_error("the server did not start");
        return 1;
    }
    measure(port, count);
    return (waitpid(server, &status, 0) == server && status == 0) ? 0 : 1;
}
