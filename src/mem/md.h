/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A memory domain: what memory means to one device or mechanism (docs/ARCHITECTURE.md, "Memory domains"). One const
 * table per kind; mem/registry.c lists them. The core keeps the table of regions and what peers may do with them; a
 * domain knows how memory comes about, how a peer finds it, and how its bytes are copied.
 * Every slot is there, but for the last five. None of them calls back, logs at more than level debug, or waits for
 * anybody.
 */
#ifndef CW_MEM_MD_H
#define CW_MEM_MD_H

#include "os/memory.h"
#include "ucs/memory/memory_type.h"

/* A set of memory types has the bit CW_MEMORY_BIT(type) for each. */
#define CW_MEMORY_BIT(type) (UINT64_C(1) << (type))

#define CW_MEMORY_MIXED ((ucs_memory_type_t)63)

struct cw_md_attr {
    uint64_t allocates;         /* memory types of which it can give memory, */
    uint64_t registers;         /* of which it takes memory of the program's own, */
    uint64_t copies;            /* and which it copies, from and to memory of the host */
    int needs_registration;     /* such memory must be registered before anything is done with it */
    unsigned key_length;        /* bytes of its part of a key; 0: peers reach the memory through its owner alone */
    unsigned register_ns;       /* about what registering costs */
    int trusts_types;           /* a type that the program tells is believed, since type_of is dear; copies of other
                                 * memory fail */
};

/* What the core says of a region, and what the memory of a peer must say as well before a key to it is believed. */
struct cw_md_label {
    uint64_t token;
    uint64_t address;
    uint64_t rights;
};

/* A domain's part of a key (wire/key.h). */
struct cw_md_part {
    uint64_t system;            /* where the next two mean something: */
    uint32_t pid;               /* a process, */
    uint32_t fd;                /* and a descriptor there */
};

/* A copy under way; the domain's own. */
struct cw_md_copy {
    void *handle;
    void *context;
    uint64_t id;
};

struct cw_md {
    const char *name;
    const char *tls;            /* what UCX_TLS calls it; NULL: it is always allowed */
    void (*query)(struct cw_md_attr *attr);

    /* Zeroed memory. UCS_ERR_NO_MEMORY: as cw_memory_allocate. */
    ucs_status_t (*allocate)(const struct cw_memory_wish *wish, struct cw_memory *memory);
    /* What allocate or attach gave. */
    void (*release)(struct cw_memory *memory);
    /* Memory of the program's own, until deregister. UCS_ERR_INVALID_ADDR: it is not memory of this domain. */
    ucs_status_t (*reg)(void *address, size_t length);
    void (*dereg)(void *address, size_t length);

    /* Lets peers that were given the key find allocated memory. 1: they can, by *part; 0: through its owner alone. */
    int (*publish)(struct cw_memory *memory, const struct cw_md_label *label, struct cw_md_part *part);
    /* From now on a key to it is worth nothing. */
    void (*withdraw)(struct cw_memory *memory, const struct cw_md_part *part);
    /*
     * Makes memory of a peer, `length` bytes, accessible to loads and stores. Part, label and length come from a key,
     * and so from anybody: nothing may be read, written or kept open that does not confirm them itself. *valid_p: the
     * word that holds the token as long as the key is worth something. UCS_ERR_UNREACHABLE: not this way.
     */
    ucs_status_t (*attach)(const struct cw_md_part *part, const struct cw_md_label *label, uint64_t length,
                           struct cw_memory *memory, const uint64_t **valid_p);

    /* Whether all these bytes are memory of the domain: their type, or UCS_MEMORY_TYPE_UNKNOWN; CW_MEMORY_MIXED where
     * it is known that only the first ones are. */
    ucs_memory_type_t (*type_of)(const void *ptr, size_t length);
    /* Copies between its memory and the host's, either way, or within its memory; both are valid. Only this function
     * touches bytes that are not the host's. UCS_ERR_IO_ERROR: the device failed. */
    ucs_status_t (*copy)(void *to, const void *from, size_t length);

    /* Memory of the host that is good for copies from and to that of the device; NULL: there is none, or no use in it.
     * And copies that go on after the call: UCS_INPROGRESS, then `poll` until it tells another status, or `wait`. NULL
     * where the memory is the host's. */
    void *(*stage)(const void *device, size_t length);
    void (*unstage)(void *memory);
    ucs_status_t (*start)(void *to, const void *from, size_t length, struct cw_md_copy *copy);
    ucs_status_t (*poll)(struct cw_md_copy *copy);
    ucs_status_t (*wait)(struct cw_md_copy *copy);
};

extern const struct cw_md cw_md_host;

#endif
