/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain of a device: what a device needs before it reaches memory by itself, and what peers need before
 * their devices reach that memory (docs/TRANSPORT.md, "Memory of a device"). Kinds of memory, how it is allocated and
 * copied, are the other half (mem/md.h).
 *
 * The context opens one domain for each device of a transport with the group `access` (transport/access.h), which names
 * the kind, and gives it a number. Interfaces of all workers of the context on that device share it. Every slot may be
 * called by any thread at any time, also by several at once, and never waits for a peer.
 */
#ifndef CW_MEM_DOMAIN_H
#define CW_MEM_DOMAIN_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct cw_config;
struct cw_domain;

/* A domain's part of a key has 1 to so many bytes. */
#define CW_DOMAIN_PART_MAX 16u

/* Domains of a context have numbers from 1; its keys have no part for domains beyond the last one. */
#define CW_DOMAIN_MAX 15u

/* What may be done with registered memory. */
enum cw_domain_rights {
    CW_RIGHT_LOCAL_WRITE   = 1, /* the device writes what it got from a peer */
    CW_RIGHT_REMOTE_READ   = 2,
    CW_RIGHT_REMOTE_WRITE  = 4,
    CW_RIGHT_REMOTE_ATOMIC = 8,
    CW_RIGHT_ALL           = 15
};

/* The head of a domain's own structure for registered memory. Constant until deregister. */
struct cw_memh {
    struct cw_domain *domain;
    unsigned rights; /* those that it has */
};

/* What a domain keeps of a peer's part, without memory of its own. */
struct cw_remote_key {
    uint64_t word[2];
};

/* The key of a region as far as all domains know it. It came with the part, and so from anybody. */
struct cw_domain_range {
    uint64_t address;
    uint64_t length; /* at least 1; address + length does not wrap around */
};

/* Plain numbers, constant while the domain is open. */
struct cw_domain_attr {
    uint64_t memory_types;   /* bits of CW_MEMORY_BIT (mem/md.h): those that it registers */
    unsigned part_length;    /* bytes of its part of a key, at most CW_DOMAIN_PART_MAX */
    int on_demand;           /* the device pages memory by itself: a registration stays right when the program unmaps
                                 * the memory and maps other one there */
    double register_ns;      /* about what registering and deregistering cost, */
    double register_byte_ns; /* and each byte more */
};

struct cw_domain_kind {
    const char *name;
    /* Opens the domain of a device, by the name that query_devices gave. All or nothing, the reason in the log. */
    ucs_status_t (*open)(const struct cw_config *config, const char *device, struct cw_domain **domain_p);
    /* Everything was deregistered, all interfaces were closed. */
    void (*close)(struct cw_domain *domain);
    /*
     * Registers memory with all of the wanted rights, or with as many of them as the memory has; memh->rights tells
     * which. The memory stays the program's, but its pages stay in place, unless the domain works on demand.
     * UCS_ERR_NO_MEMORY: over a limit of the device or the system, and giving other memory back may help.
     * UCS_ERR_INVALID_ADDR: no such memory; UCS_ERR_UNSUPPORTED: not memory for this device. Logs at most at level
     * debug: the caller knows another way.
     */
    ucs_status_t (*reg)(struct cw_domain *domain, void *address, size_t length, unsigned rights,
                        struct cw_memh **memh_p);
    /* When it returns, nothing that a peer sent reaches the memory any more, and nothing of ours uses it: the caller
     * has waited for its own accesses. */
    void (*dereg)(struct cw_memh *memh);
    /* Writes the part of a key to this memory: part_length bytes, equal at each call. */
    void (*write_part)(const struct cw_memh *memh, uint8_t *part);
    /* Reads a peer's part. It comes from anybody: UCS_ERR_INVALID_PARAM for bytes that no domain of this kind writes.
     * What remains wrong must be found by the peer's device. */
    ucs_status_t (*read_part)(const struct cw_domain *domain, const uint8_t *part, size_t length,
                              const struct cw_domain_range *range, struct cw_remote_key *key);
};

/* The head of a domain's own structure. `open` fills kind and attr. */
struct cw_domain {
    const struct cw_domain_kind *kind;
    struct cw_domain_attr attr;
    uint8_t number; /* the core's: from 1 */
};

#endif
