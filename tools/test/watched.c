/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program to be watched: sends the given number of tag messages of the given size to itself, says "ready", and
 * waits until its standard input ends; with a third argument it makes progress meanwhile. An unknown receive stays
 * posted, and one message stays unexpected.
 *
 * Callers: top.sh, trace.sh.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucp/api/ucp.h>

static ucp_worker_h worker;

static void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
        exit(1);
    }
}

static void wait_for(ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        check(UCS_PTR_STATUS(request), "operation");
    } else if (request != NULL) {
        while (ucp_request_check_status(request) == UCS_INPROGRESS) {
            ucp_worker_progress(worker);
        }
        ucp_request_free(request);
    }
}

static ucp_ep_h connect_to_itself(void)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    size_t length;
    ucp_ep_h ep;

    check(ucp_worker_get_address(worker, &address, &length), "ucp_worker_get_address");
    params.address = address;
    check(ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    ucp_worker_release_address(worker, address);
    return ep;
}

int main(int argc, char **argv)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t named = {.field_mask = UCP_WORKER_PARAM_FIELD_NAME, .name = "watched \033[2J\"\\"};
    const ucp_request_param_t param = {.op_attr_mask = 0};
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    size_t size = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
    char *from = calloc(1, size + 1), *to = malloc(size + 1);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    ucp_context_h context;
    ucs_status_ptr_t receive;

    if (from == NULL || to == NULL) {
        return 1;
    }
    check(ucp_init(&params, NULL, &context), "ucp_init");
    check(ucp_worker_create(context, &named, &worker), "ucp_worker_create");
    ucp_ep_h ep = connect_to_itself();
    for (unsigned long i = 0; i < count; i++) {
        receive = ucp_tag_recv_nbx(worker, to, size, 5, UINT64_MAX, &param);
        wait_for(ucp_tag_send_nbx(ep, from, size, 5, &param));
        wait_for(receive);
    }
    receive = ucp_tag_recv_nbx(worker, to, size, 6, UINT64_MAX, &param);
    wait_for(ucp_tag_send_nbx(ep, from, size < 8 ? size : 8, 7, &param)); /* one that needs no receive */
    for (int round = 0; round < 100000; round++) { /* until what was counted is shown, too */
        ucp_worker_progress(worker);
    }
    printf("ready\n");
    fflush(stdout);
    if (argc > 3) {
        while (poll(&input, 1, 0) == 0) {
            ucp_worker_progress(worker);
        }
    }
    while (getchar() != EOF) {
    }
    ucp_request_cancel(worker, receive);
    ucp_request_free(receive);
    wait_for(ucp_tag_recv_nbx(worker, to, size, 7, UINT64_MAX, &param));
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    free(from);
    free(to);
    return 0;
}
