/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The headers in C++: a user's program that makes two workers and sends a message from one to the other. Built by
 * install.sh like consumer.c; prints the version that it runs with.
 */
#include <cstdint>
#include <cstdio>

#include <ucp/api/ucp.h>

namespace {

ucp_worker_h workers[2];

bool wait_for(ucs_status_ptr_t request)
{
    ucs_status_t status = UCS_INPROGRESS;

    if (request == nullptr) {
        return true;
    }
    if (UCS_PTR_IS_ERR(request)) {
        std::fprintf(stderr, "An operation failed at once: %s.\n", ucs_status_string(UCS_PTR_STATUS(request)));
        return false;
    }
    while (status == UCS_INPROGRESS) {
        ucp_worker_progress(workers[0]);
        ucp_worker_progress(workers[1]);
        status = ucp_request_check_status(request);
    }
    ucp_request_free(request);
    return status == UCS_OK;
}

bool talk()
{
    const std::uint64_t sent = 0x0123456789abcdefu;
    std::uint64_t received   = 0;
    ucp_request_param_t plain = {};
    ucp_ep_params_t params    = {};
    ucp_address_t *address;
    std::size_t length;
    ucp_ep_h ep;

    if (ucp_worker_get_address(workers[1], &address, &length) != UCS_OK) {
        return false;
    }
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address    = address;
    if (ucp_ep_create(workers[0], &params, &ep) != UCS_OK) {
        return false;
    }
    ucp_worker_release_address(workers[1], address);
    ucs_status_ptr_t receive = ucp_tag_recv_nbx(workers[1], &received, sizeof(received), 7, UINT64_MAX, &plain);
    ucs_status_ptr_t send    = ucp_tag_send_nbx(ep, &sent, sizeof(sent), 7, &plain);
    const bool ok            = wait_for(send) && wait_for(receive) && received == sent;

    return wait_for(ucp_ep_close_nbx(ep, &plain)) && ok;
}

} // namespace

int main()
{
    ucp_worker_params_t worker_params = {};
    ucp_params_t params               = {};
    ucp_context_h context;

    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_TAG;
    std::printf("%s\n", ucp_get_version_string());
    if (ucp_init(&params, nullptr, &context) != UCS_OK) {
        return 1;
    }
    for (ucp_worker_h &worker : workers) {
        if (ucp_worker_create(context, &worker_params, &worker) != UCS_OK) {
            return 1;
        }
    }
    const bool ok = talk();
    ucp_worker_destroy(workers[0]);
    ucp_worker_destroy(workers[1]);
    ucp_cleanup(context);
    return ok ? 0 : 1;
}
