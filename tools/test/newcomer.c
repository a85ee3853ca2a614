/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A first program with one mistake in it, for newcomer.sh. Usage: newcomer WHAT [ARGUMENT...]; prints "ok", or what
 * failed and its status, and leaves the rest to the library's log. It installs no error handler, as first programs do.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <ucp/api/ucp.h>

enum { PATIENCE_S = 30 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_conn_request_h request;

static void end(const char *what, ucs_status_t status)
{
    printf("%s: %s\n", what, ucs_status_string(status));
    fflush(stdout);
    exit(status != UCS_OK);
}

static void check(const char *what, ucs_status_t status)
{
    if (status != UCS_OK) {
        end(what, status);
    }
}

static void start(uint64_t features)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    const ucp_worker_params_t none = {.field_mask = 0};

    check("ucp_init", ucp_init(&params, NULL, &context));
    check("ucp_worker_create", ucp_worker_create(context, &none, &worker));
}

static void wait_for(const char *what, ucs_status_ptr_t operation)
{
    const time_t until = time(NULL) + PATIENCE_S;
    ucs_status_t status = UCS_PTR_STATUS(operation);

    if (UCS_PTR_IS_PTR(operation)) {
        while ((status = ucp_request_check_status(operation)) == UCS_INPROGRESS && time(NULL) < until) {
            ucp_worker_progress(worker);
        }
        if (status != UCS_INPROGRESS) {
            ucp_request_free(operation);
        }
    }
    for (int i = 0; i < 1000; i++) { /* what failed is logged by progress */
        ucp_worker_progress(worker);
    }
    check(what, status);
}

static void name_of(struct sockaddr_in *name, const char *address, const char *port)
{
    *name = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    inet_pton(AF_INET, address, &name->sin_addr);
}

static void on_request(ucp_conn_request_h came, void *arg)
{
    (void)arg;
    request = came;
}

/* Listens, says the port, and serves a client with the given mode until its standard input ends. */
static void listen_at(const char *address, const char *port, const char *mode)
{
    struct sockaddr_in name;
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .conn_handler.cb = on_request,
    };
    ucp_ep_params_t accept = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = (ucp_err_handling_mode_t)atoi(mode)};
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_listener_h listener;
    ucp_ep_h ep;

    name_of(&name, address, port);
    params.sockaddr = (ucs_sock_addr_t){(struct sockaddr *)&name, sizeof(name)};
    check("ucp_listener_create", ucp_listener_create(worker, &params, &listener));
    check("ucp_listener_query", ucp_listener_query(listener, &attr));
    printf("%d\n", ntohs(((struct sockaddr_in *)&attr.sockaddr)->sin_port));
    fflush(stdout);
    alarm(PATIENCE_S);
    for (;;) {
        ucp_worker_progress(worker);
        if (request != NULL) {
            accept.conn_request = request;
            request = NULL;
            check("ucp_ep_create", ucp_ep_create(worker, &accept, &ep));
        }
    }
}

static void send_to(ucp_ep_params_t *params)
{
    const ucp_request_param_t none = {.op_attr_mask = 0};
    ucp_ep_h ep;

    check("ucp_ep_create", ucp_ep_create(worker, params, &ep));
    wait_for("ucp_tag_send_nbx", ucp_tag_send_nbx(ep, "x", 1, 1, &none));
    wait_for("ucp_ep_flush_nbx", ucp_ep_flush_nbx(ep, &none));
}

static void connect_to(const char *address, const char *port)
{
    struct sockaddr_in name;
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
                              .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER};

    name_of(&name, address, port);
    params.sockaddr = (ucs_sock_addr_t){(struct sockaddr *)&name, sizeof(name)};
    send_to(&params);
}

/* To the worker whose address is in a file. */
static void connect_by(const char *path)
{
    static char bytes[65536];
    FILE *file = fopen(path, "r");
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)bytes};

    if (file == NULL || fread(bytes, 1, sizeof(bytes) - 1, file) == 0) {
        end(path, UCS_ERR_IO_ERROR);
    }
    fclose(file);
    send_to(&params);
}

/* Writes the worker's address to a file and makes progress until it is killed. */
static void serve_by(const char *path)
{
    FILE *file = fopen(path, "w");
    ucp_address_t *address;
    size_t length;

    check("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &length));
    if (file == NULL || fwrite(address, 1, length, file) != length || fclose(file) != 0) {
        end(path, UCS_ERR_IO_ERROR);
    }
    printf("serving\n");
    fflush(stdout);
    alarm(PATIENCE_S);
    for (;;) {
        ucp_worker_progress(worker);
    }
}

/* Closes an endpoint without error handling by force. */
static void close_by_force(void)
{
    const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    ucp_ep_h ep;

    check("ucp_worker_get_address", ucp_worker_get_address(worker, &address, &length));
    params.address = address;
    check("ucp_ep_create", ucp_ep_create(worker, &params, &ep));
    wait_for("ucp_ep_close_nbx", ucp_ep_close_nbx(ep, &force));
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    const ucp_request_param_t none = {.op_attr_mask = 0};
    char byte;

    if (strcmp(what, "version") == 0) {
        const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
        check("ucp_init_version", ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR + 70, &params, NULL, &context));
        end("ok", UCS_OK);
    }
    start(strcmp(what, "feature") == 0 ? UCP_FEATURE_RMA : UCP_FEATURE_TAG);
    if (strcmp(what, "feature") == 0) {
        wait_for("ucp_tag_recv_nbx", ucp_tag_recv_nbx(worker, &byte, 1, 1, UINT64_MAX, &none));
    } else if (strcmp(what, "listen") == 0 && argc == 5) {
        listen_at(argv[2], argv[3], argv[4]);
    } else if (strcmp(what, "connect") == 0 && argc == 4) {
        connect_to(argv[2], argv[3]);
    } else if (strcmp(what, "serve") == 0 && argc == 3) {
        serve_by(argv[2]);
    } else if (strcmp(what, "join") == 0 && argc == 3) {
        connect_by(argv[2]);
    } else if (strcmp(what, "force") == 0) {
        close_by_force();
    } else if (strcmp(what, "wakeup") == 0) {
        int fd;
        check("ucp_worker_get_efd", ucp_worker_get_efd(worker, &fd));
    } else if (strcmp(what, "early") == 0) { /* the context goes before its worker */
        ucp_cleanup(context);
    } else if (strcmp(what, "leak") == 0) {
        (void)ucp_tag_recv_nbx(worker, &byte, 1, 1, UINT64_MAX, &none);
        ucp_worker_destroy(worker);
        ucp_cleanup(context);
    }
    end("ok", UCS_OK);
}
