/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that outlives its packet: it is assembled from several packets, lent to the program, or announced. The
 * descriptor directly precedes the data that the handler gets, and the data is aligned to the worker's am_alignment.
 * The bytes of the user's header follow the data if they must be retained.
 *
 *      PIECES --last byte--> EAGER --handler, released, received--> freed
 *      ANNOUNCED --received--> FETCHING --complete--> freed
 *           `--endpoint lost--> LOST
 *
 * If the program has finished with a message while the handler runs, the descriptor is USED until the handler returns.
 * In PIECES and ANNOUNCED the endpoint lists the descriptor by `in`; in EAGER and LOST, if the program retains the
 * message, the worker lists it by the same link.
 */
#ifndef CW_AM_DESC_H
#define CW_AM_DESC_H

#include <stdalign.h>

#include "am/am.h"
#include "msg/datatype.h"
#include "msg/reassembly.h"
#include "rndv/recv.h"

enum cw_am_desc_state {
    CW_AM_DESC_PIECES,
    CW_AM_DESC_DISCARDED,       /* the bytes of its packets are dropped */
    CW_AM_DESC_EAGER,
    CW_AM_DESC_ANNOUNCED,
    CW_AM_DESC_FETCHING,
    CW_AM_DESC_LOST,
    CW_AM_DESC_USED
};

#define CW_AM_DESC_MAGIC 0x416d4463u
#define CW_AM_AT_ONCE    (UINT64_C(1) << 20) /* messages up to this length get all their memory with the first packet */

struct cw_am_desc {
    alignas(16) struct cw_reassembly in;
    union {
        uint64_t send_id;           /* ANNOUNCED: the sender's id of the message */
        struct cw_iface *lender;    /* EAGER, is_lent: `memory` is a packet of this interface, and is returned to it */
    };
    union {
        uint64_t address;       /* ANNOUNCED: address of the data at the sender */
        uint64_t retained;      /* PIECES: bytes of capacity that are charged to the endpoint */
    };
    void *memory;               /* the allocation to free, unless is_lent is set */
    union {
        struct {
            char *growing;      /* PIECES: memory for the data of a long message; NULL: the data follows the
                                   descriptor */
            uint64_t space;     /* capacity of that memory, in bytes of data */
        };
        struct cw_offer_keys *keys; /* ANNOUNCED: NULL, or memory to free */
    };
    uint32_t header_length;
    ucs_status_t status;        /* LOST: the reason */
    uint32_t magic;
    uint16_t handler;
    uint8_t flags;
    uint8_t state : 3;
    uint8_t is_lent : 1;        /* the message is in its packet */
    uint8_t in_handler : 1;
    uint8_t num_keys : 3;       /* ANNOUNCED */
};

static inline void *cw_am_desc_data(struct cw_am_desc *desc)
{
    return desc + 1;
}

static inline struct cw_am_desc *cw_am_desc_of(void *data)
{
    return (struct cw_am_desc *)data - 1;
}

/* Allocates a descriptor with capacity for data and header. NULL: no memory, possibly because a peer sent a false
 * length. */
struct cw_am_desc *cw_am_desc_new(const struct ucp_worker *worker, uint64_t data_length, uint32_t header_length,
                                  enum cw_am_desc_state state);
/* Creates a descriptor in the packet received on this lane, before the data, which begin at `offset` in it. NULL: the
 * packet cannot be lent, or the data are not aligned. Otherwise the bytes before the data are overwritten. */
struct cw_am_desc *cw_am_desc_lend(const struct ucp_worker *worker, struct cw_conn *lane, const void *packet,
                                   size_t offset);
void cw_am_desc_free(struct cw_am_desc *desc);
/* The program has finished with the message, and the descriptor is on no list. Frees it now, or, if its handler runs,
 * when the handler returns. */
void cw_am_desc_use(struct cw_am_desc *desc);

/* In pieces.c: creates the descriptor of a message in several packets, in state PIECES, and adds bytes that in.received
 * does not count yet. NULL or UCS_ERR_NO_MEMORY: no memory. */
struct cw_am_desc *cw_am_pieces_new(const struct ucp_worker *worker, uint64_t total, const void *header,
                                    uint32_t header_length);
ucs_status_t cw_am_pieces_add(const struct ucp_worker *worker, struct cw_am_desc *desc, const void *data,
                              size_t length);
/* Returns the address for the next bytes; if they are there already, cw_am_pieces_add copies nothing. NULL: no
 * memory. */
char *cw_am_pieces_space(const struct ucp_worker *worker, struct cw_am_desc *desc, size_t length);
/* All bytes have arrived, and the descriptor is on no list. Returns the descriptor before the data and the header,
 * which may be a new one. */
struct cw_am_desc *cw_am_pieces_end(const struct ucp_worker *worker, struct cw_am_desc *desc);

struct cw_am_recv_state {
    struct cw_dt_cursor cursor;
    struct cw_am_desc *desc;    /* FETCHING */
    uint64_t round;             /* worker->round when the result was known; completion is pending */
    ucs_status_t status;        /* the result, until progress completes the receive */
};

_Static_assert(sizeof(struct cw_am_recv_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_offer cw_am_desc_offer(const struct cw_am_desc *desc)
{
    struct cw_offer offer = {.length = desc->in.total,
                           .send_id = desc->send_id,
                           .address = desc->address,
                           .num_keys = desc->num_keys};

    if (desc->keys != NULL) {
        offer.keys = *desc->keys;
    }
    return offer;
}

#endif
