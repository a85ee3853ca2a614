/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An echo over a UCP stream. Server and client exchange their worker addresses through two files in a directory that
 * both are given; everything else goes through the library:
 *
 *      stream_echo server DIRECTORY &
 *      stream_echo client DIRECTORY "some text"        prints the text when it came back
 *
 * Neither of them spins: each sleeps on the worker's descriptor until something happens.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

struct node {
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_ep_h ep;
    int fd;
};

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "stream_echo: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

/* The only right order: progress until nothing is left, arm, and sleep if arming says that nothing came meanwhile. */
static void progress_or_sleep(struct node *node)
{
    struct pollfd fd = {.fd = node->fd, .events = POLLIN};

    if (ucp_worker_progress(node->worker) != 0) {
        return;
    }
    if (ucp_worker_arm(node->worker) == UCS_OK && poll(&fd, 1, 20000) == 0) {
        fprintf(stderr, "stream_echo: nothing happened for 20 seconds\n");
        exit(1);
    }
}

/* Ends any operation: NULL is done, an error pointer has failed, the rest is waited for. */
static void finish(struct node *node, ucs_status_ptr_t request, const char *what)
{
    if (UCS_PTR_IS_PTR(request)) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            progress_or_sleep(node);
        }
        must(ucp_request_check_status(request), what);
        ucp_request_free(request);
    } else {
        must(UCS_PTR_STATUS(request), what);
    }
}

/* A file appears under its name when it is complete. */
static void write_address(struct node *node, const char *directory, const char *name)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    char path[512], hidden[520];
    FILE *file;

    must(ucp_worker_query(node->worker, &attr), "ucp_worker_query");
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    snprintf(hidden, sizeof(hidden), "%s.part", path);
    file = fopen(hidden, "w");
    if (file == NULL || fwrite(attr.address, 1, attr.address_length, file) != attr.address_length ||
        fclose(file) != 0 || rename(hidden, path) != 0) {
        perror(path);
        exit(1);
    }
    ucp_worker_release_address(node->worker, attr.address);
}

static void connect_to(struct node *node, const char *directory, const char *name)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    static char address[65536];
    FILE *file = NULL;
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    for (int tries = 0; tries < 2000 && (file = fopen(path, "r")) == NULL; tries++) {
        usleep(10000);
    }
    if (file == NULL || fread(address, 1, sizeof(address), file) == 0) {
        perror(path);
        exit(1);
    }
    fclose(file);
    params.address = (const ucp_address_t *)address;
    must(ucp_ep_create(node->worker, &params, &node->ep), "ucp_ep_create");
}

static void open_node(struct node *node)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                           .features = UCP_FEATURE_STREAM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};

    must(ucp_init(&params, NULL, &node->context), "ucp_init");
    must(ucp_worker_create(node->context, &worker_params, &node->worker), "ucp_worker_create");
    must(ucp_worker_get_efd(node->worker, &node->fd), "ucp_worker_get_efd");
}

static void close_node(struct node *node)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    finish(node, ucp_ep_close_nbx(node->ep, &param), "ucp_ep_close_nbx");
    ucp_worker_destroy(node->worker);
    ucp_cleanup(node->context);
}

static void send_all(struct node *node, const void *data, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    finish(node, ucp_stream_send_nbx(node->ep, data, length, &param), "ucp_stream_send_nbx");
}

/* Sends back whatever comes, straight out of the library's memory, up to and with a byte 0. */
static void serve(struct node *node)
{
    ucp_stream_poll_ep_t ready;
    size_t length;
    int end = 0;
    char *data;

    while (!end) {
        if (ucp_stream_worker_poll(node->worker, &ready, 1, 0) == 0) {
            progress_or_sleep(node);
            continue;
        }
        while ((data = ucp_stream_recv_data_nb(ready.ep, &length)) != NULL) {
            must(UCS_PTR_STATUS(UCS_PTR_IS_ERR(data) ? data : NULL), "ucp_stream_recv_data_nb");
            end = data[length - 1] == '\0';
            send_all(node, data, length);
            ucp_stream_data_release(ready.ep, data);
        }
    }
}

static void ask(struct node *node, const char *text)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t size = strlen(text) + 1, length;
    char *answer = malloc(size);

    if (answer == NULL) {
        exit(1);
    }
    send_all(node, text, size);
    finish(node, ucp_stream_recv_nbx(node->ep, answer, size, &length, &param), "ucp_stream_recv_nbx");
    puts(answer);
    free(answer);
}

int main(int argc, char **argv)
{
    int server = argc == 3 && strcmp(argv[1], "server") == 0;
    struct node node = {.fd = -1};

    if (!server && (argc != 4 || strcmp(argv[1], "client") != 0)) {
        fprintf(stderr, "usage: stream_echo server DIRECTORY\n       stream_echo client DIRECTORY TEXT\n");
        return 2;
    }
    open_node(&node);
    write_address(&node, argv[2], server ? "server" : "client");
    connect_to(&node, argv[2], server ? "client" : "server");
    if (server) {
        serve(&node);
    } else {
        ask(&node, argv[3]);
    }
    close_node(&node);
    return 0;
}
