/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The number table of base/idmap.h. A number is generation << 32 | slot index; generations start at 1 and skip 0.
 */
#include "base/idmap.h"

#include <stdlib.h>

#include "base/counter.h"

#define FIRST_SIZE 16u

void cw_idmap_init(struct cw_idmap *map)
{
    *map = (struct cw_idmap){0};
}

void cw_idmap_cleanup(struct cw_idmap *map)
{
    free(map->slots);
    cw_idmap_init(map);
}

static ucs_status_t grow(struct cw_idmap *map)
{
    uint32_t size = (map->size == 0) ? FIRST_SIZE : map->size * 2, i;
    struct cw_idmap_slot *slots;

    slots = (size <= map->size) ? NULL : realloc(map->slots, size * sizeof(*slots));
    if (slots == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    for (i = map->size; i < size; i++) {
        slots[i] = (struct cw_idmap_slot){.generation = (uint32_t)cw_counter_start | 1u, .next_free = i + 1};
    }
    map->first_free = map->size;
    map->slots = slots;
    map->size = size;
    return UCS_OK;
}

ucs_status_t cw_idmap_add(struct cw_idmap *map, void *object, uint64_t *id_p)
{
    struct cw_idmap_slot *slot;

    if (map->first_free == map->size && grow(map) != UCS_OK) {
        return UCS_ERR_NO_MEMORY;
    }
    slot = &map->slots[map->first_free];
    *id_p = ((uint64_t)slot->generation << 32) | map->first_free;
    map->first_free = slot->next_free;
    slot->object = object;
    map->count++;
    return UCS_OK;
}

void cw_idmap_remove(struct cw_idmap *map, uint64_t id)
{
    struct cw_idmap_slot *slot;

    if (cw_idmap_get(map, id) == NULL) {
        return;
    }
    slot = &map->slots[(uint32_t)id];
    slot->object = NULL;
    slot->generation++;
    if (slot->generation == 0) {
        slot->generation = 1;
    }
    slot->next_free = map->first_free;
    map->first_free = (uint32_t)id;
    map->count--;
}
