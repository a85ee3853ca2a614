/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain of a device: the device opened once and its protection domain, shared by the interfaces of all
 * workers. The rkey of a registration is its part of a key.
 */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mem/md.h"

#define PART_LENGTH 4u
#define GPUS        (CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA) | CW_MEMORY_BIT(UCS_MEMORY_TYPE_ROCM))

struct cw_verbs_memh {
    struct cw_memh super;
    struct ibv_mr *mr;
};

static struct cw_verbs_domain *domain_of(struct cw_domain *super)
{
    return cw_container_of(super, struct cw_verbs_domain, super);
}

static void domain_close(struct cw_domain *super)
{
    struct cw_verbs_domain *domain = domain_of(super);

    if (domain->pd != NULL) {
        (void)domain->lib->dealloc_pd(domain->pd);
    }
    if (domain->context != NULL) {
        (void)domain->lib->close_device(domain->context);
    }
    free(domain);
}

static uint64_t types_by_address(void)
{
    const unsigned modules = cw_verbs_peer_memory();

    return ((modules & CW_VERBS_PEER_NVIDIA) ? CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA) : 0) |
           ((modules & CW_VERBS_PEER_AMD) ? CW_MEMORY_BIT(UCS_MEMORY_TYPE_ROCM) : 0);
}

/* Whether the device supports on-demand paging for all operations that the transport uses on the program's memory. The
 * query is a driver function that older drivers lack. */
static void find_paging(struct cw_verbs_domain *domain)
{
    const uint32_t needed = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_WRITE;
    struct verbs_context *calls = verbs_get_ctx_op(domain->context, query_device_ex);
    struct ibv_device_attr_ex attr;
    uint32_t can;

    memset(&attr, 0, sizeof(attr));
    if (calls != NULL && calls->query_device_ex(domain->context, NULL, &attr, sizeof(attr)) == 0) {
        can = (attr.odp_caps.general_caps & IBV_ODP_SUPPORT) ? attr.odp_caps.per_transport_caps.rc_odp_caps : 0;
        domain->super.attr.on_demand = (can & needed) == needed;
        domain->pages_atomics = (can & IBV_ODP_SUPPORT_ATOMIC) != 0;
    }
    if (!domain->super.attr.on_demand) {
        cw_diag("%s has no on-demand paging: memory is pinned (UCX_REG_NONBLOCK_MEM_TYPES)",
                domain->port.name);
    }
}

static ucs_status_t domain_open(const struct cw_config *config, const char *device, struct cw_domain **domain_p)
{
    const char *why = NULL;
    const struct cw_verbs_library *lib = cw_verbs_library(&why);
    struct cw_verbs_domain *domain = (lib != NULL) ? calloc(1, sizeof(*domain)) : NULL;
    struct cw_verbs_settings settings;

    if (domain == NULL) {
        cw_warn("verbs/%s is left out: %s", device, (lib == NULL) ? why : "out of memory");
        return (lib == NULL) ? UCS_ERR_NO_DEVICE : UCS_ERR_NO_MEMORY;
    }
    cw_verbs_settings_load(config, &settings);
    domain->lib = lib;
    domain->super.kind = &cw_verbs_domain_kind;
    domain->super.attr = (struct cw_domain_attr){.memory_types = CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST),
                                             .by_address = types_by_address(),
                                             .by_dmabuf = (lib->reg_dmabuf_mr != NULL) ? GPUS : 0,
                                             .device_helps = "rdma-core 34 and Linux 5.12, or the kernel "
                                                                 "module nvidia_peermem, would help",
                                             .part_length = PART_LENGTH,
                                             .register_ns = 30000,
                                             .register_byte_ns = 0.02,
                                             .pins = 1};
    domain->super.attr.memory_types |= domain->super.attr.by_address | domain->super.attr.by_dmabuf;
    domain->context = cw_verbs_device_open(lib, &settings, device, &domain->port);
    domain->pd = (domain->context != NULL) ? lib->alloc_pd(domain->context) : NULL;
    if (domain->pd == NULL) {
        cw_warn("verbs/%s is left out: %s%s", device, (domain->context == NULL) ? "" : "its protection domain: ",
                (domain->context == NULL) ? domain->port.why : strerror(errno));
        domain_close(&domain->super);
        return UCS_ERR_NO_DEVICE;
    }
    if (settings.pages_on_demand) {
        find_paging(domain);
    }
    *domain_p = &domain->super;
    return UCS_OK;
}

/* InfiniBand permits remote write only together with local write. */
static int verbs_rights(unsigned rights)
{
    return ((rights & ~(unsigned)(CW_RIGHT_REMOTE_READ | CW_RIGHT_PINNED)) ? IBV_ACCESS_LOCAL_WRITE : 0) |
           ((rights & CW_RIGHT_REMOTE_READ) ? IBV_ACCESS_REMOTE_READ : 0) |
           ((rights & CW_RIGHT_REMOTE_WRITE) ? IBV_ACCESS_REMOTE_WRITE : 0) |
           ((rights & CW_RIGHT_REMOTE_ATOMIC) ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static struct ibv_mr *reg_host(const struct cw_verbs_domain *domain, void *address, size_t length, unsigned rights)
{
    const int is_paged = domain->super.attr.on_demand && !(rights & CW_RIGHT_PINNED) &&
                         (domain->pages_atomics || !(rights & CW_RIGHT_REMOTE_ATOMIC));

    return domain->lib->reg_mr(domain->pd, address, length,
                               verbs_rights(rights) | (is_paged ? IBV_ACCESS_ON_DEMAND : 0));
}

static ucs_status_t domain_reg(struct cw_domain *super, void *address, size_t length, unsigned rights,
                               struct cw_memh **memh_p)
{
    struct cw_verbs_domain *domain = domain_of(super);
    struct cw_verbs_memh *memh = malloc(sizeof(*memh));
    ucs_status_t status;

    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->mr = reg_host(domain, address, length, rights);
    if (memh->mr == NULL && errno == EFAULT && (rights & ~(unsigned)(CW_RIGHT_REMOTE_READ | CW_RIGHT_PINNED))) {
        rights &= CW_RIGHT_REMOTE_READ | CW_RIGHT_PINNED; /* the memory may be read-only */
        memh->mr = reg_host(domain, address, length, rights);
    }
    if (memh->mr == NULL) {
        status = (errno == ENOMEM || errno == EAGAIN) ? UCS_ERR_NO_MEMORY : UCS_ERR_INVALID_ADDR;
        atomic_store_explicit(&super->why, (errno != EFAULT) ? strerror(errno) : NULL, memory_order_relaxed);
        cw_debug("%s cannot register %zu bytes: %s", domain->port.name, length, strerror(errno));
        free(memh);
        return status;
    }
    memh->super = (struct cw_memh){.domain = super, .rights = rights};
    *memh_p = &memh->super;
    return UCS_OK;
}

/* Address and offset must agree modulo the page size; they do, as the dma-buf begins at a page. */
/* Of a registration of a dma-buf that failed with this errno. */
static ucs_status_t dmabuf_status(int error)
{
    switch (error) {
    case ENOMEM:
    case EAGAIN:
        return UCS_ERR_NO_MEMORY;
    case EOPNOTSUPP:
    case ENOSYS:
    case EPROTONOSUPPORT:
        return UCS_ERR_UNSUPPORTED;
    default:
        return UCS_ERR_INVALID_ADDR;
    }
}

static ucs_status_t domain_reg_dmabuf(struct cw_domain *super, const struct cw_md_dmabuf *dmabuf, void *address,
                                      size_t length, unsigned rights, struct cw_memh **memh_p)
{
    struct cw_verbs_domain *domain = domain_of(super);
    struct cw_verbs_memh *memh = malloc(sizeof(*memh));
    ucs_status_t status;

    if (memh == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    memh->mr = domain->lib->reg_dmabuf_mr(domain->pd, dmabuf->offset, length, (uintptr_t)address, dmabuf->fd,
                                          verbs_rights(rights));
    if (memh->mr == NULL) {
        status = dmabuf_status(errno);
        cw_debug("%s cannot register a dma-buf of %zu bytes: %s", domain->port.name, length, strerror(errno));
        free(memh);
        return status;
    }
    memh->super = (struct cw_memh){.domain = super, .rights = rights};
    *memh_p = &memh->super;
    return UCS_OK;
}

static void domain_dereg(struct cw_memh *super)
{
    struct cw_verbs_memh *memh = cw_container_of(super, struct cw_verbs_memh, super);

    (void)domain_of(super->domain)->lib->dereg_mr(memh->mr);
    free(memh);
}

static void domain_write_part(const struct cw_memh *super, uint8_t *part)
{
    const uint32_t key = htobe32(cw_container_of(super, const struct cw_verbs_memh, super)->mr->rkey);

    memcpy(part, &key, PART_LENGTH);
}

static ucs_status_t domain_read_part(const struct cw_domain *domain, const uint8_t *part, size_t length,
                                     const struct cw_domain_range *range, struct cw_remote_key *key)
{
    uint32_t word;

    (void)domain;
    (void)range;
    if (length != PART_LENGTH) {
        return UCS_ERR_INVALID_PARAM;
    }
    memcpy(&word, part, PART_LENGTH);
    *key = (struct cw_remote_key){.word = {be32toh(word), 0}};
    return UCS_OK;
}

uint32_t cw_verbs_local_key(const struct cw_memh *super)
{
    return cw_container_of(super, const struct cw_verbs_memh, super)->mr->lkey;
}

const struct cw_domain_kind cw_verbs_domain_kind = {
    .name = "verbs",
    .open = domain_open,
    .close = domain_close,
    .reg = domain_reg,
    .reg_dmabuf = domain_reg_dmabuf,
    .dereg = domain_dereg,
    .write_part = domain_write_part,
    .read_part = domain_read_part,
};
