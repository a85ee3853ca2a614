/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of the GPU memory domains (mem/md.h), CUDA and ROCm: they find the driver and call the code that both kinds
 * share. Without a driver only query, type_of and forget are called, or slots that a peer can cause to fail. A key does
 * not locate GPU memory; peers on this host request the name from the target (cuda_peer.c), and others get the bytes
 * from it.
 */
#include "mem/cuda/cuda_md.h"

#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_peer.h"
#include "mem/cuda/cuda_span.h"
#include "mem/cuda/cuda_staging.h"
#include "mem/rocm/rocm_md.h"
#include "os/memory.h"

static const struct cuda_driver *driver_of(const struct cw_md *md)
{
    return cw_cuda_driver_get(md->kind);
}

/* ---- types ---- */

static void slot_query(const struct cw_md *md, struct cw_md_attr *attr)
{
    const struct cuda_kind *kind = md->kind;
    const uint64_t types =
        (cw_cuda_driver_find(kind) == NULL) ? 0 : CW_MEMORY_BIT(kind->device) | CW_MEMORY_BIT(kind->managed);

    *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types, .trusts_types = 1};
}

/* Queries each range, because the driver reports pieces that the program mapped contiguously as separate ranges. */
static ucs_memory_type_t slot_type_of(const struct cw_md *md, const void *ptr, size_t length)
{
    const struct cuda_driver *cuda = driver_of(md);
    const uintptr_t end = (uintptr_t)ptr + length;
    uintptr_t next = (uintptr_t)ptr;
    ucs_memory_type_t type = UCS_MEMORY_TYPE_UNKNOWN;
    struct cuda_range range;

    if (cuda == NULL || cw_memory_is_plain(ptr) || !cw_cuda_knows(cuda, ptr)) {
        return UCS_MEMORY_TYPE_UNKNOWN;
    }
    do {
        cw_cuda_range_of(cuda, (const void *)next, &range);
        if (range.type == UCS_MEMORY_TYPE_HOST || range.type == UCS_MEMORY_TYPE_UNKNOWN ||
            next - range.start >= range.size || (type != UCS_MEMORY_TYPE_UNKNOWN && range.type != type)) {
            return (type == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_MEMORY_TYPE_UNKNOWN : CW_MEMORY_MIXED;
        }
        type = range.type;
        next = range.start + range.size;
    } while (next < end);
    return type;
}

static ucs_status_t slot_register(const struct cw_md *md, void *address, size_t length)
{
    return (slot_type_of(md, address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;
}

/* ---- allocations ---- */

/* The device of the thread's context; otherwise the first device with an active primary context. */
static int find_device(const struct cuda_driver *cuda, struct cuda_range *range)
{
    int count = 0, active = 0;
    unsigned flags;

    *range = (struct cuda_range){.context = NULL};
    if (cuda->context_current(&range->context) == CUDA_OK && range->context != NULL) {
        return 1;
    }
    (void)cuda->device_count(&count);
    for (range->device = 0; range->device < count; range->device++) {
        if (cuda->primary_state(range->device, &flags, &active) == CUDA_OK && active) {
            return 1;
        }
    }
    return 0;
}

/* The program may have destroyed the context, and the memory with it. */
static void slot_release(const struct cw_md *md, struct cw_memory *memory)
{
    const struct cuda_driver *cuda = driver_of(md);
    struct cuda_channel channel;
    struct cuda_range range;
    int result;

    cw_cuda_range_of(cuda, memory->ptr, &range);
    if (range.start != (uintptr_t)memory->ptr || range.type == UCS_MEMORY_TYPE_UNKNOWN) {
        return;
    }
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result == CUDA_OK) {
        result = cuda->free((uintptr_t)memory->ptr);
        cw_cuda_leave(cuda);
    }
    if (result != CUDA_OK) {
        (void)cw_cuda_failed(cuda, "cannot free memory", result);
    }
}

static ucs_status_t slot_allocate(const struct cw_md *md, const struct cw_memory_spec *spec, struct cw_memory *memory)
{
    const struct cuda_driver *cuda = driver_of(md);
    struct cuda_channel channel;
    struct cuda_range range;
    cuda_ptr ptr = 0;
    ucs_status_t status;
    int result;

    *memory = (struct cw_memory){.fd = -1};
    if (cuda == NULL || !find_device(cuda, &range)) {
        return UCS_ERR_NO_DEVICE;
    }
    result = cw_cuda_enter(cuda, &range, &channel);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot allocate memory", result);
    }
    result = (spec->type == cuda->kind->managed) ? cuda->alloc_managed(&ptr, spec->length, CUDA_MANAGED_GLOBAL)
                                                 : cuda->alloc(&ptr, spec->length);
    cw_cuda_leave(cuda);
    if (result != CUDA_OK) {
        return cw_cuda_failed(cuda, "cannot allocate memory", result);
    }
    memory->ptr = (char *)(uintptr_t)ptr;
    memory->length = spec->length;
    memory->page = 1;
    status = cw_cuda_clear(cuda, memory->ptr, memory->length);
    if (status != UCS_OK) {
        slot_release(md, memory);
        memory->ptr = NULL;
    }
    return status;
}

/* ---- copies ---- */

static ucs_status_t slot_copy(const struct cw_md *md, void *to, const void *from, size_t length)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy(cuda, to, from, length);
}

static ucs_status_t slot_copy_in(const struct cw_md *md, void *to, const void *from, size_t length)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy_in(cuda, to, from, length);
}

static ucs_status_t slot_copy_out(const struct cw_md *md, void *to, const void *from, size_t length)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy_out(cuda, to, from, length);
}

static void *slot_staging(const struct cw_md *md, const void *device, size_t length)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? NULL : cw_cuda_staging(cuda, device, length);
}

static void slot_unstage(const struct cw_md *md, void *memory)
{
    cw_cuda_unstage(driver_of(md), memory);
}

static ucs_status_t slot_start(const struct cw_md *md, void *to, const void *from, size_t length,
                               struct cw_md_copy *copy)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_start(cuda, to, from, length, copy);
}

static ucs_status_t slot_poll(const struct cw_md *md, struct cw_md_copy *copy)
{
    return cw_cuda_poll(driver_of(md), copy);
}

static ucs_status_t slot_wait(const struct cw_md *md, struct cw_md_copy *copy)
{
    return cw_cuda_wait(driver_of(md), copy);
}

/* ---- memory of other processes ---- */

static ucs_status_t slot_share(const struct cw_md *md, const void *device, size_t length, struct cw_memory *memory)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_share(cuda, device, length, memory);
}

static ucs_status_t slot_map_shared(const struct cw_md *md, const void *device, int fd, size_t length,
                                    struct cw_memory *memory)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_map_shared(cuda, device, fd, length, memory);
}

static void slot_unshare(const struct cw_md *md, struct cw_memory *memory)
{
    cw_cuda_unshare(driver_of(md), memory);
}

static int slot_give_name(const struct cw_md *md, const void *ptr, size_t length, uint32_t peer,
                          struct cw_md_name *name)
{
    const struct cuda_driver *cuda = driver_of(md);

    return cuda != NULL && cw_cuda_give_name(cuda, ptr, length, peer, name);
}

static ucs_status_t slot_open(const struct cw_md *md, const struct cw_md_name *name, uint32_t peer, const void *to,
                              size_t length, struct cw_md_window *window)
{
    const struct cuda_driver *cuda = driver_of(md);

    return (cuda == NULL) ? UCS_ERR_UNREACHABLE : cw_cuda_open(cuda, name, peer, to, length, window);
}

static void slot_shut(const struct cw_md *md, struct cw_md_window *window)
{
    cw_cuda_shut(driver_of(md), window);
}

static void slot_forget(const struct cw_md *md, uint32_t peer)
{
    if (driver_of(md) != NULL) {
        cw_cuda_forget(driver_of(md), peer);
    }
}

/* ---- devices of fabrics ---- */

static int slot_find_span(const struct cw_md *md, const void *ptr, size_t length, struct cw_md_span *span)
{
    const struct cuda_driver *cuda = driver_of(md);

    return cuda != NULL && cw_cuda_find_span(cuda, ptr, length, span);
}

static ucs_status_t slot_export_span(const struct cw_md *md, const struct cw_md_span *span,
                                     struct cw_md_dmabuf *dmabuf, const char **why_p)
{
    return cw_cuda_export_span(driver_of(md), span, dmabuf, why_p);
}

/* `tls_`, `peer_tls_`: the names in UCX_TLS. */
#define DOMAIN(kind_, type, name_, tls_, peer_tls_)                                                                    \
    {                                                                                                                  \
        .kind = &(kind_),                                                                                              \
        .name = name_,                                                                                                 \
        .tls = tls_,                                                                                                   \
        .only = CW_MEMORY_BIT(type) | CW_MEMORY_BIT(type##_MANAGED),                                                   \
        .query = slot_query,                                                                                           \
        .allocate = slot_allocate,                                                                                     \
        .release = slot_release,                                                                                       \
        .reg = slot_register,                                                                                          \
        .type_of = slot_type_of,                                                                                       \
        .copy = slot_copy,                                                                                             \
        .copy_in = slot_copy_in,                                                                                       \
        .copy_out = slot_copy_out,                                                                                     \
        .staging = slot_staging,                                                                                       \
        .unstage = slot_unstage,                                                                                       \
        .start = slot_start,                                                                                           \
        .poll = slot_poll,                                                                                             \
        .wait = slot_wait,                                                                                             \
        .share = slot_share,                                                                                           \
        .map_shared = slot_map_shared,                                                                                 \
        .unshare = slot_unshare,                                                                                       \
        .peer_tls = peer_tls_,                                                                                         \
        .give_name = slot_give_name,                                                                                   \
        .open = slot_open,                                                                                             \
        .shut = slot_shut,                                                                                             \
        .forget = slot_forget,                                                                                         \
        .find_span = slot_find_span,                                                                                   \
        .export_span = slot_export_span,                                                                               \
    }

const struct cw_md cw_md_cuda = DOMAIN(cw_cuda_kind, UCS_MEMORY_TYPE_CUDA, "cuda", "cuda_copy", "cuda_ipc");
const struct cw_md cw_md_rocm = DOMAIN(cw_rocm_kind, UCS_MEMORY_TYPE_ROCM, "rocm", "rocm_copy", "rocm_ipc");
