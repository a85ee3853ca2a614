/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library to be preloaded: one put, get or atomic operation, the 30th of the process, is never carried out although
 * it is reported as done. What --verify is worth is seen by whether it notices.
 *
 * Callers: perftest_rma.sh.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#define LOST 30

static bool is_lost(void)
{
    static int count;

    return ++count == LOST;
}

ucs_status_ptr_t ucp_put_nbx(ucp_ep_h ep, const void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    __typeof__(&ucp_put_nbx) next = (__typeof__(&ucp_put_nbx))(uintptr_t)dlsym(RTLD_NEXT, "ucp_put_nbx");

    return is_lost() ? NULL : next(ep, buffer, count, remote_addr, rkey, param);
}

ucs_status_ptr_t ucp_get_nbx(ucp_ep_h ep, void *buffer, size_t count, uint64_t remote_addr, ucp_rkey_h rkey,
                             const ucp_request_param_t *param)
{
    __typeof__(&ucp_get_nbx) next = (__typeof__(&ucp_get_nbx))(uintptr_t)dlsym(RTLD_NEXT, "ucp_get_nbx");

    return is_lost() ? NULL : next(ep, buffer, count, remote_addr, rkey, param);
}

ucs_status_ptr_t ucp_atomic_op_nbx(ucp_ep_h ep, ucp_atomic_op_t opcode, const void *buffer, size_t count,
                                   uint64_t remote_addr, ucp_rkey_h rkey, const ucp_request_param_t *param)
{
    __typeof__(&ucp_atomic_op_nbx) next =
        (__typeof__(&ucp_atomic_op_nbx))(uintptr_t)dlsym(RTLD_NEXT, "ucp_atomic_op_nbx");

    return is_lost() ? NULL : next(ep, opcode, buffer, count, remote_addr, rkey, param);
}
