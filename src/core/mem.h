/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory (docs/change/one-sided.md): the regions of a context, found by token. Any thread may map and unmap;
 * the table has its own lock. Workers call it for each access that a peer requests from them.
 */
#ifndef CW_CORE_MEM_H
#define CW_CORE_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/context.h"
#include "wire/key.h"

struct cw_mem_table;    /* context->memory */
struct cw_mapping;      /* another process' region, mapped here; shared by all keys to it */
struct ucp_ep;

ucs_status_t cw_mem_table_new(struct cw_mem_table **table_p);
/* Regions that the program did not unmap end with it. */
void cw_mem_table_free(struct cw_mem_table *table);

/*
 * The functions of ucp_mem_map and its relatives; parameters are read under their mask only. The
 * rights of peers:
 *     no PROT given                                    read and write
 *     PROT with REMOTE_READ, REMOTE_WRITE or both      that
 *     PROT with neither                                nothing, the key serves empty accesses only
 */
ucs_status_t cw_mem_map(struct ucp_context *context, const ucp_mem_map_params_t *params, struct ucp_mem **mem_p);
ucs_status_t cw_mem_unmap(struct ucp_context *context, struct ucp_mem *mem);
ucs_status_t cw_mem_query(const struct ucp_mem *mem, ucp_mem_attr_t *attr);
ucs_status_t cw_mem_advise(struct ucp_mem *mem, const ucp_mem_advise_params_t *params);
void cw_mem_print(struct ucp_context *context, const char *spec, FILE *stream);
/* Whether these bytes lie in the region; of no bytes it is always true. */
int cw_mem_covers(const struct ucp_mem *mem, const void *buffer, size_t length);
/* Its memory type. */
ucs_memory_type_t cw_mem_type(const struct ucp_mem *mem);
/* Whether it is the memory of another process or context, imported by an exported handle. */
bool cw_mem_is_imported(const struct ucp_mem *mem);
/* The key of a region, without the parts of devices. */
void cw_mem_key(const struct ucp_mem *mem, struct cw_key *key);
/* The packed key with the parts of all domains; the same bytes at each call. Returns its length. */
size_t cw_mem_pack(const struct ucp_mem *mem, uint8_t bytes[CW_KEY_MAX]);
/* The handle of the region in a device's domain; NULL: the domain did not register it. Constant while the region is
 * mapped. */
const struct cw_memh *cw_mem_handle(const struct ucp_mem *mem, const struct cw_domain *domain);
/* Whether any domain registered it. */
bool cw_mem_has_handle(const struct ucp_mem *mem);

/* The bytes that ucp_memh_pack returns with EXPORT, for cw_mem_map in another process. UCS_ERR_UNSUPPORTED: not memory
 * that was allocated to be shared; UCS_ERR_INVALID_PARAM: without the feature. Logs. */
#define CW_MEM_EXPORT_MAX (4u + CW_KEY_MAX)
ucs_status_t cw_mem_export(const struct ucp_mem *mem, uint8_t bytes[CW_MEM_EXPORT_MAX], size_t *length_p);

/* A right that no key names: atomic operations of 8 bytes by the processor. A region has it unless its key delegates
 * them to a device. */
#define CW_MEM_WORDS 4u

/* With this among the rights, token 0 matches any region that contains the range and has all of the rights: for peers
 * that the kernel grants access to the memory of this process anyway. */
#define CW_MEM_KEYLESS 8u

/*
 * An access that a peer requests: `length` bytes at `address` of the region with that token, with all of `rights`
 * (CW_KEY_*, CW_MEM_WORDS, CW_MEM_KEYLESS). UCS_OK: *ptr_p is the memory, and the table stays locked until
 * cw_mem_leave: no callbacks, no other calls of this file in between, some 10 KiB at most. UCS_ERR_INVALID_ADDR: no
 * such region or not within it; UCS_ERR_CONNECTION_RESET: the region was unmapped recently; UCS_ERR_INVALID_PARAM:
 * missing right; UCS_ERR_UNSUPPORTED: the access is valid, but the processor cannot access this memory: use cw_mem_pin
 * and cw_mem_copy.
 */
ucs_status_t cw_mem_enter(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length,
                          unsigned rights, void **ptr_p);
void cw_mem_leave(struct ucp_context *context);

/* Pins a region's memory over several calls. Embedded; on the region's list. */
struct cw_mem_pin {
    struct cw_list link;
    struct ucp_mem *mem;            /* NULL: not pinned */
    struct ucp_ep *ep;              /* whose connection uses it */
    ucs_memory_type_t memory_type;
};

/* As cw_mem_enter, but returns without the lock, and for memory of any type: pin->memory_type. */
ucs_status_t cw_mem_pin(struct ucp_context *context, uint64_t token, uint64_t address, uint64_t length, unsigned rights,
                        struct ucp_ep *ep, struct cw_mem_pin *pin, void **ptr_p);
/* A no-op for an empty pin. */
void cw_mem_unpin(struct ucp_context *context, struct cw_mem_pin *pin);

/*
 * Load/store access of this process to the memory of a key, if possible: `*local_p` is where key->address lies here,
 * `*validity_p` holds the token while the region is registered. *mapping_p: to be released by the caller, or NULL for a
 * region of our own. UCS_ERR_UNREACHABLE: no load/store access.
 */
ucs_status_t cw_mem_attach(struct ucp_context *context, const struct cw_key *key, char **local_p,
                           const uint64_t **validity_p, struct cw_mapping **mapping_p);
void cw_mem_detach(struct ucp_context *context, struct cw_mapping *mapping);

/* As cw_mem_handle, of the region that the range lies in, and the range of that. The caller holds the region
 * *blocked_p; with blocked_p NULL it may only compare the handle with NULL. */
const struct cw_memh *cw_mem_find_handle(struct ucp_context *context, const struct cw_domain *domain, const void *ptr,
                                         size_t length, struct cw_domain_range *region, struct ucp_mem **blocked_p);

/* For memory that this side sends or receives: a region with a hold stays registered with devices until the hold is
 * released, although the program unmaps it. From the unmapping on, packets of peers are rejected; a peer's device that
 * has the key can access the memory until the release. */
void cw_mem_hold(struct ucp_mem *mem);
void cw_mem_release(struct ucp_mem *mem);

#endif
