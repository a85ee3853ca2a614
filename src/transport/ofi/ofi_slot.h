/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of packets and accesses (transport/ofi/ofi_slot.c).
 */
#ifndef CW_TRANSPORT_OFI_OFI_SLOT_H
#define CW_TRANSPORT_OFI_OFI_SLOT_H

#include "base/list.h"
#include "os/memory.h"
#include "transport/ofi/ofi_domain.h"
#include "transport/transport.h"

/* Bytes of the memory of one packet, or of an access, */
#define CW_OFI_SMALL 1024u        /* header included; controls are small; */
#define CW_OFI_LARGE (64u << 10)  /* of a packet at most, as far as the provider sends that much; */
#define CW_OFI_PIECE (512u << 10) /* of an access at most, as far as the provider takes that much */

struct ofi_conn;
struct ofi_iface;
struct ofi_peer;
struct ofi_route;

/* The state of the memory of one packet. */
enum ofi_slot_state { OFI_FREE, OFI_WAITING, OFI_FLYING };

enum ofi_use { OFI_USE_PACKET, OFI_USE_PUT, OFI_USE_GET, OFI_USE_ATOMIC, OFI_USE_ECHO };

/* The access of a slot, whose memory holds the bytes. */
struct ofi_access {
    uint64_t address; /* as the provider wants it */
    struct cw_remote_key key;
    uint64_t age;    /* connections that had been made by then */
    uint64_t mapped; /* the key that the provider made of a raw one */
    struct cw_completion *completion;
    cw_unpack_fn unpack;
    void *arg;
    uint64_t *result;
    struct ofi_slot *echo; /* of a put: the slot of the read behind it; of that read: the put; else NULL */
    struct ofi_slot *bye;  /* waits for the end of this access */
    int error;             /* of libfabric; 0: none */
    unsigned waiting_for;  /* of a BYE: accesses under way */
    uint8_t use;           /* enum ofi_use */
    uint8_t op;            /* enum cw_access_op */
    uint8_t under_way;     /* calls of the provider that are not complete */
    uint8_t is_mapped;
    uint8_t is_written; /* the provider took the write, which may reach the peer at any time */
    uint8_t is_seen;    /* the read behind the put has its answer */
    uint8_t is_over;    /* in iface->over */
};

/* A packet that leaves, or room for a packet that arrives, or an access. */
struct ofi_slot {
    struct fi_context2 context; /* belongs to the provider while the packet is under way; its address names the slot
                                 * there */
    struct cw_list link;        /* in the list of free ones, of its connection, of the interface's orphans, or of those
                                 * not posted yet */
    struct cw_list waiting;     /* in iface->waiting while the provider does not take it */
    struct ofi_block *block;
    struct ofi_conn *conn;   /* the packet's connection; NULL: the connection was closed, or the packet arrives */
    struct ofi_peer *peer;   /* referenced while the packet is under way; */
    struct ofi_route *route; /* and so is that of an access, NULL: the peer's */
    char *bytes;
    uint32_t length;
    uint32_t number; /* its number among the packets of the connection, or among its accesses */
    enum ofi_slot_state state;
    struct ofi_access access;
};

enum ofi_block_kind { OFI_BLOCK_SMALL, OFI_BLOCK_LARGE, OFI_BLOCK_LONG, OFI_BLOCK_RECEIVE };

/* Slots whose memory is one range, registered together. */
struct ofi_block {
    struct ofi_block *next;
    enum ofi_block_kind kind;
    unsigned count;
    size_t space; /* bytes of each slot */
    struct cw_memory memory;
    struct fid_mr *mr; /* NULL: the provider needs no registration */
    void *desc;
    struct ofi_slot slots[];
};

/* ---- ofi_slot.c ---- */
/* NULL: no memory. */
struct ofi_slot *cw_ofi_slot_new(struct ofi_iface *iface, enum ofi_block_kind kind);
void cw_ofi_slot_free(struct ofi_iface *iface, struct ofi_slot *slot);
/* The slot with that context; NULL: no such slot is under way. */
struct ofi_slot *cw_ofi_slot_find(struct ofi_iface *iface, void *context);
ucs_status_t cw_ofi_receives_new(struct ofi_iface *iface);
/* Gives the provider room for another packet. */
void cw_ofi_post_receive(struct ofi_iface *iface, struct ofi_slot *slot);
void cw_ofi_post_receives_again(struct ofi_iface *iface);
void cw_ofi_slots_cleanup(struct ofi_iface *iface);

#endif
