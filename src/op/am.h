/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Active messages: the operations behind ucp_am_* and the handlers of their packets. Called by the door and by the
 * packet dispatch, worker entered. docs/why/active-messages.md has the reasons.
 */
#ifndef CW_OP_AM_H
#define CW_OP_AM_H

#include "base/hash.h"
#include "core/ep.h"

/* The longest header of a program's own that is granted; less where packets are small (WRK-9). */
#define CW_AM_MAX_HEADER 4096u

struct cw_am_handler {
    union {
        ucp_am_recv_callback_t recv;
        ucp_am_callback_t old;       /* of the deprecated interface: knows neither headers nor rendezvous */
    };
    void *arg;
    uint8_t persistent;
    uint8_t is_old;
    uint8_t is_set;
    /* made from the others and from the worker's am_alignment: */
    uint8_t has_wishes;              /* of data that lies in a packet; persistent, or aligned */
    uint8_t is_plain;                /* set, of the current interface, and without wishes */
};

/* A message whose data lies in the transport's buffer while its handler runs. */
struct cw_am_current {
    const void *data;
    size_t length;
    uint16_t id;
    uint8_t taken;
};

/* Of a worker. Ids below the size of the array are found with one compare, others in the table. */
struct cw_am_state {
    struct cw_am_handler *dense;
    uint32_t num_dense;
    struct cw_hash sparse;
    size_t max_header;               /* 0: not computed yet */
    struct cw_am_current *current;   /* NULL: none */
    struct cw_list kept;             /* struct cw_am_desc that the program holds and that no endpoint knows of */
    struct cw_list through;          /* receives that progress is to complete, the oldest first: am_recv.c */
    struct cw_job tell;              /* which does it */
};

void cw_am_init(struct cw_am_state *state, uint64_t seed);
/* Also frees what the program kept. */
void cw_am_cleanup(struct cw_am_state *state);

/* am_handler.c. UCS_ERR_NO_MEMORY. A handler that is not set removes what was there. */
ucs_status_t cw_am_set_handler(struct ucp_worker *worker, uint16_t id, const struct cw_am_handler *handler);
void cw_am_handlers_free(struct cw_am_state *state);
const struct cw_am_handler *cw_am_find_sparse(const struct cw_am_state *state, uint16_t id);

/* NULL: none. Valid until a handler is set. */
static inline const struct cw_am_handler *cw_am_find_handler(const struct cw_am_state *state, uint16_t id)
{
    if (cw_likely(id < state->num_dense)) {
        return state->dense[id].is_set ? &state->dense[id] : NULL;
    }
    return cw_am_find_sparse(state, id);
}

/* am_send.c. Results as the *_nbx calls define them (REQ-1). All refuse ids that the wire has no room for: where the id
 * is cut to that the look costs least. */
ucs_status_ptr_t cw_am_send(struct ucp_ep *ep, unsigned id, const void *header, size_t header_length,
                            const void *buffer, size_t count, const ucp_request_param_t *param);
/* The same of `length` plain bytes without header and flags, for which there is a cell. */
ucs_status_ptr_t cw_am_send_cell(struct ucp_ep *ep, unsigned id, const void *header, size_t header_length,
                                 const void *buffer, size_t length);
/* The same of more than a cell takes, where there are cells. */
ucs_status_ptr_t cw_am_send_longer(struct ucp_ep *ep, unsigned id, const void *buffer, size_t length,
                                   const ucp_request_param_t *param);
/* What every packet of the worker's interfaces can carry; does not change. */
size_t cw_am_max_header(struct ucp_worker *worker);

/* am_recv.c: what a handler got as data. */
ucs_status_ptr_t cw_am_recv_data(struct ucp_worker *worker, void *data, void *buffer, size_t count,
                                 const ucp_request_param_t *param);
void cw_am_data_release(struct ucp_worker *worker, void *data);

/* am_arrive.c: handlers of packets. A status other than UCS_OK costs the connection. */
ucs_status_t cw_am_on_eager(struct ucp_ep *ep, const void *data, size_t length);
/* The same for an open endpoint, quicker for a handler that keeps nothing, and without REPLY. */
void cw_am_on_short(struct ucp_ep *ep, uint8_t id, const void *data, size_t length);
ucs_status_t cw_am_on_first(struct ucp_ep *ep, const void *data, size_t length);
ucs_status_t cw_am_on_rts(struct ucp_ep *ep, const void *data, size_t length);

#endif
