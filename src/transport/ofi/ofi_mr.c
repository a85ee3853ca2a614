/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration: only this file knows the bits of mr_mode.
 *
 *   LOCAL      packets lie in registered memory, and each call names its descriptor
 *   ALLOCATED  pages exist before they are registered
 *   PROV_KEY   the provider chooses keys; without it the transport counts them up, within mr_key_size
 *   ENDPOINT   a registration is bound to the endpoint and enabled before it is used
 *   HMEM       the kind of memory is named: here always the host's
 *
 * VIRT_ADDR, RAW and RMA_EVENT concern the use of keys by peers, and no peer gets a key of packet memory.
 */
#include "transport/ofi/ofi.h"

#include <string.h>

#include "base/log.h"

static ucs_status_t failed(struct ofi_iface *iface, const char *what, int error)
{
    cw_error("%s fails for %s over libfabric: %s", what, iface->info->fabric_attr->prov_name,
             iface->fi->strerror(-error));
    return UCS_ERR_IO_ERROR;
}

static int key_fits(const struct ofi_iface *iface)
{
    const size_t size = iface->info->domain_attr->mr_key_size;

    return size == 0 || size >= sizeof(uint64_t) || iface->next_key >> (8 * size) == 0;
}

ucs_status_t cw_ofi_register(struct ofi_iface *iface, void *memory, size_t length, struct fid_mr **mr, void **desc)
{
    const int mode         = iface->info->domain_attr->mr_mode;
    const struct iovec iov = {.iov_base = memory, .iov_len = length};
    struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = FI_SEND | FI_RECV};
    int error;

    *mr   = NULL;
    *desc = NULL;
    if (!(mode & FI_MR_LOCAL)) {
        return UCS_OK;
    }
    if (mode & FI_MR_ALLOCATED) {
        memset(memory, 0, length);
    }
    if (!(mode & FI_MR_PROV_KEY)) {
        attr.requested_key = ++iface->next_key;
        if (!key_fits(iface)) {
            return failed(iface, "a key for registered memory", -FI_EKEYREJECTED);
        }
    }
    attr.iface = FI_HMEM_SYSTEM;
    error      = fi_mr_regattr(iface->domain, &attr, 0, mr);
    if (error != 0) {
        *mr = NULL;
        return failed(iface, "registering memory", error);
    }
    if (mode & FI_MR_ENDPOINT) {
        error = fi_mr_bind(*mr, &iface->ep->fid, 0);
        error = (error == 0) ? fi_mr_enable(*mr) : error;
    }
    if (error != 0) {
        fi_close(&(*mr)->fid);
        *mr = NULL;
        return failed(iface, "binding registered memory", error);
    }
    *desc = fi_mr_desc(*mr);
    return UCS_OK;
}
