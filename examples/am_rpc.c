/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote procedure calls by active messages. The one procedure turns a text around; a text may have any length. The
 * server puts its worker address into a file and answers on the endpoint that comes with each question:
 *
 *      am_rpc server FILE &
 *      am_rpc client FILE TEXT COUNT       asks for TEXT repeated COUNT times, checks the answer, prints its length
 *      am_rpc client FILE                  tells the server to end
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

enum { QUESTION = 1, ANSWER = 2 };

struct node {
    ucp_context_h context;
    ucp_worker_h worker;
    int fd;
    int busy;                   /* answers under way */
    int ended;                  /* the server was told to end; the client has its answer */
};

/* A text on its way: fetched, then sent back or looked at. */
struct call {
    struct node *node;
    ucp_ep_h reply_ep;          /* NULL: this is an answer */
    size_t length;
    char text[];
};

static struct {
    const char *text;
    size_t length, count;
} asked;

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "am_rpc: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

/* Progress until nothing is left, arm, and sleep if arming says that nothing came meanwhile. */
static void progress_or_sleep(struct node *node)
{
    struct pollfd fd = {.fd = node->fd, .events = POLLIN};

    if (ucp_worker_progress(node->worker) == 0 && ucp_worker_arm(node->worker) == UCS_OK && poll(&fd, 1, 20000) == 0) {
        fprintf(stderr, "am_rpc: nothing happened for 20 seconds\n");
        exit(1);
    }
}

/* A client that went away is no reason for the server to end. */
static void end_call(struct call *call, ucs_status_t status)
{
    if (status != UCS_OK) {
        fprintf(stderr, "am_rpc: a call was given up: %s\n", ucs_status_string(status));
    }
    call->node->busy -= call->reply_ep != NULL;
    free(call);
}

/* Runs inside progress, like all callbacks, unless the send was complete at once. */
static void answered(void *request, ucs_status_t status, void *user_data)
{
    end_call(user_data, status);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

static void answer(struct call *call)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send      = answered,
                                 .user_data    = call};
    ucs_status_ptr_t sent;

    for (size_t i = 0; i < call->length / 2; i++) {
        char byte                         = call->text[i];
        call->text[i]                     = call->text[call->length - 1 - i];
        call->text[call->length - 1 - i] = byte;
    }
    sent = ucp_am_send_nbx(call->reply_ep, ANSWER, NULL, 0, call->text, call->length, &param);
    if (!UCS_PTR_IS_PTR(sent)) {
        answered(NULL, UCS_PTR_STATUS(sent), call);
    }
}

static void check_answer(struct call *call)
{
    size_t period = asked.length, i;

    for (i = 0; i < call->length && call->text[i] == asked.text[period - 1 - i % period]; i++) {
    }
    if (i < call->length || call->length != period * asked.count) {
        fprintf(stderr, "am_rpc: the answer is wrong at byte %zu of %zu\n", i, call->length);
        exit(1);
    }
    printf("%zu\n", call->length);
    call->node->ended = 1;
    end_call(call, UCS_OK);
}

static void have_text(struct call *call, ucs_status_t status)
{
    if (status != UCS_OK) {
        end_call(call, status);
    } else if (call->reply_ep != NULL) {
        answer(call);
    } else {
        check_answer(call);
    }
}

static void fetched(void *request, ucs_status_t status, size_t length, void *user_data)
{
    (void)length;
    ucp_request_free(request);
    have_text(user_data, status);
}

/* A short text is here already; a long one waits at the sender until it is fetched. The same call receives both. */
static ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *param)
{
    struct node *node         = arg;
    struct call *call         = malloc(sizeof(*call) + length);
    ucp_request_param_t fetch = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.recv_am   = fetched,
                                 .user_data    = call};
    ucs_status_ptr_t request;

    (void)header;
    if (call == NULL) {
        return UCS_ERR_NO_MEMORY; /* which a sender by rendezvous gets to know */
    }
    if (header_length > 0) { /* a note that it is over */
        node->ended = 1;
        free(call);
        return UCS_OK;
    }
    *call       = (struct call){.node = node, .reply_ep = param->reply_ep, .length = length};
    node->busy += call->reply_ep != NULL;
    request     = ucp_am_recv_data_nbx(node->worker, data, call->text, length, &fetch);
    if (!UCS_PTR_IS_PTR(request)) {
        have_text(call, UCS_PTR_STATUS(request)); /* complete at once: the callback does not run */
    }
    return UCS_OK;
}

static void open_node(struct node *node, unsigned id)
{
    ucp_params_t params               = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                         .features   = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_worker_params_t worker_params = {.field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_am_handler_param_t handler    = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                       UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                         .id         = id,
                                         .cb         = arrived,
                                         .arg        = node};

    must(ucp_init(&params, NULL, &node->context), "ucp_init");
    must(ucp_worker_create(node->context, &worker_params, &node->worker), "ucp_worker_create");
    must(ucp_worker_get_efd(node->worker, &node->fd), "ucp_worker_get_efd");
    must(ucp_worker_set_am_recv_handler(node->worker, &handler), "ucp_worker_set_am_recv_handler");
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

/* The file appears under its name when it is complete. */
static void serve(struct node *node, const char *path)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    char hidden[512];
    FILE *file;

    must(ucp_worker_query(node->worker, &attr), "ucp_worker_query");
    snprintf(hidden, sizeof(hidden), "%s.part", path);
    file = fopen(hidden, "w");
    if (file == NULL || fwrite(attr.address, 1, attr.address_length, file) != attr.address_length ||
        fclose(file) != 0 || rename(hidden, path) != 0) {
        perror(path);
        exit(1);
    }
    ucp_worker_release_address(node->worker, attr.address);
    while (!node->ended || node->busy > 0) {
        progress_or_sleep(node);
    }
}

static ucp_ep_h connect_to(struct node *node, const char *path)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    static char address[65536];
    FILE *file = NULL;
    ucp_ep_h ep;

    for (int tries = 0; tries < 2000 && (file = fopen(path, "r")) == NULL; tries++) {
        usleep(10000);
    }
    if (file == NULL || fread(address, 1, sizeof(address), file) == 0) {
        perror(path);
        exit(1);
    }
    fclose(file);
    params.address = (const ucp_address_t *)address;
    must(ucp_ep_create(node->worker, &params, &ep), "ucp_ep_create");
    return ep;
}

static void ask(struct node *node, ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY};
    char *text                      = malloc(asked.length * asked.count + 1);

    if (text == NULL) {
        exit(1);
    }
    for (size_t i = 0; i < asked.length * asked.count; i++) {
        text[i] = asked.text[i % asked.length];
    }
    finish(node, ucp_am_send_nbx(ep, QUESTION, NULL, 0, text, asked.length * asked.count, &param), "question");
    free(text);
    while (!node->ended) {
        progress_or_sleep(node);
    }
}

int main(int argc, char **argv)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};
    int server                      = argc == 3 && strcmp(argv[1], "server") == 0;
    struct node node                = {.fd = -1};
    ucp_ep_h ep;

    if (!server && ((argc != 3 && argc != 5) || strcmp(argv[1], "client") != 0)) {
        fprintf(stderr, "usage: am_rpc server FILE\n       am_rpc client FILE [TEXT COUNT]\n");
        return 2;
    }
    open_node(&node, server ? QUESTION : ANSWER);
    if (server) {
        serve(&node, argv[2]);
    } else {
        ep = connect_to(&node, argv[2]);
        if (argc == 5) {
            asked.text   = argv[3];
            asked.length = strlen(argv[3]);
            asked.count  = strtoull(argv[4], NULL, 10);
            ask(&node, ep);
        } else {
            finish(&node, ucp_am_send_nbx(ep, QUESTION, "end", 3, NULL, 0, &param), "end");
        }
        finish(&node, ucp_ep_close_nbx(ep, &param), "ucp_ep_close_nbx");
    }
    ucp_worker_destroy(node.worker);
    ucp_cleanup(node.context);
    return 0;
}
