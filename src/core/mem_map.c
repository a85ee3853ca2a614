/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How memory becomes a region: memory of the program, memory allocated here by the first method of UCX_ALLOC_PRIO that
 * works, or memory imported from another process. Also the further calls on a region: advice, an exported handle, a
 * text. A call that lacks a parameter is logged here.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "config/number.h"
#include "config/value.h"
#include "core/mem_table.h"
#include "mem/registry.h"

#define HUGE_WORTH ((size_t)16 << 20) /* from this length on the trailer's huge page is a small part of the memory */

/* An exported handle consists of these bytes, then the key. */
static const uint8_t export_magic[4] = {'C', 'X', 2, 0};

/* ---- allocating ---- */

static int stands_for_shared(const char *method)
{
    return strncmp(method, "md:", 3) == 0 &&
           (fnmatch(method + 3, "posix", 0) == 0 || fnmatch(method + 3, "sysv", 0) == 0);
}

static ucs_status_t allocate_huge_first(struct cw_memory_spec *spec, int mode, struct cw_memory *memory)
{
    const size_t least = (mode == CW_YES) ? HUGE_WORTH / 8 : HUGE_WORTH;

    if (mode != CW_NO && spec->length >= least) {
        spec->huge = CW_MEMORY_RESERVED;
        if (cw_md_host.allocate(&cw_md_host, spec, memory) == UCS_OK) {
            return UCS_OK;
        }
    }
    spec->huge = (mode == CW_NO) ? CW_MEMORY_SMALL : CW_MEMORY_TRANSPARENT;
    return cw_md_host.allocate(&cw_md_host, spec, memory);
}

static ucs_status_t try_method(const struct ucp_context *context, const char *method, struct cw_memory_spec *spec,
                               struct cw_memory *memory)
{
    spec->shareable = stands_for_shared(method);
    if (spec->shareable) {
        return cw_context_allows(context, "posix") ?
               allocate_huge_first(spec, context->config->posix_hugetlb_mode, memory) : UCS_ERR_UNSUPPORTED;
    }
    spec->huge = (strcmp(method, "thp") == 0) ? CW_MEMORY_TRANSPARENT : CW_MEMORY_SMALL;
    if (strcmp(method, "huge") == 0) {
        spec->huge = CW_MEMORY_RESERVED;
    }
    if (strncmp(method, "md:", 3) == 0 || (spec->huge == CW_MEMORY_TRANSPARENT && spec->length < HUGE_WORTH / 8)) {
        return UCS_ERR_UNSUPPORTED;
    }
    return cw_md_host.allocate(&cw_md_host, spec, memory);
}

static ucs_status_t allocate_device(const struct cw_memory_spec *spec, struct ucp_mem *mem)
{
    if (spec->fixed || mem->md->allocate(mem->md, spec, &mem->memory) != UCS_OK) {
        mem->memory.ptr = NULL;
        cw_error("cannot allocate %zu bytes of memory domain %s: %s", spec->length, mem->md->name,
                 spec->fixed ? "it chooses the address itself, without UCP_MEM_MAP_FIXED" : "out of memory");
        return UCS_ERR_NO_MEMORY;
    }
    mem->method = mem->md->name;
    return UCS_OK;
}

static ucs_status_t allocate(const struct ucp_context *context, struct cw_memory_spec *spec, struct ucp_mem *mem)
{
    const struct cw_name_list *methods = &context->config->alloc_prio;
    unsigned i;

    for (i = 0; i < methods->count; i++) {
        if (try_method(context, methods->names[i], spec, &mem->memory) == UCS_OK) {
            mem->method = methods->names[i];
            if (spec->shareable) {
                mem->method = (spec->huge == CW_MEMORY_RESERVED) ? "posix, huge pages" : "posix";
            }
            return UCS_OK;
        }
    }
    mem->memory.ptr = NULL;
    if (spec->fixed) {
        cw_error("cannot allocate %zu bytes at %p: the kernel refused this address range", spec->length,
                 spec->address);
    } else {
        cw_error("cannot allocate %zu bytes: all methods of UCX_ALLOC_PRIO failed; request less or allow more "
                 "methods", spec->length);
    }
    return UCS_ERR_NO_MEMORY;
}

/* ---- mapping ---- */

/* The parameters of ucp_mem_map, with defaults filled in. */
struct order {
    void *address;
    size_t length;
    unsigned flags;
    uint8_t rights;
    unsigned memory_type;
    const void *exported;
    int has_length, has_exported;
};

static struct order read_params(struct ucp_context *context, const ucp_mem_map_params_t *params)
{
    const uint64_t mask = params->field_mask;
    struct order order = {.rights = CW_KEY_READ | CW_KEY_WRITE, .memory_type = UCS_MEMORY_TYPE_UNKNOWN};
    const uint64_t types = cw_context_memory_types(context); /* a driver may have been loaded since the last query */

    order.has_length = (mask & UCP_MEM_MAP_PARAM_FIELD_LENGTH) != 0;
    order.has_exported = (mask & UCP_MEM_MAP_PARAM_FIELD_EXPORTED_MEMH_BUFFER) != 0;
    order.address = (mask & UCP_MEM_MAP_PARAM_FIELD_ADDRESS) ? params->address : NULL;
    order.length = order.has_length ? params->length : 0;
    order.flags = (mask & UCP_MEM_MAP_PARAM_FIELD_FLAGS) ? params->flags : 0;
    order.exported = order.has_exported ? params->exported_memh_buffer : NULL;
    if (mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) {
        order.memory_type = cw_api_memory_type(&context->api, (unsigned)params->memory_type, types);
    }
    if (mask & UCP_MEM_MAP_PARAM_FIELD_PROT) {
        order.rights = (uint8_t)(((params->prot & UCP_MEM_MAP_PROT_REMOTE_READ) ? CW_KEY_READ : 0) |
                                 ((params->prot & UCP_MEM_MAP_PROT_REMOTE_WRITE) ? CW_KEY_WRITE : 0));
    }
    return order;
}

static ucs_status_t refuse(const char *why)
{
    cw_error("cannot map memory: %s", why);
    return UCS_ERR_INVALID_PARAM;
}

/* The domain that the memory belongs to. NULL: none that is present now. */
static const struct cw_md *domain_of(const struct ucp_context *context, const struct order *order)
{
    const int allocates = (order->flags & UCP_MEM_MAP_ALLOCATE) != 0;
    ucs_memory_type_t type = (ucs_memory_type_t)order->memory_type;
    const struct cw_md *md;

    if (type == UCS_MEMORY_TYPE_UNKNOWN) {
        type = (allocates || order->has_exported) ? UCS_MEMORY_TYPE_HOST : cw_md_find(order->address, order->length);
    }
    md = cw_md_of_type(type);
    return (md != NULL && md->tls != NULL && !cw_context_allows(context, md->tls)) ? NULL : md;
}

static ucs_status_t check(const struct ucp_context *context, const struct order *order)
{
    const int allocates = (order->flags & UCP_MEM_MAP_ALLOCATE) != 0, fixed = (order->flags & UCP_MEM_MAP_FIXED) != 0;

    if (order->has_exported) {
        if (allocates) {
            return refuse("an exported handle cannot be combined with UCP_MEM_MAP_ALLOCATE");
        }
        return (order->exported == NULL) ? refuse("the exported handle is NULL") : UCS_OK;
    }
    if (!order->has_length) {
        return refuse("the length is missing");
    }
    if (fixed && !allocates && (order->length > 0 || order->address != NULL)) {
        return refuse("UCP_MEM_MAP_FIXED needs UCP_MEM_MAP_ALLOCATE");
    }
    if (fixed && (uintptr_t)order->address % cw_memory_page() != 0) {
        return refuse("the fixed address is not the start of a page");
    }
    if (order->memory_type > UCS_MEMORY_TYPE_UNKNOWN) {
        return refuse("unknown memory type");
    }
    if (domain_of(context, order) == NULL) {
        cw_error("cannot map memory of type %s: no memory domain of this process copies it; use host memory",
                 (order->memory_type < CW_MEMORY_TYPE_COUNT) ? cw_words_memory_type[order->memory_type] : "unknown");
        return allocates ? UCS_ERR_NO_MEMORY : UCS_ERR_UNSUPPORTED;
    }
    if (order->length == 0) {
        return UCS_OK;
    }
    if (order->address == NULL && (fixed || !allocates)) {
        return refuse("the address is missing");
    }
    if ((fixed || !allocates) && order->length > UINTPTR_MAX - (uintptr_t)order->address) {
        return refuse("the range of addresses wraps around");
    }
    return (order->flags & UCP_MEM_MAP_LOCK) && (order->flags & UCP_MEM_MAP_NONBLOCK) ?
           refuse("UCP_MEM_MAP_LOCK and UCP_MEM_MAP_NONBLOCK are mutually exclusive") : UCS_OK;
}

static ucs_status_t import(struct ucp_context *context, const void *exported, struct ucp_mem *mem)
{
    struct cw_key key;

    if (memcmp(exported, export_magic, sizeof(export_magic)) != 0 ||
        cw_key_decode((const uint8_t *)exported + sizeof(export_magic), &key, NULL) != UCS_OK) {
        return refuse("not an exported handle of this library");
    }
    if (cw_mapping_get(context, &key, &mem->mapping) != UCS_OK) {
        cw_error("cannot import memory of process %" PRIu32 ": it ended, is on another machine or of another user, "
                 "one of both sees no /proc, or UCX_TLS or UCX_POSIX_USE_PROC_LINK forbids it", key.pid);
        return UCS_ERR_UNREACHABLE;
    }
    mem->method = "imported";
    mem->key.address = (uintptr_t)mem->mapping->memory.ptr;
    mem->key.length = key.length;
    mem->key.rights &= key.rights;
    return UCS_OK;
}

/* Obtains the memory of a region and the range of its key; its entry in the table follows later. */
static ucs_status_t obtain(struct ucp_context *context, const struct order *order, struct ucp_mem *mem)
{
    struct cw_memory_spec spec = {.address = order->address,
                                  .fixed = (order->flags & UCP_MEM_MAP_FIXED) != 0,
                                  .length = order->length,
                                  .type = (ucs_memory_type_t)order->memory_type};
    ucs_status_t status;

    mem->key.rights = order->rights;
    if (order->has_exported) {
        return import(context, order->exported, mem);
    }
    if (order->length == 0) {
        mem->method = "nothing";
        return UCS_OK;
    }
    if (order->flags & UCP_MEM_MAP_ALLOCATE) {
        status = (mem->md == &cw_md_host) ? allocate(context, &spec, mem) : allocate_device(&spec, mem);
        mem->key.address = (uintptr_t)mem->memory.ptr;
        mem->key.length = mem->memory.length;
        return status;
    }
    mem->method = "the program's";
    mem->key.address = (uintptr_t)order->address;
    mem->key.length = order->length;
    status = mem->md->reg(mem->md, order->address, order->length);
    if (status != UCS_OK) {
        cw_error("cannot map %zu bytes at %p: not memory of domain %s", order->length, order->address,
                 mem->md->name);
    }
    return status;
}

bool cw_mem_is_imported(const struct ucp_mem *mem)
{
    return mem->mapping != NULL;
}

ucs_status_t cw_mem_map(struct ucp_context *context, const ucp_mem_map_params_t *params, struct ucp_mem **mem_p)
{
    const struct order order = read_params(context, params);
    ucs_status_t status = check(context, &order);
    struct ucp_mem *mem;

    if (status != UCS_OK) {
        return status;
    }
    mem = calloc(1, sizeof(*mem));
    if (mem == NULL) {
        cw_error("out of memory for another registration");
        return UCS_ERR_NO_MEMORY;
    }
    mem->context = context;
    mem->md = domain_of(context, &order);
    status = obtain(context, &order, mem);
    if (status == UCS_OK) {
        mem->memory_type = (uint8_t)((mem->key.length == 0 || mem->md == &cw_md_host) ? UCS_MEMORY_TYPE_HOST :
                                     mem->md->type_of(mem->md, (void *)(uintptr_t)mem->key.address, mem->key.length));
        mem->direct = (uint8_t)((mem->memory_type == UCS_MEMORY_TYPE_HOST) ? mem->key.rights | CW_MEM_WORDS : 0);
    }
    if (status == UCS_OK) {
        if ((order.flags & UCP_MEM_MAP_LOCK) && mem->memory_type == UCS_MEMORY_TYPE_HOST && mem->key.length > 0) {
            cw_memory_populate((void *)(uintptr_t)mem->key.address, mem->key.length);
        }
        status = cw_mem_device_register(mem);
        if (status == UCS_OK) {
            status = cw_mem_register(context->memory, mem);
        }
        if (status != UCS_OK) {
            cw_error("out of memory for another registration");
            cw_mem_dispose(context->memory, mem);
            return status;
        }
        *mem_p = mem;
        return UCS_OK;
    }
    free(mem);
    return status;
}

/* ---- further calls on a region ---- */

ucs_status_t cw_mem_export(const struct ucp_mem *mem, uint8_t bytes[CW_MEM_EXPORT_MAX], size_t *length_p)
{
    if (!(mem->context->features & UCP_FEATURE_EXPORTED_MEMH)) {
        cw_error("ucp_memh_pack needs UCP_FEATURE_EXPORTED_MEMH to export, which was not among the features given to "
                 "ucp_init");
        return UCS_ERR_INVALID_PARAM;
    }
    if (!(mem->key.flags & CW_KEY_SHARED)) {
        cw_error("this memory cannot be exported: only shared memory that ucp_mem_map allocated can");
        return UCS_ERR_UNSUPPORTED;
    }
    memcpy(bytes, export_magic, sizeof(export_magic));
    *length_p = sizeof(export_magic) + cw_key_encode(&mem->key, NULL, bytes + sizeof(export_magic));
    return UCS_OK;
}

ucs_status_t cw_mem_advise(struct ucp_mem *mem, const ucp_mem_advise_params_t *params)
{
    const uint64_t needed = UCP_MEM_ADVISE_PARAM_FIELD_ADDRESS | UCP_MEM_ADVISE_PARAM_FIELD_LENGTH |
                            UCP_MEM_ADVISE_PARAM_FIELD_ADVICE;

    if ((params->field_mask & needed) != needed) {
        cw_error("ucp_mem_advise needs address, length and advice");
        return UCS_ERR_INVALID_PARAM;
    }
    if (!cw_mem_covers(mem, params->address, params->length) ||
        (uintptr_t)params->address - mem->key.address > mem->key.length) {
        cw_error("ucp_mem_advise: %zu bytes at %p are outside the registered memory", params->length,
                 params->address);
        return UCS_ERR_INVALID_PARAM;
    }
    if (params->advice != UCP_MADV_NORMAL && params->advice != UCP_MADV_WILLNEED) {
        cw_error("ucp_mem_advise: unknown advice %d", (int)params->advice);
        return UCS_ERR_INVALID_PARAM;
    }
    if (params->advice == UCP_MADV_WILLNEED && params->length > 0) {
        cw_memory_will_need(params->address, params->length);
    }
    return UCS_OK;
}

/* "size" or "size,type". */
static int read_spec(const char *spec, size_t *size_p, ucs_memory_type_t *type_p)
{
    const char *comma = strchr(spec, ',');
    char size[64];
    unsigned type;

    *type_p = UCS_MEMORY_TYPE_HOST;
    snprintf(size, sizeof(size), "%.*s", (int)((comma == NULL) ? strlen(spec) : (size_t)(comma - spec)), spec);
    if (!cw_number_read_memunits(size, size_p) || *size_p >= SIZE_MAX - 1) {
        return 0; /* the greatest values represent inf and auto */
    }
    for (type = 0; comma != NULL && strcmp(comma + 1, cw_words_memory_type[type]) != 0; type++) {
        if (cw_words_memory_type[type + 1] == NULL) {
            return 0;
        }
    }
    if (comma != NULL) {
        *type_p = (ucs_memory_type_t)type;
    }
    return 1;
}

void cw_mem_print(struct ucp_context *context, const char *spec, FILE *stream)
{
    ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS |
                                                 UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
                                   .flags = UCP_MEM_MAP_ALLOCATE};
    const char *last = "";
    ucs_status_t status;
    struct ucp_mem *mem;
    uint8_t key[CW_KEY_MAX];
    unsigned i;

    if (!read_spec(spec, &params.length, &params.memory_type)) {
        cw_error("invalid memory size '%s'; expected SIZE[,TYPE], such as 1m or 4096,host",
                 spec);
        return;
    }
    status = cw_mem_map(context, &params, &mem);
    if (status != UCS_OK) {
        fprintf(stream, "# <failed to allocate memory: %s>\n", ucs_status_string(status));
        return;
    }
    fprintf(stream, "#\n# UCP memory\n#\n#  allocated %" PRIu64 " at address 0x%" PRIx64 " by %s\n#  page size: %zu\n",
            mem->key.length, mem->key.address, mem->method, mem->memory.page);
    fprintf(stream, "#  registered on:");
    for (i = 0; i < context->num_resources; i++) {
        if (strcmp(context->resources[i].transport->name, last) != 0) {
            last = context->resources[i].transport->name;
            fprintf(stream, " %s", last);
        }
    }
    fprintf(stream, "\n#  rkey size: %zu\n#\n", cw_mem_pack(mem, key));
    (void)cw_mem_unmap(context, mem);
}
