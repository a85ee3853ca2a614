/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of memory domain: how memory of one device or mechanism is handled (docs/ARCHITECTURE.md, "Memory domains").
 * There is one const table for each kind; mem/registry.c lists them. The core keeps the table of regions and the rights
 * of peers; a domain knows how memory is allocated, how a peer finds it, and how its bytes are copied.
 * Every kind has `query`, `allocate`, `release`, `reg`, `type_of` and `copy`; another slot may be NULL. No slot calls
 * back, logs above level debug, or waits for a peer.
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
    int needs_registration; /* memory must be registered before anything else is done with it */
    unsigned key_length;    /* bytes of its part of a key; 0: peers reach the memory through its owner alone */
    unsigned register_ns;   /* about what registering costs */
    int trusts_types;       /* the type that the program names is believed, since type_of is slow; copies of memory
                                 * of another type fail */
};

/* The core's description of a region. A peer's memory must confirm it before a key to that memory is believed. */
struct cw_md_label {
    uint64_t token;
    uint64_t address;
    uint64_t rights;
};

/* A domain's part of a key (wire/key.h). */
struct cw_md_part {
    uint64_t system; /* the system where the next two are valid: */
    uint32_t pid;    /* a process, */
    uint32_t fd;     /* and a descriptor there */
};

/* A copy that is not complete yet. Only the domain uses the members. */
struct cw_md_copy {
    void *handle;
    void *context;
    uint64_t id;
};

/* How the process of a peer finds memory of a device (wire/packet.h, struct cw_wire_rndv_name). */
enum cw_md_form {
    CW_MD_HERE = 1, /* by its address, within one process */
    CW_MD_HANDLE = 2, /* by a handle of the driver */
    CW_MD_PASSED = 3  /* by descriptors beside the name: the allocation is one or several pieces of equal length, and
                     * each piece has a descriptor */
};

#define CW_MD_MOST_PIECES 32u

struct cw_md_name {
    uint8_t form;
    uint8_t type;         /* ucs_memory_type_t */
    uint64_t process;     /* random for each process */
    uint64_t buffer;      /* unique in that process for all time: the allocation, */
    uint64_t start, size; /* and where it lies there, */
    uint64_t address;     /* and the bytes that are meant */
    uint8_t handle[64];   /* HANDLE; else zeros */
    unsigned num_fds;     /* PASSED, else 0 */
    int fds[CW_MD_MOST_PIECES];
};

/* The allocation of a device in which some bytes lie, for devices of fabrics. */
struct cw_md_span {
    uint64_t number; /* no other allocation of this process ever has it */
    uint64_t start;
    uint64_t length;
};

/* A dma-buf: memory of a device as the system lets other devices reach it. */
struct cw_md_dmabuf {
    int fd;          /* the caller closes it */
    uint64_t offset; /* in it, of the first byte that is meant */
};

/* Memory of a peer that is accessible to copies of the domain in this process. */
struct cw_md_window {
    char *ptr;
    void *opened; /* only the domain uses it */
};

/* Each function gets the domain that it is a slot of. */
struct cw_md {
    const void *kind; /* only the domain uses it */
    const char *name;
    const char *tls; /* its name in UCX_TLS; NULL: it is always allowed */
    uint64_t only;   /* the only memory types that it can have; 0: any */
    void (*query)(const struct cw_md *md, struct cw_md_attr *attr);

    /* Gives zeroed memory. UCS_ERR_NO_MEMORY: as for cw_memory_allocate. */
    ucs_status_t (*allocate)(const struct cw_md *md, const struct cw_memory_wish *wish, struct cw_memory *memory);
    /* Gives back memory from allocate or attach. */
    void (*release)(const struct cw_md *md, struct cw_memory *memory);
    /* Registers memory of the program's own until dereg, which is NULL where nothing is to be undone.
     * UCS_ERR_INVALID_ADDR: this domain does not know the memory. */
    ucs_status_t (*reg)(const struct cw_md *md, void *address, size_t length);
    void (*dereg)(const struct cw_md *md, void *address, size_t length);

    /* The next three are NULL where peers reach the memory through its owner alone. */
    /* Lets peers that have the key find allocated memory. 1: they find it by *part; 0: they reach it through its owner
     * alone. */
    int (*publish)(const struct cw_md *md, struct cw_memory *memory, const struct cw_md_label *label,
                   struct cw_md_part *part);
    /* Makes the key to this memory invalid from now on. */
    void (*withdraw)(const struct cw_md *md, struct cw_memory *memory, const struct cw_md_part *part);
    /*
     * Makes memory of a peer, `length` bytes, accessible to loads and stores. Part, label and length come from a key,
     * which may hold any bytes: the domain reads, writes and keeps open only memory that confirms the label itself.
     * *valid_p: the word that holds the token as long as the key is valid. UCS_ERR_UNREACHABLE: the memory cannot be
     * reached this way.
     */
    ucs_status_t (*attach)(const struct cw_md *md, const struct cw_md_part *part, const struct cw_md_label *label,
                           uint64_t length, struct cw_memory *memory, const uint64_t **valid_p);

    /* The type of these bytes if all of them are memory of the domain, else UCS_MEMORY_TYPE_UNKNOWN; CW_MEMORY_MIXED
     * where the domain knows that only the first ones are its own. */
    ucs_memory_type_t (*type_of)(const struct cw_md *md, const void *ptr, size_t length);
    /* Copies between memory of the domain and of the host, in either direction, or within memory of the domain; both
     * ranges are valid. Only this function touches bytes that are not in memory of the host. UCS_ERR_IO_ERROR: the
     * device failed. */
    ucs_status_t (*copy)(const struct cw_md *md, void *to, const void *from, size_t length);
    /* As copy, from memory of the host to memory of the domain (in) and the other way (out), where it costs less if the
     * domain is told so; else NULL. */
    ucs_status_t (*copy_in)(const struct cw_md *md, void *to, const void *from, size_t length);
    ucs_status_t (*copy_out)(const struct cw_md *md, void *to, const void *from, size_t length);

    /* `stage` gives memory of the host that suits copies from and to that of the device; NULL: there is none, or it
     * brings no gain. `start` begins a copy that goes on after the call: UCS_INPROGRESS, then the caller calls `poll`
     * until it answers another status, or `wait`. All five are NULL where the memory is the host's. */
    void *(*staging)(const struct cw_md *md, const void *device, size_t length);
    void (*unstage)(const struct cw_md *md, void *memory);
    ucs_status_t (*start)(const struct cw_md *md, void *to, const void *from, size_t length, struct cw_md_copy *copy);
    ucs_status_t (*poll)(const struct cw_md *md, struct cw_md_copy *copy);
    ucs_status_t (*wait)(const struct cw_md *md, struct cw_md_copy *copy);

    /* Memory of the host for copies of the devices of two processes; all three are NULL where there is none. `share`
     * allocates some that suits copies from and to `device` and has a descriptor. `map_shared` makes memory of another
     * process, `length` bytes, suit copies to `device`; the descriptor comes from a peer, may be of anything and stays
     * the caller's. Errors: it cannot be had. `unshare` ends both. */
    ucs_status_t (*share)(const struct cw_md *md, const void *device, size_t length, struct cw_memory *memory);
    ucs_status_t (*map_shared)(const struct cw_md *md, const void *device, int fd, size_t length,
                               struct cw_memory *memory);
    void (*unshare)(const struct cw_md *md, struct cw_memory *memory);

    /*
     * Memory of a peer on this host, for copies without a detour by memory of the host. All four are NULL where there
     * is none of that.
     * give_name: `peer` is the peer's process, which may be this one. The caller closes the descriptors of the name.
     * 0: the memory has no name for that process, and the reason was logged once.
     * open: makes these bytes accessible for a copy to `to`, until `shut`. The peer sent the name, in which any bytes
     * may stand except that the range lies in the allocation, and passed the descriptors, which may be of anything and
     * stay the caller's; `peer` is from the system. UCS_ERR_UNREACHABLE: it cannot be had this way. Opened memory is
     * kept for the next message, up to a bound.
     * forget: the library has one connection less to that process, so what is kept of it is closed if it is not in use.
     */
    const char *peer_tls; /* its name in UCX_TLS for memory of other processes */
    int (*give_name)(const struct cw_md *md, const void *ptr, size_t length, uint32_t peer, struct cw_md_name *name);
    ucs_status_t (*open)(const struct cw_md *md, const struct cw_md_name *name, uint32_t peer, const void *to,
                         size_t length, struct cw_md_window *window);
    void (*shut)(const struct cw_md *md, struct cw_md_window *window);
    void (*forget)(const struct cw_md *md, uint32_t peer);

    /*
     * Memory of the domain for devices of fabrics, which register it (mem/device.h). Both are NULL where no such device
     * reaches it.
     * find_span: the allocation around these bytes. 0: no memory of the domain, or none that a device can reach.
     * export_span: makes a dma-buf of a span. UCS_ERR_UNSUPPORTED: there is none, and *why_p says what would help, as a
     * part of a sentence.
     */
    int (*find_span)(const struct cw_md *md, const void *ptr, size_t length, struct cw_md_span *span);
    ucs_status_t (*export_span)(const struct cw_md *md, const struct cw_md_span *span, struct cw_md_dmabuf *dmabuf,
                                const char **why_p);
};

extern const struct cw_md cw_md_host;

#endif
