/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slots lie in slabs of whole pages, never across a page boundary, so all pages of all slabs are identical when they
 * contain only tombstones. Invariants: a slot that is no tombstone and contains no endpoint is on the free list, or
 * lies behind `used`; `dead` of a page counts its tombstones.
 */
#include "core/ep_slots.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/ep.h"
#include "os/memory.h"
#include "os/pattern.h"

/* The first slab has no pattern: pages of few endpoints are not worth a descriptor. */
#define FIRST_PAGES 16u
#define MAX_BYTES   ((size_t)1 << 20)

struct free_slot {
    struct free_slot *next;
};

struct cw_ep_slab {
    struct cw_ep_slab *next;
    char *memory;
    size_t num_slots;
    size_t used;      /* slots before this one were allocated at some time */
    size_t num_pages;
    int gives_back;
    uint16_t dead[];  /* of each page */
};

struct cw_ep_slots {
    struct cw_pattern pattern;
    struct cw_ep_slab *slabs; /* the newest first; slots are allocated from it */
    struct free_slot *free;
    size_t page_size;
    size_t slot_size;
    size_t per_page;
    char *tombstones; /* a page of them */
    struct cw_peer nobody;
};

/* Its lists have no valid links: nothing is queued to a failed endpoint. */
static void make_tombstone(struct ucp_worker *worker, struct cw_ep_slots *slots, struct ucp_ep *tombstone)
{
    *tombstone = (struct ucp_ep){.worker = worker,
                         .peer = &slots->nobody,
                         .tx = &cw_no_tx,
                         .state = CW_EP_FAILED,
                         .handle = CW_HANDLE_RETIRED,
                         .error_reported = 1,
                         .status = UCS_ERR_CONNECTION_RESET};
}

static struct cw_ep_slots *slots_of(struct ucp_worker *worker)
{
    const size_t align = _Alignof(max_align_t);
    struct cw_ep_slots *slots;

    if (worker->slots != NULL) {
        return worker->slots;
    }
    slots = calloc(1, sizeof(*slots));
    if (slots == NULL) {
        return NULL;
    }
    slots->page_size = cw_memory_page();
    slots->slot_size = (sizeof(struct ucp_ep) + worker->handlers->ep_state_size + align - 1) / align * align;
    slots->per_page = slots->page_size / slots->slot_size;
    slots->tombstones = calloc(1, slots->page_size);
    if (slots->tombstones == NULL) {
        free(slots);
        return NULL;
    }
    cw_pattern_init(&slots->pattern);
    for (size_t i = 0; i < slots->per_page; i++) {
        make_tombstone(worker, slots, (struct ucp_ep *)(void *)(slots->tombstones + i * slots->slot_size));
    }
    worker->slots = slots;
    return slots;
}

static char *slot_at(const struct cw_ep_slots *slots, const struct cw_ep_slab *slab, size_t i)
{
    return slab->memory + i / slots->per_page * slots->page_size + i % slots->per_page * slots->slot_size;
}

static struct cw_ep_slab *add_slab(struct cw_ep_slots *slots)
{
    const struct cw_ep_slab *last = slots->slabs;
    const size_t most = MAX_BYTES / slots->page_size;
    size_t pages = (last == NULL) ? FIRST_PAGES : 2 * last->num_pages;
    struct cw_ep_slab *slab;

    pages = (pages > most) ? most : pages;
    slab = calloc(1, sizeof(*slab) + pages * sizeof(slab->dead[0]));
    if (slab == NULL) {
        return NULL;
    }
    if (last == NULL) {
        slab->memory = cw_pages_map(pages * slots->page_size);
    } else {
        slab->memory =
            cw_pattern_map(&slots->pattern, slots->tombstones, pages * slots->page_size, &slab->gives_back);
    }
    if (slab->memory == NULL) {
        free(slab);
        return NULL;
    }
    slab->num_pages = pages;
    slab->num_slots = pages * slots->per_page;
    slab->next = slots->slabs;
    slots->slabs = slab;
    return slab;
}

struct ucp_ep *cw_ep_slot_take(struct ucp_worker *worker)
{
    struct cw_ep_slots *slots = slots_of(worker);
    struct cw_ep_slab *slab;
    struct free_slot *slot;

    if (slots == NULL) {
        return NULL;
    }
    slot = slots->free;
    if (slot != NULL) {
        slots->free = slot->next;
        return (struct ucp_ep *)(void *)slot;
    }
    slab = slots->slabs;
    if (slab == NULL || slab->used == slab->num_slots) {
        slab = add_slab(slots);
        if (slab == NULL) {
            return NULL;
        }
    }
    return (struct ucp_ep *)(void *)slot_at(slots, slab, slab->used++);
}

/* Most endpoints that end lie in one of the newest slabs. */
static struct cw_ep_slab *slab_of(const struct cw_ep_slots *slots, const struct ucp_ep *ep)
{
    struct cw_ep_slab *slab = slots->slabs;

    while ((uintptr_t)ep - (uintptr_t)slab->memory >= slab->num_pages * slots->page_size) {
        slab = slab->next;
    }
    return slab;
}

static void bury(struct cw_ep_slots *slots, struct ucp_ep *ep)
{
    struct cw_ep_slab *slab = slab_of(slots, ep);
    const size_t page = (size_t)((char *)ep - slab->memory) / slots->page_size;

    memcpy(ep, slots->tombstones, slots->slot_size); /* threads may read its worker, which stays unchanged */
    if (++slab->dead[page] == slots->per_page && slab->gives_back) {
        cw_pattern_give_back(slab->memory + page * slots->page_size, slots->page_size);
    }
}

void cw_ep_slot_end(struct ucp_ep *ep)
{
    struct cw_ep_slots *slots = ep->worker->slots;
    struct free_slot *slot = (void *)ep;

    if (ep->lent) {
        bury(slots, ep);
        return;
    }
    slot->next = slots->free;
    slots->free = slot;
}

void cw_ep_slots_free(struct ucp_worker *worker)
{
    struct cw_ep_slots *slots = worker->slots;
    struct cw_ep_slab *slab;

    if (slots == NULL) {
        return;
    }
    while ((slab = slots->slabs) != NULL) {
        slots->slabs = slab->next;
        cw_pattern_unmap(slab->memory, slab->num_pages * slots->page_size);
        free(slab);
    }
    cw_pattern_close(&slots->pattern);
    free(slots->tombstones);
    free(slots);
    worker->slots = NULL;
}
