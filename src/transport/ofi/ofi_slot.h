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

/* Buffer sizes in bytes, header included. */
#define CW_OFI_SMALL 1024u        /* control and short packets */
#define CW_OFI_LARGE (64u << 10)  /* largest packet, if the provider can send it */
#define CW_OFI_PIECE (512u << 10) /* longest access, if the provider supports it */

struct ofi_conn;
struct ofi_iface;
struct ofi_peer;
struct ofi_route;

/* State of a slot. */
enum ofi_slot_state { OFI_FREE, OFI_WAITING, OFI_FLYING };

enum ofi_use { OFI_USE_PACKET, OFI_USE_PUT, OFI_USE_GET, OFI_USE_ATOMIC, OFI_USE_ECHO };

/* The access of a slot; the slot's memory holds the data. */
struct ofi_access {
    uint64_t address; /* remote address, in the provider's addressing mode */
    struct cw_remote_key key;
    uint64_t age;    /* iface->ages when it was submitted */
    uint64_t mapped; /* the provider's mapping of a raw key */
    struct cw_completion *completion;
    cw_unpack_fn unpack;
    void *arg;
    uint64_t *result;
    struct ofi_slot *echo; /* of a put: the slot of the read-back behind it; of that read: the put; else NULL */
    struct ofi_slot *bye;  /* BYE that waits for the end of this access */
    int error;             /* error of libfabric; 0: none */
    unsigned waiting_for;  /* of a BYE: accesses in flight */
    uint8_t use;           /* enum ofi_use */
    uint8_t op;            /* enum cw_access_op */
    uint8_t under_way;     /* provider operations in flight */
    uint8_t is_mapped;
    uint8_t is_written; /* the provider accepted the write, which may reach the target at any time */
    uint8_t is_seen;    /* the read-back of the put is complete */
    uint8_t is_over;    /* in iface->over */
};

/* A packet to send, a receive buffer, or an access. */
struct ofi_slot {
    struct fi_context2 context; /* owned by the provider while the packet is in flight; its address identifies the
                                 * slot */
    struct cw_list link;        /* in the list of free slots, of its connection, of the interface's orphans, or of
                                 * unposted receives */
    struct cw_list waiting;     /* in iface->waiting until the provider accepts it */
    struct ofi_block *block;
    struct ofi_conn *conn;   /* NULL: its connection was closed, or this is a receive */
    struct ofi_peer *peer;   /* referenced while the packet is in flight */
    struct ofi_route *route; /* route of an access, referenced while in flight; NULL: the peer's */
    char *bytes;
    uint32_t length;
    uint32_t number; /* sequence number among the connection's packets, or its accesses */
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
/* Returns NULL if out of memory. */
struct ofi_slot *cw_ofi_slot_new(struct ofi_iface *iface, enum ofi_block_kind kind);
void cw_ofi_slot_free(struct ofi_iface *iface, struct ofi_slot *slot);
/* Returns the slot with that context; NULL: no such slot is in flight. */
struct ofi_slot *cw_ofi_slot_find(struct ofi_iface *iface, void *context);
ucs_status_t cw_ofi_receives_new(struct ofi_iface *iface);
/* Posts a receive. */
void cw_ofi_post_receive(struct ofi_iface *iface, struct ofi_slot *slot);
void cw_ofi_post_receives_again(struct ofi_iface *iface);
void cw_ofi_slots_cleanup(struct ofi_iface *iface);

#endif
