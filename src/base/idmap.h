/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids for objects that a peer names in its packets: a slot and a generation in 64 bits, so that a stale or forged id
 * finds nothing. Grows by doubling, reuses slots; id 0 is never issued.
 */
#ifndef CW_BASE_IDMAP_H
#define CW_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct cw_idmap_slot {
    void *object;           /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct cw_idmap {
    struct cw_idmap_slot *slots;
    uint32_t size;
    uint32_t first_free;    /* index, or `size` */
    uint32_t count;         /* of numbers in use */
};

void cw_idmap_init(struct cw_idmap *map);
void cw_idmap_cleanup(struct cw_idmap *map);
/* UCS_ERR_NO_MEMORY leaves *id_p unchanged. */
ucs_status_t cw_idmap_add(struct cw_idmap *map, void *object, uint64_t *id_p);
/* NULL for any number that is not in use now. */
static inline void *cw_idmap_get(const struct cw_idmap *map, uint64_t id)
{
    const uint32_t index = (uint32_t)id;

    return (index < map->size && map->slots[index].generation == (uint32_t)(id >> 32)) ? map->slots[index].object
                                                                                      : NULL;
}
void cw_idmap_remove(struct cw_idmap *map, uint64_t id);

#endif
