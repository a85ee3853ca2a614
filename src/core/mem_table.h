/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files core/mem*.c: the regions of a context and its mappings of other processes' regions. The lock of a
 * table guards everything in it; a region's own members are constant from ucp_mem_map to ucp_mem_unmap, except its pins
 * and holds.
 *
 * Lock order: a worker before the table.
 */
#ifndef CW_CORE_MEM_TABLE_H
#define CW_CORE_MEM_TABLE_H

#include "base/hash.h"
#include "core/mem.h"
#include "mem/md.h"
#include "os/lock.h"

/* Words that contain the token of a region while it is registered: peers read them at any time. Their pages stay until
 * the context ends, so that a word stays readable after its region has gone. */
struct cw_validity_page {
    struct cw_list link;
    struct cw_memory memory;
    unsigned num_free;
    uint16_t free[];            /* indices of words */
};

/* How many revoked tokens are remembered; older ones count as never issued. */
#define CW_MEM_REVOKED 256u

struct cw_mem_table {
    struct cw_lock lock;
    struct cw_hash regions;     /* struct ucp_mem by token */
    struct cw_hash mappings;    /* struct cw_mapping by token */
    struct cw_list all;         /* struct ucp_mem, also empty ones and those that only pins retain */
    struct cw_list validitys;   /* struct cw_validity_page; those with a free word first */
    uint64_t revoked[CW_MEM_REVOKED]; /* tokens of the regions unmapped last; 0: none */
    unsigned num_revoked;       /* in all: each replaces the oldest */
};

struct cw_mem_device;   /* mem_device.c */

struct ucp_mem {
    struct cw_hash_link link;
    struct cw_list all_link;
    struct ucp_context *context;
    const struct cw_md *md;
    struct cw_list pins;
    struct cw_key key;          /* token 0: no bytes */
    uint64_t *validity;
    struct cw_memory memory;    /* what we allocated; ptr NULL: the user's, or imported */
    struct cw_mapping *mapping; /* imported */
    struct cw_mem_device *device; /* NULL: no device can access it */
    const char *method;         /* its origin, for texts */
    uint8_t memory_type;        /* ucs_memory_type_t */
    uint8_t direct;             /* the rights of the key that the processor may carry out: 0 where it cannot access the
                                   memory */
    uint8_t dead;               /* unmapped; released with the last pin or hold */
    uint32_t holds;             /* cw_mem_hold */
};

struct cw_mapping {
    struct cw_hash_link link;
    struct cw_memory memory;
    const uint64_t *validity; /* within the memory */
    struct cw_key key;
    unsigned references;
};

/* A key as its domain interprets it. */
static inline struct cw_md_part cw_mem_part(const struct cw_key *key)
{
    return (struct cw_md_part){.system = key->system, .pid = key->pid, .fd = key->fd};
}

static inline struct cw_md_label cw_mem_label(const struct cw_key *key)
{
    return (struct cw_md_label){.token = key->token, .address = key->address, .rights = key->rights};
}

/* Registers a region whose memory, rights and type are set with all domains of the context that accept it. */
ucs_status_t cw_mem_device_register(struct ucp_mem *mem);
void cw_mem_device_deregister(struct ucp_mem *mem);
struct cw_key_parts cw_mem_parts(const struct ucp_mem *mem);

/* Inserts a new region whose key lacks only token and validity word. UCS_ERR_NO_MEMORY. */
ucs_status_t cw_mem_register(struct cw_mem_table *table, struct ucp_mem *mem);
/* Releases the resources of a region that is on no list (any more). Table not locked. */
void cw_mem_dispose(struct cw_mem_table *table, struct ucp_mem *mem);

/* Maps the memory that the key names, unless it is mapped already. UCS_ERR_UNREACHABLE, also when the configuration
 * forbids it. The caller releases the mapping. */
ucs_status_t cw_mapping_get(struct ucp_context *context, const struct cw_key *key, struct cw_mapping **mapping_p);
void cw_mapping_put(struct cw_mem_table *table, struct cw_mapping *mapping);
/* At the end of the table: releases mappings that keys still hold. */
void cw_mapping_free_all(struct cw_mem_table *table);

#endif
