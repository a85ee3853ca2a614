/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream calls.
 */
#include "api/call.h"
#include "core/ep_short.h"
#include "msg/op_ep.h"
#include "stream/stream.h"
#include "wire/packet.h"

static CW_NOINLINE ucs_status_ptr_t send_general(ucp_ep_h ep, const void *buffer, size_t count,
                                                 const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_t status;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_STREAM))) {
        return UCS_STATUS_PTR(cw_call_feature_missing("ucp_stream_send_nbx", "UCP_FEATURE_STREAM"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (status == UCS_OK && (param->op_attr_mask & UCP_OP_ATTR_FIELD_FLAGS) && param->flags != 0) {
        cw_error("ucp_stream_send_nbx: unknown flags 0x%x", (unsigned)param->flags);
        status = UCS_ERR_INVALID_PARAM;
    }
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_stream_send(ep, buffer, count, param));
}

static CW_INLINE ucs_status_ptr_t send_fast(ucp_ep_h ep, const void *buffer, size_t length,
                                            const ucp_request_param_t *param)
{
    struct cw_stream *stream = cw_op_ep(ep)->stream;

    uint64_t position;

    if (cw_unlikely(length == 0 || !cw_ep_can_send_fast(ep, length) || stream == NULL ||
                    length > cw_stream_window(stream))) {
        return cw_stream_send(ep, buffer, length, param);
    }
    position = htole64(stream->sent);
    stream->sent += length;
    cw_count_message(ep->worker, CW_COUNT_STREAM_SENT, length);
    cw_tx_send(ep->tx, CW_PACKET_STREAM_DATA, position, buffer, length);
    return NULL;
}

static CW_NOINLINE ucs_status_ptr_t send_fast_locked(ucp_ep_h ep, const void *buffer, size_t length,
                                                     const ucp_request_param_t *param)
{
    return CW_CALL_LOCKED(ep->worker, send_fast(ep, buffer, length, param));
}

ucs_status_ptr_t ucp_stream_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, const ucp_request_param_t *param)
{
    switch (cw_call_form(ep->worker, UCP_FEATURE_STREAM, buffer, param,
                         UCP_OP_ATTR_FLAG_NO_IMM_CMPL | UCP_OP_ATTR_FIELD_FLAGS)) {
    case CW_CALL_FAST:
        return send_fast(ep, buffer, count, param);
    case CW_CALL_FAST_LOCKED:
        return send_fast_locked(ep, buffer, count, param);
    default:
        return send_general(ep, buffer, count, param);
    }
}

static CW_NOINLINE ucs_status_ptr_t recv_general(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                                 const ucp_request_param_t *param)
{
    ucp_worker_h worker = ep->worker;
    struct cw_call_device device;
    ucs_status_t status;

    if (!cw_worker_has(worker, UCP_FEATURE_STREAM)) {
        return UCS_STATUS_PTR(cw_call_feature_missing("ucp_stream_recv_nbx", "UCP_FEATURE_STREAM"));
    }
    status = cw_call_check(worker, &param, buffer, count, &device);
    if (cw_unlikely(status != UCS_OK)) {
        return UCS_STATUS_PTR(status);
    }
    return CW_CALL_INSIDE(worker, cw_stream_recv(ep, buffer, count, length, param));
}

ucs_status_ptr_t ucp_stream_recv_nbx(ucp_ep_h ep, void *buffer, size_t count, size_t *length,
                                     const ucp_request_param_t *param)
{
    return (cw_call_form(ep->worker, UCP_FEATURE_STREAM, buffer, param, 0) == CW_CALL_FAST)
               ? cw_stream_recv(ep, buffer, count, length, param)
               : recv_general(ep, buffer, count, length, param);
}

ucs_status_ptr_t ucp_stream_recv_data_nb(ucp_ep_h ep, size_t *length)
{
    ucp_worker_h worker = ep->worker;

    if (cw_unlikely(!cw_worker_has(worker, UCP_FEATURE_STREAM))) {
        return UCS_STATUS_PTR(cw_call_feature_missing(__func__, "UCP_FEATURE_STREAM"));
    }
    return CW_CALL_INSIDE(worker, cw_stream_recv_data(ep, length));
}

ssize_t ucp_stream_worker_poll(ucp_worker_h worker, ucp_stream_poll_ep_t *poll_eps, size_t max_eps, unsigned int flags)
{
    ucs_status_t status = CW_CALL_NEEDS(worker, UCP_FEATURE_STREAM);

    (void)flags; /* reserved */
    if (cw_unlikely(status != UCS_OK)) {
        return status;
    }
    return CW_CALL_INSIDE(worker, cw_stream_poll(worker, poll_eps, max_eps));
}

ucs_status_t ucp_stream_recv_request_test(void *request, size_t *length_p)
{
    const struct cw_request *req = cw_request_of(request);
    ucs_status_t status = __atomic_load_n(&req->status, __ATOMIC_ACQUIRE);

    if (status != UCS_INPROGRESS) {
        *length_p = req->info.length;
    }
    return status;
}

/* Lent data belong to the program: neither endpoint nor worker is accessed, so no lock. */
void ucp_stream_data_release(ucp_ep_h ep CW_UNUSED, void *data)
{
    if (!CW_CALL_LACKS(data, "pointer to stream data")) {
        cw_stream_data_free(data);
    }
}
