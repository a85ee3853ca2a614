/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An unpacked key: what the origin knows of a region, and how it reaches it. Read-only until destroyed. Not bound to
 * the endpoint that unpacked it (KEY-3).
 */
#ifndef CW_CORE_RKEY_H
#define CW_CORE_RKEY_H

#include "base/compiler.h"
#include "core/mem.h"

struct ucp_rkey {
    struct ucp_context *context;
    struct cw_key key;
    char *local;                /* key.address lies here; NULL: not reached by loads and stores */
    const uint64_t *beacon;     /* with local: holds key.token while the region is registered */
    struct cw_mapping *mapping;
};

ucs_status_t cw_rkey_unpack(struct ucp_context *context, const void *bytes, struct ucp_rkey **rkey_p);
void cw_rkey_destroy(struct ucp_rkey *rkey);
/* KEY-7 */
ucs_status_t cw_rkey_ptr(const struct ucp_rkey *rkey, uint64_t address, void **ptr_p);
/* KEY-8: a total order. */
int cw_rkey_compare(const struct ucp_rkey *first, const struct ucp_rkey *second);

/* Whether the access stays within the region; the owner looks again where it takes part. */
static inline int cw_rkey_holds(const struct ucp_rkey *rkey, uint64_t address, uint64_t length)
{
    return cw_likely(address >= rkey->key.address && length <= rkey->key.length &&
                     address - rkey->key.address <= rkey->key.length - length);
}

/* Where it lies here; NULL: not reached by loads and stores, or not registered any more. Within the region only. */
static inline char *cw_rkey_direct(const struct ucp_rkey *rkey, uint64_t address, unsigned rights)
{
    if (rkey->local == NULL || (rkey->key.rights & rights) != rights ||
        cw_unlikely(__atomic_load_n(rkey->beacon, __ATOMIC_RELAXED) != rkey->key.token)) {
        return NULL;
    }
    return rkey->local + (address - rkey->key.address);
}

#endif
