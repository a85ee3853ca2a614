/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain of a provider's domain: libfabric's fabric and domain, opened once, and registrations of the
 * program's memory there. A part of a key is the provider's key (mr_key_size bytes), and the region's base address if
 * peers use offsets.
 *
 * Interfaces of several threads share the domain, so remote access needs a provider that supports this. If
 * registrations are bound to an endpoint (FI_MR_ENDPOINT), the domain has one for all of them.
 */
#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "mem/md.h"
#include "os/memory.h"
#include "transport/ofi/ofi.h"

#define CAPABILITIES (FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM)
#define REACHES      (FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
#define MAX_QUEUE    512u
#define MAX_RECEIVES 64u
#define AT_ONCE      16u

struct ofi_memh {
    struct cw_memh super;
    struct fid_mr *mr;
    struct cw_remote_key key;
};

static struct ofi_domain *domain_of(struct cw_domain *super)
{
    return cw_container_of(super, struct ofi_domain, super);
}

/* Logs the failure of a libfabric call. Returns 1 if it failed. */
static int fails(const struct ofi_domain *domain, const char *what, int error)
{
    if (error != 0) {
        cw_warn("ofi/%s:%s is left out: %s failed: %s", domain->info->fabric_attr->prov_name,
                domain->info->domain_attr->name, what, domain->fi->strerror(-error));
    }
    return error != 0;
}

static enum ofi_delivery delivery_of(const struct fi_info *offer, unsigned quirks)
{
    if (!(quirks & CW_OFI_DELIVERS_LATE) && cw_libfabric_takes(offer, FI_DELIVERY_COMPLETE)) {
        return OFI_DELIVERY_COMPLETE;
    }
    if ((offer->tx_attr->msg_order & offer->rx_attr->msg_order & (FI_ORDER_RAW | FI_ORDER_RMA_RAW)) &&
        offer->ep_attr->max_order_raw_size >= CW_OFI_LARGE) {
        return OFI_DELIVERY_READ_BACK;
    }
    return (offer->caps & FI_FENCE) ? OFI_DELIVERY_FENCED : OFI_DELIVERY_UNKNOWN;
}

static bool is_for_threads(const struct fi_info *offer)
{
    return offer->domain_attr->threading == FI_THREAD_SAFE || offer->domain_attr->threading == FI_THREAD_FID;
}

static uint32_t least(size_t a, uint32_t b)
{
    return (a < b) ? (uint32_t)a : b;
}

/* Copies the offer, reduced to the features in use, since providers allocate resources for all requested ones. */
static int take_offer(struct ofi_domain *domain, const struct fi_info *offer, int is_shared)
{
    const unsigned quirks = domain->quirks = cw_ofi_quirks(offer);
    uint64_t wanted = CAPABILITIES;
    struct fi_info *info;

    info = domain->info = domain->fi->dupinfo(offer);
    if (info == NULL) {
        return 0;
    }
    domain->reaches = is_shared && (offer->caps & REACHES) == REACHES && !(quirks & CW_OFI_HIDES_REFUSALS) &&
                      is_for_threads(offer) && cw_ofi_keys_fit(offer);
    if (domain->reaches) {
        domain->delivery = delivery_of(offer, quirks);
        wanted |= REACHES | (offer->caps & FI_ATOMIC) | ((domain->delivery == OFI_DELIVERY_FENCED) ? FI_FENCE : 0);
    }
    domain->names_source = !(quirks & CW_OFI_MISNAMES_SOURCE) && cw_libfabric_can(offer, FI_SOURCE);
    if (domain->names_source) {
        info->caps |= FI_SOURCE;
        info->rx_attr->caps |= FI_SOURCE;
        wanted |= FI_SOURCE;
    }
    if (!is_shared) {
        info->domain_attr->threading = FI_THREAD_DOMAIN;
    }
    info->caps &= wanted;
    info->tx_attr->caps &= wanted;
    info->rx_attr->caps &= wanted;
    info->tx_attr->size = least(info->tx_attr->size, MAX_QUEUE);
    info->rx_attr->size = least(info->rx_attr->size, (quirks & CW_OFI_LEAVES_RECEIVES) ? MAX_QUEUE : MAX_RECEIVES);
    domain->key_length = least(info->domain_attr->mr_key_size, sizeof(uint64_t));
    domain->key_length = (domain->key_length > 0) ? domain->key_length : (unsigned)sizeof(uint64_t);
    return 1;
}

/* Fetching operations that the provider supports on 8-byte words. Without compare-and-swap there are none, since the
 * others are built on it. */
static unsigned atomics_of(const struct ofi_domain *domain)
{
    static const struct {
        enum cw_access_op op;
        enum fi_op theirs;
        uint64_t flags;
    } all[] = {{CW_ACCESS_ADD, FI_SUM, FI_FETCH_ATOMIC},
               {CW_ACCESS_AND, FI_BAND, FI_FETCH_ATOMIC},
               {CW_ACCESS_OR, FI_BOR, FI_FETCH_ATOMIC},
               {CW_ACCESS_XOR, FI_BXOR, FI_FETCH_ATOMIC},
               {CW_ACCESS_SWAP, FI_ATOMIC_WRITE, FI_FETCH_ATOMIC},
               {CW_ACCESS_CSWAP, FI_CSWAP, FI_COMPARE_ATOMIC}};
    struct fi_atomic_attr attr;
    unsigned bits = 0;
    size_t i;

    for (i = 0; (domain->info->caps & FI_ATOMIC) && i < sizeof(all) / sizeof(all[0]); i++) {
        attr = (struct fi_atomic_attr){0};
        if (fi_query_atomic(domain->domain, FI_UINT64, all[i].theirs, &attr, all[i].flags) == 0 && attr.count > 0 &&
            attr.size == sizeof(uint64_t)) {
            bits |= 1u << all[i].op;
        }
    }
    return (bits & (1u << CW_ACCESS_CSWAP)) ? bits : 0;
}

/* Opens the endpoint that registrations are bound to. */
static int open_end(struct ofi_domain *domain)
{
    struct fi_av_attr av = {.type = domain->info->domain_attr->av_type};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_NONE};

    domain->end_length = sizeof(domain->end_address);
    if (fails(domain, "the address vector for memory", fi_av_open(domain->domain, &av, &domain->end_av, NULL)) ||
        fails(domain, "the queue for memory", fi_cq_open(domain->domain, &cq, &domain->end_cq, NULL)) ||
        fails(domain, "the endpoint for memory", fi_endpoint(domain->domain, domain->info, &domain->end, NULL)) ||
        fails(domain, "binding the endpoint for memory", fi_ep_bind(domain->end, &domain->end_av->fid, 0)) ||
        fails(domain, "binding the endpoint for memory",
              fi_ep_bind(domain->end, &domain->end_cq->fid, FI_TRANSMIT | FI_RECV)) ||
        fails(domain, "enabling the endpoint for memory", fi_enable(domain->end)) ||
        fails(domain, "the address of the endpoint for memory",
              fi_getname(&domain->end->fid, domain->end_address, &domain->end_length))) {
        return 0;
    }
    return domain->end_length <= sizeof(domain->end_address);
}

static int open_objects(struct ofi_domain *domain)
{
    int is_open;

    cw_libfabric_begin();
    is_open = !fails(domain, "the fabric", domain->fi->fabric(domain->info->fabric_attr, &domain->fabric, NULL)) &&
              !fails(domain, "the domain", fi_domain(domain->fabric, domain->info, &domain->domain, NULL)) &&
              (!domain->reaches || !(domain->info->domain_attr->mr_mode & FI_MR_ENDPOINT) || open_end(domain));
    cw_libfabric_end();
    return is_open;
}

static ucs_status_t make(const char *device, int is_shared, struct ofi_domain **domain_p)
{
    const char *why;
    const struct fi_info *offer = cw_ofi_offer(device, &why);
    struct ofi_domain *domain;

    if (offer == NULL) {
        cw_warn("ofi/%s is left out: %s", device, why);
        return UCS_ERR_NO_DEVICE;
    }
    domain = calloc(1, sizeof(*domain));
    if (domain == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    cw_lock_init(&domain->lock);
    domain->super.kind = &cw_ofi_domain_kind;
    domain->fi = cw_libfabric(&why);
    if (!take_offer(domain, offer, is_shared)) {
        cw_ofi_domain_close(&domain->super);
        return UCS_ERR_NO_MEMORY;
    }
    domain->super.attr = (struct cw_domain_attr){
        .memory_types = domain->reaches ? CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST) : 0,
        .device_helps = "RDMA devices reach it by the transport verbs (UCX_TLS=rc), not by libfabric",
        .part_length = cw_ofi_part_length(domain),
        .register_ns = 5000,
        .register_byte_ns = 0.02,
        .pins = domain->info->nic != NULL, /* software providers copy instead of pinning */
    };
    *domain_p = domain;
    if (is_shared && !domain->reaches) {
        return UCS_OK; /* its interfaces open private domains */
    }
    if (!open_objects(domain)) {
        cw_ofi_domain_close(&domain->super);
        return UCS_ERR_IO_ERROR;
    }
    domain->atomics = domain->reaches ? atomics_of(domain) : 0;
    return UCS_OK;
}

ucs_status_t cw_ofi_domain_make(const char *device, struct ofi_domain **domain_p)
{
    return make(device, 0, domain_p);
}

static ucs_status_t domain_open(const struct cw_config *config, const char *device, struct cw_domain **domain_p)
{
    struct ofi_domain *domain;
    ucs_status_t status = make(device, 1, &domain);

    (void)config;
    if (status == UCS_OK) {
        *domain_p = &domain->super;
    }
    return status;
}

#define CLOSE(object) ((object) != NULL ? (void)fi_close(&(object)->fid) : (void)0)

void cw_ofi_domain_close(struct cw_domain *super)
{
    struct ofi_domain *domain = domain_of(super);

    CLOSE(domain->end);
    CLOSE(domain->end_cq);
    CLOSE(domain->end_av);
    CLOSE(domain->domain);
    CLOSE(domain->fabric);
    if (domain->info != NULL) {
        domain->fi->freeinfo(domain->info);
    }
    free(domain);
}

void cw_ofi_domain_progress(struct ofi_domain *domain)
{
    struct fi_cq_msg_entry entries[AT_ONCE];
    struct fi_cq_err_entry error = {0};

    if (cw_lock_try_enter(&domain->lock)) { /* else another worker does it right now */
        if (fi_cq_read(domain->end_cq, entries, AT_ONCE) == -FI_EAVAIL) {
            (void)fi_cq_readerr(domain->end_cq, &error, 0);
        }
        cw_lock_leave(&domain->lock);
    }
}

/* Remote atomics require both read and write, and so does a write that is read back. */
static uint64_t their_rights(const struct ofi_domain *domain, unsigned rights)
{
    uint64_t access = (rights & CW_RIGHT_LOCAL_WRITE) ? FI_READ : 0;

    access |= (rights & CW_RIGHT_REMOTE_READ) ? FI_REMOTE_READ : 0;
    access |= (rights & CW_RIGHT_REMOTE_WRITE) ? FI_REMOTE_WRITE : 0;
    access |= (rights & CW_RIGHT_REMOTE_WRITE) && cw_ofi_reads_back(domain) ? FI_REMOTE_READ : 0;
    access |= (rights & CW_RIGHT_REMOTE_ATOMIC) ? FI_REMOTE_READ | FI_REMOTE_WRITE : 0;
    return (access != 0) ? access : FI_WRITE;
}

static ucs_status_t domain_reg(struct cw_domain *super, void *address, size_t length, unsigned rights,
                               struct cw_memh **memh_p)
{
    struct ofi_domain *domain = domain_of(super);
    struct ofi_memh *memh;
    int error;

    if (!domain->reaches) {
        return UCS_ERR_UNSUPPORTED;
    }
    atomic_store_explicit(&super->why, NULL, memory_order_relaxed);
    rights &= (domain->atomics != 0) ? CW_RIGHT_ALL : ~(unsigned)CW_RIGHT_REMOTE_ATOMIC;
    /* many providers check no page before a peer's access fails or faults there */
    if (!cw_memory_is_there(address, length, (rights & ~(unsigned)CW_RIGHT_REMOTE_READ) != 0)) {
        rights &= CW_RIGHT_REMOTE_READ;
        if (!cw_memory_is_there(address, length, 0)) {
            return UCS_ERR_INVALID_ADDR;
        }
    }
    memh = calloc(1, sizeof(*memh));
    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->super = (struct cw_memh){.domain = super, .rights = rights};
    memh->key.word[1] = (domain->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? 0 : (uintptr_t)address;
    cw_lock_enter(&domain->lock);
    error = cw_ofi_mr_new(domain, domain->end, address, length, their_rights(domain, rights), &memh->mr);
    if (error == 0) {
        error = cw_ofi_mr_key(domain, memh->mr, &memh->key);
    }
    if (error != 0 && memh->mr != NULL) {
        fi_close(&memh->mr->fid);
    }
    cw_lock_leave(&domain->lock);
    if (error != 0) {
        cw_debug("%s cannot register %zu bytes: %s", domain->info->fabric_attr->prov_name, length,
                 domain->fi->strerror(-error));
        free(memh);
        atomic_store_explicit(&super->why, domain->fi->strerror(-error), memory_order_relaxed);
        return (error == -FI_ENOMEM || error == -FI_ENOSPC || error == -FI_ENOKEY || error == -FI_EAGAIN)
                   ? UCS_ERR_NO_MEMORY
                   : UCS_ERR_INVALID_ADDR;
    }
    *memh_p = &memh->super;
    return UCS_OK;
}

static void domain_dereg(struct cw_memh *super)
{
    struct ofi_memh *memh = cw_container_of(super, struct ofi_memh, super);
    struct ofi_domain *domain = domain_of(super->domain);

    cw_lock_enter(&domain->lock);
    (void)fi_close(&memh->mr->fid);
    cw_lock_leave(&domain->lock);
    free(memh);
}

static void domain_write_part(const struct cw_memh *super, uint8_t *part)
{
    const struct ofi_memh *memh = cw_container_of(super, const struct ofi_memh, super);
    const struct ofi_domain *domain = domain_of(super->domain);
    const uint64_t words[2] = {htole64(memh->key.word[0]), htole64(memh->key.word[1])};

    cw_bytes_copy_any(part, &words[0], domain->key_length);
    cw_bytes_copy_any(part + domain->key_length, &words[1], domain->super.attr.part_length - domain->key_length);
}

static ucs_status_t domain_read_part(const struct cw_domain *super, const uint8_t *part, size_t length,
                                     const struct cw_domain_range *range, struct cw_remote_key *key)
{
    const struct ofi_domain *domain = cw_container_of(super, const struct ofi_domain, super);
    uint64_t words[2] = {0, 0};

    (void)range;
    if (length != domain->super.attr.part_length) {
        return UCS_ERR_INVALID_PARAM;
    }
    cw_bytes_copy_any(&words[0], part, domain->key_length);
    cw_bytes_copy_any(&words[1], part + domain->key_length, length - domain->key_length);
    *key = (struct cw_remote_key){.word = {le64toh(words[0]), le64toh(words[1])}};
    return UCS_OK;
}

const struct cw_domain_kind cw_ofi_domain_kind = {
    .name = "ofi",
    .open = domain_open,
    .close = cw_ofi_domain_close,
    .reg = domain_reg,
    .dereg = domain_dereg,
    .write_part = domain_write_part,
    .read_part = domain_read_part,
};
