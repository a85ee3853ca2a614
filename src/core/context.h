/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The context: the parameters of ucp_init, the configuration, and the devices that the configuration leaves usable.
 * Read-only after creation, hence lock-free; workers and memory handles point to it. `memory` has its own lock.
 */
#ifndef CW_CORE_CONTEXT_H
#define CW_CORE_CONTEXT_H

#include "config/config.h"
#include "base/list.h"
#include "core/api_level.h"
#include "os/lock.h"
#include "transport/transport.h"
#include "ucp/api/ucp.h"

#define CW_NAME_MAX 32 /* with the NUL */

/* A transport on one device. */
struct cw_resource {
    const struct cw_transport *transport;
    struct cw_device device;
    struct cw_domain *domain;           /* of a device that accesses memory; NULL: none */
};

/* single_device.c: of the network devices of each transport, which are adjacent in the list, one stays: the one whose
 * index is `id` modulo their number. Devices that reach only this machine stay as well, because a hint must not make a
 * peer unreachable. */
void cw_resources_keep_single(struct cw_resource *list, unsigned *count_p, uint64_t id);

struct cw_cache;
struct cw_device_regs;
struct cw_mem_table;

struct ucp_context {
    struct cw_api_level api;    /* of the program; this library's until ucp_init_version sets another */
    uint64_t features;
    uint64_t memory_types;      /* CW_MEMORY_BIT of the types that some domain copies; atomic, as more may be added */
    size_t request_size;
    ucp_request_init_callback_t request_init;
    ucp_request_cleanup_callback_t request_cleanup;
    uint64_t tag_sender_mask;
    size_t node_local_id;               /* 0: not given either */
    int mt_workers_shared;
    char name[CW_NAME_MAX];
    struct cw_config *config;           /* owned copy */
    struct cw_mem_table *memory;        /* core/mem.h */
    struct cw_resource *resources;      /* grouped by transport */
    unsigned num_resources;
    unsigned num_domains;
    struct cw_domain *domains[CW_DOMAIN_MAX];   /* by number, less 1 */
    struct cw_cache *caches[CW_DOMAIN_MAX];     /* registration cache; NULL: none */
    struct cw_device_regs *device_regs[CW_DOMAIN_MAX]; /* registration cache for GPU memory; NULL: none */
    struct cw_lock requests_lock;       /* taken after a worker lock */
    struct cw_list conn_requests;       /* of connect/cm.h, each at the start of its memory; leftovers are freed with
                                           the context */
    unsigned references;                /* workers, and the program until ucp_cleanup; atomic */
    uint32_t process;                   /* creator; a forked child owns none of it */
};

/* params are read under their mask only. config NULL: the default configuration. */
ucs_status_t cw_context_new(const ucp_params_t *params, const struct cw_config *config, struct ucp_context **context_p);
/* Drops the program's reference. If workers are left, logs a warning; the context then ends with the last of them. */
void cw_context_end(struct ucp_context *context);
/* Queries the domains again, because the program may have loaded a device library since. Takes some microseconds. */
uint64_t cw_context_memory_types(struct ucp_context *context);
/* Whether some domain supported that type at the last query. */
static inline int cw_context_knows(const struct ucp_context *context, ucs_memory_type_t type)
{
    return (__atomic_load_n(&context->memory_types, __ATOMIC_RELAXED) >> type & 1) != 0;
}

/* Takes a reference for a worker. */
void cw_context_hold(struct ucp_context *context);
void cw_context_drop(struct ucp_context *context);

/* Whether UCX_TLS allows this name: a transport, or "cma", the kernel's copy between processes. */
int cw_context_allows(const struct ucp_context *context, const char *transport);

/* The text of ucp_context_print_info. */
void cw_context_print(const struct ucp_context *context, FILE *stream);

/* Sets the name given by the user, truncated to fit, or the handle as text. */
void cw_name_set(char name[CW_NAME_MAX], const char *given, const void *handle);

#endif
