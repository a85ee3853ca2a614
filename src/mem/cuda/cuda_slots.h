/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The slots of a memory domain (mem/md.h) for a kind of GPU. A slot has no parameter that tells its kind, so each kind
 * has functions of its own, which find the driver and do the rest with the code that all kinds share.
 */
#ifndef CW_MEM_CUDA_SLOTS_H
#define CW_MEM_CUDA_SLOTS_H

#include "mem/cuda/cuda.h"
#include "mem/cuda/cuda_peer.h"
#include "mem/cuda/cuda_span.h"
#include "mem/cuda/cuda_stage.h"

ucs_memory_type_t cw_cuda_type_of(const struct cuda_driver *cuda, const void *ptr, size_t length);
ucs_status_t cw_cuda_allocate(const struct cuda_driver *cuda, const struct cw_memory_wish *wish,
                              struct cw_memory *memory);
void cw_cuda_release(const struct cuda_driver *cuda, struct cw_memory *memory);

/* Defines the functions, and the table with its names in UCX_TLS. Where there is no driver no slot is called but query,
 * type_of and forget, or those that a peer can cause fail. */
#define CUDA_SLOTS(table, kind, type_, name_, tls_, peer_tls_)                                                         \
    static void slot_query(struct cw_md_attr *attr)                                                                    \
    {                                                                                                                  \
        const uint64_t types =                                                                                         \
            (cw_cuda_driver_look(&(kind)) == NULL) ? 0 : CW_MEMORY_BIT((kind).device) | CW_MEMORY_BIT((kind).managed); \
                                                                                                                       \
        *attr = (struct cw_md_attr){.allocates = types, .registers = types, .copies = types, .trusts_types = 1};       \
    }                                                                                                                  \
    static ucs_memory_type_t slot_type_of(const void *ptr, size_t length)                                              \
    {                                                                                                                  \
        return cw_cuda_type_of(cw_cuda_driver_get(&(kind)), ptr, length);                                              \
    }                                                                                                                  \
    static ucs_status_t slot_register(void *address, size_t length)                                                    \
    {                                                                                                                  \
        return (slot_type_of(address, length) == UCS_MEMORY_TYPE_UNKNOWN) ? UCS_ERR_INVALID_ADDR : UCS_OK;             \
    }                                                                                                                  \
    static ucs_status_t slot_allocate(const struct cw_memory_wish *wish, struct cw_memory *memory)                     \
    {                                                                                                                  \
        return cw_cuda_allocate(cw_cuda_driver_get(&(kind)), wish, memory);                                            \
    }                                                                                                                  \
    static void slot_release(struct cw_memory *memory)                                                                 \
    {                                                                                                                  \
        cw_cuda_release(cw_cuda_driver_get(&(kind)), memory);                                                          \
    }                                                                                                                  \
    static ucs_status_t slot_copy(void *to, const void *from, size_t length)                                           \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy(cuda, to, from, length);                              \
    }                                                                                                                  \
    static ucs_status_t slot_copy_in(void *to, const void *from, size_t length)                                        \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy_in(cuda, to, from, length);                           \
    }                                                                                                                  \
    static ucs_status_t slot_copy_out(void *to, const void *from, size_t length)                                       \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_copy_out(cuda, to, from, length);                          \
    }                                                                                                                  \
    static void *slot_stage(const void *device, size_t length)                                                         \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? NULL : cw_cuda_stage(cuda, device, length);                                            \
    }                                                                                                                  \
    static void slot_unstage(void *memory)                                                                             \
    {                                                                                                                  \
        cw_cuda_unstage(cw_cuda_driver_get(&(kind)), memory);                                                          \
    }                                                                                                                  \
    static ucs_status_t slot_start(void *to, const void *from, size_t length, struct cw_md_copy *copy)                 \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_start(cuda, to, from, length, copy);                       \
    }                                                                                                                  \
    static ucs_status_t slot_poll(struct cw_md_copy *copy)                                                             \
    {                                                                                                                  \
        return cw_cuda_poll(cw_cuda_driver_get(&(kind)), copy);                                                        \
    }                                                                                                                  \
    static ucs_status_t slot_wait(struct cw_md_copy *copy)                                                             \
    {                                                                                                                  \
        return cw_cuda_wait(cw_cuda_driver_get(&(kind)), copy);                                                        \
    }                                                                                                                  \
    static ucs_status_t slot_share(const void *device, size_t length, struct cw_memory *memory)                        \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_share(cuda, device, length, memory);                       \
    }                                                                                                                  \
    static ucs_status_t slot_map_shared(const void *device, int fd, size_t length, struct cw_memory *memory)           \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_NO_DEVICE : cw_cuda_map_shared(cuda, device, fd, length, memory);              \
    }                                                                                                                  \
    static void slot_unshare(struct cw_memory *memory)                                                                 \
    {                                                                                                                  \
        cw_cuda_unshare(cw_cuda_driver_get(&(kind)), memory);                                                          \
    }                                                                                                                  \
    static int slot_give_name(const void *ptr, size_t length, uint32_t peer, struct cw_md_name *name)                  \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return cuda != NULL && cw_cuda_give_name(cuda, ptr, length, peer, name);                                       \
    }                                                                                                                  \
    static ucs_status_t slot_open(const struct cw_md_name *name, uint32_t peer, const void *to, size_t length,         \
                                  struct cw_md_window *window)                                                         \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return (cuda == NULL) ? UCS_ERR_UNREACHABLE : cw_cuda_open(cuda, name, peer, to, length, window);              \
    }                                                                                                                  \
    static void slot_shut(struct cw_md_window *window)                                                                 \
    {                                                                                                                  \
        cw_cuda_shut(cw_cuda_driver_get(&(kind)), window);                                                             \
    }                                                                                                                  \
    static void slot_forget(uint32_t peer)                                                                             \
    {                                                                                                                  \
        if (cw_cuda_driver_get(&(kind)) != NULL) {                                                                     \
            cw_cuda_forget(cw_cuda_driver_get(&(kind)), peer);                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static int slot_find_span(const void *ptr, size_t length, struct cw_md_span *span)                                 \
    {                                                                                                                  \
        const struct cuda_driver *cuda = cw_cuda_driver_get(&(kind));                                                  \
                                                                                                                       \
        return cuda != NULL && cw_cuda_find_span(cuda, ptr, length, span);                                             \
    }                                                                                                                  \
    static ucs_status_t slot_export_span(const struct cw_md_span *span, struct cw_md_dmabuf *dmabuf,                   \
                                         const char **why_p)                                                           \
    {                                                                                                                  \
        return cw_cuda_export_span(cw_cuda_driver_get(&(kind)), span, dmabuf, why_p);                                  \
    }                                                                                                                  \
    const struct cw_md table = {                                                                                       \
        .name        = name_,                                                                                          \
        .tls         = tls_,                                                                                           \
        .only        = CW_MEMORY_BIT(type_) | CW_MEMORY_BIT(type_##_MANAGED),                                          \
        .query       = slot_query,                                                                                     \
        .allocate    = slot_allocate,                                                                                  \
        .release     = slot_release,                                                                                   \
        .reg         = slot_register,                                                                                  \
        .type_of     = slot_type_of,                                                                                   \
        .copy        = slot_copy,                                                                                      \
        .copy_in     = slot_copy_in,                                                                                   \
        .copy_out    = slot_copy_out,                                                                                  \
        .stage       = slot_stage,                                                                                     \
        .unstage     = slot_unstage,                                                                                   \
        .start       = slot_start,                                                                                     \
        .poll        = slot_poll,                                                                                      \
        .wait        = slot_wait,                                                                                      \
        .share       = slot_share,                                                                                     \
        .map_shared  = slot_map_shared,                                                                                \
        .unshare     = slot_unshare,                                                                                   \
        .peer_tls    = peer_tls_,                                                                                      \
        .give_name   = slot_give_name,                                                                                 \
        .open        = slot_open,                                                                                      \
        .shut        = slot_shut,                                                                                      \
        .forget      = slot_forget,                                                                                    \
        .find_span   = slot_find_span,                                                                                 \
        .export_span = slot_export_span,                                                                               \
    }

#endif
