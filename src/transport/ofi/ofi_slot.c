/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packet memory. Slots are allocated in blocks, whose memory is registered as a whole and freed only with the
 * interface: the provider may access it as long as the interface exists, even after the connection ended. A completion
 * carries the address of a slot, which is valid only if it is in a block.
 */
#include "transport/ofi/ofi.h"

#include <limits.h>
#include <stdlib.h>

#include "base/log.h"
#include "os/memory.h"

#define RECEIVES 32u

static struct ofi_block *block_new(struct ofi_iface *iface, enum ofi_block_kind kind, unsigned count, size_t space)
{
    const struct cw_memory_spec spec = {.length = count * space, .huge = CW_MEMORY_TRANSPARENT};
    struct ofi_block *block = calloc(1, sizeof(*block) + count * sizeof(block->slots[0]));
    unsigned i;

    if (block == NULL || cw_memory_allocate(&spec, &block->memory) != UCS_OK) {
        free(block);
        return NULL;
    }
    if (cw_ofi_register(iface, block->memory.ptr, count * space, &block->mr, &block->desc) != UCS_OK) {
        cw_memory_release(&block->memory);
        free(block);
        return NULL;
    }
    block->kind = kind;
    block->count = count;
    block->space = space;
    for (i = 0; i < count; i++) {
        block->slots[i] = (struct ofi_slot){.block = block, .bytes = block->memory.ptr + i * space};
        cw_list_init(&block->slots[i].link);
        cw_list_init(&block->slots[i].waiting);
    }
    block->next = iface->blocks;
    iface->blocks = block;
    return block;
}

static int more(struct ofi_iface *iface, enum ofi_block_kind kind)
{
    const size_t large = iface->objects->reaches ? CW_OFI_LARGE : iface->max_packet; /* accesses may be longer than
                                                                                      * packets */
    const struct {
        unsigned most; /* blocks */
        unsigned count;
        size_t space;
    } kinds[] = {[OFI_BLOCK_SMALL] = {UINT_MAX, 64, CW_OFI_SMALL},
                 [OFI_BLOCK_LARGE] = {128, 16, large},
                 [OFI_BLOCK_LONG] = {64, 2, CW_OFI_PIECE}};
    struct ofi_block *block;
    unsigned i;

    if (iface->num_blocks[kind] >= kinds[kind].most) {
        return 0;
    }
    block = block_new(iface, kind, kinds[kind].count, kinds[kind].space);
    for (i = 0; block != NULL && i < block->count; i++) {
        cw_list_add_tail(&iface->free_slots[kind], &block->slots[i].link);
    }
    iface->num_blocks[kind] += block != NULL;
    return block != NULL;
}

struct ofi_slot *cw_ofi_slot_new(struct ofi_iface *iface, enum ofi_block_kind kind)
{
    struct cw_list *link;

    if (cw_list_empty(&iface->free_slots[kind]) && !more(iface, kind)) {
        return NULL;
    }
    link = cw_list_pop_head(&iface->free_slots[kind]);
    return cw_container_of(link, struct ofi_slot, link);
}

void cw_ofi_slot_free(struct ofi_iface *iface, struct ofi_slot *slot)
{
    cw_list_remove(&slot->link);
    cw_list_remove(&slot->waiting);
    slot->state = OFI_FREE;
    slot->conn = NULL;
    slot->peer = NULL;
    slot->route = NULL;
    slot->access.use = OFI_USE_PACKET;
    cw_list_add_head(&iface->free_slots[slot->block->kind], &slot->link);
}

static inline struct ofi_slot *find_in(const struct ofi_block *block, const void *context)
{
    const uintptr_t offset = (uintptr_t)context - (uintptr_t)block->slots; /* wraps to a large value for an address
                                                                            * before the block */

    if (offset >= block->count * sizeof(block->slots[0]) || offset % sizeof(block->slots[0]) != 0) {
        return NULL;
    }
    return (struct ofi_slot *)(uintptr_t)context;
}

static CW_NOINLINE struct ofi_slot *find_anywhere(struct ofi_iface *iface, const void *context)
{
    struct ofi_block *block;
    struct ofi_slot *slot = NULL;

    for (block = iface->blocks; slot == NULL && block != NULL; block = block->next) {
        slot = find_in(block, context);
        if (slot != NULL && block->kind != OFI_BLOCK_RECEIVE) {
            iface->last_sent = block;
        }
    }
    return slot;
}

struct ofi_slot *cw_ofi_slot_find(struct ofi_iface *iface, void *context)
{
    struct ofi_slot *slot = find_in(iface->receives, context);

    if (slot == NULL && cw_likely(iface->last_sent != NULL)) {
        slot = find_in(iface->last_sent, context);
    }
    if (cw_unlikely(slot == NULL)) {
        slot = find_anywhere(iface, context);
    }
    return (slot != NULL && slot->state == OFI_FLYING) ? slot : NULL;
}

void cw_ofi_post_receive(struct ofi_iface *iface, struct ofi_slot *slot)
{
    ssize_t error = -FI_EAGAIN;

    if (!iface->broken && !iface->closing) {
        error = fi_recv(iface->ep, slot->bytes, slot->block->space, slot->block->desc, FI_ADDR_UNSPEC, &slot->context);
    }
    slot->state = (error == 0) ? OFI_FLYING : OFI_WAITING;
    if (error == -FI_EAGAIN) {
        cw_ofi_line_up(iface, &iface->unposted, &slot->link);
    } else if (error != 0) {
        cw_ofi_break(iface, iface->fi->strerror((int)-error));
    }
}

void cw_ofi_post_receives_again(struct ofi_iface *iface)
{
    struct cw_list list, *link;

    cw_list_init(&list);
    cw_list_splice_tail(&list, &iface->unposted);
    while ((link = cw_list_pop_head(&list)) != NULL) {
        cw_ofi_post_receive(iface, cw_container_of(link, struct ofi_slot, link));
    }
}

ucs_status_t cw_ofi_receives_new(struct ofi_iface *iface)
{
    struct ofi_block *block = block_new(iface, OFI_BLOCK_RECEIVE, RECEIVES, iface->max_packet);
    unsigned i;

    if (block == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    iface->receives = block;
    for (i = 0; i < block->count; i++) {
        cw_ofi_post_receive(iface, &block->slots[i]);
    }
    return iface->broken ? UCS_ERR_IO_ERROR : UCS_OK;
}

void cw_ofi_slots_cleanup(struct ofi_iface *iface)
{
    struct ofi_block *block;

    while ((block = iface->blocks) != NULL) {
        iface->blocks = block->next;
        if (block->mr != NULL) {
            fi_close(&block->mr->fid);
        }
        cw_memory_release(&block->memory);
        free(block);
    }
}
