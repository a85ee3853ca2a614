/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that outlives its packet: assembled from several, lent to the program, or announced. The descriptor lies
 * right in front of what the handler gets as data, which is aligned to the worker's am_alignment; behind the data come
 * the bytes of the user's header, if they must be kept.
 *
 *      PIECES --last byte--> EAGER --handler, released, received--> freed
 *      ANNOUNCED --received--> FETCHING --complete--> freed
 *           `--endpoint lost--> LOST
 *
 * What is used up while its handler runs is USED until that returns. In PIECES and ANNOUNCED it is known to its
 * endpoint by `in`; in EAGER and LOST, once kept, to the worker by the same link.
 */
#ifndef CW_OP_AM_DESC_H
#define CW_OP_AM_DESC_H

#include <stdalign.h>

#include "op/am.h"
#include "op/datatype.h"
#include "op/rndv_recv.h"
#include "op/incoming.h"

enum cw_am_desc_state {
    CW_AM_DESC_PIECES,
    CW_AM_DESC_DISCARDED,       /* pieces are swallowed */
    CW_AM_DESC_EAGER,
    CW_AM_DESC_ANNOUNCED,
    CW_AM_DESC_FETCHING,
    CW_AM_DESC_LOST,
    CW_AM_DESC_USED
};

#define CW_AM_DESC_MAGIC 0x416d4463u
#define CW_AM_AT_ONCE    (UINT64_C(1) << 20) /* what a peer's word gets of memory for a message */

struct cw_am_desc {
    alignas(16) struct cw_incoming in;
    uint64_t send_id;           /* announced */
    union {
        uint64_t address;       /* announced, likewise */
        uint64_t kept;          /* PIECES: bytes of room that are counted for the endpoint */
    };
    void *memory;               /* what to free */
    union {
        struct {
            char *growing;      /* PIECES of a long message: its memory as far as it came; NULL: behind this */
            uint64_t room;      /* for data in it */
        };
        struct cw_remote_key key; /* announced, and has_key */
    };
    uint32_t header_length;
    ucs_status_t status;        /* LOST: why */
    uint32_t magic;
    uint16_t handler;
    uint8_t flags;
    uint8_t state : 6;
    uint8_t has_key : 1;        /* it was announced with a key */
    uint8_t in_handler : 1;
};

static inline void *cw_am_desc_data(struct cw_am_desc *desc)
{
    return desc + 1;
}

static inline struct cw_am_desc *cw_am_desc_of(void *data)
{
    return (struct cw_am_desc *)data - 1;
}

/* With room for data and header. NULL: no memory, which a length that a peer made up may be the cause of. */
struct cw_am_desc *cw_am_desc_new(const struct ucp_worker *worker, uint64_t data_length, uint32_t header_length,
                                  enum cw_am_desc_state state);
void cw_am_desc_free(struct cw_am_desc *desc);
/* The program is through with it: frees it, or leaves that to the end of its handler. It is on no list any more. */
void cw_am_desc_use(struct cw_am_desc *desc);

/* am_pieces.c. A message that comes in pieces, PIECES, and bytes of it; in.received does not count them yet. NULL and
 * UCS_ERR_NO_MEMORY: no memory. */
struct cw_am_desc *cw_am_pieces_new(const struct ucp_worker *worker, uint64_t total, const void *header,
                                    uint32_t header_length);
ucs_status_t cw_am_pieces_add(const struct ucp_worker *worker, struct cw_am_desc *desc, const void *data,
                              size_t length);
/* Where the next bytes belong; an addition from there copies nothing. NULL: no memory. */
char *cw_am_pieces_room(const struct ucp_worker *worker, struct cw_am_desc *desc, size_t length);
/* All of it came, and the descriptor is on no list. Answers the one that has the data and the header behind it. */
struct cw_am_desc *cw_am_pieces_end(const struct ucp_worker *worker, struct cw_am_desc *desc);

struct cw_am_recv_state {
    struct cw_dt_cursor cursor;
    struct cw_am_desc *desc;    /* FETCHING */
    uint64_t round;             /* of those that are through: of the worker, when they were */
    ucs_status_t status;        /* likewise */
};

_Static_assert(sizeof(struct cw_am_recv_state) <= CW_REQUEST_STATE_SIZE, "state fits the request");

static inline struct cw_offer cw_am_desc_offer(const struct cw_am_desc *desc)
{
    return (struct cw_offer){.length  = desc->in.total,
                             .send_id = desc->send_id,
                             .address = desc->address,
                             .key     = desc->key,
                             .has_key = desc->has_key};
}

#endif
