/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One worker that does what lines on its input say, for bed.py, which runs several of them in network namespaces. Each
 * command is answered by one line; lines that begin with '!' say what happened by itself.
 *
 *   address                    -> the worker's address as hexadecimal digits
 *   connect HEX                -> ok          an endpoint to that worker
 *   listen ADDRESS PORT        -> the port    the first client's request makes the endpoint
 *   dial ADDRESS PORT          -> ok          ADDRESS may have a %scope
 *   send TAG SIZE              -> STATUS MILLISECONDS, when it is complete
 *   recv TAG                   -> STATUS SIZE
 *   ping COUNT SIZE            -> STATUS MILLISECONDS of as many round trips; the peer runs `echo`
 *   echo COUNT                 -> STATUS
 *   burst COUNT SIZE           -> STATUS MILLISECONDS of as many messages at once; the peer runs `sink`
 *   sink COUNT                 -> STATUS MILLISECONDS
 *   expose SIZE                -> ADDRESS KEY of memory, whose first byte is 1
 *   rma ADDRESS KEY SIZE       -> STATUS, ok after a put and a get that brought the same back
 *   flush                      -> STATUS MILLISECONDS
 *   transport                  -> names of the endpoint's transports
 *   close                      -> STATUS
 *   quit
 *
 * With the argument `sleep` it sleeps on the worker's descriptor instead of polling.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define MAX_SIZE (16u << 20)
#define MAX_BURST 16u
#define MAX_LINE 8192u

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_listener_h listener;
static ucp_ep_h ep;
static ucp_mem_h memory;
static int sleeps;
static unsigned char *data, *buffer, *window;

static void die(const char *what, ucs_status_t status)
{
    printf("!fatal %s: %s\n", what, ucs_status_string(status));
    fflush(stdout);
    exit(1);
}

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        die(what, status);
    }
}

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void on_error(void *arg, ucp_ep_h failed, ucs_status_t status)
{
    (void)arg;
    (void)failed;
    printf("!failed %s\n", ucs_status_string(status));
    fflush(stdout);
}

/* Waits for input or, when it sleeps, for the worker. 1: there is input. */
static int turn(int wants_input)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.events = POLLIN}};
    static unsigned idle;
    unsigned i;

    for (i = 0; i < 64; i++) {
        if (ucp_worker_progress(worker) == 0) {
            break;
        }
    }
    if (!wants_input) {
        fds[0].fd = -1;
    }
    if (!sleeps) {
        idle = (i == 0) ? idle + 1 : 0;
        poll(fds, 1, (idle > 2000) ? 1 : 0);
        return wants_input && fds[0].revents != 0;
    }
    must(ucp_worker_get_efd(worker, &fds[1].fd), "ucp_worker_get_efd");
    if (ucp_worker_arm(worker) == UCS_OK) {
        poll(fds, 2, (i == 0) ? -1 : 0); /* what was waited for may be done */
    }
    return wants_input && fds[0].revents != 0;
}

/* Runs until the request is done. */
static ucs_status_t finish(void *request, size_t *length)
{
    ucp_tag_recv_info_t info;
    ucs_status_t status;

    if (request == NULL) {
        return UCS_OK;
    }
    if (UCS_PTR_IS_ERR(request)) {
        return UCS_PTR_STATUS(request);
    }
    for (;;) {
        status = (length != NULL) ? ucp_tag_recv_request_test(request, &info) : ucp_request_check_status(request);
        if (status != UCS_INPROGRESS) {
            break;
        }
        turn(0);
    }
    if (length != NULL) {
        *length = info.length;
    }
    ucp_request_free(request);
    return status;
}

static ucs_status_t send_one(ucp_tag_t tag, size_t size)
{
    const ucp_request_param_t param = {0};

    return finish(ucp_tag_send_nbx(ep, data, size, tag, &param), NULL);
}

static ucs_status_t recv_one(ucp_tag_t tag, size_t *size)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    ucs_status_t status = finish(ucp_tag_recv_nbx(worker, buffer, MAX_SIZE, tag, UINT64_MAX, &param), size);

    return (status == UCS_OK && memcmp(buffer, data, *size) != 0) ? UCS_ERR_IO_ERROR : status;
}

static void answer(ucs_status_t status, double start_ms)
{
    printf("%s %.0f\n", (status == UCS_OK) ? "ok" : ucs_status_string(status), now_ms() - start_ms);
}

static void wait_for_ep(void)
{
    while (ep == NULL) {
        turn(0);
    }
}

static ucp_err_handling_mode_t err_mode = UCP_ERR_HANDLING_MODE_PEER;

static void make_ep(ucp_ep_params_t *params)
{
    params->field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params->err_mode = err_mode;
    params->err_handler.cb = on_error;
    must(ucp_ep_create(worker, params, &ep), "ucp_ep_create");
}

static void on_request(ucp_conn_request_h request, void *arg)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST, .conn_request = request};

    (void)arg;
    if (ep != NULL) {
        must(ucp_listener_reject(listener, request), "ucp_listener_reject");
    } else {
        make_ep(&params);
    }
}

static size_t from_hex(const char *text, unsigned char *bytes, size_t max)
{
    size_t length = 0;
    unsigned byte;

    while (length < max && sscanf(text + 2 * length, "%2x", &byte) == 1) {
        bytes[length++] = (unsigned char)byte;
    }
    return length;
}

static void print_hex(const void *bytes, size_t length)
{
    size_t i;

    for (i = 0; i < length; i++) {
        printf("%02x", ((const unsigned char *)bytes)[i]);
    }
    printf("\n");
}

static socklen_t socket_address(char *text, unsigned port, struct sockaddr_storage *address)
{
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    char *scope = strchr(text, '%');

    memset(address, 0, sizeof(*address));
    if (scope != NULL) {
        *scope = '\0';
        v6->sin6_scope_id = if_nametoindex(scope + 1);
    }
    if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons((uint16_t)port);
        return sizeof(*v6);
    }
    if (inet_pton(AF_INET, text, &v4->sin_addr) != 1) {
        die("address", UCS_ERR_INVALID_PARAM);
    }
    v4->sin_family = AF_INET;
    v4->sin_port = htons((uint16_t)port);
    return sizeof(*v4);
}

static void do_address(void)
{
    ucp_address_t *address;
    size_t length;

    must(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    print_hex(address, length);
    ucp_worker_release_address(worker, address);
}

static void do_connect(const char *hex)
{
    unsigned char address[MAX_LINE / 2];
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                              .address = (const ucp_address_t *)address};

    from_hex(hex, address, sizeof(address));
    make_ep(&params);
    printf("ok\n");
}

static void do_listen(char *text, unsigned port)
{
    struct sockaddr_storage address;
    ucp_listener_params_t params = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                                                  UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
                                    .sockaddr = {(struct sockaddr *)&address, socket_address(text, port, &address)},
                                    .conn_handler = {on_request, NULL}};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};

    must(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
    must(ucp_listener_query(listener, &attr), "ucp_listener_query");
    printf("%u\n", ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port));
}

static void do_dial(char *text, unsigned port)
{
    struct sockaddr_storage address;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
                              .sockaddr = {(struct sockaddr *)&address, socket_address(text, port, &address)}};

    make_ep(&params);
    printf("ok\n");
}

static void do_ping(unsigned count, size_t size)
{
    const double start_ms = now_ms();
    ucs_status_t status = UCS_OK;
    size_t got = size;

    wait_for_ep();
    while (count-- > 0 && status == UCS_OK && got == size) {
        status = send_one(101, size);
        if (status == UCS_OK) {
            status = recv_one(102, &got);
        }
    }
    answer((status == UCS_OK && got != size) ? UCS_ERR_MESSAGE_TRUNCATED : status, start_ms);
}

static void do_echo(unsigned count)
{
    const double start_ms = now_ms();
    ucs_status_t status = UCS_OK;
    size_t size;

    while (count-- > 0 && status == UCS_OK) {
        status = recv_one(101, &size);
        if (status == UCS_OK) {
            wait_for_ep();
            status = send_one(102, size);
        }
    }
    answer(status, start_ms);
}

/* Messages that are all under way at once; the receiver has one buffer for all of them. */
static void do_burst(unsigned count, size_t size, int sends)
{
    const ucp_request_param_t param = {0};
    const double start_ms = now_ms();
    ucs_status_t status = UCS_OK, last;
    void *requests[MAX_BURST];
    unsigned i;

    wait_for_ep();
    count = (count < MAX_BURST) ? count : MAX_BURST;
    for (i = 0; i < count; i++) {
        requests[i] = sends ? ucp_tag_send_nbx(ep, data, size, 103, &param)
                            : ucp_tag_recv_nbx(worker, buffer, MAX_SIZE, 103, UINT64_MAX, &param);
    }
    for (i = 0; i < count; i++) {
        last = finish(requests[i], NULL);
        status = (status == UCS_OK) ? last : status;
    }
    answer(status, start_ms);
}

static void do_expose(size_t size)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                   .length = size};
    size_t length;
    void *key;

    window = calloc(1, size);
    window[0] = 1;
    params.address = window;
    must(ucp_mem_map(context, &params, &memory), "ucp_mem_map");
    must(ucp_rkey_pack(context, memory, &key, &length), "ucp_rkey_pack");
    printf("%llx ", (unsigned long long)(uintptr_t)window);
    print_hex(key, length);
    ucp_rkey_buffer_release(key);
}

static void do_rma(uint64_t address, const char *hex, size_t size)
{
    const ucp_request_param_t param = {0};
    unsigned char bytes[MAX_LINE / 2];
    ucs_status_t status;
    ucp_rkey_h key;

    wait_for_ep();
    from_hex(hex, bytes, sizeof(bytes));
    must(ucp_ep_rkey_unpack(ep, bytes, &key), "ucp_ep_rkey_unpack");
    memset(buffer, 0, size);
    status = finish(ucp_put_nbx(ep, data, size, address, key, &param), NULL);
    if (status == UCS_OK) {
        status = finish(ucp_ep_flush_nbx(ep, &param), NULL);
    }
    if (status == UCS_OK) {
        status = finish(ucp_get_nbx(ep, buffer, size, address, key, &param), NULL);
    }
    ucp_rkey_destroy(key);
    answer((status == UCS_OK && memcmp(buffer, data, size) != 0) ? UCS_ERR_IO_ERROR : status, now_ms());
}

static void do_transport(void)
{
    ucp_transport_entry_t entries[8];
    ucp_ep_attr_t attr = {.field_mask = UCP_EP_ATTR_FIELD_TRANSPORTS,
                          .transports = {.entries = entries, .num_entries = 8, .entry_size = sizeof(entries[0])}};
    unsigned i;

    must(ucp_ep_query(ep, &attr), "ucp_ep_query");
    for (i = 0; i < attr.transports.num_entries; i++) {
        printf("%s%s", (i > 0) ? " " : "", entries[i].transport_name);
    }
    printf("\n");
}

static void do_close(uint32_t flags)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags};
    const double start_ms = now_ms();
    ucs_status_t status = finish(ucp_ep_close_nbx(ep, &param), NULL);

    ep = NULL;
    answer(status, start_ms);
}

/* 0: the end. */
static int obey(char *line)
{
    const ucp_request_param_t none = {0};
    const double start_ms = now_ms();
    char *words[4] = {"", "", "", ""}, *rest = NULL;
    ucs_status_t status;
    unsigned count;
    size_t size = 0;

    for (count = 0; count < 4; count++) {
        words[count] = strtok_r((count == 0) ? line : NULL, " \n", &rest);
        if (words[count] == NULL) {
            words[count] = "0";
        }
    }
    if (strcmp(words[0], "address") == 0) {
        do_address();
    } else if (strcmp(words[0], "connect") == 0) {
        do_connect(words[1]);
    } else if (strcmp(words[0], "listen") == 0) {
        do_listen(words[1], (unsigned)atoi(words[2]));
    } else if (strcmp(words[0], "dial") == 0) {
        do_dial(words[1], (unsigned)atoi(words[2]));
    } else if (strcmp(words[0], "send") == 0) {
        wait_for_ep();
        answer(send_one(strtoull(words[1], NULL, 0), strtoull(words[2], NULL, 0)), start_ms);
    } else if (strcmp(words[0], "recv") == 0) {
        status = recv_one(strtoull(words[1], NULL, 0), &size);
        printf("%s %zu\n", (status == UCS_OK) ? "ok" : ucs_status_string(status), size);
    } else if (strcmp(words[0], "ping") == 0) {
        do_ping((unsigned)atoi(words[1]), strtoull(words[2], NULL, 0));
    } else if (strcmp(words[0], "echo") == 0) {
        do_echo((unsigned)atoi(words[1]));
    } else if (strcmp(words[0], "burst") == 0) {
        do_burst((unsigned)atoi(words[1]), strtoull(words[2], NULL, 0), 1);
    } else if (strcmp(words[0], "sink") == 0) {
        do_burst((unsigned)atoi(words[1]), 0, 0);
    } else if (strcmp(words[0], "expose") == 0) {
        do_expose(strtoull(words[1], NULL, 0));
    } else if (strcmp(words[0], "rma") == 0) {
        do_rma(strtoull(words[1], NULL, 16), words[2], strtoull(words[3], NULL, 0));
    } else if (strcmp(words[0], "flush") == 0) {
        wait_for_ep();
        answer(finish(ucp_ep_flush_nbx(ep, &none), NULL), start_ms);
    } else if (strcmp(words[0], "mode") == 0) {
        err_mode = (ucp_err_handling_mode_t)atoi(words[1]);
        puts("ok 0");
    } else if (strcmp(words[0], "transport") == 0) {
        do_transport();
    } else if (strcmp(words[0], "close") == 0) {
        do_close((uint32_t)atoi(words[1]));
    } else {
        return 0;
    }
    fflush(stdout);
    return 1;
}

static void start(void)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA};
    const ucp_worker_params_t options = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    unsigned i;

    if (sleeps) {
        params.features |= UCP_FEATURE_WAKEUP;
    }
    must(ucp_init(&params, NULL, &context), "ucp_init");
    must(ucp_worker_create(context, &options, &worker), "ucp_worker_create");
    data = malloc(MAX_SIZE);
    buffer = malloc(MAX_SIZE);
    for (i = 0; i < MAX_SIZE; i++) {
        data[i] = (unsigned char)(i * 7u + i / 251u);
    }
}

int main(int argc, char **argv)
{
    static char line[MAX_LINE];
    size_t length = 0;
    ssize_t got;

    sleeps = argc > 1 && strcmp(argv[1], "sleep") == 0;
    start();
    printf("!ready\n");
    fflush(stdout);
    for (;;) {
        if (!turn(1)) {
            continue;
        }
        got = read(STDIN_FILENO, line + length, 1); /* commands wait in the pipe, seen by poll */
        if (got <= 0) {
            break;
        }
        if (line[length++] == '\n') {
            line[length] = '\0';
            length = 0;
            if (!obey(line)) {
                break;
            }
        } else if (length == MAX_LINE - 1) {
            break;
        }
    }
    if (listener != NULL) {
        ucp_listener_destroy(listener);
    }
    if (memory != NULL) {
        ucp_mem_unmap(context, memory);
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    printf("bye\n");
    return 0;
}
