/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the fuzz targets share. Each is a libFuzzer program: any bytes may come, and nothing may crash, leak or hang.
 */
#ifndef CW_FUZZ_H
#define CW_FUZZ_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include "base/log.h"
#include "core/ep.h"
#include "transport/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define fuzz_check(condition)  \
    do {                       \
        if (!(condition)) {    \
            __builtin_trap();  \
        }                      \
    } while (0)

static inline int fuzz_swallow(const char *file, unsigned line, const char *function, enum cw_log_level level,
                               const char *format, va_list args)
{
    char text[1024];

    (void)file;
    (void)line;
    (void)function;
    (void)level;
    (void)vsnprintf(text, sizeof(text), format, args); /* the arguments are checked, too */
    return 1;
}

/* One worker for the whole run. */
static inline ucp_worker_h fuzz_worker_with(const char *transports, uint64_t features)
{
    static ucp_worker_h worker;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = features};
    ucp_worker_params_t worker_params = {.field_mask = 0};
    static ucp_context_h context;

    if (worker == NULL) {
        cw_log_set_interceptor(fuzz_swallow);
        fuzz_check(setenv("UCX_TLS", transports, 1) == 0);
        fuzz_check(ucp_init(&params, NULL, &context) == UCS_OK);
        fuzz_check(ucp_worker_create(context, &worker_params, &worker) == UCS_OK);
    }
    return worker;
}

static inline ucp_worker_h fuzz_worker(const char *transports)
{
    return fuzz_worker_with(transports, UCP_FEATURE_TAG);
}

/* Ends a request by at most so many rounds of progress; frees it. */
static inline void fuzz_wait(ucp_worker_h worker, ucs_status_ptr_t result, int max_rounds)
{
    if (!UCS_PTR_IS_PTR(result)) {
        return;
    }
    for (int round = 0; ucp_request_check_status(result) == UCS_INPROGRESS; round++) {
        fuzz_check(round < max_rounds);
        (void)ucp_worker_progress(worker);
    }
    ucp_request_free(result);
}

/* An endpoint of the worker to itself, open. */
static inline ucp_ep_h fuzz_connected(ucp_worker_h worker, int max_rounds)
{
    ucp_worker_attr_t attr = {.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS};
    ucp_request_param_t all = {.op_attr_mask = 0};
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                              .err_mode = UCP_ERR_HANDLING_MODE_PEER};
    ucs_status_ptr_t receive;
    char byte;
    ucp_ep_h ep;

    fuzz_check(ucp_worker_query(worker, &attr) == UCS_OK);
    params.address = attr.address;
    fuzz_check(ucp_ep_create(worker, &params, &ep) == UCS_OK);
    ucp_worker_release_address(worker, attr.address);
    receive = ucp_tag_recv_nbx(worker, &byte, 1, 0, 0, &all);
    fuzz_wait(worker, ucp_tag_send_nbx(ep, "x", 1, 0, &all), max_rounds);
    fuzz_wait(worker, receive, max_rounds);
    fuzz_check(ep->state == CW_EP_OPEN);
    return ep;
}

static inline int fuzz_not_ready(struct cw_conn *conn)
{
    (void)conn;
    return 0;
}

/* Within one process nobody checks addresses of the peer before copying from there; here they come from anybody. */
static inline void fuzz_copy_nothing(ucp_ep_h ep)
{
    static struct cw_transport_copies copies;
    static struct cw_transport transport;

    if (transport.name == NULL) {
        transport = *ep->conn->iface->transport;
        copies = *transport.copies;
        copies.ready = fuzz_not_ready;
        transport.copies = &copies;
    }
    ep->conn->iface->transport = &transport;
}

#endif
