/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain of a device: registration of memory for access by the device, and the keys for access by the
 * devices of peers (docs/reference/contract.md, "Memory of a device"). How memory of each type is allocated and copied
 * is in mem/md.h.
 *
 * The context opens one domain for each device of a transport with the group `access` (transport/access.h), which names
 * the kind, and gives it a number. The interfaces of all workers of the context on that device share the domain. Any
 * thread may call any slot at any time, concurrently; no slot waits for a peer.
 */
#ifndef CW_MEM_DOMAIN_H
#define CW_MEM_DOMAIN_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct cw_config;
struct cw_domain;

/* Maximum length of a domain's part of a key; the minimum is 1 byte. */
#define CW_DOMAIN_PART_MAX 16u

/* The domains of a context have the numbers 1 to CW_DOMAIN_MAX. A device beyond them has no part in the context's
 * keys. */
#define CW_DOMAIN_MAX 15u

/* The accesses that a registration allows. */
enum cw_domain_rights {
    CW_RIGHT_LOCAL_WRITE = 1, /* the device writes bytes received from a peer there */
    CW_RIGHT_REMOTE_READ = 2,
    CW_RIGHT_REMOTE_WRITE = 4,
    CW_RIGHT_REMOTE_ATOMIC = 8,
    CW_RIGHT_PINNED = 16, /* no access right: pages stay pinned even if the domain is on demand */
    CW_RIGHT_ALL = 31
};

/* Base of a domain's structure for registered memory. Constant until dereg. */
struct cw_memh {
    struct cw_domain *domain;
    unsigned rights; /* the rights granted */
};

/* A peer's part of a key, decoded by the domain; owns no memory. */
struct cw_remote_key {
    uint64_t word[2];
};

/* The region of a key, for all domains; each registration covers it. Sent by the peer with the part: untrusted. */
struct cw_domain_range {
    uint64_t address;
    uint64_t length; /* at least 1; address + length does not wrap around */
};

struct cw_md_dmabuf;

/* The properties of a domain, constant while it is open. */
struct cw_domain_attr {
    uint64_t memory_types;    /* memory types that it registers, as bits of CW_MEMORY_BIT (mem/md.h): */
    uint64_t by_address;      /* types of device memory whose addresses `reg` accepts like the host's, and */
    uint64_t by_dmabuf;       /* types that `reg_dmabuf` accepts; both may still fail at run time */
    const char *device_helps; /* log text, part of a sentence: remedy to reach more types; NULL: none */
    unsigned part_length;     /* bytes of its part of a key, at most CW_DOMAIN_PART_MAX */
    int on_demand;            /* on-demand paging: a registration stays valid when the program unmaps the memory and
                                 maps other memory there */
    int pins;                 /* registered memory counts against the system's limit of locked memory */
    double register_ns;       /* approximate cost of registering and deregistering, */
    double register_byte_ns;  /* and of each byte */
};

struct cw_domain_kind {
    const char *name;
    /* Opens the domain of a device, by its name from query_devices. On failure releases everything and logs the reason,
     * in one line that names the device. */
    ucs_status_t (*open)(const struct cw_config *config, const char *device, struct cw_domain **domain_p);
    /* The caller has deregistered all memory and closed all interfaces. */
    void (*close)(struct cw_domain *domain);
    /*
     * Registers memory with all of the wanted rights, or with those of them that the memory allows, as recorded in
     * memh->rights. The memory stays the program's, and its pages stay in place unless the domain is on demand.
     * UCS_ERR_NO_MEMORY: a limit of the device or of the system is reached; deregistering other memory may help.
     * UCS_ERR_INVALID_ADDR: there is no such memory; UCS_ERR_UNSUPPORTED: this device cannot reach it. Logs at most at
     * level debug, because the caller has a fallback.
     */
    ucs_status_t (*reg)(struct cw_domain *domain, void *address, size_t length, unsigned rights,
                        struct cw_memh **memh_p);
    /* As reg, for device memory in a dma-buf, which the caller continues to own; `address` is the program's.
     * UCS_ERR_UNSUPPORTED: this device does not support dma-bufs. NULL if by_dmabuf is 0. */
    ucs_status_t (*reg_dmabuf)(struct cw_domain *domain, const struct cw_md_dmabuf *dmabuf, void *address,
                               size_t length, unsigned rights, struct cw_memh **memh_p);
    /* After the return no packet or access of a peer reaches the memory. The caller has waited for its own accesses. */
    void (*dereg)(struct cw_memh *memh);
    /* Writes the part of a key, part_length bytes; every call writes equal bytes. */
    void (*write_part)(const struct cw_memh *memh, uint8_t *part);
    /* Decodes a peer's untrusted part. UCS_ERR_INVALID_PARAM for bytes that no domain of this kind
     * writes. The peer's device must detect every other fault. */
    ucs_status_t (*read_part)(const struct cw_domain *domain, const uint8_t *part, size_t length,
                              const struct cw_domain_range *range, struct cw_remote_key *key);
};

/* Base of a domain's structure. `open` fills kind and attr. */
struct cw_domain {
    const struct cw_domain_kind *kind;
    struct cw_domain_attr attr;
    const char *device; /* set by the core, for log lines */
    _Atomic int logged; /* a refused registration has been logged */
    const char *_Atomic why; /* reason of the last refusal of `reg`, from the device's library, constant text; NULL: the
                                status suffices */
    uint8_t number;     /* set by the core, from 1 */
};

#endif
