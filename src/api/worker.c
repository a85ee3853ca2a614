/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Worker calls: creation, query, address, progress, wake-up, flush and fence.
 */
#include <stdlib.h>
#include <string.h>

#include "am/am.h"
#include "api/call.h"
#include "connect/cm.h"
#include "connect/connect.h"
#include "rma/rma.h"

/* The size that a program must provide to ucp_request_query for the whole text. */
#define MAX_DEBUG_STRING 200

ucs_status_t ucp_worker_create(ucp_context_h context, const ucp_worker_params_t *params, ucp_worker_h *worker_p)
{
    CW_CALL_RETURN_IF_NULL(context, "context", UCS_ERR_INVALID_PARAM);
    return cw_worker_new(context, params, &cw_call_handlers, worker_p);
}

void ucp_worker_destroy(ucp_worker_h worker)
{
    CW_CALL_RETURN_IF_NULL(worker, "worker", );
    if (cw_call_is_inherited(worker->context, __func__)) {
        return;
    }
    cw_worker_enter(worker);
    cw_worker_leave(worker); /* a thread that was inside has left; no other may enter any more */
    cw_requests_end(worker);
    cw_worker_free(worker);
}

/* The device that the address is limited to; NULL: none. */
static const char *wanted_device(const struct ucp_worker *worker, const ucp_worker_attr_t *attr)
{
    const bool has = (attr->field_mask & UCP_WORKER_ATTR_FIELD_ADDRESS_DEVICE_NAME) && worker->context->api.has_device;

    return has ? attr->address_device_name : NULL;
}

/* MPICH copies 4096 bytes from the start of the address. */
static ucs_status_t address_new(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
    const bool net_only = (attr->field_mask & UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS) &&
                          (attr->address_flags & UCP_WORKER_ADDRESS_FLAG_NET_ONLY);
    const enum cw_address_part part = net_only ? CW_ADDRESS_NET : CW_ADDRESS_ALL;
    const char *device = wanted_device(worker, attr);
    uint8_t *bytes = calloc(1, CW_ADDRESS_MAX + 4096);
    size_t length;

    if (bytes == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    length = (device == NULL) ? cw_worker_address(worker, part, bytes) :
                                cw_worker_device_address(worker, part, device, bytes);
    if (length == 0) {
        cw_error("worker %s has no address on device '%s'%s: ucx_info -d lists the devices", worker->name, device,
                 net_only ? " for other hosts (NET_ONLY)" : "");
        free(bytes);
        return UCS_ERR_NO_DEVICE;
    }
    attr->address_length = length;
    attr->address = (ucp_address_t *)(void *)bytes;
    return UCS_OK;
}

static ucs_status_t worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
    uint64_t mask = attr->field_mask;
    ucs_status_t status;

    if (mask & UCP_WORKER_ATTR_FIELD_ADDRESS) {
        status = address_new(worker, attr);
        if (status != UCS_OK) {
            return status;
        }
    }
    if (mask & UCP_WORKER_ATTR_FIELD_THREAD_MODE) {
        attr->thread_mode = worker->thread_mode;
    }
    if (mask & UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER) {
        attr->max_am_header = cw_worker_has(worker, UCP_FEATURE_AM) ? cw_am_max_header(worker) : 0;
    }
    if (mask & UCP_WORKER_ATTR_FIELD_NAME) {
        memcpy(attr->name, worker->name, sizeof(attr->name));
    }
    if (mask & UCP_WORKER_ATTR_FIELD_MAX_INFO_STRING) {
        attr->max_debug_string = MAX_DEBUG_STRING;
    }
    return UCS_OK;
}

ucs_status_t ucp_worker_query(ucp_worker_h worker, ucp_worker_attr_t *attr)
{
    CW_CALL_RETURN_IF_NULL(worker, "worker", UCS_ERR_INVALID_PARAM);
    return CW_CALL_INSIDE(worker, worker_query(worker, attr));
}

void ucp_worker_print_info(ucp_worker_h worker, FILE *stream)
{
    uint8_t bytes[CW_ADDRESS_MAX];

    CW_CALL_RETURN_IF_NULL(worker, "worker", );
    cw_worker_enter(worker);
    cw_worker_print(worker, stream, cw_worker_address(worker, CW_ADDRESS_ALL, bytes));
    cw_worker_leave(worker);
}

void ucp_worker_release_address(ucp_worker_h worker CW_UNUSED, ucp_address_t *address)
{
    free(address);
}

ucs_status_t ucp_worker_address_query(ucp_address_t *address, ucp_worker_address_attr_t *attr)
{
    struct cw_address decoded;
    ucs_status_t status;

    CW_CALL_RETURN_IF_NULL(address, "worker address", UCS_ERR_INVALID_PARAM);
    status = cw_address_decode(address, &decoded);
    if (status == UCS_OK && (attr->field_mask & UCP_WORKER_ADDRESS_ATTR_FIELD_UID)) {
        attr->worker_uid = decoded.uid;
    }
    return status;
}

/* Checks the inbox itself, as the public call does for a worker without a lock. */
static CW_INLINE unsigned progress_entered(ucp_worker_h worker)
{
    struct cw_rx *inbox = *worker->inbox;
    const uint64_t seen = cw_rx_poll(inbox);

    if (cw_likely(cw_rx_is_short(inbox, seen))) {
        return cw_worker_receive(worker, inbox, seen);
    }
    return cw_rx_is_packet(seen) ? cw_worker_receive_long(worker, inbox) : cw_worker_progress(worker);
}

static CW_NOINLINE unsigned progress_locked(ucp_worker_h worker)
{
    unsigned count, due;

    if (!cw_lock_offer_inline(&worker->lock)) {
        return 0; /* another thread is inside, or enters first */
    }
    count = progress_entered(worker);
    due = worker->yield_policy.due;
    worker->yield_policy.due = 0;
    cw_lock_leave_inline(&worker->lock);
    if (cw_unlikely(due)) {
        cw_worker_yield(worker);
    }
    return count;
}

unsigned ucp_worker_progress(ucp_worker_h worker)
{
    struct cw_rx *inbox = *worker->outer_inbox;
    const uint64_t seen = cw_rx_poll(inbox);

    if (cw_likely(cw_rx_is_short(inbox, seen))) {
        return cw_worker_receive(worker, inbox, seen);
    }
    if (cw_rx_is_packet(seen)) {
        return cw_worker_receive_long(worker, inbox);
    }
    return cw_unlikely(worker->mt) ? progress_locked(worker) : cw_worker_progress(worker);
}

ucs_status_t ucp_worker_get_efd(ucp_worker_h worker, int *fd)
{
    ucs_status_t status = CW_CALL_NEEDS_OF(worker, UCP_FEATURE_WAKEUP);

    if (status != UCS_OK) {
        return status;
    }
    if (worker->user_epoll_fd >= 0) {
        return UCS_ERR_UNSUPPORTED; /* events are signalled on the program's own descriptor */
    }
    *fd = cw_poller_fd(worker->poller);
    return UCS_OK;
}

ucs_status_t ucp_worker_arm(ucp_worker_h worker)
{
    ucs_status_t status = CW_CALL_NEEDS_OF(worker, UCP_FEATURE_WAKEUP);

    if (status == UCS_OK) {
        cw_worker_enter(worker);
        status = cw_worker_arm(worker);
        cw_worker_leave(worker);
    }
    return status;
}

ucs_status_t ucp_worker_wait(ucp_worker_h worker)
{
    ucs_status_t status = CW_CALL_NEEDS_OF(worker, UCP_FEATURE_WAKEUP);

    if (status == UCS_OK) {
        status = ucp_worker_arm(worker);
    }
    if (status == UCS_ERR_BUSY) {
        return UCS_OK;
    }
    return (status == UCS_OK) ? cw_poller_wait(worker->poller, -1) : status;
}

void ucp_worker_wait_mem(ucp_worker_h worker CW_UNUSED, void *address CW_UNUSED)
{
    cw_cpu_relax();
}

ucs_status_t ucp_worker_signal(ucp_worker_h worker)
{
    ucs_status_t status = CW_CALL_NEEDS_OF(worker, UCP_FEATURE_WAKEUP);

    return (status == UCS_OK) ? cw_poller_signal(worker->poller) : status;
}

static CW_NOINLINE ucs_status_ptr_t flush_locked(ucp_worker_h worker, const ucp_request_param_t *param)
{
    return CW_CALL_LOCKED(worker, cw_worker_flush(worker, param));
}

ucs_status_ptr_t ucp_worker_flush_nbx(ucp_worker_h worker, const ucp_request_param_t *param)
{
    return cw_likely(!worker->mt) ? cw_worker_flush(worker, param) : flush_locked(worker, param);
}

static CW_NOINLINE ucs_status_t fence_locked(ucp_worker_h worker)
{
    return CW_CALL_LOCKED(worker, cw_rma_fence(worker));
}

ucs_status_t ucp_worker_fence(ucp_worker_h worker)
{
    return cw_likely(!worker->mt) ? cw_rma_fence(worker) : fence_locked(worker);
}
