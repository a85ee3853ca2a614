/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest program that needs the headers and both libraries: it makes a context and a worker and sends itself one
 * message. Built by install.sh the way a user would build it; prints the version that it runs with.
 */
#include <stdio.h>
#include <string.h>

#include <ucp/api/ucp.h>

static int wait_for(ucp_worker_h worker, ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_INPROGRESS;

    if (request == NULL) {
        return 1;
    }
    if (UCS_PTR_IS_ERR(request)) {
        fprintf(stderr, "The operation failed at once: %s.\n", ucs_status_string(UCS_PTR_STATUS(request)));
        return 0;
    }
    while (status == UCS_INPROGRESS) {
        ucp_worker_progress(worker);
        status = ucp_request_check_status(request);
    }
    ucp_request_free(request);
    return status == UCS_OK;
}

static int talk(ucp_worker_h worker, ucp_ep_h ep)
{
    static const char text[] = "installed";
    char buffer[sizeof(text)] = "";
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(worker, buffer, sizeof(buffer), 7, UINT64_MAX, &plain);
    ucs_status_ptr_t send = ucp_tag_send_nbx(ep, text, sizeof(text), 7, &plain);

    return wait_for(worker, send) && wait_for(worker, receive) && strcmp(buffer, text) == 0;
}

static int run(ucp_context_h context)
{
    const ucp_worker_params_t worker_params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE};
    const ucp_request_param_t plain = {.op_attr_mask = 0};
    ucp_ep_params_t ep_params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t *address;
    ucp_worker_h worker;
    size_t length;
    ucp_ep_h ep;
    int ok = 0;

    if (ucp_worker_create(context, &worker_params, &worker) != UCS_OK) {
        return 0;
    }
    if (ucp_worker_get_address(worker, &address, &length) == UCS_OK) {
        ep_params.address = address;
        if (ucp_ep_create(worker, &ep_params, &ep) == UCS_OK) {
            ok = talk(worker, ep);
            ok = wait_for(worker, ucp_ep_close_nbx(ep, &plain)) && ok;
        }
        ucp_worker_release_address(worker, address);
    }
    ucp_worker_destroy(worker);
    return ok;
}

int main(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_context_h context;
    unsigned major, minor, release;
    int ok;

    ucp_get_version(&major, &minor, &release);
    printf("%u.%u.%u\n", major, minor, release);
    if (ucp_init(&params, NULL, &context) != UCS_OK) {
        fprintf(stderr, "There is no context.\n");
        return 1;
    }
    ok = run(context);
    ucp_cleanup(context);
    return !ok;
}
