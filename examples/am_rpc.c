/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote procedure calls by active messages. The one procedure turns a text around, which may have any length; the
 * answer goes to the endpoint that comes with the question. Addresses are bytes, here as hexadecimal digits:
 *
 *      am_rpc server                               prints its address, and serves until it is killed
 *      am_rpc client ADDRESS <question >answer
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

enum { QUESTION = 1, ANSWER = 2 }; /* ids of messages */

/* A text on its way: it is fetched, then sent back or printed. */
struct call {
    ucp_ep_h reply_ep; /* NULL: this is an answer */
    char text[];
};

static ucp_context_h context;
static ucp_worker_h worker;
static int answered;

static void must(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "am_rpc: %s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

/* Progress until nothing is left, arm, and sleep if arming says that nothing came meanwhile. */
static void progress_or_sleep(void)
{
    struct pollfd event = {.events = POLLIN};

    if (ucp_worker_progress(worker) == 0 && ucp_worker_arm(worker) == UCS_OK) {
        must(ucp_worker_get_efd(worker, &event.fd), "ucp_worker_get_efd");
        poll(&event, 1, -1);
    }
}

/* Waits for an operation without callback: NULL is done, an error pointer has failed, anything else is a request. */
static void finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    while (status == UCS_INPROGRESS) {
        progress_or_sleep();
        status = ucp_request_check_status(request);
    }
    must(status, what);
    if (request != NULL) {
        ucp_request_free(request);
    }
}

/* The answer is sent, or cannot be: its client may be gone, which is no reason for the server to end. */
static void call_over(void *request, ucs_status_t status, void *call)
{
    if (status != UCS_OK) {
        fprintf(stderr, "am_rpc: a call was given up: %s\n", ucs_status_string(status));
    }
    if (request != NULL) {
        ucp_request_free(request);
    }
    free(call);
}

static ucs_status_ptr_t answer(struct call *call, size_t length)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = call_over,
                                       .user_data = call};

    for (size_t i = 0; i < length / 2; i++) {
        char byte = call->text[i];
        call->text[i] = call->text[length - 1 - i];
        call->text[length - 1 - i] = byte;
    }
    return ucp_am_send_nbx(call->reply_ep, ANSWER, NULL, 0, call->text, length, &param);
}

/* The text is here, or will never be. */
static void fetched(void *request, ucs_status_t status, size_t length, void *user_data)
{
    struct call *call = user_data;
    ucs_status_ptr_t sent = UCS_STATUS_PTR(status);

    if (request != NULL) {
        ucp_request_free(request);
    }
    if (call->reply_ep == NULL) {
        must(status, "fetching the answer");
        fwrite(call->text, 1, length, stdout);
        answered = 1;
    } else if (status == UCS_OK) {
        sent = answer(call, length);
    }
    if (!UCS_PTR_IS_PTR(sent)) {
        call_over(NULL, UCS_PTR_STATUS(sent), call);
    }
}

/* The handler on both sides. A short text is here already, a long one still with its sender: the same call fetches
 * both. Callbacks run inside progress; not at all if an operation is over at once, for then it returns no request. */
static ucs_status_t arrived(void *arg, const void *header, size_t header_length, void *data, size_t length,
                            const ucp_am_recv_param_t *message)
{
    struct call *call = malloc(sizeof(*call) + length);
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.recv_am = fetched,
                                       .user_data = call};
    ucs_status_ptr_t request;

    (void)arg, (void)header, (void)header_length;
    if (call == NULL) {
        return UCS_ERR_NO_MEMORY; /* which the sender of a long text gets to know */
    }
    call->reply_ep = message->reply_ep;
    request = ucp_am_recv_data_nbx(worker, data, call->text, length, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        fetched(NULL, UCS_PTR_STATUS(request), length, call);
    }
    return UCS_OK;
}

static void open_worker(unsigned id)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    const ucp_worker_params_t defaults = {.field_mask = 0};
    const ucp_am_handler_param_t handler = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = id, .cb = arrived};

    must(ucp_init(&params, NULL, &context), "ucp_init");
    must(ucp_worker_create(context, &defaults, &worker), "ucp_worker_create");
    must(ucp_worker_set_am_recv_handler(worker, &handler), "ucp_worker_set_am_recv_handler");
}

static void serve(void)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};

    must(ucp_worker_query(worker, &attr), "ucp_worker_query");
    for (size_t i = 0; i < attr.address_length; i++) {
        printf("%02x", ((const unsigned char *)attr.address)[i]);
    }
    printf("\n");
    fflush(stdout);
    ucp_worker_release_address(worker, attr.address);
    for (;;) {
        progress_or_sleep();
    }
}

static void ask(const char *digits)
{
    const ucp_request_param_t reply = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_AM_SEND_FLAG_REPLY};
    const ucp_request_param_t none = {.op_attr_mask = 0};
    char address[1024] = {0}, *text = NULL;
    ucp_ep_params_t peer = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS, .address = (ucp_address_t *)address};
    size_t room = 0;
    ssize_t length = getdelim(&text, &room, '\0', stdin); /* all of it */
    ucp_ep_h ep;

    for (size_t i = 0; i < sizeof(address) && 2 * i + 1 < strlen(digits); i++) {
        sscanf(digits + 2 * i, "%2hhx", (unsigned char *)&address[i]);
    }
    must(ucp_ep_create(worker, &peer, &ep), "ucp_ep_create");
    finish(ucp_am_send_nbx(ep, QUESTION, NULL, 0, text, length > 0 ? (size_t)length : 0, &reply), "ucp_am_send_nbx");
    while (!answered) {
        progress_or_sleep();
    }
    finish(ucp_ep_close_nbx(ep, &none), "ucp_ep_close_nbx");
    free(text);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "server") == 0) {
        open_worker(QUESTION);
        serve();
    } else if (argc == 3 && strcmp(argv[1], "client") == 0) {
        open_worker(ANSWER);
        ask(argv[2]);
    } else {
        fprintf(stderr, "usage: am_rpc server\n       am_rpc client ADDRESS <question >answer\n");
        return 2;
    }
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
