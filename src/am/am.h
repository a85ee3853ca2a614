/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: the operations behind ucp_am_* and the handlers of their packets. Called with the worker entered.
 * Reasons: docs/why/active-messages.md
 */
#ifndef CW_AM_AM_H
#define CW_AM_AM_H

#include <string.h>

#include "base/hash.h"
#include "core/ep.h"
#include "wire/packet.h"

/* Upper bound of a user header; the limit is lower where packets are small. */
#define CW_AM_MAX_HEADER 4096u

struct cw_am_handler {
    union {
        ucp_am_recv_callback_t recv;
        ucp_am_callback_t old;       /* of the deprecated interface, which has neither headers nor rendezvous */
    };
    void *arg;
    uint8_t persistent;
    uint8_t is_old;
    uint8_t is_set;
    /* computed from the fields above and from the worker's am_alignment: */
    uint8_t has_demands;             /* the handler requests persistent or aligned data, so it may need a copy */
    uint8_t is_fast;                 /* is set, is of the current interface, and requests no attributes of the data */
};

/* A message whose data is in the transport's buffer while its handler runs. */
struct cw_am_current {
    const void *data;
    size_t length;
    uint16_t id;
    uint8_t taken;
};

/* State of a worker. An id below the size of the array costs one compare; the hash table has the other handlers. */
struct cw_am_state {
    struct cw_am_handler *dense;
    uint32_t num_dense;
    struct cw_hash sparse;
    size_t max_header;               /* 0: not computed yet */
    struct cw_am_current *current;   /* NULL: none */
    struct cw_list retained;         /* each struct cw_am_desc that the program holds and no endpoint lists */
    struct cw_list through;          /* receives that progress completes later, the oldest first: recv.c */
    struct cw_job job;               /* the job that completes them */
};

void cw_am_init(struct cw_am_state *state, uint64_t seed);
/* Also frees the data that the program retains. */
void cw_am_cleanup(struct cw_am_state *state);

/* In handler.c. A handler that is not set removes the handler of this id. Returns UCS_OK or UCS_ERR_NO_MEMORY. */
ucs_status_t cw_am_set_handler(struct ucp_worker *worker, uint16_t id, const struct cw_am_handler *handler);
void cw_am_handlers_free(struct cw_am_state *state);
const struct cw_am_handler *cw_am_find_sparse(const struct cw_am_state *state, uint16_t id);

/* Returns NULL if no handler has this id. The pointer is valid until a handler is set. */
static inline const struct cw_am_handler *cw_am_find_handler(const struct cw_am_state *state, uint16_t id)
{
    if (cw_likely(id < state->num_dense)) {
        return state->dense[id].is_set ? &state->dense[id] : NULL;
    }
    return cw_am_find_sparse(state, id);
}

/* The header of an active message that is sent in one packet. */
static CW_INLINE uint64_t cw_am_first_bytes(uint16_t id, uint32_t flags, size_t header_length)
{
    const struct cw_wire_am am = {.handler = htole16(id),
                            .flags = (flags & UCP_AM_SEND_FLAG_REPLY) ? CW_WIRE_AM_REPLY : 0,
                            .header_length = htole32((uint32_t)header_length)};
    uint64_t bytes;

    memcpy(&bytes, &am, sizeof(bytes));
    return bytes;
}

/* In send.c. The result is what ucp_am_send_nbx() defines. Rejects an id that does not fit the packet. */
ucs_status_ptr_t cw_am_send(struct ucp_ep *ep, unsigned id, const void *header, size_t header_length,
                            const void *buffer, size_t count, const ucp_request_param_t *param);
/* The same for contiguous bytes, without a header and flags. */
ucs_status_ptr_t cw_am_send_bytes(struct ucp_ep *ep, unsigned id, const void *buffer, size_t length,
                                  const ucp_request_param_t *param);
/* Every interface has packets for a user header of this length. */
#define CW_AM_SMALL_HEADER 48u

/* The longest user header that fits the packets of all interfaces of the worker; the value does not change. */
size_t cw_am_max_header(struct ucp_worker *worker);

/* In recv.c. `data` is the pointer that a handler got. */
ucs_status_ptr_t cw_am_recv_data(struct ucp_worker *worker, void *data, void *buffer, size_t count,
                                 const ucp_request_param_t *param);
void cw_am_data_release(struct ucp_worker *worker, void *data);

/* In arrive.c: the handlers of packets. The connection ends if a handler returns another status than UCS_OK. */
ucs_status_t cw_am_on_eager(struct ucp_ep *ep, const void *data, size_t length);
/* Fast path for eager packets of an open endpoint: for messages without flags whose handler needs no copy of the data.
 * Any other goes to cw_am_on_eager. */
void cw_am_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);
ucs_status_t cw_am_on_first(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_am_on_rts(struct ucp_ep *ep, const void *data, size_t length);

#endif
