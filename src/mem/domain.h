/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory domain of a device: what the device needs before it reaches memory by itself, and what peers need before
 * their devices reach that memory (docs/TRANSPORT.md, "Memory of a device"). How memory of each type is allocated and
 * copied is in mem/md.h.
 *
 * The context opens one domain for each device of a transport with the group `access` (transport/access.h), which names
 * the kind, and gives it a number. The interfaces of all workers of the context on that device share the domain. Any
 * thread may call any slot at any time, also several threads at once; no slot waits for a peer.
 */
#ifndef CW_MEM_DOMAIN_H
#define CW_MEM_DOMAIN_H

#include <stddef.h>
#include <stdint.h>

#include "ucs/type/status.h"

struct cw_config;
struct cw_domain;

/* The greatest length of a domain's part of a key; the least is 1 byte. */
#define CW_DOMAIN_PART_MAX 16u

/* The domains of a context have the numbers 1 to CW_DOMAIN_MAX. A device beyond them has no part in the context's
 * keys. */
#define CW_DOMAIN_MAX 15u

/* The accesses that a registration allows. */
enum cw_domain_rights {
    CW_RIGHT_LOCAL_WRITE = 1, /* the device writes there the bytes that it got from a peer */
    CW_RIGHT_REMOTE_READ = 2,
    CW_RIGHT_REMOTE_WRITE = 4,
    CW_RIGHT_REMOTE_ATOMIC = 8,
    CW_RIGHT_PINNED = 16, /* no access, but a promise: pages stay in place, also where the domain is on demand */
    CW_RIGHT_ALL = 31
};

/* The head of the structure in which a domain keeps registered memory. Constant until dereg. */
struct cw_memh {
    struct cw_domain *domain;
    unsigned rights; /* the rights that the registration has */
};

/* A peer's part of a key as the domain has read it; it owns no memory. */
struct cw_remote_key {
    uint64_t word[2];
};

/* The region of a key, for all domains; each registration covers it. The peer sent it with the part, so it is not to be
 * trusted. */
struct cw_domain_range {
    uint64_t address;
    uint64_t length; /* at least 1; address + length does not wrap around */
};

struct cw_md_dmabuf;

/* The properties of a domain, constant while it is open. */
struct cw_domain_attr {
    uint64_t memory_types;    /* memory types that it registers, as bits of CW_MEMORY_BIT (mem/md.h): */
    uint64_t by_address;      /* types of devices of which `reg` takes addresses as of the host's, and */
    uint64_t by_dmabuf;       /* types that `reg_dmabuf` takes; both may turn out not to work */
    const char *device_helps; /* what would let it reach more of them, as a part of a sentence; NULL: nothing would */
    unsigned part_length;     /* bytes of its part of a key, at most CW_DOMAIN_PART_MAX */
    int on_demand;            /* the device pages memory by itself: a registration stays valid when the program unmaps
                              * the memory and maps other memory there */
    int pins;                 /* registered memory counts against the system's limit of locked memory */
    double register_ns;       /* about what registering and deregistering cost, */
    double register_byte_ns;  /* and what each byte adds */
};

struct cw_domain_kind {
    const char *name;
    /* Opens the domain of a device, which has the name that query_devices gave. On failure nothing is left behind, and
     * the reason is in the log, as one line that names the device. */
    ucs_status_t (*open)(const struct cw_config *config, const char *device, struct cw_domain **domain_p);
    /* The caller has deregistered all memory and closed all interfaces before. */
    void (*close)(struct cw_domain *domain);
    /*
     * Registers memory with all of the wanted rights, or with those of them that the memory allows; memh->rights tells
     * which. The memory stays the program's, and its pages stay in place unless the domain is on demand.
     * UCS_ERR_NO_MEMORY: a limit of the device or of the system is reached; giving other registrations back may help.
     * UCS_ERR_INVALID_ADDR: there is no such memory; UCS_ERR_UNSUPPORTED: this device cannot reach it. Logs at most at
     * level debug, because the caller has another way.
     */
    ucs_status_t (*reg)(struct cw_domain *domain, void *address, size_t length, unsigned rights,
                        struct cw_memh **memh_p);
    /* As reg, for memory of a device, whose bytes lie in a dma-buf that stays the caller's; `address` is that of the
     * program. UCS_ERR_UNSUPPORTED: this device takes no dma-buf. NULL where by_dmabuf is 0. */
    ucs_status_t (*reg_dmabuf)(struct cw_domain *domain, const struct cw_md_dmabuf *dmabuf, void *address,
                               size_t length, unsigned rights, struct cw_memh **memh_p);
    /* After the return no packet or access of a peer reaches the memory. The caller has waited for its own accesses
     * before. */
    void (*dereg)(struct cw_memh *memh);
    /* Writes the part of a key, part_length bytes; every call writes equal bytes. */
    void (*write_part)(const struct cw_memh *memh, uint8_t *part);
    /* Reads a peer's part, which may hold any bytes: UCS_ERR_INVALID_PARAM for bytes that no domain of this kind
     * writes. The peer's device must find every other fault. */
    ucs_status_t (*read_part)(const struct cw_domain *domain, const uint8_t *part, size_t length,
                              const struct cw_domain_range *range, struct cw_remote_key *key);
};

/* The head of the structure of a domain. `open` fills kind and attr. */
struct cw_domain {
    const struct cw_domain_kind *kind;
    struct cw_domain_attr attr;
    const char *device; /* set by the core, for people */
    _Atomic int told;   /* the log has a line about memory that was not registered */
    const char *_Atomic why; /* the reason of the last refusal of `reg` in words of the device's library, constant text;
                              * NULL: its status says all */
    uint8_t number;     /* set by the core, from 1 */
};

#endif
