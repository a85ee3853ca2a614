/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory registration: only this file and ofi_domain.c use the bits of mr_mode.
 *
 *   LOCAL      packets are in registered memory, and each call passes its descriptor
 *   ALLOCATED  pages are populated before registration (memory of the program: ofi_domain.c)
 *   PROV_KEY   the provider chooses keys; without it they are random, within mr_key_size
 *   RAW        keys are at most 8 opaque bytes, which the peer maps for each access (ofi_access.c)
 *   VIRT_ADDR  peers use virtual addresses; without it, offsets into the region
 *   ENDPOINT   a registration is bound to an endpoint and enabled before use
 *   RMA_EVENT  concerns access counters at the target: not used here
 *   HMEM       the memory type is passed: here always host memory
 */
#include "transport/ofi/ofi.h"

#include <string.h>

#include "base/log.h"
#include "os/random.h"

#define KEY_ATTEMPTS 4096u /* a random key may be in use already */

/* Whether peers need a region's base address. */
static int names_base(const struct fi_info *info)
{
    const int mode = info->domain_attr->mr_mode;

    return (mode & FI_MR_RAW) || !(mode & FI_MR_VIRT_ADDR);
}

int cw_ofi_keys_fit(const struct fi_info *info)
{
    const int mode = info->domain_attr->mr_mode;

    return !(mode & FI_MR_RAW) || ((mode & FI_MR_VIRT_ADDR) && info->domain_attr->mr_key_size <= sizeof(uint64_t));
}

unsigned cw_ofi_part_length(const struct ofi_domain *domain)
{
    return domain->key_length + (names_base(domain->info) ? (unsigned)sizeof(uint64_t) : 0);
}

static uint64_t random_key(const struct ofi_domain *domain)
{
    const unsigned bits = 8 * domain->key_length;

    return cw_random_u64() >> (64 - bits + (bits == 64)); /* never FI_KEY_NOTAVAIL */
}

int cw_ofi_mr_new(const struct ofi_domain *domain, struct fid_ep *ep, void *memory, size_t length, uint64_t access,
                  struct fid_mr **mr)
{
    const int mode = domain->info->domain_attr->mr_mode;
    const struct iovec iov = {.iov_base = memory, .iov_len = length};
    struct fi_mr_attr attr = {.mr_iov = &iov, .iov_count = 1, .access = access};
    unsigned attempt = 0;
    int error;

    attr.iface = FI_HMEM_SYSTEM;
    do {
        attr.requested_key = (mode & FI_MR_PROV_KEY) ? 0 : random_key(domain);
        *mr = NULL;
        error = fi_mr_regattr(domain->domain, &attr, 0, mr);
    } while (error == -FI_ENOKEY && !(mode & FI_MR_PROV_KEY) && ++attempt < KEY_ATTEMPTS);
    if (error != 0) {
        *mr = NULL;
        return error;
    }
    if (mode & FI_MR_ENDPOINT) {
        error = fi_mr_bind(*mr, &ep->fid, 0);
        error = (error == 0) ? fi_mr_enable(*mr) : error;
    }
    if (error != 0) {
        fi_close(&(*mr)->fid);
        *mr = NULL;
    }
    return error;
}

int cw_ofi_mr_key(const struct ofi_domain *domain, struct fid_mr *mr, struct cw_remote_key *key)
{
    uint8_t bytes[sizeof(uint64_t)] = {0};
    size_t size = sizeof(bytes);
    int error = 0;

    if (domain->info->domain_attr->mr_mode & FI_MR_RAW) {
        error = fi_mr_raw_attr(mr, &key->word[1], bytes, &size, 0);
        memcpy(&key->word[0], bytes, sizeof(bytes));
        return error;
    }
    key->word[0] = fi_mr_key(mr);
    return (key->word[0] == FI_KEY_NOTAVAIL ||
            (domain->key_length < sizeof(uint64_t) && key->word[0] >> (8 * domain->key_length) != 0))
               ? -FI_ENOKEY
               : 0;
}

ucs_status_t cw_ofi_register(struct ofi_iface *iface, void *memory, size_t length, struct fid_mr **mr, void **desc)
{
    const int mode = iface->info->domain_attr->mr_mode;
    const uint64_t access = FI_SEND | FI_RECV | (iface->objects->reaches ? FI_READ | FI_WRITE : 0);
    int error;

    *mr = NULL;
    *desc = NULL;
    if (!(mode & FI_MR_LOCAL)) {
        return UCS_OK;
    }
    if (mode & FI_MR_ALLOCATED) {
        memset(memory, 0, length);
    }
    cw_lock_enter(&iface->objects->lock);
    error = cw_ofi_mr_new(iface->objects, iface->ep, memory, length, access, mr);
    cw_lock_leave(&iface->objects->lock);
    if (error != 0) {
        cw_warn("%s:%s over libfabric cannot register memory for packets: %s",
                iface->info->fabric_attr->prov_name, iface->info->domain_attr->name, iface->fi->strerror(-error));
        return UCS_ERR_IO_ERROR;
    }
    *desc = fi_mr_desc(*mr);
    return UCS_OK;
}
