/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening the memory domains of devices.
 */
#include "core/domain.h"

#include <string.h>

#include "base/log.h"
#include "mem/cache.h"
#include "mem/device.h"
#include "ucs/type/status.h"

/* The open domain of another transport on that device, or NULL. */
static struct cw_domain *shared(const struct ucp_context *context, const struct cw_resource *resource,
                                const struct cw_domain_kind *kind)
{
    const struct cw_resource *other;

    for (other = context->resources; other < resource; other++) {
        if (other->domain != NULL && other->domain->kind == kind &&
            strcmp(other->device.name, resource->device.name) == 0) {
            return other->domain;
        }
    }
    return NULL;
}

/* Without one each message registers for itself. */
static void open_cache(struct ucp_context *context, struct cw_domain *domain)
{
    struct cw_cache_limits limits = {.regions = context->config->rcache_max_regions,
                                     .bytes = context->config->rcache_max_size};
    struct cw_cache *cache = NULL;

    if (context->config->rcache_enable != CW_NO) {
        cache = cw_cache_new(domain, &limits);
    } else {
        limits.regions = 0;
    }
    context->caches[domain->number - 1] = cache;
    context->device_regs[domain->number - 1] = cw_device_regs_new(domain, &limits);
    cw_info("registrations with %s: %s", domain->kind->name, cw_domain_keeping(context, domain));
}

const char *cw_domain_keeping(const struct ucp_context *context, const struct cw_domain *domain)
{
    if (context->caches[domain->number - 1] == NULL) {
        return "for one message each (UCX_RCACHE_ENABLE)";
    }
    return domain->attr.on_demand
               ? "cached: the device pages memory on demand"
               : "cached if the program reports unmaps (ucm_set_external_event), else for one message each";
}

/* 0: the resource is not usable. */
static int open_domain(struct ucp_context *context, struct cw_resource *resource)
{
    const struct cw_domain_kind *kind = resource->transport->access->domain;
    struct cw_domain *domain = shared(context, resource, kind);
    ucs_status_t status;

    if (domain == NULL && context->num_domains == CW_DOMAIN_MAX) {
        cw_info("%s/%s carries packets only: a context accesses remote memory by at most %u devices",
                resource->transport->name, resource->device.name, CW_DOMAIN_MAX);
        return 1;
    }
    if (domain == NULL) {
        status = kind->open(context->config, resource->device.name, &domain);
        if (status != UCS_OK) {
            cw_diag("%s/%s is left out: %s", resource->transport->name, resource->device.name,
                    ucs_status_string(status)); /* the transport has logged the reason */
            return 0;
        }
        domain->number = (uint8_t)(context->num_domains + 1);
        open_cache(context, domain);
        context->domains[context->num_domains++] = domain;
    }
    resource->domain = domain;
    return 1;
}

void cw_domains_open(struct ucp_context *context)
{
    unsigned i, retained = 0;

    for (i = 0; i < context->num_resources; i++) {
        context->resources[retained] = context->resources[i];
        retained += (unsigned)(context->resources[retained].transport->access == NULL ||
                               open_domain(context, &context->resources[retained]));
    }
    context->num_resources = retained;
    for (i = 0; i < retained; i++) {
        if (context->resources[i].domain != NULL) {
            context->resources[i].domain->device = context->resources[i].device.name;
        }
    }
}

void cw_domains_close(struct ucp_context *context)
{
    while (context->num_domains > 0) {
        context->num_domains--;
        cw_cache_free(context->caches[context->num_domains]);
        cw_device_regs_free(context->device_regs[context->num_domains]);
        context->domains[context->num_domains]->kind->close(context->domains[context->num_domains]);
    }
}

/* Operations of two executors are not atomic to each other. So the devices carry them out only where the processor
 * cannot access this memory, or where the program asks for it. */
int cw_domains_do_atomics(const struct ucp_context *context)
{
    unsigned i;

    for (i = 0; context->config->atomic_mode == CW_ATOMIC_GUESS && i < context->num_resources; i++) {
        if (context->resources[i].domain == NULL) {
            return 0;
        }
    }
    return context->config->atomic_mode != CW_ATOMIC_CPU;
}
