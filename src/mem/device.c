/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements mem/device.h. Few registrations are cached, so lookup is a linear search.
 */
#include "mem/device.h"

#include <stdlib.h>

#include "base/log.h"
#include "mem/registry.h"
#include "os/lock.h"
#include "os/unix_socket.h"

#define MOST_RETAINED    256u
#define MOST_REASONS 8u

struct cw_device_regs {
    struct cw_lock lock;
    struct cw_domain *domain;
    struct cw_cache_limits limits;
    struct cw_list retained;
    uint64_t count; /* registrations that exist, cached or not, */
    uint64_t bytes; /* and their bytes */
    int is_refused; /* atomic: the device does not support dma-bufs */
};

/* ---- the log ---- */

static const char device_helps[] =
    "the device or its kernel driver does not support dma-buf; use a driver that does, or load the kernel module "
    "nvidia_peermem";

/* Logs each reason once. */
static void log_once(const struct cw_domain *domain, const char *what, const char *why)
{
    static const char *logged[MOST_REASONS]; /* atomic: reasons already logged */
    const char *expected;
    unsigned i;

    for (i = 0; i < MOST_REASONS; i++) {
        expected = NULL;
        if (__atomic_compare_exchange_n(&logged[i], &expected, why, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            cw_warn("%s cannot access GPU memory (%s): long messages from and to it are staged through host memory, "
                    "which is several times slower; %s",
                    domain->kind->name, what, why);
            return;
        }
        if (expected == why) {
            return;
        }
    }
}

int cw_device_regs_suit(const struct cw_domain *domain, ucs_memory_type_t type)
{
    const struct cw_md *md = (domain->attr.memory_types & CW_MEMORY_BIT(type)) ? cw_md_of_type(type) : NULL;

    return md != NULL && md->find_span != NULL;
}

int cw_device_regs_accept(const struct cw_domain *domain, ucs_memory_type_t type)
{
    const struct cw_md *md;

    if (cw_device_regs_suit(domain, type)) {
        return 1;
    }
    md = cw_md_of_type(type);
    if (md != NULL && md->export_span != NULL && domain->attr.device_helps != NULL) {
        log_once(domain, md->name, domain->attr.device_helps);
    }
    return 0;
}

/* ---- registering ---- */

/* Bytes of a span, and what the device needs for them. */
struct order {
    const struct cw_md *md;
    const struct cw_md_span *span;
    uint64_t address;
    size_t length;
    unsigned rights;
    ucs_memory_type_t type;
};

static ucs_status_t reg_dmabuf(struct cw_device_regs *regs, const struct order *order, struct cw_memh **memh_p,
                               const char **why_p)
{
    struct cw_md_dmabuf dmabuf;
    ucs_status_t status = order->md->export_span(order->md, order->span, &dmabuf, why_p);

    if (status != UCS_OK) {
        return status;
    }
    dmabuf.offset += order->address - order->span->start;
    status = regs->domain->kind->reg_dmabuf(regs->domain, &dmabuf, (void *)(uintptr_t)order->address, order->length,
                                            order->rights, memh_p);
    cw_fd_close(dmabuf.fd); /* the registration keeps the memory */
    if (status == UCS_ERR_UNSUPPORTED) {
        *why_p = device_helps;
        __atomic_store_n(&regs->is_refused, 1, __ATOMIC_RELAXED);
    }
    return status;
}

static ucs_status_t reg(struct cw_device_regs *regs, const struct order *order, struct cw_memh **memh_p)
{
    struct cw_domain *domain = regs->domain;
    const uint64_t bit = CW_MEMORY_BIT(order->type);
    const char *why = device_helps;
    ucs_status_t status = UCS_ERR_UNSUPPORTED;

    if ((domain->attr.by_dmabuf & bit) && !__atomic_load_n(&regs->is_refused, __ATOMIC_RELAXED)) {
        status = reg_dmabuf(regs, order, memh_p, &why);
    }
    if (status == UCS_ERR_UNSUPPORTED && (domain->attr.by_address & bit)) {
        status = domain->kind->reg(domain, (void *)(uintptr_t)order->address, order->length, order->rights, memh_p);
    }
    if (status == UCS_OK && ((*memh_p)->rights & order->rights) != order->rights) {
        domain->kind->dereg(*memh_p);
        status = UCS_ERR_INVALID_ADDR;
    }
    if (status == UCS_ERR_UNSUPPORTED || status == UCS_ERR_INVALID_ADDR) {
        log_once(domain, order->md->name, why);
        status = UCS_ERR_UNSUPPORTED;
    }
    return status;
}

/* Finds the domain of that memory, and the allocation. 0: fabric devices cannot reach it. */
static int search(const struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory, size_t length,
                  struct order *order, struct cw_md_span *span)
{
    *order = (struct order){.span = span, .address = (uintptr_t)memory, .length = length, .type = type};
    if (regs == NULL || !cw_device_regs_accept(regs->domain, type)) {
        return 0;
    }
    order->md = cw_md_of_type(type);
    return order->md != NULL && order->md->find_span != NULL && order->md->find_span(order->md, memory, length, span);
}

ucs_status_t cw_device_regs_apart(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory,
                                  size_t length, unsigned rights, struct cw_memh **memh_p)
{
    struct cw_md_span span;
    struct order order;

    if (!search(regs, type, memory, length, &order, &span)) {
        return UCS_ERR_UNSUPPORTED;
    }
    order.rights = rights;
    return reg(regs, &order, memh_p);
}

/* ---- cache ---- */

/* The lock is held, also for the next ones. */
static void end(struct cw_device_reg *retained)
{
    struct cw_device_regs *regs = retained->regs;

    regs->count--;
    regs->bytes -= retained->range.length;
    regs->domain->kind->dereg((struct cw_memh *)(uintptr_t)retained->memh);
    free(retained);
}

static void take_out(struct cw_device_reg *retained)
{
    cw_list_remove(&retained->link);
    retained->is_retained = 0;
    if (retained->uses == 0) {
        end(retained);
    }
}

static int overlaps(const struct cw_device_reg *retained, const struct cw_md_span *span)
{
    return retained->range.address < span->start + span->length &&
           span->start < retained->range.address + retained->range.length;
}

/* The registration of that memory. Others that overlap with it are of memory that was freed, or of other bytes of
 * mapped memory, and leave the list; `rights_p` returns the rights that a new one should have. */
static struct cw_device_reg *find(struct cw_device_regs *regs, const struct cw_md *md, const struct cw_md_span *span,
                                  unsigned *rights_p)
{
    struct cw_device_reg *retained, *next;

    cw_list_for_each_safe(retained, next, &regs->retained, struct cw_device_reg, link)
    {
        if (retained->md == md && retained->number == span->number && retained->range.address == span->start &&
            retained->range.length == span->length) {
            if ((retained->memh->rights & *rights_p) == *rights_p) {
                return retained;
            }
            *rights_p |= retained->memh->rights;
        }
        if (overlaps(retained, span)) {
            take_out(retained);
        }
    }
    return NULL;
}

/* Evicts the unused registrations of memory that the program has freed. */
static void sweep(struct cw_device_regs *regs)
{
    struct cw_device_reg *retained, *next;
    struct cw_md_span span;

    cw_list_for_each_safe(retained, next, &regs->retained, struct cw_device_reg, link)
    {
        if (retained->uses == 0 &&
            (!retained->md->find_span(retained->md, (const void *)(uintptr_t)retained->range.address,
                                      retained->range.length, &span) ||
             span.number != retained->number)) {
            take_out(retained);
        }
    }
}

/* Evicts the least recently used registration that is not in use. 0: there is none. */
static int shrink(struct cw_device_regs *regs)
{
    struct cw_device_reg *retained;

    cw_list_for_each(retained, &regs->retained, struct cw_device_reg, link)
    {
        if (retained->uses == 0) {
            take_out(retained);
            return 1;
        }
    }
    return 0;
}

static int make_space(struct cw_device_regs *regs, uint64_t length)
{
    while (regs->count >= regs->limits.regions || length > regs->limits.bytes ||
           regs->bytes > regs->limits.bytes - length) {
        if (!shrink(regs)) {
            return 0;
        }
    }
    return 1;
}

/* The order is of the whole span. */
static ucs_status_t add(struct cw_device_regs *regs, const struct order *order, struct cw_device_reg **reg_p)
{
    const struct cw_domain_range range = {.address = order->address, .length = order->length};
    struct cw_device_reg *retained;
    struct cw_memh *memh;
    ucs_status_t status;

    sweep(regs);
    retained = make_space(regs, range.length) ? calloc(1, sizeof(*retained)) : NULL;
    if (retained == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    do {
        status = reg(regs, order, &memh);
    } while (status == UCS_ERR_NO_MEMORY && shrink(regs));
    if (status != UCS_OK) {
        free(retained);
        return status;
    }
    *retained = (struct cw_device_reg){
        .memh = memh, .range = range, .regs = regs, .md = order->md, .number = order->span->number, .is_retained = 1};
    cw_list_add_tail(&regs->retained, &retained->link);
    regs->count++;
    regs->bytes += range.length;
    *reg_p = retained;
    return UCS_OK;
}

ucs_status_t cw_device_regs_get(struct cw_device_regs *regs, ucs_memory_type_t type, const void *memory, size_t length,
                                unsigned rights, struct cw_device_reg **reg_p)
{
    ucs_status_t status = UCS_OK;
    struct cw_md_span span;
    struct order order;

    if (!search(regs, type, memory, length, &order, &span)) {
        return UCS_ERR_UNSUPPORTED;
    }
    order.address = span.start;
    order.length = span.length;
    cw_lock_enter(&regs->lock);
    *reg_p = find(regs, order.md, &span, &rights);
    if (*reg_p == NULL) {
        order.rights = rights;
        status = add(regs, &order, reg_p);
    }
    if (status == UCS_OK) {
        (*reg_p)->uses++;
        cw_list_remove(&(*reg_p)->link);
        cw_list_add_tail(&regs->retained, &(*reg_p)->link);
    }
    cw_lock_leave(&regs->lock);
    return status;
}

void cw_device_regs_put(struct cw_device_reg *retained)
{
    struct cw_device_regs *regs = retained->regs;

    cw_lock_enter(&regs->lock);
    if (--retained->uses == 0 && !retained->is_retained) {
        end(retained);
    }
    cw_lock_leave(&regs->lock);
}

struct cw_device_regs *cw_device_regs_new(struct cw_domain *domain, const struct cw_cache_limits *limits)
{
    struct cw_device_regs *regs = calloc(1, sizeof(*regs));

    if (regs != NULL) {
        regs->domain = domain;
        regs->limits = *limits;
        regs->limits.regions = (limits->regions < MOST_RETAINED) ? limits->regions : MOST_RETAINED;
        cw_lock_init(&regs->lock);
        cw_list_init(&regs->retained);
    }
    return regs;
}

void cw_device_regs_free(struct cw_device_regs *regs)
{
    while (regs != NULL && shrink(regs)) {
    }
    free(regs);
}
