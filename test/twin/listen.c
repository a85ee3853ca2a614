/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, connection requests and endpoints by socket address: each member alone, all, none; ends. CS-*. */
#define _GNU_SOURCE
#include "twin.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static struct twin_pair pair; /* 0: client, 1: server; both endpoints are none until they are made */
static ucp_listener_h listener;
static ucp_conn_request_h request;
static ucp_ep_h accepted;
static int requests, accepts, failures[2];
static bool handled[2]; /* whether that side has a handler of failures */
static ucs_status_t failure[2];
static void *failure_argument[2];

static void on_request(ucp_conn_request_h arrived, void *arg)
{
    requests++;
    request = arg == &listener ? arrived : NULL;
}

static void on_accept(ucp_ep_h ep, void *arg)
{
    accepts++;
    accepted = arg == &listener ? ep : NULL;
}

static void client_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    failures[0]++;
    failure[0] = status;
    failure_argument[0] = arg;
}

static void server_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    failures[1]++;
    failure[1] = status;
    failure_argument[1] = arg;
}

static struct sockaddr_in here(unsigned port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void open_workers(void)
{
    ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_CLIENT_ID, .client_id = 4711};

    memset(&pair, 0, sizeof(pair));
    pair.context = twin_context(TWIN_ALL_FEATURES);
    twin_need(ucp_worker_create(pair.context, &params, &pair.worker[0]) == UCS_OK, "ucp_worker_create");
    pair.worker[1] = twin_worker(pair.context);
    requests = accepts = failures[0] = failures[1] = 0;
    request = NULL;
    accepted = NULL;
}

static ucs_status_t listen_on(uint64_t mask, const void *address, socklen_t length, bool callbacks)
{
    ucp_listener_params_t params;

    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = mask;
    if (mask & UCP_LISTENER_PARAM_FIELD_SOCK_ADDR) {
        params.sockaddr.addr = address;
        params.sockaddr.addrlen = length;
    }
    if (mask & UCP_LISTENER_PARAM_FIELD_ACCEPT_HANDLER) {
        params.accept_handler.cb = callbacks ? on_accept : NULL;
        params.accept_handler.arg = &listener;
    }
    if (mask & UCP_LISTENER_PARAM_FIELD_CONN_HANDLER) {
        params.conn_handler.cb = callbacks ? on_request : NULL;
        params.conn_handler.arg = &listener;
    }
    return ucp_listener_create(pair.worker[1], &params, &listener);
}

static struct sockaddr_in address_of_listener(void)
{
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    struct sockaddr_in result;

    twin_need(ucp_listener_query(listener, &attr) == UCS_OK, "ucp_listener_query");
    memcpy(&result, &attr.sockaddr, sizeof(result));
    return result;
}

static void listeners(void)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_listener_attr_t, sockaddr)};
    struct sockaddr_in any = here(0), far = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x08080808)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    const struct {
        const char *name;
        const void *address;
        socklen_t length;
    } asked[] = {{"loopback", &any, sizeof(any)},      {"IPv6", &six, sizeof(six)},
                 {"no family", &local, sizeof(local)}, {"nothing", NULL, 0},
                 {"foreign", &far, sizeof(far)},       {"short", &any, 4}};
    static const uint64_t masks[] = {0, 1, ~UINT64_C(1)};
    ucp_listener_attr_t attr;
    ucp_listener_h first;
    ucs_status_t status;
    unsigned mask;
    size_t i;
    int callbacks;

    open_workers();
    for (mask = 0; mask < 9; mask++) {
        for (callbacks = 0; callbacks < 2; callbacks++) {
            status = listen_on(mask < 8 ? mask : (TWIN_UNKNOWN | 5), &any, sizeof(any), callbacks);
            twin_print("mask %u, callbacks %d: %s", mask, callbacks, twin_status(status));
            if (status == UCS_OK) {
                ucp_listener_destroy(listener);
            }
        }
    }
    for (i = 0; i < TWIN_COUNT(asked) - 1; i++) { /* the last: how long an address is says its family */
        status = listen_on(5, asked[i].address, asked[i].length, true);
        twin_print("%s: %s", asked[i].name, twin_status(status));
        if (status == UCS_OK) {
            ucp_listener_destroy(listener);
        }
    }
    twin_need(listen_on(5, &any, sizeof(any), true) == UCS_OK, "ucp_listener_create");
    first = listener;
    any = address_of_listener();
    twin_print("a port %d, loopback %d", any.sin_port != 0, any.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    twin_print("in use: %s", twin_status(listen_on(5, &any, sizeof(any), true)));
    for (i = 0; i < 3; i++) {
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = masks[i];
        status = ucp_listener_query(first, &attr);
        twin_print_filled(i == 1 ? "query" : "query of nothing", status, &attr, fields, 1);
    }
    ucp_listener_destroy(first);
    ucp_worker_destroy(pair.worker[0]);
    ucp_worker_destroy(pair.worker[1]);
    ucp_cleanup(pair.context);
}

/* A client's endpoint; `mask` beside what it needs. */
static ucs_status_t dial(struct sockaddr_in to, uint64_t mask, unsigned flags, int mode)
{
    struct sockaddr_in from = here(0);
    ucp_ep_params_t params;

    handled[0] = (mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) != 0;
    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = mask;
    params.flags = flags;
    params.err_mode = (ucp_err_handling_mode_t)mode;
    params.err_handler.cb = client_failed;
    params.err_handler.arg = (void *)0x1;
    params.user_data = (void *)0x2;
    params.sockaddr.addr = (struct sockaddr *)&to;
    params.sockaddr.addrlen = sizeof(to);
    params.local_sockaddr.addr = (struct sockaddr *)&from;
    params.local_sockaddr.addrlen = sizeof(from);
    params.name = "client";
    return ucp_ep_create(pair.worker[0], &params, &pair.ep[0]);
}

static ucs_status_t answer(uint64_t mask, int mode)
{
    ucp_ep_params_t params;

    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = mask | UCP_EP_PARAM_FIELD_CONN_REQUEST;
    handled[1] = (mask & UCP_EP_PARAM_FIELD_ERR_HANDLER) != 0;
    params.conn_request = request;
    params.err_mode = (ucp_err_handling_mode_t)mode;
    params.err_handler.cb = server_failed;
    params.err_handler.arg = (void *)0x3;
    params.user_data = (void *)0x4;
    params.flags = (mask & UCP_EP_PARAM_FIELD_FLAGS) ? 0 : params.flags;
    params.name = "server";
    return ucp_ep_create(pair.worker[1], &params, &pair.ep[1]);
}

static void print_failures(const char *what)
{
    int i;

    for (i = 0; i < 2; i++) {
        twin_print("%s: %s reported %d times, %s, argument %#lx", what, i == 0 ? "client" : "server", failures[i],
                  failures[i] > 0 ? twin_status(failure[i]) : "none",
                  failures[i] > 0 ? (unsigned long)failure_argument[i] : 0);
    }
}

static void print_request(const char *what)
{
    static const struct twin_field fields[] = {TWIN_FIELD(ucp_conn_request_attr_t, client_address),
                                               TWIN_FIELD(ucp_conn_request_attr_t, client_id)};
    ucp_conn_request_attr_t attr;
    ucs_status_t status;
    uint64_t mask;
    char text[64];

    for (mask = 0; mask < 5; mask++) {
        memset(&attr, TWIN_FILL, sizeof(attr));
        attr.field_mask = mask < 4 ? mask : ~UINT64_C(3);
        status = ucp_conn_request_query(request, &attr);
        snprintf(text, sizeof(text), "%s, query %llu", what, (unsigned long long)mask);
        twin_print_filled(text, status, &attr, fields, TWIN_COUNT(fields));
        if (mask == 2) {
            twin_print("%s: client %llu", what, (unsigned long long)attr.client_id);
        }
    }
}

/* A message each way, and what the endpoints say of their addresses. */
static void use(const char *what, struct sockaddr_in to)
{
    const ucp_datatype_t byte = ucp_dt_make_contig(1);
    struct sockaddr_in seen[2][2];
    ucs_status_t sent, got;
    ucs_status_ptr_t recv;
    ucp_ep_attr_t attr;
    char in[8];
    int i;

    for (i = 0; i < 2; i++) {
        if (pair.ep[i] == NULL) {
            continue;
        }
        recv = ucp_tag_recv_nb(pair.worker[!i], in, sizeof(in), byte, 1, 1, twin_got);
        sent = twin_wait(&pair, ucp_tag_send_nb(pair.ep[i], "1234567", 8, byte, 1, twin_done));
        got = twin_wait(&pair, recv);
        twin_print("%s: side %d sent %s, arrived %s", what, i, twin_status(sent), twin_status(got));
    }
    for (i = 0; i < 2; i++) {
        if (pair.ep[i] != NULL) {
            memset(&attr, 0, sizeof(attr));
            attr.field_mask = 7;
            twin_print("%s: side %d query %s", what, i, twin_status(ucp_ep_query(pair.ep[i], &attr)));
            memcpy(&seen[i][0], &attr.local_sockaddr, sizeof(seen[i][0]));
            memcpy(&seen[i][1], &attr.remote_sockaddr, sizeof(seen[i][1]));
        }
    }
    if (pair.ep[0] != NULL && pair.ep[1] != NULL) {
        twin_print("%s: client to listener %d, server at listener %d, same client %d", what,
                  seen[0][1].sin_port == to.sin_port, seen[1][0].sin_port == to.sin_port,
                  seen[0][0].sin_port == seen[1][1].sin_port);
    }
}

static void end(const char *what, int first)
{
    ucs_status_t status;
    int i, side;

    for (i = 0; i < 2; i++) {
        side = i == 0 ? first : !first;
        if (pair.ep[side] == NULL) {
            continue;
        }
        status = twin_wait(&pair, ucp_ep_close_nb(pair.ep[side], UCP_EP_CLOSE_MODE_FLUSH));
        if (i == 0) {
            (void)(handled[!first] && twin_late(&failures[!first], &pair));
        } else if (!handled[side] && status != UCS_INPROGRESS) {
            status = UCS_OK; /* whether it knew already that the other side is gone */
        }
        twin_print("%s: close %d %s", what, side, twin_status(status));
        pair.ep[side] = NULL;
    }
}

static void open_listener(uint64_t mask, struct sockaddr_in *to)
{
    struct sockaddr_in any = here(0);

    open_workers();
    twin_need(listen_on(mask, &any, sizeof(any), true) == UCS_OK, "ucp_listener_create");
    *to = address_of_listener();
}

static void close_listener(void)
{
    ucp_listener_destroy(listener);
    ucp_worker_destroy(pair.worker[0]);
    ucp_worker_destroy(pair.worker[1]);
    ucp_cleanup(pair.context);
}

#define DIAL (UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS)
#define SAFE (UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER)

static void clients(void)
{
    static const struct {
        uint64_t mask;
        unsigned flags;
        int mode;
    } asked[] = {{DIAL, 1, 0},
                 {DIAL | SAFE, 1, 1},
                 {DIAL | SAFE, 5, 1},
                 {DIAL | SAFE | UCP_EP_PARAM_FIELD_USER_DATA, 5, 1},
                 {DIAL | UCP_EP_PARAM_FIELD_ERR_HANDLER, 1, 0},
                 {DIAL | SAFE | UCP_EP_PARAM_FIELD_NAME, 1, 1},
                 {DIAL | SAFE | UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR, 1, 1},
                 {DIAL | SAFE | TWIN_UNKNOWN, 1, 1},
                 {DIAL | SAFE, 0xfffffffd, 1},
                 {DIAL, 0, 0},
                 {UCP_EP_PARAM_FIELD_SOCK_ADDR, 1, 0},
                 {UCP_EP_PARAM_FIELD_FLAGS, 1, 0},
                 {DIAL, 4, 0}};
    struct sockaddr_in to;
    ucs_status_t status;
    char what[32];
    size_t i;
    int first;

    for (i = 0; i < TWIN_COUNT(asked); i++) {
        for (first = 0; first < 2; first++) {
            open_listener(5, &to);
            snprintf(what, sizeof(what), "client %zu, %d first", i, first);
            status = dial(to, asked[i].mask, asked[i].flags, asked[i].mode);
            twin_print("%s: %s", what, twin_status(status));
            if (status == UCS_OK) {
                twin_print("%s: late %d", what, twin_late(&requests, &pair));
                print_request(what);
                twin_print("%s: answer %s", what,
                          twin_status(answer(asked[i].mask & (SAFE | UCP_EP_PARAM_FIELD_USER_DATA), asked[i].mode)));
                use(what, to);
                end(what, first);
                print_failures(what);
            }
            close_listener();
        }
    }
}

static void servers(void)
{
    static const uint64_t masks[] = {0,
                                     UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                     UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                     UCP_EP_PARAM_FIELD_USER_DATA,
                                     UCP_EP_PARAM_FIELD_FLAGS,
                                     UCP_EP_PARAM_FIELD_NAME,
                                     TWIN_UNKNOWN};
    struct sockaddr_in to;
    ucs_status_t status;
    char what[48];
    int mine, yours;
    size_t i;

    for (i = 0; i < TWIN_COUNT(masks); i++) {
        for (mine = 0; mine < 2; mine++) {
            for (yours = 0; yours < 2; yours++) {
                open_listener(5, &to);
                snprintf(what, sizeof(what), "server %zu, modes %d %d", i, mine, yours);
                twin_need(dial(to, DIAL | SAFE, 1, mine) == UCS_OK && !twin_late(&requests, &pair),
                          "a connection request");
                status = answer(masks[i], yours);
                twin_print("%s: answer %s", what, twin_status(status));
                if (status == UCS_OK) {
                    use(what, to);
                } else {
                    pair.ep[1] = NULL;
                    twin_print("%s: late %d", what, twin_late(&failures[0], &pair));
                }
                print_failures(what);
                end(what, 0);
                close_listener();
            }
        }
    }
}

static void refusals(void)
{
    struct sockaddr_in to;
    ucs_status_ptr_t waiting;
    int variant, mode;

    for (mode = 0; mode < 2; mode++) {
        for (variant = 0; variant < 2; variant++) {
            open_listener(5, &to);
            if (variant == 0) { /* nobody there */
                ucp_listener_destroy(listener);
            }
            twin_print("variant %d, mode %d: %s", variant, mode, twin_status(dial(to, DIAL | SAFE, 1, mode)));
            waiting = ucp_tag_send_nb(pair.ep[0], "x", 1, ucp_dt_make_contig(1), 1, twin_done);
            if (variant == 1) {
                twin_need(!twin_late(&requests, &pair), "a connection request");
                twin_print("variant %d, mode %d: reject %s", variant, mode,
                          twin_status(ucp_listener_reject(listener, request)));
            }
            twin_print("variant %d, mode %d: late %d", variant, mode, twin_late(&failures[0], &pair));
            twin_print("variant %d, mode %d: waiting %s", variant, mode, twin_status(twin_wait(&pair, waiting)));
            if (mode == 1) {
                twin_print(
                    "variant %d, mode %d: send %s", variant, mode,
                    twin_pointer_status(ucp_am_send_nb(pair.ep[0], 1, "x", 1, ucp_dt_make_contig(1), twin_done, 0)));
            }
            print_failures("refused");
            twin_print("variant %d, mode %d: close %s", variant, mode,
                      twin_status(twin_wait(&pair, ucp_ep_close_nb(pair.ep[0], UCP_EP_CLOSE_MODE_FLUSH))));
            if (variant == 1) {
                ucp_listener_destroy(listener);
            }
            ucp_worker_destroy(pair.worker[0]);
            ucp_worker_destroy(pair.worker[1]);
            ucp_cleanup(pair.context);
        }
    }
}

static void old_handler(void)
{
    struct sockaddr_in to;
    ucp_ep_params_t params;

    open_listener(3, &to);
    twin_print("dial %s", twin_status(dial(to, DIAL | SAFE, 1, 1)));
    twin_print("late %d", twin_late(&accepts, &pair));
    pair.ep[1] = accepted;
    memset(&params, TWIN_FILL, sizeof(params));
    params.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_handler.cb = server_failed;
    params.err_handler.arg = (void *)0x5;
    handled[1] = true;
    twin_print("change %s", twin_pointer_status(ucp_ep_modify_nb(accepted, &params)));
    use("old handler", to);
    end("old handler", 0);
    print_failures("old handler");
    close_listener();
}

/* Forced and sudden ends, in both directions. */
static void sudden(void)
{
    struct sockaddr_in to;
    char what[32];
    int variant;

    for (variant = 0; variant < 3; variant++) {
        open_listener(5, &to);
        snprintf(what, sizeof(what), "variant %d", variant);
        twin_need(dial(to, DIAL | SAFE, 1, 1) == UCS_OK && !twin_late(&requests, &pair), "a connection request");
        twin_print("%s: answer %s", what, twin_status(answer(SAFE, 1)));
        use(what, to);
        if (variant < 2) {
            twin_print("%s: force %s", what,
                      twin_status(twin_wait(&pair, ucp_ep_close_nb(pair.ep[variant], UCP_EP_CLOSE_MODE_FORCE))));
            pair.ep[variant] = NULL;
            twin_print("%s: late %d", what, twin_late(&failures[!variant], &pair));
            end(what, !variant);
        } else {
            ucp_listener_destroy(listener);
            ucp_worker_destroy(pair.worker[1]);
            pair.worker[1] = pair.worker[0];
            twin_print("%s: late %d", what, twin_late(&failures[0], &pair));
            twin_print("%s: close %s", what,
                      twin_status(twin_wait(&pair, ucp_ep_close_nb(pair.ep[0], UCP_EP_CLOSE_MODE_FLUSH))));
        }
        print_failures(what);
        if (variant < 2) {
            close_listener();
        } else {
            ucp_worker_destroy(pair.worker[0]);
            ucp_cleanup(pair.context);
        }
    }
}

const struct twin_case twin_listen_cases[] = {{"listen.listeners", listeners},
                                              {"listen.clients", clients},
                                              {"listen.servers", servers},
                                              {"listen.refusals", refusals},
                                              {"listen.old_handler", old_handler},
                                              {"listen.sudden", sudden},
                                              {NULL, NULL}};
