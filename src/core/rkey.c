/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Unpacked remote keys.
 */
#include "core/rkey.h"

#include <stdlib.h>
#include <string.h>

#include "core/lane_access.h"

/* UCX packs zeros for memory that none of its devices can access: all of the peer's memory, by packets without a token.
 * Open MPI 4.1 unpacks zeros for the last byte of a region of a dynamic window. */
static bool is_zeros(const uint8_t *bytes)
{
    unsigned i;

    for (i = 0; i < CW_RKEY_ZEROS && bytes[i] == 0; i++) {
    }
    return i == CW_RKEY_ZEROS;
}

static ucs_status_t decode(const void *bytes, struct cw_key *key, struct cw_key_parts *parts)
{
    if (!is_zeros(bytes)) {
        return cw_key_decode(bytes, key, parts);
    }
    *key = (struct cw_key){.length = UINT64_MAX, .rights = CW_KEY_READ | CW_KEY_WRITE};
    *parts = (struct cw_key_parts){.length = 0};
    return UCS_OK;
}

ucs_status_t cw_rkey_unpack(struct ucp_context *context, const void *bytes, int shared, struct ucp_rkey **rkey_p)
{
    struct ucp_rkey *rkey;
    struct cw_key_parts parts;
    struct cw_key key;
    char *local = NULL;
    ucs_status_t status = decode(bytes, &key, &parts);

    if (status != UCS_OK) {
        return status;
    }
    rkey = calloc(1, sizeof(*rkey) + sizeof(*rkey->retained) + parts.length);
    if (rkey == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    rkey->context = context;
    rkey->holds = 1;
    rkey->shared = shared != 0;
    rkey->key = key;
    rkey->retained = (struct cw_rkey_part *)(rkey + 1);
    rkey->parts = (struct cw_key_parts){.bytes = (const uint8_t *)(rkey->retained + 1), .length = parts.length};
    if (parts.length > 0) {
        memcpy(rkey->retained + 1, parts.bytes, parts.length);
    }
    if (key.token != 0 && key.executor == 0 && /* else a device of the target executes its atomic operations */
        cw_mem_attach(context, &key, &local, &rkey->validity, &rkey->mapping) != UCS_OK) {
        local = NULL; /* copies or packets then access the memory */
    }
    cw_rkey_set_local(rkey, local);
    *rkey_p = rkey;
    return UCS_OK;
}

enum part_state { PART_EMPTY, PART_FILLING, PART_WHOLE };

static void keep_part(struct cw_rkey_part *part, const struct cw_domain *domain, unsigned number,
                      const struct cw_remote_key *key)
{
    uint32_t empty = PART_EMPTY;

    if (__atomic_compare_exchange_n(&part->state, &empty, PART_FILLING, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        part->domain = domain;
        part->number = number;
        part->key = *key;
        __atomic_store_n(&part->state, PART_WHOLE, __ATOMIC_RELEASE);
    }
}

int cw_rkey_target(const struct ucp_rkey *rkey, const struct cw_conn *lane, uint64_t address,
                   struct cw_access_target *target)
{
    const struct cw_domain_range range = {.address = rkey->key.address, .length = rkey->key.length};
    const unsigned number = (rkey->parts.length == 0) ? 0 : cw_lane_peer_domain(lane);
    const struct cw_domain *domain = lane->iface->domain;
    struct cw_rkey_part *retained = rkey->retained;
    size_t length = 0;
    const uint8_t *part;

    target->address = address;
    if (number == 0) {
        return 0;
    }
    if (cw_likely(__atomic_load_n(&retained->state, __ATOMIC_ACQUIRE) == PART_WHOLE && retained->domain == domain &&
                  retained->number == number)) {
        target->key = retained->key;
        return 1;
    }
    part = cw_key_find_part(&rkey->parts, number, &length);
    if (part == NULL || domain->kind->read_part(domain, part, length, &range, &target->key) != UCS_OK) {
        return 0;
    }
    keep_part(retained, domain, number, &target->key);
    return 1;
}

void cw_rkey_free(struct ucp_rkey *rkey)
{
    if (rkey->mapping != NULL) {
        cw_mem_detach(rkey->context, rkey->mapping);
    }
    free(rkey);
}

ucs_status_t cw_rkey_ptr(const struct ucp_rkey *rkey, uint64_t address, void **ptr_p)
{
    char *ptr;

    if (!cw_rkey_holds(rkey, address, 1)) {
        return UCS_ERR_INVALID_ADDR;
    }
    ptr = cw_rkey_direct(rkey, address, 0);
    if (ptr == NULL) {
        return UCS_ERR_UNREACHABLE;
    }
    *ptr_p = ptr;
    return UCS_OK;
}

static int compare(uint64_t first, uint64_t second)
{
    return (first > second) - (first < second);
}

int cw_rkey_compare(const struct ucp_rkey *first, const struct ucp_rkey *second)
{
    int result = compare(first->key.token, second->key.token);

    if (result == 0) {
        result = compare(first->key.address, second->key.address);
    }
    return (result == 0) ? compare(first->key.length, second->key.length) : result;
}
