/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of memory domain: how memory of one device or mechanism is handled (docs/ARCHITECTURE.md, "Memory domains").
 * There is one const table for each kind; mem/registry.c lists them. The core owns the table of regions and the rights
 * of peers; a domain implements allocation, lookup by peers, and copies. Every kind has `query`, `allocate`, `release`,
 * `reg`, `type_of` and `copy`; another slot may be NULL. No slot calls back, logs above level debug, or waits for a
 * peer.
 */
#ifndef CW_MEM_MD_H
#define CW_MEM_MD_H

#include "os/memory.h"
#include "ucs/memory/memory_type.h"

/* A set of memory types has one bit for each type. */
#define CW_MEMORY_BIT(type) (UINT64_C(1) << (type))

#define CW_MEMORY_MIXED ((ucs_memory_type_t)63)

struct cw_md_attr {
    uint64_t allocates;     /* memory types that it allocates, */
    uint64_t registers;     /* memory types of the program's own memory that it registers, */
    uint64_t copies;        /* and memory types that it copies, from and to memory of the host */
    int needs_registration; /* memory must be registered before any other use */
    unsigned key_length;    /* bytes of its part of a key; 0: peers reach the memory only through the target */
    unsigned register_ns;   /* approximate cost of registering */
    int trusts_types;       /* the program's memory type is trusted, since type_of is slow; copies of memory of another
                               type fail */
};

/* The core's description of a region. A key is trusted only once the peer's memory confirms it. */
struct cw_md_label {
    uint64_t token;
    uint64_t address;
    uint64_t rights;
};

/* A domain's part of a key (wire/key.h). */
struct cw_md_part {
    uint64_t system; /* the host where the next two are valid: */
    uint32_t pid;    /* a process, */
    uint32_t fd;     /* and a descriptor there */
};

/* A copy in flight. Private to the domain. */
struct cw_md_copy {
    void *handle;
    void *context;
    uint64_t id;
};

/* How a peer's process refers to device memory (wire/packet.h, struct cw_wire_rndv_name). */
enum cw_md_form {
    CW_MD_HERE = 1, /* by its address, within one process */
    CW_MD_HANDLE = 2, /* by a handle of the driver */
    CW_MD_PASSED = 3  /* by descriptors passed beside the name, one for each of the equal pieces of the allocation */
};

#define CW_MD_MOST_PIECES 32u

struct cw_md_name {
    uint8_t form;
    uint8_t type;         /* ucs_memory_type_t */
    uint64_t process;     /* random for each process */
    uint64_t buffer;      /* the allocation; unique in that process, never reused */
    uint64_t start, size; /* its address range in that process */
    uint64_t address;     /* of the bytes to copy */
    uint8_t handle[64];   /* HANDLE; else zeros */
    unsigned num_fds;     /* PASSED, else 0 */
    int fds[CW_MD_MOST_PIECES];
};

/* The device allocation that contains some bytes, for fabric devices. */
struct cw_md_span {
    uint64_t number; /* unique in this process, never reused */
    uint64_t start;
    uint64_t length;
};

/* A dma-buf: device memory that the kernel shares with other devices. */
struct cw_md_dmabuf {
    int fd;          /* the caller closes it */
    uint64_t offset; /* of the first byte in it */
};

/* Memory of a peer, mapped for copies by the domain in this process. */
struct cw_md_window {
    char *ptr;
    void *opened; /* private to the domain */
};

/* Each function receives its own domain as `md`. */
struct cw_md {
    const void *kind; /* private to the domain */
    const char *name;
    const char *tls; /* its name in UCX_TLS; NULL: always allowed */
    uint64_t only;   /* bits of the only memory types that it can have; 0: any */
    void (*query)(const struct cw_md *md, struct cw_md_attr *attr);

    /* Allocates zeroed memory. UCS_ERR_NO_MEMORY: as for cw_memory_allocate. */
    ucs_status_t (*allocate)(const struct cw_md *md, const struct cw_memory_spec *spec, struct cw_memory *memory);
    /* Releases memory from allocate or attach. */
    void (*release)(const struct cw_md *md, struct cw_memory *memory);
    /* Registers the program's memory until dereg, which is NULL if there is nothing to undo. UCS_ERR_INVALID_ADDR: the
     * memory is not of this domain. */
    ucs_status_t (*reg)(const struct cw_md *md, void *address, size_t length);
    void (*dereg)(const struct cw_md *md, void *address, size_t length);

    /* The next three are NULL if peers reach the memory only through the target. */
    /* Makes allocated memory available to peers that have the key. 1: they map it by *part; 0: they reach it only
     * through the target. */
    int (*publish)(const struct cw_md *md, struct cw_memory *memory, const struct cw_md_label *label,
                   struct cw_md_part *part);
    /* Makes the key to this memory invalid from now on. */
    void (*withdraw)(const struct cw_md *md, struct cw_memory *memory, const struct cw_md_part *part);
    /*
     * Maps memory of a peer, `length` bytes, for loads and stores. Part, label and length come from an untrusted key:
     * the domain reads, writes and keeps mapped only memory that confirms the label itself. *valid_p: the word that
     * holds the token as long as the key is valid. UCS_ERR_UNREACHABLE: the memory cannot be mapped.
     */
    ucs_status_t (*attach)(const struct cw_md *md, const struct cw_md_part *part, const struct cw_md_label *label,
                           uint64_t length, struct cw_memory *memory, const uint64_t **valid_p);

    /* The type of these bytes if all of them are memory of the domain, else UCS_MEMORY_TYPE_UNKNOWN; CW_MEMORY_MIXED if
     * the domain knows that only the first ones are its own. */
    ucs_memory_type_t (*type_of)(const struct cw_md *md, const void *ptr, size_t length);
    /* Copies between memory of the domain and of the host, in either direction, or within memory of the domain; both
     * ranges are valid. Only the copy slots access memory other than the host's. UCS_ERR_IO_ERROR: the device
     * failed. */
    ucs_status_t (*copy)(const struct cw_md *md, void *to, const void *from, size_t length);
    /* As copy, from memory of the host to memory of the domain (in) and back (out), if a known direction makes the copy
     * cheaper; else NULL. */
    ucs_status_t (*copy_in)(const struct cw_md *md, void *to, const void *from, size_t length);
    ucs_status_t (*copy_out)(const struct cw_md *md, void *to, const void *from, size_t length);

    /* `staging` returns a host buffer for copies from and to `device`, NULL if none is available or it brings no gain;
     * `unstage` releases it. `start` begins an asynchronous copy: after UCS_INPROGRESS the caller calls `poll` until it
     * returns another status, or `wait`. All five are NULL for host memory. */
    void *(*staging)(const struct cw_md *md, const void *device, size_t length);
    void (*unstage)(const struct cw_md *md, void *memory);
    ucs_status_t (*start)(const struct cw_md *md, void *to, const void *from, size_t length, struct cw_md_copy *copy);
    ucs_status_t (*poll)(const struct cw_md *md, struct cw_md_copy *copy);
    ucs_status_t (*wait)(const struct cw_md *md, struct cw_md_copy *copy);

    /* Host buffers shared by the devices of two processes; all three are NULL if unsupported. `share` allocates one for
     * copies from and to `device`, with a descriptor. `map_shared` maps that of another process, `length` bytes, for
     * copies to `device`; the descriptor comes from a peer, is untrusted, and remains the caller's. Errors: it cannot
     * be mapped. `unshare` ends both. */
    ucs_status_t (*share)(const struct cw_md *md, const void *device, size_t length, struct cw_memory *memory);
    ucs_status_t (*map_shared)(const struct cw_md *md, const void *device, int fd, size_t length,
                               struct cw_memory *memory);
    void (*unshare)(const struct cw_md *md, struct cw_memory *memory);

    /*
     * Direct copies from device memory of a peer on this host, without bounce buffers. All four are NULL if impossible.
     * give_name: `peer` is the peer's process, possibly this one. The caller closes the descriptors of the name. 0: the
     * memory cannot be named to that process; the reason is logged once.
     * open: maps these bytes for a copy to `to`, until `shut`. The name and the descriptors come from the peer and are
     * untrusted, except that the range lies in the allocation; the descriptors remain the caller's. `peer` comes from
     * the kernel. UCS_ERR_UNREACHABLE: it cannot be mapped. Mappings are cached, up to a bound.
     * forget: a connection to that process is gone: closes its cached mappings that are not in use.
     */
    const char *peer_tls; /* its name in UCX_TLS for memory of other processes */
    int (*give_name)(const struct cw_md *md, const void *ptr, size_t length, uint32_t peer, struct cw_md_name *name);
    ucs_status_t (*open)(const struct cw_md *md, const struct cw_md_name *name, uint32_t peer, const void *to,
                         size_t length, struct cw_md_window *window);
    void (*shut)(const struct cw_md *md, struct cw_md_window *window);
    void (*forget)(const struct cw_md *md, uint32_t peer);

    /*
     * Registration of the domain's memory by fabric devices (mem/device.h). Both are NULL if no such device reaches it.
     * find_span: the allocation around these bytes. 0: not memory of the domain, or not reachable by a device.
     * export_span: exports a span as a dma-buf. UCS_ERR_UNSUPPORTED: impossible; *why_p is the remedy, as a part of a
     * sentence.
     */
    int (*find_span)(const struct cw_md *md, const void *ptr, size_t length, struct cw_md_span *span);
    ucs_status_t (*export_span)(const struct cw_md *md, const struct cw_md_span *span, struct cw_md_dmabuf *dmabuf,
                                const char **why_p);
};

extern const struct cw_md cw_md_host;

#endif
