/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Churn: clients come to a listener, ask once, are answered once and leave, some of them in each way that there is:
 * close in flush mode or by force, before or after the answer, left by the server, rejected, killed. Descriptors,
 * mappings and memory stay what they were on both sides. -n: connections.
 */
#define _GNU_SOURCE
#include "chaos.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WINDOW = 8, LIFE = 1500, MOST_AT_SERVER = 4096, AM_ASK = 1, AM_ANSWER = 2 };
enum { CHECK_EVERY = 500, MEMORY_SLACK = 1024 };

enum leaving { FLUSH, FORCE, BY_SERVER, FORCE_AT_ONCE, FLUSH_AT_ONCE, LEAVINGS };

struct question {
    uint64_t number;
    uint64_t leaving;
};

static ucp_context_h context;
static ucp_worker_h worker;
static int efd;
static uint64_t random_state;

static void open_worker(uint64_t seed)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask = 0};

    random_state = seed;
    cw_check(ucp_init(&params, NULL, &context) == UCS_OK);
    cw_check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    cw_check(ucp_worker_get_efd(worker, &efd) == UCS_OK);
}

static void on_am(unsigned id, ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB,
                                    .id = id, .cb = cb};

    cw_check(ucp_worker_set_am_recv_handler(worker, &param) == UCS_OK);
}

/* Progress, and sleep when there is none: both sides shall get their turn on a busy machine. */
static void step(void)
{
    if (ucp_worker_progress(worker) == 0 && ucp_worker_arm(worker) == UCS_OK) {
        (void)poll(&(struct pollfd){.fd = efd, .events = POLLIN}, 1, 10);
    }
}

static void close_ep(ucp_ep_h ep, bool force, ucs_status_ptr_t *request)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = force ? UCP_EP_CLOSE_FLAG_FORCE : 0};

    *request = ucp_ep_close_nbx(ep, &param);
}

/* Descriptors and mappings come back to what they were before the first connection; memory is constant from the second
 * check on, when all pools have their size. */
static void check(struct cw_holds *first, int *checks, const char *who)
{
    double end = cw_now_s() + 5;
    struct cw_holds now;

#ifdef __SANITIZE_ADDRESS__
    first->maps = INT_MAX; /* its allocator keeps what was freed */
#endif
    do {
        (void)ucp_worker_progress(worker);
        now = cw_holds();
    } while ((now.fds != first->fds || now.maps > first->maps) && cw_now_s() < end);
    if (++*checks <= 2) {
        first->allocated = now.allocated;
    }
    if (now.fds != first->fds || now.maps > first->maps || now.allocated > first->allocated + MEMORY_SLACK) {
        cw_fail("%s: descriptors %d, mappings %d, allocated %zu; at first %d, %d, %zu", who, now.fds, now.maps,
                   now.allocated, first->fds, first->maps, first->allocated);
    }
}

/* ---- client ---- */

struct slot {
    ucp_ep_h ep;
    uint64_t number;    /* of the question: modulo WINDOW the slot's */
    enum leaving leaving;
    int answers;
    int failures;
    ucs_status_t failure;
    void *send;
    ucs_status_ptr_t closing;
    bool busy;
    double end;
};

static struct slot slots[WINDOW];
static long rejected;

static ucs_status_t answered(void *arg, const void *header, size_t header_length, void *data, size_t length,
                             const ucp_am_recv_param_t *param)
{
    struct question question;

    (void)arg;
    (void)data;
    (void)param;
    cw_check(header_length == sizeof(question) && length == 8);
    memcpy(&question, header, sizeof(question));
    /* one may come for an endpoint that was closed before (CLS-13) */
    slots[question.number % WINDOW].answers += slots[question.number % WINDOW].number == question.number;
    return UCS_OK;
}

static void client_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct slot *slot = arg;

    cw_check(slot->busy && slot->ep == ep && ++slot->failures == 1);
    slot->failure = status;
}

static void client_leave(struct slot *slot, bool force)
{
    ucp_ep_h ep = slot->ep;

    slot->ep = NULL;
    close_ep(ep, force, &slot->closing);
}

static void client_begin(struct slot *slot, const struct sockaddr_in *name, uint64_t number)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER, .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                              .sockaddr = {(const struct sockaddr *)name, sizeof(*name)},
                              .err_handler = {client_failed, slot}};
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                 .flags = UCP_AM_SEND_FLAG_REPLY | UCP_AM_SEND_FLAG_COPY_HEADER};
    struct question question;

    *slot = (struct slot){.busy = true, .number = (uint64_t)(slot - slots) + number * WINDOW,
                          .leaving = (enum leaving)cw_random_below(&random_state, LEAVINGS),
                          .end = cw_now_s() + CW_BOUND_S};
    question = (struct question){slot->number, slot->leaving};
    cw_check(ucp_ep_create(worker, &params, &slot->ep) == UCS_OK);
    slot->send = ucp_am_send_nbx(slot->ep, AM_ASK, &question, sizeof(question), "question", 8, &param);
    cw_check(!UCS_PTR_IS_ERR(slot->send));
    if (slot->leaving >= FORCE_AT_ONCE) {
        client_leave(slot, slot->leaving == FORCE_AT_ONCE);
    }
}

static bool is_over(void **request)
{
    if (UCS_PTR_IS_PTR(*request)) {
        if (ucp_request_check_status(*request) == UCS_INPROGRESS) {
            return false;
        }
        ucp_request_free(*request);
        *request = NULL;
    }
    return true;
}

static void client_poll(struct slot *slot)
{
    if (slot->ep != NULL && slot->failures > 0) {
        cw_check(slot->failure == UCS_ERR_REJECTED || slot->failure == UCS_ERR_CONNECTION_RESET);
        rejected += slot->failure == UCS_ERR_REJECTED;
        if (slot->failure == UCS_ERR_CONNECTION_RESET && (slot->leaving != BY_SERVER || slot->answers != 1)) {
            cw_fail("reset after %d answers, leaving %d", slot->answers, slot->leaving);
        }
        client_leave(slot, cw_one_in(&random_state, 2));
    } else if (slot->ep != NULL && slot->answers == 1 && slot->leaving != BY_SERVER) {
        client_leave(slot, slot->leaving == FORCE);
    }
    if (slot->ep == NULL && is_over(&slot->send) && is_over(&slot->closing)) {
        slot->busy = false;
    } else if (cw_now_s() > slot->end) {
        cw_fail("a connection has not ended: leaving %d, answers %d, failures %d, %s", slot->leaving, slot->answers,
                   slot->failures, slot->ep == NULL ? "closing" : "open");
    }
}

static bool client_is_idle(void)
{
    for (int i = 0; i < WINDOW; i++) {
        if (slots[i].busy) {
            return false;
        }
    }
    return true;
}

static int client_run(int fd, const char *argument)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct cw_holds first;
    unsigned long long seed;
    int port, checks = 0;
    long count, begun = 0, checked = 0;

    cw_check(sscanf(argument, "%llu %d %ld", &seed, &port, &count) == 3);
    cw_run.name = "client";
    cw_run.seed = seed;
    open_worker(seed);
    on_am(AM_ANSWER, answered);
    name.sin_port = htons((uint16_t)port);
    first = cw_holds();
    while (begun < count || !client_is_idle()) {
        for (int i = 0; i < WINDOW; i++) {
            if (slots[i].busy) {
                client_poll(&slots[i]);
            } else if (begun < count && begun < checked + CHECK_EVERY) {
                client_begin(&slots[i], &name, (uint64_t)begun);
                cw_run.round = ++begun;
            }
        }
        step();
        if (begun == checked + CHECK_EVERY && client_is_idle()) {
            check(&first, &checks, "client");
            checked = begun;
        }
    }
    cw_check(cw_fd_write(fd, &rejected, sizeof(rejected)));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

/* ---- server ---- */

struct guest {
    ucp_ep_h ep;
    ucs_status_ptr_t closing;
    bool busy, leave, over;
};

static struct guest guests[MOST_AT_SERVER];
static void *answers[MOST_AT_SERVER];
static int num_answers, num_guests;
static long num_came, num_rejected;
static ucp_conn_request_h waiting[MOST_AT_SERVER];
static int num_waiting;

static void server_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    struct guest *guest = arg;

    cw_check(guest->busy && guest->ep == ep && !guest->over);
    cw_check(status == UCS_ERR_CONNECTION_RESET);
    guest->over = true;
}

static void accept_guest(ucp_conn_request_h request)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                            UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER, .conn_request = request,
                              .err_handler.cb = server_failed};
    ucs_status_t status;
    int i = 0;

    while (guests[i].busy) {
        cw_check(++i < MOST_AT_SERVER);
    }
    guests[i] = (struct guest){.busy = true};
    params.err_handler.arg = &guests[i];
    status = ucp_ep_create(worker, &params, &guests[i].ep);
    if (status != UCS_OK) { /* gone already */
        cw_check(status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_NOT_CONNECTED);
        guests[i].busy = false;
        return;
    }
    num_guests = (i + 1 > num_guests) ? i + 1 : num_guests;
}

static void requested(ucp_conn_request_h request, void *arg)
{
    ucp_listener_h *listener = arg;

    num_came++;
    if (cw_one_in(&random_state, 16)) {
        num_rejected++;
        cw_check(ucp_listener_reject(*listener, request) == UCS_OK);
    } else if (cw_one_in(&random_state, 2)) {
        accept_guest(request);
    } else {
        cw_check(num_waiting < MOST_AT_SERVER);
        waiting[num_waiting++] = request;
    }
}

static ucs_status_t asked(void *arg, const void *header, size_t header_length, void *data, size_t length,
                          const ucp_am_recv_param_t *param)
{
    ucp_request_param_t send = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_COPY_HEADER};
    struct question question;
    void *request;

    (void)arg;
    (void)data;
    cw_check(header_length == sizeof(question) && length == 8);
    cw_check(param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP);
    memcpy(&question, header, sizeof(question));
    request = ucp_am_send_nbx(param->reply_ep, AM_ANSWER, &question, sizeof(question), "answered", 8, &send);
    if (UCS_PTR_IS_PTR(request)) {
        cw_check(num_answers < MOST_AT_SERVER);
        answers[num_answers++] = request;
    }
    for (int i = 0; i < num_guests && question.leaving == BY_SERVER; i++) {
        if (guests[i].busy && guests[i].ep == param->reply_ep) {
            guests[i].leave = true;
        }
    }
    return UCS_OK;
}

static void serve(void)
{
    bool idle = true;

    step();
    while (num_waiting > 0) {
        accept_guest(waiting[--num_waiting]);
    }
    for (int i = 0; i < num_guests; i++) {
        struct guest *guest = &guests[i];

        if (guest->busy && guest->ep != NULL && (guest->over || guest->leave)) {
            ucp_ep_h ep = guest->ep;

            guest->ep = NULL;
            close_ep(ep, guest->over && cw_one_in(&random_state, 2), &guest->closing);
        }
        if (guest->busy && guest->ep == NULL && is_over(&guest->closing)) {
            guest->busy = false;
        }
        idle = idle && !guest->busy;
    }
    num_guests = idle ? 0 : num_guests;
    for (int i = 0; i < num_answers; i++) {
        if (is_over(&answers[i])) {
            answers[i--] = answers[--num_answers];
        }
    }
}

static int listen_here(ucp_listener_h *listener)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(struct sockaddr *)&name, sizeof(name)},
                                    .conn_handler = {requested, listener}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    cw_check(ucp_listener_create(worker, &params, listener) == UCS_OK);
    cw_check(ucp_listener_query(*listener, &attr) == UCS_OK);
    return ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port);
}

/* One client: to its end in good order, or killed on the way. */
static void serve_client(int port, long count, bool killed, long *rejected_p)
{
    double end = cw_now_s() + 100 + (double)count / 50, quiet;
    /* not all come: who leaves at once may be gone before the hello */
    long kill_at = num_came + 1 + (long)cw_random_below(&random_state, (size_t)count / 2);
    struct cw_process child;
    char argument[64];

    snprintf(argument, sizeof(argument), "%llu %d %ld", (unsigned long long)cw_random(&random_state), port, count);
    cw_process_start(&child, "client", argument);
    if (killed) {
        while (num_came < kill_at) {
            serve();
            cw_check(cw_now_s() < end);
        }
        kill(child.pid, SIGKILL);
        cw_check(cw_process_join(&child) == 128 + SIGKILL);
    } else {
        long rejected_there;
        char bytes[sizeof(rejected_there)];
        size_t have = 0;

        while (have < sizeof(bytes)) {
            ssize_t got = recv(child.fd, bytes + have, sizeof(bytes) - have, MSG_DONTWAIT);

            serve();
            cw_check(got != 0 && cw_now_s() < end);
            have += got > 0 ? (size_t)got : 0;
        }
        memcpy(&rejected_there, bytes, sizeof(bytes));
        *rejected_p += rejected_there;
        cw_check(cw_process_join(&child) == 0);
    }
    quiet = cw_now_s();
    for (int rounds = 0; rounds < 100 || num_guests > 0 || num_answers > 0; rounds++) {
        serve();
        if (cw_now_s() > quiet + CW_BOUND_S) {
            cw_fail("the client is gone, %d guests and %d answers are not", num_guests, num_answers);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct cw_role roles[] = {{"client", client_run}};
    struct cw_options options = {.seed = 1, .rounds = 100000, .seconds = 1e9};
    struct cw_holds first;
    ucp_listener_h listener;
    long clients = 0, rejected_there = 0;
    int code, port, checks = 0;
    double start;

    cw_exact_memory(argv);
    if (cw_process_role(argc, argv, roles, 1, &code)) {
        return code;
    }
    cw_run.name = "chaos.churn";
    cw_options(argc, argv, &options);
    open_worker(options.seed);
    on_am(AM_ASK, asked);
    port = listen_here(&listener);
    first = cw_holds();
    start = cw_now_s();
    while (num_came < options.rounds && cw_now_s() < start + options.seconds) {
        serve_client(port, LIFE < options.rounds / 4 ? LIFE : options.rounds / 4, clients % 4 == 3, &rejected_there);
        clients++;
        cw_run.round = num_came;
        check(&first, &checks, "server");
    }
    printf("%ld connections of %ld clients, %ld rejected (%ld clients know), in %.1f s: %.0f per second\n", num_came,
           clients, num_rejected, rejected_there, cw_now_s() - start, (double)num_came / (cw_now_s() - start));
    printf("descriptors %d, mappings %d, allocated %zu\n", first.fds, first.maps, first.allocated);
    ucp_listener_destroy(listener);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
