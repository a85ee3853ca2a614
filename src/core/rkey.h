/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An unpacked key: what the initiator knows of a region, and how it accesses it. Operations of one piece accept it with
 * other endpoints to the same peer, too; those of many pieces do not.
 *
 * A key is read-only and reference-counted: the program holds a reference until it destroys the key, and so does each
 * request that reads the key after its call has returned. Operations that end within their call take none.
 */
#ifndef CW_CORE_RKEY_H
#define CW_CORE_RKEY_H

#include <stdbool.h>

#include "base/compiler.h"
#include "core/mem.h"

/* The part of the key that the device of a lane needs, cached at first use. Threads with other workers may use the key
 * concurrently, so nothing changes once `state` marks it complete. */
struct cw_rkey_part {
    const struct cw_domain *domain; /* of the lane */
    struct cw_remote_key key;
    uint32_t number;                /* of the peer's domain */
    uint32_t state;                 /* rkey.c; atomic */
};

struct ucp_rkey {
    struct ucp_context *context;
    const struct ucp_ep *ep;    /* that unpacked it; may be gone */
    struct cw_key key;
    struct cw_key_parts parts;  /* of the target's devices; behind this structure */
    struct cw_rkey_part *retained; /* behind this structure, too */
    char *local;                /* load/store address of key.address; NULL: no load/store access */
    const uint64_t *validity;   /* with local: contains key.token while the region is registered */
    struct cw_mapping *mapping;
    uint64_t readable;          /* bytes readable by loads; 0 with local NULL, as the next two, */
    uint64_t writable;          /* bytes writable by stores; */
    uint64_t words;             /* and number of addresses at which an 8-byte word that is both may begin */
    uint32_t holds;             /* changed atomically if `shared` */
    uint8_t shared;             /* references may be taken and released by several threads */
};

/* Whether the device of an open lane can access an address of the region: *target. */
int cw_rkey_target(const struct ucp_rkey *rkey, const struct cw_conn *lane, uint64_t address,
                   struct cw_access_target *target);

/* The number of zeros that form a key without a token: what UCX reads of one. */
#define CW_RKEY_ZEROS 9u

/* The caller holds a reference. `shared`: workers or calls of several threads may use it. */
ucs_status_t cw_rkey_unpack(struct ucp_context *context, const void *bytes, int shared, struct ucp_rkey **rkey_p);
/* Frees a key whose last reference is gone. */
void cw_rkey_free(struct ucp_rkey *rkey);
ucs_status_t cw_rkey_ptr(const struct ucp_rkey *rkey, uint64_t address, void **ptr_p);
/* A total order. */
int cw_rkey_compare(const struct ucp_rkey *first, const struct ucp_rkey *second);

static inline void cw_rkey_hold(struct ucp_rkey *rkey)
{
    if (cw_unlikely(rkey->shared)) {
        __atomic_add_fetch(&rkey->holds, 1, __ATOMIC_RELAXED);
    } else {
        rkey->holds++;
    }
}

static inline void cw_rkey_release(struct ucp_rkey *rkey)
{
    if (cw_unlikely((rkey->shared ? __atomic_sub_fetch(&rkey->holds, 1, __ATOMIC_ACQ_REL) : --rkey->holds) == 0)) {
        cw_rkey_free(rkey);
    }
}

/* The local address of the region. The start of a mapping follows from what a peer wrote into its key: words may be
 * unaligned. */
static inline void cw_rkey_set_local(struct ucp_rkey *rkey, char *local)
{
    const uint64_t word = sizeof(uint64_t), length = (local == NULL) ? 0 : rkey->key.length;
    const int fits = length >= word && ((uintptr_t)local - rkey->key.address) % word == 0;

    rkey->local = local;
    rkey->readable = (rkey->key.rights & CW_KEY_READ) ? length : 0;
    rkey->writable = (rkey->key.rights & CW_KEY_WRITE) ? length : 0;
    rkey->words = (fits && rkey->readable > 0 && rkey->writable > 0) ? length - word + 1 : 0;
}

/* Whether the access stays within the region; the target checks again where it takes part. Regions do not wrap around
 * (cw_key_decode), so an address before the region has an offset larger than any length. */
static inline int cw_rkey_holds(const struct ucp_rkey *rkey, uint64_t address, uint64_t length)
{
    return cw_likely(length <= rkey->key.length && address - rkey->key.address <= rkey->key.length - length);
}

/* Whether a load/store-accessible region is still registered. */
static inline bool cw_rkey_is_live(const struct ucp_rkey *rkey)
{
    return cw_likely(__atomic_load_n(rkey->validity, __ATOMIC_RELAXED) == rkey->key.token);
}

/* Whether load/store access works and the region is still registered. */
static inline bool cw_rkey_is_direct(const struct ucp_rkey *rkey)
{
    return rkey->local != NULL && cw_rkey_is_live(rkey);
}

/* The local address of an address of a direct region. */
static inline char *cw_rkey_pointer(const struct ucp_rkey *rkey, uint64_t address)
{
    return rkey->local + (address - rkey->key.address);
}

/* The local address; NULL: no load/store access, or not registered any more. Within the region only. */
static inline char *cw_rkey_direct(const struct ucp_rkey *rkey, uint64_t address, unsigned rights)
{
    return ((rkey->key.rights & rights) == rights && cw_rkey_is_direct(rkey)) ? cw_rkey_pointer(rkey, address) : NULL;
}

#endif
