/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of the simulated RDMA devices (mem/domain.h). A key is a number that is never used again. A test
 * names the memory it unmapped (cw_sim_rdma_unmapped); the use of a registration with such pages ends the program,
 * because a real device would read and write pages that the program does not have any more.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/log.h"
#include "mem/md.h"
#include "os/memory.h"
#include "sim_rdma.h"

#define PART_LENGTH 4u

struct sim_domain {
    struct cw_domain domain;
    struct cw_list link;
    struct cw_list mrs;
    size_t bytes;
    unsigned count;
};

struct sim_mr {
    struct cw_memh memh;
    struct cw_list link;
    uint64_t address;
    uint64_t length;
    uint32_t key;
    char *dmabuf;    /* mapped; NULL: the bytes are at the address */
    uint64_t offset; /* in it, of the first byte */
    uint8_t stale;   /* some of its pages were unmapped */
};

static struct cw_list domains = {&domains, &domains};
static uint32_t num_keys;

static ucs_status_t domain_open(const struct cw_config *config, const char *device, struct cw_domain **domain_p)
{
    const struct cw_sim_network *network = cw_sim_network_get();
    struct sim_domain *domain = calloc(1, sizeof(*domain));
    const uint64_t by_dmabuf = (network != NULL && network->knobs.dmabuf != CW_SIM_NO_DMABUF)
                                   ? CW_MEMORY_BIT(UCS_MEMORY_TYPE_CUDA) | CW_MEMORY_BIT(UCS_MEMORY_TYPE_ROCM)
                                   : 0;

    (void)config, (void)device;
    if (domain == NULL) {
        cw_error("cannot open the domain of a simulated device: out of memory");
        return UCS_ERR_NO_MEMORY;
    }
    domain->domain.kind = &cw_sim_rdma_domain;
    domain->domain.attr = (struct cw_domain_attr){.memory_types = CW_MEMORY_BIT(UCS_MEMORY_TYPE_HOST) | by_dmabuf,
                                              .by_dmabuf = by_dmabuf,
                                              .device_helps = "the knob `dmabuf` of its network",
                                              .part_length = PART_LENGTH,
                                              .on_demand = network != NULL && network->knobs.on_demand,
                                              .register_ns = 100,
                                              .register_byte_ns = 0.015};
    cw_list_init(&domain->mrs);
    cw_list_add_tail(&domains, &domain->link);
    *domain_p = &domain->domain;
    return UCS_OK;
}

static void domain_close(struct cw_domain *base)
{
    struct sim_domain *domain = cw_container_of(base, struct sim_domain, domain);

    cw_sim_must(cw_list_empty(&domain->mrs), "a domain is closed before its memory is deregistered");
    cw_list_remove(&domain->link);
    free(domain);
}

static ucs_status_t reg(struct cw_domain *base, void *address, size_t length, unsigned rights, struct cw_memh **memh_p)
{
    struct sim_domain *domain = cw_container_of(base, struct sim_domain, domain);
    struct cw_sim_network *network = cw_sim_network_get();
    struct sim_mr *mr;

    cw_sim_must((rights & ~(unsigned)CW_RIGHT_ALL) == 0, "a right is wanted that does not exist");
    if (length == 0) {
        return UCS_ERR_INVALID_ADDR;
    }
    if (network != NULL && (cw_sim_chance(network, CW_SIM_NO_REGISTER) ||
                          (network->knobs.max_mrs > 0 && domain->count >= network->knobs.max_mrs) ||
                          (network->knobs.max_mr_bytes > 0 && length > network->knobs.max_mr_bytes - domain->bytes))) {
        network->stats.no_register++;
        return UCS_ERR_NO_MEMORY;
    }
    mr = malloc(sizeof(*mr));
    if (mr == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    *mr = (struct sim_mr){.memh = {.domain = base, .rights = rights},
                       .address = (uintptr_t)address,
                       .length = length,
                       .key = ++num_keys * 2654435761u};
    domain->count++;
    domain->bytes += length;
    cw_list_add_tail(&domain->mrs, &mr->link);
    *memh_p = &mr->memh;
    if (network != NULL) {
        network->stats.registered++;
    }
    return UCS_OK;
}

static ucs_status_t reg_dmabuf(struct cw_domain *base, const struct cw_md_dmabuf *dmabuf, void *address, size_t length,
                               unsigned rights, struct cw_memh **memh_p)
{
    const struct cw_sim_network *network = cw_sim_network_get();
    const size_t page = cw_memory_page();
    const uint64_t offset = dmabuf->offset % page;
    ucs_status_t status;
    struct sim_mr *mr;

    /* As the verbs interface has it. */
    cw_sim_must(offset == (uintptr_t)address % page, "address and offset of a dma-buf differ within their pages");
    if (network != NULL && network->knobs.dmabuf == CW_SIM_REFUSES_DMABUF) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = reg(base, address, length, rights, memh_p);
    if (status != UCS_OK) {
        return status;
    }
    mr = cw_container_of(*memh_p, struct sim_mr, memh);
    mr->offset = offset;
    mr->dmabuf = mmap(NULL, length + (size_t)offset, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf->fd,
                      (off_t)(dmabuf->offset - offset));
    cw_sim_must(mr->dmabuf != MAP_FAILED, "a dma-buf does not hold the bytes that are registered");
    return UCS_OK;
}

static void dereg(struct cw_memh *memh)
{
    struct sim_domain *domain = cw_container_of(memh->domain, struct sim_domain, domain);
    struct sim_mr *mr = cw_container_of(memh, struct sim_mr, memh);
    struct cw_sim_network *network = cw_sim_network_get();

    if (network != NULL) {
        network->stats.deregistered++;
    }
    domain->count--;
    domain->bytes -= mr->length;
    cw_list_remove(&mr->link);
    if (mr->dmabuf != NULL) {
        (void)munmap(mr->dmabuf, (size_t)(mr->length + mr->offset));
    }
    free(mr);
}

static void write_part(const struct cw_memh *memh, uint8_t *part)
{
    const struct sim_mr *mr = cw_container_of(memh, struct sim_mr, memh);
    unsigned i;

    for (i = 0; i < PART_LENGTH; i++) {
        part[i] = (uint8_t)(mr->key >> (8 * i));
    }
}

static ucs_status_t read_part(const struct cw_domain *domain, const uint8_t *part, size_t length,
                              const struct cw_domain_range *range, struct cw_remote_key *key)
{
    unsigned i;

    (void)domain, (void)range;
    if (length != PART_LENGTH) {
        return UCS_ERR_INVALID_PARAM;
    }
    *key = (struct cw_remote_key){.word = {0, 0}};
    for (i = 0; i < PART_LENGTH; i++) {
        key->word[0] |= (uint64_t)part[i] << (8 * i);
    }
    return UCS_OK;
}

/* Where the device finds that byte of registered memory. */
static char *place_of(const struct sim_mr *mr, uint64_t address)
{
    return (mr->dmabuf == NULL) ? (char *)(uintptr_t)address
                                    : mr->dmabuf + mr->offset + (address - mr->address);
}

char *cw_sim_mr_find(const struct cw_domain *base, const struct cw_access_target *target, size_t length, unsigned right)
{
    const struct sim_domain *domain = cw_container_of(base, struct sim_domain, domain);
    const struct sim_mr *mr;

    cw_list_for_each(mr, &domain->mrs, struct sim_mr, link)
    {
        if (mr->key == target->key.word[0]) {
            if ((mr->memh.rights & right) != right || target->address < mr->address || length > mr->length ||
                target->address - mr->address > mr->length - length) {
                return NULL;
            }
            cw_sim_must(!mr->stale, "a peer uses a registration of memory that was unmapped");
            return place_of(mr, target->address);
        }
    }
    return NULL;
}

char *cw_sim_mr_use(const struct cw_access_iov *iov)
{
    const struct sim_domain *domain = cw_container_of(iov->memh->domain, struct sim_domain, domain);
    const struct sim_mr *mr;
    char *place = NULL;

    cw_list_for_each(mr, &domain->mrs, struct sim_mr, link)
    {
        if (&mr->memh == iov->memh) {
            place = place_of(mr, (uintptr_t)iov->address);
            cw_sim_must((uintptr_t)iov->address >= mr->address && iov->length <= mr->length &&
                            (uintptr_t)iov->address - mr->address <= mr->length - iov->length,
                        "an access goes beyond the registration of our memory");
            cw_sim_must(!mr->stale, "an access uses a registration of memory that was unmapped");
        }
    }
    cw_sim_must(place != NULL, "an access uses memory that was deregistered");
    return place;
}

void cw_sim_rdma_unmapped(const void *address, size_t length)
{
    const uint64_t begin = (uintptr_t)address;
    struct sim_domain *domain;
    struct sim_mr *mr;

    cw_list_for_each(domain, &domains, struct sim_domain, link)
    {
        cw_list_for_each(mr, &domain->mrs, struct sim_mr, link)
        {
            mr->stale |=
                !domain->domain.attr.on_demand && begin < mr->address + mr->length && mr->address < begin + length;
        }
    }
}

const struct cw_domain_kind cw_sim_rdma_domain = {
    .name = "simrdma",
    .open = domain_open,
    .close = domain_close,
    .reg = reg,
    .reg_dmabuf = reg_dmabuf,
    .dereg = dereg,
    .write_part = write_part,
    .read_part = read_part,
};
