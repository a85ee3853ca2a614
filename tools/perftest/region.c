/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory of one-sided tests.
 *
 * Callers: test_rma.c, origin.c.
 * Out of band each side sends: address of its region (8 bytes, little-endian), length (8), key (the rest).
 * Keys are packed by the old call, which every library with this interface has.
 */
#include "region.h"

#include <stdlib.h>
#include <string.h>

#define PAGE 4096u

static int fail_call(struct cw_link *link, const char *call, ucs_status_t status)
{
    return cw_link_fail(link, "%s failed: %s%s", call, ucs_status_string(status),
                        status == UCS_ERR_NOT_IMPLEMENTED ? " (this library has no one-sided operations yet)" : "");
}

/* Maps memory of that type: `own`, or memory that the library allocates. */
static int map(struct cw_region *region, const struct cw_perf_params *params, ucs_memory_type_t type, char *own,
               size_t length, ucp_mem_h *memh, char **base)
{
    ucp_mem_map_params_t how = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = length,
        .flags = params->nonblock ? UCP_MEM_MAP_NONBLOCK : 0,
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH};

    if (own != NULL) {
        how.field_mask |= UCP_MEM_MAP_PARAM_FIELD_ADDRESS;
        how.address = own;
    } else {
        how.flags |= UCP_MEM_MAP_ALLOCATE;
    }
    if (type != UCS_MEMORY_TYPE_HOST) {
        how.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        how.memory_type = type;
    }
    ucs_status_t status = ucp_mem_map(region->link->context, &how, memh);
    if (status != UCS_OK) {
        *memh = NULL;
        return fail_call(region->link, "ucp_mem_map", status);
    }
    region->link->memhs[memh == &region->memh ? 0 : 1] = *memh;
    status = ucp_mem_query(*memh, &attr);
    if (status != UCS_OK) {
        return fail_call(region->link, "ucp_mem_query", status);
    }
    if (attr.address == NULL || attr.length < length) {
        return cw_link_fail(region->link, "ucp_mem_map delivered %zu bytes instead of %zu", attr.length, length);
    }
    *base = attr.address;
    if (type == UCS_MEMORY_TYPE_HOST) {
        memset(*base, 0, length); /* the library clears memory of a GPU */
    }
    return 0;
}

static size_t whole_pages(size_t length)
{
    return (length + PAGE - 1) / PAGE * PAGE;
}

static int map_all(struct cw_region *region, const struct cw_perf_params *params, size_t length, size_t local_length)
{
    const bool is_one = params->send_memory == UCS_MEMORY_TYPE_HOST && params->recv_memory == UCS_MEMORY_TYPE_HOST;

    region->length = whole_pages(is_one ? length + local_length : length);
    if (params->user_memory) {
        region->own = aligned_alloc(PAGE, region->length);
        if (region->own == NULL) {
            return cw_link_fail(region->link, "out of memory for %zu bytes", region->length);
        }
    }
    if (map(region, params, params->recv_memory, region->own, region->length, &region->memh, &region->base) != 0) {
        return -1;
    }
    region->local = region->base + length;
    return is_one ? 0 : map(region, params, params->send_memory, NULL, whole_pages(local_length), &region->local_memh,
                            &region->local);
}

static void put_u64(char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (char)(value >> (8 * i));
    }
}

static uint64_t get_u64(const char *from)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)(unsigned char)from[i] << (8 * i);
    }
    return value;
}

static int unpack(struct cw_region *region, uint64_t address, uint64_t length, const void *key)
{
    if (length != region->length) {
        return cw_link_fail(region->link, "the peer's memory has %llu bytes instead of %zu", (unsigned long long)length,
                            region->length);
    }
    ucs_status_t status = ucp_ep_rkey_unpack(region->link->ep, key, &region->rkey);
    if (status != UCS_OK) {
        region->rkey = NULL;
        return fail_call(region->link, "ucp_ep_rkey_unpack", status);
    }
    region->link->rkey = region->rkey;
    region->remote = address;
    return 0;
}

static int swap_keys(struct cw_region *region, const void *key, size_t key_length)
{
    struct cw_oob *oob = region->link->oob;
    enum cw_oob_type type;
    void *payload;
    size_t length;

    if (oob == NULL) {
        return unpack(region, (uintptr_t)region->base, region->length, key);
    }
    char *message = malloc(16 + key_length);
    if (message == NULL) {
        return cw_link_fail(region->link, "out of memory");
    }
    put_u64(message, (uintptr_t)region->base);
    put_u64(message + 8, region->length);
    memcpy(message + 16, key, key_length);
    int result = cw_oob_send(oob, CW_OOB_MEMORY, message, 16 + key_length);
    free(message);
    if (result != 0 || cw_oob_recv(oob, 1u << CW_OOB_MEMORY, &type, &payload, &length) != 0) {
        return cw_link_fail(region->link, "%s", cw_oob_error());
    }
    region->link->oob_waits = false;
    if (length <= 16) {
        result = cw_link_fail(region->link, "the peer sent no key to its memory");
    } else {
        result = unpack(region, get_u64(payload), get_u64((char *)payload + 8), (char *)payload + 16);
    }
    free(payload);
    return result;
}

int cw_region_open(struct cw_region *region, struct cw_perf_run *run, size_t length, size_t local_length)
{
    void *key;
    size_t key_length;

    *region = (struct cw_region){.link = run->link};
    if (map_all(region, &run->params, length, local_length) != 0) {
        return -1;
    }
    ucs_status_t status = ucp_rkey_pack(run->link->context, region->memh, &key, &key_length);
    if (status != UCS_OK) {
        return fail_call(run->link, "ucp_rkey_pack", status);
    }
    int result = swap_keys(region, key, key_length);
    ucp_rkey_buffer_release(key);
    return result;
}

int cw_region_close(struct cw_region *region)
{
    int result = 0;

    if (region->rkey != NULL) {
        ucp_rkey_destroy(region->rkey);
    }
    ucp_mem_h memhs[] = {region->memh, region->local_memh};
    for (int i = 0; i < 2; i++) {
        ucs_status_t status = memhs[i] != NULL ? ucp_mem_unmap(region->link->context, memhs[i]) : UCS_OK;
        if (status != UCS_OK) {
            result = fail_call(region->link, "ucp_mem_unmap", status);
        }
        region->link->memhs[i] = NULL;
    }
    free(region->own);
    region->link->rkey = NULL;
    *region = (struct cw_region){.link = region->link};
    return result;
}
